"""``undertow ledger``: the account of what was released, and what is left of it."""

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.options import (
    AgainstOption,
    FrequencyOption,
    JsonOption,
    LengthOption,
    ModelOption,
    ModelText,
    StartOption,
    StatesOption,
    TransitionOption,
)
from undertow.cli.output import above, below, interval, odds, refusals, show, strict_json, waiting
from undertow.cli.tables import show_table

if TYPE_CHECKING:
    from undertow.certificate import Leakage
    from undertow.ledger.book import Ledger
    from undertow.ledger.rules import Entry
    from undertow.ledger.scopes import Scope

__all__ = ["ledger_app", "level_words", "open_ledger"]

_NOTHING = 1e-9
"""A DP level below which no release worth its name fits: what rounding leaves over."""

ledger_app = typer.Typer(
    name="ledger", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)

LedgerArgument = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A file, or a postgresql:// address.")
]
DatasetOption = Annotated[
    str, typer.Option("--dataset", metavar="NAME", help="The data set in the ledger.")
]
OnlyDatasetOption = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME", help="The data set, if there is more than one."),
]


class Unit(StrEnum):
    """What an account protects."""

    record = "record"
    person = "person"


@ledger_app.callback()
def ledger() -> None:
    """The account of what was released from a data set, and what is left.

    \b
    Examples:
      undertow ledger create year.db --dataset w25 --model chain.json --limit 1
      undertow ledger show year.db
      undertow ledger limit year.db --dataset w25 2
      undertow ledger verify year.db
    """


