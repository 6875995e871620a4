"""``undertow fit``: a model of the records of a table, its confidence region and its checks."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from undertow.cli.files import check_figure, check_written, write_bytes, write_text
from undertow.cli.options import (
    DataArgument,
    ForceOption,
    JsonOption,
    KeyOption,
    LengthOption,
    TableOptions,
    command,
    figure_kind,
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

__all__ = [
    "AutoFit",
    "ChainFit",
    "CohortFit",
    "FitSettings",
    "GaussianFit",
    "HiddenFit",
    "PrivateChain",
    "PrivateFitOptions",
    "SecondFit",
    "fit",
    "fit_auto",
    "fit_cohorts",
    "fit_gaussian",
    "fit_one",
    "fit_regimes",
    "fit_second",
    "learn",
    "named",
]


Read = TypeVar("Read", "Tally", "Encoded")
Fitted = TypeVar("Fitted", bound="AnyModel")

_MOST_STATES = 100
"""The most different values that count as states; more are measurements."""
_TRIAL_PRIOR = 0.5
"""The pseudo-count of the example of a prior."""
_LIMIT = 1.0
"""The leakage limit of the comparison of persons' budgets."""


@dataclass(frozen=True, slots=True)
class FitSettings:
    """The settings of the fit of a chain."""

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
        """Return the counts of a table, missing records in the state of --missing."""
        if self.missing is None:
            return named(table.tally(), table, self.states)
        from undertow.models.fitting.tally import tally

        read = named(table.encoded(), table, self.states).filled(self.missing)
        kept = tally(
            read.codes, read.states, series=read.series, persons=read.persons, hours=read.hours
        )
        return replace(kept, described=read.described)

    def described(self, model: Fitted) -> Fitted:
        """Return a fitted model with the state of missing records in its description."""
        if self.missing is None:
            return model
        return model.with_records(replace(model.records, missing=self.missing))


