"""What mechanisms leak on chains of order two, where the next record depends on the last two.

Knowing one record does not separate the records before it from those after it, so the methods for
chains of order one do not apply. `second_order_leakage` takes the sharpest of

* *attractive* laws of two states: the worst likelihood is known, and a bracket of ratio 1.001 holds
  for all algorithms of a level, counts and flips (`undertow.bounds.second_order.two_states`); the
  same where relabelling every second record makes the law attractive;
* other laws of two states: flips by every word of outputs;
* everything else: a bound on two records at a time (`undertow.bounds.second_order.spreads`), which
  may be twice the truth, above an attack that is carried out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain as joined
from itertools import combinations

import numpy as np

from undertow.adversaries import Adversary, Against, Window, check_against
from undertow.bounds.one_adversary import ONE_ADVERSARY, narrowed
from undertow.bounds.protocol import Problem
from undertow.bounds.second_order.attacks import AttackScenario, FoundAttack, Symbol, search_attack
from undertow.bounds.second_order.spreads import Own, PairSide, joined_upper
from undertow.bounds.second_order.two_states import (
    QUICK,
    THOROUGH,
    AttainedBracket,
    Law,
    MoveBounds,
    law_of,
    worst_case,
)
from undertow.certificate import Leakage, Witness
from undertow.channels import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.errors import EffortSpent, InvalidInput, NotSupported
from undertow.mechanisms import Levelled, MetricDP, PureDP
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Array, check_count, down, log_error, log_ratio, up
from undertow.progress import SPENT
from undertow.queries import State

__all__ = ["REACH", "leakage", "local", "second_order_leakage"]

REACH = 24
"""How far from the target the search for an attack looks (cost)."""

MOST_STATES = 6
"""States up to which the upper end is computed (cost k^8)."""

FAR = 24
"""Records beyond the touched ones that are walked one by one; past them the limit holds (cost)."""

WIDE = 1.1
"""Quotient of the ends of a bracket from which another bound is asked too (cost)."""

LOWER_ERROR = 1e-10
"""What is taken off a value found by the search (lower side): a few hundred roundings."""

ASSUMED = "the records follow the stated chain of order two, stationary"

_MOST_LEVEL = 700.0
"""Level whose exponential is a float: beyond, no attack is weighed, and the lower end is 0."""


@dataclass(frozen=True, slots=True)
class _View:
    """What a mechanism shows: weights (records or 1, outputs, k), and how far one record moves it.

    ``tied`` outputs are the same in every record: far answers of a count look alike everywhere.
    """

    weights: Array
    own: Array
    names: tuple[State, ...]
    tied: bool = False


def second_order_leakage(
    mechanism: Levelled | MetricDP | LocalMechanism,
    chain: SecondOrderChain,
    against: Against = "any",
    reach: int = REACH,
) -> Leakage:
    """Return what a mechanism leaks on a chain of order two, between an attack and a bound.

    The lower end is attained by the witness. The upper end is proved for series of every length
    and for attackers who know any records. Both ends all but agree for two states where the law is
    attractive, and for flips; elsewhere the upper end may be twice the truth, and it is inf where a
    transition is impossible: the assumptions say which. Supports flips by `RandomizedResponse`,
    counts and histograms, `PureDP`, other queries by their DP level, and `Redaction` (about its
    protected records).

    Parameters
    ----------
    mechanism
        What is released.
    chain
        The truth.
    against
        ``"any"`` (default), ``"ignorant"``, ``"informed"`` or an `Adversary`.
    reach
        How far from the target attacks are looked for; where less than usual, brackets are less
        narrow too.

    >>> from undertow import MarkovChain
    >>> chain = SecondOrderChain.of(MarkovChain([[.9, .1], [.1, .9]]))
    >>> leak = second_order_leakage(RandomizedResponse.binary(.3437, .3437), chain)
    >>> round(leak.lower, 6), round(leak.upper, 6)  # that of the first-order chain
    (3.999202, 3.999202)
    """
    against = check_against(against)
    check_count(reach, "reach", 2)
    if chain.size > MOST_STATES:
        raise NotSupported(
            f"chains of order two are treated up to {MOST_STATES} states, found {chain.size}; "
            "merge states"
        )
    if isinstance(mechanism, Redaction):
        if isinstance(against, Adversary):
            raise NotSupported(
                "of a redaction on a chain of order two ask against 'any', 'ignorant' or 'informed'"
            )
        return _redaction(mechanism, chain, against, reach)
    view = _view(mechanism, chain)
    if against == "informed":
        level = float(view.own.max())
        attained = level if (chain.transition > 0).all() and view.weights.size else 0.0
        logs = np.log(view.weights[view.weights > 0])
        slack = log_error(64, 1 + float(np.abs(logs).max(initial=0.0)))
        return _leakage(max(down(attained, 16) - slack, 0.0), level, against, None)
    found = _two_states(mechanism, chain, view, against, reach)
    if found is not None:
        return found
    if isinstance(against, Adversary):
        return ONE_ADVERSARY.prove(Problem(mechanism, chain, against))
    return _looser(chain, view, against, reach)


def _looser(chain: SecondOrderChain, view: "_View", against: Against, reach: int) -> Leakage:
    """Return the bound on two records at a time, above the best attack that a search finds."""
    best: tuple[float, Witness | None] = (0.0, None)
    more: tuple[str, ...] = ()
    upper = _upper(chain, lambda _: view.own) if (chain.transition > 0).all() else math.inf
    try:
        for target in _targets(chain.length, reach):
            for outputs in _choices(view):
                scenario = _scenario(view, chain, against, outputs, target, chain.length or 1)
                found = search_attack(scenario, reach)
                if found is not None and found.value > best[0]:
                    best = found.value, _witness(found, view, chain, target)
    except EffortSpent:  # the upper end needs no attack
        more = (SPENT,)
    leak = _leakage(max(best[0] - LOWER_ERROR, 0.0), upper, against, best[1])
    return leak.with_assumptions(more)


# --- two states -----------------------------------------------------------------------------------


def _two_states(
    mechanism: LocalMechanism | Levelled | MetricDP, chain: SecondOrderChain, view: "_View",
    against: Against, reach: int,
) -> Leakage | None:  # fmt: skip
    """Return the bracket of a chain of two states, None where nothing sharp is known of it."""
    if chain.size != 2 or not (chain.transition > 0).all() or not np.isfinite(view.own).all():
        return None
    flips = isinstance(mechanism, RandomizedResponse)
    law = law_of(chain) or ("words" if flips else None)
    ratios = MoveBounds(float(view.own[1, 0]), float(view.own[0, 1]))
    if law is None or max(ratios.one, ratios.zero) <= 0:
        return None
    effort = QUICK if reach < REACH else THOROUGH
    try:
        found = worst_case(chain, ratios, law, against, effort)
    except NotSupported:
        return None
    attained = view.weights.size and (law == "attractive" or not view.tied)
    lower: float = 0.0
    witness: Witness | None = None
    if attained:
        lower, witness = found.lower, _played_witness(found, view, chain)
    elif view.weights.size and not isinstance(against, Adversary):
        # no answer looks as what the worst algorithm's does: attacks on the answer itself
        other = _looser(chain, view, against, reach)
        lower, witness = other.lower, other.witness
    upper = found.upper
    if upper > WIDE * found.lower:  # the older bound may be the narrower one: both hold
        upper = min(upper, _upper(chain, lambda _: view.own))
    return Leakage(
        min(lower, upper), upper, "second-order", against, witness,
        assumptions=(ASSUMED, _BASIS[law]),
        citation="attractive laws and chains of order two (docs, theory-memory)",
    )  # fmt: skip


_BASIS: dict[Law, str] = {
    "attractive": "this law is attractive: the worst likelihood of any algorithm is known",
    "relabelled": "this law is attractive once every second record is relabelled: the worst "
    "likelihood of any algorithm is known",
    "words": "every word of outputs between two known records was tried",
}
"""Why the upper end holds."""


def _played_witness(found: AttainedBracket, view: "_View", chain: SecondOrderChain) -> Witness:
    """Return the attack of a bracket as a witness: sets of states, or outputs."""
    known = dict(found.known)
    places = np.arange(len(found.weights))
    tilt = np.log(found.weights[:, 1]) - np.log(found.weights[:, 0])
    ratio = np.log(view.weights[0, :, 1]) - np.log(view.weights[0, :, 0])  # of each output
    high, low = int(ratio.argmax()), int(ratio.argmin())
    shown = tuple(
        (int(t), view.names[high if tilt[t] > 0 else low])
        for t in places
        if int(t) not in known and tilt[t] != 0
    )
    value = found.value
    sets = tuple((record, name) for record, name in shown if isinstance(name, tuple))
    return Witness(
        found.target, len(found.weights),
        tuple((record, chain.states[place]) for record, place in found.known),
        chain.states[value], chain.states[1 - value],
        sets=sets, outputs=() if sets else shown,
    )  # fmt: skip


def leakage(mechanism: Levelled | MetricDP, model: SecondOrderChain, against: Against) -> Leakage:
    """Return what a curator's answer leaks on a chain of order two."""
    return second_order_leakage(mechanism, model, against)


