"""Brute force for laws with a longer memory: two symbols, a joint table with an axis per record.

Everything here follows from the definition of leakage, the largest ln Pr[output | x_i, x_K] /
Pr[output | x'_i, x_K] over targets i, known sets K, values x_K and outputs.
A record other than the target is either known, with one of its values, or shown, with one of its
outputs: a *view*. A view weighs each value of the record, once with outputs (``seen``) and once
without (``plain``: 1 where the value is possible given what is known). Summing the joint table
against all views of all records gives every adversary and every output in one array with an axis of
views per record, so n = 10 takes a second. `naive_flips` is the same in plain loops.

A direction is 1v0 ("up", how much likelier an output is under 1) or 0v1 ("down").
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.oracles.enumeration import log
from tests.oracles.exact import stationary
from undertow.adversaries import Adversary

Floats = npt.NDArray[np.float64]
Both = tuple[float, float]
"""A leakage by direction: (1v0, 0v1)."""

KNOWN = np.eye(2)  # the two views of a known record: (view, value)


# --- laws -----------------------------------------------------------------------------------------


def tensor(ones: Any) -> Floats:
    """Pr[z | x, y], shape (2, 2, 2), from Pr[1 | 00], Pr[1 | 01], Pr[1 | 10], Pr[1 | 11]."""
    table = np.asarray(ones, dtype=float).reshape(2, 2)
    return np.stack([1 - table, table], axis=2)


def swapped(transition: Floats) -> Floats:
    """The same law with the names of the two symbols exchanged."""
    return np.asarray(transition)[::-1, ::-1, ::-1]


def pair_matrix(transition: Floats) -> Floats:
    """The kernel of the pairs (x_{t-1}, x_t), state x k + y, of a chain of order two."""
    size = len(transition)
    matrix = np.zeros((size,) * 4)
    for x, y, z in itertools.product(range(size), repeat=3):
        matrix[x, y, y, z] = transition[x][y][z]
    return matrix.reshape(size**2, size**2)


def order_two(transition: Any, n: int, number: Callable[[float], Any] = float) -> Any:
    """The joint law of n records of a stationary chain of order two, shape (k,) * n.

    The stationary law of the pairs is solved in fractions from rows that are made to sum to 1
    exactly; ``number=Fraction`` keeps the whole table exact.
    """
    rows = np.asarray(transition, dtype=object)
    size = len(rows)
    exact = np.empty((size,) * 3, dtype=object)
    for x, y in itertools.product(range(size), repeat=2):
        law = [Fraction(mass) for mass in rows[x][y]]
        exact[x, y] = [mass / sum(law) for mass in law]
    matrix = [[Fraction(0)] * size**2 for _ in range(size**2)]
    for x, y, z in itertools.product(range(size), repeat=3):
        matrix[x * size + y][y * size + z] = exact[x, y, z]
    table = np.array(stationary(matrix), dtype=object).reshape(size, size)
    if number is float:
        table, exact = table.astype(float), exact.astype(float)
    for _ in range(n - 2):
        table = table[..., None] * exact
    return table


def hidden_law(transition: Any, symbols: Sequence[int], n: int) -> Floats:
    """The joint law of the n symbols of a stationary hidden chain, shape (k,) * n."""
    kernel = np.asarray(transition, dtype=float)
    pi = perron(kernel.T)
    pi = pi / pi.sum()
    emits = np.eye(max(symbols) + 1)[list(symbols)]  # (state, symbol)
    table = pi[:, None] * emits  # (state, symbol)
    table = table.T  # (x_1, state)
    for _ in range(n - 1):
        table = np.einsum("...s,st,tx->...xt", table, kernel, emits)
    return np.asarray(table.sum(axis=-1))


def perron(matrix: Floats) -> Floats:
    """The positive eigenvector of the largest eigenvalue, from all eigenvectors, sum 1."""
    values, vectors = np.linalg.eig(matrix)
    vector = np.real(vectors[:, int(np.argmax(np.real(values)))])
    return np.asarray(vector / vector.sum())


# --- all adversaries at once ----------------------------------------------------------------------


def views(
    joint: Floats, target: int, seen: Floats, plain: Floats, known: Sequence[int] | None = None
) -> tuple[Floats, Floats]:
    """Sums over the other records: (target value, view of each other record), seen and plain.

    ``seen`` and ``plain``, shape (views, values), weigh an unknown record. ``known`` fixes which
    records are known; None leaves each of the others either way, known views first.
    """
    tables = []
    for weights in (seen, plain):
        table = np.moveaxis(joint, target, 0)
        for record in (r for r in range(joint.ndim) if r != target):
            if known is None:
                options = np.concatenate([KNOWN, weights])  # (view, value)
            else:
                options = KNOWN if record in known else weights
            # sums out axis 1, the next record, and appends its axis of views
            table = np.tensordot(table, options, axes=([1], [1]))
        tables.append(table)
    return tables[0], tables[1]


def log_ratios(seen: Floats, plain: Floats) -> Floats:
    """ln Pr[views | 1] / Pr[views | 0] for all of them; nan where what is known cannot be."""
    with np.errstate(divide="ignore", invalid="ignore"):
        conditional = np.log(seen) - np.log(plain)
        found = conditional[1] - conditional[0]
    found[(plain[0] <= 0) | (plain[1] <= 0)] = math.nan
    return np.asarray(found)


def _most(values: Floats) -> float:
    """The largest value that is no nan; -inf where there is none."""
    return float(np.where(np.isnan(values), -math.inf, values).max())


def _who(n: int, against: Any) -> Iterator[tuple[int, tuple[int, ...] | None]]:
    """The targets, each with its known records, or None for all sets of them."""
    if isinstance(against, Adversary):
        yield against.target, tuple(against.known)
        return
    for target in range(n):
        rest = tuple(r for r in range(n) if r != target)
        yield target, {"any": None, "ignorant": (), "informed": rest}[against]


def flips(joint: Floats, rho0: float, rho1: float, against: Any = "any") -> Both:
    """The leakage of flips, 0 with probability rho0 and 1 with rho1, over all outputs."""
    channel = np.array([[1 - rho0, rho1], [rho0, 1 - rho1]])  # (output, value)
    own = np.log(channel[:, 1] / channel[:, 0])
    up = down = 0.0
    for target, known in _who(joint.ndim, against):
        ratios = log_ratios(*views(joint, target, channel, np.ones((2, 2)), known))
        up = max(up, _most(ratios) + float(own.max()))
        down = max(down, _most(-ratios) - float(own.min()))
    return up, down


def naive_flips(joint: Floats, rho0: float, rho1: float) -> Both:
    """The same as `flips` against any, in loops over everything: for n <= 4."""
    n = joint.ndim
    channel = {(0, 0): 1 - rho0, (0, 1): rho0, (1, 0): rho1, (1, 1): 1 - rho1}  # (value, output)
    points = list(itertools.product(range(2), repeat=n))
    best = {(1, 0): 0.0, (0, 1): 0.0}
    for i, output in itertools.product(range(n), points):
        for size in range(n):
            for known in itertools.combinations([r for r in range(n) if r != i], size):
                for facts in itertools.product(range(2), repeat=size):
                    sums = []
                    for value in range(2):
                        fits = [
                            x
                            for x in points
                            if x[i] == value
                            and all(x[r] == v for r, v in zip(known, facts, strict=True))
                        ]
                        total = math.fsum(joint[x] for x in fits)
                        hit = math.fsum(
                            joint[x] * math.prod(channel[x[r], output[r]] for r in range(n))
                            for x in fits
                        )
                        sums.append(hit / total if total > 0 else math.nan)
                    for x, y in best:
                        if not (math.isnan(sums[0]) or math.isnan(sums[1])):
                            best[x, y] = max(best[x, y], math.log(sums[x] / sums[y]))
    return best[1, 0], best[0, 1]


def tilted(joint: Floats, theta: float, against: Any = "any") -> Both:
    """The theorem's value: theta + ln E[F | 1, x_K] / E[F | 0, x_K], F = exp(theta sum x_t).

    The sum is over unknown records; 0v1 tilts towards 0. It is the largest leakage of PureDP(theta)
    if the law is attractive, and always that of the far answers of a count + Laplace(1 / theta).
    """
    up = down = 0.0
    for target, known in _who(joint.ndim, against):
        for sign in (1, -1):
            tilt = np.exp(theta * np.array([[0.0, 1.0]]) * sign)  # (one view, value)
            ratios = log_ratios(*views(joint, target, tilt, np.ones((1, 2)), known))
            if sign > 0:
                up = max(up, theta + _most(ratios))
            else:
                down = max(down, theta + _most(-ratios))
    return up, down


def noisy_count(joint: Floats, scale: float, against: Any = "any") -> Both:
    """The leakage of the number of ones plus Laplace noise, over all real outputs.

    Known records shift the answer and the outputs alike, so only the target and the unknown
    records are counted: C given x_i = v has a law p_v on 0..m. With r = e^{-1/scale} the evidence
    for an output s is g_v(s) = sum_c p_v(c) r^|s - c|. For s in [j, j + 1] between neighbouring
    integers r^|s - c| is r^{s - c} for c <= j and r^{c - s} for c > j, so that
    g_v(s) = A_v r^s + B_v r^-s with A_v, B_v >= 0 that do not depend on s, and
    g_1 / g_0 = (A_1 u + B_1) / (A_0 u + B_0) with u = r^{2s}: a Moebius function without a pole on
    u > 0, hence monotone in u and so in s. Its largest and least values on [j, j + 1] are at the
    ends. For s <= 0 only B, for s >= m only A is there: beyond the integers 0 and m the ratio is
    constant. So the integers 0..m are all outputs that matter; 0 and m are the far answers.
    """
    n = joint.ndim
    worst = [0.0, 0.0]
    for target, known in _who(n, against):
        table = np.moveaxis(joint, target, 0)[..., None] * (np.arange(n + 1) == 0)
        for record in (r for r in range(n) if r != target):
            # axes: (target, next record, ..., views of earlier records, count)
            zero, one = table[:, 0], np.asarray(table[:, 1])
            both = zero + np.roll(one, 1, axis=-1)  # unknown: a one moves the count
            options = (
                [zero, one, both] if known is None else [zero, one] if record in known else [both]
            )
            table = np.stack(options, axis=-2)
        table = np.stack([table[0], np.roll(table[1], 1, axis=-1)])  # the target is counted too
        plain = table.sum(axis=-1)
        outputs = np.arange(n + 1)
        noise = np.exp(-np.abs(outputs[:, None] - outputs) / scale)  # (count, output)
        ratios = log_ratios(table @ noise, plain[..., None] * np.ones(n + 1))
        worst[0] = max(worst[0], _most(ratios))
        worst[1] = max(worst[1], _most(-ratios))
    return worst[0], worst[1]


# --- all likelihoods: linear programming ----------------------------------------------------------


def conditional(joint: Floats, target: int, facts: dict[int, int]) -> Floats:
    """Pr[unknown records | target, known], shape (2, 2^u); nan rows where it is impossible."""
    table = joint[tuple(facts.get(r, slice(None)) for r in range(joint.ndim))]
    place = target - sum(r < target for r in facts)
    rows = np.moveaxis(table, place, 0).reshape(joint.shape[target], -1)
    with np.errstate(invalid="ignore"):
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def _neighbours(records: int, states: int = 2) -> list[tuple[int, int]]:
    """Ordered pairs of points of the cube that differ in one record."""
    points = list(itertools.product(range(states), repeat=records))
    place = {point: index for index, point in enumerate(points)}
    return [
        (place[point], place[(*point[:r], value, *point[r + 1 :])])
        for point in points
        for r in range(records)
        for value in range(states)
        if value != point[r]
    ]


@lru_cache(maxsize=32)
def _cone(epsilon: float, records: int, states: int) -> tuple[Any, Floats]:
    """The rows f(x) - e^epsilon f(x') of all neighbours, and e^{-epsilon d(x, x')} of all pairs."""
    from scipy.sparse import csr_array

    pairs = _neighbours(records, states)
    rows = np.arange(len(pairs))
    left, right = np.array(pairs).T
    matrix = csr_array(
        (
            np.concatenate([np.ones(len(pairs)), np.full(len(pairs), -math.exp(epsilon))]),
            (np.concatenate([rows, rows]), np.concatenate([left, right])),
        ),
        shape=(len(pairs), states**records),
    )
    points = np.array(list(itertools.product(range(states), repeat=records)))
    apart = (points[:, None] != points[None]).sum(axis=2)  # Hamming distances
    return matrix, np.exp(-epsilon * apart)


def all_likelihoods(
    top: Floats, bottom: Floats, epsilon: float, records: int, states: int = 2
) -> float:
    """max ln E_top f / E_bottom f over f > 0 with f(x) <= e^epsilon f(x') for neighbours x, x'.

    Charnes and Cooper: scale f to E_bottom f = 1 and maximise the linear E_top f. The solution is
    then made to obey every constraint exactly, f(x) <- max over x' of f(x') e^{-epsilon d(x, x')},
    and its ratio is returned: attained up to rounding, and no further below the optimum than the
    solver's tolerance.
    """
    from scipy.optimize import linprog

    if records == 0:
        return 0.0
    matrix, decay = _cone(epsilon, records, states)
    found = linprog(
        -top, A_ub=matrix, b_ub=np.zeros(matrix.shape[0]), A_eq=bottom[None], b_eq=[1.0],
        bounds=(0, None), method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    if found.x is None:
        raise ArithmeticError(found.message)
    likelihood = (found.x[None] * decay).max(axis=1)
    return float(np.log(top @ likelihood) - np.log(bottom @ likelihood))


def pure_dp(joint: Floats, epsilon: float, target: int, facts: dict[int, int]) -> Both:
    """The leakage of PureDP(epsilon) for one adversary, over all likelihoods: (1v0, 0v1).

    Pointwise f(1, .) <= e^epsilon f(0, .), with equality possible: the target adds epsilon.
    """
    laws = conditional(joint, target, facts)
    if np.isnan(laws).any():
        return -math.inf, -math.inf
    records = joint.ndim - 1 - len(facts)
    up = all_likelihoods(laws[1], laws[0], epsilon, records)
    down = all_likelihoods(laws[0], laws[1], epsilon, records)
    return epsilon + up, epsilon + down


def adversaries(
    n: int, against: Any = "any", states: int = 2
) -> Iterator[tuple[int, dict[int, int]]]:
    """Every target with every known set and all of its values."""
    for target, only in _who(n, against):
        others = [r for r in range(n) if r != target]
        sets = [only] if only is not None else [
            known for size in range(n) for known in itertools.combinations(others, size)
        ]  # fmt: skip
        for known in sets:
            for values in itertools.product(range(states), repeat=len(known)):
                yield target, dict(zip(known, values, strict=True))


def pure_dp_all(joint: Floats, epsilon: float, against: Any = "any") -> Both:
    """The leakage of PureDP(epsilon) over all adversaries and all likelihoods: for n <= 5."""
    found = [pure_dp(joint, epsilon, *who) for who in adversaries(joint.ndim, against)]
    return max(0.0, *(up for up, _ in found)), max(0.0, *(down for _, down in found))


# --- attractive laws ------------------------------------------------------------------------------


def second_differences(joint: Any, first: int, second: int) -> list[tuple[Any, Any]]:
    """(p(11..) p(00..), p(10..) p(01..)) for two records, in all contexts of the others."""
    table = np.moveaxis(np.asarray(joint), (first, second), (0, 1)).reshape(2, 2, -1)
    return list(zip(table[1, 1] * table[0, 0], table[1, 0] * table[0, 1], strict=True))


def attractive(joint: Any) -> bool:
    """Whether a law is log-supermodular: every second difference of ln p is at least 0.

    Exact for a table of fractions: at lags beyond the memory the differences are exactly 0, which
    floats cannot tell.
    """
    pairs = itertools.combinations(range(np.ndim(joint)), 2)
    return all(a >= b for pair in pairs for a, b in second_differences(joint, *pair))


def lag_differences(transition: Any, lag: int, number: Any = Fraction) -> list[float]:
    """The second differences of ln p at a lag of 1 or 2 in a positive chain of order two.

    Read off the joint table of seven records, exact unless told, pairs (2, 3) and (2, 4): two
    records beyond each of them, so that every factor that involves both is there.
    """
    joint = order_two(transition, 7, number)
    return [log(a) - log(b) for a, b in second_differences(joint, 2, 2 + lag)]


def margin(transition: Any, number: Any = Fraction) -> float:
    """The least second difference at lags 1 and 2 of a positive chain of order two."""
    return min(value for lag in (1, 2) for value in lag_differences(transition, lag, number))


def alternating_margin(transition: Any, number: Any = Fraction) -> float:
    """The margin after every second record is relabelled: odd lags change their sign."""
    odd = [-value for value in lag_differences(transition, 1, number)]
    return min(odd + lag_differences(transition, 2, number))


def relabelled(joint: Any) -> Any:
    """The same law with the two symbols of every second record exchanged."""
    return np.flip(joint, axis=tuple(range(1, np.ndim(joint), 2)))


# --- closed forms ---------------------------------------------------------------------------------


def ignorant_limit(transition: Any, symbols: Sequence[int], theta: float) -> float:
    """Against ignorant, 1v0, any length, of an attractive hidden chain, by all eigenvectors.

    theta + ln (sum_{e=1} pi l r / sum_{e=0} pi l r) - ln pi(1) / pi(0), with r and l the Perron
    vectors of T D and Tr D, Tr the reversal of T and D = exp(theta e).
    """
    kernel = np.asarray(transition, dtype=float)
    one = np.asarray(symbols) == 1
    pi = perron(kernel.T)
    back = kernel.T * pi[None, :] / pi[:, None]  # (s, s'): pi(s') T(s', s) / pi(s)
    tilt = np.exp(theta * one)
    weight = pi * perron(back * tilt) * perron(kernel * tilt)
    inner = math.log(weight[one].sum() / weight[~one].sum())
    return theta + inner - math.log(pi[one].sum() / pi[~one].sum())
