"""Fits that choose: scores by hand, choices on synthetic records, checks of the chosen chain."""

import datetime
import json
import math
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

import undertow as ut
from undertow import progress
from undertow.errors import DisclosureWarning, InvalidInput, InvalidModel, NotSupported
from undertow.models.fitting import auto
from undertow.models.fitting.checks import NAMES
from undertow.models.fitting.judges import context_trees, memory_check, order_check
from undertow.models.fitting.series import unbroken
from undertow.models.registry import model_from_dict

STAY = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
SECOND = ut.MarkovChain.second_order([[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.1, 0.9]]])
REGIMES = ut.HiddenChain(
    [[0.97, 0.005, 0.02, 0.005], [0.005, 0.3, 0.005, 0.69], [0.69, 0.005, 0.3, 0.005],
     [0.005, 0.02, 0.005, 0.97]], (0, 0, 1, 1),
)  # fmt: skip


# --- what is compared -------------------------------------------------------------------------


def test_the_score_of_an_order_is_that_of_its_frozen_counts():
    series: Any = SECOND.simulate(1000, seed=3)
    chain = ut.fit(series, public=True)
    for order in (1, 3):
        counts: Counter[tuple[int, ...]] = Counter()
        for place in range(order, 700):
            counts[tuple(series[place - order : place + 1])] += 1
        total = 0.0
        for place in range(700, 1000):
            before = tuple(series[place - order : place])
            after = [counts[(*before, state)] for state in (0, 1)]
            total -= math.log2((after[series[place]] + 0.5) / (sum(after) + 1))
        case = chain.alternatives[f"order{order}"]
        assert case.score == pytest.approx(total / 300, rel=1e-9)
        cost = 2 * math.log(2) * case.model.score(series) * 1000
        assert case.bic == pytest.approx(2**order * math.log(1000) + cost, rel=1e-9)


def test_standard_errors_are_those_of_blocks():
    read = unbroken([0, 1] * 1000)
    parts = auto.split(read)
    assert (parts.held.sum(), parts.words) == (600, "the last 30% of the records")
    assert not parts.held[:1400].any()
    assert np.unique(parts.blocks[parts.held]).size == auto.BLOCKS == 24
    costs = np.random.default_rng(1).gamma(1.0, 1.0, 2000)
    mean, error = parts.mean(costs)
    blocks = costs[1400:].reshape(24, 25).mean(axis=1)
    assert mean == pytest.approx(blocks.mean())
    assert error == pytest.approx(blocks.std(ddof=1) / math.sqrt(24))


def test_the_end_of_each_person_is_held_out():
    times = [datetime.datetime(2025, 1, 6) + datetime.timedelta(hours=hour) for hour in range(40)]
    rows = {"id": ["a"] * 20 + ["b"] * 20, "ts": times, "x": [0, 1] * 20}
    frame = pl.DataFrame(rows).filter(pl.int_range(40) != 4)  # a gap makes two series of a's
    read = unbroken(ut.Data(frame, person="id", time="ts", value="x", every="1h", gaps="split"))
    assert np.diff(read.ends, prepend=0).tolist() == [4, 15, 20]
    parts = auto.split(read)
    assert parts.words == "the last 30% of each person"
    assert np.flatnonzero(parts.held).tolist() == [*range(14, 19), *range(33, 39)]


def test_some_of_several_persons_are_held_out_as_a_whole():
    sample = [STAY.simulate(100 + seed, seed=seed) for seed in range(20)]
    parts = auto.split(unbroken(sample))
    read = unbroken(sample)
    assert parts.words == "6 of 20 persons"
    assert {tuple(set(parts.held[read.series == one].tolist())) for one in range(20)} == {
        (True,), (False,)
    }  # fmt: skip
    chain = ut.fit(sample, public=True)
    assert "6 of 20 persons" in str(chain.alternatives)
    held = [one for number, one in enumerate(sample) if parts.held[read.series == number][0]]
    rest = [one for number, one in enumerate(sample) if not parts.held[read.series == number][0]]
    trained = ut.MarkovChain.fit(rest, prior=0.5, public=True)
    score = chain.alternatives["order1"].score
    assert score == pytest.approx(trained.score(held), rel=1e-9)


