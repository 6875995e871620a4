"""``undertow fit``: a model from a file of records, and how sure one can be of it."""

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
    TableText,
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
    from undertow.ledger.book import Ledger
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
    "ChainAsked",
    "ChainFit",
    "CohortFit",
    "GaussianFit",
    "HiddenFit",
    "LearningText",
    "PrivateChain",
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
        from undertow.models.fitting.tally import tally

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
        from undertow.models.chains import MarkovChain
        from undertow.models.fitting.fit import FittedChain

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
    from undertow.models.chains import MarkovChain

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
    from undertow.diagnostics.person_chains import persons as person_budgets

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


@dataclass(frozen=True, slots=True)
class GaussianFit:
    """A Gaussian model, the columns it came from, and how many rows were used and left out."""

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

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
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
        warnings.simplefilter("ignore", DisclosureWarning)  # said by the command itself
        model = MultivariateGaussian.fit(rows, public=public)
    return GaussianFit(model, columns, len(rows), missing)


@dataclass(frozen=True, slots=True)
class SecondFit:
    """A chain of order two and what is said about it."""

    chain: "FittedSecondOrderChain"
    confidence: float

    @property
    def model(self) -> "AnyModel":
        """What a file gets."""
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

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        chain, said = self.chain, self.fields()
        rows = [
            ("model", chain.describe()),
            ("one record", str(chain.records) or "not said"),
            ("series", f"{said['sequences']}"),
            ("records", f"{said['records']}, of which {said['missing']} are missing"),
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
    """A hidden chain that can be planned with, and what is said about it."""

    chain: "FittedHiddenChain"

    @property
    def model(self) -> "AnyModel":
        """What a file gets."""
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

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        chain = self.chain
        rows = [
            ("model", chain.describe()),
            ("one record", str(chain.records) or "not said"),
            ("records", f"{chain.sample_size}"),
            ("BIC", f"{chain.bic:.0f}"),
            ("law", "attractive: the likeliest one of those that can be planned with"),
        ]
        written = [] if output is None else [("written to", str(output))]
        show("The fitted hidden chain", [*rows, *written])
        per = len(chain.symbols) // len(chain.states)
        named = [f"{symbol} {place % per + 1}" for place, symbol in enumerate(chain.symbols)]
        cells = [
            [f"from {name}", *(f"{share:.4g}" for share in row)]
            for name, row in zip(named, chain.transition, strict=True)
        ]
        show_table("Transitions of the hidden states", ["", *(f"to {n}" for n in named)], cells)
        show_checks(chain.checks)


@dataclass(frozen=True, slots=True)
class AutoFit:
    """The order that was chosen, and what it was chosen from."""

    chosen: ChainFit | SecondFit | HiddenFit
    table: "OrderTable"
    figure: Path | None

    @property
    def model(self) -> "AnyModel":
        """What a file gets."""
        return self.chosen.model

    def fields(self) -> dict[str, Any]:
        """Return the fit and the comparison as the fields of a JSON object."""
        drawn = {} if self.figure is None else {"figure": str(self.figure)}
        return self.chosen.fields() | {"orders": self.table.to_dict()} | drawn

    def tell(self, output: Path | None) -> None:
        """Print the comparison, and the fit."""
        table = self.table
        head, *rows = table.rows()
        show_table(f"Orders compared: {table.words()}", head, rows)
        notes = [("note", note) for note in table.notes]
        if table.measured is not None:
            found = table.measured
            said = f"autocorrelations add up to {found.measured:.3g} over {found.lags} steps"
            notes.insert(0, ("records themselves", said))
        best = table.best
        if best is not table.plannable:
            said = (
                "describes the records better, and nobody can plan with it against attackers who "
                "know some records: see what a plan leaks there with 'undertow robustness', or "
                "make regimes that are public a context of their own"
            )
            notes.append((best.name, said))
        if self.figure is not None:
            notes.append(("figure", str(self.figure)))
        if notes:
            show("Of these", notes)
        self.chosen.tell(output)


def fit_second(table: "Data", asked: ChainAsked) -> SecondFit:
    """Return the fit of a chain of order two to all records of a table."""
    from undertow.models.chains import MarkovChain

    read = asked.read(table)
    given = read.states if len(read.states) > 1 else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # said by the command itself
        chain = MarkovChain.fit(
            read, given, order=2, prior=asked.prior, length=asked.length, public=asked.public
        )
    return SecondFit(asked.described(chain), asked.confidence)


def fit_regimes(table: "Data", asked: ChainAsked) -> HiddenFit:
    """Return the attractive fit of two hidden states for each state to all records of a table."""
    if asked.prior:
        raise misuse("--prior is for chains of order one and two; leave it out with --order hidden")
    return _regimes(table, asked)


def _regimes(table: "Data", asked: ChainAsked) -> HiddenFit:
    from undertow.models.hidden import HiddenChain

    read: Any = table
    if table.piece is None:
        read = named(table.encoded(), table, asked.states)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # said by the command itself
        chain = HiddenChain.fit(read, attractive=True, length=asked.length, public=asked.public)
    return HiddenFit(chain)


def fit_auto(table: "Data", asked: ChainAsked, figure: Path | None) -> AutoFit:
    """Return the fit of the order with the least BIC among those that can be planned with.

    A table that is read in pieces has orders one and two compared; others four, and hidden states.
    """
    from undertow.diagnostics.chain_orders import orders as compare_orders

    whole = table.piece is None
    read: Any = (
        named(table.encoded(), table, asked.states)
        if whole
        else named(table.tally(), table, asked.states)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)
        found = compare_orders(read, prior=asked.prior, public=asked.public)
    chosen: ChainFit | SecondFit | HiddenFit
    if found.plannable.hidden:
        chosen = _regimes(table, asked)
    else:
        chosen = (fit_one if found.plannable.order == 1 else fit_second)(table, asked)
    return AutoFit(chosen, found, figure)


@dataclass(frozen=True, slots=True)
class LearningText:
    """The account that pays for a private fit, as it was typed."""

    private: float | None = option("LEVEL", "Through noise of this DP level, which --ledger pays.")
    ledger: str | None = option("LEDGER", "... the account of these records: a file or URL,")
    dataset: str | None = option("NAME", "... and the data set in it.")
    narrow: bool = option(
        None, "Go over to the region of the fit in that account: plan under it from now on.", False
    )
    key: KeyOption = None

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if (self.private is None) != (self.ledger is None):
            raise misuse("--private and --ledger go together: a private fit is paid for")
        if self.ledger is None and (self.dataset or self.narrow or self.key):
            raise misuse("--dataset, --narrow and --key go with --private and --ledger")


@dataclass(frozen=True, slots=True)
class PrivateChain:
    """A private fit and what is said about it; ``model`` is its region, which a file gets."""

    chain: "PrivateFit"
    model: "ChainBox"
    narrowed: bool
    left: float

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object; all of it is noisy, or public."""
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

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        chain, sure = self.chain, f"{100 * self.chain.confidence:.6g}%"
        rows = [
            ("model", chain.describe()),
            ("region", f"holds the true chain with confidence {sure}, over records and noise"),
            ("noise", f"discrete Laplace of scale {above(chain.scale)} on every count"),
            ("level", f"{above(chain.level)}, paid by the account"),
            ("release", str(chain.release_id)),
            ("account", "under the region now" if self.narrowed else "as it was (see --narrow)"),
            ("left", f"a DP level of {below(self.left)}{self._fits()}"),
            *([] if output is None else [("written to", f"{output} (the region)")]),
        ]
        show("The chain, learnt privately", rows)
        header = ["", *(f"to {state}" for state in chain.states)]
        cells = [
            [f"from {state}", *(f"{p:.4g} ({below(a, 4)} to {above(b, 4)})" for p, a, b in row)]
            for state, row in zip(chain.states, self._rows(), strict=True)
        ]
        show_table("Transition probabilities, and their region", header, cells)
        show_checks(self.model.checks)

    def _fits(self) -> str:
        """Return the limit of a plan under the region that spends what is left, in words."""
        if not (self.narrowed and self.left):
            return ""
        from undertow.bounds.engine import leakage
        from undertow.guarantees import PureDP

        # what is left leaks this much by itself; a little less finds a plan that fits
        fits = below(leakage(PureDP(self.left), self.model).upper, 3)
        return f": a plan with --limit {fits} fits"

    def _rows(self) -> list[list[tuple[float, float, float]]]:
        parts = (self.chain.transition, self.model.lower, self.model.upper)  # each (from, to)
        together = zip(*(part.tolist() for part in parts), strict=True)
        return [list(zip(*row, strict=True)) for row in together]


def learn(
    table: "Data", asked: LearningText, states: list[str] | None, confidence: float
) -> PrivateChain:
    """Return the chain learnt from a table through noise, its account narrowed if that was asked.

    The same fit again gives the recorded counts and spends nothing.
    """
    from undertow.releasing.private_fit import private_fit

    book = open_ledger(str(asked.ledger), asked.dataset, asked.key)
    named = None if states is None else _known(states, book)
    chain = private_fit(
        table, named, level=asked.private or 0.0, ledger=book, confidence=confidence
    )
    if asked.narrow and not book.narrowed:
        book.narrow(str(chain.release_id))
    return PrivateChain(chain, chain.region(), book.narrowed, book.left())


def _known(states: list[str], book: "Ledger") -> list[Any]:
    """Return the states of the account by their texts."""
    from undertow.cli.options import find_state

    return [find_state(name, book.model.states) for name in states]


_WARNING = (
    "a model fitted to private records is itself a disclosure, which no noise protects: plans and "
    "reports made of it are the curator's; fit it through noise (--private), or to records that "
    "are public, and say so (--public)"
)


@dataclass(frozen=True, slots=True)
class FitText(TableText):
    """How to read the records of a fit: as for a release, but groups are cohorts of persons."""

    by: str | None = option("COLUMN", "Cohorts of persons: one chain for each, and all together.")
    columns: str | None = option(
        "NAMES", "Instead: columns of numbers that depend on each other, for a Gaussian model."
    )
    column: str | None = option("NAME", "The old name of --value.", hidden=True)

    def __post_init__(self) -> None:
        """Take the old name of an option; refuse options that lack their companion."""
        if self.column is not None:
            if self.value is not None:
                raise misuse("--column is the old name of --value; name one of them")
            say("warning: --column is deprecated; write --value")
            object.__setattr__(self, "value", self.column)
        if self.columns is None:
            TableText.__post_init__(self)
            return
        if any(text is not None for text in astuple(self)[:-2]):
            raise misuse("--columns goes alone: persons, times and states belong to --value")


@dataclass(frozen=True, slots=True)
class PopulationText:
    """For whom a model shall hold, as it was typed."""

    population: bool = option(
        None, "Write the chains of all persons, each with a chain of their own.", False
    )
    share: float | None = option("P", "... of this share of all persons, not only of these.")
    least: int = option("N", "Leave out persons with fewer transitions than this.", 0)

    def __post_init__(self) -> None:
        """Refuse options that lack their companion."""
        if not self.population and (self.share is not None or self.least):
            raise misuse("--share and --least go with --population")


@command
def fit(
    data: DataArgument,
    reading: FitText,
    whom: PopulationText,
    learning: LearningText,
    states: str | None = option("NAMES", "The states in order; names of false,true or of bins."),
    order: Literal["1", "2", "hidden", "auto"] = option(
        None,
        "Records that the next one depends on, or hidden states; auto compares these.",
        "1",
    ),
    prior: float = option("X", "Pseudo-count added to every transition.", 0.0),
    missing: str | None = option(
        "NAME", "The state of missing records, one of the model's; by default they end a series."
    ),
    length: LengthOption = None,
    confidence: float = option("C", "Of the intervals and the region.", 0.95),
    point: bool = option(None, "Write the estimate alone, without its confidence region.", False),
    public: bool = option(None, "These records are public, and so may papers be.", False),
    figure: Path | None = option("FILE", "Draw the orders that --order auto compares."),
    output: Path | None = option("FILE", "Write the model there."),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """A Markov chain fitted to a file of records, with confidence intervals, or a Gaussian model.

    The table is read as 'undertow release' reads it. With --time the rows of each person are put
    in order; without, they count as they stand, and a table with a column of times, or of a
    counter, that is out of order is refused. Missing records (empty, NA) end a series and are
    never bridged, unless --missing makes them a state. With
    --columns a row is one draw of several records, such as a family, and rows are independent of
    each other. The model is a disclosure if the records are private, and plans and reports made of
    it are the curator's: fit it to public records (--public), or through noise that an account
    pays for (--private), which gives a region of chains. The file holds the estimate and its
    confidence region, which plans are made for.
    With --order 2 the next record depends on the last two; with hidden on one of two hidden states
    for each of two states, the likeliest such chain that plans can be made with; auto takes, of
    those and of order one, the one that describes the records best (BIC), and shows what higher
    orders and more hidden states would cost.

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
    chain_only = (states, length, prior or None, point or None, whom.population or None)
    if reading.columns is not None and any(option is not None for option in chain_only):
        raise misuse("--columns goes alone: states, series and regions belong to --value")
    if sum((whom.population, point, reading.by is not None)) > 1:
        raise misuse("a file holds one model: of --population, --point and --by choose one")
    if learning.private is not None and (
        prior or length or point or whom.population or reading.by or reading.columns
    ):
        raise misuse(
            "--private goes with the reading of the table, --states and --confidence: what is "
            "written is the region, for series of any length"
        )
    if order != "1" and (
        point or whom.population or reading.by or reading.columns or learning.private is not None
    ):
        raise misuse(
            "--order 2, hidden and auto go with the reading of the table, --states, --prior and "
            "--length: points, populations, cohorts and private fits are of chains of order one"
        )
    if learning.private is not None and public:
        raise misuse("records are public, or the fit is private: not both")
    if figure is not None and order != "auto":
        raise misuse("--figure goes with --order auto: it draws the orders that are compared")
    if missing is not None and (
        missing in ("any", "none") or reading.columns or reading.by or learning.private is not None
        or order in ("hidden", "auto")
    ):  # fmt: skip
        raise misuse(
            "--missing names a state, other than any and none, of one chain of order 1 or 2; it "
            "goes without --columns, --by, --private and --order hidden or auto"
        )
    check_written(output, force=force)
    check_figure(figure, force=force and figure is not None)
    found: ChainFit | CohortFit | GaussianFit | PrivateChain | SecondFit | HiddenFit | AutoFit
    with waiting("fitting the model", "" if order == "1" else "--order 1 is faster"):
        if reading.columns is not None:
            found = fit_gaussian(data, names(reading.columns, "--columns"), public)
        else:
            share, least = whom.share, whom.least
            asked = ChainAsked(
                None if states is None else names(states, "--states"), prior, length, confidence,
                point, whom.population, share, least, public, missing,
            )  # fmt: skip
            table = reading.read(data)
            if learning.private is not None:
                found = learn(table, learning, asked.states, confidence)
            elif order == "2":
                found = fit_second(table, asked)
            elif order == "hidden":
                found = fit_regimes(table, asked)
            elif order == "auto":
                found = fit_auto(table, asked, figure)
            else:
                found = fit_one(table, asked) if reading.by is None else fit_cohorts(table, asked)
    warning = {"warning": _WARNING} if found.model.origin == "not public" else {}
    if warning:
        say(f"warning: {_WARNING}")

    if figure is not None and isinstance(found, AutoFit):
        from undertow.figures.canvas import figure_bytes
        from undertow.figures.costs import draw_orders

        drawn = draw_orders(found.table, "How long do the records remember?")
        write_bytes(figure, figure_bytes(drawn, figure_kind(figure)), force=force)
    if output is not None:
        write_text(output, strict_json(found.model.to_dict()) + "\n", force=force)
    answer(found.fields() | warning, lambda: found.tell(output), as_json=as_json)
