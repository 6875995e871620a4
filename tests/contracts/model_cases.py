"""One example of every kind of model, each with its oracle and with twins that must agree with it.

An oracle brackets the truth: what enumeration, quadrature or a closed formula *attains*, and the
*most* that it can be. Twins describe the same records in other words: other names or orders of
states, another order of records or people, other units.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

import undertow as ut
from tests.oracles import gaussian as gaussian_oracles
from tests.oracles import models as model_oracles
from tests.oracles import networks as network_oracles
from tests.oracles.enumeration import adversaries, law_leakage

Bracket = tuple[float, float]
Oracle = Callable[[Any, Any], Bracket]
FEW = 27  # most combinations of values for which all algorithms are searched by linear programs


@dataclass(frozen=True)
class Twin:
    """The same records in other words: ``place`` maps a record to its number there."""

    model: Any
    query: Any
    place: tuple[int, ...]
    stretch: float = 1.0

    def against(self, against: Any) -> Any:
        if not isinstance(against, ut.Adversary):
            return against
        return ut.Adversary(self.place[against.target], [self.place[k] for k in against.known])


@dataclass(frozen=True)
class Case:
    """A model, what is asked of it, the noise, and who oracles."""

    model: Any
    query: Any
    oracle: Oracle
    level: Oracle
    noise: Any = ut.DiscreteLaplace
    scale: float = 0.8
    records: int = 3
    twins: tuple[Twin, ...] = ()
    bounds: tuple[str, ...] = ("exchange", "group")
    others: tuple[Any, ...] = field(default=())

    def mechanism(self, scale: float | None = None) -> Any:
        return self.noise(self.query, self.scale if scale is None else scale)

    def adversaries(self) -> list[Any]:
        last = self.records - 1
        named: list[Any] = ["any", "ignorant", "informed", ut.Adversary(0)]
        if last:
            named += [ut.Adversary(0, [last]), ut.Adversary(last, range(last))]
        return named


# --- records with states --------------------------------------------------------------------------


def enumerated(model: Any, states: int) -> tuple[Oracle, Oracle]:
    """Both oracles of models whose joint laws can be written out."""
    tables = model_oracles.tables_of(model)
    every = not _interval(model)
    length = len(next(iter(tables[0])))

    def oracle(mechanism: Any, against: Any) -> Bracket:
        found = model_oracles.truth(model, mechanism, against)
        return found, found if every else math.inf

    @cache  # models that are members of sets are asked again
    def level(epsilon: float, against: Any) -> Bracket:
        attained, most = 0.0, 0.0
        for table in tables:
            small = 2 ** (states * length) <= 4096
            found = model_oracles.product_leakage(table, states, epsilon, against) if small else 0.0
            attained = max(attained, found)
            if states**length > FEW or min(table.values()) < 1e-3:
                most = max(most, length * epsilon)
                continue
            joint = {values: float(probability) for values, probability in table.items()}
            most = max(most, network_oracles.level_leakage(joint, states, epsilon, against))
        return attained, most + 1e-7 if every else length * epsilon

    return oracle, level


def _interval(model: Any) -> bool:
    if isinstance(model, ut.ModelSet):
        return any(map(_interval, model.models))
    return isinstance(getattr(model, "allele_frequency", 0.5), tuple)


def discrete(model: Any, query: Any, **more: Any) -> Case:
    first = model
    while isinstance(first, ut.ModelSet):
        first = first.models[0]
    oracle, level = enumerated(model, len(first.states))
    return Case(model, query, oracle, level, records=first.length, **more)


def renamed_chain(chain: ut.MarkovChain, order: Sequence[int]) -> ut.MarkovChain:
    matrix = chain.transition[..., order, :][..., order]
    names = [chain.states[state] for state in order]
    return ut.MarkovChain(matrix, names, start=chain.initial[list(order)], length=chain.length)


def mirrored_chain(chain: ut.MarkovChain) -> ut.MarkovChain:
    """The series read backwards, by Bayes' rule with the marginals of every record."""
    law, steps = chain.initial, []
    for record in range((chain.length or 1) - 1):
        flow = law[:, None] * chain.step(record)
        law = flow.sum(axis=0)
        steps.append(flow.T / law[:, None])
    return ut.MarkovChain(steps[::-1], chain.states, start=law)


