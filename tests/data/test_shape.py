"""Which records a release touches of whom: whole series or windows, whole persons or parts."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.data.tables import BACKENDS, DAY, STEP, as_source, tables
from tests.grids import law
from undertow.data.table import Data
from undertow.errors import InvalidInput

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=150)


def by_loop(rows, window, groups, grouped, fill, stepped):
    """Series, shortest, windowed, split, longest and persons, one record at a time."""
    low, high = window or (-1, 99)
    series, released, longest = [0], [], 0
    windowed = split = False
    persons = 0
    for who in {row.who for row in rows}:
        mine = sorted((row for row in rows if row.who == who), key=lambda row: row.when)
        cells = [(row.when, row.group) for row in mine]
        if fill:
            for row, after in itertools.pairwise(mine):
                cells += [(when, row.group) for when in range(row.when + 1, after.when)]
        inside = [
            group if not grouped or groups is None or group in groups else None
            for when, group in cells
            if low <= when < high
        ]
        persons += bool(inside)
        longest = max(longest, len(inside))
        answered = [group for group in inside if group is not None]
        if not answered:
            continue
        whole = mine[-1].when - mine[0].when + 1 if stepped else len(mine)
        series.append(whole)
        released.append(len(answered))
        windowed |= len(inside) < len(cells)
        split |= grouped and len(set(inside)) > 1
    return max(series), min(released, default=0), windowed, split, longest, persons


@law(LAWS, 12, data=st.data())
def test_the_facts_are_those_of_a_loop(data):
    rows = data.draw(tables("whole"))
    backend = data.draw(st.sampled_from(BACKENDS))
    window = data.draw(st.none() | st.tuples(st.integers(0, 5), st.integers(6, 10)))
    grouped = data.draw(st.booleans())
    groups = data.draw(st.none() | st.just(("south", "1"))) if grouped else None
    stepped = data.draw(st.booleans())
    fill = stepped and data.draw(st.booleans())
    options: dict[str, Any] = {"every": "5m", "gaps": 0 if fill else "split"} if stepped else {}
    options |= {"by": "group", "groups": groups} if grouped else {}
    with tempfile.TemporaryDirectory() as folder:
        source = as_source(rows, "whole", backend, Path(folder))
        table = Data(source, value="v", person="who", time="when", **options)
        if window is not None:
            table = table.window(*(DAY + end * STEP for end in window))
        found = table.shape()
    seen = (found.series, found.shortest, found.windowed, found.split, found.longest, found.persons)
    assert seen == by_loop(rows, window, groups, grouped, fill, stepped)


def test_groups_within_a_series_and_groups_of_whole_persons():
    frame = pl.DataFrame(
        {
            "who": ["a", "a", "b", "b", "c"],
            "t": [0, 1, 0, 1, 0],
            "ward": ["N", "N", "S", "S", None],
            "odd": ["even", "odd", "even", "odd", "even"],
            "v": [0, 1, 0, 1, 0],
        }
    )
    options = {"value": "v", "person": "who", "time": "t"}
    assert not Data(frame, **options, by="ward").shape().split
    assert Data(frame, **options, by="odd").shape().split
    assert Data(frame, **options, by="odd", groups=["odd"]).shape().split  # the rest is in none
    assert not Data(frame, **options, by="ward", groups=["N"]).shape().split
    window = Data(frame, **options, by="odd").window(0, 1).shape()
    assert (window.split, window.windowed, window.series, window.shortest) == (False, True, 2, 1)
    nobody = Data(frame, **options, by="ward", groups=["X"]).shape()
    assert (nobody.series, nobody.shortest, nobody.windowed, nobody.split) == (0, 0, False, False)
    assert Data(frame, **options).shape().shortest == 1


def test_rows_without_a_group_split_a_series():
    frame = pl.DataFrame({"t": [0, 1], "g": ["x", None], "v": [0, 1]})
    assert Data(frame, value="v", time="t", by="g").shape().split


def test_what_is_wrong_outside_the_window_is_not_refused():
    frame = pl.DataFrame({"t": [0, 2, 5, 5], "v": [0, 1, 0, 1]})
    found = Data(frame, value="v", time="t", every=2).window(0, 3).shape()
    assert (found.rows, found.series, found.windowed) == (2, 4, True)
    with pytest.raises(ut.errors.InvalidInput, match="row 3 of column 't'"):
        Data(frame, value="v", time="t").window(3, 9).shape()


WRONG = {
    "nobody": ([None, "a", "a", "b"], [0, 0, 1, 0]),
    "untimed": (["a", "a", "b", "b"], [0, None, 0, 1]),
    "twice": (["a", "b", "a", "b"], [0, 0, 0, 1]),
    "off": (["a", "a", "b", "b"], [0, 2, 0, 3]),
}


@pytest.mark.parametrize("gaps", ["split", "idle"])
@pytest.mark.parametrize("kind", WRONG)
def test_every_question_refuses_a_wrong_row_by_its_number(kind, gaps):
    """Also those that go through the rows in order before the facts about them are checked."""
    persons, times = WRONG[kind]
    table = pl.DataFrame({"id": persons, "t": times, "x": ["idle", "run", "run", "idle"]})
    data = ut.Data(table, value="x", person="id", time="t", every=2, gaps=gaps)
    states = ("idle", "run")
    questions = [
        data.shape,
        lambda: data.answers(ut.Count("run"), states),
        lambda: data.answers(ut.Transitions(), states),
        lambda: data.tally(states),
        lambda: data.encoded(states),
    ]
    messages = set()
    for ask in questions:
        with pytest.raises(InvalidInput) as caught:
            ask()
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert "counting from 0" in messages.pop()
