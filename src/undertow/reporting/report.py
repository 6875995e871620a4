"""A release explained: as text, as one HTML file, as JSON."""

import textwrap
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from undertow.files import write_whole
from undertow.plan import Plan, exact_answer, readings_moved
from undertow.reporting import scope, words
from undertow.reporting.facts import BETA, Facts, gather, numbers, proved
from undertow.reporting.formats import aligned, check_ending, strict_json
from undertow.reporting.sections import Note, Section, SeriesFacts, notes, sections, series_sections
from undertow.rounding import above, visible

if TYPE_CHECKING:
    from undertow.releasing.request import Release

__all__ = ["Report", "SeriesReport", "brief"]


_WIDTH = 96
_LABEL = 18


class Page:
    """The formats of every report: text, one HTML file, JSON; ``str`` gives the text."""

    __slots__ = ()

    facts: Facts | SeriesFacts

    def parts(self) -> tuple[str, list[Note], list[Section]]:
        """Return the title, the notes and the sections."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the report as a JSON object."""
        return self.facts.to_dict()

    def public(self) -> Self:
        """Return the report, refusing one that is for the curator only."""
        self.facts.plan.public()
        return self

    def drawing(self) -> tuple[str, int]:
        """Return the figure as an SVG element, and the count of numbers it omits."""
        return "", 0

    def to_json(self) -> str:
        """Return the report as strict JSON."""
        return strict_json(self.to_dict())

    def text(self) -> str:
        """Return the report as plain text, wrapped at the width of a page."""
        title, notes, sections = self._visible()
        parts = [f"{title}\n{'=' * min(len(title), _WIDTH)}"]
        parts += [textwrap.fill(note.text, _WIDTH, break_long_words=False) for note in notes]
        parts += [_section_text(section) for section in sections]
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        """Return the report as one accessible HTML file without scripts."""
        title, notes, sections = self._visible()
        drawn, left_out = self.drawing()
        page: str = _template().render(
            title=title, sections=sections, figure=drawn, left_out=left_out, notes=notes
        )
        return page

    def _visible(self) -> tuple[str, list[Note], list[Section]]:
        """Return the parts with control characters escaped, since names come from files."""
        title, notes, sections = self.parts()
        escaped = [Note(note.kind, visible(note.text)) for note in notes]
        return visible(title), escaped, [section.visible() for section in sections]

    def save(self, path: str | Path) -> None:
        """Write the report to a file, completely or not at all, in the format of its suffix.

        ``.txt``, ``.html`` or ``.json``. A file of that name is replaced.
        """
        write_whole(Path(path), self.content(path))

    def content(self, path: str | Path) -> bytes:
        """Return the content of a file of that name."""
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
    """The report of a released answer: its error bars, its guarantee and its proof.

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
        """Return the title, the notes and the sections."""
        facts = self.facts
        return _title(facts.plan), notes(facts.release, "noise was"), sections(facts)

    def drawing(self) -> tuple[str, int]:
        """Return the figure of released numbers, and the count of those it omits."""
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
    """The report of a flipped or redacted series: its utility and its guarantee.

    >>> from undertow import MarkovChain, Series, calibrate
    >>> plan = calibrate(Series(), MarkovChain([[.9, .1], [.3, .7]]), limit=2.0)
    >>> print(SeriesReport(SeriesFacts(plan, rows=90, persons=3)).text().splitlines()[0])
    Release report: the whole series, each record flipped at random
    """

    facts: SeriesFacts

    def parts(self) -> tuple[str, list[Note], list[Section]]:
        """Return the title, the notes and the sections."""
        facts = self.facts
        return _title(facts.plan), notes(facts, "bits were"), series_sections(facts)


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
"""The most numbers of a brief; the report has all."""


def brief(release: "Release") -> str:
    """Return the answer, its error bar, its guarantee and its ledger entry as text.

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
    released = list(numbers(release))
    sure = f"with probability {100 * (1 - BETA):g}%"
    if len(released) == 1 and not released[0].label():
        bar = f"within {above(released[0].within, 6)} of {exact_answer(release.plan)} {sure}"
        return [("answer", f"{released[0].shown()}, {bar}")]
    if release.plan.noise.query.selects:
        short = f"no selected state falls short by more than {above(released[0].within, 6)} records"
        chosen = [(number.label(), number.shown()) for number in released[:_MOST]]
        more = [("...", f"and {len(released) - _MOST} more")] if len(released) > _MOST else []
        return [*chosen, *more, ("error bars", f"{short} {sure}")]
    rows = [
        (number.label() or "answer", f"{number.shown()}, within {above(number.within, 6)}")
        for number in released[:_MOST]
    ]
    if len(released) > _MOST:
        rows.append(("...", f"and {len(released) - _MOST} more"))
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
