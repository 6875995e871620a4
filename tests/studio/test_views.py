"""Views of the studio: odds against brute force, certificates played out, curves as computed."""

import datetime as dt
import json
import math
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.chains.replay import replay_count
from undertow.data.scopes import Scope
from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.ledger.rules import Entry
from undertow.studio.views.attacker import attained, covered
from undertow.studio.views.calendar import BudgetYear, Day, budget_year, spending_days
from undertow.studio.views.costs import CostRow, cost_table, error_view, grid, leakage_view
from undertow.studio.views.fading import fading, findings, persons_view
from undertow.studio.views.odds import about, allowed, beliefs, chance_above, chance_below, factor
from undertow.studio.views.relatives import Relatives, relatives_of, worst_relatives
from undertow.studio.views.strips import Strip, strip_of
from undertow.studio.views.worst import worst_case

MATRIX = [[0.882, 0.118], [0.305, 0.695]]
NAMES = ("inactive", "active")
THREE = [[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.6]]
FLU = {"ann": [0.9, 0.1], "bob": [[0.8, 0.2], [0.4, 0.6]], "cy": [[0.7, 0.3], [0.5, 0.5]]}


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
    json.dumps(worst.guess.to_dict())
    witness = plan.leakage.witness
    if worst.strip.answer is not None and witness is not None and witness.output is not None:
        _, again = replay_count(witness, model, ["active"], plan.mechanism.scale)
        assert worst.attains == pytest.approx(again, abs=1e-9)


def test_a_plan_for_whole_series_knows_what_lies_beyond_the_strip():
    plan = ut.calibrate(ut.Count("active"), chain(200), limit=1.0, method="exact")
    assert plan.leakage.covers == "series"
    strip = strip_of(plan, 11)
    assert strip.fixed == (strip.first, strip.first + 10)
    assert set(strip.known) == set(strip.fixed)
    with pytest.raises(InvalidInput, match="stays known"):
        strip.knowing(strip.first, None)
    assert strip.toggled(strip.first).known[strip.first] == "active"
    with pytest.raises(InvalidInput, match="say its state"):
        Strip(plan, strip.first, 11, strip.target).guess()
    for answer in range(-3, 15):
        found = replace(strip, answer=float(answer)).guess()
        assert found.limit == plan.leakage.upper
        assert found.largest <= plan.leakage.upper + 1e-12
    windows = ut.calibrate(ut.Count("active"), chain(200), limit=1.0, method="exchange")
    assert strip_of(windows, 11).fixed == ()
    assert strip_of(windows, 11).guess().limit == windows.leakage.upper


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


def test_a_click_goes_through_all_states():
    strip = strip_of(PLANS["three states"], 4)
    seen_ = [strip.known.get(0)]
    for _ in range(4):
        strip = strip.toggled(0)
        seen_.append(strip.known.get(0))
    assert seen_ == [None, "a", "b", "c", None]


FAMILY = ut.Pedigree({"kim": ("bob", "ann"), "lee": ("bob", "ann")}, allele_frequency=0.2)


@pytest.mark.parametrize("query", [ut.Count("BB"), ut.Count(("BB", "Bb"))])
@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_families_are_those_of_brute_force(query, against):
    plan = ut.calibrate(query, FAMILY, limit=1.0, against=against)
    network = FAMILY.examples(query)[0]
    assert isinstance(network, ut.BayesianNetwork)
    order = list(network.records)
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
    worst = worst_relatives(plan)
    witness = plan.leakage.witness
    moved = attained(worst.guess(), witness.value, witness.other)
    assert moved == pytest.approx(plan.leakage.lower, abs=1e-9)


def test_networks_and_unrelated_families():
    flu = ut.BayesianNetwork([("ann", "bob"), ("bob", "cy")], FLU, ("well", "ill"))
    plan = ut.calibrate(ut.Count("ill"), flu, limit=1.0)
    for answer in range(-2, 6):
        found = Relatives(plan, "bob", {"cy": "ill"}, float(answer)).guess("ill")
        assert found.largest <= plan.leakage.upper + 1e-12
    assert worst_relatives(plan).guess().largest == pytest.approx(plan.leakage.lower, abs=1e-9)
    two = ut.Pedigree({"kim": ("bob", "ann"), "x": ("y", "z")})
    apart = ut.calibrate(ut.Count("BB"), two, limit=1.0, method="exact")
    family = relatives_of(apart, "kim")
    assert set(family.people) == {"kim", "bob", "ann"}
    assert math.isfinite(family.guess().limit)
    assert family.toggled("bob").known == {"bob": "BB"}
    assert [cell.role for cell in family.toggled("bob").cells()].count("known") == 1
    with pytest.raises(InvalidInput, match="does not depend"):
        family.knowing("x", "BB")
    with pytest.raises(InvalidInput, match="cannot be known"):
        family.knowing("kim", "BB")
    with pytest.raises(InvalidInput, match="no such state"):
        family.knowing("bob", "AA")
    with pytest.raises(NotSupported, match="Pedigree"):
        relatives_of(PLANS["count"])


