"""What a ledger guarantees, on SQLite and on PostgreSQL alike."""

import math
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.ledger.places import BUDGET, EIGHTH, HALF, QUARTER
from tests.ledger.test_rules import entry, levels, scopes, spends
from undertow.data.scopes import Scope
from undertow.errors import (
    BudgetExceeded,
    InvalidInput,
    LedgerConflict,
    LedgerUnavailable,
    NothingToProtect,
    NotSupported,
)
from undertow.ledger import book
from undertow.ledger.amounts import round_up
from undertow.ledger.book import Ledger, datasets
from undertow.secrets import Person

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
coarse = levels | st.sampled_from([EIGHTH, QUARTER])  # often the same, so that segments join


def week(number):
    return Scope(start=7 * number, end=7 * number + 7)


# --- opening --------------------------------------------------------------------------------------


def test_a_new_ledger_has_everything_left(place):
    ledger = place.open()
    assert (ledger.level(), ledger.left(), ledger.budget, ledger.limit) == (0.0, BUDGET, BUDGET, 1)
    assert ledger.leakage().upper == 0.0
    assert (ledger.entries(), ledger.entry("r")) == ([], None)
    assert (ledger.against, ledger.unit, ledger.model) == ("any", "record", ut.Groups(2))
    assert ledger.verify() == 1


def test_an_existing_data_set_keeps_its_terms(place):
    Ledger(place.where, "steps", CHAIN, 1.0)
    same: list[dict[str, Any]] = [{}, {"model": CHAIN}, {"limit": 1}, {"against": "any"}]
    for options in (*same, {"secret": ut.Window(1)}):
        ledger = Ledger(place.where, "steps", **options)
        assert ledger.budget == ut.dp_budget(CHAIN, 1.0)
        assert ledger.model.to_dict() == CHAIN.to_dict()
    others: dict[str, Any] = {
        "model": ut.MarkovChain([[0.8, 0.2], [0.4, 0.6]]),
        "limit": 2.0,
        "against": "ignorant",
        "secret": ut.Person(),
    }
    for name, value in others.items():
        with pytest.raises(LedgerConflict, match=name if name != "against" else "adversary"):
            Ledger(place.where, "steps", **{name: value})
    assert Ledger(place.where, "steps").verify() == 1


def test_what_is_not_there_is_not_made_up(place):
    with pytest.raises(LedgerUnavailable, match="does not exist"):
        place.open(create=False)
    with pytest.raises(LedgerUnavailable, match="does not exist"):
        datasets(place.where)
    with pytest.raises(InvalidInput, match="needs a model and a limit"):
        place.open(model=None)
    with pytest.raises(InvalidInput, match="needs a model and a limit"):
        place.open(limit=None)
    with pytest.raises(LedgerUnavailable, match="does not exist"):
        place.open(create=False)  # the refusals above have made nothing
    place.open("there")
    with pytest.raises(InvalidInput, match="no data set 'elsewhere'"):
        place.open("elsewhere", create=False)
    assert datasets(place.where) == ["there"]


@pytest.mark.parametrize(
    "options",
    [
        {"model": "chain"},
        {"limit": 0.0},
        {"limit": math.inf},
        {"against": ut.Adversary(0)},
        {"secret": "household"},
        {"model": ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]], states=[(0, 1), (1, 2)])},
    ],
)
def test_terms_are_checked(sqlite_place, options):
    with pytest.raises(InvalidInput):
        sqlite_place.open(**options)
    with pytest.raises(InvalidInput):
        sqlite_place.open("line\nbreak")


def test_models_without_a_budget_are_refused(sqlite_place):
    certain = ut.MarkovChain([[1.0, 0.0], [0.0, 1.0]], start=[1.0, 0.0])
    with pytest.raises(NothingToProtect):
        sqlite_place.open(model=certain)
    frozen = ut.MarkovChain([[1.0, 0.0], [0.0, 1.0]], start=[0.5, 0.5])
    with pytest.raises(NotSupported, match="no DP level"):
        sqlite_place.open(model=frozen)
    with pytest.raises(LedgerUnavailable):
        datasets(sqlite_place.where)


