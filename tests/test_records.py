"""A plan is about one kind of record, and not about the records that its model was fitted to."""

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import undertow as ut
from undertow.errors import (
    InvalidInput,
    InvalidModel,
    LedgerConflict,
    NotSupported,
    RecordsDiffer,
    SameRecords,
)
from undertow.models.records import RecordDescription, StateRule
from undertow.models.registry import model_from_dict, model_to_dict
from undertow.releasing.series import prepare as prepare_series

FIRST, LATER = dt.datetime(2024, 1, 1), dt.datetime(2025, 1, 1)
FIVE, HALF = dt.timedelta(minutes=5), dt.timedelta(minutes=30)
READING = {"value": "steps", "state": "steps > 0", "person": "id", "time": "ts"}


def wearers(start=LATER, step=FIVE, column="steps", persons=("ann", "bob"), rows=120, seed=0):
    """Return a table of persons and times; a third of the readings are 0."""
    drawn = np.random.default_rng(seed)
    table = [
        (person, start + place * step, max(0, int(drawn.integers(-50, 100))))
        for person in persons
        for place in range(rows)
    ]
    return pl.DataFrame(table, schema=["id", "ts", column], orient="row")


def data(frame, every="5m", **more):
    return ut.Data(frame, **{**READING, "every": every, **more})


@pytest.fixture(scope="module")
def fit():
    return ut.MarkovChain.fit(data(wearers(FIRST, HALF, rows=300), every="30m"), public=True)


@pytest.fixture(scope="module")
def plan(fit):
    return ut.calibrate(ut.Count(True), fit, limit=3.0)


def refused(plan, table):
    """Return the words of the refusal by everything that reads records under a plan."""
    with pytest.raises(RecordsDiffer) as refusal:
        ut.release(plan, table)
    flips = ut.calibrate(ut.Series(), plan.model, limit=5.0)
    for verb in (ut.sanitize, prepare_series):
        with pytest.raises(RecordsDiffer):
            verb(flips, table)
    with pytest.raises(RecordsDiffer):
        ut.attack([3.0], plan, truth=table)
    said = [str(problem) for problem in table.problems(model=plan.model)]
    for what, model, here in refusal.value.differences:
        assert any(what in one and model in one and here in one for one in said)
    return str(refusal.value)


# --- what a fit writes ----------------------------------------------------------------------------


def test_a_fit_says_what_its_records_are(fit):
    records = fit.records
    assert (records.every, records.unit, records.context) == ("30m", "person", None)
    assert records.state == StateRule("value > 0", type="number", column="steps")


FITS: dict[str, Any] = {
    "chain": lambda table: ut.MarkovChain.fit(table, public=True),
    "second": lambda table: ut.MarkovChain.fit(table, order=2, prior=0.5, public=True),
    "hidden": lambda table: ut.HiddenChain.fit(table, starts=1, public=True),
    "region": lambda table: ut.MarkovChain.fit(table, public=True).region(),
    "population": lambda table: ut.MarkovChain.fit(table, public=True).population(),
    "set": lambda table: ut.ModelSet([ut.MarkovChain.fit(table, public=True)] * 2),
    "pieces": lambda table: ut.MarkovChain.fit(table.changed(piece=7), public=True),
}


@pytest.mark.parametrize("kind", FITS)
def test_every_fit_and_what_is_made_of_it_says_so(kind):
    model = FITS[kind](data(wearers(FIRST, rows=200)))
    assert model.records.every == "5m"
    assert model.records.unit == "person"
    assert model.records.state.expression == "value > 0"
    again = model_from_dict(json.loads(json.dumps(model_to_dict(model))))
    assert again.records == model.records
    assert model.records.source.count == 2


def test_a_private_fit_says_so_and_does_not_keep_which_records_they_were(tmp_path):
    wide = ut.MarkovChain.box(
        [[0.6, 0.1], [0.2, 0.5]], [[0.9, 0.4], [0.5, 0.8]], states=(False, True), every="5m"
    )
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    rows = wearers(FIRST, rows=5000)
    rows = rows.with_columns(steps=pl.Series(chain.simulate(10_000, seed=1)))
    ledger = ut.Ledger(tmp_path / "a.db", "a", model=wide, limit=1.0)
    found = ut.MarkovChain.fit(data(rows), private=0.06, ledger=ledger)
    assert found.records.every == found.region().records.every == "5m"
    assert found.records.source is None
    ledger.narrow(found.release_id)
    narrowed = ledger.model
    assert narrowed.records == found.region().records
    out = ut.release(ut.calibrate(ut.Count(True), narrowed, limit=0.4), data(rows), ledger)
    assert not any("fitted" in said for said in out.conditions)  # the account has paid for the fit


