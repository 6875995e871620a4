"""Fits that choose among chains: orders, hidden states and public contexts, by predictive score.

A candidate is fitted to one part of the records and scored on the rest, which it has not seen; the
simplest within one standard error of the best is chosen and fitted to all records. `undertow.fit`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow import progress
from undertow.errors import InvalidInput, InvalidModel
from undertow.frames import ResultTable
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.fitting.checks import Basis
from undertow.models.fitting.fit import FittedSecondOrderChain, fit_chain
from undertow.models.fitting.hidden import (
    SHRINKAGE,
    FittedHiddenChain,
    FittedPeriodicChain,
    Laws,
    by_context,
    chain_of,
    fitted_chain,
    marked,
    searched,
)
from undertow.models.fitting.judges import judged
from undertow.models.fitting.scores import bits
from undertow.models.fitting.series import CONTEXTS, Cycle, Unbroken, cycles, unbroken
from undertow.models.hidden import FLOOR, HiddenChain, PeriodicHiddenChain, run_kernel
from undertow.models.validation import warn_fitted
from undertow.numerics import Array, Seed, check_flag
from undertow.queries import State

if TYPE_CHECKING:
    from undertow.models.fitting.private import PrivateFit

__all__ = ["Alternative", "Alternatives", "Split", "fit", "split"]


ORDERS, HIDDEN = (1, 2, 3, 4), (2, 3, 4)
"""Orders, and hidden states for each symbol, that are compared."""

PRIOR = 0.5
"""Pseudo-counts of each transition of an order [krichevsky1981]."""

STARTS = 8
"""Random starts of a hidden chain (cost)."""

STEPS = (20, 300)
"""Steps of every start, and of the best of them (cost)."""

CONVERGED = 1e-7
"""Gain of log-likelihood for each record below which a start has arrived."""

ROUNDS = 20
"""Rounds in which the kernels of an order by label and their centre are found."""

MOST_RUNS = 256
"""Runs of records that an order may have (cost)."""

HELD_OUT = 0.3
"""Share of the persons, or of the records of each, that candidates are scored on."""

SEVERAL = 20
"""Persons from which on some of them are held out as a whole; six have a standard error."""

BLOCKS = 24
"""Blocks of time over which standard errors are taken."""

FEWEST = 200
"""Records below which candidates are not compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Records cut into a part to fit to and one to score on, in blocks for standard errors.

    ``held`` (n,) marks what is held out; ``blocks`` (n,) numbers its blocks, persons or stretches
    of time.
    """

    held: npt.NDArray[np.bool_]
    blocks: npt.NDArray[np.int64]
    words: str

    def mean(self, costs: Array, kept: npt.NDArray[np.bool_] | None = None) -> tuple[float, float]:
        """Return the mean of what records cost over the held-out part, and its standard error.

        Or over the records ``kept`` of it. Blocks count as independent, and their sizes as fixed.
        """
        some = self.held if kept is None else kept
        held, numbers = costs[some], self.blocks[some]
        centre = float(held.mean())
        sums = np.bincount(numbers, held - centre)
        sums = sums[np.bincount(numbers) > 0]
        spread = float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1)
        return centre, math.sqrt(spread) / held.size


def split(read: Unbroken) -> Split:
    """Return which records are held out: those of some persons, or the end of each person's.

    >>> parts = split(unbroken([0, 1] * 100))
    >>> parts.held.sum(), parts.words
    (np.int64(60), 'the last 30% of the records')
    """
    series = read.series
    persons = series if read.persons is None else read.persons[series]
    names, people = np.unique(persons, return_inverse=True)
    if names.size >= SEVERAL:
        order = np.random.default_rng(0).permutation(names.size)  # not by what the records say
        chosen = order[: round(HELD_OUT * names.size)]
        return Split(np.isin(people, chosen), people, f"{chosen.size} of {names.size} persons")
    changes = np.flatnonzero(np.diff(people, prepend=-1))  # a person's series follow each other
    lengths = np.diff(np.append(changes, people.size))
    own = np.arange(people.size) - np.repeat(changes, lengths)
    held = own >= np.ceil((1 - HELD_OUT) * np.repeat(lengths, lengths))
    number = np.cumsum(held) - 1
    blocks = np.maximum(number, 0) * BLOCKS // max(int(held.sum()), 1)
    share = f"the last {100 * HELD_OUT:.0f}% of"
    return Split(held, blocks, f"{share} {'the records' if changes.size == 1 else 'each person'}")


@dataclass(frozen=True, slots=True)
class Alternative:
    """A candidate of a fit: the model fitted to all records, and what it was judged by.

    ``score`` is the mean of -log2 Pr[record | its past] over the held-out records, in bits, of the
    candidate fitted to the others, ``error`` its standard error, ``apart`` that of its difference
    from the best score, which is much smaller: all candidates meet the same easy and hard hours.
    ``bic`` is Schwarz's criterion of the fit to all records [schwarz1978], ``memory`` its
    integrated autocorrelation.
    """

    name: str
    model: Any
    score: float
    error: float
    apart: float
    bic: float
    parameters: int
    memory: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description without the model."""
        return {
            "name": self.name,
            "score": self.score,
            "error": self.error,
            "apart": self.apart,
            "bic": self.bic,
            "parameters": self.parameters,
            "memory": self.memory,
        }