def test_data_sets_do_not_touch_each_other(place):
    one, two = place.open("one"), place.open("two")
    one.reserve("r", BUDGET)
    two.reserve("r", HALF)
    assert (one.left(), two.left()) == (0.0, HALF)
    assert datasets(place.where) == ["one", "two"]
    assert two.verify() == 4
    assert [entry.level for entry in two.entries()] == [HALF]


# --- spending -------------------------------------------------------------------------------------


def test_fifty_two_weeks_cost_one(usual_place):
    ledger = usual_place.open()
    for number in range(52):
        ledger.reserve(f"week {number}", BUDGET, week(number))
    assert (ledger.level(), ledger.left()) == (BUDGET, 0.0)
    assert ledger.leakage().upper <= 1.0
    assert ledger.left(Scope(start=364)) == BUDGET
    with pytest.raises(BudgetExceeded, match="nothing is left") as caught:
        ledger.reserve("again", 0.1, week(51))
    assert caught.value.left == 0.0
    assert ledger.verify() == 53


def test_a_refusal_says_what_fits_and_writes_nothing(place):
    ledger = place.open()
    ledger.reserve("first", 0.2)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve("second", 0.4, week(3))
    said = "needs a DP level of 0.4 on all groups, time from 21 before 28, but a level of at most "
    assert said in str(caught.value)
    assert caught.value.left == ledger.left() == BUDGET - 0.2
    assert [entry.release_id for entry in ledger.entries()] == ["first"]
    ledger.reserve("second", caught.value.left, week(3))
    assert ledger.left(week(3)) == 0.0
    assert ledger.verify() == 3


@pytest.mark.parametrize("first", [0.1, 1 / 3, 0.3, 0.123456789, 5e-324, math.nextafter(BUDGET, 0)])
def test_what_is_left_fits_exactly(usual_place, first):
    ledger = usual_place.open()
    ledger.reserve("1", first)
    left = ledger.left()
    with pytest.raises(BudgetExceeded):
        ledger.reserve("2", math.nextafter(left, 1.0) + 1e-16)
    ledger.reserve("2", left)
    assert ledger.level() <= BUDGET
    assert ledger.left() <= 1e-16


def test_groups_are_disjoint_and_a_second_partition_is_not(place):
    ledger = place.open()
    ledger.reserve("both", HALF, Scope("cohort", ["a", "b"], 0, 7))
    ledger.reserve("a", HALF, Scope("cohort", ["A"], 0, 7))
    assert [ledger.level(Scope("cohort", [g])) for g in "abc"] == [BUDGET, HALF, 0.0]
    with pytest.raises(BudgetExceeded):
        ledger.reserve("women", EIGHTH, Scope("sex", ["f"], 0, 7))
    ledger.reserve("women", EIGHTH, Scope("sex", ["f"], 7, 14))
    assert [ledger.level(Scope("cohort", [g], 7)) for g in "abc"] == [EIGHTH] * 3
    ledger.reserve("c", QUARTER, Scope("cohort", ["c"]))
    assert ledger.level(Scope("cohort", ["c"], 0, 7)) == QUARTER
    assert ledger.level(Scope("cohort", ["c"], 7, 8)) == pytest.approx(QUARTER + EIGHTH)
    assert ledger.level(Scope(start=0, end=7)) == ledger.level() == BUDGET
    assert ledger.verify() == 5


def test_a_second_clock_touches_all_times(place):
    ledger = place.open()
    ledger.reserve("steps", HALF, week(0))
    ledger.reserve("uploads", HALF, Scope(start=7, end=14, clock="upload"))
    assert (ledger.left(week(0)), ledger.left(week(9))) == (0.0, HALF)
    assert ledger.verify() == 3


