"""What an audit may overlook by scores alone: answers sorted into a few classes.

A score rises with the evidence that the plan's own law allows. Code that is not what the plan says
may show something else: the parity of a count, because its noise is even; that two neighbours
differ, because one coin flipped both. So answers also get labels, small whole numbers without an
order, and an audit learns from one half of its draws which of them speak for a value.
"""

from collections.abc import Callable

import numpy as np

from undertow.auditing.blackbox import Batch
from undertow.auditing.statistical import Labels

__all__ = ["MODULI", "Labelled", "number_labels", "pair_labels"]

Labelled = tuple[Callable[[Batch], Labels], tuple[str, ...]]
"""Answers in, a row for each and a column for each way to sort them out; and the columns' names."""

MODULI = (2, 3, 5, 7)
"""Divisors whose remainders are looked at: noise that is a multiple of one of them shows there."""

NEAR = 16
"""How far from the middle single answers are looked at."""

_NUMBERS = 4
_NEIGHBOURS = 4
_MOST = 256
_LARGEST = 2.0**60
"""Released numbers with labels, neighbours of the target on either side, labels of a column at
most, and the largest number of steps that has a remainder."""


def number_labels(base: float, step: float, middles: tuple[int, ...]) -> Labelled:
    """Return the labels of released numbers: remainders of each, and how far from its middle it is.

    An answer is base + k step, and k is what is labelled. ``middles`` has a k for each released
    number; single values up to 16 around it have a label each.

    >>> label, names = number_labels(0.0, 1.0, (3,))
    >>> names
    ('released number modulo 2', ... 'released number around 3, from -16 to 16')
    >>> label(np.array([[4.0], [5.0], [-90.0]])).tolist()
    [[0, 1, 4, 4, 17], [1, 2, 0, 5, 18], [0, 0, 0, 1, 0]]
    """
    shown = middles[:_NUMBERS]
    names: list[str] = []
    for place, middle in enumerate(shown):
        name = "released number" if len(middles) == 1 else f"released number {place}"
        names += [f"{name} modulo {modulus}" for modulus in MODULI]
        names += [f"{name} around {middle}, from {-NEAR} to {NEAR}"]

    def label(answers: Batch) -> Labels:
        steps = np.rint((answers[:, : len(shown)] - base) / step)  # (draws, numbers)
        columns: list[Batch] = []
        for place, middle in enumerate(shown):
            lone = min(place, steps.shape[1] - 1)  # code may answer with fewer numbers
            found = np.clip(steps[:, lone], -_LARGEST, _LARGEST).astype(np.int64)  # (draws,)
            columns += [found % modulus for modulus in MODULI]
            columns += [np.clip(found - middle, -NEAR, NEAR) + NEAR]
        return np.stack(columns, axis=1).astype(np.uint8)  # (draws, labels)

    return label, tuple(names)


def pair_labels(target: int, length: int, outputs: int) -> Labelled:
    """Return the labels of a series: the target's output with that of each neighbour, and of both.

    ``target`` is the place of the target among ``length`` shown records; a record has one of so
    many ``outputs``. With too many outputs to tell all pairs apart there are no labels.

    >>> label, names = pair_labels(1, 3, 2)
    >>> names[0]
    'outputs of records 0 and 1 of 3'
    >>> label(np.array([[1, 0, 1]], dtype=np.uint8)).tolist()
    [[2, 1, 5]]
    """
    near = range(max(target - _NEIGHBOURS, 0), min(target + _NEIGHBOURS + 1, length))
    groups = [tuple(sorted((target, other))) for other in near if other != target]
    if 0 < target < length - 1:
        groups.append((target - 1, target, target + 1))
    groups = [group for group in groups if outputs ** len(group) <= _MOST]
    names = tuple(
        f"outputs of records {' and '.join(map(str, group))} of {length}" for group in groups
    )

    def label(shown: Batch) -> Labels:
        made = np.zeros((len(shown), len(groups)), dtype=np.uint8)
        for column, group in enumerate(groups):
            for record in group:  # digits of a number in base ``outputs``, below 256
                made[:, column] = made[:, column] * outputs + shown[:, record].astype(np.uint8)
        return made  # (draws, labels)

    return label, names
