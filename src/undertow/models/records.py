"""The description of a model's records: their step, their states, their series and their context.

A model is about one kind of record: five-minute steps are not half hours, and ``steps > 0`` is not
``steps > 100``. `undertow.fit` writes the description, a model written by hand may state it, and
whatever reads data compares it with the records at hand before anything is spent. What was never
stated is None, and the promise says so.
"""

from dataclasses import dataclass
from typing import Any

from undertow.base_query import State
from undertow.errors import InvalidModel
from undertow.models.described import fields, names, numbers, text

__all__ = ["RecordDescription", "StateRule"]

Every = str | int | None


@dataclass(frozen=True, slots=True)
class StateRule:
    """How a value becomes a state: as it is, by an expression, by cut points or by a mapping.

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
        rule = self.expression or "the value itself"
        if self.cuts:
            rule = f"bins cut at {', '.join(f'{cut:g}' for cut in self.cuts)}"
        elif self.mapping:
            rule = ", ".join(f"{value!r} as {state!r}" for value, state in self.mapping)
        return rule if self.type is None else f"{rule}, of a {self.type}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description with the parts that were stated."""
        found: dict[str, Any] = {
            "expression": self.expression,
            "cuts": list(self.cuts) or None,
            "mapping": [list(pair) for pair in self.mapping] or None,
            "type": self.type,
            "column": self.column,
        }
        return {name: part for name, part in found.items() if part is not None}

    @classmethod
    def from_dict(cls, description: Any) -> "StateRule":
        """Return the rule described by `to_dict`."""
        parts = ("expression", "cuts", "mapping", "type", "column")
        read = fields(description, "a rule of states", (), parts)
        said = {
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
        return cls(cuts=tuple(map(float, cuts)), mapping=pairs, **said)


@dataclass(frozen=True, slots=True)
class RecordDescription:
    """What one record of a model is.

    ``every`` is the step between neighbouring records (``"5m"``, or a whole number where times are
    numbers; None: one row, whatever the time between rows). ``state`` is how a value becomes a
    state, ``unit`` whose records form one series (``"person"``, ``"household"``), ``context`` the
    public context that the transitions follow (``"hour"``), ``missing`` the state that the
    fit gave to records without a value, which its plans then do too.

    >>> RecordDescription(every="5m", unit="person").to_dict()
    {'every': '5m', 'unit': 'person'}
    """

    every: Every = None
    state: StateRule | None = None
    unit: str | None = None
    context: str | None = None
    missing: State | None = None

    def __bool__(self) -> bool:
        """Tell whether anything was stated."""
        return self != RecordDescription()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description with the parts that were stated."""
        state = None if self.state is None else self.state.to_dict()
        found = {
            "every": self.every, "state": state, "unit": self.unit, "context": self.context,
            "missing": self.missing,
        }  # fmt: skip
        return {name: part for name, part in found.items() if part is not None}

    @classmethod
    def from_dict(cls, description: Any) -> "RecordDescription":
        """Return the description written by `to_dict`."""
        read = fields(
            description, "a description of records", (),
            ("every", "state", "unit", "context", "missing"),
        )  # fmt: skip
        every, state = read.get("every"), read.get("state")
        if every is not None and (isinstance(every, bool) or not isinstance(every, str | int)):
            raise InvalidModel("the step of records is a duration such as '5m', or a whole number")
        said = {
            name: None if read.get(name) is None else text(read[name], f"the {name} of records")
            for name in ("unit", "context")
        }
        return cls(
            every=text(every, "the step of records") if isinstance(every, str) else every,
            state=None if state is None else StateRule.from_dict(state),
            missing=None if read.get("missing") is None else names([read["missing"]], "states")[0],
            **said,
        )
