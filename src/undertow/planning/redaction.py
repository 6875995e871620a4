"""Which records of a series to erase, and how often: one method by name, or the best of them."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from undertow.adversaries import Adversary, Against, check_against, words
from undertow.bounds.engine import leakage
from undertow.bounds.series.regions import window_bound
from undertow.certificate import Leakage
from undertow.channels import Redaction
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel, members
from undertow.numerics import Array, check_epsilon
from undertow.plan import Plan
from undertow.planning.erasures import (
    Setting,
    grained,
    printed_windows,
    shown_share,
    three_regions,
    window_choices,
    window_table,
)
from undertow.planning.redaction_flanks import has_recursion
from undertow.planning.redaction_optimum import Half, best_halves, erasure_table
from undertow.planning.redaction_search import (
    MANY,
    Pattern,
    climb,
    halves_pattern,
    likely_patterns,
)
from undertow.queries import Redacted

__all__ = ["REDACTIONS", "RedactionMethod", "calibrate_redacted"]

MARGINS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-7, 1e-5)
"""What a search leaves of epsilon, relative to max(1, epsilon), for the roundings of its proof;
tried in turn until the proof succeeds."""

SILENT = 1e-18
"""Log-ratio, up to a factor, below which a record says nothing."""

NEAR = 1e-9
"""By how much the leakage of an optimum may exceed epsilon, relative to max(1, epsilon), to count
as rounding, which a margin makes good."""

CHOICES = 6
"""Windows besides the best around which a local search looks."""

OPTIMAL = "no redaction of this series, record by record, shows more at this leakage"
FOUND = "the best redaction found; others might show more"
CLOSE = (
    "the best redaction of its shape found; where one value is very rare, others may show a few "
    "percent more"
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table of erasures, and what can be said about it."""

    table: Array
    notes: tuple[str, ...] = ()
    optimal: bool = False


@dataclass(frozen=True, slots=True)
class RedactionMethod:
    """A way to choose erasures: whom it protects, and how it chooses.

    Every plan carries the leakage that is certified for its own table. ``certified`` methods
    keep it below epsilon by a proof of ours; the others are as published.
    """

    name: str
    summary: str
    citation: str
    certified: bool
    protects: tuple[Literal["any", "ignorant"], ...]
    propose: Callable[[Setting], Proposal]

    def covers(self, against: Against) -> bool:
        """Return whether the method protects against an adversary (``any`` covers them all)."""
        nothing_known = isinstance(against, Adversary) and not against.known
        return "any" in self.protects or against == "ignorant" or nothing_known

    def admit(self, against: Against) -> None:
        """Refuse an adversary that the method does not protect against."""
        if not self.covers(against):
            whom = " and ".join(f"'{name}' ({words(name)})" for name in self.protects)
            raise MethodRefused(
                f"'{self.name}' protects only against {whom}, not against "
                f"{against if isinstance(against, str) else words(against)!r}; choose "
                "method='optimal' or 'mq', or say against='ignorant'"
            )


def calibrate_redacted(
    query: Redacted,
    model: AnyModel,
    epsilon: float,
    against: Against = "any",
    method: str = "optimal",
) -> Plan[Redaction]:
    """Return the plan of a redaction whose leakage is certainly at most ``epsilon``.

    Protected records are always erased, others as often as the method says; chances of erasure
    are whole multiples of `GRAIN`, and the leakage is certified for them as they are.

    Parameters
    ----------
    query
        The protected records, and the length of the series where the model has none.
    method
        ``optimal`` (default: the most that can be shown; two states and one protected record,
        else the best found), ``mq`` (windows that do not look at the values), ``best`` (the
        largest share shown by any certified method); against an attacker who knows no other
        record also ``3r-relaxed``, ``3r-constant``, ``3r-individual`` and ``mq-printed``
        [massny2025].

    >>> chain = MarkovChain([[.99, .01], [.8, .2]])
    >>> plan = calibrate_redacted(Redacted(protect=0, length=10), chain, 1.0)
    >>> plan.utility, plan.leakage.proves(1.0)
    (0.780849, True)
    """
    setting = _setting(query, model, epsilon, against)
    if method == "best":
        return _best(setting, model)
    if method not in REDACTIONS:
        raise InvalidInput(
            f"unknown method {method!r}; the methods are {', '.join((*REDACTIONS, 'best'))}"
        )
    return _planned(setting, model, REDACTIONS[method])


