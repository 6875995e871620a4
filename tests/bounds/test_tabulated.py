"""What noise with a table leaks: against enumeration, in the tails, and beyond the reach."""

import itertools
import math

import numpy as np
import pytest

import undertow as ut
from tests.grids import each
from tests.oracles.attackers import random_chain
from tests.oracles.tables import chain_joint, enumerated, probability, random_noise
from undertow.bounds.counts.laws import CountPairs, count_windows, fading
from undertow.bounds.counts.tables import largest_loss, table_leakage
from undertow.errors import NotSupported
from undertow.mechanisms import TabulatedNoise

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]


def stationary(rng, states, length):
    rows = random_chain(rng, states, 2).transition
    return ut.MarkovChain(rows, length=length)


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize(
    ("states", "length", "counted"), [(2, 2, {1}), (2, 5, {0}), (3, 4, {0, 2})]
)
def test_chains_equal_enumeration(states, length, counted, against):
    """All adversaries, all answers of the table and five into either tail, two random tables."""
    rng = np.random.default_rng(states * 10 + length)
    for places, ratio in ((3, 0.5), (9, 0.75)):
        chain = stationary(rng, states, length)
        noise = random_noise(rng, ut.Count(tuple(counted)), places, ratio)
        leak = ut.leakage(noise, chain, against)
        truth = enumerated(noise, chain_joint(chain), counted, against)
        assert leak.method == "exact"
        assert leak.lower - 1e-13 <= truth <= leak.upper + 1e-13
        assert leak.upper - leak.lower < 1e-11


def differing(rng, states, length, zeros):
    """A chain whose start is given and whose steps differ; some of both may be impossible."""

    def law(*shape):
        made = rng.random((*shape, states)) + 0.05
        if zeros:
            made[..., 0] *= rng.random(shape) < 0.6
        return made / made.sum(axis=-1, keepdims=True)

    steps = law(length - 1, states) if zeros or states == 3 else law(states)
    return ut.MarkovChain(steps, start=law(), length=length)


@each(
    (("states", "length"), "against", "zeros"),
    [(2, 2), (2, 5), (3, 4)], ["any", "ignorant"], [False, True],
)  # fmt: skip
def test_differing_steps_equal_enumeration(states, length, against, zeros):
    rng = np.random.default_rng(states * 10 + length)
    for places, ratio in ((3, 0.5), (9, 0.75)):
        chain = differing(rng, states, length, zeros)
        noise = random_noise(rng, ut.Count(1), places, ratio)
        leak = ut.leakage(noise, chain, against)
        truth = enumerated(noise, chain_joint(chain), {1}, against)
        assert leak.method == "exact"
        assert leak.lower - 1e-13 <= truth <= leak.upper + 1e-13
        assert leak.upper - leak.lower < 1e-11
        attack = replay_table(leak.witness, chain, noise)
        assert attack == pytest.approx(leak.lower, abs=1e-11)


def replay_table(witness, chain, noise):
    """What an attack attains, from the joint law: the answer includes all known records."""
    joint, known = chain_joint(chain), dict(witness.known)
    laws = []
    for value in (witness.value, witness.other):
        fixed = known | {witness.target: value}
        law = np.zeros(chain.length + 1)
        for path in np.ndindex(*joint.shape):
            if all(chain.states[path[record]] == state for record, state in fixed.items()):
                law[sum(state == 1 for state in path)] += joint[path]
        laws.append(law / law.sum())
    answer = witness.output + sum(state == 1 for state in known.values())
    likelihoods = [
        sum(share * float(probability(noise, answer - count)) for count, share in enumerate(law))
        for law in laws
    ]
    return np.log(likelihoods[0] / likelihoods[1])


