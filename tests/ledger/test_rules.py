"""The rules alone: sums against brute force over every moment and group, rounding, names."""

import datetime as dt
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from undertow.certificate import DEEPEST, canonical
from undertow.data.scopes import HIGH, LOW, Scope, as_scope, check_name, group_key
from undertow.errors import BudgetExceeded, InvalidInput, LedgerConflict
from undertow.ledger.amounts import Spend, round_down, round_up
from undertow.ledger.replay import Account
from undertow.ledger.rules import (
    REST,
    Entry,
    Layout,
    Room,
    Segment,
    Terms,
    check_same,
    exact_level,
    overlay,
    region,
    settled,
)

TIMES = range(-2, 9)  # the outer ones stand for all earlier and all later moments
GROUPS = ("a", "b", "c", "never named")
levels = st.floats(1e-3, 2.0) | st.sampled_from([0.1, 0.5, 1 / 3, 5e-324])
moments = st.none() | st.integers(0, 6)


@st.composite
def scopes(draw):
    by = draw(st.sampled_from([None, None, "cohort", "cohort", "sex"]))
    groups = None
    if by is not None and draw(st.integers(0, 4)):
        groups = draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
    start, end = draw(moments), draw(moments)
    if start is not None and end is not None and start >= end:
        start, end = end, start + 1
    return Scope(by, groups, start, end, draw(st.sampled_from(["time", "time", "upload"])))


def entry(level=0.1, scope=None, key="r", **options):
    return Entry(key, "release", level, None, scope or Scope(), {}, **options)


def terms(budget=1e6, unit="record"):
    return Terms({}, 1.0, budget, "any", unit)


def touches(scope, group, moment, by, clock):
    """Return whether a record is touched: the definition, one record at a time."""
    inside = (scope.start is None or scope.start <= moment) and (
        scope.end is None or moment < scope.end
    )
    named = scope.groups is None or group in scope.groups
    return (inside or scope.clock != clock) and (named or scope.by != by)


def spends(entries, probe):
    """Return the exact spend of every record that a probe touches, by brute force."""
    by = next((e.scope.by for e in entries if e.scope.groups is not None), None)
    windowed = [e.scope for e in entries if (e.scope.start, e.scope.end) != (None, None)]
    clock = windowed[0].clock if windowed else None
    records = [(group, moment) for group in GROUPS for moment in TIMES]
    return [
        sum((Fraction(e.level) for e in entries if touches(e.scope, *record, by, clock)), 0)
        for record in records
        if touches(probe, *record, by or probe.by, clock or probe.clock)
    ]


@given(st.lists(st.tuples(levels, scopes()), max_size=8), scopes())
def test_segments_hold_the_sums_of_brute_force(asked, probe):
    account = Account(terms())
    entries = [entry(level, scope, str(k)) for k, (level, scope) in enumerate(asked)]
    for one in entries:
        account.reserve(one)
    where = region(account.layout, probe, "record")
    found = [
        segment.spend.level
        for cell in where.seen
        for segment in account.cells[cell]
        if segment.start < where.end and segment.end > where.start
    ]
    assert max(found, default=0) == max(spends(entries, probe), default=0)
    for line in account.cells.values():
        assert all(segment.start < segment.end and segment.spend.level > 0 for segment in line)
        for left, right in itertools.pairwise(line):
            assert left.end < right.start or (left.end == right.start and left.spend != right.spend)


WEEK_THEN_GROUP = [(0.5, Scope(start=0, end=2)), (0.25, Scope("cohort", ["a"], 4, 6))]


@settings(max_examples=20)
@given(st.lists(st.tuples(levels, scopes()), max_size=6))
@example(WEEK_THEN_GROUP)
def test_what_a_writer_stores_is_what_the_events_give(asked):
    """A fresh cell is stored with all that the rest has spent, also outside of its own window."""
    account = Account(terms())
    stored: dict[str, list[Segment]] = {REST: []}
    for k, (level, scope) in enumerate(asked):
        one = entry(level, scope, str(k))
        for cells, old, new in account.spends.changes(account.region(scope), one.spend):
            for cell in cells:
                left = [segment for segment in stored.get(cell, []) if segment not in old]
                stored[cell] = sorted([*left, *new], key=lambda segment: segment.start)
        account.reserve(one)
        assert stored == account.cells


