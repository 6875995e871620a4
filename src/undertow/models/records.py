"""The description of a model's records: their step, their states, their series and their context.

`undertow.fit` writes the description, a model written by hand may state it, and readers of data
compare it with their records before a budget is spent. None stands for what is not stated, and the
promise says so.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from typing import Any, Literal, get_args

from undertow.errors import InvalidModel
from undertow.models.validation import fields, names, numbers, text
from undertow.queries import BaseQuery, State, farthest

__all__ = [
    "CURATORS",
    "MOST_PERSONS",
    "UNSTATED",
    "Audience",
    "Origin",
    "RecordDescription",
    "RecordSource",
    "StateRule",
    "audience_of",
    "check_origin",
    "duration",
    "fitted_origin",
    "microseconds",
    "together",
    "weakest",
]


Every = str | int | None

MOST_PERSONS = 1024
"""Persons that a source remembers: those with the smallest digests, a sample that any other table
of the same persons has too."""

_UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6,
          "d": 86400 * 10**6, "w": 7 * 86400 * 10**6}  # fmt: skip
_DURATION = re.compile(r"(\d+)\s*(us|ms|s|m|h|d|w)")
_LONGEST_STEP = 2**61
_MOST_LISTED = 10**5
_DIGEST = re.compile(r"[0-9a-f]{16}")

Seen = Literal["same", "other", "unknown"]
"""Whether records are those that were fitted, by public facts."""


def microseconds(text: str) -> int | None:
    """Return a duration such as "5m" in microseconds, None for a text that is none.

    A day is 24 hours; there are no months, which differ in length.

    >>> microseconds("5m"), microseconds("soon")
    (300000000, None)
    """
    match = _DURATION.fullmatch(text.strip())
    step = int(match[1]) * _UNITS[match[2]] if match and len(match[1]) < 20 else 0
    return step if 0 < step < _LONGEST_STEP else None


def duration(step: int) -> str:
    """Return microseconds as a duration, in the largest unit that fits.

    >>> duration(300_000_000)
    '5m'
    """
    unit, size = max(
        ((unit, size) for unit, size in _UNITS.items() if step % size == 0), key=lambda fit: fit[1]
    )
    return f"{step // size}{unit}"


@dataclass(frozen=True, slots=True)
class StateRule:
    """Rule that maps a value to a state: identity, expression, cut points or mapping.

    ``expression`` is normalised, with ``value`` in place of the value column. ``cuts`` are the ends
    of bins, ``mapping`` pairs of a value and its state. ``type`` is the declared type of the value
    column: ``"number"``, ``"text"``, ``"truth value"`` or None where it was not declared.
    ``column`` is the name of that column at the fit; it is stated and never compared.
    """

    expression: str | None = None
    cuts: tuple[float, ...] = ()
    mapping: tuple[tuple[State, State], ...] = ()
    type: str | None = None
    column: str | None = None

    def __str__(self) -> str:
        """Return the rule in words.

        >>> str(StateRule(expression="value > 0", type="number"))
        'value > 0, of a number'
        """
        return self.rule if self.type is None else f"{self.rule}, of a {self.type}"

    @property
    def rule(self) -> str:
        """The rule in words, whatever the type of the value."""
        if self.cuts:
            return f"bins cut at {', '.join(f'{cut:g}' for cut in self.cuts)}"
        if self.mapping:
            return ", ".join(f"{value!r} as {state!r}" for value, state in self.mapping)
        return self.expression or "the value itself"

    def same(self, other: "StateRule") -> bool:
        """Return whether two rules make the same states; an undeclared type matches any.

        >>> StateRule("value > 0", type="number", column="a").same(StateRule("value > 0"))
        True
        """
        ways = [
            (rule.expression, rule.cuts, sorted(map(repr, rule.mapping))) for rule in (self, other)
        ]
        return ways[0] == ways[1] and (None in (self.type, other.type) or self.type == other.type)

    def farthest(self, query: BaseQuery) -> float | None:
        """Return how far a reading is at most from the number that stands for its state.

        Readings and numbers are clipped to the range of the query. It follows from the cut points,
        or is 0 where the readings are the states; None where the rule does not tell.

        >>> from undertow.queries import Sum
        >>> StateRule(cuts=(1.0,)).farthest(Sum(0, 6, values={"low": 0.5, "high": 3}))
        3.0
        """
        if query.values is None or query.ends is None:
            return None
        if self.cuts:
            return farthest(query.values, self.cuts, query.ends)
        themselves = self.type == "number" and self.expression is None and not self.mapping
        return 0.0 if themselves and all(s == number for s, number in query.values) else None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description with the parts that were stated."""
        fields: dict[str, Any] = {
            "expression": self.expression,
            "cuts": list(self.cuts) or None,
            "mapping": [list(pair) for pair in self.mapping] or None,
            "type": self.type,
            "column": self.column,
        }
        return {name: part for name, part in fields.items() if part is not None}

    @classmethod
    def from_dict(cls, description: Any) -> "StateRule":
        """Return the rule described by `to_dict`."""
        parts = ("expression", "cuts", "mapping", "type", "column")
        read = fields(description, "a rule of states", (), parts)
        texts = {
            name: None if read.get(name) is None else text(read[name], f"the {name} of states")
            for name in ("expression", "type", "column")
        }
        mapping = read.get("mapping") or []
        if not isinstance(mapping, list) or any(
            not isinstance(pair, list) or len(pair) != 2 for pair in mapping
        ):
            raise InvalidModel("the mapping of states is a list of pairs of a value and a state")
        cuts = numbers(read.get("cuts") or [])
        if not isinstance(cuts, list) or any(isinstance(cut, list) for cut in cuts):
            raise InvalidModel("the cut points of states are a list of numbers")
        pairs = tuple((value, state) for value, state in mapping)
        names([part for pair in pairs for part in pair if part is not None], "mapped values")
        return cls(cuts=tuple(map(float, cuts)), mapping=pairs, **texts)


