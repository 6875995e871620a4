"""Populations of chains: what is said of persons holds for them, as often as it says."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from undertow.errors import InvalidInput, NotSupported
from undertow.models.fitting import fit as module
from undertow.models.fitting.fit import population
from undertow.models.fitting.tally import Tally, tally


def of_counts(counts):
    """Return a tally that knows nothing but the transitions of persons."""
    empty = np.zeros((2, 2), int)
    return Tally(
        states=(0, 1), counts=counts.sum(0), triples=None, persons=counts,
        halves=np.zeros((2, 2, 2), int), hours=None, together=empty, ends=empty, pairs=empty[0],
        visits=empty[0], records=0, missing=0, series=len(counts),
    )  # fmt: skip


def drawn(persons, length, randomness, spread=0.4):
    """Return persons' probabilities of staying (n, 2), and transitions of series of theirs."""
    stay = 1 / (1 + np.exp(-randomness.normal((2.0, 0.8), spread, (persons, 2))))
    counts = np.zeros((persons, 2, 2), int)
    state = (randomness.random(persons) < (1 - stay[:, 0]) / (2 - stay.sum(axis=1))).astype(int)
    for _ in range(length):
        stays = randomness.random(persons) < stay[np.arange(persons), state]
        after = np.where(stays, state, 1 - state)
        counts[np.arange(persons), state, after] += 1
        state = after
    return stay, counts


def boxes_of(model) -> list[Any]:
    """Return the boxes of a set."""
    return [*model.models]


def held(model, stay):
    """Return which chains (n, 2), by their probabilities of staying, are in a set of boxes."""
    inside = [
        (stay >= box.lower.diagonal()).all(axis=1) & (stay <= box.upper.diagonal()).all(axis=1)
        for box in boxes_of(model)
    ]
    return np.any(inside, axis=0)


# --- one person -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.1, 0.3), (0.05, 0.9), (0.8, 0.7)])
@pytest.mark.parametrize("beta", [0.3, 0.1, 0.02])
def test_a_persons_box_holds_their_chain_exactly_often_enough(a, b, beta):
    """All series of nine records: the visits depend on the records, and it does no harm."""
    matrix, start = np.array([[1 - a, a], [b, 1 - b]]), np.array([b, a]) / (a + b)
    series = np.array(list(itertools.product((0, 1), repeat=9)))
    steps = series[:, :-1] * 2 + series[:, 1:]
    counts = np.stack([(steps == kind).sum(axis=1) for kind in range(4)], axis=1).reshape(-1, 2, 2)
    chance = start[series[:, 0]] * matrix[series[:, :-1], series[:, 1:]].prod(axis=1)
    assert chance.sum() == pytest.approx(1)
    boxes = module._regions(counts, beta)  # (series, state, end)
    true = np.array([math.log((1 - a) / a), math.log((1 - b) / b)])
    missed = ((true < boxes[:, :, 0]) | (true > boxes[:, :, 1])).any(axis=1)
    assert chance[missed].sum() <= beta


def test_intervals_shrink_with_records_and_hold_the_estimate():
    hits = np.array([0, 3, 30, 3000, 5])
    misses = np.array([0, 7, 70, 7000, 0])
    low, high = module._interval(hits, misses, 0.05)
    assert (low[0], high[0]) == (0, 1)
    assert high[4] == 1
    assert low[4] > 0.2
    assert (low[1:4] < 0.3).all()
    assert (high[1:4] > 0.3).all()
    widths = high - low
    assert widths[1] > 2 * widths[2] > 10 * widths[3]


# --- every person of a sample, and a share of all persons ----------------------------------------


def test_every_region_of_a_person_is_covered_and_no_number_of_theirs_is_kept():
    _, counts = drawn(300, 400, np.random.default_rng(2))
    model = population(of_counts(counts))
    regions = module._regions(counts, 0.05 / 300)
    ends = 1 / (1 + np.exp(-regions))  # (n, state, end)
    for box in boxes_of(model):  # a box holds a region if it holds both its corners
        inside = (ends[..., 0] >= box.lower.diagonal()) & (ends[..., 1] <= box.upper.diagonal())
        ends = ends[~inside.all(axis=1)]
    assert not len(ends)
    assert len(model.models) <= 12
    kept = np.concatenate([box.lower.diagonal() for box in boxes_of(model)])
    odds = np.log(kept / (1 - kept)) * 32
    assert np.allclose(odds, odds.round(), atol=1e-5)


def test_chains_that_change_are_covered_apart_from_those_that_stay():
    counts = np.array([[[900, 100], [100, 900]], [[100, 900], [900, 100]]] * 3)
    model = population(of_counts(counts))
    assert held(model, np.array([[0.9, 0.9], [0.1, 0.1]])).all()
    assert not held(model, np.array([[0.9, 0.1], [0.5, 0.5]])).any()


