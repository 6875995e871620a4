"""Ways round the rule that a plan is about one kind of record, and the checks of its fit."""

import datetime as dt
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import undertow as ut
from tests.cli.calls import call
from undertow.errors import FailedChecks, InvalidInput, LedgerConflict, RecordsDiffer
from undertow.models import FittedChain, SecondOrderChain
from undertow.models.fitting.checks import Check
from undertow.models.registry import model_from_dict, model_to_dict

_CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])


@pytest.fixture(scope="module")
def failing() -> FittedChain:
    """A fit to records that alternate slowly, so that its checks fail."""
    records = ([0] * 7 + [1] * 5) * 120
    fit = ut.MarkovChain.fit(records, public=True)
    assert [check.name for check in fit.checks if check.outcome == "failed"]
    return fit


_MADE: dict[str, Callable[[FittedChain], Any]] = {
    "the region": lambda fit: fit.plausible_region(),
    "the corners": lambda fit: ut.ModelSet(fit.plausible_region().corners()),
    "the chain that lasts": lambda fit: fit.plausible_region().lasting(),
    "the middle": lambda fit: fit.plausible_region().middle(),
    "read backwards": lambda fit: fit.reverse(),
    "the point, backwards": lambda fit: fit.point().reverse(),
    "hidden": lambda fit: ut.HiddenChain.of(fit),
    "hidden, backwards": lambda fit: ut.HiddenChain.of(fit).reverse(),
    "hidden, of order one": lambda fit: ut.HiddenChain.of(fit).first_order(),
    "of order two": lambda fit: SecondOrderChain.of(fit),
    "of order two, backwards": lambda fit: SecondOrderChain.of(fit).reverse(),
    "of order two, of order one": lambda fit: SecondOrderChain.of(fit).first_order(),
    "a bridge": lambda fit: fit.bridge(0, 1, 9),
    "pickled": lambda fit: pickle.loads(pickle.dumps(fit.reverse())),
    "a file": lambda fit: model_from_dict(model_to_dict(fit)).plausible_region(),
    "a file of another law": lambda fit: model_from_dict(model_to_dict(fit.reverse())),
}


@pytest.mark.parametrize("name", _MADE)
def test_what_is_made_of_a_fit_has_its_checks(failing: FittedChain, name: str) -> None:
    made = _MADE[name](failing)
    with pytest.raises(FailedChecks):
        ut.calibrate(ut.Count(1), made, limit=1.0)
    with pytest.raises(FailedChecks):
        ut.dp_budget(made, limit=1.0)


def test_what_is_made_of_a_private_fit_is_the_curators() -> None:
    with pytest.warns(UserWarning, match="disclosure|public"):
        fit = ut.MarkovChain.fit(_CHAIN.simulate(400, seed=2))
    for name, make in _MADE.items():
        assert make(fit).origin == "not public", name


def test_an_estimate_that_is_turned_is_taken_for_the_truth() -> None:
    fit = ut.MarkovChain.fit(_CHAIN.simulate(400, seed=2), public=True)
    assert fit.reverse().checks[0].outcome == "not tested"
    assert fit.plausible_region().checks[0].name == "sample"


def test_a_region_keeps_the_origin_that_discloses_more() -> None:
    region = ut.MarkovChain.box([[0.8, 0.1], [0.3, 0.6]], [[0.9, 0.2], [0.4, 0.7]])
    told = _CHAIN.with_origin("private").with_region(region.with_origin("not public"))
    tested = told.with_checks([Check("sample", "passed", "", basis="private")])
    for model in (tested, model_from_dict(model_to_dict(tested))):
        plan = ut.calibrate(ut.Count(1), model, limit=1.0)
        assert plan.origin == "not public"


def _steps(minutes: int, rows: int = 400) -> pl.DataFrame:
    start = dt.datetime(2024, 3, 1)
    values = ut.MarkovChain([[0.8, 0.2], [0.4, 0.6]]).simulate(rows, seed=minutes)
    times = [start + dt.timedelta(minutes=minutes * row) for row in range(rows)]
    return pl.DataFrame({"at": times, "steps": [60 * value for value in values]})


