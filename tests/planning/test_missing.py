"""Missing records: what a plan says of them, and that its proof holds for every pattern."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.accepting import broken
from tests.oracles.enumeration import table_leakage
from tests.oracles.missing import (
    answers,
    chain_joint,
    every_second,
    gaussian_delta,
    missing_leakage,
)
from undertow.errors import InvalidInput, InvalidPlan, MethodRefused, NotSupported, UnknownState
from undertow.planning.coverage import check_proof

STICKY, LIVELY, RESTLESS, FLICKERING = (
    [[stay, 1 - stay], [1 - stay, stay]] for stay in (0.9, 0.3, 0.1, 0.02)
)
NAMES = ("rest", "move")
SLACK = 1e-9


def joint_of(steps, n):
    return chain_joint(ut.MarkovChain(steps).initial, [np.array(steps)] * (n - 1))


# rows: chain, records, how the plan is made, what was promised, and what is leaked without a word
ROWS = {
    "exact": (LIVELY, 9, ut.Count(1), {"method": "exact"}, 2.0, 2.5899),
    "restless": (RESTLESS, 9, ut.Count(1), {"method": "exact"}, 3.0, 6.4511),
    "flickering": (FLICKERING, 9, ut.Count(1), {"method": "exact"}, 3.0, 9.8073),
    "windows": (RESTLESS, 7, ut.Count(1), {"method": "exact", "valid_for": "windows"}, 2.0, 4.3992),
    "histogram": (RESTLESS, 7, ut.Histogram(), {"method": "exact"}, 2.0, 4.3992),
}


@pytest.mark.parametrize(
    ("steps", "n", "query", "how", "promised", "true"), ROWS.values(), ids=ROWS
)
def test_a_proof_about_complete_series_says_that_none_is_missing(
    steps, n, query, how, promised, true
):
    joint, chain = joint_of(steps, n), ut.MarkovChain(steps)
    plan = ut.calibrate(query, chain, promised, **how)
    assert plan.missing == "none"
    assert "assumes that no value is missing" in plan.guarantee()
    leaked = missing_leakage(joint, [0, 1], plan.noise.scale, shapes=[every_second(n)])
    assert leaked == pytest.approx(true, abs=1e-4)  # so it may not be said of any pattern
    with pytest.raises(MethodRefused, match="missing='none'"):
        ut.calibrate(query, chain, promised, missing="any", **how)
    edited = replace(plan, missing="any")
    if query == ut.Count(1):
        with pytest.raises(InvalidPlan, match="complete series"):
            check_proof(edited)
    how.pop("method")
    best = ut.calibrate(query, chain, promised, **how)
    assert best.missing == "any"
    assert "which values are missing depends on no record" in best.guarantee()
    found = missing_leakage(
        joint, np.eye(2) if best.query == ut.Histogram() else [0, 1], best.noise.scale,
        shapes=[every_second(n)],
    )  # fmt: skip
    assert found <= promised + SLACK


def test_a_table_of_noise_is_about_complete_series():
    """Today's row: LIVELY, seven records, 2.0 promised and 2.5399 leaked."""
    chain = ut.MarkovChain(LIVELY, length=7)
    plan = ut.calibrate(ut.Count(1), chain, 2.0, method="optimal")
    assert plan.missing == "none"
    joint, there = joint_of(LIVELY, 7), every_second(7)
    total = answers(joint, there, np.array([[0.0], [1.0]]))[..., 0].astype(int)
    outputs = range(-40, 50)
    law = {k: float(plan.noise.exact(k)) for k in range(-60, 61)}
    likelihood = np.array([[law[s - k] for s in outputs] for k in range(8)])[total]
    assert table_leakage(joint, likelihood) == pytest.approx(2.5399, abs=1e-3)
    with pytest.raises(MethodRefused, match="complete series"):
        ut.calibrate(ut.Count(1), chain, 2.0, method="optimal", missing="any")
    assert ut.calibrate(ut.Count(1), chain, 2.0, valid_for="series").method != "optimal"
    alone = ut.calibrate(ut.Count(1), chain, 2.0, valid_for="series", missing="none")
    assert (alone.missing, alone.method) in [("none", "optimal"), ("none", "exact")]


