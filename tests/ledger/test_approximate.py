"""Accounts with a delta: terms, spends of every kind, releases, and histories by brute force."""

import json
import math
import uuid
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import undertow as ut
from tests.cli.calls import call, call_json
from tests.contracts.approximate_histories import NoisyCount, joint_delta_any
from tests.contracts.approximate_laws import joint_law
from tests.grids import each, law
from undertow.bounds.curves.leakages import closed_delta
from undertow.curves import LargestCurve
from undertow.data.scopes import Scope
from undertow.errors import (
    BudgetExceeded,
    InvalidInput,
    LedgerConflict,
    LedgerDamaged,
    NotSupported,
    UndertowError,
)
from undertow.ledger.amounts import Spend, highest, root_up, worst
from undertow.ledger.rules import Room, SpendCurve, Terms, exchanged_at_delta
from undertow.releasing.account import foretell, level_of, spend_terms
from undertow.releasing.request import prepare
from undertow.secrets import Person

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
ASKED = ut.dp_budget(CHAIN, 1.0, delta=1e-6)
NEEDED = [
    (0.0, 16.913, 18.136),
    (0.05, 20.880, 22.412),
    (0.1, 27.394, 29.443),
    (0.2, 76.969, 83.17),
]
"""A level spent before, and the sigma that one Gaussian release then needs, by GDP and by zCDP."""


def opened(place, dataset="w25", **options):
    return place.open(dataset, **{"model": CHAIN, "delta": 1e-6, **options})


def week(number):
    return Scope(start=7 * number, end=7 * number + 7)


# --- terms ----------------------------------------------------------------------------------------


def test_a_limit_with_a_delta_is_a_level_and_a_small_delta(place):
    ledger = opened(place)
    terms = ledger.room().terms
    assert (ledger.limit, ledger.delta, ledger.budget) == (1.0, 1e-6, ASKED.epsilon)
    assert (terms.delta, terms.small, terms.pure) == (1e-6, ASKED.delta, 0.0)
    assert (ledger.left(), ledger.spent()) == (ledger.budget, Spend())
    leak = ledger.leakage()
    assert (leak.upper, leak.delta) == (0.0, 1e-6)
    assert ledger.verify() == 1
    opened(place)  # the same terms again
    place.open(model=None, limit=None)
    with pytest.raises(LedgerConflict, match="the delta 1e-06"):
        opened(place, delta=1e-9)
    with pytest.raises(LedgerConflict, match="set aside"):
        opened(place, pure=0.1)


def test_terms_with_a_delta_are_checked(sqlite_place):
    for wrong in ({"delta": 1.0}, {"delta": -1e-6}, {"delta": math.nan}, {"pure": 0.3}):
        with pytest.raises(InvalidInput):
            opened(sqlite_place, **wrong)
    with pytest.raises(InvalidInput, match="leave pure out"):
        opened(sqlite_place, delta=0, pure=0.1)
    family = ut.MultivariateGaussian([69, 64], [[6.1, 0.42], [0.42, 5.32]], spread=40)
    with pytest.raises(NotSupported, match="d-privacy"):
        opened(sqlite_place, model=family)
    opened(sqlite_place, model=ut.MultivariateGaussian([69, 64], [[6.1, 0.42], [0.42, 5.32]]))


def test_persons_spend_the_limit_itself(place):
    ledger = opened(place, secret=Person())
    assert (ledger.budget, ledger.room().terms.small) == (1.0, 1e-6)
    alone = ut.GDP(0.2, unit="person").curve()
    ledger.reserve("a", ut.GDP(0.2, unit="person"), week(0))
    assert ledger.left_mu(week(9)) < math.sqrt(0.237**2 - 0.2**2)  # every window is the person
    assert ledger.leakage().upper == pytest.approx(alone.epsilon(1e-6))
    with pytest.raises(LedgerConflict, match="hides one record"):
        ledger.reserve("b", ut.GDP(0.01))


# --- what fits ------------------------------------------------------------------------------------


