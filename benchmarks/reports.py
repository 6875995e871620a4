"""The report of a release: ``python -m benchmarks.reports``. Nothing here asserts a time."""

from collections.abc import Iterator
from functools import partial

import undertow as ut
from benchmarks.rows import Row, beside, show
from undertow.releasing.request import Release

PART = "Reports"


def made(out: Release, form: str) -> str:
    """Return the report in one of its forms, from nothing."""
    return str(getattr(out.report(), form)())


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], ("inactive", "active"), length=15264)
    records = ["inactive", "inactive", "active"] * 5088
    for query in (ut.Count("active"), ut.Histogram()):
        out = ut.release(ut.calibrate(query, chain, 1.0), records, insecure_seed=1)
        for form in ("text", "to_json", "html"):
            yield beside(
                PART, f"report of a {type(query).__name__}, {form}", partial(made, out, form)
            )
            if quick:
                return


if __name__ == "__main__":
    list(show(rows()))