def _setting(query: Redacted, model: AnyModel, epsilon: float, against: Against) -> Setting:
    if not isinstance(query, Redacted):
        raise InvalidInput(f"the query must be Redacted(protect=...), found {type(query).__name__}")
    epsilon, against = check_epsilon(epsilon), check_against(against)
    found = members(model)
    chains = tuple(member for member in found if isinstance(member, MarkovChain))
    if len(chains) < len(found):
        other = next(member for member in found if not isinstance(member, MarkovChain))
        raise MethodRefused(f"a redaction needs a MarkovChain, found {other.describe()}")
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
    if isinstance(against, Adversary):
        last = max((against.target, *against.known))
        if last >= length:
            raise InvalidInput(
                f"the adversary names record {last}, but the series has {length} records, counted "
                "from 0"
            )
        if against.target not in query.protect:
            raise InvalidInput(
                f"the adversary wants record {against.target}, which the query does not protect; "
                "add it to protect"
            )
    return Setting(chains, length, query.protect, epsilon, against)


def _planned(setting: Setting, model: AnyModel, method: RedactionMethod) -> Plan[Redaction]:
    method.admit(setting.against)
    proposal, leak = _proved(setting, method)
    mechanism = Redaction(proposal.table, setting.protect)
    leak = replace(leak, assumptions=(*leak.assumptions, *proposal.notes))
    return Plan(
        mechanism, model, setting.epsilon, leak, method.name,
        measures=tuple(_measures(setting, proposal)),
    )  # fmt: skip


def _proved(setting: Setting, method: RedactionMethod) -> tuple[Proposal, Leakage]:
    """Return what a method proposes, rounded, with a leakage of at most epsilon if it is ours."""
    for margin in MARGINS:
        less = setting.epsilon - margin * max(1.0, setting.epsilon)
        if less <= 0:
            break
        proposal = method.propose(replace(setting, epsilon=less))
        proposal = replace(proposal, table=grained(proposal.table))
        leak = _certified(setting, proposal.table)
        if leak.proves(setting.epsilon) or not method.certified:
            return proposal, leak
    raise NotSupported(
        f"'{method.name}' could not certify a leakage of {setting.epsilon:g}; use method='mq'"
    )


def _certified(setting: Setting, table: Array) -> Leakage:
    """Return the certified leakage of a table, the worst case over the chains."""
    mechanism = Redaction(table, setting.protect)
    found = [leakage(mechanism, chain, setting.against) for chain in setting.chains]
    worst = max(found, key=lambda leak: leak.lower)
    return replace(worst, upper=max(leak.upper for leak in found))


def _measures(setting: Setting, proposal: Proposal) -> Iterator[tuple[str, float]]:
    """Yield how much is shown, and how much could be."""
    chain = setting.chains[0]
    utility = min(shown_share(member, proposal.table) for member in setting.chains)
    yield "utility", utility
    if len(setting.chains) > 1:
        return
    with suppress(MethodRefused):
        one, target = setting.one("the window bound")
        asked = (one, target, setting.length, setting.epsilon)
        yield "window bound printed", window_bound(*asked, printed=True)
        yield "window bound", window_bound(*asked)
    if proposal.optimal:
        yield "optimum", utility
        return
    if len(setting.protect) == 1 and chain.size == 2:
        best = _optimal(setting)
        if best.optimal:
            yield "optimum", shown_share(chain, best.table)


def _best(setting: Setting, model: AnyModel) -> Plan[Redaction]:
    """Return the certified plan that shows most."""
    plans: list[Plan[Redaction]] = []
    reasons: list[str] = []
    for method in REDACTIONS.values():
        if method.certified and method.covers(setting.against):
            try:
                plans.append(_planned(setting, model, method))
            except NotSupported as reason:
                reasons.append(f"{method.name}: {reason}")
            else:
                if ("optimum", plans[-1].utility) in plans[-1].measures:
                    break
    if not plans:
        raise NotSupported(f"no method can keep this promise. {'; '.join(reasons)}")
    return max(plans, key=lambda plan: plan.utility)


def _optimal(setting: Setting) -> Proposal:
    """Return the erasures that show most, or the best that are found."""
    chain = setting.chain("optimal")
    if setting.against == "informed":
        note = "whoever knows the neighbours of a record learns nothing from a redaction"
        return Proposal(window_table(setting), (note, OPTIMAL), optimal=True)
    if isinstance(setting.against, Adversary):
        named: Literal["any", "ignorant"] = "any" if setting.against.known else "ignorant"
        wider = _optimal(replace(setting, against=named))
        if named == "ignorant":
            return wider
        return replace(
            wider, optimal=False,
            notes=("planned against an attacker who knows any other records", FOUND),
        )  # fmt: skip
    if len(setting.protect) == 1 and has_recursion(chain):
        return _nearby(setting, chain, setting.protect[0])
    best = window_table(setting)
    windows = window_choices(setting, CHOICES)
    for pattern in likely_patterns(
        chain, setting.protect, setting.against, setting.epsilon, windows
    ):
        best = _better(setting, chain, best, pattern)
    return Proposal(best, (FOUND,))


