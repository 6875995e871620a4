"""Plans: what they guarantee, and files that come back whole or not at all."""

import copy
import dataclasses
import hashlib
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.strategies import models
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, InvalidPlan
from undertow.methods import METHODS

P = [[0.882, 0.118], [0.305, 0.695]]
CHAIN = ut.MarkovChain(P, states=("inactive", "active"))
LONG = ut.MarkovChain(P, states=("inactive", "active"), length=3)
NUMBERS = {"inactive": 0.5, "active": 4}
MANY = settings(deadline=None, derandomize=True, database=None, max_examples=80)

PLANS = {
    "count": ut.calibrate(ut.Count("active"), CHAIN, 1.0),
    "exchange": ut.calibrate(ut.Count(["active"]), LONG, 0.5, "ignorant", method="exchange"),
    "group": ut.calibrate(ut.Count("active"), LONG, 0.5, method="group"),
    "adversary": ut.calibrate(ut.Count("active"), LONG, 2.0, ut.Adversary(1, [0])),
    "histogram": ut.calibrate(ut.Histogram(), CHAIN, 1.0),
    "sum": ut.calibrate(ut.Sum(-1, 4.5, values=NUMBERS), CHAIN, 1.0, "informed"),
    "mean": ut.calibrate(ut.Mean(0, 200, values=NUMBERS), LONG, 1.0),
    "linear": ut.calibrate(
        ut.Linear(np.array([1.0, 0.1, -2.0]), 1 / 3, values={"inactive": 0, "active": 1 / 3}),
        LONG,
        1.0,
    ),
    "groups": ut.calibrate(ut.Count("active"), ut.Groups(4), 1.0),
    "set": ut.calibrate(ut.Count("active"), ut.ModelSet([LONG, ut.Groups(2)]), 1.0),
}


