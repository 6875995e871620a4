"""One table in every form that it can have: the same exact answers, the same flips bit by bit."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.data.tables import BACKENDS, Row, as_source
from tests.grids import law
from undertow.data.codes import Rule, coded
from undertow.queries import Histogram, Transitions
from undertow.sampling.keyed import Key, randomised

STATES = ("a", "b")
CHANNELS = (ut.RandomizedResponse.binary(0.25, 0.375), ut.XorNoise(0.2, 0.4))


@st.composite
def rows(draw: Any) -> list[Row]:
    """Rows of up to three persons in any order, with gaps, groups, missing and foreign values."""
    places = st.tuples(st.sampled_from(["p", "q", "007"]), st.integers(0, 9))
    keys = draw(st.lists(places, min_size=1, max_size=14, unique=True))
    values, groups = st.sampled_from(["a", "b", "c", "", None]), st.sampled_from(["n", "s"])
    return [Row(who, when, draw(groups), draw(values)) for who, when in keys]


def told(data: ut.Data, channel: Any, key: Key) -> tuple[Any, ...]:
    """What is counted before noise, and what every series becomes under a key."""
    answers = [data.answers(query, STATES) for query in (Histogram(), Transitions())]
    made, carry = [], None
    for piece in coded(data, Rule(STATES, foreign=0)).pieces():
        found = randomised(
            channel, key, piece.labels, piece.lengths, piece.codes, piece.places, carry
        )
        carry = found.carry
        who = [label for label, size in zip(piece.labels, piece.lengths, strict=True)
               for _ in range(size)]  # fmt: skip
        made += list(zip(who, found.numbers.tolist(), strict=True))
    return *((one.groups, one.numbers, one.rows) for one in answers), made


@pytest.mark.parametrize("channel", CHANNELS, ids=["flips", "noise"])
@law(
    settings(max_examples=60, deadline=None), 2,
    table=rows(), window=st.sampled_from([None, (2, 8)]), shuffled=st.booleans(),
    size=st.sampled_from([1, 2, 5]),
)  # fmt: skip
def test_every_form_of_a_table_gives_the_same(
    channel, table, window, shuffled, size, tmp_path_factory
):
    folder, key = tmp_path_factory.mktemp("forms"), Key.fresh()
    listed = table if shuffled else sorted(table, key=lambda row: (row.who, row.when))
    found = {}
    for backend in BACKENDS:
        data = ut.Data(
            as_source(listed, "text", backend, folder, clock=False),
            value="v", person="who", time="when", by="group", groups=["n", "s"], every=1,
        )  # fmt: skip
        data = data if window is None else data.window(*window)
        if not data.shape().rows:
            return
        found[backend] = told(data, channel, key)
        if not shuffled and backend in ("csv", "gzip", "parquet"):
            found[f"{backend} in pieces"] = told(data.changed(piece=size), channel, key)
    assert all(one == found["polars"] for one in found.values()), found
