"""Begin and cancel: what was reserved and never drawn is given back exactly, and on record."""

import math
import uuid
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ledger.places import BUDGET, EIGHTH, HALF, LIMIT, QUARTER
from tests.ledger.test_rules import GROUPS, TIMES, entry, levels, scopes, terms, touches
from tests.ledger.test_tampering import forge_event
from undertow.data.scopes import Scope
from undertow.errors import BudgetExceeded, InvalidInput, LedgerConflict, LedgerDamaged
from undertow.ledger import book
from undertow.ledger.amounts import Spend, highest, round_up
from undertow.ledger.replay import Account
from undertow.ledger.rules import Layout

steps = st.lists(st.tuples(levels, scopes(), st.booleans()), max_size=10)


def brute_force(ever, live, probe):
    """Return the largest spend of the records of a probe; what came first fixed the partition."""
    by = next((e.scope.by for e in ever if e.scope.groups is not None), None)
    windows = [e.scope for e in ever if (e.scope.start, e.scope.end) != (None, None)]
    clock = windows[0].clock if windows else None
    return max(
        sum((Fraction(e.level) for e in live if touches(e.scope, group, moment, by, clock)), 0)
        for group in GROUPS
        for moment in TIMES
        if touches(probe, group, moment, by or probe.by, clock or probe.clock)
    )


@given(steps, st.randoms(use_true_random=False), scopes())
def test_what_is_given_back_leaves_the_sums_of_the_others(asked, random, probe):
    account, live, ever = Account(terms()), {}, []
    for k, (level, scope, cancel) in enumerate(asked):
        one = entry(level, scope, str(k))
        account.reserve(one)
        live[str(k)] = one
        ever.append(one)
        if cancel:
            key = random.choice(sorted(live))
            account.cancel(key)
            del live[key]
        found = account.spends.most(account.region(probe))
        assert highest(found) == Spend(Fraction(brute_force(ever, live.values(), probe)))
    assert account.layout.used == bool(live)
    for key in list(live):
        account.cancel(key)
    assert not any(account.cells.values())


@pytest.mark.parametrize("backend", ["sqlite_place", "postgres_place"])
def test_the_database_gives_back_exactly(request, backend):
    place = request.getfixturevalue(backend)

    @settings(max_examples=8 if place.backend == "sqlite" else 3, deadline=None, database=None)
    @given(steps, st.randoms(use_true_random=False))
    def check(asked, random):
        ledger, live = place.open(uuid.uuid4().hex), {}
        for k, (level, scope, cancel) in enumerate(asked):
            try:
                ledger.reserve(str(k), level, scope)
            except BudgetExceeded:
                continue
            live[str(k)] = level
            if cancel:
                key = random.choice(sorted(live))
                ledger.cancel(key, "a mistake")
                del live[key]
        ledger.verify()
        for key in list(live):
            ledger.cancel(key, "a mistake")
        assert (ledger.level(), ledger.left(), ledger.leakage().upper) == (0.0, BUDGET, 0.0)
        ledger.verify()

    check()


def test_a_cell_that_was_set_apart_since_gets_its_share_back(place):
    ledger = place.open()
    ledger.reserve("all", 0.1)
    ledger.reserve("a", 1 / 3, Scope("cohort", ["a"], 0, 7))
    ledger.reserve("more", EIGHTH)
    ledger.cancel("all", "wrong table")
    assert ledger.level(Scope("cohort", ["a"])) == round_up(Fraction(1 / 3) + Fraction(EIGHTH))
    assert ledger.level(Scope("cohort", ["b"])) == EIGHTH
    assert ledger.level(Scope("cohort", ["a"], 7)) == EIGHTH
    assert ledger.verify() == 5


def test_a_cancelled_id_is_retired(place):
    ledger = place.open()
    ledger.reserve("r", BUDGET)
    ledger.cancel("r", "wrong table")
    found = ledger.entry("r")
    assert (found.status, found.why, found.result, found.made) == (
        "cancelled", "wrong table", None, None,
    )  # fmt: skip
    assert [one.status for one in ledger.entries()] == ["cancelled"]
    for attempt in (
        lambda: ledger.reserve("r", BUDGET),
        lambda: ledger.reserve("r", EIGHTH),
        lambda: ledger.begin("r"),
        lambda: ledger.confirm("r", {"value": 1}),
        lambda: ledger.cancel("r", "again"),
    ):
        with pytest.raises(LedgerConflict, match=r"cancelled.*another id"):
            attempt()
    assert ledger.reserve("s", BUDGET).result is None
    assert (ledger.left(), ledger.verify()) == (0.0, 4)


