"""Leakage of every mechanism on a class of chains, through the level of the algorithm."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.channels.quilts import Bound, approximate_influence, pruned_search
from undertow.bounds.groups import group_leakage
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.sides import log
from undertow.bounds.levels.sweep import contraction_upper
from undertow.bounds.metric import by_spread, refused, spread_level
from undertow.bounds.protocol import AnswerProver, Prover, WindowProver
from undertow.certificate import Leakage
from undertow.errors import Contradiction, NotSupported
from undertow.mechanisms import Levelled, MetricDP, PureDP
from undertow.models.chains import MarkovChain
from undertow.models.classes import ChainBox, MixingClass
from undertow.numerics import MAX_STEPS, ROUNDOFF, Array, check_epsilon, up
from undertow.progress import metered

__all__ = [
    "PROVERS",
    "box_leakage",
    "boxes_leakage",
    "chain_ceilings",
    "contraction_leakage",
    "leakage",
    "window_leakage",
]


_WIDTH = 1e-3
"""Relative width at which the search stops; the interval is certified at any width."""
_SPLITS, _EFFORT = 16, 1_000_000
"""Boxes quartered in one round, and records swept (times boxes) after which there is no further
round (cost; the interval then stays wider)."""
_SWEEPS = (64, 512, MAX_STEPS)
"""Records swept on a side before the tail bound takes over: as few as will do (cost)."""
_TAIL = 1e-4
"""What the tail bound may add before a longer sweep is tried, relative to max(1, leakage)."""
_SURE = 200.0
"""Log-odds of the chain tried where a box reaches to infinite ones: probabilities near 1e-87."""
_BEYOND = 1e-12
"""By how much a diagonal may seem to exceed the trace of a box before a part is dropped (upper
side)."""
_ODDS = 1e-11
"""Widening of the log-odds of a chain, outwards: above their rounding, and that of its rows."""
_HUGE = 1e4
"""Stands for an infinite log-ratio: beyond all log-odds of floating-point numbers."""


def box_leakage(
    epsilon: float, box: ChainBox, against: Against = "any", window: int = 1
) -> Leakage:
    """Return the worst leakage of all epsilon-DP algorithms over all chains of a box, certified.

    ``lower`` is attained on a chain of the box, by the witness; ``upper`` holds on every chain of
    it, with a stationary start. Against an `Adversary` who knows some records the upper end is the
    one against "any". It may be infinite for a box with zeros. Cost O(T) per box that is split,
    with T records on a side until the slowest chain forgets.

    >>> box = ChainBox([[.87, .11], [.29, .68]], [[.89, .13], [.32, .71]])
    >>> leak = box_leakage(1.0, box)
    >>> round(leak.lower, 2), leak.upper - leak.lower < 4e-3
    (3.66, True)
    """
    if box.size == 2:
        return boxes_leakage(epsilon, [box], against, window)
    return contraction_leakage(check_epsilon(epsilon), box, against, window)


def contraction_leakage(
    epsilon: float, box: ChainBox, against: Against = "any", window: int = 1
) -> Leakage:
    """Return the worst leakage of all epsilon-DP algorithms over a box of any number of states.

    ``upper`` holds against every adversary, on every chain of the box, and is infinite for a box
    with zeros and no length; ``lower`` is attained on the chain of the box whose states last
    longest, by an algorithm of the next lower power of two, so that a search for a level asks for
    few of these. Cost as `contraction_upper`, and one exchange.

    >>> low = [[.6, .1, .1], [.1, .6, .1], [.1, .1, .6]]
    >>> box = ChainBox(low, [[.8, .3, .3], [.3, .8, .3], [.3, .3, .8]])
    >>> leak = contraction_leakage(0.25, box)
    >>> round(leak.lower, 2), round(leak.upper, 2)
    (1.47, 1.71)
    """
    upper = up(window * epsilon)
    if against != "informed":
        upper = contraction_upper(epsilon, box, window)
    lower, witness = 0.0, None
    if math.isfinite(upper):  # else some state may never be left, and nothing need be attained
        example = _attained(2.0 ** math.floor(math.log2(epsilon)), box, against, window)
        lower, witness = min(example.lower, upper), example.witness
    return Leakage(
        lower, upper, "exchange", against, witness,
        assumptions=("the records follow one of the chains of the box, with a stationary start",),
        citation="contraction of likelihood ratios (docs, theory)",
    )  # fmt: skip


@metered(16)
def _attained(epsilon: float, box: ChainBox, against: Against, window: int) -> Leakage:
    """Return what is attained on the chain of a box whose states last longest."""
    return exchange_leakage(epsilon, box.lasting(), against, window)


def boxes_leakage(
    epsilon: float, boxes: Sequence[ChainBox], against: Against = "any", window: int = 1
) -> Leakage:
    """Return the worst leakage over all chains of several boxes of one length: one search for all.

    The boxes are of two states.

    >>> box = ChainBox([[.87, .11], [.29, .68]], [[.89, .13], [.32, .71]])
    >>> tame = ChainBox([[.5, .4], [.4, .5]], [[.6, .5], [.5, .6]])
    >>> boxes_leakage(1.0, [tame, box]) == box_leakage(1.0, box)
    True
    """
    epsilon = check_epsilon(epsilon)
    box, length = boxes[0], boxes[0].length
    low, high = (np.stack(ends) for ends in zip(*map(_log_odds, boxes), strict=True))  # (J, 2)
    most = np.array([math.inf if held.trace is None else held.trace for held in boxes])  # (J,)
    if against == "informed":
        bracket = exchange_leakage(epsilon, _chain(box, _middle(low[0], high[0])), against, window)
        return _conclude(bracket, _own(epsilon, window), against)
    if len(boxes) == 1 and np.array_equal(box.lower, box.upper):
        chain = MarkovChain(box.lower, box.states, length=length)
        bracket = exchange_leakage(epsilon, chain, against, window)
        return _conclude(bracket, bracket.upper, against)
    one = isinstance(against, Adversary)
    known = bool(against.known) if isinstance(against, Adversary) else against == "any"
    upper, worst, place = _search(low, high, epsilon, known, length, window, most)
    tried = [(boxes[place], worst)]
    if one:
        for held, ends, trace in zip(boxes, zip(low, high, strict=True), most, strict=True):
            corners = map(np.array, product(*zip(*ends, strict=True)))
            tried += [(held, odds) for odds in corners if _diagonal(odds) <= trace]
    leaks = [exchange_leakage(epsilon, _chain(held, odds), against, window) for held, odds in tried]
    return _conclude(max(leaks, key=lambda leak: leak.lower), upper, against)


def _own(epsilon: float, window: int) -> float:
    """Return what the records wanted add by themselves, rounded up."""
    return epsilon if window == 1 else up(window * epsilon)


def _conclude(example: Leakage, upper: float, against: Against) -> Leakage:
    if example.lower > upper:
        raise Contradiction(
            f"a chain of the box leaks at least {example.lower}, and the bound over the box is "
            f"{upper}; please report the box and the level"
        )
    return Leakage(
        example.lower, upper, "exchange", against, example.witness,
        assumptions=("the records follow one of the chains of the box, with a stationary start",),
        citation="exchange-rate theorem (docs, theory)",
    )  # fmt: skip


def _log_odds(box: ChainBox) -> tuple[Array, Array]:
    """Return the least and the largest log-odds of state 0 after 0 and after 1, each (2,)."""
    # (state, next): a row sums to 1, which may narrow the box
    least = np.maximum(np.maximum(box.lower, 1 - box.upper[:, ::-1]), 0.0)
    most = np.minimum(box.upper, 1 - box.lower[:, ::-1])
    least, most = log(least), log(most)
    low, high = least[:, 0] - most[:, 1], most[:, 0] - least[:, 1]  # (2,): ln P(x, 0) / P(x, 1)
    return np.minimum(low, high), np.maximum(low, high)  # they may cross by a rounding


def _chain(box: ChainBox, odds: Array) -> MarkovChain:
    """Return the chain of the box with these log-odds, or one near it with finite ones."""
    low, high = _log_odds(box)
    finite = np.clip(np.clip(odds, -_SURE, _SURE), low, high)
    with np.errstate(over="ignore"):
        matrix = 1 / (1 + np.exp(np.stack([-finite, finite], axis=1)))  # (2, 2)
    return MarkovChain(np.clip(matrix, box.lower, box.upper), box.states, length=box.length)


def _middle(low: Array, high: Array) -> Array:
    return np.clip((np.clip(low, -40, 40) + np.clip(high, -40, 40)) / 2, low, high)


def _search(
    low: Array,
    high: Array,
    epsilon: float,
    known: bool,
    length: int | None,
    window: int,
    most: Array,
) -> tuple[float, Array, int]:
    """Return a ceiling over boxes of log-odds (J, 2), the worst point, and its box.

    In each box only diagonals that sum to at most ``most`` (J,) count.
    """
    lows, highs, places = low, high, np.arange(len(low))  # (boxes, 2), and of which each is a part
    # the middle, and the corners where states last longest and shortest
    points = np.concatenate(
        [_middle(low, high), np.stack([high[:, 0], low[:, 1]], axis=1),
         np.stack([low[:, 0], high[:, 1]], axis=1)]
    )  # fmt: skip
    whose = np.tile(places, 3)  # (points,)
    # the least diagonal is that of the last corners, which every trace allows
    tops, best, worst, place = np.full(len(low), math.inf), -math.inf, points[-1], len(low) - 1
    fresh, effort = places, 0
    while True:
        boxes = np.concatenate([lows[fresh], points]), np.concatenate([highs[fresh], points])
        ceilings, swept = _ceilings(*boxes, epsilon, known, length, window)
        effort += swept
        tops[fresh] = np.minimum(tops[fresh], ceilings[: len(fresh)])
        values = ceilings[len(fresh) :]  # (points,)
        values = np.where(_diagonal(points) <= most[whose], values, -math.inf)
        if values.max() > best:
            best, top = float(values.max()), int(values.argmax())
            worst, place = points[top], int(whose[top])
        goal = best + 0.7 * _WIDTH * max(1.0, best)
        if tops.max() <= goal or best == math.inf or effort > _EFFORT * len(low):
            return float(tops.max()), worst, place
        order = np.argsort(-tops)[:_SPLITS]  # the highest ceilings are split first
        order = order[tops[order] > goal]
        keep = np.delete(np.arange(len(tops)), order)
        parts = _halve(*_halve(lows[order], highs[order]))
        # a part leaks no more than the whole; one beyond the trace has none of the chains
        least = _diagonal(np.stack([parts[0][:, 0], parts[1][:, 1]], axis=1))
        whose = np.tile(places[order], 4)
        near = least <= most[whose] + _BEYOND
        parts, above = (parts[0][near], parts[1][near]), np.tile(tops[order], 4)[near]
        whose = whose[near]
        lows = np.concatenate([lows[keep], parts[0]])
        highs = np.concatenate([highs[keep], parts[1]])
        tops = np.concatenate([tops[keep], above])
        places = np.concatenate([places[keep], whose])
        fresh, points = np.arange(len(keep), len(tops)), _middle(*parts)


def _diagonal(odds: Array) -> Array:
    """Return P(0,0) + P(1,1) at log-odds (..., 2)."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-odds[..., 0])) + 1 / (1 + np.exp(odds[..., 1])))