def renamed_network(network: ut.BayesianNetwork, order: Sequence[int]) -> ut.BayesianNetwork:
    """States in another order, nodes named in reverse."""
    size = network.size
    cpds = {}
    for node in reversed(network.nodes):
        table = network.cpds[node]
        for axis in range(table.ndim):
            if table.shape[axis] == size and not _hidden(network, node, axis):
                table = np.take(table, order, axis=axis)
        cpds[node] = table
    names = [network.states[state] for state in order]
    return ut.BayesianNetwork(network.edges[::-1], _turned(network, cpds), names, network.latent)


def _hidden(network: ut.BayesianNetwork, node: Any, axis: int) -> bool:
    above = [parent for parent, child in network.edges if child == node]
    return [*above, node][axis] in network.latent


def _turned(network: ut.BayesianNetwork, cpds: dict[Any, Any]) -> dict[Any, Any]:
    """Parents' axes in the reversed order of the edges."""
    found = {}
    for node, table in cpds.items():
        parents = table.ndim - 1
        found[node] = np.transpose(table, [*reversed(range(parents)), parents])
    return found


def network_case(network: ut.BayesianNetwork, query: Any, **more: Any) -> Case:
    other = renamed_network(network, list(range(network.size))[::-1])
    place = tuple(other.observed.index(node) for node in network.observed)
    return discrete(network, query, twins=(Twin(other, query, place),), **more)


def family_case(pedigree: ut.Pedigree, query: Any, **more: Any) -> Case:
    """Twins: people in another order; the other allele counted, with the other frequency."""
    people = pedigree.people[::-1]
    low, high = pedigree.frequencies
    opposite = {"BB": "bb", "Bb": "Bb", "bb": "BB"}
    asked = ut.Count([opposite[s] for s in query.states]) if isinstance(query, ut.Count) else query
    again = [
        ut.Pedigree(pedigree.parents, pedigree.allele_frequency, people, None, pedigree.latent),
        ut.Pedigree(pedigree.parents, (1 - high, 1 - low), pedigree.people, None, pedigree.latent),
    ]
    back = tuple(range(len(people)))[::-1]
    twins = (Twin(again[0], query, back), Twin(again[1], asked, back[::-1]))
    return discrete(pedigree, query, twins=twins, **more)


# --- arbitrary dependence -------------------------------------------------------------------------


def groups_case(size: int, query: Any) -> Case:
    """Copies of one record attain size times the level; nothing exceeds it."""
    copies = {(value,) * size: Fraction(1, 2) for value in (0, 1)}

    def oracle(mechanism: Any, against: Any) -> Bracket:
        score = model_oracles.noisy(model_oracles.counted([1]), size, mechanism.scale)
        many = law_leakage(copies, score, "ignorant")
        one = 1 / mechanism.scale
        return (one, one) if against == "informed" else (many, size * one)

    def level(epsilon: float, against: Any) -> Bracket:
        times = 1 if against == "informed" else size
        return times * epsilon, times * epsilon

    return Case(ut.Groups(size), query, oracle, level, records=size, bounds=("group",))


# --- numbers --------------------------------------------------------------------------------------


def gaussian_case(covariance: Any, weights: Any, *, mean: Any = 0.0, spread: float = 2.0) -> Case:
    """Exact fractions are the oracle; twins permute the records and change the unit."""
    matrix = np.asarray(covariance, dtype=np.float64)
    rows = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    size = len(matrix)
    model = ut.MultivariateGaussian(mean, matrix)

    def oracle(mechanism: Any, against: Any) -> Bracket:
        factor, _ = gaussian_oracles.linear_factor(matrix, rows, against)
        exact = float(factor * Fraction(spread) / Fraction(mechanism.scale))
        return exact, exact

    query = ut.Linear(weights, spread)
    order = list(range(size))[::-1]
    turned = ut.MultivariateGaussian(0.0, matrix[np.ix_(order, order)])
    asked = ut.Linear(np.asarray(weights)[..., order], spread)
    units = ut.MultivariateGaussian(0.0, 64 * matrix)
    twins = (
        Twin(turned, asked, tuple(order)),
        Twin(units, ut.Linear(weights, 8 * spread), tuple(range(size)), stretch=8.0),
    )
    return Case(
        model, query, oracle, _threshold(matrix), ut.Laplace, records=size, twins=twins,
        bounds=("group",), others=(ut.MetricDP(0.3),),
    )  # fmt: skip