def strict(text):
    """Read JSON as the standard has it: no NaN, no Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def signed(body):
    """The text of a plan with this content and a checksum that fits it."""
    body = {key: value for key, value in body.items() if key != "checksum"}
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return json.dumps({**body, "checksum": hashlib.sha256(canonical.encode()).hexdigest()})


def parts(plan):
    """All that a plan says, with arrays as lists."""
    query = plan.query
    asked = (
        (query.weights.tolist(), query.spread) if isinstance(query, ut.Linear) else query,
        type(plan.mechanism),
        plan.mechanism.scale,
    )
    return asked, plan.model, plan.limit, plan.leakage, plan.method


# --- what a plan says -----------------------------------------------------------------------------


def test_a_plan_answers_for_its_parts():
    plan = PLANS["count"]
    assert plan.query == ut.Count("active")
    assert (plan.against, plan.length, plan.states) == ("any", None, ("inactive", "active"))
    assert plan.leakage.upper <= plan.limit == 1.0
    assert plan.dp_epsilon == 1 / plan.mechanism.scale
    assert plan.expected_error == pytest.approx(1 / math.sinh(1 / plan.mechanism.scale))
    assert plan.numbers == 1
    assert PLANS["histogram"].numbers == 2
    assert PLANS["mean"].dp_epsilon == pytest.approx(3.5 / 3 / PLANS["mean"].mechanism.scale)
    assert PLANS["adversary"].against == ut.Adversary(1, [0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.limit = 2.0  # type: ignore[misc]


def test_the_guarantee_names_attacker_and_odds():
    promise = PLANS["count"].guarantee()
    assert "an attacker who knows any other records" in promise
    assert "at most a factor 2.72" in promise
    assert "(leakage 1)" in promise
    assert "knows no other record" in PLANS["exchange"].guarantee()


def test_lengths_and_states_of_models():
    assert (CHAIN.length, CHAIN.states) == (None, ("inactive", "active"))
    assert (ut.Groups(3).length, ut.Groups(3).states) == (None, ())
    nested = ut.ModelSet([ut.Groups(3), ut.ModelSet([ut.Groups(2), LONG])])
    assert (nested.length, nested.states) == (3, ("inactive", "active"))


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_files_restore_every_kind_of_plan(name):
    plan = PLANS[name]
    text = plan.to_json()
    again = ut.Plan.from_json(text)
    assert parts(again) == parts(plan)
    assert again.to_json() == text
    body = strict(text)
    assert (body["format"], body["version"]) == ("undertow-plan", 2)
    if name != "linear":
        assert again == plan


words = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=40)


@st.composite
def plans(draw: st.DrawFn) -> ut.Plan:
    """Plans on any model, with any finite numbers; not calibrated, but well formed."""
    model = draw(models())
    states = model.states or ("a", "b")
    queries: list[Any] = [
        ut.Count(draw(st.lists(st.sampled_from(states), min_size=1, unique=True))),
        ut.Histogram(),
    ]
    if len(model.states) != 1:  # one state is a constant
        numbers = {state: place / 2 for place, state in enumerate(model.states)} or None
        ends = draw(st.sampled_from([(0, 1), (-1.5, 1e3)]))
        sums = ut.Sum(*ends, numbers), ut.Mean(-3, 1, numbers)
        queries += [model.valued(query) for query in sums]
    query = draw(st.sampled_from(queries))
    noise = ut.DiscreteLaplace if isinstance(query, ut.Count | ut.Histogram) else ut.Laplace
    scale = draw(st.floats(1e-100, 1e300))
    length = model.length or 6
    against: Any = draw(st.sampled_from(["any", "ignorant", "informed", ut.Adversary(0, [1])]))
    places = st.sets(st.integers(1, min(5, length - 1)))
    known = tuple((t, draw(st.sampled_from(states))) for t in draw(places))
    sets = tuple((t, tuple(states[: t % 3])) for t in draw(places))
    witness = Witness(
        0, min(6, length), known, states[0], states[1], sets, draw(st.none() | st.integers(-1, 99))
    )
    epsilon = draw(st.floats(1e-9, 1e9))
    upper = draw(st.floats(0, epsilon))
    leak = Leakage(
        draw(st.floats(0, upper)), upper, draw(words), against,
        draw(st.sampled_from([None, witness])), tuple(draw(st.lists(words, max_size=2))),
        draw(st.none() | words), valid_for=draw(st.sampled_from(["series", "windows", "any"])),
    )  # fmt: skip
    method = draw(st.sampled_from(sorted(METHODS["answer"])))
    return ut.Plan(noise(query, scale), model, epsilon, leak, method)


@MANY
@given(plans())
def test_files_restore_plans_on_any_model(plan):
    text = plan.to_json()
    strict(text)
    assert ut.Plan.from_json(text) == plan


def test_a_plan_for_a_function_stays_in_memory():
    plan = ut.calibrate(ut.Query(len), CHAIN, 1.0)
    with pytest.raises(InvalidInput, match="cannot be written to a file"):
        plan.to_json()


def test_state_names_that_no_file_can_hold_are_refused():
    chain = ut.MarkovChain(P, states=(frozenset("a"), frozenset("b")))
    plan = ut.calibrate(ut.Count([frozenset("a")]), chain, 1.0)
    with pytest.raises(InvalidInput, match="state names must be strings or numbers"):
        plan.to_json()


def test_half_a_character_in_a_name_is_refused():
    """Neither written nor read: many readers of JSON refuse the file, and no terminal shows it."""
    chain = ut.MarkovChain(P, states=("active", "\ud800"))
    plan = ut.calibrate(ut.Count("active"), chain, 1.0)
    with pytest.raises(InvalidInput, match="half of a surrogate pair"):
        plan.to_json()
    named = ut.calibrate(ut.Count("active"), ut.MarkovChain(P, states=("active", "half")), 1.0)
    text = named.to_json().replace('"half"', '"\\ud800"')
    assert "\\ud800" in text
    for broken in (text, text.replace('"undertow-plan",', '"undertow-plan", "\\udfff": 1,')):
        with pytest.raises(InvalidPlan, match="half of a surrogate pair"):
            ut.Plan.from_json(broken)


def test_state_names_that_would_not_come_back_are_refused():
    chain = ut.MarkovChain(P, states=(("a", 1), ("b", 2)))
    plan = ut.calibrate(ut.Count([("a", 1)]), chain, 1.0)
    with pytest.raises(InvalidInput):
        plan.to_json()


@pytest.mark.parametrize("method", ["best", "group"])
def test_notes_that_would_not_come_back_are_refused(method):
    noted = ut.ModelSet([LONG, ut.Groups(2)], note="two\ngood days")
    plan = ut.calibrate(ut.Count("active"), noted, 1.0, method=method)
    with pytest.raises(InvalidInput, match="must not hold control characters"):
        plan.to_json()


def test_a_plan_file_is_strict_json():
    leak = dataclasses.replace(PLANS["count"].leakage, upper=math.inf)
    unproved = dataclasses.replace(PLANS["count"], leakage=leak)
    chain = ut.MarkovChain(P, states=(math.inf, 1.0))
    for plan in (unproved, ut.calibrate(ut.Count(1.0), chain, 1.0)):
        try:
            text = plan.to_json()
        except InvalidInput:
            continue
        strict(text)


# --- files that are not what they were ------------------------------------------------------------


def leaves(tree, path=()):
    """Every place of a JSON tree that is not a container, and every empty container."""
    items: Any = ()
    if isinstance(tree, dict):
        items = tree.items()
    elif isinstance(tree, list):
        items = enumerate(tree)
    if not items:
        yield path, tree
    for key, value in items:
        yield from leaves(value, (*path, key))


def changed(value):
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return math.nextafter(value, math.inf)
        case str():
            return value + "x"
        case None:
            return 0
    return "x"


@pytest.mark.parametrize("name", ["count", "exchange", "linear", "set"])
def test_any_edit_by_hand_is_noticed(name):
    body = json.loads(PLANS[name].to_json())
    places = list(leaves(body))
    assert len(places) > 20
    for path, value in places:
        edited = copy.deepcopy(body)
        inner = edited
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = changed(value)
        with pytest.raises(InvalidPlan):
            ut.Plan.from_json(json.dumps(edited))
    for key in body:
        without = {name: value for name, value in body.items() if name != key}
        with pytest.raises(InvalidPlan):
            ut.Plan.from_json(json.dumps(without))
    with pytest.raises(InvalidPlan, match="edited or damaged"):
        ut.Plan.from_json(json.dumps({**body, "note": "harmless"}))


def test_the_checksum_used_here_is_the_real_one():
    assert ut.Plan.from_json(signed(json.loads(PLANS["count"].to_json()))) == PLANS["count"]


@pytest.mark.parametrize("text", ["", "plan", "{", "{'a': 1}", "\x00", "[" * 10**5, None, 5])
def test_what_is_not_json_is_refused(text):
    with pytest.raises(InvalidPlan, match="it is not JSON"):
        ut.Plan.from_json(text)


@pytest.mark.parametrize("text", ["[]", "{}", "1", "null", '"undertow-plan"', '{"format": "x"}'])
def test_other_json_is_refused(text):
    with pytest.raises(InvalidPlan, match='it lacks "format": "undertow-plan"'):
        ut.Plan.from_json(text)


@pytest.mark.parametrize("version", [0, 1, "2", None, [1]])
def test_other_versions_are_refused_even_if_whole(version):
    body = json.loads(PLANS["count"].to_json())
    with pytest.raises(InvalidPlan, match="this undertow reads version 2"):
        ut.Plan.from_json(signed({**body, "version": version}))


@pytest.mark.parametrize("key", ["query", "noise", "scale", "model", "limit", "method", "leakage"])
def test_missing_parts_are_refused_even_if_signed(key):
    body = json.loads(PLANS["count"].to_json())
    del body[key]
    with pytest.raises(InvalidPlan, match="malformed"):
        ut.Plan.from_json(signed(body))


MALFORMED: dict[str, dict[str, Any]] = {
    "no query": {"query": None},
    "unknown query": {"query": {"kind": "median"}},
    "real query, discrete noise": {"query": {"kind": "sum", "lower": 0, "upper": 1}},
    "empty count": {"query": {"kind": "count", "states": []}},
    "unknown noise": {"noise": "gaussian"},
    "noise in a list": {"noise": ["laplace"]},
    "no scale": {"scale": None},
    "negative scale": {"scale": -1.0},
    "no model": {"model": {}},
    "unknown model": {"model": {"kind": "magic"}},
    "rows that do not sum": {"model": {"transition": [[0.5, 0.4], [0.5, 0.5]]}},
    "no leakage": {"leakage": []},
    "leakage without ends": {"leakage": {"against": "any"}},
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_malformed_parts_are_refused_even_if_signed(fault):
    body = json.loads(PLANS["count"].to_json())
    with pytest.raises(InvalidPlan):
        ut.Plan.from_json(signed({**body, **MALFORMED[fault]}))


@pytest.mark.parametrize("against", ["everyone", {"target": -1, "known": []}, {"wrong": 1}, 7])
def test_unknown_adversaries_are_refused_even_if_signed(against):
    body = json.loads(PLANS["count"].to_json())
    body["leakage"]["against"] = against
    with pytest.raises(InvalidPlan, match="malformed"):
        ut.Plan.from_json(signed(body))


@pytest.mark.parametrize("fault", ["digits", "lower", "known"])
def test_foreign_files_never_escape_as_other_errors(fault):
    body = json.loads(PLANS["count"].to_json())
    text = "9" * 5000  # more digits than Python turns into an integer
    if fault == "lower":
        text = signed({**body, "leakage": {**body["leakage"], "lower": "much"}})
    elif fault == "known":
        body["leakage"]["witness"]["known"] = [[1]]
        text = signed(body)
    with pytest.raises(InvalidPlan):
        ut.Plan.from_json(text)
