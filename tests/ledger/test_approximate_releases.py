"""Releases with Gaussian noise in an account with a delta, by the library and by the commands."""

import json
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import call, call_json
from undertow.errors import BudgetExceeded, LedgerConflict, NotSupported
from undertow.releasing.account import foretell, level_of, spend_terms
from undertow.releasing.request import prepare

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
RECORDS = ["inactive", "active"] * 50
COVARIANCE = [[6.1, 0.42, 2.44], [0.42, 5.32, 1.67], [2.44, 1.67, 12.84]]


def planned(query, noise="gaussian", releases=4, **options):
    asked = {"limit": 1.0, "delta": 1e-6, "noise": noise, "releases": releases, "method": "closed"}
    return ut.calibrate(query, CHAIN, **{**asked, **options})


@pytest.fixture
def ledger(tmp_path):
    return ut.Ledger(tmp_path / "year.db", "w25", CHAIN, 1.0, delta=1e-6, memory=False)


@pytest.mark.parametrize(
    "query",
    [
        ut.Count("active"),
        ut.Histogram(),
        ut.Sum(0, 10, dict(zip(CHAIN.states, (3, 4.5), strict=True))),
    ],
    ids=lambda q: type(q).__name__,
)
def test_a_plan_for_four_releases_fits_four_times(ledger, query):
    plan = planned(query)
    for k in range(4):
        ut.release(plan, RECORDS, ledger=ledger, release_id=str(k))
    mu = plan.noise.mu_upper(plan.length)
    assert [(entry.level, entry.mu) for entry in ledger.entries()] == [(None, mu)] * 4
    assert 0.999 < ledger.leakage().upper <= 1.0
    again = ut.release(plan, RECORDS, ledger=ledger, release_id="3")
    assert again.replayed
    with pytest.raises(BudgetExceeded, match="method='closed'"):
        ut.release(plan, RECORDS, ledger=ledger, release_id="4")
    assert ledger.verify() > 9


def test_discrete_gaussian_noise_is_accounted_by_its_rho(ledger):
    plan = planned(ut.Count("active"), noise="discrete-gaussian")
    ut.release(plan, RECORDS, ledger=ledger, release_id="one")
    (entry,) = ledger.entries()
    assert (entry.mu, entry.rho) == (None, plan.noise.rho_upper(plan.length))
    assert ledger.spent().squares == 0


def test_laplace_noise_is_accounted_by_its_level(ledger, tmp_path):
    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=0.4, method="exchange")
    ut.release(plan, RECORDS, ledger=ledger, release_id="one")
    ut.release(planned(ut.Count("active"), releases=52), RECORDS, ledger=ledger, release_id="two")
    assert ledger.level() == level_of(plan, plan.leakage)
    plain = ut.Ledger(tmp_path / "plain.db", "w25", CHAIN, 1.0, memory=False)
    with pytest.raises(LedgerConflict, match="without a delta"):
        ut.release(planned(ut.Count("active")), RECORDS, ledger=plain)
    assert plain.entries() == []


def test_what_is_foretold_is_what_happens(ledger):
    plan = planned(ut.Count("active"))
    ready = prepare(plan, RECORDS, ledger)
    told = foretell(ready.entry, ledger)
    assert told is not None
    assert (told.spends, told.left) == (0.0, ledger.budget)
    ut.release(plan, RECORDS, ledger=ledger)
    assert told.left_after == ledger.left() == 0.0
    assert told.after is not None
    assert told.after.left_mu() == ledger.left_mu()
    again = foretell(ready.entry, ledger)
    assert again is not None
    assert again.recorded
    assert again.after == again.room == ledger.room()


def test_gaussian_records_with_a_spread_have_no_such_account(tmp_path):
    family = ut.MultivariateGaussian([69, 64, 67], COVARIANCE, spread=40)
    plan = ut.calibrate(ut.Sum(50, 90), family, limit=1.0, delta=1e-6, noise="gaussian")
    account = ut.Ledger(tmp_path / "year.db", "families", family, 1.0, memory=False)
    with pytest.raises(NotSupported, match="rates of d-privacy"):
        ut.release(plan, [70.0, 64.0, 68.0], ledger=account)
    with pytest.raises(NotSupported, match="rates of d-privacy"):
        spend_terms(plan, plan.leakage)


# --- commands -------------------------------------------------------------------------------------


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """A folder with a model, a plan and a table, made the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("chain.json").write_text(json.dumps(CHAIN.to_dict()))
    Path("count.plan").write_text(planned(ut.Count("active")).to_json())
    lines = [f"p,{hour},{RECORDS[hour]}" for hour in range(100)]
    Path("steps.csv").write_text("\n".join(["id,hour,state", *lines]) + "\n")


CREATE = ("ledger", "create", "year.db", "--dataset", "w25", "--model", "chain.json", "--limit", 1)
RELEASE = (
    "release", "steps.csv", "--plan", "count.plan", "--value", "state", "--person", "id",
    "--time", "hour", "--every", 1, "--ledger", "year.db", "--dataset", "w25",
)  # fmt: skip


@pytest.mark.usefixtures("scene")
def test_the_commands_say_what_noise_spends():
    made = call_json(*CREATE, "--delta", "1e-6", "--pure", "0.05")
    assert (made["delta"], made["limit"]) == (1e-6, 1.0)
    shown = call_json("ledger", "show", "year.db")
    assert (shown["mu"], shown["rho"], shown["delta_spent"], shown["pure"]) == (0, 0, 0, 0.05)
    assert 1 / shown["left_mu"] == pytest.approx(20.880, abs=1e-3)
    told = call_json(*RELEASE, "--dry-run")
    plan = ut.Plan.from_json(Path("count.plan").read_text())
    assert (told["level"], told["mu"]) == (None, plan.noise.mu_upper(plan.length))
    said = call(*RELEASE, "--dry-run").output
    assert "mu 0.0295" in said
    assert "Gaussian noise of sigma 20.8" in said
    book = ut.Ledger("year.db", "w25")
    table = [("inactive", "active")[h % 2] for h in range(100)]
    ut.release(plan, table, ledger=book, release_id="by hand")
    said = call("ledger", "show", "year.db").output
    assert "1 at delta 1e-6: more than a factor 5.44" in said
    assert "mu 0.0295" in said
    shown = call_json("ledger", "show", "year.db")
    assert shown["mu"] == shown["entries"][0]["mu"] == told["mu"]
    assert shown["left"] == 0.05
    assert call_json("ledger", "limit", "year.db", 2, "--dataset", "w25")["delta"] == 1e-6


@pytest.mark.usefixtures("scene")
def test_an_account_without_a_delta_says_what_to_do():
    call(*CREATE)
    said = call(*RELEASE, "--dry-run")
    assert said.exit_code == 1
    assert "delta" in said.output
    changed = ("ledger", "limit", "year.db", 1, "--dataset", "w25", "--delta", "1e-6")
    assert call_json(*changed)["delta"] == 1e-6
    assert call(*RELEASE, "--dry-run").exit_code == 0
