"""``undertow sanitize`` and ``undertow redact``: a table of series, flipped or erased by a plan."""

from undertow.cli.commands import command
from undertow.cli.data_options import DataArgument, TableText
from undertow.cli.local_files import FlippedFiles, RedactedFiles
from undertow.cli.local_options import RecordsText
from undertow.cli.options import AccountText, DryRunOption, JsonOption, PlanText, SourceOption

__all__ = ["redact", "sanitize"]


@command
def sanitize(
    data: DataArgument,
    plan: PlanText,
    reading: TableText,
    records: RecordsText,
    account: AccountText,
    places: FlippedFiles,
    source: SourceOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """The series of a table, every record flipped at random as a plan says.

    The file has the columns of persons, times and groups as they were, and the outputs. Without
    --output nothing is drawn: you see what would be guaranteed. The flips of a file that is
    published are part of the release: a second run is a second release. A run that was cut off is
    completed by the same command, with --ledger from what was drawn and paid for.

    \b
    Examples:
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.csv
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.parquet --dry-run
    """
    from undertow.cli.local_release import Task

    task = Task("sanitize", data, plan, reading, records, account, places, source)
    task.run(dry_run=dry_run, as_json=as_json)


@command
def redact(
    data: DataArgument,
    plan: PlanText,
    reading: TableText,
    records: RecordsText,
    account: AccountText,
    places: RedactedFiles,
    source: SourceOption = None,
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
    from undertow.cli.local_release import Task

    task = Task("redact", data, plan, reading, records, account, places, source)
    task.run(dry_run=dry_run, as_json=as_json)
