"""Transitions: sensitivities by all replacements, answers by loops, leakages by enumeration."""

import itertools
import math
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.data.tables import DAY, STEP, Row, as_source, is_missing, position, tables
from tests.grids import law
from undertow.errors import NotSupported
from undertow.planning.coverage import covering
from undertow.releasing.request import prepare

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
NAMES = ("inactive", "active")
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=60)


def moves(size, length):
    """How far each replacement of one record, by a state or by nothing, moves the table."""
    values = (*range(size), None)
    asked, states = ut.Transitions(), tuple(range(size))
    for series in itertools.product(values, repeat=length):
        before = np.array(asked.evaluate(series, states))
        for place, value in itertools.product(range(length), values):
            other = (*series[:place], value, *series[place + 1 :])
            yield place, np.array(asked.evaluate(other, states)) - before


@pytest.mark.parametrize("size", [2, 3])
def test_the_sensitivities_are_the_worst_of_all_replacements(size):
    found = list(moves(size, 4))
    assert max(np.abs(move).sum() for _, move in found) == ut.Transitions().sensitivity() == 4
    largest = max(math.sqrt((move**2).sum()) for _, move in found)
    assert largest == pytest.approx(math.sqrt(6), rel=1e-15)
    assert largest <= ut.Transitions().euclidean() < largest * (1 + 1e-12)
    assert max(np.abs(move).sum() for place, move in found if place in (0, 3)) == 2


def test_all_records_of_a_person_move_the_table_by_two_for_each_pair():
    asked, all_series = ut.Transitions(), list(itertools.product(range(2), repeat=4))
    tables_of = [np.array(asked.evaluate(series, (0, 1))) for series in all_series]
    worst = max(np.abs(a - b).sum() for a, b in itertools.product(tables_of, repeat=2))
    assert worst == asked.person_upper(4) == 6
    chain = ut.MarkovChain(ACTIVITY, NAMES, length=30)
    plan = ut.calibrate(asked, chain, limit=1.0, secret=ut.Person())
    assert plan.noise.scale == 58.0
    assert plan.leakage.upper == 1.0
    assert ut.calibrate(ut.Histogram(), chain, limit=1.0, secret=ut.Person()).noise.scale == 60.0


def test_a_series_is_counted_pair_by_pair():
    asked = ut.Transitions()
    assert asked.evaluate(["a", "a", "b", None, "b", "x", "a", "b"], ("a", "b")) == [1, 2, 0, 0]
    assert asked.evaluate(["a"], ("a", "b")) == [0, 0, 0, 0]
    fitted = ut.MarkovChain.fit(list("aababbbba"), public=True)
    assert asked.evaluate(list("aababbbba"), ("a", "b")) == fitted.counts.ravel().tolist()


def by_loop(rows, states, groups, window, gaps):
    """The tables of all groups, one pair at a time."""
    low, high = window or (-math.inf, math.inf)
    found = {name: np.zeros((2, 2), dtype=int) for name in groups or (None,)}
    for who in {row.who for row in rows}:
        mine = sorted((row for row in rows if row.who == who), key=lambda row: row.when)
        slots: dict[int, tuple] = {}
        for row, after in zip(mine, [*mine[1:], None], strict=True):
            value = None if is_missing(row.value) else position(row.value, states)
            slots[row.when] = (row.group, value)
            if gaps != "split" and after is not None:
                for time in range(row.when + 1, after.when):
                    slots[time] = (row.group, states.index(gaps))
        for time, (group, value) in slots.items():
            there = low <= time and time + 1 < high
            nearby, other = slots.get(time + 1, (None, None))
            name = group if groups else None
            same = not groups or group == nearby
            if there and same and name in found and value is not None and other is not None:
                found[name][value, other] += 1
    return [table.ravel().tolist() for table in found.values()]


@law(LAWS, 8, data=st.data())
def test_tables_are_those_of_a_loop(data):
    states = ("a", "b")
    rows = data.draw(tables("text", most=20))
    rows = [
        Row(r.who, r.when, r.group, data.draw(st.sampled_from(["a", "b", None, "x"]))) for r in rows
    ]
    backend = data.draw(st.sampled_from(["polars", "csv", "pandas"]))
    window = data.draw(st.none() | st.tuples(st.integers(0, 5), st.integers(6, 10)))
    groups = data.draw(st.none() | st.just(("south", "north", "nowhere")))
    gaps = data.draw(st.sampled_from(["split", "a"]))
    options = {} if groups is None else {"by": "group", "groups": groups}
    with tempfile.TemporaryDirectory() as folder:
        source = as_source(rows, "text", backend, Path(folder))
        table = ut.Data(
            source, value="v", person="who", time="when", every="5m", gaps=gaps, **options
        )
        if window is not None:
            table = table.window(*(DAY + end * STEP for end in window))
        found = table.answers(ut.Transitions(), states)
        totals = table.answers(ut.Histogram(), states).rows
    assert found.numbers == by_loop(rows, states, groups, window, gaps)
    assert found.rows == totals


