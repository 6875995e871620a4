"""``undertow sanitize`` and ``undertow redact``: a table of series, flipped or erased by a plan."""

from undertow.cli.commands import command
from undertow.cli.data_options import ReleasedText
from undertow.cli.local_files import FlippedFiles, RedactedFiles
from undertow.cli.local_options import RecordsText
from undertow.cli.options import ReleaseText

__all__ = ["redact", "sanitize"]


@command
def sanitize(
    reading: ReleasedText, records: RecordsText, places: FlippedFiles, told: ReleaseText
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

    Task("sanitize", reading, records, places, told).run()


@command
def redact(
    reading: ReleasedText, records: RecordsText, places: RedactedFiles, told: ReleaseText
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

    Task("redact", reading, records, places, told).run()
