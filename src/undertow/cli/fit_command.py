"""``undertow fit``: a model from a file of records, and how sure one can be of it."""

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from undertow.cli.commands import command, option
from undertow.cli.data_options import TableText
from undertow.cli.files import check_figure, check_written, write_bytes, write_text
from undertow.cli.fit_chain import ChainAsked, ChainFit, CohortFit, fit_cohorts, fit_one
from undertow.cli.fit_gaussian import GaussianFit, fit_gaussian
from undertow.cli.fit_orders import (
    AutoFit,
    HiddenFit,
    SecondFit,
    fit_auto,
    fit_regimes,
    fit_second,
)
from undertow.cli.fit_private import LearningText, PrivateChain, learn
from undertow.cli.options import (
    DataArgument,
    ForceOption,
    JsonOption,
    LengthOption,
    figure_kind,
    misuse,
    names,
)
from undertow.cli.output import answer, say, strict_json, waiting

__all__ = ["fit"]

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
        from undertow.figures.orders import draw_orders

        drawn = draw_orders(found.table, "How long do the records remember?")
        write_bytes(figure, figure_bytes(drawn, figure_kind(figure)), force=force)
    if output is not None:
        write_text(output, strict_json(found.model.to_dict()) + "\n", force=force)
    answer(found.fields() | warning, lambda: found.tell(output), as_json=as_json)
