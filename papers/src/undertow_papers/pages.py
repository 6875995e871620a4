"""What was recomputed, as a folder: a page in Markdown and HTML, figures, and a manifest."""

import json
import platform
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from undertow_papers.findings import VERDICTS, Finding
from undertow_papers.registry import PAPERS, Run, Setting

__all__ = ["manifest", "write_pages"]

_MEANING = {
    "reproduced": "our number agrees with the paper's, or its claim held",
    "improved": "the same guarantee costs less",
    "corrected": "the paper is wrong; here is where",
    "differs": "our number is another one, and the cause is stated",
    "not improved": "nothing was to be gained",
}
_USED = ("numpy", "scipy", "opendp", "torch", "matplotlib")


def manifest(runs: Sequence[Run], setting: Setting) -> dict[str, Any]:
    """Return everything that was found, JSON-ready, with the versions it was found with."""
    total = Counter(f.verdict for run in runs for f in run.outcome.findings)
    return {
        "setting": {"quick": setting.quick, "seed": setting.seed, "data": setting.data is not None},
        "versions": {"python": platform.python_version(), **_versions()},
        "verdicts": {name: total[name] for name in VERDICTS if total[name]},
        "results": [
            {
                "id": run.result.id,
                "title": run.result.title,
                "seconds": round(run.seconds, 3),
                "figures": [chart.name for chart in run.outcome.charts],
                **run.outcome.to_dict(),
            }
            for run in runs
        ],
    }


def write_pages(
    runs: Sequence[Run], setting: Setting, folder: Path, figures: dict[str, list[str]]
) -> None:
    """Write index.md, index.html and manifest.json into a folder; figures lie there already."""
    from undertow.files import write_whole

    body = manifest(runs, setting)
    write_whole(folder / "manifest.json", (json.dumps(body, indent=2) + "\n").encode())
    write_whole(folder / "index.md", _markdown(runs, setting, figures).encode())
    write_whole(folder / "index.html", _html(runs, setting, figures).encode())


def _versions() -> dict[str, str]:
    versions = {}
    for name in ("undertow", *_USED):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _summary(runs: Sequence[Run]) -> list[tuple[str, list[int]]]:
    """Return for each paper how many findings have each verdict."""
    rows = []
    for paper in PAPERS:
        counts = Counter(
            f.verdict for run in runs if run.result.paper == paper for f in run.outcome.findings
        )
        if counts:
            rows.append((paper, [counts[verdict] for verdict in VERDICTS]))
    return rows


def _number(value: float) -> str:
    return f"{value:.7g}"


def _cells(finding: Finding) -> tuple[str, str, str, str, str]:
    relation = getattr(finding, "relation", "")
    theirs = f"{relation} {_number(finding.theirs)}".strip()
    source = getattr(finding, "source", "printed")
    mark = {"digitised": " (read off)", "derived": " (its formula)", "code": " (its code)"}.get(
        source, ""
    )
    return finding.name, _number(finding.ours), theirs + mark, finding.verdict, finding.why


_HEAD = ("what", "ours", "theirs", "verdict", "why")


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def _markdown(runs: Sequence[Run], setting: Setting, figures: dict[str, list[str]]) -> str:
    lines = ["# The papers, recomputed", "", *_intro(setting), ""]
    lines += _grid(("paper", *VERDICTS), [(p, *map(str, row)) for p, row in _summary(runs)])
    lines += ["", *(f"- *{name}*: {remark}" for name, remark in _MEANING.items()), ""]
    for run in runs:
        lines += [f"## {run.result.id}: {run.result.title}", ""]
        lines += [f"*{remark}*" for remark in _remarks(run)]
        lines += ["", *_grid(_HEAD, [_cells(finding) for finding in run.outcome.findings])]
        for title, head, rows in run.outcome.tables:
            lines += ["", f"**{title}**", "", *_grid(head, rows)]
        lines += ["", *(f"![{run.result.title}](figures/{name}.svg)" for name in
                        figures.get(run.result.id, [])), ""]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def _html(runs: Sequence[Run], setting: Setting, figures: dict[str, list[str]]) -> str:
    parts = [f"<h1>The papers, recomputed</h1><p>{escape(' '.join(_intro(setting)))}</p>"]
    parts.append(_table(("paper", *VERDICTS), [(p, *map(str, row)) for p, row in _summary(runs)]))
    items = "".join(f"<li><b>{n}</b>: {escape(remark)}</li>" for n, remark in _MEANING.items())
    parts.append(f"<ul>{items}</ul>")
    for paper, _ in _summary(runs):
        own = [run.result for run in runs if run.result.paper == paper]
        links = [f'<a href="#{escape(one.id)}">{escape(one.item)}</a>' for one in own]
        parts.append(f"<p><b>{paper}</b>: {', '.join(links)}</p>")
    for run in runs:
        name = run.result.id
        parts.append(f'<h2 id="{escape(name)}">{escape(name)}: {escape(run.result.title)}</h2>')
        parts += [f"<p class=note>{escape(remark)}</p>" for remark in _remarks(run)]
        parts.append(_table(_HEAD, [_cells(finding) for finding in run.outcome.findings]))
        for title, head, rows in run.outcome.tables:
            parts.append(f"<h3>{escape(title)}</h3>{_table(head, rows)}")
        parts += [
            f'<img src="figures/{escape(one)}.svg" alt="{escape(run.result.title)}">'
            for one in figures.get(name, [])
        ]
    return _PAGE.replace("BODY", "\n".join(parts))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{_class(cell)}">{escape(cell)}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<div class=wide><table><tr>{top}</tr>{body}</table></div>"


def _class(cell: str) -> str:
    return cell.replace(" ", "-") if cell in VERDICTS else ""


def _intro(setting: Setting) -> list[str]:
    how = "quick setting" if setting.quick else "full setting"
    data = "real data where it was found" if setting.data else "synthetic stand-ins for all data"
    return [
        f"Every number below was computed by undertow ({how}, seed {setting.seed}, {data}).",
        "A verdict follows from two numbers and a tolerance; none is typed in.",
    ]


def _remarks(run: Run) -> list[str]:
    remarks = list(run.outcome.notes)
    if run.outcome.data == "stand-in":
        remarks.insert(0, "Computed on a synthetic stand-in: the real data set was not given.")
    return remarks


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The papers, recomputed</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; }
table { border-collapse: collapse; font-size: 14px; margin: .6rem 0; }
th, td { border: 1px solid #ccd2d8; padding: .25rem .5rem; text-align: left; vertical-align: top; }
th { background: #f2f4f6; }
.wide { overflow-x: auto; }
.note { color: #555; margin: .2rem 0; }
.reproduced { color: #00583f; } .improved { color: #00507d; font-weight: 600; }
.corrected { color: #8a3b00; font-weight: 600; } .differs { color: #a01f1f; font-weight: 600; }
img { max-width: 100%; display: block; margin: 1rem 0; }
h2 { margin-top: 2.4rem; border-top: 1px solid #ccd2d8; padding-top: 1rem; }
</style></head><body>
BODY
</body></html>
"""