@dataclass(frozen=True, slots=True)
class Alternatives(ResultTable):
    """The candidates of a fit, in the order in which they were tried, and the one chosen.

    ``held_out`` says what was scored on; ``complete`` is False where an interrupt ended the
    comparison.
    """

    cases: tuple[Alternative, ...]
    chosen: str
    held_out: str
    records: int
    complete: bool = True

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the description of each candidate."""
        return [case.to_dict() for case in self.cases]

    def __iter__(self) -> Iterator[Alternative]:
        """Iterate over the candidates."""
        return iter(self.cases)

    def __len__(self) -> int:
        """Return the number of candidates."""
        return len(self.cases)

    def __getitem__(self, name: str) -> Alternative:
        """Return the candidate of a name."""
        for case in self.cases:
            if case.name == name:
                return case
        names = ", ".join(case.name for case in self.cases)
        raise InvalidInput(f"no candidate {name!r}; the candidates are {names}")

    @property
    def best(self) -> Alternative:
        """The candidate with the least score."""
        return min(self.cases, key=lambda case: case.score)

    @property
    def near(self) -> tuple[Alternative, ...]:
        """The candidates within one standard error of the best, which may leak very differently."""
        least = self.best.score
        return tuple(case for case in self.cases if case.score <= least + case.apart)

    def words(self) -> str:
        """Describe the choice in a sentence."""
        best, chosen = self.best, self[self.chosen]
        text = f"{chosen.name} predicts {self.held_out} in {chosen.score:.4g} bits a record"
        if best is not chosen:
            text += (
                f", within one standard error ({chosen.apart:.2g}) of the best, {best.name} "
                f"({best.score:.4g}), and is simpler"
            )
        return text if self.complete else f"{text}; the comparison was interrupted"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table, its head first."""
        lines: list[tuple[str, ...]] = [
            ("model", "bits a record", "error", "from best", "BIC", "parameters", "memory")
        ]
        lines += [
            (case.name, f"{case.score:.4f}", f"{case.error:.4f}",
             f"{case.score - self.best.score:.4f} +- {case.apart:.4f}", f"{case.bic:.0f}",
             f"{case.parameters}", f"{case.memory:.3g}")
            for case in self.cases
        ]  # fmt: skip
        return lines

    def __str__(self) -> str:
        """Return the table as plain text."""
        rows = self.rows()
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if not place else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.words(), *lines])


@dataclass(frozen=True, slots=True)
class _Family:
    """A kind of candidate: an order, or hidden states for each symbol, with or without context."""

    order: int = 0
    hidden: int = 0
    context: str | None = None

    @property
    def name(self) -> str:
        kind = f"order{self.order}" if self.order else f"hidden{self.hidden}"
        return kind if self.context is None else f"{kind} by {self.context}"


