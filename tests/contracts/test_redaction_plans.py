"""The guarantees of plans for redacted series, by enumeration and plain search."""

import itertools
import math
import re
import time

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
from tests.grids import each, pairwise, thinned
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
    thinned(
        [
            pytest.param(*case)
            for case in itertools.product(sorted(RATES), ["any", "ignorant"], [0.4, 1.0, 2.0])
        ],
        keep=[
            ("common", "any", 0.4),
            ("negative", "ignorant", 1.0),
            ("rare", "any", 2.0),
            ("sticky", "ignorant", 0.4),
            ("wild", "ignorant", 2.0),
        ],
    ),
)
def test_no_search_shows_more_on_one_side(name, against, epsilon):
    chain = binary(name, 4)
    plan = calibrate(ut.Redacted(0), chain, epsilon, against, method="optimal")
    best, _ = best_redaction(chain.transition, 4, 0, epsilon, against, nested=False)
    assert plan.utility >= best - SEARCH


LOPSIDED = [  # alpha, beta, n, target, epsilon, adversary, share that a search shows
    (0.8843487464652123, 0.012752192229988444, 6, 0, 0.17738526320371642, "any", 0.6120182),
    (0.007868417833926921, 0.46197386091592463, 4, 0, 3.989686637087781, "any", 0.7053609),
    (0.015503941793884025, 0.287541805324824, 6, 0, 3.1040464632309193, "any", 0.6373367),
    (0.7054667738494922, 0.021526772755308093, 5, 0, 0.391051443963033, "any", 0.3666264),
    (0.02043516982796937, 0.9478741571465449, 6, 0, 0.1706858745491283, "ignorant", 0.7802198),
    (0.02043516982796937, 0.9478741571465449, 6, 0, 0.1706858745491283, "any", 0.7795817),
    (0.02278336261241641, 0.5108949171641949, 5, 4, 1.8184944712079738, "any", 0.5469397),
    (0.001358290855460567, 0.822100842236517, 9, 0, 0.20026284676547784, "ignorant", 0.6068390),
    (0.791832702430718, 0.004464486368050699, 8, 0, 0.0656565447663436, "ignorant", 0.4839644),
]


@pytest.mark.parametrize(("alpha", "beta", "n", "target", "epsilon", "against", "found"), LOPSIDED)
def test_no_search_shows_more_of_lopsided_chains(alpha, beta, n, target, epsilon, against, found):
    """The share is not unimodal in the first record that is always shown.

    Against any attacker a plan does not call itself optimal, and says what no other exceeds.
    """
    chain = ut.MarkovChain([[1 - alpha, alpha], [beta, 1 - beta]], length=n)
    plan = calibrate(ut.Redacted(target), chain, epsilon, against, method="optimal")
    keeps_its_guarantee(plan, chain, epsilon, against)
    claimed = "optimum" in dict(plan.measures)
    assert claimed is (against == "ignorant")
    assert plan.utility >= found - SEARCH
    if not claimed:
        assert found - SEARCH <= stated_bound(plan) <= 1.01 * plan.utility


def stated_bound(plan):
    """The share that no redaction of the plan's stretches exceeds, from its assumptions."""
    said = " ".join(plan.leakage.assumptions)
    (bound,) = re.findall(r"shows more than ([\d.]+) of the series", said)
    return float(bound)


def test_a_redaction_is_the_same_whatever_the_clock_says(monkeypatch):
    chain = ut.MarkovChain([[0.985, 0.015], [0.29, 0.71]], length=6)
    plans = []
    for jump in (0.0, 86400.0):
        ticks = itertools.count()
        for name in ("time", "monotonic", "perf_counter", "process_time"):
            monkeypatch.setattr(time, name, lambda jump=jump, ticks=ticks: jump * next(ticks))
        plans.append(calibrate(ut.Redacted(0), chain, 3.0, "any", method="optimal"))
    assert np.array_equal(*(plan.mechanism.probabilities for plan in plans))
    assert plans[0].leakage == plans[1].leakage


