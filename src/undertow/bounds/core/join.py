"""Both sides of a target joined: upper ends of what one adversary learns.

At the target u(s) = E[g | S = s, known] lies in the cone of D_left + D_right, and the hidden states
of a value keep their weights. The same one record further out, at the hidden states of the two
neighbours, is mostly tighter; the smaller of both is an upper end (docs, theory-engine: E2).
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from undertow.bounds.core.arrays import STEP, PositiveArray, add_upper, log_upper_of
from undertow.bounds.core.sides import KERNEL_ERROR, Outer, Side
from undertow.bounds.core.steps import local_program
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array

__all__ = ["MOST_VARIABLES", "join", "join_outer", "join_window"]

MOST_VARIABLES = 144
"""Pairs of neighbours' hidden states up to which both sides are joined there too (cost)."""

VANISHING = 1e-290
"""Products below it have lost digits (upper side: no bound is claimed)."""


def join(law: LoweredLaw, limits: Array, left: Side, right: Side, pair: tuple[int, int]) -> Array:
    """Return upper ends for one value against another, by cases of both sides: (left, right).

    theta(a, b) + ln lfp(omega_a, omega_b, D_left + D_right), omega_v(s) = q_left(s) q_right(s) on
    the states of v, as shares; -inf where a value is impossible.
    """
    states = np.flatnonzero(np.isin(law.symbols, pair))
    weights = _both(left.weights, right.weights)  # (left, right, m)
    bounds = add_upper(left.bounds[:, None], right.bounds[None])
    some = PositiveArray(weights.values[..., states], weights.exponent, weights.error)
    cone = bounds[..., states[:, None], states]
    inside = [law.symbols[states] == value for value in pair]
    return _joined(some, inside, cone, float(limits[pair]))


def join_outer(
    law: LoweredLaw, limits: Array, left: Side, right: Side, pair: tuple[int, int],
    cases: tuple[int, int],
) -> float:  # fmt: skip
    """Return the upper end of one case, joined at the two neighbours of the target.

    Variables are the neighbours' hidden states (z, z'), weighed by omega_v(z, z') = sum over the
    states s of v; inf where they are too many.
    """
    one, two = cases
    near, far = _neighbour(left.outer, one, law.size), _neighbour(right.outer, two, law.size)
    alone = [side_.weights if side_.outer is None else None for side_ in (left, right)]
    tables = []
    for value in pair:
        states = law.symbols == value
        own = PositiveArray.of(states[:, None, None].astype(np.float64))  # (s, 1, 1)
        for weights, case in ((alone[0], one), (alone[1], two)):
            if weights is not None:
                own = own * _column(weights, case)
        before = near[0].values[:, :, None], near[0].error
        after = far[0].values[:, None, :], far[0].error
        joint = own.values * before[0] * after[0]  # (s, z, z')
        positive = (own.values > 0) & (before[0] > 0) & (after[0] > 0)
        if (joint[positive] < VANISHING).any():
            return math.inf
        error = own.error + before[1] + after[1] + (2 + len(states)) * STEP
        tables.append(PositiveArray.of(joint.sum(axis=0).reshape(-1), error))
    used = np.flatnonzero((tables[0].values > 0) | (tables[1].values > 0))
    if used.size > MOST_VARIABLES:
        return math.inf
    width = far[0].shape[1]
    z, other = used // width, used % width
    cone = add_upper(near[1][z[:, None], z], far[1][other[:, None], other])
    parts = [PositiveArray(one.values[used], one.exponent, one.error) for one in tables]
    return float(_ratio(parts[0], parts[1], cone, float(limits[pair])))