def test_plain_lists_say_nothing_and_take_the_models_word(plan):
    assert not ut.MarkovChain.fit([[0, 1, 1, 0, 1]] * 9, public=True).records
    assert not ut.MarkovChain.fit(ut.Data([0, 1, 1, 0, 1] * 9), public=True).records
    for series in ([True, False] * 90, ut.Data([True, False] * 90)):
        out = ut.release(plan, series)
        assert out.conditions == ("whether these are the records that were fitted is not known",)


def test_models_by_hand_may_say_the_step():
    rows = [[0.9, 0.1], [0.3, 0.7]]
    for model in (
        ut.MarkovChain(rows, every="300s"),
        ut.MarkovChain.box(rows, rows, every="5m"),
        ut.MarkovChain.mixing(2, 0.1, 0.1, every="5m"),
        ut.MarkovChain.periodic([rows, rows], length=9, every="5m"),
        ut.MarkovChain.by_context({"a": rows}, "aaa", every="5m"),
        ut.HiddenChain(rows, symbols=("a", "b"), every="5m"),
        ut.MarkovChain.second_order([rows, rows], every="5m"),
        ut.ModelSet([ut.MarkovChain(rows, every="5m"), ut.MarkovChain(rows)]),
    ):
        assert model.records == RecordDescription(every="5m")
        assert model_from_dict(model_to_dict(model)).records == model.records
    steps: list[Any] = ["soon", "", 0, -5, True, 2.5, "0m"]
    for wrong in steps:
        with pytest.raises(InvalidModel, match="the step of records"):
            ut.MarkovChain(rows, every=wrong)
    with pytest.raises(InvalidModel, match="about the same records"):
        ut.ModelSet([ut.MarkovChain(rows, every="5m"), ut.MarkovChain(rows, every="1h")])


# --- what differs is refused before anything is spent ---------------------------------------------


def test_a_plan_for_half_hours_is_not_one_for_five_minutes(plan):
    said = refused(plan, data(wearers()))
    assert "every 30m in the model, every 5m in the data" in said


@pytest.mark.parametrize("column", [pl.Float64, pl.Int64])
def test_numbers_are_not_false_and_true(column):
    plan = ut.calibrate(
        ut.Count(True), ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=(False, True)), limit=3.0
    )
    table = wearers().with_columns(pl.col("steps").cast(column))
    assert "False and True in the model, numbers of column 'steps'" in refused(
        plan, data(table, state=None)
    )
    truths = wearers().with_columns(pl.col("steps") > 0)
    assert ut.release(plan, data(truths, state=None)).conditions


def test_persons_are_named_where_they_were_fitted(plan):
    one = wearers(step=HALF, persons=("ann",)).drop("id")
    assert "no column says whose" in refused(plan, data(one, "30m", person=None))


def test_rows_without_a_step_are_held_against_the_models(plan):
    """The times say it: equal steps pass, others are told, and nothing is called equal."""
    assert ut.release(plan, data(wearers(step=HALF), None)).rows
    moved = wearers(step=HALF).with_columns(
        pl.col("ts") + pl.duration(minutes=pl.int_range(pl.len()) % 2 * 17)
    )
    assert "rows 13 to 47 minutes apart, no step named in the data" in refused(
        plan, data(moved, None)
    )


def test_nothing_is_spent_when_records_differ(plan, tmp_path):
    ledger = ut.Ledger(tmp_path / "a.db", "a", model=plan.model, limit=9.0)
    with pytest.raises(RecordsDiffer):
        ut.release(plan, data(wearers()), ledger)
    assert not ledger.entries()
    ut.release(plan, data(wearers(step=HALF), "30m"), ledger)
    (entry,) = ledger.entries()
    assert entry.about["records"] == replace(plan.model.records, source=None).to_dict()


def test_accounts_of_other_records_are_other_accounts(tmp_path):
    rows = [[0.9, 0.1], [0.3, 0.7]]
    ledger = ut.Ledger(tmp_path / "a.db", "a", model=ut.MarkovChain(rows, every="30m"), limit=9.0)
    assert ledger.model.records.every == "30m"
    plan = ut.calibrate(ut.Count(1), ut.MarkovChain(rows, every="5m"), limit=1.0)
    with pytest.raises(LedgerConflict, match="other records than the account"):
        ut.release(plan, [0, 1] * 50, ledger)


def test_refusals_do_not_depend_on_values(plan):
    tables = [wearers(seed=seed) for seed in range(3)]
    tables.append(tables[0].with_columns(steps=pl.lit(None, dtype=pl.Int64)))
    assert len({refused(plan, data(table, state="steps > 100")) for table in tables}) == 1


