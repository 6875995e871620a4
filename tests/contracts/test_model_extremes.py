"""The ends of what models may say: rare and impossible values, certain records, huge and tiny
levels, nearly singular covariances, and input that is no model at all.

A message about bad input names the row, entry, node or person of the model, and quotes no genotype
and no number of the data.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.grids import each, pairwise
from tests.oracles import gaussian as gaussian_oracles
from tests.oracles import models as model_oracles
from tests.oracles.enumeration import law_leakage
from undertow.errors import (
    DisclosureWarning,
    InvalidInput,
    InvalidModel,
    MethodRefused,
    NothingToProtect,
    UndertowError,
)
from undertow.methods import methods_for
from undertow.models.sets import model_from_dict

AND = [[[1, 0], [1, 0]], [[1, 0], [0, 1]]]
WHO: list[Any] = ["any", "ignorant", "informed", ut.Adversary(2), ut.Adversary(0, [1])]
COUNT = ut.Laplace(ut.Count(1), 1.0)


def rare_and(q: float) -> ut.BayesianNetwork:
    """c happens only if both rare causes do: then it tells of both, and leaks 3 epsilon."""
    return ut.BayesianNetwork(
        [("a", "c"), ("b", "c")], {"a": [1 - q, q], "b": [1 - q, q], "c": AND}
    )


def rare_path(q: float) -> ut.BayesianNetwork:
    return ut.BayesianNetwork(
        [(0, 1), (1, 2)], {0: [1 - q, q], 1: [[1 - q, q], [0.5, 0.5]], 2: [[1 - q, q], [q, 1 - q]]}
    )


def rare_chain(q: float) -> ut.MarkovChain:
    return ut.MarkovChain([[[1 - q, q], [0.5, 0.5]], [[1 - q, q], [q, 1 - q]]], start=[1 - q, q])


def judged(model: Any, against: Any) -> None:
    """Counts and levels on a model of two states, against enumeration in exact fractions."""
    for mechanism in (COUNT, ut.Laplace(ut.Count(0), 0.05)):
        leak = ut.leakage(mechanism, model, against)
        truth = model_oracles.truth(model, mechanism, against)
        assert leak.lower - 1e-9 <= truth <= leak.upper + 1e-11 * max(1.0, truth)
    leak = ut.leakage(ut.PureDP(1.0), model, against)
    table = model_oracles.table_of(model)
    truth = model_oracles.product_leakage(table, 2, 1.0, against)
    assert truth <= leak.upper + 1e-11
    assert leak.lower <= model.length + 1e-11


# --- rare values ----------------------------------------------------------------------------------


@pairwise(
    ("model", "q", "against"),
    [rare_and, rare_path, rare_chain], [1e-3, 1e-15, 1e-49, 1e-100], WHO,
)  # fmt: skip
def test_rare_values(model: Callable[[float], Any], q: float, against: Any) -> None:
    if model is rare_chain:  # two rare steps in a row: the joint probability is refused below
        q = max(q, 1e-49)
    judged(model(q), against)


@pytest.mark.parametrize("q", [1e-110, 1e-170, 1e-300, 5e-324])
@pytest.mark.parametrize("model", [rare_and, rare_path, rare_chain])
def test_models_refuse_what_is_that_rare(model: Callable[[float], Any], q: float) -> None:
    with pytest.raises(InvalidModel, match="write 0 for what is impossible"):
        model(q)


@pytest.mark.parametrize("q", [1e-15, 1e-100])
def test_plans_for_rare_values(q: float) -> None:
    network = rare_and(q)
    for method in [*methods_for(network), "best"]:
        try:
            plan = ut.calibrate(ut.Count(1), network, 1.0, "ignorant", method=method)
        except MethodRefused:
            continue
        assert model_oracles.truth(network, plan.mechanism, "ignorant") <= 1 + 1e-11
    level = ut.dp_budget(network, 1.0)
    table = model_oracles.table_of(network)
    assert model_oracles.product_leakage(table, 2, level, "any") <= 1 + 1e-9


@pytest.mark.parametrize("p", [1e-9, 1e-40, 1 - 2**-53])
def test_rare_alleles(p: float) -> None:
    """A homozygote of a rare allele tells about both parents."""
    trio = ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=p)
    table = model_oracles.table_of(trio)
    for against in ("any", "ignorant", ut.Adversary(0)):
        for state in ("BB", "bb"):
            mechanism = ut.Laplace(ut.Count(state), 1.0)
            truth = model_oracles.truth(trio, mechanism, against)
            leak = ut.leakage(mechanism, trio, against)
            assert leak.lower - 1e-9 <= truth <= leak.upper + 1e-11
            score = model_oracles.noisy(
                model_oracles.counted([("BB", "Bb", "bb").index(state)]), 3, 1.0
            )
            level = ut.leakage(ut.PureDP(1.0), trio, against)
            assert law_leakage(table, score, against) <= level.upper + 1e-11


def test_dependence_too_weak_for_floats() -> None:
    """Both values of the target are not counted; what they say of the next record is 1e-30."""
    q = 1e-30
    network = ut.BayesianNetwork(
        [(0, 1)], {0: [0.5, 0.5, 0], 1: [[1 - q, 0, q], [1 - 3 * q, 0, 3 * q], [1, 0, 0]]}
    )
    leak = ut.leakage(ut.Laplace(ut.Count(2), 1.0), network, ut.Adversary(0))
    assert leak.upper > 0
    plan = ut.calibrate(ut.Count(2), network, 0.5, ut.Adversary(0))
    assert model_oracles.truth(network, plan.mechanism, ut.Adversary(0)) <= 0.5 + 1e-11


# --- certain records and questions without an answer ----------------------------------------------

CERTAIN: dict[str, Any] = {
    "chain": ut.MarkovChain([[0, 1], [1, 0]], start=[1, 0], length=3),
    "tree": ut.BayesianNetwork([(0, 1)], {0: [0, 1], 1: [[1, 0], [0, 1]]}),
    "collider": ut.BayesianNetwork([(0, 2), (1, 2)], {0: [0, 1], 1: [1, 0], 2: AND}),
}


@each(
    ("epsilon", "model"),
    [0.1, 1.0, 8.0, 50.0], [pytest.param(model, id=name) for name, model in CERTAIN.items()],
)  # fmt: skip
def test_certain_records_leak_nothing(model: Any, epsilon: float) -> None:
    for against in ("any", "ignorant", "informed"):
        assert ut.leakage(ut.PureDP(epsilon), model, against).upper <= 1e-300
        assert ut.leakage(COUNT, model, against).upper <= 1e-300
        assert ut.dp_budget(model, epsilon, against) == math.inf
        for method in ("best", "exact", "exchange"):
            with pytest.raises(NothingToProtect):
                ut.calibrate(ut.Count(1), model, epsilon, against, method=method)


def test_an_answer_that_does_not_depend_on_the_records() -> None:
    everyone = ut.Count(["BB", "Bb", "bb"])
    trio = ut.Pedigree({"kim": ("bob", "ann")})
    pair = ut.BayesianNetwork([(0, 1)], {0: [0.5, 0.5], 1: [[0.9, 0.1], [0.3, 0.7]]})
    for against in ("any", "ignorant", "informed"):
        assert ut.leakage(ut.Laplace(everyone, 1.0), trio, against).lower == 0
        assert ut.leakage(ut.Laplace(ut.Count([0, 1]), 1.0), pair, against).lower == 0


# --- huge and tiny levels -------------------------------------------------------------------------

P3 = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
LEVELS: dict[str, Any] = {
    "chain": ut.MarkovChain(P3, length=2),
    "tree, two states": ut.BayesianNetwork([(0, 1)], {0: [0.3, 0.7], 1: [[0.9, 0.1], [0.2, 0.8]]}),
    "tree, three states": ut.BayesianNetwork([(0, 1)], {0: [0.2, 0.3, 0.5], 1: P3}),
    "collider": rare_and(0.3),
    "trio": ut.Pedigree({"kim": ("bob", "ann")}),
    "gaussian": ut.MultivariateGaussian(0, [[1, 0.5], [0.5, 1]]),
    "groups": ut.Groups(2),
}


@each(
    ("model", "level"),
    [pytest.param(model, id=name) for name, model in LEVELS.items()],
    [1e-300, 1e-17, 1e-9, 100.0, 720.0, 1e5],
    few=21,
)
def test_levels_of_any_size(model: Any, level: float) -> None:
    many = getattr(model, "length", None) or model.size
    leak = ut.leakage(ut.PureDP(level), model)
    assert level * (1 - 1e-9) <= leak.upper <= many * level * (1 + 1e-9)
    assert leak.lower <= leak.upper


@each(
    ("name", "level"),
    ["tree, three states", "collider", "trio", "chain"], [1e-30, 1e-17, 1e-14, 1e-9, 200.0],
)  # fmt: skip
def test_noise_of_any_size(name: str, level: float) -> None:
    """A record that is counted alone moves the answer by one: at least the level leaks."""
    model = LEVELS[name]
    query = ut.Count(model.states[0])
    leak = ut.leakage(ut.Laplace(query, 1 / level), model)
    assert leak.upper >= level * (1 - 1e-9)
    assert leak.lower <= 3 * level * (1 + 1e-9)
    plan = ut.calibrate(query, model, level)
    assert plan.mechanism.scale * level >= 1 - 1e-9


def test_budgets_grow_with_the_guarantee() -> None:
    """Leakage grows with the level, so budgets grow with what is guaranteed."""
    network = ut.BayesianNetwork(
        [(0, 1), (2, 1)],
        {0: [1, 1e-40], 2: [0.5, 0.5], 1: [[[1 - 1e-9, 1e-9]] * 2, [[1, 1e-40]] * 2]},
        latent=[2],
    )
    uppers = [ut.leakage(ut.PureDP(level), network).upper for level in (12, 13, 14, 16, 18)]
    assert uppers == sorted(uppers)


# --- nearly singular covariances ------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("size", [2, 4, 5])
def test_nearly_singular_covariances(size: int, gap: float) -> None:
    matrix = np.full((size, size), 1 - gap)
    np.fill_diagonal(matrix, 1.0)
    model = ut.MultivariateGaussian(0, matrix)
    for against in ("any", "ignorant", ut.Adversary(0, range(1, size - 1))):
        linear = ut.leakage(ut.Laplace(ut.Linear(np.ones(size), 1.0), 1.0), model, against)
        exact, _ = gaussian_oracles.linear_factor(matrix, np.ones((1, size)), against)
        assert linear.lower <= float(exact) * (1 + 1e-15)
        assert linear.upper >= float(exact) * (1 - 1e-15)
        clipped = ut.leakage(ut.Laplace(ut.Sum(-1, 9), 10.0), model, against)
        most, _ = gaussian_oracles.apart_factor(matrix, np.ones(size), against, clipped=True)
        assert clipped.lower <= float(most) * (1 + 1e-9)


# --- bad input ------------------------------------------------------------------------------------

PED = "f kim bob ann 1 0 A C\nf bob 0 0 1 0 G G\nf ann 0 0 2 0 T T\n"


def pedfile(folder: Path, text: str) -> Path:
    path = folder / "family.ped"
    path.write_text(text, encoding="utf-8")
    return path


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "not symmetric": (
        lambda: ut.MultivariateGaussian(0, [[1, 0.5, 0], [0.2, 1, 0], [0, 0, 1]]), r"\(0, 1\)"),
    "not square": (lambda: ut.MultivariateGaussian(0, [[1, 0.5]]), "square"),
    "not finite": (lambda: ut.MultivariateGaussian(0, [[1, math.nan], [0, 1]]), r"\(0, 1\)"),
    "not definite": (
        lambda: ut.MultivariateGaussian(0, [[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]),
        "not positive definite"),
    "singular": (lambda: ut.MultivariateGaussian(0, [[1, 1], [1, 1]]), "records 0 and 1"),
    "correlation above one": (
        lambda: ut.MultivariateGaussian(0, [[1, 0, 0], [0, 1, 1.5], [0, 1.5, 1]]), r"\(1, 2\)"),
    "no variance": (lambda: ut.MultivariateGaussian(0, [[1, 0], [0, 0]]), "record 1"),
    "bound above one": (lambda: ut.MultivariateGaussian.bounded(3, 1.2), "rho"),
    "sd of nothing": (lambda: ut.MultivariateGaussian.bounded(2, 0.1, sds=[1, 0]), "record 1"),
    "own ancestor": (
        lambda: ut.Pedigree({"kim": ("bob", None), "bob": ("kim", None)}), "'(kim|bob)'"),
    "own parent": (lambda: ut.Pedigree({"kim": ("kim", "ann")}), "'kim'"),
    "three parents": (lambda: ut.Pedigree({"kim": ("bob", "ann", "eve")}), "'kim' has 3 parents"),
    "one parent named": (lambda: ut.Pedigree({"kim": ("bob",)}), "'kim' has 1 parents"),
    "parents of the wrong sex": (
        lambda: ut.Pedigree({"kim": ("bob", "ann")}, sexes={"bob": "female"}), "'bob'"),
    "father and mother": (
        lambda: ut.Pedigree({"kim": ("bob", "ann"), "lee": ("ann", "bob")}), "'(ann|bob)'"),
    "frequency of one": (lambda: ut.Pedigree({"kim": ("bob", "ann")}, 1.0), "allele_frequency"),
    "frequencies in a wrong order": (
        lambda: ut.Pedigree({"kim": ("bob", "ann")}, (0.9, 0.1)), "allele_frequency"),
    "row not summing to one": (
        lambda: ut.BayesianNetwork([("a", "b")], {"a": [0.5, 0.5], "b": [[1, 0], [0.5, 0.4]]}),
        "node 'b'.*0.9"),
    "negative chance": (lambda: ut.BayesianNetwork([], {"a": [1.5, -0.5]}), "'a'"),
    "a cycle": (
        lambda: ut.BayesianNetwork([("a", "b"), ("b", "a")], {"a": [[1, 0], [0, 1]],
                                                              "b": [[1, 0], [0, 1]]}), "'(a|b)'"),
    "no table": (lambda: ut.BayesianNetwork([("a", "b")], {"a": [0.5, 0.5]}), "'b'"),
    "table of a wrong shape": (
        lambda: ut.BayesianNetwork([("a", "b")], {"a": [0.5, 0.5], "b": [0.5, 0.5]}), "'b'"),
    "evidence that cannot be": (
        lambda: CERTAIN["tree"].law(1, given={0: 0}), "0 has probability 0"),
    "a set of nothing": (lambda: ut.ModelSet([]), "at least one model"),
    "a set of different records": (
        lambda: ut.ModelSet([LEVELS["trio"], LEVELS["tree, three states"]]), "same state"),
    "a record that is not there": (
        lambda: ut.leakage(ut.PureDP(1.0), LEVELS["trio"], ut.Adversary(3)), "record 3"),
    "weights for other records": (
        lambda: ut.leakage(ut.Laplace(ut.Linear([1, 1, 1], 1.0), 1.0), LEVELS["gaussian"]),
        "3 weights do not fit 2 records"),
    "a description without numbers": (
        lambda: model_from_dict({"kind": "gaussian", "mean": [0]}), "covariance"),
    "a description of nothing": (lambda: model_from_dict({"kind": "cloud"}), "cloud"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_models_are_refused_with_their_place(name: str) -> None:
    call, place = BAD[name]
    with pytest.raises(InvalidInput, match=place):
        call()


FILES: dict[str, tuple[str, str]] = {
    "too few columns": ("f kim bob ann 1 0\nf bob\n", "line 2"),
    "twice the same person": (PED + "f kim 0 0 1 0 A A\n", "kim"),
    "own ancestor": ("f kim bob 0 1 0 A C\nf bob kim 0 1 0 G G\n", "'(kim|bob)'"),
    "parent of the wrong sex": (PED.replace("f bob 0 0 1", "f bob 0 0 2"), "'bob'"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_pedigree_files_are_refused_without_their_genotypes(name: str, tmp_path: Path) -> None:
    text, place = FILES[name]
    with pytest.raises(InvalidInput, match=place) as caught:
        ut.Pedigree.read(pedfile(tmp_path, text))
    for genotype in ("A C", "G G", "T T", "A A"):
        assert genotype not in str(caught.value)


def test_fits_of_bad_rows_do_not_quote_them() -> None:
    for rows in ([[1234.5, 2469.0]] * 9, [[1.0, 1234.5], [2.0, 1234.5], [3.0, 1234.5]],
                 [[1234.5, math.nan]] * 3, [[1234.5, 1.0]]):  # fmt: skip
        with pytest.raises(InvalidInput) as caught:
            ut.MultivariateGaussian.fit(rows)
        assert "1234" not in str(caught.value)
    with pytest.warns(DisclosureWarning):
        model = ut.MultivariateGaussian.fit(np.random.default_rng(1).normal(size=(9, 2)))
    assert isinstance(model, ut.MultivariateGaussian)
    with pytest.raises(InvalidModel):
        ut.MultivariateGaussian.fit([[float(t), 2.0 * t] for t in range(9)], public=True)


# --- questions that do not fit the model ----------------------------------------------------------


@pytest.mark.parametrize("name", ["chain", "network"])
def test_states_farther_apart_than_a_query_allows(name: str) -> None:
    """States 0 and 10 with spread=1: refused, or said among the assumptions."""
    kernel = [[0.9, 0.1], [0.2, 0.8]]
    model: Any = ut.MarkovChain(kernel, states=(0, 10), length=2)
    if name == "network":
        model = ut.BayesianNetwork([(0, 1)], {0: [0.5, 0.5], 1: kernel}, states=(0, 10))
    try:
        leak = ut.leakage(ut.Laplace(ut.Linear([1.0, 1.0], spread=1.0), 1.0), model)
    except UndertowError:
        return
    assert leak.upper >= 10 or any("differ" in note for note in leak.assumptions)


def test_weights_and_channels_of_another_size() -> None:
    tree = LEVELS["tree, three states"]
    with pytest.raises(InvalidInput, match="3 weights do not fit 2 records"):
        ut.leakage(ut.Laplace(ut.Linear([1, 1, 1], 1.0), 1.0), tree)
    with pytest.raises(InvalidInput, match="2 states"):
        ut.leakage(ut.RandomizedResponse.binary(0.2, 0.2), tree)


NAMES: dict[str, Callable[[], Any]] = {
    "numbers": lambda: ut.Pedigree({1: (2, None)}),
    "pairs": lambda: ut.Pedigree({("f", 1): (("f", 2), None)}),
    "nodes that are pairs": lambda: ut.BayesianNetwork([], {("f", 1): [0.5, 0.3, 0.2]}),
    "nodes of an array": lambda: ut.BayesianNetwork([], {np.int64(7): [0.5, 0.3, 0.2]}),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_survive_json(name: str) -> None:
    model = NAMES[name]()
    plan = ut.calibrate(ut.Count(model.states[0]), model, 1.0)
    assert ut.Plan.from_json(plan.to_json()).model == model


def test_mixed_sets_have_their_best_method_too() -> None:
    """A set of a chain and a network: `dependent` is confirmed by the exact leakage."""
    chain = ut.MarkovChain([[[0.8, 0.2], [0.2, 0.8]], [[0.9, 0.1], [1, 0]]], start=[0.9, 0.1])
    tree = ut.BayesianNetwork([], {0: [0.5, 0.5], 1: [0.5, 0.5], 2: [0.5, 0.5]})
    model = ut.ModelSet([chain, tree])
    plans = []
    for method in methods_for(model):
        try:
            plans.append(ut.calibrate(ut.Count(1), model, 1.0, method=method))
        except MethodRefused:
            continue
    assert {plan.method for plan in plans} >= {"exchange", "group", "dependent"}
    for missing in ("any", "none"):
        best = ut.calibrate(ut.Count(1), model, 1.0, valid_for="series", missing=missing)
        errors = [plan.expected_error for plan in plans if missing in (plan.missing, "none")]
        assert best.expected_error <= min(errors) * (1 + 1e-8)
