"""Series in pieces: outputs, estimates and problems are those of the whole table."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.data.test_folds import SIZES, read, readings, sorted_tables, told, windows
from tests.grids import law
from undertow.certificate import Leakage
from undertow.data.codes import Rule, coded
from undertow.errors import NotSupported
from undertow.plan import Plan
from undertow.queries import Count, Histogram
from undertow.sampling.keyed import Digest, Key, randomised

CHAIN = ut.MarkovChain([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], states=(0, 1, 2))
TWO = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=(0, 1))
FLIPS = ut.RandomizedResponse.symmetric(3, 0.3)


def planned(mechanism: Any, chain: Any = TWO) -> Any:
    return Plan(mechanism, chain, 2.2, Leakage(2.2, 2.2, "exact", "any"), "exact")


def outputs(data: ut.Data, mechanism: Any, rule: Rule, key: Key) -> tuple[pl.DataFrame, bytes]:
    """The table with its outputs under a key, and the digest of its records."""
    found, carry, digest = [], None, Digest(key)
    for piece in coded(data, rule).pieces():
        series = piece.labels, piece.lengths, piece.codes, piece.places
        made = randomised(mechanism, key, *series, carry)
        carry = made.carry
        digest.feed(*series)
        found.append(piece.restore(rule.names, made.numbers, made.erased))
    return pl.concat(found), digest.result()


@law(
    settings(max_examples=60, deadline=None),
    8,
    frame=sorted_tables(),
    how=readings(),
    window=windows,
    size=st.sampled_from(SIZES),
    strict=st.booleans(),
)
def test_flips_are_byte_equal_in_pieces(frame, how, window, size, strict):
    data = read(frame, how, window)
    rule = Rule((0, 1, 2), foreign=None if strict else 1)
    key = Key.fresh()

    def made(one: ut.Data) -> Any:
        table, digest = outputs(one, FLIPS, rule, key)
        return table.rows(), table.schema, digest

    assert told(lambda: made(data.changed(piece=size))) == told(lambda: made(data))


@law(
    settings(max_examples=30, deadline=None),
    5,
    frame=sorted_tables(untidy=False),
    window=windows,
    size=st.sampled_from(SIZES),
    every=st.sampled_from([None, 1]),
)
def test_noise_chains_go_on_over_pieces(frame, window, size, every):
    more = {} if every is None else {"every": every}
    data = read(frame, {"value": "x", "person": "who", "time": "when", **more}, window)
    rule, key = Rule((0, 1), foreign=0), Key.fresh()
    noise = ut.XorNoise(0.2, 0.4)

    def made(one: ut.Data) -> Any:
        table, digest = outputs(one, noise, rule, key)
        return table.rows(), digest

    assert told(lambda: made(data.changed(piece=size))) == told(lambda: made(data))


def table(persons: int, length: int, seed: int = 1) -> ut.Data:
    draw = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "who": np.repeat([f"p{n}" for n in range(persons)], length),
            "when": np.tile(np.arange(length), persons),
            "x": draw.integers(0, 2, persons * length),
        }
    )
    return ut.Data(frame, value="x", person="who", time="when", every=1)


@pytest.mark.parametrize("size", [1, 3, 7, 11])
@pytest.mark.parametrize("query", [Count(1), Histogram(), "transitions"], ids=str)
@pytest.mark.parametrize(
    "mechanism",
    [
        ut.RandomizedResponse.binary(0.25, 0.375),
        ut.XorNoise(0.2, 0.4),
        ut.Redaction([[0.1, 0.2], [1, 1], [0.3, 0.4], [0.2, 0.1], [0.2, 0.1]], protect=1),
    ],
    ids=["flips", "noise", "erasures"],
)
def test_estimates_are_the_same_in_pieces(mechanism, query, size):
    plan = planned(mechanism)
    frame, _ = outputs(table(9, 5), mechanism, Rule((0, 1)), Key.fresh())
    made = ut.Data(frame, value="x", person="who", time="when", every=1)
    one, other = (ut.estimate(data, plan, query) for data in (made, made.changed(piece=size)))
    for part in ("value", "low", "high"):
        held, found = (getattr(each, part) for each in (one, other))
        held, found = (list(e.values()) if isinstance(e, dict) else e for e in (held, found))
        np.testing.assert_allclose(
            np.asarray(found, float), np.asarray(held, float), rtol=1e-9, atol=1e-12
        )
    assert (one.records, one.hidden, one.note) == (other.records, other.hidden, other.note)


@pytest.mark.parametrize("size", SIZES)
def test_a_redaction_of_other_lengths_is_refused_by_the_series(size):
    data = table(3, 4)
    frame = data.source.frame.collect()
    short = ut.Data(
        pl.concat([frame[:9], frame[10:]]), value="x", person="who", time="when", every=1
    )
    for one in (short, short.changed(piece=size)):
        found = coded(one, Rule((0, 1))).irregular(4)
        assert found == (2, 3, 1)
    for one in (data, data.changed(piece=size)):
        assert coded(one, Rule((0, 1))).irregular(4) is None


@law(
    settings(max_examples=40, deadline=None),
    6,
    frame=sorted_tables(),
    how=readings(),
    window=windows,
    size=st.sampled_from(SIZES),
)
def test_problems_are_the_same_in_pieces(frame, how, window, size):
    data = read(frame, how, window)

    def found(one: ut.Data) -> Any:
        return [str(problem) for problem in one.problems(Histogram(), (0, 1, 2))]

    assert told(lambda: found(data.changed(piece=size))) == told(lambda: found(data))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_row_without_a_person_hides_no_other_problem(size):
    frame = pl.DataFrame({"who": ["q", None, "q"], "when": [0, 1, 3], "x": [0, 0, 0]})
    data = ut.Data(frame, value="x", person="who", time="when", every=2)
    said = [str(problem) for problem in data.changed(piece=size).problems()]
    assert said == [str(problem) for problem in data.problems()]
    assert [one.partition(",")[0] for one in said] == ["column 'who'", "column 'when'"]


def test_what_needs_all_records_says_so():
    data = table(2, 3).changed(piece=2)
    with pytest.raises(NotSupported, match="allow more memory"):
        data.sequences()
    with pytest.raises(NotSupported, match="allow more memory"):
        ut.sanitize(ut.calibrate(ut.Series(), TWO, limit=3.0), data)
