"""The judge of sweeps: a linear program over all tests."""

import itertools
import math
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix
from scipy.special import ndtr

from undertow import MarkovChain
from undertow.bounds.curves.sweep import (
    Samples,
    SideKernels,
    lifted,
    one_sided_value,
    option_values,
    polygon_of_lines,
    sweep_delta,
)

P = np.array([[0.882, 0.118], [0.305, 0.695]])
ACTIVITY = MarkovChain(P)
PURE = polygon_of_lines([(1.0, 0.0)])
APPROXIMATE = polygon_of_lines([(1.0, 1e-3)])
PROFILE = polygon_of_lines([(0.1, 0.05), (0.5, 0.01), (1.0, 0.001)])


def program(curve, table_a, table_b, g):
    """Max of E_a f - g E_b f over all f on the table's cells with f(x) <= G(f(x'))."""
    shape = table_a.shape
    slopes = np.diff(curve.g) / np.diff(curve.u)
    heights = curve.g[:-1] - slopes * curve.u[:-1]
    index = np.arange(table_a.size).reshape(shape)
    rows: list[Any] = []
    columns: list[Any] = []
    entries: list[Any] = []
    limits: list[Any] = []
    for x in itertools.product(*map(range, shape)):
        for axis, other in itertools.product(range(len(shape)), range(max(shape))):
            if other >= shape[axis] or other == x[axis]:
                continue
            y = (*x[:axis], other, *x[axis + 1 :])
            for slope, height in zip(slopes, heights, strict=True):
                rows += [len(limits)] * 2
                columns += [index[x], index[y]]
                entries += [1.0, -slope]
                limits.append(height)
    cells: Any = (entries, (rows, columns))
    matrix: Any = coo_matrix(cells, shape=(len(limits), table_a.size))
    options: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found: Any = linprog(
        (g * table_b - table_a).ravel(), matrix, limits, bounds=(0, 1), method="highs",
        options=options,
    )  # fmt: skip
    assert found.status == 0
    return -found.fun


def side_law(kernels, value):
    """The joint law of the records of a side, given the target."""
    table = np.array(kernels[0][value])
    for kernel in kernels[1:]:
        table = table[..., None] * kernel
    return table


def with_target(value, size, *sides):
    """The law of target and sides, axes (target, records of each side)."""
    point = np.zeros(size)
    point[value] = 1.0
    table = point
    for side in sides:
        table = np.multiply.outer(table, side)
    return table


def random_kernel(rng, size):
    kernel = rng.dirichlet(np.full(size, rng.choice([0.5, 1.0, 3.0])), size=size)
    kernel = np.maximum(kernel, 0.01)
    if rng.random() < 0.2:  # a zero
        kernel[rng.integers(size), rng.integers(size)] = 0.0
    return kernel / kernel.sum(axis=1, keepdims=True)


def random_curve(rng):
    count = rng.integers(1, 4)
    levels = rng.uniform(0.05, 2.0, size=count)
    deltas = rng.choice([0.0, 1e-3, 0.02, 0.1], size=count)
    return polygon_of_lines(list(zip(levels.tolist(), deltas.tolist(), strict=True)))


def judge_one_side(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 4))
    most = 4 if size == 2 else 2
    kernels = [random_kernel(rng, size) for _ in range(rng.integers(1, most + 1))]
    curve, g = random_curve(rng), math.exp(rng.uniform(-1, 2))
    a, b = rng.choice(size, 2, replace=False).tolist()
    tables = [with_target(x, size, side_law(kernels, x)) for x in (a, b)]
    value = one_sided_value(curve, kernels, a, b, g)
    exact = program(curve, tables[0], tables[1], g)
    assert exact - 1e-8 <= value <= exact + 1e-8, (seed, value, exact)


def known_sided_value(curve, transition, a, b, g, distance, value):
    """The value of a homogeneous side whose record at a distance is known."""
    side = SideKernels((transition,) * distance)
    options = side.options(np.array([distance]), np.array([value]), a, b)
    nodes = curve.nodes(distance)
    return float(option_values(nodes, nodes.g, side, (a, b), options, g)[0][0]) if options else None