@ledger_app.command(short_help="Start the account of a data set.")
def create(
    where: LedgerArgument,
    dataset: DatasetOption,
    limit: Annotated[
        float,
        typer.Option("--limit", metavar="E", help="What all releases together may leak at most."),
    ],
    model: ModelOption = None,
    transition: TransitionOption = None,
    states: StatesOption = None,
    start: StartOption = None,
    length: LengthOption = None,
    frequency: FrequencyOption = None,
    against: AgainstOption = None,
    unit: Annotated[
        Unit | None,
        typer.Option("--unit", help="What is protected: one record (default), or a whole person."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start the account of a data set: its model, its limit, whom and what it protects.

    \b
    Example:
      undertow ledger create year.db --dataset w25 --model chain.json --limit 1
    """
    with refusals(as_json):
        described = ModelText(model, transition, states, start, length, frequency).read()
        with waiting("computing the budget"):
            from undertow.ledger.book import Ledger

            _refuse_second(where, dataset)
            book = Ledger(
                where,
                dataset,
                described,
                limit,
                against="any" if against is None else against.value,
                unit="record" if unit is None else unit.value,
            )
        fields = _terms(book)
        if as_json:
            typer.echo(strict_json(fields))
        else:
            show("The account", _term_rows(book))


@ledger_app.command("show", short_help="What was released, and what is left.")
def show_ledger(
    where: LedgerArgument, dataset: OnlyDatasetOption = None, as_json: JsonOption = False
) -> None:
    """What was released from a data set, what it leaks together, and what is left.

    \b
    Example:
      undertow ledger show year.db --dataset w25
    """
    with refusals(as_json):
        with waiting("reading the ledger"):
            book = open_ledger(where, dataset)
            entries, level, left, leak = book.entries(), book.level(), book.left(), book.leakage()
        if as_json:
            found = {"level": level, "left": left, "leakage": [leak.lower, leak.upper]}
            listed = {"entries": [_entry(entry) for entry in entries]}
            typer.echo(strict_json(_terms(book) | found | listed))
        else:
            show("The account", [*_term_rows(book), *_state_rows(level, left, leak)])
            if entries:
                show_table("Entries", _HEADER, [_cells(entry) for entry in entries])


@ledger_app.command(short_help="Change the limit of a data set.")
def limit(
    where: LedgerArgument,
    limit: Annotated[
        float, typer.Argument(metavar="E", help="What all releases together may leak at most.")
    ],
    dataset: DatasetOption,
    as_json: JsonOption = False,
) -> None:
    """Change what all releases from a data set together may leak; the change is recorded.

    \b
    Example:
      undertow ledger limit year.db --dataset w25 2
    """
    with refusals(as_json):
        with waiting("computing the budget"):
            book = open_ledger(where, dataset)
            book.set_limit(limit)
        if as_json:
            typer.echo(strict_json(_terms(book)))
        else:
            show("The account", _term_rows(book))


@ledger_app.command(short_help="Whether the ledger is as it was written.")
def verify(
    where: LedgerArgument,
    holding: Annotated[
        list[str] | None,
        typer.Option("--entry", metavar="HASH", help="An entry of a report that must be in it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the chain of hashes, every rule at every step, and every total; all data sets.

    \b
    Example:
      undertow ledger verify year.db
    """
    with refusals(as_json):
        with waiting("verifying the ledger"):
            from undertow.errors import LedgerDamaged
            from undertow.ledger.book import Ledger, datasets

            found = datasets(where)
            if not found:
                raise LedgerDamaged("the ledger holds no data set; go back to a copy that does")
            events = Ledger(where, found[0], create=False).verify(*(holding or ()))
        if as_json:
            typer.echo(strict_json({"verified": True, "events": events, "datasets": found}))
        else:
            show(
                "The ledger is as it was written",
                [
                    ("events", f"{events}, each chained to the one before by its hash"),
                    ("data sets", ", ".join(found)),
                    ("checked", "the chain, every rule at every step, and every total"),
                ],
            )


def open_ledger(where: str, dataset: str | None) -> "Ledger":
    """Return an account that exists; without a name the only one there is."""
    from undertow.errors import InvalidInput
    from undertow.ledger.book import Ledger, datasets

    if dataset is None:
        found = datasets(where)
        if len(found) != 1:
            shown = ", ".join(found[:12]) or "none"
            raise InvalidInput(
                f"name the data set with --dataset: the ledger holds {len(found)}, {shown}"
            )
        dataset = found[0]
    return Ledger(where, dataset, create=False)


def level_words(level: float) -> str:
    """Return what is left, in words.

    >>> level_words(0.25), level_words(2e-16)
    ('a DP level of 0.25', 'nothing')
    """
    return f"a DP level of {below(level)}" if level >= _NOTHING else "nothing"


def _refuse_second(where: str, dataset: str) -> None:
    from undertow.errors import LedgerConflict, LedgerUnavailable
    from undertow.ledger.book import datasets

    try:
        found = datasets(where)
    except LedgerUnavailable:  # there is none, or it will be said when it is opened
        return
    if dataset in found:
        raise LedgerConflict(
            f"the ledger already has the data set {dataset!r}; see it with 'undertow ledger show', "
            "change its limit with 'undertow ledger limit'"
        )


def _terms(book: "Ledger") -> dict[str, Any]:
    return {
        "dataset": book.dataset,
        "model": book.model.describe(),
        "against": book.against,
        "unit": book.unit,
        "limit": book.limit,
        "budget": book.budget,
    }


def _term_rows(book: "Ledger") -> list[tuple[str, str]]:
    from undertow.adversaries import words

    return [
        ("data set", book.dataset),
        ("model", book.model.describe()),
        ("attacker", words(book.against)),
        ("protects", "one record" if book.unit == "record" else "all records of one person"),
        ("limit", f"a leakage of {below(book.limit)}: a factor {odds(book.limit)} in the odds"),
        ("budget", f"a DP level of {above(book.budget)} for every record"),
    ]


def _state_rows(level: float, left: float, leak: "Leakage") -> list[tuple[str, str]]:
    return [
        ("spent", f"a DP level of {above(level)} on the most used records"),
        ("leakage", f"{interval(leak)}, of all releases together"),
        ("left", f"{level_words(left)} for a release that touches every record"),
    ]


_MICROSECONDS = "microseconds of "
"""How the clock of a column of times begins."""

_HEADER = ("release", "level", "records", "status", "reserved (UTC)", "entry")


def _cells(entry: "Entry") -> list[str]:
    level = "redaction" if entry.level is None else above(entry.level)
    shown = entry.release_id if len(entry.release_id) <= 20 else f"{entry.release_id[:12]}…"
    when = entry.at[:16].replace("T", " ")
    return [shown, level, _where(entry.scope), entry.status, when, entry.hash[:8]]


def _where(scope: "Scope") -> str:
    """Return the records of an entry in words, times as times."""
    from undertow.data.columns import iso

    if not scope.clock.startswith(_MICROSECONDS):
        return scope.words()
    groups = replace(scope, start=None, end=None).words().removesuffix(", all times")
    ends = (("from", scope.start), ("before", scope.end))
    words = [f"{word} {iso(end, day=False)}" for word, end in ends if end is not None]
    return ", ".join([groups, " ".join(words) or "all times"])


def _entry(entry: "Entry") -> dict[str, Any]:
    return {
        "release_id": entry.release_id,
        **entry.body(),
        "status": entry.status,
        "at": entry.at,
        "hash": entry.hash,
    }
