"""``undertow sanitize``: a table of series, every record flipped as a plan says."""

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

__all__ = ["sanitize"]


def sanitize(
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
            help="Write the flipped series there (.csv, .csv.gz or .parquet).",
        ),
    ] = None,
    report: ReportOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """The series of a table, every record flipped at random as a plan says.

    The file has the columns of persons, times and groups as they were, and the outputs. Without
    --output nothing is drawn: you see what would be promised. The flips of a file that is
    published are part of the release: a second run is a second release. A run that was cut off is
    completed by the same command, with --ledger from what was drawn and paid for.

    \b
    Examples:
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.csv
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.parquet --dry-run
    """
    with refusals(as_json):
        from undertow.cli.files import read_trusted
        from undertow.cli.local_account import Account
        from undertow.cli.local_files import Places
        from undertow.cli.local_release import Task

        Task(
            "sanitize", data, plan,
            DataText(value, person, time, state, every, by, groups, "split", window),
            foreign,
            strict,
            Account(ledger, dataset, release_id, key),
            Places(output, None, report, force),
            source,
            read_trusted(trust),
        ).run(dry_run=dry_run, as_json=as_json)  # fmt: skip
