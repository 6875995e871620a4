"""Hidden chains estimated from records, by expectation-maximisation from several starts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from undertow import progress
from undertow.errors import InvalidInput, InvalidModel
from undertow.models.chains import one_closed_class
from undertow.models.fitting.checks import NAMES, untested
from undertow.models.fitting.passes import Passes
from undertow.models.fitting.scores import bits
from undertow.models.fitting.series import Cycle, Unbroken, cycle_named, unbroken
from undertow.models.hidden import HiddenChain, PeriodicHiddenChain, mixed_rows
from undertow.models.records import duration, fitted_origin
from undertow.models.validation import warn_fitted
from undertow.numerics import Array, Seed, check_count, check_flag, random_generator
from undertow.queries import State

__all__ = [
    "MARGIN",
    "UNDERFLOW",
    "FittedHiddenChain",
    "FittedPeriodicChain",
    "Laws",
    "ascended",
    "attractive_rows",
    "by_context",
    "chain_of",
    "climbed",
    "compiled",
    "decode",
    "fit_hidden",
    "fitted_chain",
    "log_likelihood",
    "marked",
    "random_laws",
    "searched",
    "smooth",
    "smooth_logs",
    "smooth_pair",
]


MARGIN, LARGEST = 1e-6, 25.0
"""Least and largest L, and the largest |b|: a law that is attractive by at least the first is so
after rounding, and transitions e^25 times rarer than others are as good as impossible."""

STEPS, ASCENT_TOLERANCE = 30, 1e-9
"""Newton steps (cost), and the gain for each transition that was counted at which they end."""


@cache
def _design(size: int) -> Array:
    """Return du_ij / d(b, L), shape (m, m, parameters)."""
    inner = size - 1
    table = np.zeros((size, size, inner + inner * inner))
    for i in range(size):
        for j in range(1, size):
            table[i, j, j - 1] = 1.0
            table[i, j, inner:].reshape(inner, inner)[:i, :j] = 1.0
    table.setflags(write=False)
    return table


def _rows(point: Array, size: int) -> tuple[Array, Array]:
    """Return T (m, m), and ln T."""
    exponents = _design(size) @ point
    top = exponents.max(axis=1, keepdims=True)
    logs = exponents - top - np.log(np.exp(exponents - top).sum(axis=1, keepdims=True))
    return np.exp(logs), logs


def attractive_rows(counts: Array, start: Array) -> Array:
    """Return the T that makes sum c_ij ln T_ij largest among the totally positive ones.

    ``counts`` (m, m) are expected transitions, ``start`` a matrix to begin at; the hidden states
    are in their order. Of an order that ``start`` does not have the nearest one is taken. Cost
    O(m^6) for each of a few steps.

    >>> rows = attractive_rows(np.array([[3.0, 1.0], [2.0, 2.0]]), np.full((2, 2), .5))
    >>> rows.round(6).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    >>> rows = attractive_rows(np.array([[1.0, 3.0], [2.0, 2.0]]), np.full((2, 2), .5))
    >>> rows.round(4).tolist()  # a change may be no likelier than staying: equal rows
    [[0.375, 0.625], [0.375, 0.625]]
    """
    size = len(counts)
    design, visits = _design(size), counts.sum(axis=1)
    low = np.where(np.arange(design.shape[2]) < size - 1, -LARGEST, MARGIN)
    logs = np.log(np.maximum(start, np.finfo(np.float64).tiny))
    second = logs[1:, 1:] + logs[:-1, :-1] - logs[1:, :-1] - logs[:-1, 1:]
    point = np.clip(np.concatenate([logs[0, 1:] - logs[0, 0], second.ravel()]), low, LARGEST)
    total = max(float(counts.sum()), 1.0)
    table, logs = _rows(point, size)
    value = float((counts * logs).sum())
    for _ in range(STEPS):
        slope = np.einsum("ij,ijp->p", counts - visits[:, None] * table, design)
        free = ~(((point <= low) & (slope < 0)) | ((point >= LARGEST) & (slope > 0)))
        mean = np.einsum("ij,ijp->ip", table, design)
        weighed = np.einsum("i,ij,ijp->ijp", visits, table, design)
        bend = np.einsum("ijp,ijq->pq", weighed, design) - np.einsum(
            "i,ip,iq->pq", visits, mean, mean
        )  # less the second derivatives: positive semidefinite
        # rows that were never visited leave directions without any bend
        ridge = np.diag(1e-6 * np.diag(bend) + 1e-9 * total)
        step = np.zeros_like(point)
        step[free] = np.linalg.solve((bend + ridge)[np.ix_(free, free)], slope[free])
        gain, share = 0.0, 1.0
        while share > 1e-9:
            tried = np.clip(point + share * step, low, LARGEST)
            table_tried, logs = _rows(tried, size)
            gain = float((counts * logs).sum()) - value
            if gain >= 1e-4 * float(slope @ (tried - point)) and gain >= 0:
                break
            share /= 2
        else:
            break
        point, table, value = tried, table_tried, value + gain
        if gain <= ASCENT_TOLERANCE * total * 1e-3:
            break
    return table


TINY = 1e-290
"""Below it a product may lose digits (lower side): the sweep starts again with logarithms."""

UNDERFLOW = -2
"""Return value of a sweep in which a probability underflowed."""


@cache
def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop with numba; return it unchanged if numba is not installed.

    What was compiled is kept on the disk, where there is a place that can be written to.

    >>> compiled(smooth_pair) is compiled(smooth_pair)
    True
    """
    try:
        from numba import njit  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return loop
    function: Callable[..., Any]
    try:
        function = njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # nowhere to keep it
        function = njit(nogil=True)(loop)
    return function


