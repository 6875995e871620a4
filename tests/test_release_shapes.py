"""A release is covered by a proof of its own shape, or refused: windows, groups, gaps, lengths."""

from dataclasses import replace
from functools import cache

import polars as pl
import pytest

import undertow as ut
from undertow.accuracy import accuracy
from undertow.errors import InvalidInput, LedgerConflict, NotSupported
from undertow.releasing import request as releasing

REFUSED = (InvalidInput, NotSupported)
SWITCHING = [[0.3, 0.7], [0.7, 0.3]]
STICKY = [[0.9, 0.1], [0.1, 0.9]]
CYCLE = ((0.07, 0.91, 0.02), (0.11, 0.02, 0.87), (0.39, 0.02, 0.59))
RETURN = ((0.235, 0.02, 0.745), (0.105, 0.02, 0.875), (0.505, 0.425, 0.07))


def table(records=6, persons=1, **columns):
    """Persons with the same number of records at times 0, 1, ..., and the columns asked for."""
    times = list(range(records)) * persons
    frame = {
        "id": [person for person in range(persons) for _ in range(records)],
        "t": times,
        "v": [time % 2 for time in times],
        "odd": [time % 2 for time in times],
    }
    return pl.DataFrame({**frame, **columns})


def data(frame=None, **words):
    return ut.Data(table() if frame is None else frame, value="v", person="id", time="t", **words)


# --- each case of the table was granted before, with the true leakage in the comment --------------


def test_groups_within_a_series_are_several_answers():
    plan = ut.calibrate(ut.Count(1), ut.MarkovChain(SWITCHING), limit=2.0, method="exact")
    with pytest.raises(NotSupported, match="valid_for='any'"):  # 3.5696
        ut.release(plan, data(by="odd"))


@pytest.mark.parametrize(
    ("rows", "limit", "window"),
    [pytest.param(CYCLE, 5.0, (2, 4), id="cycle")],
)
def test_a_count_of_a_window_is_not_the_whole_count(rows, limit, window):
    plan = ut.calibrate(ut.Count(0), ut.MarkovChain(rows), limit=limit, missing="none")
    assert plan.method == "exact"
    with pytest.raises(NotSupported, match="valid_for='windows'"):
        ut.release(plan, data().window(*window))
    wide = covering("windows", rows, limit)
    assert wide.mechanism.scale > plan.mechanism.scale
    out = ut.release(wide, data().window(*window))
    assert out.proof is not None
    assert out.proof.proves(limit)


@pytest.mark.parametrize(
    ("chain", "limit", "window"),
    [
        (ut.MarkovChain(STICKY, length=2), 4.0, (2, 4)),  # 4.2088
        (ut.MarkovChain([[0.5, 0.5], [0.01, 0.99]], start=[1, 0], length=2), 1.0, (4, 6)),  # 1.8116
    ],
)
def test_a_plan_for_short_series_is_none_for_windows_of_long_ones(chain, limit, window):
    for method in ("best", "exchange", "group"):
        plan = ut.calibrate(ut.Count(1), chain, limit=limit, method=method)
        with pytest.raises(REFUSED):
            ut.release(plan, data().window(*window))


@pytest.mark.parametrize("length", [2, 5])
def test_a_ledger_whose_model_is_shorter_than_the_series(tmp_path, length):
    short = ut.MarkovChain(STICKY, length=length)
    ledger = ut.Ledger(tmp_path / "year.db", dataset="w25", model=short, limit=1.0)
    plan = ut.calibrate(ut.Count(1), ut.MarkovChain(STICKY), limit=1.0, method="exchange")
    with pytest.raises(LedgerConflict, match=f"series of {length} records"):  # 2: 2.3449
        ut.release(plan, data().window(0, 2), ledger=ledger)
    assert ledger.entries() == []


# --- siblings -------------------------------------------------------------------------------------


def test_a_person_with_one_record_has_nothing_to_hide_behind():
    """Neighbours that mostly alternate blur every count of two records and more."""
    chain = ut.MarkovChain([[0.2, 0.8], [0.8, 0.2]])
    plan = ut.calibrate(ut.Count(1), chain, limit=0.5, against="ignorant", method="exact")
    short = table(4).vstack(pl.DataFrame({"id": [9], "t": [0], "v": [1], "odd": [0]}))
    with pytest.raises(NotSupported, match="single record"):
        ut.release(plan, data(short))


def test_gaps_need_a_proof_for_any_part():
    chain = ut.MarkovChain(SWITCHING)
    plan = ut.calibrate(ut.Count(1), chain, limit=2.0, method="exact")
    gappy = table().filter(pl.col("t") != 2)
    with pytest.raises(NotSupported, match="gaps"):
        ut.release(plan, data(gappy, every=1))
    wide = ut.calibrate(ut.Count(1), chain, limit=2.0, valid_for="any")
    assert ut.release(wide, data(gappy, every=1)).proof.valid_for == "any"


