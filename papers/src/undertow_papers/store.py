"""Recomputed results on disk: each is computed once for its code, its setting and its data."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Improved, Listing, Recomputed
from undertow_papers.registry import Result, Run, Setting, recompute

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
    from undertow_papers.pages import write_pages

    store = folder / ".store"
    store.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    figures: dict[str, list[str]] = {}
    for entry in results:
        kept = store / f"{entry.fingerprint(setting)}.json"
        run = None if fresh else _stored(kept, entry)
        cached = run is not None
        if run is None:
            run = recompute(entry, setting)
            kept.write_text(json.dumps({"seconds": run.seconds, **_written(run.outcome)}))
        runs.append(run)
        figures[entry.id] = _drawn(run, folder)
        if told is not None:
            told(entry, cached)
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


def _stored(path: Path, entry: Result) -> Run | None:
    """Return a stored run, None where there is none or it cannot be read."""
    try:
        body = _frozen(json.loads(path.read_text()))
        findings = tuple(_KINDS[one.pop("kind")](**one) for one in body["findings"])
        charts = tuple(_chart(**one) for one in body["charts"])
        tables = tuple(Listing(*one) for one in body["tables"])
        outcome = Recomputed(findings, charts, body["notes"], body["data"], tables=tables)
        return Run(entry, outcome, float(body["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _frozen(value: Any) -> Any:
    """Return JSON values with tuples for lists, as frozen types hold them."""
    if isinstance(value, dict):
        return {name: _frozen(each) for name, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _chart(panels: Iterable[dict[str, Any]], **rest: Any) -> Chart:
    panel_list = [
        Panel(**panel | {"lines": tuple(Trace(**line) for line in panel["lines"])})
        for panel in panels
    ]
    return Chart(panels=tuple(panel_list), **rest)


def _drawn(run: Run, folder: Path) -> list[str]:
    """Draw the charts of a run as SVG and PNG, and return their names; none without matplotlib."""
    from undertow.errors import NotSupported
    from undertow.figures.canvas import check_drawing, figure_bytes
    from undertow_papers.charts import draw_chart

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
