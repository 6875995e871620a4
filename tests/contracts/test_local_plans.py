"""The guarantees of plans for flipped and redacted series, by enumeration and plain search."""

import itertools
import math

import numpy as np
import pytest

import undertow as ut
from tests.contracts.chains import example
from tests.contracts.local_search import best_flips, best_redaction, information, redaction_leakage
from tests.contracts.local_verdicts import (
    GUARANTEE,
    RATES,
    SEARCH,
    THREE,
    binary,
    calibrate,
    is_dyadic,
    keeps_its_guarantee,
    rows_sum_exactly,
    travels,
)
from tests.grids import each, pairwise
from tests.oracles import series as oracle
from undertow.errors import InvalidInput, MethodRefused, UndertowError


@each(
    ("name", ("epsilon", "against")),
    sorted(RATES), itertools.product([0.1, 1.0, 4.0], ["any", "ignorant", "informed"]),
)  # fmt: skip
def test_flips_keep_their_guarantee(name, epsilon, against):
    chain = binary(name, 5)
    plan = calibrate(ut.Series(), chain, epsilon, against)
    truth = keeps_its_guarantee(plan, chain, epsilon, against)
    assert truth >= epsilon - 1e-6  # and no noise is wasted
    matrix = plan.mechanism.matrix
    assert is_dyadic(matrix)
    assert rows_sum_exactly(matrix)
    assert max(matrix[0, 1], matrix[1, 0]) <= 0.5
    travels(plan)


@pytest.mark.parametrize("name", sorted(RATES))
def test_the_measures_of_flips_are_what_they_say(name):
    chain = binary(name, 6)
    plan = calibrate(ut.Series(), chain, 2.0)
    law = np.array([float(mass) for mass in oracle.stationary(chain.transition)])
    matrix = plan.mechanism.matrix
    flips = float(law @ (1 - np.diag(matrix)))
    assert plan.expected_flips == pytest.approx(flips, rel=1e-12)
    bits = information(law, matrix)
    assert dict(plan.measures)["information"] == pytest.approx(bits, rel=1e-9)
    assert plan.dp_epsilon == pytest.approx(plan.mechanism.dp_epsilon())


NAMED = [("sticky", 2.0), ("uneven", 0.5), ("rare", 2.0), ("negative", 0.5), ("wild", 2.0)]


@pytest.mark.parametrize(
    ("name", "epsilon", "against", "n"),
    [("wild", 2.0, "ignorant", 3)],
)
def test_no_search_finds_fewer_flips(name, epsilon, against, n):
    chain = binary(name, n)
    plan = calibrate(ut.Series(), chain, epsilon, against)
    short = (name, n) == ("wild", 3)  # in the gate
    least = best_flips(chain.transition, n, epsilon, against, short=short)
    assert plan.expected_flips <= least + SEARCH


@pytest.mark.parametrize("name", ["negative"])
def test_no_search_finds_more_information(name):
    chain = binary(name, 3)
    plan = calibrate(ut.Series(), chain, 1.0, objective="information")
    keeps_its_guarantee(plan, chain, 1.0, "any")
    bits = dict(plan.measures)["information"]
    short = name == "negative"  # in the gate
    assert bits >= best_flips(chain.transition, 3, 1.0, aim="information", short=short) - SEARCH
    fewest = calibrate(ut.Series(), chain, 1.0)
    assert bits >= dict(fewest.measures)["information"] - 1e-9
    assert fewest.expected_flips <= plan.expected_flips + 1e-9


def test_series_of_any_length_are_protected():
    for name, epsilon in (("sticky", 4.0), ("uneven", 1.0), ("negative", 2.0)):
        chain = binary(name)
        plan = calibrate(ut.Series(), chain, epsilon)
        assert plan.leakage.upper <= epsilon
        for n in (2, 5, 17, 60, 300):
            reached = oracle.long_leakage(chain.transition, plan.mechanism.matrix, n)
            assert reached <= epsilon * (1 + 1e-10)
        assert reached >= epsilon - 1e-6
        travels(plan)


@each(
    ("family", "against", "seed"),
    ["varying", "generic", "zeros", "absorbing", "point-mass"], ["any", "ignorant"], range(3),
)  # fmt: skip
def test_flips_of_any_chain_keep_their_guarantee(family, against, seed):
    chain = example(family, 2, 4, seed).model()
    plan = calibrate(ut.Series(), chain, 1.5, against)
    keeps_its_guarantee(plan, chain, 1.5, against)
    assert is_dyadic(plan.mechanism.matrix)


def least_rate(rows, n, epsilon):
    """The least rate of k-ary randomised response, three states, found by halving."""
    low, high = 0.0, 2 / 3
    while high - low > 1e-9:
        rate = (low + high) / 2
        channel = ut.RandomizedResponse.symmetric(3, rate).matrix
        fine = oracle.long_leakage(rows, channel, n) <= epsilon
        low, high = (low, rate) if fine else (rate, high)
    return high