def _nearby(setting: Setting, chain: MarkovChain, target: int) -> Proposal:
    """Return the optimum, planned for the records that can say anything; the rest are shown."""
    length = setting.length
    if not chain.homogeneous or not isinstance(chain.start, str):
        return _two_states(setting, chain, target)
    fading = abs(1 - chain.transition[0, 1] - chain.transition[1, 0])
    if fading >= 1:  # as a float: it never forgets, or not within any series
        return _two_states(setting, chain, target)
    reach = 2 + math.ceil(math.log(SILENT) / math.log(max(fading, SILENT)))
    first, last = max(0, target - reach), min(length, target + reach + 1)
    if last - first == length:
        return _two_states(setting, chain, target)
    inner = replace(
        setting, chains=(MarkovChain(chain.transition, chain.states),),
        length=last - first, protect=(target - first,),
    )  # fmt: skip
    found = _two_states(inner, inner.chains[0], target - first)
    table = np.zeros((length, 2))
    table[first:last] = found.table
    return replace(found, table=table)


def _two_states(setting: Setting, chain: MarkovChain, target: int) -> Proposal:
    """Return the optimum against an ignorant attacker, and the best that is found against any.

    Against any attacker the recursion leaves out those who know the very record at which the
    erasures end, and redactions in which a value is always shown before everything is.
    """
    against, length = setting.against, setting.length
    ideal = best_halves(chain, target, length, setting.epsilon, against, most=3)
    table = erasure_table(length, target, ideal[0])
    allowed = setting.epsilon + NEAR * max(1.0, setting.epsilon)
    if against == "ignorant":
        return Proposal(table, (OPTIMAL,), optimal=True)
    if _certified(setting, grained(table)).proves(allowed):
        return Proposal(table, (CLOSE,))
    safe = best_halves(chain, target, length, setting.epsilon, against, met=True)
    best = erasure_table(length, target, safe[0])
    if not _certified(setting, grained(best)).proves(allowed):
        best = window_table(setting)
    for halves in ideal:
        pattern = halves_pattern(chain, target, length, against, halves)
        if pattern.free.sum() <= MANY and _shown(halves) > length * shown_share(chain, best):
            best = _better(setting, chain, best, pattern)
    return Proposal(best, (CLOSE,))


def _shown(halves: tuple[Half, Half]) -> float:
    return halves[0].shown + halves[1].shown


def _better(setting: Setting, chain: MarkovChain, best: Array, pattern: Pattern) -> Array:
    """Return what a local search makes of a pattern, if it is private and shows more."""
    shown = shown_share(chain, best)
    less = setting.epsilon
    if shown_share(chain, np.where(pattern.free, 0.0, pattern.fixed)) <= shown:
        return best
    for _ in range(3):
        table = pattern.table(climb(pattern, less))
        leak = _certified(setting, grained(table))
        if leak.proves(setting.epsilon + MARGINS[0] * max(1.0, setting.epsilon)):
            return table if shown_share(chain, table) > shown else best
        less -= 2 * (leak.upper - setting.epsilon)
        if less <= 0:
            break
    return best


def _windows(setting: Setting) -> Proposal:
    return Proposal(window_table(setting))


def _printed(setting: Setting) -> Proposal:
    return Proposal(printed_windows(setting), ("windows as printed in Algorithm 1",))


def _three(how: Literal["relaxed", "constant", "individual"]) -> Callable[[Setting], Proposal]:
    return lambda setting: Proposal(three_regions(setting, how))


_PAPER = "Section IV of [massny2025]"
_LISTED = (
    RedactionMethod("optimal", "the most that erasures record by record can show",
                    "docs, theory: redaction", True, ("any", "ignorant"), _optimal),
    RedactionMethod("mq", "the narrowest windows, whatever the values",
                    "Corollary 2 of [massny2025]", True, ("any", "ignorant"), _windows),
    RedactionMethod("3r-individual", "three regions, a chance for each record", _PAPER,
                    True, ("ignorant",), _three("individual")),
    RedactionMethod("3r-constant", "three regions, one chance", _PAPER,
                    True, ("ignorant",), _three("constant")),
    RedactionMethod("3r-relaxed", "three regions, a convex program", _PAPER,
                    True, ("ignorant",), _three("relaxed")),
    RedactionMethod("mq-printed", "windows as printed", "Algorithm 1 of [massny2025]",
                    False, ("ignorant",), _printed),
)  # fmt: skip
REDACTIONS = {method.name: method for method in _LISTED}
"""All methods for redacted series, by name; certified ones first."""
