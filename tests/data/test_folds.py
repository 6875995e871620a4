"""Answers, facts and refusals are the same in memory and in pieces of every size."""

from dataclasses import fields
from typing import Any

import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.data.folds import (
    CODE,
    CountTable,
    Ordered,
    Pairs,
    PresentGroups,
    PublicFacts,
    packed,
    pieces,
    unpacked,
)
from undertow.data.grid import GROUP
from undertow.errors import InvalidInput, UndertowError
from undertow.queries import Count, Histogram, Mean, Sum, Transitions

STATES = (0, 1, 2)
SIZES = (1, 2, 3, 7)
SCHEMA = {"who": pl.String, "when": pl.Int64, "group": pl.String, "x": pl.Int64}


@st.composite
def sorted_tables(draw: Any, untidy: bool = True) -> pl.DataFrame:
    """Rows of up to four persons, one after the other, with gaps, groups and odd values.

    Untidy ones may lack a person or a time, or have a time twice.
    """
    rows: list[tuple[Any, ...]] = []
    people = draw(st.lists(st.sampled_from("pqrs"), max_size=4, unique=True))
    groups = draw(st.sampled_from([["n"], ["n", "s"], ["n", "s", None]]))
    steps = [1, 1, 1, 2, 5] + ([0] if untidy and draw(st.booleans()) else [])
    for who in people:
        when = draw(st.integers(-4, 4))
        for _ in range(draw(st.integers(1, 7))):
            odd = untidy and draw(st.integers(0, 60)) == 0
            one = (
                None if odd and draw(st.booleans()) else who,
                None if odd and draw(st.booleans()) else when,
                draw(st.sampled_from(groups)),
                draw(st.sampled_from([0, 1, 2, 7, None])),
            )
            rows.append(one)
            when += draw(st.sampled_from(steps))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


@st.composite
def readings(draw: Any) -> dict[str, Any]:
    """How a table may be read."""
    made: dict[str, Any] = {"value": "x", "person": "who"}
    if draw(st.integers(0, 9)):
        made["time"] = "when"
        made |= draw(st.sampled_from([{}, {"every": 1}, {"every": 2}, {"every": 1, "gaps": 1}]))
    made |= draw(
        st.sampled_from([{}, {"by": "group"}, {"by": "group", "groups": ["s", "n", "other"]}])
    )
    return made


windows = st.sampled_from([None, (None, 3), (0, None), (-1, 5)])


def read(frame: pl.DataFrame, how: dict[str, Any], window: Any) -> ut.Data:
    data = ut.Data(frame, **how)
    return data if window is None or "time" not in how else data.window(*window)


def told(ask: Any) -> Any:
    """What a question gives, or how it is refused."""
    try:
        found = ask()
    except UndertowError as error:
        return type(error).__name__, str(error)
    return (found.groups, found.numbers, found.rows) if hasattr(found, "numbers") else found


QUESTIONS = {
    "shape": lambda data: data.shape(),
    "identity": lambda data: data.identity(),
    "count": lambda data: data.answers(Count((1, 2)), STATES),
    "histogram": lambda data: data.answers(Histogram(), STATES, 2),
    "transitions": lambda data: data.answers(Transitions(), STATES),
    "sum": lambda data: data.answers(Sum(0, 3)),
    "state sum": lambda data: data.answers(Sum(0, 3), STATES, "none"),
    "mean": lambda data: data.answers(Mean(-1, 2)),
}


@law(
    settings(max_examples=60, deadline=None),
    5,
    frame=sorted_tables(),
    how=readings(),
    window=windows,
    size=st.sampled_from(SIZES),
)
def test_pieces_of_any_size_give_the_same(frame, how, window, size):
    data = read(frame, how, window)
    for name, ask in QUESTIONS.items():
        found = told(lambda ask=ask: ask(data.changed(piece=size)))
        assert found == told(lambda ask=ask: ask(data)), name


@law(
    settings(max_examples=40, deadline=None),
    4,
    frame=sorted_tables(untidy=False),
    how=readings(),
    window=windows,
    cut=st.integers(0, 4),
    size=st.sampled_from(SIZES),
)
def test_folds_of_other_persons_are_merged(frame, how, window, cut, size):
    """What two machines have kept, sent as bytes, is what one would have."""
    data = read(frame, how, window)
    people = frame["who"].unique(maintain_order=True).to_list()
    parts = [frame.filter(pl.col("who").is_in(some)) for some in (people[:cut], people[cut:])]
    code = data.record.positions(STATES, named=True).alias(CODE)
    filled = 1 if data.grid.fill else None

    def folds() -> list[Any]:
        grid = data.grid
        return [
            PublicFacts(grid),
            CountTable(grid, [GROUP, CODE]),
            PresentGroups(grid),
            Pairs(grid, 3, filled),
        ]

    def kept(table: pl.DataFrame, made: list[Any]) -> list[Any]:
        part = read(table, how, window).changed(piece=size)
        line = Ordered(data.grid, made)
        for rows in pieces(part, code):
            line.feed(rows)
        line.close()
        return made

    whole = kept(frame, folds())
    merged = kept(parts[0], folds())
    sent = packed([fold.state() for fold in kept(parts[1], folds())])
    for fold, state in zip(merged, unpacked(sent), strict=True):
        fold.merge(state)
    for one, two in zip(whole, merged, strict=True):
        assert plain(one) == plain(two)


