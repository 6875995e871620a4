"""How many records depend on each other: the number that the general bound multiplies by."""

import numpy as np

from undertow.bounds.chains.rays import visited
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.markov import MarkovChain
from undertow.models.network import BayesianNetwork
from undertow.models.pedigree import Pedigree

__all__ = ["dependence_size"]


def dependence_size(model: object) -> int | None:
    """Return the size of the largest group of mutually dependent records, None if unbounded.

    >>> dependence_size(MarkovChain([[.8, .2], [.2, .8]], length=30)), dependence_size(Groups(4))
    (30, 4)
    >>> dependence_size(MarkovChain([[.3, .7], [.3, .7]], length=30))
    1
    """
    if isinstance(model, Groups):
        return model.size
    if isinstance(model, BayesianNetwork):
        records = {model.number(node) for node in model.records}
        return max(len(records.intersection(part)) for part in model.components())
    if isinstance(model, Pedigree):
        return max(family.length for family in model.families())
    if isinstance(model, MultivariateGaussian):
        return _largest_block(model.covariance != 0)
    if isinstance(model, GaussianClass):
        return model.length if model.rho else 1
    if isinstance(model, MarkovChain):
        return _longest_run(model)
    length: int | None = getattr(model, "length", None)
    return length


def _longest_run(chain: MarkovChain) -> int | None:
    """Return the longest stretch of a chain without a step that forgets everything."""
    reduced = visited(chain)
    if reduced is None:
        return 1
    steps = reduced.transition
    if reduced.homogeneous:
        return 1 if (steps == steps[0]).all() else reduced.length
    longest = run = 1
    for step in steps:
        run = 1 if (step == step[0]).all() else run + 1
        longest = max(longest, run)
    return longest


def _largest_block(linked: "np.typing.NDArray[np.bool_]") -> int:
    """Return the size of the largest set of records that hang together."""
    left, largest = set(range(len(linked))), 0
    while left:
        stack = [left.pop()]
        size = 1
        while stack:
            new = left & set(np.flatnonzero(linked[stack.pop()]).tolist())
            left -= new
            size += len(new)
            stack += new
        largest = max(largest, size)
    return largest
