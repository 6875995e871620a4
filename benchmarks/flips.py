"""Flips, erasures and noise: ``python -m benchmarks.flips``.

Ours draw secure bits with exactly the planned probabilities, in pieces. Beside them in the same
run: NumPy's own generator, which is not secure and compares floats, and, where they can be
imported, OpenDP's randomised response and diffprivlib's Binary, which take one record at a time;
discrete Laplace noise stands beside OpenDP's. Nothing here asserts a time.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import undertow as ut
from benchmarks.rows import Row, beside, grown, show
from undertow.certificate import Leakage
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise
from undertow.numerics import GRAIN
from undertow.plan import Plan
from undertow.releasing.estimate import estimate, estimate_transitions
from undertow.releasing.series import sanitize, stream
from undertow.sampling import streams
from undertow.sampling.flips import Thresholds, erase, flip, noise
from undertow.sampling.integers import discrete_laplace

PART = "Flips and noise"
RECORDS = 10_000_000
RHO0, RHO1 = 0.313112, 0.255443
SERIES = 1000


def one_core() -> str:
    """Stay on one core, where the system can be told to."""
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned to a core"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return "pinned to one core"


def grained(chances: Any) -> Any:
    """Return probabilities rounded up to whole multiples of 2^-53."""
    return np.ceil(np.asarray(chances) / GRAIN) * GRAIN


def even(states: int, rho: float) -> RandomizedResponse:
    """Return k-ary randomised response on the grain."""
    other = float(grained(rho / (states - 1)))
    matrix = np.full((states, states), other)
    np.fill_diagonal(matrix, 1 - (states - 1) * other)
    return RandomizedResponse(matrix)


def planned(mechanism: Any, states: int = 2, length: int | None = None) -> Plan[Any]:
    """Return a plan around a mechanism; its leakage does not matter here."""
    model = ut.MarkovChain(np.full((states, states), 1 / states), length=length)
    return Plan(mechanism, model, 1.0, Leakage(1.0, 1.0, "exact", "any"), "exact")


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    count = 20_000 if quick else RECORDS
    rng = np.random.default_rng(0)
    two, eight = (rng.integers(0, k, count, dtype=np.uint8) for k in (2, 8))
    binary = RandomizedResponse.binary(grained(RHO0), grained(RHO1))
    tables = {"binary": Thresholds.of(binary), "eight": Thresholds.of(even(8, 0.3))}
    words = f"{count:,} records"
    yield beside(
        PART, f"binary flips of {words}", lambda: flip(tables["binary"], two, streams.draws()),
        "NumPy, rng.random(n) < rho (not secure)", lambda: two ^ (rng.random(count) < RHO0),
    )  # fmt: skip
    if quick:
        return
    yield beside(PART, f"8-ary flips of {words}",
                 lambda: flip(tables["eight"], eight, streams.draws()))  # fmt: skip
    chain = XorNoise(float(grained(0.1)), float(grained(0.3)))
    yield beside(PART, f"noise that is a chain, {words}",
                 lambda: noise(chain, [count], streams.draws()))  # fmt: skip
    chances = grained(rng.random((SERIES, 2)))
    chances[SERIES // 2] = 1.0
    erasures, whole = Thresholds.of_erasures(Redaction(chances)), count // SERIES * SERIES
    yield beside(PART, f"erasures in {words}",
                 lambda: erase(erasures, two[:whole], SERIES, streams.draws()))  # fmt: skip
    yield grown(PART, f"sanitize an array, up to {words}", [count // 100, count // 10, count],
                lambda n: sanitize(planned(binary), two[:n]))  # fmt: skip
    brief = two[:20_000].tolist()
    device = stream(planned(binary))
    yield from peers(brief, partial(flip, tables["binary"], two[:20_000], streams.draws()))
    yield beside(PART, "stream 20,000 records, one by one", lambda: list(device.each(brief)))
    flipped = sanitize(planned(binary), two)
    yield beside(PART, f"estimate a histogram of {words}",
                 lambda: estimate(flipped, planned(binary)))  # fmt: skip
    yield beside(PART, "estimate transitions of 1,000,000 records",
                 lambda: estimate_transitions(flipped[:1_000_000], planned(binary)))  # fmt: skip
    yield from noises()


def peers(truths: list[int], ours: Callable[[], Any]) -> Iterator[Row]:
    """Yield binary flips beside libraries that take one record at a time."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    response = dp.m.make_randomized_response_bool(prob=1 - RHO0)
    bits = [bool(one) for one in truths]
    case = "binary flips of 20,000 records"
    yield beside(PART, case, ours, "OpenDP", lambda: [response(one) for one in bits])
    try:
        from diffprivlib.mechanisms import Binary  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        yield beside(PART, case, ours, "diffprivlib: absent")
        return
    mechanism = Binary(epsilon=float(np.log((1 - RHO0) / RHO0)), value0="0", value1="1")
    texts = ["1" if one else "0" for one in truths]
    yield beside(PART, case, ours, "diffprivlib", lambda: [mechanism.randomise(x) for x in texts])


def noises(count: int = 100_000) -> Iterator[Row]:
    """Yield discrete Laplace noise beside OpenDP's."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    for scale in (0.3, 3.994794182, 1e9):
        theirs = dp.m.make_laplace(*space, scale=scale)
        for size in (1, count):
            yield beside(
                PART, f"discrete Laplace noise of scale {scale:g}, {size:,}",
                partial(discrete_laplace, scale, size), "OpenDP", partial(theirs, [0] * size),
            )  # fmt: skip


if __name__ == "__main__":
    print(one_core())
    list(show(rows()))