@each(
    (("level", "normal", "concentrated"), "place"),
    NEEDED, ["sqlite", "postgresql"], indirect=["place"],
)  # fmt: skip
def test_reference_numbers_of_the_mixed_ledger(place, level, normal, concentrated):
    for name, sigma in (("mu", normal), ("rho", concentrated)):
        ledger = opened(place, name)
        if level:
            ledger.reserve("levels", level)

        def asked(sigma, name=name):
            return {name: 1 / sigma if name == "mu" else 1 / (2 * sigma**2)}

        with pytest.raises(BudgetExceeded) as caught:
            ledger.reserve("noise", **asked(sigma - 0.001))
        assert caught.value.left == ledger.left() == pytest.approx(ledger.budget - level)
        assert f"sigma {normal:.2f}"[:-1] in str(caught.value)
        ledger.reserve("noise", **asked(sigma + 0.001))
        assert 0.999 < ledger.leakage().upper <= 1.0
        assert ledger.leakage().delta == 1e-6
        assert ledger.verify() >= 2


@pytest.mark.parametrize("guarantee", ["mu", "rho", "point", "level"])
def test_a_whole_budget_of_each_kind_fits_a_fresh_account(sqlite_place, guarantee):
    ledger = opened(sqlite_place)
    whole = {
        "mu": ut.GDP(ASKED.mu), "rho": ut.ZCDP(ASKED.rho),
        "point": ut.ApproximateDP(ASKED.epsilon, ASKED.delta), "level": ut.PureDP(ASKED.epsilon),
    }[guarantee]  # fmt: skip
    ledger.reserve("all", whole)
    assert ledger.leakage().proves(1.0)
    for more in ({"mu": 1e-3}, {"rho": 1e-6}, {"level": 1e-4}, {"level": 1e-4, "delta": 1e-9}):
        with pytest.raises(BudgetExceeded):
            ledger.reserve("more", **more)


def test_what_is_left_fits_exactly(place):
    ledger = opened(place, pure=0.1)
    ledger.reserve("level", 0.03, week(0))
    for k in range(3):
        ledger.reserve(f"noise {k}", mu=0.4 * ledger.left_mu(week(0)), scope=week(0))
        ledger.reserve(f"level {k}", 0.4 * ledger.left(week(0)), week(0))
    left, left_mu = ledger.left(), ledger.left_mu()
    with pytest.raises(BudgetExceeded):
        ledger.reserve("over", mu=left_mu * (1 + 1e-9))
    with pytest.raises(BudgetExceeded):
        ledger.reserve("over", left * (1 + 1e-9))
    ledger.reserve("rest", mu=left_mu)
    ledger.reserve("rest of the levels", left)
    assert ledger.left() < 1e-15
    assert ledger.leakage().proves(1.0)
    assert ledger.verify() == 10


def test_squares_add_up_exactly(place):
    ledger = opened(place)
    for k in range(25):
        ledger.reserve(f"day {k}", mu=0.01)
    assert ledger.spent() == Spend(squares=25 * Fraction(0.01) ** 2)
    assert ledger.spent().mu == root_up(25 * Fraction(0.01) ** 2)
    assert ledger.level() == 0.0
    assert ledger.left_mu() == pytest.approx(math.sqrt(ASKED.mu**2 - 0.05**2))
    assert ledger.verify() == 26


def test_weeks_of_noise_cost_one(place):
    ledger = opened(place)
    for k in range(12):
        ledger.reserve(f"week {k}", mu=ASKED.mu, scope=week(k))
    rows = place.forge('SELECT start, "end", level, exact FROM undertow_segments')
    assert [tuple(row)[:3] for row in rows] == [(0, 84, 0.0)]
    assert ledger.left_mu(week(3)) < 1e-6
    assert ledger.left_mu(week(12)) == pytest.approx(ASKED.mu)
    assert ledger.leakage().proves(1.0)
    assert ledger.verify() == 13


def test_the_worst_of_records_that_cannot_be_compared(place):
    ledger = opened(place)
    ledger.reserve("levels", 0.2, week(0))
    ledger.reserve("noise", mu=0.05, scope=week(1))
    assert ledger.spent() == Spend(Fraction(0.2), Fraction(0.05) ** 2)
    assert (ledger.left(week(0)), ledger.left(week(1))) == (pytest.approx(0.0503258), 0.0)
    assert 1 / ledger.left_mu(week(0)) == pytest.approx(76.969, abs=1e-3)
    assert 1 / ledger.left_mu() == pytest.approx(76.969, abs=1e-3)
    alone = opened(place, "alone")
    alone.reserve("noise", mu=0.05)
    leaks = [ut.leakage(ut.PureDP(0.2), CHAIN).upper, alone.leakage().upper]
    assert 1.0 >= ledger.leakage().upper >= max(leaks) - 1e-9 > min(leaks) > 0.7


