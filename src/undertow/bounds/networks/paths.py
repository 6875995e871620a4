"""Networks that are Markov chains: trees without a fork, whose records lie on a path.

A path is read from one of its ends. Tables that point along it are the steps of a chain. Those
that point the other way, where the root lies inside, are reversed by Bayes,

    B(y, x) = l(x) K(x, y) / l'(y),     l' = l K up to rounding,

and whatever positive numbers stand for l and l', they cancel along the path: the law of all
records is kept but for the rounding of each B. If every probability of the records is right up to a
factor e^{+-S}, probabilities of an output given two values and what is known are right up to
e^{+-2S}, and a leakage up to 4S, which is added to it (subtracted from its lower end).
"""

from dataclasses import dataclass, replace

import numpy as np

from undertow.adversaries import Against, within
from undertow.bounds.chains.leakages import leakage as chain_leakage
from undertow.bounds.graphs import lifted
from undertow.certificate import Leakage
from undertow.errors import InvalidModel
from undertow.mechanisms import Levelled
from undertow.models.markov import MarkovChain
from undertow.models.network import BayesianNetwork
from undertow.numerics import ROUNDOFF, down, up

__all__ = ["Path", "path_leakage", "path_of"]

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
    """Return what a mechanism leaks on a path, by the bounds for chains, in the network's numbers.

    >>> from undertow.mechanisms import PureDP
    >>> kernel = [[.882, .118], [.305, .695]]
    >>> tree = BayesianNetwork([(0, 1), (1, 2)], {0: [.721, .279], 1: kernel, 2: kernel})
    >>> round(path_leakage(PureDP(1.0), path_of(tree), "ignorant").upper, 6)
    2.202411
    """
    found = chain_leakage(mechanism, path.chain, within(against, path.records))
    witness = found.witness and lifted(found.witness, path.records, len(path.records))
    lower, upper = found.lower, found.upper
    if path.error:
        lower, upper = max(down(lower - path.error), 0.0), up(upper + path.error)
    return replace(
        found, lower=lower, upper=upper, against=against, witness=witness,
        assumptions=(FOLLOWS, "which is a path, and so a Markov chain", *found.assumptions[1:]),
    )  # fmt: skip
