"""Recomputed results on disk: each is computed once for its code, its setting and its data."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from undertow.papers.charts import Chart, Panel, Trace
from undertow.papers.findings import Claim, Compared, Finding, Improved, Listing, Recomputed
from undertow.papers.registry import Result, Run, Setting, recompute

__all__ = ["reproduce"]

Told = Callable[[Result, bool], object]


def reproduce(
    results: Sequence[Result], setting: Setting, folder: Path, *, fresh: bool = False,
    told: Told | None = None,
) -> list[Run]:  # fmt: skip
    """Return all runs, from the store where it has them, and write pages and figures.

    ``told`` is called after each result, with whether it came from the store. Writes index.md,
    index.html, manifest.json and figures/; the store itself is the folder .store.
    """
    from undertow.papers.pages import write_pages

    store = folder / ".store"
    store.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    figures: dict[str, list[str]] = {}
    for found in results:
        kept = store / f"{found.fingerprint(setting)}.json"
        run = None if fresh else _stored(kept, found)
        cached = run is not None
        if run is None:
            run = recompute(found, setting)
            kept.write_text(json.dumps({"seconds": run.seconds, **_written(run.outcome)}))
        runs.append(run)
        figures[found.id] = _drawn(run, folder)
        if told is not None:
            told(found, cached)
    write_pages(runs, setting, folder, figures)
    return runs


_KINDS: dict[str, type[Compared] | type[Claim] | type[Improved]] = {
    kind.__name__: kind for kind in (Compared, Claim, Improved)
}


def _written(outcome: Recomputed) -> dict[str, Any]:
    """Return an outcome as JSON-ready values."""
    return {
        "findings": [{"kind": type(f).__name__, **asdict(f)} for f in outcome.findings],
        "charts": [asdict(chart) for chart in outcome.charts],
        "notes": list(outcome.notes),
        "data": outcome.data,
        "tables": outcome.tables,
    }


def _stored(path: Path, found: Result) -> Run | None:
    """Return a stored run, None where there is none or it cannot be read."""
    try:
        body = json.loads(path.read_text())
        outcome = Recomputed(
            tuple(_finding(one) for one in body["findings"]),
            tuple(_chart(one) for one in body["charts"]),
            tuple(body["notes"]),
            body["data"],
            tables=tuple(
                Listing(title, tuple(head), tuple(tuple(row) for row in rows))
                for title, head, rows in body["tables"]
            ),
        )
        return Run(found, outcome, float(body["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _finding(body: dict[str, Any]) -> Finding:
    kind = _KINDS[body.pop("kind")]
    return kind(**body)


def _chart(body: dict[str, Any]) -> Chart:
    panels = []
    for panel in body.pop("panels"):
        lines = tuple(
            Trace(line["label"], tuple(line["x"]), tuple(line["y"]), line["role"],
                 tuple(line["y2"]))
            for line in panel.pop("lines")
        )  # fmt: skip
        limits = {
            name: None if panel[name] is None else tuple(panel[name]) for name in ("xlim", "ylim")
        }
        rest = panel | limits | {"scale": tuple(panel["scale"]), "ticks": tuple(panel["ticks"])}
        panels.append(Panel(**rest, lines=lines))
    return Chart(panels=tuple(panels), **body)


def _drawn(run: Run, folder: Path) -> list[str]:
    """Draw the charts of a run as SVG and PNG, and return their names; none without matplotlib."""
    from undertow.errors import NotSupported
    from undertow.figures.canvas import check_drawing, figure_bytes
    from undertow.figures.charts import draw_chart

    if not run.outcome.charts:
        return []
    try:
        check_drawing()
    except NotSupported:
        return []
    (folder / "figures").mkdir(exist_ok=True)
    names = []
    for chart in run.outcome.charts:
        own = chart.name.removeprefix(f"{run.result.paper}-")
        name = f"{run.result.paper}-{own}".replace(":", "-")
        figure = draw_chart(chart)
        (folder / "figures" / f"{name}.svg").write_bytes(figure_bytes(figure, "svg"))
        (folder / "figures" / f"{name}.png").write_bytes(figure_bytes(figure, "png"))
        names.append(name)
    return names
