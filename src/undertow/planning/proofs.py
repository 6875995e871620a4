"""A plan proved anew: what its noise leaks, whatever its file says.

A plan may come from anywhere, and a checksum keeps nobody from writing a false one. So before
anything is released its leakage is derived again, from the noise, the model, the method and the
adversary alone; the plan's own certificate is a claim that is compared with it.
"""

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any

from undertow import progress
from undertow.adversaries import Window
from undertow.bounds.attractive.missing import over_patterns
from undertow.certificate import Leakage
from undertow.errors import Contradiction, EffortSpent, InvalidPlan, UndertowError
from undertow.mechanisms import TabulatedNoise
from undertow.methods import METHODS, is_certified
from undertow.plan import Plan
from undertow.planning import methods
from undertow.planning.questions import Remembered
from undertow.planning.search import check_question
from undertow.rounding import above

__all__ = ["check_proof", "covers_records", "prove"]

LOUDEST = 1e100
"""Largest DP level that a plan may have: beyond it sums of levels are no floats any more."""


def prove(plan: Plan[Any]) -> Leakage:
    """Return the certificate of a plan, derived from its noise, model, method and adversary.

    Nothing that the plan claims about its leakage enters, and no noise is searched for.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.9, .1], [.3, .7]]), limit=1.0)
    >>> prove(plan) == plan.leakage
    True
    """
    task, claim = plan.task, plan.leakage
    if plan.method not in METHODS[task]:
        raise InvalidPlan(f"no method is called {plan.method[:40]!r}")
    method = METHODS[task][plan.method]
    if task != "answer":
        question = check_question(
            plan.query, plan.model, plan.limit, plan.against, unit=plan.unit, missing=plan.missing
        )
    else:
        question = check_question(
            plan.query, plan.model, plan.limit, plan.against, claim.secrets.pairs,
            claim.secrets.protect, unit=plan.unit, covers=claim.covers, delta=plan.delta,
            noise=plan.noise.shape, releases=plan.releases, missing=plan.missing,
        )  # fmt: skip
        if not plan.query.sensitivity(question.length) / plan.noise.amount <= LOUDEST:
            raise InvalidPlan("its noise is too small to be any")
        if not method.knows(question.shape, question.releases):
            raise InvalidPlan(f"'{method.name}' answers this question with another kind of noise")
        kind = TabulatedNoise.kind if method.tabulated else question.noise(1.0).kind
        if question.shape == "laplace" and plan.noise.kind != kind:
            raise InvalidPlan(f"'{method.name}' answers this question with another kind of noise")
    if plan.unit == "person" and not method.persons:
        raise InvalidPlan(f"'{method.name}' hides no person")
    method.admit(plan.against)
    if task != "answer":
        return methods.prove(method, question, plan.mechanism)
    proved = methods.prove(method, question, question.together(plan.noise))
    return replace(proved, delta=plan.delta)


def _proved(plan: Plan[Any]) -> Leakage:
    """Return the certificate of a plan: within an effort of 1, or of any if that is not enough.

    A plan may rest on a search that was allowed more.
    """
    with suppress(EffortSpent), progress.granting(1.0):
        leak = prove(plan)
        if leak.proves(plan.limit) or not leak.unfinished:
            return leak
    with progress.granting(math.inf):
        return prove(plan)


def covers_records(plan: Plan[Any], leak: Leakage) -> bool:
    """Return whether a proof about the noise of a plan covers what it says of missing records."""
    return plan.missing != "any" or over_patterns(leak, plan.noise, plan.model)


@Remembered
def check_proof(plan: Plan[Any]) -> Leakage:
    """Return the re-derived certificate of a plan if it keeps the plan's guarantee, or refuse.

    The guarantee is ``plan.limit``, and it is kept exactly or not at all: no tolerance. A plan of a
    published method guarantees nothing; its certificate says what its noise leaks. Callers use what
    is returned, not what the plan claims: on another machine the last digits may differ.

    >>> from dataclasses import replace
    >>> from undertow import Count, DiscreteLaplace, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.9, .1], [.3, .7]]), limit=1.0)
    >>> check_proof(plan).proves(1.0)
    True
    >>> check_proof(replace(plan, mechanism=DiscreteLaplace(Count(1), 0.1)))
    Traceback (most recent call last):
    ...
    undertow.errors.InvalidPlan: its noise leaks up to 20.7, not 1: ...
    """
    plan.check_accepted()
    claim = plan.leakage
    if not 0 <= claim.lower <= claim.upper:
        raise InvalidPlan("the ends of its leakage are not ordered; make the plan again")
    try:
        leak = _proved(plan)
    except Contradiction:
        raise
    except (UndertowError, ArithmeticError, ValueError, MemoryError) as error:
        why = str(error) if isinstance(error, UndertowError) else "its numbers are out of range"
        raise InvalidPlan(
            f"the plan cannot be proved: {why}; it was edited or made by other software; make it "
            "again"
        ) from error
    if not leak.reaches(claim.covers):
        raise InvalidPlan(
            f"its proof covers '{leak.covers}', not '{claim.covers}': the plan was edited or made "
            "by other software; make it again"
        )
    if plan.task == "answer" and not covers_records(plan, leak):
        raise InvalidPlan(
            f"its proof ('{plan.method}') is about complete series, and its missing records are "
            "left open: the plan was edited or made by other software; make it again"
        )
    if leak.secrets.window != claim.secrets.window:
        raise InvalidPlan(
            f"its proof is about {Window(leak.secrets.window).words()}, not about "
            f"{Window(claim.secrets.window).words()}: the plan was edited or made by other "
            "software; make it again"
        )
    if not is_certified(plan):
        return leak
    if not claim.proves(plan.limit) or not leak.proves(plan.limit):
        raise InvalidPlan(
            f"its noise leaks up to {above(max(leak.upper, claim.upper))}, not {plan.limit:g}: "
            "the plan was edited or made by other software; make it again"
        )
    return leak
