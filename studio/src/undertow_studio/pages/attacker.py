"""Step 5: what an attacker believes before and after an output, and the worst case of a plan.

For each output z, known records K with their values and two values x, y of the target,
|ln Pr[z | x, K] - ln Pr[z | y, K]| <= the leakage of the plan. The odds of a value against *all*
others move by no more, because Pr[z | not x, K] is a mean of the Pr[z | y, K]. Everything follows
from the model and from outputs that the user picks: no record is read.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response

from undertow import Adversary, BayesianNetwork, MarkovChain, Pedigree, Plan, Redaction
from undertow.auditing.attackers import Totals, totals
from undertow.auditing.inference import Hidden, hidden
from undertow.certificate import Witness
from undertow.errors import InvalidInput, NotSupported, UndertowError
from undertow.models.networks import Node
from undertow.numerics import Array, check_count
from undertow.queries import State
from undertow.reporting import words
from undertow.rounding import stated
from undertow_studio.charts.models import family_picture
from undertow_studio.charts.strips import odds_bar, record_strip
from undertow_studio.code import code_for_witness
from undertow_studio.odds import Belief, about, allowed, chance_above
from undertow_studio.pages.release import promise
from undertow_studio.rendering import in_words
from undertow_studio.studio import studio_of, work_of

__all__ = ["Cell", "ValueBelief", "router"]

router = APIRouter()

Role = Literal["target", "known", "unknown"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One record: its role, what the attacker knows of it, and what is shown of it.

    ``value`` is what a known record is known to be, ``output`` what was released in its place, ""
    where nothing is. ``why`` says why a record is erased, or cannot be forgotten. ``label`` is
    its name, where it has one.
    """

    record: int
    role: Role
    value: str = ""
    output: str = ""
    erased: bool = False
    why: str = ""
    label: str = ""


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
        who = f"Under the model, the attacker's belief that {self.whom} is {self.value!s}"
        if math.isinf(self.limit):
            return f"{who} goes {moved}; {self.reason}."
        most = chance_above(self.allowed.upper)
        rarely = ""
        if self.allowed.delta:
            rarely = f", except with probability at most {stated(2 * self.allowed.delta)}"
        return f"{who} goes {moved}; no output raises it above {most}{rarely}."


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
    if 0 < before < 1:
        ends = allowed(inside, limit, plan.delta)
    else:
        ends = Belief(before, before, before, plan.delta)
    return ValueBelief(
        target, value, states,
        (tuple(map(float, prior)), tuple(map(float, posterior))),
        _against_rest(place, prior, likelihoods), largest_change(prior, likelihoods),
        limit, ends, reason, name,
    )  # fmt: skip


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
    possible = likelihoods[prior > 0]
    if len(possible) < 2:
        return 0.0
    return math.inf if np.isneginf(possible).any() else float(possible.max() - possible.min())


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


SHORTEST, LONGEST = 3, 40
"""Records of a strip that people can look at."""

MOST = 2000
"""Records of a strip that are weigh_strip at all (cost)."""


def chains_of(plan: Plan[Any]) -> list[MarkovChain]:
    """Return the chain of a plan, or chains of its class; refuse plans of other kinds of models."""
    members = plan.model.members()
    models = [one for member in members for one in (member.examples(plan.query) or [member])]
    chains = [model for model in models if isinstance(model, MarkovChain)]
    if not chains:
        raise NotSupported(
            f"a strip of records is for chains; this plan is for a {type(plan.model).__name__}"
        )
    return chains


