"""Laws that the leakage of flipped and redacted series must obey, on random small chains.

`tests.oracles.series` is the oracle; it shares no code with the package.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.local_verdicts import attained, slack
from tests.grids import law
from tests.oracles import series as oracle

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=25)
NAMED: tuple[Any, ...] = ("any", "ignorant", "informed")

parts = st.one_of(st.integers(1, 20).map(float), st.sampled_from([1e-9, 1e-4, 0.3, 100.0]))


@st.composite
def rows(draw, columns, *, zeros):
    found = draw(st.lists(parts, min_size=columns, max_size=columns))
    if zeros:
        kept = draw(st.lists(st.booleans(), min_size=columns, max_size=columns).filter(any))
        found = [part * keep for part, keep in zip(found, kept, strict=True)]
    return [part / sum(found) for part in found]


@st.composite
def channels(draw, size, *, zeros=True):
    columns = draw(st.integers(1, 4))
    return np.array([draw(rows(columns, zeros=zeros)) for _ in range(size)])


@st.composite
def small_chains(draw, *, zeros=True, most=3, stationary=False):
    """Chains of every kind: with zeros, nearly certain, negatively correlated, varying."""
    size = draw(st.integers(2, most))
    n = draw(st.integers(2, 5 if size == 2 else 4))
    kind = "stationary" if stationary else draw(st.sampled_from(["stationary", "given", "varying"]))
    if kind == "stationary":
        matrix = [draw(rows(size, zeros=False)) for _ in range(size)]
        return ut.MarkovChain(matrix, length=n)
    start = draw(rows(size, zeros=zeros))
    if kind == "given":
        matrix = [draw(rows(size, zeros=zeros)) for _ in range(size)]
        return ut.MarkovChain(matrix, start=start, length=n)
    stack = [[draw(rows(size, zeros=zeros)) for _ in range(size)] for _ in range(n - 1)]
    return ut.MarkovChain(stack, start=start)


named = st.sampled_from(NAMED)


def alike(one, two, tolerance=1e-9):
    """Two leakages that must be the same number."""
    if math.isinf(one.upper) or math.isinf(two.upper):
        assert one.lower == two.lower == math.inf or one.upper == two.upper
        return
    assert one.lower <= two.upper + slack(two.upper)
    assert two.lower <= one.upper + slack(one.upper)
    width = max(one.upper - one.lower, two.upper - two.lower)
    assert abs(one.upper - two.upper) <= tolerance * max(1.0, one.upper) + width


@law(LAWS, 3, data=st.data(), chain=small_chains(), against=named)
def test_what_is_randomised_again_leaks_no_more(data, chain, against):
    first = data.draw(channels(chain.size))
    second = data.draw(channels(first.shape[1]))
    both = first @ second
    before = ut.leakage(ut.RandomizedResponse(first), chain, against)
    after = ut.leakage(ut.RandomizedResponse(both / both.sum(axis=1)[:, None]), chain, against)
    assert after.lower <= before.upper + 1e-11 * max(1.0, before.upper)
    if chain.size == 2 and math.isfinite(before.upper):
        assert after.upper <= before.upper + 1e-8 * max(1.0, before.upper)


@law(LAWS, 3, data=st.data(), chain=small_chains(), against=named)
def test_merged_outputs_leak_no_more(data, chain, against):
    first = data.draw(channels(chain.size).filter(lambda matrix: matrix.shape[1] > 1))
    merged = np.column_stack([first[:, 0] + first[:, 1], first[:, 2:]])
    before = ut.leakage(ut.RandomizedResponse(first), chain, against)
    after = ut.leakage(ut.RandomizedResponse(merged), chain, against)
    assert after.lower <= before.upper + 1e-11 * max(1.0, before.upper)


@law(LAWS, 3, data=st.data(), chain=small_chains())
def test_any_is_the_worst(data, chain):
    flips = ut.RandomizedResponse(data.draw(channels(chain.size)))
    worst = ut.leakage(flips, chain)
    for against in ("ignorant", "informed"):
        assert ut.leakage(flips, chain, against).lower <= worst.upper
    target = data.draw(st.integers(0, chain.length - 1))
    others = [record for record in range(chain.length) if record != target]
    known = data.draw(st.lists(st.sampled_from(others), unique=True))
    assert ut.leakage(flips, chain, ut.Adversary(target, known)).lower <= worst.upper


@law(LAWS, 3, data=st.data(), chain=small_chains(zeros=False))
def test_to_know_everything_leaves_the_channel_alone(data, chain):
    flips = ut.RandomizedResponse(data.draw(channels(chain.size)))
    leak = ut.leakage(flips, chain, "informed")
    if math.isinf(flips.dp_epsilon()):
        assert leak.lower == leak.upper == math.inf
    else:
        assert leak.upper == pytest.approx(flips.dp_epsilon(), rel=1e-9, abs=1e-12)


@law(LAWS, 3, data=st.data(), chain=small_chains(), against=named)
def test_names_and_order_change_nothing(data, chain, against):
    order = data.draw(st.permutations(range(chain.size)))
    matrix = data.draw(channels(chain.size))
    columns = data.draw(st.permutations(range(matrix.shape[1])))
    start = chain.start if isinstance(chain.start, str) else chain.start[order]
    turned = ut.MarkovChain(
        chain.transition[..., order, :][..., order], [f"s{i}" for i in order],
        start=start, length=chain.length,
    )  # fmt: skip
    names = [f"z{i}" for i in columns]
    other = ut.RandomizedResponse(matrix[order][:, columns], names)
    one = ut.leakage(ut.RandomizedResponse(matrix), chain, against)
    two = ut.leakage(other, turned, against)
    alike(one, two)
    attained(two, other, turned, against)


@law(LAWS, 3, data=st.data(), chain=small_chains(zeros=False), against=named)
def test_a_series_read_backwards_leaks_the_same(data, chain, against):
    flips = ut.RandomizedResponse(data.draw(channels(chain.size)))
    alike(ut.leakage(flips, chain, against), ut.leakage(flips, chain.reverse(), against), 1e-7)
    table = np.array([[data.draw(st.floats(0.01, 1)) for _ in range(chain.size)]
                      for _ in range(chain.length)])  # fmt: skip
    table[0] = 1.0
    there, back = ut.Redaction(table, protect=0), ut.Redaction(table[::-1])
    assume(back.protect == (chain.length - 1,))
    alike(ut.leakage(there, chain, against), ut.leakage(back, chain.reverse(), against), 1e-7)


@law(LAWS, 3, data=st.data(), chain=small_chains(most=2), against=named)
def test_a_set_of_models_is_as_bad_as_its_worst(data, chain, against):
    matrix = [data.draw(rows(2, zeros=False)) for _ in range(2)]
    other = ut.MarkovChain(matrix, length=chain.length)
    flips = ut.RandomizedResponse(data.draw(channels(2)))
    both = ut.leakage(flips, ut.ModelSet([chain, other]), against)
    each = [ut.leakage(flips, model, against) for model in (chain, other)]
    assert both.upper == max(leak.upper for leak in each)
    assert both.lower == max(leak.lower for leak in each)


@law(
    LAWS,
    3,
    data=st.data(),
    chain=small_chains(stationary=True),
    against=st.sampled_from(["any", "ignorant"]),
)
def test_series_of_any_length_leak_no_less(data, chain, against):
    flips = ut.RandomizedResponse(data.draw(channels(chain.size)))
    leak = ut.leakage(flips, ut.MarkovChain(chain.transition), against)
    truth = oracle.truth(flips, chain, against)
    assert truth <= leak.upper + slack(truth)
    if leak.witness is not None and math.isfinite(leak.lower):
        reached = oracle.replay(leak.witness, flips, chain if chain.length is None else
                               ut.MarkovChain(chain.transition))  # fmt: skip
        assert reached >= leak.lower - slack(leak.lower)


# --- erasures -------------------------------------------------------------------------------------


def window(n, target, left, right):
    table = np.zeros((n, 2))
    table[target - left : target + right + 1] = 1.0
    return ut.Redaction(table, protect=target)


@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 0.3), (0.25, 0.5), (0.7, 0.8), (0.5, 0.2)])
def test_a_window_leaks_the_influence_of_what_is_next_to_it(alpha, beta):
    """Corollaries 2 and 3 of [massny2025]: max-influences add if the window's sides are even."""
    chain, n, target = ut.MarkovChain([[1 - alpha, alpha], [beta, 1 - beta]], length=11), 11, 5
    influence = [
        max(abs(math.log(power[0, v] / power[1, v])) for v in (0, 1))
        for power in chain.powers(6)[1:]
    ]
    for left, right in itertools.product(range(5), repeat=2):
        leak = ut.leakage(window(n, target, left, right), chain, "ignorant")
        summed = influence[left] + influence[right]
        if (left + right) % 2 == 0 or alpha + beta < 1:
            assert leak.upper == pytest.approx(summed, rel=1e-10)
        else:
            assert leak.upper <= summed * (1 + 1e-10)
    for right in range(6):
        one_sided = influence[right] if right < 5 else 0.0
        leak = ut.leakage(window(n, target, 5, right), chain, "ignorant")
        assert leak.upper == pytest.approx(one_sided, rel=1e-10, abs=1e-12)


@law(LAWS, 3, data=st.data(), chain=small_chains(zeros=False, most=2))
def test_what_can_be_shown_bounds_the_leakage_below(data, chain):
    """Lemma 1 of [massny2025]: a value that may be shown leaks at least its influence."""
    n = chain.length
    probabilities = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.01, 1))
    table = np.array([[data.draw(probabilities) for _ in (0, 1)] for _ in range(n)])
    table[0] = 1.0
    leak = ut.leakage(ut.Redaction(table, protect=0), chain, "ignorant")
    joint = oracle.joint_of(chain, n)
    for record, v in itertools.product(range(1, n), (0, 1)):
        if table[record, v] < 1:
            pair = joint.sum(axis=tuple(r for r in range(1, n) if r != record))
            given_x = pair[:, v] / pair.sum(axis=1)
            assert abs(float(np.log(given_x[0] / given_x[1]))) <= leak.upper * (1 + 1e-12) + 1e-15
