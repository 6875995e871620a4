"""The application: its commands, its version, its help."""

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
from undertow.cli.local import redact, sanitize
from undertow.cli.plan import plan
from undertow.cli.plugins import add_commands
from undertow.cli.release import release
from undertow.cli.robustness import robustness
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
    if wanted:
        typer.echo(f"undertow {__version__}")
        raise typer.Exit


@app.callback()
def undertow(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which version."),
    ] = False,
) -> None:
    """Privacy for data whose records depend on each other.

    \b
    What does an algorithm of DP level 1 reveal about one record?
      undertow leakage --transition '0.882,0.118;0.305,0.695' --epsilon 1
    What is the least noise for a count that may reveal 1?
      undertow plan --transition '0.882,0.118;0.305,0.695' --count 1 --limit 1
    What does each method cost for that guarantee, and whom does it protect?
      undertow compare --transition '0.882,0.118;0.305,0.695' --length 100 --count 1 --limit 1
    Which chain do my records follow?
      undertow fit older.csv.gz --value steps --state 'steps > 0' --public
    Is there anything odd about my table?
      undertow validate activity.csv.gz --value steps --state 'steps > 0' --plan plan.json
    What may be published, and what does it cost?
      undertow release activity.csv.gz --plan plan.json --value steps --state 'steps > 0' \\
        --ledger year.db --dataset w25 --report report.html
    How does each record get its own noise, before anyone sees it?
      undertow plan --model chain.json --series --limit 2 --output flips.json
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.csv
      undertow estimate flipped.csv --plan flips.json --value steps
    What would attackers make of it? (needs the truth)
      undertow attack flipped.csv --plan flips.json --truth activity.csv.gz --value steps \\
        --state 'steps > 0'
    What if the records follow another model than the plan's?
      undertow robustness plan.json
    Can others check what is claimed, without this program?
      undertow verify certificate.json
    Does the code that carries out my plan keep its guarantee?
      undertow audit plan.json
    How is one record hidden, and the rest of the series shown?
      undertow plan --model chain.json --length 300 --redacted --protect 150 --limit 1 \\
        --output erasures.json
      undertow redact activity.csv.gz --plan erasures.json --value steps --state 'steps > 0' \\
        --output shown.csv
    What do the papers say, and is it true?
      undertow reproduce wang2016:lemma4.7 --quick --output reproduction
    What was released so far, and what is left?
      undertow ledger show year.db
    Show me, on a simulated fortnight of activity.
      undertow demo
    I would rather look than read.
      undertow studio --demo

    Exit codes: 0 done; 1 refused, with the reason; 2 wrong usage; 130 interrupted.
    """


app.command(short_help="What an algorithm reveals about one record.")(leakage)
app.command(short_help="The least noise for a guarantee.")(plan)
app.command(short_help="What every method costs, side by side.")(compare)
app.command(short_help="What a plan leaks under other models.")(robustness)
app.command(short_help="Does a certificate prove what it claims?")(verify)
app.command(short_help="A model from a file of records.")(fit)
app.command(short_help="What is odd about a table.")(validate)
app.command(short_help="A private answer, accounted and written.")(release)
app.command(short_help="A series, every record flipped.")(sanitize)
app.command(short_help="A series, records erased.")(redact)
app.command(short_help="What a randomised series says of the true one.")(estimate)
app.command(short_help="What attackers make of a release.")(attack)
app.command(short_help="Does the code keep a plan's guarantee?")(audit)
app.add_typer(ledger_app, short_help="What was released, and what is left.")
app.add_typer(keys_app, name="keys", short_help="Keys that sign plans.")
app.command(short_help="Show me, on simulated activity.")(demo)
add_commands(app)
