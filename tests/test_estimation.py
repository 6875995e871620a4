"""Estimates from flipped and redacted series: unbiased, with variances that are exact or larger.

Everything small is checked by enumeration: all outputs of a short series with their probabilities.
"""

import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest

import undertow as ut
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise
from undertow.releasing.estimate import (
    Kinds,
    _shown,
    estimate,
    estimate_transitions,
    pair_channel,
    product_sums,
    redacted_variance,
    undo,
)
from undertow.releasing.series import sanitize

GRAIN = 2.0**-53


def plan_for(mechanism, states=2, length=None):
    """A plan as published: it guarantees nothing, so that any mechanism will do."""
    model = ut.MarkovChain(np.full((states, states), 1 / states), length=length)
    if isinstance(mechanism, Redaction):
        leak = ut.leakage(mechanism, model)
        return ut.Plan(mechanism, model, max(leak.upper, 1.0), leak, "optimal")
    return ut.Plan(mechanism, model, 1.0, Leakage(1.0, 1.0, "exact", "any"), "chakrabarti")


def grained(probability):
    return float(np.round(probability / GRAIN) * GRAIN)


BINARY = RandomizedResponse.binary(grained(0.1), grained(0.35))
WIDE = RandomizedResponse([[0.5, 0.25, 0.25], [0.125, 0.25, 0.625]])
THREE = RandomizedResponse([[0.75, 0.125, 0.125], [0.25, 0.5, 0.25], [0.0, 0.125, 0.875]])
NOISE = XorNoise(0.125, 0.25)
ERASURES = Redaction([[0, 0], [0.25, 0.5], [0.5, 1], [1, 1], [1, 0.25], [0.5, 0], [0, 0]])
TOLD = [0, 1, 2, 4, 5, 6]


def channel_outputs(mechanism, series):
    """All outputs of a series with their probabilities; None is an erased record."""
    if isinstance(mechanism, XorNoise):
        steps = [[1 - mechanism.rho0, mechanism.rho0], [mechanism.rho1, 1 - mechanism.rho1]]
        for noise in itertools.product((0, 1), repeat=len(series)):
            probability = mechanism.flip_rate if noise[0] else 1 - mechanism.flip_rate
            probability *= math.prod(steps[a][b] for a, b in itertools.pairwise(noise))
            yield probability, [x ^ e for x, e in zip(series, noise, strict=True)]
        return
    laws: list[list[tuple[float, Any]]] = []
    for place, x in enumerate(series):
        if isinstance(mechanism, Redaction):
            gone = float(mechanism.probabilities[place, x])
            laws.append([(1 - gone, x), (gone, None)])
        else:
            laws.append([(p, y) for y, p in enumerate(mechanism.matrix[x].tolist())])
    for combination in itertools.product(*laws):
        yield math.prod(p for p, _ in combination), [y for _, y in combination]


def moments(mechanism, series, value):
    """Mean and variance of a function of the outputs."""
    found = [(p, np.asarray(value(z), float)) for p, z in channel_outputs(mechanism, series) if p]
    mean = sum(p * v for p, v in found)
    return mean, sum(p * (v - mean) ** 2 for p, v in found)


def counts_of(series, states=2):
    return np.bincount(series, minlength=states).astype(float)


def pairs_of(series, states=2):
    made = np.zeros((states, states))
    for a, b in itertools.pairwise(series):
        made[a, b] += 1
    return made


def sticky(states, length, seed):
    rng = np.random.default_rng(seed)
    series = [0]
    for _ in range(length - 1):
        series.append(series[-1] if rng.random() < 0.8 else int(rng.integers(states)))
    return series


CASES: dict[str, tuple[Any, int, list[int]]] = {
    "binary": (BINARY, 2, [0, 1, 1, 0, 1]),
    "wide": (WIDE, 2, [0, 0, 1, 1, 0]),
    "three": (THREE, 3, [0, 2, 2, 1, 0]),
    "noise": (NOISE, 2, [0, 1, 1, 0, 0, 1]),
}


# --- exact, by enumeration ------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_histograms_are_unbiased(case):
    mechanism, states, series = CASES[case]
    plan = plan_for(mechanism, states)
    mean, _ = moments(mechanism, series, lambda z: list(estimate(z, plan).value.values()))
    assert mean == pytest.approx(counts_of(series, states), abs=1e-12)


