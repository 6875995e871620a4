"""Counts, histograms and transitions of the true series, estimated from flipped or redacted ones.

Only the flips are random here, the true series is fixed: an interval says how far the flips may
have moved the estimate. Where a variance depends on what is not known, it is taken larger rather
than smaller. What is computed from outputs alone costs no privacy.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from undertow.data.codes import Coded, CodedPieces, Rule, coded
from undertow.data.table import Data
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.frames import is_table
from undertow.mechanisms import LocalMechanism, Redaction, XorNoise
from undertow.numerics import Array, check_positive, shown
from undertow.plan import Plan, check_plan
from undertow.queries import BaseQuery, Count, Histogram, State

__all__ = [
    "Estimate",
    "Kinds",
    "PairCounts",
    "WeightSums",
    "chained_variance",
    "estimate",
    "estimate_transitions",
    "pair_channel",
    "product_sums",
    "redacted_variance",
    "undo",
]


SINGULAR = 1e-9
"""Channels whose least singular value is below this tell some states apart by less than any
sample can show."""

_PIECE = 2**17
"""Records handled at a time."""


def undo(channel: Array) -> Array:
    """Return weights W (a row per output, a column per state) with channel @ W = 1.

    The inverse of a square channel. With more outputs than states, the weights of least squares,
    each output weighed by its probability where all states are alike; every row sums to one.

    >>> undo(np.array([[.75, .25], [.25, .75]])).tolist()
    [[1.5, -0.5], [-0.5, 1.5]]
    """
    mean = channel.mean(axis=0)
    scaled = channel / np.sqrt(np.where(mean > 0, mean, 1.0))  # (states, outputs)
    if np.linalg.svd(scaled, compute_uv=False)[-1] < SINGULAR or len(channel) > len(mean):
        raise NotSupported(
            "the outputs do not tell all states apart: different series give the same outputs "
            "with the same probabilities, so their counts cannot be estimated"
        )
    if channel.shape[0] == channel.shape[1]:
        return np.asarray(np.linalg.inv(channel))
    inverse = np.linalg.solve(scaled @ scaled.T, channel)
    return np.asarray((inverse / np.where(mean > 0, mean, 1.0)).T)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Records that went through the same channel, kind by kind: channel, weights, outputs seen.

    Shapes (kinds, states, outputs), (kinds, outputs, states) and (kinds, outputs).
    """

    channels: Array
    weights: Array
    seen: Array

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self.seen.sum())

    def sum(self, wanted: npt.NDArray[np.bool_], quantile: float) -> tuple[float, float]:
        """Return the estimated number of records in some states, and its variance.

        The variance is a sum over the true states, of which only estimates are known: it is
        estimated without bias, plus ``quantile`` times how far that may be off, and never more
        than that of the worst states there could be.
        """
        weights = self.weights[:, :, wanted].sum(axis=2)  # (kinds, outputs)
        total = float((self.seen * weights).sum())
        records = self.seen.sum(axis=1)
        spread = self._worst(weights, wanted.astype(float))
        excess = weights**2 - weights  # its mean is the variance where the truth is 0 or 1
        about = max(0.0, float((self.seen * excess).sum()))
        means = np.einsum("tay,ty->ta", self.channels, excess)  # (kinds, states)
        slack = math.sqrt(float(records @ self._worst(excess, means)))
        return total, min(float(records @ spread), about + quantile * slack)

    def _worst(self, values: Array, means: Array) -> Array:
        """Return the largest variance of a function of the output over the states, per kind."""
        squares = np.einsum("tay,ty->ta", self.channels, values**2)  # (kinds, states)
        return np.asarray(np.maximum(squares - means**2, 0.0).max(axis=1))