def test_what_has_begun_stays_spent(place):
    ledger = place.open()
    ledger.reserve("begun", QUARTER)
    ledger.begin("begun")
    ledger.begin("begun")
    assert (ledger.entry("begun").status, ledger.entry("begun").begun) == ("reserved", True)
    ledger.reserve("confirmed", QUARTER)
    ledger.confirm("confirmed", {"value": 1})  # without begin, as before
    ledger.begin("confirmed")
    for key in ("begun", "confirmed"):
        with pytest.raises(LedgerConflict, match="noise may have been drawn"):
            ledger.cancel(key, "wrong table")
    with pytest.raises(LedgerConflict, match="nothing was reserved"):
        ledger.begin("unknown")
    assert ledger.confirm("begun", {"value": 2}) == {"value": 2}
    assert (ledger.level(), ledger.verify()) == (HALF, 6)


def test_a_reason_is_required(sqlite_place):
    ledger = sqlite_place.open()
    ledger.reserve("r", HALF)
    for why in ("", "  ", None, "a\nb"):
        with pytest.raises(InvalidInput, match="reason"):
            ledger.cancel("r", why)
    assert ledger.verify() == 2


def test_a_redaction_is_given_back_too(place):
    ledger = place.open()
    ledger.reserve("r", None, Scope("cohort", ["a"]), kind="redaction", leakage=0.5)
    assert ledger.level() == math.inf
    ledger.cancel("r", "wrong plan")
    assert (ledger.level(), ledger.left(), ledger.leakage().upper) == (0.0, BUDGET, 0.0)
    ledger.reserve("count", HALF)
    with pytest.raises(LedgerConflict, match="already has other releases"):
        ledger.reserve("s", None, kind="redaction", leakage=0.5)
    ledger.cancel("count", "wrong table")
    ledger.reserve("s", None, kind="redaction", leakage=0.5)
    assert ledger.verify() == 6


def test_a_limit_may_fall_to_what_is_left_spent(place):
    ledger = place.open()
    ledger.reserve("r", HALF)
    with pytest.raises(LedgerConflict, match="cannot be taken back"):
        ledger.set_limit(LIMIT / 4)
    ledger.cancel("r", "wrong table")
    ledger.set_limit(LIMIT / 4)
    assert ledger.verify() == 4


@pytest.mark.parametrize(
    ("before", "kind"),
    [("begin", "cancel"), ("confirm", "cancel"), ("cancel", "begin"), ("cancel", "confirm")],
)
def test_a_step_that_no_ledger_takes_is_found(sqlite_place, before, kind):
    ledger = sqlite_place.open()
    ledger.reserve("r", HALF)
    steps = {
        "begin": lambda: ledger.begin("r"),
        "confirm": lambda: ledger.confirm("r", {"value": 1}),
        "cancel": lambda: ledger.cancel("r", "wrong table"),
    }
    steps[before]()
    forge_event(sqlite_place, 4, kind, "r", {"at": "", "why": "", "result": {}})
    for attempt in (ledger.verify, lambda: ledger.reserve("s", EIGHTH)):
        with pytest.raises(LedgerDamaged, match="event 4"):
            attempt()


def test_when_a_result_was_made_is_told(place, monkeypatch):
    ledger = place.open()
    assert ledger.reserve("r", HALF).made is None
    monkeypatch.setattr(book, "_now", lambda: "2031-01-01T00:00:00+00:00")
    ledger.confirm("r", {"value": 1})
    assert ledger.reserve("r", HALF).made == "2031-01-01T00:00:00+00:00"
    found = ledger.entry("r")
    assert found.made == "2031-01-01T00:00:00+00:00"
    assert found.at < found.made


def test_words_for_what_is_left_and_when():
    account = Account(terms(0.25))
    account.reserve(entry(math.nextafter(0.25, 0), None, "most"))
    with pytest.raises(BudgetExceeded, match="but nothing is left") as caught:
        account.reserve(entry(0.1))
    assert 0 < caught.value.left < 1e-15
    day = 86_400_000_000
    clock = "microseconds of ts"
    assert Scope(start=0, end=7 * day, clock=clock).words() == (
        "all groups, ts from 1970-01-01 before 1970-01-08"
    )
    assert Scope(start=day // 2, clock=clock).words() == "all groups, ts from 1970-01-01T12:00:00"
    assert Scope(end=2**62, clock=clock).words() == f"all groups, ts before {2**62} microseconds"
    assert Layout().used is False
