"""Noisy counts of windows, against an oracle that enumerates all there is to enumerate.

The oracle lists every series of n records, every window, every target inside and outside it, every
set of known records with every value, and every answer. It shares nothing with the package but
the law of the first record, and it only ever sees a few of the windows of an endless series: what
it finds is never above the certified upper end, and comes close to it where the chain mixes fast.
"""

import json
import math
from itertools import chain as chained
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.bounds.counts.laplace import count_leakage
from undertow.bounds.counts.pieces import window_leakage
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.replay import replay_window
from undertow.certificate import Witness
from undertow.numerics import GAP
from undertow.planning.calibrate import calibrate

CYCLING = [[0.07, 0.91, 0.02], [0.11, 0.02, 0.87], [0.39, 0.02, 0.59]]
LEAVING = [[0.235, 0.02, 0.745], [0.105, 0.02, 0.875], [0.505, 0.425, 0.07]]
ROUNDING = 1e-13
"""What the oracle's own sums of floats may be off by."""
ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]


# --- the oracle -----------------------------------------------------------------------------------


def oracle(chain, counted, scale, n, against="any", windows=None):
    """The largest loss over the windows of the first n records, and the window that has it."""
    k = chain.size
    series = np.array(list(product(range(k), repeat=n)))
    joint = chain.initial[series[:, 0]]
    for record in range(1, n):
        joint = joint * chain.transition[series[:, record - 1], series[:, record]]
    series, joint = series[joint > 0], joint[joint > 0]
    answers = np.arange(-3, n + 4)
    marks = np.array([[counted[state] for state in row] for row in series], dtype=int)
    worst, where = 0.0, None
    every = [(a, b) for a in range(n) for b in range(a + 1, n + 1)]
    for target in range(n):
        others = [record for record in range(n) if record != target]
        sizes = range(n) if against == "any" else [0]
        for known in chained.from_iterable(combinations(others, size) for size in sizes):
            key = np.zeros(len(series), dtype=int)
            for record in known:
                key = key * k + series[:, record]
            _, key = np.unique(key, return_inverse=True)
            rows = key * k + series[:, target]
            count = (key.max() + 1) * k
            prior = np.bincount(rows, joint, count).reshape(-1, k)
            for window in windows or every:
                total = marks[:, window[0] : window[1]].sum(axis=1)
                sums = np.zeros((count, n + 1))
                np.add.at(sums, (rows, total), joint)
                noise = np.exp(-np.abs(np.arange(n + 1)[:, None] - answers) / scale)
                likely = (sums @ noise).reshape(-1, k, len(answers))
                for x, y in permutations(range(k), 2):
                    both = (prior[:, x] > 0) & (prior[:, y] > 0)
                    if not both.any():
                        continue
                    ratio = likely[both, x] / likely[both, y]
                    ratio = ratio * (prior[both, y] / prior[both, x])[:, None]
                    loss = math.log(ratio.max())
                    if loss > worst:
                        worst, where = loss, (window, target, known)
    return worst, where


def marked(size, *states):
    return np.array([state in states for state in range(size)])


def random_chain(rng, k):
    """A chain of any kind: positive, with zeros, negatively correlated, periodic, given starts."""
    kind = rng.choice(["dense", "zeros", "alternating", "periodic", "sticky"])
    matrix = rng.dirichlet(np.full(k, 1.5), k)
    if kind == "zeros":
        keep = rng.random((k, k)) < 0.6
        keep[np.arange(k), rng.integers(0, k, k)] = True
        matrix = np.where(keep, matrix + 1e-3, 0)
    if kind == "alternating":
        matrix = 0.3 * matrix + 0.7 * np.roll(np.eye(k), 1, axis=1)
    if kind == "sticky":
        matrix = 0.5 * matrix + 0.5 * np.eye(k)
    if kind == "periodic":
        matrix = np.roll(np.eye(k), 1, axis=1)
    matrix = matrix / matrix.sum(axis=1, keepdims=True)
    start = rng.dirichlet(np.ones(k)) if rng.random() < 0.4 else np.eye(k)[rng.integers(k)]
    length = None if rng.random() < 0.5 else int(rng.integers(2, 8))
    if kind != "zeros" and rng.random() < 0.5:
        return ut.MarkovChain(matrix, length=length)
    return ut.MarkovChain(matrix, start=start, length=length)


# --- upper ends hold, lower ends are attained -----------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_no_window_leaks_more_than_the_upper_end(seed, against):
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    chain = random_chain(rng, k)
    counted = marked(k, *rng.choice(k, size=rng.integers(1, k), replace=False))
    scale = float(np.exp(rng.uniform(-1.5, 2.5)))
    leak = window_leakage(scale, counted, chain, against)
    for n in (2, 3, 5 if k == 2 else 4):
        assert oracle(chain, counted, scale, n, against)[0] <= leak.upper + ROUNDING
    assert 0 <= leak.lower <= leak.upper
    assert (leak.method, leak.valid_for, leak.against) == ("exact", "windows", against)


@pytest.mark.parametrize("seed", range(1))
def test_the_lower_end_is_what_its_witness_shows(seed):
    rng = np.random.default_rng(100 + seed)
    chain = ut.MarkovChain(rng.dirichlet(np.full(3, 4.0), 3))
    counted, scale = marked(3, 0), float(rng.uniform(0.4, 3))
    for against in ("any", "ignorant"):
        leak = window_leakage(scale, counted, chain, against)
        assert leak.closed
        found = [oracle(chain, counted, scale, n, against)[0] for n in (2, 4, 6)]
        assert found == sorted(found)
        assert 0.97 * leak.lower <= found[-1] <= leak.upper + ROUNDING  # a fast chain
        seen = leak.witness
        if seen.length <= 7:
            shown = oracle(chain, counted, scale, seen.length, against, [seen.window])[0]
            assert shown == pytest.approx(leak.lower, rel=1e-9)


