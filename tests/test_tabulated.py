"""Noise with a table: its moments, level, checks and file, and the exact sampler."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import undertow as ut
from tests.oracles.samples import chi_square, distance, limit
from tests.oracles.tables import chain_joint, probability, random_noise
from undertow.errors import InvalidInput, InvalidPlan, NotSupported
from undertow.mechanisms import TabulatedNoise
from undertow.sampling.answers import randomise, tabulated
from undertow.sampling.bits import Insecure, Secure

COUNT = ut.Count("a")
PLAIN = TabulatedNoise(COUNT, -1, (2**126, 2**127, 2**126), 0.25)


def tables():
    rng = np.random.default_rng(5)
    yield PLAIN
    yield TabulatedNoise(COUNT, 2, (2**127, 2**127), 0.75)  # wholly above 0
    yield TabulatedNoise(COUNT, -9, (2**127, 2**127), 0.75)  # wholly below
    for places in (2, 7, 30):
        yield random_noise(rng, COUNT, places, 0.5)


@pytest.mark.parametrize("noise", list(tables()), ids=lambda noise: f"{noise.first}-{noise.last}")
def test_moments_level_and_quantiles_equal_sums(noise):
    places = range(noise.first - 200, noise.last + 201)
    law = {z: probability(noise, z) for z in places}
    assert 1 - sum(law.values()) < Fraction(1, 10**20)
    assert noise.mean() == pytest.approx(float(sum(z * p for z, p in law.items())), abs=1e-12)
    assert noise.expected_error() == pytest.approx(float(sum(abs(z) * p for z, p in law.items())))
    square = sum(z * z * p for z, p in law.items()) - Fraction(noise.mean()) ** 2
    assert noise.variance() == pytest.approx(float(square))
    inner = list(law.values())
    steps = [abs(math.log(a) - math.log(b)) for a, b in pairwise(inner)]
    assert noise.dp_epsilon() == pytest.approx(max(steps), abs=1e-12)
    assert noise.level_upper() > noise.dp_epsilon()
    assert noise.curve().delta(noise.level_upper()) == 0
    for beta in (0.3, 0.05, 1e-4):
        alpha = noise.quantile(beta)
        beyond = [sum(p for z, p in law.items() if abs(z) > a) for a in (alpha, alpha - 1)]
        assert beyond[0] <= beta * (1 + 1e-12)
        assert alpha == 0 or beyond[1] > beta
    found = noise.law(noise.first - 20, noise.last + 20)
    exact = [float(noise.exact(z)) for z in range(noise.first - 20, noise.last + 21)]
    assert found == pytest.approx(exact, rel=1e-14)
    assert exact[30 - 20] == float(law[noise.first - 10])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((ut.Histogram(), -1, PLAIN.weights, 0.25), "is for a Count, found Histogram"),
        (("a", -1, PLAIN.weights, 0.25), "is for a Count, found str"),
        ((COUNT, -1, (2**127, 0, 2**127), 0.25), "whole numbers above 0"),
        ((COUNT, -1, (0.5, 0.5), 0.25), "whole numbers above 0"),
        ((COUNT, -1, (2**128,), 0.25), "2 to 4096 weights"),
        ((COUNT, -1.0, PLAIN.weights, 0.25), "from a whole number on"),
        ((COUNT, -(10**6), PLAIN.weights, 0.25), "begins within 4096 of 0"),
        ((COUNT, -1, (2**126, 2**126), 0.25), "add up to 2\\^128, found 0.5 of it"),
        ((COUNT, -1, PLAIN.weights, 1.0), "multiple of 2\\^-48 above 0"),
        ((COUNT, -1, PLAIN.weights, 1 - 2.0**-40), "at most 1 - 2\\^-12"),
        ((COUNT, -1, PLAIN.weights, 0.1), "multiple of 2\\^-48 above 0"),
        ((COUNT, -1, PLAIN.weights, math.nan), "multiple of 2\\^-48 above 0"),
    ],
)
def test_bad_tables_are_refused(parts, message):
    with pytest.raises(InvalidInput, match=message):
        TabulatedNoise(*parts)


def test_a_table_has_one_amount():
    assert PLAIN.amount == PLAIN.expected_error()
    assert PLAIN.length is None
    with pytest.raises(NotSupported, match="cannot be scaled"):
        PLAIN.with_amount(2.0)


# --- the sampler ----------------------------------------------------------------------------------


def off(noise, factor):
    """The same table with its outer part in another amount: the broken twin."""
    middle = noise.weights.index(max(noise.weights))
    weights = [
        weight if place == middle else int(Fraction(factor) * weight)
        for place, weight in enumerate(noise.weights)
    ]
    weights[middle] += 2**128 - sum(weights)
    return replace(noise, weights=tuple(weights))


def accepted(sample, noise):
    """Null: the law of the table. DKW at 1e-6, rigorous; chi-square at 1e-9 for the shape."""
    low, high = noise.first - 30, noise.last + 30
    law = np.array([float(probability(noise, z)) for z in range(low, high + 1)])
    sums = np.cumsum(law)
    near = distance(sample, lambda z: float(sums[min(max(z, low), high) - low]))
    counts = np.bincount(np.clip(sample, low, high) - low, minlength=len(law))
    return near <= limit(len(sample)) and chi_square(counts, law) >= 1e-9


@pytest.mark.parametrize(
    "randomness",
    [
        pytest.param(Secure(), id="secure"),
        pytest.param(Insecure(3), id="seeded", marks=pytest.mark.soak),
    ],
)
def test_the_sampler_follows_the_table(randomness):
    """60,000 draws of two tables. Noise that is wide 10% too rarely, or too often, is rejected."""
    flat = TabulatedNoise(COUNT, -2, (2**125, 2**126, 2**126, 2**126, 2**125), 0.5)
    for noise in (PLAIN, flat):
        size = 60_000
        assert accepted(tabulated(noise, size, randomness), noise)
        for factor in (0.9, 1.1):
            assert not accepted(tabulated(off(noise, factor), size, randomness), noise)
        other = replace(noise, ratio=round(1.1 * noise.ratio * 2**48) / 2**48)
        assert not accepted(tabulated(other, size, randomness), noise)


def test_each_number_of_128_bits_falls_into_its_place(monkeypatch):
    """The first and the last uniform number of every place, and two steps into a tail."""
    from tests.sampling.given import given
    from undertow.sampling import answers as module

    def drawn(number, steps=()):
        content = number.to_bytes(16, "little")
        content += b"".join(step.to_bytes(6, "little") for step in steps)
        monkeypatch.setattr(module, "system_bytes", lambda _: given(content, b"").first)
        return tabulated(PLAIN, 1)[0]

    least, most = 2**46 - 1, 2**46  # the ratio is 2^46 of 2^48: below it the walk goes on
    assert [drawn(0, [most]), drawn(2**126 - 1, [least, least, most])] == [-1, -3]
    assert [drawn(2**126), drawn(3 * 2**126 - 1)] == [0, 0]
    assert [drawn(3 * 2**126, [most]), drawn(2**128 - 1, [0, most])] == [1, 2]


def test_seeded_noise_repeats_itself_and_releases_add_it():
    assert tabulated(PLAIN, 9, Insecure(1)) == tabulated(PLAIN, 9, Insecure(1))
    assert randomise(PLAIN, [10, 20], Insecure(1)) == [
        exact + z for exact, z in zip([10, 20], tabulated(PLAIN, 2, Insecure(1)), strict=True)
    ]


# --- plans, releases, audits ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan():
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], ("a", "b"), length=6)
    return ut.calibrate(COUNT, chain, limit=1.0, method="optimal")


def edited(plan, **changes):
    from undertow.plan import checksum

    body = json.loads(plan.to_json())
    body["table"] = {**body["table"], **changes}
    return json.dumps({**body, "checksum": checksum(body)})


@pytest.mark.parametrize(
    "changes",
    [
        {"first": 1.5},
        {"first": "1"},
        {"weights": "ff"},
        {"weights": [1, 2]},
        {"weights": ["-1", "2"]},
        {"weights": ["f" * 40, "2"]},
        {"weights": ["8", "8"]},
        {"ratio": "0.5"},
        {"ratio": 1.5},
        {"more": 1},
    ],
)
def test_damaged_tables_are_refused(plan, changes):
    with pytest.raises(InvalidPlan):
        ut.Plan.from_json(edited(plan, **changes))


def test_a_false_table_is_not_released(plan):
    """A table that is a legal one, but leaks more than the plan says."""
    loud = replace(plan, mechanism=replace(PLAIN))
    with pytest.raises(InvalidPlan, match="its noise leaks up to"):
        ut.release(loud, ["a"] * 6)
    with pytest.raises(InvalidPlan, match="another kind of noise"):
        ut.release(replace(plan, mechanism=ut.DiscreteLaplace(COUNT, 9.0)), ["a"] * 6)
    laplace = ut.calibrate(COUNT, plan.model, 1.0, method="exact")
    with pytest.raises(InvalidPlan, match="another kind of noise"):
        ut.release(replace(laplace, mechanism=plan.mechanism), ["a"] * 6)


def test_releases_reports_and_ledgers(plan, tmp_path):
    ledger = ut.Ledger(tmp_path / "ledger.db", "week", model=plan.model, limit=5.0)
    made = ut.release(plan, ["a", "b"] * 3, ledger=ledger, release_id="r1")
    assert isinstance(made.value, int)
    spent = next(iter(ledger.entries())).level
    assert spent == pytest.approx(plan.mechanism.level_upper(), rel=1e-9)
    assert spent >= plan.mechanism.dp_epsilon()
    report = made.report()
    assert "tabulated" in report.text()
    assert json.loads(report.to_json())["noise"]["scale"] is None
    assert "tabulated" in report.html()


def test_posteriors_weigh_answers_by_the_table(plan):
    """Bayes' rule over all series, for an answer inside the table and one in a tail."""
    from undertow.auditing.attackers import answer_posteriors

    chain, noise = plan.model, plan.mechanism
    joint = chain_joint(chain)
    for answer in (2, 2 * noise.last):
        weight = np.zeros(2)
        for path in np.ndindex(joint.shape):
            count = sum(state == 0 for state in path)
            weight[path[3]] += joint[path] * float(noise.exact(answer - count))
        found = answer_posteriors(answer, noise, chain, targets=[3])[0, 0]
        assert found == pytest.approx(weight / weight.sum(), abs=1e-9)