def failures(rounds, persons, share, confidence, seed, exact):
    """Return how often a region held less than the share of all persons."""
    randomness, missed = np.random.default_rng(seed), 0
    others = drawn(4000, 0, randomness)[0]
    for _ in range(rounds):
        if exact:  # estimates without error: what is left is the choice of persons
            stay = drawn(persons, 0, randomness)[0]
            whole = np.round(stay * 10**12).astype(np.int64)
            rest = 10**12 - whole
            counts = np.stack([np.stack([whole[:, 0], rest[:, 0]], 1),
                               np.stack([rest[:, 1], whole[:, 1]], 1)], axis=1)  # fmt: skip
        else:
            counts = drawn(persons, 150, randomness)[1]
        try:
            model = population(of_counts(counts), share, confidence)
        except NotSupported:
            continue
        missed += held(model, others).mean() < share
    return missed / rounds


@pytest.mark.parametrize(("persons", "exact"), [(22, True), (60, True), (40, False)])
@pytest.mark.parametrize(("rounds", "most"), [pytest.param(70, 15)])
def test_the_tolerance_statement_holds_as_often_as_it_says(
    persons, exact, rounds, most, monkeypatch
):
    """At most 10% may fail; of 70 more than 15, of 200 more than 33 with probability < 0.002."""
    assert failures(rounds, persons, 0.9, 0.9, persons, exact) <= most / rounds
    if exact and persons == 60:  # and it is no empty statement: one person more left out breaks it
        real = module._order_statistic
        monkeypatch.setattr(module, "_order_statistic", lambda *a: (real(*a)[0] + 2, real(*a)[1]))
        assert failures(rounds, persons, 0.9, 0.9, persons, exact) > most / rounds


@pytest.mark.soak
@pytest.mark.parametrize(("persons", "exact"), [(299, True), (299, False), (800, True)])
def test_the_tolerance_statement_over_a_thousand_samples(persons, exact):
    """At most 5% may fail; of 1000, more than 71 has probability below 0.002."""
    assert failures(1000, persons, 0.99, 0.95, persons, exact) <= 0.071


def test_persons_of_a_sample_are_held_all_at_once():
    randomness, missed = np.random.default_rng(8), 0
    for _ in range(100):
        stay, counts = drawn(6, 120, randomness)
        try:
            missed += not held(population(of_counts(counts), confidence=0.8), stay).all()
        except NotSupported:
            continue
    assert missed <= 20


# --- words and refusals --------------------------------------------------------------------------


def test_what_is_refused():
    _, counts = drawn(9, 200, np.random.default_rng(1))
    alone = np.concatenate([counts, np.zeros((2, 2, 2), int)])
    with pytest.raises(InvalidInput, match=r"2 of 11 persons have no two records.*least=1"):
        population(of_counts(alone))
    said = population(of_counts(alone), least=5).note
    assert said is not None
    assert "(9 persons)" in said
    assert "at least 5 transitions" in said
    stuck = np.concatenate([counts, [[[4, 0], [0, 0]]]])
    with pytest.raises(NotSupported, match="1 persons leave open that they never leave a state"):
        population(of_counts(stuck))
    with pytest.raises(InvalidInput, match="no person has 999"):
        population(of_counts(counts), least=999)
    for bad in (0, 1, 1.5):
        with pytest.raises(InvalidInput, match="share must lie between"):
            population(of_counts(counts), bad)
    with pytest.raises(NotSupported, match="two states, and these have 3"):
        population(tally(np.array([0, 1, 2, 0]), ("a", "b", "c")))
    with pytest.raises(NotSupported, match="has kept none"):
        ut.MarkovChain.from_counts([[5, 1], [1, 5]], public=True).population()


# --- persons who differ --------------------------------------------------------------------------


def test_the_homogeneity_test_is_that_of_a_plain_loop_and_keeps_its_level():
    randomness = np.random.default_rng(3)
    one, other = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), ut.MarkovChain([[0.6, 0.4], [0.3, 0.7]])
    seeds = iter(range(10**6))
    small = 0
    for _ in range(60):
        series = [
            one.simulate(int(randomness.integers(20, 200)), seed=next(seeds)) for _ in range(6)
        ]
        small += ut.MarkovChain.fit(series, public=True).homogeneity_test().p_value < 0.05
    assert small <= 9  # of 60 at 0.05: more has probability below 0.002
    mixed = [chain.simulate(300, seed=next(seeds)) for chain in (one, other) for _ in range(5)]
    fit = ut.MarkovChain.fit(mixed, public=True)
    test = fit.homogeneity_test()
    assert test.p_value < 1e-6
    assert "persons differ" in test.words()
    assert (test.persons, test.degrees) == (10, 18)
    plain = 0.0
    for table in fit.tally.persons:
        for x, y in itertools.product(range(2), repeat=2):
            if table[x, y]:
                plain += (
                    2
                    * table[x, y]
                    * math.log(
                        table[x, y] / table[x].sum() / (fit.counts[x, y] / fit.counts[x].sum())
                    )
                )
    assert test.statistic == pytest.approx(plain)


def test_the_report_says_for_whom_it_holds():
    _, counts = drawn(4, 2000, np.random.default_rng(1), 0.2)
    model = population(of_counts(counts))
    plan = ut.calibrate(ut.Count(1), model, limit=1)
    assert any("every person in the sample" in line for line in plan.leakage.assumptions)
    report = ut.release(plan, [0, 1, 1, 0, 0, 1]).report()
    assert "holds for every person in the sample (4 persons), with confidence 95%" in str(report)
    assert "not private" in str(report)
    assert ut.ModelSet.from_dict(model.to_dict()) == model
