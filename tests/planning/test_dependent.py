"""The method `dependent`: coefficients where a leakage confirms them, else the baseline."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles import chains as oracles
from tests.oracles.exact import ACTIVITY, ACTIVITY_START, chain_law, noisy
from tests.oracles.exact import leakage as oracle
from tests.strategies import chains, joint
from undertow.bounds import dependent as total_dependence
from undertow.bounds.dependent import chain_total, fixed_point_scale, gaussian_total
from undertow.bounds.gaussian.leakages import leakage as gaussian_leakage
from undertow.bounds.networks.leakages import leakage as network_leakage
from undertow.certificate import Leakage
from undertow.errors import MethodRefused, NothingToProtect, NotSupported
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.networks import BayesianNetwork
from undertow.planning import dependent as module
from undertow.planning.budget import Search
from undertow.planning.dependent import dependent, prove_dependent
from undertow.planning.questions import Question
from undertow.secrets import ONE_RECORD

MANY = settings(deadline=None, derandomize=True, database=None, max_examples=60)
ROWS = [[0.882, 0.118], [0.305, 0.695]]
EVEN = [[0.65, 0.35], [0.35, 0.65]]
FOUR = [
    [0.7, 0.15, 0.1, 0.05],
    [0.1, 0.65, 0.2, 0.05],
    [0.05, 0.15, 0.7, 0.1],
    [0.1, 0.1, 0.2, 0.6],
]
BIT = [0.5, 0.5]
XOR = BayesianNetwork(
    [("a", "c"), ("b", "c")],
    {"a": BIT, "b": BIT, "c": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]},
)


def solve(query, model, epsilon=1.0, against="any"):
    question = Question(query, model, epsilon, against, ONE_RECORD)
    mechanism = dependent(question)
    leak = prove_dependent(question, mechanism)
    assert leak.proves(epsilon)
    assert leak.against == against
    return mechanism, leak


def confirmed(leak):
    return "dependence coefficients of [liu2016]" in leak.assumptions[-1]


def fell_back(leak, size):
    return leak.assumptions[-1].endswith(f"noise for {size} records that depend in any way")


# --- chains ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [(0.5, 3.193753780624207), (1.0, 1.587533097399869), (2.0, 0.775356220271588)],
)
def test_two_records_need_what_the_coefficients_say(epsilon, expected):
    pair = ut.MarkovChain([[0.8, 0.2], [0.2, 0.8]], length=2)
    mechanism, leak = solve(ut.Count(1), pair, epsilon)
    assert mechanism.scale == pytest.approx(expected, rel=1e-9)
    assert mechanism.scale >= expected
    assert confirmed(leak)
    assert leak.lower == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(
    ("length", "asked", "leaks"),
    [(5, "2.87994", "1.0085"), (30, "3.81771", "1.04771"), (15264, "3.81872", "1.04743")],
)
def test_on_the_activity_chain_pairs_do_not_tell_all(length, asked, leaks):
    chain = ut.MarkovChain(ROWS, length=length)
    mechanism, leak = solve(ut.Count(1), chain)
    assert mechanism.scale == length
    assert leak.method == "group"
    assert leak.lower == 0.0
    assert fell_back(leak, length)
    assert f"ask for a scale of {asked}, which leaks {leaks} or more" in leak.assumptions[-1]
    scale = fixed_point_scale(chain_total(chain, ut.Count(1)), 1.0, 1.0)
    truth = ut.leakage(ut.Laplace(ut.Count(1), scale), chain)
    assert truth.lower > 1.0
    assert f"{truth.lower:.6g}" == leaks


def test_the_same_chain_at_epsilon_four_is_confirmed():
    chain = ut.MarkovChain(ROWS, length=15264)
    mechanism, leak = solve(ut.Count(1), chain, 4.0)
    assert mechanism.scale == pytest.approx(0.9870753, abs=1e-6)
    assert confirmed(leak)
    assert leak.method == "exact"
    assert leak.upper == pytest.approx(3.506591, abs=1e-6)
    exact = ut.calibrate(ut.Count(1), chain, 4.0, method="exact").mechanism
    assert exact.scale < mechanism.scale < 15264 / 4


def test_five_records_by_decimals():
    """The scale that was refused leaks more than 1, the ones that were taken do not."""
    law = chain_law(ACTIVITY_START, ACTIVITY, 5)
    chain = ut.MarkovChain(ROWS, length=5)
    refused = fixed_point_scale(chain_total(chain, ut.Count(1)), 1.0, 1.0)
    assert refused == pytest.approx(2.879939720690, abs=1e-10)
    leak = oracle(law, noisy(sum, refused), range(6), "ignorant")
    assert float(leak) == pytest.approx(1.008504864233, abs=1e-10)
    for epsilon in (1.0, 4.0):
        taken, _ = solve(ut.Count(1), chain, epsilon)
        assert oracle(law, noisy(sum, taken.scale), range(6)) <= Decimal(epsilon)


@pytest.mark.parametrize(
    ("query", "model", "against", "scale"),
    [
        (ut.Count(1), ut.MarkovChain(EVEN, length=1000), "any", 1.837882),
        (ut.Count(1), ut.MarkovChain(EVEN), "any", 1.837882),
        (ut.Count(1), ut.MarkovChain(EVEN), "ignorant", 1.837882),
        (ut.Count(1), ut.MarkovChain(EVEN, length=20), "informed", 1.837871),
        (ut.Count(1), ut.MarkovChain(EVEN, length=9), ut.Adversary(4, [2]), None),
        (ut.Count([2, 3]), ut.MarkovChain(FOUR, length=1000), "any", 4.767975),
        (ut.Histogram(), ut.MarkovChain(EVEN, length=50), "any", 2 * 1.837882),
        (ut.Sum(0, 10, {0: 0, 1: 10}), ut.MarkovChain(EVEN, length=50), "any", 10 * 1.837882),
        (ut.Mean(0, 10, {0: 0, 1: 10}), ut.MarkovChain(EVEN, length=50), "any", 1.837882 / 5),
        (ut.Query(max), ut.MarkovChain(EVEN, length=50), "any", 1.837882),
        (ut.Count(1), ut.MarkovChain([[0.3, 0.7]] * 2, length=9), "any", 1.0),
        (ut.Count(1), ut.MarkovChain(np.eye(2), start=[0.5, 0.5], length=9), "any", 9.0),
    ],
    ids=str,
)
def test_confirmed_plans(query, model, against, scale):
    mechanism, leak = solve(query, model, 1.0, against)
    assert confirmed(leak)
    assert mechanism.scale == pytest.approx(scale or mechanism.scale, rel=1e-6)
    assert isinstance(mechanism, ut.DiscreteLaplace) == isinstance(query, ut.Count | ut.Histogram)


@pytest.mark.parametrize(
    ("model", "size", "why"),
    [
        (ut.MarkovChain(ROWS, start=[1, 0], length=10), 10, "leaks 1.03025 or more"),
        (ut.MarkovChain(ROWS, start=[1, 0], length=1000), 1000, "at most 128 records"),
        (ut.MarkovChain.box([[0.8, 0.1], [0.3, 0.6]], [[0.9, 0.2], [0.4, 0.7]], length=8), 8,
         "need the law of the records"),
        (ut.MarkovChain.mixing(2, 0.2, 0.1, length=8), 8, "need the law of the records"),
        (ut.ModelSet([ut.MarkovChain(ROWS, length=9), ut.Groups(3)]), 9, "leaks 1.02"),
    ],
    ids=lambda value: value.describe() if hasattr(value, "describe") else None,
)  # fmt: skip
def test_baselines(model, size, why):
    mechanism, leak = solve(ut.Count(1), model)
    assert mechanism.scale == size
    assert fell_back(leak, size)
    assert why in leak.assumptions[-1]


def test_an_interval_that_does_not_decide_is_no_confirmation(monkeypatch):
    def undecided(*_):
        return Leakage(0.5, 1.5, "exchange", "any")

    monkeypatch.setattr(module, "leakage", undecided)
    _, leak = solve(ut.Count(1), ut.MarkovChain(EVEN, length=9))
    assert fell_back(leak, 9)
    assert "is proved to leak at most 1.5, not 1" in leak.assumptions[-1]


def test_rounding_alone_does_not_cost_a_plan(monkeypatch):
    """A leakage that exceeds the guarantee by its last digits is met by a little more noise."""
    chain = ut.MarkovChain(EVEN, length=9)
    asked = fixed_point_scale(chain_total(chain, ut.Count(1)), 1.0, 1.0, 4e-11)

    def barely(mechanism, *_):
        return Leakage(0.0, asked * (1 + 5e-11) / mechanism.scale, "exact", "any")

    monkeypatch.setattr(module, "leakage", barely)
    mechanism, leak = solve(ut.Count(1), chain)
    assert confirmed(leak)
    assert asked * (1 + 5e-11) <= mechanism.scale <= asked * (1 + 6e-11)
    assert "and a little more for rounding" in leak.assumptions[-1]


def test_an_unknown_leakage_is_no_confirmation(monkeypatch):
    def refuse(*_):
        raise NotSupported("nobody knows")

    monkeypatch.setattr(module, "leakage", refuse)
    _, leak = solve(ut.Count(1), ut.MarkovChain(EVEN, length=9))
    assert fell_back(leak, 9)
    assert "is unknown: nobody knows" in leak.assumptions[-1]


def test_refusals():
    with pytest.raises(MethodRefused, match=r"leaks 1\.04743 or more.*give it a length"):
        solve(ut.Count(1), ut.MarkovChain(ROWS))
    with pytest.raises(MethodRefused, match="does not forget where it was"):
        solve(ut.Count(1), ut.MarkovChain([[0, 1], [1, 0]]))
    with pytest.raises(MethodRefused, match="at most 128 records"):
        solve(ut.Count(1), ut.MarkovChain(ROWS, start=[1, 0]))
    for nothing in (
        ut.MarkovChain([[1, 0], [0, 1]], start=[1, 0], length=4),
        ut.ModelSet([ut.MarkovChain([[1, 0], [0, 1]], start=[1, 0], length=4)]),
    ):
        with pytest.raises(NothingToProtect, match="no noise is needed"):
            solve(ut.Count(1), nothing)
    with pytest.raises(NothingToProtect, match="no noise is needed"):
        solve(ut.Count([0, 1]), ut.MarkovChain(EVEN, length=4))


def test_a_certain_member_of_a_set_needs_no_noise():
    certain = ut.MarkovChain(np.eye(2), start=[1, 0], length=4)
    both, leak = solve(ut.Count(1), ut.ModelSet([certain, ut.MarkovChain(EVEN, length=4)]))
    alone, _ = solve(ut.Count(1), ut.MarkovChain(EVEN, length=4))
    assert both.scale == alone.scale
    assert confirmed(leak)


@law(
    MANY,
    8,
    chain=chains(most=3, named=False),
    epsilon=st.sampled_from([0.3, 1.0, 5.0]),
    against=st.sampled_from(["any", "ignorant"]),
)
def test_every_plan_keeps_its_guarantee(chain, epsilon, against):
    """Whatever branch was taken: the noise, enumerated, leaks at most epsilon."""
    records = min(chain.length or 4, 6)
    if chain.homogeneous:
        chain = ut.MarkovChain(chain.transition, chain.states, chain.start, records)
    try:
        mechanism, leak = solve(ut.Count(chain.states[0]), chain, epsilon, against)
    except NothingToProtect:
        return
    table = joint(chain, records)
    answers = oracles.noisy_answer(chain.size, records, mechanism.scale, oracles.counted([0]))
    truth = oracles.leakage(table / table.sum(), answers, against)
    assert truth <= epsilon * (1 + 1e-9)
    assert truth <= leak.upper * (1 + 1e-9)


def test_a_coarse_search_is_safe_too():
    chain = ut.MarkovChain(EVEN, length=50)
    asked = Question(ut.Count(1), chain, 1.0, "any", ONE_RECORD)
    fine, rough = dependent(asked), replace(asked, search=Search(1e-3))
    coarse = dependent(rough)
    assert fine.scale <= coarse.scale <= fine.scale * 1.01
    assert prove_dependent(rough, coarse).proves(1.0)


# --- groups and sizes -----------------------------------------------------------------------------


@pytest.mark.parametrize("query", [ut.Count("a"), ut.Histogram(), ut.Sum(0, 0.3)], ids=str)
@pytest.mark.parametrize("size", [1, 3, 10])
def test_in_a_group_every_coefficient_is_one(size, query):
    mechanism, leak = solve(query, ut.Groups(size), 0.7)
    same = ut.calibrate(query, ut.Groups(size), 0.7, method="group")
    assert mechanism == same.mechanism
    assert leak.upper == same.leakage.upper
    assert "every coefficient is 1" in leak.assumptions[-1]


def test_sizes():
    stack = [ROWS, [[0.3, 0.7]] * 2, ROWS, ROWS]
    cut = ut.MarkovChain(stack, start=[0.5, 0.5])
    assert cut.dependent_records() == 3
    assert ut.MarkovChain(ROWS).dependent_records() is None
    assert ut.MarkovChain(np.eye(2), start=[1, 0], length=5).dependent_records() == 1
    hidden = BayesianNetwork(
        [("h", "a"), ("h", "b"), ("c", "d")],
        {"h": BIT, "a": EVEN, "b": EVEN, "c": BIT, "d": EVEN, "e": BIT},
        latent=["h"],
    )
    assert hidden.dependent_records() == 2
    assert XOR.dependent_records() == 3
    blocks = np.array([[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    assert MultivariateGaussian(0, blocks).dependent_records() == 2
    assert GaussianClass(4, 0.1).dependent_records() == 4
    assert GaussianClass(4, 0.0).dependent_records() == 1
    linked = np.eye(4) + 0.3 * (np.eye(4, k=1) + np.eye(4, k=-1))
    assert MultivariateGaussian(0, linked).dependent_records() == 4


# --- networks -------------------------------------------------------------------------------------


def by_enumeration(mechanism, model, against):
    """The leakage of a count on a network, from its joint table."""
    places = [model.index(state) for state in mechanism.query.states]
    answers = oracles.noisy_answer(
        model.size, model.length, mechanism.scale, oracles.counted(places)
    )
    found = oracles.leakage(model.joint(), answers, against)
    return Leakage(found, found * (1 + 1e-13), "enumeration", against)


@pytest.fixture(params=[by_enumeration, network_leakage], ids=["enumerated", "own bound"])
def on_networks(request, monkeypatch):
    monkeypatch.setattr(module, "leakage", request.param)


@pytest.mark.usefixtures("on_networks")
@pytest.mark.parametrize(
    ("against", "leaks"), [("any", "2 or more"), ("ignorant", "1.43378 or more")]
)
def test_xor_falls_back(against, leaks):
    mechanism, leak = solve(ut.Count(1), XOR, 1.0, against)
    assert mechanism.scale == 3.0
    assert fell_back(leak, 3)
    assert f"ask for a scale of 1, which leaks {leaks}" in leak.assumptions[-1]


@pytest.mark.usefixtures("on_networks")
def test_a_small_tree_is_confirmed():
    pair = BayesianNetwork([("a", "b")], {"a": BIT, "b": [[0.8, 0.2], [0.2, 0.8]]})
    mechanism, leak = solve(ut.Count(1), pair)
    assert mechanism.scale == pytest.approx(1.587533097399869, rel=1e-9)
    assert confirmed(leak)
    star = BayesianNetwork(
        [("a", b) for b in "bcd"],
        {"a": BIT, **{leaf: [[0.8, 0.2], [0.2, 0.8]] for leaf in "bcd"}},
    )
    mechanism, leak = solve(ut.Count(1), star)
    assert 1.0 < mechanism.scale < 4.0
    assert confirmed(leak)


def test_large_networks_are_left_to_the_baseline(monkeypatch):
    monkeypatch.setattr(total_dependence, "MOST_RECORDS", 2)
    mechanism, leak = solve(ut.Count(1), XOR)
    assert mechanism.scale == 3.0
    assert fell_back(leak, 3)
    assert "at most 2 records, found 3" in leak.assumptions[-1]


# --- Gaussian records -----------------------------------------------------------------------------

R3 = np.array([[1, 0.9, 0], [0.9, 1, 0.3], [0, 0.3, 1.0]])


def factor(covariance, weights, spread):
    """The largest |coefficient| of a target in the regression of the sum on it and the known."""
    n, worst = len(covariance), 0.0
    for known in range(2**n):
        listed = [t for t in range(n) if known >> t & 1]
        for target in set(range(n)) - set(listed):
            chosen = [target, *listed]
            inner = covariance[np.ix_(chosen, chosen)]
            slopes = np.linalg.solve(inner, covariance[chosen] @ weights)
            worst = max(worst, abs(float(slopes[0])))
    return worst * spread


def by_regression(mechanism, model, against):
    query = mechanism.query
    found = factor(model.covariance, query.weights, query.spread) / mechanism.scale
    return Leakage(found, found * (1 + 1e-13), "regression", against)


@pytest.fixture(params=[by_regression, gaussian_leakage], ids=["regressed", "own bound"])
def on_gaussians(request, monkeypatch):
    monkeypatch.setattr(module, "leakage", request.param)


@pytest.mark.usefixtures("on_gaussians")
def test_gaussian_records():
    query = ut.Linear([1.0, 1.0, 1.0], spread=1.0)
    assert factor(R3, query.weights, 1.0) == pytest.approx(2.578947368, abs=1e-9)
    total = gaussian_total(R3, query.weights, 1.0, clipped=False)
    assert total(1.0) == pytest.approx(2.2, abs=1e-14)
    mechanism, leak = solve(query, MultivariateGaussian(0, R3))
    assert mechanism.scale == pytest.approx(3.0)
    assert "ask for a scale of 2.2, which leaks 1.17225 or more" in leak.assumptions[-1]
    even = np.full((3, 3), 0.275) + 0.725 * np.eye(3)
    mechanism, leak = solve(query, MultivariateGaussian(0, even))
    assert mechanism.scale == pytest.approx(1.55, rel=1e-9)
    assert confirmed(leak)


@pytest.mark.usefixtures("on_gaussians")
def test_records_without_a_range_may_defeat_the_baseline():
    """A small deviation gives a large one away: the factor 5.95 is beyond the number of records."""
    wild = np.array([[1.0, 0.99 * 5], [0.99 * 5, 25.0]])
    mechanism, leak = solve(ut.Linear([1.0, 1.0], spread=1.0), MultivariateGaussian(0, wild))
    assert mechanism.scale == pytest.approx(5.95, rel=1e-9)
    assert confirmed(leak)
    three = np.array([[1, 0.9, 0], [0.9, 1, 0.3], [0, 0.3, 1.0]]) * np.outer([9, 1, 9], [9, 1, 9])
    with pytest.raises(MethodRefused, match="have no range even that leaks up to"):
        solve(ut.Linear([1.0, 1.0, 1.0], spread=1.0), MultivariateGaussian(0, three))


@pytest.mark.parametrize(
    ("query", "model", "moved"),
    [
        (ut.Sum(0, 1), MultivariateGaussian(0, [[1.0, 3.0], [3.0, 16.0]]), 2.0),
        (ut.Mean(0, 1), MultivariateGaussian(0, [[1.0, 3.0], [3.0, 16.0]]), 1.0),
        (ut.Sum(0, 1), MultivariateGaussian(0, [[1.0, 0.5], [0.5, 16.0]]), 1.5),
        (ut.Linear([1, 1], spread=1), GaussianClass(2, 0.4, sds=[1.0, 2.0]), 1.8),
        (ut.Linear([1, 2], spread=3), GaussianClass(2, 0.4), 7.2),
    ],
    ids=["sum", "mean", "less", "class", "even class"],
)
def test_clipped_records_and_classes(monkeypatch, query, model, moved):
    """A clipped record's coefficient counts as 1 at most; the leakage is said to agree."""
    monkeypatch.setattr(
        module, "leakage", lambda m, *_: Leakage(0.0, moved / m.scale, "told", "any")
    )
    mechanism, leak = solve(query, model, 2.0)
    assert mechanism.scale == pytest.approx(moved / 2, rel=1e-9)
    assert confirmed(leak)


@pytest.mark.parametrize(("query", "scale"), [(ut.Sum(0, 5), 7.75), (ut.Mean(0, 6), 3.1)], ids=str)
def test_released_sums_of_gaussian_records(monkeypatch, query, scale):
    """Sums are released on a lattice, which costs a few steps of 2^-24."""
    monkeypatch.setattr(module, "leakage", gaussian_leakage)
    even = np.full((3, 3), 0.275) + 0.725 * np.eye(3)
    mechanism, leak = solve(query, MultivariateGaussian(0, even))
    assert mechanism.scale == pytest.approx(scale, rel=1e-6)
    assert confirmed(leak)


def test_other_queries_of_gaussian_records_are_left_to_the_baseline():
    _, leak = solve(ut.Query(max, sensitivity=2.0), MultivariateGaussian(0, R3))
    assert fell_back(leak, 3)
    assert "Linear, Sum or Mean, not of Query" in leak.assumptions[-1]
