"""Plans for series in words: how records are flipped or erased, and what stays of the series."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from undertow.cli.output import above, interval
from undertow.cli.tables import show_table

if TYPE_CHECKING:
    from undertow.channels import RandomizedResponse, Redaction
    from undertow.plan import Plan
    from undertow.queries import State

__all__ = [
    "counted_words",
    "is_local",
    "local_rows",
    "measure_rows",
    "show_probabilities",
    "uncovered",
    "verb_of",
]

_DIGITS = 6
_MOST_STATES, _MOST_RECORDS, _MOST_RUNS = 12, 20, 6
"""What is shown of a large plan; the plan file has all of it."""


def is_local(plan: "Plan[Any]") -> bool:
    """Return whether a plan is for a series, not for a curator's answer."""
    return plan.task != "answer"


def verb_of(plan: "Plan[Any]") -> str:
    """Return the command that carries a plan out."""
    return {"answer": "release", "flip": "sanitize", "redact": "redact"}[plan.task]


def local_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return what a plan for a series does to the records, and what it leaks."""
    return [*_randomised(plan), *measure_rows(plan), *_levels(plan), ("leakage", _leakage(plan))]


def measure_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return how much of the series stays, and how much could."""
    from undertow.reporting.words import measure

    return [measure(name, value) for name, value in plan.measures]


def uncovered(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return whom the guarantee leaves out, nothing where it covers every attacker."""
    from undertow.reporting.words import not_covered

    if plan.against == "any" or plan.unit == "person":
        return []
    return [("NOT covered", not_covered(plan)[0])]


def show_probabilities(plan: "Plan[Any]") -> None:
    """Print the channel of a plan, or its erasures, where a row cannot hold the probabilities."""
    mechanism = plan.mechanism
    if mechanism.kind == "redaction":
        _show_erasures(plan, mechanism)
    elif mechanism.kind == "flips" and _brief(plan, mechanism) is None:
        _show_channel(plan, mechanism)


def runs(records: Iterable[int]) -> str:
    """Return records in words, neighbours told together.

    >>> runs([3, 4, 5, 9]), runs([7])
    ('records 3 to 5, 9', 'record 7')
    """
    from undertow.reporting.words import record_ends

    records = list(records)
    if not records:
        return ""
    found = [ends for ends, _ in record_ends((record, None) for record in records)]
    more = f" and {len(found) - _MOST_RUNS} more runs" if len(found) > _MOST_RUNS else ""
    return f"record{'s' * (len(records) > 1)} " + ", ".join(found[:_MOST_RUNS]) + more


def _randomised(plan: "Plan[Any]") -> list[tuple[str, str]]:
    mechanism = plan.mechanism
    if mechanism.kind == "redaction":
        return _erased(mechanism)
    if mechanism.kind != "flips":
        return [
            ("flips", f"each record {_likely(mechanism.flip_rate)}, in runs"),
            ("flips begin", f"{_likely(mechanism.rho0)} after a record that is kept"),
            ("flips end", f"{_likely(mechanism.rho1)} after a record that is flipped"),
        ]
    return [("flips", _brief(plan, mechanism) or "see the table")]


def _brief(plan: "Plan[Any]", channel: "RandomizedResponse") -> str | None:
    """Return a channel in a line, None where it takes a table."""
    matrix = channel.matrix.tolist()
    states, named = [repr(state) for state in plan.states], channel.outputs is None
    rows = list(map(tuple, matrix))
    if len(set(rows)) == 1:
        return "the output does not depend on the record: nothing is shown"
    if len(rows) != len(rows[0]) or not named:
        return None
    if len(rows) == 2:
        first, second = rows[0][1], rows[1][0]
        if first == second:
            return f"either state {_likely(first)}"
        return f"{states[0]} {_likely(first)}, {states[1]} with {_probability(second)}"
    kept = {row[place] for place, row in enumerate(rows)}
    moved = {p for place, row in enumerate(rows) for other, p in enumerate(row) if other != place}
    if max(kept) - min(kept) <= _SAME and max(moved) - min(moved) <= _SAME:
        return f"every state {_likely(1 - min(kept))}, to each other state alike"
    return None


_SAME = 1e-12
"""Probabilities that differ by less are told as one; the plan file has the exact ones."""


def _show_channel(plan: "Plan[Any]", channel: "RandomizedResponse") -> None:
    names = [str(name) for name in plan.mechanism.names(plan.states)]
    header = ["", *(f"shown as {name}" for name in names[:_MOST_STATES])]
    rows = [
        [str(state), *map(_probability, row[:_MOST_STATES])]
        for state, row in zip(plan.states, channel.matrix.tolist(), strict=True)
    ][:_MOST_STATES]
    cut = max(len(names), len(plan.states)) > _MOST_STATES
    more = f" (the first {_MOST_STATES} of each; the plan file has all)" if cut else ""
    show_table(f"How likely each state is shown as each output{more}", header, rows)


def _erased(mechanism: "Redaction") -> list[tuple[str, str]]:
    always, at_times = _always(mechanism), _at_times(mechanism)
    shown = mechanism.length - len(always) - len(at_times)
    return [
        ("always erased", runs(always)),
        ("erased at times", runs(at_times) or "none"),
        ("always shown", f"{shown} of {mechanism.length} records"),
    ]


def _always(mechanism: "Redaction") -> list[int]:
    rows = enumerate(mechanism.probabilities.tolist())
    return [record for record, row in rows if min(row) == 1]


def _at_times(mechanism: "Redaction") -> list[int]:
    rows = enumerate(mechanism.probabilities.tolist())
    return [record for record, row in rows if max(row) > 0 and min(row) < 1]


def _show_erasures(plan: "Plan[Any]", mechanism: "Redaction") -> None:
    """Print how likely records are erased that are so at times, those nearest to a secret first."""
    table, touched = mechanism.probabilities, _at_times(mechanism)
    if not touched:
        return
    nearest = sorted(touched, key=lambda r: min(abs(r - secret) for secret in mechanism.protect))
    shown = sorted(nearest[:_MOST_RECORDS])
    more = f" (the nearest {len(shown)} of {len(touched)})" if len(shown) < len(touched) else ""
    states = plan.states[:_MOST_STATES]
    rows = [
        [f"{record}", *(_probability(table[record][place]) for place in range(len(states)))]
        for record in shown
    ]
    show_table(
        f"How likely a record is erased, by its state{more}",
        ["record", *(f"if {state}" for state in states)],
        rows,
    )


def _levels(plan: "Plan[Any]") -> list[tuple[str, str]]:
    if plan.task == "redact":
        return []
    if plan.mechanism.kind != "flips":
        return [("DP level", "none is known: the flips depend on each other")]
    level = plan.dp_epsilon
    return [("DP level", "none: an output excludes a state" if math.isinf(level) else above(level))]


def _leakage(plan: "Plan[Any]") -> str:
    found, allowed = interval(plan.leakage), f"{plan.limit:g}"
    if plan.leakage.proves(plan.limit):
        return f"{found}; {allowed} is allowed"
    if plan.leakage.lower > plan.limit:
        return f"{found}; MORE than the {allowed} that is allowed"
    return f"{found}; NOT proved to be the {allowed} that is allowed"


def _probability(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


def _likely(value: float) -> str:
    return f"with probability {_probability(value)}"


def counted_words(state: "State | None") -> str:
    """Return what records that are no states count as, nothing where they are refused.

    >>> counted_words("idle")
    "records that are missing or no state of the plan count as 'idle'"
    """
    if state is None:
        return ""
    return f"records that are missing or no state of the plan count as {state!r}"
