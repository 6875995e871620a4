"""Time the report of a release: ``python -m benchmarks.reports``. Nothing here asserts a time."""

import time
from collections.abc import Callable
from functools import partial

import undertow as ut


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def made(out: ut.Release, form: str) -> str:
    """Return the report in one of its forms, from nothing."""
    return str(getattr(out.report(), form)())


def main() -> None:
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], ("inactive", "active"), length=15264)
    records = ["inactive", "inactive", "active"] * 5088
    for query in (ut.Count("active"), ut.Histogram()):
        out = ut.release(ut.calibrate(query, chain, 1.0), records, insecure_seed=1)
        name = type(query).__name__
        for form in ("text", "to_json", "html"):
            spent = seconds(partial(made, out, form))
            print(f"report of a {name:<10} {form:<8} {spent:7.2f} s", flush=True)


if __name__ == "__main__":
    main()