def test_steps_that_differ_have_a_length_and_not_too_many_windows():
    noise = random_noise(np.random.default_rng(0), ut.Count(1), 3)
    for length, said in ((None, "a stated length"), (400, "too many to enumerate")):
        chain = ut.MarkovChain(ACTIVITY, start=[1, 0], length=length)
        with pytest.raises(NotSupported, match=said):
            table_leakage(noise, chain, "any")


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_networks_equal_enumeration(against):
    rng = np.random.default_rng(4)
    tables = {"a": [0.3, 0.7], "b": [[0.9, 0.1], [0.4, 0.6]], "c": [[0.2, 0.8], [0.5, 0.5]]}
    fork = ut.BayesianNetwork([("a", "b"), ("a", "c")], tables)
    joint = np.einsum("a,ab,ac->abc", *(np.array(table) for table in tables.values()))
    alone = ut.BayesianNetwork([], {"a": [0.3, 0.7], "b": [0.5, 0.5]})
    for model, law in ((fork, joint), (alone, np.outer([0.3, 0.7], [0.5, 0.5]))):
        noise = random_noise(rng, ut.Count(1), 5)
        leak = ut.leakage(noise, model, against)
        truth = enumerated(noise, law, {1}, against)
        assert leak.lower - 1e-13 <= truth <= leak.upper + 1e-13
        assert leak.closed


def test_the_discrete_laplace_law_in_a_table_leaks_what_it_leaks():
    """A table of the discrete Laplace law, to 2^-128: the leakage of the law itself."""
    ratio = round(np.exp(-0.25) * 2**48) / 2**48
    share = 2**128 / (1 + ratio) * (1 - ratio)
    inner = [int(share * ratio ** abs(z)) for z in range(-3, 4)]
    tail = (2**128 - sum(inner)) // 2
    weights = (tail, *inner, 2**128 - sum(inner) - tail)
    noise = TabulatedNoise(ut.Count(1), -4, weights, ratio)
    for against in ("any", "ignorant"):
        chain = ut.MarkovChain(ACTIVITY, length=30)
        expected = ut.leakage(ut.DiscreteLaplace(ut.Count(1), 4.0), chain, against).upper
        assert ut.leakage(noise, chain, against).upper == pytest.approx(expected, abs=1e-10)


def test_any_length_covers_every_length():
    """Sides beyond the reach are charged: no length exceeds what is proved for all of them."""
    rng = np.random.default_rng(3)
    for rows in (ACTIVITY, [[0.3, 0.7], [0.8, 0.2]]):
        noise = random_noise(rng, ut.Count(1), 5, 0.75)
        every = ut.leakage(noise, ut.MarkovChain(rows)).upper
        known = [ut.leakage(noise, ut.MarkovChain(rows, length=n)) for n in (2, 6, 9, 40, 1000)]
        assert all(leak.lower <= every for leak in known)
        assert every <= max(leak.upper for leak in known) + 1e-3


def attained(attack, joint, noise):
    """The log ratio that an attack sees, from the joint law: states 1 are counted."""
    known, shares = dict(attack.known), []
    for value in (attack.value, attack.other):
        facts = {**known, attack.target: value}
        part = joint[tuple(facts.get(t, slice(None)) for t in range(joint.ndim))]
        total = 0.0
        for hidden in np.ndindex(part.shape):
            total += part[hidden] * float(noise.exact(attack.output - sum(hidden) - value))
        shares.append(total / part.sum())
    return np.log(shares[0] / shares[1])


def test_witnesses_attain_the_lower_end():
    """The attack of the certificate, by the definition: what is known, two values, one answer."""
    rng = np.random.default_rng(8)
    chain = stationary(rng, 2, 6)
    noise = random_noise(rng, ut.Count(1), 7)
    leak = ut.leakage(noise, chain)
    assert attained(leak.witness, chain_joint(chain), noise) == pytest.approx(leak.lower, abs=1e-11)


