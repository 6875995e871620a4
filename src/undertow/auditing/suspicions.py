"""Attacks on what a screening names: records, pairs of records, and answers that share noise.

They stay within the plan's guarantee as all attacks do: its adversary, its secrets, its records.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from undertow.adversaries import Adversary
from undertow.auditing.scenarios import DrawnModel, secret_pairs, secret_targets
from undertow.auditing.screening import Suspects
from undertow.auditing.trials import Focus, source_of
from undertow.certificate import Witness
from undertow.errors import InvalidInput
from undertow.plan import Plan

__all__ = ["suspicions"]

_MOST = 8
_FEW = 2
"""Attacks on a record, or on a record and its partner, at most; and on a distance between calls."""

_STATES = 3
"""States that known records are tried in."""


def suspicions(
    plan: "Plan[Any]", drawn: DrawnModel, suspects: Suspects
) -> Iterator[tuple[Witness, Focus]]:
    """Yield an attack with what it looks at for everything that a screening names.

    >>> from undertow import Count, Laplace, MarkovChain
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=9)
    >>> plan = Plan(Laplace(Count(1), 4.0), chain, 1.0, Leakage(1, 1, "exact", "ignorant"), "exact")
    >>> found = suspicions(plan, DrawnModel(chain, 9), Suspects(records=(3,)))
    >>> [attack.words() for attack, _ in found]
    ['target record 3 of 9, nothing known: 0 against 1']
    """
    for record in suspects.records:
        for attack in islice(_attacks(plan, drawn, record, None), _MOST):
            yield attack, Focus(whole=True)
    for pair in suspects.pairs:
        for target, partner in (pair, pair[::-1]):
            for attack in islice(_attacks(plan, drawn, target, partner), _MOST):
                yield attack, Focus(whole=True, partner=partner)
    target = secret_targets(plan, drawn)[0]
    for repeat in suspects.repeats:
        for attack in islice(_attacks(plan, drawn, target, None), _FEW):
            yield attack, Focus(whole=plan.task != "answer", repeat=repeat)
        if repeat.calls:
            for attack in islice(_attacks(plan, drawn, target, None), 1):
                yield attack, Focus(whole=plan.task != "answer", alone=True)


def _attacks(
    plan: "Plan[Any]", drawn: DrawnModel, target: int, partner: int | None
) -> Iterator[Witness]:
    """Yield attacks on one record, each once; a partner is known in different states."""
    if not _secret(plan, target):
        return
    seen = set()
    by_pair = [
        [(known, pair) for known in _known(plan, drawn, target, partner, pair)]
        for pair in islice(secret_pairs(plan, drawn), _MOST)
    ]
    for known, (value, other) in (one for row in zip_longest(*by_pair) for one in row if one):
        attack = Witness(target, drawn.length, tuple(sorted(known.items())), value, other)
        key = attack.known, value, other
        if key not in seen:
            seen.add(key)
            yield attack


def _secret(plan: "Plan[Any]", target: int) -> bool:
    against, records = plan.against, plan.leakage.secrets.records
    if isinstance(against, Adversary):
        return target == against.target
    if plan.task == "redact":
        return target in plan.mechanism.protect
    return records is None or target in records


def _known(
    plan: "Plan[Any]", drawn: DrawnModel, target: int, partner: int | None, pair: tuple[Any, Any]
) -> Iterator[dict[int, Any]]:
    """Yield what is known: all others in one state, nothing, or all others as they are drawn."""
    if plan.against == "ignorant":
        yield {}
        return
    everyone = [record for record in range(drawn.length) if record != target]
    if isinstance(plan.against, Adversary):
        everyone = list(plan.against.known)
    named = drawn.model.states
    if not named:
        states: tuple[Any, ...] = pair[::-1]
        fills = [{record: drawn.tried(record)[0] for record in everyone}]
    else:
        states = (*pair[::-1], *(state for state in named if state not in pair))[:_STATES]
        fills = [dict.fromkeys(everyone, state) for state in states]
    yield fills[0]
    if plan.against == "any":
        yield {}
    for fill in fills:
        yield from ([fill | {partner: state} for state in states] if partner in fill else [fill])
    with suppress(InvalidInput):  # this value of the target cannot occur
        draw = source_of(drawn).given({target: drawn.code(pair[0])})
        row = draw(1, np.random.default_rng(0))[0].tolist()
        yield {record: named[row[record]] if named else row[record] for record in everyone}
