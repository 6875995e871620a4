"""What a side gains at one distance: the common currency of all ways to read a side."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from undertow.bounds.chains.known import Bools, Ints
from undertow.bounds.series.observed import Option
from undertow.numerics import GAP, Array

__all__ = ["TAIL", "Reader", "Rung", "gains"]

TAIL = GAP / 64
"""How far the bound on all options beyond a distance may lie above the best one before it when a
side is read no farther (upper side)."""


@dataclass(frozen=True, slots=True)
class Rung:
    """What N targets gain at one distance, or one target at N distances.

    Axes: N; own output (one class for channels, two for noise that is a chain); ordered pair of
    values; known value. ``known`` (N, O, D, V) is -inf where impossible. ``free`` (N, O, D):
    nothing is known, and only the outputs up to here are used. Both come as what was found and as
    a certified upper end. ``top`` (N, O, D) bounds all messages from here on, ``base`` (N, D)
    from below what known values say by themselves; ``law`` (N, D) is what the law of the target
    says, seen from the left.
    """

    known: Array
    known_upper: Array
    free: Array
    free_upper: Array
    top: Array
    base: Array
    law: Array


class Reader(Protocol):
    """A way to read the sides of a series."""

    longest: int
    """Records read on a side of a chain of any length (cost)."""

    mirrored: bool
    """Whether a stationary chain, all alike, looks the same in both directions."""

    def own(self, targets: Ints) -> tuple[Array, Ints]:
        """Return the log-ratio of the target's own output and which it is, (N, O, D)."""

    def table(self, side: int, most: int, settled: Callable[[Rung], bool]) -> Rung:
        """Return the gains of one target by distance, where all are alike, until settled."""

    def rungs(self, side: int, targets: Ints, most: int) -> Iterator[Rung]:
        """Yield the gains of some targets, distance by distance."""

    def laws(self, records: int) -> tuple[Array, Array]:
        """Return what the laws of the first records say, (records, D), and errors (records,)."""

    def outputs(
        self, target: int, side: int, option: Option, own: int, pair: int
    ) -> dict[int, int]:
        """Return the outputs behind the best gain of a side."""


def gains(
    known: tuple[Array, Array], free: tuple[Array, Array], said: Array, law: Array, slack: Array
) -> Rung:
    """Return the gains from largest messages, less what known values and laws say.

    ``known`` (N, O, D, V) and ``free`` (N, O, D) come as found and as upper ends; ``said`` is
    (N, D, V), ``law`` (N, D); ``slack`` (N,) is added to all upper ends.
    """
    raised = np.broadcast_to(slack, law.shape[:1])[:, None, None]  # (N, 1, 1)
    with np.errstate(invalid="ignore"):
        gain, gain_upper = (part - said[:, None] for part in known)  # (N, O, D, V)
        total, total_upper = (part - law[:, None] for part in free)  # (N, O, D)
    # (N, 1, D, V) and (N, 1, D)
    sure, certain = np.isfinite(said)[:, None], np.isfinite(law)[:, None]
    return Rung(
        known=_possible(gain, sure),
        known_upper=_possible(gain_upper + raised[..., None], sure),
        free=_possible(total, certain),
        free_upper=_possible(total_upper + raised, certain),
        top=np.fmax.reduce(known[1], axis=3) + raised,
        base=np.fmin.reduce(said, axis=2),
        law=law,
    )


def _possible(values: Array, sure: Bools) -> Array:
    """Return the values, -inf where they are undefined or their condition cannot occur."""
    return np.asarray(np.where(sure & ~np.isnan(values), values, -np.inf))
