"""The most frequent states: the law of the choice, its level, what it leaks, how it is released."""

import json
import math
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import polars as pl
import pytest

import undertow as ut
from tests.cli.calls import call
from tests.contracts.chains import example
from tests.oracles import chains as oracles
from tests.oracles.selections import list_law, round_law
from undertow.errors import NotSupported
from undertow.mechanisms import Selection
from undertow.planning.coverage import check_proof
from undertow.sampling.answers import select
from undertow.sampling.bits import Insecure

STATES = ("idle", "walk", "run")
CHAIN = ut.MarkovChain([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.6]], states=STATES)
DRAWS = 6000


def statistic(lists, law):
    """Pearson's chi-square of drawn lists."""
    found = dict.fromkeys(law, 0)
    for chosen in lists:
        found[tuple(chosen)] += 1
    size = len(lists)
    return sum((found[one] - size * p) ** 2 / (size * p) for one, p in law.items())


# --- the law --------------------------------------------------------------------------------------


@pytest.mark.parametrize("randomness", [None, Insecure(seed=5)])
def test_the_choice_follows_its_law_and_no_other(randomness):
    """Null: the law by enumeration. 6,000 lists; alarm at 60 on 11 degrees, below 1e-8.

    The twins at 0.7 and 1.3 times the scale are off by more than 190 on average.
    """
    counts, scale = [10, 8, 7, 3], 3.0
    chosen = Selection(ut.TopK(2, among=4), scale)
    lists = select(chosen, [counts] * DRAWS, randomness)
    assert statistic(lists, list_law(counts, 2, scale)) < 60
    for factor in (0.7, 1.3):
        assert statistic(lists, list_law(counts, 2, factor * scale)) > 120


def test_the_sampler_is_exact_where_floats_are_not():
    """Gaps of 2^60 scales, scales without a short fraction, equal counts: no float decides."""
    sharp = Selection(ut.TopK(1, among=3), 0.1)
    assert select(sharp, [[0, 10**18 + 1, 10**18 - 500]]) == [[1]]
    even = select(Selection(ut.TopK(1, among=2), 1 / 3), [[7, 7]] * 400)
    assert 100 < sum(place for (place,) in even) < 300  # 10 standard deviations


# --- the level ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("states", "k"), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)])
def test_the_level_is_k_plus_one_over_the_scale_and_nothing_less(states, k):
    scale, worst = 1.5, 0.0
    rows = [[0, *rest] for rest in product((-12, -3, 0), repeat=states - 1)]
    rows = [[30 + count for count in row] for row in rows]
    for counts in rows:
        law = list_law(counts, k, scale)
        for u, v in permutations(range(states), 2):
            moved = list(counts)
            moved[u], moved[v] = moved[u] - 1, moved[v] + 1
            other = list_law(moved, k, scale)
            worst = max(worst, max(abs(math.log(law[one] / other[one])) for one in law))
    level = Selection(ut.TopK(k, among=states), scale).level_upper()
    assert worst <= level + 1e-12
    assert worst >= 0.99 * level
    assert level == pytest.approx((k + 1) / scale)


@pytest.mark.parametrize("states", [2, 4, 7])
def test_no_counts_err_more_than_is_said(states):
    """The tail is attained by counts that are all equally far behind, and exceeded by none."""
    scale = 3.0
    chosen = Selection(ut.TopK(1, among=states), scale)
    draw = np.random.default_rng(states)
    rows = [[40, *(40 - draw.integers(0, 20, states - 1))] for _ in range(12)]
    rows += [[40, *[40 - behind] * (states - 1)] for behind in range(1, 14)]
    errors, alpha, beyond = [], chosen.quantile(0.05), 0.0
    for counts in rows:
        short = [40 - count for count in counts]
        law = round_law(counts, scale)
        errors.append(sum(s * p for s, p in zip(short, law, strict=True)))
        beyond = max(beyond, sum(p for s, p in zip(short, law, strict=True) if s > alpha))
    assert max(errors) == pytest.approx(chosen.expected_error(), rel=1e-9)
    assert beyond <= 0.05
    attained = round_law([40, *[40 - int(alpha)] * (states - 1)], scale)
    assert 1 - attained[0] > 0.05  # one less would not do


# --- what it leaks --------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "n", "k"), [("sticky", 4, 1), ("wavering", 3, 2)])
def test_what_is_released_leaks_at_most_the_limit(family, n, k):
    """All series, adversaries and lists, by the joint table: the promise, and not by far."""
    chain = example(family, 3, n, seed=2)
    for who in ("any", "ignorant", "informed"):
        plan = ut.calibrate(ut.TopK(k), chain.model(), 1.0, who)
        lists = list(permutations(range(3), k))
        table = np.array([
            [list_law([series.count(s) for s in range(3)], k, plan.mechanism.scale)[one]
             for one in lists]
            for series in product(range(3), repeat=n)
        ]).reshape((3,) * n + (len(lists),))  # fmt: skip
        truth = oracles.leakage(chain.joint, table, who)
        assert truth <= 1 + 1e-12
        assert truth <= plan.leakage.upper + 1e-12
        assert truth > 0.1