@each(("epsilon", "rows"), [0.5, 2.0], [THREE, example("negative", 3, 4).transition])
def test_flips_of_three_states_keep_their_guarantee(epsilon, rows):
    chain = ut.MarkovChain(rows, length=4)
    plan = calibrate(ut.Series(), chain, epsilon)
    keeps_its_guarantee(plan, chain, epsilon, "any")
    assert is_dyadic(plan.mechanism.matrix)
    assert rows_sum_exactly(plan.mechanism.matrix)
    assert plan.expected_flips <= least_rate(rows, 4, epsilon) + SEARCH
    travels(plan)


def test_flips_protect_every_model_of_a_set():
    models = [binary("uneven", 4), binary("rare", 4), binary("negative", 4)]
    theta = ut.ModelSet(models)
    plan = calibrate(ut.Series(), theta, 1.0)
    assert plan.leakage.upper <= 1.0
    for model in models:
        assert oracle.truth(plan.mechanism, model) <= 1.0 + GUARANTEE
    travels(plan)


@each(("epsilon", "name", "against"), [0.5, 4.0], ["sticky", "uneven"], ["any", "ignorant"])
def test_xor_plans_keep_their_guarantee(epsilon, name, against):
    chain = binary(name, 6)
    plan = calibrate(ut.Series(), chain, epsilon, against, method="xor")
    assert isinstance(plan.mechanism, ut.XorNoise)
    keeps_its_guarantee(plan, chain, epsilon, against)
    assert plan.expected_flips == pytest.approx(plan.mechanism.flip_rate)
    assert is_dyadic([plan.mechanism.rho0, plan.mechanism.rho1])
    travels(plan)


def test_exchanged_flips_leak_what_any_algorithm_of_their_level_may():
    chain = binary("uneven", 5)
    plan = calibrate(ut.Series(), chain, 1.0, method="exchange")
    keeps_its_guarantee(plan, chain, 1.0, "any")
    assert plan.dp_epsilon <= ut.dp_budget(chain, limit=1.0) * (1 + 1e-12)


def test_guarantees_that_cannot_be_made_are_refused():
    chain = binary("uneven", 6)
    for query, epsilon, against, method in (
        (ut.Series(), 0.0, "any", "best"),
        (ut.Series(), -1.0, "any", "best"),
        (ut.Series(), math.nan, "any", "best"),
        (ut.Series(), 1.0, "any", "mq"),
        (ut.Series(), 1.0, "any", "quilt"),
        (ut.Redacted(2), 1.0, "any", "xor"),
        (ut.Redacted(2), 1.0, "any", "laplace"),
        (ut.Redacted(2), 0.0, "any", "best"),
        (ut.Count(1), 1.0, "any", "3r-constant"),
    ):
        with pytest.raises(UndertowError):
            calibrate(query, chain, epsilon, against, method=method)
    with pytest.raises(UndertowError):
        calibrate(ut.Series(), ut.Groups(3), 1.0)


METHODS = ("mq-printed", "mq", "3r-relaxed", "3r-constant", "3r-individual", "optimal")


def planned(chain, protect, epsilon, against, method, length=None):
    """A plan, or None where the method says that it does not apply."""
    try:
        return calibrate(ut.Redacted(protect, length), chain, epsilon, against, method=method)
    except UndertowError:
        return None


def shown_share(plan, chain, n):
    laws = np.array([chain.law(record) for record in range(n)])
    return float((laws * (1 - plan.mechanism.probabilities)).sum() / n)


def is_sound(plan, chain, protect, epsilon, against):
    n = plan.mechanism.length
    keeps_its_guarantee(plan, chain, epsilon, against)
    table = plan.mechanism.probabilities
    assert is_dyadic(table)
    assert set(plan.mechanism.protect) == set(protect)
    assert (table[list(protect)] == 1).all()
    assert plan.utility == pytest.approx(shown_share(plan, chain, n), rel=1e-12, abs=1e-15)
    travels(plan)


@pairwise(
    ("name", "method", "against", "target", "epsilon"),
    sorted(RATES), METHODS, ["any", "ignorant"], [0, 2, 5], [0.3, 1.0, 3.0],
)  # fmt: skip
def test_redactions_keep_their_guarantee(name, method, against, target, epsilon):
    chain = binary(name, 6)
    if against == "any" and method not in ("mq", "optimal"):
        with pytest.raises(MethodRefused, match="ignorant"):
            calibrate(ut.Redacted(target), chain, epsilon, against, method=method)
        return
    plan = calibrate(ut.Redacted(target), chain, epsilon, against, method=method)
    assert plan.method == method
    is_sound(plan, chain, [target], epsilon, against)


@pytest.mark.parametrize(
    ("name", "against", "epsilon"),
    [
        ("common", "any", 0.4),
        ("negative", "ignorant", 1.0),
        ("rare", "any", 2.0),
        ("sticky", "ignorant", 0.4),
        ("wild", "ignorant", 2.0),
    ],
)
def test_no_search_shows_more_on_one_side(name, against, epsilon):
    chain = binary(name, 4)
    plan = calibrate(ut.Redacted(0), chain, epsilon, against, method="optimal")
    best, _ = best_redaction(chain.transition, 4, 0, epsilon, against, nested=False)
    assert plan.utility >= best - SEARCH