def test_persons_have_one_budget_for_all_their_records(place):
    ledger = Ledger(place.where, "persons", CHAIN, 1.0, secret=Person())
    ledger.reserve("a", 0.75, Scope("cohort", ["a"], 0, 7), unit="person")
    assert (ledger.budget, ledger.left(Scope("cohort", ["b"], 7, 14))) == (1.0, 0.25)
    assert ledger.leakage().upper == 0.75
    with pytest.raises(LedgerConflict, match="one record"):
        ledger.reserve("b", 0.1, unit="record")
    with pytest.raises(InvalidInput, match="unit"):
        ledger.reserve("b", 0.1, unit="household")  # type: ignore[arg-type]
    place.open("records").reserve("r", 0.1, unit="person")  # hides more: sound
    assert ledger.verify() == 4


def test_leakage_is_the_level_exchanged_once(place):
    ledger = Ledger(place.where, "steps", CHAIN, 1.0)
    for number in range(3):
        ledger.reserve(f"{number} a", 0.125, week(number))
        ledger.reserve(f"{number} b", 0.125, week(number))
    assert ledger.level() == 0.25
    assert ledger.leakage().upper == ut.leakage(ut.PureDP(0.25), CHAIN).upper <= 1.0
    ledger.reserve("rest", ledger.left(week(0)), week(0))
    assert ledger.leakage().proves(1.0)


def test_neighbours_of_one_level_become_one_segment(place):
    ledger = place.open()
    for number in (0, 1, 2, 0, 2, 1):
        ledger.reserve(uuid.uuid4().hex, HALF, week(number))
    rows = place.forge('SELECT start, "end", level FROM undertow_segments')
    assert [tuple(row) for row in rows] == [(0, 21, BUDGET)]
    assert ledger.verify() == 7


@pytest.mark.parametrize("backend", ["sqlite_place", "postgres_place"])
def test_the_database_holds_the_sums_of_brute_force(request, backend):
    place = request.getfixturevalue(backend)

    @settings(max_examples=12 if place.backend == "sqlite" else 4, deadline=None, database=None)
    @given(st.lists(st.tuples(coarse, scopes()), max_size=12), st.lists(scopes(), max_size=3))
    def check(asked, probes):
        ledger, accepted = place.open(uuid.uuid4().hex), []
        for k, (level, scope) in enumerate(asked):
            try:
                ledger.reserve(str(k), level, scope)
            except BudgetExceeded:
                continue
            accepted.append(entry(level, scope, str(k)))
        for probe in (Scope(), *probes):
            worst = max(spends(accepted, probe), default=0)
            assert ledger.level(probe) == round_up(Fraction(worst)) <= BUDGET
        ledger.verify()

    check()


@pytest.mark.parametrize("level", [0, -0.1, math.nan, math.inf, "0.1x", None])
def test_a_level_is_positive_and_finite(sqlite_place, level):
    ledger = sqlite_place.open()
    with pytest.raises(InvalidInput, match="DP level"):
        ledger.reserve("r", level)
    assert ledger.verify() == 1


def test_leakages_cannot_be_added(sqlite_place):
    with pytest.raises(InvalidInput, match="do not compose"):
        sqlite_place.open().reserve("r", 0.1, leakage=0.2)
    with pytest.raises(InvalidInput, match="'release'"):
        sqlite_place.open().reserve("r", 0.1, kind="leakage")


def test_names_and_descriptions_are_checked(sqlite_place):
    ledger = sqlite_place.open()
    with pytest.raises(InvalidInput, match="release id"):
        ledger.reserve("", 0.1)
    with pytest.raises(InvalidInput, match="about"):
        ledger.reserve("r", 0.1, None, ["plan"])
    with pytest.raises(InvalidInput, match="about"):
        ledger.reserve("r", 0.1, None, {"plan": math.nan})
    with pytest.raises(InvalidInput, match="Scope"):
        ledger.reserve("r", 0.1, "week 1")
    assert ledger.verify() == 1