def smooth_pair(
    codes: Any, ends: Any, start: Any, steps: Any, moving: int, emission: Any, out: Any
) -> int:
    """Fill ``out`` (records, 2) with the posteriors of two hidden states.

    The way forth keeps Pr[state | outputs so far] in ``out``; the way back multiplies it by the
    probability of the outputs still to come. Both are rescaled at every record, so nothing but
    ``out`` grows with the records. Returns `UNDERFLOW` where a probability that is not 0
    becomes too small.
    """
    first = 0
    for end in ends:
        # a, b: Pr[state 0, outputs so far] and Pr[state 1, outputs so far], up to a common factor
        a, b = start[0] * emission[codes[first], 0], start[1] * emission[codes[first], 1]
        for t in range(first, end):
            if t > first:
                # the matrix that leads from record t - 1 to t
                step = (t - first - 1) * moving % len(steps)
                a, b = (
                    (a * steps[step, 0, 0] + b * steps[step, 1, 0]) * emission[codes[t], 0],
                    (a * steps[step, 0, 1] + b * steps[step, 1, 1]) * emission[codes[t], 1],
                )
            total = a + b
            if total < TINY:
                return t if total == 0.0 else UNDERFLOW
            scale = 1.0 / total
            a *= scale
            b *= scale
            if (0.0 < a < TINY) or (0.0 < b < TINY):
                return UNDERFLOW
            out[t, 0] = a
            out[t, 1] = b
        # c, d: Pr[outputs after t | state] up to a common factor; after the last record, nothing
        c, d = 1.0, 1.0
        for t in range(end - 2, first - 1, -1):
            step = (t - first) * moving % len(steps)
            # b_t(x) = sum_y P(x, y) Pr[z_{t+1} | y] b_{t+1}(y)
            c *= emission[codes[t + 1], 0]
            d *= emission[codes[t + 1], 1]
            c, d = (
                steps[step, 0, 0] * c + steps[step, 0, 1] * d,
                steps[step, 1, 0] * c + steps[step, 1, 1] * d,
            )
            scale = 1.0 / (c + d)
            c *= scale
            d *= scale
            if (0.0 < c < TINY) or (0.0 < d < TINY):
                return UNDERFLOW
            # Pr[X_t = x | all outputs] is proportional to a_t(x) b_t(x)
            a = out[t, 0] * c
            b = out[t, 1] * d
            total = a + b
            if total < TINY:
                return UNDERFLOW
            scale = 1.0 / total
            out[t, 0] = a * scale
            out[t, 1] = b * scale
        first = end
    return -1