def _half_hours() -> ut.Plan:
    older = _steps(30).with_columns(pl.col("at") - dt.timedelta(days=365))
    table = ut.Data(older, value="steps", state="steps > 0", time="at", every="30m")
    fit = ut.MarkovChain.fit(table, public=True)
    broken = [check.name for check in fit.checks if check.outcome == "failed"]
    return ut.calibrate(ut.Count(True), fit, limit=1.0, accept=broken)


def test_a_column_of_times_that_nobody_named_says_the_step(tmp_path: Path) -> None:
    plan, five = _half_hours(), _steps(5)
    path = tmp_path / "five.csv"
    five.write_csv(path, datetime_format="%Y-%m-%d %H:%M:%S")
    for source in (five, five.lazy(), five.to_arrow(), five.to_pandas(), path):
        with pytest.raises(RecordsDiffer, match="five minutes apart by column 'at'"):
            ut.release(plan, ut.Data(source, value="steps", state="steps > 0"))


def test_a_model_that_never_said_its_step_is_told_of_the_column() -> None:
    plan = ut.calibrate(ut.Count(True), ut.MarkovChain(_CHAIN.transition, [False, True]), limit=1.0)
    told = ut.release(plan, ut.Data(_steps(5), value="steps", state="steps > 0"), insecure_seed=1)
    assert any("five minutes apart by column 'at'" in clause for clause in told.conditions)


def _at(minutes: int) -> ut.Data:
    return ut.Data(
        _steps(minutes), value="steps", state="steps > 0", time="at", every=f"{minutes}m"
    )


def _by_hand(every: str | None) -> ut.MarkovChain:
    return ut.MarkovChain(_CHAIN.transition, [False, True], every=every)


def test_an_account_is_about_the_records_of_its_model(tmp_path: Path) -> None:
    account = ut.Ledger(tmp_path / "a.db", "d", _by_hand("5m"), limit=1.0)
    silent = ut.calibrate(ut.Count(True), _by_hand(None), limit=0.2)
    with pytest.raises(RecordsDiffer, match="another account"):
        ut.release(silent, _at(30), account)
    assert not account.entries()
    assert ut.release(silent, _at(5), account).entry


def test_an_account_of_a_silent_model_holds_one_kind_of_records(tmp_path: Path) -> None:
    account = ut.Ledger(tmp_path / "a.db", "d", _by_hand(None), limit=1.0)
    first, second = (
        ut.calibrate(ut.Count(True), _by_hand(every), limit=0.2) for every in ("30m", "5m")
    )
    assert ut.release(first, _at(30), account).entry
    with pytest.raises(LedgerConflict, match="one record every 30m"):
        ut.release(second, _at(5), account)
    assert len(account.entries()) == 1


def test_what_is_made_of_a_fit_says_which_records_it_is_about() -> None:
    table = ut.Data(_steps(30), value="steps", state="steps > 0", time="at", every="30m")
    fit = ut.MarkovChain.fit(table, public=True)
    two = SecondOrderChain.from_fit(fit)
    for made in (fit.reverse(), ut.HiddenChain.of(fit), SecondOrderChain.of(fit), two):
        assert made.records == fit.records
    broken = [check.name for check in fit.reverse().checks if check.outcome == "failed"]
    plan = ut.calibrate(ut.Count(True), fit.reverse(), limit=1.0, accept=broken)
    with pytest.raises(RecordsDiffer, match="every 30m in the model, every 5m in the data"):
        ut.release(plan, _at(5))


def test_what_a_leakage_means_begins_with_failed_checks(
    failing: FittedChain, tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model_to_dict(failing)))
    said = call("leakage", "--model", path, "--epsilon", "0.1").stdout
    (meaning,) = [line for line in said.splitlines() if line.strip().startswith("meaning  ")]
    assert meaning.split("meaning")[1].strip().startswith("not bounded unless the model is true")


def test_objects_that_fit_no_state_are_refused_as_a_list_is() -> None:
    """Such a column of pandas declares no type: the types in it are public, as a list's."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")

    plan = ut.calibrate(ut.Count(1), ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), limit=1.0)
    texts = pd.DataFrame({"x": pd.Series(["rest", "move", None] * 9, dtype=object)})
    with pytest.raises(InvalidInput, match="holds text"):
        ut.release(plan, ut.Data(texts, value="x"))
    mixed = pd.DataFrame({"x": pd.Series(["rest", 1, None] * 9, dtype=object)})
    assert ut.release(plan, ut.Data(mixed, value="x"), insecure_seed=1).rows == 27