# --- what is chosen ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("truth", "chosen"),
    [(STAY, "order1"), (SECOND, "order2"), (REGIMES, "hidden2")],
    ids=["order one", "order two", "regimes"],
)
def test_the_kind_of_the_truth_is_chosen(truth, chosen):
    series, fresh = truth.simulate(12_000, seed=5), truth.simulate(12_000, seed=6)
    chain: Any = ut.fit(series, public=True)
    assert chain.alternatives.chosen == chosen
    assert chain.score(fresh) == pytest.approx(truth.score(fresh), abs=0.004)
    assert [check.name for check in chain.checks] == list(NAMES)
    outcomes = {check.name: check.outcome for check in chain.checks}
    assert outcomes["order"] == outcomes["memory"] == outcomes["sample"] == "passed"
    assert len(chain.simulate(50, seed=0)) == 50
    assert model_from_dict(json.loads(json.dumps(chain.to_dict()))) == chain
    table = chain.alternatives
    assert len(table) == 7
    assert table[chosen].model == chain
    assert table.best.score <= table[chosen].score <= table.best.score + table[chosen].apart
    assert {case.name for case in table} == {
        *(f"order{order}" for order in range(1, 5)), *(f"hidden{count}" for count in (2, 3, 4))
    }  # fmt: skip
    assert table.to_polars()["name"].to_list() == [case.name for case in table]
    assert table[chosen] in table.near
    assert table.best in table.near
    assert min(case.parameters for case in table.near) == table[chosen].parameters
    for case in table:
        assert (case.score <= table.best.score + case.apart) == (case in table.near)
    models = ut.ModelSet([case.model for case in table.near])
    assert models.states == chain.states


DAILY = ut.HiddenChain.periodic(
    {
        hour: [[0.6, 0.3, 0.05, 0.05], [0.2, 0.5, 0.1, 0.2], [0.05, 0.15, 0.3, 0.5],
               [0.02, 0.03, 0.05, 0.9]]
        if 3 <= hour < 7
        else [[0.97, 0.01, 0.01, 0.01], [0.6, 0.3, 0.05, 0.05], [0.4, 0.3, 0.2, 0.1],
              [0.3, 0.2, 0.2, 0.3]]
        for hour in range(8)
    },
    (0, 0, 1, 1), steps_per=3, every="1h",
)  # fmt: skip


def hourly(values):
    """Records of one person from a Monday on, a row each hour."""
    start, hour = datetime.datetime(2025, 1, 6), datetime.timedelta(hours=1)
    frame = pl.DataFrame(
        {"ts": [start + hour * place for place in range(len(values))], "x": values}
    )
    return ut.Data(frame, time="ts", value="x", every="1h")


@pytest.fixture(scope="module")
def by_hour():
    return ut.fit(hourly(DAILY.simulate(24 * 250, seed=1)), public=True)


def test_a_public_context_is_chosen_where_it_predicts(by_hour):
    table = by_hour.alternatives
    assert by_hour.context == "part of day"
    assert by_hour.records.every == "1h"
    fresh = hourly(DAILY.simulate(24 * 250, seed=2))
    assert by_hour.score(fresh) < DAILY.score(fresh) + 0.02
    assert by_hour.score(fresh) < table["hidden2"].model.score(fresh) - 0.05
    names = {case.name for case in table}
    assert {"order4 by weekday", "hidden2 by hour", "hidden3 by part of day"} <= names
    assert table.chosen.endswith("by part of day")
    floors = {case.name: case.model.floor for case in table if case.name.startswith("hidden")}
    assert set(floors.values()) == {1e-4}
    hidden = table["hidden2 by part of day"].model
    assert hidden.kernels.min() >= 1e-4 / 4
    assert "0.0001 of the uniform" in hidden.disclaimers()[-1]
    memory = {check.name: check for check in by_hour.checks}["memory"]
    assert memory.outcome == "passed"