# --- what matches passes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        {"every": "1800s"},
        {"every": dt.timedelta(minutes=30)},
        {"state": "((steps)   > (0.0))"},
        {"state": "steps>0"},
        {"value": None},
    ],
)
def test_the_same_rule_in_other_words_passes(plan, how):
    out = ut.release(plan, data(wearers(step=HALF), **{"every": "30m", **how}))
    assert out.conditions == ()


def test_another_column_is_stated_and_not_refused(plan, tmp_path):
    other = wearers(step=HALF, column="count")
    out = ut.release(plan, data(other, "30m", value="count", state="count > 0"))
    assert out.conditions == ("fitted on column 'steps', and read from column 'count'",)
    path = tmp_path / "t.csv"
    wearers(step=HALF).write_csv(path)  # of no declared type
    assert ut.release(plan, data(path, "30m")).conditions == ()


def test_cuts_and_mappings_are_compared():
    bins = ut.MarkovChain.fit(data(wearers(FIRST), state=[1, 50]), public=True)
    plan = ut.calibrate(ut.Count(1), bins, limit=5.0)
    assert ut.release(plan, data(wearers(), state=[1.0, 50.0])).rows
    assert "bins cut at 1, 60" in refused(plan, data(wearers(), state=[1, 60]))
    words = wearers(FIRST).with_columns(pl.when(pl.col("steps") > 0).then(1).otherwise(2))
    table = wearers().with_columns(pl.when(pl.col("steps") > 0).then(1).otherwise(2))
    names = {1: "on", 2: "off"}
    fit = ut.MarkovChain.fit(
        data(words, value="literal", state=names), states=("off", "on"), public=True
    )
    named = ut.calibrate(ut.Count("on"), fit, limit=5.0)
    turned = {2: "off", 1: "on"}
    assert ut.release(named, data(table, value="literal", state=turned)).rows
    with pytest.raises(RecordsDiffer, match="1 as 'off'"):
        ut.release(named, data(table, value="literal", state={1: "off", 2: "on"}))


# --- what was never said is stated ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "said"),
    [
        ("5m", "one record = one row, five minutes apart"),
        (None, "one record = one row, five minutes apart"),
        ("1m", "one record = one row, one minute apart"),
    ],
)
def test_what_the_model_never_said_is_in_the_first_sentence(every, said):
    plan = ut.calibrate(
        ut.Count(True), ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=(False, True)), limit=3.0
    )
    out = ut.release(plan, data(wearers(), every))
    assert out.conditions == (
        f"{said} in this table (the model does not say)",
        "the state of a record is value > 0 in this table (the model does not say)",
    )
    told = " ".join(str(out.report()).split())
    assert out.conditions[0] in told
    assert out.conditions[0] in str(out)
    assert out.conditions[0] in out.report().to_dict()["promise"]["words"]


def test_rows_tell_the_step_of_a_fit_that_nobody_named():
    """Equal steps are held against others; unequal ones are told, in the model and the promise."""
    fit = ut.MarkovChain.fit(data(wearers(FIRST, HALF), None), public=True)
    assert (fit.records.every, fit.records.apart) == (None, ("30m", "30m"))
    plan = ut.calibrate(ut.Count(True), fit, limit=5.0)
    assert ut.release(plan, data(wearers(step=HALF), None)).conditions == ()
    assert ut.release(plan, data(wearers(step=HALF), "30m")).conditions == ()
    for every in (None, "5m"):
        assert "rows 30m apart in the model" in refused(plan, data(wearers(), every))
    odd = wearers(FIRST, HALF).with_columns(
        pl.col("ts") + pl.duration(minutes=pl.int_range(pl.len()) % 2 * 17)
    )
    told = ut.MarkovChain.fit(data(odd, None), public=True)
    assert told.records.apart == ("13m", "47m")
    assert "one record a row 13m to 47m apart" in str(told.records)
    assert model_from_dict(json.loads(json.dumps(model_to_dict(told)))).records == told.records
    (said,) = ut.release(
        ut.calibrate(ut.Count(True), told, limit=5.0), data(wearers(step=HALF), "30m")
    ).conditions
    assert said == (
        "one record = one row, 30 minutes apart in this table (13m to 47m where the model was "
        "fitted)"
    )


