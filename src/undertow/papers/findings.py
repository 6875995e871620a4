"""What a recomputation found: a number beside the printed one, a claim that holds or not.

No verdict is written down anywhere: each follows from two numbers and a tolerance.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from undertow.errors import InvalidInput
from undertow.papers.charts import Chart

__all__ = ["VERDICTS", "Claim", "Compared", "Finding", "Improved", "Outcome", "Verdict"]

Verdict = Literal["reproduced", "differs", "corrected", "improved", "not improved"]

VERDICTS: tuple[Verdict, ...] = (
    "reproduced", "improved", "corrected", "differs", "not improved",
)  # fmt: skip
"""All verdicts, in the order of tables."""

Source = Literal["printed", "digitised", "derived", "code"]


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
    relation: Literal["<=", ">=", "=="] = "<="
    witness: str = ""

    @property
    def holds(self) -> bool:
        """Whether the claim held for what was computed."""
        apart = self.ours - self.theirs
        match self.relation:
            case "<=":
                return apart <= self.tolerance
            case ">=":
                return apart >= -self.tolerance
            case "==":
                return abs(apart) <= self.tolerance

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the recomputation of one result gave: findings, charts, and remarks.

    ``data`` says what it was computed on: the real data set, a synthetic stand-in, or nothing.
    """

    findings: tuple[Finding, ...]
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()
    data: Literal["none", "real", "stand-in"] = "none"
    tables: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]], ...] = field(
        default=(), kw_only=True
    )

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
        found: dict[Verdict, int] = {}
        for finding in self.findings:
            found[finding.verdict] = found.get(finding.verdict, 0) + 1
        return found

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
