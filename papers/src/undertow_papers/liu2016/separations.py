"""Figure 6 and section VI-A of [liu2016]: D_j = D_i / 2 + X / 2, three queries, Laplace noise."""

from collections.abc import Callable

import numpy as np

from undertow.bounds.dependent import dependent_sensitivity, linear_coefficient, separation_upper
from undertow.numerics import Array
from undertow_papers.charts import Chart, Panel, Trace
from undertow_papers.findings import Claim, Compared, Parts
from undertow_papers.registry import Setting, printed, result

__all__ = ["QUERIES", "example_separation", "fig6", "sec6a"]

Query = Callable[[float, Array], Array]

QUERIES: dict[str, Query] = {
    "sum": lambda i, j: i + j,
    "difference": lambda i, j: i - j,
    "product": lambda i, j: i * j,
}


def _grid(points: int) -> Array:
    """Return the midpoints of equal parts of [0, 1]."""
    return np.asarray((np.arange(points) + 0.5) / points)


def example_separation(query: Query, epsilon: float, points: int = 400) -> float:
    """Return the separation of a noisy query between D_i = 0 and D_i = 1, X averaged out.

    Noise of scale 1 / epsilon; the error of the grid for X falls with the square of its size.
    """
    x = _grid(points)
    answers = np.concatenate([query(0.0, 0.5 * x), query(1.0, 0.5 + 0.5 * x)])
    laws = np.zeros((2, 2 * points))
    laws[0, :points] = laws[1, points:] = 1.0
    return separation_upper(laws, answers, 1 / epsilon)


def _for_one_x(query: Query, points: int = 401) -> float:
    """Return how far a change of D_i from 0 to 1 moves the query at most, X held fixed."""
    x = np.linspace(0.0, 1.0, points)
    return float(np.abs(query(1.0, 0.5 + 0.5 * x) - query(0.0, 0.5 * x)).max())


def _for_one_other(query: Query, points: int = 401) -> float:
    """Return how far a change of D_i moves the query at most, D_j held fixed."""
    other = np.linspace(0.0, 1.0, points)
    return float(np.abs(query(1.0, other) - query(0.0, other)).max())


@result("liu2016", "fig6", "Separation of three noisy queries on two dependent records")
def fig6(setting: Setting) -> Parts:
    """Recompute Figure 6: the largest log-ratio of the answer's laws under D_i = 0 and 1."""
    marked = printed("liu2016")["fig6"]
    points = 400 if setting.quick else 2000
    for name, query in QUERIES.items():
        dependent, independent = marked[name]
        yield Compared(f"{name}, dependent, in units of epsilon (epsilon 1)",
                       example_separation(query, 1.0, points), dependent, 1e-4,
                       cause="the paper's value is the largest move of the answer with X held "
                       "fixed; over the law of X, as its Eq. 12 has it, the separation is ln 2(e "
                       "- sqrt e)")  # fmt: skip
        yield Compared(f"{name}, dependent, X held fixed", _for_one_x(query), dependent, 1e-12)
        yield Compared(f"{name}, independent", _for_one_other(query), independent, 1e-12)
    separations = {name: example_separation(query, 1.0) for name, query in QUERIES.items()}
    yield Claim("dependent records can be farther apart than epsilon (sum)", separations["sum"],
                1.0, relation=">=")  # fmt: skip
    yield Claim("the same records are nearer for another query (difference)",
                separations["difference"], 1.0)  # fmt: skip
    yield Chart("liu2016-fig6", "Separation of noisy queries, epsilon 1",
                tuple(_panel(name, query) for name, query in QUERIES.items()),
                "Laws of the noisy answer S for D_i = 0 and D_i = 1, with D_j = D_i / 2 + "
                "X / 2.")  # fmt: skip
    yield ("The figure is a sketch; its text has the marks 1.5, 0.5 and 1 times epsilon, 1 "
           "for independent records, without their places: the third pair is taken "
           "for the product.")  # fmt: skip


def _panel(name: str, query: Query) -> Panel:
    """Return the two densities of a noisy answer at epsilon 1."""
    places, x = np.linspace(-4.0, 6.0, 81), _grid(200)
    lines = []
    for value in (0.0, 1.0):
        answers = query(value, 0.5 * value + 0.5 * x)
        density = 0.5 * np.exp(-np.abs(places[:, None] - answers)).mean(axis=1)
        lines.append(Trace(f"D_i = {value:g}", tuple(places.tolist()), tuple(density.tolist())))
    return Panel(name, "S", "density", tuple(lines), xlim=(-4.0, 6.0))


@result("liu2016", "sec6a", "The sum of the example moves by 1.5, not by 2")
def sec6a(setting: Setting) -> Parts:
    """Recompute the sensitivities of section VI-A, and whether 1.5 protects both records."""
    values = printed("liu2016")["sec6a"]
    rho = linear_coefficient(0.5)
    points = 21  # D_i and X on a grid: D_j = (d + x) / 2, the sum is (3 d + x) / 2
    sums = np.zeros((2 * points - 1, 4 * points - 3))
    for d in range(points):
        for x in range(points):
            sums[d + x, 3 * d + x] += 1.0
    answers = np.arange(4 * points - 3) / (2 * (points - 1))
    yield Compared("sensitivity of the sum, independent records", _for_one_other(QUERIES["sum"]),
                   values["independent"], 1e-12)  # fmt: skip
    yield Compared("sensitivity of the sum, D_j moved along",
                   dependent_sensitivity([[1.0, rho], [0.0, 1.0]], [1.0, 1.0]), values["dependent"],
                   1e-12)  # fmt: skip
    yield Compared("sensitivity of the baseline, both records",
                   dependent_sensitivity([[1.0, 1.0], [1.0, 1.0]], [1.0, 1.0]), values["baseline"],
                   1e-12)  # fmt: skip
    yield Claim("noise of scale 1.5 at epsilon 1: what it leaks about D_i",
                example_separation(QUERIES["sum"], 1 / 1.5), 1.0, 1e-6)  # fmt: skip
    yield Claim("noise of scale 1.5 at epsilon 1: what it leaks about D_j",
                separation_upper(sums, answers, 1.5), 1.0, 1e-6, witness="D_j = 0 forces D_i = 0 "
                "and D_j = 1 forces D_i = 1: seen from D_j the sum moves by 2")  # fmt: skip
    yield ("The paper calls 1.5 the sensitivity of the sum; that noise for it protects both "
           "records is how its Definition 4 reads.")  # fmt: skip