def smooth(
    codes: Any, ends: Any, start: Any, steps: Any, moving: int, emission: Any, out: Any
) -> int:
    """Fill ``out`` (records, states) with the posteriors of any number of hidden states."""
    size = start.size
    now = np.empty(size)
    new = np.empty(size)
    first = 0
    for end in ends:
        for t in range(first, end):
            total = 0.0
            step = (t - first - 1) * moving % len(steps)
            for y in range(size):
                mass = start[y]
                if t > first:
                    mass = 0.0
                    for x in range(size):
                        mass += now[x] * steps[step, x, y]
                # a_t(y) = Pr[z_t | y] sum_x a_{t-1}(x) P(x, y)
                new[y] = mass * emission[codes[t], y]
                total += new[y]
            if total < TINY:
                return t if total == 0.0 else UNDERFLOW
            for y in range(size):
                now[y] = new[y] / total
                if 0.0 < now[y] < TINY:
                    return UNDERFLOW
                out[t, y] = now[y]
        for x in range(size):
            now[x] = 1.0  # b_{end-1}: nothing is left to come
        for t in range(end - 2, first - 1, -1):
            step = (t - first) * moving % len(steps)
            for y in range(size):
                # b_t(x) = sum_y P(x, y) Pr[z_{t+1} | y] b_{t+1}(y)
                now[y] *= emission[codes[t + 1], y]
            whole = 0.0
            for x in range(size):
                mass = 0.0
                for y in range(size):
                    mass += steps[step, x, y] * now[y]
                new[x] = mass
                whole += mass
            total = 0.0
            for x in range(size):
                now[x] = new[x] / whole
                if 0.0 < now[x] < TINY:
                    return UNDERFLOW
                total += out[t, x] * now[x]
            if total < TINY:
                return UNDERFLOW
            for x in range(size):
                out[t, x] = out[t, x] * now[x] / total  # a_t(x) b_t(x), rescaled
        first = end
    return -1


def smooth_logs(
    codes: Any, ends: Any, start: Any, steps: Any, moving: int, emission: Any, out: Any
) -> int:
    """Fill ``out`` as `smooth` does, from logarithms: for probabilities that underflow."""
    size = start.size

    def log_total(law: Any, step: Any) -> float:  # ln sum_x exp(law(x) + step(x))
        peak = -np.inf
        for x in range(size):
            peak = max(peak, law[x] + step[x])
        if peak == -np.inf:
            return peak
        mass = 0.0
        for x in range(size):
            mass += math.exp(law[x] + step[x] - peak)
        return peak + math.log(mass)

    now = np.empty(size)
    new = np.empty(size)
    first = 0
    for end in ends:
        for t in range(first, end):
            top = -np.inf
            step = (t - first - 1) * moving % len(steps)
            for y in range(size):
                mass = start[y] if t == first else log_total(now, steps[step, :, y])
                new[y] = mass + emission[codes[t], y]  # ln a_t(y)
                top = max(top, new[y])
            if top == -np.inf:
                return t
            for y in range(size):
                now[y] = new[y] - top
                out[t, y] = now[y]
        for x in range(size):
            now[x] = 0.0  # ln b_{end-1}
        for t in range(end - 1, first - 1, -1):
            if t < end - 1:
                step = (t - first) * moving % len(steps)
                for y in range(size):
                    now[y] += emission[codes[t + 1], y]
                top = -np.inf
                for x in range(size):
                    new[x] = log_total(now, steps[step, x, :])  # ln b_t(x)
                    top = max(top, new[x])
                for x in range(size):
                    now[x] = new[x] - top
            best = -np.inf
            for x in range(size):
                best = max(best, out[t, x] + now[x])
            total = 0.0
            for x in range(size):
                out[t, x] = math.exp(out[t, x] + now[x] - best)  # a_t(x) b_t(x), the largest 1
                total += out[t, x]
            for x in range(size):
                out[t, x] /= total
        first = end
    return -1