@dataclass(frozen=True, slots=True)
class RecordSource:
    """Which records a model was fitted to, by public facts alone: files, persons and times.

    ``files`` are digests of where the files are, never of what they hold. ``persons`` are digests
    of identifiers with the first and the last time of each (None without times), of at most
    `MOST_PERSONS` of the ``count`` persons. ``start`` and ``end`` bound the times of all of them,
    whose kind is ``clock``: ``"microseconds"`` of a clock, or ``"numbers"``.
    """

    files: tuple[str, ...] = ()
    persons: tuple[tuple[str, int | None, int | None], ...] = ()
    count: int = 0
    clock: str | None = None
    start: int | None = None
    end: int | None = None

    def seen(self, other: "RecordSource") -> Seen:
        """Return whether other records may be among these.

        They are where a person has records at overlapping times in both; where no persons are
        known, where a file is the same and times do not exclude it. They are not where times
        exclude it, or where persons are known in both and differ.

        >>> day = RecordSource(("aa",), clock="numbers", start=0, end=9)
        >>> day.seen(replace(day, start=10, end=19)), day.seen(day), day.seen(RecordSource())
        ('other', 'same', 'unknown')
        """
        timed = self.clock is not None and self.clock == other.clock
        if timed and not _overlap((self.start, self.end), (other.start, other.end)):
            return "other"
        file = bool(set(self.files) & set(other.files))
        if self.persons and other.persons:
            own = {digest: (first, last) for digest, first, last in self.persons}
            both = [(own[name], ends) for name, *ends in other.persons if name in own]
            if timed and any(_overlap(mine, theirs) for mine, theirs in both):
                return "same"
            if both and not timed:
                return "same" if file else "unknown"
            whole = len(self.persons) == self.count and len(other.persons) == other.count
            return "other" if whole else "unknown"
        return "same" if file else "unknown"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description with the parts that are known."""
        fields: dict[str, Any] = {
            "files": list(self.files) or None,
            "persons": [list(one) for one in self.persons] or None,
            "count": self.count or None,
            "clock": self.clock,
            "start": self.start,
            "end": self.end,
        }
        return {name: part for name, part in fields.items() if part is not None}

    @classmethod
    def from_dict(cls, description: Any) -> "RecordSource":
        """Return the source described by `to_dict`."""
        parts = tuple(part.name for part in fields_of(cls))
        read = fields(description, "a source of records", (), parts)
        files, persons = read.get("files", []), read.get("persons", [])
        for part in (files, persons):
            if not isinstance(part, list) or len(part) > _MOST_LISTED:
                raise InvalidModel(
                    "the files and persons of a source of records are lists, of at most "
                    f"{_MOST_LISTED}"
                )
        if any(not isinstance(one, list) or len(one) != 3 for one in persons):
            raise InvalidModel("a person of a source is a digest, a first and a last time")
        for digest in (*files, *(one[0] for one in persons)):
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                raise InvalidModel("files and persons of a source are digests of 16 hex digits")
        ends = [read.get("start"), read.get("end"), *(end for one in persons for end in one[1:])]
        if any(end is not None and type(end) is not int for end in ends):
            raise InvalidModel("the times of a source of records are whole numbers")
        count, clock = read.get("count", 0), read.get("clock")
        if type(count) is not int or count < len(persons):
            raise InvalidModel("a source of records counts all of its persons")
        if clock not in (None, "microseconds", "numbers"):
            raise InvalidModel("the clock of a source of records is 'microseconds' or 'numbers'")
        listed = tuple((one[0], one[1], one[2]) for one in persons)
        return cls(tuple(files), listed, count, clock, ends[0], ends[1])


def _overlap(one: Iterable[int | None], other: Iterable[int | None]) -> bool:
    """Return whether two spans of time have one in common; an end that is not known is open."""
    (start, end), (first, last) = one, other
    return (start is None or last is None or start <= last) and (
        end is None or first is None or first <= end
    )


@dataclass(frozen=True, slots=True)
class RecordDescription:
    """Description of one record of a model.

    ``every`` is the step between neighbouring records (``"5m"``, or a whole number where times are
    numbers; None: one row, whatever the time between rows). ``state`` is how a value becomes a
    state, ``unit`` whose records form one series (``"person"``, ``"household"``), ``context`` the
    public context that the transitions follow (``"hour"``), ``missing`` the state that the fit gave
    to records without a value, which its plans then do too. ``source`` says which records a model
    was fitted to, ``apart`` the least and the largest step between their rows where none was named.
    Equal steps are written alike: "300s" becomes "5m".

    >>> RecordDescription(every="5m", unit="person").to_dict()
    {'every': '5m', 'unit': 'person'}
    """

    every: Every = None
    state: StateRule | None = None
    unit: str | None = None
    context: str | None = None
    missing: State | None = None
    source: RecordSource | None = None
    apart: tuple[str | int, str | int] | None = None

    def __post_init__(self) -> None:
        """Refuse a step that is not positive, and normalise its text."""
        every = self.every
        if every is None:
            return
        requirement = "the step of records is a duration such as '5m', or a positive whole number"
        if isinstance(every, bool) or not isinstance(every, str | int):
            raise InvalidModel(f"{requirement}; found a {type(every).__name__}")
        step = microseconds(every) if isinstance(every, str) else every
        if step is None or not 0 < step < _LONGEST_STEP:
            raise InvalidModel(f"{requirement}; found {str(every)[:40]!r}")
        object.__setattr__(self, "every", duration(step) if isinstance(every, str) else int(every))

    def __str__(self) -> str:
        """Return the stated parts in words, '' if there are none.

        >>> str(RecordDescription(every="300s", unit="person"))
        'one record every 5m, series of a person'
        """
        step = "one record a row" if self.every is None else f"one record every {self.every}"
        if self.apart is not None:
            least, most = self.apart
            step += f" {least}{'' if least == most else f' to {most}'} apart"
        rule = "" if self.state is None else f"a state by {self.state}"
        parts = [
            step if self.every is not None or self.apart or rule or self.unit else "",
            rule,
            f"series of a {self.unit}" if self.unit else "",
            f"by {self.context}" if self.context else "",
            "" if self.missing is None else f"missing ones in state {self.missing!r}",
        ]
        return ", ".join(part for part in parts if part)

    def __bool__(self) -> bool:
        """Return whether anything is stated."""
        return self != RecordDescription()

    def contradicts(self, other: "RecordDescription") -> bool:
        """Return whether two descriptions state different things of a record.

        >>> RecordDescription(every="5m").contradicts(RecordDescription(every="30m"))
        True
        """
        both = [
            (getattr(self, part), getattr(other, part))
            for part in ("every", "unit", "context", "missing")
        ]
        if any(None not in pair and pair[0] != pair[1] for pair in both):
            return True
        return (
            self.state is not None and other.state is not None and not self.state.same(other.state)
        )

    def thinned(self, step: int) -> "RecordDescription":
        """Return the description of every ``step``-th record: as many times further apart.

        >>> RecordDescription(every="5m").thinned(6).every
        '30m'
        """
        if isinstance(self.every, str):
            return replace(self, every=duration((microseconds(self.every) or 0) * step))
        every = None if self.every is None else self.every * step
        return replace(self, every=every, apart=None)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description with the parts that were stated."""
        state = None if self.state is None else self.state.to_dict()
        source = None if self.source is None else self.source.to_dict()
        fields = {
            "every": self.every, "state": state, "unit": self.unit, "context": self.context,
            "missing": self.missing, "source": source,
            "apart": None if self.apart is None else list(self.apart),
        }  # fmt: skip
        return {name: part for name, part in fields.items() if part is not None}

    @classmethod
    def from_dict(cls, description: Any) -> "RecordDescription":
        """Return the description written by `to_dict`."""
        parts = tuple(part.name for part in fields_of(cls))
        read = fields(description, "a description of records", (), parts)
        state, source, apart = read.get("state"), read.get("source"), read.get("apart")
        if apart is not None:
            if not isinstance(apart, list) or len(apart) != 2:
                raise InvalidModel("how far rows are apart is a least and a largest step")
            for step in apart:
                cls(every=0 if step is None else step)  # refuses what is no step
        texts = {
            name: None if read.get(name) is None else text(read[name], f"the {name} of records")
            for name in ("unit", "context")
        }
        return cls(
            every=read.get("every"),
            state=None if state is None else StateRule.from_dict(state),
            missing=None if read.get("missing") is None else names([read["missing"]], "states")[0],
            source=None if source is None else RecordSource.from_dict(source),
            apart=None if apart is None else (apart[0], apart[1]),
            **texts,
        )


