"""The oracle of missing records: the leakage of a noisy answer for a pattern of them, or for all.

A record that is missing adds nothing to the answer, and the adversary knows which ones are.
Likelihoods are written out here, and `enumeration.table_leakage` goes through every target, known
set, value and output.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.oracles.enumeration import Floats, adversaries, table_leakage

Pattern = tuple[bool, ...]
"""Which records are there."""


def patterns(n: int) -> Iterator[Pattern]:
    """Every pattern of missing records."""
    yield from itertools.product((False, True), repeat=n)


def every_second(n: int) -> Pattern:
    """The records 0, 2, 4, ... are there."""
    return tuple(record % 2 == 0 for record in range(n))


def chain_joint(start: Sequence[float] | Floats, steps: Sequence[Floats]) -> Floats:
    """The law of all records of a chain, with an axis for each."""
    joint = np.asarray(start, dtype=float)
    for step in steps:
        joint = joint[..., None] * np.asarray(step)
    return joint


def answers(joint: Floats, there: Pattern, values: Floats) -> Floats:
    """The answer for each data set, (records ..., numbers): values has shape (states, numbers)."""
    total: Any = np.zeros((*joint.shape, values.shape[1]))
    for record, present in enumerate(there):
        if present:
            shape = [1] * joint.ndim + [values.shape[1]]
            shape[record] = len(values)
            total = total + values.reshape(shape)
    return total


def laplace(total: Floats, scale: float, most: int) -> Floats:
    """The likelihood of every output that matters, up to a factor that is the same for all data.

    Between two whole numbers, and beyond the least and the most, log-likelihoods are linear or
    constant in the output, so whole numbers suffice.
    """
    axes = itertools.product(range(-1, most + 2), repeat=total.shape[-1])
    outputs = np.array(list(axes), dtype=float)  # (outputs, numbers)
    return np.exp(-np.abs(outputs - total[..., None, :]).sum(axis=-1) / scale)


def missing_leakage(
    joint: Floats, values: Any, scale: float, against: Any = "any",
    shapes: Iterable[Pattern] | None = None,
) -> float:  # fmt: skip
    """The leakage of a sum of values of states with Laplace noise, over patterns (all of them)."""
    found = np.asarray(values, dtype=float)
    found = found.reshape(len(found), -1)
    most = int(joint.ndim * found.max())
    return max(
        table_leakage(joint, laplace(answers(joint, there, found), scale, most), against)
        for there in (patterns(joint.ndim) if shapes is None else shapes)
    )


def gaussian_delta(
    joint: Floats, there: Pattern, values: Any, sigma: float, limit: float, against: Any = "any"
) -> float:
    """A delta that is attained at a limit with Gaussian noise, by the outputs of a fine grid."""
    found = np.asarray(values, dtype=float).reshape(-1, 1)
    total = answers(joint, there, found)[..., 0]
    grid = np.linspace(-12 * sigma, joint.ndim + 12 * sigma, 2_001)
    width = grid[1] - grid[0]
    density = np.exp(-((grid - total[..., None]) ** 2) / (2 * sigma**2)) * width
    density /= sigma * np.sqrt(2 * np.pi)
    weighted, worst = joint[..., None] * density, 0.0
    for target, known in adversaries(joint.ndim, against):
        hidden = tuple(r for r in range(joint.ndim) if r != target and r not in known)
        seen = np.moveaxis(weighted.sum(axis=hidden, keepdims=True), target, 0)
        prior = np.moveaxis(joint.sum(axis=hidden, keepdims=True), target, 0)[..., None]
        law = seen / prior
        for one, other in itertools.permutations(range(len(law)), 2):
            excess = np.maximum(law[one] - np.exp(limit) * law[other], 0).sum(axis=-1)
            worst = max(worst, float(excess.max()))
    return worst
