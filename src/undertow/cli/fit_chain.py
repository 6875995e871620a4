"""Fits of chains for ``undertow fit``: one for all records, or one for each cohort, in words."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from undertow.cli.options import find_state, misuse
from undertow.cli.output import above, below, show
from undertow.cli.tables import show_checks, show_table
from undertow.errors import (
    DisclosureWarning,
    InvalidInput,
    InvalidModel,
    NotSupported,
    UnknownState,
)

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.models.fitting import FittedChain, OrderTest
    from undertow.models.persons import HomogeneityTest
    from undertow.models.sequences import Encoded
    from undertow.models.sets import AnyModel
    from undertow.models.tallies import Tally

__all__ = ["ChainAsked", "ChainFit", "CohortFit", "fit_cohorts", "fit_one", "named"]

Read = TypeVar("Read", "Tally", "Encoded")
Fitted = TypeVar("Fitted", bound="AnyModel")

_MOST_STATES = 100
"""More different values than this are measurements, not states."""
_TRIAL_PRIOR = 0.5
"""The pseudo-count used to show what a prior would do."""
_LIMIT = 1.0
"""The limit on leakage for which persons' budgets are compared."""


@dataclass(frozen=True, slots=True)
class ChainAsked:
    """What is asked of a chain, as it was typed."""

    states: list[str] | None
    prior: float
    length: int | None
    confidence: float
    point: bool
    population: bool
    share: float | None
    least: int
    public: bool
    missing: str | None = None

    def read(self, table: "Data") -> "Tally":
        """Return what a fit keeps of a table, missing records in the state that was typed."""
        if self.missing is None:
            return named(table.tally(), table, self.states)
        from undertow.models.tallies import tally

        read = named(table.encoded(), table, self.states).filled(self.missing)
        kept = tally(
            read.codes, read.states, series=read.series, persons=read.persons, hours=read.hours
        )
        return replace(kept, described=read.described)

    def described(self, model: Fitted) -> Fitted:
        """Return a fitted model that says which of its states missing records are in."""
        if self.missing is None:
            return model
        return model.with_records(replace(model.records, missing=self.missing))


