"""The options of questions about the series itself: how it is planned, flipped, redacted."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.options import misuse, numbers, read_records

if TYPE_CHECKING:
    from undertow.channels import RandomizedResponse
    from undertow.models.sets import AnyModel
    from undertow.queries import LocalQuery

__all__ = [
    "DatasetOption",
    "DryRunOption",
    "ForceOption",
    "ForeignOption",
    "IdOption",
    "LedgerOption",
    "LocalText",
    "ObjectiveOption",
    "PlanOption",
    "RedactedOption",
    "ReportOption",
    "SeriesOption",
    "SourceOption",
    "StrictOption",
    "TrustOption",
    "read_flips",
]

SeriesOption = Annotated[
    bool, typer.Option("--series", help="The whole series, each record flipped at random.")
]
RedactedOption = Annotated[
    bool,
    typer.Option("--redacted", help="The series, records erased around those of --protect."),
]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="AIM",
        help="Of --series: fewest 'flips' (default), most 'information', or the costs 1,2 of "
        "flipping each state.",
    ),
]


PlanOption = Annotated[
    Path, typer.Option("--plan", metavar="FILE", help="What 'undertow plan --output' wrote.")
]
ForeignOption = Annotated[
    str | None,
    typer.Option(
        "--foreign",
        metavar="STATE",
        help="The state of records that are missing or in no state; by default the plan's first.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse such records, by their row; that refusal depends on the records.",
    ),
]
LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", metavar="LEDGER", help="The account to spend from: a file or URL"),
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", metavar="NAME", help="... and the data set in it.")
]
IdOption = Annotated[
    str | None,
    typer.Option("--id", metavar="ID", help="Its name; by default it follows from the asking."),
]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trust", metavar="KEY", help="Accept only a plan that this public key (or file) signed."
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option("--source", metavar="TEXT", help="Where the model came from, for the report."),
]
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Write a report (.html, .json or .txt)."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be promised and written; draw nothing.")
]


@dataclass(frozen=True, slots=True)
class LocalText:
    """A question about the series itself, as it was typed: flipped, or redacted."""

    series: bool
    redacted: bool
    protect: str | None
    objective: str | None

    def __post_init__(self) -> None:
        """Refuse options that lack their companion, or have the wrong one."""
        if self.series and self.redacted:
            raise misuse("ask for one of --series and --redacted")
        if self.objective is not None and not self.series:
            raise misuse("--objective goes with --series")
        if self.redacted and self.protect is None:
            raise misuse("--redacted needs --protect, the records that must stay hidden")
        if self.series and self.protect is not None:
            raise misuse("--protect goes with --redacted; a flipped series protects every record")

    @property
    def asked(self) -> bool:
        """Whether the series itself is asked for."""
        return self.series or self.redacted

    def read(self, length: int | None) -> "LocalQuery":
        """Return the query; ``length`` is what was typed for it, None if nothing was."""
        from undertow.queries import Redacted, Series

        if self.series:
            return Series()
        return Redacted(read_records(self.protect or "", "--protect"), length)

    def aim(self) -> Any:
        """Return what the flips are chosen for: a name, or a cost for each state."""
        text = self.objective
        if text is None or text in ("flips", "information"):
            return text
        return numbers(text, "--objective")


def read_flips(text: str, model: "AnyModel") -> "RandomizedResponse":
    """Return the flips that were typed: one chance for all states, or one for each of two."""
    from undertow.channels import RandomizedResponse
    from undertow.errors import NotSupported

    chances = numbers(text, "--flips")
    if len(chances) == 2:
        return RandomizedResponse.binary(*chances)
    if len(chances) != 1:
        raise misuse(f"--flips needs one chance, or one for each of two states; found {text!r}")
    states = len(model.states)
    if not states:
        raise NotSupported("the model names no states, so there is nothing to flip to")
    return RandomizedResponse.symmetric(states, chances[0])
