"""Tallies: every count against a plain loop over the records."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from undertow.models.fitting.tally import tally

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
