"""One adversary of a hidden chain: exact where the law is attractive, else what is attained.

Where the law is attractive the worst likelihood of a level is known (`bounds.attractive.sums`), and
where every second record has to be relabelled for that, it alternates. A likelihood may ignore
records, so a longer series leaks no less, and one of any length no more than one that never
ends.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.adversaries import Adversary
from undertow.bounds.attractive.sums import Best, best_case, chain_sums, check_cases
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.attractive import Attractiveness
from undertow.models.hidden_chain import HiddenChain
from undertow.numerics import Array
from undertow.queries import State

__all__ = ["FAR", "StateWeights", "explicit"]

FAR = 2048
"""Records beyond all known ones, on either side, that an attack looks at (cost; others ignored)."""


@dataclass(frozen=True, slots=True, eq=False)
class StateWeights:
    """One state against another: what an unknown record weighs, by the state that it shows.

    ``upper`` bounds the log-ratio, ``weights`` (states,) are attained ones up to a factor, None
    where none is known; ``shown`` names what is looked at, an output or the set of a record.
    """

    state: int
    other: int
    upper: float
    weights: Array | None
    shown: State | None


@dataclass(frozen=True, slots=True)
class _Try:
    """What a likelihood attains, with the side whose weights each record has, by its distance.

    ``alone``: only the target is looked at.
    """

    best: Best
    sides: tuple[StateWeights, ...]
    alone: bool = False


def explicit(
    sides: list[StateWeights], model: HiddenChain, against: Adversary, law: Attractiveness, *,
    whole: bool, pure: bool = False,
) -> tuple[float, float, Witness | None]:  # fmt: skip
    """Return what one adversary learns: an attained value, a bound or inf, and the attack.

    ``whole`` says that the answer is about all records, as a count is; others may look away.
    ``pure``: the witness names sets of an algorithm instead of outputs. Cost
    O(m^3 log n) for each known record and m^2 for each of their values.

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> one = StateWeights(1, 0, 1.0, np.exp([-1.0, 0.0]), 1)
    >>> other = StateWeights(0, 1, 1.0, np.exp([0.0, -1.0]), 0)
    >>> made = explicit([one, other], chain, Adversary(3, [1]), Attractiveness(0.0), whole=False)
    >>> round(made[0], 6), round(made[1], 6)
    (2.480872, 2.480872)
    """
    check_cases(model.size, len(against.known))
    upper = math.inf
    if model.size == 2 and (law or law.relabelled):
        upper = max(_bound(sides, pair, model, against, bool(law)) for pair in ((1, 0), (0, 1)))
    tries = [_attained(one, sides, model, against, whole) for one in sides]
    found = max(
        (each for each in tries if each is not None), key=lambda each: each.best.lower, default=None
    )
    if found is None or not found.best.lower > 0:
        return 0.0, upper, None
    return found.best.lower, upper, _witness(found, model, against, pure)


def _bound(
    sides: list[StateWeights],
    pair: tuple[int, int],
    model: HiddenChain,
    against: Adversary,
    plain: bool,
) -> float:
    """Return the theorem's value of one direction, rounded up; two states."""
    ratio = {one.state: one.upper for one in sides}
    value, other = pair
    if not all(map(math.isfinite, ratio.values())):
        return math.inf
    # w(other) / w(value) of the target and records at even distances; at odd ones, if relabelled,
    # the other state is rewarded, and by its own ratio
    rows = [np.where(np.arange(2) == value, 0.0, -ratio[value])]
    if not plain:
        rows.append(np.where(np.arange(2) == other, 0.0, -ratio[other]))
    try:
        best = _value(np.exp(rows), pair, model, against, 0, model.length)
    except NotSupported:
        return math.inf
    return 0.0 if best is None else best.upper


def _attained(
    one: StateWeights,
    sides: list[StateWeights],
    model: HiddenChain,
    against: Adversary,
    whole: bool,
) -> _Try | None:
    """Return the best of some product likelihoods for one pair of states.

    All records weighed alike; unless the answer is about all of them, also those at odd distances
    weighed the opposite way, and none but the target.
    """
    if one.weights is None:
        return None
    opposite = [each for each in sides if (each.state, each.other) == (one.other, one.state)]
    rows: list[tuple[StateWeights, ...]] = [(one,)]
    if not whole and opposite and opposite[0].weights is not None:
        rows.append((one, opposite[0]))
    first, last = min((against.target, *against.known)), max((against.target, *against.known))
    offset = 0 if whole else max(0, first - FAR)
    records = last + FAR + 1
    if model.length is not None:
        records = model.length if whole else min(model.length, records)
    tries: list[_Try] = []
    for chosen in rows:
        weights = np.array([side.weights for side in chosen])
        weights = weights / weights.max(axis=1, keepdims=True)
        best = _value(weights, (one.state, one.other), model, against, offset, records - offset)
        if best is not None:
            tries.append(_Try(best, chosen))
    if not tries:
        return None
    found = max(tries, key=lambda each: each.best.value)
    own = math.log(float(one.weights[one.state]) / float(one.weights[one.other]))
    if not whole and own > found.best.value:  # nothing but the target is looked at
        return _Try(Best(own, found.best.error, found.best.known), (one,), alone=True)
    return found


def _value(
    weights: Array, pair: tuple[int, int], model: HiddenChain, against: Adversary, offset: int,
    records: int | None,
) -> Best | None:  # fmt: skip
    """Return what a product likelihood tells, for the worst values of the known records.

    ``weights`` (phases, states); the records before ``offset`` are left out: the chain is
    stationary.
    """
    law = model.lowered()
    known = tuple(record - offset for record in against.known)
    place = against.target - offset
    seen = chain_sums(law, weights[:, law.symbols], place, known, records)
    plain = chain_sums(law, np.ones((1, law.size)), place, known, records)
    return best_case(seen, plain, pair, (model.size,) * len(known))


def _witness(found: _Try, model: HiddenChain, against: Adversary, pure: bool) -> Witness:
    """Return the attack, with what is looked at in each record that matters."""
    target, known = against.target, against.known
    anchors = (target, *known)
    records = model.length or max(anchors) + FAR + 1
    near = range(max(0, min(anchors) - FAR), min(records, max(anchors) + FAR + 1))
    places = [target] if found.alone else [place for place in near if place not in {*known}]
    sides = found.sides
    looked = tuple((place, sides[abs(place - target) % len(sides)].shown) for place in places)
    facts = zip(known, (model.states[value] for value in found.best.known), strict=True)
    return Witness(
        target, records, tuple(facts), model.states[sides[0].state], model.states[sides[0].other],
        sets=looked if pure else (), outputs=() if pure else looked,  # type: ignore[arg-type]
    )  # fmt: skip
