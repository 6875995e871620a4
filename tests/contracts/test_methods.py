"""Every method of `calibrate` on small chains, judged through the public API by brute force.

A plan guarantees that nobody in `against` gains more than epsilon about a protected record, for the
secret pairs. The oracle enumerates all series, adversaries and answers, so a guarantee is either
kept or not; scales are compared with searches written from the papers in `chains`.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.chains import FAMILIES, Example, example
from tests.grids import each, law
from tests.oracles import chains as oracles
from undertow.bounds.published.chains import lange_constant, zhao_constant
from undertow.errors import (
    InvalidInput,
    MethodRefused,
    NothingToProtect,
    UndertowError,
    UnknownState,
)
from undertow.methods import METHODS as REGISTRY
from undertow.methods import methods_for

METHODS = REGISTRY["answer"]
ROUNDING = 1e-12  # of the enumeration: sums of positive floats
SAME = 1e-9  # relative, two computations of one scale
WHO: tuple[Any, ...] = ("any", "ignorant", "informed")
CERTIFIED = ("exact", "exchange", "quilt", "quilt-approx", "wasserstein", "group", "dependent")
PUBLISHED = ("lange", "zhao", "zhao-multistep")
GAUSSIAN = ("closed", "sweep")  # of Gaussian noise alone; tests/planning/test_approximate.py
ON_CHAINS = (*CERTIFIED, *PUBLISHED)
IGNORANT = ("quilt-approx", "wasserstein")
SMALL = [(2, 5, (1,), 1.0), (3, 4, (0, 2), 3.0)]  # states, records, counted, epsilon
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=15)


def slack(value):
    return ROUNDING * max(1.0, value)


def calibrate(chain: Example, counted, epsilon, who, method, **more):
    return ut.calibrate(ut.Count(counted), chain.model(), epsilon, who, method, **more)


def scale(model, epsilon, who, method, counted=(1,), **more):
    plan = ut.calibrate(ut.Count(counted), model, epsilon, who, method, **more)
    return plan.mechanism.scale


def table(chain: Example, counted, noise):
    return oracles.noisy_answer(chain.size, chain.length, noise, oracles.counted(counted))


def mixes(chain: Example):
    """One transition matrix, irreducible and aperiodic: what `quilt-approx` needs."""
    homogeneous = chain.transition.ndim == 2
    return homogeneous and bool((np.linalg.matrix_power(chain.transition, 64) > 0).all())


def kept(plan, chain: Example, likelihood, who, **some):
    """The guarantee, and the certificate that comes with it."""
    truth = oracles.leakage(chain.joint, likelihood, who, **some)
    assert truth <= plan.limit + slack(plan.limit)
    assert truth <= plan.leakage.upper + slack(truth)
    if not any("worst algorithm" in words for words in plan.leakage.assumptions):
        told = {} if plan.leakage.secrets.everything else some
        whole = oracles.leakage(chain.joint, likelihood, who, **told)
        assert plan.leakage.lower <= whole + slack(whole)
    return truth


# --- the list -------------------------------------------------------------------------------------


def test_the_list_of_methods():
    laplace = tuple(name for name, method in METHODS.items() if method.laplace)
    assert laplace == (*CERTIFIED, *PUBLISHED, "gaussian-bound")
    assert {*METHODS} - {*laplace} == {*GAUSSIAN}
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=3)
    assert tuple(methods_for(chain)) == ON_CHAINS
    assert methods_for(ut.MultivariateGaussian(0, np.eye(2))) == [
        "exact", "exchange", "group", "dependent", "gaussian-bound",
    ]  # fmt: skip
    assert methods_for(ut.ModelSet([chain, ut.Groups(2)])) == ["exchange", "group", "dependent"]
    for name, method in METHODS.items():
        assert method.name == name
        assert method.certified == (name in (*CERTIFIED, *GAUSSIAN))
        assert method.summary
        assert "\n" not in method.summary
    for name in IGNORANT:
        assert tuple(METHODS[name].protects) == ("ignorant",)
    assert set(METHODS["quilt"].protects) == {"any", "ignorant"}
    for name in ("exact", "exchange", "group", *PUBLISHED):
        assert "any" in METHODS[name].protects


# --- guarantees -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", CERTIFIED)
@pytest.mark.parametrize("family", FAMILIES)
def test_plans_keep_their_guarantee(family, method):
    for k, n, counted, epsilon in SMALL:
        chain = example(family, k, n)
        for who in ("ignorant",) if method in IGNORANT else WHO:
            try:
                plan = calibrate(chain, counted, epsilon, who, method)
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


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("family", ["stationary", "sticky", "negative", "wavering"])
def test_published_plans_carry_what_they_really_leak(family, who):
    """The claim is epsilon; enumeration finds no chain here on which it is broken."""
    for (k, n, counted, _), seed in [(size, seed) for size in SMALL for seed in (0, 1)]:
        chain = example(family, k, n, seed)
        model = chain.model()
        steps = range(1, n // 2 + 1)
        for method, least in (
            ("lange", lange_constant(model)),
            ("zhao", zhao_constant(model)),
            ("zhao-multistep", min(zhao_constant(model, steps=t) for t in steps)),
        ):
            plan = calibrate(chain, counted, least + 0.4, who, method)
            assert plan.dp_epsilon == pytest.approx(
                0.4 if method != "zhao-multistep" else plan.dp_epsilon, rel=SAME
            )
            assert plan.dp_epsilon > 0
            kept(plan, chain, table(chain, counted, plan.mechanism.scale), who)
            quilt = calibrate(chain, counted, least + 0.4, who, "quilt").mechanism.scale
            assert quilt <= plan.mechanism.scale * (1 + SAME)


@pytest.mark.parametrize("method", [m for m in ON_CHAINS if m not in ("exact", *IGNORANT)])
def test_histograms_keep_their_guarantee(method):
    chain = example("sticky", 3, 4, seed=2)
    epsilon = 60.0 if method in PUBLISHED else 1.0
    for who in WHO:
        plan = ut.calibrate(ut.Histogram(), chain.model(), epsilon, who, method)
        noisy = oracles.noisy_answer(3, 4, plan.mechanism.scale, oracles.binned(3))
        kept(plan, chain, noisy, who)
        one = calibrate(chain, (1,), epsilon, who, method).mechanism.scale
        if method != "dependent":  # whose coefficients are those of the bins
            assert plan.mechanism.scale == pytest.approx(2 * one, rel=SAME)


@pytest.mark.parametrize("method", [m for m in ON_CHAINS if m not in IGNORANT])
def test_one_attacker_is_covered_by_any(method):
    chain = example("stationary", 2, 5, seed=3)
    epsilon = 60.0 if method in PUBLISHED else 1.0
    who = ut.Adversary(2, known=[0])
    plan = calibrate(chain, (1,), epsilon, who, method)
    noisy = table(chain, (1,), plan.mechanism.scale)
    assert oracles.leakage(chain.joint, noisy, "ignorant", protect=[2]) <= epsilon + slack(epsilon)
    worst = calibrate(chain, (1,), epsilon, "any", method).mechanism.scale
    assert plan.mechanism.scale <= worst * (1 + SAME)


@pytest.mark.parametrize("method", ["quilt", "quilt-approx", "wasserstein", "group"])
def test_a_set_of_chains_needs_what_its_worst_member_needs(method):
    chains = [example(family, 2, 5, seed=4) for family in ("sticky", "stationary", "wavering")]
    both = ut.ModelSet([chain.model() for chain in chains])
    plan = ut.calibrate(ut.Count(1), both, 1.0, "ignorant", method)
    for chain in chains:
        alone = calibrate(chain, (1,), 1.0, "ignorant", method).mechanism.scale
        assert plan.mechanism.scale >= alone * (1 - SAME)
        noisy = table(chain, (1,), plan.mechanism.scale)
        assert oracles.leakage(chain.joint, noisy, "ignorant") <= 1 + ROUNDING


# --- scales ---------------------------------------------------------------------------------------

EPSILONS = (0.2, 1.0, 3.5, 10.0)
SHAPES = [(2, 6, (1,)), (3, 4, (0, 2)), (3, 5, (1,)), (4, 3, (2,))]


@each(("family", ("k", "n", "counted")), FAMILIES, SHAPES)
def test_quilt_scales_are_those_of_brute_force(family, k, n, counted):
    """Against the ignorant exactly MQMExact; against any never less than conditioning allows."""
    chain = example(family, k, n, seed=5)
    for epsilon in EPSILONS:
        expected = oracles.quilt_by_enumeration(chain.joint, epsilon)
        found = calibrate(chain, counted, epsilon, "ignorant", "quilt").mechanism.scale
        assert found == pytest.approx(expected, rel=SAME)
        floor = oracles.quilt_by_enumeration(chain.joint, epsilon, conditional=True)
        found = calibrate(chain, counted, epsilon, "any", "quilt").mechanism.scale
        assert floor * (1 - SAME) <= found <= n / epsilon * (1 + SAME)


@pytest.mark.parametrize("family", ["zeros", "varying-zeros", "point-mass"])
def test_impossible_values_have_no_influence(family):
    """Definition 4.2 compares probabilities; a value that never occurs has none to compare."""
    certain = ut.MarkovChain([[0.7, 0.3], [0.4, 0.6]], start=[1, 0], length=2)
    assert scale(certain, 1.0, "ignorant", "quilt") == pytest.approx(1.0, rel=SAME)
    for seed in range(8):
        chain = example(family, 2 + seed % 2, 5, seed)
        for epsilon in EPSILONS:
            expected = oracles.quilt_by_enumeration(chain.joint, epsilon)
            found = calibrate(chain, (0,), epsilon, "ignorant", "quilt").mechanism.scale
            assert found == pytest.approx(expected, rel=SAME)


@each(
    ("family", ("k", "n")),
    ["generic", "stationary", "wavering", "sticky", "point-mass"], [(2, 40), (3, 40)],
)  # fmt: skip
def test_quilt_approx_is_the_plain_search(family, k, n):
    """Any start; a chain that is not reversible is given the gap of P P*."""
    chain = example(family, k, n, seed=6)
    numbers = oracles.mixing_numbers(chain.transition)
    for epsilon in (0.5, 2.0, 8.0):
        expected = oracles.quilt_approx(*numbers, n, epsilon)
        found = calibrate(chain, (1,), epsilon, "ignorant", "quilt-approx").mechanism.scale
        assert found == pytest.approx(expected, rel=SAME)


def test_a_class_of_chains_covers_its_members():
    chain = example("sticky", 2, 30, seed=7)
    pi, gap = oracles.mixing_numbers(chain.transition)
    for epsilon in EPSILONS:
        every = ut.MarkovChain.mixing(states=2, pi_min=pi, gap=gap, length=30)
        found = scale(every, epsilon, "ignorant", "quilt-approx")
        one = scale(chain.model(), epsilon, "ignorant", "quilt-approx")
        assert found == pytest.approx(one, rel=1e-6)
        wider = ut.MarkovChain.mixing(states=2, pi_min=pi / 2, gap=gap / 2, length=30)
        assert scale(wider, epsilon, "ignorant", "quilt-approx") >= found * (1 - SAME)


@each(("family", ("k", "n", "counted")), FAMILIES, SHAPES)
def test_wasserstein_distances_are_exact(family, k, n, counted):
    """One more only where two CDFs meet exactly: rounding cannot tell there, and errs upwards."""
    for seed in (0, 1):
        chain = example(family, k, n, seed)
        w, tie = oracles.wasserstein(chain.model(), oracles.counted(counted))
        if w == 0:
            with pytest.raises(NothingToProtect):
                calibrate(chain, counted, 2.0, "ignorant", "wasserstein")
            continue
        found = calibrate(chain, counted, 2.0, "ignorant", "wasserstein").mechanism.scale * 2.0
        allowed = (w, w + 1) if tie else (w,)
        assert any(found == pytest.approx(one, rel=SAME) for one in allowed)


@each(
    (("k", "n"), "family"),
    [(2, 24), (3, 16)], ["generic", "stationary", "negative", "varying", "zeros"],
)  # fmt: skip
def test_wasserstein_distances_of_longer_series(family, k, n):
    model = example(family, k, n, seed=8).model()
    expected = oracles.wasserstein_of_count(model, (1,))
    assert scale(model, 1.0, "ignorant", "wasserstein") == pytest.approx(expected, rel=SAME)


def test_wasserstein_of_other_answers():
    """Any answer on a line, by enumeration: here the largest record, and a sum of values."""
    chain = example("sticky", 3, 4, seed=9)
    for query, answer in (
        (ut.Query(max, sensitivity=2.0), lambda series: [max(series)]),
        (ut.Sum(0, 2), lambda series: [sum(series)]),
    ):
        w, tie = oracles.wasserstein(chain.model(), answer)
        assert not tie
        plan = ut.calibrate(query, chain.model(), 1.5, "ignorant", "wasserstein")
        assert plan.mechanism.scale * 1.5 == pytest.approx(w, rel=SAME)
        noisy = oracles.noisy_answer(3, 4, plan.mechanism.scale, answer)
        kept(plan, chain, noisy, "ignorant")


# --- secret pairs and protected records -----------------------------------------------------------

NAMES = ("a", "b", "c")


def some(method, who, pairs=None, protect=None, epsilon=1.5, seed=10):
    """A plan with and one without the restriction, and the chain."""
    chain = example("stationary", 3, 4, seed)
    named = None if pairs is None else [(NAMES[x], NAMES[y]) for x, y in pairs]
    plans = [
        ut.calibrate(
            ut.Count(("a", "c")), chain.model(NAMES), epsilon, who, method, pairs=p, protect=r
        )
        for p, r in ((named, protect), (None, None))
    ]
    return chain, *plans


@pytest.mark.parametrize(
    ("pairs", "protect"),
    [([(0, 1)], None), ([(1, 2), (0, 1)], None), (None, [0]), (None, [1, 3]), ([(2, 0)], [2])],
    ids=str,
)
@pytest.mark.parametrize("method", ON_CHAINS)
def test_fewer_secrets_need_no_more_noise(method, pairs, protect):
    epsilon = 60.0 if method in PUBLISHED else 1.5
    for who in ("ignorant",) if method in IGNORANT else ("any", "ignorant"):
        chain, less, whole = some(method, who, pairs, protect, epsilon)
        assert less.mechanism.scale <= whole.mechanism.scale * (1 + SAME)
        noisy = table(chain, (0, 2), less.mechanism.scale)
        kept(less, chain, noisy, who, pairs=pairs, protect=protect)


@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 2)], [(1, 2)], [(1, 0), (2, 1)]], ids=str)
@pytest.mark.parametrize("protect", [None, [0], [2], [3, 1]], ids=str)
def test_scales_for_some_secrets(pairs, protect):
    """Only the named pairs and records count, whichever way round a pair is written."""
    for epsilon in (0.5, 4.0):
        chain, plan, _ = some("quilt", "ignorant", pairs, protect, epsilon)
        facts: dict[str, Any] = {"pairs": pairs, "protect": protect}
        expected = oracles.quilt_by_enumeration(chain.joint, epsilon, **facts)
        assert plan.mechanism.scale == pytest.approx(expected, rel=SAME)
        _, plan, _ = some("quilt", "any", pairs, protect, epsilon)
        floor = oracles.quilt_by_enumeration(chain.joint, epsilon, conditional=True, **facts)
        assert plan.mechanism.scale >= floor * (1 - SAME)
        w, tie = oracles.wasserstein(chain.model(), oracles.counted((0, 2)), pairs, protect)
        assert not tie
        if w:
            _, plan, _ = some("wasserstein", "ignorant", pairs, protect, epsilon)
            assert plan.mechanism.scale * epsilon == pytest.approx(w, rel=SAME)


@pytest.mark.parametrize("record", [0, 4, 17, 39])
def test_one_protected_record_of_a_class(record):
    pi, gap = 0.3, 0.5
    model = ut.MarkovChain.mixing(states=2, pi_min=pi, gap=gap, length=40)
    expected = oracles.quilt_approx(pi, gap, 40, 1.0, [record])
    found = scale(model, 1.0, "ignorant", "quilt-approx", protect=[record])
    assert found == pytest.approx(expected, rel=SAME)


@pytest.mark.parametrize("method", ["best", *CERTIFIED])
def test_bad_secrets_are_refused(method):
    chain = ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]], ("a", "b"), length=5)

    def asked(**secrets):
        return ut.calibrate(ut.Count("a"), chain, 1.0, "ignorant", method, **secrets)

    with pytest.raises(InvalidInput):
        asked(pairs=[("a", "a")])
    with pytest.raises(UnknownState):
        asked(pairs=[("a", "z")])
    wrong: list[Any] = [[("a",)], [("a", "b", "a")], "ab", 5, ["ab", 3]]
    for pairs in wrong:
        with pytest.raises(InvalidInput):
            asked(pairs=pairs)
    outside: list[Any] = [[5], [-1], [0, 5], [1.5], ["a"], 3]
    for protect in outside:
        with pytest.raises(InvalidInput):
            asked(protect=protect)
    nothing: list[Any] = [{"pairs": []}, {"protect": []}]
    for secrets in nothing:
        with pytest.raises(UndertowError):
            asked(**secrets)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["any", "informed"])
@pytest.mark.parametrize("method", IGNORANT)
def test_methods_for_the_ignorant_say_so(method, who):
    with pytest.raises(MethodRefused, match="ignorant"):
        calibrate(example("stationary", 2, 5), (1,), 1.0, who, method)


@pytest.mark.parametrize("method", PUBLISHED)
@pytest.mark.parametrize("family", ["generic", "zeros", "absorbing", "varying", "point-mass"])
def test_published_methods_need_what_they_assumed(method, family):
    with pytest.raises(MethodRefused):
        calibrate(example(family, 3, 5), (1,), 50.0, "any", method)


@pytest.mark.parametrize("method", PUBLISHED)
def test_a_stationary_chain_with_a_zero_is_refused(method):
    chain = ut.MarkovChain([[0.5, 0.5, 0], [0.2, 0.3, 0.5], [0.4, 0.3, 0.3]], length=9)
    with pytest.raises(MethodRefused, match="0"):
        ut.calibrate(ut.Count(1), chain, 50.0, method=method)


@pytest.mark.parametrize("family", ["absorbing", "periodic", "cycle", "frozen", "varying"])
def test_quilt_approx_needs_a_chain_that_mixes(family):
    with pytest.raises(MethodRefused):
        calibrate(example(family, 2, 5), (1,), 1.0, "ignorant", "quilt-approx")


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 12.0, 40.0])
def test_best_is_certified_and_the_least(epsilon):
    for family, who in (("sticky", "any"), ("negative", "ignorant"), ("absorbing", "any")):
        chain = example(family, 2, 6, seed=11)
        best = calibrate(chain, (1,), epsilon, who, "best")
        assert METHODS[best.method].certified
        for method in ON_CHAINS:
            try:
                other = calibrate(chain, (1,), epsilon, who, method)
            except MethodRefused:
                continue
            if METHODS[method].certified:
                # the noise of the widest proof, within a part in 10^9 of the least
                assert best.mechanism.scale <= other.mechanism.scale * (1 + SAME)


def test_nothing_to_protect_is_said_so():
    certain = ut.MarkovChain([[0, 1], [1, 0]], start=[1, 0], length=5)
    for method in ("wasserstein", "best"):
        with pytest.raises(NothingToProtect):
            ut.calibrate(ut.Count(1), certain, 1.0, "ignorant", method)


# --- laws -----------------------------------------------------------------------------------------


@st.composite
def matrices(draw, most=3):
    """Positive transition matrices with entries in parts of at most 60."""
    size = draw(st.integers(2, most))
    rows = st.lists(st.integers(1, 20), min_size=size, max_size=size)
    return np.array([(row := np.array(draw(rows))) / row.sum() for _ in range(size)])


APPLICABLE = [("quilt", "ignorant"), ("quilt", "any"), *((m, "ignorant") for m in IGNORANT)]
epsilons = st.floats(0.1, 8.0)


@law(
    LAWS,
    6,
    matrix=matrices(),
    n=st.integers(2, 12),
    epsilon=epsilons,
    random=st.randoms(use_true_random=False),
)
def test_relabelling_changes_nothing(matrix, n, epsilon, random):
    order = list(range(len(matrix)))
    random.shuffle(order)
    turned = ut.MarkovChain(matrix[np.ix_(order, order)], states=order, length=n)
    chain = ut.MarkovChain(matrix, length=n)
    for method, who in [*APPLICABLE, *((method, "any") for method in PUBLISHED)]:
        level = epsilon + 50 if method in PUBLISHED else epsilon
        one, two = scale(chain, level, who, method), scale(turned, level, who, method)
        assert one == pytest.approx(two, rel=1e-8)


@law(LAWS, 6, matrix=matrices(), n=st.integers(2, 20), epsilon=epsilons)
def test_reading_backwards_changes_nothing(matrix, n, epsilon):
    chain = ut.MarkovChain(matrix, length=n)
    for method, who in APPLICABLE:
        one, two = (scale(model, epsilon, who, method) for model in (chain, chain.reverse()))
        assert one == pytest.approx(two, rel=1e-8)


@law(LAWS, 6, matrix=matrices(), n=st.integers(2, 20), epsilon=epsilons, factor=st.floats(1.0, 3.0))
def test_more_epsilon_is_never_more_noise(matrix, n, epsilon, factor):
    chain = ut.MarkovChain(matrix, length=n)
    for method, who in APPLICABLE:
        more = scale(chain, epsilon * factor, who, method)
        assert more <= scale(chain, epsilon, who, method) * (1 + SAME)


@law(LAWS, 6, matrix=matrices(), n=st.integers(2, 20), epsilon=epsilons)
def test_any_needs_no_less_than_ignorant_and_longer_no_less_than_shorter(matrix, n, epsilon):
    scales = {
        (who, length): scale(ut.MarkovChain(matrix, length=length), epsilon, who, "quilt")
        for who in ("any", "ignorant")
        for length in (n, n + 1, n + 9)
    }
    for length in (n, n + 1, n + 9):
        assert scales["any", length] >= scales["ignorant", length] * (1 - SAME)
    for who in ("any", "ignorant"):
        assert scales[who, n] <= scales[who, n + 1] * (1 + SAME)
        assert scales[who, n + 1] <= scales[who, n + 9] * (1 + SAME)


@law(LAWS, 6, matrix=matrices(), n=st.integers(2, 200), epsilon=epsilons)
def test_independent_records_need_plain_noise(matrix, n, epsilon):
    chain = ut.MarkovChain(np.tile(matrix[0], (len(matrix), 1)), length=n)
    for method, who in (
        ("quilt", "ignorant"),
        ("quilt", "any"),
        ("wasserstein", "ignorant"),
        ("exact", "any"),
    ):
        assert scale(chain, epsilon, who, method) == pytest.approx(1 / epsilon, rel=1e-8)


@law(LAWS, 6, matrix=matrices(), n=st.integers(2, 5), epsilon=st.floats(0.2, 6.0))
def test_guarantees_on_random_chains(matrix, n, epsilon):
    chain = Example("random", matrix, "stationary", n)
    for method, who in APPLICABLE:
        plan = calibrate(chain, (1,), epsilon, who, method)
        assert math.isfinite(plan.leakage.upper)
        kept(plan, chain, table(chain, (1,), plan.mechanism.scale), who)
