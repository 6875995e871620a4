"""One explicit adversary on any lowered law: attacks below, pairwise bounds above.

Any order, hidden states, contexts, symbols and limits: the upper end is the smaller of the joins at
the target and one record further out (docs, theory-engine: E2, E3), the lower end is played out.
"""

import math
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.core.attacks import (
    MOST_LEVEL,
    Choices,
    FoundAttack,
    choices,
    search_attack,
)
from undertow.bounds.core.join import join, join_outer, join_window
from undertow.bounds.core.limits import limits
from undertow.bounds.core.play import Attack, play
from undertow.bounds.core.sides import Side, side
from undertow.bounds.protocol import Problem
from undertow.certificate import Leakage, Witness
from undertow.errors import Contradiction, InvalidInput, NotSupported
from undertow.mechanisms import Levelled, PureDP, TabulatedNoise
from undertow.models.base import Model
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array
from undertow.queries import State
from undertow.secrets import Window

__all__ = [
    "ONE_ADVERSARY",
    "OneAdversary",
    "attack_witness",
    "enters_by_limits",
    "upper_end",
    "window_attack",
]

MOST_PAIRS = 4096
"""Pairs of histories of a window, times values of the known records, that are all tried (cost)."""

TRIED = 24
"""Cases in which an attack is sought, those with the largest upper ends (cost)."""

CLOSE = 1e-9
"""Gap to the largest upper end below which no further case is refined, relative (cost)."""

LONGEST_WINDOW = 256
"""Records of a window up to which an attack on it is sought (cost)."""

AROUND, INFORMED = 32, 3
"""Records on either side of a window that an attack looks at, or that an informed one knows, in a
series of any length (cost)."""

ASSUMED = "the records follow the stated chain"

METHOD = "pairwise"

CITATION = "pairwise bounds on lowered laws (docs, theory-engine E2, E3)"

Case = tuple[float, tuple[int, ...], tuple[int, ...], tuple[int, int]]
"""An upper end, two histories, and the numbers of the cases of both sides."""


def enters_by_limits(problem: Problem) -> bool:
    """Tell whether a pure leakage on a chain is bounded through the limits of the mechanism."""
    if problem.delta or problem.about_persons or problem.about_parts:
        return False
    level = isinstance(problem.mechanism, TabulatedNoise)  # its limits are those of its level
    level = level or (problem.secret.window > 1 and not isinstance(problem.mechanism, PureDP))
    if level or problem.model.lowered() is None:
        return False
    try:
        limits(problem.mechanism, tuple(problem.model.states), problem.model.length)
    except (NotSupported, InvalidInput):
        return False
    return True


@dataclass(frozen=True, slots=True)
class OneAdversary:
    """Leakages to one `Adversary` on a chain of any kind."""

    name: str = METHOD

    def supports(self, problem: Problem) -> bool:
        """Tell whether the adversary is explicit, the model a chain and the mechanism pure."""
        return isinstance(problem.against, Adversary) and enters_by_limits(problem)

    def prove(self, problem: Problem) -> Leakage:
        """Return a certified leakage: the best attack, and the smallest of the upper ends.

        >>> from undertow import HiddenChain, PureDP
        >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
        >>> leak = OneAdversary().prove(Problem(PureDP(1.0), chain, Adversary(3, [1])))
        >>> round(leak.lower, 4), round(leak.upper, 4)
        (2.4809, 2.4809)
        """
        against, model, mechanism = problem.against, problem.model, problem.mechanism
        law = model.lowered()
        if not isinstance(against, Adversary) or law is None:
            raise NotSupported("an Adversary and a chain are needed here")
        states, window = tuple(model.states), problem.secret.window
        metric = limits(mechanism, states, model.length)
        cases, left, right = _upper_ends(law, metric, against, window, model.length)
        upper = max((case[0] for case in cases), default=0.0)
        lower, witness = 0.0, None
        seen = choices(mechanism, states)
        own = isinstance(mechanism, Levelled) and not isinstance(mechanism, PureDP)
        if len(seen.table) > 1 and not (own and not seen.tied):
            attack = _best_attack(law, seen, against, cases, left, right, model.length)
            if attack is not None and attack.value.lower > 0:
                lower = attack.value.lower
                witness = attack_witness(attack, seen, states, model.length)
        if lower > upper:
            raise Contradiction(
                f"an attack reveals at least {lower}, and at most {upper} is proved; please report "
                "the model and the mechanism"
            )
        return Leakage(
            lower, upper, METHOD, against, witness, assumptions=(ASSUMED,),
            citation=CITATION, secret=Window(window),
        )  # fmt: skip