@pytest.mark.parametrize("model", [
    CHAIN, ut.Groups(3, STATES),
    ut.BayesianNetwork([("a", "b")], {"a": [0.5, 0.3, 0.2], "b": [[0.8, 0.1, 0.1]] * 3},
                       states=STATES),
    ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=0.3),
])  # fmt: skip
def test_every_model_with_an_exchange_rate_has_a_plan(model):
    plan = ut.calibrate(ut.TopK(2), model, limit=1.0)
    assert plan.leakage.proves(1.0)
    assert plan.dp_epsilon == pytest.approx(ut.dp_budget(model, limit=1.0), rel=1e-6)
    assert ut.Plan.from_json(plan.to_json()) == plan
    assert check_proof(plan).proves(1.0)


def test_several_releases_windows_and_persons():
    one = ut.calibrate(ut.TopK(1), CHAIN, 1.0).mechanism.scale
    four = ut.calibrate(ut.TopK(1), CHAIN, 1.0, releases=4).mechanism.scale
    assert four == pytest.approx(4 * one, rel=1e-9)
    hour = ut.calibrate(ut.TopK(1), CHAIN, 1.0, secret=ut.Window(12)).mechanism.scale
    assert hour > 2 * one
    whole = ut.MarkovChain(CHAIN.transition, STATES, length=30)
    person = ut.calibrate(ut.TopK(2), whole, 1.0, secret=ut.Person())
    assert person.mechanism.scale == pytest.approx(30 * 3)


# --- releases -------------------------------------------------------------------------------------


def test_a_release_through_the_ledger_with_groups_windows_and_missing_values(tmp_path):
    frame = {
        "time": list(range(300)) * 2,
        "who": ["a"] * 300 + ["b"] * 300,
        "cohort": ["x"] * 300 + ["y"] * 300,
        "did": (["run"] * 200 + [None] * 90 + ["walk"] * 10)
        + (["walk"] * 200 + ["flying"] * 90 + ["idle"] * 10),
    }
    data = ut.Data(pl.DataFrame(frame), person="who", time="time", value="did", by="cohort")
    plan = ut.calibrate(ut.TopK(1), CHAIN, limit=8.0, valid_for="any")
    ledger = ut.Ledger(tmp_path / "a.db", dataset="d", model=CHAIN, limit=20.0)
    out = ut.release(plan, data, ledger=ledger)
    assert out.value == {"x": ["run"], "y": ["walk"]}  # 190 behind, at a scale below 2
    again = ut.release(plan, data, ledger=ledger)
    assert again.replayed
    assert again.value == out.value
    assert ledger.entries()[0].level == plan.mechanism.level_upper()
    early = ut.release(plan, data.window(0, 50), ledger=ledger)
    assert early.value == {"x": ["run"], "y": ["walk"]}
    counted = ut.calibrate(ut.TopK(1), CHAIN, limit=8.0, valid_for="any", missing="idle")
    assert ut.release(counted, data.window(200, 290)).value == {"x": ["idle"], "y": ["idle"]}
    report = out.report()
    assert "falls short by" in report.text()
    assert json.loads(report.to_json())["numbers"][0] == {
        "group": "x", "state": "rank 1", "value": "run",
        "within": out.error_bars()[0],
    }  # fmt: skip
    assert "<svg" not in report.html()
    assert "rank 1" in str(out)


def test_an_audit_is_consistent_and_refutes_too_small_a_scale():
    short = ut.MarkovChain(CHAIN.transition, STATES, length=6)
    plan = ut.calibrate(ut.TopK(1), short, limit=1.0)
    assert not ut.audit(plan, 2000, seed=1).refuted
    loud = replace(plan, mechanism=plan.mechanism.with_amount(plan.mechanism.scale / 8))
    assert ut.audit(loud, 2000, seed=1).refuted
    with pytest.raises(NotSupported, match="audit"):
        ut.attack("run", plan, truth=["run"] * 6)


def test_the_command_line_selects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days.csv").write_text("did\n" + "run\nwalk\nrun\n" * 60, encoding="utf-8")
    model = ["--transition", "0.7,0.2,0.1;0.3,0.5,0.2;0.1,0.3,0.6", "--states", "idle,walk,run"]
    asked = [*model, "--top", "2", "--limit", "4"]
    done = call("plan", *asked, "--output", "top.json")
    assert done.exit_code == 0, done.stderr
    assert "permute-and-flip" in done.stdout
    released = call("release", "days.csv", "--plan", "top.json", "--value", "did", "--json")
    assert released.exit_code == 0, released.stderr
    answer = json.loads(released.stdout)
    assert [number["value"] for number in answer["numbers"]] == ["run", "walk"]
    told = call("release", "days.csv", "--plan", "top.json", "--value", "did")
    assert "Selected states" in told.stdout
    leaked = call("leakage", *model, "--top", "2", "--scale", "6", "--json")
    assert json.loads(leaked.stdout)["upper"] > 0.5
    assert call("compare", *asked, "--json").exit_code == 0
    assert call("plan", *model, "--top", "3", "--limit", "4").exit_code == 1
    assert call("plan", *model, "--top", "2", "--count", "run", "--limit", "4").exit_code == 2
