"""Flipped series: the channel that serves best among those that keep a guarantee."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from undertow import progress
from undertow.adversaries import Adversary, Against
from undertow.bounds.engine import leakage
from undertow.bounds.series.local import worst_attacks
from undertow.certificate import Leakage
from undertow.channels import Flips, RandomizedResponse, XorNoise, flips_epsilon_upper
from undertow.errors import EffortSpent, InvalidPlan, MethodRefused, NothingToProtect, NotSupported
from undertow.mechanisms import PureDP
from undertow.models.markov import MarkovChain
from undertow.models.second_order import SecondOrderChain
from undertow.models.sets import AnyModel, ModelSet
from undertow.numerics import Array
from undertow.planning.budget import aim, budget_for
from undertow.planning.channel_cuts import Cut
from undertow.planning.channel_search import (
    FIRST_BOX,
    Certified,
    ChannelSearch,
    found_cuts,
)
from undertow.planning.flip_aims import Aim, check_objective, long_run_law
from undertow.planning.flips import (
    best_flips,
    frontier,
    grained,
    half_planes,
    ignorant_ratios,
    positively_correlated,
)
from undertow.planning.kary_flips import (
    even_channel,
    grained_channel,
    largest_even_level,
    silent_channel,
)
from undertow.planning.questions import Question, Solution, Way, chains_of
from undertow.planning.second_order_flips import flip_ratios, one_ratio_each
from undertow.planning.xor_flips import least_xor_noise, xor_noise
from undertow.queries import Series

__all__ = ["CHAKRABARTI", "EXACT", "EXCHANGE", "XOR"]

CERTAIN = (
    "every record is certain under this model, or to this adversary: nothing can leak, and no "
    "flips are needed"
)
SILENT = "no output that says anything keeps this promise: the outputs do not depend on the records"
SPENT = (
    "the search for better flips ended with its effort spent: effort=10 allows ten times as much, "
    "effort=math.inf any"
)
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

_LONGER = 3
"""How many times as many records the longer of two short series has."""

_EVEN_ROUNDS, _ROUNDS = 4, (20, 6, 1)
"""Times that new attacks are asked for: on k-ary randomised response, and on better channels for
short, longer and whole series (effort; the last are the dearest)."""

_OTHER_BOXES = 0.15, 0.05
"""First steps of further searches on short series, all from k-ary randomised response."""

_SETTLED = 1e-4
"""How little k-ary randomised response may change when the search for better ones begins."""

_LEAST = 1e-8
"""The DP level, in units of limit, below which an output counts as saying nothing."""

_NUDGES = 24
"""Times that a level is lowered, by four times as much each, until its rounding is certified."""


@dataclass(frozen=True, slots=True)
class _FlipTask:
    """What is asked: a guarantee on a model against an adversary, and what the flips are for."""

    model: AnyModel
    size: int
    limit: float
    against: Against
    aim: Aim

    @property
    def chains(self) -> list[MarkovChain]:
        return chains_of(self.model)

    def oracle(self, mechanism: Flips) -> Leakage:
        return leakage(mechanism, self.model, self.against)

    def attacks(self, mechanism: RandomizedResponse) -> list[Cut]:
        """Return the worst attacks on a channel: of each pair of values, or the worst of all."""
        found = [
            Cut.of(witness, chain)
            for chain in self.chains
            for witness in worst_attacks(mechanism.matrix, chain, self.against)
        ]
        return found or found_cuts(self.oracle(mechanism), mechanism, self.chains)


def _task(question: Question[Series], spent: float) -> _FlipTask:
    """Return the question for flips that leak at most ``spent``, or refuse one without states."""
    model = question.model
    size = len(model.states)
    if not size:
        raise NotSupported(
            "the model names no states, so there is nothing to flip to; add a chain with the "
            "states to it: ModelSet([Groups(4), MarkovChain(...)])"
        )
    laws = [long_run_law(chain) for chain in _followed(model)]
    table = np.array(laws) if laws else np.full((1, size), 1 / size)
    aim = Aim(table, check_objective(question.objective, size))
    task = _FlipTask(model, size, spent, question.against, aim)
    _check_uncertain(task)
    return task


def _followed(model: AnyModel) -> list[MarkovChain]:
    """Return chains with the laws of single records: of order two, that of the same pairs."""
    first = (member.first_order() for member in model.members())
    return [*chains_of(model), *(chain for chain in first if chain is not None)]


def _two_states(question: Question[Series], spent: float, method: str) -> _FlipTask:
    """Return the question about chains of two states, or refuse others."""
    question.chains(method)
    task = _task(question, spent)
    if task.size != 2:
        raise MethodRefused(
            f"'{method}' is for chains of two states, this one has {task.size}; use method='exact'"
        )
    return task


def _check_uncertain(task: _FlipTask) -> None:
    """Refuse a model under which no record is ever in doubt."""
    if len(task.chains) < len(task.model.members()):
        return
    if all(chain.visited() is None for chain in task.chains):
        raise NothingToProtect(CERTAIN)
    if task.oracle(RandomizedResponse(np.eye(task.size))).upper == 0:
        raise NothingToProtect(CERTAIN)


def _found(task: _FlipTask, mechanism: Flips, leak: Leakage, *notes: str) -> Solution:
    """Return flips with what they keep of the series, and what is to be said about them."""
    measures = [("expected flips", task.aim.flips(mechanism.matrix))]
    if _followed(task.model):
        measures.append(("information", task.aim.bits(mechanism.matrix)))
    told = _constant(task, mechanism.matrix)
    return Solution(mechanism, leak, (*notes, *told), tuple(measures))


def _constant(task: _FlipTask, channel: Array) -> list[str]:
    """Say so where always showing one state would cost less than these flips."""
    aim = task.aim
    if aim.weights is None or not _followed(task.model):
        return []
    costs = [aim.cost_of_rates(1.0 - np.eye(task.size)[state]) for state in range(task.size)]
    best = int(np.argmin(costs))
    if costs[best] >= aim.cost(channel):
        return []
    name = task.model.states[best]
    told = f"{costs[best]:.4f} against {aim.cost(channel):.4f}"
    return [f"always showing {name!r} would cost less ({told}), and say nothing"]


# --- the methods ----------------------------------------------------------------------------------


def _exact(question: Question[Series]) -> Solution:
    """Return the channel that serves best.

    For two states whose neighbours are positively correlated it is the optimum: the guarantee is
    two half-planes, each found by one bisection that begins at the closed form for an attacker who
    knows no other record. For negatively correlated ones and for more states it is the best that
    a search found, never worse than k-ary randomised response.
    """
    second = _second_order(question)
    if second is None:
        question.chains("exact")
    task = _task(question, aim(question.limit))
    if second is not None:
        return _exact_second_order(task, second)
    if task.size > 2:
        return _exact_many(task)
    straight = task.against == "informed" or all(map(positively_correlated, task.chains))
    if straight:
        a, b = half_planes(task.oracle, task.model, task.limit, _guess(task))
    else:
        a, b = frontier(task.oracle, task.model, task.limit, task.aim)
    notes = () if straight else (SEARCHED,)
    if min(a, b) <= 0:
        return _silent(task, "exact")

    def make(share: float) -> RandomizedResponse:
        return grained(best_flips(a * share, b * share, task.aim))

    return _found(task, *_certified(task, make), *notes)


def _second_order(question: Question[Series]) -> SecondOrderChain | None:
    """Return the chain of order two that was asked about, None for other models."""
    model = question.model
    if not isinstance(model, SecondOrderChain):
        return None
    if model.size > 2:
        raise MethodRefused(
            f"'exact' knows flips of chains of order two with two states, this one has "
            f"{model.size}; use method='exchange'"
        )
    return model


def _exact_second_order(task: _FlipTask, chain: SecondOrderChain) -> Solution:
    """Return the best flips for a chain of order two, or the best of two directions."""
    first = replace(task, model=chain.first_order())
    guess = _guess(first) or (task.limit / 3, task.limit / 3)
    a, b = flip_ratios(chain, task.oracle, task.limit, task.against, task.aim, guess)
    if min(a, b) <= 0:
        return _silent(task, "exact")

    def make(share: float) -> RandomizedResponse:
        return grained(best_flips(a * share, b * share, task.aim))

    notes = () if one_ratio_each(chain, task.against) else (SEARCHED,)
    return _found(task, *_certified(task, make), *notes)


def _guess(task: _FlipTask) -> tuple[float, float] | None:
    """Return the ratios of the closed form, the least over the chains it knows; None if none."""
    if task.against == "informed":
        return task.limit, task.limit
    found = []
    for chain in task.chains:
        q, r = chain.transition[..., 0, 1].max(), chain.transition[..., 1, 0].max()
        if chain.homogeneous and 0 < q < 1 and 0 < r < 1 and q + r <= 1:
            found.append(ignorant_ratios(float(q), float(r), task.limit))
    return (min(a for a, _ in found), min(b for _, b in found)) if found else None


def _exact_many(task: _FlipTask) -> Solution:
    """Return the best channel that a search finds, first on short series, then on the whole one.

    The search may take half the effort, the other half is for the proof of what it finds.
    """
    search, notes = ChannelSearch(task.limit, task.aim), [SEARCHED]
    channel: Array | None = None
    try:
        with progress.allowing(progress.left() / 2):
            for better in _improved(task, search):
                channel = better
    except EffortSpent:
        notes.append(SPENT)
    if channel is None:
        return _even(task, None, notes)
    found = search.certified(channel, task.oracle, task.chains)
    if found is None or task.aim.cost(found[0].matrix) > task.aim.cost(search.even(task.size)):
        return _even(task, found, notes)
    return _found(task, *found, *notes)


def _improved(task: _FlipTask, search: ChannelSearch) -> Iterator[Array]:
    """Yield channels that keep the guarantee against all attacks found so far, ever better ones.

    None where no attack is found on k-ary randomised response.
    """
    (brief, _), *_ = tasks = _ladder(task)
    channel = even_channel(task.size, task.limit / 3).matrix
    for _ in range(_EVEN_ROUNDS):  # k-ary randomised response, as far as short series tell
        search.cuts.add(brief.attacks(grained_channel(channel)))
        if not search.cuts:
            return
        before, channel = channel, search.even(task.size)
        yield channel
        if np.abs(channel - before).max() <= _SETTLED:
            break
    channel = search.descended(channel, FIRST_BOX)
    yield channel
    for one, rounds in tasks:
        channel = search.settled(channel, one.attacks, rounds)
        yield channel
        for box in _OTHER_BOXES if one is brief else ():  # other steps may lead elsewhere
            trial = search.descended(search.even(task.size), box)
            if task.aim.cost(trial) < task.aim.cost(channel):
                trial = search.settled(trial, one.attacks, rounds)
                channel = min(trial, search.mixed(channel, task.limit), key=task.aim.cost)
                yield channel


def _even(task: _FlipTask, found: Certified | None, notes: list[str]) -> Solution:
    """Return what was found, or k-ary randomised response where that serves better."""
    level = largest_even_level(task.oracle, task.model, task.limit, task.size)
    if level <= 0:
        return _silent(task, "exact") if found is None else _found(task, *found, *notes)
    even = _certified(task, lambda share: even_channel(task.size, level * share))
    ways = [even] if found is None else [found, even]
    best = min(ways, key=lambda way: task.aim.cost(way[0].matrix))
    return _found(task, *best, *notes)


def _ladder(task: _FlipTask) -> list[tuple[_FlipTask, int]]:
    """Return the same task on ever longer series, and how often to look for new attacks on each.

    Short series are cheaper to search on, and nearly as hard to hide in.
    """
    tasks = [task]
    if not isinstance(task.against, Adversary) and task.against != "informed":
        for times in (_LONGER, 1):  # longest first
            chains = [_shortened(chain, times) for chain in task.chains]
            if chains != tasks[0].chains:
                tasks.insert(0, replace(task, model=ModelSet(chains)))
    return list(zip(tasks, _ROUNDS, strict=False))


def _shortened(chain: MarkovChain, times: int) -> MarkovChain:
    """Return the chain with few records, or some times as many."""
    few = times * _FEW.get(chain.size, _FEWEST)
    if not chain.homogeneous or (chain.length or math.inf) <= few:
        return chain
    return MarkovChain(chain.transition, chain.states, chain.start, few)


def _chakrabarti(question: Question[Series]) -> Solution:
    """Return the flips of Theorem 1 of [chakrabarti2022], where it is stated."""
    task = _two_states(question, question.limit, "chakrabarti")
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
    mechanism = grained(best_flips(*ignorant_ratios(q, r, task.limit), task.aim))
    return _found(task, mechanism, task.oracle(mechanism), PUBLISHED)


def _xor(question: Question[Series]) -> Solution:
    """Return correlated noise, where one party holds the whole series."""
    task = _two_states(question, aim(question.limit), "xor")
    level, total = least_xor_noise(task.oracle, task.model, task.limit)
    if level <= 0:
        return _silent(task, "xor", XorNoise(0.5, 0.5))

    def make(share: float) -> XorNoise:
        return xor_noise(level * share, total)

    return _found(task, *_certified(task, make), WHOLE, SEARCHED)


def _exchange(question: Question[Series]) -> Solution:
    """Return k-ary randomised response of the DP level that any algorithm may spend.

    It composes with other releases.
    """
    task = _task(question, aim(question.limit))
    least = PureDP(_LEAST * task.limit)
    if not leakage(least, task.model, task.against).proves(task.limit):
        return _silent(task, "exchange")
    budget = budget_for(task.model, task.limit, task.against)
    if math.isinf(budget):
        raise NothingToProtect(CERTAIN)

    def prove(mechanism: RandomizedResponse) -> Leakage:
        level = flips_epsilon_upper(mechanism)
        found = leakage(PureDP(level), task.model, task.against)
        return found if level <= budget else replace(found, upper=math.inf)  # a ledger would refuse

    found = _certified(task, lambda share: even_channel(task.size, budget * share), prove)
    return _found(task, *found, LEVEL)


def _silent(task: _FlipTask, method: str, mechanism: Flips | None = None) -> Solution:
    """Return the channel whose rows are all the same, to the last bit: it leaks exactly nothing."""
    leak = replace(_nothing(method, task.against), covers="series")
    return _found(task, mechanism or silent_channel(task.size), leak)


def _nothing(method: str, against: Against) -> Leakage:
    return Leakage(0.0, 0.0, method, against, assumptions=(SILENT,), covers="any")


def _certified(
    task: _FlipTask,
    make: Callable[[float], M],
    prove: Callable[[M], Leakage] | None = None,
) -> tuple[M, Leakage]:
    """Return the first channel whose leakage is proved, at ever so slightly smaller levels."""
    oracle = prove or task.oracle
    less = 0.0
    for nudge in range(_NUDGES):
        mechanism = make(1.0 - less)
        leak = oracle(mechanism)
        if leak.proves(task.limit):
            return mechanism, leak
        less = 2.0**-52 * 4.0**nudge
    raise NotSupported(
        f"no flips could be certified for a leakage of {task.limit:g}; the last one proves "
        f"{leak.upper:.6g}"
    )


# --- proofs ---------------------------------------------------------------------------------------


def _prove(method: str, *notes: str) -> Callable[[Question[Series], Flips], Leakage]:
    """Return the proof of flips by their own leakage, with what it rests on besides the model."""

    def prove(question: Question[Series], mechanism: Flips) -> Leakage:
        if _says_nothing(mechanism):
            return _nothing(method, question.against)
        leak = leakage(mechanism, question.model, question.against)
        return replace(leak, assumptions=(*leak.assumptions, *notes))

    return prove


def _prove_level(question: Question[Series], mechanism: Flips) -> Leakage:
    """Return what all algorithms of the DP level of independent flips could leak."""
    if isinstance(mechanism, XorNoise):
        raise InvalidPlan("'exchange' plans independent flips, not a noise chain")
    if _says_nothing(mechanism):
        return _nothing("exchange", question.against)
    level = PureDP(flips_epsilon_upper(mechanism))
    leak = leakage(level, question.model, question.against)
    return replace(leak, assumptions=(*leak.assumptions, LEVEL), covers="any")


def _says_nothing(mechanism: Flips) -> bool:
    """Return whether the rows of a channel are all the same, to the last bit."""
    return isinstance(mechanism, RandomizedResponse) and np.ptp(mechanism.matrix, axis=0).max() == 0


EXACT = Way(_exact, _prove("exact"))
EXCHANGE = Way(_exchange, _prove_level)
XOR = Way(_xor, _prove("xor", WHOLE))
CHAKRABARTI = Way(_chakrabarti, _prove("chakrabarti", PUBLISHED))
