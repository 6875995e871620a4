"""Results of leakage computations: a certified interval, its witness, and its assumptions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from json import dumps, loads
from typing import Any, Literal

from undertow.adversaries import Against
from undertow.errors import Contradiction, InvalidInput
from undertow.numerics import GAP, check_choice, check_number
from undertow.progress import SPENT
from undertow.queries import State
from undertow.secrets import ONE_RECORD, Secret

__all__ = [
    "DEEPEST",
    "UNSURE",
    "WIDTHS",
    "Leakage",
    "ValidFor",
    "Witness",
    "canonical",
    "check_order",
    "check_valid_for",
    "depth",
    "is_unicode",
    "meet",
    "worst",
]


ValidFor = Literal["series", "windows", "any"]
"""The shapes of data that a proof covers, each more than the one before it.

*series*: one answer on whole series of the model's length. *windows*: also one answer on any window
of each series, of any length, whatever is known outside it. *any*: whatever an algorithm of the
same DP level may do with series of the model's length: windows, gaps, groups within a series,
several answers on disjoint records.
"""

_SHOWN = 6
"""Values of a history that a line shows."""

WIDTHS: tuple[ValidFor, ...] = ("series", "windows", "any")
"""The shapes from the fewest to the most."""


READS_STATES = "the algorithm reads the states of records alone, not the readings within a state"
"""The assumption of a DP level under a model with states, which does not describe readings."""

UNSURE = (
    "it holds for each of the models that may be true, not for an attacker who is unsure which of "
    "them is: a mixture can leak more"
)
"""Assumption stated of every set and class of models."""


def check_valid_for(valid_for: object) -> ValidFor:
    """Return ``valid_for`` if it names shapes of data.

    >>> check_valid_for("windows")
    'windows'
    """
    wanted = check_choice(valid_for, "valid_for", WIDTHS)
    return next(width for width in WIDTHS if width == wanted)


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
    and one after the last; None means all. Where the secret is a window of records in a row,
    ``histories`` are the two that are compared, from the target on.

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
    histories: tuple[tuple[State, ...], tuple[State, ...]] | None = None

    @property
    def lived(self) -> tuple[tuple[State, ...], tuple[State, ...]]:
        """The two histories that are compared: of one record, or of a window.

        >>> Witness(target=0, length=2, known=(), value="a", other="b").lived
        (('a',), ('b',))
        """
        return self.histories or ((self.value,), (self.other,))

    def values(self) -> list[State]:
        """Return every value that the attack names; an erased record has none."""
        return [
            self.value,
            self.other,
            *(value for each in self.lived for value in each),
            *(value for _, value in self.known),
            *(value for _, value in self.outputs if value is not None),
            *(state for _, states in self.sets for state in states),
        ]

    @property
    def last(self) -> int:
        """The last record that is wanted: the target, or the last one of the window."""
        return self.target + len(self.lived[0]) - 1

    def place(self, longer: bool = False) -> str:
        """Return which record is wanted; ``longer``: of a pattern that a longer series contains.

        A model of any length has no last record: what is attacked there is a record within a
        pattern of records, wherever in a series the pattern occurs.

        >>> Witness(57, 72, (), "a", "b").place(longer=True)
        'record 57 of a pattern of 72 records within a longer series'
        """
        wanted = f"record {self.target}"
        if self.histories is not None:
            wanted = f"records {self.target} to {self.last}"
        if not longer:
            return f"{wanted} of {self.length}"
        several = f"{self.length} record{'s' * (self.length != 1)}"
        return f"{wanted} of a pattern of {several} within a longer series"

    def words(self, longer: bool = False) -> str:
        """Return the attack in one line; ``longer`` says that the model has no length."""
        known = ", ".join(f"record {record} = {value!r}" for record, value in self.known)
        return (
            f"target {self.place(longer)}, "
            f"{known + ' known' if known else 'nothing known'}: {self.compared()}"
            f"{self._counted()}"
        )

    def compared(self, word: str = "against") -> str:
        """Return the two values, or the two histories, cut where they are long, around a word."""
        if self.histories is None:
            return f"{self.value!r} {word} {self.other!r}"
        shown = (
            f"({', '.join(map(repr, each[:_SHOWN]))}{', ...' * (len(each) > _SHOWN)})"
            for each in self.histories
        )
        return f" {word} ".join(shown)

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
        if self.histories is not None:
            described["histories"] = [list(each) for each in self.histories]
        return described

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> "Witness":
        """Return the witness described by `to_dict`."""
        window, lived = description.get("window"), description.get("histories")
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
            histories=None if lived is None else (tuple(lived[0]), tuple(lived[1])),
        )


@dataclass(frozen=True, slots=True)
class Leakage:
    """A certified interval around the leakage, ``lower`` attained by ``witness``.

    ``upper`` is what a guarantee may claim: it is rounded up throughout. ``inf`` means that
    the leakage diverges, or that nothing finite could be proved (then ``lower`` is finite).
    ``secret`` is what it is about, by default any two values of any one record, and
    ``valid_for`` which shapes of data the proof is good for. With a ``delta`` above 0 it is the
    leakage at that delta, and ``curve`` holds further pairs (epsilon, delta) that are proved.

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
    secret: Secret = ONE_RECORD
    valid_for: ValidFor = "series"
    delta: float = 0.0
    curve: tuple[tuple[float, float], ...] = ()

    def proves(self, epsilon: float) -> bool:
        """Return whether the leakage is certainly at most ``epsilon``."""
        return self.upper <= check_number(epsilon, "epsilon")

    def with_assumptions(self, more: tuple[str, ...]) -> "Leakage":
        """Return the same certificate with further assumptions, each said once."""
        new = tuple(one for one in more if one not in self.assumptions)
        return replace(self, assumptions=(*self.assumptions, *new)) if new else self

    def upper_only(self) -> "Leakage":
        """Return the upper end alone, for a mechanism to which the witness does not apply.

        A bound on all algorithms of a DP level holds for each of them; its lower end need not.

        >>> Leakage(0.5, 1.0, "exchange", "any").upper_only().lower
        0.0
        """
        return replace(self, lower=0.0, witness=None)

    def reaches(self, valid_for: ValidFor) -> bool:
        """Return whether the proof covers these shapes of data too.

        >>> Leakage(1.0, 1.0, "exchange", "any", valid_for="any").reaches("windows")
        True
        """
        check_valid_for(valid_for)
        return WIDTHS.index(self.valid_for) >= WIDTHS.index(valid_for)

    @property
    def unfinished(self) -> bool:
        """Whether the search ended with its effort spent: more effort may narrow the interval."""
        return SPENT in self.assumptions

    @property
    def closed(self) -> bool:
        """Whether both ends agree to the package's gap tolerance."""
        if math.isinf(self.upper):
            return math.isinf(self.lower)
        return self.upper - self.lower <= 4 * GAP * max(1.0, self.upper)


