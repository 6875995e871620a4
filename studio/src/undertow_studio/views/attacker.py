"""What an attacker believes after an output: prior and posterior odds, and what a plan allows.

The bound behind every number here: for each output z, known records K with their values and two
values x, y of the target, |ln Pr[z | x, K] - ln Pr[z | y, K]| <= the leakage of the plan. The odds
of a value against *all* others move by no more than that either, because Pr[z | not x, K] is a
mean of the Pr[z | y, K] over the other values y. All beliefs are computed from the model and from
outputs that somebody picked: no record is read.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from undertow.adversaries import Adversary
from undertow.errors import InvalidInput
from undertow.numerics import Array
from undertow.plan import Plan
from undertow.queries import State
from undertow_studio.views.odds import Belief, about, allowed, chance_above

__all__ = [
    "CLOSE",
    "ValueBelief",
    "attained",
    "covered",
    "guess_of",
    "largest_change",
    "without_limit",
]

CLOSE = 1e-6
"""How far an attack played out may stay below what the certificate says it attains (absolute)."""


@dataclass(frozen=True, slots=True)
class ValueBelief:
    """What an attacker thought of one value of the target before an output, and thinks after it.

    ``laws`` are the beliefs over all ``states``, before and after. ``change`` is what the output
    did to the log-odds of ``value`` against all other values, ``largest`` the largest change
    between two values. ``limit`` is what the plan proves for this attacker, inf where it proves
    nothing (then ``reason`` says why).
    """

    target: int
    value: State
    states: tuple[State, ...]
    laws: tuple[tuple[float, ...], tuple[float, ...]]
    change: float
    largest: float
    limit: float
    allowed: Belief
    reason: str = ""
    name: str = ""
    """The target by name, "" where it is a record of a series."""

    @property
    def prior(self) -> float:
        """What the attacker thought of the value before."""
        return self.laws[0][self.states.index(self.value)]

    @property
    def posterior(self) -> float:
        """What the attacker thinks of the value after the output."""
        return self.laws[1][self.states.index(self.value)]

    @property
    def whom(self) -> str:
        """The target in words."""
        return self.name or f"record {self.target}"

    def words(self) -> str:
        """Return the change in one sentence, and the most that the plan allows."""
        moved = f"from {about(self.prior)} to {about(self.posterior)}"
        who = f"The attacker's belief that {self.whom} is {self.value!s}"
        if math.isinf(self.limit):
            return f"{who} goes {moved}; {self.reason}."
        most = chance_above(self.allowed.upper)
        return f"{who} goes {moved}; whatever had come out, never above {most}."

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        told = asdict(self)
        told["limit"] = None if math.isinf(self.limit) else self.limit
        return {
            **told, "prior": self.prior, "posterior": self.posterior, "words": self.words(),
            "allowed": self.allowed.to_dict(),
        }  # fmt: skip


def guess_of(
    plan: Plan[Any],
    target: int,
    value: State,
    prior: Array,
    likelihoods: Array,
    known: Sequence[int],
    states: tuple[State, ...],
    name: str = "",
) -> ValueBelief:
    """Return the guess of an attacker with a prior over the target's states, (k,).

    ``likelihoods`` are ln Pr[z | x, known] for each state x, up to a constant; what they are for
    states of prior 0 does not matter.
    """
    if value not in states:
        raise InvalidInput(f"the model has no state {value!r}")
    place = states.index(value)
    possible = prior > 0
    if not np.isfinite(likelihoods[possible]).any():
        raise InvalidInput("this output has probability 0 under the model and what is known")
    peak = float(likelihoods[possible].max())
    weights = np.where(possible, prior, 0.0) * np.exp(
        np.where(possible, likelihoods - peak, -np.inf)
    )
    posterior = weights / weights.sum()
    limit, reason = covered(plan, target, known)
    before = float(prior[place])
    inside = min(max(before, 1e-300), 1 - 1e-16)
    ends = (
        allowed(inside, limit, plan.delta)
        if 0 < before < 1 and math.isfinite(limit)
        else Belief(before, before if before in (0.0, 1.0) else 0.0,
                    before if before in (0.0, 1.0) else 1.0, plan.delta)
    )  # fmt: skip
    return ValueBelief(
        target, value, states,
        (tuple(map(float, prior)), tuple(map(float, posterior))),
        _against_rest(place, prior, likelihoods), largest_change(prior, likelihoods),
        limit, ends, reason, name,
    )  # fmt: skip


def without_limit(guess: ValueBelief, reason: str) -> ValueBelief:
    """Return the same guess of an attacker whom the plan does not cover, for a reason."""
    free = Belief(guess.prior, 0.0, 1.0, guess.allowed.delta)
    return replace(guess, limit=math.inf, allowed=free, reason=reason)


def attained(guess: ValueBelief, value: State, other: State) -> float:
    """Return ln of the factor by which the odds of one value against another moved."""
    x, y = guess.states.index(value), guess.states.index(other)
    before, after = guess.laws
    if min(before[x], before[y], after[x], after[y]) <= 0:
        return math.inf if after[x] > 0 else -math.inf
    return math.log(after[x] / after[y]) - math.log(before[x] / before[y])


def largest_change(prior: Array, likelihoods: Array) -> float:
    """Return the largest ln Pr[z | x] / Pr[z | y] over values that can occur.

    >>> largest_change(np.array([.5, .5, 0]), np.array([0.0, 1.0, 9.0]))
    1.0
    """
    found = likelihoods[prior > 0]
    if len(found) < 2:
        return 0.0
    return math.inf if np.isneginf(found).any() else float(found.max() - found.min())


def covered(plan: Plan[Any], target: int, known: Sequence[int]) -> tuple[float, str]:
    """Return what a plan proves for a target and known records: its leakage, or inf and the reason.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], length=9)
    >>> plan = calibrate(Count(1), chain, limit=1.0, against="ignorant")
    >>> covered(plan, 3, [])[0] <= 1, covered(plan, 3, [4])[1]
    (True, 'the plan is made for an attacker who knows no other record')
    """
    leak = plan.leakage
    records = leak.secret.targets
    if records is not None and target not in records:
        return math.inf, f"the plan does not protect record {target}"
    against = leak.against
    if against == "any":
        return leak.upper, ""
    if against == "ignorant" and known:
        return math.inf, "the plan is made for an attacker who knows no other record"
    if against == "informed" and len(known) + 1 < (plan.length or math.inf):
        return math.inf, "the plan is made for an attacker who knows all other records"
    if isinstance(against, Adversary) and (
        target != against.target or tuple(sorted(known)) != against.known
    ):
        return math.inf, "the plan is made for one attacker, who knows other records than these"
    return leak.upper, ""


def _against_rest(place: int, prior: Array, likelihoods: Array) -> float:
    """Return what an output does to the log-odds of a state against all others.

    ln Pr[z | x] - ln sum over y != x of prior(y) Pr[z | y] / sum over y != x of prior(y).
    """
    others = prior.copy()
    others[place] = 0.0
    if not prior[place] > 0 or not others.sum() > 0:
        return 0.0
    inside = others > 0
    rest = likelihoods[inside]
    peak = float(rest.max())
    if math.isinf(peak):  # no other value could have led to this output
        return math.inf
    mean = float(np.exp(rest - peak) @ others[inside]) / float(others.sum())
    return float(likelihoods[place]) - peak - math.log(mean)