ONE_ADVERSARY = OneAdversary()


def upper_end(
    law: LoweredLaw, metric: Array, against: Adversary, records: int | None, window: int = 1
) -> float:
    """Return the upper end of what one adversary learns, over all values of the known records.

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> round(upper_end(law, np.array([[0, 1.0], [1.0, 0]]), Adversary(0), 2), 6)
    1.776137
    """
    cases, _, _ = _upper_ends(law, metric, against, window, records)
    return max((case[0] for case in cases), default=0.0)


def _upper_ends(
    law: LoweredLaw, metric: Array, against: Adversary, window: int, records: int | None
) -> tuple[list[Case], Side, Side]:
    """Return the cases with their upper ends, the largest first, and both sides.

    Cases that cannot be the largest keep the upper end at the target alone.
    """
    target = against.target
    left = side(law, metric, target, against.known, -1, records)
    right = side(law, metric, target + window - 1, against.known, 1, records)
    cases: list[Case] = []
    if window == 1:
        for pair in permutations(range(law.states), 2):
            ends = join(law, metric, left, right, pair)  # (left, right)
            for one, two in np.argwhere(ends > -math.inf).tolist():
                cases.append((float(ends[one, two]), (pair[0],), (pair[1],), (one, two)))
        cases.sort(key=lambda case: -case[0])
        return _refined(law, metric, left, right, cases), left, right
    return _window_ends(law, metric, left, right, target, window), left, right


def _window_ends(
    law: LoweredLaw, metric: Array, left: Side, right: Side, first: int, window: int
) -> list[Case]:
    """Return the cases of a window that begins with a record, the largest upper end first."""
    histories = list(product(range(law.states), repeat=window))
    if len(histories) ** 2 * len(left.values) * len(right.values) > MOST_PAIRS:
        raise NotSupported(
            f"a window of {window} records and the values of the known ones have too many "
            f"cases to try: at most {MOST_PAIRS}; ask about a shorter window"
        )
    cases: list[Case] = []
    for one, two in permutations(histories, 2):
        for sides in product(range(len(left.values)), range(len(right.values))):
            value = join_window(law, metric, left, right, first, (one, two), sides)
            if value > -math.inf:
                cases.append((value, one, two, sides))
    return sorted(cases, key=lambda case: -case[0])


def _refined(
    law: LoweredLaw, metric: Array, left: Side, right: Side, cases: list[Case]
) -> list[Case]:
    """Return the cases, the leading ones also joined one record further out."""
    best, done = -math.inf, []
    for number, (value, one, two, sides) in enumerate(cases):
        if value <= best * (1 + CLOSE):  # no later case can be the largest
            done.extend(cases[number:])
            break
        outer = join_outer(law, metric, left, right, (one[0], two[0]), sides)
        value = min(value, outer)
        best = max(best, value)
        done.append((value, one, two, sides))
    return sorted(done, key=lambda case: -case[0])