@given(st.lists(st.tuples(levels, scopes()), max_size=6), st.randoms())
def test_the_order_of_entries_does_not_matter_where_partition_and_clock_are_one(asked, random):
    one = [
        (level, Scope("cohort" if scope.groups else None, scope.groups, scope.start, scope.end))
        for level, scope in asked
    ]
    other = random.sample(one, len(one))
    first, second = Account(terms()), Account(terms())
    for account, order in ((first, one), (second, other)):
        for k, (level, scope) in enumerate(order):
            account.reserve(entry(level, scope, str(k)))
    assert first.cells == second.cells


@given(st.lists(st.tuples(levels, scopes()), max_size=12), st.floats(0.1, 2))
def test_no_record_is_ever_overspent(asked, budget):
    account = Account(terms(budget))
    accepted: list[Entry] = []
    for k, (level, scope) in enumerate(asked):
        one = entry(level, scope, str(k))
        spent = max(spends(accepted, scope))
        if spent + Fraction(level) <= Fraction(budget):
            account.reserve(one)
            accepted.append(one)
            continue
        before = (account.layout, {cell: list(line) for cell, line in account.cells.items()})
        with pytest.raises(BudgetExceeded) as caught:
            account.reserve(one)
        assert spent + Fraction(caught.value.left) <= Fraction(budget)
        assert (account.layout, account.cells) == before
    assert max(spends(accepted, Scope())) <= Fraction(budget)


def test_fifty_two_weeks_are_one_segment():
    account = Account(terms(0.25))
    for week in range(52):
        account.reserve(entry(0.25, Scope(start=7 * week, end=7 * week + 7), str(week)))
    assert account.cells == {REST: [Segment(0, 364, Spend(Fraction(1, 4)))]}
    with pytest.raises(BudgetExceeded, match="nothing is left"):
        account.reserve(entry(1e-9, Scope(start=363), "more"))
    account.reserve(entry(0.25, Scope(start=364), "after"))


def test_overlay_splits_and_joins():
    quarter, half = Spend(Fraction(1, 4)), Spend(Fraction(1, 2))
    line = overlay([], 0, 10, quarter)
    line = overlay(line, 3, 5, quarter)
    assert line == [Segment(0, 3, quarter), Segment(3, 5, half), Segment(5, 10, quarter)]
    assert overlay(line, LOW, HIGH, quarter)[0] == Segment(LOW, 0, quarter)
    assert overlay(line[:1], 0, 3, quarter) == [Segment(0, 3, half)]


def test_a_person_is_touched_by_every_entry():
    layout = settled(Layout(), entry(scope=Scope("cohort", ["a"], 0, 7)), "person")
    assert layout == Layout(used=True)
    assert region(layout, Scope("cohort", ["b"], 7, 14), "person").start == LOW
    account = Account(terms(0.5, "person"))
    account.reserve(entry(0.5, Scope("cohort", ["a"], 0, 7), "one"))
    with pytest.raises(BudgetExceeded):
        account.reserve(entry(0.1, Scope("cohort", ["b"], 7, 14), "two"))


# --- numbers --------------------------------------------------------------------------------------


@given(st.fractions(0, 10**9) | st.floats(0, 1e300).map(Fraction))
def test_rounding_encloses_and_is_tight(value):
    low, high = round_down(value), round_up(value)
    assert Fraction(low) <= value <= Fraction(high)
    assert low == high or math.nextafter(low, math.inf) == high


def test_rounding_at_the_ends():
    assert round_up(Fraction(10) ** 400) == math.inf
    assert round_down(Fraction(-1)) == 0.0


def test_the_budget_is_compared_without_slack():
    tenth = Fraction(0.1)  # a little above a tenth: ten of them exceed 1
    Room(terms(1.0), (Spend(tenth * 8),)).check(entry(0.1))
    nine = Room(terms(1.0), (Spend(tenth * 9),))
    with pytest.raises(BudgetExceeded) as caught:
        nine.check(entry(0.1))
    assert tenth * 9 + Fraction(caught.value.left) <= 1
    nine.check(entry(caught.value.left))


def test_levels_of_other_number_types_are_rounded_up():
    assert exact_level(1) == 1.0
    assert Fraction(exact_level(Fraction(1, 3))) > Fraction(1, 3)
    assert Fraction(exact_level(Decimal("0.3"))) >= Fraction(3, 10)
    assert exact_level(np.float64(0.1)) == 0.1
    assert exact_level(2**53 + 1) == 2**53 + 2
    long = np.longdouble(1) + np.finfo(np.longdouble).eps
    assert Fraction(exact_level(long)) >= Fraction(*long.as_integer_ratio())


@pytest.mark.parametrize("level", [0, -1, math.nan, math.inf, "much", None, 10**400])
def test_what_is_no_level_is_refused(level):
    with pytest.raises(InvalidInput, match="DP level"):
        exact_level(level)