@pytest.mark.parametrize("seed", range(4))
def test_no_search_shows_more_of_random_lopsided_chains(seed):
    """Ends and middles; neighbours that rather agree, and that rather differ."""
    rng = np.random.default_rng(seed)
    rare, common = float(rng.uniform(0.003, 0.05)), float(rng.uniform(0.3, 0.97))
    alpha, beta = (rare, common) if seed % 2 else (common, rare)
    n, target = (5, int(rng.choice([0, 4]))) if seed < 2 else (4, 1)
    epsilon = float(rng.uniform(0.25, 3.5))
    chain = ut.MarkovChain([[1 - alpha, alpha], [beta, 1 - beta]], length=n)
    plan = calibrate(ut.Redacted(target), chain, epsilon, "any", method="optimal")
    keeps_its_guarantee(plan, chain, epsilon, "any")
    best, _ = best_redaction(chain.transition, n, target, epsilon, "any")
    assert best - SEARCH <= plan.utility <= stated_bound(plan) + 1e-9


SIDES = [(4, 1, 0.4), (4, 2, 2.0), (5, 2, 1.0)]  # records, target, epsilon


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "against", "n", "target", "epsilon"),
    thinned(
        [
            pytest.param(name, against, *sides)
            for name, against, sides in itertools.product(RATES, ["any", "ignorant"], SIDES)
        ],
        keep=[
            ("common", "any", *SIDES[0]),
            ("negative", "ignorant", *SIDES[1]),
            ("rare", "any", *SIDES[2]),
            ("sticky", "ignorant", *SIDES[0]),
        ],
    ),
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


@each(
    ("name", ("against", "target"), "epsilon"),
    sorted(RATES), itertools.product(["any", "ignorant"], [0, 3]), [0.3, 1.0, 2.0],
)  # fmt: skip
def test_the_window_is_the_best_window(name, against, target, epsilon):
    n, chain = 7, binary(name, 7)
    plan = calibrate(ut.Redacted(target), chain, epsilon, against, method="mq")
    best = 0
    for left, right in itertools.product(range(target + 1), range(n - target)):
        table = np.zeros((n, 2))
        table[target - left : target + right + 1] = 1.0
        if oracle.truth(ut.Redaction(table, target), chain, against) <= epsilon:
            best = max(best, n - 1 - left - right)
    assert plan.utility == pytest.approx(best / n)


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


def test_the_measures_of_redactions_are_those_of_theorem_2():
    """R1 and R2 as printed, and corrected: 2 Delta*(eps/2) - 2, at least the record itself."""
    n = 12
    for name, p, epsilon in itertools.product(("sticky", "uneven", "rare"), (1, 4, 6), (0.5, 1, 2)):
        chain = binary(name, n)
        plan = calibrate(ut.Redacted(p - 1), chain, epsilon, "ignorant", method="mq")
        powers = chain.powers(200)
        influence = [math.inf] + [
            max(abs(math.log(power[0, v] / power[1, v])) for v in (0, 1)) for power in powers[1:]
        ]

        def radius(budget, influence=influence):
            return next(d for d in range(1, 200) if influence[d] <= budget)

        first = radius(epsilon) + p - 1
        printed = corrected = first
        if epsilon >= (influence[p - 1] if p > 1 else 0) + influence[n - p]:
            printed = min(first, 2 * radius(epsilon / 2) - 1)
            corrected = min(first, max(1, 2 * radius(epsilon / 2) - 2))
        if epsilon < influence[n - p]:
            printed = corrected = n
        measures = dict(plan.measures)
        assert measures["window bound printed"] == pytest.approx(1 - printed / n)
        assert measures["window bound"] == pytest.approx(1 - corrected / n)
        assert plan.utility <= measures["window bound"] + 1e-12
