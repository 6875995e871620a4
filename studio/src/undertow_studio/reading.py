"""How a table is read: which column is what, as a page, a command and Python say it."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.errors import InvalidInput, UndertowError

if TYPE_CHECKING:
    from undertow.data.table import Data

__all__ = [
    "PrivateTable",
    "Reading",
    "columns_of",
    "file_argument",
    "guess",
    "naming",
    "option_text",
    "python_text",
]


@dataclass(frozen=True, slots=True)
class PrivateTable:
    """A table of private records: where it lies, and what it is called.

    ``simulated`` records are nobody's: they come from a random number generator.
    """

    path: Path
    name: str
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """Which columns are whose record, when, and what it is; and what the states are called.

    >>> reading = Reading(value="steps", state="steps > 0", states=("idle", "active"))
    >>> print(reading.options("fit"))
    --value steps --state 'steps > 0' --states idle,active
    """

    value: str | None = None
    person: str | None = None
    time: str | None = None
    every: str | None = None
    state: str | None = None
    states: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a table that nothing is known of."""
        if self.value is None and self.state is None:
            raise InvalidInput("say which column holds the records")
        if self.every is not None and self.time is None:
            raise InvalidInput("a step of time needs the column of times")

    def open(self, source: PrivateTable) -> "Data":
        """Return the data; reads names and types of the columns, no record."""
        from undertow.data.table import Data

        return Data(source.path, **self.arguments())

    def arguments(self) -> dict[str, Any]:
        """Return what `Data` is told, as it was typed."""
        told: dict[str, Any] = {"value": self.value, "person": self.person, "time": self.time}
        told |= {"state": _cuts(self.state), "every": _number(self.every)}
        return {name: text for name, text in told.items() if text is not None}

    def options(self, command: str) -> str:
        """Return the options of a command that reads the table; a fit also names the states."""
        parts = []
        for one in fields(self):
            text = getattr(self, one.name)
            if one.name == "states":
                text = ",".join(text) if command == "fit" else ""
            if text:
                parts.append(option_text(one.name, text))
        return " ".join(parts)

    def python(self, name: str) -> str:
        """Return the Python that opens the table."""
        told = "".join(f", {key}={python_text(text)}" for key, text in self.arguments().items())
        return f"data = ut.Data({python_text(name)}{told})"


@contextmanager
def naming(source: PrivateTable) -> Iterator[None]:
    """Have refusals call a table by its name: where an uploaded one lies is nobody's business."""
    try:
        yield
    except UndertowError as error:
        said = str(error).replace(str(source.path), source.name)
        raise InvalidInput(said) from None


def columns_of(source: PrivateTable) -> dict[str, str]:
    """Return the names and types of the columns of a table, which are public."""
    from undertow.data.readers.sources import column_names

    with naming(source):
        return column_names(source.path)


def guess(columns: Mapping[str, str]) -> dict[str, str]:
    """Return which column is probably what, by their names.

    >>> guess({"id": "Int64", "when": "Datetime", "steps": "Int64"})
    {'person': 'id', 'time': 'when', 'value': 'steps'}
    """
    hints = {
        "person": ("person", "id", "subject", "user", "participant", "who", "name"),
        "time": ("time", "date", "when", "ts", "timestamp", "datetime"),
    }
    found: dict[str, str] = {}
    for role, words in hints.items():
        for name, kind in columns.items():
            alike = name.lower().rstrip("_0123456789") in words or name.lower().endswith(
                tuple(f"_{word}" for word in words)
            )
            if alike or (role == "time" and "time" in kind.lower()):
                found.setdefault(role, name)
    rest = [name for name in columns if name not in found.values()]
    return found | ({"value": rest[0]} if rest else {})


def file_argument(name: str) -> str:
    """Return the name of a file as a command takes it: quoted, and never read as an option.

    >>> print(file_argument("-rf.csv"), file_argument("my week.csv"), file_argument("week.csv"))
    ./-rf.csv 'my week.csv' week.csv
    """
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def option_text(name: str, text: str) -> str:
    """Return an option with its value, quoted; a value that looks like an option is tied to it.

    >>> print(option_text("value", "steps a day"), option_text("value", "-x"))
    --value 'steps a day' --value=-x
    """
    return f"--{name}{'=' if text.startswith('-') else ' '}{shlex.quote(text)}"


def python_text(value: Any) -> str:
    """Return a value as Python is written, texts in double quotation marks where that is plain.

    >>> print(python_text("steps > 0"), python_text(0.5))
    "steps > 0" 0.5
    """
    if isinstance(value, str) and value.isprintable() and not set('"\\') & set(value):
        return f'"{value}"'
    return repr(value)


def _cuts(text: str | None) -> str | list[float] | None:
    if text is None:
        return None
    parts = [_number(part.strip()) for part in text.split(",")]
    return text if any(isinstance(part, str) for part in parts) else parts


def _number(text: str | None) -> Any:
    if text is None:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
