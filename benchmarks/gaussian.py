"""Leakages of Gaussian records: ``python -m benchmarks.gaussian``. No time is asserted.

The plain version solves one regression for each adversary, on as many records as it can bear.
"""

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.rows import Row, beside, grown, show
from undertow.bounds.gaussian.search import (
    Form,
    GaussianBlock,
    Law,
    all_known_sets,
    branch_and_bound,
    gaussian_factor,
)
from undertow.models.gaussian import MultivariateGaussian
from undertow.numerics import Array

PART = "Gaussian records"


def plain(covariance: Array, weights: Array) -> float:
    """Return the largest coefficient over all adversaries, one linear system each."""
    size, best = len(covariance), 0.0
    for target in range(size):
        others = [k for k in range(size) if k != target]
        for count in range(size):
            for known in itertools.combinations(others, count):
                inside = [*known, target]
                part = covariance[np.ix_(inside, inside)]
                best = max(best, abs(np.linalg.solve(part, covariance[inside] @ weights)[-1]))
    return best


def covariance_of(name: str, size: int) -> Array:
    """Return a covariance of some family, always the same one."""
    rng = np.random.default_rng(1)
    places = rng.uniform(0, 10, (size, 2))
    apart = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))
    draws = rng.standard_normal((2 * size, size))
    loads = rng.standard_normal((size, 3))
    weak = rng.uniform(-1, 1, (size, size)) / size
    steps = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    return {
        "2n samples": draws.T @ draws / (2 * size),
        "weak": np.eye(size) + (weak + weak.T) / 2,
        "exponential in the plane": np.exp(-apart / 2),
        "Gaussian kernel": np.exp(-(apart**2) / 8) + 0.01 * np.eye(size),
        "three factors": loads @ loads.T + np.eye(size),
        "Markov": 0.7**steps,
        "equal correlations": 0.3 + 0.7 * np.eye(size),
    }[name]


def block_of(name: str, size: int) -> GaussianBlock:
    law = Law.of(covariance_of(name, size), range(size))
    return GaussianBlock.of(law, Form.linear(np.ones(size)))


def _branched(block: GaussianBlock) -> object:
    """Return what branch and bound finds, beginning with the attacker who knows nothing."""
    return branch_and_bound(block, block.evaluate(0, ()))


def _of(name: str, size: int, *, clipped: bool = False) -> object:
    """Return the factor of a sum, or of a clipped sum, of so many records."""
    ones = np.ones(size)
    form = Form.apart(ones, clipped=True) if clipped else Form.linear(ones)
    return gaussian_factor(MultivariateGaussian(0, covariance_of(name, size)), form)


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    size = 8 if quick else 12
    yield beside(
        PART, f"all known sets of {size} records (samples)",
        lambda: all_known_sets(block_of("2n samples", size)), "plain: one system an attacker",
        lambda: plain(covariance_of("2n samples", size), np.ones(size)),
    )  # fmt: skip
    if quick:
        return
    yield grown(PART, "all known sets, 12 to 20 records", [12, 16, 20],
                lambda n: all_known_sets(block_of("2n samples", n)))  # fmt: skip
    yield grown(PART, "branch and bound, 12 to 40 records", [12, 20, 40],
                lambda n: _branched(block_of("2n samples", n)))  # fmt: skip
    for name in ("exponential in the plane", "three factors"):
        yield beside(PART, f"sum of 20 records, {name}", partial(_of, name, 20))
    for name in ("Markov", "equal correlations", "weak"):
        yield grown(PART, f"clipped sum of 100 to 400 records, {name}", [100, 200, 400],
                    lambda n, w=name: _of(w, n, clipped=True))  # type: ignore[misc]  # fmt: skip


if __name__ == "__main__":
    list(show(rows()))
