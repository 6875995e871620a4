"""The noise of releases follows its law.

Null hypothesis throughout: the noise is discrete Laplace with the stated scale, independent per
number. Two tests, see `tests.oracles.samples`: the Dvoretzky-Kiefer-Wolfowitz bound at 1e-6,
rigorous for every sample size, and chi-square at 1e-9, asymptotic, for the shape. A test raises a
false alarm with a probability of at most 1.1e-6. Sample sizes are such that noise with 0.7 or 1.3
times the scale lies at least twice the limit away: each test is run on those twins too, and must
reject them.
"""

import dataclasses

import numpy as np
import pytest

import undertow as ut
from tests.oracles.samples import (
    chi_square,
    excess,
    laplace_cdf,
    laplace_p_value,
    laplace_pmf,
    limit,
)
from undertow.sampling.bits import Insecure
from undertow.sampling.integers import LARGEST_SCALE, discrete_laplace

TWINS = (0.7, 1.3)
SHAPE = 1e-9
SIZES = {0.3: 45_000, 1.0: 20_000, 3.994794182: 20_000, 50.0: 20_000, 3000.0: 20_000}
CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
FOUR = ut.MarkovChain(np.full((4, 4), 0.2) + 0.2 * np.eye(4), states=("n", "e", "s", "w"))


def accepted(sample, scale, centre=0):
    return excess(sample, scale, centre) <= 1 and laplace_p_value(sample, scale, centre) >= SHAPE


def far_apart(scale, factor, size):
    """Whether the twin's law is at least twice the limit away, so that it is always rejected."""
    reach = range(-int(20 * scale) - 2, int(20 * scale) + 3)
    gap = max(abs(laplace_cdf(z, scale) - laplace_cdf(z, factor * scale)) for z in reach)
    return gap >= 2 * limit(size)


def published(plan, noise):
    claim = dataclasses.replace(plan.leakage, valid_for="series")
    return dataclasses.replace(plan, mechanism=noise, method="lange", leakage=claim)


def with_scale(plan, factor):
    """A plan whose noise is off: the broken twin, as published, which guarantees nothing."""
    noise = ut.DiscreteLaplace(plan.query, factor * plan.mechanism.scale)
    return published(plan, noise)


# --- the oracle itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.994794182, 50.0])
def test_the_oracle_knows_the_law(scale):
    reach = int(45 * scale) + 45
    total = 0.0
    for z in range(-reach, reach + 1):
        total += laplace_pmf(z, scale)
        assert laplace_cdf(z, scale) == pytest.approx(total, abs=1e-11)
    assert total == pytest.approx(1.0, abs=1e-11)


# --- the sampler ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SIZES)
def test_secure_noise(scale):
    """SIZES[scale] draws per law."""
    size = SIZES[scale]
    assert accepted(discrete_laplace(scale, size), scale)
    for factor in TWINS:
        assert far_apart(scale, factor, size)
        twin = discrete_laplace(factor * scale, size)
        assert excess(twin, scale) > 1
        assert laplace_p_value(twin, scale) < SHAPE


def test_secure_noise_of_huge_scale():
    """20,000 draws near the largest scale, where the law is nearly continuous.

    Twins: 0.7 and 1.3 times the scale, which are further away than twice the limit.
    """
    scale = LARGEST_SCALE / 2
    assert excess(discrete_laplace(scale, 20_000), scale) <= 1
    for factor in TWINS:
        assert excess(discrete_laplace(factor * scale, 20_000), scale) > 1


def test_secure_noise_of_tiny_scale():
    """Null: a draw at scale 0.05 is not 0 with probability 4.2e-9. 50,000 draws: more than two are
    not 0 with probability below 1e-11. The twin, at scale 0.2, is not 0 with probability 0.013."""
    assert sum(z != 0 for z in discrete_laplace(0.05, 50_000)) <= 2
    assert sum(z != 0 for z in discrete_laplace(0.2, 50_000)) > 2


@pytest.mark.parametrize("scale", SIZES)
def test_seeded_noise(scale):
    """The repeatable generator has the same law; one seed, SIZES[scale] draws."""
    size = SIZES[scale]
    assert accepted(discrete_laplace(scale, size, Insecure(2024)), scale)
    for factor in TWINS:
        assert not accepted(discrete_laplace(factor * scale, size, Insecure(2024)), scale)


def test_successive_draws_are_independent():
    """Null: neighbouring draws are independent. 20,000 pairs of signs, chi-square at 1e-9.

    The broken twin draws each number twice in a row.
    """

    def p_value(noise):
        signs = np.sign(np.reshape(noise, (-1, 2))) + 1
        zero = laplace_pmf(0, 2.0)
        law = np.array([(1 - zero) / 2, zero, (1 - zero) / 2])
        return chi_square(np.bincount(signs @ [3, 1], minlength=9), np.outer(law, law).ravel())

    noise = discrete_laplace(2.0, 40_000)
    assert p_value(noise) > SHAPE
    assert p_value(np.repeat(noise[:20_000], 2)) < SHAPE


# --- releases -------------------------------------------------------------------------------------

# Honest releases, and those of plans with the noise of a twin. The gate has the sampler draw the
# twins, with the same law and sample size; that each release of such a plan is one is for the soak.
# So is the sample whose size makes sure of the distance; with fewer the shape rejects the twins.
WHOLE = 13_000
releases = pytest.mark.parametrize(
    ("twin", "size"),
    [pytest.param(None, 3_000)],
)


@releases
def test_released_counts(twin, size):
    """So many releases of the count of one series with 70 active records of 200."""
    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
    scale = plan.mechanism.scale
    series = ["active"] * 70 + ["inactive"] * 125 + [None] * 5

    def answers(plan):
        return [ut.release(plan, series).value for _ in range(size)]

    if twin is None:
        assert accepted(answers(plan), scale, centre=70)
    else:
        assert not accepted(answers(with_scale(plan, twin)), scale, centre=70)
    for factor in TWINS:
        assert far_apart(scale, factor, size) or size < WHOLE
        drawn = discrete_laplace(factor * scale, size)
        assert not accepted([70 + z for z in drawn], scale, centre=70)
    assert not accepted([70 + z for z in discrete_laplace(scale, size)], scale, centre=71)


def test_guaranteed_error_bars_hold():
    """Null: all bins are within alpha with probability at least 1 - beta. 4,000 histograms.

    Misses are binomial with probability at most beta = 0.05; more than 283 of 4,000 happen with a
    probability below 1e-8. An alpha of 0.7 times the guaranteed one is missed more often.
    """
    plan = ut.calibrate(ut.Histogram(), FOUR, limit=2.0)
    noise = np.abs(discrete_laplace(plan.mechanism.scale, 16_000)).reshape(-1, 4).max(axis=1)
    alpha = plan.accuracy(0.05)
    assert (noise > alpha).sum() <= 283
    assert (noise > 0.7 * alpha).sum() > 283
