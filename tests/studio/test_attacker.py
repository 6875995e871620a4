"""Simulate an attack: odds against brute force, and certificates played out."""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.levels.replay import replay_count
from undertow.errors import InvalidInput, NotSupported
from undertow_studio.pages.attacker import (
    Relatives,
    Strip,
    covered,
    strip_of,
    worst_case,
)

MATRIX = [[0.882, 0.118], [0.305, 0.695]]
NAMES = ("inactive", "active")
THREE = [[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.6]]


def chain(length=None, matrix=MATRIX, **more):
    return ut.MarkovChain(
        matrix, NAMES if len(matrix) == 2 else tuple("abc"), length=length, **more
    )


def plans():
    """Return a plan of each kind on short series."""
    flips = ut.RandomizedResponse([[0.7, 0.3], [0.2, 0.8]])
    moving = ut.MarkovChain([MATRIX, [[0.6, 0.4], [0.2, 0.8]], MATRIX], NAMES, start=[0.5, 0.5])
    erased = ut.Redaction([[0.3, 0.0], [1, 1], [0.1, 0.8], [0.0, 0.4]])
    return {
        "exact count": ut.calibrate(ut.Count("active"), chain(4), limit=1.0, method="exact"),
        "count": ut.calibrate(ut.Count("active"), chain(4), limit=1.0, method="exchange"),
        "steps differ": ut.calibrate(ut.Count("active"), moving, limit=1.5),
        "three states": ut.calibrate(ut.Count("b"), chain(4, THREE), limit=2.0),
        "histogram": ut.calibrate(ut.Histogram(), chain(4), limit=1.0),
        "sum": ut.calibrate(
            ut.Sum(0, 2), ut.MarkovChain(THREE, (0, 1, 2), length=4), limit=2.0
        ),
        "flips": _plan(flips, chain(4)),
        "xor": _plan(ut.XorNoise(0.3, 0.4), chain(4)),
        "erased": _plan(erased, chain(4)),
        "ignorant": ut.calibrate(ut.Count("active"), chain(4), limit=1.0, against="ignorant"),
    }  # fmt: skip


def _plan(mechanism, model):
    """Return a plan of a mechanism as it is, with its leakage."""
    leak = ut.leakage(mechanism, model)
    assert math.isfinite(leak.upper)
    return ut.Plan(mechanism, model, leak.upper, leak, "exact")


PLANS = plans()


def law(model):
    """Return all series of a chain and their probabilities, by multiplication."""
    for path in product(range(model.size), repeat=model.length):
        p = float(model.initial[path[0]])
        for record in range(model.length - 1):
            p *= float(model.step(record)[path[record], path[record + 1]])
        yield path, p


def seen(plan, path, output):
    """Return Pr[output | series] up to a factor, by definition of the mechanism."""
    mechanism, states = plan.mechanism, plan.states
    if plan.task == "answer":
        named = [states[x] for x in path]
        if plan.query.kind == "sum":
            true = sum(named)
        elif isinstance(output, tuple):
            apart = sum(abs(z - named.count(s)) for z, s in zip(output, states, strict=True))
            return math.exp(-apart / mechanism.scale)
        else:
            true = sum(name in plan.query.named for name in named)
        return math.exp(-abs(output - true) / mechanism.scale)
    if isinstance(mechanism, ut.XorNoise):
        a, b = mechanism.rho0, mechanism.rho1
        step = np.array([[1 - a, a], [b, 1 - b]])
        noise = [x ^ states.index(z) for x, z in zip(path, output, strict=True)]
        p = [b / (a + b), a / (a + b)][noise[0]]
        for before, after in pairwise(noise):
            p *= float(step[before, after])
        return p
    p = 1.0
    for record, (x, z) in enumerate(zip(path, output, strict=True)):
        if isinstance(mechanism, ut.RandomizedResponse):
            p *= float(mechanism.matrix[x, states.index(z)])
        else:
            gone = float(mechanism.probabilities[record, x])
            p *= gone if z is None else (1 - gone) * (states[x] == z)
    return p