def clipped_case(covariance: Any, low: float, high: float) -> Case:
    """Quadrature attains, the sum of capped coefficients is never exceeded."""
    matrix = np.asarray(covariance, dtype=np.float64)
    size, wide = len(matrix), high - low
    mean = np.full(size, (low + high) / 2)

    def oracle(mechanism: Any, against: Any) -> Bracket:
        factor, _ = gaussian_oracles.apart_factor(matrix, np.ones(size), against, clipped=True)
        attained = max(
            gaussian_oracles.quadrature_leakage(
                matrix, mean, np.ones(size), (low, high), mechanism.scale, who,
                clip=(low, high), known=((low + high) / 2,), points=41,
            )
            for who in adversaries(size, against)
        )  # fmt: skip
        return attained * (1 - 1e-3), float(factor) * wide / mechanism.scale * (1 + 1e-6)

    return Case(
        ut.MultivariateGaussian(mean, matrix), ut.Sum(low, high), oracle, _threshold(matrix),
        ut.Laplace, scale=4.0, records=size, bounds=("group",),
    )  # fmt: skip


def class_case(size: int, rho: float, spread: float = 2.0) -> Case:
    """Equal correlations attain; k known records leave at most rho / (1 - k rho) to each other."""
    equal = np.full((size, size), rho) + (1 - rho) * np.eye(size)

    def oracle(mechanism: Any, against: Any) -> Bracket:
        unit = spread / mechanism.scale
        factor, _ = gaussian_oracles.linear_factor(equal, np.ones((1, size)), against)
        known = {"informed": size - 1}.get(against, 0) if isinstance(against, str) else None
        number = len(against.known) if known is None else known
        most = 1 + (size - 1 - number) * rho / (1 - number * rho)
        return float(factor) * unit, most * unit * (1 + 1e-12)

    query = ut.Linear(np.ones(size), spread)
    return Case(
        ut.MultivariateGaussian.bounded(size, rho), query, oracle, _threshold(equal), ut.Laplace,
        records=size, bounds=("group",),
    )  # fmt: skip


def _threshold(matrix: Any) -> Oracle:
    """Only the general bound is certified for all algorithms; thresholds show why."""
    size = len(matrix)

    def level(epsilon: float, against: Any) -> Bracket:
        unknown = {"informed": 1}.get(against, size) if isinstance(against, str) else size
        attained = epsilon
        if size == 2 and unknown == 2 and isinstance(against, str):
            rho = abs(matrix[0, 1]) / math.sqrt(matrix[0, 0] * matrix[1, 1])
            attained = gaussian_oracles.threshold_leakage(rho, epsilon, 6.0)
        return attained, unknown * epsilon

    return level


# --- sets -----------------------------------------------------------------------------------------


def set_case(*cases: Case) -> Case:
    """A set leaks what its worst member leaks."""

    def worst(judges: list[Oracle]) -> Oracle:
        def oracle(asked: Any, against: Any) -> Bracket:
            found = [each(asked, against) for each in judges]
            return max(low for low, _ in found), max(high for _, high in found)

        return oracle

    names = tuple(dict.fromkeys(name for case in cases for name in case.bounds))
    return replace(
        cases[0],
        model=ut.ModelSet([case.model for case in cases]),
        oracle=worst([case.oracle for case in cases]),
        level=worst([case.level for case in cases]),
        bounds=(*names, "quilt", "exchange"),
        twins=(),
        others=(),
    )


# --- the list -------------------------------------------------------------------------------------

LAZY = ut.MarkovChain([[0.85, 0.15], [0.3, 0.7]], length=4)
LIVELY = ut.MarkovChain([[0.6, 0.4], [0.5, 0.5]], length=4)
DAYS = ut.MarkovChain.periodic([[[0.9, 0.1], [0.4, 0.6]], [[0.2, 0.8], [0.7, 0.3]]], length=3)
VARYING = ut.MarkovChain(
    [[[0.7, 0.2, 0.1], [0, 0.5, 0.5], [0.3, 0.3, 0.4]], [[0, 1, 0], [0.2, 0, 0.8], [0.5, 0.5, 0]]],
    ("a", "b", "c"), start=[0.2, 0.8, 0.0],
)  # fmt: skip
KERNEL = [[0.9, 0.1], [0.35, 0.65]]
TREE = ut.BayesianNetwork(
    [(0, 1), (0, 2), (2, 3)], {0: [0.7, 0.3], 1: KERNEL, 2: [[0.6, 0.4], [0.2, 0.8]], 3: KERNEL}
)
COIN = [0.5, 0.5]
XOR = ut.BayesianNetwork(
    [("x", "z"), ("y", "z")], {"x": COIN, "y": COIN, "z": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]}
)
COLLIDER = ut.BayesianNetwork(
    [(0, 2), (1, 2)],
    {0: [0.6, 0.4], 1: [0.3, 0.7], 2: [[[0.95, 0.05], [0.6, 0.4]], [[0.5, 0.5], [0.1, 0.9]]]},
)
HIDDEN = ut.BayesianNetwork(
    [("flu", "ann"), ("flu", "bob"), ("ann", "cy")],
    {"flu": [0.6, 0.3, 0.1], "ann": [[0.95, 0.05], [0.5, 0.5], [0, 1]],
     "bob": [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], "cy": KERNEL},
    ("well", "ill"), latent=["flu"],
)  # fmt: skip
TWINS = ut.BayesianNetwork(
    [("a", "b"), ("a", "c")],
    {"a": [0.2, 0.3, 0.5], "b": np.eye(3), "c": [[0.5, 0.5, 0], [0, 1, 0], [0.1, 0.1, 0.8]]},
)
TRIO = ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=0.25)
HALVES = ut.Pedigree(
    {"kim": ("bob", "ann"), "lee": ("bob", None)}, allele_frequency=0.75, latent=["bob"]
)
APART = ut.Pedigree({"kim": ("bob", None), "lee": (None, "eve")}, allele_frequency=0.5)
UNSURE = ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=(0.25, 0.75))
THREE = [[1, 0.9, 0], [0.9, 1, 0.3], [0, 0.3, 1]]
UNEQUAL = [[225.0, 137.2], [137.2, 416.6]]
SINGULAR = [[1, 1 - 1e-9, 0.5], [1 - 1e-9, 1, 0.5], [0.5, 0.5, 1]]