def _named(name: object) -> _Family:
    """Return the family of a name, or refuse it."""
    known = {
        family.name: family
        for context in (None, *CONTEXTS)
        for family in (
            *(_Family(order=order, context=context) for order in ORDERS),
            *(_Family(hidden=hidden, context=context) for hidden in HIDDEN),
        )
    }
    if not isinstance(name, str) or name not in known:
        raise InvalidInput(
            "model must be 'auto', 'order1' to 'order4', 'hidden2' to 'hidden4', or one of these "
            f"with a public context, such as 'hidden2 by hour'; found {str(name)[:40]!r}"
        )
    return known[name]


class _Fitter:
    """Fits families to records, each hidden one from the law reached on a part of them."""

    def __init__(self, read: Unbroken, parts: Split | None, length: int | None, seed: Seed) -> None:
        self.read, self.parts, self.length, self.seed = read, parts, length, seed
        self.cycles: dict[str, Cycle] = dict(cycles(read))
        self.train = read if parts is None else read.part(~parts.held)
        self._pooled: dict[int, Laws] = {}

    def cycle(self, family: _Family) -> Cycle | None:
        """Return the public cycle of a family, or refuse one that the records do not have."""
        if family.context is None:
            return None
        if family.context not in self.cycles:
            raise InvalidInput(
                f"the records have no public context {family.context!r}: it needs the time column "
                "of a Data with records equally far apart that divide its parts, over two cycles "
                f"at least; those that they have are {', '.join(self.cycles) or 'none'}"
            )
        return self.cycles[family.context]

    def trained(self, family: _Family) -> tuple[Model, Laws | None]:
        """Return the fit to the part that is not held out, and the law of a hidden one."""
        cycle = self.cycle(family)
        if family.order:
            return order_chain(self.train, family.order, cycle, None), None
        owner = np.repeat(np.arange(len(self.read.states)), family.hidden)
        laws = self._law(owner, family.hidden)
        if cycle is not None:
            laws = by_context(self.train, owner, laws, cycle, steps=STEPS[1], converged=CONVERGED)
        return chain_of(laws, owner, self.train, cycle, FLOOR, None, STARTS), laws

    def whole(self, family: _Family, laws: Laws | None, public: bool) -> Model:
        """Return the fit to all records."""
        cycle = self.cycle(family)
        if cycle is None and family.order in (1, 2):
            chain = fit_chain(self.read, prior=PRIOR, length=self.length, public=True)
            first = chain.with_origin("public" if public else "not public")
            return first if family.order == 1 else FittedSecondOrderChain.of_fit(first)
        if family.order:
            return marked(order_chain(self.read, family.order, cycle, self.length), public)
        owner = np.repeat(np.arange(len(self.read.states)), family.hidden)
        if laws is None:
            laws = self._law(owner, family.hidden)
            if cycle is not None:
                laws = by_context(
                    self.read, owner, laws, cycle, steps=STEPS[1], converged=CONVERGED
                )
        elif self.parts is not None:
            laws = by_context(self.read, owner, laws, cycle, steps=STEPS[1], converged=CONVERGED)
        return marked(chain_of(laws, owner, self.read, cycle, FLOOR, self.length, STARTS), public)

    def _law(self, owner: npt.NDArray[np.intp], hidden: int) -> Laws:
        """Return the law without context that was reached on the part to fit to."""
        if hidden not in self._pooled:
            self._pooled[hidden] = searched(
                self.train, owner, STARTS, self.seed, steps=STEPS, converged=CONVERGED
            )
        return self._pooled[hidden]


