"""The report of a series that was flipped or redacted record by record."""

import platform
from dataclasses import dataclass
from typing import Any

import numpy as np

from undertow._version import __version__
from undertow.channels import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.plan import Plan
from undertow.reporting import words
from undertow.reporting.facts import (
    check_fields,
    guarantee_fields,
    model_fields,
    occasion_fields,
)
from undertow.reporting.sections import (
    ReportTable,
    Section,
    checks_section,
    guarantee_section,
    model_section,
    occasion,
    proof_section,
    sentence,
    single,
)
from undertow.rounding import above

__all__ = ["SeriesFacts", "series_sections"]

_SAMPLER = "exact: probabilities are multiples of 2^-53, compared with random bits"
_MOST = 40
"""Rows of a table of erasures: more are left to the plan file."""


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """What a report says about a randomised series; nothing of it depends on the records.

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
    told = [words.measure(name, value) for name, value in plan.measures]
    lines += [(sentence(label), said) for label, said in told]
    lines += [("Foreign", facts.foreign)] if facts.foreign else []
    return Section("answer", "What was released", single(lines), _tables(plan))


def _tables(plan: Plan[LocalMechanism]) -> tuple[ReportTable, ...]:
    mechanism = plan.mechanism
    states = [str(state) for state in plan.states]
    if isinstance(mechanism, XorNoise):
        rows = (
            ("kept before", above(mechanism.rho0)),
            ("flipped before", above(1 - mechanism.rho1)),
        )
        return (ReportTable("How likely a record is flipped", ("the record before", "flip"), rows),)
    if isinstance(mechanism, RandomizedResponse):
        rows_ = tuple(
            (state, *(f"{probability:.6g}" for probability in row))
            for state, row in zip(states, mechanism.matrix.tolist(), strict=True)
        )
        header = ("true state", *(f"shown as {output}" for output in mechanism.names(plan.states)))
        return (ReportTable("How likely each state is shown as each output", header, rows_),)
    return (_erasures(mechanism, states),)


def _erasures(mechanism: Redaction, states: list[str]) -> ReportTable:
    touched = np.flatnonzero(mechanism.probabilities.any(axis=1)).tolist()
    rows = tuple(
        (f"{record}" + (" (protected)" if record in mechanism.protect else ""),
         *(f"{probability:.6g}" for probability in mechanism.probabilities[record].tolist()))
        for record in touched[:_MOST]
    )  # fmt: skip
    more = f" (the first {_MOST} of {len(touched)} records)" if len(touched) > _MOST else ""
    caption = f"How likely a record is erased; all others are shown{more}"
    return ReportTable(caption, ("record", *(f"if {state}" for state in states)), rows)


def _versions() -> dict[str, str]:
    return {"undertow": __version__, "Python": platform.python_version()}
