"""The guarantees of plans for flipped and redacted series, by enumeration and plain search.

A plan guarantees that its own mechanism, as it will be applied, leaks at most epsilon. The oracles
are `tests.oracles.series` (what it leaks) and `local_search` (how good it could have been); neither
shares code with the package.
"""

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.contracts.chains import example
from tests.contracts.local_search import (
    best_flips,
    best_redaction,
    information,
    redaction_leakage,
)
from tests.grids import each, pairwise
from tests.oracles import series as oracle
from undertow.errors import InvalidInput, MethodRefused, UndertowError

GUARANTEE = 1e-12  # rounding of the oracle, relative to max(1, epsilon)
SEARCH = 1e-6  # how much better than the plan the oracle's search may be
GRAIN = Fraction(1, 2**53)
calibrate: Any = ut.calibrate
RATES = {
    "sticky": (0.1, 0.1),
    "uneven": (0.2, 0.35),
    "rare": (0.03, 0.6),
    "common": (0.5, 0.2),
    "negative": (0.8, 0.7),
    "wild": (0.6, 0.95),
}
THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
METHODS = ("mq-printed", "mq", "3r-relaxed", "3r-constant", "3r-individual", "optimal")


def binary(name, length=None):
    q, r = RATES[name]
    return ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=length)


def keeps_its_guarantee(plan, chain, epsilon, against):
    """Enumerated, the mechanism leaks no more than was proved, and that no more than asked."""
    assert plan.limit == epsilon
    assert plan.against == against
    assert plan.leakage.upper <= epsilon
    truth = oracle.truth(plan.mechanism, chain, against)
    assert truth <= plan.leakage.upper * (1 + GUARANTEE)
    assert truth >= plan.leakage.lower - GUARANTEE * max(1.0, truth)
    return truth


def is_dyadic(table):
    return all(Fraction(float(entry)) % GRAIN == 0 for entry in np.ravel(table))


def rows_sum_exactly(matrix):
    return all(sum(map(Fraction, map(float, row))) == 1 for row in matrix)


def travels(plan):
    """The plan survives its file, and the file says whom it protects against."""
    text = plan.to_json()
    assert ut.Plan.from_json(text) == plan
    body = json.loads(text)
    assert body["leakage"]["against"] == plan.against
    who = {"any": "any other records", "ignorant": "no other record", "informed": "all other"}
    assert who[plan.against] in plan.guarantee()


# --- flips ----------------------------------------------------------------------------------------


