"""Tables of results as data frames, for the tables of `compare` and of `undertow.diagnostics`.

A column for each number, text or truth value of a row's description; an interval gives two, and
other lists give one of text. polars and pandas are imported when a frame is asked for.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from undertow.errors import NotSupported

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["ResultTable", "is_table"]


@runtime_checkable
class _Columned(Protocol):
    """The type of a table, of whatever library: it has columns."""

    columns: Any


def is_table(values: object) -> bool:
    """Tell whether values are a table, by their type: a lazy table would work out its columns.

    >>> is_table([1, 2])
    False
    """
    return isinstance(type(values), _Columned)


_INTERVALS = {"leakage", "interval", "advantage_interval", "charged_interval"}
"""Fields that hold two ends."""


class ResultTable:
    """Base class of tables of results: one description for each row, and frames of them."""

    __slots__ = ()

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the JSON-ready description of each row."""
        raise NotImplementedError

    def to_polars(self) -> "polars.DataFrame":
        """Return the rows as a Polars frame.

        >>> from undertow import Count, MarkovChain, compare
        >>> table = compare(Count(1), MarkovChain([[.9, .1], [.3, .7]], length=12), limit=2.0)
        >>> table.to_polars().height == len(table.rows)
        True
        """
        import polars

        return polars.DataFrame(self._columns(), strict=False)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the rows as a pandas frame; pandas must be installed."""
        try:
            import pandas
        except ImportError as error:
            raise NotSupported(
                "this needs pandas, which is not installed; run: pip install pandas"
            ) from error
        return pandas.DataFrame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        """Return the values of each column, None where a row has none."""
        rows = [dict(_fields(one)) for one in self.descriptions()]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}


def _fields(description: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a description, those of parts behind the part's name."""
    for key, value in description.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _fields(value, f"{name}_")
        elif key in _INTERVALS and not isinstance(value, int | float):
            lower, upper = (None, None) if value is None else value
            yield f"{name}_lower", lower
            yield f"{name}_upper", upper
        elif isinstance(value, list | tuple):
            yield name, "; ".join(map(str, value))
        else:
            yield name, value