def test_groups_have_their_own_sums(place):
    ledger = opened(place)
    ledger.reserve("all", mu=0.03)
    ledger.reserve("a", mu=0.05, scope=Scope("cohort", ["a"]))
    ledger.reserve("b", mu=0.01, scope=Scope("cohort", ["b"]))
    squares = [ledger.spent(Scope("cohort", [name])).squares for name in "abc"]
    exact = [Fraction(mu) ** 2 for mu in (0.03, 0.05, 0.01)]
    assert squares == [exact[0] + exact[1], exact[0] + exact[2], exact[0]]
    many = [f"g{k}" for k in range(80)]  # more cells than are looked up one by one
    ledger.reserve("many", mu=0.02, scope=Scope("cohort", many))
    assert ledger.spent(Scope("cohort", many)).squares == exact[0] + Fraction(0.02) ** 2
    assert ledger.spent().squares == exact[0] + exact[1]
    assert ledger.verify() == 5


def test_another_machine_does_not_refuse_what_was_granted(sqlite_place):
    """Logarithms differ in their last digits: a replay has a slack that a grant has not."""
    terms = opened(sqlite_place).room().terms
    mu = Room(terms).left_mu()
    lower = Room(replace(terms, small=terms.small * (1 - 5e-7)))
    granted = Spend(squares=Fraction(mu) ** 2)
    assert not lower.fits(granted)
    assert lower.fits(granted, again=True)
    assert not Room(replace(terms, small=terms.small * (1 - 5e-6))).fits(granted, again=True)
    level = Spend(Fraction(math.nextafter(terms.budget, 1)))
    assert not Room(terms).fits(level, again=True)  # levels are compared exactly, everywhere


# --- what is fixed when noise begins --------------------------------------------------------------


def test_after_noise_levels_reach_what_was_set_aside(place):
    ledger = opened(place)
    ledger.reserve("level", 0.05)
    ledger.reserve("noise", mu=0.01)
    assert (ledger.left(), ledger.left_mu() > 0.04) == (0.0, True)
    with pytest.raises(BudgetExceeded, match=r"a level of 0.05 was set aside .* pure=LEVEL"):
        ledger.reserve("another", 0.01)
    share = opened(place, "share", pure=0.1)
    share.reserve("level", 0.05)
    share.reserve("noise", mu=0.01)
    assert share.left() == pytest.approx(0.05)
    assert 1 / math.hypot(share.left_mu(), 0.01) == pytest.approx(27.394, abs=1e-3)
    share.reserve("another", share.left())
    assert opened(place, "levels alone", pure=0.1).left() == ledger.budget


def test_points_and_other_kinds_come_before_noise(place):
    ledger = opened(place)
    ledger.reserve("point", 0.01, delta=1e-8)
    ledger.reserve("noise", mu=0.01)
    with pytest.raises(BudgetExceeded, match="before it"):
        ledger.reserve("late", 0.001, delta=1e-9)
    with pytest.raises(BudgetExceeded, match="before it"):
        ledger.reserve("late", rho=1e-6)
    ledger.reserve("more", mu=ledger.left_mu())
    dense = opened(place, "dense")
    dense.reserve("concentrated", rho=1e-6)
    dense.reserve("noise", mu=0.01)
    dense.reserve("more", rho=dense.room().left_rho())
    total = float(dense.spent().rho + dense.spent().squares / 2)
    assert total == pytest.approx(ASKED.rho)
    assert ledger.verify() == 8


def test_giving_back_does_not_change_what_was_fixed(place):
    ledger = opened(place)
    fresh = ledger.left_mu()
    ledger.reserve("noise", mu=0.05)
    ledger.cancel("noise", "wrong table")
    assert (ledger.left_mu(), ledger.left(), ledger.spent()) == (fresh, ledger.budget, Spend())
    ledger.reserve("level", 0.1)
    ledger.reserve("point", 0.01, delta=1e-8)
    ledger.reserve("concentrated", rho=1e-5)
    ledger.reserve("noise two", mu=0.01)
    before = ledger.left_mu()
    for key in ("level", "point"):
        ledger.cancel(key, "wrong table")
        assert ledger.left_mu() == before
    ledger.cancel("concentrated", "wrong table")
    assert ledger.left() == pytest.approx(0.11)
    assert ledger.left_mu() < math.sqrt(2 * ASKED.rho)  # still by zCDP
    ledger.cancel("noise two", "wrong table")
    assert (ledger.left_mu(), ledger.left()) == (fresh, ledger.budget)
    assert place.forge("SELECT count(*) FROM undertow_segments")[0][0] == 0
    assert ledger.verify() == 11