def two_sided_delta(curve, left, right, a, b, epsilon):
    """Theorem 4 for a target between two sides of unknown records: the better order of both."""
    return min(
        composed(curve, *pair, a, b, math.exp(epsilon)) for pair in ((left, right), (right, left))
    )


def composed(curve, inner, outer, a, b, g):
    """The bound with the curve of the target and its inner side at the start."""
    first, second = SideKernels(tuple(inner)), SideKernels(tuple(outer))
    opened = [
        side.options(np.array([len(kernels)]), np.array([side.size]), a, b)
        for side, kernels in ((first, inner), (second, outer))
    ]
    samples = Samples.begun(curve.nodes(len(inner)), first, [(a, b)], curve.steepest, free=True)
    samples.refine(opened[:1], curve.tolerance)
    lines = samples.lines(0, opened[0]).simplified(0.02 * curve.tolerance)
    nodes = curve.nodes(len(outer), lines.kinks)
    value, _ = option_values(nodes, lifted(nodes, lines), second, (a, b), opened[1], g)
    return min(float(value[0]) + nodes.slack * (1 + g), 1.0)


def judge_two_sides(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 4))
    most = 2 if size == 2 else 1
    left = [random_kernel(rng, size) for _ in range(rng.integers(1, most + 1))]
    right = [random_kernel(rng, size) for _ in range(rng.integers(1, most + 1))]
    curve, epsilon = random_curve(rng), rng.uniform(0, 2)
    a, b = rng.choice(size, 2, replace=False).tolist()
    tables = [with_target(x, size, side_law(left, x), side_law(right, x)) for x in (a, b)]
    value = two_sided_delta(curve, left, right, a, b, epsilon)
    exact = program(curve, tables[0], tables[1], math.exp(epsilon))
    assert value >= exact - 1e-8, (seed, value, exact)
    assert value <= 1.6 * exact + 1e-6, (seed, value, exact)


def worst_adversary(curve, chain, epsilon, against):
    """The largest value of the program over targets, known records, their values and pairs."""
    length, size = chain.length, chain.size
    joint = np.array(chain.initial)
    for _ in range(length - 1):
        joint = joint[..., None] * chain.transition
    worst = 0.0
    for target in range(length):
        others = [record for record in range(length) if record != target]
        for count in range(length) if against == "any" else (0,):
            for known in itertools.combinations(others, count):
                for values in itertools.product(range(size), repeat=count):
                    place = [slice(None)] * length
                    for record, value in zip(known, values, strict=True):
                        place[record] = slice(value, value + 1)
                    table = np.moveaxis(joint[tuple(place)], target, 0)
                    for a, b in itertools.permutations(range(size), 2):
                        if table[a].sum() > 0 and table[b].sum() > 0:
                            tables = [
                                with_target(x, size, table[x] / table[x].sum()) for x in (a, b)
                            ]
                            worst = max(
                                worst, program(curve, tables[0], tables[1], math.exp(epsilon))
                            )
    return worst


def judge_chain(seed, against):
    rng = np.random.default_rng(seed)
    size, length = [(2, 2), (2, 3), (2, 4), (3, 2), (3, 3)][rng.integers(5)]
    chain = MarkovChain(random_kernel(rng, size), length=length)
    curve, epsilon = random_curve(rng), rng.uniform(0.2, 2)
    value = sweep_delta(curve, chain, epsilon, against)
    exact = worst_adversary(curve, chain, epsilon, against)
    assert value >= exact - 1e-8, (seed, value, exact)
    assert value <= (1.5 if length > 2 else 1.0) * exact + 1e-6, (seed, value, exact)
    # any length is worse than this one
    if np.ptp(np.linalg.matrix_power(chain.transition, 16), axis=0).max() < 1e-6:
        endless = sweep_delta(curve, MarkovChain(chain.transition), epsilon, against)
        assert endless >= exact - 1e-8


def gaussian_profile(mu):
    return lambda e: float(ndtr(mu / 2 - e / mu) - math.exp(e) * ndtr(-mu / 2 - e / mu)) + 1e-16