def worst(brackets: Sequence[Leakage], note: str | None = None, models: int = 0) -> Leakage:
    """Return the worst of the leakages under several models, one of which is true.

    The largest lower end with its witness, the largest upper end, the narrowest shape. ``models``
    says how many there are where not every one of them was asked.

    >>> one, two = Leakage(1.0, 1.5, "exact", "any"), Leakage(0.5, 2.0, "group", "any")
    >>> both = worst([one, two])
    >>> both.lower, both.upper, both.method
    (1.0, 2.0, 'group')
    """
    # one of the models is true: all keep below the largest upper end, and the attack on the
    # largest lower end succeeds if its model is the true one
    largest = max(brackets, key=lambda leak: (leak.upper, leak.lower))
    shown = max(brackets, key=lambda leak: leak.lower)
    several = (models or len(brackets)) > 1 and largest.against != "informed"
    unsure = several or any(UNSURE in leak.assumptions for leak in brackets)
    return replace(
        largest, lower=shown.lower, witness=shown.witness,
        assumptions=(
            f"one of the {models or len(brackets)} models of the set is true",
            *(() if note is None else (note,)),
            *dict.fromkeys(a for leak in brackets for a in leak.assumptions if a != UNSURE),
            *((UNSURE,) if unsure else ()),
        ),
        valid_for=min((leak.valid_for for leak in brackets), key=WIDTHS.index),
        curve=_together([leak.curve for leak in brackets]),
    )  # fmt: skip


