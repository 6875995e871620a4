"""Posteriors, guesses and scores of flipped, noisy and erased series are those of enumeration."""

import builtins
import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles import attackers as oracle
from undertow.auditing.inference import hidden, posteriors, viterbi
from undertow.auditing.scenarios import ChainSource
from undertow.auditing.scores import (
    count_score,
    laplace_blur,
    normal_blur,
    of_mean,
    series_score,
)
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.models.fitting import hidden as kernels

EXACT = 1e-12
PROPERTY = settings(deadline=None, derandomize=True, database=None, max_examples=40)
FLIPS = ut.RandomizedResponse.binary(0.1, 0.2)
PAIR = ut.MarkovChain(oracle.LAZY)


def close(found, wanted, within=EXACT):
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= within


@law(
    PROPERTY,
    12,
    seed=st.integers(0, 2**32),
    states=st.integers(2, 3),
    records=st.integers(2, 6),
    outputs=st.integers(1, 4),
    moving=st.booleans(),
    facts=st.integers(0, 2),
)
def test_flips_equal_enumeration(seed, states, records, outputs, moving, facts):
    rng = np.random.default_rng(seed)
    chain = oracle.random_chain(rng, states, records, moving=moving)
    channel = oracle.random_channel(rng, states, outputs)
    seen = rng.integers(0, outputs, records).tolist()
    known = {int(r): int(rng.integers(states)) for r in rng.permutation(records)[:facts]}
    close(posteriors(seen, channel, chain, known), oracle.posteriors(seen, channel, chain, known))


@law(PROPERTY, 12, seed=st.integers(0, 2**32), records=st.integers(2, 7), facts=st.integers(0, 2))
def test_noise_that_is_a_chain_equals_enumeration(seed, records, facts):
    rng = np.random.default_rng(seed)
    chain = oracle.random_chain(rng, 2, records, moving=bool(seed % 2))
    noise = ut.XorNoise(*rng.random(2))
    seen = rng.integers(0, 2, records).tolist()
    known = {int(r): int(rng.integers(2)) for r in rng.permutation(records)[:facts]}
    close(posteriors(seen, noise, chain, known), oracle.posteriors(seen, noise, chain, known))


@law(
    PROPERTY,
    12,
    seed=st.integers(0, 2**32),
    states=st.integers(2, 3),
    records=st.integers(2, 6),
    facts=st.integers(0, 1),
)
def test_erasures_equal_enumeration(seed, states, records, facts):
    rng = np.random.default_rng(seed)
    chain = oracle.random_chain(rng, states, records)
    channel = oracle.random_erasures(rng, states, records)
    truth = rng.integers(0, states, records)
    gone = rng.random(records) < 0.5
    gone[records // 2] = True
    seen = [None if erased else int(x) for x, erased in zip(truth, gone, strict=True)]
    known = {int(r): int(truth[r]) for r in rng.permutation(records)[:facts]}
    close(posteriors(seen, channel, chain, known), oracle.posteriors(seen, channel, chain, known))


def test_zeros_in_chain_and_channel():
    chain = ut.MarkovChain(oracle.ZEROS)
    channel = ut.RandomizedResponse([[0.5, 0.5, 0, 0], [0, 0.2, 0.8, 0], [0, 0, 0.3, 0.7]])
    for seen in ([1, 1, 2, 2, 3, 0], [0, 0, 1, 2, 2, 3], [2, 2, 2, 0, 1, 2]):
        close(posteriors(seen, channel, chain), oracle.posteriors(seen, channel, chain))


def test_several_series_are_independent_and_names_do_not_matter():
    chain = ut.MarkovChain(oracle.LAZY, states=("idle", "active"))
    rows = np.array([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 0]])
    found = posteriors(rows, FLIPS, PAIR)
    assert found.shape == (3, 4, 2)
    for row, one in zip(rows, found, strict=True):
        close(one, oracle.posteriors(row.tolist(), FLIPS, PAIR))
        named = [chain.states[x] for x in row]
        close(posteriors(named, FLIPS, chain), one, 0)
    close(posteriors(rows.tolist(), FLIPS, PAIR), found, 0)
    assert posteriors(rows[:1], FLIPS, PAIR).shape == (1, 4, 2)


