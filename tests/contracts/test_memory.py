"""Leakages on chains of order two, against enumeration and against all likelihoods.

First the oracle is held against itself and against numbers found without it; then the public
functions against the oracle, by families of random chains. The gate sees a few of each family and
the soak thousands.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import undertow as ut
from tests.contracts import memory_chains as chains
from tests.contracts.memory_chains import ERROR, FAMILIES, chain, draw, law
from tests.oracles import memory as oracle
from undertow.errors import UndertowError
from undertow.models import SecondOrderChain, is_attractive

# Pr[1 | 00, 01, 10, 11], theta, margin, leakage over all adversaries and outputs at n = 4, 5, 6,
# and brackets for every length by direction: 1v0, then 0v1
TABLE = [
    ((0.12, 0.5, 0.2, 0.58), 1.0, 0.322773, (2.1842821653, 2.4512664588, 2.5865887027),
     (2.960284, 2.960460), (2.371653, 2.371869)),
    ((0.15, 0.85, 0.2, 0.86), 0.3, 0.080689, (0.8703551610, 1.0205877102, 1.1257216771),
     (1.615779, 1.615860), (1.675514, 1.675595)),
    ((0.4, 0.6, 0.5, 0.63), 2.0, 0.126752, (2.7376200353, 2.8911654589, 2.9116115614),
     (2.702132, 2.702312), (2.954325, 2.954515)),
]  # fmt: skip
FIRST, SECOND, THIRD = TABLE
LOOSE = 2e-4
"""How much wider than the table a bracket may be."""

ADVERSARIES = [
    ut.Adversary(2, [0, 4]),
    ut.Adversary(1),
    ut.Adversary(0, [1, 3]),
    "ignorant",
    "informed",
]
ATTRACTIVE = [row[0] for row in TABLE]


def seeds(gate, soak):
    """Seeds of random chains: the first few in the gate, all others in one case of the soak."""
    names = [pytest.param(range(gate), id="few")] if gate else []
    rest = pytest.param(range(gate, soak), id="many", marks=pytest.mark.soak)
    return pytest.mark.parametrize("numbers", [*names, rest])


# --- the oracle -----------------------------------------------------------------------------------


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_the_oracle_finds_the_printed_numbers(row):
    ones, theta, margin, columns, *_ = row
    assert oracle.margin(oracle.tensor(ones)) == pytest.approx(margin, abs=5e-7)
    rho = 1 / (1 + math.exp(theta))
    for n, printed in zip((4, 5, 6), columns, strict=True):
        joint = law(ones, n)
        values = [
            oracle.tilted(joint, theta),
            oracle.flips(joint, rho, rho),
            oracle.noisy_count(joint, 1 / theta),
        ]
        for value in values:  # the same number three times: that is the theorem
            assert max(value) == pytest.approx(printed, abs=1e-9)
            assert value == pytest.approx(values[0], abs=1e-12)


@pytest.mark.parametrize("family", ["repulsive", "rare", "zeros"])
def test_all_views_at_once_are_all_loops(family):
    for seed in range(2):
        joint = law(draw(family, seed), 3)
        found = oracle.flips(joint, 0.2, 0.35)
        assert found == pytest.approx(oracle.naive_flips(joint, 0.2, 0.35), abs=1e-12)


def test_the_law_is_the_one_of_the_model():
    for family in ("attractive", "repulsive", "rare"):
        ones = draw(family, 3)
        joint = law(ones, 5)
        pairs = oracle.pair_matrix(oracle.tensor(ones))
        model = SecondOrderChain(oracle.tensor(ones))
        np.testing.assert_allclose(model.joint(5), joint, rtol=1e-9)
        np.testing.assert_allclose(oracle.hidden_law(pairs, [0, 1, 0, 1], 5), joint, rtol=1e-9)


def test_no_output_of_a_count_between_the_integers_tells_more():
    """Real outputs on a fine grid, far tails included, against the integers of the proof."""
    joint = law(draw("repulsive", 1), 4)
    target, scale = 1, 0.7
    outputs = np.linspace(-3, 8, 1101)
    totals = np.indices((2,) * 4).sum(axis=0)
    noise = np.exp(-np.abs(outputs - totals[..., None]) / scale)
    seen = np.moveaxis(joint[..., None] * noise, target, 0).reshape(2, -1, 1101).sum(axis=1)
    prior = np.moveaxis(joint, target, 0).reshape(2, -1).sum(axis=1)
    ratio = np.log(seen[1] / prior[1]) - np.log(seen[0] / prior[0])
    exact = oracle.noisy_count(joint, scale, ut.Adversary(target))
    assert (ratio.max(), (-ratio).max()) == pytest.approx(exact, abs=1e-12)


def test_attractive_in_fractions():
    """The margin of the chain decides on the table of six records, exactly."""
    for family, expected in (("attractive", True), ("repulsive", False), ("alternating", False)):
        for seed in range(2):
            joint = oracle.order_two(oracle.tensor(draw(family, seed)), 6, Fraction)
            assert oracle.attractive(joint) is expected
            assert oracle.attractive(oracle.relabelled(joint)) is (family == "alternating")


def test_no_likelihood_beats_the_theorem():
    """An adversary of five records each, then all of three: programs against the tilt."""
    for seed, (target, facts) in enumerate([(2, {0: 1}), (1, {}), (0, {2: 0}), (3, {1: 1, 4: 0})]):
        joint = law(draw("attractive", seed), 5)
        laws = oracle.conditional(joint, target, facts)
        unknown = 4 - len(facts)
        sums = np.array([sum(p) for p in itertools.product(range(2), repeat=unknown)])
        tilt = np.exp(1.5 * sums)
        value = 1.5 + math.log(laws[1] @ tilt) - math.log(laws[0] @ tilt)
        assert oracle.pure_dp(joint, 1.5, target, facts)[0] == pytest.approx(value, abs=1e-9)
    joint = law(draw("attractive", 9), 3)
    assert oracle.pure_dp_all(joint, 0.8) == pytest.approx(oracle.tilted(joint, 0.8), abs=1e-9)


def test_no_likelihood_beats_the_theorem_after_relabelling():
    joint = law(draw("alternating", 0), 3)
    found = oracle.pure_dp_all(joint, 0.8)
    theorem = oracle.tilted(oracle.relabelled(joint), 0.8)
    assert max(found) == pytest.approx(max(theorem), abs=1e-9)
    assert max(found) > max(oracle.tilted(joint, 0.8)) + 1e-3


def test_whole_pairs_of_known_records_can_be_worst():
    """Third chain, 1v0: 00..*..00 leaks more than any set without neighbours.

    Those attain 2.687739 with eleven records, 0.0..*..0.0, and a little more with thirteen.
    """
    ones, theta = THIRD[:2]
    pair = oracle.tilted(law(ones, 9), theta, ut.Adversary(4, [0, 1, 7, 8]))[0]
    assert pair == pytest.approx(2.702132, abs=5e-7)
    joint = law(ones, 11)
    tilt = np.exp(theta * np.array([[0.0, 1.0]]))
    ratios = oracle.log_ratios(*oracle.views(joint, 5, tilt, np.ones((1, 2))))
    places = np.indices(ratios.shape) < 2  # (other record, ...): is it known
    beside = np.zeros(ratios.shape, dtype=bool)
    for one, two in itertools.pairwise(range(10)):
        if (one, two) != (4, 5):  # the target lies between these
            beside |= places[one] & places[two]
    single = theta + float(ratios[~beside].max())
    assert single == pytest.approx(2.687739, abs=5e-7)
    assert theta + float(ratios.max()) == pytest.approx(pair, abs=1e-12)


# --- is a law attractive --------------------------------------------------------------------------


@seeds(3, 300)
def test_no_law_with_zeros_is_called_attractive_that_is_not(numbers):
    for seed in numbers:
        ones = draw("zeros", seed)
        try:
            verdict = is_attractive(chain(ones))
        except UndertowError:
            continue
        if verdict:
            assert oracle.attractive(oracle.order_two(oracle.tensor(ones), 6, Fraction))


def test_a_chain_of_order_one_is_attractive_if_records_agree():
    assert is_attractive(SecondOrderChain.of(ut.MarkovChain([[0.8, 0.2], [0.35, 0.65]])))


# --- leakages against the oracle ------------------------------------------------------------------


@pytest.mark.parametrize("row", [FIRST, THIRD], ids=str)
def test_brackets_of_the_table(row):
    """Every length, the larger direction: as narrow as printed, and not below what is attained."""
    ones, theta, *_, up, down = row
    low, high = max(up, down)
    leak = ut.leakage(ut.PureDP(theta), chain(ones))
    assert low <= leak.upper <= high + LOOSE
    assert low - LOOSE <= leak.lower <= high


def _same(theta):
    """Three mechanisms that leak the same on an attractive law."""
    rho = 1 / (1 + math.exp(theta))
    return (
        ut.PureDP(theta),
        ut.RandomizedResponse.binary(rho, rho),
        ut.Laplace(ut.Count(1), scale=1 / theta),
    )


@seeds(2, 2000)
@pytest.mark.parametrize("family", FAMILIES)
def test_flips_on_random_chains(family, numbers):
    for seed in numbers:
        rng = np.random.default_rng(seed)
        rho0, rho1 = rng.uniform(0.02, 0.48, size=2)
        answered = chains.check_flips(draw(family, seed), rho0, rho1, n=4 + seed % 3)
        assert answered or family == "zeros"


@seeds(1, 1000)
@pytest.mark.parametrize("family", FAMILIES)
def test_counts_on_random_chains(family, numbers):
    for seed in numbers:
        scale = float(np.random.default_rng(seed).choice([0.3, 0.8, 2.0, 6.0]))
        answered = chains.check_count(draw(family, seed), scale, n=4 + seed % 3)
        assert answered or family == "zeros"


@seeds(1, 300)
@pytest.mark.parametrize("family", FAMILIES)
def test_all_algorithms_of_a_level_on_random_chains(family, numbers):
    """Attractive: six records by the theorem; others: all likelihoods, three and four records."""
    for seed in numbers:
        epsilon = float(np.random.default_rng(seed).choice([0.1, 0.5, 1.0, 2.0, 4.0]))
        ones = draw(family, seed)
        if family == "attractive":
            exact = max(oracle.tilted(law(ones, 6), epsilon))
            assert chains.check_level(ones, epsilon, 6, exact=exact)
            continue
        answered = chains.check_level(ones, epsilon, n=3 + seed % 2)
        assert answered or family == "zeros"


@seeds(0, 100)
def test_all_algorithms_of_a_level_on_attractive_chains_by_programs(numbers):
    """Five records, every adversary, every likelihood: the theorem's value and the bracket."""
    for seed in numbers:
        ones, epsilon = draw("attractive", seed), [0.3, 1.0, 2.5][seed % 3]
        joint = law(ones, 5)
        found = oracle.pure_dp_all(joint, epsilon)
        assert found == pytest.approx(oracle.tilted(joint, epsilon), abs=1e-8)
        assert chains.check_level(ones, epsilon, 5, exact=max(found))