UNSTATED = RecordDescription()
"""The description of records of which nothing is stated."""


def together(several: Iterable[RecordDescription]) -> RecordDescription:
    """Return the joint description of models of the same records; refuse contradictions.

    >>> together([RecordDescription(every="5m"), RecordDescription(unit="person")]).to_dict()
    {'every': '5m', 'unit': 'person'}
    """
    joined = RecordDescription()
    for one in several:
        if joined.contradicts(one):
            raise InvalidModel(
                f"the models of a set are about the same records, and say of them: {joined}; and "
                f"{one}; fit them to records of one kind"
            )
        for part in ("every", "state", "unit", "context", "missing", "apart"):
            if getattr(joined, part) is None:
                joined = replace(joined, **{part: getattr(one, part)})
        joined = replace(joined, source=_joined(joined.source, one.source))
    return joined


def _joined(one: RecordSource | None, other: RecordSource | None) -> RecordSource | None:
    """Return the source of the records of both."""
    if one is None or other is None or one == other:
        return one or other
    ends: dict[str, tuple[int | None, int | None]] = {}
    for name, first, last in (*one.persons, *other.persons):
        start, end = ends.get(name, (first, last))
        ends[name] = (_least(start, first), _most(end, last))
    timed = one.clock == other.clock
    listed = tuple((name, *ends[name]) for name in sorted(ends)[:MOST_PERSONS])
    both = {name for name, *_ in one.persons} & {name for name, *_ in other.persons}
    count = one.count + other.count - len(both)
    return RecordSource(
        tuple(dict.fromkeys((*one.files, *other.files))), listed, count,
        one.clock if timed else None,
        _least(one.start, other.start) if timed else None,
        _most(one.end, other.end) if timed else None,
    )  # fmt: skip