def test_absent_steps_are_records_of_which_nothing_is_seen():
    import polars as pl

    times, seen = [0, 1, 4, 5], [0, 0, 1, 1]
    data = ut.Data(pl.DataFrame({"t": times, "x": seen}), value="x", time="t", every=1)
    whole = ut.RandomizedResponse([[0.9, 0.1, 0], [0.2, 0.8, 0]])
    blind = ut.MarkovChain(oracle.LAZY)
    total = np.zeros((6, 2))
    for a in (0, 1):
        for b in (0, 1):
            z = [0, 0, a, b, 1, 1]
            probability = sum(p for _, p in oracle.joint(z, whole, blind))
            total += probability * oracle.posteriors(z, whole, blind)
    wanted = total / total.sum(axis=1, keepdims=True)
    close(posteriors(data, FLIPS, PAIR), wanted[times])


def test_probabilities_beyond_floats():
    """A state that was ruled out by 10^-900 comes back: the chain never moves."""
    still = ut.MarkovChain([[1.0, 0], [0, 1]], start=[0.5, 0.5])
    channel = ut.RandomizedResponse.binary(0.25, 0.25)
    seen = [0] * 2000 + [1] * 2001
    found = posteriors(seen, channel, still)
    close(found, np.tile([0.25, 0.75], (4001, 1)), 1e-9)
    three = ut.MarkovChain(np.eye(3), start=[0.5, 0.25, 0.25])
    even = ut.RandomizedResponse.symmetric(3, 0.25)
    found = posteriors(seen, even, three)
    wanted = np.array([0.5 / 6, 0.25, 0.0])
    close(found, np.tile(wanted / wanted.sum(), (4001, 1)), 1e-9)


# --- both ways of running the loops ---------------------------------------------------------------


def without_numba(monkeypatch):
    """Make numba absent, until the monkeypatch is undone."""
    fetch: Any = builtins.__import__

    def fake(name, *rest):
        if name == "numba":
            raise ImportError
        return fetch(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fake)
    kernels.compiled.cache_clear()


CASES: list[Any] = [
    (ut.RandomizedResponse.binary(0.3, 0.2), ut.MarkovChain(oracle.LAZY)),
    (ut.RandomizedResponse.symmetric(3, 0.4), ut.MarkovChain(oracle.THREE)),
    (ut.XorNoise(0.1, 0.3), ut.MarkovChain(oracle.LAZY)),
    (ut.RandomizedResponse.binary(0.25, 0.25), ut.MarkovChain(np.eye(2), start=[0.5, 0.5])),
    (ut.RandomizedResponse.symmetric(3, 0.25), ut.MarkovChain(np.eye(3), start=[0.5, 0.2, 0.3])),
]


def found_in_all_cases():
    rng = np.random.default_rng(1)
    found = []
    for channel, chain in CASES:
        outputs = rng.integers(0, chain.size, 900)
        if not np.count_nonzero(chain.transition - np.eye(chain.size)):
            outputs[:800] = 0  # all too sure: logarithms take over
        found.append(posteriors(outputs, channel, chain, known={0: 1}))
    return found


def test_plain_loops_give_the_same(monkeypatch):
    pytest.importorskip("numba")
    compiled = found_in_all_cases()
    with monkeypatch.context() as patch:
        without_numba(patch)
        assert kernels.compiled(kernels.smooth) is kernels.smooth
        plain = found_in_all_cases()
    kernels.compiled.cache_clear()
    for one, other in zip(plain, compiled, strict=True):
        close(one, other, 1e-14)


def test_memory_is_that_of_the_result():
    records = 400_000
    outputs = np.random.default_rng(0).integers(0, 2, records).astype(np.uint8)
    posteriors(outputs[:9], FLIPS, PAIR)
    tracemalloc.start()
    found = posteriors(outputs, FLIPS, PAIR)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.nbytes == 16 * records
    assert peak <= 1.2 * found.nbytes + 2**20


# --- bad input ------------------------------------------------------------------------------------


