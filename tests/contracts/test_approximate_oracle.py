"""The oracle of approximate guarantees against numbers and theorems that were found without it."""

import itertools
import math

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from scipy.integrate import quad

from tests.contracts import approximate_oracle as oracle
from tests.contracts.approximate_laws import Against, Floats
from tests.contracts.approximate_oracle import (
    ERROR,
    ROUNDING,
    Adversary,
    NoisyCount,
)

ACTIVITY = np.array([[0.882, 0.118], [0.305, 0.695]])
ACTIVITY_START = np.array([305, 118]) / 423
PAIRS = ((1, 0), (0, 1))
PURE, POINT = [(1.0, 0.0)], [(1.0, 1e-3)]
PROFILE = [(0.1, 0.05), (0.5, 0.01), (1.0, 0.001)]


def activity(n):
    return oracle.joint_law(ACTIVITY, ACTIVITY_START, n)


def laws_of(adversary: Adversary, law: Floats) -> tuple[Floats, Floats]:
    laws = adversary.laws(law)
    assert laws is not None
    return laws


def largest_rate(law, e):
    """The largest pure rate over all adversaries."""
    rates = []
    for adversary, (whole_a, whole_b) in oracle.possible(law):
        law_a, law_b = adversary.unknown(whole_a), adversary.unknown(whole_b)
        rates.append(oracle.pure_rate(law_a, law_b, law_a.shape, e))
    return max(rates)


def deltas(law, target, known, lines, epsilons):
    """The worst case for the pairs (1, 0) and (0, 1), at every epsilon."""
    adversaries = [Adversary(target, known, a, b) for a, b in PAIRS]
    return [
        oracle.worst_delta_of(adversary, laws_of(adversary, law), lines, epsilon)
        for adversary in adversaries
        for epsilon in epsilons
    ]


# --- the worst algorithm of a class ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "further", "expected"),
    [
        (PURE, 1, ".3939176175 .2666415997 .0567989220 .4279196279 .2666415997 .0007390841"),
        (PURE, 2, ".4010102150 .2718330229 .1585728260 .4279196279 .3033518050 .1015088863"),
        (PURE, 3, ".4010102150 .2718330229 .1585728260 .4279196279 .3033518050 .1153273625"),
        (POINT, 1, ".3947536599 .2679519581 .0588912953 .4287952471 .2679519581 .0027662063"),
        (POINT, 2, ".4018545129 .2731494239 .1607836594 .4287952471 .3047048924 .1036532999"),
        (POINT, 3, ".4018545129 .2731494239 .1607836594 .4287952471 .3047048924 .1174878601"),
        (PROFILE, 1, ".0433157220 .0137550983 .0039263035 .0433157220 .0106632221 .0020509858"),
        (PROFILE, 2, ".0624002351 .0249145465 .0084592488 .0571865798 .0167250284 .0054219444"),
        (PROFILE, 3, ".0725132976 .0321638018 .0101759725 .0625780858 .0201221674 .0058036835"),
        (PROFILE, 5, ".0776212610 .0332487812 .0110814436 .0625780858 .0209835658 .0058036835"),
    ],
)
def test_one_side(lines, further, expected):
    found = deltas(activity(further + 1), 0, (), lines, (0.5, 1, 1.5))
    assert found == pytest.approx([float(x) for x in expected.split()], abs=ERROR)


@pytest.mark.parametrize(
    ("lines", "known", "expected"),
    [
        (PURE, (3, 1), (0.3110496374, 0.2737129167)),
        (PURE, (4, 0), (0.2495771099, 0.2839785869)),
        (PURE, (5, 1), (0.3085069279, 0.3072574261)),
        (POINT, (3, 1), (0.3124116847, 0.2750315057)),
        (POINT, (4, 0), (0.2508676061, 0.2853091247)),
        (POINT, (5, 1), (0.3098660156, 0.3086150595)),
    ],
)
def test_a_known_value_on_the_right(lines, known, expected):
    found = deltas(activity(known[0] + 1), 0, (known,), lines, (1,))
    assert found == pytest.approx(expected, abs=ERROR)


def test_two_sides():
    pure = deltas(activity(5), 2, (), PURE, (0.5, 1, 2))
    expected = ".5438216911 .4388678524 .1795252449 .5283885681 .4090249542 .1565519356"
    assert pure == pytest.approx([float(x) for x in expected.split()], abs=ERROR)
    point = deltas(activity(5), 2, (), POINT, (0.5, 1, 2))[:3]
    assert point == pytest.approx((0.5448322148, 0.4403786741, 0.1834524858), abs=ERROR)


