"""Whoever knows any records, or none, on hidden chains: cells of messages, and attacks near them.

Covers hidden chains with positive transitions, with or without a cycle of public contexts, records
and windows of records as the secret, and every mechanism that `undertow.bounds.core.limits` knows.
Where an attractive law has a sharper proof (`undertow.bounds.memory.envelopes`), that one answers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from undertow import progress
from undertow.bounds.core.attacks import Choices, FoundAttack, choices, search_attack
from undertow.bounds.core.cells import WIDTH, CellBounds, Cells, Lead
from undertow.bounds.core.limits import limits
from undertow.bounds.core.play import Attack, play
from undertow.bounds.memory.envelopes import envelopes_bound
from undertow.bounds.one_adversary import attack_witness, enters_by_limits, window_attack
from undertow.bounds.protocol import Problem
from undertow.certificate import Leakage
from undertow.errors import Contradiction, EffortSpent, NotSupported
from undertow.mechanisms import Levelled, PureDP
from undertow.models.base import Model
from undertow.models.hidden import HiddenChain
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array
from undertow.progress import metered
from undertow.secrets import Window

__all__ = ["ANY_ADVERSARY", "AnyAdversary"]

METHOD = "cells"

ASSUMED = "the records follow the stated hidden chain from its stationary law on"

PERIODIC = (
    "the records follow the stated hidden chain, in its public contexts, from its periodic law on"
)

CITATION = "cells of messages on hidden chains (docs, theory-engine E2, E5, E15)"

MEMORY = 400
"""Records that an attack looks at on either side of its target at most (cost)."""

LEADS = 4
"""Patterns with which an attack is sought, those of the largest upper ends (cost)."""

IMPROVED = 3
"""Patterns whose outputs are improved record by record (cost)."""

ATTAINED = 1e-4
"""Share of the upper end up to which attacks are sought (cost)."""

KNOWN = (1, 2, 4, 8, 16, 24)
"""Known records of a pattern that are kept on either side, in turn (cost)."""


@dataclass(frozen=True, slots=True)
class AnyAdversary:
    """Leakages on hidden chains to whoever knows any records, or none."""

    name: str = METHOD

    def supports(self, problem: Problem) -> bool:
        """Tell whether the adversary knows any records or none, and the mechanism has limits."""
        if problem.against not in ("any", "ignorant") or not enters_by_limits(problem):
            return False
        law = problem.model.lowered()
        return law is not None and not law.plain

    def prove(self, problem: Problem) -> Leakage:
        """Return a certified leakage: the smallest upper end that the effort allows, an attack.

        >>> from undertow import HiddenChain, PureDP
        >>> chain = HiddenChain([[.6, .1, .3], [.2, .5, .3], [.3, .1, .6]], (0, 0, 1))
        >>> leak = AnyAdversary().prove(Problem(PureDP(1.0), chain))
        >>> 1.77 < leak.lower <= leak.upper < 1.01 * leak.lower
        True
        """
        model, states = problem.model, tuple(problem.model.states)
        law = model.lowered()
        if law is None:
            raise NotSupported("a chain is needed here")
        metric = limits(problem.mechanism, states, model.length)
        window = problem.secret.window
        sharper = isinstance(model, HiddenChain) and envelopes_bound(model, metric)
        if sharper and window == 1:
            raise NotSupported("an attractive law has sharper bounds")
        bounds, finished = _refined(model, law, metric)
        upper = _upper(bounds, metric, problem)
        lower, witness = 0.0, None
        if window > 1 and isinstance(problem.mechanism, PureDP) and law.phases == 1:
            lower, witness = window_attack(
                problem.mechanism.epsilon, model, problem.against, window
            )
        elif window == 1:
            attack, seen = _best_attack(problem, law, bounds, upper)
            if attack is not None and attack.value.lower > 0:
                lower = attack.value.lower
                witness = attack_witness(attack, seen, states, model.length)
        if lower > upper:
            raise Contradiction(
                f"an attack reveals at least {lower}, and at most {upper} is proved; please report "
                "the model and the mechanism"
            )
        assumed = ASSUMED if law.phases == 1 else PERIODIC
        notes = (assumed,) if finished else (assumed, progress.SPENT)
        return Leakage(
            lower, upper, METHOD, problem.against, witness, assumptions=notes, citation=CITATION,
            secret=Window(window),
        )  # fmt: skip


ANY_ADVERSARY = AnyAdversary()


def _widths(law: LoweredLaw) -> tuple[float, ...]:
    """Return the widths of boxes, coarse ones first: a bound soon, and a sharp one later."""
    if law.size > 4:
        return 8 * WIDTH, 4 * WIDTH, 2 * WIDTH
    return (4 * WIDTH, WIDTH) if law.phases == 1 else (6 * WIDTH, 1.5 * WIDTH)


def _refined(model: Model, law: LoweredLaw, metric: Array) -> tuple[CellBounds, bool]:
    """Return the bounds of the finest cells that the effort allows, and whether none is missing."""
    best: CellBounds | None = None
    for number, width in enumerate(_widths(law)):
        progress.doing("bounding what any known records add", number + 1, len(_widths(law)))
        try:
            best = _cells(model, width).bounds(metric)
        except EffortSpent:
            if best is None:
                raise
            return best, False
        except NotSupported:  # more boxes than there may be
            if best is None:
                raise
            return best, True
    if best is None:
        raise NotSupported("no cells are known for this chain")
    return best, True


@metered(6)
def _cells(model: Model, width: float) -> Cells:
    """Return the cells of a model."""
    law = model.lowered()
    if law is None:
        raise NotSupported("a chain is needed here")
    return Cells.of(law, width)


def _upper(bounds: CellBounds, metric: Array, problem: Problem) -> float:
    """Return the upper end about a record, or a window of records."""
    if problem.secret.window > 1:
        return _window_upper(bounds, metric, problem.model, problem.secret.window)
    table = bounds.ignorant if problem.against == "ignorant" else bounds.upper
    return float(table.max())


def _window_upper(bounds: CellBounds, metric: Array, model: Model, records: int) -> float:
    """Return the upper end for a window, by the worst hidden states at both of its ends.

    The sum of the limits of its records, and the largest bounds of the states of its first and of
    its last record: the worst weights of the window's join (docs, theory-engine: E7).
    """
    law = model.lowered()
    if law is None:
        raise NotSupported("a chain is needed here")
    inside = law.symbols == np.arange(law.states)[:, None]
    best = 0.0
    for left in range(law.phases):
        right = (left + records - 1) % law.phases
        ends = []
        for table in (bounds.sides[0][left], bounds.sides[1][right]):
            pairs = [[table[np.ix_(a, b)].max() for b in inside] for a in inside]
            ends.append(float((np.array(pairs) + metric).max()))
        best = max(best, sum(ends) + (records - 2) * float(metric.max()))
    return float(best * (1 + 8 * np.finfo(float).eps))


def _best_attack(
    problem: Problem, law: LoweredLaw, bounds: CellBounds, upper: float
) -> tuple[FoundAttack | None, Choices]:
    """Return the best attack with the patterns of the leading pairs, and what it may look at."""
    mechanism, length = problem.mechanism, problem.model.length
    seen = choices(mechanism, tuple(problem.model.states))
    own = isinstance(mechanism, Levelled) and not isinstance(mechanism, PureDP)
    if len(seen.table) < 2 or (own and not seen.tied):
        return None, seen
    tries: list[tuple[float, Lead, int, dict[int, int]]] = []
    for lead in bounds.leads[:LEADS]:
        floor = max((attained for attained, *_ in tries), default=0.0)
        for target, known in _patterns(lead, law, length, problem.against == "any"):
            if lead.upper > floor:
                tries.append(
                    (_alike(law, seen, lead.pair, target, known, length), lead, target, known)
                )
    tries.sort(key=lambda each: -each[0])
    best: FoundAttack | None = None
    for _, lead, target, known in tries[:IMPROVED]:
        if best is not None and best.value.lower >= min(lead.upper, upper * (1 - ATTAINED)):
            break
        histories = ((lead.pair[0],), (lead.pair[1],))
        attack = search_attack(law, seen, target, known, histories, length)
        if attack is not None and (best is None or attack.value.lower > best.value.lower):
            best = attack
    return best, seen


def _alike(
    law: LoweredLaw, seen: Choices, pair: tuple[int, int], target: int, known: dict[int, int],
    length: int | None,
) -> float:  # fmt: skip
    """Return what a pattern reveals if every record shows what speaks most for the first value."""
    row = int((seen.table[:, pair[0]] / seen.table[:, pair[1]]).argmax())
    records = length or max((target, *known)) + MEMORY
    likelihoods = np.tile(seen.table[row] / seen.table[row].max(), (records, 1))
    attack = Attack(target, known, ((pair[0],), (pair[1],)), likelihoods)
    try:
        return play(law, attack).lower
    except NotSupported:  # likelihoods too far apart
        return 0.0


def _patterns(
    lead: Lead, law: LoweredLaw, length: int | None, knowing: bool
) -> Iterator[tuple[int, dict[int, int]]]:
    """Yield targets and known records of a pattern: of more and more of its records."""
    seen: set[tuple[tuple[int, int], ...]] = set()
    for most in (0, *KNOWN) if knowing else (0,):
        left = [(d, v) for d, v in lead.left[:most] if d <= MEMORY]
        right = [(d, v) for d, v in lead.right[:most] if d <= MEMORY]
        room = MEMORY + max((d for d, _ in left), default=0)
        target = lead.phase + law.phases * math.ceil(room / law.phases)
        if length is not None:
            fits = range(lead.phase, length, law.phases)
            target = fits[len(fits) // 2] if fits else length // 2
        known = {target - d: v for d, v in left} | {target + d: v for d, v in right}
        if length is not None:
            known = {record: value for record, value in known.items() if 0 <= record < length}
        key = tuple(sorted(known.items()))
        if key not in seen:
            seen.add(key)
            yield target, known
