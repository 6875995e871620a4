"""The arguments of `Data`: which columns are named, for what, and what does not fit together."""

from collections.abc import Mapping, Sequence
from typing import Any

from undertow.data.objects import plain
from undertow.data.sources import Source
from undertow.data.tokens import columns_of
from undertow.errors import InvalidInput

__all__ = ["check_arguments", "first_text", "roles_of"]


def check_arguments(value: Any, person: Any, time: Any, every: Any, by: Any, gaps: Any,
                    groups: Any) -> None:  # fmt: skip
    """Refuse arguments that are no names of columns, or lack their companion."""
    named = {"value": value, "person": person, "time": time, "by": by}
    for name, column in named.items():
        if column is not None and not isinstance(column, str):
            raise InvalidInput(f"{name} must name a column, found a {type(column).__name__}")
    if every is not None and time is None:
        raise InvalidInput("every, the step of time, needs the column of times; say time=...")
    if not isinstance(plain(gaps), str | int | float):
        raise InvalidInput("gaps must be 'split' or the name of a state")
    if gaps != "split" and every is None:
        raise InvalidInput("gaps are found by the step of time; say every='5m', or every=1")
    if groups is None:
        return
    if by is None:
        raise InvalidInput("groups need the column they are found in; say by=...")
    if isinstance(groups, str | bytes | Mapping) or not isinstance(groups, Sequence) or not groups:
        raise InvalidInput("groups must be a list of at least one name")


def roles_of(value: str | None, person: str | None, time: str | None, state: Any,
             by: str | None) -> dict[str, set[str]]:  # fmt: skip
    """Return the columns that are needed, and for what."""
    private = columns_of(state) if isinstance(state, str) else []
    if isinstance(state, str) and not private:
        raise InvalidInput(
            f"the expression {state!r} does not say the state of each record; compare a column "
            "with something, as in 'steps > 0'"
        )
    if person is not None and person == time:
        raise InvalidInput(
            f"column {person!r} cannot be both person and time of a record; name two columns"
        )
    records = [*([] if value is None else [value]), *private]
    for name, role in ((person, "person"), (time, "time"), (by, "by")):
        if name in records:
            part = "value" if name == value else "a column of the state expression"
            raise InvalidInput(
                f"column {name!r} is named twice, as {part} and as {role}: values are private, "
                "persons, times and groups are published as they are; name another column"
            )
    roles: dict[str, set[str]] = {}
    for name in records:
        roles.setdefault(name, set()).add("value")
    for name, role in ((person, "key"), (by, "group"), (time, "time")):
        if name is not None:
            roles.setdefault(name, set()).add(role)
    return roles


def first_text(source: Source, time: str) -> str | None:
    """Return the first text of a column of times; it is public, and says how to read the rest."""
    return source.first_text(time) if source.columns[time].kind in ("csv", "text") else None
