"""What people and programs read: tables, strict JSON, refusals, numbers rounded the safe way."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from undertow import errors
from undertow.cli.tables import show_table
from undertow.cli.waiting import INTERRUPTED, counting, ticking, waiting
from undertow.cli.wording import in_cli_words
from undertow.reporting.files import strict_json
from undertow.rounding import above, below, odds, stated, visible

if TYPE_CHECKING:
    from undertow.accounting import Foretold
    from undertow.adversaries import Against
    from undertow.certificate import Leakage
    from undertow.ledger.amounts import Spend
    from undertow.ledger.rooms import Room

__all__ = [
    "INTERRUPTED",
    "UNACCOUNTED",
    "above",
    "adversary_fields",
    "answer",
    "below",
    "counting",
    "interval",
    "leakage_fields",
    "level_words",
    "meaning",
    "odds",
    "refusals",
    "room_words",
    "say",
    "show",
    "spend_rows",
    "spent_words",
    "stated",
    "strict_json",
    "ticking",
    "waiting",
]

UNACCOUNTED = (
    "not accounted in a ledger: every run draws anew and reveals more; "
    "name one with --ledger and --dataset"
)
"""What is said of a release without a ledger."""


def interval(leak: "Leakage") -> str:
    """Return both ends of a leakage, rounded outwards."""
    at = f" at delta {stated(leak.delta)}" if leak.delta else ""
    if math.isinf(leak.lower):
        return "unbounded"
    if math.isinf(leak.upper):
        return f"at least {below(leak.lower)}{at}; nothing finite is proved"
    if leak.delta and not leak.lower:
        return f"at most {above(leak.upper)}{at}"
    if leak.lower == leak.upper and below(leak.lower) == above(leak.upper):
        return above(leak.upper) + at
    return f"between {below(leak.lower)} and {above(leak.upper)}{at}"


def meaning(leak: "Leakage") -> str:
    """Return what a leakage lets the adversary do, in words."""
    if math.isinf(leak.lower):
        return "some answers rule a value of a record out, or come as near to that as one likes"
    if math.isinf(leak.upper):
        return "no limit is proved on how far an answer can move the odds between two values"
    window = leak.secrets.window
    what = "values of a record" if window == 1 else f"histories of {window} records in a row"
    if leak.delta:
        return (
            f"an answer moves the odds between two {what} by more than a factor "
            f"{odds(leak.upper + math.log(2))} with probability at most {stated(2 * leak.delta)}"
        )
    return f"an answer moves the odds between two {what} by at most a factor {odds(leak.upper)}"


def adversary_fields(against: "Against") -> str | dict[str, Any]:
    """Return an adversary as JSON has it: by name, or by target and known records."""
    if isinstance(against, str):
        return against
    return {"target": against.target, "known": list(against.known)}


def leakage_fields(leak: "Leakage") -> dict[str, Any]:
    """Return a leakage as the fields of a JSON object."""
    return {
        "lower": leak.lower,
        "upper": leak.upper,
        "method": leak.method,
        "against": adversary_fields(leak.against),
        "witness": None if leak.witness is None else leak.witness.to_dict(),
        "assumptions": list(leak.assumptions),
        "citation": leak.citation,
        "covers": leak.covers,
        **({"protect_window": leak.secrets.window} if leak.secrets.window > 1 else {}),
    } | ({"delta": leak.delta, "curve": [list(pair) for pair in leak.curve]} if leak.delta else {})


def level_words(level: float, budget: float = 1.0) -> str:
    """Return what is left of a budget, in words.

    >>> level_words(0.25), level_words(2e-16)
    ('a DP level of 0.25', 'nothing')
    """
    from undertow.ledger.rooms import nothing

    return "nothing" if nothing(level, budget) else f"a DP level of {below(level)}"


def room_words(room: "Room", budget: float = 1.0) -> str:
    """Return what is left to some records, in words: a level, with a delta also Gaussian noise.

    >>> from undertow.ledger.rooms import Room, Terms
    >>> room_words(Room(Terms({}, 1.0, 0.25, "any", "record", 1e-6, 1e-7)))
    'a DP level of 0.25, or Gaussian noise of sigma 17.34333 per unit'
    """
    level, sigma = level_words(room.left(), budget), room.least_sigma()
    if sigma is None:
        return level
    noise = f"Gaussian noise of sigma {above(sigma)} per unit"
    return noise if level == "nothing" else f"{level}, or {noise}"


def spent_words(spend: "Spend") -> str:
    """Return what a release spends for the column of a table: a level by its number alone."""
    from undertow.ledger.amounts import round_up
    from undertow.ledger.rooms import spend_words

    return above(round_up(spend.level)) if spend.pure else spend_words(spend)


def spend_rows(asked: "Foretold", recorded: str) -> list[tuple[str, str]]:
    """Return what a ledger would do with a release; ``recorded`` are the words for an old one."""
    spends = "the whole account: a redaction stands in a ledger alone"
    if asked.recorded:
        spends = recorded
    elif asked.found is not None:
        spends = "nothing more: it was reserved by a run that did not end"
    elif asked.entry.spend is not None:
        spend = asked.entry.spend
        spends = f"a DP level of {above(asked.spends)}" if spend.pure else spent_words(spend)
    rows = [("release", asked.entry.release_id), ("spends", spends)]
    if asked.room is None or asked.after is None:
        return rows
    now, then = room_words(asked.room), room_words(asked.after)
    return [*rows, ("left", f"{now} for these records, then {then}")]


def answer(fields: Mapping[str, Any], tell: Callable[[], object], *, as_json: bool) -> None:
    """Print an answer: for programs one JSON object, for people what ``tell`` prints."""
    if as_json:
        typer.echo(strict_json(fields))
    else:
        tell()


def show(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print labelled rows: a table on a terminal, plain unwrapped lines elsewhere."""
    show_table(title, None, rows)


@contextmanager
def refusals(as_json: bool) -> Iterator[None]:
    """Turn a refusal into one line on stderr, with ``--json`` also an object, and exit code 1.

    So too an interrupt, with exit code 130: what is written is written whole or not at all.
    Warnings of the library become lines on stderr, too. Both speak of options, not of arguments.
    """
    try:
        with _told_warnings():
            yield
    except (errors.UndertowError, MemoryError) as error:
        message = in_cli_words(" ".join(str(error).split()))
        if isinstance(error, MemoryError):
            message = (
                "the answer needs more memory than there is; merge states, or ask about fewer "
                "records"
            )
        say(message)
        if as_json:
            typer.echo(strict_json({"error": type(error).__name__, "message": message}))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say("interrupted; the same command begins again")
        if as_json:
            typer.echo(strict_json({"error": "Interrupted", "message": "interrupted"}))
        raise typer.Exit(INTERRUPTED) from None


def say(message: str) -> None:
    """Print one line on stderr, in which nothing is a command to the terminal."""
    typer.echo(visible(f"undertow: {message}"), err=True)


@contextmanager
def _told_warnings() -> Iterator[None]:
    """Print the library's warnings as lines of their own; those of others stay as they are."""
    named = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in named if issubclass(kind, Warning)]
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show_warning(
            message: Warning | str, category: type[Warning], *place: Any, **more: Any
        ) -> None:
            if category in kinds:
                say(f"warning: {in_cli_words(' '.join(str(message).split()))}")
            else:
                shown(message, category, *place, **more)

        for kind in kinds:
            warnings.simplefilter("always", kind)
        warnings.showwarning = show_warning
        yield
