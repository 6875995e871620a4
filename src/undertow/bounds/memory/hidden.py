"""Leakage of mechanisms on hidden chains.

To the *ignorant* the leakage has a closed form where the law is attractive (`perron`), to those who
know *any* records a bracket (`bracket`) where the hidden chain is totally positive, with two hidden
states for each symbol at most; elsewhere the upper end is inf. One explicit adversary has an exact
one where the law is attractive (`explicit`), else pairwise bounds (`bounds.one_adversary`).
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.any_adversary import ANY_ADVERSARY
from undertow.bounds.channels.flips import chain_leakage
from undertow.bounds.core.attacks import MOST_LEVEL
from undertow.bounds.core.patterns import (
    Codes,
    Pattern,
    PatternSearch,
    Symbol,
    known_values,
    outputs,
    pattern_attack,
    shown_message,
)
from undertow.bounds.core.play import play
from undertow.bounds.levels import chains
from undertow.bounds.memory.attractive import (
    Best,
    best_case,
    chain_sums,
    check_cases,
    ignorant_upper,
)
from undertow.bounds.memory.envelopes import (
    Bracket,
    any_bracket,
    open_pattern,
    pattern_codes,
)
from undertow.bounds.one_adversary import ONE_ADVERSARY
from undertow.bounds.protocol import AnswerProver, ChannelProver, Prover
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import (
    Levelled,
    LocalMechanism,
    MetricDP,
    PureDP,
    RandomizedResponse,
    Scaled,
)
from undertow.models.attractive import Attractiveness, is_attractive
from undertow.models.chains import MarkovChain
from undertow.models.hidden import HiddenChain
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array, down, log_error, log_ratio, up
from undertow.queries import State

__all__ = [
    "FAR",
    "PERIODIC",
    "PROVERS",
    "REACH",
    "StateWeights",
    "explicit",
    "leakage",
    "local",
]


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
    >>> bracket = explicit([one, other], chain, Adversary(3, [1]), Attractiveness(0.0), whole=False)
    >>> round(bracket[0], 6), round(bracket[1], 6)
    (2.480872, 2.480872)
    """
    check_cases(model.size, len(against.known))
    upper = math.inf
    if model.size == 2 and (law or law.relabelled):
        upper = max(_bound(sides, pair, model, against, bool(law)) for pair in ((1, 0), (0, 1)))
    tries = [_attained(one, sides, model, against, whole) for one in sides]
    leader = max(
        (each for each in tries if each is not None), key=lambda each: each.best.lower, default=None
    )
    if leader is None or not leader.best.lower > 0:
        return 0.0, upper, None
    return leader.best.lower, upper, _witness(leader, model, against, pure)


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
    leader = max(tries, key=lambda each: each.best.value)
    own = math.log(float(one.weights[one.state]) / float(one.weights[one.other]))
    if not whole and own > leader.best.value:  # nothing but the target is looked at
        return _Try(Best(own, leader.best.error, leader.best.known), (one,), alone=True)
    return leader


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


def _witness(attempt: _Try, model: HiddenChain, against: Adversary, pure: bool) -> Witness:
    """Return the attack, with what is looked at in each record that matters."""
    target, known = against.target, against.known
    anchors = (target, *known)
    records = model.length or max(anchors) + FAR + 1
    near = range(max(0, min(anchors) - FAR), min(records, max(anchors) + FAR + 1))
    places = [target] if attempt.alone else [place for place in near if place not in {*known}]
    sides = attempt.sides
    looked = tuple((place, sides[abs(place - target) % len(sides)].shown) for place in places)
    facts = zip(known, (model.states[value] for value in attempt.best.known), strict=True)
    return Witness(
        target, records, tuple(facts), model.states[sides[0].state], model.states[sides[0].other],
        sets=looked if pure else (), outputs=() if pure else looked,  # type: ignore[arg-type]
    )  # fmt: skip


REACH = 16
"""Distance from the target up to which known records are tried (cost)."""

BEYOND = 64
"""Records without a known one that may follow beyond a pattern."""

METHOD = "hidden"

ASSUMED = "the records follow the stated hidden chain, stationary"

NO_BOUND = (
    "no upper end is known: the law is not attractive, as far as can be checked, and cells of "
    "messages do not bound it; what is said is what an attack attains"
)

CHECKED = "the law of the records is attractive, which was checked"


