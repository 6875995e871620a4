"""What a recomputation found: a number beside the printed one, a claim that holds or not.

No verdict is written down anywhere: each follows from two numbers and a tolerance.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

from undertow.errors import InvalidInput
from undertow_papers.charts import Chart

__all__ = [
    "VERDICTS",
    "Claim",
    "Compared",
    "Finding",
    "Improved",
    "Listing",
    "Origin",
    "Parts",
    "Recomputed",
    "Verdict",
    "WorstCase",
]  # fmt: skip

Verdict = Literal["reproduced", "differs", "corrected", "improved", "not improved"]

VERDICTS: tuple[Verdict, ...] = (
    "reproduced", "improved", "corrected", "differs", "not improved",
)  # fmt: skip
"""All verdicts, in the order of tables."""

Source = Literal["printed", "digitised", "derived", "code"]
Relation = Literal["<=", ">=", "=="]


def _broken_by(relation: Relation, ours: float, theirs: float) -> float:
    """Return by how much a relation is missed, negative where it holds with room to spare."""
    return {"<=": ours - theirs, ">=": theirs - ours, "==": abs(ours - theirs)}[relation]


@dataclass(frozen=True, slots=True)
class Compared:
    """A number of a paper beside ours: reproduced, or it differs, and then with a cause.

    ``tolerance`` is absolute and holds the reading error of a digitised value, the rounding of a
    printed one, and our own statistical error; ``source`` says where theirs comes from. A paper
    that is wrong is *corrected*: say so with ``wrong``, the reason, and only where the number
    proves it. ``cause`` is required where a number differs.

    >>> Compared("rho at epsilon 1", ours=.36492, theirs=.365, tolerance=5e-4).verdict
    'reproduced'
    >>> Compared("scale", ours=4.0, theirs=5.0, tolerance=.1, cause="another start").verdict
    'differs'
    """

    name: str
    ours: float
    theirs: float
    tolerance: float
    source: Source = "printed"
    cause: str = ""
    wrong: str = ""

    @property
    def holds(self) -> bool:
        """Whether both numbers agree within the tolerance."""
        return abs(self.ours - self.theirs) <= self.tolerance

    @property
    def verdict(self) -> Verdict:
        """What follows from the two numbers."""
        if self.holds:
            return "reproduced"
        return "corrected" if self.wrong else "differs"

    @property
    def why(self) -> str:
        """The reason where the numbers do not agree, empty where they do."""
        return "" if self.holds else self.wrong or self.cause or "cause unknown"


@dataclass(frozen=True, slots=True)
class Claim:
    """A theorem as an inequality ``ours <= theirs`` (or >=): it held here, or it is refuted.

    ``ours`` is the value found at its worst, ``theirs`` the bound that the paper claims there, and
    ``tolerance`` absolute. A refuted claim is *corrected*: ``witness`` says where it breaks.

    >>> Claim("leakage at epsilon 4", ours=4.5237, theirs=4.0, witness="K = {1, 17}").verdict
    'corrected'
    """

    name: str
    ours: float
    theirs: float
    tolerance: float = 1e-9
    relation: Relation = "<="
    witness: str = ""

    @property
    def holds(self) -> bool:
        """Whether the claim held for what was computed."""
        return _broken_by(self.relation, self.ours, self.theirs) <= self.tolerance

    @property
    def verdict(self) -> Verdict:
        """What follows from the two numbers."""
        return "reproduced" if self.holds else "corrected"

    @property
    def why(self) -> str:
        """Where the claim breaks, empty where it holds."""
        return "" if self.holds else self.witness or "no witness"


@dataclass(frozen=True, slots=True)
class Improved:
    """A cost of a paper's method beside the least we prove: smaller is better.

    >>> Improved("scale at epsilon 1", ours=3.9948, theirs=15264.0).factor > 3000
    True
    """

    name: str
    ours: float
    theirs: float
    larger_is_better: bool = False
    cause: str = ""

    @property
    def factor(self) -> float:
        """How many times better ours is."""
        if self.larger_is_better:
            return self.ours / self.theirs if self.theirs else math.inf
        return self.theirs / self.ours if self.ours else math.inf

    @property
    def holds(self) -> bool:
        """Whether ours is better."""
        return self.factor > 1 + 1e-9

    @property
    def verdict(self) -> Verdict:
        """What follows from the two numbers."""
        return "improved" if self.holds else "not improved"

    @property
    def why(self) -> str:
        """By how much, or why not."""
        return f"{self.factor:.4g} times better" if self.holds else self.cause or "nothing to gain"


Finding = Compared | Claim | Improved


@dataclass(slots=True)
class WorstCase:
    """The case, of all that are offered, in which a relation is closest to breaking or broken most.

    >>> tried = WorstCase()
    >>> for number in (1.0, 3.0, 2.0):
    ...     tried.offer(number, 2.5, f"epsilon {number:g}")
    >>> tried.claim("leakage").why, tried.broken, tried.tried
    ('epsilon 3', 1, 3)
    """

    relation: Relation = "<="
    ours: float = 0.0
    theirs: float = 0.0
    where: str = ""
    tried: int = 0
    broken: int = 0
    _by: float = -math.inf

    @classmethod
    def of(
        cls, cases: Iterable[tuple[float, float, str]], relation: Relation = "<="
    ) -> "WorstCase":
        """Return the worst of all; of several that are as bad, the first."""
        worst = cls(relation)
        for ours, theirs, where in cases:
            worst.offer(ours, theirs, where)
        return worst

    def offer(self, ours: float, theirs: float, where: str = "") -> None:
        """Take one more pair of numbers, and where it is found."""
        by = _broken_by(self.relation, ours, theirs)
        self.tried += 1
        self.broken += by > 1e-9
        if by > self._by:
            self.ours, self.theirs, self.where, self._by = ours, theirs, where, by

    def claim(self, name: str, tolerance: float = 1e-9) -> Claim:
        """Return the relation at its worst, to be judged."""
        return Claim(name, self.ours, self.theirs, tolerance, self.relation, self.where)

    def compared(self, name: str, tolerance: float) -> Compared:
        """Return the pair that is farthest apart, theirs a formula of the paper."""
        return Compared(name, self.ours, self.theirs, tolerance, "derived")


class Listing(NamedTuple):
    """Numbers side by side: a title, the heads of its columns, and its rows as text."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Whether a result was computed on the real data set, or on a synthetic stand-in."""

    real: bool


