"""What all algorithms of a DP level can leak on a network.

Replacing one record changes the probability of an output by at most e^epsilon, and so replacing m
records by at most e^{m epsilon}. Records that stay independent of the target given what is known
may be averaged over first; m is the number of those that do not, the target included (Theorem 4.2
of [lange2024]). d-separation finds them: given nothing, a common effect keeps its causes
apart; once it may be known, they depend on each other.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Literal

from undertow.adversaries import Adversary, Against, within
from undertow.bounds.attractive.networks import MOST_RECORDS, Ratios, attractive_leakage
from undertow.bounds.chains.quilt import Bound
from undertow.bounds.graphs import dependent, informed_level, lifted, uncertain_records
from undertow.bounds.networks.counts import Finding, count_finding
from undertow.bounds.networks.laws import VANISHING, rarest
from undertow.bounds.networks.paths import path_leakage, path_of
from undertow.bounds.networks.programs import programme_bounds
from undertow.bounds.networks.quilts import network_quilt
from undertow.bounds.networks.tally import count_tally
from undertow.bounds.trees.leakages import SMALL, tree_leakage
from undertow.certificate import Leakage, Witness, meet
from undertow.errors import NotSupported
from undertow.mechanisms import PureDP
from undertow.models.network import BayesianNetwork
from undertow.numerics import divide_up, down, up

__all__ = ["dependent_records", "level_leakage", "worst"]

QUILTS = 4**5
"""Most ways to know other records for which quilts are tried against all attackers (cost)."""

TRIED = 12
"""Most records for which quilts are tried against one who knows none of them (cost)."""

SOLVABLE = 1e-20
"""Least product of probabilities of a network for which programs are solved: solvers drop smaller
coefficients, and what they then return proves nothing."""

LOWER = 4**8
"""Most cases of a network on which counts are tried for a lower end (cost: a second)."""

PRECISE = 1e-9
"""Relative width of an interval from which another proof is asked: levels near the rounding."""


def level_leakage(epsilon: float, network: BayesianNetwork, against: Against = "any") -> Leakage:
    """Return what an epsilon-DP algorithm can leak about one record of a network.

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
    lower, witness, notes = _counts(epsilon, network, against)
    group = Leakage(
        min(lower, upper), upper, "group", against, witness,
        assumptions=(f"at most {most} records depend on each other, in any way", *notes),
        citation="Theorem 4.2 of [lange2024]",
    )  # fmt: skip
    return _quilted(epsilon, network, _solved(epsilon, network, group))


def _attractive(epsilon: float, network: BayesianNetwork, against: Against) -> Leakage | None:
    """Return the exact leakage if the law of every part in question is attractive."""
    if network.size != 2:
        return None
    if against == "any" and network.dependent_records() > MOST_RECORDS:
        return None

    def exact(part: BayesianNetwork, local: Against) -> Leakage | None:
        made = attractive_leakage(Ratios.level(epsilon), part, local)
        return made and made[0]

    return _by_part(network, against, exact)


def _by_part(
    network: BayesianNetwork, against: Against,
    ask: Callable[[BayesianNetwork, Against], Leakage | None],
) -> Leakage | None:  # fmt: skip
    """Return the worst of what is found about each connected part, None where one is not known."""
    number = {node: record for record, node in enumerate(network.observed)}
    found: dict[object, Leakage] = {}
    for part in network.parts():
        records = [number[node] for node in part.observed]
        if isinstance(against, Adversary) and against.target not in records:
            continue
        if part.shape() in found:  # what is alike leaks alike
            continue
        leak = ask(part, within(against, records))
        if leak is None:
            return None
        witness = leak.witness and lifted(leak.witness, records, network.length)
        found[part.shape()] = replace(leak, against=against, witness=witness)
    return worst([*found.values()])


def worst(found: list[Leakage]) -> Leakage:
    """Return the worst of several leakages about independent parts of the same records."""
    top = max(found, key=lambda leak: (leak.upper, leak.lower))
    shown = max(found, key=lambda leak: leak.lower)
    notes = dict.fromkeys(note for leak in found for note in leak.assumptions)
    return replace(top, lower=shown.lower, witness=shown.witness, assumptions=tuple(notes))


