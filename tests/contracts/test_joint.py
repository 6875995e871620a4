"""What was released together never leaks more than was guaranteed, by enumeration.

The oracle of `joint_oracle` is first held against numbers that were found without it. Then
releases that were once granted against their guarantee: each must be refused, or keep it. Then
random histories; the long form of these runs in the soak.
"""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.contracts import joint_histories as parts
from tests.contracts import joint_runs as runs
from tests.contracts.joint_histories import TWO, Ask, Person, Promise, Table, View, World
from tests.grids import each, law
from tests.oracles.joint import ERROR, Noisy, chain_law, joint_leakage

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=25)
ACTIVITY = TWO["activity"]


def counts(state, scale, *windows, states=2):
    """A noisy count of one state on each of some lists of records."""
    weights = tuple(int(x == state) for x in range(states))
    return [Noisy(tuple(window), weights, scale) for window in windows]


def series_law(transition, n, start="stationary"):
    return chain_law(ut.MarkovChain(transition, start=start), n)


# --- the oracle -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("windows", "leakage"),
    [
        ([range(4)], 2.54003),
        ([range(2), range(2, 4)], 2.54003),
        ([range(4), range(4)], 4.64194),
    ],
)
def test_the_oracle_composes(windows, leakage):
    """The activity chain, four records, level 1: disjoint windows cost one, the same twice."""
    found = joint_leakage(series_law(ACTIVITY, 4), counts(1, 1.0, *windows))
    assert found == pytest.approx(leakage, abs=5e-6)


# --- releases that were granted against their guarantee -------------------------------------------


def one_person(groups, *, first=0, every=False, present=None):
    present = tuple(range(len(groups))) if present is None else tuple(present)
    person = Person("a", first, present, tuple(groups), tuple(groups))
    return Table((person,), every, named=False)


WITHOUT_GROUPS = one_person((0,) * 6)
PARITY = one_person((0, 1) * 3)

