"""Flipped series: the channel that serves best among those that keep a promise."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.channels import Flips, RandomizedResponse, XorNoise, flips_epsilon_upper
from undertow.errors import InvalidInput, MethodRefused, NothingToProtect, NotSupported
from undertow.mechanisms import PureDP
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel, ModelSet, members
from undertow.numerics import Array, check_epsilon
from undertow.plan import Plan
from undertow.planning.budget import aim, dp_budget
from undertow.planning.channel_search import Certified, improved_channel
from undertow.planning.flip_aims import Aim, Objective, check_objective, long_run_law
from undertow.planning.flips import (
    best_flips,
    frontier,
    grained,
    half_planes,
    ignorant_ratios,
    positively_correlated,
)
from undertow.planning.kary_flips import even_channel, largest_even_level, silent_channel
from undertow.planning.xor_flips import least_xor_noise, xor_noise

__all__ = ["SERIES_METHODS", "calibrate_series"]

CERTAIN = (
    "every record is certain under this model, or to this adversary: nothing can leak, and no "
    "flips are needed"
)
SILENT = "no output that says anything keeps this promise: the outputs do not depend on the records"
SEARCHED = "found by search: the leakage is proved, that no channel serves better is not"
WHOLE = "one party holds the whole series and draws the noise"
PUBLISHED = (
    "flips as published, for an attacker who knows no other record; the leakage is the one "
    "certified here"
)
LEVEL = "the upper end holds for every algorithm of this DP level"

M = TypeVar("M", RandomizedResponse, XorNoise)

_FEW = {3: 12, 4: 9}
_FEWEST = 5
"""Records of the short series on which a channel of so many states (or more) is searched first."""

_LEAST = 1e-8
"""The DP level, in units of epsilon, below which an output counts as saying nothing."""

_NUDGES = 24
"""Times that a level is lowered, by four times as much each, until its rounding is certified."""


@dataclass(frozen=True, slots=True)
class _Task:
    """What is asked: a promise on a model against an adversary, and what the flips are for."""

    model: AnyModel
    size: int
    epsilon: float
    against: Against
    aim: Aim

    @property
    def chains(self) -> list[MarkovChain]:
        return [member for member in members(self.model) if isinstance(member, MarkovChain)]

    def judge(self, mechanism: Flips) -> Leakage:
        return leakage(mechanism, self.model, self.against)

    def improved(self, start: Certified, hint: Array | None = None) -> Certified:
        """Return the best channel that a search finds, from one that keeps the promise."""
        return improved_channel(self.judge, self.chains, self.epsilon, self.aim, start, hint)

    def only_chains(self, method: str) -> None:
        for member in members(self.model):
            if not isinstance(member, MarkovChain):
                raise MethodRefused(
                    f"'{method}' needs Markov chains, found {member.describe()}; use "
                    "method='exchange', which goes through the DP level"
                )

    def two_states(self, method: str) -> None:
        self.only_chains(method)
        if self.size != 2:
            raise MethodRefused(
                f"'{method}' is for chains of two states, this one has {self.size}; use "
                "method='exact'"
            )


@dataclass(frozen=True, slots=True)
class _Found:
    """A mechanism, its certificate, and what is to be said about it."""

    mechanism: Flips
    leakage: Leakage
    method: str
    notes: tuple[str, ...] = ()


def calibrate_series(
    model: AnyModel,
    epsilon: float,
    against: Against = "any",
    method: str = "best",
    objective: Objective = "flips",
) -> Plan[Flips]:
    """Return the plan for a flipped series whose leakage is certainly at most ``epsilon``.

    For two states whose neighbours are positively correlated, ``exact`` is the optimum: the
    promise is two half-planes, each found by one bisection that begins at the closed form for an
    attacker who knows no other record. For negatively correlated ones and for more states it is
    the best that a search found, never worse than k-ary randomised response.

    Parameters
    ----------
    method
        ``exact`` (flips for this very model), ``exchange`` (k-ary randomised response of the DP
        level that any algorithm may spend: composes with other releases), ``xor`` (correlated
        noise, where one party holds the whole series); or, as published and not certified,
        ``chakrabarti``. ``best`` is ``exact``, and ``exchange`` where the model is no chain.
    objective
        ``"flips"``: the least expected share of flipped records; ``"information"``: the most
        information in one output about its record; or a cost for flipping each state. With
        flips and costs the truth stays the likeliest output of every state. Over a set of
        models the worst one counts.

    >>> chain = MarkovChain([[.65, .35], [.35, .65]], length=30)
    >>> plan = calibrate_series(chain, epsilon=1.0)
    >>> round(plan.expected_flips, 6), plan.leakage.proves(1.0)
    (0.364992, True)
    """
    epsilon, against = check_epsilon(epsilon), check_against(against)
    task = _task(model, epsilon, against, objective)
    if method == "best":
        method = "exact" if len(task.chains) == len(members(model)) else "exchange"
    if method not in SERIES_METHODS:
        names = ", ".join((*SERIES_METHODS, "best"))
        raise InvalidInput(f"unknown method {method!r}; the methods for a series are {names}")
    _check_uncertain(task)
    spent = task if method == "chakrabarti" else replace(task, epsilon=aim(epsilon))
    found = SERIES_METHODS[method](spent)
    return _plan(task, found)


def _task(model: AnyModel, epsilon: float, against: Against, objective: Objective) -> _Task:
    if not isinstance(model, AnyModel):
        raise InvalidInput(
            f"a flipped series needs a model such as MarkovChain(...), found {type(model).__name__}"
        )
    size = len(model.states)
    if not size:
        raise NotSupported(
            "the model names no states, so there is nothing to flip to; add a chain with the "
            "states to it: ModelSet([Groups(4), MarkovChain(...)])"
        )
    laws = [long_run_law(m) for m in members(model) if isinstance(m, MarkovChain)]
    table = np.array(laws) if laws else np.full((1, size), 1 / size)
    return _Task(model, size, epsilon, against, Aim(table, check_objective(objective, size)))


def _check_uncertain(task: _Task) -> None:
    """Refuse a model under which no record is ever in doubt."""
    if len(task.chains) < len(members(task.model)):
        return
    if all(chain.visited() is None for chain in task.chains):
        raise NothingToProtect(CERTAIN)
    if task.judge(RandomizedResponse(np.eye(task.size))).upper == 0:
        raise NothingToProtect(CERTAIN)


def _plan(task: _Task, found: _Found) -> Plan[Flips]:
    mechanism, aim = found.mechanism, task.aim
    if isinstance(mechanism, XorNoise):
        flipped = mechanism.flip_rate
        channel = RandomizedResponse.binary(flipped, flipped).matrix
    else:
        channel = mechanism.matrix
    measures = [("expected flips", aim.flips(channel))]
    if task.chains:
        measures.append(("information", aim.bits(channel)))
    notes = [*found.notes, *_constant(task, channel)]
    leak = replace(found.leakage, assumptions=(*found.leakage.assumptions, *notes))
    return Plan(mechanism, task.model, task.epsilon, leak, found.method, measures=tuple(measures))


def _constant(task: _Task, channel: Array) -> list[str]:
    """Say so where always showing one state would cost less than these flips."""
    aim = task.aim
    if aim.weights is None or not task.chains:
        return []
    costs = [aim.cost_of_rates(1.0 - np.eye(task.size)[state]) for state in range(task.size)]
    best = int(np.argmin(costs))
    if costs[best] >= aim.cost(channel):
        return []
    name = task.model.states[best]
    told = f"{costs[best]:.4f} against {aim.cost(channel):.4f}"
    return [f"always showing {name!r} would cost less ({told}), and say nothing"]


# --- the methods ----------------------------------------------------------------------------------


def _exact(task: _Task) -> _Found:
    task.only_chains("exact")
    if task.size > 2:
        return _exact_many(task)
    straight = task.against == "informed" or all(map(positively_correlated, task.chains))
    if straight:
        a, b = half_planes(task.judge, task.model, task.epsilon, _guess(task))
    else:
        a, b = frontier(task.judge, task.model, task.epsilon, task.aim)
    notes = () if straight else (SEARCHED,)
    if min(a, b) <= 0:
        return _silent(task, "exact")

    def make(share: float) -> RandomizedResponse:
        return grained(best_flips(a * share, b * share, task.aim))

    return _Found(*_certified(task, make), "exact", notes)


def _guess(task: _Task) -> tuple[float, float] | None:
    """Return the ratios of the closed form, the least over the chains it knows; None if none."""
    if task.against == "informed":
        return task.epsilon, task.epsilon
    found = []
    for chain in task.chains:
        q, r = chain.transition[..., 0, 1].max(), chain.transition[..., 1, 0].max()
        if chain.homogeneous and 0 < q < 1 and 0 < r < 1 and q + r <= 1:
            found.append(ignorant_ratios(float(q), float(r), task.epsilon))
    return (min(a for a, _ in found), min(b for _, b in found)) if found else None


def _exact_many(task: _Task) -> _Found:
    brief, guess, hint = _brief(task), None, None
    if brief is not None:
        guess = largest_even_level(brief.judge, brief.model, task.epsilon, task.size)
    level = largest_even_level(task.judge, task.model, task.epsilon, task.size, guess)
    if level <= 0:
        return _silent(task, "exact")
    even = _certified(task, partial(_even, task.size, level))
    if brief is not None:
        hint = brief.improved((even[0], brief.judge(even[0])))[0].matrix
    return _Found(*task.improved(even, hint), "exact", (SEARCHED,))


def _brief(task: _Task) -> _Task | None:
    """Return the same task on short series, None where that is nothing new."""
    if isinstance(task.against, Adversary) or task.against == "informed":
        return None
    chains = [_shortened(chain) for chain in task.chains]
    return None if chains == task.chains else replace(task, model=ModelSet(chains))


def _shortened(chain: MarkovChain) -> MarkovChain:
    """Return the chain with few records: cheaper to search on, and nearly as hard to hide."""
    few = _FEW.get(chain.size, _FEWEST)
    if not chain.homogeneous or (chain.length or math.inf) <= few:
        return chain
    return MarkovChain(chain.transition, chain.states, chain.start, few)


def _chakrabarti(task: _Task) -> _Found:
    task.two_states("chakrabarti")
    if len(task.chains) > 1 or not task.chains[0].homogeneous:
        raise MethodRefused(
            "'chakrabarti' is stated for one chain with one transition matrix; use method='exact'"
        )
    chain = task.chains[0]
    q, r = float(chain.transition[0, 1]), float(chain.transition[1, 0])
    if not (0 < q < 0.5 and 0 < r < 0.5 and isinstance(chain.start, str)):
        raise MethodRefused(
            "'chakrabarti' is stated for a stationary chain that rather stays where it is, "
            f"0 < P(0, 1), P(1, 0) < 1/2, found {q:g} and {r:g} with "
            f"{'a stationary' if isinstance(chain.start, str) else 'a given'} start; use "
            "method='exact'"
        )
    mechanism = grained(best_flips(*ignorant_ratios(q, r, task.epsilon), task.aim))
    return _Found(mechanism, task.judge(mechanism), "chakrabarti", (PUBLISHED,))


def _xor(task: _Task) -> _Found:
    task.two_states("xor")
    level, total = least_xor_noise(task.judge, task.model, task.epsilon)
    if level <= 0:
        return replace(_silent(task, "xor"), mechanism=XorNoise(0.5, 0.5))

    def make(share: float) -> XorNoise:
        return xor_noise(level * share, total)

    return _Found(*_certified(task, make), "xor", (WHOLE, SEARCHED))


def _exchange(task: _Task) -> _Found:
    least = PureDP(_LEAST * task.epsilon)
    if not leakage(least, task.model, task.against).proves(task.epsilon):
        return _silent(task, "exchange")
    budget = dp_budget(task.model, task.epsilon, task.against)
    if math.isinf(budget):
        raise NothingToProtect(CERTAIN)

    def prove(mechanism: RandomizedResponse) -> Leakage:
        level = flips_epsilon_upper(mechanism)
        found = leakage(PureDP(level), task.model, task.against)
        return found if level <= budget else replace(found, upper=math.inf)  # a ledger would refuse

    make = partial(_even, task.size, budget)
    return _Found(*_certified(task, make, prove), "exchange", (LEVEL,))


def _even(size: int, level: float, share: float) -> RandomizedResponse:
    return even_channel(size, level * share)


SERIES_METHODS: dict[str, Callable[[_Task], _Found]] = {
    "exact": _exact,
    "exchange": _exchange,
    "xor": _xor,
    "chakrabarti": _chakrabarti,
}
"""Ways to plan a flipped series, by name."""


def _silent(task: _Task, method: str) -> _Found:
    """Return the channel whose rows are all the same, to the last bit: it leaks exactly nothing."""
    leak = Leakage(0.0, 0.0, method, task.against, assumptions=(SILENT,))
    return _Found(silent_channel(task.size), leak, method)


def _certified(
    task: _Task,
    make: Callable[[float], M],
    prove: Callable[[M], Leakage] | None = None,
) -> tuple[M, Leakage]:
    """Return the first channel whose leakage is proved, at ever so slightly smaller levels."""
    judge = prove or task.judge
    less = 0.0
    for nudge in range(_NUDGES):
        mechanism = make(1.0 - less)
        leak = judge(mechanism)
        if leak.proves(task.epsilon):
            return mechanism, leak
        less = 2.0**-52 * 4.0**nudge
    raise NotSupported(
        f"no flips could be certified for a leakage of {task.epsilon:g}; the last one proves "
        f"{leak.upper:.6g}"
    )