def test_redacted_histograms_are_unbiased():
    plan = plan_for(ERASURES, length=7)
    for series in ([0, 1, 0, 1, 1, 0, 1], [1, 1, 1, 0, 0, 1, 0], [0] * 7):
        mean, _ = moments(ERASURES, series, lambda z: list(estimate(z, plan).value.values()))
        assert mean == pytest.approx(counts_of([series[t] for t in TOLD]), abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_pairs_are_unbiased(case):
    mechanism, states, series = CASES[case]
    if isinstance(mechanism, XorNoise):
        weights = undo(pair_channel(mechanism))

        def value(z):
            return sum(weights[2 * a + b] for a, b in itertools.pairwise(z)).reshape(2, 2)
    else:
        value = made_sums(mechanism, lambda sums: sums.pairs)
    mean, _ = moments(mechanism, series, value)
    assert mean == pytest.approx(pairs_of(series, states), abs=1e-12)


def made_sums(mechanism, part):
    weights = undo(np.asarray(mechanism.matrix))

    def value(z):
        begins = np.array([True] * (len(z) - 1) + [False])
        return part(product_sums(np.array(z), weights, begins))

    return value


@pytest.mark.parametrize("case", ["binary", "wide", "three"])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_the_variance_of_pairs_is_estimated_without_bias(case, p):
    """The mean of the estimated variance is the variance of pairs - p row."""
    mechanism, _, series = CASES[case]

    def deviation(sums):
        return sums.pairs - p * sums.pairs.sum(axis=1, keepdims=True)

    def variance(sums):
        one, linear, square = sums.ratios().squares[1]
        return one + p * linear + p**2 * square

    mean, _ = moments(mechanism, series, made_sums(mechanism, variance))
    _, exact = moments(mechanism, series, made_sums(mechanism, deviation))
    assert mean == pytest.approx(exact, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("case", ["binary", "wide", "three"])
def test_the_variance_of_counts_is_at_least_the_true_one(case):
    """In the mean, and never above that of the worst states."""
    mechanism, states, series = CASES[case]
    channel = np.asarray(mechanism.matrix)
    weights = undo(channel)

    def sums(z):
        seen = np.bincount(z, minlength=channel.shape[1]).astype(float)
        kinds = Kinds(channel[None], weights[None], seen[None])
        return [kinds.sum(wanted, 1.96)[1] for wanted in np.eye(states, dtype=bool)]

    plan = plan_for(mechanism, states)
    mean, _ = moments(mechanism, series, sums)
    _, exact = moments(mechanism, series, lambda z: list(estimate(z, plan).value.values()))
    assert (mean >= exact - 1e-9).all()
    one_record = (channel @ weights**2 - np.eye(states)).max(axis=0)
    assert (mean <= len(series) * one_record + 1e-9).all()


def test_the_variance_of_redacted_pairs_covers_all_series():
    places, channels = _shown(ERASURES)
    assert places.tolist() == TOLD
    weights = np.stack([undo(channel) for channel in channels])
    kinds = Kinds(channels, weights, np.zeros((len(places), 3)))
    most = redacted_variance(kinds, np.where(np.diff(places, append=-1) == 1, 1, 0))
    for series in itertools.product((0, 1), repeat=7):

        def pairs(z):
            rows = [weights[n][2 if z[t] is None else z[t]] for n, t in enumerate(TOLD)]
            made = np.zeros((2, 2))
            for n, (s, t) in enumerate(itertools.pairwise(TOLD)):
                made += np.outer(rows[n], rows[n + 1]) if t == s + 1 else 0
            return made

        for p in (0.0, 0.4, 1.0):
            _, exact = moments(
                ERASURES, series,
                lambda z, p=p: pairs(z) - p * pairs(z).sum(axis=1, keepdims=True),
            )  # fmt: skip
            assert (exact <= most + 1e-9).all()


# --- what is returned -----------------------------------------------------------------------------


def test_intervals_stay_among_possible_counts():
    plan = plan_for(RandomizedResponse.binary(0.4375, 0.4375))
    found = estimate([1] * 20, plan)
    assert found.value[1] == pytest.approx(90)
    assert found.high[1] == 20
    assert found.low[0] == found.high[0] == 0


def test_what_a_redaction_shows_is_certain():
    plan = plan_for(ERASURES, length=7)
    found = estimate([0, 0, None, None, None, None, 1], plan)
    assert found.records == 6
    assert found.low[0] >= 2
    assert found.high[0] <= 5
    assert found.low[1] >= 1
    sure = estimate([0, 1, 0, None, 1, 1, 1], plan)
    assert (sure.low, sure.high) == ({0: 2, 1: 4}, {0: 2, 1: 4})


def test_an_estimate_says_what_a_redaction_hides():
    """Record 3 of 7 is always erased; with it go two of the six pairs of neighbours."""
    plan = plan_for(ERASURES, length=7)
    many = [[0, 0, None, None, None, None, 1]] * 3
    for query in (None, ut.Count(1)):
        found = estimate(many, plan, query)
        assert (found.records, found.hidden) == (18, 3)
        assert found.note == "of 21 records, 3 are hidden by the redaction and not in this estimate"
    pairs = estimate(many, plan, "transitions")
    assert (pairs.records, pairs.hidden) == (12, 6)
    assert pairs.note.startswith("of 18 pairs of neighbours, 6 are hidden")
    for plan in (plan_for(BINARY), plan_for(NOISE)):
        whole = estimate([0, 1, 1, 0], plan)
        assert (whole.hidden, whole.note) == (0, "")
        assert estimate([0, 1, 1, 0], plan, "transitions").hidden == 0


def test_all_forms_of_data_give_the_same():
    plan = plan_for(BINARY)
    series = [[0, 1, 1, 0, 1, 1], [1, 1, 0, 0, 0, 1]]
    frame = pl.DataFrame(
        {"id": ["a"] * 6 + ["b"] * 6, "t": [*range(6)] * 2, "x": series[0] + series[1]}
    )
    table = ut.Data(frame, value="x", person="id", time="t", every=1)
    for query in (None, ut.Count(1), "transitions"):
        one = estimate(series, plan, query)
        for other in (np.array(series), table, [np.array(part) for part in series]):
            assert_same(estimate(other, plan, query), one)
    assert_same(estimate(frame, plan), estimate(series, plan))
    assert_same(estimate(sanitize(plan, table, insecure_seed=1), plan),
                estimate(sanitize(plan, series, insecure_seed=1), plan))  # fmt: skip
    with pytest.raises(InvalidInput, match=r"Data\("):
        estimate_transitions(frame, plan)


def assert_same(one, other):
    for name in ("value", "low", "high"):
        a, b = getattr(one, name), getattr(other, name)
        if isinstance(a, np.ndarray):
            assert a == pytest.approx(b, abs=1e-12, nan_ok=True)
        else:
            assert a == pytest.approx(b, abs=1e-12)
    assert one.records == other.records


def test_neighbours_are_one_step_apart_and_of_one_person():
    plan = plan_for(RandomizedResponse(np.eye(2)))
    frame = pl.DataFrame({"id": [*"aaab"], "t": [0, 1, 3, 0], "x": [0, 1, 0, 1]})
    gaps = ut.Data(frame, value="x", person="id", time="t", every=1)
    found = estimate_transitions(gaps, plan)
    assert found.records == 1
    assert found.value[0].tolist() == [0.0, 1.0]
    assert np.isnan(found.value[1]).all()
    assert found.low[1].tolist() == [0.0, 0.0]
    assert found.high[1].tolist() == [1.0, 1.0]
    with pytest.raises(InvalidInput, match="neighbour"):
        estimate_transitions([[0], [1]], plan)
    with pytest.raises(ValueError, match="read-only"):
        found.value[0, 0] = 1


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse.binary(0.5, 0.5),
        RandomizedResponse([[0.25, 0.75], [0.25, 0.75]]),
        XorNoise(0.25, 0.25),
        RandomizedResponse([[1.0], [1.0]]),
    ],
)
def test_outputs_that_say_nothing_are_refused(mechanism):
    plan = plan_for(mechanism)
    for call in (estimate, estimate_transitions):
        with pytest.raises(NotSupported, match="tell all states apart"):
            call([0, 0, 0], plan)