def outputs_of(plan):
    if plan.query.kind == "histogram":
        return [(4.0, 0.0), (2.0, 2.0), (3.0, 3.0), (-1.0, 7.0), (0.0, 4.0)]
    if plan.task == "answer":
        return [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.5]
    choices = (*plan.states, None) if plan.task == "redact" else plan.states
    return list(product(choices, repeat=4))[:: 5 if plan.task == "redact" else 1]


def strips(plan, few):
    """Yield every target, known set with values, and output of a plan on four records."""
    for target in range(4):
        rest = [record for record in range(4) if record != target]
        for values in list(product((None, *plan.states), repeat=3))[::few]:
            known = {r: v for r, v in zip(rest, values, strict=True) if v is not None}
            for output in outputs_of(plan):
                if plan.task == "answer":
                    yield Strip(plan, 0, 4, target, known, answer=output), output
                else:
                    yield Strip(plan, 0, 4, target, known, dict(enumerate(output))), output


@pytest.mark.parametrize("name", PLANS)
def test_odds_are_those_of_brute_force(name):
    plan = PLANS[name]
    paths = list(law(plan.model))
    weights = {
        output: [seen(plan, path, output) for path, _ in paths] for output in outputs_of(plan)
    }
    compared = 0
    for strip, output in strips(plan, few=3 if len(plan.states) == 2 else 7):
        facts = {record: plan.states.index(state) for record, state in strip.known.items()}
        before, after = np.zeros(len(plan.states)), np.zeros(len(plan.states))
        for (path, p), weight in zip(paths, weights[output], strict=True):
            if all(path[record] == state for record, state in facts.items()):
                before[path[strip.target]] += p
                after[path[strip.target]] += p * weight
        if not after.sum() > 0:
            with pytest.raises(InvalidInput, match=r"probability 0|cannot be"):
                strip.guess()
            continue
        found = strip.guess()
        assert found.laws[0] == pytest.approx(before / before.sum(), abs=1e-12)
        assert found.laws[1] == pytest.approx(after / after.sum(), abs=1e-12)
        compared += 1
    assert compared > 100


@pytest.mark.parametrize("name", PLANS)
def test_no_choice_of_the_attacker_beats_the_plan(name):
    plan = PLANS[name]
    checked = 0
    for strip, _ in strips(plan, few=2 if len(plan.states) == 2 else 6):
        try:
            found = strip.guess()
        except InvalidInput:  # cannot come out
            continue
        if math.isinf(found.limit):
            assert name in ("ignorant", "erased")
            assert found.reason
            continue
        # 1e-12: the rounding of the beliefs, which are no guarantee
        assert found.largest <= plan.leakage.upper + 1e-12
        assert abs(found.change) <= found.largest + 1e-12
        assert found.allowed.lower <= found.posterior <= found.allowed.upper
        checked += 1
    assert checked > (20 if name in ("ignorant", "erased") else 200)


@pytest.mark.parametrize("name", PLANS)
def test_the_worst_case_attains_what_the_certificate_says(name):
    plan = PLANS[name]
    worst = worst_case(plan)
    assert worst.attains == pytest.approx(plan.leakage.lower, abs=1e-9)
    assert worst.guess.limit == plan.leakage.upper
    assert worst.guess.posterior <= worst.guess.allowed.upper
    assert str(worst.value) in worst.words()


