"""Accounts with a delta, on SQLite and on PostgreSQL alike: mu, rho, and (epsilon, delta)."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import undertow as ut
from tests.grids import each
from undertow.bounds.curves.leakages import closed_delta
from undertow.curves import LargestCurve
from undertow.data.scopes import Scope
from undertow.errors import (
    BudgetExceeded,
    InvalidInput,
    LedgerConflict,
    LedgerDamaged,
    NotSupported,
)
from undertow.ledger.amounts import Spend, highest, root_up, worst
from undertow.ledger.rules import Room, SpendCurve, Terms, exchanged_at_delta
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