def window_leakage(level: float, model: SecondOrderChain, against: Against, window: int) -> Leakage:
    """Return what all algorithms of a DP level leak about a window of two records or more.

    Given the window its sides are independent, and each depends on the two records at its end: the
    records of the window add their level, and each side what its records can tell of a pair.

    >>> chain = SecondOrderChain([[[.7, .3], [.6, .4]], [[.5, .5], [.4, .6]]])
    >>> round(window_leakage(0.5, chain, "any", 4).upper, 2)
    3.23
    """
    most = math.inf if model.length is None else up(model.length * level)
    own = up(window * level)
    if against == "informed":
        most = own
    elif (model.transition > 0).all():
        single = level * (1 - np.eye(model.size))
        sides = (PairSide(one.transition).limit(single) for one in (model, model.reverse()))
        most = min(most, up(own + sum(float(side.max()) for side in sides), 4))
    leak = _leakage(0.0, most, against, None)
    if isinstance(against, Adversary):
        return narrowed(leak, Problem(PureDP(level), model, against, Window(window)))
    return leak


def local(
    mechanism: LocalMechanism, model: SecondOrderChain, against: Against, effort: int
) -> Leakage:
    """Return what a series shown record by record leaks on a chain of order two."""
    return second_order_leakage(mechanism, model, against)


