"""Leakage of every mechanism on a Markov chain: the bounds that apply, intersected."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.channels.flips import chain_leakage
from undertow.bounds.counts.histograms import histogram_leakage
from undertow.bounds.counts.laplace import count_leakage
from undertow.bounds.counts.pieces import ANY_WINDOW
from undertow.bounds.counts.pieces import window_leakage as piece_leakage
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.replay import replay_count
from undertow.bounds.memory.attractive import metric_values, ordered_leakage, sum_values
from undertow.bounds.metric import by_spread, spread_level
from undertow.bounds.protocol import AnswerProver, ChannelProver, Problem, Prover, WindowProver
from undertow.certificate import Leakage, Witness, meet
from undertow.errors import EffortSpent, NotSupported
from undertow.mechanisms import Levelled, MetricDP, Noise, PureDP, Scaled
from undertow.models.chains import MarkovChain
from undertow.numerics import down
from undertow.queries import Sum

__all__ = [
    "PROVERS",
    "CountWindowProver",
    "PartsProver",
    "far_attained",
    "leakage",
    "parts_leakage",
    "window_leakage",
]


def leakage(mechanism: Levelled | MetricDP, chain: MarkovChain, against: Against) -> Leakage:
    """Return what a curator's algorithm reveals about one record of a chain.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=3)
    >>> leakage(PureDP(1.0), chain, "any").method
    'exchange'
    """
    if isinstance(mechanism, MetricDP):
        values = metric_values(mechanism, chain.states) if chain.size > 2 else None
        exact = None if values is None else ordered_leakage(values, chain, against)
        if exact is not None and exact.closed:
            return exact
        level = spread_level(mechanism, chain)
        bound = by_spread(_levelled(level, chain, against), chain)
        return bound if exact is None else meet(exact, bound)
    return _levelled(mechanism, chain, against)


def window_leakage(level: float, chain: MarkovChain, against: Against, window: int) -> Leakage:
    """Return what all algorithms of a DP level leak about a window of records of a chain.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=3)
    >>> round(window_leakage(1.0, chain, "any", 3).upper, 9)
    3.0
    """
    return exchange_leakage(level, chain, against, window)


@dataclass(frozen=True, slots=True)
class CountWindowProver:
    """Noisy counts, about a window of records: the level above, far answers below.

    Far answers of a count are product likelihoods, worst for two states that follow themselves.
    """

    name: str = "chain, count and window"

    def supports(self, problem: Problem) -> bool:
        """Tell whether the problem is pure, about a window and a count on a chain."""
        mechanism = problem.mechanism
        return (
            problem.secret.window > 1
            and not problem.about_persons
            and not problem.delta
            and isinstance(problem.model, MarkovChain)
            and isinstance(mechanism, Scaled)
            and bool(mechanism.query.named)
        )

    def prove(self, problem: Problem) -> Leakage:
        """Return the bracket."""
        mechanism, chain = problem.mechanism, problem.model
        if not isinstance(mechanism, Scaled) or not isinstance(chain, MarkovChain):
            raise NotSupported("a noisy count on a MarkovChain is required")
        level, window = mechanism.level_upper(chain.length), problem.secret.window
        return _far_count(window_leakage(level, chain, problem.against, window), mechanism, chain)


@dataclass(frozen=True, slots=True)
class PartsProver:
    """Noisy counts and sums of any window of a series, about one record."""

    name: str = "chain, answer on windows"

    def supports(self, problem: Problem) -> bool:
        """Tell whether the problem is pure, about one record and a noisy answer on windows."""
        return (
            problem.valid_for == "windows"
            and problem.secret.window == 1
            and not problem.about_persons
            and not problem.delta
            and isinstance(problem.model, MarkovChain)
            and isinstance(problem.mechanism, Scaled)
        )

    def prove(self, problem: Problem) -> Leakage:
        """Return the leakage, or refuse an answer without a proof of its own."""
        mechanism, chain = problem.mechanism, problem.model
        if isinstance(mechanism, Scaled) and isinstance(chain, MarkovChain):
            leak = parts_leakage(mechanism, chain, problem.against)
            if leak is not None:
                return leak
        raise NotSupported("counts, and sums of ordered states, have a proof on windows")


def parts_leakage(mechanism: Scaled, chain: MarkovChain, against: Against) -> Leakage | None:
    """Return the leakage of an answer on any window of the series, None where it has no proof.

    Counts have one of their own. Of a sum of ordered states the theorem is about every likelihood
    that grows no faster with a record, and that of a window is one, so that series of any length
    bound it; a mean of a window is another question.
    """
    if mechanism.query.kind == Sum.kind:
        endless = chain.endless()
        bracket = None if endless is None else _added(mechanism, endless, against)
        if bracket is not None and chain.length is not None:  # no window is as long as that
            bracket = bracket.upper_only()
        if bracket is None:
            return None
        return replace(bracket, valid_for="windows").with_assumptions((ANY_WINDOW,))
    if not mechanism.query.named:
        return None
    return piece_leakage(mechanism.scale, _counted(mechanism, chain), chain, against)


def _counted(mechanism: Scaled, chain: MarkovChain) -> Any:
    """Return which states a count counts, by state."""
    wanted = [chain.index(state) for state in mechanism.query.named]
    return np.isin(np.arange(chain.size), wanted)


def _levelled(mechanism: Levelled, chain: MarkovChain, against: Against) -> Leakage:
    if isinstance(mechanism, PureDP):
        return exchange_leakage(mechanism.epsilon, chain, against)
    level = mechanism.level_upper(chain.length)
    if mechanism.query.named:
        exact = _unless_spent(
            lambda: count_leakage(mechanism.scale, _counted(mechanism, chain), chain, against)
        )
        if exact is not None and exact.closed:
            return exact
        bound = _of_level(level, chain, against)
        if exact is None:
            return _far_count(bound, mechanism, chain)
        return meet(exact, bound.upper_only())
    exact = _unless_spent(lambda: _added(mechanism, chain, against))
    if exact is not None and exact.closed:
        return exact
    bound = _of_level(level, chain, against)
    if exact is not None:
        return meet(exact, bound.upper_only())
    if mechanism.query.per_state:
        return _histogram(bound, mechanism, chain, against)
    return bound.upper_only()


def _of_level(level: float, chain: MarkovChain, against: Against) -> Leakage:
    """Return what all algorithms of a DP level leak, whatever they do with the series."""
    return replace(exchange_leakage(level, chain, against), valid_for="any")


def _unless_spent(search: Callable[[], Leakage | None]) -> Leakage | None:
    """Return what a search proves, None where it needs more effort than there is."""
    try:
        return search()
    except EffortSpent:
        return None


def _added(mechanism: Scaled, chain: MarkovChain, against: Against) -> Leakage | None:
    """Return the leakage of a sum or a mean of ordered states, None where it is not known."""
    values = sum_values(mechanism, chain)
    return None if values is None else ordered_leakage(values, chain, against)


def far_attained(bound: Leakage, mechanism: Noise, chain: MarkovChain) -> float:
    """Return what this very noise leaks at least: far answers under the attack of a bound.

    0 where there is no attack, or the query is neither a count nor a histogram. Cost O(T k^2).

    >>> from undertow import Count, Laplace
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(far_attained(exchange_leakage(1.0, chain), Laplace(Count(1), 1.0), chain), 6)
    3.474873
    """
    if bound.witness is None or not isinstance(mechanism, Scaled):
        return 0.0
    free = replace(bound, upper=math.inf)
    if mechanism.query.named:
        return _far_count(free, mechanism, chain).lower
    if mechanism.query.per_state and bound.witness.histories is None:
        return _far_histogram(free, bound.witness, mechanism.scale, chain).lower
    return 0.0


def _far_count(bound: Leakage, mechanism: Scaled, chain: MarkovChain) -> Leakage:
    """Return the exchange bound with a lower end that far answers of this count attain."""
    attack = bound.witness
    if attack is None:
        return bound.upper_only()
    tries = [
        replay_count(
            replace(attack, output=output, sets=()), chain, mechanism.query.named, mechanism.scale
        )
        for output in (0, -1)
    ]
    witness, value = max(tries, key=lambda each: each[1])
    return replace(bound, lower=min(max(down(value, 256), 0.0), bound.upper), witness=witness)


def _histogram(bound: Leakage, mechanism: Scaled, chain: MarkovChain, against: Against) -> Leakage:
    """Return where the exchange bound and the windows of a histogram meet."""
    bracket = bound.upper_only()
    if bound.witness is not None:
        bracket = _far_histogram(bound, bound.witness, mechanism.scale, chain)
    # where far answers attain the bound there is nothing to gain
    exact = None
    if not bracket.closed:
        exact = _unless_spent(lambda: _windows(mechanism.scale, chain, against))
    if exact is not None:
        bracket = meet(exact, bracket) if exact.upper < bracket.upper else meet(bracket, exact)
    return bracket


def _windows(scale: float, chain: MarkovChain, against: Against) -> Leakage | None:
    """Return what the windows of a histogram prove; what holds against any holds against one."""
    if not isinstance(against, Adversary):
        return histogram_leakage(scale, chain, against)
    leak = histogram_leakage(scale, chain, "any" if against.known else "ignorant")
    return None if leak is None else replace(leak.upper_only(), against=against)


def _far_histogram(bound: Leakage, attack: Witness, scale: float, chain: MarkovChain) -> Leakage:
    """Return the exchange bound with a lower end that this histogram attains.

    Far answers, the bins of a set S too high and all others too low, have likelihood
    exp((2 / scale) #{t : x_t in S}) up to a factor: a product likelihood with one set throughout.
    """
    others = [s for s in chain.states if s not in (attack.value, attack.other)]
    if len(others) <= 6:
        sets = [
            (attack.value, *rest)
            for size in range(len(others) + 1)
            for rest in combinations(others, size)
        ]
    else:
        used = {states for _, states in attack.sets if attack.value in states}
        sets = [(attack.value,), *(s for s in used if attack.other not in s)]
    losses = [
        (replay_count(replace(attack, output=-1, sets=()), chain, members, scale / 2)[1], members)
        for members in sets
    ]
    value, members = max(losses, key=lambda pair: pair[0])
    witness = replace(attack, sets=((attack.target, tuple(members)),))
    return replace(bound, lower=min(max(down(value, 256), 0.0), bound.upper), witness=witness)


PROVERS: tuple[Prover, ...] = (
    AnswerProver("chain", MarkovChain, leakage),
    PartsProver(),
    ChannelProver("chain, channel", MarkovChain, chain_leakage),
    WindowProver("chain, window", MarkovChain, window_leakage),
    CountWindowProver(),
)