@seeds(1, 100)
@pytest.mark.parametrize("against", ADVERSARIES, ids=str)
def test_named_adversaries_on_attractive_chains(against, numbers):
    """Exact: no search over outputs is left once the adversary is named."""
    for seed in numbers:
        ones = draw("attractive", seed)
        epsilon = [0.3, 1.0, 2.5][seed % 3]
        truth = max(oracle.tilted(law(ones, 5), epsilon, against))
        for mechanism in _same(epsilon):
            leak = ut.leakage(mechanism, chain(ones, 5), against=against)
            assert truth - 1e-12 <= leak.upper <= truth + 1e-9
            assert truth - 1e-9 <= leak.lower <= truth + 1e-12
        rates = (0.1, 0.3)
        exact = max(oracle.flips(law(ones, 5), *rates, against))
        leak = ut.leakage(ut.RandomizedResponse.binary(*rates), chain(ones, 5), against=against)
        assert exact - ERROR <= leak.upper <= exact + 1e-9


@seeds(1, 100)
@pytest.mark.parametrize("against", ADVERSARIES, ids=str)
@pytest.mark.parametrize("family", ["repulsive", "alternating", "rare"])
def test_named_adversaries_on_other_chains(family, against, numbers):
    """Refused, or sound."""
    for seed in numbers:
        ones = draw(family, seed)
        chains.check_flips(ones, 0.15, 0.3, 5, against)
        chains.check_count(ones, 1.3, 5, against)
        chains.check_level(ones, 1.1, 5 if isinstance(against, ut.Adversary) else 4, against)


