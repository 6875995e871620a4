"""Views of the studio: odds in words, memory, costs and calendars, against their definitions."""

import datetime as dt
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import undertow as ut
from undertow.data.scopes import Scope
from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.ledger.replay import levels_after
from undertow.ledger.rules import Entry
from undertow.planning.compare import error_curves
from undertow_studio.charts.calendar import calendar_chart
from undertow_studio.fits import fading
from undertow_studio.odds import about, allowed, beliefs, chance_above, chance_below, factor
from undertow_studio.pages.costs import compute_methods, curves_of, grid, leakage_view
from undertow_studio.pages.release import BudgetYear, Day, budget_year, spending_days
from undertow_studio.questions import Question

MATRIX = [[0.882, 0.118], [0.305, 0.695]]
NAMES = ("inactive", "active")
FAMILY = ut.Pedigree({"kim": ("bob", "ann"), "lee": ("bob", "ann")}, allele_frequency=0.2)


def chain(length=None, matrix=MATRIX, **more):
    return ut.MarkovChain(matrix, NAMES, length=length, **more)


def test_odds_in_words_are_on_the_safe_side():
    rng = np.random.default_rng(2)
    for _ in range(500):
        p = float(rng.uniform(0, 1) ** rng.integers(1, 6))
        high, low = chance_above(p), chance_below(p)
        assert worth(low) <= Fraction(p) <= worth(high)
        if 0.02 < p < 0.9:
            assert float(worth(high)) - float(worth(low)) < 0.15
            assert abs(float(worth(about(p))) - p) < 0.06
    for leak in (0.0, 0.1, 1.0, 3.0, 10.0, 50.0):
        for prior in (1e-6, 0.01, 0.5, 0.99):
            found = allowed(prior, leak)
            exact = Fraction(prior) * Fraction(math.exp(leak))
            exact /= 1 - Fraction(prior) + exact
            assert found.upper >= float(exact)
            assert found.upper - float(exact) <= 1e-12
            assert found.lower <= prior <= found.upper
    assert allowed(0.5, math.inf).upper == 1.0
    assert "all but certain" in allowed(0.5, 20.0).words()
    assert [belief.prior for belief in beliefs(1.0)] == [0.5, 0.1, 0.01]
    with_delta = allowed(0.1, 1.0, 1e-6)
    assert with_delta.upper > allowed(0.1, 1.0).upper
    assert "except with probability at most 2e-6" in with_delta.words()
    assert "5.44, except" in factor(1.0, 1e-6)
    for wrong in ((0.0, 1.0), (1.0, 1.0), (0.5, -1.0), (0.5, math.nan)):
        with pytest.raises(InvalidInput):
            allowed(*wrong)
    for beyond in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidInput):
            about(beyond)


def worth(words):
    if words in ("0", "certainty"):
        return Fraction(words == "certainty")
    most, of = words.replace(",", "").split(" in ")
    return Fraction(int(most), int(of))


def test_memory_of_chains_without_records():
    assert fading(chain()).measured is None
    assert fading(chain()).words() == "After 9 steps the association of two records is below 0.01."
    slow = fading(chain(matrix=[[0.999, 0.001], [0.001, 0.999]]))
    assert slow.gone is None
    assert "is still above 0.01" in slow.words()
    started = fading(ut.MarkovChain(MATRIX, start=[1, 0]))
    assert started.modelled == pytest.approx(fading(chain()).modelled, abs=1e-9)
    with pytest.raises(NotSupported, match="one transition matrix"):
        fading(ut.MarkovChain([MATRIX, MATRIX], start=[1, 0]))
    with pytest.raises(InvalidModel, match="one certain state"):
        fading(ut.MarkovChain([[1, 0], [1, 0]]))


def test_leakage_curves_are_the_certified_ones():
    model = chain(50)
    ticks = []
    found = leakage_view(model, [0.5, 1.0], mark=0.5, tick=lambda: ticks.append(1))
    curves = {curve.name: curve for curve in found.curves}
    assert len(ticks) == 2
    assert curves["knows any other records"].values == tuple(
        ut.leakage(ut.PureDP(level), model).upper for level in (0.5, 1.0)
    )
    assert curves["knows nothing"].values == tuple(
        ut.leakage(ut.PureDP(level), model, "ignorant").upper for level in (0.5, 1.0)
    )
    assert curves["any dependence"].values == (25.0, 50.0)
    assert curves["if records were independent"].values == (0.5, 1.0)
    assert curves["Lange (published)"].basis == "published"
    family = leakage_view(FAMILY, [0.5, 1.0])
    assert [c.name for c in family.curves if c.basis == "published"] == []
    with pytest.raises(InvalidInput, match="increasing"):
        leakage_view(model, [1.0, 0.5])


def test_error_curves_and_the_table_behind_them():
    model = chain(50)
    errors = error_curves(
        ut.Count("active"), model, [0.5, 1.0], methods=["exchange", "group", "lange"]
    )
    curves = {curve.name: curve for curve in curves_of(errors, 1.0).curves}
    assert set(curves) == {"exchange", "group"}
    plan = ut.calibrate(ut.Count("active"), model, limit=1.0, method="exchange")
    assert curves["exchange"].values[1] == pytest.approx(plan.expected_error, rel=2e-3)
    assert curves["group"].values[1] == pytest.approx(50, rel=1e-2)
    rows, best = compute_methods(Question("count", ("active",), limit=1.0), model)
    (chosen,) = [row for row in rows if row.method == best]
    assert chosen.expected_error == ut.calibrate(ut.Count("active"), model, 1.0).expected_error
    assert all(row.reason is None or row.expected_error is None for row in rows)
    assert len(pickle.loads(pickle.dumps(rows))) == len(rows)  # they come from another process
    assert grid(0.7, 13)[6] == 0.7
    with pytest.raises(InvalidInput, match="odd number"):
        grid(1.0, 4)


def test_a_redacted_account_is_closed():
    closed = Entry("a", "redaction", None, 0.9, Scope(), {}, "confirmed", at="2026-03-03T08:00")
    days = spending_days(levels_after([closed], "record"), dt.date(2026, 1, 1))
    found = BudgetYear(1.0, "2026-01-01", "2026-05-01", days, 0.1)
    assert found.words() == "The data set was redacted: nothing else of it can be released."
    assert found.weeks() == ()
    assert "today: redacted" in calendar_chart(found)


def test_a_weekly_release_is_foreseen(tmp_path):
    day = Day("2026-01-05", 0.5, 0.0, 0.5)
    found = BudgetYear(1.0, "2026-01-01", "2026-12-01", (day,), 0.1)
    assert [level for _, level in found.weeks()] == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0])
    assert found.exhausted() is None
    assert "would leave 0%" in found.words()
    over = replace(found, weekly=0.2)
    assert over.exhausted() == "2026-12-15"
    assert over.words().endswith("A weekly release fits 2 more times, and no longer on "
                                 "15 December 2026.")  # fmt: skip
    assert replace(found, weekly=0.0).words() == "50% of the budget is spent or reserved."
    ledger = ut.Ledger(tmp_path / "year.db", dataset="w25", model=chain(), limit=1.0)
    year = budget_year(ledger, dt.date(2026, 5, 4), weekly=0.01)
    assert year.budget == ledger.budget
    assert year.spent == 0.0
    with pytest.raises(InvalidInput, match="at least 0"):
        budget_year(ledger, dt.date(2026, 5, 4), weekly=-1.0)