def test_absent_steps_make_a_series_longer_than_its_rows():
    chain = ut.MarkovChain(STICKY, length=4)
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0, method="exchange")
    sparse = table(10).filter(pl.col("t").is_in([0, 3, 9]))
    with pytest.raises(REFUSED):
        ut.release(plan, data(sparse, every=1))


def test_records_in_no_group_are_not_the_whole_series():
    plan = ut.calibrate(ut.Count(1), ut.MarkovChain(SWITCHING), limit=2.0, method="exact")
    part = table().with_columns(pl.when(pl.col("t") < 3).then(pl.lit("x")).alias("g"))
    with pytest.raises(NotSupported):
        ut.release(plan, data(part, by="g"))
    with pytest.raises(NotSupported):
        ut.release(plan, data(by="odd", groups=[1]))


def test_groups_of_whole_persons_are_covered_by_every_proof():
    plan = ut.calibrate(ut.Count(1), ut.MarkovChain(SWITCHING), limit=2.0, method="exact")
    cohorts = table(6, 2).with_columns(pl.col("id").alias("cohort"))
    out = ut.release(plan, data(cohorts, by="cohort"))
    assert out.proof == plan.leakage
    assert sorted(out.value) == [0, 1]


def test_a_window_of_everything_is_the_whole_series():
    plan = ut.calibrate(ut.Count(1), ut.MarkovChain(SWITCHING), limit=2.0, method="exact")
    assert ut.release(plan, data().window(0, 6)).proof == plan.leakage


@pytest.mark.parametrize("query", [ut.Count(1), ut.Sum(0, 1)], ids=["count", "sum"])
def test_a_proof_on_windows_is_one_for_any_length(query):
    """Shorter and longer series, whole and in part, rest on it, and the certificate says so."""
    chain = ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]], length=6)
    plan = ut.calibrate(
        query, chain, limit=2.0, method="exact", valid_for="windows", missing="none"
    )
    assert plan.leakage.valid_for == "windows"
    assert "any window of a series of any length" in plan.leakage.assumptions
    assert "about one window of each, of any length" in str(plan)
    tables = [data(table(n)) for n in (2, 4, 6, 9)]
    for part in (*tables, data().window(1, 3), data(table(9)).window(2, 8)):
        out = ut.release(plan, part)
        assert out.proof == plan.leakage
        assert "window of each series of any length" in str(out.report().text())
    narrow = ut.calibrate(query, chain, limit=2.0, method="exact", missing="none")
    assert narrow.leakage.valid_for == "series"
    assert ut.release(narrow, data(table(4))).proof.reaches("windows")
    assert plan.leakage.upper >= max(
        ut.leakage(plan.mechanism, ut.MarkovChain(chain.transition, length=n)).lower
        for n in (2, 3, 4, 6, 9)
    )


@pytest.mark.parametrize("valid_for", ["series", "any"])
def test_the_exchange_rate_covers_windows_and_groups(valid_for):
    chain = ut.MarkovChain(SWITCHING)
    plan = ut.calibrate(ut.Count(1), chain, limit=2.0, method="exchange", valid_for=valid_for)
    for part in (data().window(1, 3), data(by="odd"), data(by="odd").window(0, 5)):
        assert ut.release(plan, part).proof == plan.leakage


def test_no_tolerance_on_a_guarantee():
    """The exact scale leaks a hair more than the guarantee by the exchange rate: refused."""
    chain = ut.MarkovChain(STICKY)
    level = ut.dp_budget(chain, limit=1.0)
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0, method="exchange")
    hair = ut.Plan(
        ut.DiscreteLaplace(ut.Count(1), 1 / (level * (1 + 5e-10))), chain, 1.0, plan.leakage,
        "exchange",
    )  # fmt: skip
    with pytest.raises(REFUSED):
        ut.release(hair, data().window(1, 3))


def test_chains_whose_steps_differ():
    steps = [SWITCHING, STICKY, SWITCHING, STICKY, SWITCHING]
    chain = ut.MarkovChain(steps, start=[0.5, 0.5])
    exact = ut.calibrate(ut.Count(1), chain, limit=2.0, method="exact")
    exchange = ut.calibrate(ut.Count(1), chain, limit=2.0, method="exchange")
    assert ut.release(exact, data()).proof == exact.leakage
    assert exact.mechanism.scale < exchange.mechanism.scale
    with pytest.raises(NotSupported):
        ut.release(exact, data().window(1, 3))
    assert ut.release(exchange, data().window(1, 3)).proof == exchange.leakage
    with pytest.raises(REFUSED):  # there is no model for the seventh record
        ut.release(exchange, data(table(7)).window(0, 6))