def order_chain(
    read: Unbroken, order: int, cycle: Cycle | None, length: int | None
) -> FittedHiddenChain | FittedPeriodicChain:
    """Return the chain of an order fitted to records, with or without a public context.

    Rows are counts with pseudo-counts; those of a label are drawn towards the normalised geometric
    mean of all labels, as in `undertow.models.fitting.hidden.ascended`.
    """
    size = len(read.states)
    runs = size**order
    late = np.flatnonzero(read.places >= order)
    before = np.zeros(late.size, dtype=np.int64)
    for back in range(order, 0, -1):
        before = before * size + read.codes[late - back]
    label = np.zeros(late.size, np.int64) if cycle is None else cycle.labels_of(read)[late - 1]
    count = 1 if cycle is None else len(cycle.labels)
    flat = (label * runs + before) * size + read.codes[late]
    counts = np.bincount(flat, minlength=count * runs * size).reshape(count, runs, size)
    pooled = counts.sum(axis=0) + PRIOR
    centre = pooled / pooled.sum(axis=-1, keepdims=True)
    rows = centre[None]
    if cycle is not None:
        for _ in range(ROUNDS):
            rows = counts + SHRINKAGE * centre
            rows = rows / rows.sum(axis=-1, keepdims=True)
            centre = np.exp(np.log(rows).mean(axis=0))
            centre = centre / centre.sum(axis=-1, keepdims=True)
    symbols = [read.states[run % size] for run in range(runs)]
    free = runs * (size - 1)
    return fitted_chain(run_kernel(rows), symbols, read, cycle, 0.0, length, 0, free)


def fit(
    data: Any,
    model: str = "auto",
    public: bool = False,
    private: float | None = None,
    ledger: Any = None,
    *,
    states: Sequence[State] | None = None,
    length: int | None = None,
    seed: Seed = 0,
) -> "Model | PrivateFit":
    """Return the chain that predicts records best, as simple as their noise allows.

    Candidates are chains of order one to four, and hidden chains of two to four hidden states for
    each symbol, each also with a kernel for each part of the day, hour or weekday where the clock
    of a `undertow.Data` gives one. They are fitted without a part of the records, the last 30% of
    each person's, or some persons where there are twenty or more, and scored on it in bits a
    record; the simplest within one standard error of the best is fitted to all records. Its kernels
    over hidden states are mixed with 1e-4 of the uniform one, and it says so.

    The model has ``checks``, ``alternatives`` (every candidate with its fit), ``simulate(n, seed)``
    and ``score(data)``. Warns with `DisclosureWarning` unless the records are ``public``. An
    interrupt ends the comparison with the candidates fitted so far. 20,000 records of two states
    take about ten seconds.

    Parameters
    ----------
    data
        Records as for `MarkovChain.fit`.
    model
        ``"auto"``; or one of "order1" to "order4" and "hidden2" to "hidden4", alone or with a
        public context, as in "hidden2 by hour" ("part of day", "hour", "weekday").
    public
        Whether the records are public.
    private, ledger
        A DP level, and the account that pays for it: the chain of order one is fitted through
        noise, as `MarkovChain.fit` does.
    states, length, seed
        Names of the states in order, records of the model's series, seed of the random starts.

    >>> series = MarkovChain([[.9, .1], [.3, .7]]).simulate(2000, seed=4)
    >>> chain = fit(series, public=True)
    >>> chain.alternatives.chosen, chain.transition.round(2).tolist()
    ('order1', [[0.9, 0.1], [0.29, 0.71]])
    """
    public = check_flag(public, "public")
    if private is not None or ledger is not None:
        if model not in ("auto", "order1"):
            raise InvalidInput("a private fit is of order one; leave model out, or private")
        private_fit: PrivateFit = MarkovChain.fit(  # type: ignore[call-overload]
            data, states, private=private, ledger=ledger, length=length, public=public
        )
        return private_fit
    wanted = None if model == "auto" else _named(model)
    read = unbroken(data, states)
    seen = np.bincount(read.codes, minlength=len(read.states))
    if seen.size < 2 or seen.min() == 0:
        raise InvalidModel(
            "a chain needs records of at least two states, each of which occurs; leave states out "
            "that never do"
        )
    if wanted is None and read.codes.size < FEWEST:
        raise InvalidInput(
            f"candidates are compared on {FEWEST} records at least, found {read.codes.size}; name "
            "the model, such as model='order1'"
        )
    warn_fitted(public, stacklevel=2)
    parts = split(read) if read.codes.size >= FEWEST else None
    fitter = _Fitter(read, parts, length, seed)
    table, costs = _compared(fitter, wanted, public)
    chosen: Model = table[table.chosen].model
    with progress.inside(f"checking {table.chosen}"):
        basis: Basis = "public" if public else "not private"
        held, mean = (None, None) if parts is None else (parts.held, parts.mean)
        checks = judged(chosen, read, held, costs, mean, basis)
    return chosen.with_checks(checks).with_alternatives(table)