def chain_ceilings(epsilon: float, chains: Sequence[MarkovChain], against: Against) -> Array:
    """Return for each of N stationary two-state chains a leakage that it does not exceed, (N,).

    For any algorithm of this level, against anyone if somebody knows something. One sweep for
    all: far quicker than N leakages, and a little above them. Chains are of one length.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> chain_ceilings(1.0, [chain], "any").round(3)
    array([3.475])
    """
    matrices = np.stack([chain.transition for chain in chains])  # (N, state, next)
    odds = log(matrices[:, :, 0]) - log(matrices[:, :, 1])  # (N, 2)
    with np.errstate(invalid="ignore"):
        pad = np.where(np.isfinite(odds), _ODDS * (1 + np.abs(odds)), 0.0)
    known = bool(against.known) if isinstance(against, Adversary) else against != "ignorant"
    return _ceilings(odds - pad, odds + pad, epsilon, known, chains[0].length)[0]


def _halve(low: Array, high: Array) -> tuple[Array, Array]:
    """Return both halves of every box, cut across its wider side."""
    middle = _middle(low, high)
    # (boxes,): the wider of a and b
    wide = np.argmax(np.clip(high, -40, 40) - np.clip(low, -40, 40), axis=1)
    row = np.arange(len(low))
    left, right = high.copy(), low.copy()
    left[row, wide] = right[row, wide] = middle[row, wide]
    return np.concatenate([low, right]), np.concatenate([left, high])