def test_exact_gaussian_noise_is_about_complete_series():
    """Today's row: RESTLESS, delta .01 promised and at least .2789 attained."""
    chain = ut.MarkovChain(RESTLESS, length=7)
    asked: Any = {"delta": 0.01, "noise": "gaussian"}
    plan = ut.calibrate(ut.Count(1), chain, 2.0, method="exact", **asked)
    assert plan.missing == "none"
    joint = joint_of(RESTLESS, 7)
    assert gaussian_delta(joint, every_second(7), [0, 1], plan.noise.sigma, 2.0) > 0.2
    with pytest.raises(MethodRefused, match="complete series"):
        ut.calibrate(ut.Count(1), chain, 2.0, method="exact", missing="any", **asked)
    wide = ut.calibrate(ut.Count(1), chain, 2.0, method="closed", **asked)
    assert wide.missing == "any"
    assert gaussian_delta(joint, every_second(7), [0, 1], wide.noise.sigma, 2.0) <= 0.01


def path_network(steps):
    return ut.BayesianNetwork(
        [("a", "b"), ("b", "c")], {"a": [0.5, 0.5], "b": np.array(steps), "c": np.array(steps)}
    )


@pytest.mark.parametrize("steps", [RESTLESS, STICKY])
def test_networks(steps):
    network, joint = path_network(steps), chain_joint([0.5, 0.5], [np.array(steps)] * 2)
    for method in ("exact", "best"):
        plan = ut.calibrate(ut.Count(1), network, 2.0, method=method)
        leaked = missing_leakage(joint, [0, 1], plan.noise.scale)
        assert (leaked <= 2.0 + SLACK) or plan.missing == "none"
        assert plan.missing == ("none" if steps is RESTLESS and method == "exact" else "any")
        if plan.missing == "none":
            assert leaked > 2.4  # three nodes, 2.0 promised


# ---------------------------------------------------------------------------- every pattern


def random_chain(rng, states, ordered=False):
    """A random chain; ``ordered``: totally positive steps, some with zeros."""
    if not ordered:
        return rng.dirichlet(np.full(states, 0.7), size=states)
    places = np.arange(states)
    steps = np.exp(-rng.uniform(0.1, 3) * (places[:, None] - places) ** 2 / 2)
    if rng.random() < 0.3:
        steps[np.abs(places[:, None] - places) > 1] = 0
    steps = steps * rng.uniform(0.2, 1, size=states)
    return steps / steps.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(24))
def test_every_pattern_of_a_chain_is_covered(seed):
    rng = np.random.default_rng(seed)
    states, n = (2, 5) if seed % 2 else (3, 4)
    steps = random_chain(rng, states, ordered=seed % 3 == 0)
    start = rng.dirichlet(np.ones(states))
    chain = ut.MarkovChain(steps, length=n, start=start)
    joint = chain_joint(start, [steps] * (n - 1))
    counted = rng.random(states) < 0.5
    counted[rng.integers(states)] ^= not 0 < counted.sum() < states
    if not 0 < counted.sum() < states:
        counted = np.arange(states) == 0
    count, limit = ut.Count([int(s) for s in np.flatnonzero(counted)]), float(rng.uniform(0.5, 3))
    asked = [
        (count, counted.astype(float)),
        (ut.Histogram(), np.eye(states)),
        (ut.Sum(0, states - 1, steps=states - 1), np.arange(states) / 1.0),
    ]
    against = [("any", "ignorant", "informed")[seed % 3], ut.Adversary(1, (n - 1,))][seed % 4 == 0]
    for (query, values), method in itertools.product(
        asked, ("best", "exact", "exchange", "wasserstein", "quilt")
    ):
        try:
            plan = ut.calibrate(query, chain, limit, against, method=method)
        except NotSupported:
            continue
        check_proof(plan)
        if plan.missing != "any":
            assert method not in ("best", "exchange", "quilt")
            continue
        leaked = missing_leakage(joint, values, plan.noise.scale, plan.against)
        assert leaked <= limit + SLACK, (query, method)