@pytest.mark.parametrize("ones", [ATTRACTIVE[0]], ids=str)
def test_any_length_against_ignorant_is_the_closed_form(ones):
    pairs, theta = oracle.pair_matrix(oracle.tensor(ones)), 1.5
    truth = max(
        oracle.ignorant_limit(pairs, [0, 1, 0, 1], theta),
        oracle.ignorant_limit(pairs, [1, 0, 1, 0], theta),
    )
    for mechanism in _same(theta):
        leak = ut.leakage(mechanism, chain(ones), against="ignorant")
        assert truth - 1e-12 <= leak.upper <= truth + 1e-6
        assert leak.lower <= truth + 1e-12


# --- laws -----------------------------------------------------------------------------------------


def _meet(*leaks):
    """That all intervals have a point in common."""
    assert max(leak.lower for leak in leaks) <= min(leak.upper for leak in leaks) + ERROR


@seeds(1, 200)
def test_levels_flips_and_counts_leak_the_same_on_attractive_chains(numbers):
    for seed in numbers:
        ones, theta = draw("attractive", seed), [0.4, 1.0, 2.0][seed % 3]
        for length in (6, None):
            _meet(*(ut.leakage(mechanism, chain(ones, length)) for mechanism in _same(theta)))


@seeds(1, 200)
@pytest.mark.parametrize("family", ["attractive", "repulsive", "alternating"])
def test_names_of_the_symbols_do_not_matter(family, numbers):
    for seed in numbers:
        ones = draw(family, seed)
        other = ut.MarkovChain.second_order(oracle.swapped(oracle.tensor(ones)))
        first = ut.leakage(ut.RandomizedResponse.binary(0.1, 0.3), chain(ones))
        _meet(first, ut.leakage(ut.RandomizedResponse.binary(0.3, 0.1), other))


@seeds(1, 200)
@pytest.mark.parametrize("family", ["attractive", "repulsive", "alternating"])
def test_the_direction_of_time_does_not_matter(family, numbers):
    for seed in numbers:
        ones = draw(family, seed)
        _meet(*(ut.leakage(ut.RandomizedResponse.binary(0.1, 0.3), one)
                for one in (chain(ones), chain(ones).reverse())))  # fmt: skip


@pytest.mark.parametrize("rows", [[[0.882, 0.118], [0.305, 0.695]], [[0.2, 0.8], [0.7, 0.3]]])
def test_a_chain_of_order_one_leaks_what_it_leaks(rows):
    first = ut.MarkovChain(rows)
    for mechanism in (ut.PureDP(0.5), ut.RandomizedResponse.binary(0.2, 0.3)):
        _meet(*(ut.leakage(mechanism, one) for one in (first, SecondOrderChain.of(first))))
