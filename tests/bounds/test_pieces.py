"""Noisy counts of windows, against an oracle that enumerates all there is to enumerate.

The oracle lists every series of n records, every window, every target inside and outside it, every
set of known records with every value, and every answer. It shares nothing with the package but
the law of the first record, and it only ever sees a few of the windows of an endless series: what
it finds is never above the certified upper end, and comes close to it where the chain mixes fast.
"""

import math
from itertools import chain as chained
from itertools import combinations, permutations, product

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.chains.pieces import window_leakage
from undertow.planning.search import calibrate

CYCLING = [[0.07, 0.91, 0.02], [0.11, 0.02, 0.87], [0.39, 0.02, 0.59]]
LEAVING = [[0.235, 0.02, 0.745], [0.105, 0.02, 0.875], [0.505, 0.425, 0.07]]
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
    matrix = rng.dirichlet(np.full(k, 0.7), k)
    if kind == "zeros":
        keep = rng.random((k, k)) < 0.6
        keep[np.arange(k), rng.integers(0, k, k)] = True
        matrix = np.where(keep, matrix + 1e-3, 0)
    if kind == "alternating":
        matrix = 0.1 * matrix + 0.9 * np.roll(np.eye(k), 1, axis=1)
    if kind == "sticky":
        matrix = 0.3 * matrix + 0.7 * np.eye(k)
    if kind == "periodic":
        matrix = np.roll(np.eye(k), 1, axis=1)
    matrix = matrix / matrix.sum(axis=1, keepdims=True)
    start = rng.dirichlet(np.ones(k)) if rng.random() < 0.4 else np.eye(k)[rng.integers(k)]
    length = None if rng.random() < 0.5 else int(rng.integers(2, 8))
    if kind != "zeros" and rng.random() < 0.5:
        return ut.MarkovChain(matrix, length=length)
    return ut.MarkovChain(matrix, start=start, length=length)


# --- upper ends hold, lower ends are attained -----------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_no_window_leaks_more_than_the_upper_end(seed, against):
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    chain = random_chain(rng, k)
    counted = marked(k, *rng.choice(k, size=rng.integers(1, k), replace=False))
    scale = float(np.exp(rng.uniform(-1.5, 2.5)))
    leak = window_leakage(scale, counted, chain, against)
    for n in (2, 3, 5 if k == 2 else 4):
        assert oracle(chain, counted, scale, n, against)[0] <= leak.upper
    assert 0 <= leak.lower <= leak.upper
    assert (leak.method, leak.covers, leak.against) == ("exact", "windows", against)


@pytest.mark.parametrize("seed", range(8))
def test_the_lower_end_is_what_its_witness_shows(seed):
    rng = np.random.default_rng(100 + seed)
    chain = ut.MarkovChain(rng.dirichlet(np.full(3, 4.0), 3))
    counted, scale = marked(3, 0), float(rng.uniform(0.4, 3))
    for against in ("any", "ignorant"):
        leak = window_leakage(scale, counted, chain, against)
        seen = leak.witness
        shown, where = oracle(chain, counted, scale, 6, against)
        assert where is not None
        assert leak.closed
        if seen.length <= 7:
            shown = oracle(chain, counted, scale, seen.length, against, [seen.window])[0]
            assert shown == pytest.approx(leak.lower, rel=1e-9)
        assert shown == pytest.approx(leak.upper, rel=2e-3)  # a fast chain: six records say most


@pytest.mark.parametrize(
    ("matrix", "promise", "window", "true"),
    [(CYCLING, 5.0, (2, 4), 5.1812), (LEAVING, 3.0, (2, 5), 3.1324)],
    ids=["cycling", "leaving"],
)
def test_windows_that_leak_more_than_the_whole_series(matrix, promise, window, true):
    chain = ut.MarkovChain(matrix)
    scale = calibrate(ut.Count(0), chain, epsilon=promise, method="exact").mechanism.scale
    counted = marked(3, 0)
    assert oracle(chain, counted, scale, 6, windows=[window])[0] == pytest.approx(true, abs=5e-5)
    best = oracle(chain, counted, scale, 6)[0]
    leak = window_leakage(scale, counted, chain)
    assert true <= best <= leak.upper <= 1.03 * best
    assert leak.closed
