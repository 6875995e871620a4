"""What is revealed of a record of a chain of order two, 1 against 0, whatever is known: a bracket.

The lower end is attained by a pattern of known records and outputs around the target. The upper end
holds for series of every length and every set of known records: what lies on a side is open, or has
a first known record, or is far, and every message beyond a known record lies in one of the boxes;
the leakage is monotone in each quotient of messages, so that its largest value over two boxes is at
a known corner. It tends to the supremum as rounds, gaps and bins grow finer, since every gap of
positive transitions contracts what lies beyond it.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.bounds.second_order.boxes import SideBoxes, side_boxes
from undertow.bounds.second_order.gaps import (
    PhaseGaps,
    Tilts,
    binary_laws,
    far_gaps,
    longest_gap,
    open_gaps,
)
from undertow.bounds.second_order.joins import (
    LEFT,
    RIGHT,
    Joint,
    NeighbourElements,
    elements,
    far_elements,
    joined,
    joint_pad,
)
from undertow.bounds.second_order.patterns import (
    Pattern,
    Pool,
    best_pair,
    message_pool,
    side_points,
)
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Array

__all__ = ["Bracketing", "TargetPattern", "attack_arrays", "tilt_weights"]

MERGE, MERGE_WORDS = 1e-4, 3e-3
"""Widths of boxes that are merged, in logarithms; wider where every output is tried (cost)."""

ATTACK_ROUNDS = 2
"""Known records beyond the first of each side of an attack."""


@dataclass(frozen=True, slots=True)
class TargetPattern:
    """A pattern around a target: what is looked at on the left, and on the right, outwards."""

    value: float
    left: Pattern
    right: Pattern


class Bracketing:
    """The bracket of one direction, found step by step: attacks first, then bounds."""

    def __init__(self, chain: SecondOrderChain, tilts: Tilts) -> None:
        """Prepare the gaps of both sides."""
        self.tilts = tilts
        self.law, back = binary_laws(chain)
        self.steps = {"left": back, "right": chain.transition}
        self.longest = max(longest_gap(step, tilts) for step in self.steps.values())

    def attack(self, rounds: int | None = ATTACK_ROUNDS) -> TargetPattern:
        """Return the best pattern found; its value is not rounded: it is to be played out.

        ``rounds`` counts known records beyond the first of each side; None: no record is known.
        """
        pools = {side: message_pool(self._gaps(side), rounds) for side in self.steps}
        near = 1 % self.tilts.phases
        right, right_points, right_one = side_points(pools["right"], RIGHT, 0)
        left, left_points, _ = side_points(pools["left"], LEFT, near)
        found: list[TargetPattern] = []
        number = 0 if rounds is None else rounds + 1
        for place, joint in enumerate(self._joints()):
            value, i, j = best_pair(left, right, joint)
            patterns = (
                _pattern(pools["left"], left_points, near, i, number),
                _pattern(pools["right"], right_points, 0, j, number),
            )
            found.append(TargetPattern(value, (("shown", place), *patterns[0]), patterns[1]))
        for known, beside in enumerate(() if rounds is None else (right[:, 0], right_one)):
            points = pools["left"].rounds[-1][near][known]
            ratio = points.messages[:, 0] / points.messages[:, 1]
            i, j = int(ratio.argmax()), int(beside.argmax())
            value = self.tilts.own + math.log(float(ratio[i])) + math.log(float(beside[j]))
            left_side = _pattern(pools["left"], points, near, i, number - 1)
            right_side = _pattern(pools["right"], right_points, 0, j, number)
            found.append(TargetPattern(value, (("known", known), *left_side), right_side))
        return max(found, key=lambda attack: attack.value)

    def open_upper(self, floor: float = 0.0) -> float:
        """Return an upper bound for someone who knows no record, every word of outputs tried."""
        near = 1 % self.tilts.phases
        sides = {side: SideBoxes(self._gaps(side), ()) for side in self.steps}
        right = elements(sides["right"], RIGHT, 0)
        left = elements(sides["left"], LEFT, near)
        return max(joined(left.table, right.table, joint, floor) for joint in self._joints())

    def limit_upper(self) -> float:
        """Return an upper bound where nothing is known and the series is endless on both sides.

        What lies beyond a high power of T D is a non-negative combination of its columns, which
        agree all but for rounding: the Perron vector, enclosed.
        """
        near = 1 % self.tilts.phases
        right = far_elements(far_gaps(self.steps["right"], self.tilts, 0), RIGHT)
        left = far_elements(far_gaps(self.steps["left"], self.tilts, near), LEFT)
        return max(joined(left, right, joint, 0.0) for joint in self._joints())

    def upper(self, rounds: int, floor: float = 0.0) -> float:
        """Return an upper bound, at least ``floor``, which is attained anyway."""
        near = 1 % self.tilts.phases
        merge = MERGE_WORDS if self.tilts.words else MERGE
        sides = {
            side: side_boxes(step, self.tilts, rounds, merge, self.longest)
            for side, step in self.steps.items()
        }
        right = elements(sides["right"], RIGHT, 0)
        left = elements(sides["left"], LEFT, near)
        best = max(floor, self._beside(sides["left"], right, near))
        for joint in self._joints():
            best = max(best, joined(left.table, right.table, joint, best))
        return best

    def _beside(self, left: SideBoxes, right: NeighbourElements, near: int) -> float:
        """Return the bound where the left neighbour is known: the sides multiply."""
        own = self.tilts.own
        found = []
        for known in (0, 1):
            boxes = left.boxes[near][known]
            value = float((boxes[:, 1] / boxes[:, 2]).max()) * right.beside[known]
            found.append(own + math.log(value) + joint_pad(own, math.log(value)))
        return max(found)

    def _joints(self) -> list[Joint]:
        """Return the join for each output of the left neighbour, where it is unknown."""
        ratio = self.law[1] / self.law[0]  # pi(1, x) / pi(0, x)
        found = []
        for tilt in self.tilts.near[1 % self.tilts.phases]:
            seen = math.exp(tilt)
            one, zero = float(ratio[1]), float(ratio[0])
            pad = joint_pad(self.tilts.own, 100.0)
            found.append(Joint(self.tilts.own, (seen * one, zero, seen * zero, one), pad))
        return found

    def _gaps(self, side: str) -> tuple[PhaseGaps, ...]:
        return tuple(
            open_gaps(self.steps[side], self.tilts, phase, self.longest)
            for phase in range(self.tilts.phases)
        )


def _pattern(pool: Pool, points: "object", phase: int, place: int, number: int) -> Pattern:
    """Return the pattern of one point."""
    word, known, parent = (
        int(getattr(points, name)[place]) for name in ("word", "known", "parent")
    )
    return pool.pattern(phase, word, known, parent, number)


def attack_arrays(attack: TargetPattern, tilts: Tilts) -> tuple[Array, list[tuple[int, int]], int]:
    """Return an attack as weights (records, 2), known records and values, and the target."""
    target = len(attack.left)
    weights = np.ones((target + 1 + len(attack.right), 2))
    known: list[tuple[int, int]] = []
    weights[target] = tilt_weights(tilts.own)
    for sign, pattern in ((-1, attack.left), (1, attack.right)):
        for distance, (kind, what) in enumerate(pattern, start=1):
            record = target + sign * distance
            if kind == "known":
                known.append((record, what))
            else:
                weights[record] = tilt_weights(tilts.near[distance % tilts.phases][what])
    return weights, sorted(known), target


def tilt_weights(tilt: float) -> Array:
    """Return the likelihoods of 0 and 1, at most 1."""
    return np.exp([min(-tilt, 0.0), min(tilt, 0.0)])
