"""Every method of `calibrate` on small chains, judged through the public API by brute force.

A plan guarantees that nobody in `against` gains more than epsilon about a protected record, for the
secret pairs. The oracle enumerates all series, adversaries and answers, so a guarantee is either
kept or not.
"""

import numpy as np
import pytest

import undertow as ut
from tests.contracts.chains import FAMILIES, example
from tests.contracts.method_plans import (
    ALONE,
    CERTIFIED,
    GAUSSIAN,
    IGNORANT,
    METHODS,
    ON_CHAINS,
    PUBLISHED,
    RIVALS,
    ROUNDING,
    SAME,
    SMALL,
    TABULATED,
    WHO,
    calibrate,
    kept,
    mixes,
    slack,
    table,
)
from tests.grids import each, pairwise
from tests.oracles import chains as oracles
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.errors import MethodRefused, NothingToProtect
from undertow.methods import methods_for

# --- the list -------------------------------------------------------------------------------------


def test_the_list_of_methods():
    tables = tuple(name for name, method in METHODS.items() if method.tabulated)
    assert tables == TABULATED
    laplace = tuple(name for name, m in METHODS.items() if m.pure and not m.tabulated)
    assert laplace == (*CERTIFIED, *PUBLISHED, *RIVALS, "gaussian-bound")
    assert {*METHODS} - {*laplace} == {*GAUSSIAN, *TABULATED}
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=3)
    assert tuple(name for name in methods_for(chain) if name not in TABULATED) == ON_CHAINS
    assert methods_for(ut.MultivariateGaussian(0, np.eye(2))) == [
        "exact", "exchange", "group", "dependent", "gaussian-bound",
    ]  # fmt: skip
    assert methods_for(ut.ModelSet([chain, ut.Groups(2)])) == ["exchange", "group", "dependent"]
    for name, method in METHODS.items():
        assert method.name == name
        assert method.certified == (name in (*CERTIFIED, *GAUSSIAN, *TABULATED))
        assert method.summary
        assert "\n" not in method.summary
    for name in ALONE:
        assert tuple(METHODS[name].scope.protects) == ("ignorant",)
    assert set(METHODS["quilt"].scope.protects) == {"any", "ignorant"}
    for name in ("exact", "exchange", "group", *PUBLISHED):
        assert "any" in METHODS[name].scope.protects


# --- guarantees -----------------------------------------------------------------------------------


@each(("family", "method", ("k", "n", "counted", "epsilon")), FAMILIES, CERTIFIED, SMALL, few=44)
def test_plans_keep_their_guarantee(family, method, k, n, counted, epsilon):
    chain = example(family, k, n)
    for who in ("ignorant",) if method in IGNORANT else WHO:
        try:
            plan = calibrate(chain, counted, epsilon, who, method=method)
        except MethodRefused:
            assert method == "quilt-approx"
            assert not mixes(chain)
            continue
        except NothingToProtect:  # the answer is the same for every series
            assert oracles.leakage(chain.joint, table(chain, counted, 1.0), who) <= ROUNDING
            continue
        assert (plan.method, plan.limit, plan.against) == (method, epsilon, who)
        assert isinstance(plan.mechanism, ut.DiscreteLaplace)
        assert plan.leakage.upper <= epsilon
        kept(plan, chain, table(chain, counted, plan.mechanism.scale), who)