@pytest.mark.parametrize(
    ("query", "model", "more"),
    [
        (ut.Count("active"), chain(), {}),
        (ut.Count("active"), chain(), {"method": "exact"}),
        (ut.Count("active"), chain(15264), {"method": "exact"}),
        (ut.Count("active"), chain(15264), {}),
        (ut.Count("active"), chain(12), {"against": ut.Adversary(4, [2, 7])}),
        (ut.Series(), chain(), {}),
        (ut.Redacted(protect=10, length=21), chain(), {}),
        (ut.Redacted(protect=10, length=21), chain(), {"against": "ignorant"}),
    ],
)
def test_certificates_of_long_series_fit_on_a_strip(query, model, more):
    plan = ut.calibrate(query, model, limit=1.0, **more)
    worst = worst_case(plan)
    assert worst.attains == pytest.approx(plan.leakage.lower, abs=1e-9)
    assert worst.strip.length <= 40
    witness = plan.leakage.witness
    if worst.strip.answer is not None and witness is not None and witness.output is not None:
        _, again = replay_count(witness, model, ["active"], plan.mechanism.scale)
        assert worst.attains == pytest.approx(again, abs=1e-9)


def test_a_plan_against_nobody_informed_is_drawn_whole_or_without_a_limit():
    plan = ut.calibrate(
        ut.Count("active"), chain(60), limit=1.0, against="ignorant", method="exact"
    )
    strip = strip_of(plan)
    assert strip.length == 60
    assert len(strip.cells()) == 40
    assert replace(strip, answer=60.0).guess().largest <= plan.leakage.upper + 1e-12
    part = Strip(plan, 10, 11, 15, answer=3.0).guess()
    assert math.isinf(part.limit)
    assert "whole series" in part.reason
    assert covered(plan, 3, [4])[0] == math.inf


def test_a_redaction_says_why_records_go():
    erased = PLANS["erased"]
    cells = strip_of(erased, 4).cells()
    assert [cell.why for cell in cells] == [
        "erased 30% of the time when inactive, 0% of the time when active",
        "protected: always erased",
        "erased 10% of the time when inactive, 80% of the time when active",
        "erased 0% of the time when inactive, 40% of the time when active",
    ]
    assert [cell.erased for cell in cells] == [False, True, False, False]
    wide = ut.calibrate(ut.Redacted(protect=10, length=21), chain(), limit=1.0)
    told = {cell.record: cell.why for cell in strip_of(wide, 21).cells()}
    assert told[9] == "always erased: it tells too much about record 10"
    assert told[0] == "always shown"


def test_strips_refuse_what_is_not_on_them():
    plan = PLANS["flips"]
    for wrong in (
        {"target": 9},
        {"known": {1: "active"}},
        {"known": {7: "active"}},
        {"known": {2: "asleep"}},
        {"length": 0},
        {"outputs": {9: "active"}},
    ):
        with pytest.raises(InvalidInput):
            Strip(**{"plan": plan, "first": 0, "length": 4, "target": 1, **wrong})
    with pytest.raises(InvalidInput, match="flips erase no record"):
        Strip(plan, 0, 4, 1, outputs={0: None}).guess()
    with pytest.raises(InvalidInput, match="shown as"):
        Strip(plan, 0, 4, 1, outputs={0: "asleep"}).guess()
    with pytest.raises(InvalidInput, match="cannot be known"):
        Strip(plan, 0, 4, 1).toggled(1)
    with pytest.raises(NotSupported, match="for chains"):
        strip_of(ut.calibrate(ut.Count("BB"), FAMILY, limit=1.0, method="exact"))


def test_plans_for_several_chains_hold_for_each():
    other = chain(matrix=[[0.9, 0.1], [0.25, 0.75]])
    plan = ut.calibrate(ut.Series(), ut.ModelSet([chain(), other]), limit=1.0)
    worst = worst_case(plan)
    assert worst.attains == pytest.approx(plan.leakage.lower, abs=1e-9)
    assert worst.strip.chain == other
    for which in (0, 1):
        strip = replace(worst.strip, which=which)
        assert strip.guess().largest <= plan.leakage.upper + 1e-12
    box = ut.MarkovChain.box([[0.85, 0.08], [0.25, 0.6]], [[0.92, 0.15], [0.4, 0.75]], NAMES)
    wide = ut.calibrate(ut.Count("active"), box, limit=1.0)
    assert worst_case(wide).attains == pytest.approx(wide.leakage.lower, abs=1e-6)


