"""The most likely series is that of full enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.oracles import attackers as oracle
from undertow.auditing.inference import viterbi
from undertow.errors import InvalidInput
from undertow.models.fitting import hidden as kernels

PROPERTY = settings(deadline=None, derandomize=True, database=None, max_examples=40)


def is_best(seen, channel, chain, known=None):
    """The series found is possible, knows what is known, and none is likelier."""
    found = viterbi(seen, channel, chain, known)
    ways = dict(oracle.joint(seen, channel, chain, known))
    assert ways[tuple(found)] == pytest.approx(max(ways.values()), rel=1e-12)


@PROPERTY
@given(
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
