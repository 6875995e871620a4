"""Judges of a chosen chain: universal predictors of its order, simulations of its memory.

A universal predictor knows no order: what it gains on held-out records is what the chain misses.
The sums of autocorrelations of the records lie inside the interval of series drawn from the chain,
or its memory is another, shorter or longer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import NotSupported
from undertow.models.base import Model
from undertow.models.fitting.checks import NAMES, Basis, Check, untested
from undertow.models.fitting.hypotheses import sample, shown_p_value
from undertow.models.fitting.series import Unbroken, cycle_of
from undertow.models.hidden import PeriodicHiddenChain
from undertow.numerics import Array

__all__ = ["Gain", "boosted_trees", "context_trees", "judged", "memory_check", "order_check"]


DEPTH = 12
"""Records that a universal predictor looks back on at most."""

MOST_CONTEXTS = 2**18
"""Contexts of a context tree (memory); with many states it is less deep."""

MOST_TRAINED = 200_000
"""Records that boosted trees learn from at most, the last ones (cost)."""

WINDOWS = (24, 96, 384)
"""Records before one whose states are counted for boosted trees."""

SURE = 2.24
"""Standard errors of a gain that is none in 95 of 100 cases, of two predictors."""

MATTERS = 0.02
"""Gain in bits a record that a passed check excludes, up to its standard error."""

LAGS = (20, 100, 400)
"""Lags up to which autocorrelations are added."""

DRAWN, MOST_DRAWN, FEWEST_DRAWN = 199, 2 * 10**7, 119
"""Series drawn from the chain, records of them in all, and the fewest (cost)."""

MOST_SIMULATED = 200_000
"""Records, the first ones, whose memory is compared (cost)."""

MOST_STATES = 3
"""States whose memory is compared, those with the most variance first; of two states one."""

DOUBT = 0.05
"""Share of true models that fail one of these checks."""


def _lagged(codes: npt.NDArray[np.int64], back: int) -> npt.NDArray[np.int64]:
    """Return the record ``back`` places before each one, 0 where there is none."""
    moved = np.zeros_like(codes)
    moved[back:] = codes[: codes.size - back]
    return moved


def context_trees(
    read: Unbroken, held: npt.NDArray[np.bool_], deepest: int = DEPTH
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return -log2 Pr[record] by context-tree weighting, and of which records it is known.

    The mixture over all trees of contexts up to ``deepest`` records, each leaf with the estimator
    of [krichevsky1981], weighted as in [willems1995], learnt from the records that are not held
    out and then frozen. Cost O(n d + k^d).

    >>> from undertow.models.fitting.series import unbroken
    >>> read = unbroken([0, 0, 1, 1] * 100)
    >>> costs, known = context_trees(read, np.arange(400) >= 300)
    >>> float(costs[known & (np.arange(400) >= 300)].mean()) < 0.05
    True
    """
    size = len(read.states)
    depth = min(deepest, int(math.log(MOST_CONTEXTS) / math.log(size)))
    known = read.places >= depth
    learnt = known & ~held
    context = np.zeros(read.codes.size, np.int64)
    contexts, counts = [context], []
    for back in range(1, depth + 1):
        context = context + _lagged(read.codes, back) * size ** (back - 1)
        contexts.append(context)
    for level, context in enumerate(contexts):
        flat = context[learnt] * size + read.codes[learnt]
        counts.append(np.bincount(flat, minlength=size ** (level + 1)).reshape(-1, size))
    from scipy.special import gammaln

    own = [  # ln Pr[records after a context] by the estimator: (k^level,)
        gammaln(count + 0.5).sum(axis=1) - gammaln(count.sum(axis=1) + size / 2)
        - size * gammaln(0.5) + gammaln(size / 2)
        for count in counts
    ]  # fmt: skip
    weighted, stops = own[-1], [np.ones_like(own[-1])]
    for level in range(depth - 1, -1, -1):
        apart = weighted.reshape(size, -1).sum(axis=0)  # over the record before the context
        both = np.logaddexp(own[level], apart)
        stops.append(np.exp(own[level] - both))
        weighted = both - math.log(2)
    share, reach = np.zeros(read.codes.size), np.ones(read.codes.size)
    for level, context in enumerate(contexts):
        count, stop = counts[level], stops[depth - level][context]
        law = (count[context, read.codes] + 0.5) / (count[context].sum(axis=1) + size / 2)
        share += reach * stop * law
        reach = reach * (1 - stop)
    return -np.log2(share), known


