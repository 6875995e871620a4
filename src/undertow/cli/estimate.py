"""``undertow estimate``: unbiased counts and transitions from a flipped or redacted series."""

import math
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.files import read_plan
from undertow.cli.options import (
    ConfidenceOption,
    JsonOption,
    PlanFileOption,
    RowsOptions,
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

__all__ = ["estimate"]


_DIGITS = 6


@command
def estimate(
    data: Annotated[
        Path, typer.Argument(metavar="SANITISED", help="Table written by 'undertow sanitize'.")
    ],
    plan: PlanFileOption,
    rows: RowsOptions,
    value: str = option("COLUMN", "Column of outputs.", MISSING, group="Records"),
    count: str | None = option("STATES", "Number of records in these states.", group="Question"),
    histogram: bool = option(
        None, "Number of records in each state (default).", False, group="Question"
    ),
    transitions: bool = option(None, "Frequency of each transition.", False, group="Question"),
    confidence: ConfidenceOption = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Estimate counts or transitions of the true series, with intervals, from a randomised file.

    The estimate uses the published file and the plan alone, so it costs no privacy. Transitions
    need the order of records: give --person and --time as for 'undertow sanitize'. Records that a
    redaction always erases are not estimated, and their number is printed.

    \b
    Examples:
      undertow estimate flipped.csv --plan flips.json --value steps
      undertow estimate flipped.csv --plan flips.json --value steps --transitions --json
    """
    if (count is not None) + histogram + transitions > 1:
        raise misuse("give one of --count, --histogram and --transitions")
    options = rows.outputs(value)
    read: Plan[Any] = read_plan(plan)
    if read.task == "answer":
        raise NotSupported(
            f"the plan file {plan} answers a question with noise, and that answer is unbiased; use "
            "the file that 'undertow release' wrote"
        )
    query: Any = None if count is None else read_count(count, read.model)
    with waiting("estimating"):
        from undertow.releasing.estimate import estimate as compute

        table = options.read(data)
        shape = table.shape()
        result = compute(table, read, "transitions" if transitions else query, confidence)
    question = "number of records in each state"
    if transitions:
        question = "how often each state follows each other"
    elif count is not None:
        question = f"number of records in {count}"
    answer(
        _fields(question, result, shape),
        lambda: _show(question, result, shape, confidence),
        as_json=as_json,
    )


def _fields(question: str, result: "Estimate", shape: "Shape") -> dict[str, Any]:
    return {
        "question": question,
        "records": shape.rows,
        "persons": shape.persons,
        "about": result.records,
        "hidden": result.hidden,
        "note": result.note or None,
        "confidence": result.confidence,
        "states": [str(state) for state in result.states],
        "value": _plain(result.value),
        "low": _plain(result.low),
        "high": _plain(result.high),
    }


def _plain(value: Any) -> Any:
    """Return numbers as JSON has them: in order of the states, one for each of them."""
    import numpy as np

    if isinstance(value, dict):
        return list(value.values())
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _show(question: str, result: "Estimate", shape: "Shape", confidence: float) -> None:
    from undertow.reporting import scope

    sure = f"each holds the truth with probability {100 * confidence:g}%, over the randomisation"
    facts = [
        ("question", question),
        ("records", scope.records(shape.rows, shape.persons)),
        ("about", f"{result.records} {'pairs of neighbours' if _square(result) else 'records'}"),
    ]
    if result.note:
        facts.append(("NOT in it", result.note))
    if not isinstance(result.value, dict) and not _square(result):
        facts += [("estimate", _number(result.value)), ("interval", _ends(result.low, result.high))]
    show("Estimates of the true series", [*facts, ("intervals", sure)])
    if isinstance(result.value, dict):
        rows = [
            [str(state), _number(result.value[state]), _ends(result.low[state], result.high[state])]
            for state in result.states
        ]
        show_table("Records in each state", ["state", "estimate", "interval"], rows)
    elif _square(result):
        _show_transitions(result)


def _show_transitions(result: "Estimate") -> None:
    value, low, high = result.value, result.low, result.high
    places = range(len(result.states))
    rows = [
        [
            f"from {state}",
            *(f"{_number(value[a][b], 4)} ({_ends(low[a][b], high[a][b], 4)})" for b in places),
        ]
        for a, state in zip(places, result.states, strict=True)
    ]
    show_table("Share of the next states", ["", *(f"to {state}" for state in result.states)], rows)


def _square(result: "Estimate") -> bool:
    return getattr(result.value, "ndim", 0) == 2


def _number(value: float, digits: int = _DIGITS) -> str:
    if math.isnan(value):
        return "not known"
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def _ends(low: float, high: float, digits: int = _DIGITS) -> str:
    return f"{below(float(low), digits)} to {above(float(high), digits)}"
