"""Chains of order two on two symbols, drawn by families, and how leakages are held against them."""

import numpy as np

import undertow as ut
from tests.oracles import memory as oracle
from undertow.errors import UndertowError

FAMILIES = ("attractive", "repulsive", "alternating", "rare", "zeros")

ERROR = 1e-13
"""The relative float error of e^leakage found by enumeration: up to n = 6 a sum has at most 64
positive terms of at most 13 factors, and four sums are divided: 4 * 77 * 2^-53 < 4e-14."""


def draw(family, seed):
    """Pr[1 | 00], Pr[1 | 01], Pr[1 | 10], Pr[1 | 11] of a chain of a family.

    attractive: all second differences positive. repulsive: neither it nor its relabelling is
    attractive. alternating: attractive once every second record is relabelled. rare: some
    probabilities are 1e-6. zeros: some are 0.
    """
    rng = np.random.default_rng([FAMILIES.index(family), seed])
    while True:
        ones = rng.uniform(0.03, 0.97, size=4)
        if family in ("rare", "zeros"):
            some = rng.random(4) < 0.5
            least = 1e-6 if family == "rare" else 0.0
            ones[some] = rng.choice([least, 1 - least], size=int(some.sum()))
            if some.any() and (family == "rare" or _one_class(ones)):
                return ones
            continue
        plain = oracle.margin(oracle.tensor(ones), float)
        other = oracle.alternating_margin(oracle.tensor(ones), float)
        kind = "attractive" if plain > 0 else "alternating" if other > 0 else "repulsive"
        if kind == family and abs(plain) > 1e-6 and abs(other) > 1e-6:
            return ones


def _one_class(ones):
    """Whether the stationary law of the pairs is unique: 1 is a simple eigenvalue."""
    values = np.linalg.eigvals(oracle.pair_matrix(oracle.tensor(ones)))
    return int((np.abs(values - 1) < 1e-9).sum()) == 1


def chain(ones, length=None):
    """The public model."""
    return ut.MarkovChain.second_order(oracle.tensor(ones), length=length)


def law(ones, n):
    """The joint table of n records, from an exact stationary law."""
    return oracle.order_two(oracle.tensor(ones), n)


def encloses(leak, truth, attained=True):
    """That a certificate holds the truth; where only part of it was tried, that it is no less."""
    assert leak.upper >= truth - ERROR, f"{leak.upper} is below {truth}, which is attained"
    if attained:
        assert leak.lower <= truth + ERROR, f"{leak.lower} is above the truth, {truth}"
    assert leak.lower <= leak.upper


def asked(mechanism, model, against="any"):
    """The certificate, or None where the question is refused."""
    try:
        return ut.leakage(mechanism, model, against=against)
    except UndertowError:
        return None


def check_flips(ones, rho0, rho1, n, against="any"):
    """Flips: the bracket of n records, and that of every length, against enumeration."""
    truth = max(oracle.flips(law(ones, n), rho0, rho1, against))
    mechanism = ut.RandomizedResponse.binary(rho0, rho1)
    return _check(mechanism, ones, n, against, truth)


def check_count(ones, scale, n, against="any"):
    """A count with Laplace noise; its answer covers all records, so shorter series are subsets."""
    truth = max(oracle.noisy_count(law(ones, n), scale, against))
    return _check(ut.Laplace(ut.Count(1), scale=scale), ones, n, against, truth)


def check_level(ones, epsilon, n, against="any", exact=None):
    """PureDP: by the theorem where the law is attractive, else by all likelihoods (n <= 4)."""
    truth = exact
    if truth is None:
        truth = max(oracle.pure_dp_all(law(ones, n), epsilon, against))
    return _check(ut.PureDP(epsilon), ones, n, against, truth)


def _check(mechanism, ones, n, against, truth):
    """Both lengths; returns whether neither was refused."""
    short = asked(mechanism, chain(ones, n), against)
    if short is not None:
        encloses(short, truth)
    if isinstance(against, ut.Adversary):  # names records of a series: no longer series is meant
        return short is not None
    every = asked(mechanism, chain(ones), against)
    if every is not None:
        encloses(every, truth, attained=False)
    return short is not None and every is not None
