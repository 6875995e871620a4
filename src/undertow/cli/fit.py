"""``undertow fit``: a model of the records of a table, its confidence region and its checks."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from undertow.cli.files import check_figure, check_written, write_figure, write_text
from undertow.cli.options import (
    DataArgument,
    ForceOption,
    JsonOption,
    KeyOption,
    LengthOption,
    TableOptions,
    command,
    find_state,
    misuse,
    names,
    open_ledger,
    option,
)
from undertow.cli.output import (
    above,
    answer,
    below,
    say,
    show,
    show_checks,
    show_table,
    strict_json,
    waiting,
)
from undertow.errors import (
    DisclosureWarning,
    InvalidInput,
    InvalidModel,
    NotSupported,
    UnknownState,
)

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.diagnostics.chain_orders import OrderTable
    from undertow.models.classes import ChainBox
    from undertow.models.fitting.fit import (
        FittedChain,
        FittedSecondOrderChain,
        HomogeneityTest,
        OrderTest,
    )
    from undertow.models.fitting.hidden import FittedHiddenChain
    from undertow.models.fitting.private import PrivateFit
    from undertow.models.fitting.tally import Encoded, Tally
    from undertow.models.gaussian import MultivariateGaussian
    from undertow.models.sets import AnyModel
    from undertow.numerics import Array

__all__ = ["fit"]


Read = TypeVar("Read", "Tally", "Encoded")
Chain = TypeVar("Chain", bound="AnyModel")

_MOST_STATES = 100
"""The most different values that count as states; more are measurements."""
_TRIAL_PRIOR = 0.5
"""The pseudo-count of the example of a prior."""
_LIMIT = 1.0
"""The leakage limit of the comparison of persons' budgets."""


class Fit(Protocol):
    """The fit of a model, which is written to the file."""

    @property
    def model(self) -> "AnyModel":
        """The model of the file."""
        ...

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        ...

    def show(self, output: Path | None) -> None:
        """Print the fit."""
        ...


@dataclass(frozen=True, slots=True)
class FitSettings:
    """The options of the fit of a chain, or of a model of all persons."""

    population: bool = option(
        None, "Write a model of all persons, each with a chain of its own.", False, group="Model"
    )
    share: float | None = option(
        "P", "Share of all persons, in and outside the sample, that it covers.", group="Expert"
    )
    least: int = option("N", "Fewest transitions of a person.", 0, group="Expert")
    states: str | None = option(
        "NAMES", "State names in order, also of false,true or of bins.", group="Model"
    )
    order: Literal["1", "2", "hidden", "auto"] = option(
        None, "Chain order, hidden states, or the best of them.", "1", group="Model"
    )
    prior: float = option("X", "Pseudo-count of every transition.", 0.0, group="Model")
    missing: str | None = option(
        "NAME", "State of missing records (default: they end a series).", group="Model"
    )
    length: LengthOption = None
    confidence: float = option(
        "P", "Confidence of the intervals and of the region.", 0.95, group="Model"
    )
    point: bool = option(
        None, "Write the estimate without its confidence region.", False, group="Model"
    )
    public: bool = option(
        None, "State that the records are public, and so are reports.", False, group="Guarantee"
    )

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if not self.population and (self.share is not None or self.least):
            raise misuse("--share and --least go with --population")

    def check(self, *, columns: bool, by: bool, private: bool) -> None:
        """Refuse settings that do not go with columns, cohorts or a private fit."""
        alone = self.point or self.population or by
        given = (self.states, self.length, self.prior or None)
        if columns and (alone or any(value is not None for value in given)):
            raise misuse("--columns goes alone: states, series and regions belong to --value")
        if sum((self.population, self.point, by)) > 1:
            raise misuse(
                "--population, --point and --by exclude each other: a file holds one model"
            )
        if private and (self.prior or self.length or alone or columns):
            raise misuse(
                "--private goes with the options of the table, --states and --confidence alone: "
                "the file is its region, for series of any length"
            )
        if self.order != "1" and (alone or columns or private):
            raise misuse(
                "--order 2, hidden and auto go with the options of the table, --states, --prior "
                "and --length alone: points, populations, cohorts and private fits are of order one"
            )
        if self.order == "hidden" and self.prior:
            raise misuse(
                "--prior is for chains of order one and two; leave it out with --order hidden"
            )
        if private and self.public:
            raise misuse("--private and --public exclude each other")
        if self.missing is not None and (
            self.missing in ("any", "none") or columns or by or private
            or self.order in ("hidden", "auto")
        ):  # fmt: skip
            raise misuse(
                "--missing names a state, other than any and none, of one chain of order 1 or 2; "
                "it goes without --columns, --by, --private and --order hidden or auto"
            )

    def listed(self) -> list[str] | None:
        """Return the names of --states."""
        return None if self.states is None else names(self.states, "--states")

    def read(self, table: "Data") -> "Tally":
        """Return the counts of a table, missing records in the state of --missing."""
        if self.missing is None:
            return _named(table.tally(), table, self.listed())
        from undertow.models.fitting.tally import tally

        read = _named(table.encoded(), table, self.listed()).filled(self.missing)
        kept = tally(
            read.codes, read.states, series=read.series, persons=read.persons, hours=read.hours
        )
        return replace(kept, described=read.described)

    def described(self, model: Chain) -> Chain:
        """Return a fitted model with the state of missing records in its description."""
        if self.missing is None:
            return model
        return model.with_records(replace(model.records, missing=self.missing))