def _ceilings(
    low: Array, high: Array, epsilon: float, known: bool, length: int | None, window: int = 1
) -> tuple[Array, int]:
    """Return for each of N boxes of log-odds (N, 2) a leakage that none of its chains exceeds.

    And how many records were swept, times boxes.
    """
    result = np.full(len(low), math.inf if length is None else up(length * epsilon))
    todo, swept = np.arange(len(low)), 0
    for steps in _SWEEPS:
        swept += len(todo) * (steps if length is None else min(steps, length - 1))
        tops, closed = _enclose(low[todo], high[todo], epsilon, known, length, steps, window)
        result[todo] = np.minimum(result[todo], tops)
        todo = todo[~closed]
        if not todo.size:
            break
    return result, swept


def _enclose(
    low: Array, high: Array, epsilon: float, known: bool, length: int | None, steps: int,
    window: int = 1,
) -> tuple[Array, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:  # fmt: skip
    """Return ceilings (N,) from sides of up to ``steps`` records, and whether more would not help.

    Columns: nothing known; then the side with a known 0 and with a known 1 at its end, whose
    ratios l are carried along in two more.
    """
    count, own = len(low), _own(epsilon, window)
    # records on both sides together, of a window as of a target
    around = None if length is None else length - window
    room = steps if around is None else min(steps, around)
    # (columns,): the ratios l carry no output
    share = np.where(np.arange(5 if known else 1) < 3, epsilon, 0.0)
    least, most, left, right = np.zeros((4, count, len(share)))  # (N, columns): of R, and of l
    if known:
        least[:, 3:], most[:, 3:] = _first_ratios(low, high)
    gains = np.zeros((room + 1, count, 2, 3 if known else 1))  # (records, N, direction, columns)
    for step in range(1, room + 1):
        left[:, 1:3], right[:, 1:3] = least[:, 3:], most[:, 3:]
        least, most = _range(least - share, most + share, low, high, left, right)  # (N, columns)
        least[:, :3], most[:, :3] = np.minimum(least[:, :3], 0), np.maximum(most[:, :3], 0)
        gains[step, :, 0], gains[step, :, 1] = most[:, :3], -least[:, :3]
    gains = np.maximum.accumulate(gains, axis=0)
    # a side of m records holds m unknown ones, or fewer than m before a known one
    sides = gains[..., 0]  # (records, N, direction)
    sides[1:] = np.maximum(sides[1:], gains[:-1].max(axis=3))
    far, short = gains[-1].max(axis=2), around is not None and around <= room  # (N, direction)
    if not short:
        far = np.maximum(far, _tail(least, most, share, low, high))
    if around is None:
        tops = own + 2 * far.max(axis=1)  # both sides are worst in the same direction
    else:
        sides = np.concatenate([sides, far[None]])
        # the ends of a window may go in different directions
        best = sides if window == 1 else sides.max(axis=2, keepdims=True)
        shorter = np.arange(min(around // 2, room + 1) + 1)
        longer = np.minimum(around - shorter, room + 1)
        tops = own + (best[shorter] + best[longer]).max(axis=(0, 2))
    slack = _TAIL * np.maximum(1.0, epsilon + 2 * sides[room].max(axis=1))
    closed = short | ((far - sides[room]).max(axis=1) <= slack)
    return tops * (1 + 8 * ROUNDOFF), closed


def _first_ratios(low: Array, high: Array) -> tuple[Array, Array]:
    """Return the ranges of ln P(0,v)/P(1,v) for v = 0, 1, each (N, 2); infinite ones as huge."""
    (a_low, b_low), (a_high, b_high) = low.T, high.T

    def ratio(a: Array, b: Array, unknown: float) -> Array:
        with np.errstate(invalid="ignore"):
            exact = np.logaddexp(0, b) - np.logaddexp(0, a)
        return np.asarray(np.nan_to_num(exact, nan=unknown, posinf=_HUGE, neginf=-_HUGE))

    pad = 1e-12
    least = np.stack([ratio(-a_low, -b_high, -_HUGE), ratio(a_high, b_low, -_HUGE)], axis=1)
    most = np.stack([ratio(-a_high, -b_low, _HUGE), ratio(a_low, b_high, _HUGE)], axis=1)
    return least - pad, most + pad


def _range(
    least: Array, most: Array, low: Array, high: Array, left: Array, right: Array
) -> tuple[Array, Array]:
    """Return the range of M over R in [least, most], the box, and l in [left, right], outwards.

    All but the box have shape (N, columns). Each R is tried at both corners and at the extreme in
    l; what other l could add lies between there and 0, which the callers include.
    """
    R = np.array([least, most])[:, None]  # (ends of R, 1, N, columns)
    # (a or b, 1, corners, N, 1): M is monotone in a and in b, so two corners do
    odds = np.array([[high[:, 0], low[:, 0]], [low[:, 1], high[:, 1]]])[:, None, :, :, None]
    with np.errstate(invalid="ignore"):
        # (ends of R, corners, N, columns): the extreme in l
        l = np.minimum(np.maximum(-(R + odds[0] + odds[1]) / 2, left), right)
        after_0, after_1 = _fraction(R, odds + l)
        values = after_0 - after_1
    size = np.abs(R)  # |M(R)| <= |R| always, also where M is not known (NaN)
    pad = 16 * ROUNDOFF * (1000 + size)
    top = (np.fmin(values, size) + pad).max(axis=(0, 1))  # (N, columns)
    bottom = (np.fmax(values, -size) - pad).min(axis=(0, 1))
    return np.asarray(bottom), np.asarray(top)


def _fraction(R: Array, u: Array) -> Array:
    """Return F(R, u) = ln (1 + e^{u+R}) / (1 + e^u), also for infinite u."""
    v, taken = -np.abs(u), (u > 0) * R
    return np.asarray(taken + (np.logaddexp(0, v + (R - 2 * taken)) - np.log1p(np.exp(v))))


def _tail(least: Array, most: Array, share: Array, low: Array, high: Array) -> Array:
    """Return gains (N, 2) that no side exceeds after any number of further records.

    |M(l)| <= |l|, so all further l stay within what they are now; a range that M, with any such l,
    maps into itself is never left. It is sought by widening the present range.
    """
    columns = min(len(share), 3)
    limit = np.zeros((len(least), columns))  # (N, columns)
    limit[:, 1:] = np.maximum(np.abs(least), np.abs(most))[:, 3:]
    least, most = least[:, :columns], most[:, :columns]
    limits = np.full((len(least), 2, columns), np.inf)
    for widen in 1e-8 * 4.0 ** np.arange(17):
        wide_least, wide_most = least - widen, most + widen
        inner = _range(
            wide_least - share[:columns], wide_most + share[:columns], low, high, -limit, limit
        )
        # a range that M maps into itself is never left
        stays = (inner[0] >= wide_least) & (inner[1] <= wide_most)
        ends = np.stack([wide_most, -wide_least], axis=1)  # (N, direction, columns)
        limits = np.where(stays[:, None] & np.isinf(limits), ends, limits)
        if np.isfinite(limits).all():
            break
    return np.asarray(limits.max(axis=2))


def leakage(
    mechanism: Levelled | MetricDP, model: ChainBox | MixingClass, against: Against
) -> Leakage:
    """Return the worst case over a class of chains.

    >>> leakage(PureDP(1.0), MixingClass(2, 0.2, 0.5, 50), "ignorant").method
    'quilt-approx'
    """
    if isinstance(model, MixingClass):
        return replace(_mixing(refused(mechanism), model, against), valid_for="any")
    if isinstance(mechanism, MetricDP):
        return by_spread(leakage(spread_level(mechanism, model), model, against), model)
    bracket = box_leakage(mechanism.level_upper(model.length), model, against)
    bracket = replace(bracket, valid_for="any")
    return bracket if isinstance(mechanism, PureDP) else bracket.upper_only()


def window_leakage(
    level: float, model: ChainBox | MixingClass, against: Against, window: int
) -> Leakage:
    """Return what all algorithms of a DP level leak about a window, on any chain of a class.

    >>> box = ChainBox([[.87, .11], [.29, .68]], [[.89, .13], [.32, .71]])
    >>> 4.66 < window_leakage(1.0, box, "any", 2).upper < 4.67
    True
    """
    if isinstance(model, MixingClass):
        if against != "informed" and model.length is None:
            raise NotSupported(
                "how fast a chain mixes says nothing about a window of records; give the class a "
                "length, or the chain itself"
            )
        # whoever knows all others: the window; else every record of the series, whatever they do
        size = window if against == "informed" else model.length or window
        bracket = group_leakage(PureDP(level), size, "any", model.length)
        return replace(bracket, against=against, lower=0.0, assumptions=(model.describe(),))
    return box_leakage(level, model, against, window)


def _mixing(mechanism: Levelled, model: MixingClass, against: Against) -> Leakage:
    if against == "informed" or (against != "ignorant" and model.length is not None):
        size = 1 if against == "informed" else model.length or 1
        return replace(group_leakage(mechanism, size, against, model.length), lower=0.0)
    if against != "ignorant":
        raise NotSupported(
            "how fast a chain mixes bounds what an attacker learns who knows no other record; "
            "against one who knows some, give the class a length, or the chain itself"
        )
    quilt = pruned_search(
        lambda steps: approximate_influence(model.pi_min, model.gap, steps),
        model.length, Bound(mechanism.level_upper(model.length)),
    )  # fmt: skip
    return Leakage(
        0.0, up(quilt.value), "quilt-approx", against,
        assumptions=(model.describe(),), citation="Theorem 4.4 and Lemma 4.7 of [wang2016]",
    )  # fmt: skip


PROVERS: tuple[Prover, ...] = (
    AnswerProver("box", ChainBox, leakage),
    WindowProver("box, window", ChainBox, window_leakage),
    AnswerProver("mixing", MixingClass, leakage),
    WindowProver("mixing, window", MixingClass, window_leakage),
)