# --- scopes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"groups": ["a"]},
        {"by": "cohort", "groups": "abc"},
        {"by": "cohort", "groups": []},
        {"by": "cohort", "groups": [None]},
        {"by": "cohort", "groups": ["x" * 201]},
        {"by": "", "groups": ["a"]},
        {"by": 3, "groups": ["a"]},
        {"start": 3, "end": 3},
        {"start": 4, "end": 3},
        {"start": 0.5},
        {"start": True},
        {"end": HIGH},
        {"start": LOW},
        {"clock": "a\0b"},
    ],
)
def test_what_is_no_scope_is_refused(options):
    with pytest.raises(InvalidInput):
        Scope(**options)


def test_a_scope_or_nothing_is_asked_for():
    assert as_scope(None) == Scope()
    moment: Any = np.int64(7)
    named = Scope("cohort", ("b", "a"), None, moment, "upload")
    assert as_scope(named) is named
    assert named == Scope("cohort", ["a", "b"], end=7, clock="upload")
    others: list[Any] = ["week 1", SimpleNamespace(by=None, groups=None, start=None, end=None)]
    for other in others:
        with pytest.raises(InvalidInput, match="a Scope"):
            as_scope(other)


def test_scopes_read_back():
    for scope in (Scope(), Scope("cohort", [1, "b"], -5, 7, "upload")):
        assert Scope(**scope.to_dict()) == scope


def test_scopes_in_words():
    assert Scope().words() == "all groups, all times"
    assert Scope("by", range(9), end=3).words() == "by 0, 1, 2, 3, 4, 5 and 3 more, time before 3"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        (1.0, "01"),
        (True, "TRUE "),
        (0.1, "0.10"),
        (0.0, "-0"),
        (100000, "1e5"),
        ("é", "e\u0301"),
        (np.int64(3), "3"),
        (np.bool_(True), True),
        (10**17 + 1, str(10**17 + 1)),
        (dt.date(2025, 1, 2), "2025-01-02"),
    ],
)
def test_names_that_could_mean_one_group_are_one(one, other):
    assert group_key(one) == group_key(other)


@pytest.mark.parametrize(
    ("one", "other"), [("a", "b"), (10**17, 10**17 + 1), ("1", "11"), ("nan", "inf"), (0.1, 0.2)]
)
def test_different_groups_stay_apart(one, other):
    assert group_key(one) != group_key(other)


@given(st.text() | st.integers() | st.floats() | st.from_regex(r"-?[0-9]+(\.[0-9]+)?(e[0-9]+)?"))
def test_a_stored_name_is_its_own_name(name):
    try:
        key = group_key(name)
    except InvalidInput:
        return
    assert group_key(key) == key
    assert group_key(f" {key.upper().lower()} ") == key or not key.isascii()


@pytest.mark.parametrize("name", ["", "  ", "a ", " a", "a\nb", "\ud800", "x" * 201, 7, None])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InvalidInput, match="what"):
        check_name(name, "what")


# --- the rest -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [{1: 2}, {"a": (1, 2)}, {"a": math.nan}, {"a": math.inf}, {"a": {1}}, {"a": np.int64(3)}],
)
def test_what_json_would_change_is_refused(value):
    with pytest.raises(InvalidInput, match="reads back"):
        canonical(value, "result")


@pytest.mark.parametrize("half", ["\ud800", "x\udfffy", "\ud83d\ude00"])
def test_half_a_character_is_refused_anywhere(half):
    for value in (half, [half], {"a": half}, {half: 1}, {"a": [{"b": {"c": half}}]}):
        with pytest.raises(InvalidInput, match="whole characters"):
            canonical({"about": value}, "result")
    assert canonical({"a": "\U0001f600 \\ud800"}, "result")


def test_nesting_that_a_reader_cannot_hold_is_refused():
    value: Any = 1
    for _ in range(DEEPEST):
        value = [value]
    assert canonical(value, "result")
    with pytest.raises(InvalidInput, match=f"at most {DEEPEST} deep"):
        canonical([value], "result")


def test_json_that_contains_itself_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(InvalidInput):
        canonical({"a": loop}, "result")


def test_names_written_in_two_ways_are_one():
    assert check_name("w\u0075\u0308", "what") == check_name("wü", "what")


def test_a_taken_id_says_what_differs():
    with pytest.raises(LedgerConflict, match="another level and another window"):
        check_same(entry(), entry(0.2, Scope(start=0)))
