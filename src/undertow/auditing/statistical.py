"""Statistical tests of audits: an event chosen on one half of the draws, tested on the other.

Each series is drawn under a value that a fair coin chooses, so given the event each value has
probability p / (p + q), and the interval of Clopper and Pearson is exact. With a delta a third
value, a *blank* draw, joins the coin. The proofs are in docs/audits.md, "How it decides".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.numerics import Array

__all__ = [
    "LEAST_COUNTS",
    "NO_BLANKS",
    "Blanks",
    "Choice",
    "Confirmation",
    "Event",
    "LabelEvent",
    "Labels",
    "TailEvent",
    "approximate_lower",
    "choose_event",
    "choose_labels",
    "log_ratio_lower",
    "share_lower",
    "try_event",
]

LEAST_COUNTS = 100
"""Draws of the first half in which a chosen event was seen under the less likely value."""

CAUTION = 1.5
"""Standard errors by which a hoped-for bound is lowered: it is the best of many, and the other half
should confirm it."""

Labels = npt.NDArray[np.uint8]
"""A row for each draw, a column for each way to sort answers into a few classes."""

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
class Blanks:
    """Draws without a series: each has a uniform ``level``, of which those below delta matter.

    At epsilon the event happens in a blank draw if its level is below delta e^-epsilon.

    >>> Blanks(0.1, np.array([0.02, 0.05, 0.09])).counted(math.log(2))
    1
    """

    delta: float
    levels: Array

    def counted(self, epsilon: float) -> int:
        """Return the number of blank draws in which the event happens, at this epsilon."""
        return int((self.levels < self.delta * math.exp(-epsilon)).sum())


NO_BLANKS = Blanks(0.0, np.empty(0))
"""Those of a guarantee without delta."""


def approximate_lower(
    hits: int, against: int, error: float, counted: Callable[[float], int]
) -> tuple[float, int]:
    """Return the epsilon up to which all guarantees are refuted, and the blanks counted there.

    The test at the true epsilon errs with probability ``error`` at most, and a bound above the true
    epsilon needs that very test to err. Blanks only become fewer as epsilon grows, so the bound
    with those at one epsilon refutes everything up to itself: climb until their number stays.

    >>> approximate_lower(300, 100, 0.05, lambda epsilon: 0)[0] == log_ratio_lower(300, 100, 0.05)
    True
    >>> bound = approximate_lower(300, 100, 0.05, lambda epsilon: int(50 * math.exp(-epsilon)))
    >>> round(bound[0], 3), bound[1]
    (0.704, 24)
    """
    blanks = counted(0.0)
    while True:
        lower = log_ratio_lower(hits, against + blanks, error)
        fewer = counted(lower)
        if fewer >= blanks:
            return lower, blanks
        blanks = fewer


@dataclass(frozen=True, slots=True)
class TailEvent:
    """The event that a score is at or beyond a threshold.

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
class LabelEvent:
    """The event that the label of an answer is one of a few.

    >>> LabelEvent(0, (0, 2)).happens(np.array([0, 1, 2], dtype=np.uint8)).tolist()
    [True, False, True]
    """

    score: int
    labels: tuple[int, ...]
    for_value: bool = True

    def happens(self, labels: Labels) -> npt.NDArray[np.bool_]:
        """Return in which draws the event happens, given the label of each."""
        wanted = np.zeros(_MOST_LABELS, dtype=np.bool_)
        wanted[list(self.labels)] = True
        return wanted[labels]


Event = TailEvent | LabelEvent
_MOST_LABELS = 256


@dataclass(frozen=True, slots=True)
class Choice:
    """An event, and the bound that its own half of the draws suggests (a guess, not a bound).

    >>> Choice(TailEvent(0, 2.0, above=True), guess=0.8).guess
    0.8
    """

    event: Event
    guess: float


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The evidence of the second half: hits under both values, and the bound that follows.

    ``lower`` is at most the leakage (at the delta of the blanks) with the confidence asked for,
    whatever the mechanism is; ``blanks`` counts the blank draws in which the event happened.

    >>> Confirmation(hits=300, other_hits=100, draws=5000, lower=0.9).lower
    0.9
    """

    hits: int
    other_hits: int
    draws: int
    lower: float
    blanks: int = 0


def choose_event(
    scores: Array, others: Array, error: float, least: int = LEAST_COUNTS, delta: float = 0.0
) -> Choice:
    """Return the event with the largest expected bound in as many draws again.

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
            pair = (one, two) if for_value else (two, one)
            choice = _best_threshold(*pair, error, least, delta)
            if choice is not None and choice[0] > best.guess:
                guess, threshold = choice
                threshold = threshold if above else -threshold
                best = Choice(TailEvent(column, threshold, above, for_value), guess)
    return best


