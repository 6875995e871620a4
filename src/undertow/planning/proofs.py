"""A plan proved anew: what its noise leaks, whatever its file says.

A plan may come from anywhere, and a checksum keeps nobody from writing a false one. So before
anything is released its leakage is derived again, from the noise, the model, the method and the
adversary alone; the plan's own certificate is a claim that is compared with it.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.channels import RandomizedResponse, Redaction, flips_epsilon_upper
from undertow.errors import Contradiction, InvalidPlan, UndertowError
from undertow.mechanisms import DiscreteLaplace, Laplace, PureDP
from undertow.plan import Plan
from undertow.planning.local import LEVEL, PUBLISHED, SERIES_METHODS, SILENT, WHOLE
from undertow.planning.methods import METHODS
from undertow.planning.persons import prove_person
from undertow.planning.questions import Remembered
from undertow.planning.search import check_question
from undertow.rounding import above

__all__ = ["check_proof", "prove"]

LOUDEST = 1e100
"""Largest DP level that a plan may have: beyond it sums of levels are no floats any more."""

_PUBLISHED_SERIES = ("chakrabarti",)
_SAID = {"xor": (WHOLE,), "exchange": (LEVEL,), "chakrabarti": (PUBLISHED,)}
"""What a flipped series rests on besides its model."""


def prove(plan: Plan[Any]) -> Leakage:
    """Return the certificate of a plan, derived from its noise, model, method and adversary.

    Nothing that the plan claims about its leakage enters, and no noise is searched for.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.9, .1], [.3, .7]]), epsilon=1.0)
    >>> prove(plan) == plan.leakage
    True
    """
    if not isinstance(plan.mechanism, Laplace | DiscreteLaplace):
        return _prove_local(plan)
    secrets = plan.leakage.secrets
    asked = check_question(
        plan.noise.query, plan.model, plan.epsilon, plan.against, secrets.pairs, secrets.records
    )
    question = replace(asked, covers=plan.leakage.covers)
    if plan.method not in METHODS:
        raise InvalidPlan(f"no method is called {plan.method[:40]!r}")
    if not plan.noise.dp_epsilon(question.length) <= LOUDEST:
        raise InvalidPlan("its noise is too small to be any")
    if plan.unit == "person":
        return prove_person(question, plan.noise)
    method = METHODS[plan.method]
    method.admit(plan.against)
    if not method.suits(plan.model):
        raise InvalidPlan(f"'{method.name}' has nothing to say about {plan.model.describe()}")
    if not isinstance(plan.noise, type(question.noise(plan.noise.scale))):
        raise InvalidPlan(f"'{method.name}' answers this question with another kind of noise")
    return method.prove(question, plan.noise)


def _prove_local(plan: Plan[Any]) -> Leakage:
    """Return what a randomised series leaks."""
    mechanism, model, against = plan.mechanism, plan.model, plan.against
    if plan.unit != "record":
        raise InvalidPlan("a series is randomised record by record, which hides no person")
    if isinstance(mechanism, Redaction):
        from undertow.planning.redaction import REDACTIONS

        if plan.method not in REDACTIONS:
            raise InvalidPlan(f"no method for redactions is called {plan.method[:40]!r}")
        REDACTIONS[plan.method].admit(against)
        return leakage(mechanism, model, against)
    if plan.method not in SERIES_METHODS:
        raise InvalidPlan(f"no method for a series is called {plan.method[:40]!r}")
    if isinstance(mechanism, RandomizedResponse) and np.ptp(mechanism.matrix, axis=0).max() == 0:
        return Leakage(0.0, 0.0, plan.method, against, assumptions=(SILENT,), covers="any")
    if plan.method != "exchange":
        leak = leakage(mechanism, model, against)
    elif isinstance(mechanism, RandomizedResponse):
        level = PureDP(flips_epsilon_upper(mechanism))
        leak = replace(leakage(level, model, against), covers="any")
    else:
        raise InvalidPlan("'exchange' plans independent flips, not a noise chain")
    return replace(leak, assumptions=(*leak.assumptions, *_SAID.get(plan.method, ())))


@Remembered
def check_proof(plan: Plan[Any]) -> Leakage:
    """Return the re-derived certificate of a plan if it keeps the plan's promise, or refuse.

    The promise is ``plan.epsilon``, and it is kept exactly or not at all: no tolerance. A plan of a
    published method promises nothing; its certificate says what its noise leaks. Callers use what
    is returned, not what the plan claims: on another machine the last digits may differ.

    >>> from dataclasses import replace
    >>> from undertow import Count, DiscreteLaplace, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.9, .1], [.3, .7]]), epsilon=1.0)
    >>> check_proof(plan).proves(1.0)
    True
    >>> check_proof(replace(plan, mechanism=DiscreteLaplace(Count(1), 0.1)))
    Traceback (most recent call last):
    ...
    undertow.errors.InvalidPlan: its noise leaks up to 20.7, not 1: ...
    """
    claim = plan.leakage
    if not 0 <= claim.lower <= claim.upper:
        raise InvalidPlan("the ends of its leakage are not ordered; make the plan again")
    try:
        leak = prove(plan)
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
    if not _certified(plan):
        return leak
    if not claim.proves(plan.epsilon) or not leak.proves(plan.epsilon):
        raise InvalidPlan(
            f"its noise leaks up to {above(max(leak.upper, claim.upper))}, not {plan.epsilon:g}: "
            "the plan was edited or made by other software; make it again"
        )
    return leak


def _certified(plan: Plan[Any]) -> bool:
    """Return whether the method of a plan promises anything of its own."""
    if isinstance(plan.mechanism, Laplace | DiscreteLaplace):
        return METHODS[plan.method].certified
    if isinstance(plan.mechanism, Redaction):
        from undertow.planning.redaction import REDACTIONS

        return REDACTIONS[plan.method].certified
    return plan.method not in _PUBLISHED_SERIES
