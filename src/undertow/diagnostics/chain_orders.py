"""Comparison of chain orders: the memory of records, and the noise under each model.

Chains of order 1, 2, .. and hidden chains are fitted to the same records and compared: by Schwarz's
criterion, by what a plan leaks under each, and by the noise that each needs for a limit. Upper ends
that nobody has proved are left out, and said to be.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from undertow import progress
from undertow.adversaries import Against, check_against, words
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.frames import ResultTable
from undertow.mechanisms import PureDP
from undertow.models.chains import MarkovChain
from undertow.models.fitting.fit import FittedChain, fit_chain
from undertow.models.fitting.hidden import fit_hidden, log_likelihood
from undertow.models.fitting.hypotheses import Autocorrelation, Dynamics, memory
from undertow.models.fitting.series import Unbroken, unbroken
from undertow.models.fitting.tally import Tally, tally
from undertow.models.hidden import HiddenChain
from undertow.models.second_order import SecondOrderChain
from undertow.models.sets import AnyModel
from undertow.models.validation import check_prior, warn_fitted
from undertow.numerics import Seed, check_count, check_epsilon, check_listed
from undertow.plan import Plan
from undertow.planning.acceptance import leakage_under
from undertow.planning.budget import budget_for
from undertow.queries import State
from undertow.rounding import above, below, columns

__all__ = ["OrderCase", "OrderTable", "orders"]


MOST_ORDER = 6
"""Orders up to which chains are compared (states to the power of it are fitted)."""

PIECES = (
    "the table is read in pieces, or only counts were kept: orders one and two are compared; "
    "higher ones and hidden states need all records in memory"
)


@dataclass(frozen=True, slots=True)
class OrderCase:
    """One order of memory: a fitted model, its fit to the records, and its cost.

    ``hidden`` is the number of hidden states for each symbol, 0 for a chain of ``order``;
    ``attractive`` says that they were fitted among laws that can be planned with.
    ``scale`` holds the Laplace noise on a count for the limit, as the inverse of a DP level: with
    less than the first an attack exceeds the limit, the second is proved (None: nothing is).
    """

    name: str
    order: int
    hidden: int
    model: AnyModel
    parameters: int
    log_likelihood: float
    bic: float
    memory: float
    scale: tuple[float, float | None] | None
    leakage: Leakage | None
    reason: str | None = None
    attractive: bool = False

    @property
    def plans(self) -> bool:
        """Whether plans against any adversary take seconds: where bounds are narrow and quick."""
        return self.attractive if self.hidden else self.order < 3

    @property
    def certified(self) -> bool:
        """Whether the noise for the limit is proved, not only needed."""
        return self.scale is not None and self.scale[1] is not None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        leak = self.leakage
        return {
            "name": self.name,
            "order": self.order,
            "hidden": self.hidden,
            "attractive": self.attractive,
            "parameters": self.parameters,
            "log_likelihood": self.log_likelihood,
            "bic": self.bic,
            "memory": self.memory,
            "scale": None if self.scale is None else list(self.scale),
            "lower": None if leak is None else leak.lower,
            "upper": None if leak is None or math.isinf(leak.upper) else leak.upper,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class OrderTable(ResultTable):
    """Orders and hidden states compared on the same records.

    ``measured`` is the integrated autocorrelation 1 + 2 sum rho_k of the records, of which no model
    knows: for small DP levels the leakage to the ignorant is about so many times the level (None:
    too few records).

    >>> from undertow.models import SecondOrderChain
    >>> truth = SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]])
    >>> table = orders(truth.simulate(4000, seed=2), orders=(1, 2), hidden=(), public=True)
    >>> table.best.name, [round(case.scale[1], 1) for case in table]
    ('order 2', [7.2, 11.5])
    """

    cases: tuple[OrderCase, ...]
    records: int
    limit: float
    against: Against
    measured: Autocorrelation | None
    notes: tuple[str, ...] = ()
    planned: float | None = None

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the description of each case."""
        return [case.to_dict() for case in self.cases]

    def __iter__(self) -> Iterator[OrderCase]:
        """Iterate over the cases."""
        return iter(self.cases)

    def __getitem__(self, name: str) -> OrderCase:
        """Return the case of a name."""
        for case in self.cases:
            if case.name == name:
                return case
        names = ", ".join(case.name for case in self.cases)
        raise InvalidInput(f"no case {name!r}; the cases are {names}")

    @property
    def best(self) -> OrderCase:
        """The case with the least BIC."""
        return min(self.cases, key=lambda case: case.bic)

    @property
    def plannable(self) -> OrderCase:
        """The case with the least BIC among those that plans are made with in seconds.

        Orders one and two, and hidden chains that were fitted among attractive ones.
        """
        return min((case for case in self.cases if case.plans), key=lambda case: case.bic)

    def words(self) -> str:
        """Describe the orders and the best of them in a sentence."""
        names = ", ".join(case.name for case in self.cases)
        text = f"tried {names}: the least BIC has {self.best.name} ({self.best.bic:.0f})"
        if self.best is not self.plannable:
            text += f"; of those that can be planned with, {self.plannable.name}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        measured = self.measured
        return {
            "best": self.best.name,
            "plannable": self.plannable.name,
            "words": self.words(),
            "records": self.records,
            "limit": self.limit,
            "against": self.against if isinstance(self.against, str) else words(self.against),
            "measured": None if measured is None else [measured.measured, measured.lags],
            "notes": list(self.notes),
            "cases": self.descriptions(),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table, its head first."""
        head = ("model", "parameters", "BIC", f"noise for {above(self.limit)}", "memory")
        lines = [(*head, *(("leaks",) if self.planned is not None else ()))]
        for case in self.cases:
            noise = "not known"
            if case.scale is not None:
                low, high = case.scale
                noise = f"at least {below(low, 4)}" if high is None else above(high, 4)
            row = (case.name, f"{case.parameters}", f"{case.bic:.0f}", noise, f"{case.memory:.3g}")
            lines.append((*row, *((_ends(case.leakage),) if self.planned is not None else ())))
        return lines

    def __str__(self) -> str:
        """Return the table as plain text."""
        lines = [f"{self.words()}; noise against {words(self.against)}"]
        if self.measured is not None:
            lines.append(
                f"the records themselves: autocorrelations add up to {self.measured.measured:.3g} "
                f"over {self.measured.lags} steps"
            )
        return "\n".join([*lines, *columns(self.rows()), *self.notes])


def _ends(leak: Leakage | None) -> str:
    if leak is None:
        return "not known"
    if math.isinf(leak.upper):
        return f"at least {below(leak.lower, 4)}"
    return f"{below(leak.lower, 4)} to {above(leak.upper, 4)}"


def orders(
    data: Any,
    states: Sequence[State] | None = None,
    *,
    limit: float = 1.0,
    against: Against = "ignorant",
    orders: Sequence[int] = (1, 2, 3, 4),
    hidden: Sequence[int] = (2,),
    plan: "Plan[Any] | None" = None,
    prior: float = 0.0,
    starts: int = 8,
    seed: Seed = 0,
    public: bool = False,
    tick: Callable[[], object] | None = None,
) -> OrderTable:
    """Return chains of several orders and hidden chains, fitted to the same records and compared.

    Likelihoods are of all records given the first few of each series, as many as the highest order
    looks back, so that all models describe the same records; BIC is parameters ln n - 2 ln L
    [schwarz1978], the smaller the better.

    Parameters
    ----------
    data, states
        Records as for `MarkovChain.fit`, or a fitted chain (orders one and two only).
    limit, against
        The noise on a count that each model needs for this leakage, to this adversary. By default
        the ignorant: to them every order has an answer, exact where the law is attractive.
    orders, hidden
        Orders of chains, and numbers of hidden states for each symbol, to be compared; two for each
        of two states also among attractive laws, with which plans can be made.
    plan
        A plan whose leakage under each model is wanted, to its own adversary.
    prior, starts, seed
        Pseudo-counts of the chains; random starts of the hidden ones.
    public
        Whether the records are public: the table is a disclosure otherwise, and a warning says so.
    tick
        Called after each model.

    >>> series = MarkovChain([[.9, .1], [.3, .7]]).simulate(900, seed=1)
    >>> orders(series, orders=(1, 2), hidden=(), public=True).words()
    'tried order 1, order 2: the least BIC has order 1 (733)'
    """
    limit, against = check_epsilon(limit, "limit"), check_against(against)
    distinct = sorted({check_count(order, "order", 1) for order in check_listed(orders, "orders")})
    if not distinct or distinct[-1] > MOST_ORDER:
        raise InvalidInput(f"name orders from 1 to {MOST_ORDER}, such as orders=(1, 2, 3, 4)")
    if plan is not None and not isinstance(plan, Plan):
        raise InvalidInput(f"plan must be a Plan, found {type(plan).__name__}; use calibrate(...)")
    hidden = tuple(check_listed(hidden, "hidden"))
    fits, counted = _fits(data, states, distinct, hidden, check_prior(prior), starts, seed)
    warn_fitted(public, stacklevel=2)
    cases: list[OrderCase] = []
    for fit in fits:
        progress.doing("models fitted", len(cases))
        cases.append(_case(fit, counted, limit, against, plan))
        if tick is not None:
            tick()
    notes = (PIECES,) if _counted(data) and (distinct[-1] > 2 or hidden) else ()
    first = cases[0].model
    measured = None
    if isinstance(first, MarkovChain):
        own = Dynamics(first.transition, first.initial, np.arange(first.size))
        measured = memory(counted, own)
    return OrderTable(
        tuple(cases), int(counted.visits.sum()), limit, against, measured, notes,
        None if plan is None else plan.limit,
    )  # fmt: skip


class _Fit(NamedTuple):
    """A fitted model; ``hidden`` states for each symbol, ``attractive`` where among such laws."""

    name: str
    order: int
    hidden: int
    model: AnyModel
    parameters: int
    likelihood: float
    attractive: bool = False


def _fits(
    data: Any, states: Sequence[State] | None, orders: list[int], hidden: tuple[int, ...],
    prior: float, starts: int, seed: Seed,
) -> tuple[Iterator[_Fit], Tally]:  # fmt: skip
    """Return the fits, one by one, and the counts of the records."""
    if _counted(data):
        fitted = isinstance(data, FittedChain)
        counted = (data if fitted else fit_chain(data, states, prior=1.0, public=True)).tally
        if counted is None or counted.triples is None:
            raise NotSupported(
                "orders are compared on the records themselves, and only transitions were counted; "
                "pass the records"
            )
        few = [order for order in orders if order < 3] or [1]
        tables = {
            order: counted.triples.sum(axis=0) if order == 1 else counted.triples for order in few
        }
        return (_order_fit(order, tables[order], counted.states, prior) for order in few), counted
    read = unbroken(data, states)
    series = np.repeat(np.arange(len(read.ends)), np.diff(read.ends, prepend=0))
    counted = tally(read.codes, read.states, series=series)
    return _in_memory(read, orders, hidden, prior, starts, seed), counted


def _counted(data: Any) -> bool:
    """Return whether counts are all that there is of the records: of a fit, or of pieces."""
    return isinstance(data, FittedChain | Tally) or getattr(data, "piece", None) is not None


def _in_memory(
    read: Unbroken,
    orders: list[int],
    hidden: tuple[int, ...],
    prior: float,
    starts: int,
    seed: Seed,
) -> Iterator[_Fit]:
    skipped = max(orders)
    for order in orders:
        yield _order_fit(order, _runs(read, order, skipped), read.states, prior)
    for per in hidden:
        fitted = fit_hidden(read, hidden=per, starts=starts, seed=seed, public=True)
        likelihood = log_likelihood(fitted, read, skipped)
        yield _Fit(f"{per} hidden per state", 0, per, fitted, fitted.parameters, likelihood)
        if per == 2 == len(read.states):  # others have no bound against attackers who know records
            kept = fit_hidden(
                read, hidden=per, starts=starts, seed=seed, attractive=True, public=True
            )
            likelihood = log_likelihood(kept, read, skipped)
            yield _Fit(f"{per} hidden, attractive", 0, per, kept, kept.parameters, likelihood, True)


def _runs(read: Unbroken, order: int, skipped: int) -> npt.NDArray[np.int64]:
    """Return how often each run of ``order`` records is followed by each, (k,) * (order + 1).

    Of each series the first ``skipped`` records are only looked back on.
    """
    size = len(read.states)
    begins = np.repeat(read.begins, np.diff(read.ends, prepend=0))
    late = np.flatnonzero(np.arange(read.codes.size) - begins >= skipped)  # records described
    number = np.zeros(late.size, dtype=np.int64)
    for back in range(order, -1, -1):
        number = number * size + read.codes[late - back]
    cells = np.bincount(number, minlength=size ** (order + 1))
    return cells.astype(np.int64).reshape((size,) * (order + 1))


def _order_fit(
    order: int, counts: npt.NDArray[np.int64], states: Sequence[State], prior: float
) -> _Fit:
    size = len(states)
    sums = counts.sum(axis=-1, keepdims=True)
    weights = counts + prior
    totals = weights.sum(axis=-1, keepdims=True)
    # a run that was never seen has no say: the law of the next record after its last one
    last = counts.reshape(-1, size, size).sum(axis=0) + 0.5
    rows = np.broadcast_to(last / last.sum(axis=1, keepdims=True), counts.shape)
    laws = np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), rows)
    possible = counts > 0
    likelihood = float((counts[possible] * np.log((counts / np.maximum(sums, 1))[possible])).sum())
    model: AnyModel
    if order == 1:
        model = MarkovChain(laws, states)
    elif order == 2:
        model = SecondOrderChain(laws, states)
    else:
        model = HiddenChain.of_order(laws, states)
    return _Fit(f"order {order}", order, 0, model, size**order * (size - 1), likelihood)


def _case(
    fit: _Fit, counted: Tally, limit: float, against: Against, plan: "Plan[Any] | None"
) -> OrderCase:
    name, order, per, model, parameters, likelihood, attractive = fit
    records = int(counted.visits.sum())
    hidden = HiddenChain.of(model)  # type: ignore[arg-type]
    reason, scale, leak = None, None, None
    try:
        scale = _noise(_sharpest_class(model, hidden, against), limit, against)
        if plan is not None:
            leak = leakage_under(plan, _sharpest_class(model, hidden, plan.against))
    except (NotSupported, InvalidModel) as refusal:
        reason = str(refusal)
    bic = parameters * math.log(records) - 2 * likelihood
    return OrderCase(
        name, order, per, model, parameters, likelihood, bic, hidden.autocorrelation(), scale, leak,
        reason, attractive,
    )  # fmt: skip


def _sharpest_class(model: AnyModel, hidden: HiddenChain, against: Against) -> AnyModel:
    """Return the model in the class with the sharpest proofs."""
    return hidden if against == "ignorant" and model.family == "second-order" else model


def _noise(model: AnyModel, limit: float, against: Against) -> tuple[float, float | None]:
    """Return the noise below which an attack exceeds the limit, and the one that is proved."""
    proved = None
    if math.isfinite(leakage(PureDP(limit / 4), model, against).upper):
        proved = 1 / budget_for(model, limit, against)
    low, high = 0.0, math.inf  # levels whose attacks stay below the limit, and exceed it
    level = limit / 4 if proved is None else (1 + _PRECISION) / proved
    for _ in range(_STEPS):
        attained = leakage(PureDP(level), model, against).lower
        low, high = (low, level) if attained > limit else (level, high)
        if (low and high / low - 1 <= 2 * _PRECISION) or (proved and high <= level):
            break
        # leakage is nearly proportional to the level: aim a little beyond the crossing
        aim = level * limit / max(attained, limit / 1e3) * (1 + _PRECISION / 2)
        if attained > limit:
            aim = min(aim, level / (1 + _PRECISION))
        level = aim if low < aim < high else (low + min(high, 4 * level)) / 2
    return min(1 / high, proved or math.inf), proved


_STEPS, _PRECISION = 40, 1e-5
"""Steps towards the level at which attacks reach the limit, and its relative width."""