@dataclass(frozen=True, slots=True)
class ChainFit:
    """The fit of a chain; ``model`` is written to the file."""

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

    def show(self, output: Path | None) -> None:
        """Print the fit."""
        chain, fields = self.chain, self.fields()
        law = ", ".join(
            f"{state} {share:.4g}" for state, share in zip(chain.states, chain.initial, strict=True)
        )
        rows = [
            ("model", self._model()),
            ("one record", str(self.model.records) or "unspecified"),
            ("series", f"{fields['sequences']}"),
            ("records", f"{fields['records']}, of which {fields['missing']} are missing"),
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
        from undertow.models.chains import MarkovChain
        from undertow.models.fitting.fit import FittedChain

        if isinstance(self.model, FittedChain):  # unseen transitions have a row of their own
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
        pooled = {name: field for name, field in self.pooled.fields().items() if name != "model"}
        return {"model": self.model.to_dict(), **pooled, "cohorts": cohorts}

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
        written = [] if output is None else [("written to", str(output))]
        show("The model", [("model", self.model.describe()), *written])


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
        read = named(part.tally(), part, settings.states)
        places = [states.index(value) for value in read.states]
        parts[name] = _fit(read.placed(places, states), settings)
    model = ModelSet(
        [part.chain for part in parts.values()], f"one for each of {len(parts)} cohorts"
    )
    return CohortFit(model.with_checks(pooled.chain.checks), parts, pooled)


def _fit(read: "Tally", settings: FitSettings) -> ChainFit:
    from undertow.models.chains import MarkovChain

    given = read.states if len(read.states) > 1 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # the command prints its own
        chain = MarkovChain.fit(
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


def named(read: Read, table: "Data", listed: list[str] | None) -> Read:
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
        written = [] if output is None else [("written to", str(output))]
        show("The fitted model", [*rows, *written])
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # the command prints its own
        model = MultivariateGaussian.fit(rows, public=public)
    return GaussianFit(model, columns, len(rows), missing)


@dataclass(frozen=True, slots=True)
class SecondFit:
    """The fit of a chain of order two."""

    chain: "FittedSecondOrderChain"
    confidence: float

    @property
    def model(self) -> "AnyModel":
        """The model of the file."""
        return self.chain

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        chain, kept = self.chain, self.chain.tally
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
        chain, fields = self.chain, self.fields()
        rows = [
            ("model", chain.describe()),
            ("one record", str(chain.records) or "unspecified"),
            ("series", f"{fields['sequences']}"),
            ("records", f"{fields['records']}, of which {fields['missing']} are missing"),
            ("runs", f"{int(chain.counts.sum())} of three neighbours that are all there"),
        ]
        written = [] if output is None else [("written to", str(output))]
        show("The fitted chain of order two", [*rows, *written])
        sure = f"{100 * self.confidence:.6g}% confidence intervals"
        intervals = chain.intervals(self.confidence)
        pairs = [(x, y) for x in range(chain.size) for y in range(chain.size)]
        cells = [
            [
                f"after {chain.states[x]}, {chain.states[y]}",
                *(
                    f"{share:.4g} ({below(low, 4)} to {above(high, 4)})"
                    for share, (low, high) in zip(
                        chain.transition[x, y], intervals[x, y], strict=True
                    )
                ),
            ]
            for x, y in pairs
        ]
        show_table(
            f"Transition probabilities, with {sure}",
            ["", *(f"to {state}" for state in chain.states)], cells,
        )  # fmt: skip
        show_checks(chain.checks)


@dataclass(frozen=True, slots=True)
class HiddenFit:
    """The fit of a hidden Markov chain that plans support."""

    chain: "FittedHiddenChain"

    @property
    def model(self) -> "AnyModel":
        """The model of the file."""
        return self.chain

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        chain = self.chain
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
        chain = self.chain
        rows = [
            ("model", chain.describe()),
            ("one record", str(chain.records) or "unspecified"),
            ("records", f"{chain.sample_size}"),
            ("BIC", f"{chain.bic:.0f}"),
            ("law", "attractive: the likeliest of those that plans support"),
        ]
        written = [] if output is None else [("written to", str(output))]
        show("The fitted hidden chain", [*rows, *written])
        per = len(chain.symbols) // len(chain.states)
        hidden = [f"{symbol} {place % per + 1}" for place, symbol in enumerate(chain.symbols)]
        cells = [
            [f"from {name}", *(f"{share:.4g}" for share in row)]
            for name, row in zip(hidden, chain.transition, strict=True)
        ]
        show_table("Transitions of the hidden states", ["", *(f"to {n}" for n in hidden)], cells)
        show_checks(chain.checks)


@dataclass(frozen=True, slots=True)
class AutoFit:
    """The comparison of orders, and the fit of the best one that plans support."""

    chosen: ChainFit | SecondFit | HiddenFit
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # the command prints its own
        chain = MarkovChain.fit(
            read,
            given,
            order=2,
            prior=settings.prior,
            length=settings.length,
            public=settings.public,
        )
    return SecondFit(settings.described(chain), settings.confidence)


def fit_regimes(table: "Data", settings: FitSettings) -> HiddenFit:
    """Return the attractive fit of two hidden states for each state to all records of a table."""
    if settings.prior:
        raise misuse("--prior is for chains of order one and two; leave it out with --order hidden")
    return _regimes(table, settings)


def _regimes(table: "Data", settings: FitSettings) -> HiddenFit:
    from undertow.models.hidden import HiddenChain

    read: Any = table
    if table.piece is None:
        read = named(table.encoded(), table, settings.states)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # the command prints its own
        chain = HiddenChain.fit(
            read, attractive=True, length=settings.length, public=settings.public
        )
    return HiddenFit(chain)


def fit_auto(table: "Data", settings: FitSettings, figure: Path | None) -> AutoFit:
    """Return the fit of the order with the least BIC among those that plans support.

    A table that is read in pieces has orders one and two compared; others four, and hidden states.
    """
    from undertow.diagnostics.chain_orders import orders as compare_orders

    whole = table.piece is None
    read: Any = (
        named(table.encoded(), table, settings.states)
        if whole
        else named(table.tally(), table, settings.states)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)
        orders = compare_orders(read, prior=settings.prior, public=settings.public)
    chosen: ChainFit | SecondFit | HiddenFit
    if orders.plannable.hidden:
        chosen = _regimes(table, settings)
    else:
        chosen = (fit_one if orders.plannable.order == 1 else fit_second)(table, settings)
    return AutoFit(chosen, orders, figure)


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
        chain, sure = self.chain, f"{100 * self.chain.confidence:.6g}%"
        rows = [
            ("model", chain.describe()),
            ("region", f"holds the true chain with confidence {sure}, over records and noise"),
            ("noise", f"discrete Laplace of scale {above(chain.scale)} on every count"),
            ("level", f"{above(chain.level)}, spent from the account"),
            ("release", str(chain.release_id)),
            ("account", "under the region now" if self.narrowed else "unchanged (see --narrow)"),
            ("left", f"a DP level of {below(self.left)}{self._fits()}"),
            *([] if output is None else [("written to", f"{output} (the region)")]),
        ]
        show("The private fit", rows)
        header = ["", *(f"to {state}" for state in chain.states)]
        cells = [
            [f"from {state}", *(f"{p:.4g} ({below(a, 4)} to {above(b, 4)})" for p, a, b in row)]
            for state, row in zip(chain.states, self._rows(), strict=True)
        ]
        show_table("Transition probabilities, and their region", header, cells)
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

    def _rows(self) -> list[list[tuple[float, float, float]]]:
        parts = (self.chain.transition, self.model.lower, self.model.upper)  # each (from, to)
        together = zip(*(part.tolist() for part in parts), strict=True)
        return [list(zip(*row, strict=True)) for row in together]


def learn(
    table: "Data", options: PrivateFitOptions, states: list[str] | None, confidence: float
) -> PrivateChain:
    """Return the chain learnt from a table through noise, its account narrowed if that was options.

    The same fit again gives the recorded counts and spends nothing.
    """
    from undertow.releasing.private_fit import private_fit

    book = open_ledger(str(options.ledger), options.dataset, options.key)
    listed = None
    if states is not None:
        listed = [find_state(name, book.model.states) for name in states]
    chain = private_fit(
        table, listed, level=options.private or 0.0, ledger=book, confidence=confidence
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


@dataclass(frozen=True, slots=True)
class PopulationOptions:
    """The options of a model of all persons."""

    population: bool = option(
        None, "Write a model of all persons, each with a chain of its own.", False, group="Model"
    )
    share: float | None = option(
        "P", "Share of all persons, in and outside the sample, that it covers.", group="Expert"
    )
    least: int = option("N", "Fewest transitions of a person.", 0, group="Expert")

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if not self.population and (self.share is not None or self.least):
            raise misuse("--share and --least go with --population")


@command
def fit(
    data: DataArgument,
    reading: FitOptions,
    persons: PopulationOptions,
    private: PrivateFitOptions,
    states: str | None = option(
        "NAMES", "State names in order, also of false,true or of bins.", group="Model"
    ),
    order: Literal["1", "2", "hidden", "auto"] = option(
        None, "Chain order, hidden states, or the best of them.", "1", group="Model"
    ),
    prior: float = option("X", "Pseudo-count of every transition.", 0.0, group="Model"),
    missing: str | None = option(
        "NAME", "State of missing records (default: they end a series).", group="Model"
    ),
    length: LengthOption = None,
    confidence: float = option(
        "P", "Confidence of the intervals and of the region.", 0.95, group="Model"
    ),
    point: bool = option(
        None, "Write the estimate without its confidence region.", False, group="Model"
    ),
    public: bool = option(
        None, "State that the records are public, and so are reports.", False, group="Guarantee"
    ),
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
    chain_only = (states, length, prior or None, point or None, persons.population or None)
    if reading.columns is not None and any(value is not None for value in chain_only):
        raise misuse("--columns goes alone: states, series and regions belong to --value")
    if sum((persons.population, point, reading.by is not None)) > 1:
        raise misuse("--population, --point and --by exclude each other: a file holds one model")
    if private.private is not None and (
        prior or length or point or persons.population or reading.by or reading.columns
    ):
        raise misuse(
            "--private goes with the options of the table, --states and --confidence alone: the "
            "file is its region, for series of any length"
        )
    if order != "1" and (
        point or persons.population or reading.by or reading.columns or private.private is not None
    ):
        raise misuse(
            "--order 2, hidden and auto go with the options of the table, --states, --prior and "
            "--length alone: points, populations, cohorts and private fits are of order one"
        )
    if private.private is not None and public:
        raise misuse("--private and --public exclude each other")
    if figure is not None and order != "auto":
        raise misuse("--figure goes with --order auto: it draws the orders compared")
    if missing is not None and (
        missing in ("any", "none") or reading.columns or reading.by or private.private is not None
        or order in ("hidden", "auto")
    ):  # fmt: skip
        raise misuse(
            "--missing names a state, other than any and none, of one chain of order 1 or 2; it "
            "goes without --columns, --by, --private and --order hidden or auto"
        )
    check_written(output, force=force)
    check_figure(figure, force=force and figure is not None)
    result: ChainFit | CohortFit | GaussianFit | PrivateChain | SecondFit | HiddenFit | AutoFit
    with waiting("fitting the model", "" if order == "1" else "--order 1 is faster"):
        if reading.columns is not None:
            result = fit_gaussian(data, names(reading.columns, "--columns"), public)
        else:
            settings = FitSettings(
                None if states is None else names(states, "--states"), prior, length, confidence,
                point, persons.population, persons.share, persons.least, public, missing,
            )  # fmt: skip
            table = reading.read(data)
            if private.private is not None:
                result = learn(table, private, settings.states, confidence)
            elif order == "2":
                result = fit_second(table, settings)
            elif order == "hidden":
                result = fit_regimes(table, settings)
            elif order == "auto":
                result = fit_auto(table, settings, figure)
            elif reading.by is None:
                result = fit_one(table, settings)
            else:
                result = fit_cohorts(table, settings)
    warning = {"warning": _WARNING} if result.model.origin == "not public" else {}
    if warning:
        say(f"warning: {_WARNING}")

    if figure is not None and isinstance(result, AutoFit):
        from undertow.figures.canvas import figure_bytes
        from undertow.figures.costs import draw_orders

        drawn = draw_orders(result.table, "Memory of the records")
        write_bytes(figure, figure_bytes(drawn, figure_kind(figure)), force=force)
    if output is not None:
        write_text(output, strict_json(result.model.to_dict()) + "\n", force=force)
    answer(result.fields() | warning, lambda: result.show(output), as_json=as_json)
