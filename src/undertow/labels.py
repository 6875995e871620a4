"""Labels of data frames and series that are given as tables of a model.

A table with names on its axes is read by them: they are adopted if the model has no names, put in
the order of the model if they are the same, and refused otherwise. The default numbering of pandas
(0, 1, ..) and the default column names of Polars (column_0, ..) count as no labels.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from undertow.errors import InvalidInput, InvalidModel

__all__ = [
    "along",
    "axes",
    "labelled",
    "labels_of",
    "parts",
    "refuse_labels",
    "square",
    "values_of",
]

Names = tuple[Hashable, ...]

_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
"""Libraries whose frames and series carry labels."""

_INDEXED = ("pandas", "modin", "cudf")
"""Those of them whose rows carry labels, too."""

_KINDS = ("DataFrame", "Series", "Table", "ChunkedArray")
"""Their types that hold numbers under labels."""

_SHOWN = 12
"""Labels that a refusal shows."""


def labelled(values: Any) -> bool:
    """Return whether this is a data frame or a series, of whatever library.

    >>> labelled([[0.5, 0.5]])
    False
    """
    kind = type(values)
    return kind.__name__ in _KINDS and _library(values) in _LIBRARIES


def _library(values: Any) -> str:
    """Return the name of the package that defines the type of some values."""
    return type(values).__module__.partition(".")[0]


def _column_names(values: Any) -> Names:
    """Return the names of the columns of a Polars frame or an Arrow table, () of a series."""
    match type(values).__name__:
        case "DataFrame":
            return _plain(values.columns)
        case "Table":
            return _plain(values.column_names)
    return ()


def labels_of(values: Any) -> tuple[Names | None, Names | None]:
    """Return the labels of the rows and of the columns, None where there are none.

    >>> import pandas as pd
    >>> labels_of(pd.DataFrame([[.9, .1], [.3, .7]], index=["a", "b"], columns=["b", "a"]))
    (('a', 'b'), ('b', 'a'))
    """
    if _library(values) in _INDEXED:
        rows = _plain(values.index)
        columns = _plain(values.columns) if type(values).__name__ == "DataFrame" else None
        if _numbered(rows) and (columns is None or _numbered(columns)):
            return None, None
        if columns is not None and _numbered(rows) and not _other_order(columns, rows):
            return None, columns
        if columns is not None and _numbered(columns) and not _other_order(rows, columns):
            return rows, None
        return rows, columns
    columns = _column_names(values)
    if columns in ((), tuple(f"column_{place}" for place in range(len(columns)))):
        return None, None
    return None, columns


def values_of(values: Any) -> Any:
    """Return the numbers of a frame or a series without their labels, anything else as it is."""
    if not labelled(values):
        return values
    if _library(values) == "pyarrow" and type(values).__name__ == "Table":
        return np.array([column.to_pylist() for column in values.columns]).T
    return values.to_numpy()


def square(
    values: Any, states: Sequence[Any] | None, what: str
) -> tuple[Any, Sequence[Any] | None]:
    """Return a table whose rows and columns are the states, in their order, and the states.

    Or a list of such tables. What has no labels is returned as it is.

    >>> import pandas as pd
    >>> moves = pd.DataFrame([[.1, .9], [.7, .3]], index=["a", "b"], columns=["b", "a"])
    >>> square(moves, None, "transition")
    (array([[0.9, 0.1],
           [0.3, 0.7]]), ('a', 'b'))
    """
    if isinstance(values, list | tuple):
        if not any(labelled(part) or isinstance(part, list | tuple) for part in values[:1]):
            return values, states
        tables = []
        for place, part in enumerate(values):
            table, states = square(part, states, f"{what}, part {place},")
            tables.append(table)
        return tables, states
    if not labelled(values):
        return values, states
    rows, columns = labels_of(values)
    table = values_of(values)
    if table.ndim == 1:  # a row of a matrix, whose other axis has no labels
        return along(values, states, what, free=False)
    names = _names(states) if states is not None else (columns if rows is None else rows)
    if names is None:
        return table, states
    both = rows is not None and columns is not None
    for axis, (labels, word) in enumerate(((rows, "rows"), (columns, "columns"))):
        if labels is not None:
            table = np.take(table, _places(labels, names, f"the {word} of {what}", both), axis=axis)
    return table, names if states is None else states


def along(
    values: Any, states: Sequence[Any] | None, what: str, *, free: bool = True
) -> tuple[Any, Sequence[Any] | None]:
    """Return one number for each state in their order, such as a start law, and the states.

    >>> import pandas as pd
    >>> along(pd.Series([.2, .8], index=["b", "a"]), ("a", "b"), "start")
    (array([0.8, 0.2]), ('a', 'b'))
    """
    if isinstance(values, Mapping):
        raise InvalidInput(
            f"{what} must be a list in the order of the states, or a series with labels, found a "
            "dictionary"
        )
    if not labelled(values):
        return values, states
    rows, columns = labels_of(values)
    labels = rows if columns is None else columns
    table = values_of(values)
    if labels is None or table.ndim != 1:
        return table, states
    if states is None:
        return table, labels
    names = _names(states)
    return table if names is None else table[_places(labels, names, what, free)], states


def axes(values: Any, names: Sequence[Any], what: str) -> tuple[Any, list[Any]]:
    """Return a table with every axis in the order of its names (None: not known), and the names.

    For tables whose axes are different things, such as the values of a parent and of a child.

    >>> import pandas as pd
    >>> axes(pd.DataFrame([[1, 0]], columns=["b", "a"]), [None, ("a", "b")], "the table")
    (array([[0, 1]]), [None, ('a', 'b')])
    """
    listed = list(names)
    if not labelled(values):
        return values, listed
    table, labelling = values_of(values), labels_of(values)
    for axis, labels in enumerate(labelling[: table.ndim]):
        if labels is None or axis >= len(listed):
            continue
        order = None if listed[axis] is None else _names(listed[axis])
        if order is None:
            listed[axis] = labels
        else:
            word = f"axis {axis} of {what}" if table.ndim > 1 else what
            table = np.take(table, _places(labels, order, word, free=True), axis=axis)
    return table, listed


def refuse_labels(values: Any) -> None:
    """Refuse a frame or a series with labels, or a list of them, where only the order counts.

    >>> refuse_labels([1.0, 2.0])
    """
    for part in values[:1] if isinstance(values, list | tuple) else (values,):
        labelling = labels_of(part) if labelled(part) else (None, None)
        if labelling != (None, None):
            named = " and ".join(_shown(axis) for axis in labelling if axis is not None)
            raise InvalidInput(
                f"a table labelled {named} was given where the entries have no names, only an "
                "order, which labels cannot be compared with: put it in that order, and pass it "
                "without labels (.to_numpy())"
            )


def parts(
    tables: Mapping[Any, Any], states: Sequence[Any] | None, what: str
) -> tuple[dict[Any, Any], Sequence[Any] | None]:
    """Return tables by name, each read by its labels, and the states of all of them."""
    named = {}
    for name, table in tables.items():
        named[name], states = square(table, states, f"{what} {name!r}")
    return named, states


def _places(labels: Names, names: Names, what: str, free: bool) -> list[int]:
    """Return where each name stands among the labels, or refuse labels that do not agree.

    ``free``: the order may differ. Where one axis alone bears labels it may not, because nothing
    says in which order the other one is.
    """
    order = labels
    if all(isinstance(label, str) for label in labels) and not all(
        isinstance(name, str) for name in names
    ):
        names = tuple(map(str, names))  # frames that name columns by texts alone
    if len({*order}) != len(order):
        raise InvalidModel(
            f"{what} bear the same label twice ({_shown(labels)}); labels must differ"
        )
    if {*order} != {*names} or len(order) != len(names):
        raise InvalidModel(
            f"{what} are labelled {_shown(labels)}, the states are {_shown(names)}: use the same "
            "names, or pass an array without labels (.to_numpy()) in the order of the states"
        )
    if not free and order != names:
        raise InvalidModel(
            f"{what} are labelled {_shown(labels)}, in another order than the states "
            f"{_shown(names)}, and the other axis has no labels that say its order: label both "
            "axes, or put the labels in the order of the states"
        )
    place = {label: number for number, label in enumerate(order)}
    return [place[name] for name in names]


def _names(states: Any) -> Names | None:
    """Return the states as a tuple, None where they are no list of names: refused elsewhere."""
    try:
        return None if isinstance(states, str) else _plain(states)
    except TypeError:
        return None


def _plain(labels: Any) -> Names:
    return tuple(one.item() if isinstance(one, np.generic) else one for one in labels)


def _numbered(labels: Names) -> bool:
    """Return whether labels are the numbers 0, 1, .. that nobody chose."""
    return all(type(label) is int for label in labels) and labels == tuple(range(len(labels)))


def _other_order(labels: Names, numbers: Names) -> bool:
    """Return whether labels are numbers in another order, which makes labels of the numbers too.

    They may be written as texts: readers of files name columns so.

    >>> _other_order(("1", "0"), (0, 1)), _other_order(("0", "1"), (0, 1))
    (True, False)
    """
    if {*labels} == {*numbers}:
        return True
    texts = tuple(map(str, numbers))
    return labels != texts and {*labels} == {*texts}


def _shown(labels: Names) -> str:
    more = f" and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else ""
    return ", ".join(map(repr, labels[:_SHOWN])) + more