@contextmanager
def _undisclosed() -> Iterator[None]:
    """Leave out the library's warning of a disclosure: the command prints its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)
        yield


def _written(output: Path | None) -> list[tuple[str, str]]:
    return [] if output is None else [("written to", str(output))]


def _show_matrix(
    title: str, names: Iterable[object], states: Iterable[object], rows: Iterable[Sequence[str]]
) -> None:
    """Print a table with a row for each name and a column for each state."""
    cells = [[str(name), *row] for name, row in zip(names, rows, strict=True)]
    show_table(title, ["", *(f"to {state}" for state in states)], cells)


def _intervals(shares: "Array", low: "Array", high: "Array") -> list[list[str]]:
    """Return probabilities with their intervals, (rows, states) each."""
    return [
        [f"{p:.4g} ({below(a, 4)} to {above(b, 4)})" for p, a, b in zip(*row, strict=True)]
        for row in zip(shares.tolist(), low.tolist(), high.tolist(), strict=True)
    ]


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.6g}%"


@dataclass(frozen=True, slots=True)
class ChainFit:
    """The fit of a chain; ``model`` is written to the file."""

    chain: "FittedChain"
    model: "AnyModel"
    confidence: float
    intervals: "Array"
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

    def show(self, output: Path | None) -> None:
        """Print the fit."""
        from undertow.models.chains import MarkovChain
        from undertow.models.fitting.fit import FittedChain

        chain, kept, sure = self.chain, _tally(self.chain), _percent(self.confidence)
        law = ", ".join(
            f"{state} {share:.4g}" for state, share in zip(chain.states, chain.initial, strict=True)
        )
        model = self.model.describe()
        if isinstance(self.model, FittedChain):  # unseen transitions have a row of their own
            model = f"{MarkovChain.describe(chain)}; plans are for its {sure} confidence region"
        rows = [
            ("model", model),
            ("one record", str(self.model.records) or "unspecified"),
            ("series", f"{kept.series}"),
            ("records", f"{kept.records}, of which {kept.missing} are missing"),
            ("transitions", f"{int(chain.counts.sum())} between neighbours that are both there"),
            ("stationary", law),
            ("order", self.order["words"]),
            *(("persons", words) for words in self.persons["words"]),
            ("unseen", self._unseen()),
        ]
        show("The fitted chain", [*rows, *_written(output)])
        origins = [f"from {state}" for state in chain.states]
        _show_matrix(
            f"Transition probabilities, with {sure} confidence intervals", origins, chain.states,
            _intervals(chain.transition, self.intervals[..., 0], self.intervals[..., 1]),
        )  # fmt: skip
        show_checks(self.model.checks)
        counts = [[f"{n:g}" for n in row] for row in chain.counts]
        _show_matrix("Transitions seen", origins, chain.states, counts)

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
            f"{pairs}{more}; estimated as impossible, so an attacker can exclude values; "
            f"--prior {_TRIAL_PRIOR:g} would give the first of them probability {share:.2g}"
        )


@dataclass(frozen=True, slots=True)
class CohortFit:
    """One fit for each cohort of persons, and one for all; the set of the cohorts is written."""

    model: "AnyModel"
    parts: dict[Any, ChainFit]
    pooled: ChainFit

    def fields(self) -> dict[str, Any]:
        """Return the fits as the fields of a JSON object."""
        cohorts = [{"cohort": name, **part.fields()} for name, part in self.parts.items()]
        return {**self.pooled.fields(), "model": self.model.to_dict(), "cohorts": cohorts}

    def show(self, output: Path | None) -> None:
        """Print the fit of all persons together, then a line for each cohort."""
        self.pooled.show(None)
        chain = self.pooled.chain
        heads = [f"{a} to {b}" for a in chain.states for b in chain.states if a != b]
        rows = []
        for name, part in self.parts.items():
            matrix = part.chain.transition.tolist()
            off = [p for x, row in enumerate(matrix) for y, p in enumerate(row) if x != y]
            people = str(part.persons["persons"])
            rows.append([str(name), people, *(f"{share:.4g}" for share in off)])
        show_table("Cohorts", ["cohort", "persons", *heads], rows)
        show("The model", [("model", self.model.describe()), *_written(output)])


def fit_one(table: "Data", settings: FitSettings) -> ChainFit:
    """Return the fit of one chain to all records of a table."""
    return _fit(settings.read(table), settings)


def fit_cohorts(table: "Data", settings: FitSettings) -> CohortFit:
    """Return a fit for each cohort and one for all, with the states of the whole table."""
    from undertow.models.sets import ModelSet

    pooled = fit_one(table, settings)
    states = pooled.chain.states
    parts = {}
    for name, part in table.cohorts().items():
        read = _named(part.tally(), part, settings.listed())
        places = [states.index(value) for value in read.states]
        parts[name] = _fit(read.placed(places, states), settings)
    model = ModelSet(
        [part.chain for part in parts.values()], f"one for each of {len(parts)} cohorts"
    )
    return CohortFit(model.with_checks(pooled.chain.checks), parts, pooled)


def _fit(read: "Tally", settings: FitSettings) -> ChainFit:
    from undertow.models.fitting.fit import fit_chain

    given = read.states if len(read.states) > 1 else None
    with _undisclosed():
        chain = fit_chain(
            read, given, prior=settings.prior, length=settings.length, public=settings.public
        )
    model: AnyModel = chain.with_region(chain.plausible(settings.confidence))
    if settings.point:
        model = chain.point()
    if settings.population:
        model = chain.population(settings.share, settings.confidence, least=settings.least)
    return ChainFit(
        chain=settings.described(chain),
        model=settings.described(model),
        confidence=settings.confidence,
        intervals=chain.intervals(settings.confidence),
        order=_order(chain),
        persons=_persons(chain, max(settings.least, 1)),
    )


def _named(read: Read, table: "Data", listed: list[str] | None) -> Read:
    """Return counts or records of a table with the names of --states, in their order."""
    binned = bool(table.record.cuts)
    seen = list(read.states)
    if len(seen) > _MOST_STATES:
        raise InvalidInput(
            f"there are more than {_MOST_STATES} different values, too many for states; make "
            "states of them with --state, an expression such as 'steps > 0'"
        )
    if listed is None:
        return read
    boolean = bool(seen) and all(isinstance(value, bool) for value in seen)
    if boolean and len(listed) != 2:
        raise misuse(f"--states needs two names, of false and of true; found {len(listed)}")
    if binned and len(listed) != len(seen):
        raise misuse(f"there are {len(seen)} bins; --states names each, found {len(listed)} names")
    if boolean or binned:
        order = [
            int(bool(value)) if boolean else place for place, value in enumerate(seen)
        ]  # false, true; or bins
        states: list[Any] = list(listed)
    else:
        states = [find_state(name, seen) for name in listed]
        if any(value not in states for value in seen):
            raise UnknownState("a record is in no state of --states; list every state")
        order = [states.index(value) for value in seen]
    return read.placed(order, tuple(states))


def _tally(chain: "FittedChain") -> "Tally":
    """Return the counts of a fit to records."""
    if chain.tally is None:
        raise NotSupported("the chain was not fitted to records")
    return chain.tally


def _order(chain: "FittedChain") -> dict[str, Any]:
    """Return the test of order 1 against order 2, or the reason why there is none."""
    try:
        test = chain.order_test()
    except NotSupported as reason:
        return {"statistic": None, "degrees": None, "p_value": None, "words": str(reason)}
    return {**_numbers(test), "words": test.words()}


def _numbers(test: "OrderTest | HomogeneityTest") -> dict[str, Any]:
    return {"statistic": test.statistic, "degrees": test.degrees, "p_value": test.p_value}


def _persons(chain: "FittedChain", least: int) -> dict[str, Any]:
    """Return the number of persons, the test of their homogeneity, and their budgets."""
    from undertow.diagnostics.person_chains import persons as person_budgets

    counts = _tally(chain).persons
    fields: dict[str, Any] = {"persons": None if counts is None else len(counts), "words": []}
    if counts is None or len(counts) < 2:
        return fields
    alone = int((counts.sum(axis=(1, 2)) == 0).sum())
    if alone:
        fields["words"].append(
            f"{alone} of {len(counts)} have no two records that follow each other, and add nothing"
        )
    fields["alone"] = alone
    try:
        test = chain.homogeneity_test()
        fields["test"] = {"persons": test.persons, **_numbers(test), "drawn": test.drawn}
        fields["words"].append(f"{test.persons}; {test.words()}")
        budgets = person_budgets(chain, _LIMIT, least=least)
        fields["budgets"] = asdict(budgets)
        fields["words"].append(f"{budgets.words()} (not private)")
    except (NotSupported, InvalidModel) as reason:
        fields["words"].append(str(reason))
    return fields


@dataclass(frozen=True, slots=True)
class GaussianFit:
    """A Gaussian model, its columns, and the numbers of rows used and omitted."""

    model: "MultivariateGaussian"
    columns: list[str]
    rows: int
    missing: int

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        return {
            "model": self.model.to_dict(),
            "columns": self.columns,
            "correlations": self.model.correlations.tolist(),
            "rows": self.rows,
            "left_out": self.missing,
        }

    def show(self, output: Path | None) -> None:
        """Print the fit."""
        model = self.model
        left = f"; {self.missing} with a missing value were left out" if self.missing else ""
        rows = [
            ("model", model.describe()),
            ("records", ", ".join(self.columns)),
            ("rows", f"{self.rows}, taken to be independent of each other{left}"),
        ]
        show("The fitted model", [*rows, *_written(output)])
        cells = [
            [name, f"{mean:.5g}", f"{sd:.5g}", *(f"{number:.4f}" for number in numbers)]
            for name, mean, sd, numbers in zip(
                self.columns, model.mean, model.sds, model.correlations, strict=True
            )
        ]
        head = ["record", "mean", "sd", *(f"with {name}" for name in self.columns)]
        show_table("Means, standard deviations, correlations", head, cells)
        show_checks(model.checks)


def fit_gaussian(path: Path, columns: list[str], public: bool) -> GaussianFit:
    """Return the Gaussian model of some columns, one row being one draw of all of them."""
    from undertow.data.series import read_numbers
    from undertow.models.gaussian import MultivariateGaussian

    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise InvalidInput(f"the column {twice[0]!r} is named twice")
    rows, missing = read_numbers(path, columns)
    with _undisclosed():
        model = MultivariateGaussian.fit(rows, public=public)
    return GaussianFit(model, columns, len(rows), missing)


@dataclass(frozen=True, slots=True)
class SecondFit:
    """The fit of a chain of order two."""

    model: "FittedSecondOrderChain"
    confidence: float

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        chain, kept = self.model, self.model.tally
        return {
            "model": chain.to_dict(),
            "order": 2,
            "states": list(chain.states),
            "transition": chain.transition.tolist(),
            "stationary": chain.pair_law.tolist(),
            "counts": chain.counts.tolist(),
            "prior": chain.prior,
            "confidence": self.confidence,
            "intervals": chain.intervals(self.confidence).tolist(),
            "unseen": [list(run) for run in chain.unseen],
            "sequences": None if kept is None else kept.series,
            "records": None if kept is None else kept.records,
            "missing": None if kept is None else kept.missing,
        }

    def show(self, output: Path | None) -> None:
        """Print the fit."""
        chain, fields = self.model, self.fields()
        rows = [
            ("model", chain.describe()),
            ("one record", str(chain.records) or "unspecified"),
            ("series", f"{fields['sequences']}"),
            ("records", f"{fields['records']}, of which {fields['missing']} are missing"),
            ("runs", f"{int(chain.counts.sum())} of three neighbours that are all there"),
        ]
        show("The fitted chain of order two", [*rows, *_written(output)])
        ends = chain.intervals(self.confidence).reshape(-1, chain.size, 2)  # (pairs, states, ends)
        _show_matrix(
            f"Transition probabilities, with {_percent(self.confidence)} confidence intervals",
            [f"after {x}, {y}" for x in chain.states for y in chain.states], chain.states,
            _intervals(chain.transition.reshape(-1, chain.size), ends[..., 0], ends[..., 1]),
        )  # fmt: skip
        show_checks(chain.checks)


@dataclass(frozen=True, slots=True)
class HiddenFit:
    """The fit of a hidden Markov chain that plans support."""

    model: "FittedHiddenChain"

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        chain = self.model
        return {
            "model": chain.to_dict(),
            "states": list(chain.states),
            "symbols": list(chain.symbols),
            "transition": chain.transition.tolist(),
            "stationary": chain.initial.tolist(),
            "log_likelihood": chain.log_likelihood,
            "bic": chain.bic,
            "records": chain.sample_size,
        }

    def show(self, output: Path | None) -> None:
        """Print the fit."""
        chain = self.model
        rows = [
            ("model", chain.describe()),
            ("one record", str(chain.records) or "unspecified"),
            ("records", f"{chain.sample_size}"),
            ("BIC", f"{chain.bic:.0f}"),
            ("law", "attractive: the likeliest of those that plans support"),
        ]
        show("The fitted hidden chain", [*rows, *_written(output)])
        per = len(chain.symbols) // len(chain.states)
        hidden = [f"{symbol} {place % per + 1}" for place, symbol in enumerate(chain.symbols)]
        _show_matrix(
            "Transitions of the hidden states", [f"from {name}" for name in hidden], hidden,
            [[f"{share:.4g}" for share in row] for row in chain.transition],
        )  # fmt: skip
        show_checks(chain.checks)


@dataclass(frozen=True, slots=True)
class AutoFit:
    """The comparison of orders, and the fit of the best one that plans support."""

    chosen: Fit
    table: "OrderTable"
    figure: Path | None

    @property
    def model(self) -> "AnyModel":
        """The model of the file."""
        return self.chosen.model

    def fields(self) -> dict[str, Any]:
        """Return the fit and the comparison as the fields of a JSON object."""
        drawn = {} if self.figure is None else {"figure": str(self.figure)}
        return self.chosen.fields() | {"orders": self.table.to_dict()} | drawn

    def show(self, output: Path | None) -> None:
        """Print the comparison of orders, and the fit."""
        table = self.table
        head, *rows = table.rows()
        show_table(f"Orders compared: {table.words()}", head, rows)
        notes = [("note", note) for note in table.notes]
        if table.measured is not None:
            memory = table.measured
            words = f"autocorrelations add up to {memory.measured:.3g} over {memory.lags} steps"
            notes.insert(0, ("records themselves", words))
        best = table.best
        if best is not table.plannable:
            words = (
                "describes the records better, but plans against attackers who know some records "
                "do not support it: bound a plan's leakage there with 'undertow robustness', or "
                "make public regimes a context"
            )
            notes.append((best.name, words))
        if self.figure is not None:
            notes.append(("figure", str(self.figure)))
        if notes:
            show("Notes", notes)
        self.chosen.show(output)


def fit_second(table: "Data", settings: FitSettings) -> SecondFit:
    """Return the fit of a chain of order two to all records of a table."""
    from undertow.models.chains import MarkovChain

    read = settings.read(table)
    given = read.states if len(read.states) > 1 else None
    with _undisclosed():
        chain = MarkovChain.fit(
            read, given, order=2, prior=settings.prior, length=settings.length,
            public=settings.public,
        )  # fmt: skip
    return SecondFit(settings.described(chain), settings.confidence)


def fit_hidden(table: "Data", settings: FitSettings) -> HiddenFit:
    """Return the attractive fit of two hidden states for each state to all records of a table."""
    from undertow.models.hidden import HiddenChain

    read = _named(table.encoded(), table, settings.listed()) if table.piece is None else table
    with _undisclosed():
        chain = HiddenChain.fit(
            read, attractive=True, length=settings.length, public=settings.public
        )
    return HiddenFit(chain)


def fit_auto(table: "Data", settings: FitSettings, figure: Path | None) -> AutoFit:
    """Return the fit of the order with the least BIC among those that plans support.

    A table that is read in pieces has orders one and two compared; others four, and hidden states.
    """
    from undertow.diagnostics.chain_orders import orders as compare_orders

    listed = settings.listed()
    if table.piece is None:
        read: Encoded | Tally = _named(table.encoded(), table, listed)
    else:
        read = _named(table.tally(), table, listed)
    with _undisclosed():
        orders = compare_orders(read, prior=settings.prior, public=settings.public)
    best = orders.plannable
    fitted = fit_hidden if best.hidden else fit_one if best.order == 1 else fit_second
    return AutoFit(fitted(table, settings), orders, figure)


@dataclass(frozen=True, slots=True)
class PrivateFitOptions:
    """The options of a private fit, and of the ledger that it spends from."""

    private: float | None = option(
        "LEVEL", "DP level of the noise of a private fit, spent from --ledger.", group="Ledger"
    )
    ledger: str | None = option("LEDGER", "Ledger: a file or a URL.", group="Ledger")
    dataset: str | None = option("NAME", "Data set in the ledger.", group="Ledger")
    narrow: bool = option(
        None, "Replace the model of the account by the region of the fit.", False, group="Ledger"
    )
    key: KeyOption = None

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if (self.private is None) != (self.ledger is None):
            raise misuse("--private and --ledger go together: a private fit spends budget")
        if self.ledger is None and (self.dataset or self.narrow or self.key):
            raise misuse("--dataset, --narrow and --key go with --private and --ledger")


@dataclass(frozen=True, slots=True)
class PrivateChain:
    """A private fit; its region ``model`` is written to the file."""

    chain: "PrivateFit"
    model: "ChainBox"
    narrowed: bool
    left: float

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object, all noisy or public."""
        chain = self.chain
        return {
            "model": self.model.to_dict(),
            "states": list(chain.states),
            "transition": chain.transition.tolist(),
            "stationary": chain.initial.tolist(),
            "noisy_counts": chain.noisy.tolist(),
            "level": chain.level,
            "scale": chain.scale,
            "confidence": chain.confidence,
            "release_id": chain.release_id,
            "narrowed": self.narrowed,
            "left": self.left,
        }

    def show(self, output: Path | None) -> None:
        """Print the fit."""
        chain, sure = self.chain, _percent(self.chain.confidence)
        rows = [
            ("model", chain.describe()),
            ("region", f"holds the true chain with confidence {sure}, over records and noise"),
            ("noise", f"discrete Laplace of scale {above(chain.scale)} on every count"),
            ("level", f"{above(chain.level)}, spent from the account"),
            ("release", str(chain.release_id)),
            ("account", "under the region now" if self.narrowed else "unchanged (see --narrow)"),
            ("left", f"a DP level of {below(self.left)}{self._fits()}"),
            *((label, f"{path} (the region)") for label, path in _written(output)),
        ]
        show("The private fit", rows)
        _show_matrix(
            "Transition probabilities, and their region",
            [f"from {state}" for state in chain.states], chain.states,
            _intervals(chain.transition, self.model.lower, self.model.upper),
        )  # fmt: skip
        show_checks(self.model.checks)

    def _fits(self) -> str:
        """Return the limit of a plan under the region that spends the rest of the budget."""
        if not (self.narrowed and self.left):
            return ""
        from undertow.bounds.engine import leakage
        from undertow.guarantees import PureDP

        # the rest of the budget leaks this much alone; a slightly lower limit fits
        fits = below(leakage(PureDP(self.left), self.model).upper, 3)
        return f": a plan with --limit {fits} fits"


