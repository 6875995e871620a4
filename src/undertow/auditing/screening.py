"""Screening of the audited code: influential records, and records or calls with shared noise.

The code is run on series of its own, and correlations that noise of the plan's kind does not have
name the records, pairs and distances to attack. A false finding costs time and no false alarm:
attacks are tested on draws that the screening has not seen.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.auditing.blackbox import Batch, BlackBox, checked, exact_answers
from undertow.auditing.scenarios import DrawnModel
from undertow.errors import NotSupported
from undertow.models.gaussian import real_ends
from undertow.numerics import Array
from undertow.plan import Plan

__all__ = ["BLOCK", "CALLS", "Repeat", "Suspects", "screen"]

BLOCK = 512
"""Records that are compared with each other: all pairs among so many in a row, and among as many
at the two ends."""

CALLS = 8
"""Calls whose noise is compared with each other, row by row."""

NEIGHBOURS = 4
"""Distance up to which the outputs of a series are looked at together by every attack."""

_MOST_RECORDS = 2**22
"""Most records drawn for a screening."""

_LEAST_SERIES = 500
"""Least series drawn for a screening, whatever their length."""

_MOST_FINDINGS = 2
"""Most findings of each kind: records, pairs of records, and distances between calls."""

_FALSE_ALARM_RATE = 0.01
"""Approximate false-alarm rate for each kind of correlation, under independent noise."""

_LEAST_EXPECTED = 10
"""Least expected number of joint deviations of two outputs that are compared."""

_MOST_NUMBERS = 4
"""Most released numbers that are screened."""

_MOST_COLUMNS = 64
"""Most records of a series that are screened together."""

_MOST_STATES = 4
"""Most states that are screened."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A distance between two answers whose noise is alike: rows of one call, or calls.

    >>> Repeat(1, calls=False).words()
    'the row next to it in the same call'
    """

    lag: int
    calls: bool

    def words(self) -> str:
        """Return where the other answer is."""
        if self.calls:
            where = "call next to it" if self.lag == 1 else f"call {self.lag} calls away"
            return f"the same row of the {where}"
        where = "row next to it" if self.lag == 1 else f"row {self.lag} rows away"
        return f"the {where} in the same call"


@dataclass(frozen=True, slots=True)
class Suspects:
    """The findings of a screening: records, pairs of records, distances between calls.

    ``series`` were answered for it.

    >>> Suspects().any
    False
    """

    records: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    repeats: tuple[Repeat, ...] = ()
    series: int = 0

    @property
    def any(self) -> bool:
        """Whether the screening has findings."""
        return bool(self.records or self.pairs or self.repeats)


def screen(
    plan: "Plan[Any]", drawn: DrawnModel, mechanism: BlackBox, draws: int,
    generator: np.random.Generator,
) -> Suspects:  # fmt: skip
    """Screen answers of the code for records, pairs and repeats to attack.

    Records and pairs are sought on series whose records are independent and uniform over the
    states, so that no dependence of the model hides which record an answer follows. Calls are
    compared on one and the same series.
    """
    size = int(np.clip(_MOST_RECORDS // drawn.length, min(_LEAST_SERIES, draws), draws))
    local = plan.task != "answer"
    outputs = _outputs(plan, drawn) if local else None
    values = _values(plan, drawn)

    def answers(codes: Batch) -> Batch:
        series = codes if drawn.model.states else values[codes]
        return checked(mechanism(series), series, outputs)

    codes = generator.integers(len(values), size=(size, drawn.length), dtype=np.uint8)
    answered = answers(codes)
    if local:
        records = _odd_rates(plan, answered, codes, len(values))
        pairs = _shared(answered, codes, len(values))
    else:
        features, moved = _features(plan, drawn, answered, values, codes)
        records = _influential(features, codes, len(values), moved=moved)
        pairs = _interacting(features[:, : features.shape[1] // 2], codes, len(values))
    rows = max(size // CALLS, 16)
    same = np.tile(codes[:1], (rows, 1))
    calls = np.concatenate([answers(same) for _ in range(CALLS)])  # (rows of all calls, numbers)
    return Suspects(records, pairs, _repeats(calls, rows), size + rows * CALLS)


def _outputs(plan: "Plan[Any]", drawn: DrawnModel) -> int:
    return len(plan.mechanism.names(drawn.model.states)) + (plan.task == "redact")


def _values(plan: "Plan[Any]", drawn: DrawnModel) -> Array:
    """Return the values of a record: numbers of states, or the two ends of real values."""
    if drawn.model.states:
        return np.arange(len(drawn.model.states), dtype=np.float64)
    return np.array(real_ends(plan.query), dtype=np.float64)


def _level(looks: float) -> float:
    """Return the critical value of the largest of a number of standard scores."""
    return math.sqrt(2 * math.log(max(looks, 1.0) / _FALSE_ALARM_RATE))


# --- answers --------------------------------------------------------------------------------------


def _features(
    plan: "Plan[Any]", drawn: DrawnModel, answers: Batch, values: Array, codes: Batch
) -> tuple[Array, bool]:
    """Return the residuals of answers and their sizes: two columns for each number.

    Also whether exact answers are not known, so that records move what is left by right.
    """
    features = answers[:, :_MOST_NUMBERS].astype(np.float64)
    series = codes if drawn.model.states else values[codes]
    try:
        exact = exact_answers(plan, drawn.model.states)(series)[:, : features.shape[1]]
    except NotSupported:  # a question that only code of one's own can answer
        exact = np.zeros((1, 1))
    moved = exact.shape != features.shape
    rest = features if moved else features - exact
    rest = rest - np.median(rest, axis=0)
    # a few huge answers would hide the others: (draws, numbers)
    cut = np.quantile(np.abs(rest), 0.999, axis=0)
    rest = np.clip(rest, -cut, cut)
    return _standard(np.hstack([rest, np.abs(rest)])), moved


def _standard(columns: Array) -> Array:
    """Return columns of mean 0 and variance 1; those without variance as 0."""
    centred = columns - columns.mean(axis=0)
    spread = centred.std(axis=0)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 1e-12))


def _indicators(codes: Batch, states: int) -> list[Batch]:
    """Return for each state (of two states, for one) in which records it is, standardised."""
    shown = range(1, 2) if states == 2 else range(min(states, _MOST_STATES))
    return [_standard_bits(codes == state) for state in shown]


def _standard_bits(bits: Batch) -> npt.NDArray[np.float32]:
    standard = bits.astype(np.float32)
    standard -= standard.mean(axis=0)
    spread = standard.std(axis=0)
    return np.asarray(np.divide(standard, spread, out=np.zeros_like(standard), where=spread > 0))


def _influential(features: Array, codes: Batch, states: int, *, moved: bool) -> tuple[int, ...]:
    """Return the records with too large an influence on answers, the strongest first."""
    root = math.sqrt(len(codes))
    scores = np.zeros(codes.shape[1])
    for indicator in _indicators(codes, states):
        influence = np.abs(features.T.astype(np.float32) @ indicator) / root  # (features, records)
        if moved:
            influence = influence - np.median(influence, axis=1, keepdims=True)
        scores = np.maximum(scores, influence.max(axis=0))
    looks = features.shape[1] * codes.shape[1] * min(states, _MOST_STATES)
    return _strongest(scores, _level(looks))


def _strongest(scores: Array, level: float) -> tuple[int, ...]:
    order = np.argsort(-scores)[:_MOST_FINDINGS].tolist()
    return tuple(place for place in order if scores[place] > level)


def _blocks(records: int) -> list[npt.NDArray[np.int64]]:
    """Return the records that are compared with each other: runs of them, and both ends."""
    blocks = [np.arange(begin, min(begin + BLOCK, records)) for begin in range(0, records, BLOCK)]
    if len(blocks) > 1:
        half = BLOCK // 2
        blocks.append(np.r_[0:half, records - half : records])
    return blocks


def _interacting(features: Array, codes: Batch, states: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of records that move answers together, beyond what each does alone."""
    root = math.sqrt(len(codes))
    best: dict[tuple[int, int], float] = {}
    looks = 0
    for block in _blocks(codes.shape[1]):
        for indicator in _indicators(codes[:, block], states):
            for column in features.T.astype(np.float32):
                interaction = np.abs((indicator * column[:, None]).T @ indicator) / root
                looks += interaction.size // 2
                _note(best, np.triu(interaction, 1), block)
    return _pairs(best, _level(looks))


