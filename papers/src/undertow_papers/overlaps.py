"""Lines of a chart that lie on each other: drawn once, under both names."""

from collections.abc import Iterable
from dataclasses import replace

from undertow_papers.charts import Trace

__all__ = ["merge_equal"]


def merge_equal(lines: Iterable[Trace], tolerance: float = 1e-6) -> tuple[Trace, ...]:
    """Return the lines, those that agree to a relative tolerance joined under one label.

    >>> same = Trace("a", (1.0,), (2.0,)), Trace("b", (1.0,), (2.0,)), Trace("c", (1.0,), (3.0,))
    >>> [line.label for line in merge_equal(same)]
    ['a = b', 'c']
    """
    kept: list[Trace] = []
    for line in lines:
        for place, other in enumerate(kept):
            if line.x == other.x and all(
                abs(one - two) <= tolerance * max(abs(one), abs(two))
                for one, two in zip(line.y, other.y, strict=True)
            ):
                kept[place] = replace(other, label=f"{other.label} = {line.label}", role=line.role)
                break
        else:
            kept.append(line)
    return tuple(kept)
