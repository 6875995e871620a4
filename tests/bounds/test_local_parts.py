"""Series shown record by record: the parts of the machinery, against each other and plain sums."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from undertow.adversaries import Adversary
from undertow.bounds.channels import flips as local
from undertow.bounds.channels.flips import channel_leakage, join, local_leakage
from undertow.bounds.channels.hulls import (
    Bounded,
    FewStates,
    MessageHull,
    Strides,
    contraction,
    diameters,
    next_bounds,
    prune,
    thin,
)
from undertow.bounds.channels.two_states import Products, TwoStates, climb, intervals, observe, rung
from undertow.bounds.levels.sides import ordered_pairs
from undertow.mechanisms import RandomizedResponse, XorNoise
from undertow.models.chains import MarkovChain

SLOW = settings(max_examples=25, deadline=None, derandomize=True, database=None)


def two(q, r, length=None, **more):
    return MarkovChain([[1 - q, q], [r, 1 - r]], length=length, **more)


def rows(rng, count, size, zeros=0.0):
    found = rng.dirichlet(np.ones(size), size=count)
    keep = rng.random(found.shape) >= zeros
    keep[np.arange(count), rng.integers(size, size=count)] = True
    found = found * keep
    return found / found.sum(axis=1, keepdims=True)


def check(found, value, digits=9):
    assert found.method == "exact"
    assert found.lower == pytest.approx(value, abs=10.0**-digits)
    assert found.upper == pytest.approx(value, abs=10.0**-digits)
    assert found.upper - found.lower <= 1e-10 * max(1.0, found.upper)


# --- the parts agree ------------------------------------------------------------------------------


@pytest.mark.parametrize(("q", "r"), [(0.2, 0.1), (0.9, 0.8), (0.5, 0.5)])
@pytest.mark.parametrize("side", [-1, 1])
def test_products_are_the_extreme_messages(q, r, side):
    observed = observe(two(q, r, 40, start=[0.2, 0.8]), [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    products = Products(observed, side)
    products.grow(30)
    fast = products.rung()
    for step, extremes in enumerate(intervals(observed, side, 30)):
        slow = rung(*extremes)
        for name in ("known", "free", "top", "base", "law"):
            pair = getattr(fast, name)[step], getattr(slow, name)[0]
            np.testing.assert_allclose(*pair, atol=1e-11)
        assert (fast.known_upper[step] >= slow.known[0]).all()
        assert (slow.known_upper[0] >= fast.known[step]).all()


@pytest.mark.parametrize("side", [-1, 1])
def test_climbing_is_the_same_for_each_target(side):
    rng = np.random.default_rng(3)
    chain = MarkovChain([rows(rng, 2, 2) for _ in range(9)], start=[0.2, 0.8])
    observed = observe(chain, [rows(rng, 2, 3) for _ in range(10)])
    targets = np.array([2, 4, 5])
    read = zip(climb(observed, side, targets, 2), intervals(observed, side, 2), strict=True)
    for fast, extremes in read:
        slow = rung(*(part[targets] for part in extremes))
        np.testing.assert_allclose(fast.known, slow.known, atol=1e-12)
        np.testing.assert_allclose(fast.free, slow.free, atol=1e-12)


def test_hulls_and_maps_agree_on_two_states():
    observed = observe(two(0.2, 0.1, 20, start=[0.1, 0.9]), [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    for who in ("any", "ignorant", Adversary(9, [3, 15])):
        one = join(observed, TwoStates(observed), who, None)
        for strides in (None, Strides.of(1, True)):
            other = join(observed, FewStates(observed, True, 256, strides), who, None)
            assert other.upper == pytest.approx(one.upper, abs=1e-10)


def test_noise_without_memory_is_flips():
    for rho in (0.1, 0.45):
        noise, flips = XorNoise(rho, 1 - rho), RandomizedResponse.binary(rho, rho)
        for chain in (two(0.2, 0.1), two(0.9, 0.6, 15)):
            for who in ("any", "ignorant", "informed", Adversary(3, [1])):
                check(local_leakage(noise, chain, who), local_leakage(flips, chain, who).upper)


# --- hulls and bounds -----------------------------------------------------------------------------


@SLOW
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_what_is_dropped_lies_inside(seed, size):
    rng = np.random.default_rng(seed)
    corners = np.exp(rng.normal(0, 3, (size + 2, size)))
    cloud = np.concatenate([corners, rng.dirichlet(np.ones(len(corners)), 40) @ corners])
    cloud = cloud / cloud.max(axis=1, keepdims=True)
    keep, delta, _ = prune(cloud)
    assert len(keep) <= len(corners)
    assert delta <= 1e-12
    for _ in range(20):  # every later log-ratio is attained by what is kept
        functionals = np.exp(rng.normal(0, 3, (2, size)))
        ratio = np.log(cloud @ functionals[0]) - np.log(cloud @ functionals[1])
        assert ratio.max() <= ratio[keep].max() + 2 * delta + 1e-13


def test_a_round_hull_is_thinned_and_charged():
    angle = np.linspace(0, 2 * math.pi, 3000, endpoint=False)
    circle = np.stack([1 + 0.5 * np.cos(angle), 1 + 0.5 * np.sin(angle), np.ones(3000)], axis=1)
    keep, _, _ = prune(circle)
    assert len(keep) > 2900
    fewer, delta, _ = thin(circle, keep, 100)
    assert len(fewer) <= 110
    assert 1e-6 < delta < 1e-2
    rng = np.random.default_rng(0)
    for _ in range(50):
        functionals = np.exp(rng.normal(0, 2, (2, 3)))
        ratio = np.log(circle @ functionals[0]) - np.log(circle @ functionals[1])
        assert ratio.max() <= ratio[fewer].max() + 2 * delta


def test_contraction_bounds_every_step():
    rng = np.random.default_rng(1)
    kernel = rng.dirichlet(np.ones(3), 3)
    factor = contraction(kernel)
    assert factor < 1
    for _ in range(200):
        one, other = np.exp(rng.normal(0, 4, (2, 3)))
        before, after = np.log(one / other), np.log((kernel @ one) / (kernel @ other))
        assert np.ptp(after) <= factor * np.ptp(before) + 1e-12
    assert contraction(np.array([[1.0, 0.0], [0.5, 0.5]])) == 1


@SLOW
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_pairwise_bounds_hold(seed, size):
    rng = np.random.default_rng(seed)
    value, other = ordered_pairs(size)
    messages = np.exp(rng.normal(0, 2, (6, size)))
    logs = np.log(messages)
    bounds = np.zeros((size, size))
    bounds[value, other] = (logs[:, value] - logs[:, other]).max(axis=0)
    links = rng.random((3, size, size)) * (rng.random((3, 1, size)) > 0.2)
    after = next_bounds(links, bounds)
    for link in links:
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.log(messages @ link.T)
            ratio = np.nan_to_num(moved[:, value] - moved[:, other], nan=-np.inf)
        assert (ratio.max(axis=0) <= after[value, other] + 1e-12).all()


def test_a_beam_that_leaves_messages_out_is_still_bounded():
    rng = np.random.default_rng(2)
    kernel, channel = rows(rng, 3, 3), rows(rng, 3, 3)
    value, other = ordered_pairs(3)
    some = Bounded.single(np.ones(3), Strides(beam=4, budget=4096, alike=True))
    every = MessageHull.single(np.ones(3))
    for _ in range(8):
        some = some.step(kernel, channel, 1.0)
        every = every.step(kernel, channel, 1.0)
        exact = every.ratios(value, other)[0]
        found, bound = some.ratios(value, other)
        assert (found <= exact + 1e-12).all()
        assert (bound >= exact - 1e-12).all()
    assert not some.complete


def test_many_states_are_enclosed():
    rng = np.random.default_rng(4)
    transition = rows(rng, 5, 5) + 0.3 * np.eye(5)
    chain = MarkovChain(transition / transition.sum(axis=1, keepdims=True), length=8)
    flips = RandomizedResponse.symmetric(5, 0.5)
    exact = local_leakage(flips, chain, effort=3)
    assert exact.method == "exact"
    widths = []
    for effort in (0, 1, 2):
        found = local_leakage(flips, chain, effort=effort)
        assert found.lower <= exact.upper
        assert found.upper >= exact.lower
        widths.append(found.upper - found.lower)
    assert widths[0] >= widths[2]
    assert widths[2] < 0.1 * exact.upper


def test_a_hull_that_overflows_falls_back_to_the_exchange_rate(monkeypatch):
    monkeypatch.setattr(local, "CORNERS", 1)
    chain = MarkovChain([[0.9, 0.1, 0], [0.1, 0.8, 0.1], [0, 0.1, 0.9]], length=12)
    channel = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]]
    rough = channel_leakage(channel, chain, effort=1)
    monkeypatch.undo()
    exact = channel_leakage(channel, chain)
    assert exact.method == "exact"
    assert rough.lower <= exact.upper
    assert exact.lower <= rough.upper < math.inf


# --- what lies beyond ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_diameters_bound_what_the_far_end_of_a_side_can_change(seed):
    """Every pair of far messages, read through every string of outputs."""
    rng = np.random.default_rng(seed)
    kernel, channel = rows(rng, 3, 3), rows(rng, 3, 2)
    bounds = diameters(kernel, channel, 16)
    far = np.concatenate([np.eye(3), rows(rng, 2, 3)])  # (messages, states)
    cloud = far @ kernel.T  # (strings messages, states)
    for step, bound in enumerate(bounds[:8]):
        if step:
            cloud = np.concatenate([(cloud * channel[:, z]) @ kernel.T for z in range(2)])
        logs = np.log(cloud).reshape(-1, len(far), 3)
        apart = np.ptp(logs[:, :, None] - logs[:, None], axis=3).max()  # Hilbert's metric
        assert apart <= bound
        assert bound <= (1 + 1e-9) * apart + 1e-12  # measured, not only bounded
    assert (np.diff(bounds) <= 0).all()


@pytest.mark.parametrize("start", ["stationary", [0.7, 0.2, 0.1]])
@pytest.mark.parametrize("length", [None, 90])
def test_the_rest_of_a_side_is_bounded_as_if_it_were_read(start, length):
    """Against who knows nothing: by how fast it is forgotten, or by families of known records."""
    chain = MarkovChain(
        [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.25, 0.35, 0.4]], start=start, length=length
    )
    observed = observe(chain, [[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.2, 0.3, 0.5]])
    fast, slow = (
        join(observed, FewStates(observed, True, 1024, tails=tails), "ignorant", None)
        for tails in (True, False)
    )
    assert fast.upper == pytest.approx(slow.upper, abs=2e-11)
    assert (
        fast.upper - 1e-10
        <= local_leakage(RandomizedResponse(observed.channels[0]), chain, "ignorant").lower
    )


def test_thinning_out_spares_what_others_cannot_stand_for():
    """A round hull: the messages kept stand for all others to a small factor."""
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    cloud = np.exp(np.stack([np.cos(angle), np.sin(angle), np.zeros(400)], axis=1))
    cloud /= cloud.max(axis=1, keepdims=True)
    keep, delta, _ = thin(cloud, np.arange(400), 200)
    assert len(keep) <= 200 + 200 // 8
    assert delta < 6e-3  # 7.4e-3 where none is spared