@dataclass(frozen=True, slots=True)
class Strip:
    """A stretch of records under attack: the target, what is known, and what came out.

    Records are numbered as in the series; ``first`` is the first of the strip. ``outputs`` are what
    a flipped or redacted series shows (None: erased); records without one are not looked at.
    ``answer`` is a noisy answer about the records of the strip; of a histogram of two states one
    for each, or the last one alone. ``rates`` stand for what another algorithm of the same DP
    level shows: a likelihood exp(rate) for each state of a record. ``window`` names the records
    that are counted, the first and one after the last; None means all. ``which`` chooses a chain
    where the plan is for several: its limit holds for each.
    """

    plan: Plan[Any]
    first: int
    length: int
    target: int
    known: Mapping[int, State] = field(default_factory=dict)
    outputs: Mapping[int, State | None] = field(default_factory=dict)
    answer: float | tuple[float, ...] | None = None
    rates: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    window: tuple[int, int] | None = None
    which: int = 0

    def __post_init__(self) -> None:
        """Check that everything lies on the strip."""
        check_count(self.first, "first record", 0)
        if not SHORTEST - 1 <= check_count(self.length, "length", 1) <= MOST:
            raise InvalidInput(f"a strip has {SHORTEST} to {LONGEST} records, found {self.length}")
        records = range(self.first, self.first + self.length)
        for record in (self.target, *self.known, *self.outputs, *self.rates):
            if record not in records:
                raise InvalidInput(
                    f"record {record} is not on the strip of records {records.start} to "
                    f"{records.stop - 1}"
                )
        if self.target in self.known:
            raise InvalidInput(f"record {self.target} is the target: it cannot be known")
        for record, state in self.known.items():
            if state not in self.plan.states:
                raise InvalidInput(f"record {record} is known to be {state!r}: no such state")

    @property
    def order(self) -> Sequence[int]:
        """All records up to the end of the strip."""
        return range(self.first + self.length)

    @property
    def chain(self) -> MarkovChain:
        """The law of the records."""
        chains = chains_of(self.plan)
        return chains[self.which % len(chains)]

    @property
    def fixed(self) -> tuple[int, ...]:
        """The ends of the strip that are known in any case, with all that lies beyond them."""
        if not self.part or self.plan.against not in ("any", "informed"):
            return ()
        last, whole = self.first + self.length - 1, self.plan.length or math.inf
        ends = ((self.first, self.first > 0), (last, last < whole - 1))
        return tuple(record for record, inner in ends if inner and record != self.target)

    @property
    def part(self) -> bool:
        """Whether the plan's proof is about longer series than the strip, and no part of them."""
        whole = self.plan.length
        return (
            self.plan.task == "answer"
            and self.plan.leakage.valid_for == "series"
            and whole is not None
            and self.length < whole
        )

    def knowing(self, record: int, state: State | None) -> "Strip":
        """Return the strip with one record known to be in a state, or forgotten (None)."""
        known = {one: value for one, value in self.known.items() if one != record}
        if state is not None:
            known[record] = state
        elif record in self.fixed:
            raise InvalidInput(f"record {record} is an end of the strip: it stays known")
        return replace(self, known=dict(sorted(known.items())))

    def toggled(self, record: int) -> "Strip":
        """Return the strip after a click: unknown, then known in each state in turn, then unknown.

        >>> from undertow import Count, calibrate
        >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "busy"))
        >>> strip = strip_of(calibrate(Count("busy"), chain, limit=1.0), length=7)
        >>> [dict(strip.toggled(2).known), dict(strip.toggled(2).toggled(2).known)]
        [{2: 'idle'}, {2: 'busy'}]
        """
        if record == self.target:
            raise InvalidInput(f"record {record} is the target: it cannot be known")
        cycle: tuple[State | None, ...] = (
            self.plan.states if record in self.fixed else (*self.plan.states, None)
        )
        now = self.known.get(record)
        return self.knowing(record, cycle[(cycle.index(now) + 1) % len(cycle)])

    def guess(self, value: State | None = None) -> ValueBelief:
        """Return what the attacker believes of a value of the target, by default the last state."""
        missing = [record for record in self.fixed if record not in self.known]
        if missing:
            raise InvalidInput(
                f"record {missing[0]} is an end of the strip, beyond which all is known: say its "
                "state"
            )
        chain = self.chain
        prior, likelihoods = weigh_strip(self, chain)
        wanted = chain.states[-1] if value is None else value
        known = [*self.known]
        if self.fixed:  # beyond the strip all is known
            whole, last = self.plan.length or 0, self.first + self.length - 1
            known += [r for r in range(whole) if not self.first <= r <= last]
        belief = guess_of(self.plan, self.target, wanted, prior, likelihoods, known, chain.states)
        if self.part and not self.fixed and math.isfinite(belief.limit):
            free = Belief(belief.prior, 0.0, 1.0, belief.allowed.delta)
            reason = "the plan is made for an answer about the whole series"
            return replace(belief, limit=math.inf, allowed=free, reason=reason)
        return belief

    def cells(self) -> tuple[Cell, ...]:
        """Return the records as they are drawn; of a long strip those around the target."""
        cells = []
        end = self.first + self.length
        low = max(self.first, min(self.target - LONGEST // 2, end - LONGEST))
        for record in self.order[low : low + LONGEST]:
            shown = self.outputs.get(record)
            cells.append(
                Cell(
                    record, _role(self, record), str(self.known.get(record, "")),
                    "" if shown is None else str(shown),
                    erased=shown is None and record in self.outputs, why=self._why(record),
                )
            )  # fmt: skip
        return tuple(cells)

    def _why(self, record: int) -> str:
        """Return why a record goes, or that it is known in any case."""
        if record in self.fixed:
            return "all records beyond are known too"
        channel = self.plan.mechanism
        if not isinstance(channel, Redaction):
            return ""
        rates = channel.probabilities[record]
        if record in channel.protect:
            return "protected: always erased"
        if (rates >= 1).all():
            return f"always erased: it tells too much about record {self.target}"
        if not rates.any():
            return "always shown"
        return "erased " + ", ".join(
            f"{rate:.0%} of the time when {state}"
            for rate, state in zip(rates, self.plan.states, strict=True)
        )


def strip_of(plan: Plan[Any], length: int = 21, target: int | None = None) -> Strip:
    """Return a strip around a target, with nothing seen yet and its fixed ends known.

    The target is by default the protected record of a redaction, else the middle.

    >>> from undertow import Redacted, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> strip = strip_of(calibrate(Redacted(protect=10, length=50), chain, limit=1.0), length=11)
    >>> strip.first, strip.target, strip.length
    (5, 10, 11)
    """
    whole = plan.mechanism.length or plan.length
    size = min(check_count(length, "length", SHORTEST), whole or length)
    alone = (
        plan.task == "answer" and plan.leakage.valid_for == "series" and plan.against == "ignorant"
    )
    if alone and whole is not None and whole <= MOST:
        size = whole  # nothing is known: the answer is about the whole series
    records = plan.leakage.secret.targets
    middle = records[0] if records else ((whole or size) // 2 if whole else size // 2)
    target = middle if target is None else target
    first = target - size // 2
    first = max(0, first if whole is None else min(first, whole - size))
    if whole is None:
        first = 0
    strip = Strip(plan, first, size, target)
    common = strip.chain.states[int(np.argmax(strip.chain.initial))]
    for record in strip.fixed:
        strip = strip.knowing(record, common)
    if plan.task == "redact":
        gone = plan.mechanism.probabilities.min(axis=1) >= 1
        outputs = {r: None for r in range(first, first + size) if gone[r]}
        strip = replace(strip, outputs=outputs)
    return strip


def weigh_strip(strip: "Strip", chain: MarkovChain) -> tuple[Array, Array]:
    """Return the prior of the target and ln Pr[what came out | its state, known], (k,) each.

    The logarithms are up to a constant, and -inf for states that cannot be.
    """
    if strip.plan.task == "answer" and strip.answer is not None:
        return _weigh_answer(strip, chain, totals(strip.plan.noise, chain.states, strip.length))
    return _weigh_outputs(strip, chain, _hidden_chain(strip.plan, chain))


def _hidden_chain(plan: Plan[Any], chain: MarkovChain) -> Hidden:
    """Return the hidden chain of a plan for a series; of an answer, the chain itself."""
    if plan.task != "answer":
        return hidden(plan.mechanism, chain)
    ones = np.ones((1, chain.size))
    steps = np.array(chain.transition[None] if chain.homogeneous else chain.transition)
    return Hidden(np.array(chain.initial), steps, ones, np.arange(chain.size), ones, 0)


def _weigh_outputs(strip: "Strip", chain: MarkovChain, model: Hidden) -> tuple[Array, Array]:
    """Weigh outputs record by record: messages from both ends of the strip to the target.

    Both with the outputs and without: their ratio is the likelihood of the outputs given what is
    known. Hidden states of one state of the record stand next to each other.
    """
    last = strip.first + strip.length - 1
    passes = []
    for seen in (False, True):
        ahead = np.array(model.law(strip.first))  # (hidden,): up to a factor that cancels
        scale = 0.0
        for record in range(strip.first, strip.target + 1):
            if record > strip.first:
                ahead = ahead @ model.step(record - 1)
            ahead = ahead * _evidence(strip, chain, model, record, seen)
            ahead, scale = _rescale(ahead, scale)
        back = np.ones(len(model.owner))
        for record in range(last, strip.target, -1):
            back = model.step(record - 1) @ (back * _evidence(strip, chain, model, record, seen))
            back, scale = _rescale(back, scale)
        passes.append((model.records(ahead * back), scale))
    (plain, low), (joint, high) = passes
    if not plain.sum() > 0:
        raise InvalidInput("what is known of these records cannot be, under the model")
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(plain > 0, np.log(joint) - np.log(plain), -np.inf) + high - low
    return plain / plain.sum(), logs


def _evidence(strip: "Strip", chain: MarkovChain, model: Hidden, record: int, seen: bool) -> Array:
    """Return what is known and shown of one record, as a weight of each hidden state."""
    weights = np.ones(len(model.owner))
    if record in strip.known:
        weights = weights * (model.owner == chain.index(strip.known[record]))
    if seen and record in strip.rates:
        weights = weights * np.exp(np.asarray(strip.rates[record]))[model.owner]
    if not seen or record not in strip.outputs:
        return weights
    shown = strip.outputs[record]
    channel = strip.plan.mechanism
    if shown is None:
        if model.erased is None:
            raise InvalidInput("flips erase no record")
        return np.asarray(weights * model.emission[model.erased[record]])
    names = channel.names(chain.states)
    if shown not in names:
        raise InvalidInput(f"no record is shown as {shown!r}; it is one of {names}")
    weights = weights * model.emission[names.index(shown)]
    if model.erased is not None:  # shown: not erased
        weights = weights * (1 - model.emission[model.erased[record]])
    return np.asarray(weights)


def _weigh_answer(strip: "Strip", chain: MarkovChain, counted: Totals) -> tuple[Array, Array]:
    """Weigh a noisy answer: the law of (state of the target, total) meets the law of the noise."""
    before = _side_totals(strip, chain, counted, range(strip.first, strip.target), 1)
    after = _side_totals(
        strip, chain, counted, range(strip.first + strip.length - 1, strip.target, -1), -1
    )
    joint = np.zeros((chain.size, strip.length * max(counted.adds) + 1))  # (state, total)
    for state, add in enumerate(_contributions(strip, counted, strip.target)):
        both = np.convolve(before[state], after[state])
        joint[state, add : add + len(both)] = both
    law = joint.sum(axis=1)
    if not law.sum() > 0:
        raise InvalidInput("what is known of these records cannot be, under the model")
    answer = strip.answer
    if counted.pair and not isinstance(answer, tuple):  # the other number is what is left of them
        answer = (strip.length - (answer or 0.0), answer or 0.0)
    units = counted.units([answer], strip.length)
    weights = counted.log_weights(units, joint.shape[1] - 1)[0]  # (totals,)
    peak = float(weights.max())
    # (states,): ln E[noise law | state of the target, known]
    likelihoods = joint @ np.exp(weights - peak)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(law > 0, np.log(likelihoods) - np.log(law), -np.inf)
    return law / law.sum(), logs


def _side_totals(
    strip: "Strip", chain: MarkovChain, counted: Totals, records: range, way: int
) -> Array:  # fmt: skip
    """Return for each state of the target the total of one side, (k, totals), up to one factor.

    To the left jointly with the law of the target, to the right given it.
    """
    most = len(records) * max(counted.adds)
    table = np.zeros((chain.size, most + 1))
    table[:, 0] = chain.law(strip.first) if way > 0 else 1.0
    for record in records:
        grown = np.zeros_like(table)
        for state, add in enumerate(_contributions(strip, counted, record)):
            known = strip.known.get(record)
            if known is None or chain.index(known) == state:
                grown[state, add:] = table[state, : most + 1 - add]
        step = chain.step(record) if way > 0 else chain.step(record - 1)
        table = step.T @ grown if way > 0 else step @ grown
    if math.isinf(float(table.max())) or not table.max() > 0:
        raise InvalidInput("what is known of these records cannot be, under the model")
    return np.asarray(table / table.max())


def _contributions(strip: "Strip", counted: Totals, record: int) -> tuple[int, ...]:
    """Return what each state of a record adds to the answer: nothing outside the window."""
    if strip.window is None or strip.window[0] <= record < strip.window[1]:
        return counted.adds
    return tuple(0 for _ in counted.adds)


def _rescale(message: Array, scale: float) -> tuple[Array, float]:
    peak = float(message.max())
    if not peak > 0:
        raise InvalidInput("what is known and shown cannot be, under the model and the plan")
    return message / peak, scale + math.log(peak)


@dataclass(frozen=True, slots=True)
class Worst:
    """The attack of a certificate: the strip, the two values that it compares, what it attains.

    ``other_algorithm`` says that the attack is on another algorithm of the same DP level: the
    proof covers them all, and this plan's own noise may leak less.
    """

    strip: Strip
    value: State
    other: State
    guess: ValueBelief
    attains: float
    other_algorithm: bool

    def words(self) -> str:
        """Return the attack in words."""
        known = ", ".join(
            f"record {record} is {state!s}" for record, state in self.strip.known.items()
        )
        what = f"knows that {known}" if known else "knows no other record"
        seen = "sees the worst output there is"
        if self.strip.answer is not None:
            seen = f"sees an answer of {self.strip.answer} about these records, or beyond"
        elif self.other_algorithm:
            seen = "sees the worst output of the worst algorithm of this DP level"
        factor = math.exp(min(self.attains, 700.0))
        return (
            f"The worst case: someone {what}, and {seen}. The odds of {self.value!s} against "
            f"{self.other!s} for record {self.strip.target} then move by a factor of {factor:.3g}."
        )


def worst_case(plan: Plan[Any]) -> Worst | None:
    """Return the attack that attains the lower end of a plan's leakage, None where none is named.

    Of a plan for a window of records, whose attack compares histories, there is none, nor of one
    for a class of chains whose worst one is not among those that can be drawn. Refuses attacks on
    more records than can be weighed.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.882, .118], [.305, .695]]), limit=1.0)
    >>> worst = worst_case(plan)
    >>> worst.strip.length, abs(worst.attains - plan.leakage.lower) < 1e-9
    (27, True)
    """
    witness = plan.leakage.witness
    if witness is None or witness.histories is not None:
        return None
    strips = [
        replace(_witness_strip(plan, witness), which=which) for which in range(len(chains_of(plan)))
    ]
    guesses = [strip.guess(witness.value) for strip in strips]
    moved = [attained(guess, witness.value, witness.other) for guess in guesses]
    best = moved.index(max(moved))
    strip, guess = strips[best], guesses[best]
    if moved[best] < plan.leakage.lower - CLOSE:
        return None
    if math.isinf(guess.limit):  # the certificate is about this very attack
        ends = allowed(guess.prior, plan.leakage.upper, plan.delta)
        guess = replace(guess, limit=plan.leakage.upper, allowed=ends, reason="")
    other = bool(witness.sets) and strip.answer is None
    return Worst(
        strip, witness.value, witness.other, guess,
        moved[best], other,
    )  # fmt: skip


def _witness_strip(plan: Plan[Any], witness: Witness) -> Strip:
    """Return the strip of an attack: from one known end to the other."""
    target = witness.target
    places = [record for record, _ in witness.known]
    if plan.task != "answer":
        named = [target, *places, *(record for record, _ in witness.outputs)]
        first, last = min(named), max(named)
        chosen = dict(witness.known)
    else:
        first = max((r for r in places if r < target), default=0)
        last = min((r for r in places if r > target), default=witness.length - 1)
        chosen = {r: state for r, state in witness.known if first <= r <= last}
    if witness.sets:
        reach = [record for record, _ in witness.sets]
        first = max((r for r in places if r < target), default=min([target, *reach]))
        last = min((r for r in places if r > target), default=max([target, *reach]))
    if last - first + 1 > MOST:
        raise NotSupported(f"the worst attack is on {last - first + 1} records: too many to draw")
    strip = Strip(plan, first, last - first + 1, target, chosen, window=witness.window)
    if plan.task != "answer":
        return replace(strip, outputs=dict(witness.outputs))
    chain = strip.chain
    if not witness.sets:
        sums = totals(plan.noise, chain.states, strip.length)
        # the certificate's answer leaves out what the known records add
        more = sum(
            sums.adds[chain.index(state)]
            for record, state in chosen.items()
            if witness.window is None or witness.window[0] <= record < witness.window[1]
        )
        return replace(strip, answer=float((witness.output or 0) + more))
    level = plan.dp_epsilon
    inside = {record: states for record, states in witness.sets if first <= record <= last}
    answer = _extreme_answer(plan, strip, inside.values())
    if answer is not None:
        return replace(strip, answer=answer)
    rates = {
        record: tuple(level * (state in states) for state in chain.states)
        for record, states in inside.items()
    }
    return replace(strip, rates=rates)


def _extreme_answer(
    plan: Plan[Any], strip: Strip, sets: Iterable[tuple[State, ...]]
) -> float | None:
    """Return the answer that is the output of the worst algorithm, if it is one of this plan.

    It is the largest or the least that there can be, where every record has the counted states for
    its set, or every record the others. A count of all records or of none has likelihood
    exp(-|answer - count| / scale), which is the output exp(level * records in the set) up to a
    factor; records without a set are known.
    """
    counted = frozenset(plan.query.named)
    if not counted or plan.noise.measure != "scale":
        return None
    families = {frozenset(states) for states in sets}
    if families == {counted}:
        return float(strip.length)
    return 0.0 if families == {frozenset(plan.states) - counted} else None


MOST_CELLS = 2**18
"""Values of all unknown people together that are gone through (cost: about a tenth of a second)."""


def network_of(plan: Plan[Any], which: int = 0) -> BayesianNetwork:
    """Return the network of a plan for a family; of an interval of frequencies either end."""
    networks = [m for m in plan.model.examples(plan.query) if isinstance(m, BayesianNetwork)]
    if not networks:
        raise NotSupported(
            f"relatives are those of a Pedigree or a BayesianNetwork; this plan is for a "
            f"{type(plan.model).__name__}"
        )
    return networks[which % len(networks)]


@dataclass(frozen=True, slots=True)
class Relatives:
    """People who depend on each other: one is the target, some are known, an answer came out.

    ``which`` chooses one end of an interval of allele frequencies. ``answer`` is a noisy answer
    about these people.
    """

    plan: Plan[Any]
    target: Node
    known: Mapping[Node, State] = field(default_factory=dict)
    answer: float | None = None
    which: int = 0

    def __post_init__(self) -> None:
        """Check that everyone is there, and in some state."""
        people = self.people
        for person in (self.target, *self.known):
            if person not in people:
                raise InvalidInput(f"{person!s} does not depend on {self.target!s}, or is not here")
        if self.target in self.known:
            raise InvalidInput(f"{self.target!s} is the target, who cannot be known")
        for person, state in self.known.items():
            if state not in self.plan.states:
                raise InvalidInput(f"{person!s} is known to be {state!r}: no such state")

    @property
    def order(self) -> Sequence[Node]:
        """Everyone in the data, in the order of the model."""
        return tuple(self.plan.model.order() or network_of(self.plan, self.which).observed)

    @property
    def people(self) -> tuple[Node, ...]:
        """All who depend on the target and are in the data, in the order of the model."""
        network = network_of(self.plan, self.which)
        place = network.number(self.target)
        (family,) = [part for part in network.components() if place in part]
        names = {network.nodes[one] for one in family}
        return tuple(person for person in self.order if person in names)

    def knowing(self, person: Node, state: State | None) -> "Relatives":
        """Return the family with one person known to be in a state, or forgotten (None)."""
        known = {one: value for one, value in self.known.items() if one != person}
        if state is not None:
            known[person] = state
        return replace(self, known=known)

    def toggled(self, person: Node) -> "Relatives":
        """Return the family after a click: unknown, then each state in turn, then unknown."""
        cycle: tuple[State | None, ...] = (*self.plan.states, None)
        now = self.known.get(person)
        return self.knowing(person, cycle[(cycle.index(now) + 1) % len(cycle)])

    def guess(self, value: State | None = None) -> ValueBelief:
        """Return what the attacker believes of the target; ``value`` is by default the first state.

        >>> from undertow import Count, Pedigree, calibrate
        >>> trio = Pedigree({"kim": ("bob", "ann")}, allele_frequency=.5)
        >>> plan = calibrate(Count("BB"), trio, limit=1.0, method="exact")
        >>> found = Relatives(plan, "kim", {"bob": "BB"}, answer=3.0).guess("BB")
        >>> found.prior, found.posterior > .5, found.largest <= plan.leakage.upper
        (0.5, True, True)
        """
        states = self.plan.states
        wanted = states[0] if value is None else value
        prior, likelihoods = self._weighed()
        order, people = self.order, self.people
        known = [order.index(person) for person in self.known]
        known += [place for place, person in enumerate(order) if person not in people]
        return guess_of(
            self.plan, order.index(self.target), wanted, prior, likelihoods, known, states,
            str(self.target),
        )  # fmt: skip

    def cells(self) -> tuple[Cell, ...]:
        """Return the people as they are drawn; the record is a person's place in the model."""
        return tuple(
            Cell(
                self.order.index(person), _role(self, person), str(self.known.get(person, "")),
                label=str(person),
            )
            for person in self.people
        )  # fmt: skip

    def _weighed(self) -> tuple[Array, Array]:
        """Return the prior of the target and ln Pr[answer | its state, known], (k,) each."""
        network = network_of(self.plan, self.which)
        size = len(self.plan.states)
        others = [p for p in self.people if p != self.target and p not in self.known]
        if size ** (len(others) + 1) > MOST_CELLS:
            raise NotSupported(
                f"{len(others)} unknown relatives have too many values together; know some of them"
            )
        # (k, k, ...): the target first, then everyone unknown
        joint = network.law([self.target, *others], dict(self.known))
        prior = joint.reshape(size, -1).sum(axis=1)
        if self.answer is None:
            return prior, np.zeros(size)
        counted = totals(self.plan.noise, self.plan.states, len(self.people))
        adds = np.array(counted.adds)
        count = np.zeros((), dtype=np.int64)
        for axis in range(joint.ndim):  # what all of them add up to, by their values
            count = count + adds.reshape([-1 if a == axis else 1 for a in range(joint.ndim)])
        count = count + sum(counted.adds[self.plan.model.index(s)] for s in self.known.values())
        most = len(self.people) * int(adds.max())
        weights = counted.log_weights(counted.units([self.answer], len(self.people)), most)[0]
        peak = float(weights.max())
        likelihoods = (joint * np.exp(weights - peak)[count]).reshape(size, -1).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return prior, np.where(prior > 0, np.log(likelihoods) - np.log(prior), -np.inf)


def relatives_of(plan: Plan[Any]) -> Relatives:
    """Return a family under attack: its first person, nothing known, no answer yet."""
    return Relatives(plan, (plan.model.order() or network_of(plan).observed)[0])


Subject = Strip | Relatives


def _role(subject: Subject, who: Any) -> Role:
    """Return the role of a record or of a person."""
    if who == subject.target:
        return "target"
    return "known" if who in subject.known else "unknown"


@router.get("/w/{name}/attacker")
async def attacker(request: Request, name: str) -> Response:
    """Show what an attacker believes, and the worst that can happen."""
    studio, work = studio_of(request), work_of(request, name)
    plan, choices = studio.plan(work), request.query_params
    content: dict[str, Any] = {"wrong": "", "subject": None, "guess": None}
    try:
        subject = _subject(plan, choices)
        if subject is not None:
            usual = plan.states[0 if isinstance(subject, Relatives) else -1]
            named = {str(state): state for state in plan.states}
            content |= _shown(plan, subject, named.get(choices.get("value", ""), usual))
    except UndertowError as error:
        content["wrong"] = in_words(error)
    return studio.page(
        "attacker", work=work, plan=plan, whose=words.audience(plan),
        promise=promise(plan)["promise"], worst=_worst(plan), **content,
        states=list(map(str, plan.states)), code=code_for_witness(work, plan),
    )  # fmt: skip


def _shown(plan: "Plan[Any]", subject: Subject, value: Any) -> dict[str, Any]:
    """Return the records, the belief and the pictures for the template."""
    guess, cells = subject.guess(value), subject.cells()
    family = isinstance(subject, Relatives)
    people = plan.model.order() if family else ()
    picture = None
    if family and isinstance(plan.model, Pedigree):
        marked = [str(person) for person in subject.known]
        picture = family_picture(plan.model, "relatives", marked, str(subject.target))
    # what is known, as it stands in an address
    known = (
        f"{subject.order.index(who)}:{plan.states.index(state)}"
        for who, state in subject.known.items()
    )
    return {
        "subject": subject, "cells": cells, "strip": record_strip(cells, "What the attacker knows"),
        "guess": guess, "bar": odds_bar(guess), "value": str(value), "picture": picture,
        "people": [(place, str(person)) for place, person in enumerate(people)],
        "known": " ".join(known), "target": subject.order.index(subject.target),
        "most": len(cells) if isinstance(subject, Relatives) else subject.length,
        "answer": subject.answer, "local": plan.task != "answer",
        "erased": [cell for cell in cells if cell.why and plan.task == "redact"],
    }  # fmt: skip


def _subject(plan: "Plan[Any]", choices: Mapping[str, str]) -> Subject | None:
    """Return the records under attack as the address says, None where there is no such view."""
    subject: Subject
    if plan.leakage.secret.window > 1:
        return None
    if plan.model.family == "network":
        subject = relatives_of(plan)
        subject = replace(subject, target=_member(subject, choices.get("target", "0")))
    else:
        try:
            subject = strip_of(plan)
        except NotSupported:
            return None
        target = choices.get("target", "")
        if target:
            subject = replace(subject, known={}, target=_member(subject, target))
            for end in subject.fixed:
                subject = subject.knowing(end, plan.states[0])
    for pair in choices.get("known", "").split():
        record, _, state = pair.partition(":")
        who, states = _member(subject, record), plan.states
        if who != subject.target:
            subject = subject.knowing(who, states[_number(state, len(states))])
    if choices.get("toggle"):
        subject = subject.toggled(_member(subject, choices["toggle"]))
    return _seen(plan, subject, choices)


def _seen(plan: "Plan[Any]", subject: Subject, choices: Mapping[str, str]) -> Subject:
    """Return the records with what came out: an answer, or what a series shows."""
    if plan.task == "answer":
        text = choices.get("answer", "")
        try:
            answer = float(text) if text else None
        except ValueError:
            raise InvalidInput("the answer is a number") from None
        if answer is None or not abs(answer) <= 10**6:
            answer = 0.0 if answer is None else 10.0**6
        return replace(subject, answer=answer)
    if isinstance(subject, Relatives):
        return subject
    states, text = plan.states, choices.get("shows", "0")
    shown = states[_number(text, len(states))]
    gone = {record for record, output in subject.outputs.items() if output is None}
    records = range(subject.first, subject.first + subject.length)
    outputs = {record: None if record in gone else shown for record in records}
    return replace(subject, outputs=outputs)


def _worst(plan: "Plan[Any]") -> str:
    """Return the worst case that the certificate names, in words; '' where it names none."""
    witness = plan.leakage.witness
    if witness is None:
        return ""
    people = list(plan.model.order())
    if people and witness.histories is None and not witness.outputs:
        facts = " and ".join(f"{people[record]} is {state}" for record, state in witness.known)
        knows = f"knows that {facts}" if facts else "knows nothing of the others"
        return (
            f"The worst case: someone asks about {people[witness.target]}, {knows}, and waits for "
            f"an answer that tells {witness.value} from {witness.other} best."
        )
    if plan.model.family != "network":
        try:
            worst = worst_case(plan)
        except UndertowError:  # more records than can be weighed
            worst = None
        if worst is not None:
            return worst.words()
    return f"The worst case: {words.attack(witness, plan.length is None)}."


def _member(subject: Subject, text: str) -> Any:
    """Return the record of a number; of people, the person at that place."""
    return subject.order[_number(text, len(subject.order))]


def _number(text: str, below: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not int(text) < below:
        raise InvalidInput("there is no such record")
    return int(text)
