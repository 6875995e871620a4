"""``undertow estimate``: what the true series probably hold, from a flipped or redacted one."""

import math
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.files import read_plan
from undertow.cli.local import is_local
from undertow.cli.options import (
    ConfidenceOption,
    JsonOption,
    PlanOption,
    RowsText,
    command,
    misuse,
    option,
    read_count,
)
from undertow.cli.output import above, answer, below, show, show_table, waiting
from undertow.errors import NotSupported

if TYPE_CHECKING:
    from undertow.data.table import Shape
    from undertow.plan import Plan
    from undertow.releasing.estimate import Estimate

__all__ = [
    "estimate",
]


_DIGITS = 6


@command
def estimate(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="SANITISED", help="What 'undertow sanitize' or 'undertow redact' wrote."
        ),
    ],
    plan: PlanOption,
    rows: RowsText,
    value: str = option("COLUMN", "The column that holds the outputs.", MISSING),
    count: str | None = option("STATES", "How many records were in these states."),
    histogram: bool = option(None, "How many were in each state (default).", False),
    transitions: bool = option(None, "How often each state followed each other.", False),
    confidence: ConfidenceOption = 0.95,
    as_json: JsonOption = False,
) -> None:
    """What the true series probably hold, with intervals, from a file that was randomised.

    Computed from the published file and the plan alone, so it costs no privacy. Transitions need
    to know which records follow each other: say --person and --time as for 'undertow sanitize'.
    Records that a redaction hides for certain are not in an estimate, which says how many.

    \b
    Examples:
      undertow estimate flipped.csv --plan flips.json --value steps
      undertow estimate flipped.csv --plan flips.json --value steps --transitions --json
    """
    if (count is not None) + histogram + transitions > 1:
        raise misuse("ask for one of --count, --histogram and --transitions")
    options = rows.outputs(value)
    read: Plan[Any] = read_plan(plan)
    if not is_local(read):
        raise NotSupported(
            f"the plan file {plan} answers a question with noise, and its answer is unbiased "
            "as it is; see what 'undertow release' wrote"
        )
    query: Any = None if count is None else read_count(count, read.model)
    with waiting("estimating"):
        from undertow.releasing.estimate import estimate as compute

        table = options.read(data)
        shape = table.shape()
        found = compute(table, read, "transitions" if transitions else query, confidence)
    asked = _asked(count, transitions)
    answer(
        _fields(asked, found, shape),
        lambda: _tell(asked, found, shape, confidence),
        as_json=as_json,
    )


def _asked(count: str | None, transitions: bool) -> str:
    if transitions:
        return "how often each state follows each other"
    return "number of records in each state" if count is None else f"number of records in {count}"


def _fields(asked: str, found: "Estimate", shape: "Shape") -> dict[str, Any]:
    return {
        "question": asked,
        "records": shape.rows,
        "persons": shape.persons,
        "about": found.records,
        "hidden": found.hidden,
        "note": found.note or None,
        "confidence": found.confidence,
        "states": [str(state) for state in found.states],
        "value": _plain(found.value),
        "low": _plain(found.low),
        "high": _plain(found.high),
    }


def _plain(value: Any) -> Any:
    """Return numbers as JSON has them: in order of the states, one for each of them."""
    if isinstance(value, dict):
        return list(value.values())
    return value.tolist() if hasattr(value, "tolist") else value


def _tell(asked: str, found: "Estimate", shape: "Shape", confidence: float) -> None:
    from undertow.reporting import scope

    sure = f"each holds the truth with probability {100 * confidence:g}%, over the randomisation"
    facts = [
        ("question", asked),
        ("records", scope.records(shape.rows, shape.persons)),
        ("about", f"{found.records} {'pairs of neighbours' if _square(found) else 'records'}"),
    ]
    if found.note:
        facts.append(("NOT in it", found.note))
    if not isinstance(found.value, dict) and not _square(found):
        facts += [("estimate", _number(found.value)), ("interval", _ends(found.low, found.high))]
    show("What the true series hold", [*facts, ("intervals", sure)])
    if isinstance(found.value, dict):
        rows = [
            [str(state), _number(found.value[state]), _ends(found.low[state], found.high[state])]
            for state in found.states
        ]
        show_table("Records in each state", ["state", "estimate", "interval"], rows)
    elif _square(found):
        _tell_transitions(found)


def _tell_transitions(found: "Estimate") -> None:
    places = range(len(found.states))
    rows = [
        [
            f"from {state}",
            *(
                f"{_number(found.value[a][b], 4)} ({_ends(found.low[a][b], found.high[a][b], 4)})"
                for b in places
            ),
        ]
        for a, state in zip(places, found.states, strict=True)
    ]
    show_table("Share of the next states", ["", *(f"to {state}" for state in found.states)], rows)


def _square(found: "Estimate") -> bool:
    return getattr(found.value, "ndim", 0) == 2


def _number(value: float, digits: int = _DIGITS) -> str:
    if math.isnan(value):
        return "not known"
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def _ends(low: float, high: float, digits: int = _DIGITS) -> str:
    return f"{below(float(low), digits)} to {above(float(high), digits)}"
