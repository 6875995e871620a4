"""The pairs of laws of a count on a chain whose steps differ, or whose start is given.

No position is like another here: for every target the sides are those of its own place, up to the
ends of the series. All windows are enumerated, so that nothing is charged for longer sides, and
chains must be short.
"""

from functools import lru_cache

import numpy as np

from undertow.bounds.approximate.counts import CountSide, side_options, window_laws
from undertow.bounds.chains.known import Ints, complete, ordered_pairs, witnessed
from undertow.bounds.tabulated.pairs import CountPairs
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, pad_log

__all__ = ["VaryingPairs", "varying_pairs"]

LARGEST = 6e6
"""Most entries of the laws of all windows (memory and cost)."""


class VaryingPairs:
    """The pairs of a chain, position by position, and the attack that each of them stands for.

    ``places`` (pairs, 7): the target, its two values, and on each side the distance of the known
    record and its value, -1 where nothing is known.
    """

    def __init__(self, chain: MarkovChain, counted: tuple[bool, ...], ignorant: bool) -> None:
        """Enumerate the windows of every target."""
        self.chain, self.counted = chain, counted
        records, marks = _length(chain), np.array(counted)
        laws: list[Array] = []
        others: list[Array] = []
        places: list[Ints] = []
        marginals = chain.marginals(records)
        back = _backwards(chain, marginals)
        for target in range(records):
            steps = [back[t] for t in range(target - 1, -1, -1)]
            ahead = [chain.step(t) for t in range(target, records - 1)]
            left, right = (side_options(side, marks, not ignorant) for side in (steps, ahead))
            options = _options(left, right)
            for x, y in zip(*ordered_pairs(chain.size), strict=True):
                if min(marginals[target, x], marginals[target, y]) == 0:
                    continue
                # (options,): what is known can occur with either value
                seen = [
                    (side.prior[options[:, i]][:, [x, y]] > 0).all(axis=1)
                    for i, side in enumerate((left, right))
                ]
                own = options[seen[0] & seen[1]]
                for found, value in ((laws, x), (others, y)):
                    made = window_laws(left, right, own, int(value), counted[value])
                    # the sides' counts and the target's: padded to those of the whole series
                    found.append(np.pad(made, ((0, 0), (0, records + 3 - made.shape[1]))))
                ends = [
                    np.where(side.shut, entry, -1)[own[:, i]]
                    for i, side in enumerate((left, right))
                    for entry in (side.span, side.value)
                ]
                places.append(np.stack([*np.tile([[target], [x], [y]], len(own)), *ends], axis=1))
        # both sides: a step, a division by marginals for each record, what is known, convolution
        steps_pad = 4 * records * pad_log(records + 4, chain.size)
        pad = 2 * pad_log(2 * records + 4, chain.size) + 2 * pad_log(records + 8, 1) + steps_pad
        first, second = np.concatenate(laws), np.concatenate(others)
        self.places: Ints = np.concatenate(places)
        none = np.zeros(len(first))
        self.pairs = CountPairs(first, second, none, none == 0, pad)

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a window at an answer, less what known records contribute."""
        target, x, y, *ends = (int(part) for part in self.places[where])
        signs = ((-1, ends[0], ends[1]), (1, ends[2], ends[3]))
        known = {target + sign * far: value for sign, far, value in signs if value >= 0}
        own = sum(self.counted[value] for value in known.values())
        records = _length(self.chain)
        told = complete(self.chain, known, target, records)
        return witnessed(self.chain, target, records, told, (x, y), output=answer - own)


def varying_pairs(chain: MarkovChain, counted: tuple[bool, ...], ignorant: bool) -> VaryingPairs:
    """Return all windows of a chain of a stated length, or refuse one with too many of them.

    >>> chain = MarkovChain([[.9, .1], [.3, .7]], start=[1, 0], length=2)
    >>> varying_pairs(chain, (False, True), False).pairs.laws.shape  # the second record alone
    (4, 5)
    """
    records = chain.length
    if records is None:
        raise NotSupported(
            "the windows of a count are enumerated for stationary chains, and for chains of a "
            "stated length; use method='exact' or 'exchange'"
        )
    wide = 1 if ignorant else (records * chain.size / 2) ** 2
    if records**2 * wide * chain.size * (chain.size - 1) > LARGEST:
        raise NotSupported(
            f"the windows of {records} records whose steps differ, or whose start is given, are "
            "too many to enumerate; use method='exact' or 'exchange'"
        )
    return _varying_pairs(chain, counted, ignorant)


_varying_pairs = lru_cache(maxsize=2)(VaryingPairs)


def _length(chain: MarkovChain) -> int:
    """Return the number of records, which is stated here."""
    return chain.length or 0


def _backwards(chain: MarkovChain, marginals: Array) -> list[Array]:
    """Return Pr[record t | record t + 1] for every t, rows of impossible states 0."""
    made = []
    for t in range(len(marginals) - 1):
        joint = marginals[t][:, None] * chain.step(t)  # (state at t, state at t + 1)
        after = marginals[t + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            made.append(np.where(after[:, None] > 0, joint.T / after[:, None], 0.0))
    return made


def _options(left: CountSide, right: CountSide) -> Ints:
    """Return what may be known on both sides together: open sides reach to the ends, (options, 2).

    Open after fewer records than there are is no option of this target.
    """
    each = [
        np.flatnonzero(side.shut | (side.span == side.span.max())) for side in (left, right)
    ]  # fmt: skip
    first, second = np.meshgrid(*each, indexing="ij")
    return np.stack([first.ravel(), second.ravel()], axis=1)
