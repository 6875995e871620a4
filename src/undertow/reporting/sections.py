"""The report as headings, labelled lines and tables: one content for text and for HTML."""

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from undertow._version import __version__
from undertow.certificate import Leakage
from undertow.mechanisms import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.plan import Plan, exact_answer, premise
from undertow.reporting import scope, words
from undertow.reporting.facts import (
    BETA,
    Facts,
    check_fields,
    found_in,
    guarantee_fields,
    model_fields,
    occasion_fields,
    parameters,
    proof_method,
    reach,
)
from undertow.rounding import above, below, odds, visible

__all__ = ["Note", "Section", "SeriesFacts", "notes", "sections", "series_sections"]


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with a caption; the first ``names`` cells of a row are its labels."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int = 1

    def visible(self) -> "ReportTable":
        """Return the table with control characters escaped."""
        rows = tuple(tuple(map(visible, row)) for row in self.rows)
        return ReportTable(
            visible(self.caption), tuple(map(visible, self.header)), rows, self.names
        )


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with labelled lines, each of one or more sentences, and tables."""

    name: str
    title: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    tables: tuple[ReportTable, ...] = ()

    def visible(self) -> "Section":
        """Return the section with control characters escaped."""
        lines = tuple((visible(label), tuple(map(visible, said))) for label, said in self.lines)
        return replace(self, lines=lines, tables=tuple(table.visible() for table in self.tables))


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence above all sections: a ``warning``, or a ``note``."""

    kind: Literal["warning", "note"]
    text: str


def notes(facts: Any, drawn: str) -> list[Note]:
    """Return the notes above all sections of a release or a series.

    ``drawn`` names the random draw: noise or bits.
    """
    alarm = Note("warning", f"NOT PRIVATE: the {drawn} drawn from {facts.randomness}")
    again = Note("note", f"Note: {scope.replay(facts.made)}")
    whose = [Note("warning", text) for text in words.audience(facts.plan)]
    return [*whose, *[alarm] * (facts.randomness != "secure"), *[again] * facts.replayed]


def sections(facts: Facts) -> list[Section]:
    """Return all sections, in the order of reading."""
    kind = "exact" if facts.plan.noise.query.integral else "exact, on a lattice"
    plan, release = facts.proved, facts.release
    shapes = scope.proved_for(plan.leakage, plan.length, release.window)
    return [
        _answer(facts),
        guarantee_section(plan, proof_method(release), shapes, release.conditions),
        model_section(facts.plan, facts.release.source, facts.fingerprint),
        checks_section(facts.plan),
        _comparison(facts),
        proof_section(
            facts.release,
            facts.fingerprint,
            f"{kind}: whole numbers, no floating-point trace",
            facts.versions,
        ),
    ]


def _answer(facts: Facts) -> Section:
    sure = f"{100 * (1 - BETA):g}%"
    lines = [("Question", facts.plan.noise.query.words())]
    tables: tuple[ReportTable, ...] = ()
    if len(facts.numbers) == 1 and not facts.numbers[0].label():
        (number,) = facts.numbers
        of = exact_answer(facts.plan)
        bar = f"within {above(number.within, 6)} of {of} with probability {sure}"
        lines += [("Answer", number.shown()), ("Error bar", bar)]
    elif facts.plan.noise.query.selects:
        bar = words.shortfall(facts.numbers[0].within, sure)
        lines += [("Answer", "see the table"), ("Error bars", bar)]
        tables = (_numbers(facts),)
    else:
        bar = f"all {len(facts.numbers)} numbers are within their bars with probability {sure}"
        lines += [("Answer", "see the table"), ("Error bars", bar)]
        tables = (_numbers(facts),)
    source = "drawn from a seed, so whoever knows the seed can subtract it"
    if facts.private:
        source = "drawn from the operating system's secure source"
    lines += [*occasion(facts.release), ("Noise", f"{words.noise(facts.plan)}; {source}")]
    if facts.rounding is not None:
        lines.append(("Rounding", facts.rounding))
    return Section("answer", "Release", single(lines), tables)


def occasion(facts: Any) -> list[tuple[str, str]]:
    """Return the records of a release or a series, and the time of the draw, as lines."""
    again = "yes, and given again; nothing was spent"
    return [
        ("Records", scope.records(facts.rows, facts.persons)),
        ("Window", scope.window(facts.window)),
        ("Groups", scope.groups(facts.groups)),
        ("Drawn", scope.drawn(facts.made)),
        ("Recorded earlier", again if facts.replayed else "no: drawn for this release"),
    ]


def _numbers(facts: Facts) -> ReportTable:
    names = [
        name
        for name in ("group", "state")
        if any(getattr(number, name) is not None for number in facts.numbers)
    ]
    rows = tuple(
        (*(str(getattr(number, name)) for name in names), number.shown(), above(number.within, 6))
        for number in facts.numbers
    )
    selects = facts.plan.noise.query.selects
    title, bar = (
        ("Selected states", "falls short by") if selects else ("Released numbers", "within")
    )
    return ReportTable(title, (*names, "released", bar), rows, len(names))


