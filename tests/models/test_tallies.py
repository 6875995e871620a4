"""Tallies: all counts are those of a loop, in pieces of any size."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from undertow.data.folds import packed, unpacked
from undertow.models.fitting.tally import Tally, Tallying, tally

RECORDS = st.lists(
    st.lists(st.lists(st.integers(-1, 2), min_size=1, max_size=90), min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)
"""Persons, each with series, each with records; -1 is a missing one."""


@settings(max_examples=60, deadline=None)
@given(RECORDS, st.integers(0, 23))
def test_all_counts_are_those_of_a_loop(people, hour):
    codes = np.array([r for person in people for run in person for r in run])
    who = np.array([p for p, person in enumerate(people) for run in person for _ in run])
    runs = [run for person in people for run in person]
    series = np.array([s for s, run in enumerate(runs) for _ in run])
    hours = (np.arange(codes.size) + hour) % 24
    found = tally(codes, ("a", "b", "c"), series=series, persons=who, hours=hours)
    counts, triples = np.zeros((3, 3), int), np.zeros((3, 3, 3), int)
    persons, halves = np.zeros((len(people), 3, 3), int), np.zeros((2, 3, 3), int)
    by_hour, place = np.zeros((24, 3, 3), int), 0
    for number, person in enumerate(people):
        total, position = sum(map(len, person)), 0
        for run in person:
            for step, record in enumerate(run):
                if step + 1 < len(run) and record >= 0 and run[step + 1] >= 0:
                    pair = (record, run[step + 1])
                    counts[pair] += 1
                    persons[(number, *pair)] += 1
                    halves[(int(position >= total / 2), *pair)] += 1
                    by_hour[(hours[place], *pair)] += 1
                    if step + 2 < len(run) and run[step + 2] >= 0:
                        triples[(*pair, run[step + 2])] += 1
                position, place = position + 1, place + 1
    for name, wanted in (("counts", counts), ("triples", triples), ("persons", persons),
                         ("halves", halves), ("hours", by_hour)):  # fmt: skip
        assert np.array_equal(getattr(found, name), wanted), name
    for lag in range(max(map(len, runs))):
        met = [(run[i], run[i + lag]) for run in runs for i in range(len(run) - lag)]
        both = [(x, y) for x, y in met if x >= 0 and y >= 0]
        assert found.pairs[lag] == len(both)
        assert found.together[lag].tolist() == [both.count((s, s)) for s in range(3)]
    assert len(found.pairs) == max(map(len, runs))
    assert found.visits.tolist() == [codes.tolist().count(s) for s in range(3)]
    said = (found.records, found.missing, found.series)
    assert said == (codes.size, codes.tolist().count(-1), len(runs))


def test_a_tally_is_private_and_frozen():
    chain = ut.MarkovChain.fit([list("aabab"), list("bb")], public=True)
    assert chain.tally.persons.sum(axis=(1, 2)).tolist() == [4, 1]
    assert repr(chain.tally) == "Tally(2 states)"
    assert "tally" not in repr(chain)
    assert "tally" not in chain.to_dict()
    with pytest.raises(ValueError, match="read-only"):
        chain.tally.counts[0, 0] = 1
    assert ut.MarkovChain.from_counts([[1, 1], [1, 1]], public=True).tally is None


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
