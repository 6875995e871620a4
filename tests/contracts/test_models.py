"""What every model must do, through the public names only: one suite, one list of models.

`model_cases` holds the models with their oracles, which share no code with the package. Adding a
model to the package means adding a case there.
"""

import itertools
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.model_cases import CASES, Case, network_case
from tests.grids import each, law
from tests.oracles import models as model_oracles
from tests.oracles.networks import networks
from undertow.bounds.memory.missing import COMPLETE
from undertow.certificate import Leakage
from undertow.errors import MethodRefused, NothingToProtect, NotSupported
from undertow.methods import METHODS, methods_for
from undertow.models import GaussianClass
from undertow.models.sets import model_from_dict

ROUNDING = 1e-12  # of the oracles, relative beyond 1
SEARCH = 1e-6  # relative, of a search over allele frequencies
SAME = 1e-9  # two computations of one number
LEVEL = 0.7
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=15)

COUNTS = {name: case for name, case in CASES.items() if case.noise is ut.DiscreteLaplace}
LISTED = [pytest.param(case, id=name) for name, case in CASES.items()]
KINDS = LISTED
# laws that hold for a model whatever its theory: without those that take the longest
QUICK = [case for case in LISTED if case.id not in ("unsure frequency", "half siblings")]
WHOM = ("any", "ignorant", "informed")
every = pytest.mark.parametrize("case", LISTED)
of_every_kind = pytest.mark.parametrize("case", KINDS)
of_most_kinds = pytest.mark.parametrize("case", QUICK)


def slack(value: float) -> float:
    return ROUNDING * max(1.0, value)


def held(leak: Leakage, bracket: tuple[float, float]) -> None:
    """The interval contains the truth, which lies in the oracle's bracket."""
    attained, most = bracket
    assert leak.lower <= leak.upper
    assert leak.upper >= attained - slack(attained)
    assert leak.lower <= most + slack(most)


# --- the truth ------------------------------------------------------------------------------------


@every
def test_the_interval_holds_the_truth(case: Case) -> None:
    for against in case.adversaries():
        leak = ut.leakage(case.mechanism(), case.model, against)
        held(leak, case.oracle(case.mechanism(), against))
        assert leak.against == against
        assert leak.assumptions
        assert leak.citation


@of_every_kind
def test_all_algorithms_of_a_level(case: Case) -> None:
    for against in case.adversaries():
        leak = ut.leakage(ut.PureDP(LEVEL), case.model, against)
        held(leak, case.level(LEVEL, against))
        assert leak.method in {*case.bounds, "informed"}
        assert leak.upper >= LEVEL * (1 - SAME) or leak.upper == 0


@pytest.mark.parametrize("case", COUNTS.values(), ids=COUNTS)
def test_a_level_holds_for_its_mechanism(case: Case) -> None:
    """No count leaks more than the bound of its DP level."""
    level = ut.PureDP(case.query.sensitivity() / case.scale)
    for against in ("any", "ignorant", "informed"):
        truth = ut.leakage(case.mechanism(), case.model, against)
        assert truth.lower <= ut.leakage(level, case.model, against).upper + SAME


# --- laws -----------------------------------------------------------------------------------------


@of_most_kinds
def test_nobody_learns_more_than_the_worst(case: Case) -> None:
    for mechanism in (case.mechanism(), ut.PureDP(LEVEL)):
        worst = ut.leakage(mechanism, case.model)
        for against in case.adversaries()[1:5]:
            leak = ut.leakage(mechanism, case.model, against)
            assert leak.lower <= worst.upper + slack(worst.upper)
            if leak.closed and worst.closed:
                assert leak.upper <= worst.upper + SAME * max(1.0, worst.upper)


@of_most_kinds
@pytest.mark.parametrize("noise", [(0.3, 1.0, 10.0)])
def test_more_noise_never_leaks_more(case: Case, noise: tuple[float, ...]) -> None:
    for against in ("any", "ignorant"):
        leaks = [ut.leakage(case.mechanism(case.scale * s), case.model, against)
                 for s in noise]  # fmt: skip
        for less, more in itertools.pairwise(leaks):
            assert more.upper <= less.upper * (1 + 1e-5)
            assert more.lower <= less.upper
    levels = [ut.leakage(ut.PureDP(e), case.model).upper for e in (0.1, 0.5, 1.0, 2.0)]
    assert levels == sorted(levels)


