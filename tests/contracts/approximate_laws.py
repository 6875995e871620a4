"""Joint laws of a few records as full tables, and everybody who may look at them.

A law is a table with one axis for each record. Nothing here is taken from the package.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Against = Literal["any", "ignorant", "informed"]


def joint_law(transition: Any, start: Any, n: int) -> Floats:
    """The law of n records; transition is one matrix or one for each step."""
    matrix = np.asarray(transition, dtype=float)
    law: Floats = np.asarray(start, dtype=float)
    for step in range(n - 1):
        law = law[..., None] * (matrix if matrix.ndim == 2 else matrix[step])
    return law


def given(law: Floats, values: Mapping[int, int]) -> Floats | None:
    """The law given some records, of the same shape; None where they are impossible."""
    index = tuple(values.get(axis, slice(None)) for axis in range(law.ndim))
    kept = np.zeros_like(law)
    kept[index] = law[index]
    total = kept.sum()
    return kept / total if total > 0 else None


class Adversary(NamedTuple):
    """Who compares the values a and b of a target and knows some other records."""

    target: int
    known: tuple[tuple[int, int], ...]  # pairs (record, value)
    a: int
    b: int

    def laws(self, law: Floats) -> tuple[Floats, Floats] | None:
        """The laws given a and given b, of the shape of `law`; None where one is impossible."""
        known = dict(self.known)
        law_a, law_b = (given(law, {**known, self.target: x}) for x in (self.a, self.b))
        return None if law_a is None or law_b is None else (law_a, law_b)

    def unknown(self, table: Floats) -> Floats:
        """The part of a table that is still open: the known axes are dropped."""
        known = dict(self.known)
        return table[tuple(known.get(axis, slice(None)) for axis in range(table.ndim))]


def all_adversaries(n: int, k: int, against: Against = "any") -> Iterator[Adversary]:
    """Every target, known set, known values and ordered pair of values, possible or not."""
    sizes = {"any": range(n), "ignorant": (0,), "informed": (n - 1,)}[against]
    for target in range(n):
        others = [record for record in range(n) if record != target]
        for size in sizes:
            for known in itertools.combinations(others, size):
                for values in itertools.product(range(k), repeat=size):
                    for a, b in itertools.permutations(range(k), 2):
                        yield Adversary(target, tuple(zip(known, values, strict=True)), a, b)


def possible(
    law: Floats, against: Against = "any"
) -> Iterator[tuple[Adversary, tuple[Floats, Floats]]]:
    """Every adversary whose knowledge and two values are possible, with the two laws."""
    for adversary in all_adversaries(law.ndim, law.shape[0], against):
        laws = adversary.laws(law)
        if laws is not None:
            yield adversary, laws


def totals(shape: Sequence[int], records: Iterable[int], counted: Any) -> npt.NDArray[np.int64]:
    """How many of some records have a state, or the sum of their weights, for every series.

    Series are in the order of `ravel`; `counted` is a state, or a weight for each state.
    """
    weights = np.arange(max(shape)) == counted if isinstance(counted, int) else counted
    series = np.indices(shape).reshape(len(shape), -1)
    return np.asarray(weights, dtype=np.int64)[series[list(records)]].sum(axis=0)
