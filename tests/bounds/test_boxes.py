"""Classes of chains: boxes, their contraction, mixing classes; no chain inside leaks more."""

import itertools
import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.facts import ACTIVITY
from tests.grids import each, law, pairwise
from undertow.bounds.levels import classes as boxes
from undertow.bounds.levels.classes import box_leakage, contraction_leakage
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.replay import replay_pure_dp
from undertow.bounds.levels.sweep import contraction_rate, contraction_upper
from undertow.errors import InvalidInput, InvalidModel, NotSupported, UnknownState
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


def log_ratio(R, u):
    """Return ln (1 + e^{u+R}) / (1 + e^u) in as many digits as the context has."""
    return ((1 + (u + R).exp()) / (1 + u.exp())).ln()


def test_one_step_is_rounded_outwards():
    """M at the ends of every interval, in 50 digits, lies within the range, and close to it."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = rng.normal(0, 3, 2)
        R, l = rng.normal(0, 3), rng.normal(0, 2)
        at = np.array([[R]])
        ahead = np.array([[l]])
        odds = np.array([[a, b]])
        low, high = boxes._range(at, at, odds, odds, ahead, ahead)
        with localcontext() as context:
            context.prec = 50
            exact = log_ratio(Decimal(R), Decimal(a) + Decimal(l))
            exact -= log_ratio(Decimal(R), Decimal(b) + Decimal(l))
        assert Decimal(float(low[0, 0])) <= exact <= Decimal(float(high[0, 0]))
        assert high - low < 1e-11


def test_states_that_are_never_left_tell_all_that_follows():
    """Odds without bound: M(R) is R itself, on both sides."""
    at = np.array([[1.0]])
    low, high = boxes._log_odds(box((0, 0.1), (0, 0.1)))
    found = boxes._range(-at, at, low[None], high[None], 0 * at, 0 * at)
    assert found[0] <= -1 <= 1 <= found[1]


def test_first_ratios_are_rounded_outwards():
    """ln P(0,v) / P(1,v) of a point, from the log-odds in 50 digits."""
    for odds in np.random.default_rng(1).normal(0, 4, (200, 2)):
        least, most = boxes._first_ratios(odds[None], odds[None])
        with localcontext() as context:
            context.prec = 50
            a, b = (Decimal(float(one)) for one in odds)
            exact = [
                ((1 + (-b).exp()) / (1 + (-a).exp())).ln(),
                ((1 + b.exp()) / (1 + a.exp())).ln(),
            ]
        for value, low, high in zip(exact, least[0].tolist(), most[0].tolist(), strict=True):
            assert Decimal(low) <= value <= Decimal(high)


@pytest.mark.parametrize("known", [[1, 7], [0, 8], [7]])
def test_an_attacker_who_knows_something_is_not_ignorant(known):
    q, r, who = (0.02, 0.03), (0.65, 0.66), ut.Adversary(4, known)
    leak = box_leakage(1.0, box(q, r, 9), who)
    assert leak.lower <= leak.upper
    assert leak.lower > box_leakage(1.0, box(q, r, 9), "ignorant").upper


def test_bounds_that_the_rows_rule_out_do_not_matter():
    """Entries of a row sum to one, so bounds on one of them bound the other."""
    loose = box_leakage(1.0, ChainBox([[0.5, 0.1], [0.2, 0.3]], [[0.9, 0.9], [0.9, 0.6]]))
    tight = box_leakage(1.0, box((0.1, 0.5), (0.4, 0.7)))
    assert loose.lower == pytest.approx(tight.lower, abs=1e-12)
    assert loose.upper == pytest.approx(tight.upper, abs=1e-12)


def random_box(size, generator, length=None):
    """A box around a random chain, and chains of it."""
    middle = generator.dirichlet(np.full(size, 2.0), size)
    wide = generator.uniform(0, 0.5, (size, size)) * np.minimum(middle, 1 - middle)
    box = ChainBox(middle - wide, middle + wide, length=length)
    chains = [ut.MarkovChain(middle, length=length)]
    for _ in range(3):  # rows with some entries raised and others lowered by as much
        step = generator.uniform(-1, 1, (size, size)) * wide
        step -= step.mean(axis=1, keepdims=True)
        scale = np.min(np.where(step != 0, wide / np.maximum(np.abs(step), 1e-12), np.inf))
        moved = middle + min(scale, 1.0) * step
        chains.append(ut.MarkovChain(moved, length=length))
    return box, chains


@each(("seed", "size"), range(6), [3, 4])
def test_no_chain_of_the_box_leaks_more(size, seed):
    generator = np.random.default_rng(seed)
    length = [None, 2, 5][seed % 3]
    box, chains = random_box(size, generator, length)
    who: tuple[Any, ...] = ("any", "ignorant", "informed")
    for epsilon, against in itertools.product((0.1, 1.0), who):
        bound = contraction_leakage(epsilon, box, against)
        truth = max(exchange_leakage(epsilon, chain, against).lower for chain in chains)
        assert truth <= bound.upper
        assert bound.lower <= bound.upper


def test_time_varying_chains_and_any_start_are_covered():
    generator = np.random.default_rng(5)
    box, chains = random_box(3, generator)
    steps = np.array([chain.transition for chain in chains])
    varying = ut.MarkovChain(steps, start=[0.98, 0.01, 0.01])
    leak = exchange_leakage(0.5, varying, "any")
    assert leak.upper <= contraction_leakage(0.5, box).upper


def slow_box(size, generator, wide):
    """A narrow box around a chain whose states last, some of whose transitions are rare."""
    rare = generator.dirichlet(np.full(size, 0.4), size) + 1e-3
    middle = 0.85 * np.eye(size) + 0.15 * rare / rare.sum(axis=1, keepdims=True)
    middle /= middle.sum(axis=1, keepdims=True)
    box = ChainBox(middle * (1 - wide), np.minimum(middle * (1 + wide), 1.0))
    chains = [ut.MarkovChain(middle), box.lasting()]
    for _ in range(4):
        scale = 1 + wide * generator.uniform(-1, 1, (size, size)) * (1 - np.eye(size))
        moved = middle * scale
        np.fill_diagonal(moved, 0)
        np.fill_diagonal(moved, 1 - moved.sum(axis=1))
        if (moved >= box.lower).all() and (moved <= box.upper).all():
            chains.append(ut.MarkovChain(moved))
    return box, chains


def test_a_window_of_a_box_of_more_states_is_bounded_by_its_sides():
    box, chains = slow_box(3, np.random.default_rng(2), 0.05)
    for window in (2, 6):
        found = box_leakage(0.3, box, "any", window)
        assert found.lower <= found.upper
        truth = max(exchange_leakage(0.3, chain, "any", window).lower for chain in chains)
        assert truth <= found.upper
        assert found.upper == pytest.approx((window - 1) * 0.3 + contraction_upper(0.3, box))


def test_two_states_are_bounded_a_little_above_the_exact_enclosure():
    box = ChainBox([[0.87, 0.11], [0.29, 0.68]], [[0.89, 0.13], [0.32, 0.71]])
    exact, bound = box_leakage(0.25, box), contraction_leakage(0.25, box)
    assert exact.upper <= bound.upper <= 1.15 * exact.upper


def test_large_levels_small_levels_and_zeros():
    box = ChainBox(np.full((3, 3), 0.2), np.full((3, 3), 0.6))
    for epsilon in (1e-8, 1e-3, 30.0, 400.0):
        leak = contraction_leakage(epsilon, box)
        assert epsilon <= leak.upper <= epsilon + 2 * contraction_rate(box) * (1 + 1e-9)
    open_box = ChainBox(np.zeros((3, 3)), np.ones((3, 3)))
    assert contraction_leakage(0.5, open_box).upper == math.inf
    short = ChainBox(np.zeros((3, 3)), np.ones((3, 3)), length=4)
    assert contraction_leakage(0.5, short).upper == pytest.approx(2.0)


def test_independent_records_leak_their_level():
    law = [[0.2, 0.3, 0.5]] * 3
    assert contraction_leakage(0.7, ChainBox(law, law)).upper == pytest.approx(0.7, abs=1e-9)


def test_plans_under_a_box_of_three_states():
    box = ChainBox(np.full((3, 3), 0.2), np.full((3, 3), 0.6), ("a", "b", "c"))
    plan = ut.calibrate(ut.Histogram(), box, limit=1.0)
    assert plan.leakage.proves(1.0)
    assert 0 < ut.dp_budget(box, limit=1.0) < 1.0
    assert any("unsure" in said for said in plan.leakage.assumptions)


UNTYPED: Any = ut
ROWS = [[0.882, 0.118], [0.305, 0.695]]
BOX = ut.MarkovChain.box([[0.87, 0.11], [0.29, 0.68]], [[0.89, 0.13], [0.32, 0.71]], length=500)
MIXING = ut.MarkovChain.mixing(states=3, pi_min=0.1, gap=0.3, length=400)


def test_a_box_is_worse_than_any_of_its_chains():
    for against in ("any", "ignorant", "informed"):
        whole = ut.leakage(ut.PureDP(1.0), BOX, against)
        for corner in BOX.corners():
            assert ut.leakage(ut.PureDP(1.0), corner, against).lower <= whole.upper
        assert whole.lower <= whole.upper


def test_noise_on_a_box_is_bounded_through_its_level():
    noisy = ut.leakage(ut.Laplace(ut.Count(1), scale=4.0), BOX)
    level = ut.leakage(ut.PureDP(0.25), BOX)
    assert noisy.upper == pytest.approx(level.upper, rel=1e-6)
    assert (noisy.lower, noisy.witness) == (0.0, None)
    plan = ut.calibrate(ut.Histogram(), BOX, limit=1.0)
    assert plan.method == "exchange"
    assert plan.leakage.proves(1.0)
    assert ut.Plan.from_json(plan.to_json()) == plan


def test_a_budget_for_a_box_serves_every_chain_of_it():
    budget = ut.dp_budget(BOX, limit=1.0)
    for corner in BOX.corners():
        assert ut.leakage(ut.PureDP(budget), corner).proves(1.0)
    chain = ut.MarkovChain(ROWS, length=500)
    assert budget < ut.dp_budget(chain, limit=1.0)


def reversible(seed):
    """Return a reversible chain of the class, by its joint law (None if it mixes too slowly)."""
    joint = np.random.default_rng(seed).random((3, 3)) + 2 * np.eye(3) * (seed % 3)
    joint = joint + joint.T + 0.2
    chain = ut.MarkovChain(joint / joint.sum(axis=1, keepdims=True), length=400)
    second = np.sort(np.abs(np.linalg.eigvals(chain.transition)))[-2]
    return chain if second <= 0.7 and chain.initial.min() >= 0.1 else None


def test_a_mixing_class_is_worse_than_its_chains():
    tried = 0
    for level in (0.05, 0.5):
        whole = ut.leakage(ut.PureDP(level), MIXING, "ignorant")
        assert whole.method == "quilt-approx"
        for seed in range(15):
            chain = reversible(seed)
            if chain is not None:
                tried += 1
                assert ut.leakage(ut.PureDP(level), chain, "ignorant").lower <= whole.upper
    assert tried >= 5


def test_whom_a_mixing_class_speaks_about():
    assert ut.leakage(ut.PureDP(0.5), MIXING, "informed").upper == 0.5
    assert ut.leakage(ut.PureDP(0.5), MIXING, "any").upper == pytest.approx(200)
    endless = ut.MarkovChain.mixing(states=3, pi_min=0.1, gap=0.3)
    assert math.isfinite(ut.leakage(ut.PureDP(0.5), endless, "ignorant").upper)
    with pytest.raises(NotSupported, match="give the class a length"):
        ut.leakage(ut.PureDP(0.5), endless, "any")


def test_a_mixing_class_is_calibrated_by_quilts_or_groups():
    plan = ut.calibrate(ut.Histogram(), MIXING, limit=2.0, against="ignorant")
    assert plan.method == "quilt-approx"
    assert plan.leakage.proves(2.0)
    assert ut.calibrate(ut.Histogram(), MIXING, limit=2.0).method == "group"
    assert ut.Plan.from_json(plan.to_json()) == plan
    assert plan.accuracy() > 0


def test_a_note_of_a_set_is_among_the_assumptions():
    models = ut.ModelSet([ut.MarkovChain(ROWS)], note="drawn at random")
    assert "drawn at random" in ut.leakage(ut.PureDP(1.0), models).assumptions


# --- metric privacy -------------------------------------------------------------------------------


@pytest.mark.parametrize("states", [(0, 3), (-1, 2)], ids=str)
def test_metric_privacy_on_two_states_is_a_dp_level(states):
    chain = ut.MarkovChain(ROWS, states=states)
    found = ut.leakage(ut.MetricDP(0.5), chain)
    assert found.upper == pytest.approx(ut.leakage(ut.PureDP(1.5), chain).upper)
    assert found.closed


def test_metric_privacy_on_more_states_is_bounded():
    rows = [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]]
    chain = ut.MarkovChain(rows, states=(0.0, 1.0, 4.0))
    found = ut.leakage(ut.MetricDP(0.25), chain)
    assert found.upper == pytest.approx(ut.leakage(ut.PureDP(1.0), chain).upper)
    assert found.lower == 0.0


def test_metric_privacy_needs_numbers():
    with pytest.raises(NotSupported, match="name the states by numbers"):
        ut.leakage(ut.MetricDP(1.0), ut.MarkovChain(ROWS, states=("a", "b")))
    with pytest.raises(NotSupported, match="how far two values lie apart"):
        ut.leakage(ut.MetricDP(1.0), ut.Groups(3))


# --- questions that make no sense -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "error", "words"),
    [
        (lambda: UNTYPED.Pairs([(0, 0)]), InvalidInput, "same state twice"),
        (lambda: UNTYPED.Pairs([]), InvalidInput, "empty list"),
        (lambda: UNTYPED.Pairs("01"), InvalidInput, "one string"),
        (lambda: UNTYPED.Pairs(["01"]), InvalidInput, "no pair"),
        (lambda: UNTYPED.Pairs([(0, 1, 2)]), InvalidInput, "no pair"),
        (lambda: UNTYPED.Pairs(3), InvalidInput, "something else"),
        (lambda: UNTYPED.Pairs([(0, 7)]), UnknownState, "no state 7"),
        (lambda: UNTYPED.Records([]), InvalidInput, "no record is named"),
        (lambda: UNTYPED.Records([500]), InvalidInput, "record 500"),
        (lambda: UNTYPED.Records([-1]), InvalidInput, "at least 0"),
        (lambda: UNTYPED.Records([1.5]), InvalidInput, "whole number"),
        (lambda: UNTYPED.Records(3), InvalidInput, "list of records"),
    ],
)
def test_bad_secrets_are_refused(secret, error, words):
    chain = ut.MarkovChain(ROWS, length=500)
    with pytest.raises(error, match=words):
        ut.calibrate(ut.Count(1), chain, 1.0, secret=secret())


def test_secrets_travel_with_the_plan():
    chain = ut.MarkovChain(ROWS, states=("a", "b"), length=500)
    plan = ut.calibrate(
        ut.Count("b"),
        chain,
        1.0,
        "ignorant",
        method="quilt",
        secret=ut.Pairs([("b", "a"), ("a", "b")], [4, 2]),
    )
    again = ut.Plan.from_json(plan.to_json())
    assert again == plan
    assert again.leakage.secret.value_pairs == (("b", "a"),)
    assert again.leakage.secret.targets == (2, 4)
    assert "between 'b' and 'a' of record 2 or 4" in plan.guarantee()
    assert (
        "between any two values of one record"
        in ut.calibrate(ut.Count("b"), chain, 1.0).guarantee()
    )
