"""The worst case of a plan, put on a strip: the attack that its certificate names, played out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from undertow.auditing.attackers import totals
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.plan import Plan
from undertow.queries import State
from undertow_studio.views.attacker import CLOSE, ValueBelief, attained
from undertow_studio.views.odds import allowed
from undertow_studio.views.strips import MOST, Strip, chains_of

__all__ = ["Worst", "worst_case"]


@dataclass(frozen=True, slots=True)
class Worst:
    """The attack of a certificate: the strip, the two values that it compares, what it attains.

    ``other_algorithm`` says that the attack is on another algorithm of the same DP level: the
    proof covers them all, and this plan's own noise may leak less.
    """

    strip: Strip
    value: State
    other: State
    guess: ValueBelief
    attains: float
    other_algorithm: bool

    def words(self) -> str:
        """Return the attack in words."""
        known = ", ".join(
            f"record {record} is {state!s}" for record, state in self.strip.known.items()
        )
        what = f"knows that {known}" if known else "knows no other record"
        seen = "sees the worst output there is"
        if self.strip.answer is not None:
            seen = f"sees an answer of {self.strip.answer} about these records, or beyond"
        elif self.other_algorithm:
            seen = "sees the worst output of the worst algorithm of this DP level"
        factor = math.exp(min(self.attains, 700.0))
        return (
            f"The worst case: someone {what}, and {seen}. The odds of {self.value!s} against "
            f"{self.other!s} for record {self.strip.target} then move by a factor of {factor:.3g}."
        )


def worst_case(plan: Plan[Any]) -> Worst | None:
    """Return the attack that attains the lower end of a plan's leakage, None where none is named.

    Of a plan for a window of records, whose attack compares histories, there is none, nor of one
    for a class of chains whose worst one is not among those that can be drawn. Refuses attacks on
    more records than can be weighed.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.882, .118], [.305, .695]]), limit=1.0)
    >>> worst = worst_case(plan)
    >>> worst.strip.length, abs(worst.attains - plan.leakage.lower) < 1e-9
    (27, True)
    """
    witness = plan.leakage.witness
    if witness is None or witness.histories is not None:
        return None
    strips = [replace(_strip(plan, witness), which=which) for which in range(len(chains_of(plan)))]
    guesses = [strip.guess(witness.value) for strip in strips]
    moved = [attained(guess, witness.value, witness.other) for guess in guesses]
    best = moved.index(max(moved))
    strip, guess = strips[best], guesses[best]
    if moved[best] < plan.leakage.lower - CLOSE:
        return None
    if math.isinf(guess.limit):  # the certificate is about this very attack
        ends = allowed(guess.prior, plan.leakage.upper, plan.delta)
        guess = replace(guess, limit=plan.leakage.upper, allowed=ends, reason="")
    other = bool(witness.sets) and strip.answer is None
    return Worst(
        strip, witness.value, witness.other, guess,
        moved[best], other,
    )  # fmt: skip


def _strip(plan: Plan[Any], witness: Witness) -> Strip:
    """Return the strip of an attack: from one known end to the other."""
    target = witness.target
    counted = plan.task == "answer" and not witness.sets
    places = [record for record, _ in witness.known]
    if plan.task != "answer":
        first, last = _span([target, *places, *(record for record, _ in witness.outputs)])
        chosen = dict(witness.known)
    else:
        first = max((r for r in places if r < target), default=0)
        last = min((r for r in places if r > target), default=witness.length - 1)
        chosen = {r: state for r, state in witness.known if first <= r <= last}
    if witness.sets:
        reach = [record for record, _ in witness.sets]
        first = max((r for r in places if r < target), default=min([target, *reach]))
        last = min((r for r in places if r > target), default=max([target, *reach]))
    if last - first + 1 > MOST:
        raise NotSupported(f"the worst attack is on {last - first + 1} records: too many to draw")
    strip = Strip(plan, first, last - first + 1, target, chosen, window=witness.window)
    if plan.task != "answer":
        return replace(strip, outputs=dict(witness.outputs))
    chain = strip.chain
    if counted:
        made = totals(plan.noise, chain.states, strip.length)
        # the certificate's answer leaves out what the known records add
        more = sum(
            made.adds[chain.index(state)]
            for record, state in chosen.items()
            if witness.window is None or witness.window[0] <= record < witness.window[1]
        )
        return replace(strip, answer=float((witness.output or 0) + more))
    level = plan.dp_epsilon
    inside = {record: states for record, states in witness.sets if first <= record <= last}
    if _is_count(plan, inside.values()):
        return _extreme(plan, strip, inside)
    rates = {
        record: tuple(level * (state in states) for state in chain.states)
        for record, states in inside.items()
    }
    return replace(strip, rates=rates)


def _is_count(plan: Plan[Any], sets: Iterable[tuple[State, ...]]) -> bool:
    """Return whether an output of the worst algorithm is one of the plan's own noisy count.

    It is where every record has the counted states for its set, or every record the others.
    """
    named = getattr(plan.query, "named", ())
    if not named or getattr(plan.noise, "measure", "") != "scale":
        return False
    counted = frozenset(named)
    rest = frozenset(plan.states) - counted
    found = {frozenset(states) for states in sets}
    return found in ({counted}, {rest})


def _extreme(plan: Plan[Any], strip: Strip, sets: dict[int, tuple[State, ...]]) -> Strip:
    """Return the strip with the largest answer there can be, or the least.

    A count of all records or of none has likelihood exp(-|answer - count| / scale), which is the
    output exp(level * records in the set) up to a factor; records without a set are known.
    """
    high = frozenset(next(iter(sets.values()))) == frozenset(getattr(plan.query, "named", ()))
    return replace(strip, answer=float(strip.length) if high else 0.0)


def _span(records: list[int]) -> tuple[int, int]:
    return min(records), max(records)