def chained_variance(
    noise: XorNoise, lengths: npt.NDArray[np.int64], counts: npt.NDArray[np.int64] | None = None
) -> float:
    """Return the most by which a sum of flips, some counted negatively, can vary.

    There is one series of each of the lengths, or as many as ``counts`` says.

    The flips of two records s and t of a series have covariance v r^|s - t| with v the variance
    of one and r = 1 - rho0 - rho1; signs that agree with it make all terms positive.

    >>> chained_variance(XorNoise(.25, .75), np.array([3]))
    0.5625
    """
    rate, decay = noise.flip_rate, abs(1 - noise.rho0 - noise.rho1)
    sizes = lengths.astype(float)
    pairs = sizes**2
    if decay < 1:
        open_end = sizes * (1 + decay) / (1 - decay)
        pairs = np.minimum(pairs, open_end - 2 * decay * (1 - decay**sizes) / (1 - decay) ** 2)
    most = np.maximum(pairs, sizes)
    return rate * (1 - rate) * float((most if counts is None else most * counts).sum())


def pair_channel(noise: XorNoise) -> Array:
    """Return the channel of two records that follow each other, states and outputs 00 01 10 11.

    >>> pair_channel(XorNoise(.5, .5)).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]
    """
    start = np.array([1 - noise.flip_rate, noise.flip_rate])
    steps = np.array([[1 - noise.rho0, noise.rho0], [noise.rho1, 1 - noise.rho1]])
    law = (start[:, None] * steps).ravel()  # (pairs of flips 00 01 10 11)
    return np.array([[law[state ^ output] for output in range(4)] for state in range(4)])


