"""What any algorithm of a DP level leaks on a tiny network, by linear programs with certificates.

An output of an epsilon-DP algorithm is a likelihood phi > 0 of all records that changes by at most
e^epsilon with each of them. For one attacker and two values of the target, the most it can leak is

    max  c.phi   subject to   d.phi = 1,   phi(y) <= e^epsilon phi(y') for neighbours y, y',

c and d the laws of the unknown records under the two values. Neither end of the answer trusts the
solver: its phi is pulled into the constraints and evaluated, and for its multipliers mu >= 0,
lambda every feasible phi obeys

    c.phi <= lambda + sum_y max(r(y), 0) phi(y),
    r(y) = c(y) - lambda d(y) - sum_y' mu(y, y') + e^epsilon sum_y' mu(y', y),

with phi(y) at most 1 / sum_z d(z) e^{-epsilon |y - z|}, |y - z| the number of differing records.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import Any

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.networks.tally import Ints
from undertow.certificate import Witness
from undertow.models.network import BayesianNetwork
from undertow.numerics import ROUNDOFF, Array, up

__all__ = ["CELLS", "Programme", "programme_bounds"]

CELLS = 27
"""Most combinations of values of a network for which programs are solved (a trio's genotypes)."""


@dataclass(frozen=True, slots=True)
class Programme:
    """Both ends of what a level leaks, and the attack on the largest lower end."""

    lower: float
    upper: float
    witness: Witness | None


def programme_bounds(
    epsilon: float, network: BayesianNetwork, against: Against, attained: float = 0.0
) -> Programme | None:
    """Return both ends of what epsilon-DP algorithms leak, None if the network is too large.

    ``attained`` is a lower end from elsewhere: attackers who cannot do worse are left out.

    >>> coins = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    >>> xor = BayesianNetwork([(0, 2), (1, 2)], {0: [.5, .5], 1: [.5, .5], 2: coins})
    >>> found = programme_bounds(1.0, xor, "any")
    >>> round(found.lower, 9), round(found.upper, 6)
    (2.0, 2.0)
    """
    if network.size**network.length > CELLS or epsilon > 30:
        return None
    joint = network.joint()
    # how far rounding of the joint law can move a log-ratio of two of its sums
    blur = 8.0 * ROUNDOFF * (len(network.nodes) + 2) * (network.size + 4)
    lower, upper, witness = attained, 0.0, None
    for target, known in _adversaries(network.length, against):
        unknown = [r for r in range(network.length) if r not in (target, *known)]
        most = up((1 + len(unknown)) * epsilon)
        if most <= lower:
            upper = max(upper, most)
            continue
        table = np.transpose(joint, [*known, target, *unknown])  # (known ..., target, unknown ...)
        for values in product(range(network.size), repeat=len(known)):
            laws = table[values].reshape(network.size, -1)  # (target, unknown)
            own = laws.sum(axis=1)
            for x, other in permutations(np.flatnonzero(own > 0).tolist(), 2):
                one, two = (_spread(laws[v] / own[v], v, network.size) for v in (x, other))
                least, bound = _solved(one, two, epsilon, network.size, 1 + len(unknown))
                least, bound = least - blur, bound + blur
                upper = max(upper, min(bound, most))
                if least > lower:
                    facts = tuple(
                        (record, network.states[v]) for record, v in zip(known, values, strict=True)
                    )
                    lower = least
                    witness = Witness(
                        target, network.length, facts, network.states[x], network.states[other]
                    )
    return Programme(min(lower, upper), upper, witness)


def _adversaries(length: int, against: Against) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield targets and known records, those with the least known first."""
    if isinstance(against, Adversary):
        yield against.target, against.known
        return
    for number in [0] if against == "ignorant" else range(length):
        for target in range(length):
            others = [record for record in range(length) if record != target]
            for known in combinations(others, number):
                yield target, known


def _spread(law: Array, value: int, states: int) -> Array:
    """Return the law of target and unknown records when the target has one value."""
    whole = np.zeros((states, law.size))
    whole[value] = law
    return whole.ravel()


@lru_cache(maxsize=16)
def _cells(states: int, records: int) -> tuple[Ints, Ints, Ints]:
    """Return the distances between data sets, and the neighbours as two lists of places."""
    cells = np.array(list(product(range(states), repeat=records)))  # (cells, records)
    # (cells, cells): records that differ
    apart = (cells[:, None, :] != cells[None, :, :]).sum(axis=2)
    first, second = np.nonzero(apart == 1)  # neighbours: one record replaced
    return apart, first, second


def _solved(
    one: Array, two: Array, epsilon: float, states: int, records: int
) -> tuple[float, float]:
    """Return certified ends of ln max c.phi / d.phi."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    apart, first, second = _cells(states, records)
    gain, count = math.exp(epsilon), len(first)
    rows = np.arange(count)
    constraints = csr_array(
        (
            np.concatenate([np.ones(count), np.full(count, -gain)]),
            (np.concatenate([rows, rows]), np.concatenate([first, second])),
        ),
        shape=(count, len(one)),
    )
    options: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    problem: dict[str, Any] = {"A_ub": constraints, "b_ub": np.zeros(count)}
    done: Any = linprog(-one, A_eq=two[None], b_eq=[1.0], options=options, **problem)
    if done.status != 0:
        return 0.0, math.inf
    # the largest feasible function below the solver's, (cells,)
    phi = (np.exp(epsilon * apart) * np.maximum(done.x, 1e-300)[None, :]).min(axis=1)
    pad = ROUNDOFF * 8.0 * (len(one) + epsilon * records + 8.0)
    # attained by phi, whatever the solver did
    lower = math.log(float(one @ phi) / float(two @ phi)) - pad
    return lower, _upper(one, two, done, gain, np.exp(-epsilon * apart), first, second)


def _upper(
    one: Array, two: Array, done: Any, gain: float, decay: Array, first: Ints, second: Ints
) -> float:
    """Return the bound that the solver's multipliers prove, whatever their errors."""
    lam = -float(done.eqlin.marginals[0])  # lambda, any real number
    mu = np.maximum(-np.asarray(done.ineqlin.marginals), 0.0)  # (constraints,), mu >= 0
    out, into = np.zeros_like(one), np.zeros_like(one)
    np.add.at(out, first, mu)
    np.add.at(into, second, mu)
    rest = one - lam * two - out + gain * into  # r(y), (cells,)
    size = one + abs(lam) * two + out + gain * into
    rest = rest + ROUNDOFF * 4.0 * (len(one) + 4.0) * size
    most = 1.0 / (decay @ two) * (1 + 1e-12)  # phi(y) <= 1 / sum_z d(z) e^{-epsilon |y - z|}
    bound = lam + float(np.maximum(rest, 0.0) @ most) * (1 + 1e-12)
    return up(math.log(up(bound, 8)), 8) + ROUNDOFF * 8.0