def test_patterns_are_covered_where_they_can_be():
    """The lemma is not idle: exact proofs about MTP2 chains are about any pattern."""
    for steps in (STICKY, [[1.0, 0.0], [0.5, 0.5]]):
        chain = ut.MarkovChain(steps, length=4, start=[0.5, 0.5])
        plan = ut.calibrate(ut.Count(1), chain, 1.0, method="exact")
        assert plan.missing == "any"
    steps = random_chain(np.random.default_rng(0), 3, ordered=True)
    chain = ut.MarkovChain(steps, length=4)
    high = ut.calibrate(ut.Count([1, 2]), chain, 1.0, method="exact")
    middle = ut.calibrate(ut.Count(1), chain, 1.0, method="exact")
    total = ut.calibrate(ut.Sum(0, 2, steps=2), chain, 1.0, method="exact")
    assert (high.missing, middle.missing, total.missing) == ("any", "none", "any")


@pytest.mark.parametrize("seed", range(8))
def test_every_pattern_of_a_tree_is_covered(seed):
    rng = np.random.default_rng(seed)
    tables = [random_chain(rng, 2) for _ in range(3)]
    start = rng.dirichlet([1, 1])
    tree = ut.BayesianNetwork(
        [("a", "b"), ("a", "c"), ("c", "d")],
        {"a": start, "b": tables[0], "c": tables[1], "d": tables[2]},
    )
    joint = np.einsum("a,ab,ac,cd->abcd", start, *tables)
    for method in ("best", "exact"):
        plan = ut.calibrate(ut.Count(1), tree, 1.5, method=method)
        if plan.missing == "any":
            assert missing_leakage(joint, [0, 1], plan.noise.scale) <= 1.5 + SLACK
        else:
            assert method == "exact"


# --------------------------------------------------------------------------------- the word


def test_missing_is_one_word_of_the_plan():
    chain = ut.MarkovChain(STICKY, states=NAMES)
    for missing in ("any", "none", "move"):
        plan = ut.calibrate(ut.Count("move"), chain, 1.0, missing=missing)
        assert plan.missing == missing
        assert ut.Plan.from_json(plan.to_json()) == plan
        check_proof(plan)
    said = plan.guarantee()
    assert said.endswith("missing values are records in state 'move'")
    assert (
        "counts as 'rest'" in ut.calibrate(ut.Count("move"), chain, 1.0, missing="none").guarantee()
    )
    wrongs: list[Any] = ["asleep", 1, True, 0.5, math.nan, ["move"]]
    for wrong in wrongs:
        with pytest.raises((UnknownState, InvalidInput), match="'any', 'none' or a state"):
            ut.calibrate(ut.Count("move"), chain, 1.0, missing=wrong)


@pytest.mark.parametrize("word", ["any", "none"])
def test_a_state_that_is_called_like_a_word_is_refused(word):
    chain = ut.MarkovChain(STICKY, states=("some", word))
    with pytest.raises(InvalidInput, match="another name"):
        ut.calibrate(ut.Count("some"), chain, 1.0)