@of_most_kinds
@pytest.mark.parametrize("first", [-1])
def test_twins_agree(case: Case, first: int) -> None:
    for twin in case.twins:
        for against in ("any", *case.adversaries()[first:]):
            mechanism = case.noise(twin.query, case.scale * twin.stretch)
            same(ut.leakage(case.mechanism(), case.model, against),
                 ut.leakage(mechanism, twin.model, twin.against(against)))  # fmt: skip
            same(ut.leakage(ut.PureDP(LEVEL), case.model, against),
                 ut.leakage(ut.PureDP(LEVEL), twin.model, twin.against(against)))  # fmt: skip
        plan = ut.calibrate(case.query, case.model, 1.0)
        other = ut.calibrate(twin.query, twin.model, 1.0)
        assert other.mechanism.scale == pytest.approx(twin.stretch * plan.mechanism.scale, rel=1e-5)


def same(one: Leakage, two: Leakage) -> None:
    """Equal up to rounding; searches over frequencies and programs stop within 1e-5."""
    assert two.upper == pytest.approx(one.upper, rel=1e-5, abs=1e-9)
    assert one.lower <= two.upper + SAME
    assert two.lower <= one.upper + SAME


@of_every_kind
def test_models_survive_their_description(case: Case) -> None:
    again = model_from_dict(json.loads(json.dumps(case.model.to_dict())))
    assert again == case.model
    assert hash(again) == hash(case.model)
    assert again.describe() == case.model.describe()
    for mechanism in (case.mechanism(), ut.PureDP(LEVEL)):
        assert ut.leakage(mechanism, again) == ut.leakage(mechanism, case.model)


@of_most_kinds
def test_a_set_of_one_is_that_one(case: Case) -> None:
    for against in ("any", "informed"):
        for mechanism in (case.mechanism(), ut.PureDP(LEVEL), *case.others):
            try:
                alone = ut.leakage(mechanism, case.model, against)
            except NotSupported:
                with pytest.raises(NotSupported):
                    ut.leakage(mechanism, ut.ModelSet([case.model]), against)
                continue
            inside = ut.leakage(mechanism, ut.ModelSet([case.model, case.model]), against)
            assert (inside.lower, inside.upper, inside.method, inside.witness) == (
                alone.lower, alone.upper, alone.method, alone.witness
            )  # fmt: skip
            assert inside.assumptions.count(COMPLETE) <= 1  # though each of a set needs it


INDEPENDENT: dict[str, Any] = {
    "chain": ut.MarkovChain([[0.3, 0.7], [0.3, 0.7]], length=3),
    "network": ut.BayesianNetwork([], {"a": [0.3, 0.7], "b": [0.9, 0.1], "c": [1e-9, 1 - 1e-9]}),
    "edges that do not matter": ut.BayesianNetwork(
        [(0, 2), (1, 2)], {0: [0.3, 0.7], 1: [0.2, 0.8], 2: np.full((2, 2, 2), 0.5)}
    ),
    "strangers": ut.Pedigree({}, 0.3, people=["ann", "bob", "cy"]),
    "groups of one": ut.Groups(1),
    "gaussian": ut.MultivariateGaussian(0, np.diag([1.0, 4.0, 9.0])),
    "bounded": ut.MultivariateGaussian.bounded(3, 0.0),
}


@pytest.mark.parametrize("model", INDEPENDENT.values(), ids=INDEPENDENT)
def test_independent_records_leak_the_dp_loss(model: Any) -> None:
    gaussian = isinstance(model, ut.MultivariateGaussian | GaussianClass)
    state = "BB" if isinstance(model, ut.Pedigree) else 1
    query: Any = ut.Linear([1.0] * 3, 2.0) if gaussian else ut.Count(state)
    noise = ut.Laplace(query, 4.0)
    for against in ("any", "ignorant", "informed", ut.Adversary(0, [1])):
        leak = ut.leakage(noise, model, against)
        assert leak.upper == pytest.approx((2.0 if gaussian else 1.0) / 4.0, rel=1e-9)
        assert ut.leakage(ut.PureDP(LEVEL), model, against).upper == pytest.approx(LEVEL, rel=1e-9)
    assert ut.dp_budget(model, 0.5) == pytest.approx(0.5, rel=1e-9)
    assert ut.calibrate(query, model, 0.5).mechanism.scale == pytest.approx(
        4.0 if gaussian else 2.0, rel=1e-6
    )


# --- methods --------------------------------------------------------------------------------------


