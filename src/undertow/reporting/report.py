"""A release explained: as text, as one HTML file, as JSON."""

import csv
import io
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from undertow.errors import InvalidInput
from undertow.files import write_whole
from undertow.plan import Plan, exact_answer, readings_moved
from undertow.reporting import scope, words
from undertow.reporting.facts import BETA, Facts, gather, numbers, proved
from undertow.reporting.sections import Note, Section, SeriesFacts, notes, sections, series_sections
from undertow.rounding import above, columns, visible

if TYPE_CHECKING:
    from undertow.releasing.request import Release

__all__ = [
    "ENDINGS",
    "Page",
    "Report",
    "SeriesReport",
    "aligned",
    "brief",
    "csv_bytes",
    "strict_json",
]


_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001  (wide signs count, too)
"""How a text begins that a spreadsheet takes for a formula."""


def strict_json(value: Any) -> str:
    """Return JSON text that every parser reads: infinities become strings.

    >>> strict_json({"upper": math.inf})
    '{\\n  "upper": "inf"\\n}'
    """
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of text as `columns` has them, indented.

    >>> print("\\n".join(aligned([["what", "how much"], ["tea", "2"]])))
      what  how much
      tea   2
    """
    return [f"  {line}".rstrip() for line in columns(rows)]


def csv_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """Return a CSV file that a spreadsheet shows and does not obey; a missing cell is empty.

    A text that begins as a formula gets an apostrophe in front, and hidden characters are written
    as escapes. Numbers stay as they are.

    >>> print(csv_bytes([{"group": "=1+1", "value": -3}], ["group", "value"]).decode(), end="")
    group,value
    '=1+1,-3
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(map(_cell, columns))
    table.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return text.getvalue().encode("utf-8")


def _cell(value: Any) -> Any:
    """Return a cell that is data to everyone who opens the file."""
    if value is None or isinstance(value, Number):
        return value
    said = str(value)
    formula = said.startswith(_FORMULA) or said.lstrip().startswith(_FORMULA)
    return visible(f"'{said}" if formula else said)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


ENDINGS = (".html", ".json", ".txt")
"""How the name of a report's file may end; the ending says what is written."""

_WIDTH = 96
_LABEL = 18


class Page:
    """What every report can become: text, one HTML file, JSON; ``str`` gives the text."""

    __slots__ = ()

    facts: Facts | SeriesFacts

    def parts(self) -> tuple[str, list[Note], list[Section]]:
        """Return title, what must be said first, and sections."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return everything the report says, for programs."""
        return self.facts.to_dict()

    def public(self) -> Self:
        """Return the report, which may be published; refuse one that is the curator's."""
        self.facts.plan.public()
        return self

    def drawing(self) -> tuple[str, int]:
        """Return the figure as an SVG element, and how many numbers it leaves out."""
        return "", 0

    def to_json(self) -> str:
        """Return the report as strict JSON."""
        return strict_json(self.to_dict())

    def text(self) -> str:
        """Return the report as plain text, no line longer than a page is wide."""
        title, said, shown = self._visible()
        parts = [f"{title}\n{'=' * min(len(title), _WIDTH)}"]
        parts += [textwrap.fill(note.text, _WIDTH, break_long_words=False) for note in said]
        parts += [_section_text(section) for section in shown]
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """Return the report as one HTML file without script, to be read, printed or listened to."""
        title, said, shown = self._visible()
        drawn, left_out = self.drawing()
        page: str = _template().render(
            title=title, sections=shown, figure=drawn, left_out=left_out, notes=said
        )
        return page

    def _visible(self) -> tuple[str, list[Note], list[Section]]:
        """Return the parts as people may see them: names come from files, and may hold anything."""
        title, said, shown = self.parts()
        told = [Note(note.kind, visible(note.text)) for note in said]
        return visible(title), told, [section.visible() for section in shown]

    def save(self, path: str | Path) -> None:
        """Write the report to a file, all of it or nothing, in the form that its ending says.

        ``.txt``, ``.html`` or ``.json``. A file of that name is replaced.
        """
        write_whole(Path(path), self.content(path))

    def content(self, path: str | Path) -> bytes:
        """Return what a file of that name would hold."""
        match check_ending(path):
            case ".html":
                text = self.html()
            case ".json":
                text = self.to_json() + "\n"
            case _:
                text = self.text()
        return text.encode("utf-8", "backslashreplace")

    def __str__(self) -> str:
        """Return the text."""
        return self.text()


@dataclass(frozen=True, slots=True)
class Report(Page):
    """What was released, how far off it may be, what it guarantees and to whom.

    ``str`` gives the text. The content depends on the records through the released numbers only:
    two data sets with the same persons, times and groups give the same report but for those.

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> out = release(calibrate(Count("active"), chain, limit=1.0), ["idle", "active"] * 50)
    >>> print(out.report().text().splitlines()[0])
    Release report: number of records in 'active'
    """

    facts: Facts

    @classmethod
    def of(cls, release: "Release") -> "Report":
        """Return the report of a release."""
        return cls(gather(release))

    def parts(self) -> tuple[str, list[Note], list[Section]]:
        """Return title, what must be said first, and sections."""
        facts = self.facts
        return _title(facts.plan), notes(facts.release, "noise was"), sections(facts)

    def drawing(self) -> tuple[str, int]:
        """Return the figure of released numbers, and how many it leaves out."""
        from undertow.figures.canvas import MOST_DRAWN, Bar, released_figure

        if self.facts.plan.noise.query.selects:  # states, which no axis has
            return "", 0
        drawn = [
            Bar(number.label(), number.value, number.within, number.shown())
            for number in self.facts.numbers
        ]
        return released_figure(drawn), max(len(drawn) - MOST_DRAWN, 0)


