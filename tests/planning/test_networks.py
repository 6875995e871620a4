"""Noise for networks and pedigrees: every method keeps its guarantee, and the best is exact."""

from typing import Any

import pytest

from tests.oracles import networks as oracle
from undertow.adversaries import Adversary
from undertow.errors import MethodRefused, NothingToProtect
from undertow.mechanisms import DiscreteLaplace
from undertow.methods import METHODS
from undertow.models.groups import Groups
from undertow.models.networks import BayesianNetwork
from undertow.models.pedigrees import Pedigree
from undertow.planning import networks
from undertow.planning.calibrate import prove, solve
from undertow.planning.questions import Question
from undertow.queries import Count, Histogram, Sum
from undertow.secrets import ONE_RECORD, Records

WHOM: list[Any] = ["any", "ignorant", "informed", Adversary(0)]
COIN = [0.5, 0.5]
KERNEL = [[0.8, 0.2], [0.3, 0.7]]
TREE = BayesianNetwork(
    [(0, 1), (0, 2), (2, 3)], {n: KERNEL if n else COIN for n in range(4)}, states=("well", "ill")
)


def ask(query, model, epsilon=1.0, against="any", secret=None):
    return Question(query, model, epsilon, against, secret or ONE_RECORD)


def solved(method, question):
    mechanism = solve(METHODS["answer"][method], question).mechanism
    leak = prove(METHODS["answer"][method], question, mechanism)
    assert leak.proves(question.limit)
    return mechanism, leak


@pytest.mark.parametrize("against", WHOM)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_exact_noise_is_the_least(against, epsilon):
    """What it guarantees is true, and hardly less noise would break it."""
    joint = oracle.joint_of(TREE)
    mechanism, leak = solved("exact", ask(Count("ill"), TREE, epsilon, against))
    assert isinstance(mechanism, DiscreteLaplace)
    assert leak.method == "exact"
    assert oracle.count_leakage(joint, [1], 1 / mechanism.scale, against) <= epsilon + 1e-9
    less = 1.001 / mechanism.scale
    assert oracle.count_leakage(joint, [1], less, against) > epsilon


def test_exact_needs_no_more_noise_than_the_others():
    scales = {}
    for method in ("exact", "exchange", "quilt", "wasserstein"):
        mechanism, _ = solved(method, ask(Count("ill"), TREE, 1.0, "ignorant"))
        scales[method] = mechanism.scale
    # a count attains what any algorithm of its level leaks on a two-state tree
    assert scales["exact"] == pytest.approx(min(scales.values()), rel=1e-9)
    assert scales["wasserstein"] == pytest.approx(
        max(1, round(scales["wasserstein"]))
    )  # a whole number over epsilon = 1


def test_secrets_lower_the_noise_of_quilts_and_distances():
    twins = BayesianNetwork([("a", "b")], {"a": COIN, "b": [[1, 0], [0, 1]], "c": COIN})
    whole, _ = solved("wasserstein", ask(Count(1), twins, against="ignorant"))
    some, leak = solved(
        "wasserstein", ask(Count(1), twins, against="ignorant", secret=Records([2]))
    )
    assert (whole.scale, some.scale) == (2.0, 1.0)
    assert leak.secret == Records([2])
    loud = Pedigree({"kim": ("bob", "ann")}, people=["kim", "bob", "ann", "zoe"])
    far, _ = solved("wasserstein", ask(Count("BB"), loud, against="ignorant", secret=Records([3])))
    near, _ = solved("quilt", ask(Count("BB"), loud, secret=Records([3])))
    assert far.scale == pytest.approx(1.0)
    assert near.scale == pytest.approx(1.0)


def test_refusals():
    with pytest.raises(MethodRefused, match="not Sum"):
        networks.solve_exact(ask(Sum(0, 1), TREE))
    with pytest.raises(MethodRefused, match="not Histogram"):
        networks.WASSERSTEIN.solve(ask(Histogram(), TREE, against="ignorant"))
    with pytest.raises(MethodRefused, match="'exact' has nothing to say"):
        solve(METHODS["answer"]["exact"], ask(Count("ill"), Groups(3)))
    big = Pedigree({f"c{n}": (f"c{n - 1}", f"s{n}") if n else ("f", "m") for n in range(9)})
    with pytest.raises(MethodRefused, match="'exact' does not apply: the general bound"):
        networks.solve_exact(ask(Count("BB"), big))
    certain = BayesianNetwork([], {"a": [1.0, 0.0]})
    for method in ("exact", "exchange", "quilt", "wasserstein"):
        with pytest.raises(NothingToProtect):
            solve(METHODS["answer"][method], ask(Count(0), certain, against="ignorant"))