def test_outputs_of_probability_zero_are_named_by_their_place():
    chain = ut.MarkovChain(oracle.ZEROS)
    sure = ut.RandomizedResponse(np.eye(3))
    with pytest.raises(InvalidInput, match=r"up to record 3 \(counting from 0\)"):
        posteriors([0, 1, 2, 1, 1], sure, chain)
    with pytest.raises(InvalidInput, match="record 2 of series 1"):
        posteriors([[0, 1, 2], [0, 1, 0]], sure, chain)
    with pytest.raises(InvalidInput, match=r"record 1 .*known"):
        posteriors([0, 1, 2], sure, chain, known={1: 2})
    table = np.array([[0.5, 1.0], [1, 1], [0, 0]])
    with pytest.raises(InvalidInput, match=r"record 0 of series 0 .* probability 0"):
        posteriors([1, None, 0], ut.Redaction(table), PAIR)
    still = ut.MarkovChain(np.eye(2), start=[0.5, 0.5])
    flips = ut.RandomizedResponse([[0.25, 0.75], [0.75, 0.25]])
    with pytest.raises(InvalidInput, match="record 2001"):  # found with logarithms
        posteriors([0] * 2000 + [1] * 2, flips, still, known={2000: 0, 2001: 1})


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([0, 2], FLIPS, PAIR), UnknownState, "record 1"),
        (([0, None], FLIPS, PAIR), UnknownState, "record 1"),
        (([[0, 1], [0]], FLIPS, PAIR), InvalidInput, "lengths from 1 to 2"),
        (([0, 1], FLIPS, ut.MarkovChain(oracle.THREE)), InvalidInput, "2 states, the chain has 3"),
        (([0, 1], FLIPS, ut.Groups(3)), InvalidInput, "MarkovChain is required"),
        (([0, 1], "flips", PAIR), InvalidInput, "RandomizedResponse"),
        (([0] * 4, FLIPS, ut.MarkovChain(oracle.LAZY, length=3)), InvalidInput, "at most 3"),
        (([0, 1], ut.Redaction([[1, 1]] * 3), PAIR), InvalidInput, "exactly 3"),
        (([0, 1], FLIPS, PAIR, {2: 0}), InvalidInput, "record 2 .* has 2 records"),
        (([0, 1], FLIPS, PAIR, {-1: 0}), InvalidInput, "at least 0"),
        (([0, 1], FLIPS, PAIR, {0: 5}), UnknownState, "known of record 0"),
        (([0, 1], FLIPS, PAIR, [0]), InvalidInput, "state of each known record"),
    ],
)
def test_refusals(arguments, error, words):
    with pytest.raises(error, match=words):
        posteriors(*arguments)


def test_known_records_need_series_without_gaps():
    import polars as pl

    data = ut.Data(pl.DataFrame({"t": [0, 2], "x": [0, 1]}), value="x", time="t", every=1)
    with pytest.raises(NotSupported, match="absent steps"):
        posteriors(data, FLIPS, PAIR, {0: 1})


def is_best(seen, channel, chain, known=None):
    """The series found is possible, knows what is known, and none is likelier."""
    found = viterbi(seen, channel, chain, known)
    ways = dict(oracle.joint(seen, channel, chain, known))
    assert ways[tuple(found)] == pytest.approx(max(ways.values()), rel=1e-12)