def decode(
    codes: Any, ends: Any, start: Any, steps: Any, moving: int, emission: Any, back: Any, path: Any
) -> int:
    """Fill ``path`` with the most likely hidden series; all inputs are logarithms.

    ``back`` (records, states) keeps where the best way to each state came from. Of ways that are
    equally likely, the one that comes from the lower state is taken.
    """
    size = start.size
    now = np.empty(size)
    new = np.empty(size)
    first = 0
    for end in ends:
        for t in range(first, end):
            top = -np.inf
            step = (t - first - 1) * moving % len(steps)
            for y in range(size):
                best = start[y]
                if t > first:
                    came = 0
                    # the best way to y is the best way to some x and a step (Bellman)
                    best = now[0] + steps[step, 0, y]
                    for x in range(1, size):
                        way = now[x] + steps[step, x, y]
                        if way > best:
                            best = way
                            came = x
                    back[t, y] = came
                new[y] = best + emission[codes[t], y]
                top = max(top, new[y])
            if top == -np.inf:
                return t
            for y in range(size):
                now[y] = new[y] - top
        last = 0
        for y in range(1, size):
            if now[y] > now[last]:
                last = y
        path[end - 1] = last
        for t in range(end - 1, first, -1):
            # back along the best ways
            last = back[t, last]
            path[t - 1] = last
        first = end
    return -1


SHORT_STEPS, LONG_STEPS = 30, 1000
"""Steps of every start, and of the best of them (cost)."""
FINALISTS = 2
"""Starts that go on after the short steps (cost)."""
CONVERGED = 1e-8
"""Gain of log-likelihood for each record below which a start has arrived."""
MOST_STARTS = 10_000
"""Random starts (cost)."""
MOST_PER_SYMBOL = 16
"""Hidden states for each symbol (cost)."""
SHRINKAGE = 30.0
"""Records, for each hidden state and label of a public context, that a kernel is drawn by towards
the one of all labels."""

_NEGLIGIBLE = 1e-30
"""Transition probability below which a fitted one is 0: no record needs it. Where regimes never
meet it is what links them."""


class Laws(NamedTuple):
    """A batch of laws: of first hidden states (b, m), and kernels by label (b, G, m, m)."""

    start: Array
    kernels: Array

    def picked(self, places: Any) -> "Laws":
        """Return some laws of the batch."""
        return Laws(self.start[places], self.kernels[places])


@dataclass(frozen=True, slots=True, eq=False)
class FittedHiddenChain(HiddenChain):
    """The hidden chain with the largest likelihood that was found.

    A `HiddenChain` in every respect. ``log_likelihood`` is that of all records under the
    stationary chain; ``bic`` is ``parameters`` ln n - 2 ln L, the smaller the better
    [schwarz1978].
    """

    log_likelihood: float
    sample_size: int
    starts: int
    parameters: int
    """The number of free transition probabilities."""

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return self.parameters * math.log(self.sample_size) - 2 * self.log_likelihood

    @classmethod
    def from_law_dict(cls, description: Any) -> HiddenChain:
        """Return the plain chain described by `law_dict`: likelihoods are never written."""
        return HiddenChain.from_law_dict(description)

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"{HiddenChain.describe(self)}, fitted to records"


@dataclass(frozen=True, slots=True, eq=False)
class FittedPeriodicChain(PeriodicHiddenChain):
    """A hidden chain by a public context that was fitted to records; as `FittedHiddenChain`.

    Each kernel is drawn towards that of all labels, which the likelihood does not know of.
    """

    log_likelihood: float
    sample_size: int
    starts: int
    parameters: int

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return self.parameters * math.log(self.sample_size) - 2 * self.log_likelihood

    @classmethod
    def from_law_dict(cls, description: Any) -> PeriodicHiddenChain:
        """Return the plain chain described by `law_dict`: likelihoods are never written."""
        return PeriodicHiddenChain.from_law_dict(description)

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"{PeriodicHiddenChain.describe(self)}, fitted to records"


