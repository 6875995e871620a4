"""Which records of a series to erase, and how often.

Protected records are always erased, others as often as a method says; probabilities of erasure are
whole multiples of `GRAIN`, and the leakage is certified for them as they are.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from undertow.adversaries import Adversary, check_records
from undertow.bounds.engine import leakage
from undertow.bounds.series.regions import window_bound
from undertow.certificate import Leakage
from undertow.channels import Redaction
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.models.markov import MarkovChain
from undertow.numerics import Array
from undertow.planning.erasures import (
    ErasureTask,
    grained,
    printed_windows,
    shown_share,
    three_regions,
    window_choices,
    window_table,
)
from undertow.planning.questions import Question, Solution, Way
from undertow.planning.redaction_optimum import best_redactions, erasure_table
from undertow.planning.redaction_search import (
    MANY,
    Pattern,
    climb,
    likely_patterns,
    redaction_pattern,
)
from undertow.planning.redaction_shapes import likely_shapes
from undertow.planning.redaction_sides import has_recursion
from undertow.queries import Redacted

__all__ = ["CONSTANT", "INDIVIDUAL", "OPTIMAL", "PRINTED", "RELAXED", "WINDOWS"]

MARGINS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-7, 1e-5)
"""What a search leaves of limit, relative to max(1, limit), for the roundings of its proof;
tried in turn until the proof succeeds."""

SILENT = 1e-18
"""Log-ratio, up to a factor, below which a record says nothing."""

NEAR = 1e-9
"""By how much the leakage of an optimum may exceed limit, relative to max(1, limit), to count
as rounding, which a margin makes good."""

CHOICES = 6
"""Windows besides the best around which a local search looks."""

MOST = "no redaction of this series, record by record, shows more at this leakage"
FOUND = "the best redaction found; others might show more"

SHAPES, TRIES = 48, 32
"""Shapes of a redaction whose bounds are refined, and those tried by a local search, at most."""

LONG = 160
"""Records beside the protected one up to which all shapes are looked at (cost)."""

COARSE = 0.02
"""Records by which the bound of a shape may be too low before it is refined."""

SAME = 1e-7
"""Records by which a shape must promise more than what was found to be tried."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table of erasures, and what can be said about it.

    ``most`` bounds the records that any redaction shows, on average; inf where nothing is proved.
    """

    table: Array
    notes: tuple[str, ...] = ()
    optimal: bool = False
    most: float = math.inf


def _task(question: Question[Redacted]) -> ErasureTask:
    """Return what is to be planned, or refuse records that are not there."""
    query, model, against = question.query, question.model, question.against
    chains = tuple(question.chains("redaction"))
    own = model.length
    length = own if query.length is None else query.length
    if length is None:
        raise InvalidInput(
            "the number of records is not known; write Redacted(protect=17, length=100), or give "
            "the chain a length"
        )
    if own not in (None, length):
        raise InvalidInput(
            f"the query is about {length} records, the model about {own}; they must agree"
        )
    if query.protect[-1] >= length:
        raise InvalidInput(
            f"record {query.protect[-1]} is to be protected, but the series has {length} records, "
            "counted from 0"
        )
    check_records(against, length)
    if isinstance(against, Adversary) and against.target not in query.protect:
        raise InvalidInput(
            f"the adversary wants record {against.target}, which the query does not protect; add "
            "it to protect"
        )
    return ErasureTask(chains, length, query.protect, question.limit, against)


def _way(propose: Callable[[ErasureTask], Proposal], margins: Sequence[float] = MARGINS) -> Way:
    """Return the way of a method that proposes erasures, and certifies what it proposes."""

    def solve(question: Question[Redacted]) -> Solution:
        task = _task(question)
        proposal, leak = _proved(task, propose, margins)
        mechanism = Redaction(proposal.table, task.protect)
        measures = tuple(_measures(task, proposal))
        notes = (*proposal.notes, *_distance(task, proposal))
        return Solution(mechanism, leak, notes, measures, proposal.optimal)

    return Way(solve, lambda asked, found: leakage(found, asked.model, asked.against))


def _proved(
    task: ErasureTask, propose: Callable[[ErasureTask], Proposal], margins: Sequence[float]
) -> tuple[Proposal, Leakage]:
    """Return what a method proposes, rounded, at the first margin at which it keeps the guarantee.

    Where it does at none, what it proposes at the last.
    """
    scale = max(1.0, task.limit)
    allowed = [less for margin in margins if (less := task.limit - margin * scale) > 0]
    if not allowed:
        raise NotSupported(f"a leakage of {task.limit:g} is too small to tell from rounding")
    for less in allowed:
        proposal = propose(replace(task, limit=less))
        proposal = replace(proposal, table=grained(proposal.table))
        leak = _certified(task, proposal.table)
        if leak.proves(task.limit):
            break
    return proposal, leak


def _distance(task: ErasureTask, proposal: Proposal) -> Iterator[str]:
    """Yield how far a plan is from the most that any redaction shows, where that is bounded."""
    if math.isfinite(proposal.most):
        shown = shown_share(task.chains[0], proposal.table)
        # rounded up: the bound is one-sided
        most = math.ceil(1e6 * proposal.most / task.length) / 1e6
        less = max(0.0, 1 - shown / most) if most else 0.0
        yield (
            "by a bound to six digits, no redaction that shows one value at times and then "
            f"everything, on either side, shows more than {most:.6f} of the series; this one shows "
            f"{less:.2%} less"
        )


def _certified(task: ErasureTask, table: Array) -> Leakage:
    """Return the certified leakage of a table, the worst case over the chains."""
    mechanism = Redaction(table, task.protect)
    found = [leakage(mechanism, chain, task.against) for chain in task.chains]
    worst = max(found, key=lambda leak: leak.lower)
    return replace(worst, upper=max(leak.upper for leak in found))


def _measures(task: ErasureTask, proposal: Proposal) -> Iterator[tuple[str, float]]:
    """Yield how much is shown, and how much could be."""
    chain = task.chains[0]
    utility = min(shown_share(member, proposal.table) for member in task.chains)
    yield "utility", utility
    if len(task.chains) > 1:
        return
    with suppress(MethodRefused):
        one, target = task.one("the window bound")
        asked = (one, target, task.length, task.limit)
        yield "window bound printed", window_bound(*asked, printed=True)
        yield "window bound", window_bound(*asked)
    if proposal.optimal:
        yield "optimum", utility
        return
    if len(task.protect) == 1 and chain.size == 2:
        best = _optimal(task)
        if best.optimal:
            yield "optimum", shown_share(chain, best.table)


def _optimal(task: ErasureTask) -> Proposal:
    """Return the erasures that show most, or the best that are found."""
    chain = task.chain("optimal")
    if task.against == "informed":
        note = "whoever knows the neighbours of a record learns nothing from a redaction"
        return Proposal(window_table(task), (note, MOST), optimal=True)
    if isinstance(task.against, Adversary):
        named: Literal["any", "ignorant"] = "any" if task.against.known else "ignorant"
        wider = _optimal(replace(task, against=named))
        if named == "ignorant":
            return wider
        return replace(
            wider, optimal=False,
            notes=("planned against an attacker who knows any other records", FOUND),
        )  # fmt: skip
    if len(task.protect) == 1 and has_recursion(chain):
        return _nearby(task, chain, task.protect[0])
    best = window_table(task)
    windows = window_choices(task, CHOICES)
    for pattern in likely_patterns(chain, task.protect, task.against, task.limit, windows):
        best = _better(task, chain, best, pattern)
    return Proposal(best, (FOUND,))


def _nearby(task: ErasureTask, chain: MarkovChain, target: int) -> Proposal:
    """Return the optimum, planned for the records that can say anything; the rest are shown."""
    length = task.length
    if not chain.homogeneous or not isinstance(chain.start, str):
        return _two_states(task, chain, target)
    fading = abs(1 - chain.transition[0, 1] - chain.transition[1, 0])
    if fading >= 1:  # as a float: it never forgets, or not within any series
        return _two_states(task, chain, target)
    reach = 2 + math.ceil(math.log(SILENT) / math.log(max(fading, SILENT)))
    first, last = max(0, target - reach), min(length, target + reach + 1)
    if last - first == length:
        return _two_states(task, chain, target)
    inner = replace(
        task, chains=(MarkovChain(chain.transition, chain.states),),
        length=last - first, protect=(target - first,),
    )  # fmt: skip
    found = _two_states(inner, inner.chains[0], target - first)
    table = np.zeros((length, 2))
    table[first:last] = found.table
    return replace(found, table=table, most=found.most + length - (last - first))


def _two_states(task: ErasureTask, chain: MarkovChain, target: int) -> Proposal:
    """Return the optimum against an ignorant attacker, and the best that is found against any.

    Against any attacker the recursion leaves out those who know a record up to which all are
    erased: what it gives is a bound, and `_all_shapes` looks for what comes closest to it.
    """
    against, length = task.against, task.length
    ideal = best_redactions(chain, target, length, task.limit, against, most=3)
    table = erasure_table(length, target, ideal[0])
    allowed = task.limit + NEAR * max(1.0, task.limit)
    if against == "ignorant":
        return Proposal(table, (MOST,), optimal=True)
    best = table
    if not _certified(task, grained(table)).proves(allowed):
        safe = best_redactions(chain, target, length, task.limit, against, met=True)
        best = erasure_table(length, target, safe[0])
        if not _certified(task, grained(best)).proves(allowed):
            best = window_table(task)
        for redactions in ideal:
            pattern = redaction_pattern(chain, target, length, against, redactions)
            most = sum(each.shown for each in redactions)
            if pattern.free.sum() <= MANY and most > length * shown_share(chain, best):
                best = _better(task, chain, best, pattern)
    if length > LONG:
        return Proposal(best, (FOUND,))
    return _all_shapes(task, chain, target, best)


def _all_shapes(task: ErasureTask, chain: MarkovChain, target: int, best: Array) -> Proposal:
    """Return the best redaction over all shapes that could show more, and a bound on all.

    A shape is bounded without the attackers who know the very record at which its erasures end;
    a local search tries it out with them, the most promising first.
    """
    length = task.length
    shown = length * shown_share(chain, best)
    asked = chain, target, length, task.limit, task.against
    shapes, rest = likely_shapes(*asked, shown - COARSE, SHAPES)
    refined = [found for shape in shapes if (found := shape.refined(task.limit))]
    refined.sort(key=lambda found: -found[0])
    most = max([shown, rest + COARSE, *(bound for bound, *_ in refined[:1])])
    for bound, shape, both in refined[:TRIES]:
        if bound <= length * shown_share(chain, best) + SAME:
            break
        pattern = shape.pattern(chain, target, length, task.against, both)
        if pattern.free.sum() <= MANY:
            best = _better(task, chain, best, pattern)
    return Proposal(best, (FOUND,), most=most)


def _better(task: ErasureTask, chain: MarkovChain, best: Array, pattern: Pattern) -> Array:
    """Return what a local search makes of a pattern, if it is private and shows more."""
    shown = shown_share(chain, best)
    less = task.limit
    if shown_share(chain, np.where(pattern.free, 0.0, pattern.fixed)) <= shown:
        return best
    for _ in range(3):
        table = pattern.table(climb(pattern, less))
        leak = _certified(task, grained(table))
        if leak.proves(task.limit + MARGINS[0] * max(1.0, task.limit)):
            return table if shown_share(chain, table) > shown else best
        less -= 2 * (leak.upper - task.limit)
        if less <= 0:
            break
    return best


def _three(how: Literal["relaxed", "constant", "individual"]) -> Way:
    return _way(lambda task: Proposal(three_regions(task, how)))


OPTIMAL = _way(_optimal)
WINDOWS = _way(lambda task: Proposal(window_table(task)))
INDIVIDUAL, CONSTANT, RELAXED = _three("individual"), _three("constant"), _three("relaxed")
PRINTED = _way(
    lambda task: Proposal(printed_windows(task), ("windows as printed in Algorithm 1",)),
    MARGINS[:1],  # as printed, whatever it leaks
)
