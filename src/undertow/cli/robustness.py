"""``undertow robustness``: the leakage of a plan under other models than its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.files import check_figure, read_model, read_plan, write_figure
from undertow.cli.options import ForceOption, JsonOption, command, misuse, numbers, option
from undertow.cli.output import above, answer, below, show, show_checks, show_table, waiting

if TYPE_CHECKING:
    from undertow.diagnostics.other_models import ModelCase, Robustness
    from undertow.plan import Plan

__all__ = ["robustness"]


@command
def robustness(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="Plan file written by 'undertow plan'.")
    ],
    others: list[Path] | None = option(
        "FILE", "Further model; repeatable.", name="--other", group="Question"
    ),
    factors: str | None = option(
        "F,F,...",
        "Factors on the odds of leaving a state (default: 0.5,0.8,1,1.25,2).",
        group="Question",
    ),
    no_grid: bool = option(None, "Omit the grid of factors.", False, group="Question"),
    figure: Path | None = option("FILE", "Path of a figure (.png or .svg).", group="Output"),
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Bound the leakage of a plan under other models than its own.

    The models are chains that move more or less than the planned one, those that failed checks of
    a fit suggest, and your own. A limit is kept if a bound proves it, broken if an attack exceeds
    it, and open otherwise.

    \b
    Examples:
      undertow robustness plan.json
      undertow robustness plan.json --other chain.json --factors 0.5,2 --figure other.png
    """
    if factors is not None and no_grid:
        raise misuse("--factors and --no-grid exclude each other")
    check_figure(figure, force=force)
    read = read_plan(plan)
    settings: dict[str, Any] = {"others": {str(path): read_model(path) for path in others or ()}}
    if no_grid or factors is not None:
        settings["factors"] = () if no_grid else tuple(numbers(str(factors), "--factors"))
    with waiting("trying other models", "--no-grid is faster"):
        from undertow.diagnostics.other_models import robustness as compute

        table = compute(read, **settings)
    if figure is not None:
        from undertow.figures.costs import draw_robustness

        drawn = draw_robustness(table, f"If the model is wrong: {read.query.words()}")
        write_figure(figure, drawn, force=force)
    written = {} if figure is None else {"figure": str(figure)}
    answer(
        table.to_dict() | {"plan": read.fingerprint()} | written,
        lambda: _show(read, table, figure),
        as_json=as_json,
    )


def _show(plan: "Plan", table: "Robustness", figure: Path | None) -> None:
    worst = table.worst
    rows = [
        ("question", plan.query.words()),
        ("model", plan.model.describe()),
        ("limit", f"a leakage of at most {table.promise()}"),
        ("worst case", f"{worst.name}: {_end(worst, 0)} at least"),
        *([] if figure is None else [("figure", str(figure))]),
    ]
    show("Leakage of the plan under other models", rows)
    cells = [[case.name, _end(case, 0), _end(case, 1), case.verdict(table.limit)] for case in table]
    show_table("Leakage by model", ("model", "leaks at least", "at most", "limit"), cells)
    reasons = [(case.name, case.reason) for case in table if case.reason is not None]
    if reasons:
        show_table("Models without a result", ("model", "why"), reasons)
    show_checks(plan.checks)


def _end(case: "ModelCase", end: int) -> str:
    """Return one end of what a case leaks: an attack, or a bound."""
    if case.leakage is None:
        return "not known"
    if end == 0:
        return below(case.leakage.lower, 4)
    shown = above(case.leakage.upper, 4) if case.whole else "not known"
    return shown.replace("inf", "not known")