def test_odds_in_words_are_on_the_safe_side():
    rng = np.random.default_rng(2)
    for _ in range(500):
        p = float(rng.uniform(0, 1) ** rng.integers(1, 6))
        high, low = chance_above(p), chance_below(p)
        assert worth(low) <= Fraction(p) <= worth(high)
        if 0.02 < p < 0.9:
            assert float(worth(high)) - float(worth(low)) < 0.15
            assert abs(float(worth(about(p))) - p) < 0.06
    for leak in (0.0, 0.1, 1.0, 3.0, 10.0, 50.0):
        for prior in (1e-6, 0.01, 0.5, 0.99):
            found = allowed(prior, leak)
            exact = Fraction(prior) * Fraction(math.exp(leak))
            exact /= 1 - Fraction(prior) + exact
            assert found.upper >= float(exact)
            assert found.upper - float(exact) <= 1e-12
            assert found.lower <= prior <= found.upper
    assert allowed(0.5, math.inf).upper == 1.0
    assert "all but certain" in allowed(0.5, 20.0).words()
    assert [belief.prior for belief in beliefs(1.0)] == [0.5, 0.1, 0.01]
    with_delta = allowed(0.1, 1.0, 1e-6)
    assert with_delta.upper > allowed(0.1, 1.0).upper
    assert "except with probability at most 2e-6" in with_delta.words()
    assert "5.44, except" in factor(1.0, 1e-6)
    json.dumps(with_delta.to_dict())
    for wrong in ((0.0, 1.0), (1.0, 1.0), (0.5, -1.0), (0.5, math.nan)):
        with pytest.raises(InvalidInput):
            allowed(*wrong)
    for beyond in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidInput):
            about(beyond)


def worth(words):
    if words in ("0", "certainty"):
        return Fraction(words == "certainty")
    most, of = words.replace(",", "").split(" in ")
    return Fraction(int(most), int(of))


def test_memory_is_measured_as_it_was_drawn():
    """Null: 20 series of 4,000 records of the chain; all lags within 5 standard errors."""
    model = chain()
    fitted = ut.MarkovChain.fit([model.simulate(4000, seed=s) for s in range(20)], public=True)
    found = fading(fitted)
    assert found.basis == "public"
    assert found.measured is not None
    assert found.errors is not None
    law, eigen = fitted.initial, fitted.transition[0, 0] + fitted.transition[1, 1] - 1
    assert law.sum() == pytest.approx(1)
    for lag, value in zip(found.lags, found.modelled, strict=True):
        assert value == pytest.approx(eigen**lag, abs=1e-9)
    for measured, error, value in zip(found.measured, found.errors, found.modelled, strict=True):
        assert abs(measured - value) <= 5 * error + 1e-9
    assert max(found.errors) < 0.02
    json.dumps(found.to_dict())
    # a broken twin: two persons with habits of their own, whose memory never fades
    rng = np.random.default_rng(4)
    habits = [(rng.random(2000) < share).astype(int).tolist() for share in (0.1, 0.9)]
    twin = fading(ut.MarkovChain.fit(habits, public=True))
    assert twin.errors is not None
    gap = np.abs(np.array(twin.measured) - twin.modelled) / np.maximum(twin.errors, 1e-9)
    assert gap[1:].max() > 5


def test_memory_by_definition():
    """The association by lag, from the records themselves."""
    series = [[0, 1, 1, 2, 0, 0, 1, 2, 2, 2] * 12, [1, 1, 0, 2, 1] * 30]
    fitted = ut.MarkovChain.fit(series, public=True)
    found = fading(fitted, lags=6)
    assert found.measured is not None
    everything = np.concatenate(series)
    share = np.bincount(everything) / everything.size
    for lag, value in zip(found.lags, found.measured, strict=True):
        total = pairs = 0.0
        for one in series:
            for first, second in zip(one, one[lag:], strict=False):
                pairs += 1
                total += (first == second) - share[first] - share[second] + share @ share
        assert value == pytest.approx(total / pairs / (1 - share @ share), abs=1e-12)


