"""Attractive laws: verdicts against whole tables, and what one adversary learns."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.memory_chains import chain, draw
from tests.golden.replay import replayed
from tests.grids import law
from tests.oracles import memory as oracle
from undertow.bounds.memory.attractive import best_case, chain_sums
from undertow.errors import InvalidInput, NotSupported
from undertow.models import is_attractive
from undertow.models.attractive import (
    Attractiveness,
    hidden_margin,
    order_margin,
)
from undertow.models.lowered import LoweredLaw
from undertow.models.second_order import SecondOrderChain

REAL = {  # counts of runs of three, in the order 000 .. 111, and the margin of the fit
    "activity": ((8838, 879, 491, 804, 879, 416, 804, 2151), 0.4909),
    "N5": ((5687, 2225, 1047, 1430, 2226, 252, 1431, 2559), -1.2401),
    "N10": ((12373, 1105, 381, 942, 1106, 218, 943, 9853), 0.7917),
    "power": ((13629, 2652, 765, 2459, 2652, 572, 2460, 9398), 0.1030),
    "deep sleep": ((17178, 285, 193, 219, 280, 129, 215, 2438), 0.7893),
}


def fitted(name, **more):
    counts = np.array(REAL[name][0], dtype=float).reshape(2, 2, 2)
    return SecondOrderChain(counts / counts.sum(axis=2, keepdims=True), **more)


def least_difference(law):
    """Return the least second difference of the logarithm of a whole table."""
    logs, least = np.log(law), math.inf
    for i, j in itertools.combinations(range(law.ndim), 2):
        moved = np.moveaxis(logs, (i, j), (0, 1))
        step = moved[1:, 1:] + moved[:-1, :-1] - moved[1:, :-1] - moved[:-1, 1:]
        least = min(least, float(step.min()))
    return least


def order_law(table, records):
    """Return the law of a stretch of a chain of order m that begins with given uniform records."""
    order = table.ndim - 1
    law = np.ones((2,) * order)
    for _ in range(records - order):
        law = law[..., None] * table.reshape((1,) * (law.ndim - order) + table.shape)
    return law


@pytest.mark.parametrize("name", REAL)
def test_margins_of_real_fits(name):
    found = is_attractive(fitted(name))
    assert found.margin == pytest.approx(REAL[name][1], abs=1e-4)
    assert bool(found) is (REAL[name][1] >= 0)
    assert bool(found.reason) is not bool(found)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_order_two_agrees_with_the_whole_table(seed):
    """The law of eight records has no smaller second difference than the margin where that is 0."""
    rng = np.random.default_rng(seed)
    ones = np.sort(rng.uniform(0.05, 0.95, 4))[[0, 2, 1, 3] if seed % 2 else [0, 1, 2, 3]]
    chain = SecondOrderChain(np.stack([1 - ones, ones], axis=-1).reshape(2, 2, 2))
    found = is_attractive(chain)
    whole = least_difference(chain.joint(8))
    assert (whole >= -1e-9) is bool(found)
    turned = chain.joint(6)
    for record in (1, 3, 5):
        turned = np.flip(turned, record)
    assert (least_difference(turned) >= -1e-9) is found.relabelled


@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_order_agrees_with_the_whole_table(order):
    """Inner records, those at the ends given: second differences are the sums of the check."""
    for seed in range(6):
        rng = np.random.default_rng([order, seed])
        ones = rng.uniform(0.2, 0.8, (2,) * order)
        ones += 0.15 * np.indices(ones.shape).sum(axis=0) / order
        table = np.stack([1 - ones, ones], axis=-1)
        law = order_law(table, 3 * order + 2)
        logs, least = np.log(law), math.inf
        inner = range(order, law.ndim - order)
        for i, j in itertools.combinations(inner, 2):
            moved = np.moveaxis(logs, (i, j), (0, 1))
            step = moved[1, 1] + moved[0, 0] - moved[1, 0] - moved[0, 1]
            if j - i <= order:
                least = min(least, float(step.min()))
            else:
                assert np.abs(step).max() < 1e-9
        assert order_margin(table) == pytest.approx(least, abs=1e-9)


def test_a_margin_of_nothing_is_decided_in_fractions():
    chain = SecondOrderChain.of(ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]))
    assert is_attractive(chain).margin == 0.0  # the record before last says nothing
    assert is_attractive(chain)
    table = chain.transition.copy()
    table[0, 1, 1] = math.nextafter(table[0, 1, 1], 1)  # one unit in the last place the wrong way
    assert order_margin(table) < 0
    assert Fraction(table[0, 1, 1]) > Fraction(table[1, 1, 1])
    independent = ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]])
    assert is_attractive(independent).margin == 0.0


def test_chains_of_order_one():
    assert is_attractive(ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]]))
    turned = is_attractive(ut.MarkovChain([[0.2, 0.8], [0.7, 0.3]]))
    assert not turned
    assert turned.relabelled
    ordered = ut.MarkovChain([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    assert is_attractive(ordered)
    assert is_attractive(ordered).alternating is None
    unordered = ut.MarkovChain([[0.7, 0.1, 0.2], [0.1, 0.7, 0.2], [0.25, 0.05, 0.7]])
    assert not is_attractive(unordered)
    varying = ut.MarkovChain([[[0.8, 0.2], [0.3, 0.7]], [[0.4, 0.6], [0.5, 0.5]]], start=[0.5, 0.5])
    assert not is_attractive(varying)


@pytest.mark.parametrize(
    "model",
    [
        ut.MarkovChain([[1.0, 0.0], [0.3, 0.7]]),
        SecondOrderChain([[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]]),
        SecondOrderChain(np.full((3, 3, 3), 1 / 3)),
        ut.Groups(3),
        ut.Pedigree({"kim": ("bob", "ann")}, 0.3),
    ],
    ids=lambda model: model.kind,
)
def test_what_is_not_certain_is_refused_with_a_reason(model):
    found = is_attractive(model)
    assert not found
    assert found.margin == -math.inf
    assert found.reason


def test_networks_agree_with_their_whole_table():
    edges = [("a", "c"), ("b", "c"), ("c", "d")]
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rise = rng.uniform(-0.1, 0.3)
        third = 0.2 + rise * np.add.outer([0.0, 1.0], [0.0, 1.0]) + rng.uniform(0, 0.1, (2, 2))
        last = rng.uniform(0.1, 0.9, 2)
        cpds = {
            "a": [0.4, 0.6], "b": [0.7, 0.3],
            "c": np.stack([1 - third, third], axis=-1), "d": np.stack([1 - last, last], axis=-1),
        }  # fmt: skip
        network = ut.BayesianNetwork(edges, cpds)
        joint = np.einsum("a,b,abc,cd->abcd", *(np.array(cpds[name]) for name in "abcd"))
        # pairs of records that share no table have 0, up to rounding
        expected = least_difference(joint)
        found = is_attractive(network)
        assert bool(found) is (expected >= -1e-12)
        if expected < -1e-9:
            assert found.margin == pytest.approx(expected, abs=1e-9)


def test_hidden_chains():
    calm, busy = [0.6, 0.3, 0.07, 0.03], [0.3, 0.4, 0.2, 0.1]
    steps = np.array([calm, busy, [0.1, 0.2, 0.4, 0.3], [0.03, 0.07, 0.3, 0.6]])
    assert hidden_margin(steps, [0, 0, 1, 1]) > 0
    mixed = [2, 0, 3, 1]
    assert hidden_margin(steps[np.ix_(mixed, mixed)], [1, 0, 1, 0]) > 0  # some order will do
    assert hidden_margin(steps, [0, 1, 0, 1]) == -math.inf or hidden_margin(steps, [0, 1, 0, 1]) < 0
    stuck = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.1, 0.2, 0.7]])
    assert hidden_margin(stuck, [0, 0, 1]) == -math.inf  # no 1 can follow the first state
    # the law of the symbols is attractive where the hidden chain is
    pi = np.linalg.matrix_power(steps, 400)[0]
    law = np.zeros((2,) * 5)
    for path in itertools.product(range(4), repeat=5):
        weight = pi[path[0]] * math.prod(steps[a, b] for a, b in itertools.pairwise(path))
        law[tuple(state // 2 for state in path)] += weight
    assert least_difference(law) >= 0


def test_attractiveness_speaks_for_itself():
    assert not Attractiveness(-1e-300)
    assert Attractiveness(0.0)
    assert Attractiveness(-1.0, alternating=0.2).relabelled
    assert not Attractiveness(-1.0, alternating=-0.2).relabelled


def test_what_is_no_model_is_refused():
    with pytest.raises(ut.errors.InvalidInput, match="a model is required"):
        is_attractive(3)  # type: ignore[arg-type]


ERROR = 1e-11
"""What linear programs and enumerations of five records may be off (either side)."""


def totally_positive(seed, low=2, high=2):
    """A hidden chain whose steps are exp(a_i b_j) up to factors: all minors are positive."""
    rng = np.random.default_rng(seed)
    size = low + high
    rows, columns = np.cumsum(rng.uniform(0.1, 0.9, (2, size)), axis=1)
    steps = np.exp(np.outer(rows, columns) * rng.uniform(0.3, 1.5) + rng.normal(0, 1, size))
    order = np.concatenate([rng.permutation(low), low + rng.permutation(high)])
    steps = (steps / steps.sum(axis=1, keepdims=True))[np.ix_(order, order)]
    return steps, [0] * low + [1] * high


def some_known(seed, n, target):
    rng = np.random.default_rng([seed, target])
    others = [record for record in range(n) if record != target]
    return tuple(sorted(rng.choice(others, int(rng.integers(0, n)), replace=False).tolist()))


def over_values(joint, epsilon, target, known):
    """The leakage of all likelihoods of a level, at the worst values of the known records."""
    cases = itertools.product((0, 1), repeat=len(known))
    return max(
        max(oracle.pure_dp(joint, epsilon, target, dict(zip(known, values, strict=True))))
        for values in cases
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_all_likelihoods_of_hidden_chains(seed):
    """The linear program over all algorithms of a level agrees, and so do counts and flips."""
    steps, symbols = totally_positive(seed, *[(2, 2), (1, 2), (3, 1)][seed % 3])
    n, epsilon = 5, [0.3, 1.0, 2.5][seed % 3]
    chain, joint = ut.HiddenChain(steps, symbols, length=n), oracle.hidden_law(steps, symbols, n)
    assert is_attractive(chain)
    for target in range(n) if seed % 4 == 0 else [seed % n]:
        known = some_known(seed, n, target)
        against = ut.Adversary(target, known)
        truth = over_values(joint, epsilon, target, known)
        count = ut.Laplace(ut.Count(seed % 2), 1 / epsilon)
        flips = ut.RandomizedResponse.binary(*[1 / (1 + math.exp(epsilon))] * 2)
        for mechanism in (ut.PureDP(epsilon), count, flips):
            leak = ut.leakage(mechanism, chain, against)
            assert leak.lower - ERROR <= truth <= leak.upper + ERROR
            assert leak.closed
            assert replayed(leak.witness, mechanism, chain, 0.0) == pytest.approx(
                leak.lower, abs=1e-9
            )
        assert max(oracle.noisy_count(joint, 1 / epsilon, against)) == pytest.approx(
            truth, abs=ERROR
        )
        for rates in ((0.1, 0.3), (0.35, 0.05)):  # each state is looked for by a ratio of its own
            shown = ut.leakage(ut.RandomizedResponse.binary(*rates), chain, against)
            exact = max(oracle.flips(joint, *rates, against))
            assert shown.lower - ERROR <= exact <= shown.upper + ERROR


@law(
    settings(max_examples=1000, deadline=None), few=6,
    seed=st.integers(0, 10**6), low=st.integers(1, 3), high=st.integers(1, 3),
    n=st.integers(2, 7), theta=st.floats(0.05, 5.0),
)  # fmt: skip
def test_the_theorem_on_whole_tables(seed, low, high, n, theta):
    """The sums of the theorem, from the joint table of all records."""
    steps, symbols = totally_positive(seed, low, high)
    target = seed % n
    against = ut.Adversary(target, some_known(seed, n, target))
    chain = ut.HiddenChain(steps, symbols, length=n)
    leak = ut.leakage(ut.PureDP(theta), chain, against)
    truth = max(oracle.tilted(oracle.hidden_law(steps, symbols, n), theta, against))
    assert leak.lower - ERROR <= truth <= leak.upper + ERROR
    assert leak.closed


@pytest.mark.parametrize("target", range(5))
def test_records_that_are_attractive_once_every_second_one_is_relabelled(target):
    """The worst likelihood looks the other way at odd distances from the target."""
    model = ut.HiddenChain.of(chain(draw("alternating", 1), 5))
    joint, against = model.joint(5), ut.Adversary(target, [(target + 2) % 5])
    for theta in (0.4, 1.5):
        truth = over_values(joint, theta, target, against.known)
        leak = ut.leakage(ut.PureDP(theta), model, against)
        assert leak.lower - ERROR <= truth <= leak.upper + ERROR
        assert leak.upper - leak.lower <= 1e-6 * truth
    for rates in ((0.1, 0.3), (0.35, 0.05)):  # each state is looked for by a ratio of its own
        shown = ut.leakage(ut.RandomizedResponse.binary(*rates), model, against)
        exact = max(oracle.flips(joint, *rates, against))
        assert shown.lower - ERROR <= exact <= shown.upper + ERROR


def test_the_attack_attains_the_lower_end():
    steps, symbols = totally_positive(5)
    n, joint = 5, oracle.hidden_law(steps, symbols, 5)
    chain = ut.HiddenChain(steps, ["on" if symbol else "off" for symbol in symbols], length=n)
    leak = ut.leakage(ut.PureDP(1.0), chain, ut.Adversary(2, [0]))
    attack = leak.witness
    assert (attack.target, [record for record, _ in attack.known]) == (2, [0])
    sets = dict(attack.sets)
    sums = {}
    for value in (attack.value, attack.other):
        for seen in (True, False):
            sums[value, seen] = sum(
                joint[series] * math.exp(seen * sum(
                    chain.states[x] in sets.get(t, ()) for t, x in enumerate(series)
                ))
                for series in itertools.product((0, 1), repeat=n)
                if chain.states[series[2]] == value
                and all(chain.states[series[r]] == v for r, v in attack.known)
            )  # fmt: skip
    first, second = (sums[v, True] / sums[v, False] for v in (attack.value, attack.other))
    assert math.log(first / second) == pytest.approx(leak.lower, abs=1e-10)


def test_series_of_any_length_leak_what_long_ones_tend_to():
    steps, symbols = totally_positive(3)
    against = ut.Adversary(3, (1,))
    values = [
        ut.leakage(ut.PureDP(0.7), ut.HiddenChain(steps, symbols, length=n), against)
        for n in (4, 5, 8, 20, 100, 10**6)
    ]
    endless = ut.leakage(ut.PureDP(0.7), ut.HiddenChain(steps, symbols), against)
    for shorter, longer in itertools.pairwise([*values, endless]):
        assert shorter.lower <= longer.upper
    assert values[-1].lower == pytest.approx(endless.upper, abs=1e-8)
    far = ut.leakage(ut.PureDP(0.7), ut.HiddenChain(steps, symbols), ut.Adversary(500))
    ignorant = ut.leakage(ut.PureDP(0.7), ut.HiddenChain(steps, symbols), "ignorant")
    assert far.lower <= ignorant.upper
    assert far.upper == pytest.approx(ignorant.upper, abs=1e-8)


@pytest.mark.parametrize("seed", [0, 1])
def test_laws_that_are_not_attractive_have_an_attack_and_a_pairwise_bound(seed):
    rng = np.random.default_rng([7, seed])
    steps, n, target = rng.dirichlet(np.ones(4), 4), 4, seed % 4
    symbols, known = [0, 0, 1, 1], some_known(seed, 4, seed % 4)[:2]
    chain = ut.HiddenChain(steps, symbols, length=n)
    assert not is_attractive(chain)
    joint, against = oracle.hidden_law(steps, symbols, n), ut.Adversary(target, known)
    leak = ut.leakage(ut.PureDP(1.0), chain, against)
    assert not any("no upper end" in note for note in leak.assumptions)
    exact = over_values(joint, 1.0, target, known)
    assert 0.97 * exact <= leak.lower <= exact + ERROR
    assert exact - ERROR <= leak.upper <= 1.05 * exact
    count = ut.leakage(ut.Laplace(ut.Count(1), 1.0), chain, against)
    assert count.lower == pytest.approx(max(*oracle.tilted(joint, 1.0, against), 0.0), abs=ERROR)
    assert count.lower - ERROR <= count.upper <= leak.upper + ERROR
    three = ut.HiddenChain(rng.dirichlet(np.ones(4), 4), ("a", "b", "c", "c"), length=n)
    leak = ut.leakage(ut.PureDP(1.0), three, against)
    assert 1.0 - ERROR <= leak.lower <= leak.upper <= 1.2 * leak.lower


def test_refusals():
    chain = ut.HiddenChain(
        [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], (0, 0, 1), length=40
    )
    with pytest.raises(NotSupported, match="too many to try"):
        ut.leakage(ut.PureDP(1.0), chain, ut.Adversary(20, range(13)))
    with pytest.raises(InvalidInput, match="record 40"):
        ut.leakage(ut.PureDP(1.0), chain, ut.Adversary(40))
    law = LoweredLaw(np.array([[[1.0, 1e-200], [0.5, 0.5]]]), np.arange(2), np.array([0.5, 0.5]))
    with pytest.raises(NotSupported, match="too rare"):
        chain_sums(law, np.ones((1, 2)), 0, (), 3)
    plain = LoweredLaw(np.array([[[0.9, 0.1], [0.5, 0.5]]]), np.arange(2), np.array([0.5, 0.5]))
    with pytest.raises(NotSupported, match="not told apart"):
        chain_sums(plain, np.array([[1.0, 1e-30]]), 0, (), 3)
    leak = ut.leakage(ut.PureDP(70.0), chain, ut.Adversary(3))  # beyond the theorem, by pairs
    assert 72.4567357 < leak.lower <= leak.upper < 72.4567358


@pytest.mark.parametrize("level", [70.0, 800.0])
def test_upper_ends_hold_at_levels_whose_exponentials_overflow(level):
    chain = ut.HiddenChain(
        [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], (0, 0, 1), length=40
    )
    # beyond some level the leakage grows with it one by one
    against = ut.Adversary(3, [1, 6])
    reference = ut.leakage(ut.PureDP(50.0), chain, against)
    leak = ut.leakage(ut.PureDP(level), chain, against)
    assert leak.upper == pytest.approx(reference.upper + level - 50.0, rel=1e-9)
    assert leak.upper >= reference.lower + level - 50.0


def test_cases_that_cannot_occur_are_left_out():
    """A known value that excludes one of the target's two is no attack."""
    law = LoweredLaw(np.array([[[1.0, 0.0], [0.0, 1.0]]]), np.arange(2), np.array([0.5, 0.5]))
    seen = chain_sums(law, np.exp([[-1.0, 0.0]]), 0, (1,), 2)
    plain = chain_sums(law, np.ones((1, 2)), 0, (1,), 2)
    assert best_case(seen, plain, (1, 0), (2,)) is None
    alone = chain_sums(law, np.exp([[-1.0, 0.0]]), 0, (), 2)
    found = best_case(alone, chain_sums(law, np.ones((1, 2)), 0, (), 2), (1, 0), ())
    assert found.lower <= 2.0 <= found.upper