def test_rows_without_times_follow_one_another():
    frame = pl.DataFrame({"who": [1, 2, 1, 2, 1], "v": ["a", "b", "a", "a", "b"]})
    table = ut.Data(frame, value="v", person="who")
    assert table.answers(ut.Transitions(), ("a", "b")).numbers == [[1, 1, 1, 0]]
    grouped = ut.Data(["a", "b", "b"]).answers(ut.Transitions(), ("a", "b"))
    assert grouped.numbers == [[0, 1, 0, 1]]


def noisy_table_leakage(chain, scale, reach):
    """The leakage of noisy transitions of a short chain against any, by enumeration."""
    n, k = chain.length, chain.size
    series = list(itertools.product(range(k), repeat=n))
    law = np.array([
        chain.initial[s[0]] * math.prod(chain.transition[a, b] for a, b in itertools.pairwise(s))
        for s in series
    ])  # fmt: skip
    exact = np.array([ut.Transitions().evaluate(s, tuple(range(k))) for s in series])
    outputs = np.array(list(itertools.product(range(-1, reach + 1), repeat=k * k)))
    # (outputs, series): likelihoods up to a factor
    seen = np.exp(-np.abs(outputs[:, None, :] - exact[None]).sum(axis=2) / scale)
    worst = 0.0
    for target in range(n):
        others = [t for t in range(n) if t != target]
        for size in range(n):
            for known in itertools.combinations(others, size):
                for values in itertools.product(range(k), repeat=size):
                    fits = [
                        all(s[t] == v for t, v in zip(known, values, strict=True)) for s in series
                    ]
                    given_ = []
                    for value in range(k):
                        mask = np.array(fits) & np.array([s[target] == value for s in series])
                        given_.append(seen @ (law * mask) / (law * mask).sum())
                    worst = max(worst, float(np.log(given_[0] / given_[1]).max()))
                    worst = max(worst, float(np.log(given_[1] / given_[0]).max()))
    return worst


@pytest.mark.parametrize(
    "transition", [ACTIVITY, [[0.6, 0.4], [0.2, 0.8]], [[0.2, 0.8], [0.7, 0.3]]]
)
def test_the_leakage_of_a_noisy_table_is_below_its_bound(transition):
    chain = ut.MarkovChain(transition, length=3)
    noise = ut.DiscreteLaplace(ut.Transitions(), scale=4.0)
    bound = ut.leakage(noise, chain)
    truth = noisy_table_leakage(chain, 4.0, 3)
    assert bound.lower <= truth <= bound.upper
    assert truth > 0.4 * bound.upper  # the bound is about this table, not about nothing


def test_a_table_is_planned_written_and_released():
    chain = ut.MarkovChain(ACTIVITY, NAMES)
    plan = ut.calibrate(ut.Transitions(), chain, limit=1.0)
    assert plan.method in ("exchange", "quilt", "dependent")
    assert plan.numbers == 4
    assert plan.noise.dp_epsilon() <= ut.dp_budget(chain, limit=1.0)
    assert ut.Plan.from_json(plan.to_json()) == plan
    series = chain.simulate(500, seed=1)
    out = ut.release(plan, series, insecure_seed=3)
    assert list(out.value) == list(NAMES)
    assert list(out.value["inactive"]) == list(NAMES)
    exact = ut.Transitions().evaluate(series, NAMES)
    told = [out.value[a][b] for a in NAMES for b in NAMES]
    assert max(abs(a - b) for a, b in zip(told, exact, strict=True)) < 12 * plan.noise.scale
    text = str(out.report())
    assert "inactive to active" in text
    assert "each state is followed by each" in text
    assert "error" in str(plan)


def test_windows_and_groups_of_a_table_are_covered_by_the_level():
    chain = ut.MarkovChain(ACTIVITY, NAMES)
    plan = ut.calibrate(ut.Transitions(), chain, limit=1.0)
    frame = pl.DataFrame({"t": range(40), "v": chain.simulate(40, seed=2), "g": [0, 1] * 20})
    table = ut.Data(frame, value="v", time="t", every=1, by="g").window(5, 30)
    assert covering(plan, table.shape()).proves(1.0)
    assert prepare(plan, table).proof.valid_for == "any"


def test_gaussian_noise_takes_the_euclidean_sensitivity():
    chain = ut.MarkovChain(ACTIVITY, NAMES)
    noise = ut.DiscreteGaussian(ut.Transitions(), sigma=20.0)
    assert noise.rho_upper() >= 6 / 800
    assert type(noise.curve()).__name__ == "ConcentratedCurve"
    plan = ut.calibrate(ut.Transitions(), chain, limit=1.0, delta=1e-6)
    assert plan.leakage.proves(1.0)


def test_what_needs_states_says_so():
    with pytest.raises(NotSupported, match="names the states"):
        ut.calibrate(ut.Transitions(), ut.Groups(4), limit=1.0).numbers  # noqa: B018
    chain = ut.MarkovChain(ACTIVITY, NAMES, length=6)
    with pytest.raises(NotSupported):
        ut.calibrate(ut.Transitions(), chain, limit=1.0, method="exact")
    with pytest.raises(NotSupported):
        ut.calibrate(ut.Transitions(), chain, limit=1.0, method="wasserstein")


def test_an_audit_attacks_the_table():
    plan = ut.calibrate(ut.Transitions(), ut.MarkovChain(ACTIVITY, NAMES, length=5), limit=2.0)
    assert not ut.audit(plan, 2000, seed=1).refuted