@pytest.mark.parametrize("query", [ut.Series(), ut.Redacted(protect=1)])
def test_series_need_a_state_for_missing_records(query):
    chain = ut.MarkovChain(STICKY, states=NAMES, length=4)
    with pytest.raises(InvalidInput, match="needs one"):
        ut.calibrate(query, chain, 3.0, missing="any")
    verb = ut.sanitize
    for missing, rest in ((None, "rest"), ("none", "rest"), ("move", "move")):
        plan = ut.calibrate(query, chain, 3.0, missing=missing)
        assert plan.rest == rest
        read = [verb(plan, [value] * 4, insecure_seed=1) for value in (None, "odd", rest)]
        assert read[0] == read[1] == read[2]
        assert ut.Plan.from_json(plan.to_json()) == plan


# ------------------------------------------------------------------------------- releases


WHOLE = ["rest", "move", "move", "rest", "rest", "move"]
HOLED = ["rest", None, "move", "walk", "rest", "move"]


def exact_of(plan, records, table):
    """What a release adds noise to."""
    from undertow.releasing.request import prepare

    data = records
    if table:
        import polars as pl

        frame = pl.DataFrame({"mood": pl.Series(records, dtype=pl.String), "t": range(6)})
        data = ut.Data(frame, value="mood", time="t")
    ready = prepare(plan, data)
    query = plan.query.exact_query
    return ready.table.answers(query, plan.states, plan.missing).numbers


@pytest.mark.parametrize("table", [False, True])
def test_missing_records_are_where_the_plan_says(table):
    chain = ut.MarkovChain(LIVELY, states=NAMES)
    for query, numbers in (
        (ut.Count("move"), {"any": [2], "none": [2], "rest": [2], "move": [4]}),
        (ut.Histogram(), {"any": [2, 2], "none": [2], "rest": [2], "move": [2]}),
        (ut.Transitions(), {"any": [0, 1, 0, 0], "none": [2, 2, 1, 0], "move": [0, 2, 1, 2]}),
    ):
        for missing, wanted in numbers.items():
            plan = ut.calibrate(query, chain, 2.0, missing=missing)
            assert exact_of(plan, HOLED, table) == [wanted], (query, missing)


@pytest.mark.parametrize("missing", [None, "any", "none", "move"])
@pytest.mark.parametrize("method", ["best", "exact", "exchange"])
def test_a_release_says_the_same_whatever_is_missing(missing, method):
    chain = ut.MarkovChain(LIVELY, states=NAMES, length=6)
    for query in (ut.Count("move"), ut.Histogram()):
        try:
            plan = ut.calibrate(query, chain, 2.0, method=method, missing=missing)
        except MethodRefused:
            assert (missing, method) == ("any", "exact")
            continue
        said = []
        for records in (WHOLE, HOLED, [None] * 6):
            out = ut.release(plan, records, insecure_seed=3)
            said.append(str(replace(out, value=0 if query == ut.Count("move") else out.value)))
        if query == ut.Count("move"):
            assert len(set(said)) == 1


# ---------------------------------------------------------------------------------- fits


@pytest.mark.parametrize("order", [1, 2])
def test_missing_may_be_a_state_of_the_model(order):
    records = (["rest", "rest", "move", None, None, "rest", "move", "move", None] * 40)[:350]
    chain = ut.MarkovChain.fit(records, missing="off", public=True, order=order, prior=1.0)
    assert chain.states == ("move", "rest", "off")
    assert chain.records.missing == "off"
    plan = ut.calibrate(ut.Count("off"), chain, 30.0, method="exchange", accept=broken(chain))
    assert plan.missing == "off"
    assert "missing values are records in state 'off'" in plan.guarantee()
    again = ut.Plan.from_json(plan.to_json())
    assert again.model.records.missing == "off"
    assert check_proof(again).proves(30.0)
    assert exact_of(plan, HOLED, table=False) == [[2]]
    named = [record or "off" for record in records]
    known = ut.MarkovChain.fit(named, ("move", "rest", "off"), public=True, order=order, prior=1.0)
    assert (known.transition == chain.transition).all()
    for word in ("any", "none"):
        with pytest.raises(InvalidInput, match="names a state"):
            ut.MarkovChain.fit(records, missing=word, public=True)