def test_a_model_can_be_named():
    data = hourly(DAILY.simulate(24 * 60, seed=3))
    for name in (
        "order1",
        "order2",
        "order3",
        "hidden3",
        "order2 by hour",
        "hidden2 by part of day",
    ):
        chain: Any = ut.fit(data, model=name, public=True)
        assert chain.alternatives.chosen == name
        assert len(chain.alternatives) == 1
        assert chain.alternatives[name].parameters > 0
        assert chain.origin == "public"
    few: Any = ut.fit([0, 1, 1, 0, 1, 0, 0, 1, 1, 1], model="order1", public=True)
    assert few.transition.shape == (2, 2)
    assert math.isnan(few.alternatives["order1"].error)
    assert {check.outcome for check in few.checks} == {"not tested"}


def test_three_states():
    truth = ut.MarkovChain(
        [[0.8, 0.1, 0.1], [0.3, 0.5, 0.2], [0.1, 0.4, 0.5]], states=("low", "mid", "high")
    )
    chain: Any = ut.fit(truth.simulate(3000, seed=1), states=truth.states, public=True)
    assert chain.states == truth.states
    assert chain.alternatives.chosen == "order1"
    assert np.allclose(chain.transition, truth.transition, atol=0.06)


# --- warnings, refusals, interrupts -----------------------------------------------------------


def test_fits_to_private_records_warn():
    series = STAY.simulate(400, seed=1)
    with pytest.warns(DisclosureWarning):
        chain = ut.fit(series, model="order1")
    assert chain.origin == "not public"
    assert {check.basis for check in chain.checks} == {"not private"}


@pytest.mark.parametrize(
    ("records", "more", "reason"),
    [
        ([0, 1] * 20, {}, "name the model"),
        ([0] * 300, {}, "at least two states"),
        ([0, 1] * 200, {"model": "order9"}, "order1"),
        ([0, 1] * 200, {"model": 3}, "found '3'"),
        ([0, 1] * 200, {"model": "hidden2 by hour"}, "time column"),
        ([0, 1] * 200, {"model": "hidden2", "private": 1.0}, "order one"),
        ([0, 1] * 200, {"ledger": object()}, "private"),
    ],
)
def test_refusals(records, more, reason):
    with pytest.raises(InvalidInput, match=reason):
        ut.fit(records, public=not more.get("private"), **more)


def test_a_private_fit_is_paid_for(tmp_path):
    ledger = ut.Ledger(tmp_path / "year.db", dataset="d", model=STAY, limit=9.0)
    chain: Any = ut.fit(STAY.simulate(3000, seed=1), states=(0, 1), private=0.5, ledger=ledger)
    assert chain.origin == "private"
    assert chain.transition.shape == (2, 2)


def test_models_without_candidates_say_so():
    with pytest.raises(NotSupported, match="not chosen among candidates"):
        _ = STAY.alternatives
    with pytest.raises(InvalidModel):
        ut.fit([1] * 500, model="order1", public=True)


def test_an_interrupt_keeps_what_was_fitted():
    series = STAY.simulate(2000, seed=4)

    def stop(step: progress.Step) -> None:
        if "hidden2" in step.words:
            raise KeyboardInterrupt

    with progress.watching(stop):
        chain = ut.fit(series, public=True)
    table = chain.alternatives
    assert [case.name for case in table] == [f"order{order}" for order in range(1, 5)]
    assert not table.complete
    assert "interrupted" in table.words()

    def at_once(step: progress.Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), progress.watching(at_once):
        ut.fit(series, public=True)


def test_progress_names_the_candidates():
    steps: list[str] = []
    with progress.watching(lambda step: steps.append(str(step))):
        ut.fit(STAY.simulate(600, seed=4), public=True)
    assert "fitting order1 (0 of 7)" in steps
    assert any(step.startswith("fitting hidden4 (6 of 7)") for step in steps)
    assert any(step.startswith("checking order1") for step in steps)