def test_witnesses_on_networks():
    tables = {"a": [0.3, 0.7], "b": [[0.9, 0.1], [0.4, 0.6]], "c": [[0.2, 0.8], [0.5, 0.5]]}
    fork = ut.BayesianNetwork([("a", "b"), ("a", "c")], tables)
    joint = np.einsum("a,ab,ac->abc", *(np.array(table) for table in tables.values()))
    for seed in range(4):
        noise = random_noise(np.random.default_rng(seed), ut.Count(1), 5)
        leak = ut.leakage(noise, fork)
        assert attained(leak.witness, joint, noise) == pytest.approx(leak.lower, abs=1e-11)


def test_other_adversaries_and_models_go_through_the_level():
    noise = random_noise(np.random.default_rng(2), ut.Count(1), 5)
    level = noise.level_upper()
    chain = ut.MarkovChain(ACTIVITY, length=4)
    assert ut.leakage(noise, chain, "informed").upper == level
    some = ut.leakage(noise, chain, ut.Adversary(1, (0,)))
    assert some.upper == ut.leakage(noise, chain).upper
    assert some.lower == 0
    assert ut.leakage(noise, ut.Groups(3)).upper == ut.leakage(ut.PureDP(level), ut.Groups(3)).upper
    started = ut.MarkovChain(ACTIVITY, start=[1.0, 0.0], length=400)
    bound = ut.leakage(noise, started)
    assert bound.valid_for == "any"
    assert bound.upper == ut.leakage(ut.PureDP(level), started).upper
    windows = ut.leakage(noise, chain, valid_for="windows")
    assert windows.upper == ut.leakage(ut.PureDP(level), chain).upper
    certain = ut.MarkovChain([[1.0, 0.0], [0.0, 1.0]], start=[1.0, 0.0])
    assert ut.leakage(noise, certain).upper == 0
    assert ut.leakage(noise, chain, delta=1e-6).upper <= ut.leakage(noise, chain).upper


def test_a_chain_of_long_memory_is_refused():
    noise = random_noise(np.random.default_rng(2), ut.Count(1), 5)
    slow = ut.MarkovChain([[0.9999, 0.0001], [0.0001, 0.9999]])
    with pytest.raises(NotSupported, match="remembers for more than"):
        table_leakage(noise, slow, "any")


def test_pairs_that_stand_for_others_are_charged_for_them():
    noise = TabulatedNoise(ut.Count(1), -1, (2**126, 2**127, 2**126), 0.5)
    laws = np.array([[0.75, 0.25]])
    pairs = CountPairs(laws, laws[:, ::-1], np.array([0.5]), np.array([True]), 0.0)
    lower, upper, _, _ = largest_loss(pairs, noise)
    assert 0.5 < lower + 0.5 <= upper


@pytest.mark.parametrize("reach", [4, 8])
def test_sides_beyond_the_reach_are_paid_for(reach):
    chain, counted = ut.MarkovChain(ACTIVITY), np.array([False, True])
    windows = count_windows(chain, counted, reach)
    assert windows.pairs.slack.max() == fading(chain, reach) > 0
    whole = count_windows(ut.MarkovChain(ACTIVITY, length=reach + 1), counted, reach)
    assert not whole.pairs.slack.any()


@pytest.mark.parametrize("steps", [1, 3])
def test_what_is_known_beyond_the_reach_moves_no_two_values_further_than_it_costs(steps):
    """Any two records known out there, on either side, for every pair of values at the target."""
    chain = ut.MarkovChain([[0.7, 0.2, 0.1], [0.05, 0.15, 0.8], [0.3, 0.3, 0.4]])
    most = 0.0
    for one in (chain, chain.reverse()):
        power = np.linalg.matrix_power(one.transition, steps)
        moved = [
            math.log(power[x, z] / power[y, z]) - math.log(power[x, w] / power[y, w])
            for x, y, z, w in itertools.product(range(3), repeat=4)
        ]
        most += max(moved)
    assert most <= fading(chain, steps) <= most + 1e-9