def learn(table: "Data", options: PrivateFitOptions, settings: FitSettings) -> PrivateChain:
    """Return the chain learnt from a table through noise, its account narrowed with --narrow.

    The same fit again gives the recorded counts and spends nothing.
    """
    from undertow.releasing.private_fit import private_fit

    book, listed = open_ledger(str(options.ledger), options.dataset, options.key), settings.listed()
    states = None if listed is None else [find_state(name, book.model.states) for name in listed]
    chain = private_fit(
        table, states, level=options.private or 0.0, ledger=book, confidence=settings.confidence
    )
    if options.narrow and not book.narrowed:
        book.narrow(str(chain.release_id))
    return PrivateChain(chain, chain.region(), book.narrowed, book.left())


_WARNING = (
    "a model fitted to private records is itself a disclosure without noise: plans and reports "
    "based on it are for the curator only; use a private fit (--private), or public records "
    "(--public)"
)


@dataclass(frozen=True, slots=True)
class FitOptions(TableOptions):
    """The options that read the records of a fit; groups are cohorts of persons."""

    by: str | None = option(
        "COLUMN", "Cohorts of persons, each with a chain of its own.", group="Records"
    )
    columns: str | None = option(
        "NAMES", "Dependent columns of numbers, for a Gaussian model instead.", group="Records"
    )

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if self.columns is None:
            TableOptions.__post_init__(self)
            return
        if any(text is not None for text in astuple(self)[:-1]):
            raise misuse("--columns goes alone: persons, times and states belong to --value")


