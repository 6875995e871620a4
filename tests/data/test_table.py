"""Answers from tables: what a plain loop finds, whatever the library, the file or the order."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.data.tables import BACKENDS, DAY, STEP, as_source, by_loop, tables
from tests.grids import law
from undertow.data.table import Data

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=40)
FEW = 3  # of these in the gate
AB = ("a", "b")
NUMBERS = (0, 1, 2.5, -0.0 + 3)


def between(value, cuts):
    return sum(value >= cut for cut in cuts)


# kind of values, what `state` is, the same in Python, the states of the plan
RECORDS = {
    "text": ("text", None, lambda v: v, AB),
    "digits": ("text", None, lambda v: v, ("1", "a")),
    "whole": ("whole", None, lambda v: v, (0, 1, -3)),
    "real": ("real", None, lambda v: v, NUMBERS),
    "truth by value": ("truth", "v = true", lambda v: v, (True, False)),
    "expression": ("whole", "v > 0", lambda v: v > 0, ("idle", "active")),
    "real expression": ("real", "v * 2 > 1", lambda v: v * 2 > 1, ("idle", "active")),
    "names": (
        "real",
        "case when v >= 2 then 'b' when v < 0 then null else 'a' end",
        lambda v: "b" if v >= 2 else None if v < 0 else "a",
        AB,
    ),
    "cuts": ("real", [-0.5, 1, 2], lambda v: ("w", "x", "y", "z")[between(v, (-0.5, 1, 2))],
             ("w", "x", "y", "z")),
    "mapping": ("text", {"a": "b", "1": "a", "c": "a"}, {"a": "b", "1": "a", "c": "a"}.get, AB),
    "number mapping": ("whole", {0: "b", 1: "a", 2: "a"}, {0: "b", 1: "a", 2: "a"}.get, AB),
}  # fmt: skip


def opened(rows, kind, backend, folder, **options):
    source = as_source(rows, kind, backend, Path(folder))
    return Data(source, value="v", person="who", time="when", every="5m", **options)


@pytest.mark.parametrize("name", RECORDS)
@law(LAWS, FEW, data=st.data())
def test_counts_are_those_of_a_loop(name, data):
    kind, state, record, states = RECORDS[name]
    rows = data.draw(tables(kind))
    backend = data.draw(st.sampled_from(BACKENDS))
    query = data.draw(
        st.sampled_from([ut.Histogram(), ut.Count(states[-1]), ut.Count(list(states))])
    )
    window = data.draw(st.none() | st.tuples(st.integers(0, 5), st.integers(6, 10)))
    groups = data.draw(st.none() | st.just(("south", "north", "nowhere")))
    gaps = data.draw(st.sampled_from(["split", states[0]]))
    options = {} if groups is None else {"by": "group", "groups": groups}
    with tempfile.TemporaryDirectory() as folder:
        table = opened(rows, kind, backend, folder, state=state, gaps=gaps, **options)
        if window is not None:
            table = table.window(*(DAY + end * STEP for end in window))
        found = table.answers(query, states)
        shape = table.shape()
    wanted = by_loop(rows, query, states, record, groups=groups, window=window, gaps=gaps)
    assert found.groups == groups
    assert found.numbers == [numbers for numbers, _ in wanted.values()]
    assert found.rows == [total for _, total in wanted.values()]
    everyone = by_loop(rows, query, states, record, window=window, gaps=gaps)
    assert shape.rows == everyone[None][1]
    assert shape.groups == groups


@LAWS
@given(data=st.data())
def test_sums_are_those_of_a_loop(data):
    kind = data.draw(st.sampled_from(["whole", "real", "truth"]))
    rows = data.draw(tables(kind))
    backend = data.draw(st.sampled_from(BACKENDS))
    low = data.draw(st.floats(-5, 1))
    query = data.draw(st.sampled_from([ut.Sum, ut.Mean]))(
        low, low + data.draw(st.floats(0.25, 9)), steps=data.draw(st.integers(1, 2**30))
    )
    gaps = data.draw(st.sampled_from(["split", "off", 1]))
    with tempfile.TemporaryDirectory() as folder:
        table = opened(rows, kind, backend, folder, gaps=gaps)
        found = table.answers(query)
    wanted = by_loop(rows, query, (), lambda v: v, gaps=gaps)
    if kind == "truth" and backend in ("csv", "gzip"):
        return  # the texts true and false are no numbers in a file
    assert found.numbers == [wanted[None][0]]


@law(LAWS, FEW, data=st.data())
def test_every_backend_gives_the_same(data):
    kind = data.draw(st.sampled_from(["whole", "real", "text"]))
    states = AB if kind == "text" else (0, 1, 2.5)
    rows = data.draw(tables(kind))
    queries = [ut.Histogram(), ut.Count(states[0])] + ([] if kind == "text" else [ut.Sum(-1, 3)])
    seen = []
    for backend in BACKENDS:
        with tempfile.TemporaryDirectory() as folder:
            table = opened(rows, kind, backend, folder, by="group")
            shape = table.shape()
            answers = [table.answers(query, states) for query in queries]
            problems = [str(p) for p in table.problems(ut.Histogram(), states)]
        seen.append((shape, [(a.groups, a.numbers, a.rows) for a in answers]))
        assert len(problems) == sum(row.value not in states for row in rows) or len(rows) > 10
    assert all(one == seen[0] for one in seen)


@LAWS
@given(data=st.data())
def test_the_order_of_rows_does_not_matter(data):
    rows = data.draw(tables("real"))
    shuffled = list(rows)
    random.Random(data.draw(st.integers())).shuffle(shuffled)
    seen = []
    for order in (rows, shuffled):
        table = opened(order, "real", "polars", "", by="group")
        answer = table.answers(ut.Sum(-1e3, 1e3, steps=2**40))
        weighted = None
        if rows and len({row.who for row in rows}) == 1:
            single = opened(order, "real", "polars", "")
            query = ut.Linear([1.0 + t for t in range(len(rows))], spread=4.0, lower=-2.0)
            weighted = single.answers(query).numbers
        seen.append((table.shape(), answer.groups, answer.numbers, weighted))
    assert seen[0] == seen[1]
