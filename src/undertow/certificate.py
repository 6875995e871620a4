"""What a leakage computation returns: a certified interval, its witness, and its fine print."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from undertow.adversaries import EVERYTHING, Against, Secrets
from undertow.numerics import GAP
from undertow.queries import State

__all__ = ["Leakage", "Witness"]


@dataclass(frozen=True, slots=True)
class Witness:
    """An attack that attains ``lower``: an adversary, two values, and what to look at.

    The attacker wants record ``target`` of ``length`` records, knows ``known`` (record and
    value), and compares ``value`` with ``other``. For `PureDP` the worst algorithm's output has
    likelihood exp(epsilon #{t : x_t in sets[t]}); records without a set do not matter. For a
    noisy count ``output`` is the answer to wait for, less what the known records contribute (all
    records outside the nearest known ones count as known); its extremes stand for all answers
    beyond. For a noisy histogram the target's set names the bins
    to see far too high while all others are far too low. For flipped or redacted series
    ``outputs`` is what to see (record and output; None stands for an erased record); records
    that are not listed do not matter. ``window`` names the records that are counted, the first
    and one after the last; None means all.

    >>> Witness(target=0, length=2, known=(), value="a", other="b").words()
    "target record 0 of 2, nothing known: 'a' against 'b'"
    """

    target: int
    length: int
    known: tuple[tuple[int, State], ...]
    value: State
    other: State
    sets: tuple[tuple[int, tuple[State, ...]], ...] = field(default=(), repr=False)
    output: int | None = None
    outputs: tuple[tuple[int, State], ...] = field(default=(), repr=False)
    window: tuple[int, int] | None = None

    def words(self) -> str:
        """Return the attack in one line."""
        known = ", ".join(f"record {record} = {value!r}" for record, value in self.known)
        return (
            f"target record {self.target} of {self.length}, "
            f"{known + ' known' if known else 'nothing known'}: {self.value!r} against "
            f"{self.other!r}{self._counted()}"
        )

    def _counted(self) -> str:
        """Return which records are counted, in words that follow the attack."""
        if self.window is None:
            return ""
        first, last = self.window[0], self.window[1] - 1
        records = f"record {first}" if first == last else f"records {first} to {last}"
        return f", count of {records}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        described: dict[str, Any] = {
            "target": self.target,
            "length": self.length,
            "known": [[record, value] for record, value in self.known],
            "value": self.value,
            "other": self.other,
            "sets": [[record, list(states)] for record, states in self.sets],
            "output": self.output,
            "outputs": [[record, output] for record, output in self.outputs],
        }
        if self.window is not None:
            described["window"] = list(self.window)
        return described

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> "Witness":
        """Return the witness described by `to_dict`."""
        window = description.get("window")
        return cls(
            target=description["target"],
            length=description["length"],
            known=tuple((record, value) for record, value in description["known"]),
            value=description["value"],
            other=description["other"],
            sets=tuple((record, tuple(states)) for record, states in description["sets"]),
            output=description["output"],
            outputs=tuple((record, output) for record, output in description.get("outputs", ())),
            window=None if window is None else (window[0], window[1]),
        )


@dataclass(frozen=True, slots=True)
class Leakage:
    """A certified interval around the leakage, ``lower`` attained by ``witness``.

    ``upper`` is what a guarantee may claim: it is rounded up throughout. ``inf`` means that
    the leakage diverges, or that nothing finite could be proved (then ``lower`` is finite).
    ``secrets`` says which values of which records it is about, by default all of them.
    ``covers`` says which shapes of data the proof is about: whole series, any one window of each
    series as well, or anything that the DP level of the algorithm covers.

    >>> Leakage(1.0, 1.0, "exchange", "any").proves(2.0)
    True
    """

    lower: float
    upper: float
    method: str
    against: Against
    witness: Witness | None = None
    assumptions: tuple[str, ...] = ()
    citation: str | None = None
    secrets: Secrets = EVERYTHING
    covers: Literal["series", "windows", "any"] = "series"

    def proves(self, epsilon: float) -> bool:
        """Return whether the leakage is certainly at most ``epsilon``."""
        return self.upper <= epsilon

    @property
    def closed(self) -> bool:
        """Whether both ends agree to the package's gap tolerance."""
        if math.isinf(self.upper):
            return math.isinf(self.lower)
        return self.upper - self.lower <= 4 * GAP * max(1.0, self.upper)