def join_window(
    law: LoweredLaw, limits: Array, left: Side, right: Side, first: int,
    histories: tuple[Sequence[int], Sequence[int]], cases: tuple[int, int],
) -> float:  # fmt: skip
    """Return the upper end of one history of a window against another (docs, theory-engine: E7).

    The sum of the limits of the records, and ln lfp(W_u, W_u', D_left(s, r) + D_right(s', r')) over
    pairs of the hidden states of the window's first and last record.
    """
    weights, total = [], 0.0
    for one, two in zip(*histories, strict=True):
        total += float(limits[one, two])
    size = law.size
    for history in histories:
        own = _column(left.weights, cases[0])
        table = PositiveArray(
            np.diag(own.values[:, 0, 0] * (law.symbols == history[0])), own.exponent[0], own.error
        )
        for record, value in enumerate(history[1:], start=first):
            kernel = law.kernel(record) * (law.symbols == value)
            table = (table @ PositiveArray.of(kernel, KERNEL_ERROR)).scaled()
        end = _column(right.weights, cases[1])
        values = table.values * end.values[:, 0, 0]
        weights.append(
            PositiveArray(
                values.reshape(-1), (table.exponent + end.exponent[0]).reshape(-1),
                table.error + end.error + STEP,
            )
        )  # fmt: skip
    used = np.flatnonzero((weights[0].values > 0) | (weights[1].values > 0))
    z, other = used // size, used % size
    cone = add_upper(
        left.bounds[cases[0]][z[:, None], z], right.bounds[cases[1]][other[:, None], other]
    )
    parts = [PositiveArray(one.values[used], one.exponent, one.error) for one in weights]
    level = total * (1 + (len(histories[0]) + 1) * STEP)
    return float(_ratio(parts[0], parts[1], cone, level))


def _both(left: PositiveArray, right: PositiveArray) -> PositiveArray:
    """Return products of the messages of both sides, (left, right, m)."""
    return PositiveArray(
        left.values[:, None] * right.values[None],
        left.exponent[:, None] + right.exponent[None],
        left.error + right.error + STEP,
    )  # fmt: skip


def _column(weights: PositiveArray, case: int) -> PositiveArray:
    """Return the message of one case as a column (m, 1, 1)."""
    exponent = np.broadcast_to(weights.exponent, (len(weights.values), 1))[case]
    return PositiveArray(
        weights.values[case][:, None, None], exponent.reshape(1, 1, 1), weights.error
    )


def _neighbour(outer: Outer | None, case: int, size: int) -> tuple[PositiveArray, Array]:
    """Return weights (s, z) of the record next to the target, and its bounds (z, z').

    At an end of the series there is none: one variable stands for nothing.
    """
    if outer is None:
        return PositiveArray.of(np.ones((size, 1))), np.zeros((1, 1))
    table = PositiveArray(
        outer.kernel * outer.weights.values[case], np.zeros((1, 1), dtype=np.int64),
        outer.weights.error + KERNEL_ERROR + STEP,
    )  # fmt: skip
    return table, outer.bounds[case]


def _joined(
    weights: PositiveArray, inside: list[npt.NDArray[np.bool_]], cone: Array, own: float
) -> Array:
    """Return own + ln lfp of the shares of the states of two values."""
    parts = [
        PositiveArray(weights.values * states, weights.exponent, weights.error) for states in inside
    ]
    return _ratio(parts[0], parts[1], cone, own)


def _ratio(above: PositiveArray, below: PositiveArray, cone: Array, own: float) -> Array:
    """Return own + ln of the largest above.u / below.u over the cone, both as shares, rounded up.

    -inf where one of both is impossible.
    """
    value, _, _ = local_program(above, below, cone)
    totals = [part.values.sum(axis=-1) for part in (above, below)]
    possible = (totals[0] > 0) & (totals[1] > 0)
    pad = 1 + 2 * (above.error + below.error + (2 * above.shape[-1] + 4) * STEP)
    power = (below.exponent - above.exponent)[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.ldexp(totals[1] / totals[0] * pad, power)
        logs = log_upper_of(value * odds * (1 + 2 * STEP))
    ratio = (own + np.maximum(logs, 0.0)) * (1 + 2 * STEP)
    return np.asarray(np.where(possible, ratio, -math.inf))
