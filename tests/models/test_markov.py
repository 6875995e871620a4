"""Markov chains: what is refused, what is frozen, and every law against the joint table."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.strategies import chains, joint, laws, marginal
from undertow.errors import InvalidInput, InvalidModel, UnknownState
from undertow.models.base import Model

P = [[0.9, 0.1], [0.2, 0.8]]
NAN, INF = math.nan, math.inf
MANY = settings(deadline=None, derandomize=True, database=None, max_examples=60)


# --- construction and refusals --------------------------------------------------------------------


def test_a_chain_says_what_it_is():
    chain = ut.MarkovChain(P, states=("idle", "busy"), length=7)
    assert chain.states == ("idle", "busy")
    assert (chain.size, chain.length, chain.start, chain.homogeneous) == (2, 7, "stationary", True)
    assert chain.initial == pytest.approx([2 / 3, 1 / 3], rel=1e-15)
    assert chain.transition.tolist() == P
    assert chain.describe() == "Markov chain on 2 states, a stationary start, 7 records"
    assert isinstance(chain, Model)
    varying = ut.MarkovChain([P, P], start=[0.5, 0.5])
    assert (varying.length, varying.homogeneous, varying.states) == (3, False, (0, 1))
    assert "a matrix for each step, a given start, 3 records" in varying.describe()
    assert ut.MarkovChain(P).describe().endswith("any length")


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        ([[0.9, 0.1], [0.2, 0.7]], r"row 1 of transition sums to 0\.9; .* renormalise"),
        ([[0.9, 0.1 + 3e-11], [0.2, 0.8]], r"row 0 of transition sums to 1\.00000000003; "),
        ([[9, 1], [2, 8]], r"entry \(0, 0\) of transition is 9\.0; probabilities lie in \[0, 1\]"),
        ([[1.1, -0.1], [0.2, 0.8]], r"entry \(0, 0\) of transition is 1\.1"),
        ([[0.9, 0.1], [-0.2, 1.0]], r"entry \(1, 0\) of transition is -0\.2"),
        ([[0.9, 0.1], [NAN, 1.0]], r"entry \(1, 0\) of transition is nan"),
        ([[0.9, 0.1], [INF, 1.0]], r"entry \(1, 0\) of transition is inf"),
        ([[0.9, 0.1], [None, 1.0]], r"entry \(1, 0\) of transition is nan"),
        ([[1.0]], "at least two states"),
        ([[[1.0]]], "at least two states"),
        ([0.5, 0.5], r"square matrix, .* found shape \(2,\)"),
        ([[0.5, 0.5]], r"found shape \(1, 2\)"),
        ([[[[0.5, 0.5], [0.5, 0.5]]]], r"found shape \(1, 1, 2, 2\)"),
        ([], r"found shape \(0,\)"),
        (np.zeros((0, 2, 2)), r"found shape \(0, 2, 2\)"),
        (0.5, r"found shape \(\)"),
        ([P, [[0.9, 0.1], [0.2, 0.7]]], r"row 1 of step 1 of transition sums to 0\.9"),
        ([P, [[0.9, 0.1], [1.2, -0.2]]], r"entry \(1, 1, 0\) of transition is 1\.2"),
    ],
)
def test_bad_transitions_are_refused(transition, message):
    start = [0.5, 0.5]
    with pytest.raises(InvalidModel, match=message):
        ut.MarkovChain(transition, start=start)


@pytest.mark.parametrize(
    "transition",
    [
        [[0.5, 0.5], [1.0]],
        [["a", "b"], ["c", "d"]],
        "stationary",
        [[0.5, 0.5], [0.5, {}]],
        [[0.5 + 1j, 0.5], [0.5, 0.5]],
        {"transition": P},
        object(),
    ],
    ids=["ragged", "letters", "string", "dict-inside", "complex", "dict", "object"],
)
def test_what_is_not_numbers_is_refused(transition):
    with pytest.raises(InvalidInput, match="numbers are required here"):
        ut.MarkovChain(transition)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (("a", "a"), "two states bear the same name"),
        ((1, True), "two states bear the same name"),
        (("a",), "2 states need 2 names, found 1"),
        (("a", "b", "c"), "2 states need 2 names, found 3"),
        ((), "2 states need 2 names, found 0"),
        ("ab", "found one string"),
        (5, "must be a list of names, found int"),
        (1.5, "must be a list of names, found float"),
        ((["a"], ["b"]), "hashables"),
    ],
)
def test_bad_names_are_refused(states, message):
    with pytest.raises(InvalidModel, match=message):
        ut.MarkovChain(P, states)


def test_names_without_an_order_are_refused():
    with pytest.raises(InvalidModel):
        ut.MarkovChain(P, {"idle", "busy"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (0, "at least 2, found 0"),
        (1, "at least 2, found 1"),
        (-3, "at least 2, found -3"),
        (2.5, r"whole number, found 2\.5"),
        (4.0, r"whole number, found 4\.0"),
        (True, "whole number, found True"),
        ("9", "whole number, found '9'"),
        (NAN, "whole number, found nan"),
    ],
)
def test_bad_lengths_are_refused(length, message):
    with pytest.raises(InvalidInput, match=message):
        ut.MarkovChain(P, length=length)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ([0.5, 0.4], r"start sums to 0\.9"),
        ([0.5, 0.3, 0.2], r"start must have 2 entries, found shape \(3,\)"),
        ([[0.5, 0.5]], r"found shape \(1, 2\)"),
        ([NAN, 1.0], "of start is .*; probabilities lie in"),
        ([1.5, -0.5], "of start is .*; probabilities lie in"),
        ([INF, 0.0], "of start is .*; probabilities lie in"),
        ("foo", "start must be 'stationary' or a distribution, found 'foo'"),
        (None, r"start must have 2 entries, found shape \(\)"),
        ([], r"found shape \(0,\)"),
    ],
)
def test_bad_starts_are_refused(start, message):
    with pytest.raises(InvalidModel, match=message):
        ut.MarkovChain(P, start=start)


def test_a_stack_fixes_start_and_length():
    with pytest.raises(InvalidModel, match="no stationary start"):
        ut.MarkovChain([P, P])
    with pytest.raises(InvalidModel, match="2 transition matrices make a chain of 3 records"):
        ut.MarkovChain([P, P], start=[0.5, 0.5], length=4)
    assert ut.MarkovChain([P, P], start=[0.5, 0.5], length=3).length == 3


def test_an_ambiguous_stationary_start_is_refused():
    with pytest.raises(InvalidModel, match=r"several closed classes .* pass start="):
        ut.MarkovChain(np.eye(2))
    assert ut.MarkovChain(np.eye(2), start=[0.5, 0.5]).size == 2


@pytest.mark.parametrize("sign", [1, -1])
def test_rows_may_be_off_by_one_part_in_a_million_million(sign):
    for off, fits in ((7e-13, True), (1.4e-12, False)):
        row = [0.9, 0.1 + sign * off]
        for build in (
            lambda row=row: ut.MarkovChain([[0.2, 0.8], row]),
            lambda row=row: ut.MarkovChain([P, [row, row]], start=[0.5, 0.5]),
            lambda row=row: ut.MarkovChain(P, start=row),
        ):
            if fits:
                assert build().size == 2
            else:
                with pytest.raises(InvalidModel, match="sums to"):
                    build()


@law(MANY, 20, data=st.data())
def test_rows_are_rescaled_to_one(data):
    rows = [data.draw(laws(3)) for _ in range(3)]
    chain = ut.MarkovChain(rows, start=data.draw(laws(3)))
    for row in (*chain.transition, chain.initial):
        assert abs(math.fsum(row) - 1) <= 4 * 2**-53
    assert chain.transition == pytest.approx(np.array(rows), rel=2e-12, abs=0)


# --- frozen ---------------------------------------------------------------------------------------


def test_a_chain_cannot_be_changed():
    chain = ut.MarkovChain(P, start=[0.5, 0.5])
    for array in (chain.transition, chain.initial, chain.start):
        assert isinstance(array, np.ndarray)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.5
    with pytest.raises(dataclasses.FrozenInstanceError):
        chain.length = 4  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        chain.colour = "red"  # type: ignore[attr-defined]


def test_the_callers_arrays_stay_the_callers():
    matrix, start, names = np.array(P), np.array([0.5, 0.5]), ["a", "b"]
    chain = ut.MarkovChain(matrix, names, start=start)
    matrix[...], start[...], names[0] = 0.5, [1, 0], "z"
    assert chain == ut.MarkovChain(P, ("a", "b"), start=[0.5, 0.5])
    assert matrix.flags.writeable


def test_equality_and_hash():
    chain = ut.MarkovChain(P, ("a", "b"), length=5)
    same = ut.MarkovChain(np.array(P), ["a", "b"], length=5)
    assert chain == same
    assert hash(chain) == hash(same)
    others = [
        ut.MarkovChain(P, ("b", "a"), length=5),
        ut.MarkovChain(P, ("a", "b"), length=6),
        ut.MarkovChain(P, ("a", "b")),
        ut.MarkovChain(P, ("a", "b"), start=chain.initial, length=5),
        ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], ("a", "b"), length=5),
        ut.MarkovChain([P] * 4, ("a", "b"), start=[0.5, 0.5]),
        ut.MarkovChain([P] * 4, ("a", "b"), start=[0.4, 0.6]),
    ]
    for first, second in itertools.combinations([chain, *others], 2):
        assert first != second
    assert chain != "chain"
    assert len({chain, same, *others}) == 1 + len(others)


# --- files ----------------------------------------------------------------------------------------


@law(settings(MANY, max_examples=120), 12, chain=chains())
def test_json_keeps_every_bit(chain):
    text = json.dumps(chain.to_dict(), allow_nan=False)
    again = ut.MarkovChain.from_dict(json.loads(text))
    assert again == chain
    assert again.transition.tobytes() == chain.transition.tobytes()
    assert again.initial.tobytes() == chain.initial.tobytes()
    assert [type(name) for name in again.states] == [type(name) for name in chain.states]


# --- states ---------------------------------------------------------------------------------------


def test_unknown_states_are_named_with_the_known_ones():
    with pytest.raises(UnknownState, match=r"no state 'active'; its states are 'idle', 'busy'"):
        ut.MarkovChain(P, states=("idle", "busy")).index("active")


# --- laws against the joint table -----------------------------------------------------------------


@law(MANY, 8, chain=chains(named=False))
def test_marginals_and_transitions_are_those_of_the_joint_table(chain):
    records = min(chain.length or 4, 4)
    table = joint(chain, records)
    found = chain.marginals(records)
    assert found.shape == (records, chain.size)
    for record in range(records):
        assert found[record] == pytest.approx(marginal(table, record), abs=1e-14)
        assert chain.law(record) == pytest.approx(marginal(table, record), abs=1e-14)
    for first, last in itertools.combinations(range(records), 2):
        both = marginal(table, first, last)
        given_first = found[first][:, None] * chain.between(first, last)
        assert given_first == pytest.approx(both, abs=1e-14)
    for record in range(records):
        assert chain.between(record, record).tolist() == np.eye(chain.size).tolist()


def test_records_outside_the_chain_are_refused():
    chain = ut.MarkovChain(P, start=[0.5, 0.5], length=3)
    for call in (
        lambda: chain.between(0, 3),
        lambda: chain.law(3),
        lambda: chain.marginals(4),
        lambda: chain.simulate(4),
    ):
        with pytest.raises(InvalidInput, match="record 3 is outside the chain's 3 records"):
            call()
    for wrong in (lambda: chain.between(2, 1), lambda: chain.between(-1, 1)):
        with pytest.raises(InvalidInput, match="must be at least"):
            wrong()
    with pytest.raises(InvalidInput, match="at least 1"):
        chain.marginals(0)


@pytest.mark.parametrize("record", [3, -1])
def test_a_stationary_chain_refuses_records_outside_too(record):
    with pytest.raises(InvalidInput):
        ut.MarkovChain(P, length=3).law(record)


# --- reversal -------------------------------------------------------------------------------------


@law(MANY, 8, chain=chains(named=False))
def test_the_reverse_reads_the_joint_law_backwards(chain):
    if chain.length is None and not isinstance(chain.start, str):
        with pytest.raises(InvalidModel, match="give it a length"):
            chain.reverse()
        return
    records = min(chain.length or 4, 4)
    if chain.length is not None and records < chain.length and not isinstance(chain.start, str):
        return
    backwards = chain.reverse()
    assert backwards.length == chain.length
    assert backwards.states == chain.states
    axes = tuple(reversed(range(records)))
    mirrored = joint(chain, records).transpose(axes)
    assert joint(backwards, records) == pytest.approx(mirrored, abs=1e-13)


# --- bridges --------------------------------------------------------------------------------------


@law(MANY, 8, chain=chains(named=False), length=st.integers(2, 5), data=st.data())
def test_a_bridge_is_the_conditional_law(chain, length, data):
    first, last = (data.draw(st.integers(0, chain.size - 1)) for _ in range(2))
    if not chain.homogeneous:
        with pytest.raises(InvalidModel, match="one transition matrix"):
            chain.bridge(first, last, length)
        return
    pinned = ut.MarkovChain(chain.transition, start=np.eye(chain.size)[first])
    table = joint(pinned, length)
    table[..., np.arange(chain.size) != last] = 0.0
    if table.sum() == 0:
        with pytest.raises(InvalidModel, match=f"cannot follow {first} after {length - 1} steps"):
            chain.bridge(first, last, length)
        return
    bridge = chain.bridge(first, last, length)
    assert bridge.length == length
    found = joint(bridge, length)
    assert found == pytest.approx(table / table.sum(), abs=1e-13)
    assert found.sum() == pytest.approx(1.0, abs=1e-13)


# --- simulation -----------------------------------------------------------------------------------


def test_simulation_never_takes_an_impossible_step():
    chain = ut.MarkovChain([[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]], start=[0, 1, 0])
    series = chain.simulate(2000, seed=1)
    assert series[0] == 1
    assert all(y == 1 or x == 1 for x, y in itertools.pairwise(series))
    assert all(x != y for x, y in itertools.pairwise(series))
    varying = ut.MarkovChain([[[0, 1], [1, 0]], np.eye(2)], start=[1, 0])
    assert varying.simulate(seed=1) == [0, 1, 1]
