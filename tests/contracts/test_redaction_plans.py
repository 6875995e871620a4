"""The guarantees of plans for redacted series, by enumeration and plain search."""

import itertools

import numpy as np
import pytest

import undertow as ut
from tests.contracts.chains import example
from tests.contracts.local_plans import (
    GUARANTEE,
    RATES,
    SEARCH,
    THREE,
    binary,
    calibrate,
    is_dyadic,
    keeps_its_guarantee,
    travels,
)
from tests.contracts.local_search import best_redaction, redaction_leakage
from tests.grids import each, pairwise
from tests.oracles import series as oracle
from undertow.errors import InvalidInput, MethodRefused, UndertowError

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