@dataclass(frozen=True, slots=True)
class _Direction:
    """One state against another: how far a record speaks for it, and what shows that.

    ``upper`` bounds the logarithm, ``attained`` is one that an output has (None: not known), and
    ``shown`` names the output.
    """

    state: int
    other: int
    upper: float
    attained: float | None
    shown: State | None = None


def leakage(mechanism: Levelled | MetricDP, model: HiddenChain, against: Against) -> Leakage:
    """Return what a curator's answer leaks on a hidden chain, between an attack and a bound.

    >>> from undertow import HiddenChain, PureDP
    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> leak = leakage(PureDP(1.0), chain, "ignorant")
    >>> round(leak.lower, 6), round(leak.upper, 6)
    (2.777106, 2.777106)
    """
    plain = _plain(model)
    if plain is not None:
        return chains.leakage(mechanism, plain, against)
    if isinstance(mechanism, MetricDP):
        raise NotSupported(
            "what MetricDP leaks on a hidden chain is known against an explicit Adversary; use "
            "PureDP"
        )
    return _bracket(_curator(mechanism, model), model, against, mechanism)


def local(mechanism: LocalMechanism, model: HiddenChain, against: Against, effort: int) -> Leakage:
    """Return what flips of every record leak on a hidden chain."""
    plain = _plain(model)
    if plain is not None:
        return chain_leakage(mechanism, plain, against, effort)
    if not isinstance(mechanism, RandomizedResponse):
        raise NotSupported(
            f"what {type(mechanism).__name__} leaks on a hidden chain is not known; use "
            "RandomizedResponse, a count, or PureDP"
        )
    if mechanism.inputs != model.size:
        raise InvalidInput(
            f"the mechanism is for {mechanism.inputs} states, the chain has {model.size}; they "
            "must agree"
        )
    return _bracket(_flips(mechanism, model), model, against, mechanism)


def _plain(model: HiddenChain) -> MarkovChain | None:
    """Return the Markov chain that the model is, if nothing is hidden."""
    if model.hidden > model.size:
        return None
    law = model.lowered()
    return MarkovChain(law.kernels[0], model.states, length=model.length)


def _curator(mechanism: Levelled, model: HiddenChain) -> list[_Direction]:
    """Return how far an answer can speak for each state against each other."""
    pairs = [(a, b) for a in range(model.size) for b in range(model.size) if a != b]
    level = mechanism.level_upper(model.length)
    if isinstance(mechanism, PureDP):
        epsilon = mechanism.epsilon
        return [_Direction(a, b, epsilon, epsilon, (model.states[a],)) for a, b in pairs]
    if mechanism.query.named:
        counted = [state in mechanism.query.named for state in model.states]
        unknown = [state for state in mechanism.query.named if state not in model.states]
        if unknown:
            raise InvalidInput(
                f"the chain has no state {unknown[0]!r}; its states are {model.states!r}"
            )
        rate = 1 / mechanism.scale
        return [
            _Direction(a, b, up(rate), down(rate), "high" if counted[a] else "low")
            if counted[a] != counted[b] else _Direction(a, b, 0.0, None)
            for a, b in pairs
        ]  # fmt: skip
    return [_Direction(a, b, level, None) for a, b in pairs]


def _flips(mechanism: RandomizedResponse, model: HiddenChain) -> list[_Direction]:
    matrix, directions = mechanism.matrix, []
    largest = float(np.abs(np.log(matrix[matrix > 0])).max())
    for a in range(model.size):
        for b in range(model.size):
            if a == b:
                continue
            ratios = log_ratio(matrix[a], matrix[b])  # (outputs,); nan where neither shows it
            place = int(np.nanargmax(ratios))
            error = log_error(8, 1 + largest)
            value, shown = float(ratios[place]), mechanism.names(model.states)[place]
            low = max(value - error, 0.0) if math.isfinite(value) else None
            directions.append(_Direction(a, b, max(value + error, 0.0), low, shown))
    return directions