def boosted_trees(
    read: Unbroken, held: npt.NDArray[np.bool_]
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return -log2 Pr[record] by boosted trees over the past, and of which records it is known.

    They see the last `DEPTH` records, how often each state came before, when the state last
    changed, and the clock where there is one; learnt from the records that are not held out and
    then frozen.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    size, n = len(read.states), read.codes.size
    known = read.places >= DEPTH
    columns: list[npt.NDArray[Any]] = [_lagged(read.codes, b) for b in range(1, DEPTH + 1)]
    begin = np.arange(n) - read.places
    changed = np.ones(n, np.bool_)
    changed[1:] = (read.codes[1:] != read.codes[:-1]) | (read.places[1:] == 0)
    since = np.arange(n) - np.maximum.accumulate(np.where(changed, np.arange(n), 0))
    columns.append(_lagged(since, 1))
    for state in range(1, size):
        sums = np.concatenate([[0], np.cumsum(read.codes == state)])
        for window in WINDOWS:
            first = np.maximum(np.arange(n) - window, begin)
            columns.append((sums[np.arange(n)] - sums[first]) / np.maximum(np.arange(n) - first, 1))
    if read.times is not None:
        columns += [read.times % 86_400_000_000, read.times // 86_400_000_000 % 7]
    table = np.column_stack(columns).astype(np.float64)
    rows = np.flatnonzero(known & ~held)[-MOST_TRAINED:]
    judge = HistGradientBoostingClassifier(
        max_iter=100, learning_rate=0.1, max_leaf_nodes=15, min_samples_leaf=40,
        l2_regularization=1.0, early_stopping=True, validation_fraction=0.15, random_state=0,
    )  # fmt: skip
    with threadpool_limits(1, "openmp"):  # threads that wait for a busy core wait for each other
        judge.fit(table[rows], read.codes[rows])
        asked = np.flatnonzero(known & held)
        shares = np.full((asked.size, size), 1e-12)
        shares[:, judge.classes_] = judge.predict_proba(table[asked])
    costs = np.full(n, math.inf)
    picked = np.clip(shares[np.arange(asked.size), read.codes[asked]], 1e-12, 1)
    costs[asked] = -np.log2(picked)
    return costs, known


@dataclass(frozen=True, slots=True)
class Gain:
    """What a universal predictor gains over a chain on held-out records, in bits a record."""

    name: str
    bits: float
    error: float

    def words(self) -> str:
        """Return the gain in words.

        >>> Gain("context trees", -0.01234, 0.002).words()
        'context trees -0.0123 (standard error 0.0020)'
        """
        return f"{self.name} {self.bits:+.4f} (standard error {self.error:.4f})"


def order_check(
    read: Unbroken, held: npt.NDArray[np.bool_], costs: Array,
    mean: Callable[[Array, npt.NDArray[np.bool_]], tuple[float, float]], basis: Basis,
) -> Check:  # fmt: skip
    """Return the check whether universal predictors gain on the held-out records.

    ``costs`` (n,) are the bits that records cost under the chain, fitted without those held out;
    ``mean`` gives a mean over some of these and its standard error.
    """
    gains: list[Gain] = []
    for name, judge in (("context trees", context_trees), ("boosted trees", boosted_trees)):
        own, known = judge(read, held)
        kept = held & known
        if 2 * kept.sum() < held.sum():
            break
        gains.append(Gain(name, *mean(np.where(kept, costs - own, 0.0), kept)))
    if not gains:
        sentence = f"most series are shorter than the {DEPTH} records that are looked back on"
        return Check("order", "not tested", sentence, basis)
    shown = f"gain in bits a record on held-out records: {', '.join(g.words() for g in gains)}"
    best = max(gains, key=lambda gain: gain.bits - SURE * gain.error)
    if best.bits > SURE * best.error:
        sentence = f"predictors of any order find more than the chain; {shown}"
        return Check("order", "failed", sentence, basis)
    if max(gain.bits + SURE * gain.error for gain in gains) > MATTERS:
        sentence = f"no sign of more, but the records are too few to tell; {shown}"
        return Check("order", "not tested", sentence, basis)
    sentence = f"predictors of any order find no more than the chain; {shown}"
    return Check("order", "passed", sentence, basis)


def memory_check(model: Model, read: Unbroken, basis: Basis, seed: int = 0) -> Check:
    """Return the check whether autocorrelations add up as in series drawn from the chain.

    Sums up to 20, 100 and 400 lags, in the same lengths of series; two-sided by their ranks among
    the drawn ones, all sums together with probability `DOUBT` of failing a true model.
    """
    part = read if read.codes.size <= MOST_SIMULATED else read.part(
        np.arange(read.codes.size) < MOST_SIMULATED
    )  # fmt: skip
    records = part.codes.size
    longest = int(np.diff(part.ends, prepend=0).max())
    lags = [lag for lag in LAGS if 4 * lag <= longest]
    draws = max(FEWEST_DRAWN, min(DRAWN, MOST_DRAWN // records))
    if not lags:
        sentence = f"no series has {4 * LAGS[0]} records"
        return Check("memory", "not tested", sentence, basis)
    drawn = _simulated(model, part, draws, seed)
    shares = np.bincount(part.codes, minlength=len(part.states)) / records
    order = np.argsort(-shares * (1 - shares), kind="stable")
    states = order[: 1 if len(part.states) == 2 else min(MOST_STATES, len(part.states))]
    worst: tuple[float, str] | None = None
    inside: list[str] = []
    tests = len(lags) * len(states)
    for state in states:
        own = _sums((part.codes == state)[:, None], part, lags)[:, 0]
        others = _sums(drawn == state, part, lags)  # (lags, draws)
        for lag, value, row in zip(lags, own, others, strict=True):
            below, above = int((row <= value).sum()), int((row >= value).sum())
            p_value = min(1.0, 2 * (1 + min(below, above)) / (draws + 1))
            low, high = np.quantile(row, [DOUBT / 2 / tests, 1 - DOUBT / 2 / tests])
            words = f"{value:.3g} over {lag} lags (drawn: {low:.3g} to {high:.3g})"
            inside.append(words)
            if worst is None or p_value < worst[0]:
                worst = p_value, words
    p_value = min(1.0, (worst or (1.0, ""))[0] * tests)
    if p_value <= DOUBT:
        sentence = (
            f"autocorrelations add up to {(worst or (1, ''))[1]}, outside what the chain gives "
            f"({shown_p_value(p_value)})"
        )
        return Check("memory", "failed", sentence, basis, p_value=p_value)
    sentence = f"autocorrelations add up as those of the chain: {', '.join(inside[: len(lags)])}"
    return Check("memory", "passed", sentence, basis, p_value=p_value)


def _simulated(
    model: Model, read: Unbroken, draws: int, seed: int
) -> npt.NDArray[np.int8 | np.int16]:
    """Return numbers of states of series drawn from a chain, of the lengths of the records.

    Shape (n, draws); a phase is that of the record's clock.
    """
    law = model.lowered()
    if law is None:
        raise NotSupported(f"a chain is required, found a {type(model).__name__}")
    generator = np.random.default_rng(seed)
    starts, labels = np.cumsum(law.start)[None], np.zeros(read.codes.size, np.int64)
    kernels, first = law.kernels, np.zeros(len(read.ends), np.int64)
    if isinstance(model, PeriodicHiddenChain):
        cycle = cycle_of(model)
        phases, order = cycle.phases_of(read), np.argsort(model.shown, kind="stable")
        labels, first = phases // model.steps_per, phases[read.begins]
        starts = np.cumsum(model.hidden_laws()[:, order], axis=1)
        kernels = law.kernels[:: model.steps_per]
    steps = np.cumsum(kernels, axis=-1)
    steps[..., -1] = starts[..., -1] = 1.0
    numbers = [model.index(state) for state in read.states]  # of the model, by those of the read
    place = np.empty(len(numbers), np.int64)
    place[numbers] = np.arange(len(numbers))
    shown = place[law.symbols].astype(np.int16)
    series = np.empty((read.codes.size, draws), dtype=np.int16)
    begins = dict(zip(read.begins.tolist(), first.tolist(), strict=True))
    now = np.zeros(draws, np.int64)
    for record in range(read.codes.size):
        uniform = generator.random(draws)
        phase = begins.get(record)
        if phase is not None:
            now = np.searchsorted(starts[phase], uniform, side="right")
        else:
            now = (steps[labels[record - 1], now] <= uniform[:, None]).sum(axis=1)
        series[record] = shown[now]
    return series


def _sums(inside: npt.NDArray[np.bool_], read: Unbroken, lags: list[int]) -> Array:
    """Return 1 + 2 sum_l rho_l up to each lag, (lags, series), from indicators (n, series).

    rho_l is the mean product of deviations from the series' own mean over pairs of records l apart
    in one series, over the variance.
    """
    most, n = lags[-1], read.codes.size
    lengths = np.diff(read.ends, prepend=0)
    place = np.arange(n) + most * read.series  # so many zeros after each series
    width = int(2 ** math.ceil(math.log2(n + most * (len(lengths) + 1))))
    pairs = np.maximum(lengths[:, None] - np.arange(1, most + 1), 0).sum(axis=0)
    sums = np.empty((len(lags), inside.shape[1]))
    for column in range(inside.shape[1]):
        values = inside[:, column] - inside[:, column].mean()
        padded = np.zeros(width)
        padded[place] = values
        power = np.abs(np.fft.rfft(padded)) ** 2
        products = np.fft.irfft(power, width)[1 : most + 1]
        variance = float((values**2).mean())
        rho = products / np.maximum(pairs, 1) / max(variance, 1e-300)
        sums[:, column] = 1 + 2 * np.cumsum(rho)[np.array(lags) - 1]
    return sums


def judged(
    model: Model, read: Unbroken, held: npt.NDArray[np.bool_] | None, costs: Array | None,
    mean: Callable[[Array, npt.NDArray[np.bool_]], tuple[float, float]] | None, basis: Basis,
) -> tuple[Check, ...]:  # fmt: skip
    """Return all checks of a chosen chain, in the order of reports.

    Those of order one and two keep what their counts say of time, hours and persons.
    """
    checks = {check.name: check for check in untested(basis == "public", *NAMES)}
    checks |= {check.name: check for check in model.checks}
    law = model.lowered()
    if law is not None and checks["sample"].outcome == "not tested" and law.size > law.states:
        laws = model.hidden_laws() if isinstance(model, PeriodicHiddenChain) else law.start[None]
        least = int(float(laws.mean(axis=0).min()) * read.codes.size)
        words = f"{read.codes.size} records; the rarest hidden state stands for {least} of them"
        checks["sample"] = sample(least, words, basis)
    checks["memory"] = memory_check(model, read, basis)
    if held is not None and costs is not None and mean is not None:
        checks["order"] = order_check(read, held, costs, mean, basis)
    else:
        few = "the records are too few to hold some out"
        checks["order"] = replace(checks["order"], outcome="not tested", words=few)
    return tuple(checks[name] for name in NAMES)
