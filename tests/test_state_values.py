"""Queries are functions of the states: readings within a state change no answer."""

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import undertow as ut
from undertow.models.records import RecordDescription, StateRule
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    chain_joint,
    mechanism_leakage,
)

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=("rest", "move"))
VALUES = {"rest": 0.2, "move": 1.6}
BINS = ut.MarkovChain(
    [[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]], states=("low", "mid", "high"), length=6
).with_records(RecordDescription(state=StateRule(cuts=(1.0, 3.0), type="number")))


def test_sums_of_readings_are_refused_on_states_that_are_no_numbers():
    # the example: certified at scale 26.2, and the readings told 24.4
    for query in (ut.Sum(0, 6), ut.Mean(0, 6), ut.Linear([1.0, 1.0], 6.0, 0.0)):
        with pytest.raises(ut.errors.InvalidInput, match="values="):
            ut.calibrate(query, CHAIN, limit=1)


QUERIES = [
    ut.Count("high"),
    ut.Histogram(),
    ut.Transitions(),
    ut.TopK(1),
    ut.Sum(0, 6),
    ut.Sum(0, 6, values={"low": 0, "mid": 2, "high": 3}),
    ut.Mean(0, 6),
    ut.Linear([1.0, -2.0, 3.0, 0.5, 0.0, 1.0], 6.0, 0.0),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_changing_readings_within_their_states_changes_no_answer(query):
    generator = np.random.default_rng(5)
    edges = [(0.0, 0.99), (1.0, 2.99), (3.0, 90.0)]
    plan = ut.calibrate(query, BINS, limit=2.0, method="exchange")
    codes = generator.integers(3, size=6)
    answers = []
    for _ in range(4):
        readings = [float(generator.uniform(*edges[code])) for code in codes]
        frame = pl.DataFrame({"kw": readings})
        data = ut.Data(frame, value="kw", state=[1.0, 3.0])
        answers.append(ut.release(plan, data, insecure_seed=3).value)
    named = [BINS.states[code] for code in codes]
    answers.append(ut.release(plan, named, insecure_seed=3).value)
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("missing", ["any", "none", "mid"])
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_frames_and_lists_agree_on_missing_and_foreign_records(query, missing):
    from undertow.data.readers.lists import one_series

    asked = BINS.valued(query.exact_query)
    records = ["low", None, "high", "no such state", "mid", "high"]
    frame = ut.Data(pl.DataFrame({"x": records}), value="x")
    listed = one_series(records).answers(asked, BINS.states, missing)
    assert frame.answers(asked, BINS.states, missing).numbers == listed.numbers
    standing = {"none": "low", "mid": "mid"}.get(missing)
    if standing is not None:
        filled = [one if one in BINS.states else standing for one in records]
        whole = one_series(filled).answers(asked, BINS.states)
        assert whole.numbers == listed.numbers


def test_a_missing_record_counts_as_the_number_nearest_to_0():
    query = CHAIN.valued(ut.Sum(-4, 4, steps=8, values={"rest": -3, "move": 2}))
    data = ut.Data(pl.DataFrame({"x": ["rest", None, "?"]}), value="x")
    assert data.answers(query, CHAIN.states).numbers == [[1 + 6 + 6]]


def test_values_of_a_query_come_before_bins_and_bins_before_names():
    numbers = BINS.with_records(BINS.records)
    assert BINS.valued(ut.Sum(0, 6)).values == (("low", 0.5), ("mid", 2.0), ("high", 4.5))
    stated = ut.Sum(0, 6, values={"high": 5, "mid": 2, "low": 0})
    assert numbers.valued(stated).values == (("low", 0.0), ("mid", 2.0), ("high", 5.0))
    named = ut.MarkovChain(BINS.transition, states=(0, 1, 4))
    assert named.valued(ut.Sum(0, 6)).values == ((0, 0.0), (1, 1.0), (4, 4.0))
    with pytest.raises(ut.errors.InvalidInput, match="no end"):
        BINS.valued(ut.Linear([1.0] * 6, 6.0))


@pytest.mark.parametrize(
    "values", [{"low": 1}, {"low": 1, "mid": 2, "high": 3, "x": 4}, {"low": math.nan}, {}, 3]
)
def test_values_that_do_not_fit_are_refused(values):
    with pytest.raises(ut.errors.UndertowError):
        ut.calibrate(ut.Sum(0, 6, values=values), BINS, limit=1)


def test_states_that_all_count_alike_are_refused():
    with pytest.raises(ut.errors.UndertowError, match="public"):
        ut.calibrate(ut.Sum(0, 1, values={"rest": 2, "move": 3}), CHAIN, limit=1)


def test_the_error_of_rounding_readings_stands_beside_the_noise():
    plan = ut.calibrate(ut.Sum(0, 6), BINS, limit=1)
    out = ut.release(plan, ["low"] * 6)
    said = "rounding readings to their state's number moves the answer by at most 9"
    shown = (str(plan), str(out), out.report().text(), out.report().html(), out.report().to_json())
    for text in shown:
        assert said in " ".join(text.replace("&#39;", "'").split())


@pytest.mark.parametrize("query", QUERIES[4:], ids=lambda query: type(query).__name__)
def test_sensitivities_are_those_of_all_pairs_of_series(query):
    from undertow.data.readers.lists import one_series
    from undertow.mechanisms import Laplace, lattice_amount

    asked = BINS.valued(query)
    noise = Laplace(asked, 1.7)
    most = 0
    for series in itertools.product(BINS.states, repeat=3):
        for place, other in itertools.product(range(3), BINS.states):
            one = [*series, *BINS.states]
            two = [*one[:place], other, *one[place + 1 :]]
            exact = [one_series(s).answers(asked, BINS.states).numbers[0][0] for s in (one, two)]
            most = max(most, abs(exact[0] - exact[1]))
    level = most / lattice_amount(noise, 6)
    assert level <= noise.level_upper(6) <= level * (1 + 1e-6)


# --- types that can fit no state ------------------------------------------------------------------

TRUTHS = ut.MarkovChain(CHAIN.transition, states=(False, True))
NUMBERS = ut.MarkovChain(CHAIN.transition, states=(0, 1))
NAMED, TRUE, NUMBERED = (
    ut.calibrate(ut.Count(chain.states[1]), chain, 1.0) for chain in (CHAIN, TRUTHS, NUMBERS)
)


@pytest.mark.parametrize(
    ("plan", "data"),
    [
        (NAMED, pd.Series([True] * 300 + [False] * 100)),
        (NAMED, [0.3] * 400),
        (NAMED, np.full(9, math.nan)),
        (NAMED, ut.Data(pl.DataFrame({"x": [True, False]}), value="x")),
        (NAMED, ut.Data(pl.DataFrame({"x": [0.5, 1.0]}), value="x")),
        (NAMED, ut.Data([1, 2, 3])),
        (TRUE, [3, 0, 1]),
        (TRUE, ut.Data(pl.DataFrame({"x": [0.0, 1.0]}), value="x")),
        (TRUE, ut.Data(pl.DataFrame({"x": ["True"]}), value="x")),
        (NUMBERED, ["0", "1"]),
        (NUMBERED, ut.Data(pl.DataFrame({"x": ["0"]}), value="x")),
    ],
)
def test_types_that_can_fit_no_state_are_refused_before_anything_is_spent(plan, data, tmp_path):
    ledger = ut.Ledger(tmp_path / "year.db", dataset="w25", model=plan.model, limit=4.0)
    with pytest.raises(ut.errors.InvalidInput, match="state"):
        ut.release(plan, data, ledger)
    assert not list(ledger.entries())


def test_fields_of_a_csv_file_are_no_truth_values(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("steps\n0\n523\n")
    with pytest.raises(ut.errors.InvalidInput, match="--state"):
        ut.release(TRUE, ut.Data(path, value="steps"))
    assert isinstance(ut.release(TRUE, ut.Data(path, value="steps", state="steps > 0")).value, int)


def test_validate_tells_how_many_records_are_foreign():
    data = ut.Data(pl.DataFrame({"x": ["Move"] * 12 + ["rest"]}), value="x")
    query = CHAIN.valued(ut.Sum(0, 6, values=VALUES))
    said = [str(problem) for problem in data.problems(query, CHAIN.states)]
    assert any("2 more rows" in one and "differs from one only in case" in one for one in said)


# --- what sums of states leak, against all outputs ------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_sums_of_values_leak_no_more_than_is_proved(seed):
    """All series, known sets, values and outputs; values out of order, alike, and clipped."""
    rng = np.random.default_rng([33, seed])
    size, n = [(2, 4), (3, 3), (3, 4), (2, 5)][seed % 4]
    step = rng.dirichlet(np.full(size, 0.7), size) * 0.98 + 0.02 / size
    names = ("a", "b", "c")[:size]
    chain = ut.MarkovChain(step, names, start=rng.dirichlet(np.ones(size)), length=n)
    joint = chain_joint(chain.initial, step, n)
    numbers = rng.integers(-3, 6, size)
    numbers[0], numbers[-1] = -2, 4
    low, high = (-1, 3) if seed % 3 == 0 else (-3, 6)
    clipped = np.clip(numbers, low, high).tolist()
    values = dict(zip(names, numbers.tolist(), strict=True))
    scale = float(rng.uniform(0.5, 8))
    weights = rng.integers(-2, 3, n)
    weights[0] = 2
    asked = [
        (ut.Laplace(ut.Sum(low, high, values), scale), clipped),
        (ut.Laplace(ut.Sum(low, high, values, steps=high - low), scale), clipped),
        (ut.Laplace(ut.Mean(low, high, values), scale / n), clipped),
        (
            ut.Laplace(ut.Linear(weights, float(high - low), float(low), values), scale),
            np.outer(weights, clipped),
        ),
    ]
    for mechanism, added in asked:
        likelihood = additive_noise_likelihood(added, scale, n)
        for against in ("any", "ignorant", "informed"):
            truth = mechanism_leakage(joint, likelihood, against).leakage
            leak = ut.leakage(mechanism, chain, against)
            assert leak.lower - 1e-6 <= truth <= leak.upper * (1 + 1e-6)  # the lattice


def test_values_on_a_model_without_states_are_refused():
    query = ut.Sum(0, 6, values=VALUES)
    for model in (ut.Groups(3), ut.MultivariateGaussian(0, np.eye(3))):
        with pytest.raises(ut.errors.InvalidInput, match="names no states"):
            ut.calibrate(query, model, 1.0)


@pytest.mark.parametrize(
    "model",
    [
        CHAIN,
        ut.MarkovChain.second_order(np.full((2, 2, 2), 0.5), states=("rest", "move")),
        ut.HiddenChain(CHAIN.transition, ("rest", "move")),
        ut.MarkovChain.box([[0.85, 0.1], [0.2, 0.6]], [[0.9, 0.15], [0.4, 0.8]], ("rest", "move")),
        ut.BayesianNetwork(
            [("a", "b")], {"a": [0.5, 0.5], "b": [[0.8, 0.2], [0.3, 0.7]]},
            states=("rest", "move"),
        ),
        ut.Groups(3, ("rest", "move")),
        ut.ModelSet([CHAIN, ut.Groups(2)]),
    ],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_every_model_with_states_needs_numbers_for_a_sum(model):
    with pytest.raises(ut.errors.InvalidInput, match="values="):
        ut.calibrate(ut.Sum(0, 6), model, 1.0)
    plan = ut.calibrate(ut.Sum(0, 6, values=VALUES), model, 1.0)
    assert plan.query.values == (("rest", 0.2), ("move", 1.6))
    assert plan.leakage.proves(1.0)
    assert plan.noise.level_upper(model.length) == pytest.approx(1.4 / plan.noise.scale, rel=1e-6)
    records = ["rest", "move"] if model.length == 2 else ["rest", "move"] * 3
    moving, resting = (
        ut.release(plan, ut.Data(listed, ungrouped=True), insecure_seed=2).value
        for listed in (records, [*records[:-1], "rest"])
    )
    assert moving - resting == pytest.approx(1.4)  # the same noise


def test_a_level_is_one_of_algorithms_that_read_the_states():
    said = "reads the states of records alone"
    for level in (ut.PureDP(1.0), ut.ZCDP(0.1), ut.MetricDP(0.1)):
        leak = ut.leakage(level, NUMBERS, delta=1e-6 if isinstance(level, ut.ZCDP) else 0.0)
        assert any(said in note for note in leak.assumptions)
    for mechanism in (ut.PureDP(1.0, unit="person"), ut.DiscreteLaplace(ut.Count(1), 3.0)):
        leak = ut.leakage(mechanism, NUMBERS)
        assert not any(said in note for note in leak.assumptions)
    assert not any(said in note for note in ut.leakage(ut.PureDP(1.0), ut.Groups(3)).assumptions)