CASES: dict[str, Case] = {
    "chain": discrete(LAZY, ut.Count(1), twins=(
        Twin(renamed_chain(LAZY, (1, 0)), ut.Count(1), (0, 1, 2, 3)),
        Twin(mirrored_chain(LAZY), ut.Count(1), (3, 2, 1, 0)),
    )),
    "context chain": discrete(DAYS, ut.Count(1), twins=(
        Twin(ut.MarkovChain(DAYS.transition, start=DAYS.initial), ut.Count(1), (0, 1, 2)),
    )),
    "varying chain": discrete(VARYING, ut.Count(["a", "c"]), twins=(
        Twin(renamed_chain(VARYING, (2, 0, 1)), ut.Count(["a", "c"]), (0, 1, 2)),
    )),
    "tree": network_case(TREE, ut.Count(1)),
    "xor": network_case(XOR, ut.Count(1)),
    "collider": network_case(COLLIDER, ut.Count(0), bounds=("exchange", "group", "quilt")),
    "latent cause": network_case(HIDDEN, ut.Count("ill"), bounds=("exchange", "group", "quilt")),
    "twins": network_case(TWINS, ut.Count([0, 2])),
    "twins binned": network_case(TWINS, ut.Histogram()),
    "trio": family_case(TRIO, ut.Count("BB")),
    "half siblings": family_case(HALVES, ut.Count(["BB", "Bb"])),
    "two families": family_case(APART, ut.Count("bb")),
    "unsure frequency": family_case(UNSURE, ut.Count("BB")),
    "groups": groups_case(3, ut.Count("ill")),
    "gaussian": gaussian_case(THREE, [1.0, 1.0, 1.0]),
    "gaussian, two sums": gaussian_case(THREE, [[1.0, -1.0, 0.5], [0.0, 2.0, 1.0]]),
    "unequal variances": gaussian_case(UNEQUAL, [1.0, 1.0], mean=[100.0, 86.8]),
    "nearly singular": gaussian_case(SINGULAR, [1.0, -1.0, 2.0]),
    "clipped": clipped_case([[4.0, 1.2], [1.2, 9.0]], -3.0, 5.0),
    "clipped, three": clipped_case([[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 2.0]], 0.0, 4.0),
    "bounded": class_case(3, 0.25),
}  # fmt: skip
CASES |= {
    "set of chains": set_case(
        CASES["chain"], discrete(LIVELY, ut.Count(1))
    ),
    "set of networks": set_case(CASES["xor"], network_case(COLLIDER, ut.Count(1))),
    "set of pedigrees": set_case(
        CASES["trio"], family_case(ut.Pedigree(TRIO.parents, 0.9), ut.Count("BB"))
    ),
    "chain or tree": set_case(CASES["chain"], CASES["tree"]),
    "tree or groups": set_case(CASES["tree"], groups_case(2, ut.Count(1))),
    "set of gaussians": set_case(CASES["gaussian"], gaussian_case(np.eye(3), [1.0, 1.0, 1.0])),
    "gaussian or class": set_case(CASES["gaussian"], CASES["bounded"]),
}  # fmt: skip