def _together(
    curves: Sequence[tuple[tuple[float, float], ...]],
) -> tuple[tuple[float, float], ...]:
    """Return pairs that hold on every one of several curves.

    A pair holds wherever another of the curve has no larger epsilon and no larger delta.

    >>> _together([((1.0, 1e-6),), ((2.0, 1e-7), (3.0, 1e-8))])
    ((2.0, 1e-06),)
    """
    if len(curves) == 1:
        return curves[0]
    pairs = []
    for epsilon in sorted({pair[0] for curve in curves for pair in curve}):
        reached = [[d for e, d in curve if e <= epsilon] for curve in curves]
        if all(reached):
            pairs.append((epsilon, max(min(deltas) for deltas in reached)))
    return tuple(p for i, p in enumerate(pairs) if not i or p[1] < pairs[i - 1][1])


def check_order(lower: Leakage, upper: Leakage) -> None:
    """Refuse two intervals of one quantity that do not intersect."""
    if lower.lower > upper.upper:
        raise Contradiction(
            f"{lower.method} proves a leakage of at least {lower.lower}, {upper.method} of at "
            f"most {upper.upper}; please report the model and the mechanism"
        )


def meet(first: Leakage, second: Leakage) -> Leakage:
    """Return the intersection of two certified intervals of the same quantity.

    It bears the name of the first method where that one closes it, of the tighter one otherwise.
    """
    # both intervals hold the quantity: the larger attained end and the smaller proved one do
    lower = max(first, second, key=lambda leak: leak.lower)
    upper = min(first, second, key=lambda leak: leak.upper)
    check_order(lower, upper)
    both = replace(first, lower=lower.lower, upper=upper.upper, witness=lower.witness)
    return both if both.closed else replace(upper, lower=lower.lower, witness=lower.witness)


DEEPEST = 100
"""Lists and objects within each other, at most: a reader's stack holds them."""


def canonical(value: Any, what: str) -> str:
    """Return the one JSON text of a value, or refuse what JSON would change.

    Half of a surrogate pair (a text that no UTF-8 holds) is refused in names and values, and so are
    lists nested more than `DEEPEST` deep.

    >>> canonical({"b": 0.1, "a": [1]}, "result")
    '{"a":[1],"b":0.1}'
    """
    try:
        text = dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
        same = loads(text) == value and is_unicode(value) and depth(value) <= DEEPEST
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise InvalidInput(
            f"the {what} must be plain JSON that reads back as it was: dictionaries with texts as "
            f"keys, lists at most {DEEPEST} deep, texts of whole characters, finite numbers; write "
            "pairs as lists"
        )
    return text


def is_unicode(value: Any) -> bool:
    """Return whether every text in a JSON value can be written in UTF-8.

    >>> is_unicode(["a", {"b": "é"}]), is_unicode({"\\ud800": 1})
    (True, False)
    """
    try:
        dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def depth(tree: Any) -> int:
    """Return how many lists and objects lie within each other; counting ends beyond `DEEPEST`.

    >>> depth([1, {"a": []}])
    3
    """
    level, deep = [tree], 0
    while level := [part for part in level if isinstance(part, dict | list)]:
        deep += 1
        level = [
            part
            for container in level
            for part in (container.values() if isinstance(container, dict) else container)
        ]
        if deep > DEEPEST:
            break
    return deep