Parts = Iterator[Finding | Chart | Listing | Origin | str]
"""What a result yields: findings, charts, tables, which data it has seen, and notes (text)."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What the recomputation of one result gave: findings, charts, and remarks.

    ``data`` says what it was computed on: the real data set, a synthetic stand-in, or nothing.
    """

    findings: tuple[Finding, ...]
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()
    data: Literal["none", "real", "stand-in"] = "none"
    tables: tuple[Listing, ...] = field(default=(), kw_only=True)

    @classmethod
    def of(cls, parts: Parts) -> Self:
        """Return the outcome of all that a result yields, each kind in its order.

        >>> Recomputed.of(iter(["a note", Claim("leakage", 1.0, 2.0), Origin(real=True)])).data
        'real'
        """
        listed = list(parts)

        def all_of(kind: Any) -> tuple[Any, ...]:
            return tuple(part for part in listed if isinstance(part, kind))

        data: Literal["none", "real", "stand-in"] = "none"
        for origin in all_of(Origin):
            data = "real" if origin.real else "stand-in"
        tables = all_of(Listing)
        return cls(all_of(Finding), all_of(Chart), all_of(str), data, tables=tables)

    def __post_init__(self) -> None:
        """Refuse an outcome without findings, and findings that are no numbers."""
        if not self.findings:
            raise InvalidInput("a result needs at least one finding")
        for finding in self.findings:
            if math.isnan(finding.ours) or math.isnan(finding.theirs):
                raise InvalidInput(f"the finding {finding.name!r} is not a number")

    @property
    def verdicts(self) -> dict[Verdict, int]:
        """How many findings have each verdict."""
        return Counter(finding.verdict for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "data": self.data,
            "notes": list(self.notes),
            "findings": [
                {
                    "kind": type(finding).__name__.lower(),
                    "name": finding.name,
                    "ours": finding.ours,
                    "theirs": finding.theirs,
                    "tolerance": getattr(finding, "tolerance", None),
                    "source": getattr(finding, "source", None),
                    "verdict": finding.verdict,
                    "why": finding.why,
                }
                for finding in self.findings
            ],
        }
