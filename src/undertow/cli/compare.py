"""``undertow compare``: the cost of every method for one guarantee, and whom it protects."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from undertow.cli.files import check_figure, write_figure
from undertow.cli.options import (
    AttackerOptions,
    EffortOption,
    ForceOption,
    JsonOption,
    LimitOption,
    ModelOptions,
    NoiseOptions,
    QueryOptions,
    SecretOptions,
    command,
    misuse,
    option,
    read_effort,
    several,
)
from undertow.cli.output import (
    INTERRUPTED,
    above,
    answer,
    in_cli_words,
    say,
    show,
    show_checks,
    show_table,
    stated,
    ticking,
    waiting,
)

if TYPE_CHECKING:
    from undertow.adversaries import Against
    from undertow.certificate import Leakage
    from undertow.figures.canvas import Figure
    from undertow.planning.compare import Comparison, Row
    from undertow.queries import AnyQuery

__all__ = ["compare"]


_POINTS = 25
_LOWEST, _HIGHEST = 0.1, 20.0
"""The figure's limits, as multiples of the one asked for."""

_KEPT = "Methods that keep the guarantee"
_NOT_KEPT = "Methods that DO NOT keep the guarantee"
_COMPLETE = "Methods that keep it if no value is missing"
_NOT_APPLICABLE = "Methods that do not apply"


