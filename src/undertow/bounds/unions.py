"""What a mechanism leaks if any one of several models may be true, without asking all of them.

The leakage of a set is the largest of its members'. Two-state chains have a cheap ceiling that
their leakage does not exceed, computed for all of them in one sweep. Members are asked in the order
of their ceilings, and once the proved end of those asked is at least the ceiling of all others,
these can change nothing: the upper end is that of all members, and the lower end is attained. Boxes
of chains are searched together: a part of one is split only if it may be the worst of all.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.chains.boxes import boxes_leakage, chain_ceilings
from undertow.certificate import Leakage
from undertow.mechanisms import Levelled, PureDP
from undertow.models.base import Model
from undertow.models.chain_classes import ChainBox
from undertow.models.markov import MarkovChain
from undertow.numerics import Array

__all__ = ["members_leakages"]

_FEW = 4
"""Fewer chains than this are simply asked, each."""
_RATIO = 1.03
"""Levels share the ceilings of the next power of this: ceilings grow with the level, so those of a
higher one hold, and a search that tries many levels sweeps few."""


def members_leakages(
    mechanism: Levelled, models: Sequence[Model], against: Against, ask: Callable[[Model], Leakage]
) -> list[Leakage]:
    """Return leakages of members, or of several together, whose worst is the worst of all.

    ``ask`` gives the leakage of a member, with its own proof.
    """
    if getattr(mechanism, "unit", "record") != "record":
        return [ask(model) for model in models]
    boxes = [
        model
        for model in models
        if isinstance(model, ChainBox) and model.size == 2 and not model.disclaimers()
    ]
    chains = [model for model in models if isinstance(model, MarkovChain) and _swept(model)]
    boxes = boxes if len(boxes) > 1 else []
    chains = chains if len(chains) >= _FEW else []
    held = {id(model) for model in (*boxes, *chains)}
    found = [ask(model) for model in models if id(model) not in held]
    if boxes:
        joint = boxes_leakage(mechanism.level_upper(boxes[0].length), boxes, against)
        if not isinstance(mechanism, PureDP):  # attained by some algorithm, not by this one
            joint = replace(joint, lower=0.0, witness=None)
        said = tuple(dict.fromkeys(line for box in boxes for line in box.disclaimers()))
        found.append(replace(joint, covers="any").with_assumptions(said))
    if chains:
        found += _of_chains(mechanism.level_upper(chains[0].length), chains, against, ask, found)
    return found


def _of_chains(
    epsilon: float,
    chains: Sequence[MarkovChain],
    against: Against,
    ask: Callable[[Model], Leakage],
    before: Sequence[Leakage],
) -> list[Leakage]:
    """Return the leakages of those chains that may be the worst."""
    proved = max((leak.upper for leak in before), default=-math.inf)
    above = _RATIO ** math.ceil(math.log(epsilon) / math.log(_RATIO))
    rough = _ceilings(max(above, epsilon), tuple(chains), against)  # (N,)
    first = int(rough.argmax())
    found = []
    if rough[first] > proved:
        found.append(ask(chains[first]))
        proved = max(proved, found[0].upper)
    left = [chain for place, chain in enumerate(chains) if place != first and rough[place] > proved]
    if not left:
        return found
    sharp = chain_ceilings(epsilon, left, against)  # (N,)
    for place in np.argsort(-sharp).tolist():
        # all that are left have no larger ceiling, and cannot be worse than what is proved
        if sharp[place] <= proved:
            break
        found.append(ask(left[place]))
        proved = max(proved, found[-1].upper)
    return found


@lru_cache(maxsize=16)
def _ceilings(epsilon: float, chains: tuple[MarkovChain, ...], against: Against) -> Array:
    return chain_ceilings(epsilon, chains, against)


def _swept(chain: MarkovChain) -> bool:
    """Return whether the ceilings speak of a chain: two states, one matrix, a stationary start."""
    return chain.size == 2 and chain.homogeneous and isinstance(chain.start, str)