FAMILY = ut.Pedigree({"kim": ("bob", "ann"), "lee": ("bob", "ann")}, allele_frequency=0.2)


@pytest.mark.parametrize("query", [ut.Count("BB"), ut.Count(("BB", "Bb"))])
@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_families_are_those_of_brute_force(query, against):
    plan = ut.calibrate(query, FAMILY, limit=1.0, against=against, missing="none")
    network = FAMILY.examples(query)[0]
    assert isinstance(network, ut.BayesianNetwork)
    order = list(network.observed)
    joint, states = network.joint(), plan.states
    rng = np.random.default_rng(5)
    for _ in range(60):
        target = order[rng.integers(len(order))]
        people = [p for p in order if p != target]
        known = {} if against == "ignorant" else {
            p: states[rng.integers(3)] for p in people if rng.random() < 0.4
        }  # fmt: skip
        answer = float(rng.integers(-1, 6))
        before, after = np.zeros(3), np.zeros(3)
        for cell in np.ndindex(joint.shape):
            values = dict(zip(order, (states[c] for c in cell), strict=True))
            if all(values[p] == v for p, v in known.items()):
                count = sum(v in query.named for v in values.values())
                place = states.index(values[target])
                before[place] += joint[cell]
                after[place] += joint[cell] * math.exp(-abs(answer - count) / plan.mechanism.scale)
        if not before.sum() > 0:
            with pytest.raises(InvalidInput):
                Relatives(plan, target, known, answer).guess()
            continue
        found = Relatives(plan, target, known, answer).guess()
        assert found.laws[0] == pytest.approx(before / before.sum(), abs=1e-12)
        assert found.laws[1] == pytest.approx(after / after.sum(), abs=1e-12)
        assert found.limit == plan.leakage.upper
        assert found.largest <= plan.leakage.upper + 1e-12


def test_a_person_is_named_and_a_record_numbered():
    family = Relatives(ut.calibrate(ut.Count("BB"), FAMILY, limit=1.0), "kim", {"ann": "BB"}, 2.0)
    assert "belief that kim is BB" in family.guess("BB").words()
    assert {cell.label for cell in family.cells()} == {"kim", "lee", "ann", "bob"}
    assert "belief that record 1 is active" in Strip(PLANS["flips"], 0, 4, 1).guess().words()
    ignorant = Strip(PLANS["ignorant"], 0, 4, 1, {2: "active"}, answer=1.0).guess()
    assert "knows no other record" in ignorant.words()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(120))
def test_random_plans_keep_their_limit(seed):
    """Random chains and mechanisms, and every choice of an attacker on four records."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 4))
    rows = rng.dirichlet(np.ones(size) * rng.uniform(0.3, 2), size=size)
    names = NAMES if size == 2 else tuple("abc")
    model = ut.MarkovChain(rows, names, start=rng.dirichlet(np.ones(size)), length=4)
    kind = seed % 3
    if kind == 0:
        channel = rng.dirichlet(np.ones(size) * 2, size=size) * 0.8 + 0.2 / size
        plan = _plan(ut.RandomizedResponse(channel), model)
    elif kind == 1:
        erased = rng.random((4, size))
        erased[rng.integers(4)] = 1.0
        plan = _plan(ut.Redaction(erased), model)
    else:
        plan = ut.calibrate(ut.Count(names[-1]), model, limit=float(rng.uniform(0.2, 4)))
    assert worst_case(plan).attains == pytest.approx(plan.leakage.lower, abs=1e-9)
    largest = 0.0
    for strip, _ in strips(plan, 1 if size == 2 else 7):
        try:
            found = strip.guess()
        except InvalidInput:  # cannot come out
            continue
        if math.isfinite(found.limit):
            largest = max(largest, found.largest)
    assert largest <= plan.leakage.upper + 1e-12