def _targets(length: int | None, reach: int) -> list[int | None]:
    """Return the records to attack: the middle one, all of a short series, None for no ends."""
    if length is None:
        return [None]
    return [length // 2] if length > reach else list(range(length))


def _upper(chain: SecondOrderChain, own: Own) -> float:
    """Return the bound for a mechanism that treats all records alike."""
    right = PairSide(chain.transition).limit(own(0))
    left = PairSide(chain.reverse().transition).limit(own(0))
    return float(joined_upper(chain, own, lambda _: left, lambda _: right).max())


def _view(
    mechanism: RandomizedResponse | XorNoise | Levelled | MetricDP, chain: SecondOrderChain
) -> _View:
    """Return what a mechanism shows of each record."""
    size = chain.size
    if isinstance(mechanism, XorNoise | MetricDP):
        raise NotSupported(
            f"what {type(mechanism).__name__} leaks on a chain of order two is not known; use "
            "RandomizedResponse, a count, or PureDP"
        )
    if isinstance(mechanism, RandomizedResponse):
        if mechanism.inputs != size:
            raise InvalidInput(
                f"the mechanism is for {mechanism.inputs} states, the chain has {size}; they must "
                "agree"
            )
        own = _channel_own(mechanism.matrix)
        return _View(mechanism.matrix.T[None], own, mechanism.names(chain.states))
    # (x, x'): one record moves the log-likelihood of an answer by at most the DP level
    own = np.where(np.eye(size, dtype=bool), 0.0, mechanism.level_upper(chain.length))
    if isinstance(mechanism, PureDP) and mechanism.unit != "record":
        raise NotSupported("a level for whole persons does not depend on their records' chain")
    if mechanism.level_upper(chain.length) > _MOST_LEVEL:
        return _View(np.empty((1, 0, size)), own, ())  # no attack that floats could weigh
    if isinstance(mechanism, PureDP):
        return _View(np.exp(mechanism.epsilon * _subsets(size))[None], own, _subset_names(chain))
    if mechanism.query.named:
        wanted = [_index(chain, state) for state in mechanism.query.named]
        counted = np.isin(np.arange(size), wanted).astype(np.float64)
        apart = np.abs(counted[:, None] - counted[None, :])  # (x, x')
        # far answers, (2, k): each counted record multiplies their likelihood by e^(+-1 / scale)
        tilts = np.exp(np.stack([counted, -counted]) / mechanism.scale)
        return _View(tilts[None], apart * up(1 / mechanism.scale), ("high", "low"), tied=True)
    if mechanism.query.per_state:
        # (subsets, k): the bins of a subset too high and all others too low, as far as can be
        tilts = np.exp(2 / mechanism.scale * _subsets(size))
        return _View(tilts[None], own, _subset_names(chain), tied=True)
    return _View(np.empty((1, 0, size)), own, ())


def _index(chain: SecondOrderChain, state: State) -> int:
    if state not in chain.states:
        raise InvalidInput(f"the chain has no state {state!r}; its states are {chain.states!r}")
    return chain.states.index(state)


def _subsets(size: int) -> Array:
    """Return the proper subsets of the states as rows of 0 and 1."""
    sizes = range(1, size)
    members = joined.from_iterable(combinations(range(size), count) for count in sizes)
    return np.array([np.isin(np.arange(size), chosen) for chosen in members], dtype=np.float64)


def _subset_names(chain: SecondOrderChain) -> tuple[State, ...]:
    names = np.arange(chain.size)
    return tuple(
        tuple(chain.states[place] for place in names[row > 0]) for row in _subsets(chain.size)
    )


def _channel_own(matrix: Array) -> Array:
    """Return max_z ln B(x, z) / B(x', z), rounded up."""
    # (x, x', z) -> (x, x'); 0 / 0 is an output that neither value shows
    worst = np.fmax.reduce(log_ratio(matrix[:, None], matrix), axis=2)
    largest = np.abs(np.log(matrix[matrix > 0])).max()
    return np.asarray(np.where(worst > 0, worst + 8 * np.finfo(float).eps * (1 + largest), 0.0))


def _choices(view: _View) -> list[list[int]]:
    """Return the sets of outputs from which each record may choose."""
    outputs = list(range(view.weights.shape[1]))
    if not outputs:
        return []
    return [[output] for output in outputs] if view.tied else [outputs]


def _scenario(
    view: _View, chain: SecondOrderChain, against: Against, outputs: Sequence[int],
    target: int | None, records: int,
) -> AttackScenario:  # fmt: skip
    """Return what can be seen around a target, one of so many records (None: without ends)."""
    ones, unit = np.ones(chain.size), np.eye(chain.size)
    known = [Symbol(unit[v], unit[v], known=v) for v in range(chain.size)]

    def look(distance: int) -> list[Symbol] | None:
        record = 0 if target is None else target + distance
        if not 0 <= record < records:
            return None
        weights = view.weights[record if len(view.weights) > 1 else 0]  # (outputs, k)
        shown = [Symbol(weights[z], ones, output=z) for z in outputs if weights[z].any()]
        if not distance or against == "ignorant":
            return shown
        return known if against == "informed" else [*shown, *known]

    if not view.tied or target is None:
        return AttackScenario(chain, look)
    tilt = view.weights[0, outputs[0]]
    sizes = {-1: target, 1: records - 1 - target}
    steps = {-1: chain.reverse().transition * tilt, 1: chain.transition * tilt}
    rests = {side: _messages(steps[side], sizes[side]) for side in (-1, 1)}
    return AttackScenario(chain, look, lambda side, far: rests[side][max(sizes[side] - far, 0)])


def _messages(step: Array, records: int) -> list[Array]:
    """Return the message of 0, 1, .. records that all weigh in, each up to a factor."""
    found = [np.ones(step.shape[:2])]
    for _ in range(records):
        message = (step * found[-1][None]).sum(axis=2)  # (x, y)
        found.append(message / message.max())
    return found


def _redaction(
    mechanism: Redaction, chain: SecondOrderChain, against: Against, reach: int
) -> Leakage:
    """Return the worst protected record: an attack on each, and a bound walked from far away."""
    table = mechanism.probabilities
    if table.shape[1] != chain.size or chain.length not in (None, mechanism.length):
        raise InvalidInput(
            f"the redaction is for {mechanism.length} records of {table.shape[1]} states, the "
            f"chain has {chain.length or 'any number'} of {chain.size}; they must agree"
        )
    names: tuple[State, ...] = (*chain.states, None)
    # (records, outputs, k): a record shows its own state, or last that it is erased
    stack = np.concatenate([(1 - table)[:, None] * np.eye(chain.size), table[:, None]], axis=1)
    view = _View(stack, np.zeros((chain.size, chain.size)), names)
    positive = bool((chain.transition > 0).all())
    best: tuple[float, Witness | None] = (0.0, None)
    upper = 0.0
    more: tuple[str, ...] = ()
    for target in mechanism.protect:
        scenario = _scenario(view, chain, against, range(len(names)), target, mechanism.length)
        try:
            found = search_attack(scenario, reach)
        except EffortSpent:  # the upper end needs no attack
            found, more = None, (SPENT,)
        if found is not None and found.value > best[0]:
            best = found.value, _witness(found, view, chain, target, mechanism.length)
        if against != "informed":
            upper = max(upper, _erased_upper(chain, stack, target) if positive else math.inf)
    leak = _leakage(max(best[0] - LOWER_ERROR, 0.0), upper, against, best[1])
    return leak.with_assumptions(more)


def _erased_upper(chain: SecondOrderChain, stack: Array, target: int) -> float:
    none = np.zeros((chain.size, chain.size))

    def own(distance: int) -> Array:
        record = target + distance
        return _channel_own(stack[record].T) if 0 <= record < len(stack) else none

    def walked(side: int, step: Array) -> list[Array]:
        touched = [r for r in range(len(stack)) if stack[r, -1].any()]
        last = max((side * (r - target) for r in touched), default=0)
        records = min(max(last, 0) + FAR, target if side < 0 else len(stack) - 1 - target)
        inside = target + side * (records + 1)
        rest = np.zeros((chain.size,) * 4)
        if 0 <= inside < len(stack):
            shown = np.where(np.eye(chain.size, dtype=bool), 0.0, np.inf)
            rest = PairSide(step).limit(shown)
        bounds = PairSide(step).recursion(lambda distance: own(side * distance), records, rest)
        return [*bounds, rest, rest, rest]

    left, right = walked(-1, chain.reverse().transition), walked(1, chain.transition)
    return float(joined_upper(chain, own, left.__getitem__, right.__getitem__).max())


def _witness(
    found: FoundAttack, view: _View, chain: SecondOrderChain, target: int | None,
    length: int | None = None,
) -> Witness:  # fmt: skip
    first = min(0, *(distance for distance, _ in found.seen))
    last = max(0, *(distance for distance, _ in found.seen))
    place = -first if target is None else target
    known = [(place + d, chain.states[s.known]) for d, s in found.seen if s.known is not None]
    shown = [(place + d, view.names[s.output]) for d, s in found.seen if s.output is not None]
    length = length or chain.length or last - first + 1
    sets = tuple((record, name) for record, name in shown if isinstance(name, tuple))
    return Witness(
        place, length, tuple(known), chain.states[found.first], chain.states[found.other],
        sets=sets, outputs=() if sets else tuple(shown),
    )  # fmt: skip


def _leakage(lower: float, upper: float, against: Against, witness: Witness | None) -> Leakage:
    return Leakage(
        min(lower, upper), upper, "second-order", against, witness,
        assumptions=(
            ASSUMED,
            "the upper end holds for attackers who know any records; it may be twice the truth",
        ),
        citation="two records at a time on a chain of order two (docs, robustness)",
    )  # fmt: skip