def _note(best: dict[tuple[int, int], float], scores: Array, block: npt.NDArray[np.int64]) -> None:
    """Note the best pairs of a table of scores, by records."""
    flat = scores.ravel()
    for place in np.argpartition(-flat, min(_MOST_FINDINGS, flat.size - 1))[
        :_MOST_FINDINGS
    ].tolist():
        pair = int(block[place // len(block)]), int(block[place % len(block)])
        best[pair] = max(best.get(pair, 0.0), float(flat[place]))


def _pairs(best: dict[tuple[int, int], float], level: float) -> tuple[tuple[int, int], ...]:
    order = sorted(best, key=lambda pair: -best[pair])
    return tuple(pair for pair in order if best[pair] > level)[:_MOST_FINDINGS]


# --- series ---------------------------------------------------------------------------------------


def _unexplained(
    shown: npt.NDArray[np.float32], codes: Batch, states: int
) -> tuple[npt.NDArray[np.float32], Array]:
    """Return the standardised residuals of outputs given their own records, and their variance."""
    rest = shown.copy()  # (draws, records)
    for state in range(states):
        has = codes == state
        mean = np.where(has, shown, 0.0).sum(axis=0) / np.maximum(has.sum(axis=0), 1)
        rest -= (has * mean).astype(np.float32)
    spread = rest.std(axis=0)
    return np.divide(rest, spread, out=np.zeros_like(rest), where=spread > 1e-6), spread**2


def _odd_rates(
    plan: "Plan[Any]", outputs: Batch, codes: Batch, states: int
) -> tuple[int, ...]:  # fmt: skip
    """Return the records that are shown as they are more or less often than the others.

    Erasures may depend on the place; their targets are the protected records in any case.
    """
    if plan.task == "redact":
        return ()
    wrong, scores = outputs != codes, np.zeros(codes.shape[1])
    for state in range(states):
        has = codes == state
        counts = np.maximum(has.sum(axis=0), 1)
        rate = (wrong & has).sum(axis=0) / counts  # (records,)
        usual = float(np.median(rate))
        deviation = np.sqrt(max(usual * (1 - usual), 1 / len(codes)) / counts)
        scores = np.maximum(scores, np.abs(rate - usual) / deviation)
    return _strongest(scores, _level(2 * states * codes.shape[1]))


def _shared(outputs: Batch, codes: Batch, states: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs (record, other) with correlated residuals or dependent outputs.

    An output counts as what it is, and as whether it differs from its record. Pairs that every
    attack looks at in any case, a few records apart, are left out.
    """
    root, looks = math.sqrt(len(codes)), 0
    best: dict[tuple[int, int], float] = {}
    shown = [outputs.astype(np.float32), (outputs != codes).astype(np.float32)]
    rests = [_unexplained(one, codes, states) for one in shown]
    for block in _blocks(codes.shape[1]):
        far = np.abs(block[:, None] - block) > NEIGHBOURS
        indicators = _indicators(codes[:, block], states)
        for rest, variance in ((one[:, block], spread[block]) for one, spread in rests):
            # what happens together this seldom has no score
            often = len(codes) * np.outer(variance, variance) > _LEAST_EXPECTED
            together = np.where(often, np.triu(rest.T @ rest), 0.0)
            residuals = np.where(len(codes) * variance > _MOST_STATES * _LEAST_EXPECTED, rest, 0.0)
            # (record, other): whether the output of the other depends on the record
            for products in (together, *(indicator.T @ residuals for indicator in indicators)):
                _note(best, np.where(far, np.abs(products) / root, 0.0), block)
                looks += products.size
    return _pairs(best, _level(looks))


# --- calls ----------------------------------------------------------------------------------------


def _repeats(answers: Batch, rows: int) -> tuple[Repeat, ...]:
    """Return the distances at which answers about the same series are alike.

    The products of two rows are added over columns, which may depend on each other (the outputs of
    a series do, under XOR noise): of independent rows with correlations C between the columns such
    a sum has the variance |C|^2 (Frobenius). Noise without any variance is alike at all distances.
    """
    columns = answers[:, :_MOST_COLUMNS].astype(np.float64)
    varied = (columns != np.median(columns, axis=0)).mean(axis=0)  # (numbers,): share of the rows
    columns = _standard(columns[:, len(columns) * varied**2 > _LEAST_EXPECTED])
    if not columns.size:
        return (Repeat(1, calls=False), Repeat(1, calls=True))
    total = len(columns)
    most = total - rows  # the largest distance, a whole call less than all
    spectrum = np.fft.rfft(columns, 2 * total, axis=0)
    power = np.fft.irfft((spectrum * spectrum.conj()).sum(axis=1))[1 : most + 1]  # (distances,)
    variance = float(((columns.T @ columns / total) ** 2).sum())
    correlations = np.abs(power) / np.sqrt((total - np.arange(1, most + 1)) * variance)
    level = _level(2 * most)
    within, across = correlations.copy(), correlations[rows - 1 :: rows]  # distances of whole calls
    within[rows - 1 :: rows] = 0.0
    repeats = []
    for strength, calls in ((within, False), (across, True)):
        top = float(strength.max())
        if top > level:  # the first of those that are about as strong: the others repeat it
            repeats.append(Repeat(1 + int(np.argmax(strength > 0.8 * top)), calls=calls))
    return tuple(repeats)
