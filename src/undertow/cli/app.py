"""The application: its commands, its version and its help."""

from typing import Annotated

import typer

from undertow._version import __version__
from undertow.cli.attack import attack
from undertow.cli.audit import audit
from undertow.cli.compare import compare
from undertow.cli.demo import demo
from undertow.cli.estimate import estimate
from undertow.cli.fit import fit
from undertow.cli.keys import keys_app
from undertow.cli.leakage import leakage
from undertow.cli.ledger import ledger_app
from undertow.cli.options import GroupedCommand
from undertow.cli.plan import plan
from undertow.cli.plugins import add_commands
from undertow.cli.release import release
from undertow.cli.robustness import robustness
from undertow.cli.sanitize import sanitize
from undertow.cli.validate import validate
from undertow.cli.verify import verify

__all__ = ["app"]

app = typer.Typer(
    name="undertow",
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(f"undertow {__version__}")
        raise typer.Exit


@app.callback()
def undertow(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Privacy for data whose records depend on each other: certified leakage.

    \b
    Examples:
      undertow fit older.csv.gz --value steps --state 'steps > 0' --public
      undertow leakage --transition '0.882,0.118;0.305,0.695' --epsilon 1
      undertow plan --transition '0.882,0.118;0.305,0.695' --count 1 --limit 1
      undertow compare --transition '0.882,0.118;0.305,0.695' --length 100 --count 1 --limit 1
      undertow validate activity.csv.gz --value steps --state 'steps > 0' --plan plan.json
      undertow release activity.csv.gz --plan plan.json --value steps --state 'steps > 0' \\
        --ledger year.db --dataset w25 --report report.html
      undertow plan --model chain.json --series --limit 2 --output flips.json
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.csv
      undertow estimate flipped.csv --plan flips.json --value steps
      undertow attack flipped.csv --plan flips.json --truth activity.csv.gz --value steps \\
        --state 'steps > 0'
      undertow audit plan.json
      undertow robustness plan.json
      undertow verify certificate.json
      undertow keys new curator
      undertow ledger show year.db
      undertow reproduce wang2016:lemma4.7 --quick --output reproduction
      undertow demo
      undertow studio --demo

    Exit codes: 0 done; 1 refused, with the reason; 2 wrong usage; 130 interrupted.
    """


_COMMANDS = (
    (fit, "Fit a model to records."),
    (leakage, "Bound the leakage of an algorithm."),
    (plan, "Calibrate the least noise for a leakage limit."),
    (compare, "Compare the methods for a leakage limit."),
    (validate, "Check a table for problems."),
    (release, "Release a private answer from a table."),
    (sanitize, "Randomise the series of a table."),
    (estimate, "Estimate counts from a randomised series."),
    (attack, "Attack a release, given the truth."),
    (audit, "Audit the code that carries out a plan."),
    (verify, "Verify a certificate."),
    (robustness, "Bound the leakage of a plan under other models."),
)

for _function, _summary in _COMMANDS:
    app.command(cls=GroupedCommand, short_help=_summary)(_function)
app.add_typer(ledger_app, short_help="Manage the account of a data set.")
app.add_typer(keys_app, name="keys", short_help="Manage keys that sign plans.")
app.command(cls=GroupedCommand, short_help="Run a worked example.")(demo)
add_commands(app)
