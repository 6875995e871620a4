"""Histograms whose numbers add up to the number of records, which is public.

Of two states one noisy count tells both; of more, the noisy numbers are moved to their sum.
"""

import itertools
import json
import math
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

import undertow as ut
from tests.oracles.joint import ERROR, Noisy, chain_law, histogram, joint_leakage
from undertow.accuracy import accuracy, errors
from undertow.auditing.attackers import read_answers
from undertow.errors import InvalidInput, InvalidPlan, UnknownState
from undertow.plan import checksum
from undertow.queries import BinaryHistogram
from undertow.sampling.answers import randomise, totalled
from undertow.sampling.bits import Insecure, Secure

STATES = ("inactive", "active")
CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=STATES)
THREE = ut.MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]], states=("a", "b", "c"))
PAIR = ut.Histogram()
ODD = ["active", "inactive", None, "asleep", ["active"], math.nan, "active"]


def planned(query, model, limit, missing="inactive", **more):
    """A plan in which every record has a state."""
    return ut.calibrate(query, model, limit, missing=missing, **more)


# --- two states -----------------------------------------------------------------------------------


def test_two_states_are_one_count():
    """The activity chain at limit 1: scale 3.99 on one number, not 7.99 on each of two."""
    plan = planned(PAIR, CHAIN, 1.0)
    count = ut.calibrate(ut.Count("active"), CHAIN, 1.0)
    apart = ut.calibrate(ut.Histogram(), CHAIN, 1.0)
    assert plan.query == BinaryHistogram("active", rest="inactive")
    assert plan.mechanism.scale == count.mechanism.scale == pytest.approx(3.994794, rel=1e-6)
    assert apart.mechanism.scale == pytest.approx(7.989588, rel=1e-6)
    assert plan.leakage.upper == count.leakage.upper
    assert plan.dp_epsilon == count.dp_epsilon == pytest.approx(1 / plan.mechanism.scale)
    assert plan.numbers == 1
    assert plan.expected_error == count.expected_error
    assert plan.accuracy() == count.accuracy() < apart.accuracy() / 2


def test_both_are_told():
    plan = planned(PAIR, CHAIN, 1.0)
    count = ut.calibrate(ut.Count("active"), CHAIN, 1.0)
    out = ut.release(plan, ODD * 20, insecure_seed=5)
    same = ut.release(count, ODD * 20, insecure_seed=5)  # missing and foreign values are not in it
    assert list(out.value) == [*STATES]
    assert out.value == {"inactive": len(ODD) * 20 - same.value, "active": same.value}
    other = ut.release(planned(PAIR, CHAIN, 1.0, missing="active"), ODD * 20, insecure_seed=5)
    assert sum(other.value.values()) == len(ODD) * 20
    assert abs(other.value["active"] - len(ODD) * 20 * 6 / 7) < 60  # all but 'inactive'
    assert "what 'active' leaves of the number of records is 'inactive'" in " ".join(
        str(out.report()).split()
    )
    assert out.error_bars() == (plan.accuracy(),)


@pytest.mark.parametrize("query", [PAIR, ut.Count("active")])
@pytest.mark.parametrize("n", [3, 5])
def test_what_is_told_leaks_what_was_proved(query, n):
    """The second number is a function of the first and of n: the pair leaks what a count does."""
    chain = ut.MarkovChain(CHAIN.transition, STATES, length=n)
    scale = planned(query, chain, 1.0).mechanism.scale
    world = chain_law(chain, n)
    assert joint_leakage(world, [Noisy(tuple(range(n)), (0, 1), scale)]) <= 1.0 + ERROR
    assert joint_leakage(world, histogram(range(n), 2, scale)) > 1.5  # two noises of that scale