@overload
def fit_hidden(
    sequences: Any, states: Sequence[State] | None = ..., *, hidden: int = ..., starts: int = ...,
    seed: Seed = ..., length: int | None = ..., public: bool = ..., attractive: bool = ...,
    context: None = ..., floor: float = ...,
) -> FittedHiddenChain: ...  # fmt: skip
@overload
def fit_hidden(
    sequences: Any, states: Sequence[State] | None = ..., *, hidden: int = ..., starts: int = ...,
    seed: Seed = ..., length: int | None = ..., public: bool = ..., attractive: bool = ...,
    context: str | None, floor: float = ...,
) -> FittedHiddenChain | FittedPeriodicChain: ...  # fmt: skip
def fit_hidden(
    sequences: Any,
    states: Sequence[State] | None = None,
    *,
    hidden: int = 2,
    starts: int = 8,
    seed: Seed = 0,
    length: int | None = None,
    public: bool = False,
    attractive: bool = False,
    context: str | None = None,
    floor: float = 0.0,
) -> FittedHiddenChain | FittedPeriodicChain:
    """Return the hidden chain fitted to one or many sequences; see `HiddenChain.fit`."""
    read = unbroken(sequences, states)
    public = check_flag(public, "public")
    hidden = check_count(hidden, "hidden (states for each symbol)", 1)
    starts = check_count(starts, "starts", 1, MOST_STARTS)
    if hidden > MOST_PER_SYMBOL:
        raise InvalidInput(f"at most {MOST_PER_SYMBOL} hidden states for each symbol, found more")
    size = len(read.states)
    if size < 2 or np.bincount(read.codes, minlength=size).min() == 0:
        raise InvalidModel(
            "a hidden chain needs records of at least two states, each of which occurs; leave "
            "states out that never do"
        )
    if attractive and size != 2:
        raise InvalidInput(
            f"attractive=True is for records of two states, found {size}; map the states to two, "
            "or leave it out"
        )
    if attractive and (context is not None or floor):
        raise InvalidInput("an attractive fit has one kernel without a floor; leave these out")
    cycle = None if context is None else cycle_named(read, context)
    owner = np.repeat(np.arange(size), hidden)  # (m,)
    found = searched(read, owner, starts, seed, attractive=attractive)
    if cycle is not None:
        found = by_context(read, owner, found, cycle)
    fitted = chain_of(found, owner, read, cycle, floor, length, starts)
    warn_fitted(public, stacklevel=3)
    return marked(fitted, public)


def marked(
    fitted: FittedHiddenChain | FittedPeriodicChain, public: bool
) -> FittedHiddenChain | FittedPeriodicChain:
    """Return a fit with its origin and its untested checks."""
    return fitted.with_origin(fitted_origin(public)).with_checks(untested(public, *NAMES))


def searched(
    read: Unbroken, owner: npt.NDArray[Any], starts: int, seed: Seed, *, attractive: bool = False,
    steps: tuple[int, int] = (SHORT_STEPS, LONG_STEPS), converged: float = CONVERGED,
) -> Laws:  # fmt: skip
    """Return the likeliest law, with one kernel, that is reached from several random starts."""
    passes, generator = Passes(read.codes, read.ends, owner), random_generator(seed)
    guesses = [random_laws(read, owner, generator) for _ in range(starts)]
    laws = Laws(*map(np.concatenate, zip(*guesses, strict=True)))
    values, laws = climbed(passes, laws, steps[0], converged, attractive=attractive)
    best = np.argsort(-values, kind="stable")[:FINALISTS]
    values, laws = climbed(passes, laws.picked(best), steps[1], converged, attractive=attractive)
    return laws.picked([int(np.argmax(values))])


def by_context(
    read: Unbroken, owner: npt.NDArray[Any], reached: Laws, cycle: Cycle | None,
    *, steps: int = LONG_STEPS, converged: float = CONVERGED,
) -> Laws:  # fmt: skip
    """Return the law with a kernel for each label that is reached from one kernel for all.

    Or from one for each label; without a cycle from one kernel for all to another.
    """
    labels = None if cycle is None else cycle.labels_of(read)
    passes, kernels = Passes(read.codes, read.ends, owner, labels), reached.kernels
    if kernels.shape[1] != passes.labels:
        kernels = np.repeat(kernels[:, :1], passes.labels, axis=1)
    return climbed(passes, Laws(reached.start, kernels), steps, converged, SHRINKAGE)[1]


def chain_of(
    found: Laws, owner: npt.NDArray[Any], read: Unbroken, cycle: Cycle | None, floor: float,
    length: int | None, starts: int,
) -> FittedHiddenChain | FittedPeriodicChain:  # fmt: skip
    """Return a law as a chain, its hidden states of a symbol ordered by their next symbol."""
    kernels = _linked(found.kernels[0])
    ahead = kernels.mean(axis=0) @ owner  # (m,): the expected number of the next symbol
    order = np.lexsort((ahead, owner))
    kernels, shown = kernels[:, order[:, None], order], owner[order]
    if floor:
        kernels = mixed_rows(kernels, floor)
    symbols = [read.states[place] for place in shown]
    free = kernels[0].size - owner.size
    return fitted_chain(kernels, symbols, read, cycle, floor, length, starts, free)


