"""Leakage in forty digits by plain loops over data sets, adversaries and outputs.

Shares nothing with the package, not even floating-point numbers. A law is a dictionary from data
sets to probabilities, a mechanism a function of a data set and an output; both are Decimals.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, getcontext
from itertools import combinations, pairwise, permutations, product
from typing import Any

getcontext().prec = 40

Point = tuple[int, ...]
Law = Mapping[Any, Decimal]
Likelihood = Callable[[Any, Any], Decimal]

ACTIVITY = (
    (Decimal("0.882"), Decimal("0.118")),
    (Decimal("0.305"), Decimal("0.695")),
)
ACTIVITY_START = (Decimal(305) / 423, Decimal(118) / 423)


def judge(
    law: Law,
    likelihood: Likelihood,
    outputs: Iterable[Any],
    against: str = "any",
    targets: Iterable[int] | None = None,
) -> Decimal:
    """The largest ln Pr[s | x_K, x] / Pr[s | x_K, x'] over everything that may vary."""
    n, seen = len(next(iter(law))), list(outputs)
    worst = Decimal(0)
    for target in range(n) if targets is None else targets:
        others = [t for t in range(n) if t != target]
        sizes = {"any": range(n), "ignorant": range(1), "informed": range(n - 1, n)}[against]
        for known in (known for size in sizes for known in combinations(others, size)):
            cases: dict[Point, dict[int, list[Point]]] = {}
            for point, chance in law.items():
                if chance:
                    facts = cases.setdefault(tuple(point[t] for t in known), {})
                    facts.setdefault(point[target], []).append(point)
            for values in cases.values():
                for output in seen:
                    means = [_mean(law, likelihood, points, output) for points in values.values()]
                    for top, bottom in permutations(means, 2):
                        worst = max(worst, (top / bottom).ln())
    return worst


def _mean(law: Law, likelihood: Likelihood, points: list[Point], output: Any) -> Decimal:
    weighed = sum((law[p] * likelihood(p, output) for p in points), Decimal(0))
    return weighed / sum((law[p] for p in points), Decimal(0))


def noisy(function: Callable[[Any], Any], scale: Any) -> Likelihood:
    """A number with Laplace noise; the factor 1 / (2 scale) cancels from every ratio."""
    width = Decimal(scale)
    return lambda point, output: (-abs(Decimal(output) - Decimal(function(point))) / width).exp()


def both(first: Likelihood, second: Likelihood) -> Likelihood:
    """Two releases, independent given the records; an output is a pair."""
    return lambda point, output: first(point, output[0]) * second(point, output[1])


def chain_law(start: Any, matrix: Any, length: int) -> dict[Point, Decimal]:
    """The law of a chain with the given Decimals."""
    found: dict[Point, Decimal] = {}
    for point in product(range(len(start)), repeat=length):
        chance = Decimal(start[point[0]])
        for here, there in pairwise(point):
            chance *= matrix[here][there]
        found[point] = chance
    return found


def separation(rows: Any, answers: Any, scale: Any) -> Decimal:
    """How far Laplace noise leaves the rows, laws of an answer, apart: seen at the answers."""
    width, places = Decimal(scale), [Decimal(float(answer)) for answer in answers]
    worst = Decimal(0)
    for output in places:
        seen = []
        for row in rows:
            weights = [Decimal(float(weight)) for weight in row]
            densities = [(-abs(output - place) / width).exp() for place in places]
            mean = sum((w * d for w, d in zip(weights, densities, strict=True)), Decimal(0))
            seen.append(mean / sum(weights, Decimal(0)))
        worst = max(worst, (max(seen) / min(seen)).ln())
    return worst
