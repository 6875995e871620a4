"""Transitions: sensitivities by all replacements, answers by loops, leakages by enumeration."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import undertow as ut
from undertow.errors import NotSupported
from undertow.planning.coverage import covering
from undertow.releasing.request import prepare

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
NAMES = ("inactive", "active")


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
