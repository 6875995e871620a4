"""Boxes of two-state chains: no chain inside leaks more than the upper end, one attains the lower.

The oracle of a box is the exact leakage of the chains inside it, which enumeration oracles in turn.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.facts import ACTIVITY
from tests.grids import each, law, pairwise
from undertow.bounds.levels.classes import box_leakage, contraction_leakage
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.replay import replay_pure_dp
from undertow.errors import InvalidInput, InvalidModel
from undertow.models.classes import ChainBox
from undertow.numerics import GAP
from undertow.testing.enumeration import chain_joint, pure_dp_leakage

WIDE = 1.001e-3


def box(q, r, length=None, states=None):
    """The box of all chains with q in q and r in r."""
    return ChainBox(
        [[1 - q[1], q[0]], [r[0], 1 - r[1]]], [[1 - q[0], q[1]], [r[1], 1 - r[0]]], states, length
    )


def chain(q, r, length=None):
    return ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=length)


def point(q, r, length=None):
    """The box of one chain."""
    matrix = chain(q, r).transition
    return ChainBox(matrix, matrix, length=length)


def width(leak):
    return (leak.upper - leak.lower) / max(1.0, leak.upper)


# --- soundness ------------------------------------------------------------------------------------

KINDS = {
    "positive": ((0.05, 0.3), (0.1, 0.5)),
    "narrow": ((0.11, 0.13), (0.29, 0.32)),
    "negative": ((0.6, 0.8), (0.5, 0.9)),
    "mixed": ((0.3, 0.7), (0.2, 0.8)),
    "one-row": ((0.2, 0.2), (0.1, 0.6)),
    "sticky": ((0.004, 0.02), (0.01, 0.03)),
}


def oracle(kind, who, epsilon, length, chains):
    q, r = KINDS[kind]
    leak = box_leakage(epsilon, box(q, r, length), who)
    assert 0 < leak.lower <= leak.upper
    assert width(leak) <= WIDE
    rng = np.random.default_rng(7)
    for u, v in np.clip(rng.uniform(-0.3, 1.3, (chains, 2)), 0, 1):  # many on the boundary
        inside = chain(q[0] + u * (q[1] - q[0]), r[0] + v * (r[1] - r[0]), length)
        assert exchange_leakage(epsilon, inside, who).lower <= leak.upper


@each(
    (("epsilon", "length"), "who", "kind"),
    [(2.0, 6), (1.0, 40), (0.3, None)], ["any", "ignorant"], list(KINDS),
)  # fmt: skip
def test_chains_inside_leak_no_more(kind, who, epsilon, length):
    oracle(kind, who, epsilon, length, 6)


rates = st.floats(0.01, 0.99)
pairs = st.tuples(rates, rates).map(sorted)


@law(
    settings(deadline=None, derandomize=True, database=None, max_examples=30), 5,
    q=pairs, r=pairs, epsilon=st.sampled_from([0.05, 0.5, 2.0, 8.0]),
    length=st.sampled_from([None, 2, 3, 11]), who=st.sampled_from(["any", "ignorant"]),
    places=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=2),
)  # fmt: skip
def test_random_boxes_enclose_their_chains(q, r, epsilon, length, who, places):
    leak = box_leakage(epsilon, box(q, r, length), who)
    assert leak.lower <= leak.upper
    for u, v in [*places, (0, 0), (1, 1)]:
        inside = chain(q[0] + u * (q[1] - q[0]), r[0] + v * (r[1] - r[0]), length)
        assert exchange_leakage(epsilon, inside, who).lower <= leak.upper


@pytest.mark.parametrize(("q", "r"), [((0.1, 0.2), (0.3, 0.4)), ((0.6, 0.9), (0.7, 0.8))])
@pytest.mark.parametrize("who", ["any", "ignorant"])
def test_enumeration_agrees(q, r, who):
    """The linear program over all DP algorithms, on the corners of the box, for 3 records."""
    leak = box_leakage(0.7, box(q, r, 3), who)
    worst = 0.0
    for corner in itertools.product(q, r):
        member = chain(*corner)
        joint = chain_joint(member.initial, member.transition, 3)
        worst = max(worst, pure_dp_leakage(joint, 0.7, who).leakage)
    assert worst <= leak.upper + 1e-8  # the tolerance of the program
    assert leak.lower == pytest.approx(worst, abs=2e-3)


def test_the_lower_end_is_attained_inside_the_box():
    q, r = KINDS["positive"]
    for who in ("any", "ignorant"):
        leak = box_leakage(1.0, box(q, r), who)
        assert leak.witness is not None
        reached = [
            replay_pure_dp(leak.witness, chain(*corner), 1.0) for corner in itertools.product(q, r)
        ]
        assert max(reached) == pytest.approx(leak.lower, abs=1e-9)


# --- agreement with the exact leakage of one chain ------------------------------------------------


@pairwise(
    ("length", ("q", "r"), "who"),
    [None, 5],
    [(0.118, 0.305), (0.8, 0.7), (0.4, 0.6), (0.3, 1.0)],
    ["any", "ignorant", "informed", ut.Adversary(2, known=[0, 3])],
)
def test_a_box_of_one_chain_is_that_chain(q, r, length, who):
    exact = exchange_leakage(1.3, chain(q, r, length), who)
    found = box_leakage(1.3, point(q, r, length), who)
    assert (found.lower, found.upper) == (exact.lower, exact.upper)
    assert found.witness == exact.witness


def test_a_tiny_box_is_nearly_its_chain():
    exact = exchange_leakage(1.0, ut.MarkovChain(ACTIVITY["transition"]))
    tiny = box_leakage(1.0, box((0.118, 0.118 + 1e-9), (0.305, 0.305 + 1e-9)))
    assert tiny.lower == pytest.approx(exact.lower, abs=1e-6)
    assert tiny.upper <= exact.upper + 4e-3


# --- what is known about boxes --------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_the_ignorant_worst_case_is_the_stickiest_chain(epsilon):
    """Positively correlated, nothing known: both rates at their least, and the search finds it."""
    q, r = KINDS["positive"]
    exact = exchange_leakage(epsilon, chain(q[0], r[0]), "ignorant")
    leak = box_leakage(epsilon, box(q, r), "ignorant")
    assert leak.lower == pytest.approx(exact.lower, abs=GAP)
    assert leak.upper == pytest.approx(exact.upper, abs=1e-4)


def test_names_can_be_exchanged():
    q, r = KINDS["positive"]
    one, two = box_leakage(1.0, box(q, r)), box_leakage(1.0, box(r, q))
    assert max(one.lower, two.lower) <= min(one.upper, two.upper)


def test_the_box_of_a_fit():
    """The activity counts: what plain 1-DP leaks at any chain the data leave plausible."""
    fitted = ut.MarkovChain.from_counts(
        [[9718, 1295], [1295, 2955]], ("inactive", "active"), public=True
    )
    region = fitted.region(0.95)
    assert isinstance(region, ChainBox)
    leak = box_leakage(1.0, region)
    point = exchange_leakage(1.0, fitted)
    assert point.upper < leak.lower < leak.upper < 3.7
    assert leak.upper == pytest.approx(3.656, abs=2e-3)
    assert width(leak) <= WIDE
    assert leak.method == "exchange"
    assert "stationary start" in leak.assumptions[0]
    for corner in region.corners():
        assert exchange_leakage(1.0, corner).lower <= leak.upper


# --- adversaries ----------------------------------------------------------------------------------


def test_the_informed_learn_the_level():
    leak = box_leakage(0.7, box(*KINDS["positive"]), "informed")
    assert (leak.lower, leak.upper) == (0.7, 0.7)
    assert leak.witness is not None


# --- zeros and other corners ----------------------------------------------------------------------


@each(
    ("who", ("q", "r")),
    ["any", "ignorant"], [((0, 0.1), (0.2, 0.3)), ((0.1, 0.2), (0, 0.05)), ((0, 1), (0, 1))],
    few=2,
)  # fmt: skip
def test_a_state_that_may_never_be_left_leaks_without_bound(q, r, who):
    leak = box_leakage(1.0, box(q, r), who)
    assert leak.upper == math.inf
    assert leak.lower > 100
    assert leak.witness is not None


def test_zeros_are_harmless_to_small_levels():
    """(1 - r) e^epsilon < 1: even a state that is never left says little to the ignorant."""
    leak = box_leakage(0.05, box((0, 0.1), (0.2, 0.3)), "ignorant")
    assert leak.lower == pytest.approx(0.50903863, abs=1e-6)
    assert width(leak) <= WIDE
    for q in (1e-3, 1e-9, 1e-90):
        assert exchange_leakage(0.05, chain(q, 0.2), "ignorant").lower <= leak.upper


@pytest.mark.parametrize("length", [2, 5, 60])
@pytest.mark.parametrize("who", ["any", "ignorant"])
def test_zeros_leak_at_most_the_group_bound(length, who):
    leak = box_leakage(1.0, box((0, 0.1), (0.2, 0.3), length), who)
    assert leak.lower <= leak.upper <= length + 1e-9
    for q in (1e-6, 1e-30, 0.1):
        assert exchange_leakage(1.0, chain(q, 0.2, length), who).lower <= leak.upper


def test_a_chain_that_may_alternate_for_ever():
    leak = box_leakage(1.0, box((0.9, 1), (0.8, 1)))
    assert leak.upper == math.inf
    assert box_leakage(1.0, box((0.9, 1), (0.8, 1), 4)).upper <= 4 + 1e-9
    # one certain step and one that is not: finite
    leak = box_leakage(1.0, box((1, 1), (0.3, 0.6)))
    assert width(leak) <= WIDE
    for r in (0.3, 0.45, 0.6):
        assert exchange_leakage(1.0, chain(1.0, r)).lower <= leak.upper


def test_independent_records_leak_the_level():
    leak = box_leakage(1.0, box((0.3, 0.3 + 1e-12), (0.7, 0.7 + 1e-12)))
    assert leak.lower == pytest.approx(1.0, abs=1e-9)
    assert leak.upper == pytest.approx(1.0, abs=1e-3)


# --- refusals -------------------------------------------------------------------------------------


def test_more_than_two_states_are_bounded_by_their_contraction():
    three = ChainBox(np.full((3, 3), 0.2), np.full((3, 3), 0.5))
    assert box_leakage(1.0, three) == contraction_leakage(1.0, three)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_bad_levels_are_refused(epsilon):
    with pytest.raises(InvalidInput, match="epsilon must be positive"):
        box_leakage(epsilon, box(*KINDS["narrow"]))


# --- a bound on the trace -------------------------------------------------------------------------


def traced(trace, **more):
    return ChainBox([[0.7, 0.05], [0.1, 0.5]], [[0.95, 0.3], [0.5, 0.9]], trace=trace, **more)


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_a_trace_leaves_out_the_chains_that_last(against):
    leak = box_leakage(0.3, traced(1.5), against)
    assert leak.upper < 0.8 * box_leakage(0.3, traced(None), against).lower
    found = []
    for q in np.linspace(0.05, 0.3, 11):
        for r in np.linspace(0.1, 0.5, 11):
            if 2 - q - r <= 1.5 + 1e-9:
                chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]])
                found.append(exchange_leakage(0.3, chain, against).lower)
    for q in np.linspace(0.05, 0.3, 6):  # the line itself
        chain = ut.MarkovChain([[1 - q, q], [0.5 - q, 0.5 + q]])
        found.append(exchange_leakage(0.3, chain, against).lower)
    assert max(found) <= leak.upper
    assert leak.lower <= leak.upper <= max(found) * 1.02


def test_boxes_with_a_trace_describe_themselves():
    box = traced(1.5, length=9, states=("a", "b"))
    assert ChainBox.from_dict(box.to_dict()) == box != traced(None, length=9, states=("a", "b"))
    assert box.endless() == traced(1.5, states=("a", "b"))
    assert "sum to at most 1.5" in box.describe()
    assert all(np.trace(corner.transition) <= 1.5 for corner in box.corners())
    with pytest.raises(InvalidModel, match=r"the least is 1\.2"):
        traced(1.1)