def fitted_chain(
    kernels: Array, symbols: Sequence[State], read: Unbroken, cycle: Cycle | None, floor: float,
    length: int | None, starts: int, free: int,
) -> FittedHiddenChain | FittedPeriodicChain:  # fmt: skip
    """Return a fit of these kernels, each with so many free probabilities."""
    fitted: FittedHiddenChain | FittedPeriodicChain
    if cycle is None:
        fitted = FittedHiddenChain.__new__(FittedHiddenChain)
        HiddenChain.__init__(fitted, kernels[0], symbols, read.states, length)
        fitted._set_provenance(records=read.described)
    else:
        fitted = FittedPeriodicChain.__new__(FittedPeriodicChain)
        PeriodicHiddenChain.__init__(
            fitted, dict(zip(cycle.labels, kernels, strict=True)), symbols, read.states,
            steps_per=cycle.steps_per, length=length, context=cycle.words,
        )  # fmt: skip
        every = read.described.every or (None if cycle.step is None else duration(cycle.step))
        records = replace(read.described, context=cycle.words, every=every, apart=None)
        fitted._set_provenance(records=records)
    likelihood = math.log(2) * -float(bits(fitted, read).sum())
    facts = {
        "log_likelihood": likelihood, "sample_size": read.codes.size, "starts": starts,
        "parameters": free * len(kernels), "floor": floor,
    }  # fmt: skip
    for name, value in facts.items():
        object.__setattr__(fitted, name, value)
    return fitted


def log_likelihood(chain: HiddenChain, read: Unbroken, skipped: int = 0) -> float:
    """Return ln Pr of all records, series being independent; of each, ``skipped`` are given.

    >>> from undertow.models.chains import MarkovChain
    >>> chain = HiddenChain.of(MarkovChain([[.9, .1], [.3, .7]]))
    >>> round(log_likelihood(chain, unbroken([0, 0, 1])), 6) == round(float(np.log(.75 * .09)), 6)
    True
    """
    kept = np.ones(read.codes.size, dtype=np.bool_)
    for begin, end in zip(read.begins, read.ends, strict=True):
        kept[begin : min(begin + skipped, end)] = False
    return math.log(2) * -float(bits(chain, read)[kept].sum())


def ascended(
    passes: Passes, laws: Laws, shrinkage: float = 0.0, *, attractive: bool = False
) -> tuple[Array, Laws]:
    """Return the penalised log-likelihood of each law of a batch, and the laws after one step.

    Expected transitions given all records, divided by their sums [baum1970], or the totally
    positive matrix that suits them best. Of several labels the log-likelihood is less
    ``shrinkage`` times sum_g sum_s KL(P_s || T_gs), P the rows for which that is least, the
    normalised geometric means; a step adds so many records with the law P_s to each row. The value
    never falls.
    """
    posterior = passes.run(laws.start[:, None], laws.kernels)
    begun = posterior.begun[:, 0]
    start = begun / begun.sum(axis=1, keepdims=True)
    values, counts = posterior.log_likelihood, posterior.counts
    if attractive:
        pairs = zip(counts[:, 0], laws.kernels[:, 0], strict=True)
        rows = [attractive_rows(count, kernel) for count, kernel in pairs]
        return values, Laws(start, np.array(rows)[:, None])
    if shrinkage and passes.labels > 1:
        centre, logs = _centre(laws.kernels)
        values = values + shrinkage * passes.labels * logs.sum(axis=1)
        counts = counts + shrinkage * centre[:, None]
    sums = counts.sum(axis=-1, keepdims=True)
    # a hidden state that is never left keeps its row
    kernels = np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), laws.kernels)
    return values, Laws(start, kernels)