def test_the_plan_and_the_report_say_what_the_records_are(plan):
    assert "; one record every 30m, a state by value > 0" in plan.guarantee()
    out = ut.release(plan, data(wearers(step=HALF), "30m"))
    fields = out.report().to_dict()["model"]["records"]
    assert fields["every"] == "30m"
    assert fields["unit"] == "person"
    assert "source" not in fields
    assert "series of a person" in " ".join(str(out.report()).split())
    again = ut.Plan.from_json(plan.to_json())
    assert again.model.records == plan.model.records


# --- every nth record -----------------------------------------------------------------------------


def test_every_nth_record_is_the_chain_of_the_power():
    chain = ut.MarkovChain([[0.5, 0.5, 0.0], [0.0, 0.6, 0.4], [0.2, 0.0, 0.8]], every="5m")
    for step in (1, 2, 6, 25):
        nth = chain.every_nth(step)
        power = np.eye(3)
        for _ in range(step):
            power = power @ chain.transition
        assert nth.transition == pytest.approx(power / power.sum(axis=1, keepdims=True), abs=1e-14)
        assert nth.initial == pytest.approx(chain.initial, abs=1e-12)
        assert nth.records.every == {1: "5m", 2: "10m", 6: "30m", 25: "125m"}[step]
    assert chain.every_nth(1) == chain
    assert ut.MarkovChain(chain.transition, length=13).every_nth(6).length == 3
    assert ut.MarkovChain(chain.transition, every=2).every_nth(3).records.every == 6
    assert chain.every_nth(1).transition[0, 2] == 0.0  # what is impossible stays so
    sets = ut.ModelSet([chain, ut.MarkovChain(chain.every_nth(2).transition)]).every_nth(3)
    assert sets.records.every == "15m"
    assert sets.models[0] == chain.every_nth(3)


def test_every_nth_record_is_refused_where_it_is_no_such_chain(fit):
    rows = [[0.9, 0.1], [0.3, 0.7]]
    for model in (
        ut.MarkovChain(rows, start=[1, 0]),
        ut.MarkovChain.periodic([rows, rows], length=9),
        ut.MarkovChain.second_order([rows, rows]),
        ut.HiddenChain(rows, symbols=("a", "b")),
        ut.Groups(3),
    ):
        with pytest.raises(NotSupported, match="longer step"):
            model.every_nth(2)
    with pytest.raises(InvalidInput):
        ut.MarkovChain(rows).every_nth(0)
    with pytest.raises(InvalidInput, match="one record alone"):
        ut.MarkovChain(rows, length=4).every_nth(9)
    ring = np.roll(np.eye(13), 1, axis=1) + 1e-30 * np.roll(np.eye(13), 3, axis=1)
    assert ut.MarkovChain(ring).every_nth(3).size == 13
    with pytest.raises(NotSupported, match="too small"):  # four leaps of three: 1e-120
        ut.MarkovChain(ring).every_nth(4)
    hour = fit.every_nth(2)
    assert [check.outcome for check in hour.checks] == [check.outcome for check in fit.checks]
    later = ut.calibrate(ut.Count(True), hour, limit=5.0)
    table = data(wearers(step=2 * HALF), "1h")
    assert ut.release(later, table).rows
    with pytest.raises(RecordsDiffer, match=r"every_nth\(2\)"):
        ut.release(ut.calibrate(ut.Count(True), fit, limit=5.0), table)
    with pytest.raises(RecordsDiffer, match=r"every_nth\(2\)"):
        ut.release(ut.calibrate(ut.Count(True), fit.region(), limit=5.0), table)
    wider = ut.calibrate(ut.Count(True), fit.region().every_nth(2), limit=5.0)
    assert ut.release(wider, table).rows
    with pytest.raises(RecordsDiffer, match="fit a model to records of this kind"):
        ut.release(wider, data(wearers(step=3 * HALF), "90m"))


# --- the records that were fitted -----------------------------------------------------------------


def test_the_records_that_were_fitted_are_not_released(plan):
    same = data(wearers(FIRST, HALF, rows=300), "30m")
    for overlapping in (
        same,
        same.window(FIRST, FIRST + 9 * HALF),
        data(wearers(FIRST + 299 * HALF, HALF), "30m"),
        data(wearers(FIRST, HALF, persons=("bob", "eve"), seed=4), "30m"),
    ):
        with pytest.raises(SameRecords, match="same-records"):
            ut.release(plan, overlapping)
        flips = ut.calibrate(ut.Series(), plan.model, limit=5.0)
        with pytest.raises(SameRecords):
            ut.sanitize(flips, overlapping)
        assert any("very records" in str(one) for one in overlapping.problems(model=plan.model))
    for others in (
        data(wearers(FIRST + 300 * HALF, HALF), "30m"),
        data(wearers(FIRST, HALF, persons=("eve", "zoe")), "30m"),
    ):
        assert ut.release(plan, others).conditions == ()
        assert not any("very records" in str(one) for one in others.problems(model=plan.model))


