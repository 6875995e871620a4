"""Play the attacker on a chain: a strip of records, what is known of them, and what came out.

The strip is a stretch of the series. Of records beyond it the attacker sees and knows nothing,
except where the proof of a plan is about one answer on the whole series: then all records beyond
the strip are known, and so are its ends. Given the ends, what lies beyond says nothing more.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import Redaction
from undertow.models.chains import MarkovChain
from undertow.numerics import check_count
from undertow.plan import Plan
from undertow.queries import State
from undertow_studio.views.attacker import ValueBelief, guess_of, without_limit
from undertow_studio.views.cells import Cell, Role
from undertow_studio.views.weighing import weighed

__all__ = ["LONGEST", "SHORTEST", "Strip", "chains_of", "strip_of"]

SHORTEST, LONGEST = 3, 40
"""Records of a strip that people can look at."""

MOST = 2000
"""Records of a strip that are weighed at all (cost)."""


def chains_of(plan: Plan[Any]) -> list[MarkovChain]:
    """Return the chain of a plan, or chains of its class; refuse plans of other kinds of models."""
    members = plan.model.members()
    models = [one for member in members for one in (member.examples(plan.query) or [member])]
    found = [model for model in models if isinstance(model, MarkovChain)]
    if not found:
        raise NotSupported(
            f"a strip of records is for chains; this plan is for a {type(plan.model).__name__}"
        )
    return found


@dataclass(frozen=True, slots=True)
class Strip:
    """A stretch of records under attack: the target, what is known, and what came out.

    Records are numbered as in the series; ``first`` is the first of the strip. ``outputs`` are what
    a flipped or redacted series shows (None: erased); records without one are not looked at.
    ``answer`` is a noisy answer about the records of the strip; of a histogram of two states one
    for each, or the last one alone. ``rates`` stand for what another algorithm of the same DP
    level shows: a likelihood exp(rate) for each state of a record. ``window`` names the records
    that are counted, the first and one after the last; None means all. ``which`` chooses a chain
    where the plan is for several: its limit holds for each.
    """

    plan: Plan[Any]
    first: int
    length: int
    target: int
    known: Mapping[int, State] = field(default_factory=dict)
    outputs: Mapping[int, State | None] = field(default_factory=dict)
    answer: float | tuple[float, ...] | None = None
    rates: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    window: tuple[int, int] | None = None
    which: int = 0

    def __post_init__(self) -> None:
        """Check that everything lies on the strip."""
        check_count(self.first, "first record", 0)
        if not SHORTEST - 1 <= check_count(self.length, "length", 1) <= MOST:
            raise InvalidInput(f"a strip has {SHORTEST} to {LONGEST} records, found {self.length}")
        records = range(self.first, self.first + self.length)
        for record in (self.target, *self.known, *self.outputs, *self.rates):
            if record not in records:
                raise InvalidInput(
                    f"record {record} is not on the strip of records {records.start} to "
                    f"{records.stop - 1}"
                )
        if self.target in self.known:
            raise InvalidInput(f"record {self.target} is the target: it cannot be known")
        for record, state in self.known.items():
            if state not in self.plan.states:
                raise InvalidInput(f"record {record} is known to be {state!r}: no such state")

    @property
    def chain(self) -> MarkovChain:
        """The law of the records."""
        found = chains_of(self.plan)
        return found[self.which % len(found)]

    @property
    def fixed(self) -> tuple[int, ...]:
        """The ends of the strip that are known in any case, with all that lies beyond them."""
        if not self.part or self.plan.against not in ("any", "informed"):
            return ()
        last, whole = self.first + self.length - 1, self.plan.length or math.inf
        ends = ((self.first, self.first > 0), (last, last < whole - 1))
        return tuple(record for record, inner in ends if inner and record != self.target)

    @property
    def part(self) -> bool:
        """Whether the plan's proof is about longer series than the strip, and no part of them."""
        whole = self.plan.length
        return (
            self.plan.task == "answer"
            and self.plan.leakage.valid_for == "series"
            and whole is not None
            and self.length < whole
        )

    def knowing(self, record: int, state: State | None) -> "Strip":
        """Return the strip with one record known to be in a state, or forgotten (None)."""
        known = {one: value for one, value in self.known.items() if one != record}
        if state is not None:
            known[record] = state
        elif record in self.fixed:
            raise InvalidInput(f"record {record} is an end of the strip: it stays known")
        return replace(self, known=dict(sorted(known.items())))

    def toggled(self, record: int) -> "Strip":
        """Return the strip after a click: unknown, then known in each state in turn, then unknown.

        >>> from undertow import Count, calibrate
        >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "busy"))
        >>> strip = strip_of(calibrate(Count("busy"), chain, limit=1.0), length=7)
        >>> [dict(strip.toggled(2).known), dict(strip.toggled(2).toggled(2).known)]
        [{2: 'idle'}, {2: 'busy'}]
        """
        if record == self.target:
            raise InvalidInput(f"record {record} is the target: it cannot be known")
        cycle: tuple[State | None, ...] = (
            self.plan.states if record in self.fixed else (*self.plan.states, None)
        )
        now = self.known.get(record)
        return self.knowing(record, cycle[(cycle.index(now) + 1) % len(cycle)])

    def guess(self, value: State | None = None) -> ValueBelief:
        """Return what the attacker believes of a value of the target, by default the last state."""
        missing = [record for record in self.fixed if record not in self.known]
        if missing:
            raise InvalidInput(
                f"record {missing[0]} is an end of the strip, beyond which all is known: say its "
                "state"
            )
        chain = self.chain
        prior, likelihoods = weighed(self, chain)
        wanted = chain.states[-1] if value is None else value
        known = [*self.known]
        if self.fixed:  # beyond the strip all is known
            whole, last = self.plan.length or 0, self.first + self.length - 1
            known += [r for r in range(whole) if not self.first <= r <= last]
        found = guess_of(self.plan, self.target, wanted, prior, likelihoods, known, chain.states)
        if self.part and not self.fixed and math.isfinite(found.limit):
            return without_limit(found, "the plan is made for an answer about the whole series")
        return found

    def cells(self) -> tuple[Cell, ...]:
        """Return the records as they are drawn; of a long strip those around the target."""
        made = []
        half = LONGEST // 2
        low = max(self.first, min(self.target - half, self.first + self.length - LONGEST))
        for record in range(low, min(self.first + self.length, low + LONGEST)):
            role: Role = "known" if record in self.known else "unknown"
            if record == self.target:
                role = "target"
            erased = record in self.outputs and self.outputs[record] is None
            shown = self.outputs.get(record)
            made.append(
                Cell(
                    record,
                    role,
                    str(self.known.get(record, "")),
                    "" if shown is None else str(shown),
                    erased,
                    why=self._why(record),
                )
            )
        return tuple(made)

    def _why(self, record: int) -> str:
        """Return why a record goes, or that it is known in any case."""
        if record in self.fixed:
            return "all records beyond are known too"
        channel = self.plan.mechanism
        if not isinstance(channel, Redaction):
            return ""
        rates = channel.probabilities[record]
        if record in channel.protect:
            return "protected: always erased"
        if (rates >= 1).all():
            return f"always erased: it tells too much about record {self.target}"
        if not rates.any():
            return "always shown"
        return "erased " + ", ".join(
            f"{rate:.0%} of the time when {state}"
            for rate, state in zip(rates, self.plan.states, strict=True)
        )


