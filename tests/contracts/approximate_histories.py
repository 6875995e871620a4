"""What several releases reveal together: an enclosure of delta, by summing over cells of outputs.

Given the series the releases are independent, so that the mass of a box of outputs is a product.

Lower end. Cells of outputs are a post-processing, so their delta is at most the true one.
Upper end. The ratio of the densities of two shifted Laplace or Gaussian noises is monotone in the
output: within a cell it lies between its values at the ends. With a reference density r and
q_x <= high_x r, q_x >= low_x r on a box, the density of the gain sum_x w_x q_x is at most
r (sum_+ w_x high_x + sum_- w_x low_x). Where the gain has one sign on a box both ends meet; the
boxes cut by the zero surface leave an error of the second order in the width of a cell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtr

from tests.contracts.approximate_laws import Against, Floats, possible, totals

Noise = Literal["laplace", "gaussian", "discrete laplace", "discrete gaussian"]

REACH = 8
"""Standard deviations of Gaussian noise that are cut into cells; what lies outside is one cell on
each side, with a probability of 1e-15."""


class Cells(NamedTuple):
    """Probabilities of cells and the range of the density ratios within: series x cells."""

    mass: Floats
    low: Floats
    high: Floats
    reference: Floats  # the probability of each cell under the reference density


@dataclass(frozen=True)
class NoisyCount:
    """The number of some records in a state, or a sum of weights, plus noise of a scale.

    The scale is b of Laplace noise, sigma of Gaussian noise; `cells` is the number of cells.
    """

    records: tuple[int, ...]
    noise: Noise
    scale: float
    counted: int | tuple[int, ...] = 1
    cells: int = 48

    def cut(self, shape: tuple[int, ...]) -> Cells:
        """Cells of outputs (edge, next edge], the first and the last unbounded."""
        counts = totals(shape, self.records, self.counted)
        low, high, discrete = counts.min(), counts.max(), self.noise.startswith("discrete")
        # outside the exact answers a ratio of Laplace densities is constant
        reach = 0 if self.noise.endswith("laplace") else math.ceil(REACH * self.scale)
        inner = np.linspace(low - reach - discrete, high + reach, self.cells - 1)
        inner = np.unique(np.round(inner) if discrete else inner)
        edges = np.array([-np.inf, *inner, np.inf])
        centre = (low + high) // 2
        # answers x edges, then one row for each series
        answers = np.arange(low, high + 1)
        below = self._below(edges[None, :] - answers[:, None])
        ends = [
            self._ratio(side, answers[:, None], centre, low, high)[counts - low]
            for side in (edges[:-1] + discrete, edges[1:])
        ]
        mass = np.diff(below, axis=1)
        return Cells(mass[counts - low], np.minimum(*ends), np.maximum(*ends), mass[centre - low])

    def _below(self, z: Floats) -> Floats:
        """Pr[noise <= z]."""
        if self.noise == "gaussian":
            return ndtr(z / self.scale)
        if self.noise == "laplace":
            half = np.exp(-np.abs(z) / self.scale) / 2
            return np.where(z < 0, half, 1 - half)
        if self.noise == "discrete laplace":
            r = math.exp(-1 / self.scale)
            return np.where(z < 0, r ** np.abs(z), 1 + r - r ** (np.abs(z) + 1)) / (1 + r)
        reach = math.ceil(40 * self.scale)
        weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * self.scale**2))
        sums = np.array([0.0, *np.cumsum(weights)])
        return (sums / sums[-1])[np.clip(z + reach + 1, 0, 2 * reach + 1).astype(int)]

    def _ratio(self, s: Floats, answer: Any, centre: int, low: int, high: int) -> Floats:
        """The density at s of noise around an answer over that around the centre."""
        if self.noise.endswith("laplace"):
            s = np.clip(s, low, high)
            return np.exp((np.abs(s - centre) - np.abs(s - answer)) / self.scale)
        with np.errstate(invalid="ignore", over="ignore"):
            log = (answer - centre) * (2 * s - answer - centre) / (2 * self.scale**2)
            return np.exp(np.where(answer == centre, 0.0, log))


@dataclass(frozen=True, eq=False)
class Channel:
    """Any release with finitely many outputs: Pr[output | series], series x outputs."""

    table: Any

    def cut(self, shape: tuple[int, ...]) -> Cells:
        """Every output is a cell."""
        mass = np.asarray(self.table, dtype=float).reshape(math.prod(shape), -1)
        mass = mass[:, mass.max(axis=0) > 0]
        reference = mass.mean(axis=0)
        return Cells(mass, mass / reference, mass / reference, reference)


Release = NoisyCount | Channel


@cache
def _cut(release: Release, shape: tuple[int, ...]) -> Cells:
    return release.cut(shape)


def _sums(weights: Floats, tables: Sequence[Floats]) -> Floats:
    """sum_x w_x prod_r T_r[x, s_r] over all boxes s: cells of all but the last x of the last."""
    head = reduce(
        lambda head, table: (head[:, :, None] * table[:, None, :]).reshape(len(weights), -1),
        tables[:-1],
        weights[:, None],
    )
    return head.T @ tables[-1]


def mechanism_delta(table: Any, law_a: Any, law_b: Any, epsilon: float) -> float:
    """The delta at epsilon of a mechanism with finitely many outputs, Pr[output | series]."""
    gain = np.ravel(law_a) - math.exp(epsilon) * np.ravel(law_b)
    parts = gain @ np.asarray(table, dtype=float).reshape(len(gain), -1)
    return math.fsum(parts[parts > 0])


def joint_delta_of_releases(
    law_a: Floats, law_b: Floats, releases: Sequence[Release], epsilon: float
) -> tuple[float, float]:
    """A lower and an upper end of the delta at epsilon of all the releases together.

    The laws are tables over all the records. Cost: (series) x (product of the numbers of cells).
    """
    gain = law_a.ravel() - math.exp(epsilon) * law_b.ravel()
    cut = [_cut(release, law_a.shape) for release in releases]
    plus, minus = gain > 0, gain < 0

    def sums(rows: Any, side: str) -> Floats:
        return _sums(gain[rows], [getattr(cells, side)[rows] for cells in cut])

    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf at the ends: no bound there
        reference = _sums(np.ones(1), [cells.reference[None, :] for cells in cut])
        most = sums(plus, "high") + sums(minus, "low")
        least = sums(plus, "low") + sums(minus, "high")
        gained, at_most = sums(plus | minus, "mass"), sums(plus, "mass")
        cut_cells = np.fmin(most * reference, at_most)
    settled = np.where(least >= 0, gained, np.where(most <= 0, 0.0, cut_cells))
    lower = float(gained[gained > 0].sum())
    return lower, max(lower, float(np.maximum(settled, 0.0).sum()))


def joint_delta_any(
    law: Floats, releases: Sequence[Release], epsilon: float, against: Against = "any"
) -> tuple[float, float]:
    """The largest lower and the largest upper end over all adversaries."""
    ends = [joint_delta_of_releases(*laws, releases, epsilon) for _, laws in possible(law, against)]
    return max(low for low, _ in ends), max(high for _, high in ends)
