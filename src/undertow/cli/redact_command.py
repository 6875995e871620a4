"""``undertow redact``: a table of series, records erased as a plan says."""

from pathlib import Path
from typing import Annotated

import typer

from undertow.cli.data_options import (
    ByOption,
    DataArgument,
    DataText,
    EveryOption,
    GroupsOption,
    PersonOption,
    StateOption,
    TimeOption,
    ValueOption,
    WindowOption,
)
from undertow.cli.ledger_command import KeyOption
from undertow.cli.local_options import (
    DatasetOption,
    DryRunOption,
    ForceOption,
    ForeignOption,
    IdOption,
    LedgerOption,
    PlanOption,
    ReportOption,
    SourceOption,
    StrictOption,
    TrustOption,
)
from undertow.cli.options import JsonOption
from undertow.cli.output import refusals

__all__ = ["redact"]


def redact(
    data: DataArgument,
    plan: PlanOption,
    value: ValueOption = None,
    person: PersonOption = None,
    time: TimeOption = None,
    state: StateOption = None,
    every: EveryOption = None,
    by: ByOption = None,
    groups: GroupsOption = None,
    window: WindowOption = None,
    foreign: ForeignOption = None,
    strict: StrictOption = False,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    key: KeyOption = None,
    release_id: IdOption = None,
    trust: TrustOption = None,
    source: SourceOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write the redacted series there (.csv, .csv.gz or .parquet).",
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure", metavar="FILE", help="Draw the first person's series (.png or .svg)."
        ),
    ] = None,
    report: ReportOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """The series of a table, records erased as a plan says; the protected ones always are.

    Every series must have exactly the records of the plan. The file has the columns of persons,
    times and groups as they were, the outputs (empty where erased), and a column 'erased'. A
    redaction admits no other release of the same series.

    \b
    Examples:
      undertow redact activity.csv.gz --plan erasures.json --value steps --state 'steps > 0' \\
        --output shown.csv
      undertow redact activity.csv.gz --plan erasures.json --value steps --state 'steps > 0' \\
        --output shown.parquet --figure shown.png --dry-run
    """
    with refusals(as_json):
        from undertow.cli.files import read_trusted
        from undertow.cli.local_account import Account
        from undertow.cli.local_files import Places
        from undertow.cli.local_release import Task

        Task(
            "redact", data, plan,
            DataText(value, person, time, state, every, by, groups, "split", window),
            foreign,
            strict,
            Account(ledger, dataset, release_id, key),
            Places(output, figure, report, force),
            source,
            read_trusted(trust),
        ).run(dry_run=dry_run, as_json=as_json)  # fmt: skip
