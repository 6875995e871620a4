"""Channels of k states that treat all states alike."""

import math
from collections.abc import Callable

import numpy as np

from undertow.certificate import Leakage
from undertow.channels import RandomizedResponse
from undertow.models.sets import AnyModel
from undertow.numerics import GRAIN, Array
from undertow.planning.budget import Search
from undertow.planning.flips import largest_ratio

_PRECISION = 1e-8
"""Relative precision of the level (its leakage is proved; the search may stop this far below)."""

__all__ = ["even_channel", "grained_channel", "largest_even_level", "silent_channel"]


def even_channel(size: int, level: float) -> RandomizedResponse:
    """Return k-ary randomised response of a DP level, its flips rounded up to the grain.

    Every other state is shown with probability 1 / (k - 1 + e^level). More noise is the same
    channel followed by more flips, so a lower level never leaks more, whatever the model.

    >>> channel = even_channel(3, 1.0)
    >>> channel.matrix.sum(axis=1).tolist(), round(channel.dp_epsilon(), 12)
    ([1.0, 1.0, 1.0], 1.0)
    """
    fade = math.exp(-level)
    return grained_channel(np.full((size, size), fade / (1 + (size - 1) * fade)))


def grained_channel(matrix: Array) -> RandomizedResponse:
    """Return a channel with every flip rounded up to the grain, and the truth shown otherwise.

    The diagonal of ``matrix`` is not looked at; no flip is rarer than one grain.

    >>> grained_channel(np.array([[.5, .2], [.3, .5]])).matrix.round(6)
    array([[0.8, 0.2],
           [0.3, 0.7]])
    """
    # (states, outputs), off the diagonal
    grains = np.maximum(np.ceil(matrix / GRAIN), 1.0).astype(np.int64)
    np.fill_diagonal(grains, 0)
    whole = round(1 / GRAIN)
    for row, spill in enumerate(grains.sum(axis=1) - whole):
        if spill > 0:  # rounding up went beyond 1: take it from the largest flip
            grains[row, np.argmax(grains[row])] -= spill
    np.fill_diagonal(grains, whole - grains.sum(axis=1))
    return RandomizedResponse(grains * GRAIN)


def silent_channel(size: int) -> RandomizedResponse:
    """Return the channel that shows every state with the same probability, whatever the record is.

    >>> silent_channel(2).matrix.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    row = np.full(size, math.floor(1 / (size * GRAIN)) * GRAIN)
    row[0] = 1.0 - row[1:].sum()
    return RandomizedResponse(np.tile(row, (size, 1)))


def largest_even_level(
    oracle: Callable[[RandomizedResponse], Leakage],
    model: AnyModel,
    limit: float,
    size: int,
    guess: float | None = None,
) -> float:
    """Return the largest level of k-ary randomised response that leaks at most limit.

    0 where no level above 0 does.

    >>> from undertow.bounds.engine import leakage
    >>> from undertow.models.markov import MarkovChain
    >>> alike = MarkovChain([[1/3, 1/3, 1/3]] * 3, length=4)
    >>> round(largest_even_level(lambda channel: leakage(channel, alike), alike, 1.0, 3), 6)
    1.0
    """
    return largest_ratio(
        lambda level: oracle(even_channel(size, level)), model, limit, Search(_PRECISION), guess
    )
