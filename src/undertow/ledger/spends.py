"""What the records of every cell have spent, held once for all cells with the same history."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from undertow.ledger.amounts import Spend, round_up, worst
from undertow.ledger.rules import REST, Region, Segment, overlay

__all__ = ["Change", "Row", "Spends", "rows"]

Row = tuple[int, int, float, str]
"""A segment as it is stored: start, end, its DP level rounded up, all of its spend exactly."""


def rows(line: Iterable[Segment]) -> list[Row]:
    """Return segments as they are stored.

    >>> from fractions import Fraction
    >>> rows([Segment(0, 7, Spend(Fraction(1, 4)))])
    [(0, 7, 0.25, '1/4')]
    """
    return [(s.start, s.end, round_up(s.spend.level), str(s.spend)) for s in line]


class Change(NamedTuple):
    """What an entry makes of the segments of some cells: ``old`` go, ``new`` come."""

    cells: list[str]
    old: list[Segment]
    new: list[Segment]


class Spends:
    """The segments of each cell; a hundred thousand groups that were released alike are one line.

    >>> from fractions import Fraction
    >>> spends, one = Spends(), Spend(Fraction(1))
    >>> spends.add(Region(("a", "b"), ("a", "b"), 0, 7), one)
    >>> spends.cells()["b"] == [Segment(0, 7, one)], spends.cells()[""]
    (True, [])
    """

    __slots__ = ("_lines", "_number", "_sizes")

    def __init__(self) -> None:
        """Start with the rest, which has spent nothing."""
        self._number: dict[str, int] = {REST: 0}  # the line of each cell
        self._lines: dict[int, list[Segment]] = {0: []}
        self._sizes: Counter[int] = Counter({0: 1})  # how many cells have a line

    def cells(self) -> dict[str, list[Segment]]:
        """Return the segments of each cell; cells of one history share a list."""
        return {cell: self._lines[number] for cell, number in self._number.items()}

    def most(self, where: Region) -> tuple[Spend, ...]:
        """Return the largest spends in a region: those that no other one there covers."""
        return worst(
            segment.spend
            for number in {self._number[cell] for cell in where.seen}
            for segment in self._lines[number][slice(*self._slice(number, where))]
            if segment.start < where.end and segment.end > where.start
        )

    def expected(self, where: Region) -> Iterator[tuple[list[str], list[Segment]]]:
        """Yield the segments that meet or border the window, after the stored cells they are of."""
        for number, cells in self._grouped(where.seen).items():
            low, high = self._slice(number, where)
            yield cells, self._lines[number][low:high]

    def changes(self, where: Region, spend: Spend) -> list[Change]:
        """Return what adding a spend in a region changes; nothing is changed yet."""
        fresh = set(where.fresh)
        found = []
        for number, cells in self._grouped(c for c in where.cells if c not in fresh).items():
            low, high = self._slice(number, where)
            old = self._lines[number][low:high]
            found.append(Change(cells, old, overlay(old, where.start, where.end, spend)))
        if where.fresh:
            # fresh cells were part of the rest until now, so they start with all that it has spent
            line = self._lines[self._number[REST]]
            low, high = self._slice(self._number[REST], where)
            new = overlay(line[low:high], where.start, where.end, spend)
            found.append(Change([*where.fresh], [], [*line[:low], *new, *line[high:]]))
        return found

    def add(self, where: Region, spend: Spend | None) -> None:
        """Add a spend in a region; None only sets its fresh cells apart."""
        rest = self._number[REST]
        self._number.update(dict.fromkeys(where.fresh, rest))
        self._sizes[rest] += len(where.fresh)
        if spend is None:
            return
        for number, cells in self._grouped(where.cells).items():
            low, high = self._slice(number, where)
            new = overlay(self._lines[number][low:high], where.start, where.end, spend)
            if len(cells) == self._sizes[number]:  # all of its cells change alike
                self._lines[number][low:high] = new
                continue
            own = len(self._lines)  # these cells part from the others of their line
            line = self._lines[number]
            self._lines[own] = [*line[:low], *new, *line[high:]]
            self._number.update(dict.fromkeys(cells, own))
            self._sizes[own] = len(cells)
            self._sizes[number] -= len(cells)

    def _grouped(self, cells: Iterable[str]) -> dict[int, list[str]]:
        """Return cells by the line they have."""
        found: dict[int, list[str]] = {}
        for cell in cells:
            found.setdefault(self._number[cell], []).append(cell)
        return found

    def _slice(self, number: int, where: Region) -> tuple[int, int]:
        """Return the positions of the segments that meet or border the window."""
        line = self._lines[number]
        # segments are sorted and disjoint: both their starts and their ends increase
        low = bisect_left(line, where.start, key=lambda segment: segment.end)
        return low, bisect_left(line, where.end + 1, lo=low, key=lambda segment: segment.start)