@pairwise(
    ("family", "who", ("k", "n", "counted"), "seed"),
    ["stationary", "sticky", "negative", "wavering"], WHO, [size[:3] for size in SMALL], [0, 1],
)  # fmt: skip
def test_published_plans_carry_what_they_really_leak(family, who, k, n, counted, seed):
    """The claim is epsilon; enumeration finds no chain here on which it is broken."""
    chain = example(family, k, n, seed)
    model = chain.model()
    steps = range(1, n // 2 + 1)
    for method, least in (
        ("lange", lange_constant(model)),
        ("zhao", zhao_constant(model)),
        ("zhao-multistep", min(zhao_constant(model, steps=t) for t in steps)),
    ):
        plan = calibrate(chain, counted, least + 0.4, who, method=method)
        assert plan.dp_epsilon == pytest.approx(
            0.4 if method != "zhao-multistep" else plan.dp_epsilon, rel=SAME
        )
        assert plan.dp_epsilon > 0
        kept(plan, chain, table(chain, counted, plan.mechanism.scale), who)
        quilt = calibrate(chain, counted, least + 0.4, who, method="quilt").mechanism.scale
        assert quilt <= plan.mechanism.scale * (1 + SAME)


@pytest.mark.parametrize("method", RIVALS)
@pytest.mark.parametrize("family", ["stationary", "sticky", "negative", "wavering"])
def test_rivals_keep_their_word_to_the_ignorant(method, family):
    """What the papers' formulas leave is judged by enumeration, like everything else."""
    for k, n, counted, epsilon in SMALL:
        chain = example(family, k, n)
        plan = calibrate(chain, counted, epsilon, "ignorant", method=method)
        kept(plan, chain, table(chain, counted, plan.mechanism.scale), "ignorant")
        assert plan.dp_epsilon <= epsilon
        certified = calibrate(
            chain, counted, epsilon, "ignorant", method="exchange"
        ).mechanism.scale
        assert plan.mechanism.scale >= certified * (1 - 1e-8)  # relaxations of the exchange rate


@pytest.mark.parametrize("method", [m for m in ON_CHAINS if m not in ("exact", *ALONE)])
def test_histograms_keep_their_guarantee(method):
    chain = example("sticky", 3, 4, seed=2)
    epsilon = 60.0 if method in PUBLISHED else 1.0
    for who in WHO:
        plan = ut.calibrate(ut.Histogram(), chain.model(), epsilon, who, method=method)
        noisy = oracles.noisy_answer(3, 4, plan.mechanism.scale, oracles.binned(3))
        kept(plan, chain, noisy, who)
        one = calibrate(chain, (1,), epsilon, who, method=method).mechanism.scale
        if method != "dependent":  # whose coefficients are those of the bins
            assert plan.mechanism.scale == pytest.approx(2 * one, rel=SAME)


@pytest.mark.parametrize("method", [m for m in ON_CHAINS if m not in ALONE])
def test_one_attacker_is_covered_by_any(method):
    chain = example("stationary", 2, 5, seed=3)
    epsilon = 60.0 if method in PUBLISHED else 1.0
    who = ut.Adversary(2, known=[0])
    plan = calibrate(chain, (1,), epsilon, who, method=method)
    noisy = table(chain, (1,), plan.mechanism.scale)
    assert oracles.leakage(chain.joint, noisy, "ignorant", protect=[2]) <= epsilon + slack(epsilon)
    worst = calibrate(chain, (1,), epsilon, "any", method=method).mechanism.scale
    assert plan.mechanism.scale <= worst * (1 + SAME)


@pytest.mark.parametrize("method", ["quilt", "quilt-approx", "wasserstein", "group"])
def test_a_set_of_chains_needs_what_its_worst_member_needs(method):
    chains = [example(family, 2, 5, seed=4) for family in ("sticky", "stationary", "wavering")]
    both = ut.ModelSet([chain.model() for chain in chains])
    plan = ut.calibrate(ut.Count(1), both, 1.0, "ignorant", method=method)
    for chain in chains:
        alone = calibrate(chain, (1,), 1.0, "ignorant", method=method).mechanism.scale
        assert plan.mechanism.scale >= alone * (1 - SAME)
        noisy = table(chain, (1,), plan.mechanism.scale)
        assert oracles.leakage(chain.joint, noisy, "ignorant") <= 1 + ROUNDING


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["any", "informed"])
@pytest.mark.parametrize("method", ALONE)
def test_methods_for_the_ignorant_say_so(method, who):
    with pytest.raises(MethodRefused, match="ignorant"):
        calibrate(example("stationary", 2, 5), (1,), 1.0, who, method=method)


@pytest.mark.parametrize("method", PUBLISHED)
@pytest.mark.parametrize("family", ["generic", "zeros", "absorbing", "varying", "point-mass"])
def test_published_methods_need_what_they_assumed(method, family):
    with pytest.raises(MethodRefused):
        calibrate(example(family, 3, 5), (1,), 50.0, "any", method=method)


@pytest.mark.parametrize("method", PUBLISHED)
def test_a_stationary_chain_with_a_zero_is_refused(method):
    chain = ut.MarkovChain([[0.5, 0.5, 0], [0.2, 0.3, 0.5], [0.4, 0.3, 0.3]], length=9)
    with pytest.raises(MethodRefused, match="0"):
        ut.calibrate(ut.Count(1), chain, 50.0, method=method)


@pytest.mark.parametrize("family", ["absorbing", "periodic", "cycle", "frozen", "varying"])
def test_quilt_approx_needs_a_chain_that_mixes(family):
    with pytest.raises(MethodRefused):
        calibrate(example(family, 2, 5), (1,), 1.0, "ignorant", method="quilt-approx")


@each(
    ("epsilon", ("family", "who")),
    [0.1, 1.0, 12.0, 40.0],
    [("sticky", "any"), ("negative", "ignorant"), ("absorbing", "any")],
)
def test_best_is_certified_and_the_least(epsilon, family, who):
    chain = example(family, 2, 6, seed=11)
    best = calibrate(chain, (1,), epsilon, who, method="best")
    assert METHODS[best.method].certified
    for method in ON_CHAINS:
        try:
            other = calibrate(chain, (1,), epsilon, who, method=method)
        except MethodRefused:
            continue
        if METHODS[method].certified and other.missing == "any":
            # the noise of the widest proof, within a part in 10^9 of the least
            assert best.mechanism.scale <= other.mechanism.scale * (1 + SAME)


def test_nothing_to_protect_is_said_so():
    certain = ut.MarkovChain([[0, 1], [1, 0]], start=[1, 0], length=5)
    for method in ("wasserstein", "best"):
        with pytest.raises(NothingToProtect):
            ut.calibrate(ut.Count(1), certain, 1.0, "ignorant", method=method)