def strip_of(plan: Plan[Any], length: int = 21, target: int | None = None) -> Strip:
    """Return a strip around a target, with nothing seen yet and its fixed ends known.

    The target is by default the protected record of a redaction, else the middle.

    >>> from undertow import Redacted, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> strip = strip_of(calibrate(Redacted(protect=10, length=50), chain, limit=1.0), length=11)
    >>> strip.first, strip.target, strip.length
    (5, 10, 11)
    """
    whole = plan.mechanism.length or plan.length
    size = min(check_count(length, "length", SHORTEST), whole or length)
    alone = (
        plan.task == "answer" and plan.leakage.valid_for == "series" and plan.against == "ignorant"
    )
    if alone and whole is not None and whole <= MOST:
        size = whole  # nothing is known: the answer is about the whole series
    records = plan.leakage.secret.targets
    middle = records[0] if records else ((whole or size) // 2 if whole else size // 2)
    target = middle if target is None else target
    first = target - size // 2
    first = max(0, first if whole is None else min(first, whole - size))
    if whole is None:
        first = 0
    strip = Strip(plan, first, size, target)
    common = strip.chain.states[int(np.argmax(strip.chain.initial))]
    for record in strip.fixed:
        strip = strip.knowing(record, common)
    if plan.task == "redact":
        gone = plan.mechanism.probabilities.min(axis=1) >= 1
        outputs = {r: None for r in range(first, first + size) if gone[r]}
        strip = replace(strip, outputs=outputs)
    return strip
