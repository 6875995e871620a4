"""Plain searches for the best flips and the best redaction of a short series: oracles of plans.

Flips of two states: a scan over both rates. Redactions: each side of the protected record is cut
into cases, where the records begin that are always shown, and which values of the records before
may be shown at all. Given those, the probabilities of erasure are found by a solver for smooth
constraints, one for each attainable output and knowledge. Chains without zeros, stationary, one
protected record.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize

from tests.oracles.series import long_leakage, stationary

Floats = npt.NDArray[Any]
minimize: Any = optimize.minimize
Shape = tuple[tuple[bool, ...], ...]  # per record up to the first that is always shown


def information(law: Any, matrix: Any) -> float:
    """Bits that one output tells of one record."""
    law, matrix = np.asarray(law), np.asarray(matrix)
    shown = law @ matrix
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = law[:, None] * matrix * np.log2(matrix / shown)
    return float(np.nansum(terms))


def best_flips(
    transition: Any, n: int, epsilon: float, against: str = "any", aim: Any = "flips",
    short: bool = False,
) -> float:  # fmt: skip
    """The least flips (or the most bits, or the least weighted flips) found among rates up to 1/2.

    For each rate of state 0 the least private rate of state 1 is found by scanning and halving; the
    rate of state 0 by scanning ever more finely. ``short`` scans with half as many rates.
    """
    law = kernels(transition)[0]
    weights = law if isinstance(aim, str) else np.asarray(aim)

    def matrix(rho0: float, rho1: float) -> list[list[float]]:
        return [[1 - rho0, rho0], [rho1, 1 - rho1]]

    def fine(rho0: float, rho1: float) -> bool:
        return long_leakage(transition, matrix(rho0, rho1), n, against) <= epsilon

    def cost(rho0: float) -> tuple[float, float]:
        low = 0.0
        for high in np.linspace(0.0, 0.5, 9 if short else 17)[1:]:
            if fine(rho0, high):
                break
            low = high
        else:
            return math.inf, rho0
        for _ in range(26):  # to 1e-9
            middle = (low + high) / 2
            low, high = (low, middle) if low < middle and fine(rho0, middle) else (middle, high)
        if aim == "information":
            return -information(law, matrix(rho0, high)), rho0
        return float(weights[0] * rho0 + weights[1] * high), rho0

    first, again, least = (17, 7, 1e-7) if short else (33, 9, 1e-8)
    best, width = min(cost(rho0) for rho0 in np.linspace(0.0, 0.5, first)[1:]), 0.5 / (first - 1)
    while width > least:
        around = np.linspace(best[1] - width, best[1] + width, again)
        best = min(best, *(cost(rho0) for rho0 in around if 0 < rho0 <= 0.5))
        width /= 4
    return abs(best[0])


def kernels(transition: Any) -> tuple[Floats, Floats, Floats]:
    """The stationary law, and the steps away from the target to the left and to the right."""
    right = np.array(transition, dtype=np.float64)
    law = np.array([float(mass) for mass in stationary(right)])
    return law, (law[:, None] * right).T / law[:, None], right


def side_logs(kernel: Floats, erasures: Floats, reach: int, against: str, shape: Shape) -> Floats:
    """ln Pr[outputs of a side | x, known] + constant, a row per attainable output and knowledge.

    ``erasures`` has a row per record before the first that is always shown (or all ``reach``);
    ``shape`` says which values may be shown.
    """
    size, rows = len(kernel), []
    powers = [np.eye(size)]
    for _ in range(reach):
        powers.append(powers[-1] @ kernel)
    logs = [np.zeros(0), *(np.log(power) for power in powers[1:])]
    erased = np.eye(size)  # Pr[all erased so far, X_t = y | x], before record t is looked at
    for t in range(1, reach + 1):
        arrived = erased @ kernel
        always = t > len(erasures)
        for v in range(size):
            if always or shape[t - 1][v]:
                seen = np.log(arrived[:, v])
                rows.append(seen)
                if against == "any":
                    rows += [seen - logs[c][:, w] for c in range(t + 1, reach + 1)
                             for w in range(size)]  # fmt: skip
            if against == "any":
                rows.append(np.log(arrived[:, v]) - logs[t][:, v])
        if always:
            break
        erased = arrived * erasures[t - 1]
    else:
        rows.append(np.log(erased.sum(axis=1)))
    return np.array(rows)


def redaction_leakage(transition: Any, erasures: Any, target: int, against: str) -> float:
    """The leakage of a redaction of any length, side by side, against any or ignorant."""
    _, left, right = kernels(transition)
    table, total = np.asarray(erasures), 0.0
    for kernel, rows in ((left, table[:target][::-1]), (right, table[target + 1 :])):
        always = np.flatnonzero((rows == 0).all(axis=1))
        cut = int(always[0]) if always.size else len(rows)
        shape = tuple(tuple(bool(probability < 1) for probability in row) for row in rows[:cut])
        logs = side_logs(kernel, rows[:cut], len(rows), against, shape)
        total = total + (logs[:, :, None] - logs[:, None, :]).max(axis=0)
    return float(np.max(total))


def shapes(reach: int, size: int, *, nested: bool) -> Iterator[Shape]:
    """Cases of one side: all of them, or those in which what may be shown only grows.

    Nested cases show, from some distance on, the same one value, and then everything.
    """
    for cut in range(reach + 1):
        if nested:
            none = (False,) * size
            for value in range(size):
                some = tuple(v == value for v in range(size))
                yield from ((none,) * start + (some,) * (cut - start) for start in range(cut))
            yield (none,) * cut
        else:
            choices = list(itertools.product((False, True), repeat=size))
            yield from itertools.product(choices, repeat=cut)


@dataclass(frozen=True)
class Side:
    """One side of the target, and what may be shown there."""

    kernel: Floats
    reach: int
    shape: Shape

    @property
    def free(self) -> list[tuple[int, int]]:
        """Record and value whose probability of erasure is to be chosen."""
        return [(t, v) for t, row in enumerate(self.shape) for v, may in enumerate(row) if may]

    def erasures(self, y: Floats) -> Floats:
        """Probabilities exp(-y) where they are free, 1 elsewhere."""
        table = np.ones((len(self.shape), len(self.kernel)))
        for (t, v), value in zip(self.free, y, strict=True):
            table[t, v] = math.exp(-value)
        return table

    def logs(self, y: Floats, against: str) -> Floats:
        """What `side_logs` says of these probabilities."""
        return side_logs(self.kernel, self.erasures(y), self.reach, against, self.shape)


def best_redaction(
    transition: Any,
    n: int,
    target: int,
    epsilon: float,
    against: str = "ignorant",
    *,
    nested: bool = True,
) -> tuple[float, Floats]:
    """The best expected share of shown records that the search finds, and its erasures."""
    law, *steps = kernels(transition)
    size, reaches = len(law), (target, n - 1 - target)
    options = [
        [Side(kernel, reach, s) for s in shapes(reach, size, nested=nested)
         if _possible(kernel, s, reach, epsilon)]
        for kernel, reach in zip(steps, reaches, strict=True)
    ]  # fmt: skip
    best, table = 0.0, np.ones((n, size))
    for left, right in itertools.product(*options):
        shown = sum(side.reach - len(side.shape) for side in (left, right))
        weight = np.array([law[v] for side in (left, right) for _, v in side.free])
        if shown + weight.sum() <= n * best + 1e-9:
            continue
        y = _solved(left, right, weight, epsilon, against)
        if y is None:
            continue
        value = (shown + float(weight @ (1 - np.exp(-y)))) / n
        if value > best:
            cut = len(left.free)
            best, table = value, _assembled((left, right), (y[:cut], y[cut:]))
    return best, table


def _solved(left: Side, right: Side, weight: Floats, epsilon: float, against: str) -> Floats | None:
    """The exponents that show most, or None where the case cannot be made private."""
    cut = len(left.free)

    def slack(y: Floats) -> Floats:
        one, two = left.logs(y[:cut], against), right.logs(y[cut:], against)
        gaps = [
            (one[:, x] - one[:, other])[:, None] + (two[:, x] - two[:, other])[None, :]
            for x, other in itertools.permutations(range(one.shape[1]), 2)
        ]
        return epsilon - np.concatenate([gap.ravel() for gap in gaps])

    y = np.zeros(len(weight))
    with np.errstate(all="ignore"):
        if len(weight):
            y = minimize(
                lambda y: float(weight @ np.exp(-y)), y, jac=lambda y: -weight * np.exp(-y),
                method="SLSQP", bounds=[(0, 40)] * len(weight),
                constraints={"type": "ineq", "fun": slack},
                options={"maxiter": 300, "ftol": 1e-12},
            ).x  # fmt: skip
        for factor in (1.0, 1 - 1e-9, 1 - 1e-7, 1 - 1e-5, 1 - 1e-3, 0.9, 0.5, 0.0):
            if np.isfinite(y).all() and slack(factor * y).min() >= -1e-11:
                return factor * y  # towards always erasing, until it is private
    return None


def _possible(kernel: Floats, shape: Shape, reach: int, epsilon: float) -> bool:
    """Whether no value that may be shown has an influence above epsilon, alone (Lemma 1)."""
    power = np.eye(len(kernel))
    for t in range(min(len(shape) + 1, reach)):
        power = power @ kernel
        for v in range(len(kernel)):
            shown = t == len(shape) or shape[t][v]
            if shown and np.ptp(np.log(power[:, v])) > epsilon + 1e-9:
                return False
    return True


def _assembled(sides: Sequence[Side], chosen: Sequence[Floats]) -> Floats:
    """Erasures in the order of the records."""
    tables = []
    for side, y in zip(sides, chosen, strict=True):
        table = np.zeros((side.reach, len(side.kernel)))
        table[: len(side.shape)] = side.erasures(y)
        tables.append(table)
    return np.concatenate([tables[0][::-1], np.ones((1, tables[0].shape[1])), tables[1]])
