"""The table of benchmarks: every part can be run, and no time in it is that of a cache."""

import gc

import pytest

from benchmarks import rows
from benchmarks.__main__ import PARTS, machine, page, rows_of
from benchmarks.rows import Row

QUICK = ("chains", "published", "networks", "gaussian")
"""Parts whose smallest case takes milliseconds; others compile, start processes or draw reports."""


@pytest.fixture(autouse=True)
def young():
    """Caches are sought among all objects alive: here only among those that a test makes."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", QUICK)
def test_the_smallest_case_of_every_part(part):
    found = list(rows_of(part, quick=True))
    assert len(found) == 1
    assert found[0].ours > 0
    assert found[0].part
    assert (found[0].theirs is None) <= (not found[0].peer or "absent" in found[0].peer)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", [part for part in PARTS if part not in QUICK])
def test_the_smallest_case_of_the_other_parts(part):
    assert list(rows_of(part, quick=True))


def test_the_table_has_one_line_for_each_row():
    some = [
        Row("one", "a", 0.001, "peer", 0.5, over_n=1.5),
        Row("one", "b", 2.0, "absent"),
        Row("two", "c", 3e-5, over_k=2.0),
    ]
    table = rows.markdown(some).splitlines()
    assert len(table) == 2 + 2 + 3
    assert "| a | 1 ms | peer | 500 ms | 500 | 1.50 |  |" in table
    assert "| c | 30 us |  |  |  |  | 2.00 |" in table
    assert {line.count("|") for line in table} == {8}
    assert machine() in page(some, 1.0)
