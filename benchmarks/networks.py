"""Time networks, trees and pedigrees beside plain versions: ``python -m benchmarks.networks``.

The plain version of a count's leakage goes through every known set, one after another, on the
table of all genotypes; it is run on a family it can still manage, and the size is stated. The
plain version of a tree goes through the nodes with a linear program for each step.
"""

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog

from benchmarks.__main__ import best_time, show
from undertow.adversaries import Secrets
from undertow.bounds.networks.leakages import leakage as network_leakage
from undertow.bounds.networks.pedigrees import leakage as pedigree_leakage
from undertow.bounds.trees.leakages import tree_leakage
from undertow.mechanisms import Laplace, PureDP
from undertow.methods import METHODS
from undertow.models.contagion import household
from undertow.models.network import BayesianNetwork
from undertow.models.pedigree import Pedigree
from undertow.planning.methods import solve
from undertow.planning.questions import Question
from undertow.queries import Count, Histogram

COUNT = Laplace(Count("BB"), 1.0)


def nuclear(people: int, frequency: float | tuple[float, float] = 0.5) -> Pedigree:
    """Return two parents and their children."""
    return Pedigree({f"child{n}": ("father", "mother") for n in range(people - 2)}, frequency)


def generations(steps: int, frequency: float | tuple[float, float] = 0.5) -> Pedigree:
    """Return a line of only children, each married to a founder: 3 + 2 steps people."""
    parents = {"c0": ("f0", "m0")}
    for step in range(1, steps + 1):
        pair = (f"c{step - 1}", f"s{step}")
        parents[f"c{step}"] = pair if step % 2 else (pair[1], pair[0])
    return Pedigree(parents, frequency)


def many_families(times: int) -> Pedigree:
    """Return five shapes of families, each so many times."""
    parents = {}
    for number in range(times):
        for kind, shape in enumerate(
            [nuclear(3), nuclear(5), generations(1), generations(2), nuclear(4)]
        ):
            for child, pair in shape.parents.items():
                parents[child, kind, number] = ((pair[0], kind, number), (pair[1], kind, number))
    return Pedigree(parents, (0.1, 0.5))


def tree(count: int, states: int, kind: str) -> BayesianNetwork:
    """Return a tree with uneven kernels."""
    rng = np.random.default_rng(states)
    above = {"random": lambda n: int(rng.integers(0, n)), "binary": lambda n: (n - 1) // 2,
             "path": lambda n: n - 1}[kind]  # fmt: skip
    kernels = 0.6 * rng.dirichlet(np.ones(states), size=(count, states)) + 0.4 * np.eye(states)
    cpds = {n: kernels[n] if n else np.full(states, 1 / states) for n in range(count)}
    return BayesianNetwork([(above(n), n) for n in range(1, count)], cpds)


def plain_count(pedigree: Pedigree, rate: float) -> float:
    """Return the leakage of the BB count of one family, known set by known set."""
    joint = pedigree.families()[0].network(0.5).joint()
    n = joint.ndim
    counts = np.zeros((3,) * n)
    for axis in range(n):
        counts += (np.arange(3) == 0).reshape([-1 if a == axis else 1 for a in range(n)])
    best = 0.0
    for target in range(n):
        others = [record for record in range(n) if record != target]
        for size in range(n):
            for known in itertools.combinations(others, size):
                rest = tuple(a for a in others if a not in known)
                prior = joint.sum(axis=rest, keepdims=True)
                for answer in range(n + 1):
                    seen = (joint * np.exp(-rate * np.abs(answer - counts))).sum(
                        axis=rest, keepdims=True
                    )
                    with np.errstate(divide="ignore", invalid="ignore"):
                        score = np.log(seen / prior)
                    spread = np.nanmax(score, axis=target) - np.nanmin(score, axis=target)
                    best = max(best, float(np.nanmax(spread)))
    return best


def plain_tree(network: BayesianNetwork, epsilon: float) -> float:
    """Return the bound of messages towards the root, one linear program for each pair and step."""
    size = network.size
    total = {place: np.zeros((size, size)) for place in range(len(network.nodes))}
    for place in reversed(range(1, len(network.nodes))):
        bound = epsilon * (1 - np.eye(size)) + total[place]
        rows = []
        for y, z in itertools.permutations(range(size), 2):
            row = np.zeros(size)
            row[y], row[z] = 1.0, -math.exp(bound[y, z])
            rows.append(row)
        kernel = network.tables[place]
        for x, other in itertools.permutations(range(size), 2):
            found = linprog(
                -kernel[x], A_ub=np.array(rows), b_ub=np.zeros(len(rows)),
                A_eq=kernel[other][None], b_eq=np.ones(1),
            )  # fmt: skip
            total[network.parents[place][0]][x, other] += math.log(-float(found.fun or -1.0))
    return epsilon + float(total[0].max())


def calibrated(method: str, query: Count | Histogram, model: Any) -> object:
    """Return the noise of one method for a leakage of 1."""
    return solve(METHODS["answer"][method], Question(query, model, 1.0, "any", Secrets())).mechanism


def main() -> None:
    """Print one line for each call."""
    with np.errstate(all="ignore"):
        plain = best_time(partial(plain_count, nuclear(6), 1.0), runs=1)
    print("pedigrees")
    show("family of 6, BB count, against any", partial(pedigree_leakage, COUNT, nuclear(6)))
    print(f"{'  plain version of the same':<58} {plain * 1000:9.1f} ms")
    show("nuclear family of 12", partial(pedigree_leakage, COUNT, nuclear(12)))
    show("nine people in four generations", partial(pedigree_leakage, COUNT, generations(3)))
    show("eleven people in five generations", partial(pedigree_leakage, COUNT, generations(4)))
    show("trio, frequency in (.05, .5)", partial(pedigree_leakage, COUNT, nuclear(3, (0.05, 0.5))))
    show(
        "twelve, frequency in (.05, .5)", partial(pedigree_leakage, COUNT, nuclear(12, (0.05, 0.5)))
    )
    families = many_families(200)
    show("1,000 families of 5 shapes, (.1, .5)", partial(pedigree_leakage, COUNT, families))
    show("trio, any DP algorithm", partial(pedigree_leakage, PureDP(1.0), nuclear(3)))
    show("noise for 1,000 families", partial(calibrated, "exact", Count("BB"), families))
    print("networks")
    house = household(7, 0.1, 0.4)
    ill = Count("ill")
    show("household of 7, count", partial(network_leakage, Laplace(ill, 1.0), house))
    show("household of 5, histogram", partial(network_leakage, Laplace(Histogram(), 1.0),
                                              household(5, 0.1, 0.4)))  # fmt: skip
    for method in ("exact", "quilt"):
        show(f"noise for a household of 5, {method}",
             partial(calibrated, method, ill, household(5, 0.1, 0.4)))  # fmt: skip
    print("trees of 10,000 nodes")
    for states in (2, 3):
        for kind in ("random", "binary", "path"):
            show(
                f"{states} states, {kind}, against any",
                partial(tree_leakage, 0.2, tree(10_000, states, kind)),
            )
        small = tree(200, states, "random")
        show(
            f"{states} states, 200 nodes, against ignorant",
            partial(tree_leakage, 0.2, small, "ignorant"),
            partial(plain_tree, small, 0.2), " (one sweep)",
        )  # fmt: skip


if __name__ == "__main__":
    main()
