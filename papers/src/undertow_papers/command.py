"""``undertow reproduce``: the figures, tables and theorems of the papers, recomputed and judged."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from undertow.cli.options import JsonOption, command, misuse, option
from undertow.cli.output import show, show_table, strict_json, ticking

if TYPE_CHECKING:
    from undertow_papers.registry import Result, Run, Setting

__all__ = ["reproduce"]


@command
def reproduce(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RESULTS", help="Results: 'all', a paper, or names such as wang2016:fig2a."
        ),
    ] = None,
    listed: bool = option(None, "List of the results, nothing computed.", False, name="--list"),
    quick: bool = option(None, "Fewer points and draws (minutes instead of an hour).", False),
    data: Path | None = option(
        "DIR", "Folder of the papers' data sets (default: synthetic stand-ins)."
    ),
    seed: int = option("N", "Seed of simulations.", 1),
    output: Path = option("DIR", "Folder for pages and figures.", Path("reproduction")),
    fresh: bool = option(None, "Stored results computed again.", False),
    as_json: JsonOption = False,
) -> None:
    """Recompute the results of the papers and compare them with the printed values.

    Writes a page (index.html, index.md), a manifest (manifest.json) and the figures. Results are
    kept in the folder, and computed once for each version, setting and seed.

    \b
    Examples:
      undertow reproduce --list
      undertow reproduce wang2016:fig2a --quick --output reproduction
      undertow reproduce wang2016:lemma4.7 --quick --output reproduction --json
    """
    if not listed and not wanted:
        raise misuse("name what to reproduce: all, a paper's key, or a result (see --list)")
    if seed < 0:
        raise misuse(f"--seed must be 0 or more; found {seed}")
    from undertow_papers.registry import Setting, find_results

    results = find_results(wanted or ["all"])
    if listed:
        _tell_list(results, as_json)
        return
    if data is not None and not data.is_dir():
        raise misuse(f"--data must be a folder; found {data}")
    setting = Setting(quick, data, seed)
    runs = _run(results, setting, output, fresh)
    if as_json:
        from undertow_papers.pages import manifest

        typer.echo(strict_json(manifest(runs, setting)))
    else:
        _tell(runs, output)


def _run(results: "list[Result]", setting: "Setting", output: Path, fresh: bool) -> "list[Run]":
    from undertow.errors import InvalidInput
    from undertow.files import reason
    from undertow_papers.store import reproduce as compute

    with ticking("recomputing", len(results), "--quick is faster") as tick:
        try:
            return compute(results, setting, output, fresh=fresh, told=lambda *_: tick())
        except OSError as error:
            raise InvalidInput(f"cannot write to {output}: {reason(error)}") from error


def _tell_list(results: "list[Result]", as_json: bool) -> None:
    if as_json:
        named = [{"id": one.id, "title": one.title} for one in results]
        typer.echo(strict_json({"results": named}))
        return
    show_table(
        "Results that can be recomputed", ["result", "what"], [[o.id, o.title] for o in results]
    )


def _tell(runs: "list[Run]", output: Path) -> None:
    from undertow_papers.findings import VERDICTS

    total = Counter(f.verdict for run in runs for f in run.outcome.findings)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in total.most_common())
    stand_ins = sum(run.outcome.data == "stand-in" for run in runs)
    rows = [
        ("results", str(len(runs))),
        ("findings", verdicts),
        ("time", f"{sum(run.seconds for run in runs):.1f} s of computation"),
        ("written to", str(output / "index.html")),
    ]
    if stand_ins:
        note = f"{stand_ins} results were computed on synthetic stand-ins; give --data"
        rows.insert(2, ("data", note))
    show("The papers, recomputed", rows)
    table = []
    for run in runs:
        counts = run.outcome.verdicts
        numbers = [str(counts.get(verdict, "")) for verdict in VERDICTS]
        table.append([run.result.id, *numbers, f"{run.seconds:.1f}"])
    show_table("Findings by result", ["result", *VERDICTS, "seconds"], table)
    odd = [
        [run.result.id, f.name, f.why]
        for run in runs
        for f in run.outcome.findings
        if f.verdict in ("differs", "corrected")
    ]
    if odd:
        show_table("Where the papers and we disagree", ["result", "what", "why"], odd)