# --- refusals -------------------------------------------------------------------------------------


def test_an_account_without_a_delta_refuses_noise(place):
    ledger = place.open(model=CHAIN)
    for asked in ({"mu": 0.01}, {"rho": 1e-4}, {"level": 0.01, "delta": 1e-9}):
        with pytest.raises(LedgerConflict, match=r"set_limit\(limit, delta=1e-6\)"):
            ledger.reserve("r", **asked)
    assert (ledger.left_mu(), ledger.verify()) == (0.0, 1)
    ledger.reserve("level", 0.1)
    ledger.set_limit(1.0, delta=1e-6)
    ledger.reserve("noise", mu=0.03)
    with pytest.raises(LedgerConflict, match=r"mu 0.03 is already spent"):
        ledger.set_limit(1.0, delta=0)
    with pytest.raises(LedgerConflict, match="already spent"):
        ledger.set_limit(1.0, delta=1e-9)
    with pytest.raises(LedgerConflict, match="already spent"):
        ledger.set_limit(0.6)
    ledger.set_limit(1.5)
    assert (ledger.limit, ledger.delta) == (1.5, 1e-6)
    assert ledger.verify() == 5
    assert place.open(model=None, limit=None).delta == 1e-6


def test_what_does_not_compose_is_refused(sqlite_place):
    ledger = opened(sqlite_place)
    with pytest.raises(NotSupported, match="Profile does not compose"):
        ledger.reserve("r", ut.Profile([(1.0, 1e-6)]))
    with pytest.raises(NotSupported, match="Leakage does not compose"):
        ledger.reserve("r", ut.leakage(ut.PureDP(0.1), CHAIN))
    with pytest.raises(InvalidInput, match="do not compose"):
        ledger.reserve("r", mu=0.01, leakage=0.2)
    with pytest.raises(InvalidInput, match="beside the DP level"):
        ledger.reserve("r", delta=1e-9)
    with pytest.raises(InvalidInput, match="says all of its numbers"):
        ledger.reserve("r", ut.GDP(0.01), rho=1e-5)
    with pytest.raises(InvalidInput, match="no finite"):
        ledger.reserve("r", None, kind="redaction", leakage=0.1, mu=0.1)
    for name in ("mu", "rho"):
        for wrong in (0, -0.1, math.nan, math.inf, "0.1x"):
            with pytest.raises(InvalidInput, match=name):
                ledger.reserve("r", **{name: wrong})
    with pytest.raises(InvalidInput, match="DP level"):
        ledger.reserve("r")
    with pytest.raises(BudgetExceeded):
        ledger.reserve("r", mu=1e200)
    assert ledger.verify() == 1


def test_guarantees_for_adding_and_removing_count_twice(sqlite_place):
    ledger = opened(sqlite_place, limit=3.0)
    twice: Any = {"neighbours": "add-remove"}
    ledger.reserve("point", ut.ApproximateDP(0.01, 1e-9, **twice))
    ledger.reserve("rho", ut.ZCDP(1e-5, **twice))
    ledger.reserve("mu", ut.GDP(0.01, **twice))
    spent = ledger.spent()
    assert (float(spent.level), spent.mu, float(spent.rho)) == (0.02, 0.02, 4e-5)
    assert float(spent.delta) == pytest.approx(1e-9 * (1 + math.exp(0.01)))


def test_redactions_stand_alone_here_too(place):
    ledger = opened(place)
    ledger.reserve("r", None, kind="redaction", leakage=0.5)
    assert (ledger.level(), ledger.left(), ledger.left_mu()) == (math.inf, 0.0, 0.0)
    assert ledger.leakage().upper == 0.5
    with pytest.raises(LedgerConflict, match="redaction"):
        ledger.reserve("noise", mu=0.01)


# --- as before ------------------------------------------------------------------------------------


def test_a_release_of_noise_is_charged_once(place):
    ledger = opened(place)
    first = ledger.reserve("r", mu=0.05, scope=week(0), about={"plan": "p"})
    assert ledger.reserve("r", ut.GDP(0.05), week(0), {"plan": "p"}) == first
    for other in ({"mu": 0.04}, {"rho": 0.00125}, {"level": 0.1}):
        with pytest.raises(LedgerConflict, match="another"):
            ledger.reserve("r", scope=week(0), about={"plan": "p"}, **other)
    ledger.begin("r")
    ledger.confirm("r", {"value": 17})
    assert ledger.reserve("r", mu=0.05, scope=week(0), about={"plan": "p"}).result == {"value": 17}
    found = ledger.entry("r")
    assert found is not None
    assert (found.level, found.mu, found.rho, found.delta) == (None, 0.05, None, None)
    with pytest.raises(LedgerConflict, match="has begun"):
        ledger.cancel("r", "too late")
    assert ledger.verify() == 4


