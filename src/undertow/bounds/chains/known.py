"""What can occur and what can be known on a chain, and how a leakage on a chain is stated."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.certificate import Leakage, Witness
from undertow.errors import Contradiction, InvalidInput
from undertow.models.markov import MarkovChain
from undertow.numerics import Array

__all__ = [
    "SHOWN",
    "Bools",
    "Ints",
    "check_inside",
    "complete",
    "extremes",
    "far_supports",
    "informed_targets",
    "joined",
    "log",
    "nearest_known",
    "neighbours",
    "ordered_pairs",
    "stated",
    "support_cycle",
    "supports",
    "witnessed",
]

Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

SHOWN = 256
"""Longest series whose known records are all listed; beyond, only the nearest, which matter."""


def log(values: Array) -> Array:
    """Return the logarithm, -inf at 0 without a warning.

    >>> log(np.array([1.0, 0.0]))
    array([  0., -inf])
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def ordered_pairs(size: int) -> tuple[Ints, Ints]:
    """Return all ordered pairs of distinct states as two index arrays.

    >>> ordered_pairs(2)
    (array([0, 1]), array([1, 0]))
    """
    value, other = np.nonzero(~np.eye(size, dtype=bool))
    return value.astype(np.int64), other.astype(np.int64)


def joined(*parts: Array) -> Array:
    """Return what the sides of a target and its own output give together.

    Given the target they are independent, so their logarithms add; what cannot occur on one of
    them (-inf) cannot occur at all, however much another gives.

    >>> joined(np.array([1.0, -np.inf]), np.array([2.0, np.inf]))
    array([  3., -inf])
    """
    never = np.isneginf(parts).any(axis=0)  # one impossible part makes the whole impossible
    return np.asarray(
        sum(np.where(never, 0.0, part) for part in parts) + np.where(never, -np.inf, 0.0)
    )


@lru_cache(maxsize=16)
def support_cycle(chain: MarkovChain) -> tuple[Bools, int]:
    """Return which states can occur at the first records, (records, k), and the period.

    Of one transition matrix the rows end before the first that came before, ``period`` rows
    earlier; where the steps differ there is a row for each record, and no period (0).
    """
    rows, first = [chain.initial > 0], dict[bytes, int]()
    while rows[-1].tobytes() not in first:
        if chain.homogeneous:
            first[rows[-1].tobytes()] = len(rows) - 1
        elif len(rows) > len(chain.transition):
            return np.array(rows), 0
        rows.append((rows[-1].astype(float) @ (chain.step(len(rows) - 1) > 0)) > 0)
    return np.array(rows[:-1]), len(rows) - 1 - first[rows[-1].tobytes()]


def supports(chain: MarkovChain, end: int, first: int = 0) -> Bools:
    """Return which states can occur at records first .. end - 1, (records, k).

    Arrows are followed, not probabilities, so nothing underflows.

    >>> supports(MarkovChain([[.5, .5], [0, 1]], start=[1, 0]), 3)
    array([[ True, False],
           [ True,  True],
           [ True,  True]])
    """
    rows, period = support_cycle(chain)
    place, count = np.arange(first, end), len(rows)
    if period:
        # past the last row they repeat
        place = np.where(place < count, place, count - period + (place - count) % period)
    return np.asarray(rows[place])


def far_supports(matrix: Array) -> Bools:
    """Return which states a transition matrix leads to in the long run, (from, to).

    After at least k^2 steps. Past k^2 - 2 k + 2 of them all moves are possible, or never will be;
    and supports of two rows that have met stay joined.

    >>> far_supports(np.array([[0, 1], [1, 0]]))
    array([[ True, False],
           [False,  True]])
    """
    far, steps = matrix > 0, 1
    while steps < len(matrix) ** 2:
        far, steps = (far.astype(float) @ far.astype(float)) > 0, 2 * steps
    return np.asarray(far)


def nearest_known(against: Against, window: int = 1) -> tuple[int, int]:
    """Return how far an explicit attacker's nearest known records are, left and right, 0 for none.

    From the first and from the last record of the ``window`` that is wanted, none of it known.

    >>> nearest_known(Adversary(3, [0, 1, 8])), nearest_known("any")
    ((2, 5), (0, 0))
    >>> nearest_known(Adversary(3, [0, 1, 8]), window=4)
    (2, 2)
    """
    if not isinstance(against, Adversary):
        return 0, 0
    gaps = [record - against.target for record in against.known]
    left, right = (-gap for gap in gaps if gap < 0), (gap - window + 1 for gap in gaps if gap > 0)
    return min(left, default=0), min(right, default=0)


def check_inside(against: Against, records: int | None, targets: Iterable[int] = ()) -> None:
    """Refuse targets and known records beyond the last record; None stands for no last one."""
    named = (against.target, *against.known) if isinstance(against, Adversary) else ()
    last = max((*named, *targets), default=-1)
    if records is not None and last >= records:
        raise InvalidInput(
            f"record {last} is outside: the chain has {records} records, counted from 0"
        )


