"""What workers and driver do together, on many tables: the numbers of a frame in memory.

Chunks have two rows, so that persons, gaps and noise chains go on over their borders.
"""

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import undertow as ut
from tests.grids import law
from tests.series_plans import ERASE, FLIPS, STATES, XOR
from undertow.data.codes import Rule
from undertow.data.folds import PublicFacts, feed, unpacked
from undertow.data.readers import spark as partitions
from undertow.data.readers.spark import (
    Digested,
    Evaluated,
    Rewriting,
    Rewritten,
    apart,
    needed,
    refusal_in,
)
from undertow.errors import InvalidInput, UndertowError
from undertow.sampling.keyed import Digest, Key, randomised

pytest.importorskip("pyspark")
from tests.spark.pretend import Pretend, pretended

OPTIONS: dict[str, Any] = {"value": "mood", "person": "id", "time": "ts"}
KEY = Key(b"9" * 32)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(partitions, "CHUNK", 2)


@st.composite
def tables(draw, wrong: str = "") -> pl.DataFrame:
    """Rows in no order; some may be twice, or without a person or a time."""
    when: Any = st.integers(-3, 12)
    who: Any = st.sampled_from(["p", "q", "r"])
    if wrong == "missing":
        when, who = st.none() | when, st.none() | who
    least = draw(st.sampled_from([0, 16]))
    keys = draw(st.lists(st.tuples(who, when), min_size=least, max_size=24, unique=not wrong))
    groups = draw(st.lists(st.sampled_from(["n", "s", None]), min_size=len(keys), max_size=24))
    moods = st.sampled_from([*STATES, "?", None])
    return pl.DataFrame(
        {
            "id": [who for who, _ in keys],
            "ts": [when for _, when in keys],
            "ward": groups[: len(keys)],
            "mood": [draw(moods) for _ in keys],
        },
        schema={"id": pl.String, "ts": pl.Int64, "ward": pl.String, "mood": pl.String},
    )


shapes = st.sampled_from(
    [
        {},
        {"by": "ward"},
        {"by": "ward", "groups": ["s", "w"]},
        {"every": 1},
        {"every": 1, "by": "ward"},
        {"every": 1, "gaps": "idle", "by": "ward"},
        {"every": 2},
    ]
)
windows = st.sampled_from([None, (0, 6), (None, 4), (5, None)])
cuts = st.lists(st.integers(0, 24), max_size=3)


def asked(question: Any) -> Any:
    """Return an answer, or the kind of refusal: rows of a cluster have no numbers."""
    try:
        return question()
    except UndertowError as error:
        return type(error), str(error).rpartition("column ")[2].partition(" ")[0].strip("',")


@law(
    settings(deadline=None, max_examples=60),
    5,
    frame=tables() | tables("twice") | tables("missing"),
    where=cuts,
    more=shapes,
    window=windows,
)
def test_answers_are_those_of_a_frame_in_memory(frame, where, more, window):
    pair = [ut.Data(frame, **OPTIONS, **more), pretended(frame, where, **OPTIONS, **more)]
    if window is not None:
        pair = [data.window(*window) for data in pair]
    for question in (
        lambda data: data.shape(),
        lambda data: data.identity(),
        lambda data: data.answers(ut.Histogram(), STATES),
        lambda data: data.answers(ut.Transitions(), STATES),
    ):
        here, there = (asked(lambda data=data, q=question: q(data)) for data in pair)
        assert there == here


@law(
    settings(deadline=None, max_examples=25),
    5,
    frame=tables(),
    where=cuts,
    more=shapes,
    states=st.sampled_from([None, STATES]),
)
def test_tallies_are_those_of_a_frame_in_memory(frame, where, more, states):
    here, there = (
        asked(lambda data=data: data.tally(states))
        for data in (ut.Data(frame, **OPTIONS, **more), pretended(frame, where, **OPTIONS, **more))
    )
    if isinstance(here, tuple):
        assert there[0] is here[0]
        return
    own, far = here.described, there.described
    # which records they are, and how far apart, is not known of a table that a cluster holds
    assert dataclasses.replace(own, source=far.source, apart=None) == far
    for part in dataclasses.fields(here):
        if part.name != "described":
            assert np.array_equal(getattr(here, part.name), getattr(there, part.name)), part.name