def test_they_are_where_the_plan_accepts_it_and_the_first_sentence_says_so(plan):
    accepted = replace(plan, accepted=("same-records",))
    assert "which was accepted" in accepted.guarantee()
    out = ut.release(accepted, data(wearers(FIRST, HALF, rows=300), "30m"))
    assert out.conditions == ("these are the records that the model was fitted to",)
    told = " ".join(str(out.report()).split())
    assert "which was accepted" in told
    assert out.conditions[0] in told


def test_a_source_is_public_facts_and_no_values(plan):
    one, other = (
        ut.MarkovChain.fit(data(wearers(FIRST, seed=seed)), public=True).records for seed in (1, 2)
    )
    assert one == other  # neighbouring tables are not told apart
    text = json.dumps(one.to_dict())
    assert "ann" not in text
    many = wearers(FIRST, persons=[f"p{n}" for n in range(1500)], rows=3)
    source = ut.MarkovChain.fit(data(many), public=True).records.source
    assert (len(source.persons), source.count) == (1024, 1500)
    pieces = data(many).changed(piece=100).fitted()
    assert pieces.source == source


def test_windows_of_one_file_that_do_not_meet_are_other_records(tmp_path):
    path = tmp_path / "t.csv"
    wearers(FIRST, HALF, persons=("a",), seed=1).drop("id").write_csv(path)
    table = data(path, "30m", person=None)
    half = FIRST + 60 * HALF
    plan = ut.calibrate(
        ut.Count(True), ut.MarkovChain.fit(table.window(end=half), public=True), limit=5.0,
        method="exchange",
    )  # fmt: skip
    assert ut.release(plan, table.window(half)).conditions == ()
    with pytest.raises(SameRecords):
        ut.release(plan, table)


def test_names_with_control_characters_are_written_and_read():
    frame = wearers(FIRST).rename({"steps": "st\teps\x1b[31m"})
    fit = ut.MarkovChain.fit(
        data(frame, value="st\teps\x1b[31m", state='"st\teps\x1b[31m" > 0'), public=True
    )
    assert fit.records.state.column == "st\\teps\\x1b[31m"
    assert model_from_dict(model_to_dict(fit)).records == fit.records


def test_a_set_of_cohorts_was_fitted_to_the_records_of_all():
    parts = [
        ut.MarkovChain.fit(data(wearers(FIRST, persons=(name,))), public=True) for name in "ab"
    ]
    both = ut.ModelSet(parts).records.source
    assert (both.count, len(both.persons)) == (2, 2)
    plan = ut.calibrate(ut.Count(True), ut.ModelSet(parts), limit=5.0)
    with pytest.raises(SameRecords):
        ut.release(plan, data(wearers(FIRST, persons=("b",))))


def test_a_fit_by_context_says_so_and_what_its_context_is():
    table = data(wearers(FIRST, persons=("ann",)))
    hours = [(place // 12) % 2 for place in range(120)]
    found = ut.MarkovChain.fit_by_context(table, [hours], prior=1, name="hour", public=True)
    chain = found.periodic(length=24, steps_per=12)
    assert (chain.records.every, chain.records.context) == ("5m", "hour")
    assert chain.records.state.expression == "value > 0"
    again = model_from_dict(json.loads(json.dumps(model_to_dict(chain))))
    assert again.records == chain.records


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"every": "soon"},
        {"every": 0},
        {"apart": ["5m"]},
        {"apart": [None, "5m"]},
        {"unit": 3},
        {"unknown": "part"},
        {"state": "value > 0"},
        {"state": {"mapping": [["a"]]}},
        {"source": {"persons": [["ann", 0, 1]]}},
        {"source": {"persons": [["0" * 16, 0.5, 1]], "count": 1}},
        {"source": {"persons": [["0" * 16, 0, 1]]}},
        {"source": {"files": "here"}},
        {"source": {"clock": "sun"}},
    ],
)
def test_descriptions_of_a_damaged_file_are_refused(wrong):
    body = {"transition": [[0.9, 0.1], [0.3, 0.7]], "records": wrong}
    with pytest.raises(InvalidInput):
        model_from_dict(body)


def test_a_step_that_only_the_model_says_is_stated():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=(False, True), every="5m")
    plan = ut.calibrate(ut.Count(True), chain, limit=3.0)
    out = ut.release(plan, data(wearers().drop("ts"), None, time=None))
    assert out.conditions[0] == (
        "rows are taken to be every 5m, as the model says (the table does not say)"
    )