FORGERIES = [
    "UPDATE undertow_segments SET exact = '0'",
    "UPDATE undertow_segments SET exact = '0;1/1000000;0;0;0;0;0'",
    "UPDATE undertow_segments SET exact = '0;0;0;1/4;0;0;0'",
    "UPDATE undertow_datasets SET terms = replace(terms, '\"small\":1.6', '\"small\":9.6')",
    "UPDATE undertow_events SET body = replace(body, '\"mu\":0.05', '\"mu\":0.01')",
]


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_sums_are_found(place, forgery):
    ledger = opened(place)
    ledger.reserve("r", mu=0.05)
    place.forge(forgery)
    with pytest.raises(LedgerDamaged):
        ledger.reserve("more", mu=0.01)
    with pytest.raises(LedgerDamaged):
        ledger.verify()


@pytest.mark.parametrize("text", ["x", "0;1", "0;-1/4;0;0;0;0;0", "2/8", "0;0;0;0;0;0;0", "nan"])
def test_a_spend_has_one_text(sqlite_place, text):
    ledger = opened(sqlite_place)
    ledger.reserve("r", mu=0.05)
    sqlite_place.forge(f"UPDATE undertow_segments SET exact = '{text}'")
    with pytest.raises(LedgerDamaged, match="spent level"):
        ledger.left_mu()
    for good in ("1/4", "1/4;1/8;0;0;1/16;0;0", "0;1/8;1/2;1/3;0;1/3;1"):
        assert str(Spend.read(good)) == good


def test_spends_that_cover_each_other():
    low, high = Spend(squares=Fraction(1, 9)), Spend(squares=Fraction(1, 4))
    level = Spend(Fraction(1, 2))
    assert worst([]) == ()
    assert worst([level, Spend(Fraction(1, 3))]) == (level,)
    assert set(worst([low, high, level])) == {high, level}
    assert set(worst([level + low, high])) == {level + low, high}
    assert highest([level, high]) == Spend(Fraction(1, 2), Fraction(1, 4))
    assert not (level + high) + -(level + high)


def test_records_with_different_spends_are_exchanged_together():
    """Theorem 1 wants one level for all records: the best level of each alone says too little."""
    model = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    terms = Terms(model.to_dict(), 1.0, 0.25, "any", "record", delta=1e-6, small=1.65e-7)
    pure = Spend(Fraction(24, 100))
    noisy = Spend(squares=Fraction(1, 20_000))
    alone = [exchanged_at_delta([spend], model, terms).upper for spend in (pure, noisy)]
    both = exchanged_at_delta([pure, noisy], model, terms).upper
    assert both >= max(alone)
    curve = LargestCurve((SpendCurve(pure), SpendCurve(noisy)))
    rates = {level: ut.leakage(ut.PureDP(level), model).upper for level in (0.24, 0.245, 0.25)}
    assert both <= min(
        rate
        for level, rate in rates.items()
        if closed_delta(curve.delta(level), level, rate) <= 1e-6
    )


RECORDS = ["inactive", "active"] * 50
COVARIANCE = [[6.1, 0.42, 2.44], [0.42, 5.32, 1.67], [2.44, 1.67, 12.84]]


def planned(query, noise="gaussian", releases=4, **options):
    asked = {"limit": 1.0, "delta": 1e-6, "noise": noise, "releases": releases, "method": "closed"}
    return ut.calibrate(query, CHAIN, **{**asked, **options})


@pytest.fixture
def ledger(tmp_path):
    return ut.Ledger(tmp_path / "year.db", "w25", CHAIN, 1.0, delta=1e-6, memory=False)


