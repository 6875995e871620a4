"""Leakage of all algorithms of a DP level on a network.

At most m epsilon for m records that depend on each other (Theorem 4.2 of [lange2024]), counted by
d-separation; chains, trees, attractive laws, quilts and linear programs give less where they apply
(docs, theory: networks).
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import Any, Literal

import numpy as np

from undertow.adversaries import Adversary, Against, every_adversary, within
from undertow.bounds.channels.quilts import Bound
from undertow.bounds.graphs import dependent, informed_level, lifted, uncertain_records
from undertow.bounds.levels.chains import leakage as chain_leakage
from undertow.bounds.memory.attractive_networks import MOST_RECORDS, Ratios, attractive_leakage
from undertow.bounds.networks.counts import (
    VANISHING,
    CaseLoss,
    Ints,
    count_loss,
    count_tally,
    rarest,
)
from undertow.bounds.networks.quilts import network_quilt
from undertow.bounds.trees.leakages import SMALL, tree_leakage
from undertow.certificate import Leakage, Witness, meet
from undertow.errors import InvalidModel, NotSupported
from undertow.mechanisms import Levelled, PureDP
from undertow.models.chains import MarkovChain
from undertow.models.networks import BayesianNetwork
from undertow.numerics import ROUNDOFF, Array, divide_up, down, up

__all__ = [
    "CELLS",
    "Path",
    "Programme",
    "dependent_records",
    "distinct_parts",
    "level_leakage",
    "path_leakage",
    "path_of",
    "programme_bounds",
    "worst",
]


FOLLOWS = "the records follow the stated network"

FAINT = 1e-250
"""Least probability of a value on a reversed arm (either side): below, products may underflow."""

SWEEPS = 8_000
"""Most records times k^3 of a path of more than two states whose tables differ (cost: some
seconds); longer ones are left to the bound for trees."""


@dataclass(frozen=True, slots=True)
class Path:
    """A network as a chain: record t of the chain is record ``records[t]`` of the network.

    ``error`` bounds how far a leakage of the chain can be from that of the network.
    """

    chain: MarkovChain
    records: tuple[int, ...]
    error: float

    @property
    def quick(self) -> bool:
        """Whether the bounds for chains take seconds."""
        size, length = self.chain.size, len(self.records)
        return self.chain.homogeneous or size == 2 or length * size**3 <= SWEEPS


def path_of(network: BayesianNetwork) -> Path | None:
    """Return the chain of a network whose records lie on a path, None for any other network.

    Nodes may stand in any order, and the root anywhere. Cost O(n k^2).

    >>> kernel = [[.9, .1], [.2, .8]]
    >>> tables = {"b": [.5, .5], "a": kernel, "c": kernel}
    >>> network = BayesianNetwork([("b", "c"), ("b", "a")], tables)
    >>> [network.observed[record] for record in path_of(network).records]
    ['c', 'b', 'a']
    """
    arms = _arms(network)
    if arms is None:
        return None
    root, short, long = arms
    law, kernels = network.tables[root], []
    for place in short:  # outwards, each step read backwards
        kernel = network.tables[place]
        joint = law[:, None] * kernel  # (value near the root, value farther out)
        if (joint[(law[:, None] > 0) & (kernel > 0)] < FAINT).any():
            return None
        law = joint.sum(axis=0) / joint.sum()
        with np.errstate(invalid="ignore"):
            back = joint.T / law[:, None]
        # from a value that cannot occur to any other
        kernels.append(np.where(law[:, None] > 0, back, 1.0 / len(law)))
    kernels = kernels[::-1] + [network.tables[place] for place in long]
    alike = not short and all(np.array_equal(kernel, kernels[0]) for kernel in kernels)
    length = len(kernels) + 1
    try:
        chain = MarkovChain(
            kernels[0] if alike else np.array(kernels), network.states, start=law, length=length
        )
    except InvalidModel:  # steps too rare for a chain: the network is solved as it is
        return None
    # joint, quotient, and the sum of a row by which it is divided again
    error = 4.0 * len(short) * (3.0 * network.size + 10.0) * ROUNDOFF
    places = [*short[::-1], root, *long]
    number = {place: record for record, place in enumerate(network.places)}
    return Path(chain, tuple(number[place] for place in places), error)


def _arms(network: BayesianNetwork) -> tuple[int, list[int], list[int]] | None:
    """Return the root of a path and its two arms, the shorter first; None where it is no path."""
    if network.latent or not network.is_tree or network.length < 2:
        return None
    children: list[list[int]] = [[] for _ in network.nodes]
    roots: list[int] = []
    for place, above in enumerate(network.parents):
        (children[above[0]] if above else roots).append(place)
    forks = [place for place, below in enumerate(children) if len(below) > 1]
    if len(roots) > 1 or forks not in ([], roots) or len(children[roots[0]]) > 2:
        return None
    arms: list[list[int]] = []
    for place in children[roots[0]]:
        arm = [place]
        while children[arm[-1]]:
            arm.append(children[arm[-1]][0])
        arms.append(arm)
    short, long = sorted([*arms, []][:2], key=len)
    return roots[0], short, long


def path_leakage(mechanism: Levelled, path: Path, against: Against) -> Leakage:
    """Compute the leakage on a path, by the bounds for chains, in the network's numbers.

    >>> from undertow.mechanisms import PureDP
    >>> kernel = [[.882, .118], [.305, .695]]
    >>> tree = BayesianNetwork([(0, 1), (1, 2)], {0: [.721, .279], 1: kernel, 2: kernel})
    >>> round(path_leakage(PureDP(1.0), path_of(tree), "ignorant").upper, 6)
    2.202411
    """
    leakage = chain_leakage(mechanism, path.chain, within(against, path.records))
    witness = leakage.witness and lifted(leakage.witness, path.records, len(path.records))
    lower, upper = leakage.lower, leakage.upper
    if path.error:
        lower, upper = max(down(lower - path.error), 0.0), up(upper + path.error)
    return replace(
        leakage, lower=lower, upper=upper, against=against, witness=witness,
        assumptions=(FOLLOWS, "which is a path, and so a Markov chain", *leakage.assumptions[1:]),
    )  # fmt: skip


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
    """Solve linear programs for both ends of a level's leakage, None if there are too many.

    ``attained`` is a lower end from elsewhere: attackers who cannot do worse are left out.

    >>> coins = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    >>> xor = BayesianNetwork([(0, 2), (1, 2)], {0: [.5, .5], 1: [.5, .5], 2: coins})
    >>> bounds = programme_bounds(1.0, xor, "any")
    >>> round(bounds.lower, 9), round(bounds.upper, 6)
    (2.0, 2.0)
    """
    if network.size**network.length > CELLS or epsilon > 30:
        return None
    joint = network.joint()
    # how far rounding of the joint law can move a log-ratio of two of its sums
    blur = 8.0 * ROUNDOFF * (len(network.nodes) + 2) * (network.size + 4)
    lower, upper, witness = attained, 0.0, None
    for adversary in every_adversary(against, network.length):
        target, known = adversary.target, adversary.known
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
                least, bound = _optimum(one, two, epsilon, network.size, 1 + len(unknown))
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


def _optimum(
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


QUILT_CASES = 4**5
"""Most ways to know other records for which quilts are tried against all attackers (cost)."""

QUILT_RECORDS = 12
"""Most records for which quilts are tried against one who knows none of them (cost)."""

SOLVABLE = 1e-20
"""Least product of probabilities of a network for which programs are solved: solvers drop smaller
coefficients, and what they then return proves nothing."""

COUNT_CASES = 4**8
"""Most cases of a network on which counts are tried for a lower end (cost: a second)."""

PRECISE = 1e-9
"""Relative width of an interval from which another proof is asked: levels near the rounding."""


def level_leakage(epsilon: float, network: BayesianNetwork, against: Against = "any") -> Leakage:
    """Compute the leakage of all epsilon-DP algorithms about one record of a network.

    On paths that of the chain that they are, on other trees the bound of `tree_leakage`; elsewhere
    the least of m epsilon, m the number of records that depend on each other, the bound of the best
    quilts, and, on tiny networks, the optimum of linear programs over all algorithms. The lower end
    is what a noisy count of the same level leaks, where the network is small. Where the law is
    attractive, of two states, both ends are those of the theorem (`bounds.attractive.networks`).

    >>> coins = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    >>> xor = BayesianNetwork([(0, 2), (1, 2)], {0: [.5, .5], 1: [.5, .5], 2: coins})
    >>> leak = level_leakage(0.5, xor)
    >>> round(leak.upper, 6), dependent_records(xor, "any")
    (1.0, 3)
    """
    if network.is_tree and len({table.shape[-1] for table in network.tables}) == 1:
        known = _attractive(epsilon, network, against) if against == "any" else None
        if known is not None and known.upper - known.lower <= PRECISE * known.upper:
            return known
        with suppress(NotSupported):  # values too rare for it
            return _tree(epsilon, network, against)
    if against == "informed":
        return _informed(epsilon, network)
    if not uncertain_records(network):
        return Leakage(
            0.0, 0.0, "exact", against, assumptions=("every record is certain under the network",),
            citation="docs, theory: networks",
        )  # fmt: skip
    most = dependent_records(network, against)
    # m epsilon, Theorem 4.2 of [lange2024]
    upper = divide_up(Fraction(most) * Fraction(epsilon), 1.0)
    known = _attractive(epsilon, network, against)
    if known is not None:
        lower = min(known.lower, upper)
        return replace(known, lower=lower, upper=min(known.upper, upper))
    lower, witness, notes = _count_attack(epsilon, network, against)
    group = Leakage(
        min(lower, upper), upper, "group", against, witness,
        assumptions=(f"at most {most} records depend on each other, in any way", *notes),
        citation="Theorem 4.2 of [lange2024]",
    )  # fmt: skip
    return _best_of_quilts(epsilon, network, _best_of_programmes(epsilon, network, group))


def _attractive(epsilon: float, network: BayesianNetwork, against: Against) -> Leakage | None:
    """Return the exact leakage if the law of every part in question is attractive."""
    if network.size != 2:
        return None
    if against == "any" and network.dependent_records() > MOST_RECORDS:
        return None

    def exact(part: BayesianNetwork, local: Against) -> Leakage | None:
        leakage = attractive_leakage(Ratios.level(epsilon), part, local)
        return leakage and leakage[0]

    return _by_part(network, against, exact)


def _by_part(
    network: BayesianNetwork, against: Against,
    bound: Callable[[BayesianNetwork, Against], Leakage | None],
) -> Leakage | None:  # fmt: skip
    """Return the worst leakage over the connected parts, None if one has none."""
    leaks: list[Leakage] = []
    for part, records in distinct_parts(network, against):
        leak = bound(part, within(against, records))
        if leak is None:
            return None
        witness = leak.witness and lifted(leak.witness, records, network.length)
        leaks.append(replace(leak, against=against, witness=witness))
    return worst(leaks)


def distinct_parts(
    network: BayesianNetwork, against: Against
) -> list[tuple[BayesianNetwork, list[int]]]:
    """Return the connected components in question, one of each shape, and their records' numbers.

    Components of one shape leak alike. An explicit adversary asks for the target's alone.

    >>> twins = BayesianNetwork([], {"a": [.9, .1], "b": [.9, .1]})
    >>> [records for _, records in distinct_parts(twins, "any")]
    [[0]]
    """
    number = {node: record for record, node in enumerate(network.observed)}
    alike: dict[object, tuple[BayesianNetwork, list[int]]] = {}
    for part in network.parts():
        records = [number[node] for node in part.observed]
        if not isinstance(against, Adversary) or against.target in records:
            alike.setdefault(part.shape(), (part, records))
    return [*alike.values()]


def worst(leaks: list[Leakage]) -> Leakage:
    """Return the worst of several leakages about independent parts of the same records."""
    top = max(leaks, key=lambda leak: (leak.upper, leak.lower))
    shown = max(leaks, key=lambda leak: leak.lower)
    notes = dict.fromkeys(note for leak in leaks for note in leak.assumptions)
    return replace(top, lower=shown.lower, witness=shown.witness, assumptions=tuple(notes))


def _tree(epsilon: float, network: BayesianNetwork, against: Against) -> Leakage:
    """Return the bound on a tree, or on several: paths are seen to be chains."""
    components = () if against == "informed" else network.components()
    if not any(_worth_a_path(network, component) for component in components):
        return tree_leakage(epsilon, network, against)
    leak = _by_part(network, against, lambda part, local: _one_tree(epsilon, part, local))
    return tree_leakage(epsilon, network, against) if leak is None else leak


def _worth_a_path(network: BayesianNetwork, component: tuple[int, ...]) -> bool:
    """Return whether a chain's bounds would be better than a tree's, if it is a path.

    Few records of two states are gone through with every known set, and exactly.
    """
    return len(component) > (SMALL if network.size == 2 else 1)


def _one_tree(epsilon: float, network: BayesianNetwork, against: Against) -> Leakage:
    """Return the bound on one tree, by that of the chain where it is a path."""
    path = path_of(network) if _worth_a_path(network, network.places) else None
    if path is None or not path.quick:
        return tree_leakage(epsilon, network, against)
    leakage = path_leakage(PureDP(epsilon), path, against)
    return leakage if leakage.closed else meet(leakage, tree_leakage(epsilon, network, against))


def _best_of_programmes(epsilon: float, network: BayesianNetwork, group: Leakage) -> Leakage:
    """Return the answer of linear programs over all algorithms where the network is tiny."""
    if rarest(network) < math.log(SOLVABLE):
        return group
    bounds = programme_bounds(epsilon, network, group.against, group.lower)
    if bounds is None:
        return group
    if bounds.lower > group.lower:
        group = replace(group, lower=min(bounds.lower, group.upper), witness=bounds.witness)
    if bounds.upper >= group.upper:
        return group
    return replace(
        group, upper=bounds.upper, method="exchange",
        assumptions=(
            FOLLOWS,
            "linear programs over all algorithms of the level, for every attacker",
        ),
        citation="docs, theory: networks",
    )  # fmt: skip


def _best_of_quilts(epsilon: float, network: BayesianNetwork, group: Leakage) -> Leakage:
    """Return the bound of the best quilts where it is smaller and quickly found."""
    against = group.against
    quick = {"any": (network.size + 1) ** (network.length - 1) <= QUILT_CASES,
             "ignorant": network.length <= QUILT_RECORDS}  # fmt: skip
    if not isinstance(against, str) or not quick.get(against) or group.closed:
        return group
    if rarest(network) < VANISHING:
        return group
    form: Literal["any", "ignorant"] = "any" if against == "any" else "ignorant"
    # |N| epsilon + e(Q | i), the least
    quilt = up(network_quilt(network, form, Bound(epsilon)).value)
    if quilt >= group.upper:
        return group
    return replace(
        group, upper=quilt, method="quilt", citation="Theorem 4.4 of [wang2016]",
        assumptions=(FOLLOWS, "exact max-influences"),
    )  # fmt: skip


def dependent_records(network: BayesianNetwork, against: Against) -> int:
    """Return how many unknown records can depend on a target, the target included.

    >>> pair = BayesianNetwork([], {0: [.5, .5], 1: [.5, .5]})
    >>> dependent_records(pair, "any")
    1
    """
    places, records = network.places, {*network.places}
    if against == "any":
        return network.dependent_records()
    if isinstance(against, Adversary):
        known = {places[record] for record in against.known}
        return 1 + len(dependent(network, places[against.target], known) & records)
    return 1 + max(len(dependent(network, place, ()) & records) for place in places)


def _informed(epsilon: float, network: BayesianNetwork) -> Leakage:
    """Return the leakage to an attacker who knows all other records."""
    amount, witness = informed_level(network, epsilon)
    return Leakage(
        0.0 if witness is None else down(amount), amount, "informed", "informed", witness,
        assumptions=("the algorithm is epsilon-DP, and all other records are known",),
        citation="definition of differential privacy",
    )  # fmt: skip


def _count_attack(
    epsilon: float, network: BayesianNetwork, against: Against
) -> tuple[float, Witness | None, tuple[str, ...]]:
    """Return the most that a noisy count of this level leaks, with its attack and its states."""
    if against == "any" and (network.size + 1) ** network.length > COUNT_CASES:
        return 0.0, None, ()
    best: tuple[CaseLoss, Witness, tuple[object, ...]] | None = None
    # a count and the count of all other states leak the same: leave the last state out
    for number in range(1, network.size):
        for counted in combinations(range(network.size - 1), number):
            tally = count_tally([s in counted for s in range(network.size)], network.length)
            try:
                finding = count_loss(network, tally, epsilon, against)
            except NotSupported:
                continue
            if finding is not None and (best is None or finding.value > best[0].value):
                names = tuple(network.states[state] for state in counted)
                best = finding, finding.witness(network, tally), names
    if best is None:
        return 0.0, None, ()
    finding, witness, names = best
    shown = ", ".join(map(repr, names))
    note = f"the lower end is attained by a count of {shown} with Laplace noise of scale 1/epsilon"
    return max(down(finding.value - finding.pad), 0.0), replace(witness, sets=()), (note,)