def _least(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


Origin = Literal["hand", "public", "private", "not public"]
"""Written by hand, fitted to public records, through noise, or to private records without noise."""

Audience = Literal["public", "curator"]
"""Audience of results: everybody, or the curator of the records alone."""

CURATORS = (
    "the model was fitted to private records without noise, so that the scale of the noise, the "
    "error bar and the checks disclose something of them"
)
"""Why a paper is the curator's."""


def audience_of(origin: Origin) -> Audience:
    """Return the audience that may see results derived from a model of this origin.

    >>> audience_of("private"), audience_of("not public")
    ('public', 'curator')
    """
    return "curator" if origin == "not public" else "public"


def check_origin(origin: Any) -> Origin:
    """Return an origin, or refuse any other text.

    >>> check_origin("public")
    'public'
    """
    for origin_name in get_args(Origin):
        if isinstance(origin, str) and origin == origin_name:
            return origin_name  # type: ignore[no-any-return]
    raise InvalidModel(
        f"the origin of a model is {', '.join(map(repr, get_args(Origin)))}; found another"
    )


def fitted_origin(public: bool) -> Origin:
    """Return the origin of a model that was fitted to records without noise.

    >>> fitted_origin(False)
    'not public'
    """
    return "public" if public else "not public"


def weakest(origins: Iterable[Origin]) -> Origin:
    """Return the origin of a result derived from several models: the one that discloses most.

    >>> weakest(["hand", "not public", "private"])
    'not public'
    """
    return max(origins, key=get_args(Origin).index, default="hand")