@command
def fit(
    data: DataArgument,
    reading: FitOptions,
    settings: FitSettings,
    private: PrivateFitOptions,
    figure: Path | None = option(
        "FILE", "Path of a figure of the orders that --order auto compares.", group="Output"
    ),
    output: Path | None = option("FILE", "Path of the model.", group="Output"),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a Markov chain to a table of records, with confidence intervals, or a Gaussian model.

    The table is read as by 'undertow release'. Missing records (empty, NA) end a series unless
    --missing makes them a state. With --order 2 a record depends on the last two, with hidden on
    one of two hidden states for each of two states; auto takes the best that plans support (BIC).
    The file holds the estimate and its confidence region, which plans cover. A model fitted to
    private records is a disclosure, and its plans and reports are for the curator only: fit public
    records (--public), or privately (--private).

    \b
    Examples:
      undertow fit older.csv.gz --value steps --state 'steps > 0' \\
        --states inactive,active --public --output chain.json
      undertow fit ward.parquet --value steps --state 0.5 --person id --time at --every 5m \\
        --population --output population.json
      undertow fit nights.parquet --value stage --person night --by site --prior 0.5 --json
      undertow fit steps.csv --value steps --state 'steps > 0' \\
        --private 0.06 --ledger wide.db --dataset w25 --output region.json
      undertow fit older.csv.gz --value steps --state 'steps > 0' \\
        --order auto --figure orders.png --output chain.json
      undertow fit heights.csv --columns father,mother,child --output heights.json
    """
    learnt = private.private is not None
    settings.check(columns=reading.columns is not None, by=reading.by is not None, private=learnt)
    if figure is not None and settings.order != "auto":
        raise misuse("--figure goes with --order auto: it draws the orders compared")
    check_written(output, force=force)
    check_figure(figure, force=force and figure is not None)
    result: Fit
    with waiting("fitting the model", "" if settings.order == "1" else "--order 1 is faster"):
        if reading.columns is not None:
            result = fit_gaussian(data, names(reading.columns, "--columns"), settings.public)
        else:
            table = reading.read(data)
            if learnt:
                result = learn(table, private, settings)
            elif settings.order == "auto":
                result = fit_auto(table, settings, figure)
            else:
                first = fit_one if reading.by is None else fit_cohorts
                fitted = {"1": first, "2": fit_second, "hidden": fit_hidden}[settings.order]
                result = fitted(table, settings)
    warning = {"warning": _WARNING} if result.model.origin == "not public" else {}
    if warning:
        say(f"warning: {_WARNING}")
    if figure is not None and isinstance(result, AutoFit):
        from undertow.figures.costs import draw_orders

        write_figure(figure, draw_orders(result.table, "Memory of the records"), force=force)
    if output is not None:
        write_text(output, strict_json(result.model.to_dict()) + "\n", force=force)
    answer(result.fields() | warning, lambda: result.show(output), as_json=as_json)