@pairwise(
    ("name", "epsilon", "against"),
    sorted(RATES), [0.1, 1.0, 4.0], ["any", "ignorant", "informed"],
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


@pytest.mark.slow
@each(
    ("against", ("name", "epsilon"), "n"),
    ["ignorant", "any"],
    [("sticky", 2.0), ("uneven", 0.5), ("rare", 2.0), ("negative", 0.5), ("wild", 2.0)],
    [3, 4],
)  # fmt: skip
def test_no_search_finds_fewer_flips(name, epsilon, against, n):
    chain = binary(name, n)
    plan = calibrate(ut.Series(), chain, epsilon, against)
    assert plan.expected_flips <= best_flips(chain.transition, n, epsilon, against) + SEARCH


def test_no_search_finds_fewer_flips_quickly():
    chain = binary("uneven", 3)
    plan = calibrate(ut.Series(), chain, 1.0)
    assert plan.expected_flips <= best_flips(chain.transition, 3, 1.0) + SEARCH
    plan = calibrate(ut.Series(), chain, 1.0, objective=[0.9, 0.2])
    rates = plan.mechanism.matrix[0, 1], plan.mechanism.matrix[1, 0]
    least = best_flips(chain.transition, 3, 1.0, aim=[0.9, 0.2])
    assert 0.9 * rates[0] + 0.2 * rates[1] <= least + SEARCH


@pytest.mark.parametrize("name", ["uneven", "rare", "negative"])
def test_no_search_finds_more_information(name):
    chain = binary(name, 3)
    plan = calibrate(ut.Series(), chain, 1.0, objective="information")
    keeps_its_guarantee(plan, chain, 1.0, "any")
    bits = dict(plan.measures)["information"]
    assert bits >= best_flips(chain.transition, 3, 1.0, aim="information") - SEARCH
    fewest = calibrate(ut.Series(), chain, 1.0)
    assert bits >= dict(fewest.measures)["information"] - 1e-9
    assert fewest.expected_flips <= plan.expected_flips + 1e-9


def test_three_states_are_told_no_less_than_by_equal_flips():
    chain = ut.MarkovChain(THREE, length=4)
    law = [float(mass) for mass in oracle.stationary(chain.transition)]
    plan = calibrate(ut.Series(), chain, 2.0, objective="information")
    keeps_its_guarantee(plan, chain, 2.0, "any")
    equal = ut.RandomizedResponse.symmetric(3, least_rate(THREE, 4, 2.0)).matrix
    assert dict(plan.measures)["information"] >= information(law, equal) - SEARCH


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


@pairwise(
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


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_flips_of_three_states_keep_their_guarantee(epsilon):
    for rows in (THREE, example("negative", 3, 4).transition):
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


def test_the_published_flips_protect_the_ignorant_only():
    """Theorem 2 of [chakrabarti2022] is false: known records of the other value tell more."""
    chain = binary("sticky", 20)
    plan = calibrate(ut.Series(), chain, 4.0, against="ignorant", method="chakrabarti")
    assert plan.method == "chakrabarti"
    ignorant = oracle.long_leakage(chain.transition, plan.mechanism.matrix, 20, "ignorant")
    assert ignorant <= 4.0 * (1 + 1e-9)
    assert oracle.long_leakage(chain.transition, plan.mechanism.matrix, 20) > 4.5
    assert ut.leakage(plan.mechanism, chain).lower > 4.5
    assert "no other record" in plan.guarantee()
    best = calibrate(ut.Series(), chain, 4.0)
    assert best.method != "chakrabarti"


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_xor_plans_keep_their_guarantee(epsilon):
    for name in ("sticky", "uneven"):
        chain = binary(name, 6)
        for against in ("any", "ignorant"):
            plan = calibrate(ut.Series(), chain, epsilon, against, method="xor")
            assert isinstance(plan.mechanism, ut.XorNoise)
            keeps_its_guarantee(plan, chain, epsilon, against)
            assert plan.expected_flips == pytest.approx(plan.mechanism.flip_rate)
            assert is_dyadic([plan.mechanism.rho0, plan.mechanism.rho1])
            travels(plan)


def test_more_is_asked_more_is_shown():
    for name in ("sticky", "negative"):
        flips = [
            calibrate(ut.Series(), binary(name, 8), epsilon).expected_flips
            for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
        ]
        assert flips == sorted(flips, reverse=True)


def test_exchanged_flips_leak_what_any_algorithm_of_their_level_may():
    chain = binary("uneven", 5)
    plan = calibrate(ut.Series(), chain, 1.0, method="exchange")
    keeps_its_guarantee(plan, chain, 1.0, "any")
    assert plan.dp_epsilon <= ut.dp_budget(chain, limit=1.0) * (1 + 1e-12)


# --- erasures -------------------------------------------------------------------------------------


def planned(chain, protect, epsilon, against, method, length=None):
    """A plan, or None where the method says that it does not apply."""
    try:
        return calibrate(ut.Redacted(protect, length), chain, epsilon, against, method)
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
            calibrate(ut.Redacted(target), chain, epsilon, against, method)
        return
    plan = calibrate(ut.Redacted(target), chain, epsilon, against, method)
    assert plan.method == method
    is_sound(plan, chain, [target], epsilon, against)


@each(("name", "against", "epsilon"), sorted(RATES), ["any", "ignorant"], [0.4, 1.0, 2.0])
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

    Against any attacker a few percent are missed, so these plans do not call themselves optimal.
    """
    chain = ut.MarkovChain([[1 - alpha, alpha], [beta, 1 - beta]], length=n)
    plan = calibrate(ut.Redacted(target), chain, epsilon, against, method="optimal")
    keeps_its_guarantee(plan, chain, epsilon, against)
    claimed = "optimum" in dict(plan.measures)
    assert claimed is (against == "ignorant")
    assert plan.utility >= (found - SEARCH if claimed else 0.96 * found)


@pytest.mark.slow
@each(
    ("name", "against", ("n", "target", "epsilon")),
    sorted(RATES), ["any", "ignorant"], [(4, 1, 0.4), (4, 2, 2.0), (5, 2, 1.0)],
)  # fmt: skip
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
    sorted(RATES), ["any", "ignorant"], [0, 3], [0.3, 1.0, 2.0],
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


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_the_optimum_is_not_worse_than_the_other_methods(against):
    for name, target, epsilon in itertools.product(sorted(RATES), (0, 4), (0.5, 1.5)):
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


@pytest.mark.parametrize("family", ["varying", "generic", "zeros", "absorbing", "point-mass"])
def test_redactions_of_any_chain_keep_their_guarantee(family):
    made = 0
    for k, against in itertools.product((2, 3), ("any", "ignorant")):
        chain = example(family, k, 4).model()
        for method in ("best", *METHODS):
            plan = planned(chain, 1, 1.0, against, method)
            if plan is not None:
                made += 1
                is_sound(plan, chain, [1], 1.0, against)
            assert plan is not None or method not in ("best", "mq", "optimal")
    assert made


def test_a_larger_budget_shows_no_less():
    for name, against in itertools.product(sorted(RATES), ("any", "ignorant")):
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
            calibrate(query, chain, epsilon, against, method)
    with pytest.raises(UndertowError):
        calibrate(ut.Series(), ut.Groups(3), 1.0)
