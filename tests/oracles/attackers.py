"""Brute force for attackers: every series, every output, written from the definitions alone."""

import itertools
import math

import numpy as np

import undertow as ut

LAZY = [[0.9, 0.1], [0.2, 0.8]]
THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
ZEROS = [[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [0.7, 0.0, 0.3]]


def random_chain(rng, states, length, *, moving=False):
    shape = (length - 1, states, states) if moving else (states, states)
    rows = rng.random(shape) + 0.05
    start = rng.random(states) + 0.05
    return ut.MarkovChain(
        rows / rows.sum(axis=-1, keepdims=True), start=start / start.sum(), length=length
    )


def random_channel(rng, states, outputs):
    rows = rng.random((states, outputs)) + 0.02
    return ut.RandomizedResponse(rows / rows.sum(axis=1, keepdims=True))


def random_erasures(rng, states, length):
    table = rng.random((length, states))
    table[length // 2] = 1
    return ut.Redaction(table)


def prior(chain, series):
    """Pr[x], a product along the chain."""
    probability = chain.initial[series[0]]
    for record, (before, after) in enumerate(itertools.pairwise(series)):
        probability *= chain.step(record)[before, after]
    return probability


def likelihood(channel, series, outputs):
    """Pr[z | x]; erased outputs are None."""
    if isinstance(channel, ut.XorNoise):
        flips = [x ^ z for x, z in zip(series, outputs, strict=True)]
        a, b = channel.rho0, channel.rho1
        rows = [[1 - a, a], [b, 1 - b]]
        probability = b / (a + b) if flips[0] == 0 else a / (a + b)
        return probability * math.prod(rows[x][y] for x, y in itertools.pairwise(flips))
    probability = 1.0
    for record, (x, z) in enumerate(zip(series, outputs, strict=True)):
        if isinstance(channel, ut.Redaction):
            gone = channel.probabilities[record, x]
            probability *= gone if z is None else (1 - gone) * (z == x)
        else:
            probability *= channel.matrix[x, z]
    return probability


def joint(outputs, channel, chain, known=None):
    """Every series with Pr[x, z], those that contradict what is known left out."""
    known = known or {}
    for series in itertools.product(range(chain.size), repeat=len(outputs)):
        if all(series[record] == state for record, state in known.items()):
            yield series, prior(chain, series) * likelihood(channel, series, outputs)


def posteriors(outputs, channel, chain, known=None):
    found = np.zeros((len(outputs), chain.size))
    for series, probability in joint(outputs, channel, chain, known):
        found[range(len(outputs)), series] += probability
    return found / found.sum(axis=1, keepdims=True)
