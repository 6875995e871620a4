"""Flips, erasures and noise per second on one core: ``python -m benchmarks.flips [RECORDS]``.

Ours draw secure bits with exactly the planned probabilities, in pieces; memory is what a call needs
beyond its outputs. Beside them in the same run: NumPy's own generator, which is not secure and
compares floats, and, where they can be imported, OpenDP's randomised response and diffprivlib's
Binary, which take one record at a time; discrete Laplace noise stands beside OpenDP's. Each line is
the best of a few runs. Nothing here asserts a time.
"""

import os
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import undertow as ut
from benchmarks.__main__ import best_time
from undertow.certificate import Leakage
from undertow.channels import RandomizedResponse, Redaction, XorNoise
from undertow.estimation import estimate, estimate_transitions
from undertow.numerics import GRAIN
from undertow.plan import Plan
from undertow.sampling import streams
from undertow.sampling.flips import Thresholds, erase, flip, noise
from undertow.sampling.integers import discrete_laplace
from undertow.sanitizing import redact, sanitize, stream

RECORDS = 50_000_000
RUNS = 4
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


def show(name: str, records: int, call: Callable[[], Any], *, memory: bool = False) -> None:
    """Print how many records a second a call handles, and the memory beyond what it returns."""
    call()
    line = f"{name:<52} {records / best_time(call, RUNS) / 1e6:10.4f} million/s"
    if memory:
        tracemalloc.start()
        made = call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        line += f"   {(peak - getattr(made, 'nbytes', 0)) / 2**20:6.1f} MiB beyond outputs"
    print(line, flush=True)


def ours(count: int) -> None:
    rng = np.random.default_rng(0)
    two, eight = (rng.integers(0, k, count, dtype=np.uint8) for k in (2, 8))
    binary = RandomizedResponse.binary(grained(RHO0), grained(RHO1))
    chances = grained(rng.random((SERIES, 2)))
    chances[SERIES // 2] = 1.0
    chain = XorNoise(float(grained(0.1)), float(grained(0.3)))
    tables = {"binary": Thresholds.of(binary), "eight": Thresholds.of(even(8, 0.3))}
    erasures = Thresholds.of_erasures(Redaction(chances))
    whole = count // SERIES * SERIES
    calls: dict[str, tuple[int, Callable[[], Any]]] = {
        "binary flips": (count, lambda: flip(tables["binary"], two, streams.draws())),
        "8-ary flips": (count, lambda: flip(tables["eight"], eight, streams.draws())),
        "noise chain": (count, lambda: noise(chain, [count], streams.draws())),
        "erasures": (whole, lambda: erase(erasures, two[:whole], SERIES, streams.draws())),
        "sanitize, array of 2 states": (count, lambda: sanitize(planned(binary), two)),
        "sanitize, array of 8 states": (
            count, lambda: sanitize(planned(even(8, 0.3), 8), eight),
        ),
        "redact, array of series": (
            whole,
            lambda: redact(
                planned(Redaction(chances), length=SERIES), two[:whole].reshape(-1, SERIES)
            ),
        ),
    }  # fmt: skip
    for name, (records, call) in calls.items():
        show(name, records, call, memory=True)
    system = streams.Draws(streams.single_draws().first, streams.single_draws().further)
    show("binary flips, bytes of the operating system", count,
         lambda: flip(tables["binary"], two, system))  # fmt: skip
    few = two[: min(count, 1_000_000)]
    listed = few.tolist()
    show("sanitize, list", len(listed), lambda: sanitize(planned(binary), listed))
    device = stream(planned(binary))
    brief = listed[:20_000]
    show("stream, record by record", len(brief), lambda: list(device.each(brief)))
    flipped = sanitize(planned(binary), two)
    show("estimate a histogram", count, lambda: estimate(flipped, planned(binary)))
    show("estimate transitions", few.size,
         lambda: estimate_transitions(flipped[: few.size], planned(binary)))  # fmt: skip


def peers(count: int) -> None:
    rng = np.random.default_rng()
    two = rng.integers(0, 2, count, dtype=np.uint8)
    show("NumPy, rng.random(n) < rho (not secure)", count,
         lambda: two ^ (rng.random(count) < RHO0), memory=True)  # fmt: skip
    show("NumPy, 32 bits a record (not secure)", count,
         lambda: two ^ (rng.random(count, dtype=np.float32) < RHO0), memory=True)  # fmt: skip
    brief = two[:20_000]
    import opendp.prelude as dp

    dp.enable_features("contrib")
    response = dp.m.make_randomized_response_bool(prob=1 - RHO0)
    truths = brief.astype(bool).tolist()
    show("OpenDP, randomised response", brief.size, lambda: [response(one) for one in truths])
    several = dp.m.make_randomized_response(list(range(8)), prob=0.7)
    numbers = rng.integers(0, 8, 20_000).tolist()
    show("OpenDP, 8-ary randomised response", brief.size, lambda: [several(x) for x in numbers])
    try:
        from diffprivlib.mechanisms import Binary  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        print(f"{'diffprivlib, Binary':<52} absent: {error}")
        return
    epsilon = float(np.log((1 - RHO0) / RHO0))
    mechanism = Binary(epsilon=epsilon, value0="0", value1="1")
    texts = ["1" if one else "0" for one in truths]
    show("diffprivlib, Binary", brief.size, lambda: [mechanism.randomise(x) for x in texts])


def noises(count: int = 100_000) -> None:
    """Print how many numbers of discrete Laplace noise are drawn in a second, OpenDP's beside."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    for scale in (0.3, 3.994794182, 1e9):
        theirs = dp.m.make_laplace(*space, scale=scale)
        for size in (1, count):
            words = f"noise of scale {scale:g}, {size:,} at a time"
            show(words, size, partial(discrete_laplace, scale, size))
            show(f"OpenDP, {words}", size, partial(theirs, [0] * size))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    print(f"{count:,} records, {one_core()}")
    ours(count)
    peers(count)
    noises()


if __name__ == "__main__":
    main()
