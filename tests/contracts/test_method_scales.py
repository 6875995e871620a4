"""Scales of every method, against searches written from the papers, whole and for some secrets."""

from typing import Any

import pytest

import undertow as ut
from tests.contracts.chains import FAMILIES, example
from tests.contracts.method_plans import (
    ALONE,
    CERTIFIED,
    ON_CHAINS,
    PUBLISHED,
    SAME,
    calibrate,
    kept,
    scale,
    secret_of,
    table,
)
from tests.grids import each
from tests.oracles import chains as oracles
from undertow.errors import InvalidInput, NothingToProtect, UndertowError, UnknownState

# --- scales ---------------------------------------------------------------------------------------

EPSILONS = (0.2, 1.0, 3.5, 10.0)
SHAPES = [(2, 6, (1,)), (3, 4, (0, 2)), (3, 5, (1,)), (4, 3, (2,))]


@each(("family", ("k", "n", "counted")), FAMILIES, SHAPES)
def test_quilt_scales_are_those_of_brute_force(family, k, n, counted):
    """Against the ignorant exactly MQMExact; against any never less than conditioning allows."""
    chain = example(family, k, n, seed=5)
    for epsilon in EPSILONS:
        expected = oracles.quilt_by_enumeration(chain.joint, epsilon)
        found = calibrate(chain, counted, epsilon, "ignorant", method="quilt").mechanism.scale
        assert found == pytest.approx(expected, rel=SAME)
        floor = oracles.quilt_by_enumeration(chain.joint, epsilon, conditional=True)
        found = calibrate(chain, counted, epsilon, "any", method="quilt").mechanism.scale
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
            found = calibrate(chain, (0,), epsilon, "ignorant", method="quilt").mechanism.scale
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
        found = calibrate(chain, (1,), epsilon, "ignorant", method="quilt-approx").mechanism.scale
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
                calibrate(chain, counted, 2.0, "ignorant", method="wasserstein")
            continue
        found = (
            calibrate(chain, counted, 2.0, "ignorant", method="wasserstein").mechanism.scale * 2.0
        )
        allowed = (w, w + 1) if tie else (w,)
        assert any(found == pytest.approx(one, rel=SAME) for one in allowed)


@pytest.mark.parametrize(
    ("k", "n", "family"),
    [(3, 12, "varying"), (2, 24, "negative")],
)
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
        plan = ut.calibrate(query, chain.model(), 1.5, "ignorant", method="wasserstein")
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
            ut.Count(("a", "c")),
            chain.model(NAMES),
            epsilon,
            who,
            method=method,
            secret=secret_of(p, r),
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
    for who in ("ignorant",) if method in ALONE else ("any", "ignorant"):
        chain, less, whole = some(method, who, pairs, protect, epsilon)
        assert less.mechanism.scale <= whole.mechanism.scale * (1 + SAME)
        noisy = table(chain, (0, 2), less.mechanism.scale)
        kept(less, chain, noisy, who, pairs=pairs, protect=protect)


@each(
    ("pairs", "protect"),
    [pytest.param(one, id=str(one)) for one in ([(0, 1)], [(0, 2)], [(1, 2)], [(1, 0), (2, 1)])],
    [pytest.param(one, id=str(one)) for one in ([3, 1], None, [0], [2], [1])],
)
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
    found = scale(model, 1.0, "ignorant", "quilt-approx", secret=ut.Records([record]))
    assert found == pytest.approx(expected, rel=SAME)


@pytest.mark.parametrize("method", ["best", *CERTIFIED])
def test_bad_secrets_are_refused(method):
    chain = ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]], ("a", "b"), length=5)

    def asked(pairs=None, records=None):
        secret = secret_of(pairs, records)
        return ut.calibrate(ut.Count("a"), chain, 1.0, "ignorant", secret, method=method)

    with pytest.raises(InvalidInput):
        asked(pairs=[("a", "a")])
    with pytest.raises(UnknownState):
        asked(pairs=[("a", "z")])
    wrong: list[Any] = [[("a",)], [("a", "b", "a")], "ab", 5, ["ab", 3]]
    for pairs in wrong:
        with pytest.raises(InvalidInput):
            asked(pairs=pairs)
    outside: list[Any] = [[5], [-1], [0, 5], [1.5], ["a"], 3]
    for records in outside:
        with pytest.raises(InvalidInput):
            asked(records=records)
    nothing: list[Any] = [{"pairs": []}, {"records": []}]
    for secrets in nothing:
        with pytest.raises(UndertowError):
            asked(**secrets)