@pytest.mark.parametrize(
    "query",
    [
        ut.Count("active"),
        ut.Histogram(),
        ut.Sum(0, 10, dict(zip(CHAIN.states, (3, 4.5), strict=True))),
    ],
    ids=lambda q: type(q).__name__,
)
def test_a_plan_for_four_releases_fits_four_times(ledger, query):
    plan = planned(query)
    for k in range(4):
        ut.release(plan, RECORDS, ledger=ledger, release_id=str(k))
    mu = plan.noise.mu_upper(plan.length)
    assert [(entry.level, entry.mu) for entry in ledger.entries()] == [(None, mu)] * 4
    assert 0.999 < ledger.leakage().upper <= 1.0
    again = ut.release(plan, RECORDS, ledger=ledger, release_id="3")
    assert again.replayed
    with pytest.raises(BudgetExceeded, match="method='closed'"):
        ut.release(plan, RECORDS, ledger=ledger, release_id="4")
    assert ledger.verify() > 9


def test_discrete_gaussian_noise_is_accounted_by_its_rho(ledger):
    plan = planned(ut.Count("active"), noise="discrete-gaussian")
    ut.release(plan, RECORDS, ledger=ledger, release_id="one")
    (entry,) = ledger.entries()
    assert (entry.mu, entry.rho) == (None, plan.noise.rho_upper(plan.length))
    assert ledger.spent().squares == 0


def test_laplace_noise_is_accounted_by_its_level(ledger, tmp_path):
    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=0.4, method="exchange")
    ut.release(plan, RECORDS, ledger=ledger, release_id="one")
    ut.release(planned(ut.Count("active"), releases=52), RECORDS, ledger=ledger, release_id="two")
    assert ledger.level() == level_of(plan, plan.leakage)
    plain = ut.Ledger(tmp_path / "plain.db", "w25", CHAIN, 1.0, memory=False)
    with pytest.raises(LedgerConflict, match="without a delta"):
        ut.release(planned(ut.Count("active")), RECORDS, ledger=plain)
    assert plain.entries() == []


def test_what_is_foretold_is_what_happens(ledger):
    plan = planned(ut.Count("active"))
    ready = prepare(plan, RECORDS, ledger)
    told = foretell(ready.entry, ledger)
    assert told is not None
    assert (told.spends, told.left) == (0.0, ledger.budget)
    ut.release(plan, RECORDS, ledger=ledger)
    assert told.left_after == ledger.left() == 0.0
    assert told.after is not None
    assert told.after.left_mu() == ledger.left_mu()
    again = foretell(ready.entry, ledger)
    assert again is not None
    assert again.recorded
    assert again.after == again.room == ledger.room()


def test_gaussian_records_with_a_spread_have_no_such_account(tmp_path):
    family = ut.MultivariateGaussian([69, 64, 67], COVARIANCE, spread=40)
    plan = ut.calibrate(ut.Sum(50, 90), family, limit=1.0, delta=1e-6, noise="gaussian")
    account = ut.Ledger(tmp_path / "year.db", "families", family, 1.0, memory=False)
    with pytest.raises(NotSupported, match="rates of d-privacy"):
        ut.release(plan, [70.0, 64.0, 68.0], ledger=account)
    with pytest.raises(NotSupported, match="rates of d-privacy"):
        spend_terms(plan, plan.leakage)