BROKEN = {
    "groups within a series": (
        Ask(World("negative", 2), ut.Count(1), 2.0, "exact"), PARITY, View(by="g"),
    ),
    "window of any length": (
        Ask(World("round", 3), ut.Count(0), 5.0, "exact"), WITHOUT_GROUPS, View((2, 4)),
    ),
    "window of any length, another chain": (
        Ask(World("pair", 3), ut.Count(0), 3.0, "exact"), WITHOUT_GROUPS, View((2, 5)),
    ),
    "plan for two records on a window": (
        Ask(World("sticky", 2), ut.Count(1), 4.0, length=2), WITHOUT_GROUPS, View((2, 4)),
    ),
    "start of the chain, end of the series": (
        Ask(World("leaving", 2, (1.0, 0.0)), ut.Count(1), 1.0, length=2), WITHOUT_GROUPS,
        View((4, 6)),
    ),
    # found by the histories below
    "exchange for three records on a window": (
        Ask(World("leaving", 2), ut.Count(1), 2.0, "exchange", 3), WITHOUT_GROUPS, View((2, 5)),
    ),
    "exchange for two records, from a start": (
        Ask(World("ladder", 3, (1.0, 0.0, 0.0)), ut.Count(0), 3.0, "exchange", 2), WITHOUT_GROUPS,
        View((2, 4)),
    ),
    "quilts for two records, from a start": (
        Ask(World("ladder", 3, (1.0, 0.0, 0.0)), ut.Count(0), 3.0, "quilt", 2), WITHOUT_GROUPS,
        View((2, 4)),
    ),
    "dependence for two records, from a start": (
        Ask(World("ladder", 3, (1.0, 0.0, 0.0)), ut.Count(0), 3.0, "dependent", 2), WITHOUT_GROUPS,
        View((2, 4)),
    ),
    "one declared group of several": (
        Ask(World("never twice", 2), ut.Count(0), 2.0, length=6), PARITY, View(by="g", groups=(0,)),
    ),
    "some records in no group": (
        Ask(World("never twice", 2), ut.Count(1), 2.0, length=6),
        one_person((1, None, 1, 1, None, 1)), View(by="g"),
    ),
    "groups against an ignorant attacker": (
        Ask(World("round", 3), ut.Count((0, 2)), 2.0, length=4, against="ignorant"),
        one_person((0, 1, 0, 1)), View(by="g"),
    ),
    "groups by the distance of Wasserstein": (
        Ask(World("stack", 3, (0.2, 0.3, 0.5), (1, 1, 1)), ut.Count((0, 1)), 1.0, "wasserstein",
            against="ignorant"),
        one_person((0, 1, 0, 1)), View(by="g"),
    ),
    "a single record": (
        Ask(World("wavering", 2), ut.Count(1), 1.0, "exact", against="ignorant"),
        one_person((0,)), View(),
    ),
    "a window of a single record": (
        Ask(World("wavering", 2), ut.Count(1), 1.0, "exact", against="ignorant"),
        WITHOUT_GROUPS, View((3, 4)),
    ),
    "flips for two records on a window": (
        Ask(World("activity", 2, (0.3, 0.7)), ut.Series(), 4.0, length=2), WITHOUT_GROUPS,
        View((1, 3)),
    ),
    "more records of a person than depend on each other": (
        Ask(World("any", 2, dependent=2), ut.Count(1), 2.0, "group", unit="person"),
        WITHOUT_GROUPS, View(),
    ),
    "a redacted window": (
        Ask(World("leaving", 2, (1.0, 0.0)), ut.Redacted(1, length=3), 1.0, "optimal", 3),
        WITHOUT_GROUPS, View((2, 5)),
    ),
    "a redacted window of a chain with zeros": (
        Ask(World("never twice", 2, (1.0, 0.0)), ut.Redacted(0, length=2), 0.5, "mq", 2),
        WITHOUT_GROUPS, View((2, 4)),
    ),
    "a noise chain on a window": (
        Ask(World("sticky", 2), ut.Series(), 2.0, "xor", 2), WITHOUT_GROUPS, View((2, 4)),
    ),
    "dependence on groups": (
        Ask(World("never twice", 2), ut.Count(0), 3.0, "dependent", 4), one_person((0, 1, 0, 1)),
        View(by="g"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_release_is_refused_or_keeps_its_guarantee(case):
    ask, table, view = BROKEN[case]
    outcome = runs.release_of(case, ask, table, view, np.random.default_rng(1))
    assert outcome.kinds, "there is no such plan any more: the case tests nothing"
    assert outcome.failure is None


def test_a_ledger_for_short_series_is_refused_long_ones_or_keeps_its_limit(tmp_path):
    """Three consecutive windows of six records, from a ledger whose model has two."""
    where = World("sticky", 2)
    ledger = ut.Ledger(tmp_path / "a.db", "data", where.model(2), 1.0)
    frame = WITHOUT_GROUPS.frame(np.random.default_rng(1), 2)
    book = runs.Account(where, WITHOUT_GROUPS, frame, ledger)
    for low in (0, 2, 4):
        book.ask(Ask(where, ut.Count(1), 1.0, "exchange", 2), View((low, low + 2)))
    assert book.leakage() <= 1.0 + ERROR


def test_a_ledger_for_short_series_keeps_its_limit_on_whole_long_ones(tmp_path):
    """No window: plans for six records, from a ledger whose model has two."""
    where = World("leaving", 2)
    ledger = ut.Ledger(tmp_path / "a.db", "data", where.model(2), 3.0)
    frame = WITHOUT_GROUPS.frame(np.random.default_rng(1), 2)
    book = runs.Account(where, WITHOUT_GROUPS, frame, ledger)
    for query in (ut.Count(1), ut.Sum(0, 1), ut.Count(0)):
        book.ask(Ask(where, query, 2.5, "exchange", 6), View())
    assert book.leakage() <= 3.0 + ERROR


@pytest.mark.parametrize("name", ["01", 1.0])
def test_another_name_of_a_group_is_the_same_group_to_a_ledger(tmp_path, name):
    where, table = World("wavering", 2), one_person((1,) * 6)
    ledger = ut.Ledger(tmp_path / "a.db", "data", where.model(None), 1.0)
    book = runs.Account(where, table, table.frame(np.random.default_rng(1), 2), ledger)
    book.ask(Ask(where, ut.Count(1), 1.0, "exchange"), View(by="g", groups=(1,)))
    book.ask(Ask(where, ut.Sum(0, 1), 1.0, "exchange"), View(by="g", groups=(name,)))
    assert book.leakage() <= 1.0 + ERROR


# --- what must be granted -------------------------------------------------------------------------


@each(("name", "length"), sorted(parts.STEADY), [None, 4])
def test_exact_plans_are_granted_whole_series(name, length):
    states = 2 if name in TWO else 3
    ask = Ask(World(name, states), ut.Count(0), 1.0, "exact", length)
    for table in (one_person((0,) * 4), one_person((0,) * 4, every=True)):
        outcome = runs.release_of("whole", ask, table, View(), np.random.default_rng(1))
        assert (outcome.granted, outcome.failure) == (1, None)
        whole = runs.release_of("group", ask, table, View(by="g"), np.random.default_rng(1))
        assert (whole.granted, whole.failure) == (1, None)


@each(("name", "query"), [*TWO, *parts.THREE], [ut.Count(0), ut.Histogram()])
def test_exchange_plans_for_any_length_are_granted_everything(name, query):
    states = 2 if name in TWO else 3
    n = runs.SMALL[states]
    table = one_person((0, 1, None, 1, 0, 1)[:n])
    ask = Ask(World(name, states), query, 1.0, "exchange")
    for view in (View(), View((1, 3)), View(by="g"), View((0, 4), "g", (1,))):
        outcome = runs.release_of("any", ask, table, view, np.random.default_rng(1))
        assert (outcome.granted, outcome.failure) == (1, None), view


@pytest.mark.parametrize("name", ["activity", "plain"])
def test_a_ledger_grants_every_disjoint_window_its_limit(tmp_path, name):
    where, table = World(name, 2 if name in TWO else 3), one_person((0,) * 4)
    ledger = ut.Ledger(tmp_path / "a.db", "data", where.model(None), 1.0)
    book = runs.Account(where, table, table.frame(np.random.default_rng(1), 2), ledger)
    ask = Ask(where, ut.Count(0), 1.0, "exchange")
    decisions = [book.ask(ask, View(window))[1] for window in ((0, 1), (1, 3), (3, 4), (0, 2))]
    assert decisions[:3] == ["granted"] * 3
    assert decisions[3] == "BudgetExceeded"
    assert book.leakage() <= 1.0 + ERROR


# --- random histories -----------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0])
def test_random_releases_keep_their_guarantee(first):
    tally = runs.run(runs.single, range(first, first + 15), seconds=3600)
    assert not tally.failures
    assert tally.histories == 15
    assert sum(tally.grants.values()) >= 2


@pytest.mark.parametrize("first", [7])
def test_random_accounts_keep_their_limit(tmp_path, first):
    tally = runs.run(lambda number: runs.account(number, tmp_path), range(first, first + 7), 3600)
    assert not tally.failures
    assert tally.histories == 7
    assert sum(tally.grants.values()) >= 4


@law(LAWS, 5, data=st.data())
def test_any_grouping_of_any_window_keeps_the_guarantee(data):
    name = data.draw(st.sampled_from(sorted(parts.STEADY & set(TWO))), "chain")
    n = data.draw(st.integers(2, 6), "records")
    groups = data.draw(st.lists(st.sampled_from([0, 1, None]), min_size=n, max_size=n), "groups")
    low = data.draw(st.integers(0, n - 1), "start")
    high = data.draw(st.integers(low + 1, n), "end")
    method = data.draw(st.sampled_from(["exact", "exchange", "quilt"]), "method")
    length = data.draw(st.sampled_from([None, n, max(2, high - low)]), "length")
    by = data.draw(st.sampled_from([None, "g"]), "by")
    window = None if (low, high) == (0, n) else (low, high)
    ask = Ask(World(name, 2), ut.Count(0), 1.0, method, length)
    outcome = runs.release_of(
        "drawn", ask, one_person(groups), View(window, by), np.random.default_rng(1)
    )
    assert outcome.failure is None


def with_noise_times(share, monkeypatch):
    """Have histories judged as if this share of the noise had been drawn."""
    honest = parts.joint

    def quieter(where: World, promise: Promise, n, granted, public=None):
        less = [
            Noisy(one.positions, one.weights, share * one.scale, one.factors)
            if isinstance(one, Noisy)
            else one
            for one in granted
        ]
        return honest(where, promise, n, less, public)

    monkeypatch.setattr(parts, "joint", quieter)


def test_a_broken_guarantee_would_be_noticed(monkeypatch, tmp_path):
    """With a tenth less noise than was drawn, some histories leak more than was guaranteed."""
    with_noise_times(0.9, monkeypatch)
    assert len(runs.run(runs.single, (1, 11, 13), 3600).failures) == 3
    assert runs.run(lambda number: runs.account(number, tmp_path), [11], 3600).failures