def complete(chain: MarkovChain, known: dict[int, int], target: int, length: int) -> dict[int, int]:
    """Return the known records with all others outside the nearest ones filled in.

    Any values will do that can occur together with the nearest ones. Longer series than `SHOWN`
    are left alone.

    >>> complete(MarkovChain([[.9, .1], [.2, .8]]), {3: 1}, target=1, length=6)
    {3: 1, 4: 1, 5: 1}
    """
    path = dict(known)
    if length <= SHOWN:
        left = max((record for record in known if record < target), default=0)
        right = min((record for record in known if record > target), default=length)
        for record in range(left - 1, -1, -1):
            # (k,): Pr[state, the next one], any positive one will do
            back = chain.law(record) * chain.step(record)[:, path[record + 1]]
            path[record] = int(back.argmax())
        for record in range(right + 1, length):
            path[record] = int(chain.step(record - 1)[path[record - 1]].argmax())
    return dict(sorted(path.items()))


def neighbours(
    chain: MarkovChain, target: int, records: int
) -> Iterator[tuple[dict[int, int], list[tuple[int, int]]]]:
    """Yield what the neighbours of a target may be known to be, and the pairs of values left.

    Whoever knows all other records knows both neighbours, and nothing beyond them matters.
    """
    inside = chain.initial > 0
    lefts: list[tuple[dict[int, int], Bools]] = [({}, inside)]
    if target:
        before = np.flatnonzero(supports(chain, target, target - 1)[0])
        lefts = [({target - 1: int(u)}, chain.step(target - 1)[u] > 0) for u in before]
    rights: list[tuple[dict[int, int], Bools]] = [({}, np.ones_like(inside))]
    if target < records - 1:
        rights = [({target + 1: v}, chain.step(target)[:, v] > 0) for v in range(chain.size)]
    for left, ahead in lefts:
        for right, back in rights:
            yield left | right, [*permutations(np.flatnonzero(ahead & back).tolist(), 2)]


def informed_targets(chain: MarkovChain) -> Iterator[Witness]:
    """Yield, for every pair of values that a target can take between known neighbours, one target.

    A pair may be possible at an end of the series alone, or only early on; positions are looked
    through until supports must have repeated, and the last two.

    >>> [attack.target for attack in informed_targets(MarkovChain([[.5, .5], [.5, .5]], length=2))]
    [0, 0]
    """
    records = chain.length or 3 + chain.size**2
    limit = records if not chain.homogeneous else min(records, 3 + 2 * chain.size**2)
    found: set[tuple[int, int]] = set()
    for target in sorted({*range(limit), max(records - 2, 0), records - 1}):
        for known, pairs in neighbours(chain, target, records):
            for x, y in pairs:
                if (x, y) not in found:
                    found.add((x, y))
                    path = complete(chain, known, target, records)
                    yield witnessed(chain, target, records, path, (x, y))
        if len(found) == chain.size * (chain.size - 1):
            return


def witnessed(
    chain: MarkovChain, target: int, length: int, known: dict[int, int],
    pair: tuple[int, int] | tuple[tuple[int, ...], tuple[int, ...]], **seen: Any,
) -> Witness:  # fmt: skip
    """Return an attack in the names of the states: what is known, and what is compared.

    Two values of the target, or two histories of a window that begins with it.

    >>> witnessed(MarkovChain([[.5, .5], [.5, .5]], ("a", "b")), 1, 3, {0: 1}, (0, 1)).known
    ((0, 'b'),)
    """
    names = chain.states
    told = tuple((record, names[state]) for record, state in sorted(known.items()))
    one, two = (each if isinstance(each, tuple) else (each,) for each in pair)
    if len(one) > 1:
        seen["histories"] = tuple(tuple(names[state] for state in each) for each in (one, two))
    return Witness(target, length, told, names[one[0]], names[two[0]], **seen)


def extremes(ratios: Array, axis: int | tuple[int, ...]) -> tuple[Array, Array]:
    """Return the least and the largest along some axes; NaN (0 / 0, not an option) is neither."""
    none = np.isnan(ratios)
    low, high = np.where(none, np.inf, ratios), np.where(none, -np.inf, ratios)
    return np.asarray(low.min(axis=axis)), np.asarray(high.max(axis=axis))


def stated(
    method: str, citation: str, lower: float, upper: float, against: Against,
    witness: Witness | None = None, *, more: tuple[str, ...] = (), **parts: Any,
) -> Leakage:  # fmt: skip
    """Return a leakage on a chain with its one assumption, that the records follow the chain.

    Raises `Contradiction` where an attack exceeds what was proved: then one of them is wrong.
    """
    if lower > upper:
        raise Contradiction(
            f"an attack attains {lower!r}, but at most {upper!r} was proved possible; please "
            "report the model and the mechanism"
        )
    return Leakage(
        lower, upper, method, against, witness,
        assumptions=("the records follow the stated Markov chain", *more),
        citation=citation, **parts,
    )  # fmt: skip
