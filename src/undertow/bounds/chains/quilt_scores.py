"""Quilts of a record, their influences, and the scores by which the best one is chosen."""

from dataclasses import dataclass

import numpy as np

from undertow.numerics import Array

__all__ = ["Bound", "Influence", "NoiseScore", "Quilt", "Score"]


@dataclass(frozen=True, slots=True)
class NoiseScore:
    """Scores a quilt by the noise it asks for: local / (epsilon - influence)."""

    epsilon: float

    def value(self, local: Array, influence: Array) -> Array:
        """Return the least scale per unit of sensitivity, inf where the influence is too large."""
        room = self.epsilon - influence
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(room > 0, local / room, np.inf)

    def reach(self, best: float) -> float:
        """Return how many records a quilt that beats ``best`` can have inside."""
        return best * self.epsilon


@dataclass(frozen=True, slots=True)
class Bound:
    """Scores a quilt by what a tau-DP algorithm can leak past it: local tau + influence."""

    tau: float

    def value(self, local: Array, influence: Array) -> Array:
        """Return the bound on the leakage."""
        return np.asarray(local * self.tau + influence)

    def reach(self, best: float) -> float:
        """Return how many records a quilt that beats ``best`` can have inside."""
        return best / self.tau


Score = NoiseScore | Bound


@dataclass(frozen=True, slots=True)
class Influence:
    """Influences of quilt records on either side, rounded up.

    ``left`` and ``right`` have shape (W + 1, pairs): row t is the side's share at distance t for
    each ordered pair of values; row 0 is not used. A quilt's influence is the largest sum over
    pairs, a missing side adding nothing.
    """

    left: Array
    right: Array

    @property
    def reach(self) -> int:
        """The farthest distance in the tables."""
        return len(self.left) - 1


@dataclass(frozen=True, slots=True)
class Quilt:
    """The worst record and its best quilt: distances, None where a side (or both) is missing."""

    value: float
    record: int
    left: int | None
    right: int | None

    def inside(self, length: int | None) -> int:
        """Return how many records the quilt cuts off, in a series of ``length`` records."""
        right = self.right
        if right is None:
            right = (length or self.record + 1) - self.record
        return (self.record + 1 if self.left is None else self.left) + right - 1
