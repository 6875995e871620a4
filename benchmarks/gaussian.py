"""Time leakages of Gaussian records: ``python -m benchmarks.gaussian``. No time is asserted.

Each line is one cold run in this process (results are remembered, so a second one costs nothing);
a ratio compares with the plain version below, which solves one regression for each adversary, on as
many records as it can bear.
"""

import itertools
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from undertow.bounds.gaussian.branch_and_bound import branch_and_bound
from undertow.bounds.gaussian.laws import Law
from undertow.bounds.gaussian.numbers import Form, GaussianBlock
from undertow.bounds.gaussian.search import gaussian_factor
from undertow.bounds.gaussian.sets import all_known_sets
from undertow.models.gaussian import MultivariateGaussian
from undertow.numerics import Array


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


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def searches() -> None:
    print("all known sets, one row of weights (samples)")
    twelve = covariance_of("2n samples", 12)
    slow = seconds(lambda: plain(twelve, np.ones(12)))
    for size in (12, 16, 20, 24):
        block = block_of("2n samples", size)
        fast = seconds(partial(all_known_sets, block))
        ratio = f"   plain {slow:6.2f} s   ratio {slow / fast:6.0f}" if size == 12 else ""
        print(f"  {size:3} records {fast:8.3f} s{ratio}", flush=True)
    print("branch and bound, the same")
    for size in (12, 20, 24, 40, 60):
        block = block_of("2n samples", size)
        fast = seconds(partial(_branched, block))
        print(f"  {size:3} records {fast:8.3f} s", flush=True)


def families() -> None:
    for size in (20, 60):
        print(f"{size} records: sums, and clipped sums")
        for name in (
            "2n samples", "weak", "exponential in the plane", "Gaussian kernel", "three factors",
            "Markov", "equal correlations",
        ):  # fmt: skip
            model = MultivariateGaussian(0, covariance_of(name, size))
            parts = []
            for form in (Form.linear(np.ones(size)), Form.apart(np.ones(size), clipped=True)):
                start = time.perf_counter()
                found = gaussian_factor(model, form)
                spent = time.perf_counter() - start
                state = "exact" if found.exact else f"up to {found.upper:.4f}"
                parts.append(f"{spent:7.2f} s  {found.lower:9.4f} {state:<15}")
            print(f"  {name:<26}{'   '.join(parts)}", flush=True)


def large() -> None:
    print("closed forms")
    for name in ("Markov", "equal correlations", "weak"):
        for size in (200, 600):
            model = MultivariateGaussian(0, covariance_of(name, size))
            form = Form.apart(np.ones(size), clipped=True)
            spent = seconds(partial(gaussian_factor, model, form))
            print(f"  {name:<20} {size:4} records, clipped sum {spent:7.2f} s", flush=True)


def main() -> None:
    searches()
    families()
    large()


if __name__ == "__main__":
    main()