def _bracket(
    directions: list[_Direction], model: HiddenChain, against: Against,
    mechanism: Levelled | LocalMechanism,
) -> Leakage:  # fmt: skip
    against = check_against(against)
    if isinstance(against, Adversary):
        return _one(directions, model, against, mechanism)
    if against == "informed":
        level = max(one.upper for one in directions)
        positive = bool((model.transition > 0).all())
        low = max((one.attained or 0.0) for one in directions) if positive else 0.0
        return _leakage(max(down(low, 16), 0.0), level, against, None, ())
    brackets = _brackets(directions, model) if against == "any" else {}
    lower, witness = _best_attack(directions, model, against, mechanism, brackets)
    upper, assumptions = math.inf, (NO_BOUND,)
    if brackets:
        upper, assumptions = max(one.upper for one in brackets.values()), (CHECKED,)
    if against == "ignorant" and model.size == 2 and _attractive(model):
        thetas = {one.state: one.upper for one in directions}
        if all(map(math.isfinite, thetas.values())):
            upper = ignorant_upper(model.transition, model.shown, (thetas[0], thetas[1]))
            assumptions = (CHECKED,)
    return _leakage(lower, upper, against, witness, assumptions)


def _one(
    directions: list[_Direction], model: HiddenChain, against: Adversary,
    mechanism: Levelled | LocalMechanism,
) -> Leakage:  # fmt: skip
    """Return what one adversary learns: exact where the law is attractive."""
    sides = [
        StateWeights(one.state, one.other, one.upper, _by_state(one, model, mechanism), one.shown)
        for one in directions
    ]
    law = _attractive(model)
    lower, upper, witness = explicit(
        sides, model, against, law,
        whole=_is_whole(mechanism), pure=isinstance(mechanism, PureDP),
    )  # fmt: skip
    if not math.isfinite(upper):
        return _leakage(lower, upper, against, witness, (NO_BOUND,))
    checked = CHECKED
    if not law:
        checked += ": every second record is relabelled for it"
    return _leakage(lower, upper, against, witness, (checked,))


def _is_whole(mechanism: Levelled | LocalMechanism) -> bool:
    """Tell whether an output is about all records, as a count is."""
    return not isinstance(mechanism, PureDP | LocalMechanism)


def _by_state(
    one: _Direction, model: HiddenChain, mechanism: Levelled | LocalMechanism
) -> Array | None:
    """Return what is looked at in one record weighs, by the state that it shows."""
    return _weights(one, model, mechanism) if one.attained else None


def _brackets(directions: list[_Direction], model: HiddenChain) -> dict[int, Bracket]:
    """Return a bracket for every state, whatever is known; none where no bound is known."""
    if model.size != 2 or not all(math.isfinite(one.upper) for one in directions):
        return {}
    try:
        return {one.state: any_bracket(model, one.state, one.upper) for one in directions}
    except NotSupported:
        return {}


@lru_cache(maxsize=64)
def _attractive(model: HiddenChain) -> Attractiveness:
    return is_attractive(model)