def _best_threshold(
    scores: Array, others: Array, error: float, least: int, delta: float
) -> tuple[float, float] | None:
    """Return the guess and the threshold of the best upper tail of sorted scores."""
    tried: list[tuple[float, float]] = []
    if others.size >= least:
        # (thresholds,): from the highest draws on, at ranks that grow geometrically
        ranks = np.unique(np.geomspace(least, others.size, _THRESHOLDS).astype(np.int64))
        thresholds = np.unique(others[others.size - ranks])
        # how many draws are at or beyond each threshold
        against = others.size - np.searchsorted(others, thresholds, side="left")
        counts = scores.size - np.searchsorted(scores, thresholds, side="left")
        guesses = _guesses(counts, against, others.size * delta, error)
        place = int(np.argmax(guesses))
        tried.append((float(guesses[place]), float(thresholds[place])))
    beyond = float(np.nextafter(others[-1], math.inf)) if others.size else -math.inf
    never = int(scores.size - np.searchsorted(scores, beyond, side="left"))
    if never >= least:
        tried.append((_never_against(never, others.size * delta, error), beyond))
    return max(tried, default=None)


def _guesses(seen: npt.NDArray[Any], against: npt.NDArray[Any], mass: float, error: float) -> Array:
    """Return cautious expected bounds for counts of an event.

    ``mass`` is delta times the draws: at epsilon mass e^-epsilon blanks are expected.
    """
    from scipy.special import ndtri

    width = float(-ndtri(error)) + CAUTION
    ratio = np.maximum(seen - mass, 0.5) / against  # e^epsilon = (p - delta) / q
    blanks = mass / ratio
    # delta method: ln of a count has a variance of one over the count; a lower epsilon has more
    # blanks, which lowers it further
    spread = np.sqrt(1 / np.maximum(seen, 0.5) + 1 / (against + blanks)) * (1 + blanks / against)
    return np.asarray(np.log(ratio) - width * spread)


def _never_against(seen: int, mass: float, error: float) -> float:
    """Return the expected bound if one count is 0: the other half is taken to see it once."""
    return approximate_lower(seen, 1, error, lambda epsilon: int(mass * math.exp(-epsilon)))[0]


def choose_labels(
    labels: Labels, others: Labels, error: float, least: int = LEAST_COUNTS, delta: float = 0.0
) -> Choice | None:
    """Return the set of labels of one column with the largest expected bound, or None.

    Every second draw puts the labels into order, by how much they speak for one value; the draws
    between them say where to stop. So many labels promise no more than few.

    >>> draw = np.random.default_rng(1)
    >>> x, y = (draw.random((4000, 1)) < p for p in (.9, .4))
    >>> choose_labels(x.astype(np.uint8), y.astype(np.uint8), 0.05).event
    LabelEvent(score=0, labels=(0,), for_value=False)
    """
    best: Choice | None = None
    for column, for_value in product(range(labels.shape[1]), (True, False)):
        pair = (labels, others) if for_value else (others, labels)
        # (halves, labels): how often each label was seen, by every second draw, under both values
        seen, against = (
            np.stack([np.bincount(some[at::2, column], minlength=_MOST_LABELS) for at in (0, 1)])
            for some in pair
        )
        order = np.argsort(-(seen[0] + 0.5) / (against[0] + 0.5), kind="stable")
        # (sets,): counts of the first labels of the order, as if in all draws
        more, less = (2 * np.cumsum(counts[1][order]) for counts in (seen, against))
        mass = len(pair[1]) * delta
        guesses = np.where(
            less >= least, _guesses(more, np.maximum(less, 1), mass, error), -math.inf
        )
        place = int(np.argmax(guesses))
        guess = float(guesses[place])
        only = int((less == 0).sum()) - 1  # the largest set never seen under the other value
        if only >= 0 and more[only] >= least:
            sure = _never_against(int(more[only]), mass, error)
            place, guess = (only, sure) if sure > guess else (place, guess)
        if guess > (0.0 if best is None else best.guess):
            chosen = [label for label in order[: place + 1].tolist() if seen[:, label].any()]
            best = Choice(LabelEvent(column, tuple(sorted(chosen)), for_value), guess)
    return best


def try_event(
    event: Event, scores: npt.NDArray[Any], others: npt.NDArray[Any], error: float,
    blanks: Blanks = NO_BLANKS,
) -> Confirmation:  # fmt: skip
    """Compute the bound of a chosen event from fresh draws, given their scores or labels.

    With probability at least 1 - ``error`` the returned bound is not above the leakage.

    >>> seen, unseen = np.ones((1000, 1)), np.zeros((1000, 1))
    >>> try_event(TailEvent(0, 1.0, above=True), seen, unseen, 0.05).lower > 5
    True
    """
    hits = int(event.happens(scores[:, event.score]).sum())
    other = int(event.happens(others[:, event.score]).sum())
    pair = (hits, other) if event.for_value else (other, hits)
    lower, counted = approximate_lower(*pair, error, blanks.counted)
    return Confirmation(hits, other, len(scores) + len(others), lower, counted)
