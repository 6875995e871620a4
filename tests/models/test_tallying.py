"""Tallies of records that come in pieces, held against the tally of all of them at once."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from undertow.data.folds import packed, unpacked
from undertow.models.fitting.tally import Tally, Tallying, tally


def same(one: Tally, other: Tally) -> None:
    for part in fields(one):
        held, found = getattr(one, part.name), getattr(other, part.name)
        if isinstance(held, np.ndarray):
            assert held.shape == found.shape, part.name
            assert (held == found).all(), part.name
        else:
            assert held == found, part.name


def drawn(seed: int, size: int) -> dict[str, Any]:
    """Records of a few persons, some missing, in unbroken series."""
    draw = np.random.default_rng(seed)
    codes = draw.integers(-1, 3, size)
    persons = np.cumsum(draw.random(size) < draw.choice([0.01, 0.3]))
    breaks = np.append(True, np.diff(persons) != 0)[:size] | (draw.random(size) < 0.1)
    return {"codes": codes, "series": np.cumsum(breaks), "persons": persons,
            "hours": draw.integers(0, 24, size)}  # fmt: skip


def grown(records: dict[str, Any], piece: int, **limits: int) -> Tallying:
    growing = Tallying(range(3), hours=True, **limits)
    for start in range(0, records["codes"].size, piece):
        growing.add(*(part[start : start + piece] for part in records.values()))
    return growing


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("seed", range(12))
def test_pieces_of_any_size_make_the_same_tally(seed, piece):
    records = drawn(seed, 5 * seed)
    same(tally(**records, states=range(3)), grown(records, piece).tally())


@pytest.mark.parametrize("piece", [37, 400, 401, 1000])
def test_lags_and_halves_reach_over_pieces(piece):
    draw = np.random.default_rng(3)
    persons = np.repeat([0, 1, 2], [900, 1501, 599])
    records = {"codes": draw.integers(-1, 3, 3000), "series": persons, "persons": persons,
               "hours": np.zeros(3000, int)}  # fmt: skip
    whole = tally(**records, states=range(3))
    assert len(whole.pairs) == 401
    same(whole, grown(records, piece).tally())


def test_tallies_of_other_persons_are_merged():
    records = drawn(2, 80)
    cut = int(np.flatnonzero(np.diff(records["persons"]))[3]) + 1
    first, second = (
        {name: part[some] for name, part in records.items()}
        for some in (slice(cut), slice(cut, None))
    )
    merged = grown(first, 7)
    merged.merge(merged.load(unpacked(packed(grown(second, 3).state()))))
    same(tally(**records, states=range(3)), merged.tally())


def test_what_does_not_fit_is_left_out_and_the_rest_stays():
    records = drawn(4, 400)
    whole, found = tally(**records, states=range(3)), grown(records, 50, most_cells=20).tally()
    assert found.persons is None
    assert (found.counts == whole.counts).all()
    long = {**records, "persons": np.zeros(400, int)}
    found = grown(long, 50, most_kept=90).tally()
    assert found.halves is None
    assert found.persons is not None
    assert found.persons.shape == (1, 3, 3)


def test_half_of_a_persons_records_is_kept():
    """Transitions that are in the first half, however many records come, are counted at once."""
    growing = Tallying(range(2), most_kept=2 * 520)  # two bytes each
    for start in range(0, 1000, 50):
        growing.add(np.arange(start, start + 50) % 2, np.zeros(50), np.zeros(50))
    assert growing.tally().halves is not None
