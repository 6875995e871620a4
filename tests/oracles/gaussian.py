"""Oracles of Gaussian leakages: exact fractions over all adversaries, and quadrature of densities.

They share no code with the package. The fractions solve the normal equations of every regression
of the statistic on the known records and the target; the quadrature integrates the density of a
noisy answer over the unknown records, for given values of the target and of the known ones, and
compares two such densities at many answers.
"""

import itertools
import math
from fractions import Fraction

import numpy as np

from tests.oracles.enumeration import Who, adversaries
from tests.oracles.exact import solve

SD_REACH = 8.0  # how far, in standard deviations, the unknown records are followed


# --- fractions ------------------------------------------------------------------------------------


def slopes(covariance, target, known):
    """The coefficient of the target in the regression of every record on known and target."""
    inside = [*known, target]
    block = [[covariance[a][b] for b in inside] for a in inside]
    found = []
    for record in range(len(covariance)):
        weights = solve(block, [covariance[record][a] for a in inside])
        found.append(weights[-1])
    return found


def linear_factor(covariance, rows, against="any"):
    """max over adversaries of sum over rows of |coefficient|, as a fraction, and who attains it."""
    exact = [[Fraction(float(v)) for v in row] for row in covariance]
    weights = [[Fraction(float(v)) for v in row] for row in rows]
    best: tuple[Fraction, Who | None] = (Fraction(-1), None)
    for who in adversaries(len(exact), against):
        beta = slopes(exact, *who)
        value = sum((abs(sum((w * b for w, b in zip(row, beta, strict=True)), Fraction(0)))
                     for row in weights), Fraction(0))  # fmt: skip
        best = max(best, (value, who), key=lambda pair: pair[0])
    return best


def apart_factor(covariance, weights, against="any", *, clipped):
    """max over adversaries of v_i + sum v_j |beta_j|, each share at most v_j if clipped."""
    exact = [[Fraction(float(v)) for v in row] for row in covariance]
    own = [Fraction(float(v)) for v in weights]
    best: tuple[Fraction, Who | None] = (Fraction(-1), None)
    for who in adversaries(len(exact), against):
        shares = [abs(b) for b in slopes(exact, *who)]
        if clipped:
            shares = [min(b, Fraction(1)) for b in shares]
        value = sum((v * b for v, b in zip(own, shares, strict=True)), Fraction(0))
        best = max(best, (value, who), key=lambda pair: pair[0])
    return best


# --- quadrature -----------------------------------------------------------------------------------


def unknown_law(covariance, mean, fixed, points):
    """Points and probabilities of the unknown records given fixed values of the others."""
    covariance, mean = np.asarray(covariance, float), np.asarray(mean, float)
    inside = sorted(fixed)
    outside = [j for j in range(len(mean)) if j not in fixed]
    if not outside:
        return outside, np.zeros((1, 0)), np.ones(1)
    part = covariance[np.ix_(inside, inside)]
    cross = covariance[np.ix_(outside, inside)]
    shift = np.array([fixed[k] for k in inside]) - mean[inside]
    centre = mean[outside] + cross @ np.linalg.solve(part, shift)
    left = covariance[np.ix_(outside, outside)] - cross @ np.linalg.solve(part, cross.T)
    line = np.linspace(-SD_REACH, SD_REACH, points)
    weight = np.exp(-(line**2) / 2)
    grids = np.meshgrid(*[line] * len(outside), indexing="ij")
    standard = np.stack([grid.ravel() for grid in grids], axis=1)
    probabilities = np.ones(len(standard))
    for column in np.meshgrid(*[weight] * len(outside), indexing="ij"):
        probabilities = probabilities * column.ravel()
    values = centre + standard @ np.linalg.cholesky(left).T
    return outside, values, probabilities / probabilities.sum()


def answer_law(covariance, mean, fixed, weights, clip, points):
    """The statistic's values and probabilities given the fixed records."""
    outside, values, probabilities = unknown_law(covariance, mean, fixed, points)
    low, high = clip if clip is not None else (-math.inf, math.inf)
    total = np.clip(values, low, high) @ np.asarray(weights, float)[outside]
    sure = sum(weights[k] * min(max(v, low), high) for k, v in fixed.items())
    return total + sure, probabilities


def loss(first, second, scale, answers):
    """The largest |ln ratio| of two noisy answers' densities, at answers and far out."""
    logs = []
    for values, probabilities in (first, second):
        table = -np.abs(np.asarray(answers)[:, None] - values) / scale
        peak = table.max(axis=1)
        inner = np.log(np.exp(table - peak[:, None]) @ probabilities) + peak
        tails = [np.log(np.exp(sign * (values - values.max()) / scale) @ probabilities)
                 + sign * values.max() / scale for sign in (1, -1)]  # fmt: skip
        logs.append(np.concatenate([inner, tails]))
    return float(np.abs(logs[0] - logs[1]).max())


def quadrature_leakage(covariance, mean, weights, pair, scale, who, *, clip=None, known=(0.0,),
                       points=161):  # fmt: skip
    """The leakage about one target by brute force over known values and answers.

    ``pair`` are the target's two values, ``known`` the values tried for every known record.
    """
    target, others = who
    best = 0.0
    for values in itertools.product(known, repeat=len(others)):
        fixed = dict(zip(others, values, strict=True))
        laws = [answer_law(covariance, mean, {**fixed, target: x}, weights, clip, points)
                for x in pair]  # fmt: skip
        ends = [law[0].min() for law in laws] + [law[0].max() for law in laws]
        answers = np.linspace(min(ends) - 2 * scale, max(ends) + 2 * scale, 41)
        best = max(best, loss(laws[0], laws[1], scale, answers))
    return best


def threshold_leakage(rho, epsilon, spread):
    """What an epsilon-DP algorithm that reacts to thresholds leaks about one of two records.

    Standard normal records of correlation rho; the output's likelihood is
    exp(epsilon #{t : x_t > limit_t}), which is epsilon-DP. Best of many limits for the unknown one.
    """
    gain = math.expm1(epsilon)
    sd = math.sqrt(1 - rho**2)
    best = 0.0
    for limit in np.linspace(-spread, spread, 4001):
        above = [math.erfc((limit - rho * x) / sd / math.sqrt(2)) / 2
                 for x in (spread / 2, -spread / 2)]  # fmt: skip
        best = max(best, math.log((1 + gain * above[0]) / (1 + gain * above[1])))
    return epsilon + best
