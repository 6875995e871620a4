"""The floating-point contract: functions that are not correctly rounded are within named errors.

Every value is held against one of 200 bits by Arb (python-flint), which shares no code with the C
library, NumPy or SciPy, and encloses the truth.
"""

import math

import flint
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from undertow.bounds.counts import gaussian
from undertow.bounds.curves.sweep import GaussianGrid
from undertow.curves import DiscreteGaussianCurve, GaussianCurve
from undertow.numerics import LIBM, LOG_NDTR, NDTR, ROUNDOFF, ndtr_error

POINTS = 4000
"""Arguments for each function and range: their worst error is within a few percent of that of fifty
times as many."""


@pytest.fixture(autouse=True)
def digits():
    """Two hundred bits, for one test."""
    before, flint.ctx.prec = flint.ctx.prec, 200
    yield
    flint.ctx.prec = before


def places(name):
    """Return arguments: ordinary ones, those of every size, and those near a zero."""
    random = np.random.default_rng(sum(map(ord, name)))
    wide = random.uniform(-700.0, 700.0, POINTS)
    small = random.normal(size=POINTS) * 10.0 ** random.uniform(-18, 0, POINTS)
    match name:
        case "log" | "log2":
            sizes = np.exp(random.uniform(-690, 690, POINTS))
            return np.concatenate([sizes, 1 + small[abs(small) < 0.9], np.abs(small) + 1e-300])
        case "log1p":
            sizes = np.exp(random.uniform(-690, 690, POINTS))
            return np.concatenate([sizes, small[abs(small) < 0.999]])
        case _:
            return np.concatenate([wide, small, random.normal(size=POINTS)])


def base_two(x):
    return x.log() / flint.arb(2).log()


EXACT = {
    "exp": flint.arb.exp, "log": flint.arb.log, "log1p": flint.arb.log1p, "expm1": flint.arb.expm1,
    "log2": base_two, "tanh": flint.arb.tanh, "sinh": flint.arb.sinh,
}  # fmt: skip


def roundings(values, arguments, exact):
    """Return the relative error of values, in units of ROUNDOFF, (places,)."""
    truths = [exact(flint.arb(x)) for x in arguments.tolist()]
    return np.array(
        [
            0.0 if truth == value else float(abs((flint.arb(value) - truth) / truth)) / ROUNDOFF
            for value, truth in zip(values.tolist(), truths, strict=True)
        ]
    )


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("library", ["C", "NumPy", "NumPy strided"])
def test_elementary_functions_are_within_the_error_of_libm(name, library):
    arguments = places(name)
    if library == "C":
        values = np.array([getattr(math, name)(x) for x in arguments.tolist()])
    elif library == "NumPy":
        values = getattr(np, name)(arguments)
    else:  # another loop
        values = getattr(np, name)(np.repeat(arguments, 3)[::3])
    assert roundings(values, arguments, EXACT[name]).max() <= LIBM


def normal(x):
    return (-x / flint.arb(2).sqrt()).erfc() / 2


RANGES = [(-37.5, -30.0), (-30.0, -10.0), (-10.0, -5.0), (-5.0, -2.0), (-2.0, 0.0), (0.0, 8.5)]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_the_normal_distribution_is_within_its_error(low, high):
    arguments = np.random.default_rng(1).uniform(low, high, POINTS)
    error = roundings(ndtr(arguments), arguments, normal)
    assert (error <= ndtr_error(arguments) / ROUNDOFF).all()
    values, exact = log_ndtr(arguments), lambda x: normal(x).log()
    absolute = roundings(values, arguments, exact) * np.abs(values)
    assert (absolute <= LOG_NDTR * np.maximum(1.0, np.abs(values))).all()


def test_the_error_of_the_normal_distribution_is_not_that_of_libm():
    """So the constants differ: in the tail it is hundreds of times larger."""
    arguments = np.random.default_rng(2).uniform(-37.5, -30.0, POINTS)
    error = roundings(ndtr(arguments), arguments, normal)
    assert error.max() > 100 * LIBM > NDTR


# --- what rests on it -----------------------------------------------------------------------------


def delta_of(mu, epsilon):
    """Return Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu)."""
    mu, epsilon = flint.arb(mu), flint.arb(epsilon)
    return normal(mu / 2 - epsilon / mu) - epsilon.exp() * normal(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("mu", [1e-3, 0.03, 0.25, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0, 5.0, 9.0, 20.0])
def test_curves_of_gaussian_noise_are_never_below_the_truth(mu, share):
    epsilon = share * mu
    delta = GaussianCurve(mu).delta(epsilon)
    truth = delta_of(mu, epsilon)
    assert flint.arb(delta) >= truth
    assert delta <= max(float(truth.mid()) * (1 + 1e-8), 1e-15)


@pytest.mark.parametrize("sigma", [0.7, 3.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_curves_of_discrete_gaussian_noise_are_never_below_the_truth(sigma, epsilon):
    def tail(first):
        reach = range(first, max(first, 0) + int(30 * sigma) + 60)
        return sum((weight(z) for z in reach), flint.arb(0))

    def weight(z):
        return (-(flint.arb(z) ** 2) / (2 * flint.arb(sigma) ** 2)).exp()

    mass = tail(-int(30 * sigma) - 60)
    first = math.floor(epsilon * sigma**2 - 0.5) + 1
    factor = flint.arb(epsilon).exp()
    delta = flint.arb(DiscreteGaussianCurve(sigma, 1).delta(epsilon))
    for at in (first - 1, first, first + 1):
        assert delta >= (tail(at) - factor * tail(at + 1)) / mass


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.2, 30.0])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0])
def test_divergences_of_counts_enclose_the_truth(sigma, epsilon):
    """A count that moves by one, whatever the accuracy of the cells' masses."""
    weights = np.array([[-math.exp(epsilon), 1.0]])
    bracket = gaussian.divergences(weights, np.abs(weights), sigma)
    truth = delta_of(1 / flint.arb(sigma), epsilon)
    assert flint.arb(bracket.lower) <= truth <= flint.arb(bracket.upper)


@pytest.mark.parametrize("cut", [0, 3, 6])
@pytest.mark.parametrize("at", [-9.0, -4.1, -0.3, 0.2, 5.0])
def test_masses_of_narrow_cells_are_within_their_error(at, cut):
    widths = np.full(16, 2.0**-3 * 16.0**-cut)
    left = at + widths * np.arange(16)
    right = left + widths
    masses = gaussian._normal(left, right)
    near = np.where(left * right <= 0, 0.0, np.minimum(abs(left), abs(right)))
    errors = gaussian._normal_error(left, right, near, 10.0)
    for low, high, mass, error in zip(left, right, masses, errors, strict=True):
        one = flint.arb(float(low)), flint.arb(float(high))
        truth = normal(one[1]) - normal(one[0])
        assert abs(flint.arb(float(mass)) - truth) <= flint.arb(float(error))


@pytest.mark.parametrize("mu", [0.01, 0.06, 0.5])
def test_grids_of_the_normal_curve_lie_above_it(mu):
    """At the nodes below 1/2; what is above is rounded up in the sweep."""
    grid = GaussianGrid.of(mu)
    shift = grid.nodes_per_mu
    inverse = flint.arb(2).sqrt()
    for at in range(0, len(grid.u) - shift, 7):
        u, g = flint.arb(float(grid.u[at])), flint.arb(float(grid.u[at + shift]))
        if float(grid.u[at + shift]) < 0.5:
            x, y = (-(1 - 2 * p).erfinv() * inverse for p in (u, g))
            assert y - x >= flint.arb(mu)