@command
def compare(
    limit: LimitOption,
    model: ModelOptions,
    query: QueryOptions,
    attacker: AttackerOptions,
    noise: NoiseOptions,
    secret: SecretOptions,
    methods: list[str] | None = option(
        "NAME", "Method to ask alone, to its end; repeatable.", name="--method", group="Guarantee"
    ),
    effort: EffortOption = None,
    figure: Path | None = option(
        "FILE", "Path of a figure of error against the limit (.png or .svg).", group="Output"
    ),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the methods for a guarantee: their errors, whom they protect, what they leak.

    Certified methods are proved here; published ones are bounds as printed in papers, never chosen
    by 'undertow plan'. Interrupted (Ctrl-C), it prints the rows computed so far, exit code 130.

    \b
    Examples:
      undertow compare --transition '0.882,0.118;0.305,0.695' --length 100 --count 1 --limit 1
      undertow compare --model chain.json --histogram --limit 1 --against ignorant --json
      undertow compare --model chain.json --length 4 --histogram --limit 1 --delta 1e-6 \\
        --releases 52
      undertow compare --model chain.json --length 288 --histogram --limit 1 --secret 12
      undertow compare --model chain.json --length 50 --count 1 --limit 1 --effort 5 --progress
    """
    if query.total != 1:
        raise misuse("give one of --count, --histogram, --top, --transitions, --sum and --mean")
    check_figure(figure, force=force)
    against, described = attacker.read(), model.read()
    question = query.read(described)
    from undertow.planning import compare as comparison

    with waiting("comparing the methods", "--method exchange asks for one alone") as shown:
        table = comparison.compare(
            question, described, limit, against, secret.read(described), methods=methods,
            **noise.arguments(), each=lambda row: shown.note(_noted(row)),
            effort=read_effort(effort) or 1.0, partial=True,
        )  # fmt: skip
    if table.missing:
        say(f"interrupted; not computed: {', '.join(table.missing)}")
        fields = table.to_dict() | {"interrupted": True}
        answer(fields, lambda: _tell(table, None), as_json=as_json)
        raise typer.Exit(INTERRUPTED)
    if figure is not None:
        write_figure(figure, _draw(table, question), force=force)
    drawn = {} if figure is None else {"figure": str(figure)}
    answer(table.to_dict() | drawn, lambda: _tell(table, figure), as_json=as_json)


def _tell(table: "Comparison", figure: Path | None) -> None:
    from undertow.adversaries import words

    best, least = table.best, "no certified method gives it"
    if best is not None:  # with a delta there are several kinds of noise
        least = f"{best.method}, {best.noise.words} noise" if table.delta else best.method
    at = f" at delta {stated(table.delta)}" if table.delta else ""
    often, window = several(table.releases), table.secret.window
    whom = words(table.against, window)
    about = f" about the history of {window} records in a row" if window > 1 else ""
    promise = f"a leakage of at most {table.limit:g}{at}{about}"
    facts = [
        ("question", table.query.words()),
        ("model", table.model.describe()),
        ("guarantee", "; ".join([f"{promise} to {whom}{often}", *table.conditions()])),
        ("least error", least),
    ]
    written = [] if figure is None else [("figure", str(figure))]
    show("Comparison of the methods", [*facts, *written])
    header = (
        "method", "noise" if table.delta else "scale", "error", "95% within",
        *(() if table.optimum is None else ("x optimum",)), "leaks", "protects against", "basis",
        "time",
    )  # fmt: skip
    parts = ((True, False, _KEPT), (True, True, _COMPLETE), (False, None, _NOT_KEPT))
    for kept, complete, title in parts:
        rows = [
            _cells(row, table)
            for row in table
            if row.plan and row.meets is kept and complete in (None, row.complete)
        ]
        if rows:
            show_table(title, header, rows)
    reasons = [
        (f"{row.method}, {row.noise}" if table.delta else row.method, _reason(row))
        for row in table
        if row.plan is None
    ]
    if reasons:
        show_table(_NOT_APPLICABLE, ("method", "why"), reasons)
    show_checks(table.checks)


def _reason(row: "Row") -> str:
    return in_cli_words(" ".join(str(row.reason).split()))


def _noted(row: "Row") -> str:
    """Return a row in one line, printed while other methods run."""
    if row.plan is None:
        return f"{row.method}: {_reason(row)}"
    return f"{row.method}: expected error {_number(row.expected_error)}, {_time(row)}"


def _time(row: "Row") -> str:
    return f"{row.seconds:.2g} s" if row.seconds >= 1 else f"{1000 * row.seconds:.0f} ms"


def _amount(row: "Row", table: "Comparison") -> str:
    if not table.delta:
        return _number(row.scale)
    if row.sigma is not None:
        return f"{row.noise} sigma {_number(row.sigma)}"
    return "table" if row.scale is None else f"{row.noise} scale {_number(row.scale)}"


def _cells(row: "Row", table: "Comparison") -> list[str]:
    return [
        row.method,
        _amount(row, table),
        _number(row.expected_error),
        _number(row.error_bar),
        *([] if table.optimum is None else [_number(table.times_optimum(row))]),
        _leaks(row.leakage),
        _protects(row.protects),
        "certified" if row.certified else "published",
        _time(row),
    ]


def _protects(against: "Against") -> str:
    if against == "any":
        return "any attacker"
    return f"{against} only" if isinstance(against, str) else "this attacker only"


def _number(value: float | None) -> str:
    return "-" if value is None else above(value, max(5, len(f"{value:.0f}")))


def _leaks(leak: "Leakage | None") -> str:
    """Return what is certainly the most that leaks."""
    if leak is None or (math.isinf(leak.upper) and math.isfinite(leak.lower)):
        return "not known"
    return "unbounded" if math.isinf(leak.upper) else above(leak.upper, 4)


def _draw(table: "Comparison", query: "AnyQuery") -> "Figure":
    """Return the figure: error against the limit, for every method."""
    from undertow.figures.costs import draw_errors
    from undertow.planning.compare import error_curves
    from undertow.reporting.words import sentence
    from undertow.secrets import Window

    ratio, limit, who = _HIGHEST / _LOWEST, table.limit, table.against
    grid = [limit * _LOWEST * ratio ** (step / (_POINTS - 1)) for step in range(_POINTS)]
    with ticking("drawing", len(grid)) as tick:
        curves = error_curves(
            query, table.model, grid, who, tick=tick, delta=table.delta, releases=table.releases,
            secret=Window(table.secret.window),
        )  # fmt: skip
    whom = f"the {who}" if who in ("ignorant", "informed") else "any" if who == "any" else "one"
    window = table.secret.window
    hidden = f", {window} records in a row" if window > 1 else ""
    title = f"{query.words()}{hidden}, protected from {whom} attacker"
    return draw_errors(curves, sentence(title), limit)