@each(("case", "who"), KINDS, [*WHOM, "last"])
def test_every_method_keeps_its_guarantee_or_refuses(case: Case, who: str) -> None:
    """Whoever attacks; ``last`` knows nothing and is after the last record."""
    limits: dict[Any, float] = {"any": 0.5, "ignorant": 3.0}
    whom: Any = ut.Adversary(case.records - 1) if who == "last" else who
    for against, epsilon in [(whom, limits.get(who, 1.0))]:
        plans = {}
        for method in methods_for(case.model):
            try:
                plan = ut.calibrate(case.query, case.model, epsilon, against, method=method)
            except MethodRefused:
                continue
            except NothingToProtect:
                certain(case, against)
                continue
            assert (plan.method, plan.limit, plan.against) == (method, epsilon, against)
            attained, most = case.oracle(plan.mechanism, against)
            assert plan.leakage.upper >= attained - slack(attained)
            if not any("worst algorithm" in note for note in plan.leakage.assumptions):
                assert plan.leakage.lower <= most + slack(most)
            if METHODS["answer"][method].certified:
                assert plan.leakage.proves(epsilon)
                assert attained <= epsilon + slack(epsilon)
                plans[method] = plan
        least = plans.pop("optimal", None)
        if least is not None and "exact" in plans:
            assert least.expected_error <= plans["exact"].expected_error * (1 + 1e-5)
        for missing in ("any", "none"):
            try:
                best = ut.calibrate(case.query, case.model, epsilon, against, missing=missing)
            except NothingToProtect:
                certain(case, against)
                continue
            assert best.expected_error <= least_of(plans.values(), missing) * (1 + SEARCH)
            assert best.leakage.proves(epsilon)


def least_of(plans: Iterable[Any], missing: str) -> float:
    """Return the least error of plans that say this of missing records, or hold for any pattern."""
    return min(plan.expected_error for plan in plans if missing in (plan.missing, "none"))


def certain(case: Case, against: Any) -> None:
    """Nothing leaks, however little the noise."""
    assert case.oracle(case.mechanism(0.01), against)[0] <= SAME


@of_most_kinds
def test_plans_survive_json(case: Case) -> None:
    plan = ut.calibrate(case.query, case.model, 1.0)
    again = ut.Plan.from_json(plan.to_json())
    assert again == plan
    assert again.to_json() == plan.to_json()
    assert ut.leakage(again.mechanism, again.model) == ut.leakage(plan.mechanism, plan.model)
    assert again.accuracy(0.05) == plan.accuracy(0.05)


@of_most_kinds
def test_the_table_of_methods(case: Case) -> None:
    for missing in (None, "none"):
        table = ut.compare(case.query, case.model, 1.0, missing=missing)
        assert [row.method for row in table] == methods_for(case.model)
        for row in table:
            assert (row.plan is None) == (row.reason is not None)
            if row.plan is not None and row.leakage is not None:
                held(row.leakage, case.oracle(row.plan.mechanism, "any"))
        plans = [
            row.plan
            for row in table
            if row.plan
            and row.certified
            and row.meets
            and METHODS["answer"][row.method].best == "always"
        ]
        assert table.best is not None
        least = least_of(plans, missing or "any")
        assert table.best.expected_error == pytest.approx(least, rel=1e-8)
        assert str(table)
        json.dumps(table.to_dict())


@each(("case", ("against", "epsilon")), QUICK, zip(WHOM, (0.3, 2.0, 1.0), strict=True))
def test_the_budget_is_the_inverse(case: Case, against: Any, epsilon: float) -> None:
    level = ut.dp_budget(case.model, epsilon, against)
    if math.isinf(level):
        assert case.level(5.0, against)[1] <= 1e-6
        return
    assert ut.leakage(ut.PureDP(level), case.model, against).proves(epsilon)
    assert not ut.leakage(ut.PureDP(level * (1 + SEARCH)), case.model, against).proves(epsilon)
    attained, _ = case.level(level, against)
    assert attained <= epsilon + slack(epsilon)


@every
def test_people_may_be_protected_as_a_whole(case: Case) -> None:
    """A plan for persons has noise for all records of the model at once."""
    try:
        plan = ut.calibrate(case.query, case.model, 1.0, secret=ut.Person())
    except MethodRefused as refusal:
        relatives = "relatives and housemates are not" in str(refusal)
        assert relatives or case.noise is ut.Laplace  # unclipped records
        return
    assert plan.leakage.proves(1.0)
    assert case.oracle(plan.mechanism, "any")[0] <= 1 + ROUNDING


# --- random networks, with zeros and rare values --------------------------------------------------


@law(LAWS, 3, network=networks(most=3, latent=True), epsilon=st.floats(0.05, 6))
def test_plans_on_networks_of_every_kind(network: ut.BayesianNetwork, epsilon: float) -> None:
    case = network_case(network, ut.Count(network.states[0]))
    for method in [*methods_for(network), "best"]:
        try:
            plan = ut.calibrate(case.query, network, epsilon, "ignorant", method=method)
        except MethodRefused:
            assert method != "best"
            continue
        except NothingToProtect:
            truth = model_oracles.truth(network, ut.Laplace(case.query, 0.01), "ignorant")
            assert truth <= SAME
            continue
        truth = model_oracles.truth(network, plan.mechanism, "ignorant")
        assert truth <= epsilon + slack(epsilon)