# --- repeating ------------------------------------------------------------------------------------


def test_a_release_is_charged_once_and_answered_once(place):
    ledger = place.open()
    first = ledger.reserve("r", 0.3, week(0), {"plan": "p"})
    again = ledger.reserve("r", 0.3, week(0), {"plan": "p"})
    assert (first.result, first) == (None, again)
    assert ledger.entries()[0].status == "reserved"
    assert ledger.confirm("r", {"value": 17}) == {"value": 17}
    assert ledger.confirm("r", {"value": 99}) == {"value": 17}
    assert ledger.reserve("r", 0.3, week(0), {"plan": "p"}).result == {"value": 17}
    assert (ledger.level(), ledger.verify()) == (0.3, 3)
    found = ledger.entry("r")
    assert found == ledger.entries()[0]
    assert (found.status, found.result, found.hash) == (
        "confirmed",
        {"value": 17},
        first.entry_hash,
    )
    assert found.about == {"plan": "p"}


def test_an_empty_result_is_a_result(place):
    ledger = place.open()
    ledger.reserve("r", 0.1)
    assert ledger.confirm("r", {}) == {}
    assert ledger.confirm("r", {"value": 1}) == {}
    assert ledger.reserve("r", 0.1).result == {}


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"level": 0.2}, "level"),
        ({"scope": week(1)}, "window"),
        ({"scope": Scope("cohort", ["a"], 0, 7)}, "choice of groups"),
        ({"about": {"plan": "q"}}, "plan"),
        ({"about": {"plan": "p", "asked": {"source": "b.csv"}}}, "source"),
        ({"about": {"plan": "p", "asked": {"state": "steps > 1"}}}, r"meaning .*\(state\)"),
        ({"about": {"plan": "p", "shape": {"rows": 3}}}, r"shape of the data \(rows\)"),
        ({"level": None, "kind": "redaction", "leakage": 0.5}, "kind"),
    ],
)
def test_an_id_stands_for_one_release(usual_place, changed, what):
    ledger = usual_place.open()
    asked = {"level": 0.1, "scope": week(0), "about": {"plan": "p"}}
    ledger.reserve("r", **asked)
    with pytest.raises(LedgerConflict, match=f"another .*{what}"):
        ledger.reserve("r", **{**asked, **changed})
    assert ledger.verify() == 2


def test_nothing_is_confirmed_without_a_reservation(place):
    ledger = place.open()
    with pytest.raises(LedgerConflict, match="reserve before"):
        ledger.confirm("r", {"value": 17})
    for result in ([17], {1: 17}, {"value": math.nan}, {"value": (1, 2)}):
        with pytest.raises(InvalidInput, match="result") as caught:
            ledger.confirm("r", result)
        assert "17" not in str(caught.value)
    assert ledger.verify() == 1


RESULT = {
    "numbers": [0.1, 1 / 3, 1e-300, 5e-324, -0.0, 2**70, True, None],
    "text": 'quotes " and \\ and \0 and ü and 🦆',
}


def test_results_come_back_bit_by_bit(place):
    ledger = place.open()
    ledger.reserve("rück 🦆", 1 / 3, Scope("Gruppe", ['"', "\0", "ß"], -5, 7), RESULT)
    ledger.confirm("rück 🦆", RESULT)
    found = place.open().entry("rück 🦆")
    assert repr(found.result) == repr(found.about) == repr(RESULT)
    assert (found.level, ledger.level()) == (1 / 3, 1 / 3)
    assert ledger.verify() == 3


# --- redactions -----------------------------------------------------------------------------------