def test_memory_of_chains_without_records():
    assert fading(chain()).measured is None
    assert fading(chain()).words() == "After 9 steps a record tells next to nothing about another."
    slow = fading(chain(matrix=[[0.999, 0.001], [0.001, 0.999]]))
    assert slow.gone is None
    assert "still tells a lot" in slow.words()
    started = fading(ut.MarkovChain(MATRIX, start=[1, 0]))
    assert started.modelled == pytest.approx(fading(chain()).modelled, abs=1e-9)
    with pytest.raises(NotSupported, match="one transition matrix"):
        fading(ut.MarkovChain([MATRIX, MATRIX], start=[1, 0]))
    with pytest.raises(InvalidModel, match="one certain state"):
        fading(ut.MarkovChain([[1, 0], [1, 0]]))


def test_checks_and_persons_in_words():
    still, lively = chain(matrix=[[0.95, 0.05], [0.1, 0.9]]), chain(matrix=[[0.6, 0.4], [0.5, 0.5]])
    sample = [still.simulate(900, seed=1), *(lively.simulate(900, seed=s) for s in range(4))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = ut.MarkovChain.fit(sample)
    told = {one.name: one for one in findings(fitted)}
    assert set(told) == {"sample", "order", "memory", "time", "hours", "persons"}
    assert told["persons"].outcome == "failed"
    assert "NOT PRIVATE" in told["persons"].basis
    assert told["persons"].question == "Is one chain right for everybody?"
    found = persons_view(fitted)
    assert found.leaks > 2
    assert found.persons == 5
    assert "do not fit" in found.words()
    json.dumps([found.to_dict(), *(one.to_dict() for one in told.values())])
    alike = ut.MarkovChain.fit([lively.simulate(900, seed=s) for s in range(4)], public=True)
    assert persons_view(alike, limit=3.0).limit == 3.0
    assert persons_view(ut.MarkovChain.fit(sample[0], public=True)) is None
    assert findings(chain()) == ()


def test_leakage_curves_are_the_certified_ones():
    model = chain(50)
    ticks = []
    found = leakage_view(model, [0.5, 1.0], asked=0.5, tick=lambda: ticks.append(1))
    curves = {curve.name: curve for curve in found.curves}
    assert len(ticks) == 2
    assert curves["knows any other records"].values == tuple(
        ut.leakage(ut.PureDP(level), model).upper for level in (0.5, 1.0)
    )
    assert curves["knows nothing"].values == tuple(
        ut.leakage(ut.PureDP(level), model, "ignorant").upper for level in (0.5, 1.0)
    )
    assert curves["whatever the dependence"].values == (25.0, 50.0)
    assert curves["if records were independent"].values == (0.5, 1.0)
    assert curves["Lange (published)"].basis == "published"
    head, rows = found.table()
    assert head[0] == "knows any other records"
    assert rows[0][:2] == (0.5, curves["knows any other records"].values[0])
    json.dumps(found.to_dict())
    family = leakage_view(FAMILY, [0.5, 1.0])
    assert [c.name for c in family.curves if c.basis == "published"] == []
    with pytest.raises(InvalidInput, match="increasing"):
        leakage_view(model, [1.0, 0.5])


def test_error_curves_and_the_table_behind_them():
    model = chain(50)
    found = error_view(
        ut.Count("active"), model, 1.0, limits=[0.5, 1.0], methods=["exchange", "group", "lange"]
    )
    curves = {curve.name: curve for curve in found.curves}
    assert set(curves) == {"exchange", "group"}
    plan = ut.calibrate(ut.Count("active"), model, limit=1.0, method="exchange")
    assert curves["exchange"].values[1] == pytest.approx(plan.expected_error, rel=2e-3)
    assert curves["group"].values[1] == pytest.approx(50, rel=1e-2)
    streamed: list[CostRow] = []
    rows, table = cost_table(
        ut.Count("active"), model, 1.0, methods=["group", "exchange", "lange"], each=streamed.append
    )
    assert [row.method for row in streamed] == ["group", "exchange", "lange"]
    assert [row.method for row in rows if row.best] == ["exchange"]
    assert rows[2].reason
    assert rows[2].expected_error is None
    assert table["exchange"].plan.limit == 1.0
    json.dumps([row.to_dict() for row in rows])
    series, _ = cost_table(ut.Series(), chain(), 1.0, methods=["exact"])
    assert series[0].measures["expected flips"] > 0
    assert grid(0.7)[6] == 0.7
    with pytest.raises(InvalidInput, match="odd number"):
        grid(1.0, 4)


def entry(name, level, at, status="confirmed", **scope):
    return Entry(name, "release", level, None, Scope(**scope), {}, status=status, at=at)


def test_a_year_adds_up_what_touches_the_same_records():
    first = dt.date(2026, 1, 1)
    entries = [
        entry("a", 0.25, "2025-12-30T08:00"),
        entry("b", 0.25, "2026-02-02T08:00", start=0, end=7),
        entry("c", 0.5, "2026-02-02T09:00", start=7, end=14),
        entry("d", 0.5, "2026-02-03T09:00", "cancelled"),
        entry("e", 0.125, "2026-02-04T09:00", "reserved", start=0, end=7),
    ]
    days = spending_days(entries, "record", first)
    assert [(day.day, day.spent, day.reserved, day.level) for day in days] == [
        ("2026-01-01", 0.25, 0.0, 0.25),
        ("2026-02-02", 0.75, 0.0, 0.75),
        ("2026-02-04", 0.0, 0.125, 0.75),
    ]
    assert spending_days(entries, "person", first)[-1].level == 1.125


def test_a_weekly_release_is_foreseen(tmp_path):
    day = Day("2026-01-05", 0.5, 0.0, 0.5)
    found = BudgetYear(1.0, "2026-01-01", "2026-12-01", (day,), 0.1)
    assert [level for _, level in found.weeks()] == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0])
    assert found.exhausted() is None
    assert "would leave 0%" in found.words()
    over = replace(found, weekly=0.2)
    assert over.exhausted() == "2026-12-15"
    assert over.words().endswith("A weekly release fits 2 more times, and no longer on "
                                 "15 December 2026.")  # fmt: skip
    assert replace(found, weekly=0.0).words() == "50% of the budget is spent or reserved."
    json.dumps(over.to_dict())
    ledger = ut.Ledger(tmp_path / "year.db", dataset="w25", model=chain(), limit=1.0)
    year = budget_year(ledger, dt.date(2026, 5, 4), weekly=0.01)
    assert year.budget == ledger.budget
    assert year.spent == 0.0
    with pytest.raises(InvalidInput, match="at least 0"):
        budget_year(ledger, dt.date(2026, 5, 4), weekly=-1.0)