@dataclass(frozen=True, slots=True)
class SeriesReport(Page):
    """What a flipped or redacted series shows, what it guarantees and to whom.

    >>> from undertow import MarkovChain, Series, calibrate
    >>> plan = calibrate(Series(), MarkovChain([[.9, .1], [.3, .7]]), limit=2.0)
    >>> print(SeriesReport(SeriesFacts(plan, rows=90, persons=3)).text().splitlines()[0])
    Release report: the whole series, each record flipped at random
    """

    facts: SeriesFacts

    def parts(self) -> tuple[str, list[Note], list[Section]]:
        """Return title, what must be said first, and sections."""
        facts = self.facts
        return _title(facts.plan), notes(facts, "bits were"), series_sections(facts)


def check_ending(path: str | Path) -> str:
    """Return how the name of a report ends, or refuse it.

    >>> check_ending("week-1.html")
    '.html'
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InvalidInput(
            f"a report needs a name that ends in {', '.join(ENDINGS)}; found {Path(path).name!r}"
        )
    return ending


def _section_text(section: Section) -> str:
    lines = [section.title, "-" * len(section.title)]
    for label, sentences in section.lines:
        for place, sentence in enumerate(sentences):
            lines += _wrapped(label if not place else "", sentence, bullet=len(sentences) > 1)
    for table in section.tables:
        lines += ["", f"{table.caption}:", *aligned([table.header, *table.rows])]
    return "\n".join(lines)


def _wrapped(label: str, sentence: str, *, bullet: bool) -> list[str]:
    mark = "- " if bullet else ""
    head = f"{label:<{_LABEL}}  {mark}"
    return textwrap.wrap(
        " ".join(sentence.split()), _WIDTH, initial_indent=head,
        subsequent_indent=" " * len(head), break_long_words=False, break_on_hyphens=False,
    ) or [head.rstrip()]  # fmt: skip


def _title(plan: Plan[Any]) -> str:
    return f"Release report: {plan.query.words()}"


@cache
def _template() -> Any:
    import jinja2

    source = resources.files("undertow.reporting").joinpath("templates", "report.html.j2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source.read_text("utf-8"))


_MOST = 12
"""Numbers that are shown; the others are in the report."""


def brief(release: "Release") -> str:
    """Return the answer, how far off it may be, its guarantee and its place in the ledger.

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Count("active"), chain, limit=1.0)
    >>> print(brief(release(plan, ["idle", "active"] * 50)).splitlines()[0])
    number of records in 'active'
    """
    rows = [(visible(label), text) for label, text in (*_answers(release), *_about(release))]
    width = max(len(label) for label, _ in rows)
    lines = [f"  {label:<{width}}  {text}".rstrip() for label, text in rows]
    top = [release.plan.noise.query.words(), *words.audience(release.plan)]
    if release.randomness != "secure":
        top.append(f"NOT PRIVATE: the noise was drawn from {release.randomness}")
    if release.replayed:
        top.append(f"Note: {scope.replay(release.made)}")
    return "\n".join(map(visible, [*top, *lines]))


def _answers(release: "Release") -> list[tuple[str, str]]:
    found = list(numbers(release))
    sure = f"with probability {100 * (1 - BETA):g}%"
    if len(found) == 1 and not found[0].label():
        bar = f"within {above(found[0].within, 6)} of {exact_answer(release.plan)} {sure}"
        return [("answer", f"{found[0].shown()}, {bar}")]
    if release.plan.noise.query.selects:
        short = f"no selected state falls short by more than {above(found[0].within, 6)} records"
        chosen = [(number.label(), number.shown()) for number in found[:_MOST]]
        more = [("...", f"and {len(found) - _MOST} more")] if len(found) > _MOST else []
        return [*chosen, *more, ("error bars", f"{short} {sure}")]
    rows = [
        (number.label() or "answer", f"{number.shown()}, within {above(number.within, 6)}")
        for number in found[:_MOST]
    ]
    if len(found) > _MOST:
        rows.append(("...", f"and {len(found) - _MOST} more"))
    return [*rows, ("error bars", f"all hold together {sure}")]


def _about(release: "Release") -> list[tuple[str, str]]:
    plan = proved(release)
    moved = readings_moved(plan, release.rows)
    again = "yes: nothing was spent" if release.replayed else "no: drawn for this release"
    return [
        *([] if moved is None else [("readings", moved)]),
        ("guarantee", plan.guarantee(*release.conditions)),
        ("protects", words.unit(plan).partition(":")[0]),
        ("window", scope.window(release.window)),
        ("groups", scope.groups(release.groups)),
        ("records", scope.records(release.rows, release.persons)),
        ("drawn", scope.drawn(release.made)),
        ("recorded earlier", again),
        ("ledger entry", release.entry or "not accounted in a ledger"),
    ]