def _tree(epsilon: float, network: BayesianNetwork, against: Against) -> Leakage:
    """Return the bound on a tree, or on several: paths are seen to be chains."""
    components = () if against == "informed" else network.components()
    if not any(_perhaps_path(network, component) for component in components):
        return tree_leakage(epsilon, network, against)
    found = _by_part(network, against, lambda part, local: _one_tree(epsilon, part, local))
    return tree_leakage(epsilon, network, against) if found is None else found


def _perhaps_path(network: BayesianNetwork, component: tuple[int, ...]) -> bool:
    """Return whether a chain's bounds would be better than a tree's, if it is a path.

    Few records of two states are gone through with every known set, and exactly.
    """
    return len(component) > (SMALL if network.size == 2 else 1)


def _one_tree(epsilon: float, network: BayesianNetwork, against: Against) -> Leakage:
    """Return the bound on one tree, by that of the chain where it is a path."""
    path = path_of(network) if _perhaps_path(network, network.places) else None
    if path is None or not path.quick:
        return tree_leakage(epsilon, network, against)
    found = path_leakage(PureDP(epsilon), path, against)
    return found if found.closed else meet(found, tree_leakage(epsilon, network, against))


def _solved(epsilon: float, network: BayesianNetwork, group: Leakage) -> Leakage:
    """Return the answer of linear programs over all algorithms where the network is tiny."""
    if rarest(network) < math.log(SOLVABLE):
        return group
    found = programme_bounds(epsilon, network, group.against, group.lower)
    if found is None:
        return group
    if found.lower > group.lower:
        group = replace(group, lower=min(found.lower, group.upper), witness=found.witness)
    if found.upper >= group.upper:
        return group
    return replace(
        group, upper=found.upper, method="exchange",
        assumptions=(
            "the records follow the stated network",
            "linear programs over all algorithms of the level, for every attacker",
        ),
        citation="docs, theory: networks",
    )  # fmt: skip


def _quilted(epsilon: float, network: BayesianNetwork, found: Leakage) -> Leakage:
    """Return the bound of the best quilts where it is smaller and quickly found."""
    against = found.against
    quick = {"any": (network.size + 1) ** (network.length - 1) <= QUILTS,
             "ignorant": network.length <= TRIED}  # fmt: skip
    if not isinstance(against, str) or not quick.get(against) or found.closed:
        return found
    if rarest(network) < VANISHING:
        return found
    form: Literal["any", "ignorant"] = "any" if against == "any" else "ignorant"
    # |N| epsilon + e(Q | i), the least
    quilt = up(network_quilt(network, form, Bound(epsilon)).value)
    if quilt >= found.upper:
        return found
    return replace(
        found, upper=quilt, method="quilt", citation="Theorem 4.4 of [wang2016]",
        assumptions=("the records follow the stated network", "exact max-influences"),
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
    amount, witness = informed_level(network, epsilon)
    return Leakage(
        0.0 if witness is None else down(amount), amount, "informed", "informed", witness,
        assumptions=("the algorithm is epsilon-DP, and all other records are known",),
        citation="definition of differential privacy",
    )  # fmt: skip


def _counts(
    epsilon: float, network: BayesianNetwork, against: Against
) -> tuple[float, Witness | None, tuple[str, ...]]:
    """Return the most that a noisy count of this level leaks, with its attack and its states."""
    if against == "any" and (network.size + 1) ** network.length > LOWER:
        return 0.0, None, ()
    best: tuple[Finding, Witness, tuple[object, ...]] | None = None
    # a count and the count of all other states leak the same: leave the last state out
    for number in range(1, network.size):
        for counted in combinations(range(network.size - 1), number):
            tally = count_tally([s in counted for s in range(network.size)], network.length)
            try:
                found = count_finding(network, tally, epsilon, against)
            except NotSupported:
                continue
            if found is not None and (best is None or found.value > best[0].value):
                names = tuple(network.states[state] for state in counted)
                best = found, found.witness(network, tally), names
    if best is None:
        return 0.0, None, ()
    found, witness, names = best
    shown = ", ".join(map(repr, names))
    note = f"the lower end is attained by a count of {shown} with Laplace noise of scale 1/epsilon"
    return max(down(found.value - found.pad), 0.0), replace(witness, sets=()), (note,)
