"""Joint leakage of everything answered about one series, by plain enumeration.

A world is the joint law of the n records of one person: a table with one axis per record. What
was released is a list of answers; given the whole series their outputs are independent, so that
the likelihood of an output vector is a product. Nothing here is taken from the package, except
that a `MarkovChain` says its transition and its start: stationary laws are solved in fractions.

All outputs are covered. With the other outputs fixed, the evidence for a value x given what is
known is sum_a p(a) r^|s - a| as a function of one noisy number s, with r = exp(-1 / scale). Between
two neighbours among the exact answers a it is A r^-s + B r^s, so the ratio of two of them is a
Moebius function of r^2s, which is monotone: its supremum is at the ends. Below the least answer and
above the largest every ratio is constant. So the exact answers are all the outputs that matter.
Shifts by what other persons contribute, who are independent and taken as known, move them along.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

import undertow as ut
from tests.oracles.exact import normalised, stationary

Floats = npt.NDArray[np.float64]

ERROR = 1e-12
"""More than the float error of a leakage found here: at most 729 positive terms are added, each
the product of at most 40 factors with an error of 2^-53, and one logarithm is taken: 2e-13."""

CHUNK = 2**21
"""Entries of the largest array (series x outputs) that is held at once."""


# --- the world ------------------------------------------------------------------------------------


def chain_law(chain: ut.MarkovChain, n: int) -> Floats:
    """The joint law of the first n records, an axis for each; whatever length the chain has."""
    matrix = np.asarray(chain.transition)
    start = np.asarray(chain.start)
    if isinstance(chain.start, str):
        start = np.array([float(mass) for mass in stationary([*map(normalised, matrix)])])
    law: Floats = start
    for record in range(n - 1):
        law = law[..., None] * (matrix if matrix.ndim == 2 else matrix[record])
    return law


# --- answers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noisy:
    """sum of factor_t weights[x_t] over the positions, plus discrete Laplace noise of a scale."""

    positions: tuple[int, ...]
    weights: tuple[int, ...]  # of each state; a value that is no state has none
    scale: float
    factors: tuple[int, ...] | None = None  # of each position, by default 1

    def totals(self, n: int, states: int) -> npt.NDArray[np.int64]:
        """The exact answer for every series, in the order of `itertools.product`."""
        weights = np.array([*self.weights, *([0] * (states - len(self.weights)))])
        series = np.indices((states,) * n).reshape(n, -1)
        factors = np.array(self.factors or (1,) * len(self.positions), dtype=np.int64)
        return factors @ weights[series[list(self.positions)]]

    def likelihood(self, n: int, states: int) -> Floats:
        """Pr[output | series] up to a constant: rows are series, columns outputs."""
        totals = self.totals(n, states)
        outputs = np.unique(totals)
        return np.exp(-np.abs(totals[:, None] - outputs[None, :]) / self.scale)

    def furthest(self, n: int, states: int) -> Floats:
        """The largest log-ratio over all outputs, for every two series."""
        totals = self.totals(n, states)
        return np.abs(totals[:, None] - totals[None, :]) / self.scale


@dataclass(frozen=True)
class Shown:
    """Every record of the positions goes through a channel of its own: flips and erasures."""

    positions: tuple[int, ...]
    channels: tuple[tuple[tuple[float, ...], ...], ...]  # for each position, states x outputs

    def likelihood(self, n: int, states: int) -> Floats:
        series = np.indices((states,) * n).reshape(n, -1)
        table = np.ones((states**n, 1))
        for position, channel in zip(self.positions, self.channels, strict=True):
            seen = np.array(channel)[series[position]]  # series x outputs of this record
            table = (table[:, :, None] * seen[:, None, :]).reshape(len(table), -1)
        return table[:, table.max(axis=0) > 0]

    def furthest(self, n: int, states: int) -> Floats:
        return _furthest(self.likelihood(n, states))


@dataclass(frozen=True)
class Xored:
    """A stationary two-state noise chain is added to the records from first to last, modulo 2."""

    positions: tuple[int, ...]  # of the records shown; the noise goes on in between
    rho0: float
    rho1: float

    def likelihood(self, n: int, states: int) -> Floats:
        span = self.positions[-1] - self.positions[0] + 1
        start = np.array([self.rho1, self.rho0]) / (self.rho0 + self.rho1)
        step = np.array([[1 - self.rho0, self.rho0], [self.rho1, 1 - self.rho1]])
        noise = start
        for _ in range(span - 1):
            noise = noise[..., None] * step
        absent = tuple(t for t in range(span) if t + self.positions[0] not in self.positions)
        noise = noise.sum(axis=absent)
        shown = len(self.positions)
        series = np.indices((2,) * n).reshape(n, -1)[list(self.positions)]
        outputs = np.indices((2,) * shown).reshape(shown, -1)
        return noise[tuple(series[:, :, None] ^ outputs[:, None, :])]

    def furthest(self, n: int, states: int) -> Floats:
        return _furthest(self.likelihood(n, states))


Answer = Noisy | Shown | Xored


def histogram(positions: Iterable[int], states: int, scale: float) -> list[Answer]:
    """One noisy count for each state, on the same records."""
    places = tuple(positions)
    return [
        Noisy(places, tuple(int(x == state) for x in range(states)), scale)
        for state in range(states)
    ]


def flipped(positions: Iterable[int], channel: Any) -> Shown:
    """Every record through the same channel."""
    places = tuple(positions)
    rows = tuple(tuple(float(p) for p in row) for row in np.asarray(channel))
    return Shown(places, (rows,) * len(places))


def erased(positions: Sequence[int], probabilities: Any, protect: Iterable[int]) -> Shown:
    """Record number j of the positions is erased as probabilities[j, x] says, or else shown."""
    rates = np.array(probabilities, dtype=float)
    rates[list(protect)] = 1.0
    channels = tuple(
        tuple(
            (*(np.eye(len(row))[x] * (1 - row[x])).tolist(), float(row[x])) for x in range(len(row))
        )
        for row in rates
    )
    return Shown(tuple(positions), channels)


# --- joint leakage of one record ------------------------------------------------------------------


def joint_leakage(
    law: Floats,
    answers: Sequence[Answer],
    against: Any = "any",
    *,
    pairs: Iterable[tuple[int, int]] | None = None,
    targets: Iterable[int] | None = None,
    room: int | None = None,
    seed: int = 0,
) -> float:
    """sup ln Pr[outputs | x, x_K] / Pr[outputs | x', x_K], over everything that may vary.

    Targets are all records, also those in no answer; known are any other records, with values of
    positive probability; against "ignorant" none, "informed" all, or (target, known). Outputs are
    all there are, or ``room`` of them drawn at random: then a lower bound.
    """
    if not answers:
        return 0.0
    n, k = law.ndim, law.shape[0]
    tables = [answer.likelihood(n, k) for answer in answers]
    sizes = [table.shape[1] for table in tables]
    total = math.prod(sizes)
    chosen: Any = range(total)
    if room is not None and total > room:
        chosen = np.sort(np.random.default_rng(seed).integers(total, size=room))
    marked = None if targets is None else set(targets)
    worst, step = 1.0, max(1, CHUNK // k**n)
    for begin in range(0, len(chosen), step):
        places = np.unravel_index(np.asarray(chosen[begin : begin + step]), sizes)
        likelihood = reduce(
            np.multiply, (table[:, place] for table, place in zip(tables, places, strict=True))
        )
        weighted = law[..., None] * likelihood.reshape((k,) * n + (-1,))
        for kept, prior, seen in _marginals(law, weighted, against):
            for target in kept:
                if marked is not None and target not in marked:
                    continue
                if not isinstance(against, str) and target != against[0]:
                    continue
                worst = max(worst, _largest_ratio(prior, seen, target, pairs))
    return math.log(worst)


def _marginals(
    law: Floats, weighted: Floats, against: Any
) -> Iterator[tuple[tuple[int, ...], Floats, Floats]]:
    """The marginal of (target and known records) and of the same with the outputs, for all sets."""
    n = law.ndim
    if not isinstance(against, str):
        wanted = tuple(sorted({against[0], *against[1]}))
        sets: list[tuple[int, ...]] = [wanted]
    elif against == "ignorant":
        sets = [(target,) for target in range(n)]
    elif against == "informed":
        sets = [tuple(range(n))]
    else:
        yield from _all_marginals(law, weighted, (), 0)
        return
    for kept in sets:
        rest = tuple(t for t in range(n) if t not in kept)
        yield kept, law.sum(axis=rest, keepdims=True), weighted.sum(axis=rest, keepdims=True)


def _all_marginals(
    law: Floats, weighted: Floats, kept: tuple[int, ...], record: int
) -> Iterator[tuple[tuple[int, ...], Floats, Floats]]:
    """Every record from this one on is kept or summed out, one after the other."""
    if record == law.ndim:
        yield kept, law, weighted
        return
    yield from _all_marginals(law, weighted, (*kept, record), record + 1)
    yield from _all_marginals(
        law.sum(axis=record, keepdims=True), weighted.sum(axis=record, keepdims=True), kept,
        record + 1,
    )  # fmt: skip


def _largest_ratio(
    prior: Floats, seen: Floats, target: int, pairs: Iterable[tuple[int, int]] | None
) -> float:
    """max over known values, outputs and two possible values of the target."""
    possible = (prior > 0)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        evidence = seen / prior[..., None]  # Pr[outputs | x, x_K]
        if pairs is None:
            top = np.where(possible, evidence, 0.0).max(axis=target)
            bottom = np.where(possible, evidence, np.inf).min(axis=target)
            ratios = top / bottom  # 0 / 0: these outputs cannot be
            return float(np.nanmax(ratios, initial=1.0))
        worst = 1.0
        for x, other in itertools.chain.from_iterable(((a, b), (b, a)) for a, b in pairs):
            both = possible.take(x, target) & possible.take(other, target)
            ratios = np.where(both, evidence.take(x, target) / evidence.take(other, target), 0.0)
            worst = max(worst, float(np.nanmax(ratios, initial=1.0)))
        return worst


# --- joint leakage of several records at once, whatever depends on what ---------------------------


def _furthest(likelihood: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(likelihood[:, None, :]) - np.log(likelihood[None, :, :])
    return np.nanmax(ratios, axis=2, initial=0.0)


def person_leakage(answers: Sequence[Answer], n: int, states: int) -> float:
    """sup of the log-ratio between any two whole histories; a missing value is one state more.

    Outputs of different answers are chosen one by one, so the suprema add up.
    """
    if not answers:
        return 0.0
    return float(_distances(answers, n, states).max())


def dependent_leakage(answers: Sequence[Answer], n: int, states: int, size: int) -> float:
    """The same for two histories that differ in at most ``size`` records: Groups of that size.

    Under some dependence inside a group of records two values of one force all the others.
    """
    if not answers:
        return 0.0
    series = np.indices((states,) * n).reshape(n, -1)
    apart = (series[:, :, None] != series[:, None, :]).sum(axis=0)
    return float(np.where(apart <= size, _distances(answers, n, states), 0.0).max())


def _distances(answers: Sequence[Answer], n: int, states: int) -> Floats:
    return np.sum([answer.furthest(n, states) for answer in answers], axis=0)
