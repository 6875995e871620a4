"""Covering arrays: few rows of a product in which every pair of levels still occurs."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np


def pairs_of(rows: Sequence[Sequence[Any]]) -> list[set[tuple[int, Any, int, Any]]]:
    """Return for each row its pairs of levels: (factor, level, other factor, other level)."""
    return [
        {(one, row[one], two, row[two]) for one, two in itertools.combinations(range(len(row)), 2)}
        for row in rows
    ]


def covering(rows: Sequence[Sequence[Any]]) -> list[int]:
    """Choose rows until every pair of levels that some row has is in a chosen one.

    Greedy and deterministic: the first row with the most pairs that are still missing. Cost
    O(chosen rows x rows x factors^2).
    """
    numbers: dict[Any, int] = {}
    table = np.array(
        [
            [numbers.setdefault(pair, len(numbers)) for pair in sorted(pairs, key=repr)]
            for pairs in pairs_of(rows)
        ]
    )
    missing, chosen = np.ones(len(numbers), dtype=bool), []
    while missing.any():
        best = int(missing[table].sum(axis=1).argmax())
        chosen.append(best)
        missing[table[best]] = False
    return chosen