def test_persons_have_no_more_records_than_their_plan_hides():
    plan = ut.calibrate(ut.Count(1), ut.Groups(2), limit=1.0, secret=ut.Person())
    with pytest.raises(InvalidInput, match="at most 2 records of a person"):
        ut.release(plan, data())
    assert ut.release(plan, data().window(0, 2)).plan is plan


def test_groups_smaller_than_the_series_of_a_person():
    plan = ut.calibrate(ut.Count(1), ut.Groups(2), limit=1.0)
    with pytest.raises(InvalidInput, match="at most 2 records depend"):
        ut.release(plan, data())
    with pytest.raises(InvalidInput, match="which of 4 belong together"):
        ut.release(plan, [0, 1, 0, 1])  # nobody said that these are two persons'
    assert ut.release(plan, [0, 1]).plan is plan


# --- what is asked for at planning time -----------------------------------------------------------


@cache
def covering(valid_for, rows=CYCLE, limit=5.0):
    chain = ut.MarkovChain(rows)
    return ut.calibrate(ut.Count(0), chain, limit=limit, valid_for=valid_for, missing="none")


def test_a_method_that_does_not_cover_what_is_asked():
    chain = ut.MarkovChain(SWITCHING)
    with pytest.raises(NotSupported, match="valid_for"):
        ut.calibrate(ut.Count(1), chain, limit=2.0, method="exact", valid_for="any")
    with pytest.raises(NotSupported, match="valid_for"):
        ut.calibrate(
            ut.Count(1), chain, limit=2.0, against="ignorant", method="wasserstein",
            valid_for="windows",
        )  # fmt: skip
    with pytest.raises(InvalidInput, match="valid_for must be"):
        ut.calibrate(ut.Count(1), chain, limit=2.0, valid_for="some")  # type: ignore[call-overload]


def test_plans_keep_what_they_cover():
    for valid_for in ("series", "windows", "any"):
        plan = covering(valid_for)
        again = ut.Plan.from_json(plan.to_json())
        assert again.leakage.valid_for == plan.leakage.valid_for == valid_for


# --- what a release says of itself ----------------------------------------------------------------


def test_error_bars_hold_for_all_groups_together():
    plan = ut.calibrate(ut.Count(1), ut.MarkovChain(STICKY), limit=1.0)
    one = ut.release(plan, data())
    three = replace(one, groups=("a", "b", "c"), sizes=(2, 2, 2))
    assert one.error_bars(0.05) == (accuracy(plan.noise, 0.05, 1),)
    assert three.error_bars(0.05) == (accuracy(plan.noise, 0.05, 3),) * 3
    assert three.error_bar(0.05) > one.error_bar(0.05)


def test_error_bars_of_a_mean_are_wider_where_there_are_fewer_records():
    model = ut.MultivariateGaussian(0, [[1, 0.5, 0.2], [0.5, 1, 0.5], [0.2, 0.5, 1]])
    plan = ut.calibrate(ut.Mean(0, 1), model, limit=1.0)
    whole = ut.release(plan, [0.2, 0.4, 0.9])
    parts = replace(whole, groups=("a", "b"), sizes=(1, 2))
    alpha = accuracy(plan.noise, 0.05, 2)
    assert parts.error_bars(0.05) == pytest.approx((3 * alpha, 1.5 * alpha))
    assert parts.error_bar(0.05) == pytest.approx(3 * alpha)


def test_a_release_has_begun_before_its_noise_is_drawn(tmp_path, monkeypatch):
    """Else one that was drawn, and perhaps seen, could be cancelled and made once more."""
    chain, begun = ut.MarkovChain(STICKY), []
    ledger = ut.Ledger(tmp_path / "year.db", dataset="w25", model=chain, limit=1.0)
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0, method="exchange")
    noisy = releasing._noisy

    def watched(*asked):
        begun.append(ledger.entry("r").begun)
        return noisy(*asked)

    monkeypatch.setattr(releasing, "_noisy", watched)
    ut.release(plan, data(), ledger=ledger, release_id="r")
    assert begun == [True]


def test_that_two_draws_were_equal_is_not_told(tmp_path, monkeypatch):
    """Who loses a race tells that the answer was recorded before, also where its own is the same.

    The other draw was not paid for: whether it fell on the same number says where the truth is.
    """
    chain = ut.MarkovChain(STICKY)
    ledger = ut.Ledger(tmp_path / "year.db", dataset="w25", model=chain, limit=1.0)
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0, method="exchange")
    noisy = releasing._noisy

    def beaten(*asked):
        drawn = noisy(*asked)
        ledger.confirm("r", drawn)  # the other process, which drew the same
        return drawn

    monkeypatch.setattr(releasing, "_noisy", beaten)
    assert ut.release(plan, data(), ledger=ledger, release_id="r").replayed