@law(
    settings(deadline=None, max_examples=40),
    4,
    frame=tables(),
    where=cuts,
    more=shapes,
    window=windows,
    plan=st.sampled_from([FLIPS, XOR]),
)
def test_outputs_and_digests_are_those_of_a_frame_in_memory(frame, where, more, window, plan):
    more = {name: value for name, value in more.items() if name != "gaps"}
    held, far = ut.Data(frame, **OPTIONS, **more), pretended(frame, where, **OPTIONS, **more)
    if window is not None:
        held, far = held.window(*window), far.window(*window)
    rule = Rule(plan.states, foreign=0)
    if isinstance(asked(held.shape), tuple) or not held.shape().shortest:
        return
    check_outputs(held, far, rule, plan)


def test_erasures_are_those_of_a_frame_in_memory():
    frame = pl.DataFrame(
        [(who, when, STATES[(when + len(who)) % 2]) for when in range(4) for who in ("a", "bb")],
        schema=["id", "ts", "mood"], orient="row",
    )  # fmt: skip
    held, far = ut.Data(frame, **OPTIONS), pretended(frame, [5, 7], **OPTIONS)
    check_outputs(held, far, Rule(ERASE.states, foreign=0), ERASE)


def check_outputs(held, far, rule, plan):
    from undertow.data.codes import coded_table

    read: Any = coded_table(held, rule)
    series = (read.labels, read.lengths, read.codes, read.places)
    digest = Digest(KEY)
    digest.feed(*series)
    found = Digested(far, rule, KEY.exported())
    feed(far, [found], *needed(far, rule))
    assert found.result() == digest.result()
    assert (found.records, found.series) == (read.codes.size, len(read.lengths))
    names = plan.mechanism.names(plan.states)
    drawn = randomised(plan.mechanism, KEY, *series)
    wanted = read.restore(names, drawn.numbers, drawn.erased)
    work = Rewriting(far, rule, plan.mechanism, names, KEY.exported(), KEY.exported())
    kernel = Evaluated(apart(far), work.needed)
    rows: Any = far.source.in_order(far, kernel)
    told: list[bytes] = []
    made, facts = [], PublicFacts(far.grid)
    for part in rows.parts:  # in this process, so that what is reported is heard
        one = Rewritten(far.grid, work, kernel.columns, told.append)
        made += list(one(iter(part.to_batches(max_chunksize=2))))
    outputs = Pretend([pl.DataFrame(batch).to_arrow() for batch in made]).toArrow()
    shown = pl.DataFrame(outputs).rename(
        dict(zip(outputs.column_names, wanted.columns, strict=True))
    )
    assert_frame_equal(shown.sort("id", "ts"), wanted.sort("id", "ts"))
    for state in told:
        seen, kept = unpacked(state)
        facts.merge(seen)
        work.merge(kept)
    assert work.read.result() == digest.result()
    assert facts.summary["rows"] == held.shape().rows


def test_failures_of_workers_quote_nothing_but_our_own_words():
    class Quoting:
        schema = None

        @partitions.quiet
        def __call__(self, batches):
            yield from batches
            raise ValueError("Hesperus")

    with pytest.raises(partitions.KernelError) as caught:
        list(Quoting()(iter(())))
    assert str(caught.value) == "ValueError"
    assert caught.value.__suppress_context__
    said = refusal_in("a worker: <<InvalidInput>>rows are\nwrong<</>> and more")
    assert isinstance(said, InvalidInput)
    assert str(said) == "rows are\nwrong"
    assert refusal_in("<<SystemExit>>0<</>>") is None
    assert refusal_in("anything else") is None


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("No module named 'polars'", "polars"),
        ("java.io.IOException: Cannot run program 'python9'", "PYSPARK_PYTHON"),
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Hesperus", "gone"),
        ("java.io.IOException: No space left on device", "full"),
        ("ExecutorLostFailure (executor 1 exited)", "lost"),
        ("Answer from Java side is empty", "ended"),
        ("java.lang.OutOfMemoryError: Hesperus", "memory"),
        ("[CAST_INVALID_INPUT] 'Hesperus'", "Spark failed"),
    ],
)
def test_reasons_are_in_our_words(message, word):
    from undertow.data.readers.spark import _reason

    said = _reason(message)
    assert word in said
    assert "Hesperus" not in said