def test_a_redaction_that_shows_nothing_is_refused():
    plan = plan_for(Redaction(np.ones((3, 2))), length=3)
    for call in (estimate, estimate_transitions):
        with pytest.raises(NotSupported, match="always erased"):
            call([None] * 3, plan)


@pytest.mark.parametrize(
    "query", [True, 3, [], object(), ut.PureDP(1.0)], ids=["bool", "int", "list", "object", "level"]
)
def test_what_is_no_query_is_refused(query):
    plan = ut.calibrate(ut.Series(), ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), limit=2.0)
    with pytest.raises(InvalidInput, match="query must be a Count, a Histogram or 'transitions'"):
        ut.estimate([0, 1], plan, query)


def test_bad_questions_are_refused():
    plan: Any = plan_for(BINARY)
    wrong: Any = "matrix"
    with pytest.raises(InvalidInput, match="'transitions'"):
        estimate([0], plan, wrong)
    with pytest.raises(NotSupported, match="Sum"):
        estimate([0], plan, ut.Sum(0, 1))  # type: ignore[arg-type]
    with pytest.raises(UnknownState, match="7"):
        estimate([0], plan, ut.Count(7))
    for confidence in (0, 1, 1.5, -1, float("nan")):
        with pytest.raises(InvalidInput, match="confidence"):
            estimate([0], plan, confidence=confidence)
    with pytest.raises(UnknownState, match="no output of this plan"):
        estimate([0, None], plan)
    with pytest.raises(UnknownState, match="no output of this plan"):
        estimate([0, 5], plan)
    with pytest.raises(InvalidInput, match="exactly 7 records"):
        estimate([0, 1], plan_for(ERASURES, length=7))
    with pytest.raises(InvalidInput, match="a Plan is required"):
        estimate([0], wrong)
    noisy: Any = ut.calibrate(ut.Count(1), ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), limit=1.0)
    with pytest.raises(NotSupported, match="error_bar"):
        estimate([0], noisy)