def test_groups_windows_and_gaps():
    """The records of each answer are public, and add up to what its numbers do."""
    frame = pl.DataFrame({
        "who": ["x"] * 5 + ["y"] * 4,
        "cohort": ["one"] * 5 + ["two"] * 4,
        "at": [0, 1, 2, 4, 5, 0, 1, 2, 3],
        "what": ["active", "inactive", None, "asleep", "active", *ODD[:3], "active"],
    })  # fmt: skip
    asked: dict[str, Any] = {"person": "who", "time": "at", "value": "what", "every": 1}
    plan = planned(PAIR, CHAIN, 1.0, valid_for="any")
    three = planned(PAIR, THREE, 1.0, missing="b", valid_for="any")
    for gaps, rows in (("split", {"one": 5, "two": 4}), ("inactive", {"one": 6, "two": 4})):
        data = ut.Data(frame, by="cohort", gaps=gaps, **asked)
        out = ut.release(plan, data)
        assert {name: sum(found.values()) for name, found in out.value.items()} == rows
        assert out.sizes == tuple(rows.values())
    data = ut.Data(frame, by="cohort", gaps="split", **asked)
    shown = ut.release(three, data)
    assert {name: sum(found.values()) for name, found in shown.value.items()} == {
        "one": 5,
        "two": 4,
    }
    window = ut.release(three, ut.Data(frame, gaps="split", **asked).window(1, 4))
    assert sum(window.value.values()) == window.rows == 5
    exact = ut.Data(frame, gaps="split", **asked).answers(PAIR, STATES, "inactive")
    assert exact.numbers == [[5, 4]]


def test_a_ledger_accounts_for_one_count(tmp_path):
    plan = planned(PAIR, CHAIN, 1.0)
    ledger = ut.Ledger(str(tmp_path / "year.db"), dataset="d", model=CHAIN, limit=1.0)
    out = ut.release(plan, ODD * 9, ledger=ledger)
    (entry,) = ledger.entries()
    assert entry.level == plan.mechanism.level_upper() == pytest.approx(0.2503258, rel=1e-6)
    assert sum(out.value.values()) == len(ODD) * 9
    again = ut.release(plan, ODD * 9, ledger=ledger)
    assert again.replayed
    assert again.value == out.value


def test_attackers_read_the_count():
    plan = planned(PAIR, CHAIN, 1.0)
    out = ut.release(plan, ["active"] * 30)
    assert read_answers(out, plan, 1).tolist() == [[float(out.value["active"])]]
    by_group = {"one": {"inactive": 3, "active": 7}, "two": {"inactive": 1, "active": 2}}
    assert read_answers(by_group, plan, 2).tolist() == [[7.0], [2.0]]
    records = ["active", "inactive"] * 9
    found = ut.attack(ut.release(plan, records), plan, truth=records)
    assert "bayes" in str(found)


# --- more states ----------------------------------------------------------------------------------


def test_more_states_keep_their_noise():
    plan, plain = (
        planned(PAIR, THREE, 1.0, missing=missing, method="exchange") for missing in ("b", "any")
    )
    assert plan.mechanism.scale == plain.mechanism.scale
    assert plan.expected_error < plain.expected_error
    assert plan.variance < plain.variance
    assert plan.accuracy() < plain.accuracy()
    out = ut.release(plan, ["a", "b", None, "c"] * 50)
    assert sum(out.value.values()) == 200
    assert all(type(value) is int for value in out.value.values())
    assert "moved to the nearest that add up" in " ".join(str(out.report()).split())
    leak = ut.leakage(plan.mechanism, THREE)
    assert any("before they are moved" in said for said in leak.assumptions)


def moved_law(scale, size, reach):
    """The law of what is added to a histogram in the end, noise beyond ``reach`` left out.

    The exact numbers add up to n, so how far the noisy ones must be moved depends on the noise
    alone: the released vector is the exact one plus a vector of sum 0 with this law.
    """
    law: Counter[tuple[int, ...]] = Counter()
    for noise in itertools.product(range(-reach, reach + 1), repeat=size):
        mass = math.exp(-sum(map(abs, noise)) / scale)
        each, more = divmod(-sum(noise), size)
        for first in range(size):
            step = [each + ((cell - first) % size < more) for cell in range(size)]
            law[tuple(z + s for z, s in zip(noise, step, strict=True))] += mass / size
    return law


