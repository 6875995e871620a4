"""``undertow compare``: what every method costs, side by side, and whom it protects."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from undertow.cli.commands import command, option
from undertow.cli.files import check_figure, write_bytes
from undertow.cli.options import (
    AgainstText,
    ForceOption,
    JsonOption,
    LimitText,
    ModelText,
    QueryText,
    figure_kind,
    misuse,
)
from undertow.cli.output import above, show, strict_json, ticking, waiting
from undertow.cli.tables import show_table
from undertow.cli.wording import in_cli_words

if TYPE_CHECKING:
    from undertow.adversaries import Against
    from undertow.certificate import Leakage
    from undertow.models.sets import AnyModel
    from undertow.planning.comparison import Comparison, Row
    from undertow.queries import AnyQuery

__all__ = ["compare"]

_POINTS = 25
_LOWEST, _HIGHEST = 0.1, 20.0
"""The figure's limits, as multiples of the one asked for."""

_MADE, _NOT_MADE = "These keep the guarantee", "These DO NOT keep the guarantee"
_OUT = "These do not apply"
_HEADER = ("method", "scale", "error", "95% within", "leaks", "protects from", "basis", "time")


@command
def compare(
    most: LimitText,
    model: ModelText,
    query: QueryText,
    who: AgainstText,
    figure: Path | None = option("FILE", "Draw error against the limit (.png or .svg)."),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """What every method costs for a guarantee, whom it protects, and what it really leaks.

    Certified methods are proved here. Published ones are bounds as printed in papers: shown to
    compare with, never chosen by 'undertow plan'.

    \b
    Examples:
      undertow compare --transition '0.882,0.118;0.305,0.695' --length 100 --count 1 --limit 1
      undertow compare --model chain.json --histogram --limit 1 --against ignorant --json
    """
    if query.asked != 1:
        raise misuse("ask for one of --count, --histogram, --sum and --mean")
    check_figure(figure, force=force)
    limit, against, described = most.read(), who.read(), model.read()
    asked = query.read(described)
    with waiting("comparing the methods"):
        from undertow.planning import comparison

        table = comparison.compare(asked, described, limit, against)
    if figure is not None:
        write_bytes(figure, _draw(asked, described, limit, against, figure), force=force)
    if as_json:
        drawn = {} if figure is None else {"figure": str(figure)}
        typer.echo(strict_json(table.to_dict() | drawn))
    else:
        _tell(table, figure)


def _tell(table: "Comparison", figure: Path | None) -> None:
    from undertow.adversaries import words

    best = table.best
    facts = [
        ("question", table.query.words()),
        ("model", table.model.describe()),
        ("guarantee", f"a leakage of at most {table.limit:g} to {words(table.against)}"),
        ("least error", "no certified method gives it" if best is None else best.method),
    ]
    written = [] if figure is None else [("figure", str(figure))]
    show("What each method costs", [*facts, *written])
    for kept, title in ((True, _MADE), (False, _NOT_MADE)):
        rows = [_cells(row) for row in table if row.plan and row.meets is kept]
        if rows:
            show_table(title, _HEADER, rows)
    reasons = [
        (row.method, in_cli_words(" ".join(str(row.reason).split())))
        for row in table
        if row.plan is None
    ]
    if reasons:
        show_table(_OUT, ("method", "why"), reasons)


def _cells(row: "Row") -> list[str]:
    return [
        row.method,
        _number(row.scale),
        _number(row.expected_error),
        _number(row.error_bar),
        _leaks(row.leakage),
        _protects(row.protects),
        "certified" if row.certified else "published",
        f"{row.seconds:.2g} s" if row.seconds >= 1 else f"{1000 * row.seconds:.0f} ms",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else above(value, max(5, len(f"{value:.0f}")))


def _leaks(leak: "Leakage | None") -> str:
    """Return what is certainly the most that leaks."""
    if leak is None or (math.isinf(leak.upper) and math.isfinite(leak.lower)):
        return "not known"
    return "unbounded" if math.isinf(leak.upper) else above(leak.upper, 4)


def _protects(against: "Against") -> str:
    if against == "any":
        return "any attacker"
    return f"{against} only" if isinstance(against, str) else "this attacker only"


def _draw(query: "AnyQuery", model: "AnyModel", limit: float, who: "Against", path: Path) -> bytes:
    """Return the file of the figure: error against the limit, for every method."""
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.costs import draw_errors
    from undertow.planning.comparison import error_curves

    ratio = _HIGHEST / _LOWEST
    grid = [limit * _LOWEST * ratio ** (step / (_POINTS - 1)) for step in range(_POINTS)]
    with ticking("drawing", len(grid)) as tick:
        curves = error_curves(query, model, grid, who, tick=tick)
    whom = f"the {who}" if who in ("ignorant", "informed") else "any" if who == "any" else "one"
    title = f"{query.words()}, protected from {whom} attacker"
    drawn = draw_errors(curves, title[:1].upper() + title[1:], limit)
    return figure_bytes(drawn, figure_kind(path))