def _centre(kernels: Array) -> tuple[Array, Array]:
    """Return the normalised geometric means of rows over labels, and the logarithms of the sums."""
    with np.errstate(divide="ignore"):
        means = np.exp(np.log(kernels).mean(axis=1))  # (b, m, m); 0 where a label has a 0
    sums = means.sum(axis=-1, keepdims=True)
    return means / sums, np.log(sums[..., 0])


def climbed(
    passes: Passes, laws: Laws, steps: int, converged: float = CONVERGED, shrinkage: float = 0.0,
    *, attractive: bool = False,
) -> tuple[Array, Laws]:  # fmt: skip
    """Return the penalised log-likelihoods after some steps from a batch, and the final laws.

    Two steps, and a third from where they point to [varadhan2008] if that is no less likely.
    """
    least = converged * passes.records
    if attractive:  # totally positive matrices near the start
        rows = [attractive_rows(np.zeros_like(one), one) for one in laws.kernels[:, 0]]
        laws = Laws(laws.start, np.array(rows)[:, None])
    last: Array | None = None
    for done in range(0, steps, 3):
        progress.doing("steps of a fit", done, steps)
        value, one = ascended(passes, laws, shrinkage, attractive=attractive)
        if last is not None and float((value - last).max()) < 3 * least:
            return value, laws
        last = value
        reached, two = ascended(passes, one, shrinkage, attractive=attractive)
        if attractive:
            laws = two
            continue
        beyond = _extrapolated(laws, one, two)
        tried, three = ascended(passes, beyond, shrinkage)
        better = (tried >= reached)[:, None]
        laws = Laws(
            np.where(better, three.start, two.start),
            np.where(better[:, :, None, None], three.kernels, two.kernels),
        )
    return ascended(passes, laws, shrinkage, attractive=attractive)[0], laws


def _extrapolated(zero: Laws, one: Laws, two: Laws) -> Laws:
    """Return where two steps point to, by the squared extrapolation of [varadhan2008]."""
    rows = [law.kernels for law in (zero, one, two)]
    step = rows[1] - rows[0]
    bend = rows[2] - rows[1] - step
    lengths = np.sqrt(
        (step**2).sum(axis=(1, 2, 3)) / np.maximum((bend**2).sum(axis=(1, 2, 3)), 1e-300)
    )
    far = np.clip(lengths, 1.0, 100.0)[:, None, None, None]
    kernels = rows[0] + 2 * far * step + far**2 * bend
    kernels = np.maximum(kernels, 0.1 * rows[2])
    return Laws(two.start, kernels / kernels.sum(axis=-1, keepdims=True))


def random_laws(read: Unbroken, owner: npt.NDArray[Any], generator: np.random.Generator) -> Laws:
    """Return a random start: the symbols' own transitions, split among regimes that persist."""
    size, hidden = len(read.states), owner.size // len(read.states)
    inner = np.ones(read.codes.size, dtype=np.bool_)
    inner[read.ends - 1] = False
    first = np.flatnonzero(inner)
    counts = np.ones((size, size))
    np.add.at(counts, (read.codes[first], read.codes[first + 1]), 1)
    shares = counts / counts.sum(axis=1, keepdims=True)  # (symbol, symbol)
    odds = np.exp(generator.normal(0.0, 1.0, (owner.size, size)))  # each regime's own preferences
    symbol = shares[owner] * odds
    symbol /= symbol.sum(axis=1, keepdims=True)  # (m, symbols)
    inside = generator.dirichlet(np.ones(hidden), (owner.size, size))  # (m, symbols, regimes)
    stays = generator.uniform(0.3, 0.95)
    own = np.tile(np.eye(hidden), (size, 1))[:, None]  # (m, 1, regimes): the same regime
    step = symbol[:, :, None] * (stays * own + (1 - stays) * inside)  # (m, symbols, regimes)
    return Laws(
        np.full((1, owner.size), 1 / owner.size), step.reshape(1, 1, owner.size, owner.size)
    )


def _linked(kernels: Array) -> Array:
    """Return kernels without negligible entries, unless these are what links their states."""
    rows = np.where(kernels >= _NEGLIGIBLE, kernels, 0.0)
    if not one_closed_class(rows.max(axis=0)):  # regimes that never meet: all but impossible
        rows = np.maximum(kernels, _NEGLIGIBLE)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