# --- commands -------------------------------------------------------------------------------------


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """A folder with a model, a plan and a table, made the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("chain.json").write_text(json.dumps(CHAIN.to_dict()))
    Path("count.plan").write_text(planned(ut.Count("active")).to_json())
    lines = [f"p,{hour},{RECORDS[hour]}" for hour in range(100)]
    Path("steps.csv").write_text("\n".join(["id,hour,state", *lines]) + "\n")


CREATE = ("ledger", "create", "year.db", "--dataset", "w25", "--model", "chain.json", "--limit", 1)
RELEASE = (
    "release", "steps.csv", "--plan", "count.plan", "--value", "state", "--person", "id",
    "--time", "hour", "--every", 1, "--ledger", "year.db", "--dataset", "w25",
)  # fmt: skip


@pytest.mark.usefixtures("scene")
def test_the_commands_say_what_noise_spends():
    made = call_json(*CREATE, "--delta", "1e-6", "--pure", "0.05")
    assert (made["delta"], made["limit"]) == (1e-6, 1.0)
    shown = call_json("ledger", "show", "year.db")
    assert (shown["mu"], shown["rho"], shown["delta_spent"], shown["pure"]) == (0, 0, 0, 0.05)
    assert 1 / shown["left_mu"] == pytest.approx(20.880, abs=1e-3)
    told = call_json(*RELEASE, "--dry-run")
    plan = ut.Plan.from_json(Path("count.plan").read_text())
    assert (told["level"], told["mu"]) == (None, plan.noise.mu_upper(plan.length))
    said = call(*RELEASE, "--dry-run").output
    assert "mu 0.0295" in said
    assert "Gaussian noise of sigma 20.8" in said
    book = ut.Ledger("year.db", "w25")
    table = [("inactive", "active")[h % 2] for h in range(100)]
    ut.release(plan, table, ledger=book, release_id="by hand")
    said = call("ledger", "show", "year.db").output
    assert "1 at delta 1e-6: more than a factor 5.44" in said
    assert "mu 0.0295" in said
    shown = call_json("ledger", "show", "year.db")
    assert shown["mu"] == shown["entries"][0]["mu"] == told["mu"]
    assert shown["left"] == 0.05
    assert call_json("ledger", "limit", "year.db", 2, "--dataset", "w25")["delta"] == 1e-6


@pytest.mark.usefixtures("scene")
def test_an_account_without_a_delta_says_what_to_do():
    call(*CREATE)
    said = call(*RELEASE, "--dry-run")
    assert said.exit_code == 1
    assert "delta" in said.output
    changed = ("ledger", "limit", "year.db", 1, "--dataset", "w25", "--delta", "1e-6")
    assert call_json(*changed)["delta"] == 1e-6
    assert call(*RELEASE, "--dry-run").exit_code == 0


ACTIVITY = ((0.882, 0.118), (0.305, 0.695))
STICKY = ((0.95, 0.05), (0.05, 0.95))
KINDS = ("laplace", "gaussian", "discrete gaussian")
BETA, SMALL = 0.25032578764, 1.655396686e-7


def stationary(matrix):
    away, back = matrix[0][1], matrix[1][0]
    return (back / (away + back), away / (away + back))


def granted(ledger, asked, records, cells):
    """Ask for a share of what is left of each kind; return what was granted, for the oracle."""
    releases = []
    for k, (kind, share, scope) in enumerate(asked):
        touched = tuple(t for t in range(records) if inside(scope, t))
        room = ledger.room(scope)
        if kind == "laplace":
            amount = {"level": share * room.left()}
        elif kind == "gaussian":
            amount = {"mu": share * room.left_mu()}
        else:
            amount = {"rho": share * room.left_rho()}
        (value,) = amount.values()
        if not touched or value < 1e-3 * (kind != "discrete gaussian") or value < 1e-6:
            continue
        try:
            ledger.reserve(str(k), scope=scope, **amount)
        except UndertowError:
            assert share > 1  # whatever is left fits
            continue
        scale = {"level": 1 / value, "mu": 1 / value, "rho": 1 / math.sqrt(2 * value)}
        (name,) = amount
        releases.append(NoisyCount(touched, kind, scale[name], cells=cells))
    return releases


def inside(scope, record):
    """Records 0 and 1 are those of group a, the others of b; record t is at time t."""
    named = scope.groups is None or ("a" if record < 2 else "b") in scope.groups
    after = scope.start is None or record >= scope.start
    return named and after and (scope.end is None or record < scope.end)


@st.composite
def histories(draw, records, most):
    step = st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from([0.3, 0.7, 1.0, 1.0, 1.1]),
        st.sampled_from([None, None, ["a"], ["b"]]),
        st.sampled_from([(None, None), (None, None), (0, 2), (1, records), (1, 2)]),
    )
    found = draw(st.lists(step, min_size=1, max_size=most))
    return [
        (kind, share, Scope(None if groups is None else "cohort", groups, *ends))
        for kind, share, groups, ends in found
    ]


def check(folder, matrix, records, asked, terms, cells=20):
    """Return the share of the delta that an attacker reaches."""
    chain = ut.MarkovChain(matrix, length=records)
    place = folder / f"{uuid.uuid4().hex}.db"
    ledger = ut.Ledger(place, "few", chain, terms["limit"], memory=False, **terms["options"])
    releases = granted(ledger, asked, records, cells)
    delta = terms["options"]["delta"]
    if not releases:
        return 0.0
    law = joint_law(matrix, stationary(matrix), records)
    low, _ = joint_delta_any(law, releases, terms["limit"])
    assert low <= delta
    assert ledger.leakage().upper <= terms["limit"]
    low, _ = joint_delta_any(law, releases, ledger.leakage().upper)
    assert low <= delta * (1 + 1e-9)
    ledger.verify()
    place.unlink()
    return low / delta


terms_of = st.builds(
    lambda limit, delta, pure: {"limit": limit, "options": {"delta": delta, "pure": pure}},
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([1e-3, 0.02, 0.1]),
    st.sampled_from([0.0, 0.05]),
)


@law(
    settings(max_examples=25, deadline=None, database=None), 5,
    matrix=st.sampled_from([ACTIVITY, STICKY]), asked=histories(3, 3), terms=terms_of,
)  # fmt: skip
def test_no_granted_history_reveals_more_than_the_limit(tmp_path_factory, matrix, asked, terms):
    check(tmp_path_factory.getbasetemp(), matrix, 3, asked, terms)


@pytest.mark.soak
@settings(max_examples=2000, deadline=None, database=None)
@given(st.sampled_from([ACTIVITY, STICKY]), histories(4, 4), terms_of)
def test_long_histories_of_four_records(tmp_path_factory, matrix, asked, terms):
    check(tmp_path_factory.getbasetemp(), matrix, 4, asked, terms, cells=16)


ONE_RECORD = Scope()
FIXED = {
    "one normal": [("gaussian", 1.0, ONE_RECORD)],
    "two normals": [("gaussian", 0.7, ONE_RECORD), ("gaussian", 1.0, ONE_RECORD)],
    "a level first": [("laplace", 0.3, ONE_RECORD), ("gaussian", 1.0, ONE_RECORD)],
    "windows": [("gaussian", 1.0, Scope(start=0, end=2)), ("gaussian", 1.0, Scope(start=2, end=4))],
    "groups": [
        ("gaussian", 1.0, Scope("cohort", ["a"])),
        ("laplace", 1.0, Scope("cohort", ["b"])),
    ],
    "discrete": [("discrete gaussian", 0.5, ONE_RECORD), ("gaussian", 1.0, ONE_RECORD)],
}


@pytest.mark.parametrize("name", FIXED)
def test_histories_that_use_all_there_is(tmp_path, name):
    terms = {"limit": 1.0, "options": {"delta": 0.02}}
    reached = check(tmp_path, ACTIVITY, 4, FIXED[name], terms, cells=60)
    assert reached > 0.02  # an attacker gets somewhere: the test is not empty


# --- amounts that depend on answers ---------------------------------------------------------------


def gaussian_delta(mu, x):
    """The delta of mu-GDP at any level, also a negative one."""
    return norm.cdf(mu / 2 - x / mu) - np.exp(x) * norm.cdf(-mu / 2 - x / mu)


def response_delta(level, x):
    """The delta of randomised response of a level."""
    right = 1 / (1 + math.exp(-level))
    gain = [np.maximum(0.0, -np.expm1(x - loss)) for loss in (level, -level)]
    return right * gain[0] + (1 - right) * gain[1]


def chosen_after(mu, level, more):
    """The delta at beta of mu-GDP, then the better of two steps by the loss that was seen."""
    z = np.linspace(-12, 12, 400_001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    left = BETA - (mu**2 / 2 + mu * z)
    steps = [response_delta(level, left)] if level else [np.maximum(0.0, -np.expm1(left))]
    steps += [gaussian_delta(more, left)] if more else []
    return float((weights * np.maximum.reduce(steps)).sum())


@pytest.mark.parametrize("mu", [0.01, 0.02, 0.03, 0.04, 0.05])
@pytest.mark.parametrize("pure", [0.0, 0.05, 0.15])
def test_the_next_step_may_depend_on_the_answer(mu, pure):
    terms = Terms({}, 1.0, BETA, "any", "record", 1e-6, SMALL, pure)
    first = Spend(squares=Fraction(mu) ** 2)
    if not Room(terms).fits(first):
        return
    room = Room(terms).after(first)
    assert room.left() == pure
    reached = chosen_after(mu, room.left(), room.left_mu())
    assert reached <= SMALL * (1 + 1e-6)


def test_a_choice_between_a_level_and_noise_would_reveal_more():
    """Why the level is fixed when noise begins: each alone fits, the choice does not."""
    mu = 0.01
    free = Terms({}, 1.0, BETA, "any", "record", 1e-6, SMALL)
    more = Room(free).after(Spend(squares=Fraction(mu) ** 2)).left_mu()
    level = 0.21221517  # beta - level is where mu-GDP has the small delta
    assert gaussian_delta(mu, BETA - level) == pytest.approx(SMALL, rel=1e-4)
    assert chosen_after(mu, level, 0.0) < SMALL
    assert chosen_after(mu, 0.0, more) == pytest.approx(SMALL, rel=1e-6)
    assert chosen_after(mu, level, more) == pytest.approx(1.5518 * SMALL, rel=1e-3)
