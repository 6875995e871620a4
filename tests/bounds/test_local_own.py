"""Series shown record by record: reference numbers, brute force, and the parts of the machinery."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from undertow.adversaries import Adversary
from undertow.bounds.channels.flips import channel_leakage, local_leakage
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import RandomizedResponse, XorNoise
from undertow.models.chains import MarkovChain

THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
SLOW = settings(max_examples=25, deadline=None, derandomize=True, database=None)


def two(q, r, length=None, **more):
    return MarkovChain([[1 - q, q], [r, 1 - r]], length=length, **more)


def rows(rng, count, size, zeros=0.0):
    found = rng.dirichlet(np.ones(size), size=count)
    keep = rng.random(found.shape) >= zeros
    keep[np.arange(count), rng.integers(size, size=count)] = True
    found = found * keep
    return found / found.sum(axis=1, keepdims=True)


def attack_of(found):
    assert found.witness is not None
    return found.witness


def check(found, value, digits=9):
    assert found.method == "exact"
    assert found.lower == pytest.approx(value, abs=10.0**-digits)
    assert found.upper == pytest.approx(value, abs=10.0**-digits)
    assert found.upper - found.lower <= 1e-10 * max(1.0, found.upper)


# --- reference numbers ----------------------------------------------------------------------------


def test_the_worst_attack_knows_opposite_values():
    attack = attack_of(local_leakage(RandomizedResponse.binary(0.02, 0.02), two(0.1, 0.1, 5)))
    assert attack.target == 2
    assert len(set(dict(attack.known).values())) == 1
    assert dict(attack.known).keys() == {0, 4}
    assert attack.value != attack.known[0][1]
    assert dict(attack.outputs) == dict.fromkeys((1, 2, 3), attack.value)


@pytest.mark.parametrize(
    ("rho", "value"), [(0.2, 6.707247184), (0.4, 3.976119108), (0.6, 1.051007076)]
)
def test_three_states(rho, value):
    check(local_leakage(RandomizedResponse.symmetric(3, rho), MarkovChain(THREE, length=5)), value)


def test_the_heart_record():
    """The chain of record N10 is recovered from the printed flips at epsilon 5."""
    rho0, rho1, e = 0.252385, 0.195807, math.exp(2.5)
    m, n = math.sqrt((1 - rho0) / rho1), math.sqrt((1 - rho1) / rho0)
    system = [[m - e * m * m, e - e * e * m], [e - e * e * n, n - e * n * n]]
    q, r = np.linalg.solve(system, [e - e * m * m, e - e * n * n])
    chain, flips = two(q, r), RandomizedResponse.binary(rho0, rho1)
    assert local_leakage(flips, chain, "ignorant").upper == pytest.approx(5, abs=1e-6)
    assert local_leakage(flips, chain).upper == pytest.approx(6.1466, abs=1e-4)


@pytest.mark.parametrize(("epsilon", "rate", "moves"), [(4, 0.313112, 0.45), (6, 0.128056, 0.27)])
def test_noise_that_is_a_chain(epsilon, rate, moves):
    noise, chain = XorNoise(rate * moves, (1 - rate) * moves), two(0.1, 0.1)
    check(local_leakage(noise, chain), epsilon, 5)
    assert local_leakage(noise, two(0.1, 0.1, 60)).upper < epsilon
    flips = RandomizedResponse.binary(rate, rate)
    assert local_leakage(flips, chain).lower > epsilon + 0.5


# --- brute force ----------------------------------------------------------------------------------


def likelihoods(mechanism, n):
    """Pr[z | x] for all series x and outputs z, (k^n, m^n)."""
    if isinstance(mechanism, XorNoise):
        a, b = mechanism.rho0, mechanism.rho1
        noise, law = np.array([[1 - a, a], [b, 1 - b]]), np.array([b, a]) / (a + b)
        series = list(itertools.product((0, 1), repeat=n))
        table = np.empty((2**n, 2**n))
        for (i, x), (j, z) in itertools.product(enumerate(series), enumerate(series)):
            w = [s ^ t for s, t in zip(x, z, strict=True)]
            table[i, j] = law[w[0]] * math.prod(noise[pair] for pair in itertools.pairwise(w))
        return table
    stack = np.asarray(mechanism)
    stack = np.broadcast_to(stack, (n, *stack.shape[-2:]))
    table = np.ones((1, 1))
    for channel in stack:
        table = np.kron(table, channel)
    return table


def brute(chain, mechanism, against):
    """The largest log-ratio by going through everything."""
    n, k = chain.length, chain.size
    joint = chain.initial
    for record in range(n - 1):
        joint = joint[..., None] * chain.step(record)
    full = (joint.reshape(-1, 1) * likelihoods(mechanism, n)).reshape(*joint.shape, -1)
    best = 0.0
    for target in range(n):
        others = [t for t in range(n) if t != target]
        sets: Any = {"any": [c for s in range(n) for c in itertools.combinations(others, s)],
                "ignorant": [()], "informed": [tuple(others)]}.get(str(against), [])  # fmt: skip
        if isinstance(against, Adversary):
            sets = [against.known] if against.target == target else []
        for known in sets:
            gone = tuple(t for t in others if t not in known)
            place = sorted((*known, target)).index(target)
            seen = np.moveaxis(full.sum(axis=gone), place, -2).reshape(-1, k, full.shape[-1])
            prior = np.moveaxis(joint.sum(axis=gone), place, -1).reshape(-1, k)
            for x, y in itertools.permutations(range(k), 2):
                real = (prior[:, x] > 0) & (prior[:, y] > 0)
                with np.errstate(divide="ignore", invalid="ignore"):
                    given = np.log(seen[real] / prior[real][:, :, None])
                    ratio = given[:, x] - given[:, y]
                best = max(best, float(np.nanmax(ratio, initial=0.0)))
    return best


@SLOW
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([2, 2, 3]), st.sampled_from(["flips", "own", "xor"])
)
def test_against_brute_force(seed, size, kind):
    rng = np.random.default_rng(seed)
    n, zeros = int(rng.integers(2, 5)), rng.choice([0.0, 0.4])
    steps = np.array([rows(rng, size, size, zeros) for _ in range(n - 1)])
    chain = MarkovChain(steps, start=rows(rng, 1, size, zeros)[0])
    if rng.random() < 0.5:
        chain = MarkovChain(steps[0], start=chain.start, length=n)
    target = int(rng.integers(n))
    one = Adversary(target, [t for t in range(n) if t != target and rng.random() < 0.5])
    mechanism: Any
    for against in ("any", "ignorant", "informed", one):
        if kind == "xor" and size == 2:
            mechanism = XorNoise(*rng.random(2))
            found = local_leakage(mechanism, chain, against)
        else:
            count = n if kind == "own" else 1
            mechanism = np.array([rows(rng, size, 3, zeros) for _ in range(count)])
            mechanism = mechanism if kind == "own" else mechanism[0]
            found = channel_leakage(mechanism, chain, against)
        truth = brute(chain, mechanism, against)
        assert found.method == "exact"
        assert found.lower <= truth + 1e-12 * max(1.0, truth) or math.isinf(truth)
        assert found.upper >= truth - 1e-12


# --- witnesses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [9, None])
@pytest.mark.parametrize("size", [2, 3])
def test_a_witness_attains_the_lower_end(size, length):
    rng = np.random.default_rng(size)
    chain = MarkovChain(rows(rng, size, size), states=list("abc")[:size], length=length)
    channel = rows(rng, size, 4)
    found = channel_leakage(channel, chain, outputs=["w", "x", "y", "z"])
    attack = attack_of(found)
    known, shown = dict(attack.known), dict(attack.outputs)
    logs = []
    for value in (attack.value, attack.other):
        parts = []
        for looks in (True, False):
            law = chain.initial.copy()
            for record in range(attack.length):
                law = law @ chain.transition if record else law
                fixed = value if record == attack.target else known.get(record)
                if fixed is not None:
                    law = law * (np.array(chain.states) == fixed)
                if looks and record in shown:
                    law = law * channel[:, "wxyz".index(shown[record])]
            parts.append(math.log(law.sum()))
        logs.append(parts[0] - parts[1])
    assert logs[0] - logs[1] == pytest.approx(found.lower, abs=1e-11)


# --- lengths, starts, supports --------------------------------------------------------------------


@pytest.mark.parametrize("who", ["any", "ignorant"])
@pytest.mark.parametrize("start", ["stationary", [1.0, 0.0], [0.3, 0.7]])
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.1), (0.9, 0.8), (0.0005, 0.001), (1.0, 0.4)])
def test_any_length_is_the_supremum(q, r, start, who):
    flips = RandomizedResponse([[0.5, 0.3, 0.2], [0.2, 0.35, 0.45]])
    endless = local_leakage(flips, two(q, r, start=start), who)
    assert endless.method == "exact"
    shorter = 0.0
    for n in (2, 5, 30, 800):
        found = local_leakage(flips, two(q, r, n, start=start), who)
        assert found.lower <= endless.upper
        shorter = max(shorter, found.upper)
    if q > 0.001:
        assert shorter == pytest.approx(endless.lower, abs=1e-6)


def test_time_varying_chains_agree_with_homogeneous_ones():
    channel = [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]
    for q, r in ((0.2, 0.1), (0.8, 0.9), (0.0, 0.5), (1.0, 1.0)):
        alike = MarkovChain([[1 - q, q], [r, 1 - r]], start=[0.4, 0.6], length=12)
        stack = MarkovChain([alike.transition] * 11, start=[0.4, 0.6])
        for who in ("any", "ignorant", "informed", Adversary(5, [1, 9])):
            expected = channel_leakage(channel, alike, who)
            for found in (
                channel_leakage(channel, stack, who),
                channel_leakage([channel] * 12, alike, who),
            ):
                assert found.upper == pytest.approx(expected.upper, abs=1e-11)
                assert found.method == "exact"


@pytest.mark.parametrize(
    ("transition", "start"),
    [
        ([[0, 1], [1, 0]], "stationary"),
        ([[1, 0], [0, 1]], [0.5, 0.5]),
        ([[1, 0], [0.3, 0.7]], [0, 1]),
    ],
)
def test_leakage_without_bound(transition, start):
    flips = RandomizedResponse.binary(0.2, 0.3)
    for who in ("any", "ignorant"):
        found = local_leakage(flips, MarkovChain(transition, start=start), who)
        assert (found.lower, found.upper) == (math.inf, math.inf)
        finite = [
            local_leakage(flips, MarkovChain(transition, start=start, length=n), who).upper
            for n in (10, 20, 30)
        ]
        assert finite[1] > finite[0] + 2
        assert finite[2] > finite[1] + 2
    nothing = RandomizedResponse([[0.5, 0.5], [0.5, 0.5]])
    assert local_leakage(nothing, MarkovChain(transition, start=start)).upper == 0


def test_certain_records_leak_nothing():
    flips = RandomizedResponse.binary(0.2, 0.3)
    for start, transition in (([1, 0], [[0, 1], [1, 0]]), ("stationary", [[1, 0], [0.5, 0.5]])):
        found = local_leakage(flips, MarkovChain(transition, start=start))
        assert (found.lower, found.upper, found.witness) == (0, 0, None)


def test_states_that_never_occur_are_left_out():
    chain = MarkovChain([[0.9, 0.1, 0], [0.2, 0.8, 0], [0.3, 0.3, 0.4]], states=list("abc"))
    channel = [[0.7, 0.3], [0.4, 0.6], [0.01, 0.99]]
    found = channel_leakage(channel, chain)
    check(found, channel_leakage(channel[:2], two(0.1, 0.2)).upper)
    assert {attack_of(found).value, attack_of(found).other} == {"a", "b"}


def test_targets_asked_for():
    chain, channel = two(0.2, 0.1, 9), [[0.6, 0.4], [0.3, 0.7]]
    single = [channel_leakage(channel, chain, targets=[t]).upper for t in range(9)]
    assert max(single) == pytest.approx(channel_leakage(channel, chain).upper, abs=1e-12)
    assert single[0] < single[4]
    both = channel_leakage(channel, chain, targets=[0, 8])
    assert both.upper == pytest.approx(max(single[0], single[8]), abs=1e-12)
    assert attack_of(both).target in (0, 8)


def test_erased_records():
    """Shown or erased with probability 1/2, the protected one always erased."""
    chain = two(0.25, 0.25, 3)
    half, never = [[0.5, 0, 0.5], [0, 0.5, 0.5]], [[0, 0, 1], [0, 0, 1]]
    found = channel_leakage([half, never, half], chain, targets=[1], outputs=[0, 1, None])
    check(found, 2 * math.log(3))  # both neighbours shown
    assert channel_leakage([half] * 3, chain).lower == math.inf
    tail = channel_leakage([half, never, half], chain, targets=[1], outputs=[0, 1, None])
    assert {output for _, output in attack_of(tail).outputs} <= {0, 1, None}


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "more", "words"),
    [
        ([[0.5, 0.5]] * 3, {}, "has 2 states"),
        ([[[0.5, 0.5]] * 2] * 4, {}, "channels for 4 records"),
        ([[0.5, 0.5], [0.2, 0.8]], {"targets": [5]}, "record 5 is outside"),
        ([[0.5, 0.5], [0.2, 0.8]], {"targets": []}, "no targets"),
        ([[0.5, 0.5], [0.2, 0.8]], {"outputs": ["a"]}, "2 outputs need 2 names"),
        ([[0.5, 0.5], [0.2, 0.8]], {"against": Adversary(1, [5])}, "record 5 is outside"),
        ([[0.5, 0.5], [0.2, 0.8]], {"against": Adversary(1), "targets": [2]}, "not among"),
        ([[0.5, 0.5], [0.2, 0.8]], {"against": "nobody"}, "against must be"),
        ([[0.5, 0.5], [0.2, 0.8]], {"effort": -1}, "effort must be at least 0"),
    ],
)
def test_refusals(channels, more, words):
    with pytest.raises(InvalidInput, match=words):
        channel_leakage(channels, two(0.1, 0.2, 5), **more)


def test_noise_modulo_two_needs_two_states():
    with pytest.raises(NotSupported, match="3 states"):
        local_leakage(XorNoise(0.1, 0.2), MarkovChain(THREE))
