"""``undertow validate``: check a table for problems before a release."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.cli.options import DataArgument, DataOptions, JsonOption, command, option
from undertow.cli.output import answer, show, show_table, waiting
from undertow.errors import InvalidInput

if TYPE_CHECKING:
    from undertow.data.problems import Problem
    from undertow.data.table import Shape
    from undertow.plan import Plan
    from undertow.queries import AnyQuery

__all__ = ["validate"]


@command
def validate(
    data: DataArgument,
    reading: DataOptions,
    plan: Path | None = option(
        "FILE", "Plan whose states or range the table must fit.", group="Question"
    ),
    as_json: JsonOption = False,
) -> None:
    """Check a table for problems: missing and foreign values by column and row, similar states.

    The result is for the curator only: it depends on the records. No value is printed.

    \b
    Example:
      undertow validate activity.csv.gz --value steps --state 'steps > 0' --plan plan.json
    """
    with waiting("reading the data"):
        query: AnyQuery | None = None
        read: Plan[Any] | None = None
        if plan is not None:
            from undertow.cli.files import read_plan
            from undertow.queries import Histogram

            read = read_plan(plan)
            query = Histogram() if read.task != "answer" else read.noise.query
        table = reading.read_for(data, read)
        states, model = ((), None) if read is None else (read.states, read.model)
        problems = table.problems(query, states, model)
        shape: Shape | None = None
        with suppress(InvalidInput):  # rows that do not fit together are among the problems
            shape = table.shape()
    names = ("rows", "persons", "longest", "gaps", "start", "end")
    fields = {name: None if shape is None else getattr(shape, name) for name in names}
    listed = [{"column": p.column, "row": p.row, "what": p.what} for p in problems]
    answer(fields | {"problems": listed}, lambda: _show(shape, problems), as_json=as_json)
    if problems:
        raise typer.Exit(1)


def _show(shape: "Shape | None", problems: "list[Problem]") -> None:
    facts = [("records", "cannot be counted: rows do not fit together")]
    if shape is not None:
        facts = [
            ("records", f"{shape.rows}, at most {shape.longest} of a person"),
            ("persons", f"{shape.persons}"),
            ("gaps", "there are absent steps" if shape.gaps else "none"),
        ]
        if shape.start is not None:
            facts.append(("times", f"{shape.start} to {shape.end}"))
    summary = "see below; for the curator only" if problems else "none"
    show("The table", [*facts, ("problems", summary)])
    if problems:
        cells = [
            (p.column or "-", "more" if p.row is None else f"{p.row}", p.what) for p in problems
        ]
        show_table("Problems, rows counted from 0", ("column", "row", "what"), cells)