SIDES = [(4, 1, 0.4), (4, 2, 2.0), (5, 2, 1.0)]  # records, target, epsilon


@pytest.mark.parametrize(
    ("name", "against", "n", "target", "epsilon"),
    [
        ("common", "any", *SIDES[0]),
        ("negative", "ignorant", *SIDES[1]),
        ("rare", "any", *SIDES[2]),
        ("sticky", "ignorant", *SIDES[0]),
    ],
)
def test_no_search_shows_more_on_two_sides(name, against, n, target, epsilon):
    chain = binary(name, n)
    plan = calibrate(ut.Redacted(target), chain, epsilon, against, method="optimal")
    best, _ = best_redaction(chain.transition, n, target, epsilon, against)
    assert plan.utility >= best - SEARCH


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize("name", sorted(RATES))
def test_long_redactions_keep_their_guarantee(name, against):
    for n, target, epsilon in ((6, 2, 1.0), (60, 0, 0.5), (60, 25, 2.0)):
        chain = binary(name, n)
        plan = calibrate(ut.Redacted(target), chain, epsilon, against)
        table = plan.mechanism.probabilities
        reached = redaction_leakage(chain.transition, table, target, against)
        assert plan.leakage.lower <= reached + 1e-11
        assert reached <= plan.leakage.upper + 1e-11
        assert plan.leakage.upper <= epsilon
        if n == 6:  # the oracle of long series agrees with enumeration
            assert reached == pytest.approx(oracle.truth(plan.mechanism, chain, against), rel=1e-9)


@pairwise(
    ("name", "against", "target", "epsilon"),
    sorted(RATES), ["any", "ignorant"], [0, 4], [0.5, 1.5],
)  # fmt: skip
def test_the_optimum_is_not_worse_than_the_other_methods(name, against, target, epsilon):
    chain = binary(name, 9)
    best = calibrate(ut.Redacted(target), chain, epsilon, against, method="optimal")
    assert best.leakage.upper <= epsilon
    for method in METHODS:
        plan = planned(chain, target, epsilon, against, method)
        if plan is not None and plan.leakage.upper <= epsilon:
            assert plan.utility <= best.utility + 1e-9


def test_the_default_is_the_optimum_against_any():
    chain = binary("rare", 8)
    plan = calibrate(ut.Redacted(3), chain, 1.0)
    assert plan.against == "any"
    optimum = calibrate(ut.Redacted(3), chain, 1.0, method="optimal")
    assert plan.utility >= optimum.utility - 1e-12
    ignorant = calibrate(ut.Redacted(3), chain, 1.0, "ignorant")
    assert ignorant.utility >= plan.utility - 1e-12
    assert "no other record" in ignorant.guarantee()


def test_a_query_brings_its_length():
    chain = binary("uneven")
    plan = calibrate(ut.Redacted(2, length=6), chain, 1.0)
    assert plan.mechanism.length == 6
    assert oracle.truth(plan.mechanism, chain) <= 1.0 + GUARANTEE
    with pytest.raises(InvalidInput):
        calibrate(ut.Redacted(2), chain, 1.0)
    with pytest.raises(UndertowError):
        calibrate(ut.Redacted(2, length=6), binary("uneven", 7), 1.0)
    with pytest.raises(UndertowError):
        calibrate(ut.Redacted(9), binary("uneven", 7), 1.0)


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_several_protected_records_are_all_protected(against):
    made = 0
    for name, method in itertools.product(("uneven", "rare", "negative"), ("best", *METHODS)):
        chain = binary(name, 7)
        plan = planned(chain, [1, 4], 1.0, against, method)
        if plan is not None:
            made += 1
            is_sound(plan, chain, [1, 4], 1.0, against)
    assert made >= 6


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_redactions_of_three_states_keep_their_guarantee(against):
    made = 0
    for rows in (THREE, example("negative", 3, 5).transition):
        chain = ut.MarkovChain(rows, length=5)
        for method, target in itertools.product(("best", *METHODS), (0, 2)):
            plan = planned(chain, target, 1.0, against, method)
            if plan is not None:
                made += 1
                is_sound(plan, chain, [target], 1.0, against)
    assert made >= 8


@each(
    ("family", ("k", "against")),
    ["varying", "generic", "zeros", "absorbing", "point-mass"],
    itertools.product([3, 2], ["any", "ignorant"]),
)
def test_redactions_of_any_chain_keep_their_guarantee(family, k, against):
    chain = example(family, k, 4).model()
    for method in ("best", *METHODS):
        plan = planned(chain, 1, 1.0, against, method)
        if plan is not None:
            is_sound(plan, chain, [1], 1.0, against)
        assert plan is not None or method not in ("best", "mq", "optimal")


@each(("name", "against"), sorted(RATES), ["any", "ignorant"])
def test_a_larger_budget_shows_no_less(name, against):
    chain = binary(name, 7)
    shares = [
        calibrate(ut.Redacted(2), chain, epsilon, against).utility
        for epsilon in (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
    ]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(shares))
    assert shares[-1] == pytest.approx(6 / 7)