def test_a_redaction_stands_alone(place):
    ledger = place.open()
    for wrong in (1.5, 2.0):
        with pytest.raises(BudgetExceeded, match="redaction leaks"):
            ledger.reserve("r", None, kind="redaction", leakage=wrong)
    with pytest.raises(InvalidInput, match="no finite"):
        ledger.reserve("r", 0.1, kind="redaction", leakage=0.5)
    with pytest.raises(InvalidInput, match="leakage"):
        ledger.reserve("r", None, kind="redaction")
    ledger.reserve("r", math.inf, kind="redaction", leakage=0.75)
    ledger.reserve("r", None, kind="redaction", leakage=0.75)
    assert (ledger.level(), ledger.left()) == (math.inf, 0.0)
    assert ledger.leakage().upper == 0.75
    with pytest.raises(LedgerConflict, match="already has a redaction"):
        ledger.reserve("count", 0.1, Scope(start=10**6))
    with pytest.raises(LedgerConflict, match="already has a redaction"):
        ledger.reserve("other", None, kind="redaction", leakage=0.1)
    with pytest.raises(LedgerConflict, match="taken back"):
        ledger.set_limit(0.5)
    assert ledger.confirm("r", {"series": "a.b"}) == {"series": "a.b"}
    assert ledger.verify() == 3


def test_nothing_is_redacted_after_a_release(place):
    ledger = place.open()
    ledger.reserve("count", 0.1, week(0))
    with pytest.raises(LedgerConflict, match="already has other releases"):
        ledger.reserve("r", None, week(9), kind="redaction", leakage=0.1)
    assert ledger.verify() == 2


# --- limits ---------------------------------------------------------------------------------------


def test_limits_move_but_not_below_what_is_spent(place):
    ledger = place.open()
    ledger.reserve("r", 0.4)
    ledger.set_limit(2.0)
    assert (ledger.limit, ledger.budget) == (2.0, ut.dp_budget(ut.Groups(2), 2.0))
    assert ledger.left() == pytest.approx(0.6)
    with pytest.raises(LedgerConflict, match="cannot be taken back"):
        ledger.set_limit(0.7)
    ledger.set_limit(0.9)
    assert place.open(limit=None).left() == pytest.approx(0.05)
    with pytest.raises(LedgerConflict, match="set_limit"):
        place.open(limit=1.0)
    with pytest.raises(InvalidInput, match="limit"):
        ledger.set_limit(0)
    assert ledger.verify() == 4


# --- the rest -------------------------------------------------------------------------------------


def test_the_clock_may_go_backwards(place, monkeypatch):
    ledger = place.open()
    for number, day in enumerate(["2031-01-01", "1999-12-31", "2031-01-01"]):
        monkeypatch.setattr(book, "_now", lambda day=day: f"{day}T00:00:00+00:00")
        ledger.reserve(f"r{number}", 0.1)
        ledger.confirm(f"r{number}", {"value": number})
    assert [entry.release_id for entry in ledger.entries()] == ["r0", "r1", "r2"]
    assert ledger.verify() == 7


def test_times_are_utc():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", book._now())


def test_the_same_history_gives_the_same_hashes(sqlite_place, tmp_path, monkeypatch):
    monkeypatch.setattr(book, "_now", lambda: "2026-01-01T00:00:00+00:00")
    found = []
    for where in (sqlite_place.where, tmp_path / "copy.db"):
        ledger = Ledger(where, "w25", ut.Groups(2), 1.0)
        found.append(ledger.reserve("r", 0.1, week(0), {"plan": "p"}).entry_hash)
    assert found[0] == found[1]


def test_threads_may_share_a_ledger(place):
    ledger = place.open()

    def ask(number):
        try:
            ledger.reserve(f"r{number}", QUARTER)
        except BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(ask, range(12))) == 4
    assert (ledger.left(), ledger.verify()) == (0.0, 5)


def test_a_ledger_shows_where_it_is(place):
    shown = repr(place.open())
    assert shown.startswith("Ledger('the ledger ")
    assert shown.endswith("dataset='w25')")


def test_reports_hold_a_ledger_to_its_word(place):
    ledger = place.open()
    printed = ledger.reserve("r", 0.1).entry_hash
    assert ledger.verify(printed) == 2