@pytest.mark.parametrize(
    ("matrix", "promise", "window", "true"),
    [pytest.param(LEAVING, 3.0, (2, 5), 3.1324, id="leaving")],
)
def test_windows_that_leak_more_than_the_whole_series(matrix, promise, window, true):
    chain = ut.MarkovChain(matrix)
    scale = calibrate(ut.Count(0), chain, limit=promise, method="exact").mechanism.scale
    counted = marked(3, 0)
    assert oracle(chain, counted, scale, 6, windows=[window])[0] == pytest.approx(true, abs=5e-5)
    best = oracle(chain, counted, scale, 6, windows=[window, (1, 5), (0, 6)])[0]
    leak = window_leakage(scale, counted, chain)
    assert true - 5e-5 <= best <= leak.upper <= 1.03 * best
    assert leak.closed


# --- laws -----------------------------------------------------------------------------------------


@st.composite
def mixing_chains(draw):
    k = draw(st.integers(2, 3))
    parts = st.lists(st.integers(5, 30), min_size=k, max_size=k)
    rows = [draw(parts) for _ in range(k)]
    start = draw(st.none() | parts)
    matrix = [[entry / sum(row) for entry in row] for row in rows]
    given_ = "stationary" if start is None else [entry / sum(start) for entry in start]
    return ut.MarkovChain(matrix, start=given_, length=draw(st.none() | st.integers(2, 9)))


scales = st.floats(0.2, 8.0)
ANYONE = st.sampled_from(["any", "ignorant"])
SOME = settings(max_examples=25, deadline=None)


@law(SOME, 4, chain=mixing_chains(), scale=scales, against=ANYONE)
def test_a_window_may_be_the_whole_series_and_is_a_dp_algorithm(chain, scale, against):
    counted = marked(chain.size, 0)
    leak = window_leakage(scale, counted, chain, against)
    some = ut.MarkovChain(chain.transition, chain.states, chain.start, length=4)
    whole = count_leakage(scale, counted, some, against)
    endless = ut.MarkovChain(chain.transition, chain.states, chain.start)
    ceiling = exchange_leakage(1 / scale, endless, against)
    assert whole.lower <= leak.upper
    assert leak.upper <= ceiling.upper + GAP * max(1.0, ceiling.upper)
    assert leak.closed


@pytest.mark.parametrize("scale", [0.3, 2.0, 20.0])
def test_positive_correlation_leaks_the_exchange_rate(scale):
    chain = ut.MarkovChain(ACTIVITY)
    leak = window_leakage(scale, marked(2, 1), chain)
    assert leak.closed
    assert leak.upper == pytest.approx(exchange_leakage(1 / scale, chain).upper, rel=1e-9)


# --- edges ----------------------------------------------------------------------------------------


def test_what_has_no_answer_here():
    stack = ut.MarkovChain([[[0.5, 0.5], [0.2, 0.8]]] * 3, start=[0.5, 0.5])
    assert window_leakage(1.0, marked(2, 0), stack) is None
    chain = ut.MarkovChain(ACTIVITY)
    assert window_leakage(1.0, marked(2, 0), chain, ut.Adversary(3)) is None


def test_chains_that_never_forget_are_bounded_by_the_exchange_rate():
    swap = ut.MarkovChain([[0.0, 1.0], [1.0, 0.0]])
    leak = window_leakage(2.0, marked(2, 0), swap)
    assert leak.lower == pytest.approx(0.5)
    assert leak.upper == exchange_leakage(0.5, swap).upper


@pytest.mark.parametrize("rare", [1e-40, 1e-99])
def test_rare_steps(rare):
    chain = ut.MarkovChain([[0.5, 0.5 - rare, rare], [0.3, 0.3, 0.4], [rare, 0.4, 0.6 - rare]])
    counted = marked(3, 0)
    leak = window_leakage(1.0, counted, chain)
    assert leak.lower <= leak.upper < math.inf
    assert oracle(chain, counted, 1.0, 4)[0] <= leak.upper + ROUNDING


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e9, 1e12])
@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_extreme_noise(scale, against):
    chain = ut.MarkovChain(CYCLING, start=[0.2, 0.3, 0.5])
    leak = window_leakage(scale, marked(3, 0), chain, against)
    assert 1 / scale <= leak.upper
    assert leak.lower <= leak.upper
    ceiling = exchange_leakage(1 / scale, chain, against).upper
    assert leak.upper <= ceiling + GAP * max(1.0, ceiling)


# --- what is written down -------------------------------------------------------------------------


def test_the_witness_names_its_window():
    chain = ut.MarkovChain(CYCLING, states=("a", "b", "c"))
    leak = window_leakage(0.5, marked(3, 0), chain)
    assert leak.witness.window is not None
    first, end = leak.witness.window
    assert leak.witness.words().endswith(f", count of records {first} to {end - 1}")
    assert all(not first <= record < end for record, _ in leak.witness.known)
    written = json.loads(json.dumps(leak.witness.to_dict()))
    assert Witness.from_dict(written) == leak.witness
    assert replay_window(leak.witness, chain, ["a"], 0.5) == (leak.witness, leak.lower)


def test_what_cannot_happen_shows_nothing():
    chain = ut.MarkovChain([[0.5, 0.5], [1.0, 0.0]])
    attack = Witness(1, 3, ((0, 1),), value=0, other=1, window=(1, 3))
    assert replay_window(attack, chain, [0], 1.0)[1] <= 0