def test_the_informed_see_what_differential_privacy_promises():
    for epsilon, delta in ((1.0, 1e-3), (0.5, None)):
        found = oracle.worst_delta_any(ACTIVITY, ACTIVITY_START, 3, POINT, epsilon, "informed")
        # (e0, d0) at a smaller epsilon: both lines of the curve meet at (1 - d0) / (1 + e^e0)
        corner = (1 - 1e-3) / (1 + math.e)
        expected = delta or math.e * corner + 1e-3 - math.exp(epsilon) * corner
        assert found == pytest.approx(expected, abs=ERROR)


def test_the_returned_test_keeps_every_line():
    law = activity(4)
    laws = laws_of(Adversary(1, (), 1, 0), law)
    value, test = oracle.worst_test(*laws, law.shape, PROFILE, 0.7)
    assert value == pytest.approx(
        float((laws[0] * test).sum() - math.exp(0.7) * (laws[1] * test).sum())
    )
    for x, y in itertools.product(np.ndindex(*law.shape), repeat=2):
        if sum(u != v for u, v in zip(x, y, strict=True)) == 1:
            assert test[x] <= min(math.exp(e) * test[y] + d for e, d in PROFILE) + ROUNDING
            assert (
                1 - test[y] <= min(math.exp(e) * (1 - test[x]) + d for e, d in PROFILE) + ROUNDING
            )


def test_adversaries_are_all_there():
    sizes: list[tuple[Against, int]] = [("any", 48), ("ignorant", 3), ("informed", 27)]
    for against, number in sizes:
        found = list(oracle.all_adversaries(3, 3, against))
        assert len(set(found)) == len(found) == 6 * number
    # after a zero: 0 -> 1 never happens, so that a known 0 before the target leaves one value
    law = oracle.joint_law([[1, 0], [0.5, 0.5]], [0.5, 0.5], 2)
    assert {adversary.known for adversary, _ in oracle.possible(law)} == {(), ((0, 1),), ((1, 0),)}


# --- the closed exchange --------------------------------------------------------------------------


def random_laws(rng):
    """A random joint law of at most four records, some of them known, and the two laws."""
    k, n = (int(rng.integers(2, 4)), int(rng.integers(1, 5)))
    weights = rng.exponential(size=(k,) * n) ** rng.choice([0.3, 1, 3])
    weights *= rng.random((k,) * n) > rng.choice([0, 0.2])
    weights[(0,) * n] += 1e-3
    weights[(1,) + (0,) * (n - 1)] += 1e-3
    law = weights / weights.sum()
    known = tuple((record, 0) for record in range(1, n) if rng.random() < 0.2)
    adversary = Adversary(0, known, *(1, 0)[:: int(rng.choice([-1, 1]))])
    return tuple(adversary.unknown(side) for side in laws_of(adversary, law))


def check_closed_exchange(rng, cases):
    """Theorem 1 with an l from the oracle's own program; returns how often it must be exact."""
    exact = 0
    for _ in range(cases):
        law_a, law_b = random_laws(rng)
        shape = law_a.shape
        e0, d0 = float(rng.choice([0.1, 0.5, 1, 2])), float(10 ** rng.uniform(-7, -1))
        l = oracle.pure_rate(law_a, law_b, shape, e0)
        assert -ROUNDING <= l <= len(shape) * e0 + ROUNDING
        bound = d0 * math.expm1(l) / math.expm1(e0)
        found = oracle.worst_delta(law_a, law_b, shape, [(e0, d0)], l)
        assert found <= bound * (1 + 1e-12) + ROUNDING
        steps = math.expm1(e0 * (len(shape) - 1)) / math.expm1(e0)
        if d0 * steps <= (1 - d0) / (1 + math.exp(e0)):
            exact += 1
            assert found == pytest.approx(bound, rel=1e-6, abs=ROUNDING)
    return exact


def test_closed_exchange_on_random_laws():
    assert check_closed_exchange(np.random.default_rng(1), 30) > 20


def check_unequal_spends(rng, cases):
    """Levels (e_t, d_t) of each record: (l, (e^l - 1) max_t d_t / (e^e_t - 1))."""
    for _ in range(cases):
        law_a, law_b = random_laws(rng)
        levels = [
            (float(rng.choice([0.1, 0.5, 1])), 10 ** rng.uniform(-5, -1)) for _ in law_a.shape
        ]
        l = oracle.pure_rate(law_a, law_b, law_a.shape, [e for e, _ in levels])
        lines = {axis: [level] for axis, level in enumerate(levels)}
        bound = math.expm1(l) * max(d / math.expm1(e) for e, d in levels)
        assert oracle.worst_delta(law_a, law_b, law_a.shape, lines, l) <= bound + ERROR