@dataclass(frozen=True, slots=True)
class ChainFit:
    """The fit and what is said about it; ``model`` is what a file gets."""

    chain: "FittedChain"
    model: "AnyModel"
    confidence: float
    intervals: Any
    order: dict[str, Any]
    persons: dict[str, Any]

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        chain, kept = self.chain, _tally(self.chain)
        return {
            "model": self.model.to_dict(),
            "states": list(chain.states),
            "transition": chain.transition.tolist(),
            "stationary": chain.initial.tolist(),
            "counts": chain.counts.tolist(),
            "prior": chain.prior,
            "confidence": self.confidence,
            "intervals": self.intervals.tolist(),
            "order_test": self.order,
            "unseen": [list(pair) for pair in chain.unseen],
            "sequences": kept.series,
            "records": kept.records,
            "missing": kept.missing,
            "persons": self.persons,
        }

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        chain, said = self.chain, self.fields()
        law = ", ".join(
            f"{state} {share:.4g}" for state, share in zip(chain.states, chain.initial, strict=True)
        )
        rows = [
            ("model", self._model()),
            ("one record", str(self.model.records) or "not said"),
            ("series", f"{said['sequences']}"),
            ("records", f"{said['records']}, of which {said['missing']} are missing"),
            ("transitions", f"{int(chain.counts.sum())} between neighbours that are both there"),
            ("stationary", law),
            ("order", self.order["words"]),
            *(("persons", words) for words in self.persons["words"]),
            ("unseen", self._unseen()),
        ]
        written = [] if output is None else [("written to", str(output))]
        show("The fitted chain", [*rows, *written])
        to = [f"to {state}" for state in chain.states]
        sure = f"{100 * self.confidence:.6g}% confidence intervals"
        self._table(f"Transition probabilities, with {sure}", to, self._probabilities())
        show_checks(self.model.checks)
        self._table("Transitions seen", to, [[f"{n:g}" for n in row] for row in chain.counts])

    def _model(self) -> str:
        from undertow.models.fitting import FittedChain
        from undertow.models.markov import MarkovChain

        if isinstance(self.model, FittedChain):  # what was never seen has a row of its own
            sure = f"{100 * self.confidence:.6g}%"
            return f"{MarkovChain.describe(self.chain)}; plans are for its {sure} confidence region"
        return self.model.describe()

    def _table(self, title: str, to: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        rows = [
            [f"from {state}", *row] for state, row in zip(self.chain.states, cells, strict=True)
        ]
        show_table(title, ["", *to], rows)

    def _probabilities(self) -> list[list[str]]:
        return [
            [
                f"{share:.4g} ({below(low, 4)} to {above(high, 4)})"
                for share, (low, high) in zip(shares, ends, strict=True)
            ]
            for shares, ends in zip(self.chain.transition, self.intervals, strict=True)
        ]

    def _unseen(self) -> str:
        chain = self.chain
        if not chain.unseen:
            return "none: every transition was seen"
        pairs = ", ".join(f"{a} to {b}" for a, b in chain.unseen[:6])
        more = f" and {len(chain.unseen) - 6} more" if len(chain.unseen) > 6 else ""
        if chain.prior > 0:
            return f"{pairs}{more}; made possible by the prior of {chain.prior:g}"
        row = chain.counts[chain.index(chain.unseen[0][0])].sum()
        share = _TRIAL_PRIOR / (row + _TRIAL_PRIOR * chain.size)
        return (
            f"{pairs}{more}; held to be impossible, which lets an attacker rule values out; "
            f"--prior {_TRIAL_PRIOR:g} would give the first of them probability {share:.2g}"
        )


@dataclass(frozen=True, slots=True)
class CohortFit:
    """One fit for each cohort of persons, and one for all; a file gets the set of the first."""

    model: "AnyModel"
    parts: dict[Any, ChainFit]
    pooled: ChainFit

    def fields(self) -> dict[str, Any]:
        """Return the fits as the fields of a JSON object."""
        cohorts = [{"cohort": name, **part.fields()} for name, part in self.parts.items()]
        pooled = {name: field for name, field in self.pooled.fields().items() if name != "model"}
        return {"model": self.model.to_dict(), **pooled, "cohorts": cohorts}

    def tell(self, output: Path | None) -> None:
        """Print the fits in words: all persons together, then a line for each cohort."""
        self.pooled.tell(None)
        chain = self.pooled.chain
        heads = [f"{a} to {b}" for a in chain.states for b in chain.states if a != b]
        rows = []
        for name, part in self.parts.items():
            matrix = part.chain.transition.tolist()
            off = [p for x, row in enumerate(matrix) for y, p in enumerate(row) if x != y]
            people = str(part.persons["persons"])
            rows.append([str(name), people, *(f"{share:.4g}" for share in off)])
        show_table("Cohorts", ["cohort", "persons", *heads], rows)
        written = [] if output is None else [("written to", str(output))]
        show("The model", [("model", self.model.describe()), *written])


def fit_one(table: "Data", asked: ChainAsked) -> ChainFit:
    """Return the fit of one chain to all records of a table."""
    return _fit(asked.read(table), asked)


def fit_cohorts(table: "Data", asked: ChainAsked) -> CohortFit:
    """Return a fit for each cohort and one for all, with the states of the whole table."""
    from undertow.models.sets import ModelSet

    pooled = fit_one(table, asked)
    states = pooled.chain.states
    parts = {}
    for name, part in table.cohorts().items():
        read = named(part.tally(), part, asked.states)
        places = [states.index(value) for value in read.states]
        parts[name] = _fit(read.placed(places, states), asked)
    model = ModelSet(
        [part.chain for part in parts.values()], f"one for each of {len(parts)} cohorts"
    )
    return CohortFit(model.with_checks(pooled.chain.checks), parts, pooled)


def _fit(read: "Tally", asked: ChainAsked) -> ChainFit:
    from undertow.models.markov import MarkovChain

    given = read.states if len(read.states) > 1 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # said by the command itself
        chain = MarkovChain.fit(
            read, given, prior=asked.prior, length=asked.length, public=asked.public
        )
    model: AnyModel = chain.with_region(chain.plausible(asked.confidence))
    if asked.point:
        model = chain.point()
    if asked.population:
        model = chain.population(asked.share, asked.confidence, least=asked.least)
    return ChainFit(
        chain=asked.described(chain),
        model=asked.described(model),
        confidence=asked.confidence,
        intervals=chain.intervals(asked.confidence),
        order=_order(chain),
        persons=_persons(chain, max(asked.least, 1)),
    )


def named(read: Read, table: "Data", listed: list[str] | None) -> Read:
    """Return what was read of a table under the names that were typed, in their order.

    ``read`` is what a fit keeps of the records, or the records themselves as numbers of states.
    """
    binned = bool(table.record.cuts)
    seen = list(read.states)
    if len(seen) > _MOST_STATES:
        raise InvalidInput(
            f"there are more than {_MOST_STATES} different values, too many for states; make "
            "states of them with --state, an expression such as 'steps > 0'"
        )
    if listed is None:
        return read
    truths = bool(seen) and all(isinstance(value, bool) for value in seen)
    if truths and len(listed) != 2:
        raise misuse(
            f"--states names what is false and what is true: two names, found {len(listed)}"
        )
    if binned and len(listed) != len(seen):
        raise misuse(f"there are {len(seen)} bins; --states names each, found {len(listed)} names")
    if truths or binned:
        order = [
            int(bool(value)) if truths else place for place, value in enumerate(seen)
        ]  # false, true; or bins
        meant: list[Any] = list(listed)
    else:
        meant = [find_state(name, seen) for name in listed]
        if any(value not in meant for value in seen):
            raise UnknownState(
                "some record is none of the states named by --states; list every state"
            )
        order = [meant.index(value) for value in seen]
    return read.placed(order, tuple(meant))


def _tally(chain: "FittedChain") -> "Tally":
    """Return what the fit kept of the records; a fit of records has kept some."""
    if chain.tally is None:
        raise NotSupported("the chain was not fitted to records")
    return chain.tally


def _order(chain: "FittedChain") -> dict[str, Any]:
    """Return the test of order 1 against order 2, or why there is none."""
    try:
        test = chain.order_test()
    except NotSupported as reason:
        return {"statistic": None, "degrees": None, "p_value": None, "words": str(reason)}
    return {**_numbers(test), "words": test.words()}


def _numbers(test: "OrderTest | HomogeneityTest") -> dict[str, Any]:
    return {"statistic": test.statistic, "degrees": test.degrees, "p_value": test.p_value}


def _persons(chain: "FittedChain", least: int) -> dict[str, Any]:
    """Return how many persons there are, whether they differ, and what that means in leakage."""
    from undertow.planning.persons import person_budgets

    counts = _tally(chain).persons
    found: dict[str, Any] = {"persons": None if counts is None else len(counts), "words": []}
    if counts is None or len(counts) < 2:
        return found
    alone = int((counts.sum(axis=(1, 2)) == 0).sum())
    if alone:
        found["words"].append(
            f"{alone} of {len(counts)} have no two records that follow each other, and add nothing"
        )
    found["alone"] = alone
    try:
        test = chain.homogeneity_test()
        found["test"] = {"persons": test.persons, **_numbers(test), "drawn": test.drawn}
        found["words"].append(f"{test.persons}; {test.words()}")
        budgets = person_budgets(chain, _LIMIT, least=least)
        found["budgets"] = asdict(budgets)
        found["words"].append(f"{budgets.words()} (not private)")
    except (NotSupported, InvalidModel) as reason:
        found["words"].append(str(reason))
    return found