def _best_attack(
    directions: list[_Direction], model: HiddenChain, against: Against,
    mechanism: Levelled | LocalMechanism, brackets: dict[int, Bracket],
) -> tuple[float, Witness | None]:  # fmt: skip
    """Return the best attack over all pairs of states, among them those of brackets."""
    whole = _is_whole(mechanism)
    length = model.length
    room = None if length is None else (length // 2, length - 1 - length // 2)
    law = model.lowered()
    best: tuple[float, Pattern | None, _Direction | None] = (0.0, None, None)
    for one in directions:
        if not one.attained:
            continue
        weights = _weights(one, model, mechanism)[None]
        pair = one.state, one.other
        patterns = [open_pattern(law, weights, pair, room)]
        if against == "any":
            search = _pattern_search(law, weights, room, whole=whole)
            patterns += filter(None, [search.search(REACH, pair)])
            if one.state in brackets:
                bracket = brackets[one.state]
                sides = (pattern_codes(p, one.state) for p in (bracket.left, bracket.right))
                patterns.append(_cut(Pattern(0.0, pair, ~0, *sides), room, whole=whole))
        for pattern in patterns:
            value = _played(law, pattern, weights)
            if value > best[0]:
                best = value, pattern, one
    lower, worst, direction = best
    if worst is None or direction is None:
        return 0.0, None
    return lower, _pattern_witness(worst, direction, model, mechanism)


def _played(law: LoweredLaw, pattern: Pattern, weights: Array) -> float:
    """Return what a pattern of one output reveals, rounded down; 0 if it cannot be evaluated."""
    try:
        return play(law, pattern_attack(pattern, lambda _: weights)).lower
    except NotSupported:  # likelihoods too far apart
        return 0.0


def _pattern_search(
    law: LoweredLaw, weights: Array, room: tuple[int, int] | None, *, whole: bool
) -> PatternSearch:
    """Return the search for patterns of one output, weights (1, k), and known records.

    ``room`` counts the records on either side (None: as many as one likes); ``whole`` says that
    every unknown record is part of the answer, as in a count.
    """
    symbols = [*outputs(weights), *known_values(law.states)]
    tilt = weights[0, law.symbols]
    steps = {1: law.kernels[0] * tilt, -1: law.reversed().kernels[0] * tilt}

    def left(side: int, distance: int) -> int:
        return BEYOND if room is None else room[side > 0] - distance

    def look(distance: int) -> list[Symbol] | None:
        if not distance:
            return outputs(weights)
        side = 1 if distance > 0 else -1
        return symbols if left(side, abs(distance)) >= 0 else None

    def ends(side: int, distance: int) -> list[tuple[Array, Codes]]:
        records = left(side, distance)
        ones = np.ones(law.size)
        shown = np.stack([shown_message(steps[side], records), ones])
        ends: list[tuple[Array, Codes]] = [(shown, (~0,) * records)]
        return ends if whole and room is not None else [*ends, (np.stack([ones, ones]), ())]

    return PatternSearch(law, look, ends)


def _cut(pattern: Pattern, room: tuple[int, int] | None, *, whole: bool) -> Pattern:
    """Return a pattern cut to the records that there are; ``whole``: those beyond it are shown."""
    if room is None:
        return pattern
    sides = [codes[:most] for codes, most in zip((pattern.left, pattern.right), room, strict=True)]
    if whole:
        sides = [(*c, *(~0,) * (most - len(c))) for c, most in zip(sides, room, strict=True)]
    return replace(pattern, left=sides[0], right=sides[1])


def _weights(one: _Direction, model: HiddenChain, mechanism: Levelled | LocalMechanism) -> Array:
    """Return the likelihood of what is looked at in one record, by the state that it shows."""
    if isinstance(mechanism, RandomizedResponse):
        place = mechanism.names(model.states).index(one.shown)
        return np.asarray(mechanism.matrix[:, place])
    wanted = {one.state}
    if isinstance(mechanism, Scaled):
        named = mechanism.query.named
        counted = {place for place, state in enumerate(model.states) if state in named}
        wanted = counted if one.state in counted else {*range(model.size)} - counted
    inside = np.isin(np.arange(model.size), list(wanted))
    # an attack on a lower level is one on the level itself, and its exponentials are floats
    return np.asarray(np.exp(min(one.attained or 0.0, MOST_LEVEL) * inside))


def _pattern_witness(
    pattern: Pattern, one: _Direction, model: HiddenChain,
    mechanism: Levelled | LocalMechanism,
) -> Witness:  # fmt: skip
    """Return a pattern as a witness: sets of an algorithm, or outputs."""
    place = len(pattern.left)
    length = model.length or place + 1 + len(pattern.right)
    if model.length is not None:
        place = model.length // 2
    codes = [(place - 1 - d, code) for d, code in enumerate(pattern.left)]
    codes += [(place, ~0)]
    codes += [(place + 1 + d, code) for d, code in enumerate(pattern.right)]
    codes.sort()
    known = tuple((record, model.states[code]) for record, code in codes if code >= 0)
    shown = tuple((record, one.shown) for record, code in codes if code < 0)
    pure = isinstance(mechanism, PureDP)
    return Witness(
        place, length, known, model.states[one.state], model.states[one.other],
        sets=shown if pure else (), outputs=() if pure else shown,  # type: ignore[arg-type]
    )  # fmt: skip


def _leakage(
    lower: float,
    upper: float,
    against: Against,
    witness: Witness | None,
    assumptions: tuple[str, ...],
) -> Leakage:
    return Leakage(
        min(lower, upper), upper, METHOD, against, witness, assumptions=(ASSUMED, *assumptions),
        citation="attractive laws and hidden chains (docs, theory-memory)",
    )  # fmt: skip


PROVERS: tuple[Prover, ...] = (
    AnswerProver("hidden", HiddenChain, leakage),
    ChannelProver("hidden, channel", HiddenChain, local),
    ONE_ADVERSARY,
    ANY_ADVERSARY,
)

PERIODIC: tuple[Prover, ...] = (ONE_ADVERSARY, ANY_ADVERSARY)
"""Provers of hidden chains by a public context."""