def test_unequal_spends():
    check_unequal_spends(np.random.default_rng(4), 30)


def test_level_zero():
    """(0, d0) leaks (0, kappa d0), kappa = 1 + the total variations: .577^t on both sides."""
    kappa = 1 + 2 * (0.577 + 0.577**2)
    assert deltas(activity(5), 2, (), [(0.0, 1e-3)], (0,)) == pytest.approx([kappa * 1e-3] * 2)


def test_the_pure_rates_of_the_activity_chain():
    assert largest_rate(activity(3), 1.0) == pytest.approx(2.2024, abs=5e-5)
    law_a, law_b = laws_of(Adversary(2, (), 1, 0), activity(5))
    assert oracle.pure_rate(law_a, law_b, law_a.shape, 1.0) == pytest.approx(2.8777, abs=5e-5)


def test_a_trio():
    """Genotypes of two parents and a child, allele frequency 1/2: (1, 1e-6) leaks more."""
    parent = np.array([0.25, 0.5, 0.25])
    passed = np.array([[1, 0], [0.5, 0.5], [0, 1]])  # genotype -> allele
    law = np.zeros((3, 3, 3))
    for father, mother, one, other in itertools.product(range(3), range(3), (0, 1), (0, 1)):
        chance = parent[father] * parent[mother] * passed[father, one] * passed[mother, other]
        law[father, mother, one + other] += chance
    rate = largest_rate(law, 1.0)
    assert rate == pytest.approx(2.2402290, abs=5e-8)
    assert 1e-6 * math.expm1(rate) / math.expm1(1) == pytest.approx(4.885975e-6, abs=5e-13)


# --- windows --------------------------------------------------------------------------------------


def check_windows(n, lines, epsilon):
    """What lies beyond the nearest known records changes nothing: know it all."""
    law = activity(n)
    for adversary, laws in oracle.possible(law):
        known = dict(adversary.known)
        left = max((r for r in known if r < adversary.target), default=-1)
        right = min((r for r in known if r > adversary.target), default=n)
        beyond = {r: 0 for r in range(n) if r < left or r > right}
        more = adversary._replace(known=tuple(sorted({**beyond, **known}.items())))
        whole, window = (
            oracle.worst_delta_of(who, two, lines, epsilon)
            for who, two in ((adversary, laws), (more, laws_of(more, law)))
        )
        assert whole == pytest.approx(window, abs=ERROR)


def test_windows():
    check_windows(3, PROFILE, 0.5)


# --- noisy counts ---------------------------------------------------------------------------------

COUNTS = [
    ((10, 1), (10, 1), 17, 1, 5.4580311473e-7, 6.8907808058e-9),
    ((10, 1), (10, 1), 4, 1, 5.0568635009e-2, 3.0706621872e-2),
    ((5, 0), (3, 1), 4, 1, 4.1440073382e-2, 3.3142500598e-2),
    (7, 7, 4, 1, 5.9542490230e-2, 3.8251838542e-2),
    (7, 7, 8, 0.5, 3.8100097857e-2, 2.9031343103e-2),
    (0, 4, 4, 1, 1.2238012355e-2, 4.7365817451e-3),
]


@pytest.mark.parametrize(("left", "right", "sigma", "epsilon", "one", "zero"), COUNTS)
def test_gaussian_counts(left, right, sigma, epsilon, one, zero):
    law_0, law_1 = window_counts(left, right)
    found = [
        oracle.gaussian_count_delta(*pair, sigma, epsilon)
        for pair in ((law_1, law_0), (law_0, law_1))
    ]
    assert [float(x) for x in found] == pytest.approx([one, zero], rel=1e-9)


def test_gaussian_count_by_quadrature():
    """A gain with three changes of sign: the roots are all found."""
    law_a, law_b = (0.4, 0.0, 0.1, 0.4, 0.0, 0.1), (0.0, 0.5, 0.2, 0.0, 0.3, 0.0)
    gains = np.subtract(law_a, math.exp(0.3) * np.array(law_b))
    for sigma in (0.3, 2.0):

        def positive(y, sigma=sigma):
            return max(0.0, gains @ np.exp(-((y - np.arange(6)) ** 2) / (2 * sigma**2)))

        pieces = [quad(positive, y, y + 0.05, epsabs=1e-13)[0] for y in np.arange(-15, 20, 0.05)]
        expected = math.fsum(pieces) / (sigma * math.sqrt(2 * math.pi))
        for context in (oracle.DIGITS, mpmath.fp):
            found = oracle.gaussian_count_delta(law_a, law_b, sigma, 0.3, context)
            assert float(found) == pytest.approx(expected, abs=1e-9)