def plain(fold: Any) -> Any:
    """The state of a fold without the order in which its parts came."""
    if isinstance(fold, CountTable):
        return sorted(fold.counted().rows(), key=str), fold.absent()
    if isinstance(fold, Pairs):
        return {key: table.tolist() for key, table in fold.tables.items() if table.any()}
    return sorted(fold.keys) if isinstance(fold, PresentGroups) else fold.summary


def table(who: str, when: list[int]) -> ut.Data:
    frame = pl.DataFrame({"who": list(who), "when": when, "x": [1] * len(who)})
    return ut.Data(frame, value="x", person="who", time="when")


@pytest.mark.parametrize("size", SIZES)
def test_a_row_out_of_order_is_refused_by_its_place(size):
    data = table("aaab", [0, 2, 1, 0])
    assert data.shape().rows == 4
    with pytest.raises(InvalidInput, match=r"row 2 of column 'when' .* sorted by person and time"):
        data.changed(piece=size).shape()


@pytest.mark.parametrize("size", SIZES)
def test_a_person_who_comes_back_is_refused_by_the_row(size):
    data = table("aabbcabb", [0, 1, 0, 1, 0, 2, 2, 3])
    assert data.shape().persons == 3
    with pytest.raises(InvalidInput, match=r"row 5 of column 'who' .* after rows of others"):
        data.changed(piece=size).answers(Count(1), STATES)


def test_too_many_persons_for_the_memory_are_refused():
    who = [f"p{n}" for n in range(9000)]
    frame = pl.DataFrame({"who": who, "x": [1] * 9000})
    data = ut.Data(frame, value="x", person="who").changed(piece=1000)
    assert data.shape().persons == 9000
    with pytest.raises(InvalidInput, match="more than 4166 persons"):
        data.changed(memory=400_000, piece=999).shape()


def kept_of(tally: Any) -> dict[str, Any]:
    """A tally as plain lists."""
    return {
        part.name: getattr(held, "tolist", lambda held=held: held)()
        for part in fields(tally)
        for held in [getattr(tally, part.name)]
    }


@law(
    settings(max_examples=60, deadline=None),
    8,
    frame=sorted_tables(),
    how=readings(),
    window=windows,
    size=st.sampled_from(SIZES),
    states=st.sampled_from([None, STATES]),
)
def test_tallies_for_a_fit_are_the_same_in_pieces(frame, how, window, size, states):
    data = read(frame, how, window)
    found = told(lambda: kept_of(data.changed(piece=size).tally(states)))
    assert found == told(lambda: kept_of(data.tally(states)))


@law(
    settings(max_examples=40, deadline=None),
    6,
    fields=st.lists(
        st.sampled_from(["1", "1.0", "a", "b", "", "NA", "2.5", "inf", "TRUE"]), max_size=9
    ),
    size=st.sampled_from(SIZES),
    clock=st.booleans(),
)
def test_the_values_of_a_csv_file_are_the_same_in_pieces(tmp_path_factory, fields, size, clock):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    times = [f"2024-03-0{1 + n // 5}T0{n % 5}:30" for n in range(len(fields))]
    lines = [f"x,{one},{when}" for one, when in zip(fields, times, strict=True)]
    path.write_text("\n".join(["who,v,when", *lines]) + "\n")
    more = {"time": "when"} if clock else {}
    data = ut.Data(path, value="v", person="who", **more)
    found = told(lambda: kept_of(data.changed(piece=size).tally()))
    assert found == told(lambda: kept_of(data.tally()))
    assert told(data.changed(piece=size).shape) == told(data.shape)


@pytest.mark.parametrize("size", SIZES)
def test_rows_that_do_not_follow_a_column_that_looks_like_time_are_refused(size):
    data = ut.Data(pl.DataFrame({"time": [0, 1, 3, 2], "x": [1, 0, 1, 1]}), value="x")
    for one in (data, data.changed(piece=size)):
        with pytest.raises(InvalidInput, match="not in the order of column 'time'"):
            one.tally()


def test_a_fit_in_pieces_is_the_fit_in_memory():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    rows = [(who, when, x) for who in "cab" for when, x in enumerate(chain.simulate(600, seed=3))]
    frame = pl.DataFrame(rows, schema=["who", "when", "x"], orient="row")
    data = ut.Data(frame, value="x", person="who", time="when")
    whole, parts = (ut.MarkovChain.fit(one, public=True) for one in (data, data.changed(piece=501)))
    assert parts.transition.tolist() == whole.transition.tolist()
    assert [str(check) for check in parts.checks] == [str(check) for check in whole.checks]
