"""What an audit may overlook by scores alone: answers sorted into a few classes.

A score rises with the evidence that the plan's own law allows. Code that is not what the plan says
may show something else: the parity of a count, because its noise is even; that two neighbours
differ, because one coin flipped both. So answers also get labels, small whole numbers without an
order, and an audit learns from one half of its draws which of them speak for a value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from undertow.auditing.blackbox import Batch
from undertow.auditing.statistical import Labels

__all__ = [
    "MODULI",
    "Labelled",
    "call_labels",
    "number_labels",
    "output_labels",
    "pair_labels",
]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A way to label answers: a row for each of them out, a column for each way to sort them.

    ``columns`` has the name of each column, and the names of its labels.

    >>> parity = Labelled(lambda answers: answers % 2, (("parity", ("even", "odd")),))
    >>> parity.words(0, (1,))
    'parity odd'
    """

    label: Callable[[Batch], Labels]
    columns: tuple[tuple[str, tuple[str, ...]], ...]

    def words(self, column: int, labels: tuple[int, ...]) -> str:
        """Return some labels of a column for people."""
        name, named = self.columns[column]
        return f"{name} {' or '.join(named[label] for label in labels)}"


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

    >>> found = number_labels(0.0, 1.0, (3,))
    >>> found.label(np.array([[4.0], [5.0], [-90.0]])).tolist()
    [[0, 1, 4, 4, 17], [1, 2, 0, 5, 18], [0, 0, 0, 1, 0]]
    >>> found.words(1, (0, 2)), found.words(4, (0, 17))
    ('the released number modulo 3 is 0 or 2', 'the released number is -13 or less or 4')
    """
    shown = middles[:_NUMBERS]
    columns: list[tuple[str, tuple[str, ...]]] = []
    for place, middle in enumerate(shown):
        name = "the released number" if len(middles) == 1 else f"released number {place}"
        columns += [(f"{name} modulo {m} is", tuple(map(str, range(m)))) for m in MODULI]
        near = [str(middle + offset) for offset in range(-NEAR, NEAR + 1)]
        near[0], near[-1] = f"{near[0]} or less", f"{near[-1]} or more"
        columns.append((f"{name}{', in steps,' * (step != 1)} is", tuple(near)))

    def label(answers: Batch) -> Labels:
        steps = np.rint((answers[:, : len(shown)] - base) / step)  # (draws, numbers)
        made: list[Batch] = []
        for place, middle in enumerate(shown):
            lone = min(place, steps.shape[1] - 1)  # code may answer with fewer numbers
            found = np.clip(steps[:, lone], -_LARGEST, _LARGEST).astype(np.int64)  # (draws,)
            made += [found % modulus for modulus in MODULI]
            made += [np.clip(found - middle, -NEAR, NEAR) + NEAR]
        return np.stack(made, axis=1).astype(np.uint8)  # (draws, labels)

    return Labelled(label, tuple(columns))


def call_labels(base: float, step: float, numbers: int, where: str) -> Labelled:
    """Return the labels of an answer beside those before and after it: remainders of differences.

    The three answers have so many ``numbers`` each. Where the noise is the same, a difference is
    that of the exact answers, so its remainders show the target's value; the two differences are
    labelled together, since noise may be shared with one partner or the other.

    >>> found = call_labels(0.0, 1.0, 1, "the row next to it")
    >>> found.label(np.array([[7.0, 4.0, 9.0]])).tolist()  # differences 3 and -2
    [[2, 1, 18, 26]]
    >>> found.words(0, (1,))
    'the released number less that in the row next to it modulo 2, (before, after), is (0, 1)'
    """
    columns: list[tuple[str, tuple[str, ...]]] = []
    for place in range(min(numbers, _NUMBERS)):
        name = "the released number" if numbers == 1 else f"released number {place}"
        columns += [
            (
                f"{name} less that in {where} modulo {m}, (before, after), is",
                tuple(map(str, product(range(m), repeat=2))),
            )
            for m in MODULI
        ]

    def label(answers: Batch) -> Labels:
        steps = np.rint((answers - base) / step)
        whole = np.clip(steps, -_LARGEST, _LARGEST).astype(np.int64)
        own, before, after = np.split(whole, 3, axis=1)  # (draws, numbers) each
        made: list[Batch] = []
        for place in range(min(numbers, _NUMBERS)):
            lone = min(place, own.shape[1] - 1)  # code may answer with fewer numbers
            one, two = own[:, lone] - before[:, lone], own[:, lone] - after[:, lone]
            made += [one % m * m + two % m for m in MODULI]
        return np.stack(made, axis=1).astype(np.uint8)  # (draws, labels)

    return Labelled(label, tuple(columns))


def output_labels(target: int, length: int, outputs: int, where: str) -> Labelled:
    """Return the labels of a series beside those before and after it: the target's outputs.

    Each of the three series has ``length`` shown records. Where coins are shared, the output in a
    known series shows which they were.

    >>> found = output_labels(1, 2, 2, "the row next to it")
    >>> found.label(np.array([[0, 1, 1, 0, 0, 1]])).tolist()  # outputs 1, 0 and 1
    [[2, 3, 5]]
    >>> found.words(0, (2,))
    'the outputs of the target, and of its place in the row next to it (before), are (1, 0)'
    """
    groups = [("before", (0, 1)), ("after", (0, 2)), ("before, after", (0, 1, 2))]
    groups = [(name, group) for name, group in groups if outputs ** len(group) <= _MOST]
    columns = tuple(
        (
            f"the outputs of the target, and of its place in {where} ({name}), are",
            tuple(map(str, product(range(outputs), repeat=len(group)))),
        )
        for name, group in groups
    )
    places = [[target + length * part for part in group] for _, group in groups]
    return Labelled(lambda shown: _coded(shown, places, outputs), columns)


def pair_labels(
    target: int, length: int, outputs: int, partner: int | None = None
) -> Labelled:  # fmt: skip
    """Return the labels of a series: the target's output with that of each neighbour, and of both.

    ``target`` is the place of the target among ``length`` shown records; a record has one of so
    many ``outputs``. With too many outputs to tell all pairs apart there are no labels. A
    ``partner`` is looked at too, wherever it is.

    >>> found = pair_labels(1, 3, 2)
    >>> found.label(np.array([[1, 0, 1]], dtype=np.uint8)).tolist()
    [[2, 1, 5]]
    >>> found.words(0, (0, 3))
    'the outputs of records 0, 1 of the 3 looked at are (0, 0) or (1, 1)'
    """
    others = {*range(max(target - _NEIGHBOURS, 0), min(target + _NEIGHBOURS + 1, length))}
    if partner is not None:
        others.add(partner)
    groups = [tuple(sorted((target, other))) for other in sorted(others - {target})]
    if 0 < target < length - 1:
        groups.append((target - 1, target, target + 1))
    groups = [group for group in groups if outputs ** len(group) <= _MOST]
    columns = tuple(
        (
            f"the outputs of records {', '.join(map(str, group))} of the {length} looked at are",
            tuple(map(str, product(range(outputs), repeat=len(group)))),
        )
        for group in groups
    )
    return Labelled(lambda shown: _coded(shown, groups, outputs), columns)


def _coded(shown: Batch, groups: Sequence[Sequence[int]], outputs: int) -> Labels:
    """Return for each group of places the outputs there, as digits of a number below 256."""
    made = np.zeros((len(shown), len(groups)), dtype=np.uint8)
    for column, group in enumerate(groups):
        for record in group:
            made[:, column] = made[:, column] * outputs + shown[:, record].astype(np.uint8)
    return made  # (draws, labels)