def guarantee_section(
    plan: Plan[Any],
    method: str | None = None,
    proved_for: str | None = None,
    conditions: tuple[str, ...] = (),
) -> Section:
    """Return the section of the guarantee: its attackers, its proof, the data it covers."""
    leak = plan.leakage
    by = f"method '{method or plan.method}'" + (f"; {leak.citation}" * bool(leak.citation))
    means = words.odds_sentence(plan) if plan.delta else _belief(leak)
    lines: list[tuple[str, tuple[str, ...]]] = [
        ("Guarantee", (words.sentence(plan.guarantee(*conditions)),)),
        ("Meaning", (premise(plan) + means,)),
        *_levels(plan),
        ("Unit of privacy", (words.unit(plan),)),
        ("Covered", (words.covered(plan),)),
        ("Not covered", tuple(words.not_covered(plan))),
        ("Assumes", leak.assumptions or ("nothing",)),
        ("Proved by", (by,)),
    ]
    if proved_for is not None:
        lines.append(("Proved for", (proved_for,)))
    if leak.witness is not None:
        attack = words.attack(leak.witness, longer=plan.length is None)
        lines.append(("Worst known attack", (f"{attack}: a gain of {below(leak.lower)}",)))
    return Section("guarantee", "Guarantee", tuple(lines))


