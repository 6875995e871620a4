"""How an audit decides: an event chosen on one half of the draws, tested on the other.

Nothing is assumed about the randomisation. An event has some probability p under one value of the
target and q under the other, and ln(p / q) never exceeds the leakage. Every series is drawn under a
value that a fair coin chooses; so, among the series in which the event happened, each had the one
value with probability p / (p + q), independently, and the interval of Clopper and Pearson for that
probability is exact, whatever p and q are. What is looked at in the first half costs nothing: the
second half has not been seen.
"""

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from undertow.numerics import Array

__all__ = [
    "LEAST_COUNTS",
    "Choice",
    "Confirmation",
    "TailEvent",
    "choose_event",
    "log_ratio_lower",
    "share_lower",
    "try_event",
]

LEAST_COUNTS = 100
"""Draws of the first half in which a chosen event was seen under the less likely value."""

CAUTION = 1.5
"""Standard errors by which a hoped-for bound is lowered: it is the best of many, and the other half
should confirm it."""

_THRESHOLDS = 160
"""Thresholds tried for each score, by the number of draws beyond them."""


def share_lower(hits: int, draws: int, error: float) -> float:
    """Return a lower bound of a probability that is wrong with probability ``error`` at most.

    The lower end of Clopper and Pearson, one-sided: the probability at which ``hits`` or more of
    ``draws`` have probability ``error``. It holds whatever the probability is.

    >>> round(share_lower(10, 100, 0.05), 4), share_lower(0, 100, 0.05)
    (0.0553, 0.0)
    """
    if not hits:
        return 0.0
    from scipy.stats import beta

    return float(beta.ppf(error, hits, draws - hits + 1))


def log_ratio_lower(hits: int, against: int, error: float) -> float:
    """Return a lower bound of ln(p / q) that is wrong with probability ``error`` at most.

    ``hits`` and ``against`` count an event of probability p under one value and q under the other,
    in series whose values a fair coin chose. Never below 0: no leakage is.

    >>> round(log_ratio_lower(300, 100, 0.05), 3), log_ratio_lower(100, 300, 0.05)
    (0.904, 0.0)
    """
    share = share_lower(hits, hits + against, error)  # p / (p + q), so the odds are p / q
    return math.log(share) - math.log1p(-share) if 0.5 < share < 1 else 0.0


@dataclass(frozen=True, slots=True)
class TailEvent:
    """One score at or beyond a threshold: what the audit waits for.

    The event is the score at or above the threshold, or, if not ``above``, at or below it. It
    speaks ``for_value``: for the value asked about, or else for the other one.

    >>> TailEvent(0, 2.0, above=True).happens(np.array([1.0, 2.0, 3.0])).tolist()
    [False, True, True]
    """

    score: int
    threshold: float
    above: bool
    for_value: bool = True

    def happens(self, scores: Array) -> npt.NDArray[np.bool_]:
        """Return in which draws the event happens, given its score in each."""
        return scores >= self.threshold if self.above else scores <= self.threshold


@dataclass(frozen=True, slots=True)
class Choice:
    """An event, and the bound that its own half of the draws suggests (a guess, not a bound).

    >>> Choice(TailEvent(0, 2.0, above=True), guess=0.8).guess
    0.8
    """

    event: TailEvent
    guess: float


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the second half showed: hits under both values, and the bound that follows.

    ``lower`` is at most the leakage with the confidence asked for, whatever the mechanism is.

    >>> Confirmation(hits=300, other_hits=100, draws=5000, lower=0.9).lower
    0.9
    """

    hits: int
    other_hits: int
    draws: int
    lower: float


def choose_event(scores: Array, others: Array, error: float, least: int = LEAST_COUNTS) -> Choice:
    """Return the event with the largest bound to be hoped for in as many draws again.

    ``scores`` has a row for each draw under the value asked about and a column for each score,
    ``others`` the same under the other value. An event must have been seen ``least`` times under
    the value it speaks against; or never at all, and ``least`` times under the other.

    >>> draw = np.random.default_rng(1)
    >>> x, y = draw.normal(1, 1, (4000, 1)), draw.normal(0, 1, (4000, 1))
    >>> choose_event(x, y, 0.05).event.above
    True
    """
    best = Choice(TailEvent(0, -math.inf, above=True), 0.0)
    for column in range(scores.shape[1]):
        high = np.sort(scores[:, column]), np.sort(others[:, column])  # (draws,), ascending
        low = -high[0][::-1], -high[1][::-1]  # a lower tail is an upper tail of the negative scores
        for above, for_value in product((True, False), (True, False)):
            one, two = high if above else low
            found = _best_threshold(*((one, two) if for_value else (two, one)), error, least)
            if found is not None and found[0] > best.guess:
                guess, threshold = found
                threshold = threshold if above else -threshold
                best = Choice(TailEvent(column, threshold, above, for_value), guess)
    return best


def _best_threshold(
    scores: Array, others: Array, error: float, least: int
) -> tuple[float, float] | None:
    """Return the guess and the threshold of the best upper tail of sorted scores."""
    from scipy.special import ndtri

    tried: list[tuple[float, float]] = []
    if others.size >= least:
        # (thresholds,): from the highest draws on, at ranks that grow geometrically
        ranks = np.unique(np.geomspace(least, others.size, _THRESHOLDS).astype(np.int64))
        thresholds = np.unique(others[others.size - ranks])
        # how many draws are at or beyond each threshold
        against = others.size - np.searchsorted(others, thresholds, side="left")
        seen = np.maximum(scores.size - np.searchsorted(scores, thresholds, side="left"), 0.5)
        width = float(-ndtri(error)) + CAUTION
        # delta method: ln of a count has a variance of one over the count
        guesses = np.log(seen / against) - width * np.sqrt(1 / seen + 1 / against)
        place = int(np.argmax(guesses))
        tried.append((float(guesses[place]), float(thresholds[place])))
    beyond = float(np.nextafter(others[-1], math.inf)) if others.size else -math.inf
    never = int(scores.size - np.searchsorted(scores, beyond, side="left"))
    if never >= least:
        # seen under one value only: guess as if the other half saw it once
        tried.append((log_ratio_lower(never, 1, error), beyond))
    return max(tried, default=None)


def try_event(event: TailEvent, scores: Array, others: Array, error: float) -> Confirmation:
    """Return what fresh draws say about a chosen event.

    With probability at least 1 - ``error`` the returned bound is not above the leakage.

    >>> seen, unseen = np.ones((1000, 1)), np.zeros((1000, 1))
    >>> try_event(TailEvent(0, 1.0, above=True), seen, unseen, 0.05).lower > 5
    True
    """
    hits = int(event.happens(scores[:, event.score]).sum())
    other = int(event.happens(others[:, event.score]).sum())
    pair = (hits, other) if event.for_value else (other, hits)
    return Confirmation(hits, other, len(scores) + len(others), log_ratio_lower(*pair, error))
