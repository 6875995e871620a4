"""Time networks, trees and pedigrees beside plain versions: ``python -m benchmarks.networks``.

The plain version of a count's leakage goes through every known set, one after another, on the
table of all genotypes; it is run on a family it can still manage, and the size is stated. The
plain version of a tree goes through the nodes with a linear program for each step.
"""

import itertools
import math
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.optimize import linprog

from benchmarks.rows import Row, beside, grown, show
from undertow.bounds.networks.leakages import leakage as network_leakage
from undertow.bounds.networks.pedigrees import leakage as pedigree_leakage
from undertow.bounds.trees.leakages import tree_leakage
from undertow.mechanisms import Laplace, PureDP
from undertow.methods import METHODS
from undertow.models.networks import BayesianNetwork, household
from undertow.models.pedigrees import Pedigree
from undertow.planning.calibrate import solve
from undertow.planning.questions import Question
from undertow.queries import Count, Histogram
from undertow.secrets import ONE_RECORD

PART = "Networks and families"
COUNT = Laplace(Count("BB"), 1.0)
SIZES = [1000, 3000, 10_000]


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


@cache
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
    return solve(
        METHODS["answer"][method], Question(query, model, 1.0, "any", ONE_RECORD)
    ).mechanism


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    people = 4 if quick else 6
    with np.errstate(all="ignore"):
        yield beside(
            PART, f"family of {people}, BB count, any attacker",
            partial(pedigree_leakage, COUNT, nuclear(people)), "plain: known set by known set",
            partial(plain_count, nuclear(people), 1.0),
        )  # fmt: skip
    if quick:
        return
    yield grown(PART, "nuclear families of 6 to 12", [6, 8, 10, 12],
                lambda n: pedigree_leakage(COUNT, nuclear(n)))  # fmt: skip
    yield grown(PART, "families of 7 to 11 over generations", [7, 9, 11],
                lambda n: pedigree_leakage(COUNT, generations((n - 3) // 2)))  # fmt: skip
    yield beside(PART, "trio, frequency in (.05, .5)",
                 partial(pedigree_leakage, COUNT, nuclear(3, (0.05, 0.5))))  # fmt: skip
    families = many_families(200)
    yield beside(PART, "1,000 families of 5 shapes, frequency in (.1, .5)",
                 partial(pedigree_leakage, COUNT, families))  # fmt: skip
    yield beside(
        PART, "trio, all DP algorithms", partial(pedigree_leakage, PureDP(1.0), nuclear(3))
    )
    noisy = Laplace(Count("ill"), 1.0)
    yield beside(PART, "household of 7, count",
                 partial(network_leakage, noisy, household(7, 0.1, 0.4)))  # fmt: skip
    for method in ("exact", "quilt"):
        yield beside(PART, f"noise for a household of 5, {method}",
                     partial(calibrated, method, Count("ill"), household(5, 0.1, 0.4)))  # fmt: skip
    for states, kind in ((2, "random"), (2, "binary"), (3, "random")):
        yield grown(
            PART, f"tree of 1,000 to 10,000 nodes, {states} states, {kind}, any", SIZES,
            lambda n, s=states, k=kind: tree_leakage(0.2, tree(n, s, k)),  # type: ignore[misc]
        )  # fmt: skip
    for states in (2, 3):
        small = tree(200, states, "random")
        yield beside(
            PART, f"tree of 200 nodes, {states} states, ignorant",
            partial(tree_leakage, 0.2, small, "ignorant"), "plain: one program a step, one sweep",
            partial(plain_tree, small, 0.2),
        )  # fmt: skip
    yield grown(PART, "path of 1,000 to 10,000 records as a tree, 2 states, any", SIZES,
                lambda n: network_leakage(PureDP(0.2), tree(n, 2, "path"), "any"))  # fmt: skip


if __name__ == "__main__":
    list(show(rows()))