def test_series_have_a_cost_too():
    flips = error_view(ut.Series(), chain(), 1.0, limits=[1.0, 2.0], methods=["exact"])
    assert flips.measure == "share of records that are false"
    plan = ut.calibrate(ut.Series(), chain(), limit=1.0, method="exact")
    assert flips.curves[0].values[0] == plan.expected_flips
    redacted = ut.Redacted(protect=3, length=9)
    erased = error_view(redacted, chain(), 1.0, limits=[0.01, 1.0], methods=["mq", "3r-constant"])
    shown = ut.calibrate(redacted, chain(), limit=1.0, method="mq").utility
    (windows, regions) = erased.curves
    assert windows.values[1] == pytest.approx(1 - shown)
    assert regions.protects == "ignorant"
    ticks = []
    error_view(
        ut.Series(), chain(), 1.0, limits=[1.0], methods=["exact"], tick=lambda: ticks.append(1)
    )
    assert ticks == [1]


def test_a_person_is_named_and_a_record_numbered():
    family = Relatives(ut.calibrate(ut.Count("BB"), FAMILY, limit=1.0), "kim", {"ann": "BB"}, 2.0)
    assert "belief that kim is BB" in family.guess("BB").words()
    assert {cell.label for cell in family.cells()} == {"kim", "lee", "ann", "bob"}
    assert "belief that record 1 is active" in Strip(PLANS["flips"], 0, 4, 1).guess().words()
    ignorant = Strip(PLANS["ignorant"], 0, 4, 1, {2: "active"}, answer=1.0).guess()
    assert "knows no other record" in ignorant.words()
    assert ignorant.to_dict()["limit"] is None
