"""Rows of a comparison: each as it is found, within its effort, whatever becomes of the others."""

import math
from typing import Any

import pytest

import undertow as ut
from undertow.errors import MethodRefused
from undertow.methods import METHODS, methods_for
from undertow.planning import compare as rows
from undertow.planning.chains import quilt_effort, wasserstein_effort
from undertow.planning.questions import check_question
from undertow.planning.tables import optimal_effort

CHAIN = ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]], length=6)
ACTIVE = ut.Count(1)
NAMES = methods_for(CHAIN)
compare: Any = ut.compare


def kept(row):
    """What a row says, but for the time it took."""
    return {name: value for name, value in row.to_dict().items() if name != "seconds"}


@pytest.fixture(scope="module")
def whole():
    return compare(ACTIVE, CHAIN, 1.0)


def test_rows_come_one_by_one_and_in_order(whole):
    seen: list[Any] = []

    def look(row):
        seen.append(row)
        if len(seen) == 3:
            raise KeyboardInterrupt

    table = compare(ACTIVE, CHAIN, 1.0, each=look, partial=True)
    assert [kept(row) for row in seen] == [kept(row) for row in whole.rows[:3]]
    assert table.rows == tuple(seen)
    assert not whole.missing
    assert "missing" not in whole.to_dict()


def test_a_row_takes_no_more_than_its_effort(whole):
    table = compare(ACTIVE, CHAIN, 1.0, effort=1e-7)
    limited = [name for name in NAMES if METHODS["answer"][name].effort is not None]
    assert limited == ["optimal", "quilt", "wasserstein"]
    for row in table:
        if row.method not in limited:
            assert kept(row) == kept(whole[row.method])
            continue
        assert row.plan is None
        assert row.failure is None
        assert f"'{row.method}' needs about " in row.reason
        assert "times the effort allowed for a row" in row.reason
        assert f"by name, method='{row.method}', or allow more, effort=" in row.reason
        allowed = float(row.reason.rpartition("effort=")[2])
        again = compare(ACTIVE, CHAIN, 1.0, effort=allowed)[row.method]
        assert kept(again) == kept(whole[row.method])


def test_a_method_that_is_asked_for_by_name_works_to_its_end(whole):
    table = compare(ACTIVE, CHAIN, 1.0, methods=["wasserstein"], effort=1e-9)
    assert kept(table["wasserstein"]) == kept(whole["wasserstein"])
    assert kept(compare(ACTIVE, CHAIN, 1.0, effort=math.inf)["quilt"]) == kept(whole["quilt"])


def test_efforts_are_those_of_the_model():
    def asked(chain, query=ACTIVE, limit=1.0, against="any"):
        return check_question(query, chain, limit, against)

    slow = ut.MarkovChain([[0.98, 0.02], [0.02, 0.98]])
    many = ut.MarkovChain([[0.1] * 10] * 10)
    assert wasserstein_effort(asked(slow)) > 100 * wasserstein_effort(asked(CHAIN))
    assert wasserstein_effort(asked(CHAIN, ut.Histogram())) == 0
    assert quilt_effort(asked(slow)) > quilt_effort(asked(CHAIN))
    assert optimal_effort(asked(many)) > rows.EFFORT > optimal_effort(asked(CHAIN))
    assert (
        optimal_effort(asked(many, against="ignorant"))
        == optimal_effort(asked(many, ut.Histogram()))
        == 0
    )
    assert optimal_effort(asked(CHAIN, limit=0.1)) > optimal_effort(asked(CHAIN))
    ends = ut.MarkovChain([[0, 1], [1, 0]])
    assert wasserstein_effort(asked(ends)) < rows.EFFORT
    with pytest.raises(MethodRefused, match="could not bound"):
        ut.calibrate(ACTIVE, ends, 1.0, "ignorant", method="wasserstein")
