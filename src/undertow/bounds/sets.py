"""Members of a set of models, together where one bound covers several.

Boxes of chains of two states are searched as one, and of many chains only those are asked about
that a bound over all of them leaves as the worst.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.levels.classes import boxes_leakage, chain_ceilings
from undertow.certificate import Leakage
from undertow.mechanisms import Levelled, PureDP
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.classes import ChainBox
from undertow.numerics import Array

__all__ = ["members_leakages"]

FEW = 4
"""Number of chains from which their ceilings are compared first (cost)."""

RATIO = 1.03
"""Levels share the ceilings of the next power of this: ceilings grow with the level, so those of a
higher one hold, and a search that tries many levels sweeps few."""


def members_leakages(
    mechanism: Levelled, models: Sequence[Model], against: Against, ask: Callable[[Model], Leakage]
) -> list[Leakage]:
    """Return leakages of members, or of several together, whose worst is the worst of all.

    ``ask`` gives the leakage of a member, with its own proof.
    """
    if isinstance(mechanism, PureDP) and mechanism.unit == "person":
        return [ask(model) for model in models]
    boxes = [
        model
        for model in models
        if isinstance(model, ChainBox) and model.size == 2 and not model.disclaimers()
    ]
    chains = [model for model in models if isinstance(model, MarkovChain) and has_ceiling(model)]
    boxes = boxes if len(boxes) > 1 else []
    chains = chains if len(chains) >= FEW else []
    together = {id(model) for model in (*boxes, *chains)}
    leaks = [ask(model) for model in models if id(model) not in together]
    if boxes:
        joint = boxes_leakage(mechanism.level_upper(boxes[0].length), boxes, against)
        if not isinstance(mechanism, PureDP):  # attained by some algorithm, not by this one
            joint = joint.upper_only()
        notes = tuple(dict.fromkeys(line for box in boxes for line in box.disclaimers()))
        leaks.append(replace(joint, valid_for="any").with_assumptions(notes))
    if chains:
        level = mechanism.level_upper(chains[0].length)
        upper = max((leak.upper for leak in leaks), default=-math.inf)
        leaks += _of_chains(level, chains, against, ask, upper)
    return leaks


def _of_chains(
    epsilon: float,
    chains: Sequence[MarkovChain],
    against: Against,
    ask: Callable[[Model], Leakage],
    proved: float,
) -> list[Leakage]:
    """Return the leakages of those chains that may be worse than an upper end proved before."""
    above = RATIO ** math.ceil(math.log(epsilon) / math.log(RATIO))
    rough = _ceilings(max(above, epsilon), tuple(chains), against)  # (N,)
    first = int(rough.argmax())
    leaks = []
    if rough[first] > proved:
        leaks.append(ask(chains[first]))
        proved = max(proved, leaks[0].upper)
    rest = [chain for place, chain in enumerate(chains) if place != first and rough[place] > proved]
    if not rest:
        return leaks
    sharp = chain_ceilings(epsilon, rest, against)  # (N,)
    for place in np.argsort(-sharp).tolist():
        # all later ones have no larger ceiling, and cannot be worse than what is proved
        if sharp[place] <= proved:
            break
        leaks.append(ask(rest[place]))
        proved = max(proved, leaks[-1].upper)
    return leaks


@lru_cache(maxsize=16)
def _ceilings(epsilon: float, chains: tuple[MarkovChain, ...], against: Against) -> Array:
    return chain_ceilings(epsilon, chains, against)


def has_ceiling(chain: MarkovChain) -> bool:
    """Tell whether a chain has two states, one matrix and a stationary start.

    >>> has_ceiling(MarkovChain([[.9, .1], [.2, .8]]))
    True
    """
    return chain.size == 2 and chain.homogeneous and isinstance(chain.start, str)
