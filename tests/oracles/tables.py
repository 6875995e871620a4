"""Noise with a table by enumeration: every series, every adversary, answers far into the tails."""

from fractions import Fraction
from itertools import product

import numpy as np
from scipy.optimize import linprog

from tests.oracles.enumeration import adversaries, grouped, ordered, table_leakage
from undertow.mechanisms import TabulatedNoise


def random_noise(rng, query, places, ratio=0.5):
    """A table without any symmetry, from a random place on."""
    shares = [int(share * 2**100) + 1 for share in rng.random(places) + 0.02]
    total = sum(shares)
    weights = [share * 2**128 // total for share in shares]
    weights[0] += 2**128 - sum(weights)
    return TabulatedNoise(query, int(rng.integers(-places, 1)), tuple(weights), ratio)


def probability(noise, z):
    """Pr[Z = z] as the class describes it, in fractions."""
    ratio, last = Fraction(noise.ratio), noise.first + len(noise.weights) - 1
    inside = min(max(z, noise.first), last)
    share = Fraction(noise.weights[inside - noise.first], 2**128)
    if noise.first < inside < last:
        return share
    return share * (1 - ratio) * ratio ** abs(z - inside)


def chain_joint(chain):
    """The joint law of all records, an axis for each."""
    made = np.zeros((chain.size,) * chain.length)
    for path in product(range(chain.size), repeat=chain.length):
        share = chain.law(0)[path[0]]
        for t in range(chain.length - 1):
            share *= chain.step(t)[path[t], path[t + 1]]
        made[path] = share
    return made


def enumerated(noise, joint, counted, against, beyond=5):
    """The leakage of a noisy count: answers from the table and beyond it on both sides."""
    n = joint.ndim
    answers = range(noise.first - beyond, noise.last + n + beyond + 1)
    law = {
        z: float(probability(noise, z))
        for z in range(answers[0] - n, answers[-1] + 1)
    }  # fmt: skip
    likelihood = np.zeros((*joint.shape, len(answers)))
    for path in product(*(range(size) for size in joint.shape)):
        count = sum(state in counted for state in path)
        likelihood[path] = [law[answer - count] for answer in answers]
    return table_leakage(joint, likelihood, against)


def least_error(joint, counted, limit, against, reach, ratio):
    """The least expected error of a table with tails of a ratio, by one program with everything.

    Every adversary, every value of what is known, every pair and every answer is a constraint.
    """
    n, places = joint.ndim, range(-reach, reach + 1)
    rows = []
    points = [point for point in product(*(range(s) for s in joint.shape)) if joint[point] > 0]
    counts = {point: sum(state in counted for state in point) for point in points}
    for target, known in adversaries(n, against):
        for by_value in grouped(points, target, known).values():
            laws = {}
            for value, members in by_value.items():
                law = np.zeros(n + 1)
                for point in members:
                    law[counts[point]] += joint[point]
                laws[value] = law / law.sum()
            for x, y in ordered(joint.shape[0]):
                if x in laws and y in laws:
                    gap = laws[x] - np.exp(limit) * laws[y]
                    rows += [_row(gap, s, reach, ratio) for s in range(-reach, reach + n + 1)]
    mass, cost = np.ones(len(places)), np.abs(np.array(places)).astype(float)
    mass[[0, -1]] = 1 / (1 - ratio)
    cost[[0, -1]] = reach / (1 - ratio) + ratio / (1 - ratio) ** 2
    # in units of a law that falls like the tails: all variables are of the same size
    unit = ratio ** np.abs(np.array(places))
    table = np.array(rows) * unit
    table = np.unique(table / np.abs(table).max(axis=1, keepdims=True), axis=0)
    found = linprog(
        cost * unit, A_ub=table, b_ub=np.zeros(len(table)), A_eq=(mass * unit)[None], b_eq=[1.0],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return found.fun


def _row(gap, answer, reach, ratio):
    made = np.zeros(2 * reach + 1)
    for count, share in enumerate(gap):
        z = answer - count
        inside = min(max(z, -reach), reach)
        made[inside + reach] += share * ratio ** abs(z - inside)
    return made