@law(
    PROPERTY,
    12,
    seed=st.integers(0, 2**32),
    states=st.integers(2, 3),
    records=st.integers(2, 6),
    kind=st.sampled_from(["flips", "noise", "erasures"]),
    facts=st.integers(0, 2),
)
def test_no_series_is_likelier(seed, states, records, kind, facts):
    rng = np.random.default_rng(seed)
    states = 2 if kind == "noise" else states
    chain = oracle.random_chain(rng, states, records, moving=bool(seed % 2))
    truth = rng.integers(0, states, records)
    known = {int(r): int(truth[r]) for r in rng.permutation(records)[:facts]}
    if kind == "erasures":
        gone = rng.random(records) < 0.5
        gone[records // 2] = True
        seen = [None if erased else int(x) for x, erased in zip(truth, gone, strict=True)]
        is_best(seen, oracle.random_erasures(rng, states, records), chain, known)
    elif kind == "noise":
        is_best(rng.integers(0, 2, records).tolist(), ut.XorNoise(*rng.random(2)), chain, known)
    else:
        channel = oracle.random_channel(rng, states, 3)
        is_best(rng.integers(0, 3, records).tolist(), channel, chain, known)


def test_the_guess_has_the_form_of_the_outputs():
    chain = ut.MarkovChain(oracle.LAZY, states=("idle", "active"))
    flips = ut.RandomizedResponse.binary(0.1, 0.1)
    assert viterbi(("idle", "active"), flips, chain) == ("idle", "idle")
    ragged = viterbi([["active"] * 3, ["idle"]], flips, chain)
    assert ragged == [["active"] * 3, ["idle"]]
    plain = viterbi(np.array([[0, 0, 0], [1, 1, 1]]), flips, ut.MarkovChain(oracle.LAZY))
    assert plain.tolist() == [[0, 0, 0], [1, 1, 1]]
    erased = ut.Redaction([[0, 0], [1, 1], [0, 0]])
    assert viterbi(["active", None, "active"], erased, chain) == ["active"] * 3


def test_plain_loop_gives_the_same():
    pytest.importorskip("numba")
    rng = np.random.default_rng(2)
    for states, rows in ((2, oracle.LAZY), (3, oracle.THREE)):
        codes = rng.integers(0, states, 600).astype(np.uint8)
        ends = np.array([200, 600])
        channel = np.full((states, states), 0.2 / (states - 1))
        np.fill_diagonal(channel, 0.8)
        start = np.log(np.full(states, 1 / states))
        paths = []
        for loop in (kernels.decode, kernels.compiled(kernels.decode)):
            back, path = np.empty((600, states), np.uint8), np.empty(600, np.uint8)
            made = loop(codes, ends, start, np.log([rows]), 0, np.log(channel), back, path)
            assert made == -1
            paths.append(path)
        assert (paths[0] == paths[1]).all()


def test_impossible_outputs_are_named_by_their_place():
    chain = ut.MarkovChain(oracle.ZEROS)
    with pytest.raises(InvalidInput, match="record 3"):
        viterbi([0, 1, 2, 1, 1], ut.RandomizedResponse(np.eye(3)), chain)


P3 = ut.MarkovChain([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
P2 = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], start=[0.2, 0.8])
ERASURES = [[0.5, 0.1], [1.0, 1.0], [0.2, 0.9], [0.0, 0.3]]


def shown(mechanism, path, record):
    """Pr[output] of a record given the whole path; XOR noise is summed elsewhere."""
    if isinstance(mechanism, ut.RandomizedResponse):
        return mechanism.matrix[path[record]]
    row = mechanism.probabilities[record, path[record]]
    return np.append((1 - row) * (np.arange(2) == path[record]), row)


def likelihood(mechanism, chain, first, path_values, outputs):
    """Pr[outputs, fixed values], by enumeration of all paths (and all noise)."""
    total, length = 0.0, len(outputs)
    for path in itertools.product(range(chain.size), repeat=length):
        if any(path[r] != v for r, v in path_values.items()):
            continue
        probability = chain.law(first)[path[0]]
        for t in range(length - 1):
            probability *= chain.step(first + t)[path[t], path[t + 1]]
        if isinstance(mechanism, ut.XorNoise):
            z = [x ^ y for x, y in zip(path, outputs, strict=True)]
            rho = mechanism.rho0, mechanism.rho1
            probability *= (mechanism.flip_rate, 1 - mechanism.flip_rate)[1 - z[0]]
            for a, b in itertools.pairwise(z):
                probability *= rho[a] if a != b else 1 - rho[a]
        else:
            for t, output in enumerate(outputs):
                probability *= shown(mechanism, path, t)[output]
        total += probability
    return total


@pytest.mark.parametrize(
    ("mechanism", "chain", "first", "length", "outputs"),
    [
        (ut.RandomizedResponse.binary(0.2, 0.3), P2, 2, 5, 2),
        (ut.RandomizedResponse.symmetric(3, 0.4), P3, 0, 4, 3),
        (ut.RandomizedResponse([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), P2, 0, 4, 3),
        (ut.XorNoise(0.2, 0.4), P2, 1, 5, 2),
        (ut.Redaction(ERASURES), P2, 0, 4, 3),
    ],
)
def test_series_scores_equal_enumeration(mechanism, chain, first, length, outputs):
    target, known = 1, {length - 1: 0}
    window, facts = range(first, first + length), {r + first: v for r, v in known.items()}
    score = series_score(hidden(mechanism, chain), window, facts, first + target, (0, 1))
    compared = 0
    for seen in itertools.product(range(outputs), repeat=length):
        pair = [
            likelihood(mechanism, chain, first, known | {target: value}, seen) for value in (0, 1)
        ]
        if min(pair) <= 0:
            continue
        found = score(np.array([seen], dtype=np.uint8))[0, 0]
        assert found == pytest.approx(math.log(pair[0] / pair[1]), abs=1e-3)
        compared += 1
    assert compared > 4


def test_long_series_do_not_underflow():
    model = hidden(ut.RandomizedResponse.binary(0.01, 0.01), P2)
    outputs = np.zeros((2, 3000), dtype=np.uint8)
    outputs[1] = 1
    found = series_score(model, range(3000), {}, 1500, (0, 1))(outputs)
    assert np.isfinite(found).all()
    assert found[0, 0] > 5 > -5 > found[1, 0]


def test_what_the_plan_rules_out_speaks_for_the_truth():
    model = hidden(ut.Redaction(ERASURES), P2)
    score = series_score(model, range(4), {}, 1, (0, 1))
    leaked = score(np.array([[2, 0, 2, 0], [2, 1, 2, 0]], dtype=np.uint8))[:, 0]
    assert leaked[0] > 5
    assert leaked[1] < -5


@pytest.mark.parametrize(
    ("scale", "blur", "power"),
    [(0.4, laplace_blur, 1), (3.0, laplace_blur, 1), (1.7, normal_blur, 2)],
)
def test_count_scores_equal_enumeration(scale, blur, power):
    """Weights exp(-(|z| / scale)^power / power): Laplace or normal noise, far beyond all counts."""
    source, pair = ChainSource(P3, 4, 0), ({1: 2, 3: 0}, {1: 0, 3: 0})
    bins = np.array([[0, 1, 1]])
    score = count_score(source, pair, bins, blur(scale))
    for answer in (-7, -1, 0, 1, 2, 4, 9):
        probabilities = []
        for fixed in pair:
            total = 0.0
            for path in itertools.product(range(3), repeat=4):
                if all(path[r] == v for r, v in fixed.items()):
                    probability = P3.law(0)[path[0]]
                    for t in range(3):
                        probability *= P3.step(t)[path[t], path[t + 1]]
                    count = sum(x > 0 for x in path)
                    total += probability * math.exp(
                        -((abs(answer - count) / scale) ** power) / power
                    )
            probabilities.append(total)
        prior = [np.linalg.matrix_power(P3.transition, 2)[v, 0] * P3.law(1)[v] for v in (2, 0)]
        wanted = math.log(probabilities[0] / prior[0]) - math.log(probabilities[1] / prior[1])
        found = score(np.array([[float(answer)]]))[0, 0]
        assert found == pytest.approx(wanted, abs=1e-5)


def test_histograms_are_scored_bin_by_bin():
    source = ChainSource(P2, 5)
    score = count_score(source, ({2: 1}, {2: 0}), np.eye(2), laplace_blur(2.0))
    high, low = score(np.array([[0.0, 5.0], [5.0, 0.0]]))
    assert high[0] > 0 > low[0]
    assert high.tolist()[1:] == [0.0, 5.0, -5.0]


def test_several_releases_are_scored_by_their_mean():
    source, bins = ChainSource(P2, 5), np.array([[0, 1]])
    score = count_score(source, ({2: 1}, {2: 0}), bins, normal_blur(2.0))
    answers = np.array([[1.0, 4.0, 4.0]])
    assert of_mean(score, 3)(answers).tolist() == score(np.array([[3.0]])).tolist()
    assert of_mean(score, 1) is score