def test_what_is_told_of_three_states_leaks_no_more():
    """All series, known records and likely outputs; every output has the same, public sum."""
    n, scale, reach = 3, 1.5, 13
    law = moved_law(scale, 3, reach)
    assert all(sum(vector) == 0 for vector in law)
    world = chain_law(THREE, n)
    raw = joint_leakage(world, histogram(range(n), 3, scale))
    chain = ut.MarkovChain(THREE.transition, THREE.states, length=n)
    leak = ut.leakage(ut.DiscreteLaplace(ut.Histogram(totalled=True), scale), chain)
    counts = np.array([
        np.bincount(series, minlength=3) for series in itertools.product(range(3), repeat=n)
    ])  # fmt: skip
    near = range(-3, n + 4)
    outputs = [y for y in itertools.product(near, repeat=3) if sum(y) == n]
    seen = np.array([[law[tuple(y - c)] for y in np.array(outputs)] for c in counts])
    worst = 0.0
    joint = world[..., None] * seen.reshape(3, 3, 3, -1)  # (records, outputs)
    for target, known in itertools.product(range(n), itertools.product([0, 1], repeat=n)):
        if known[target]:
            continue
        gone = tuple(t for t in range(n) if t != target and not known[t])
        given = joint.sum(axis=gone) / world.sum(axis=gone)[..., None]
        axis = sum(known[:target])
        low, high = given.min(axis=axis), given.max(axis=axis)
        worst = max(worst, float(np.log(high / low).max()))
    assert 0.5 * raw < worst <= raw + 1e-6
    assert raw <= leak.upper + ERROR


@pytest.mark.parametrize(("kind", "amount"), [(ut.DiscreteLaplace, 4.0), (ut.Gaussian, 0.8)])
def test_errors_are_those_of_what_is_told(kind, amount):
    """Null: mean |error|, mean square and mean are as stated; 8,000 draws, 5 standard errors.

    The alarm is false with a probability of 2e-6; noise 0.7 or 1.3 times as large is told apart.
    """
    size, draws = 3, 8_000
    query = ut.Histogram(totalled=True)

    def told(factor):
        bits = Insecure(int(10 * factor)) if kind is ut.Gaussian else Secure()
        noise = randomise(kind(query, factor * amount), [0] * (size * draws), bits)
        rows = np.array(noise).reshape(draws, size).tolist()
        return np.array(totalled(rows, [0] * draws))

    def fits(found, wanted):
        spread = 5 * found.std() / math.sqrt(draws)
        return abs(found.mean() - wanted) <= spread

    noise = kind(query, amount)
    mean, square = errors(noise, size)
    sample = told(1.0)
    for cell in range(size):
        assert fits(np.abs(sample[:, cell]), mean)
        assert fits(sample[:, cell] ** 2, square)
        assert fits(sample[:, cell], 0.0)
    for twin in (told(0.7), told(1.3)):
        assert not fits(np.abs(twin[:, 0]), mean)
        assert not fits(twin[:, 0] ** 2, square)
    alpha = accuracy(noise, 0.05, size)
    beyond = (np.abs(sample).max(axis=1) > alpha).mean()
    assert beyond <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / draws)
    assert (np.abs(sample).max(axis=1) > alpha - 1 - amount).mean() > 0.05  # and not idly wide


# --- files and refusals ---------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["inactive", "active", "none", "any"])
def test_plan_files(missing):
    plan = planned(PAIR, CHAIN, 1.0, missing)
    assert ut.Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "histogram"},  # of two states that are all: it is one count
        {"kind": "histogram", "totalled": True},
        {"kind": "histogram", "totalled": 1},
        {"kind": "histogram", "foreign": "inactive"},
        {"kind": "binary-histogram", "counted": "active", "rest": "asleep"},
        {"kind": "binary-histogram", "counted": "active", "rest": "active"},
        {"kind": "binary-histogram", "counted": "inactive", "rest": "active"},
        {"kind": "binary-histogram", "counted": "active"},
    ],
)
def test_files_of_other_states_are_refused(said):
    body = json.loads(planned(PAIR, CHAIN, 1.0).to_json())
    body["query"] = said
    body["checksum"] = checksum(body)
    with pytest.raises(InvalidPlan):
        ut.Plan.from_json(json.dumps(body))


def test_refusals():
    with pytest.raises(UnknownState, match="a state of the model"):
        planned(PAIR, CHAIN, 1.0, missing="asleep")
    with pytest.raises(UnknownState, match="needs a model with these two states"):
        ut.calibrate(BinaryHistogram("a", rest="b"), THREE, 1.0)
    for states, rest in (("a", "a"), (["a", "b"], "c"), ("a", None)):
        with pytest.raises(InvalidInput, match="counts one"):
            BinaryHistogram(states, rest=rest)
    named: Any = "inactive"
    with pytest.raises(InvalidInput, match="totalled"):
        ut.Histogram(named)
    assert repr(ut.Histogram()) == "Histogram()"
    assert repr(ut.Histogram(totalled=True)) == "Histogram(totalled=True)"
    assert ut.Histogram(totalled=True).on(()) == ut.Histogram()
