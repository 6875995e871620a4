"""How attackers fared: what was right, what that charges, and what was guaranteed."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from undertow.adversaries import Against, words
from undertow.auditing.guarantees import average_bound
from undertow.rounding import above

__all__ = ["Attack", "Verdict"]

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one attacker fared against the targets.

    ``accuracy`` is the share of targets guessed right and ``interval`` what it says about the
    probability to be right; ``prior`` that without any output (by the model and what is known).
    ``worst`` is the furthest that the outputs moved the odds between two states of one target, as
    a logarithm, at ``place`` (series and record; None for attackers who give no odds): whatever
    is drawn, it stays below the leakage of a plan that ``covers`` the attacker. ``bound`` is what
    the plan guarantees for the accuracy, on average over data and outputs; None where it guarantees
    nothing about these secrets.

    >>> print(Verdict("lstm", .8, (.75, .85), .5, None, None, .88, True, 200))
    lstm: 0.8 right (0.75 to 0.85), 0.3 more than the prior, charges 1.386; at most 0.88 guaranteed
    """

    attacker: str
    accuracy: float
    interval: Interval
    prior: float
    worst: float | None
    place: tuple[int, int] | None
    bound: float | None
    covers: bool
    targets: int

    @property
    def advantage(self) -> float:
        """How much more often than by the prior alone the guess is right."""
        return self.accuracy - self.prior

    @property
    def advantage_interval(self) -> Interval:
        """What the interval of the accuracy says about the advantage."""
        return self.interval[0] - self.prior, self.interval[1] - self.prior

    @property
    def charged(self) -> float:
        """The limit that the success charges: ln of its odds over the odds of the prior.

        Nothing (0) where the prior alone is right as often. A guarantee of limit that covers the
        attacker keeps it below limit, on average. Section 4.1 of [chakrabarti2022].
        """
        return _charge(self.accuracy, self.prior)

    @property
    def charged_interval(self) -> Interval:
        """What the interval of the accuracy says about the limit charged."""
        low, high = self.interval
        return _charge(low, self.prior), _charge(high, self.prior)

    def exceeds(self) -> bool:
        """Return whether even the lower end of the interval is beyond the bound."""
        return self.bound is not None and self.interval[0] > self.bound

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        names = (
            "attacker", "accuracy", "interval", "prior", "advantage", "advantage_interval",
            "charged", "charged_interval", "worst", "place", "bound", "targets",
        )  # fmt: skip
        found = {name: getattr(self, name) for name in names}
        return _plain(found) | {"covered": self.covers, "exceeds": self.exceeds()}

    def guarantee(self) -> str:
        """Return the bound in a few words."""
        if self.bound is None:
            return "nothing guaranteed"
        if not self.covers:
            return f"{above(self.bound, 3)} guaranteed, but not against this attacker"
        return f"at most {above(self.bound, 3)} guaranteed"

    def __str__(self) -> str:
        low, high = self.interval
        more = f"{abs(self.advantage):.3g} {'more' if self.advantage >= 0 else 'less'}"
        return (
            f"{self.attacker}: {self.accuracy:.3g} right ({low:.3g} to {high:.3g}), {more} than "
            f"the prior, charges {self.charged:.4g}; {self.guarantee()}"
        )


@dataclass(frozen=True, slots=True)
class Attack:
    """How all attackers fared against what one plan released.

    What they guess follows from what was released; how often they are right follows from the
    truth, so a report of it is for those who may see the truth.

    >>> one = Verdict("viterbi", .8, (.75, .85), .5, None, None, .88, True, 200)
    >>> Attack((one,), 2.0, "any", 200, 1).verdict("viterbi").accuracy
    0.8
    """

    verdicts: tuple[Verdict, ...]
    limit: float
    against: Against
    records: int
    series: int
    known: tuple[int, ...] = ()
    confidence: float = 0.95
    laws: tuple[tuple[float, tuple[float, ...]], ...] = field(default=(), repr=False)

    def bound(self, limit: float) -> float:
        """Return how often a guess could be right at most, had this limit been guaranteed.

        ``laws`` are the different priors of the targets, each with its share of them.
        """
        shares = np.array([share for share, _ in self.laws])
        bounds = average_bound(np.array([law for _, law in self.laws]), limit)
        return float(np.average(bounds, weights=shares))

    def verdict(self, attacker: str) -> Verdict:
        """Return how one attacker fared."""
        return next(one for one in self.verdicts if one.attacker == attacker)

    def broken(self) -> tuple[Verdict, ...]:
        """Return the attackers whom the guarantee covers and who beat it all the same.

        Beaten it is where the accuracy is surely (at the confidence asked for) beyond the bound,
        or where the odds of one target moved further than the guarantee allows.
        """
        return tuple(one for one in self.verdicts if one.covers and self._beats(one))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        against = self.against
        return {
            "limit": self.limit,
            "against": against if isinstance(against, str) else _plain(asdict(against)),
            "records": self.records,
            "series": self.series,
            "known": list(self.known),
            "confidence": self.confidence,
            "broken": [one.attacker for one in self.broken()],
            "verdicts": [one.to_dict() for one in self.verdicts],
        }

    def __str__(self) -> str:
        head = (
            f"{self.records} records, leakage {above(self.limit)} guaranteed against "
            f"{words(self.against)}"
        )
        return "\n".join([head, *(f"  {one}" for one in self.verdicts)])

    def _beats(self, one: Verdict) -> bool:
        far = one.worst is not None and one.worst > self.limit * (1 + _SLACK) + _SLACK
        return one.exceeds() or far


_SLACK = 1e-9
"""What rounding may add to the odds that an attacker computes (towards the plan's favour)."""


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    """Return the entries with lists for tuples, as JSON has them."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}


def _charge(share: float, prior: float) -> float:
    if share <= prior:
        return 0.0
    if share >= 1 or prior <= 0:
        return math.inf
    return math.log(share / (1 - share)) - math.log(prior / (1 - prior))
