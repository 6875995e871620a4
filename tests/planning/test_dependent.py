"""The method `dependent`: coefficients where a leakage confirms them, else the baseline."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles import chains as oracles
from tests.strategies import chains, joint
from undertow.bounds.dependent import chain_total, fixed_point_scale
from undertow.errors import MethodRefused, NothingToProtect
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
