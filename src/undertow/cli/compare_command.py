"""``undertow compare``: what every method costs, side by side, and whom it protects."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from undertow.cli.options import (
    AgainstOption,
    CountOption,
    FrequencyOption,
    HistogramOption,
    JsonOption,
    KnownOption,
    LengthOption,
    MeanOption,
    ModelOption,
    ModelText,
    QueryText,
    StartOption,
    StatesOption,
    SumOption,
    TargetOption,
    TransitionOption,
    misuse,
    read_against,
)
from undertow.cli.output import above, query_words, refusals, show, strict_json, waiting
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
"""The figure's epsilons, as multiples of the one asked for."""

_MADE, _NOT_MADE = "These make the promise", "These DO NOT make the promise"
_OUT = "These do not apply"
_HEADER = ("method", "scale", "error", "95% within", "leaks", "protects from", "basis", "time")


def compare(
    epsilon: Annotated[
        float,
        typer.Option("--epsilon", metavar="E", help="The leakage that is allowed at most."),
    ],
    model: ModelOption = None,
    transition: TransitionOption = None,
    states: StatesOption = None,
    start: StartOption = None,
    length: LengthOption = None,
    frequency: FrequencyOption = None,
    count: CountOption = None,
    histogram: HistogramOption = False,
    sum_: SumOption = None,
    mean: MeanOption = None,
    against: AgainstOption = None,
    target: TargetOption = None,
    known: KnownOption = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", metavar="FILE", help="Draw error against epsilon (.png or .svg)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What every method costs for a promise, whom it protects, and what it really leaks.

    Certified methods are proved here. Published ones are bounds as printed in papers: shown to
    compare with, never chosen by 'undertow plan'.

    \b
    Examples:
      undertow compare --transition '0.882,0.118;0.305,0.695' --length 100 --count 1 --epsilon 1
      undertow compare --model chain.json --histogram --epsilon 1 --against ignorant --json
    """
    with refusals(as_json):
        asked = QueryText(count, histogram, sum_, mean)
        if force and figure is None:
            raise misuse("--force goes with --figure")
        kind = None if figure is None else _kind(figure)
        who = read_against(against, target, known)
        described = ModelText(model, transition, states, start, length, frequency).read()
        query = asked.read(described)
        if figure is not None:
            from undertow.cli.files import check_output
            from undertow.figures.canvas import check_drawing

            check_drawing()
            check_output(figure, force=force)
        with waiting("comparing the methods"):
            from undertow.planning import comparison

            table = comparison.compare(query, described, epsilon, who)
        if figure is not None and kind is not None:
            from undertow.cli.files import write_bytes

            write_bytes(figure, _draw(query, described, epsilon, who, kind), force=force)
        if as_json:
            drawn = {} if figure is None else {"figure": str(figure)}
            typer.echo(strict_json(table.to_dict() | drawn))
        else:
            _tell(table, figure)


def _tell(table: "Comparison", figure: Path | None) -> None:
    from undertow.adversaries import words

    best = table.best
    facts = [
        ("question", query_words(table.query)),
        ("model", table.model.describe()),
        ("promise", f"a leakage of at most {table.limit:g} to {words(table.against)}"),
        ("least error", "no certified method keeps this promise" if best is None else best.method),
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


def _kind(path: Path) -> Literal["png", "svg"]:
    match path.suffix.lower():
        case ".png":
            return "png"
        case ".svg":
            return "svg"
    raise misuse(f"--figure needs a name that ends in .png or .svg; found {path.name!r}")


def _draw(
    query: "AnyQuery",
    model: "AnyModel",
    epsilon: float,
    who: "Against",
    kind: Literal["png", "svg"],
) -> bytes:
    """Return the file of the figure: error against epsilon, for every method."""
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.costs import draw_errors
    from undertow.planning.comparison import error_curves

    ratio = _HIGHEST / _LOWEST
    grid = [epsilon * _LOWEST * ratio ** (step / (_POINTS - 1)) for step in range(_POINTS)]
    with _progress(len(grid)) as tick:
        curves = error_curves(query, model, grid, who, tick=tick)
    whom = f"the {who}" if who in ("ignorant", "informed") else "any" if who == "any" else "one"
    title = f"{query_words(query)}, protected from {whom} attacker"
    return figure_bytes(draw_errors(curves, title[:1].upper() + title[1:], epsilon), kind)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], object]]:
    """Show a bar on stderr, on a terminal only."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("drawing", total=total)
        yield lambda: progress.advance(task)