def _compared(
    fitter: _Fitter, wanted: _Family | None, public: bool
) -> tuple[Alternatives, Array | None]:
    """Return the candidates that were fitted, and what records cost under the one chosen."""
    cases: list[Alternative] = []
    scores: dict[_Family, float] = {}
    costs: dict[str, Array] = {}
    complete, parts = True, fitter.parts
    total = _planned(fitter) if wanted is None else 1
    try:
        for family in _families(fitter, scores) if wanted is None else iter([wanted]):
            with progress.inside(f"fitting {family.name}", len(cases), total):
                case, cost = _case(fitter, family, public)
            cases.append(case)
            scores[family] = case.score
            if cost is not None:
                costs[case.name] = cost
    except KeyboardInterrupt:
        if not cases:
            raise
        complete = False
    best = min(cases, key=lambda case: case.score)
    if parts is not None:
        base = costs[best.name]
        cases = [replace(case, apart=parts.mean(costs[case.name] - base)[1]) for case in cases]
    held_out = "all records" if parts is None else parts.words
    records = fitter.read.codes.size
    table = Alternatives(tuple(cases), best.name, held_out, records, complete)
    chosen = min(table.near, key=lambda case: (case.parameters, case.score)).name
    return replace(table, chosen=chosen), costs.get(chosen)


def _planned(fitter: _Fitter) -> int:
    """Return how many candidates are fitted at most."""
    per = 1 + len(fitter.cycles)
    return (len(ORDERS) + 1) * per + (len(HIDDEN) - 1) * (1 + bool(fitter.cycles))


def _families(fitter: _Fitter, scores: dict[_Family, float]) -> Iterator[_Family]:
    """Yield the candidates: more hidden states only with the context that two predict best with."""
    contexts = (None, *fitter.cycles)
    size = len(fitter.read.states)
    for context in contexts:
        for order in ORDERS:
            if size**order <= MOST_RUNS:
                yield _Family(order=order, context=context)
    for context in contexts:
        yield _Family(hidden=HIDDEN[0], context=context)
    clocked = [_Family(hidden=HIDDEN[0], context=context) for context in fitter.cycles]
    leader = min(clocked, key=lambda family: scores[family], default=None)
    for hidden in HIDDEN[1:]:
        yield _Family(hidden=hidden)
        if leader is not None:
            yield _Family(hidden=hidden, context=leader.context)


def _case(fitter: _Fitter, family: _Family, public: bool) -> tuple[Alternative, Array | None]:
    """Return one candidate, fitted to all records, and what they cost it without those held out."""
    laws, costs = None, None
    if fitter.parts is not None:
        trained, laws = fitter.trained(family)
        costs = bits(trained, fitter.read)
    model = fitter.whole(family, laws, public)
    own, records = bits(model, fitter.read), fitter.read.codes.size
    parameters = _parameters(model)
    bic = parameters * math.log(records) + 2 * math.log(2) * float(own.sum())
    score, error = float(own.mean()), math.nan
    if fitter.parts is not None and costs is not None:
        score, error = fitter.parts.mean(costs)
    case = Alternative(family.name, model, score, error, 0.0, bic, parameters, _memory(model))
    return case, costs


def _parameters(model: Any) -> int:
    """Return the number of free probabilities of a fit."""
    if isinstance(model, FittedHiddenChain | FittedPeriodicChain):
        return model.parameters
    return int(model.transition.size // model.size * (model.size - 1))


def _memory(model: Any) -> float:
    """Return the integrated autocorrelation of a fit."""
    chain = model if isinstance(model, PeriodicHiddenChain) else HiddenChain.of(model)
    return float(chain.autocorrelation())