# --- checks -----------------------------------------------------------------------------------


def weighted(contexts, size, depth):
    """The probability of symbols after contexts by context-tree weighting, node by node."""

    def estimator(counts):
        value, seen = 1.0, [0.0] * size
        for symbol, count in enumerate(counts):
            for _ in range(count):
                value *= (seen[symbol] + 0.5) / (sum(seen) + size / 2)
                seen[symbol] += 1
        return value

    def node(rows, level):
        counts = [sum(symbol == state for _, symbol in rows) for state in range(size)]
        own = estimator(counts)
        if level == depth:
            return own
        product = 1.0
        for state in range(size):
            product *= node([row for row in rows if row[0][-1 - level] == state], level + 1)
        return own / 2 + product / 2

    return node(contexts, 0)


@pytest.mark.parametrize(("size", "depth"), [(2, 3), (3, 2)])
def test_context_trees_are_the_mixture_over_all_trees(size, depth):
    """The cost of a record is the ratio of two mixtures, of the records learnt with and without."""
    random = np.random.default_rng(size)
    series = random.integers(0, size, 40).tolist()
    read = unbroken(series, tuple(range(size)))
    held = np.arange(40) >= 30
    costs, known = context_trees(read, held, depth)
    assert known.tolist() == [place >= depth for place in range(40)]
    learnt = [(series[place - depth : place], series[place]) for place in range(depth, 30)]
    before = weighted(learnt, size, depth)
    for place in range(30, 40):
        after = weighted([*learnt, (series[place - depth : place], series[place])], size, depth)
        assert 2 ** -costs[place] == pytest.approx(after / before, rel=1e-9)


def test_the_order_check_sees_what_order_one_misses():
    series = SECOND.simulate(12_000, seed=7)
    short: Any = ut.fit(series, model="order1", public=True)
    right: Any = ut.fit(series, model="order2", public=True)
    short_check, right_check = (
        {check.name: check for check in chain.checks}["order"] for chain in (short, right)
    )
    assert short_check.outcome == "failed"
    assert right_check.outcome == "passed"
    gain = float(short_check.words.partition("context trees ")[2].split()[0])
    apart = short.alternatives["order1"].score - right.alternatives["order2"].score
    assert gain == pytest.approx(apart, abs=0.005)
    assert "boosted trees" in short_check.words


def test_short_series_are_not_judged():
    read = unbroken([STAY.simulate(8, seed=seed) for seed in range(100)])
    parts = auto.split(read)
    check = order_check(read, parts.held, np.ones(800), parts.mean, "public")
    assert check.outcome == "not tested"
    assert memory_check(STAY, read, "public").outcome == "not tested"


def test_the_memory_check_looks_at_both_sides():
    """True chains pass all but rarely; memories too short and too long fail."""
    slow = ut.MarkovChain([[0.98, 0.02], [0.02, 0.98]])
    outcomes = [
        memory_check(slow, unbroken(slow.simulate(6000, seed=seed)), "public", seed).outcome
        for seed in range(20)
    ]
    assert outcomes.count("failed") <= 4  # at 5% each, more in 3 of 1000 runs; seeds are fixed
    quick = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    for truth, model in ((slow, quick), (quick, slow)):
        check = memory_check(model, unbroken(truth.simulate(6000, seed=1)), "public")
        assert check.outcome == "failed"
        assert check.p_value is not None
        assert check.p_value <= 0.05


def test_drawn_series_follow_the_phases_of_the_records():
    from undertow.models.fitting.judges import _simulated

    read = unbroken(hourly(DAILY.simulate(24 * 3, seed=1)[5:]))
    drawn = _simulated(DAILY, read, 4000, 0)
    assert drawn.shape == (67, 4000)
    expected = DAILY.marginals(67)[:, 1]  # the table begins at midnight
    assert drawn.mean(axis=1) == pytest.approx(expected, abs=0.04)