@dataclass(frozen=True, slots=True)
class PairCounts:
    """Pairs of states (a, b) counted without bias, and the variance of pairs - p times row.

    ``squares`` holds the coefficients of 1, p and p^2 of that variance; where there are several
    estimates of it, the interval covers all that one of them allows.
    """

    pairs: Array
    squares: tuple[tuple[Array, Array, Array], ...]

    def ends(self, quantile: float) -> tuple[Array, Array, Array]:
        """Return the shares of each row, and the ends of their intervals (Fieller's).

        A share p is not excluded as long as (pairs - p row)^2 <= quantile^2 variance(p): exact
        also where the row itself is uncertain, and all of [0, 1] where it may be empty.
        """
        # (states, states), each row its total
        rows = np.broadcast_to(self.pairs.sum(axis=1, keepdims=True), self.pairs.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(rows > 0, np.clip(self.pairs / rows, 0.0, 1.0), np.nan)
        low, high = shares.copy(), shares.copy()
        for squares in self.squares:
            for place in np.ndindex(*self.pairs.shape):
                one, p, pp = (quantile**2 * float(part[place]) for part in squares)
                pair, row = float(self.pairs[place]), float(rows[place])
                # Fieller: a quadratic in p
                root = _between(row**2 - pp, -2 * pair * row - p, pair**2 - one)
                low[place] = np.fmin(low[place], root[0])
                high[place] = np.fmax(high[place], root[1])
        unknown = ~(rows > 0)
        return shares, np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


def _between(square: float, linear: float, constant: float) -> tuple[float, float]:
    """Return the ends of the p in [0, 1] with square p^2 + linear p + constant <= 0, nan if none.

    What lies between two parts is taken in.
    """
    ends = [p for p in (0.0, 1.0) if square * p**2 + linear * p + constant <= 0]
    inside = linear**2 - 4 * square * constant
    if inside >= 0:
        half = -(linear + math.copysign(math.sqrt(inside), linear)) / 2  # adds, never cancels
        roots = [half / square] if square else []
        roots += [constant / half] if half else []
        ends += [p for p in roots if 0 <= p <= 1]
    return (min(ends), max(ends)) if ends else (math.nan, math.nan)


class WeightSums:
    """Sums over records i of products of the weights of i, i + 1 and i + 2."""

    def __init__(self, states: int) -> None:
        """Begin with nothing."""
        square = np.zeros((states, states))
        self.pairs, self.squares, self.mixed = square.copy(), square.copy(), square.copy()
        self.own = np.zeros(states)
        self.crossed, self.leant, self.thrice = square.copy(), square.copy(), square.copy()
        self.twice = np.zeros(states)

    def add(self, weights: Array, pairs: npt.NDArray[Any], triples: npt.NDArray[Any]) -> None:
        """Add records: which of them begin a pair of neighbours, and which a triple."""
        here, there = weights[pairs], weights[pairs + 1]  # (pairs, states) each
        self.pairs += here.T @ there
        self.squares += (here**2).T @ there**2
        self.mixed += (here**2).T @ there
        self.own += (here**2).sum(axis=0)
        # (triples, states) each
        first, second, third = (weights[triples + step] for step in range(3))
        both = first * second
        self.crossed += both.T @ (second * third)
        self.leant += both.T @ (second + third)
        self.thrice += both.T @ third
        self.twice += both.sum(axis=0)

    def ratios(self) -> PairCounts:
        """Return the pairs and two estimates of the variance, with neighbours and without.

        With u_i = w_i(a) (w_{i+1}(b) - p) the variance is the sum of E u_i^2 + 2 E u_i u_{i+1}
        less the same of the means, each of which is a sum over pairs or triples of true states
        and is estimated without bias.
        """
        rows = self.pairs.sum(axis=1, keepdims=True)
        alone = (
            self.squares - self.pairs,
            2 * (self.pairs - self.mixed),
            np.broadcast_to(self.own[:, None] - rows, self.pairs.shape),
        )
        same = np.eye(len(self.own))
        crossed = self.crossed - same * self.thrice  # covariance of neighbouring terms
        leant = self.thrice + same * self.twice[:, None] - self.leant
        together = (alone[0] + 2 * crossed, alone[1] + 2 * leant, alone[2])
        return PairCounts(self.pairs, (alone, together))


def product_sums(
    numbers: npt.NDArray[Any],
    weights: Array,
    begins: npt.NDArray[np.bool_],
    places: npt.NDArray[np.int64] | None = None,
    *,
    sums: WeightSums | None = None,
    limit: int | None = None,
) -> WeightSums:
    """Return the sums of neighbours: ``begins`` says whether a record begins a pair.

    ``weights`` has a row for each number, or a table for each of the ``places``. Records from
    ``limit`` on begin nothing here: they come again with those after them. Adds to ``sums``.
    """
    sums = WeightSums(weights.shape[-1]) if sums is None else sums
    end = numbers.size if limit is None else limit
    for start in range(0, end, _PIECE):
        stop = min(start + _PIECE, end)
        reach = slice(start, min(stop + 2, numbers.size))  # two records more, for the triples
        of = weights[numbers[reach]] if places is None else weights[places[reach], numbers[reach]]
        pairs = np.flatnonzero(begins[start:stop])
        triples = pairs[begins[np.minimum(start + pairs + 1, numbers.size - 1)]]
        sums.add(of, pairs, triples)
    return sums


def redacted_variance(kinds: Kinds, follows: npt.NDArray[Any]) -> Array:
    """Return the most that pairs - p times row can vary, for any p in [0, 1] and any true states.

    ``follows`` counts how often kind t is followed by kind t + 1. Neighbouring terms share a
    record, so their sum varies by at most three times the sum of their variances.
    """
    squares = np.einsum("tcy,tya->tac", kinds.channels, kinds.weights**2)  # E w(a)^2 | c
    states = squares.shape[1]
    same = np.eye(states)
    total = np.zeros((states, states))
    for place in np.flatnonzero(follows):
        worst = np.zeros((states, states))
        for p in (0.0, 1.0):  # the variance is convex in p
            after = squares[place + 1] - 2 * p * same + p**2  # (b, d): E (w(b) - p)^2 given state d
            # (a, b, true state, true next)
            spread = np.einsum("ac,bd->abcd", squares[place], after)
            # less the square of the mean, given the true states
            spread -= np.einsum("ac,bd->abcd", same, (same - p) ** 2)
            worst = np.maximum(worst, spread.max(axis=(2, 3)))
        total += 3 * follows[place] * worst
    return total


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of a statistic of the true series: ``value`` between ``low`` and ``high``.

    A count has one number, a histogram one for each state, transitions a matrix with rows and
    columns in the order of ``states``. Each interval by itself covers the truth with probability
    ``confidence``, over the flips. ``records`` is how many records (for transitions, pairs of
    neighbours) it is about; ``hidden`` counts those of a redacted series that no output can tell,
    the protected ones among them: they are not in the estimate, and ``note`` says so.

    >>> Estimate(2.0, 0.0, 5.5, 0.95, 10, hidden=1).note
    'of 11 records, 1 is hidden by the redaction and not in this estimate'
    """

    value: Any
    low: Any
    high: Any
    confidence: float
    records: int
    states: tuple[State, ...] = ()
    hidden: int = 0

    @property
    def note(self) -> str:
        """Records that the estimate leaves out, in words; empty where all records are in it."""
        if not self.hidden:
            return ""
        pairs = "pairs of neighbours" if getattr(self.value, "ndim", 0) == 2 else "records"
        are = "is" if self.hidden == 1 else "are"
        return (
            f"of {self.records + self.hidden} {pairs}, {self.hidden} {are} hidden by the "
            "redaction and not in this estimate"
        )


def estimate(
    sanitised: "Data | Iterable[Any]",
    plan: "Plan[Any]",
    query: "Count | Histogram | Literal['transitions'] | None" = None,
    confidence: float = 0.95,
) -> Estimate:
    """Return counts of the true series from what `sanitize` returned.

    ``query`` is a `Count`, a `Histogram` (default) or ``"transitions"``. Counts are unbiased, so
    they may lie outside 0 .. records; intervals do not. They rest on the normal law of sums over
    many records. Flips of a noise chain depend on each other: the interval is that of the worst
    series. Of a redacted series, only records that can be shown in all states but one tell their
    count, by inverse probability; the estimate is about these, and its ``note`` says how many are
    not in it. Linear in the records.

    >>> from undertow import Count, MarkovChain, RandomizedResponse
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> level = Leakage(2.2, 2.2, "exact", "any")
    >>> plan = Plan(RandomizedResponse.binary(.25, .25), chain, 2.2, level, "exact")
    >>> counts = estimate(["idle"] * 60 + ["active"] * 40, plan, Count("active"))
    >>> counts.value, round(counts.low, 2), round(counts.high, 2)
    (30.0, 13.03, 46.97)
    """
    if isinstance(query, str):
        if query != "transitions":
            raise InvalidInput("query must be a Count, a Histogram or 'transitions'")
        return estimate_transitions(sanitised, plan, confidence)
    if query is not None and not isinstance(query, BaseQuery):
        raise InvalidInput(
            f"query must be a Count, a Histogram or 'transitions', found {shown(query)}"
        )
    if query is not None and not query.integral:
        raise NotSupported(
            f"a {type(query).__name__} cannot be estimated from states; ask for a Count, a "
            "Histogram or 'transitions'"
        )
    quantile = _quantile(confidence)
    read, survey = _read(sanitised, plan, ordered=False), _ReadSurvey()
    wanted = _wanted(plan, query)
    kinds = _kinds(plan, survey.over(read))
    intervals = [_counted(plan.mechanism, kinds, survey, one, quantile) for one in wanted]
    hidden = survey.records - kinds.records
    if query is not None and query.named:
        return Estimate(*intervals[0], confidence, kinds.records, plan.states, hidden)
    value, low, high = (dict(zip(plan.states, part, strict=True)) for part in zip(*intervals))  # noqa: B905
    return Estimate(value, low, high, confidence, kinds.records, plan.states, hidden)


def estimate_transitions(
    sanitised: "Data | Iterable[Any]", plan: "Plan[Any]", confidence: float = 0.95
) -> Estimate:
    """Return how often each state of the true series is followed by each other, row by row.

    The share of state b after state a among all neighbours in the true series: pairs are counted
    without bias, and divided by their row. Intervals are Fieller's, which hold also where a state
    is rare, and are all of [0, 1] where it may not occur (the value is then nan if no share can
    be given). Linear in the records.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> level = Leakage(2.2, 2.2, "exact", "any")
    >>> plan = Plan(RandomizedResponse.binary(.125, .125), chain, 2.2, level, "exact")
    >>> estimate_transitions([["idle"] * 50 + ["active"] * 50] * 9, plan).value.shape
    (2, 2)
    """
    quantile = _quantile(confidence)
    read, survey = _read(sanitised, plan, ordered=True), _ReadSurvey()
    windows, mechanism = _windows(survey.over(read)), plan.mechanism
    if isinstance(mechanism, XorNoise):
        ratios, pairs = _chained(mechanism, windows, survey)
    elif isinstance(mechanism, Redaction):
        ratios, pairs = _redacted(plan, read, windows, survey)
    else:
        weights, sums = undo(np.asarray(mechanism.matrix)), WeightSums(len(plan.states))
        for window in windows:
            product_sums(window.codes, weights, window.begins, sums=sums, limit=window.limit)
            survey.pairs += window.pairs
        pairs = survey.pairs
        ratios = sums.ratios()
    if not pairs:
        raise InvalidInput("no record has a neighbour that can be seen with it")
    value, low, high = ratios.ends(quantile)
    for part in (value, low, high):
        part.setflags(write=False)
    return Estimate(value, low, high, confidence, pairs, plan.states, survey.pairs - pairs)


def _counted(
    mechanism: LocalMechanism, kinds: Kinds, survey: "_ReadSurvey", wanted: npt.NDArray[np.bool_],
    quantile: float,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the number of records in some states, and the ends of its interval."""
    total, variance = kinds.sum(wanted, quantile)
    least, most = 0.0, float(kinds.records)
    if isinstance(mechanism, XorNoise):
        some = wanted.any() and not wanted.all()
        scale = (1 - 2 * mechanism.flip_rate) ** 2
        variance = chained_variance(mechanism, *survey.spans()) / scale if some else 0.0
    if isinstance(mechanism, Redaction):  # what is shown is true
        least = float(kinds.seen[:, :-1][:, wanted].sum())
        most = least + float(kinds.seen[:, -1].sum())
    reach = quantile * math.sqrt(variance)
    low, high = (min(max(end, least), most) for end in (total - reach, total + reach))
    return total, low, high


def _read(sanitised: Any, plan: Any, *, ordered: bool) -> Coded | CodedPieces:
    """Return the outputs as numbers, erased ones after all others."""
    check_plan(plan)
    mechanism = plan.mechanism
    if plan.task == "answer":
        raise NotSupported(
            "this plan answers a query with noise, and its answer is unbiased already; see "
            "Release.value and Release.error_bar"
        )
    length = mechanism.length
    if is_table(sanitised) and not isinstance(sanitised, Data):
        from undertow.data.codes import column_of, is_frame

        if ordered or length is not None or not is_frame(sanitised):
            raise InvalidInput(
                "which rows follow each other is not known of a table; pass Data(table, value=..., "
                "person=..., time=...)"
            )
        sanitised = column_of(sanitised)
    read = coded(sanitised, Rule.of_outputs(mechanism, plan.states))
    if length is not None and read.irregular(length) is not None:
        raise InvalidInput(
            f"the plan is for series of exactly {length} records; pass whole series, erased "
            "records included"
        )
    return read


class _ReadSurvey:
    """Numbers of records, series and pairs of neighbours that were read, and lengths of series."""

    def __init__(self) -> None:
        self.records = self.series = self.pairs = 0
        self._spans: Counter[int] = Counter()
        self._open = 0  # the steps of the series that may go on

    def over(self, read: Coded | CodedPieces) -> "Iterator[_OutputPiece]":
        """Yield what is read piece after piece, with the place of each record in its series."""
        for piece in read.pieces("records read"):
            heads = np.cumsum(piece.lengths) - piece.lengths  # (series,)
            places = piece.places
            if places is None:  # all are there, one after the other
                places = np.arange(piece.codes.size) - np.repeat(heads, piece.lengths)
            self.records += int(piece.codes.size)
            filled = piece.lengths > 0
            spans = places[(heads + piece.lengths - 1)[filled]] + 1
            if spans.size:
                if self._open and not piece.goes_on:
                    self._spans[self._open] += 1
                for span, count in zip(*np.unique(spans[:-1], return_counts=True), strict=True):
                    self._spans[int(span)] += int(count)
                self._open = int(spans[-1])
            first = self.series - int(piece.goes_on)
            numbers = first + np.repeat(np.arange(len(piece.lengths)), piece.lengths)
            self.series = first + len(piece.lengths)
            yield _OutputPiece(piece.codes, places, numbers)

    def spans(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the steps that series have, absent ones included, and how many have them."""
        held = self._spans + Counter({self._open: 1} if self._open else {})
        return np.array([*held], dtype=np.int64), np.array([*held.values()], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _OutputPiece:
    """Outputs in order, their places in their series, and numbers of the series: (n,) each."""

    codes: npt.NDArray[Any]
    places: npt.NDArray[np.int64]
    series: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Window(_OutputPiece):
    """Outputs, of which those before ``limit`` are looked at here: what follows them is known.

    ``begins`` says whether a record is followed, one step later, by another of its series.
    """

    begins: npt.NDArray[np.bool_]
    limit: int

    @property
    def starts(self) -> npt.NDArray[np.intp]:
        """Positions at which pairs begin."""
        return np.flatnonzero(self.begins[: self.limit])

    @property
    def pairs(self) -> int:
        """Number of pairs that begin here."""
        return int(self.begins[: self.limit].sum())


def _windows(pieces: "Iterable[_OutputPiece]") -> "Iterator[_Window]":
    """Yield outputs with the two that follow each, of whatever pieces they come in."""
    kept: _OutputPiece | None = None
    for piece in pieces:
        both = piece if kept is None else _OutputPiece(
            np.concatenate([kept.codes, piece.codes]),
            np.concatenate([kept.places, piece.places]),
            np.concatenate([kept.series, piece.series]),
        )  # fmt: skip
        limit = max(both.codes.size - 2, 0)
        yield _window(both, limit)
        kept = _OutputPiece(both.codes[limit:], both.places[limit:], both.series[limit:])
    if kept is not None:
        yield _window(kept, kept.codes.size)


def _window(held: _OutputPiece, limit: int) -> _Window:
    begins = np.zeros(held.codes.size, dtype=np.bool_)
    begins[:-1] = (np.diff(held.series) == 0) & (np.diff(held.places) == 1)
    return _Window(held.codes, held.places, held.series, begins, limit)


def _kinds(plan: "Plan[Any]", pieces: "Iterable[_OutputPiece]") -> Kinds:
    """Return the records by channel: one kind for flips, one for each place of a redaction."""
    mechanism = plan.mechanism
    if isinstance(mechanism, Redaction):
        places, channels = _shown(mechanism)
        length, outputs = mechanism.length, channels.shape[2]
    else:
        places, length = np.zeros(1, dtype=np.int64), 1
        channels = mechanism.matrix[None]  # (1, states, outputs)
        outputs = channels.shape[2]
    seen = np.zeros(length * outputs, dtype=np.int64)
    for piece in pieces:
        where = piece.places % length  # all places are one to flips
        seen += np.bincount(where * outputs + piece.codes.astype(np.int64), minlength=seen.size)
    weights = np.stack([undo(channel) for channel in channels])  # (kinds, outputs, states)
    return Kinds(channels, weights, seen.reshape(length, outputs)[places].astype(float))


def _shown(mechanism: Redaction) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64]]:
    """Return the places whose states are identifiable, and their channels, erased last."""
    erased = np.asarray(mechanism.probabilities)
    places = np.flatnonzero((erased == 1).sum(axis=1) <= 1)
    if not places.size:
        raise NotSupported(
            "every record is always erased in two or more states, so nothing can be estimated "
            "from what is shown"
        )
    # (places, states, states shown)
    kept = np.einsum("tx,xy->txy", 1 - erased[places], np.eye(erased.shape[1]))
    # erased is the last output
    return places, np.concatenate([kept, erased[places][:, :, None]], axis=2)


def _chained(
    mechanism: XorNoise, windows: "Iterable[_Window]", survey: "_ReadSurvey"
) -> tuple[PairCounts, int]:
    """Return the pairs under a noise chain, the most that they can vary, and their number.

    Terms d records apart share noise with correlation at most r^(d - 1), r = |1 - rho0 - rho1|,
    so their sum varies by at most 1 + 2 (1 + r + r^2 + ...) times the sum of their variances.
    """
    weights = undo(pair_channel(mechanism))
    seen = np.zeros(4, dtype=np.int64)  # (pairs of outputs)
    for window in windows:
        codes, starts = window.codes.astype(np.int64), window.starts
        seen += np.bincount(2 * codes[starts] + codes[starts + 1], minlength=4)
    survey.pairs = int(seen.sum())
    decay = abs(1 - mechanism.rho0 - mechanism.rho1)
    longest = float(survey.spans()[0].max())
    apart = longest if decay == 1 else min(longest, 1 / (1 - decay))
    pairs = (seen @ weights).reshape(2, 2)  # (state, next state)
    table = weights.reshape(4, 2, 2)  # (pairs of outputs, state, next state)
    row = table.sum(axis=2, keepdims=True)  # (pairs of outputs, state, 1)
    rows = pairs.sum(axis=1, keepdims=True)
    squares = (
        np.tensordot(seen, table**2, 1) - pairs,
        2 * (pairs - np.tensordot(seen, table * row, 1)),
        np.tensordot(seen, np.broadcast_to(row**2, table.shape), 1) - rows,
    )
    one, p, pp = ((1 + 2 * apart) * part for part in squares)
    return PairCounts(pairs, ((one, p, pp),)), survey.pairs


def _redacted(
    plan: "Plan[Redaction]", read: Coded | CodedPieces, windows: "Iterable[_Window]",
    survey: "_ReadSurvey",
) -> tuple[PairCounts, int]:  # fmt: skip
    """Return the pairs of identifiable records, their variance, and their number."""
    mechanism = plan.mechanism
    places, _ = _shown(mechanism)
    kinds = _kinds(plan, _ReadSurvey().over(read))
    weights = np.zeros(
        (mechanism.length, *kinds.weights.shape[1:])
    )  # 0 where a record is not identifiable
    weights[places] = kinds.weights
    public = np.zeros(mechanism.length, dtype=np.bool_)
    public[places] = True
    sums, number = WeightSums(weights.shape[-1]), 0
    for window in windows:
        where = window.places
        # both records of a pair are identifiable
        both = window.begins & public[where] & public[(where + 1) % mechanism.length]
        product_sums(window.codes, weights, both, where, sums=sums, limit=window.limit)
        survey.pairs += window.pairs
        number += int(both[: window.limit].sum())
    # (places): how often the next place follows
    follows = np.where(np.diff(places, append=-1) == 1, survey.series, 0)
    most = redacted_variance(kinds, follows)
    nothing = np.zeros_like(most)
    return PairCounts(sums.pairs, ((most, nothing, nothing),)), number


def _wanted(plan: "Plan[Any]", query: Count | Histogram | None) -> list[npt.NDArray[np.bool_]]:
    """Return which states are counted together, for each number of the answer."""
    if query is None or query.per_state:
        return list(np.eye(len(plan.states), dtype=np.bool_))
    for state in query.named:
        if state not in plan.states:
            raise UnknownState(
                f"the count asks for {state!r}, which is not among the plan's states {plan.states}"
            )
    return [np.array([state in query.named for state in plan.states])]


def _quantile(confidence: float) -> float:
    share = check_positive(confidence, "confidence")
    if not share <= 1 - 1e-12:
        raise InvalidInput(f"confidence must lie between 0 and 1 - 1e-12, found {share}")
    return NormalDist().inv_cdf(0.5 + share / 2)