def _levels(plan: Plan[Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the cost of a release with Gaussian noise in zCDP and Gaussian DP, as a line."""
    text = words.levels(plan) if plan.task == "answer" else None
    return [] if text is None else [("Each release", (text,))]


def _belief(leak: Leakage) -> str:
    """Return the effect of the factor on even odds in words."""
    leakage, window = leak.upper, leak.secret.window
    if math.isinf(leakage):
        return "an attacker may become certain: the leakage is unbounded"
    share = 100 / (1 + math.exp(-leakage))
    if share > 99.9:
        return f"odds of one to one can become {odds(leakage)} to one"
    what = "values of the record" if window == 1 else "histories of the window"
    return (
        f"someone who thought two {what} equally likely before will think neither "
        f"more than {above(math.nextafter(share, math.inf), 3)}% likely afterwards"
    )


def model_section(plan: Plan[Any], source: str | None, fingerprint: str | None) -> Section:
    """Return the section of the model of dependence, with a reference to its exact parameters."""
    lines = [("Model", plan.model.describe())]
    if plan.states:
        shown = ", ".join(str(state) for state in plan.states[:12])
        more = f" and {len(plan.states) - 12} more" if len(plan.states) > 12 else ""
        lines.append(("States", shown + more))
    lines.append(("Records", str(plan.model.records) or "not stated"))
    numbers, place = parameters(plan.model), found_in(fingerprint)
    where = f"below, to six digits; exactly in {place}" if numbers.matrices else f"in {place}"
    origin = (*words.origin(plan.model), *((source,) if source else ()))
    lines += [
        ("Parameters", f"{numbers.size}, {where}"),
        ("Origin", "; ".join(origin) or "not stated"),
    ]
    memory = reach(plan.model)
    if memory is not None:
        lines.insert(1, ("Memory", memory))
    tables = tuple(
        ReportTable(
            matrix.caption, ("from", *(f"to {state}" for state in matrix.states)), matrix.rows()
        )
        for matrix in numbers.matrices
    )
    return Section("model", "Model of dependence", single(lines), tables)


def checks_section(plan: Plan[Any]) -> Section:
    """Return the section of the checks of the model, and of the cost of failures."""
    title = "Checks of the model"
    if not plan.checks:
        text = "nothing: a model that is stated, not fitted, has no checks"
        return Section("checks", title, (("Checked", (text,)),))
    failed = sum(check.outcome == "failed" for check in plan.checks)
    summary = f"{failed} of {len(plan.checks)} failed" if failed else "none failed"
    origins = tuple(dict.fromkeys(check.origin for check in plan.checks))
    lines = [("Summary", (summary,)), ("Basis", origins)]
    for check in plan.checks:
        cost = (check.cost(),) if check.leakage is not None else ()
        lines.append((words.sentence(check.name), (f"{check.outcome}: {check.words}", *cost)))
    return Section("checks", title, tuple(lines))


def _comparison(facts: Facts) -> Section:
    own, *others = facts.alternatives
    mixed = bool(facts.plan.delta)  # a scale and a sigma cannot be compared
    rows = tuple(
        (
            row.method + (" (this release)" if row is own else ""),
            # a table has no scale
            row.noise.describe() if mixed else "-" if row.scale is None else above(row.scale, 5),
            f"{row.error:.4g}",
            f"{row.error / own.error:.3g}" if own.error else "-",
            "certified" if row.certified else "published",
        )
        for row in (own, *others)
        if row.noise is not None and row.error is not None
    )
    whom = "any attacker" if facts.plan.against == "any" else "the attackers covered"
    table = ReportTable(
        f"Noise that other methods need for the same guarantee against {whom}",
        ("method", "noise" if mixed else "scale", "expected error", "times this one", "basis"),
        rows,
    )
    lines = [("Basis", _BASIS)]
    lines += [
        (row.method, f"does not apply: {' '.join(row.reason.split())}")
        for row in others
        if row.reason is not None
    ]
    return Section("comparison", "Other methods", single(lines), (table,))


_BASIS = "certified: proved by this program; published: as printed in a paper, for comparison"


def proof_section(
    facts: Any, fingerprint: str | None, sampler: str, versions: Mapping[str, str]
) -> Section:
    """Return the section of the data that verify the report."""
    lines = [
        ("Plan", fingerprint or "no fingerprint: the plan cannot be written to a file"),
        ("Release", facts.release_id or "none"),
        ("Ledger entry", facts.entry or "not accounted in a ledger"),
        ("Sampler", sampler),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]
    return Section("proof", "Verification", single(lines))


def single(lines: list[tuple[str, str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return labelled sentences as lines of a section."""
    return tuple((label, (text,)) for label, text in lines)


_SAMPLER = "exact: probabilities are multiples of 2^-53, compared with random bits"
_MOST = 40
"""Rows of a table of erasures; the plan file has all."""


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """The content of a report of a randomised series, independent of the records.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> plan = Plan(RandomizedResponse.binary(.25, .25), chain, 3.0,
    ...             Leakage(2.0, 2.0, "exact", "any"), "exact")
    >>> SeriesFacts(plan, rows=90, persons=3).to_dict()["question"]
    'the whole series, each record flipped at random'
    """

    plan: Plan[LocalMechanism]
    rows: int
    persons: int
    randomness: str = "secure"
    foreign: str = ""
    release_id: str | None = None
    entry: str | None = None
    source: str | None = None
    made: str = ""
    replayed: bool = False
    window: tuple[Any, Any] | None = None
    groups: tuple[Any, ...] | None = None
    conditions: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as one JSON-ready object."""
        plan = self.plan
        return {
            "format": "undertow-report",
            "version": 1,
            "audience": plan.audience,
            "question": plan.query.words(),
            **occasion_fields(self),
            "randomness": self.randomness,
            "measures": dict(plan.measures),
            "promise": guarantee_fields(plan, self.conditions),
            "model": model_fields(plan, self.source, plan.fingerprint()),
            "checks": check_fields(plan),
            "foreign": self.foreign or None,
            "plan": plan.fingerprint(),
            "release_id": self.release_id,
            "ledger_entry": self.entry,
            "versions": _versions(),
        }


def series_sections(facts: SeriesFacts) -> list[Section]:
    """Return all sections, in the order of reading."""
    return [
        _shown(facts),
        guarantee_section(facts.plan, conditions=facts.conditions),
        model_section(facts.plan, facts.source, facts.plan.fingerprint()),
        checks_section(facts.plan),
        proof_section(facts, facts.plan.fingerprint(), _SAMPLER, _versions()),
    ]


def _shown(facts: SeriesFacts) -> Section:
    plan = facts.plan
    lines = [("Question", plan.query.words()), *occasion(facts)]
    measures = [words.measure(name, value) for name, value in plan.measures]
    lines += [(words.sentence(label), text) for label, text in measures]
    lines += [("Foreign", facts.foreign)] if facts.foreign else []
    return Section("answer", "Release", single(lines), _tables(plan))


def _tables(plan: Plan[LocalMechanism]) -> tuple[ReportTable, ...]:
    mechanism = plan.mechanism
    states = [str(state) for state in plan.states]
    if isinstance(mechanism, XorNoise):
        rows = (
            ("kept before", above(mechanism.rho0)),
            ("flipped before", above(1 - mechanism.rho1)),
        )
        return (ReportTable("Probability of a flip", ("the record before", "flip"), rows),)
    if isinstance(mechanism, RandomizedResponse):
        rows_ = tuple(
            (state, *(f"{probability:.6g}" for probability in row))
            for state, row in zip(states, mechanism.matrix.tolist(), strict=True)
        )
        header = ("true state", *(f"shown as {output}" for output in mechanism.names(plan.states)))
        return (ReportTable("Probability of each output, given the state", header, rows_),)
    return (_erasures(mechanism, states),)


def _erasures(mechanism: Redaction, states: list[str]) -> ReportTable:
    touched = np.flatnonzero(mechanism.probabilities.any(axis=1)).tolist()
    rows = tuple(
        (f"{record}" + (" (protected)" if record in mechanism.protect else ""),
         *(f"{probability:.6g}" for probability in mechanism.probabilities[record].tolist()))
        for record in touched[:_MOST]
    )  # fmt: skip
    more = f" (the first {_MOST} of {len(touched)} records)" if len(touched) > _MOST else ""
    caption = f"Probability of an erasure; all other records are shown{more}"
    return ReportTable(caption, ("record", *(f"if {state}" for state in states)), rows)


def _versions() -> dict[str, str]:
    return {"undertow": __version__, "Python": platform.python_version()}
