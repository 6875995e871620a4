"""The second oracle of leakages: exact numbers, and plain loops over data sets and outputs.

Shares nothing with the package, not even floating-point numbers, and with the first oracle only who
the adversaries are. A law is a dictionary from data sets to probabilities, a mechanism a function
of a data set and an output; both are Decimals of forty digits, or fractions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any

from tests.oracles.enumeration import adversaries, grouped

getcontext().prec = 40

Point = tuple[int, ...]
Law = Mapping[Any, Any]
Likelihood = Callable[[Any, Any], Decimal]

ACTIVITY = (
    (Decimal("0.882"), Decimal("0.118")),
    (Decimal("0.305"), Decimal("0.695")),
)
ACTIVITY_START = (Decimal(305) / 423, Decimal(118) / 423)


# --- leakages -------------------------------------------------------------------------------------


def largest_ratio(
    law: Law, seen: Callable[[Any], Mapping[Any, Any]], against: Any = "any",
    targets: Iterable[int] | None = None,
) -> Any:  # fmt: skip
    """e^leakage over everything that may vary, None where it is infinite.

    ``seen`` gives Pr[s | x] for all outputs s of a data set x, those of probability 0 perhaps not.
    """
    possible = {point: (mass, seen(point)) for point, mass in law.items() if mass}
    wanted = None if targets is None else list(targets)
    worst: Any = 1
    for target, known in adversaries(len(next(iter(law))), against, wanted):
        for by_value in grouped(possible, target, known).values():
            means = [_mean(possible, points) for points in by_value.values()]
            for top, bottom in permutations(means, 2):
                for output, mass in top.items():
                    if not mass:
                        continue
                    if not bottom.get(output):
                        return None
                    worst = max(worst, mass / bottom[output])
    return worst


def _mean(possible: Mapping[Any, tuple[Any, Mapping[Any, Any]]], points: Sequence[Any]) -> Any:
    """Pr[s | these data sets] for every output s."""
    total = sum(possible[point][0] for point in points)
    found: dict[Any, Any] = {}
    for point in points:
        mass, outputs = possible[point]
        for output, likelihood in outputs.items():
            found[output] = found.get(output, 0) + mass * likelihood
    return {output: mass / total for output, mass in found.items()}


def leakage(
    law: Law,
    likelihood: Likelihood,
    outputs: Iterable[Any],
    against: str = "any",
    targets: Iterable[int] | None = None,
) -> Decimal:
    """The largest ln Pr[s | x_K, x] / Pr[s | x_K, x'] over everything that may vary."""
    listed = list(outputs)
    ratio = largest_ratio(
        law, lambda point: {s: likelihood(point, s) for s in listed}, against, targets
    )
    return Decimal("Infinity") if ratio is None else Decimal(ratio).ln()


def logarithm(ratio: Fraction | None) -> Decimal:
    """The natural logarithm of a fraction in 50 digits; None is infinite."""
    if ratio is None:
        return Decimal("Infinity")
    with localcontext() as context:
        context.prec = 50
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


# --- mechanisms and laws --------------------------------------------------------------------------


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
        probability = Decimal(start[point[0]])
        for here, there in pairwise(point):
            probability *= matrix[here][there]
        found[point] = probability
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


# --- linear algebra in fractions ------------------------------------------------------------------


def normalised(row: Iterable[Any]) -> list[Fraction]:
    """The floats of a row as fractions that sum to 1 exactly."""
    parts = [Fraction(float(part)) for part in row]
    return [part / sum(parts) for part in parts]


def stationary(rows: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    """The law w with w P = w."""
    size = len(rows)
    system = [[rows[y][x] - (x == y) for y in range(size)] for x in range(size - 1)]
    return solve([*system, [Fraction(1)] * size], [0] * (size - 1) + [1])


def solve(matrix: Iterable[Iterable[Any]], right: Iterable[Any]) -> list[Fraction]:
    """Solve a linear system by elimination with a pivot search."""
    work = [[*map(Fraction, row), Fraction(value)]
            for row, value in zip(matrix, right, strict=True)]  # fmt: skip
    size = len(work)
    for column in range(size):
        pivot = next(r for r in range(column, size) if work[r][column])
        work[column], work[pivot] = work[pivot], work[column]
        head = work[column][column]
        work[column] = [entry / head for entry in work[column]]
        for row in range(size):
            if row != column and work[row][column]:
                share = work[row][column]
                work[row] = [a - share * b for a, b in zip(work[row], work[column], strict=True)]
    return [row[-1] for row in work]
