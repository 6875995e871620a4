"""Hidden chains estimated from records, by expectation-maximisation from several starts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow import progress
from undertow.errors import InvalidInput, InvalidModel
from undertow.models.attractive_fitting import attractive_rows
from undertow.models.checks import NAMES, untested
from undertow.models.forward_backward import compiled, expect
from undertow.models.hidden_chain import HiddenChain
from undertow.models.origins import fitted_origin
from undertow.models.records import UNSTATED, RecordDescription
from undertow.models.rows import warn_fitted
from undertow.models.sequences import MISSING, encode
from undertow.models.stationary import one_closed_class
from undertow.numerics import Array, check_count, check_flag, check_seed
from undertow.queries import State

__all__ = ["FittedHiddenChain", "Unbroken", "ascended", "fit_hidden", "log_likelihood", "unbroken"]

SHORT, LONG = 30, 1000
"""Steps of every start, and of the best of them (cost)."""
FINALISTS = 2
"""Starts that go on after the short steps (cost)."""
CLOSE = 1e-8
"""Gain of log-likelihood for each record below which a start has arrived."""
MOST_STARTS = 10_000
"""Random starts (cost)."""
MOST_PER_SYMBOL = 16
"""Hidden states for each symbol (cost)."""

_NEGLIGIBLE = 1e-30
"""Transition probability below which a fitted one is 0: no record needs it. Where regimes never
meet it is what links them."""

Starts = tuple[Array, Array]
"""The law of the first hidden state, and the transitions."""


@dataclass(frozen=True, slots=True, eq=False)
class Unbroken:
    """Records as numbers of states without missing ones: ``ends`` says where each series ends."""

    codes: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    states: tuple[State, ...]
    described: RecordDescription = UNSTATED

    @property
    def begins(self) -> npt.NDArray[np.int64]:
        """Where each series begins."""
        return np.concatenate([[0], self.ends[:-1]])


def unbroken(sequences: Any, states: Sequence[State] | None = None) -> Unbroken:
    """Return series of records in memory, broken where one is missing.

    >>> unbroken(["a", "b", None, "b", "a"]).ends.tolist()
    [2, 4]
    """
    if getattr(sequences, "piece", None) is not None:
        raise InvalidInput(
            "hidden states and orders beyond two need all records in memory, and this table is "
            "read in pieces; raise its memory limit, or fit a part of the table"
        )
    if isinstance(sequences, Unbroken):
        return sequences
    read = encode(sequences, states)
    codes = np.asarray(read.codes, dtype=np.int64)
    there = codes != MISSING
    split = np.ones(codes.size, dtype=np.bool_)  # whether a record begins a series
    split[1:] = (read.series[1:] != read.series[:-1]) | ~there[:-1]
    kept = split[there]
    ends = np.append(np.flatnonzero(kept)[1:], kept.size).astype(np.int64)
    if not kept.size:
        raise InvalidInput("there are no records to fit a model to")
    return Unbroken(codes[there], ends, tuple(read.states), read.described)


@dataclass(frozen=True, slots=True, eq=False)
class FittedHiddenChain(HiddenChain):
    """The hidden chain with the largest likelihood that was found.

    A `HiddenChain` in every respect. ``log_likelihood`` is that of all records under the
    stationary chain; ``bic`` is m (m - 1) ln n - 2 ln L, the smaller the better [schwarz1978].
    """

    log_likelihood: float
    sample_size: int
    starts: int

    @property
    def parameters(self) -> int:
        """The number of free transition probabilities."""
        return self.hidden * (self.hidden - 1)

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


def fit_hidden(
    sequences: Any,
    states: Sequence[State] | None = None,
    *,
    hidden: int = 2,
    starts: int = 8,
    seed: int = 0,
    length: int | None = None,
    public: bool = False,
    attractive: bool = False,
) -> FittedHiddenChain:
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
    owner = np.repeat(np.arange(size), hidden)  # (m,)
    generator = np.random.default_rng(check_seed(seed))
    made = [_random(read, owner, generator) for _ in range(starts)]
    tried = [_climbed(read, owner, one, SHORT, attractive) for one in made]
    tried.sort(key=lambda one: -one[0])
    best = max(
        (_climbed(read, owner, one[1], LONG, attractive) for one in tried[:FINALISTS]),
        key=lambda one: one[0],
    )
    chain = _ordered(best[1][1], owner, read.states, length)
    fitted = FittedHiddenChain.__new__(FittedHiddenChain)
    HiddenChain.__init__(fitted, chain.transition, chain.symbols, chain.states, length)
    likelihood = log_likelihood(chain, read)
    facts = {"log_likelihood": likelihood, "sample_size": read.codes.size, "starts": starts}
    for name, value in (facts | {"_origin": fitted_origin(public)}).items():
        object.__setattr__(fitted, name, value)
    warn_fitted(public, stacklevel=3)
    return fitted.with_checks(untested(public, *NAMES)).with_records(read.described)


def log_likelihood(chain: HiddenChain, read: Unbroken, skipped: int = 0) -> float:
    """Return ln Pr of all records, series being independent; of each, ``skipped`` are given.

    >>> from undertow.models.markov import MarkovChain
    >>> chain = HiddenChain.of(MarkovChain([[.9, .1], [.3, .7]]))
    >>> round(log_likelihood(chain, unbroken([0, 0, 1])), 6) == round(float(np.log(.75 * .09)), 6)
    True
    """
    order = [read.states.index(state) for state in chain.states]
    owner = np.array(order, dtype=np.intp)[chain.shown]
    scales = _expected(read, (chain.initial, chain.transition), owner)[0]
    kept = np.ones(read.codes.size, dtype=np.bool_)
    for begin, end in zip(read.begins, read.ends, strict=True):
        kept[begin : min(begin + skipped, end)] = False
    return float(np.log(scales[kept]).sum())


def ascended(
    read: Unbroken, owner: npt.NDArray[Any], made: Starts, attractive: bool = False
) -> tuple[float, Starts]:
    """Return the log-likelihood of a start, and the start after one step.

    Expected transitions given all records, divided by their sums [baum1970], or the totally
    positive matrix that suits them best: the likelihood never falls.
    """
    scales, counts, begun = _expected(read, made, owner)
    if attractive:
        step = attractive_rows(counts, made[1])
        return float(np.log(scales).sum()), (begun / begun.sum(), step)
    sums = counts.sum(axis=1, keepdims=True)
    # a hidden state that is never left keeps its row
    step = np.where(sums > 0, counts / np.where(sums > 0, sums, 1.0), made[1])
    return float(np.log(scales).sum()), (begun / begun.sum(), step)


def _expected(read: Unbroken, made: Starts, owner: npt.NDArray[Any]) -> tuple[Array, Array, Array]:
    size, records = owner.size, read.codes.size
    scales, ahead = np.empty(records), np.empty((records, size))
    counts, begun = np.zeros((size, size)), np.zeros(size)
    parts = (np.ascontiguousarray(made[0]), np.ascontiguousarray(made[1]), owner.astype(np.int64))
    place = compiled(expect)(read.codes, read.ends, *parts, scales, ahead, counts, begun)
    if place >= 0:
        raise InvalidInput(
            f"record {place} (counting from 0) has probability 0 under the hidden chain; "
            "transitions that occur must be possible"
        )
    return scales, counts, begun


def _climbed(
    read: Unbroken, owner: npt.NDArray[Any], made: Starts, steps: int, attractive: bool = False
) -> tuple[float, Starts]:
    """Return the log-likelihood that a start reaches, and what it has become."""
    last, least = -math.inf, CLOSE * read.codes.size
    if attractive:  # a totally positive matrix near the start
        made = made[0], attractive_rows(np.zeros_like(made[1]), made[1])
    for step in range(steps):
        progress.doing("steps of a fit", step, steps)
        value, further = ascended(read, owner, made, attractive)
        if value - last < least and step:
            return value, made
        last, made = value, further
    return ascended(read, owner, made)[0], made


def _random(read: Unbroken, owner: npt.NDArray[Any], generator: np.random.Generator) -> Starts:
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
    return np.full(owner.size, 1 / owner.size), step.reshape(owner.size, owner.size)


def _ordered(
    step: Array, owner: npt.NDArray[Any], states: tuple[State, ...], length: int | None
) -> HiddenChain:
    """Return the chain with the hidden states of a symbol by what they show next, rising."""
    made = np.where(step >= _NEGLIGIBLE, step, 0.0)
    if not one_closed_class(made):  # regimes that never meet: all but impossible
        made = np.maximum(step, _NEGLIGIBLE)
    made = made / made.sum(axis=1, keepdims=True)
    ahead = made @ owner  # (m,): the expected number of the next symbol
    order = np.lexsort((ahead, owner))
    return HiddenChain(
        made[np.ix_(order, order)], [states[place] for place in owner[order]], states, length
    )
