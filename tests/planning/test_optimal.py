"""The least noise of any shape: reference values, one large program, never worse than Laplace."""

from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.facts import ACTIVITY, FACTS, half_unit
from tests.oracles.tables import chain_joint, enumerated, least_error
from undertow.bounds.counts.tables import pair_sources
from undertow.errors import InvalidInput
from undertow.planning.coverage import check_proof
from undertow.planning.tables import least_table

CHAIN = ut.MarkovChain(ACTIVITY["transition"])
CASES = {float(limit): values for limit, values in FACTS["optimal_noise"].items()}


def planned(model, limit, against="any", query=None):
    return ut.calibrate(query or ut.Count(1), model, limit, against, method="optimal")


@pytest.mark.parametrize("limit", CASES)
def test_reference_values(limit):
    """Four digits of the optimum, of the symmetric optimum, and of discrete Laplace noise."""
    printed = CASES[limit]
    plan = planned(CHAIN, limit)
    assert plan.expected_error == pytest.approx(
        float(printed["best"]), abs=1.01 * half_unit(printed["best"])
    )
    assert plan.leakage.proves(limit)
    assert plan.leakage.lower > limit - 1e-9
    pairs = pair_sources(ut.Count(1), CHAIN, "any", limit)[0].pairs
    table = least_table(pairs, limit, symmetric=True)
    assert np.allclose(table.law, table.law[::-1], rtol=1e-9)
    assert table.lower == pytest.approx(
        float(printed["best_symmetric"]), abs=1.01 * half_unit(printed["best_symmetric"])
    )
    laplace = ut.calibrate(ut.Count(1), CHAIN, limit, method="exact").expected_error
    assert laplace == pytest.approx(
        float(printed["discrete_laplace"]), abs=1.01 * half_unit(printed["discrete_laplace"])
    )


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize(
    ("rows", "length", "limit"),
    [
        (ACTIVITY["transition"], 4, 1.0),
        ([[0.3, 0.7], [0.6, 0.4]], 3, 2.0),
        ([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]], 3, 1.5),
    ],
)
def test_the_optimum_of_one_large_program(rows, length, limit, against):
    """All constraints of all adversaries at once, enumerated from the definition: four digits,
    and the rounded table keeps the limit by enumeration, tails included."""
    chain = ut.MarkovChain(rows, length=length)
    plan = planned(chain, limit, against)
    noise, joint = plan.mechanism, chain_joint(chain)
    whole = least_error(joint, {1}, limit, against, noise.last, noise.ratio)
    assert plan.expected_error == pytest.approx(whole, rel=2e-5)
    assert enumerated(noise, joint, {1}, against, beyond=12) <= limit
    laplace = ut.calibrate(ut.Count(1), chain, limit, against, method="exact")
    assert plan.expected_error <= laplace.expected_error * (1 + 1e-6)


def test_squares_are_an_objective_too():
    pairs = pair_sources(ut.Count(1), ut.MarkovChain(ACTIVITY["transition"], length=5), "any", 4.0)[
        0
    ]
    one, two = (least_table(pairs.pairs, 4.0, loss=loss) for loss in ("absolute", "squared"))
    places = np.arange(one.first, -one.first + 1)
    assert (two.law * places**2).sum() < (one.law * places**2).sum()
    assert (two.law * abs(places)).sum() > (one.law * abs(places)).sum()


def test_objectives_are_asked_for():
    chain = ut.MarkovChain(ACTIVITY["transition"], length=5)
    one = ut.calibrate(ut.Count(1), chain, 4.0, method="optimal", objective="absolute")
    two = ut.calibrate(ut.Count(1), chain, 4.0, method="optimal", objective="squared")
    assert one.expected_error < two.expected_error
    square = [plan.noise.variance() + plan.noise.mean() ** 2 for plan in (one, two)]
    assert square[1] < 0.9 * square[0]
    assert two.leakage.proves(4.0)
    for method in ("best", "exact"):
        with pytest.raises(InvalidInput, match="is for method='optimal'"):
            ut.calibrate(ut.Count(1), chain, 4.0, method=method, objective="squared")
    with pytest.raises(InvalidInput, match="leave it out here"):
        ut.calibrate(ut.Count(1), chain, 4.0, method="optimal", objective="flips")


@pytest.mark.parametrize("seed", range(6))
def test_random_chains(seed):
    """By enumeration: the limit is kept, and no discrete Laplace noise that keeps it errs less."""
    rng = np.random.default_rng(seed)
    states, length = [(2, 5), (3, 4), (2, 3)][seed % 3]
    rows = rng.random((states, states)) + 0.05
    chain = ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), length=length)
    limit = float(rng.uniform(0.3, 5.0))
    against: Any = ("any", "ignorant")[seed % 2]
    plan = planned(chain, limit, against)
    assert enumerated(plan.mechanism, chain_joint(chain), {1}, against) <= limit
    laplace = ut.calibrate(ut.Count(1), chain, limit, against, method="exact")
    assert plan.expected_error <= laplace.expected_error * (1 + 1e-5)


def test_independent_records_need_discrete_laplace_noise():
    """Without dependence the optimum is the geometric law [ghosh2009]: 1 / sinh(1)."""
    plan = planned(ut.MarkovChain([[0.4, 0.6], [0.4, 0.6]], length=3), 1.0)
    assert plan.expected_error == pytest.approx(1 / np.sinh(1.0), rel=1e-5)


def test_families_and_sets_of_models():
    family = ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=0.5)
    plan = planned(family, 1.0, query=ut.Count("BB"))
    laplace = ut.calibrate(ut.Count("BB"), family, 1.0, method="exact")
    assert plan.expected_error < 0.97 * laplace.expected_error
    several = ut.ModelSet([ut.MarkovChain([[1 - q, q], [0.3, 0.7]], length=4) for q in (0.1, 0.2)])
    both = planned(several, 1.0)
    alone = [planned(member, 1.0).expected_error for member in several.members()]
    assert both.expected_error >= max(alone) - 1e-6
    assert both.leakage.proves(1.0)


def test_a_plan_is_proved_again_and_survives_its_file():
    plan = planned(ut.MarkovChain(ACTIVITY["transition"], length=4), 1.0)
    again = ut.Plan.from_json(plan.to_json())
    assert again == plan
    assert check_proof(again).upper == plan.leakage.upper
    assert plan.leakage.valid_for == "series"
    assert "tabulated" in str(plan)
    assert 0 < plan.dp_epsilon <= 1.0  # whoever knows all other records is an adversary too


def test_best_leaves_it_out_and_never_errs_less():
    best = ut.calibrate(ut.Count(1), CHAIN, 1.0)
    assert best.method != "optimal"
