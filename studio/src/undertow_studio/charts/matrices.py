"""Tables of colours: correlations of Gaussian records, and transitions between many states."""

from collections.abc import Sequence

import numpy as np

from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.numerics import Array
from undertow_studio.charts.svg import (
    Html,
    ellipsis,
    join,
    letters,
    picture,
    places,
    tag,
    text,
    titled,
)

__all__ = ["MOST_CELLS", "correlation_picture", "matrix_picture"]

MOST_CELLS = 40
"""Rows that are drawn; of larger tables the first."""

_NUMBERED = 8
"""Rows up to which every cell has its number written in it."""


def correlation_picture(
    gaussian: MultivariateGaussian | GaussianClass, name: str = "correlation"
) -> Html:
    """Return the correlations of Gaussian records as a table of colours.

    Of a class known by a bound every pair of records has the bound.

    >>> family = MultivariateGaussian([100, 86.8], [[225, 137.2], [137.2, 416.6]])
    >>> correlation_picture(family).count("<rect")
    8
    """
    size = gaussian.length
    if isinstance(gaussian, GaussianClass):
        shown = min(size, MOST_CELLS + 1)
        table = np.full((shown, shown), gaussian.rho)
        np.fill_diagonal(table, 1.0)
        said = f"Any two of {size} records are correlated by at most {gaussian.rho:g}."
    else:
        table = gaussian.correlations
        said = (
            f"The correlations of {size} records; the largest between two of them is "
            f"{gaussian.largest_correlation:.3g} in absolute value."
        )
    names = [str(record) for record in range(len(table))]
    title = "How strongly records depend on each other"
    return matrix_picture(table, names, name, title, said, ("record", "record"), records=size)


def matrix_picture(
    table: Array,
    names: Sequence[str],
    name: str,
    title: str,
    description: str,
    roles: tuple[str, str],
    records: int | None = None,
) -> Html:
    """Return a square table of numbers between -1 and 1 as colours, one for each sign.

    Of more than `MOST_CELLS` rows the first are drawn, and the picture says so.
    """
    total = len(table) if records is None else records
    size = min(len(table), MOST_CELLS)

    def draw(width: float) -> tuple[float, list[Html]]:
        longest = max(len(ellipsis(one, 10)) for one in names[:size])
        left = 14.0 + 7.2 * longest
        cell = min((width - left - 8) / size, 64.0)
        left += max(0.0, (width - left - 8 - cell * size) / 2)
        every = max(1, -(-22 // max(int(cell), 1)))  # names that do not stand in each other's way
        fits = letters(max((ellipsis(one, 10) for one in names[:size]), key=len)) < cell * every
        top, parts = 34.0 if fits else 34.0 + 4.6 * longest, []
        for row in range(size):
            middle = top + (row + 0.5) * cell
            if row % every == 0:
                parts.append(text(ellipsis(names[row], 10), left - 6, middle + 4, "tick", "end"))
                parts.append(
                    _heading(ellipsis(names[row], 10), left + (row + 0.5) * cell, top, fits)
                )
            for column in range(size):
                value = float(table[row, column])
                said = f"{roles[0]} {names[row]}, {roles[1]} {names[column]}: {value:.4g}"
                parts.append(
                    titled(
                        "rect", said, x=places(left + column * cell + 0.75),
                        y=places(top + row * cell + 0.75), width=places(cell - 1.5),
                        height=places(cell - 1.5), rx=places(min(4.0, cell / 8)),
                        class_=f"cell {'negative' if value < 0 else 'positive'}",
                        fill_opacity=places(0.04 + 0.82 * min(abs(value), 1.0)),
                        data_row=names[row], data_column=names[column], data_value=value,
                    )
                )  # fmt: skip
                if size <= _NUMBERED:
                    kind = "cell-number strong" if abs(value) > 0.62 else "cell-number"
                    parts.append(
                        text(
                            f"{value:.2f}", left + (column + 0.5) * cell, middle + 4, kind, "middle"
                        )
                    )
        height = top + size * cell + 12
        if size < total:
            parts.append(text(f"the first {size} of {total}", left, height + 10, "note"))
            height += 20
        return height, [join(parts)]

    return picture(name, title, description, draw, "matrix-picture")


def _heading(words: str, x: float, top: float, fits: bool) -> Html:
    """Return the name above a column, slanted where it is wider than the column."""
    if fits:
        return text(words, x, top - 8, "tick", "middle")
    turned = f"translate({places(x - 2)} {places(top - 7)}) rotate(-45)"
    return tag("text", words, transform=turned, class_="tick")
