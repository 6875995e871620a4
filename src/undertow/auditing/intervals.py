"""How well a share is known from records that depend on each other.

Guesses about neighbouring records are right together and wrong together, so many records tell less
than as many independent ones. How much less is measured on blocks.
"""

import math

import numpy as np
import numpy.typing as npt

__all__ = ["share_interval"]

_MANY = 30
"""Series that are enough to be blocks by themselves."""

_MOST = 100
"""Blocks that a few long series are cut into at most: they must outlast the dependence."""


def share_interval(
    right: npt.NDArray[np.bool_], sizes: npt.NDArray[np.int64], confidence: float
) -> tuple[float, float]:
    """Return an interval for the probability to be right, from dependent outcomes in order.

    ``sizes`` says how many outcomes each series has; series are independent of each other. With
    at least 30 series these are the blocks, else runs of outcomes, about the square root of their
    number. The variance of the blocks says how many independent outcomes n' the n are worth (at
    most n), and the interval is that of Clopper and Pearson for n' of which the same share is
    right, n' reduced as Student's t asks for few blocks. Where all are right, or none, each block
    counts once.

    >>> right = np.array([True] * 80 + [False] * 20)
    >>> low, high = share_interval(right, np.array([100]), 0.95)
    >>> bool(low < 0.5 and high > 0.9)  # one run of errors tells little
    True
    >>> mixed = np.array([True, True, False, True, True] * 20)
    >>> [round(float(end), 2) for end in share_interval(mixed, np.array([100]), 0.95)]
    [0.69, 0.88]
    """
    from scipy.special import betaincinv, stdtrit

    count = right.size
    starts = _blocks(sizes)
    share = float(right.mean())
    tail = (1 - confidence) / 2
    worth = float(len(starts))
    if 0 < share < 1 and len(starts) > 1:
        sums = np.add.reduceat(right.astype(np.float64), starts)  # (blocks,): how many are right
        lengths = np.diff(np.append(starts, count))
        # the variance of the number that are right, from blocks that are taken to be independent
        spread = float(((sums - share * lengths) ** 2).sum()) * len(starts) / (len(starts) - 1)
        # times as large as the variance of independent outcomes
        excess = max(spread / (count * share * (1 - share)), 1.0)
        few = stdtrit(count - 1, 1 - tail) / stdtrit(len(starts) - 1, 1 - tail)
        worth = count / excess * min(float(few), 1.0) ** 2
    # Clopper and Pearson: ends are quantiles of beta distributions, also for fractions of hits
    hits = share * worth
    low = 0.0 if hits <= 0 else float(betaincinv(hits, worth - hits + 1, tail))
    high = 1.0 if hits >= worth else float(betaincinv(hits + 1, worth - hits, 1 - tail))
    return low, high


def _blocks(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where each block begins; none reaches from one series into the next."""
    sizes = sizes[sizes > 0]
    begins = np.cumsum(sizes) - sizes
    if len(sizes) >= _MANY:
        return begins
    total = int(sizes.sum())
    wanted = min(_MOST, max(1, math.isqrt(total)))
    parts = np.maximum(1, np.rint(sizes * wanted / total)).astype(int)
    cut = [
        begin + np.arange(part) * size // part
        for begin, size, part in zip(begins.tolist(), sizes.tolist(), parts.tolist(), strict=True)
    ]
    return np.concatenate(cut).astype(np.int64)
