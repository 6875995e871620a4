"""``undertow fit``: a model from a file of records, and how sure one can be of it."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.commands import command, option
from undertow.cli.files import check_written, write_text
from undertow.cli.fit_gaussian import GaussianFit, fit_gaussian
from undertow.cli.options import (
    DataArgument,
    ForceOption,
    JsonOption,
    LengthOption,
    find_state,
    misuse,
    names,
)
from undertow.cli.output import above, answer, below, say, show, strict_json, waiting
from undertow.cli.tables import show_checks, show_table
from undertow.errors import DisclosureWarning, InvalidInput, NotSupported

if TYPE_CHECKING:
    from undertow.models.fitting import FittedChain
    from undertow.models.sets import AnyModel
    from undertow.queries import State

__all__ = ["fit"]

_WARNING = (
    "a model fitted to private records is itself a disclosure, which no noise protects; "
    "fit it to public or older records"
)
_MOST_STATES = 100
"""More different values than this are measurements, not states."""
_TRIAL_PRIOR = 0.5
"""The pseudo-count used to show what a prior would do."""


@command
def fit(
    data: DataArgument,
    column: str | None = option("NAME", "The column that holds the records."),
    columns: str | None = option(
        "NAMES", "Instead: columns of numbers that depend on each other, for a Gaussian model."
    ),
    state: str | None = option("SQL", "What makes a state of a record, e.g. 'steps > 0'."),
    states: str | None = option("NAMES", "The states in order; names of false,true."),
    by: str | None = option("NAME", "Start a new series where this column changes."),
    prior: float = option("X", "Pseudo-count added to every transition.", 0.0),
    length: LengthOption = None,
    confidence: float = option("C", "Of the intervals and the region.", 0.95),
    region: bool = option(None, "Write the confidence region instead of the one best fit.", False),
    output: Path | None = option("FILE", "Write the model there."),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """A Markov chain fitted to a file of records, with confidence intervals, or a Gaussian model.

    With --column rows are one record each, in the order of time; missing records (empty, NA) end
    a series and are never bridged. With --columns a row is one draw of several records, such as a
    family, and rows are independent of each other. The model is a disclosure if the records are
    private: fit it to public or old data, or protect it.

    \b
    Examples:
      undertow fit activity.csv.gz --column steps --state 'steps > 0' \\
        --states inactive,active --output chain.json
      undertow fit nights.parquet --column stage --by night --prior 0.5 --json
      undertow fit heights.csv --columns father,mother,child --output heights.json
    """
    if (column is None) == (columns is None):
        raise misuse("name either --column, for a Markov chain, or --columns, for a Gaussian")
    chain_only = (state, states, by, length, prior or None, region or None)
    if columns is not None and any(option is not None for option in chain_only):
        raise misuse("--columns goes alone: states, series and regions belong to --column")
    check_written(output, force=force)
    found: ChainFit | GaussianFit
    with waiting("fitting the model"):
        if columns is not None:
            found = fit_gaussian(data, names(columns, "--columns"))
        else:
            from undertow.data.table import Data

            records = Data(data, value=column, state=state, by=by).sequences(apart=by is not None)
            found = _fit(*_named(records, states), prior, length, confidence, region)
    say(f"warning: {_WARNING}")
    from undertow.models.registry import model_to_dict

    if output is not None:
        write_text(output, strict_json(model_to_dict(found.model)) + "\n", force=force)
    answer(found.fields() | {"warning": _WARNING}, lambda: found.tell(output), as_json=as_json)


@dataclass(frozen=True, slots=True)
class ChainFit:
    """The fit and what is said about it; ``model`` is what a file gets."""

    chain: "FittedChain"
    model: "AnyModel"
    confidence: float
    intervals: Any
    order: dict[str, Any]
    sequences: list[list[Any]]

    def fields(self) -> dict[str, Any]:
        """Return the fit as the fields of a JSON object."""
        from undertow.models.registry import model_to_dict

        chain = self.chain
        return {
            "model": model_to_dict(self.model),
            "states": list(chain.states),
            "transition": chain.transition.tolist(),
            "stationary": chain.initial.tolist(),
            "counts": chain.counts.tolist(),
            "prior": chain.prior,
            "confidence": self.confidence,
            "intervals": self.intervals.tolist(),
            "order_test": self.order,
            "unseen": [list(pair) for pair in chain.unseen],
            "sequences": len(self.sequences),
            "records": sum(map(len, self.sequences)),
            "missing": sum(series.count(None) for series in self.sequences),
        }

    def tell(self, output: Path | None) -> None:
        """Print the fit in words."""
        chain, said = self.chain, self.fields()
        law = ", ".join(
            f"{state} {share:.4g}" for state, share in zip(chain.states, chain.initial, strict=True)
        )
        rows = [
            ("model", self._model()),
            ("series", f"{said['sequences']}"),
            ("records", f"{said['records']}, of which {said['missing']} are missing"),
            ("transitions", f"{int(chain.counts.sum())} between neighbours that are both there"),
            ("stationary", law),
            ("order", self.order["words"]),
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
        from undertow.models.markov import MarkovChain

        if self.model is self.chain:  # what was never seen has a row of its own
            return MarkovChain.describe(self.chain)
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


def _named(
    sequences: list[list[Any]], states: str | None
) -> "tuple[list[list[Any]], list[State] | None]":
    """Return the records under their names, and the states in order if they were named."""
    seen = {value for series in sequences for value in series if value is not None}
    if len(seen) > _MOST_STATES:
        raise InvalidInput(
            f"there are more than {_MOST_STATES} different values, too many for states; make "
            "states of them with --state, an expression such as 'steps > 0'"
        )
    if states is None:
        return sequences, None
    listed = names(states, "--states")
    if not seen or not all(isinstance(value, bool) for value in seen):
        return sequences, [find_state(name, seen) for name in listed]
    if len(listed) != 2:
        raise misuse(
            f"--states names what is false and what is true: two names, found {len(listed)}"
        )
    by_value = {False: listed[0], True: listed[1], None: None}
    return [[by_value[value] for value in series] for series in sequences], list(listed)


def _fit(
    sequences: list[list[Any]],
    states: "list[State] | None",
    prior: float,
    length: int | None,
    confidence: float,
    region: bool,
) -> ChainFit:
    from undertow.models.markov import MarkovChain

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # said by the command itself
        chain = MarkovChain.fit(sequences, states, prior=prior, length=length)
    return ChainFit(
        chain=chain,
        model=chain.region(confidence) if region else chain,
        confidence=confidence,
        intervals=chain.intervals(confidence),
        order=_order(chain),
        sequences=sequences,
    )


def _order(chain: "FittedChain") -> dict[str, Any]:
    """Return the test of order 1 against order 2, or why there is none."""
    try:
        test = chain.order_test()
    except NotSupported as reason:
        return {"statistic": None, "degrees": None, "p_value": None, "words": str(reason)}
    return {**asdict(test), "words": test.words()}