def window_attack(
    level: float, model: Model, against: Against, window: int
) -> tuple[float, Witness | None]:
    """Return what the best of a few attacks on a window reveals, and its witness; 0 without one.

    Histories of one value, or of two in turn, of a window in the middle. The algorithm speaks for
    one of both in the window, and beside it for nothing, for that history's last value, against the
    other's, or for the history going on; an informed attacker knows the records beside it. Cost
    O(k^2 m^2) for each record of the window and `AROUND` beside it.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain.second_order([[[.7, .3], [.6, .4]], [[.5, .5], [.4, .6]]])
    >>> round(window_attack(0.5, chain, "any", 4)[0], 4)
    2.707
    """
    law, length = model.lowered(), model.length
    if law is None or window > LONGEST_WINDOW or level > MOST_LEVEL:
        return 0.0, None
    beside = AROUND if against != "informed" else INFORMED
    if against == "informed" and length is not None and length <= LONGEST_WINDOW:
        beside = length
    records = 2 * beside + window if length is None else length
    first = min((records - window) // 2, beside)
    end = min(records, first + window + beside)
    if against == "informed" and end < records:
        return 0.0, None  # a series too long for all of its records to be listed
    places = np.arange(end) - first  # of each record, 0 at the window's first
    inside = np.minimum(np.maximum(places, 0), window - 1)
    best: tuple[float, Attack | None] = (0.0, None)
    for pair in permutations(range(law.states), 2):
        for turn in (False, True):
            one, two = (_history(pair[::way], window, turn=turn) for way in (1, -1))
            goes_on = np.array(pair)[places % 2 if turn else np.zeros_like(places)]
            spoken = np.eye(law.states)[np.array(one)[inside]]  # (records, k)
            beyond = [
                np.zeros_like(spoken), spoken, 1 - np.eye(law.states)[np.array(two)[inside]],
                np.eye(law.states)[goes_on],
            ]  # fmt: skip
            known = (0,) if against != "informed" else range(law.states)
            for sides, value in product(beyond if against != "informed" else beyond[:1], known):
                within = (places >= 0) & (places < window)
                looked = np.where(within[:, None], spoken, sides)
                given = dict.fromkeys(np.flatnonzero(~within).tolist(), value)
                attack = Attack(
                    first, given if against == "informed" else {}, (one, two),
                    np.exp(level * (looked - 1)),
                )  # fmt: skip
                best = max(best, (play(law, attack).lower, attack), key=lambda each: each[0])
    if best[1] is None:
        return 0.0, None
    return best[0], _set_witness(best[1], tuple(model.states), records)


def _history(pair: tuple[int, ...], window: int, *, turn: bool) -> tuple[int, ...]:
    """Return the history of one value, or of two in turn."""
    return tuple(pair[t % 2 if turn else 0] for t in range(window))


def _set_witness(attack: Attack, states: tuple[State, ...], length: int) -> Witness:
    """Return an attack whose algorithm looks at whether records are in sets of states."""
    told = attack.likelihoods == attack.likelihoods.max(axis=1, keepdims=True)
    sets = tuple(
        (record, tuple(states[v] for v in np.flatnonzero(row)))
        for record, row in enumerate(told)
        if record not in attack.known and not row.all()
    )
    one, two = (tuple(states[v] for v in history) for history in attack.histories)
    known = tuple((record, states[value]) for record, value in sorted(attack.known.items()))
    return Witness(attack.target, length, known, one[0], two[0], sets=sets, histories=(one, two))


def _best_attack(
    law: LoweredLaw, seen: Choices, against: Adversary, cases: list[Case], left: Side, right: Side,
    records: int | None,
) -> FoundAttack | None:  # fmt: skip
    """Return the best attack over the cases that may hold one better than the best so far."""
    before = sorted((t for t in against.known if t < against.target), reverse=True)
    after = sorted(t for t in against.known if t > against.target)
    best: FoundAttack | None = None
    for upper, one, two, (first, second) in cases[:TRIED]:
        if best is not None and upper <= best.value.lower * (1 + CLOSE):
            break
        known = dict(zip(before, left.values[first].tolist(), strict=True))
        known |= dict(zip(after, right.values[second].tolist(), strict=True))
        attack = search_attack(law, seen, against.target, known, (one, two), records)
        if attack is not None and (best is None or attack.value.lower > best.value.lower):
            best = attack
    return best


def attack_witness(
    found: FoundAttack, seen: Choices, states: tuple[State, ...], length: int | None
) -> Witness:
    """Return an attack as a certificate holds it."""
    attack = found.attack
    shown = tuple(
        (record, seen.names[choice])
        for record, choice in enumerate(found.chosen.tolist())
        if seen.names[choice] is not None and record not in attack.known
    )
    one, two = (tuple(states[v] for v in history) for history in attack.histories)
    witness = Witness(
        attack.target, length or attack.records,
        tuple((record, states[value]) for record, value in sorted(attack.known.items())),
        one[0], two[0], outputs=() if seen.sets else shown,
        sets=shown if seen.sets else (),
    )  # fmt: skip
    return witness if len(one) == 1 else replace(witness, histories=(one, two))