def test_a_count_never_exceeds_the_class_of_its_noise():
    """Gaussian counts obey the lines of their profile: attack <= program, for all adversaries."""
    sigma, epsilon = 2.0, 0.5
    lines = [(e, oracle.gdp_delta(1 / sigma, e)) for e in np.linspace(0, 4, 13)]
    count = oracle.gaussian_delta_any(ACTIVITY, ACTIVITY_START, 3, 1, sigma, epsilon)
    worst = oracle.worst_delta_any(ACTIVITY, ACTIVITY_START, 3, lines, epsilon)
    assert 0.5 * worst < count <= worst + ERROR


def test_one_record_is_plain_privacy():
    law_a, law_b = [0.0, 1.0], [1.0, 0.0]
    for sigma, epsilon in ((1.0, 1.0), (4.22467889, 1.0), (16.9133455890, 0.25032578764)):
        plain = oracle.gdp_delta(1 / sigma, epsilon)
        assert float(oracle.gaussian_count_delta(law_a, law_b, sigma, epsilon)) == pytest.approx(
            plain
        )
        discrete = oracle.discrete_gaussian_count_delta(law_b, law_a, sigma, epsilon)
        assert discrete == pytest.approx(oracle.discrete_gaussian_delta(sigma, epsilon), abs=1e-15)


def test_profiles():
    """The noise that the theory asks for at (1, 1e-6), against any and plain."""
    beta, d0 = 0.25032578764, 1.655396686e-7
    assert oracle.gdp_delta(1 / 16.9133455890, beta) == pytest.approx(d0, rel=1e-8)
    assert oracle.zcdp_delta(0.00152022137, beta) == pytest.approx(d0, rel=1e-7)
    assert oracle.gdp_delta(1 / 4.22467889, 1) == pytest.approx(1e-6, rel=1e-7)
    assert oracle.zcdp_delta(0.024356, 1) == pytest.approx(1e-6, rel=1e-4)
    assert oracle.gdp_delta(0.0, 0.1) == 0.0


# --- histories ------------------------------------------------------------------------------------


def test_one_release_is_enclosed():
    law = activity(5)
    adversary = Adversary(2, ((4, 1),), 1, 0)
    laws = laws_of(adversary, law)
    exact = float(oracle.gaussian_count_delta(*oracle.count_laws(adversary, laws, 1), 4, 1))
    low, high = oracle.joint_delta_of_releases(
        *laws, [NoisyCount(tuple(range(5)), "gaussian", 4.0, cells=2000)], 1
    )
    assert low <= exact <= high <= 1.001 * low
    low, high = oracle.joint_delta_of_releases(
        *laws, [NoisyCount(tuple(range(5)), "discrete gaussian", 4.0, cells=200)], 1
    )
    exact = oracle.discrete_gaussian_count_delta(*oracle.count_laws(adversary, laws, 1), 4, 1)
    assert (low, high) == pytest.approx((exact, exact), abs=1e-14)


Side = int | tuple[int, int]
"""One side of a target: so many unknown records up to the end, or (distance, value) of a known."""


# --- counts of long windows -----------------------------------------------------------------------


def side_counts(x: int, side: Side, transition: Floats = ACTIVITY) -> Floats:
    """The law of the number of ones among the unknown records of a side, next to a record x.

    The chain is followed outwards from x: left of it this needs a reversible chain, such as every
    stationary one with two states.
    """
    unknown, known = (side, None) if isinstance(side, int) else (side[0] - 1, side[1])
    law = np.zeros((len(transition), unknown + 1))  # last state x number of ones
    law[x, 0] = 1.0
    for _ in range(unknown):
        law = transition.T @ law
        law[1] = np.roll(law[1], 1)
    counts: Floats = law.sum(axis=0) if known is None else transition[:, known] @ law
    return counts / counts.sum()


def window_counts(left: Side, right: Side, transition: Floats = ACTIVITY) -> tuple[Floats, Floats]:
    """The laws of the count of a window given that its target is 0, and that it is 1."""
    sides = [
        np.convolve(side_counts(x, left, transition), side_counts(x, right, transition))
        for x in (0, 1)
    ]
    return np.array([*sides[0], 0.0]), np.array([0.0, *sides[1]])
