"""Which proof covers a release: the plan's own, or another that its noise allows.

`exact` proofs are about one answer on whole series. A count of a window, whose attacker may know
records outside it, and several groups of one series are covered by the leakage of all algorithms
of the DP level.
"""

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from undertow import progress
from undertow.bounds.engine import leakage
from undertow.bounds.groups import person_records
from undertow.bounds.memory.missing import over_patterns
from undertow.certificate import Leakage, ValidFor
from undertow.errors import (
    Contradiction,
    EffortSpent,
    InvalidInput,
    InvalidPlan,
    NotSupported,
    UndertowError,
)
from undertow.mechanisms import PureDP, TabulatedNoise
from undertow.methods import METHODS, is_certified
from undertow.models.sets import AnyModel
from undertow.plan import Plan
from undertow.planning import calibrate as methods
from undertow.planning.questions import Remembered, check_question
from undertow.rounding import above
from undertow.secrets import Window

__all__ = [
    "Shaped",
    "check_groups",
    "check_proof",
    "covering",
    "covers_records",
    "group_conditions",
    "group_size",
]


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
            plan.query, plan.model, plan.limit, plan.against, missing=plan.missing
        )
    else:
        question = check_question(
            plan.query, plan.model, plan.limit, plan.against, claim.secret,
            valid_for=claim.valid_for, delta=plan.delta, noise=plan.noise.shape,
            releases=plan.releases, missing=plan.missing,
        )  # fmt: skip
        if not plan.query.sensitivity(question.length) / plan.noise.amount <= LOUDEST:
            raise InvalidPlan("its noise is too small to be any")
        if method.solver(question.shape) is None:
            raise InvalidPlan(f"'{method.name}' answers this question with another kind of noise")
        kind = TabulatedNoise.kind if method.tabulated else question.noise(1.0).kind
        if question.shape == "laplace" and plan.noise.kind != kind:
            raise InvalidPlan(f"'{method.name}' answers this question with another kind of noise")
    method.check(question)
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
    """Return whether a proof about the noise of a plan covers its missing records."""
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
    if not leak.reaches(claim.valid_for):
        raise InvalidPlan(
            f"its proof covers '{leak.valid_for}', not '{claim.valid_for}': the plan was edited or "
            "made by other software; make it again"
        )
    if plan.task == "answer" and not covers_records(plan, leak):
        raise InvalidPlan(
            f"its proof ('{plan.method}') is about complete series, and its missing records are "
            "left open: the plan was edited or made by other software; make it again"
        )
    if leak.secret != claim.secret:
        raise InvalidPlan(
            f"its proof is about the odds {leak.secret.words()}, not {claim.secret.words()}: the "
            "plan was edited or made by other software; make it again"
        )
    if not is_certified(plan):
        return leak
    if not claim.proves(plan.limit) or not leak.proves(plan.limit):
        raise InvalidPlan(
            f"its noise leaks up to {above(max(leak.upper, claim.upper))}, not {plan.limit:g}: "
            "the plan was edited or made by other software; make it again"
        )
    return leak


class Shaped(Protocol):
    """The public facts about data that decide which proofs cover it."""

    @property
    def longest(self) -> int:
        """The most records of one person in the release."""
        ...

    @property
    def shortest(self) -> int:
        """The fewest records of one person in the release."""
        ...

    @property
    def series(self) -> int:
        """The most steps of one person's whole series, absent ones included."""
        ...

    @property
    def gaps(self) -> bool:
        """Whether steps are absent."""
        ...

    @property
    def windowed(self) -> bool:
        """Whether some person has records outside the window."""
        ...

    @property
    def split(self) -> bool:
        """Whether the records of some person are not all in one group."""
        ...


def covering(
    plan: Plan[Any], shape: Shaped, *, person: str | None = None, ungrouped: bool = False
) -> Leakage:
    """Return the certificate that covers a release of data of this shape, or refuse it.

    First the plan's own, proved again from its noise; then, for a window, the exact leakage of a
    count of any window; then what all algorithms of the noise's DP level leak on series as long
    as these. ``person`` is the column that says whose the series are, None where none does:
    under a model of groups all records are one group then, unless the caller vouches that they are
    ``ungrouped``, which the certificate repeats.
    """
    own = check_proof(plan)
    if plan.unit == "person":
        _check_contribution(plan, shape)
        return own
    if not ungrouped:
        check_groups(plan.model, shape.series, person=person)
    return _with_groups(_covering(plan, shape, own), plan.model, shape, person)


def _covering(plan: Plan[Any], shape: Shaped, own: Leakage) -> Leakage:
    """Return the first proof that covers the shape and keeps the guarantee, or refuse."""
    if _fits(own, plan.model, shape):
        return own
    guarantee = max(plan.limit, own.upper)
    proofs = []
    for valid_for in ("windows", "any"):
        proof = _proof(plan, valid_for, _long(plan.model, shape))
        if proof is None or not covers_records(plan, proof):
            continue
        if not _fits(proof, plan.model.endless() or plan.model, shape):
            continue
        if proof.proves(guarantee):
            return proof
        proofs.append(proof)
    raise _refusal(plan, shape, proofs)


def needs(shape: Shaped) -> ValidFor:
    """Return what a proof must cover to hold for data of this shape."""
    if shape.split or shape.gaps:
        return "any"
    return "windows" if shape.windowed or shape.shortest < 2 else "series"


def _fits(proof: Leakage, model: AnyModel, shape: Shaped) -> bool:
    """Return whether a proof under a model covers data of a shape."""
    length = model.length
    if proof.valid_for == "any":
        return length is None or shape.series <= length
    if shape.split or shape.gaps:
        return False
    if proof.valid_for == "windows":  # proved for windows of series of any length
        return True
    if shape.windowed:
        return False
    if length is None:  # of at least two records: one alone has nothing beside it to blur it
        return shape.shortest >= 2
    return shape.shortest == shape.longest == length


def _long(model: AnyModel, shape: Shaped) -> bool:
    """Return whether some series is longer than those of the model."""
    length = model.length
    return length is not None and shape.series > length


@Remembered
def _proof(plan: Plan[Any], valid_for: ValidFor, longer: bool) -> Leakage | None:
    """Return another proof for the noise of a plan, None if there is none of the kind."""
    model = plan.model.endless() if longer else plan.model
    if model is None:
        return None
    question = check_question(
        plan.query, model, plan.limit, plan.against, secret=Window(plan.leakage.secret.window),
        delta=plan.delta, noise=plan.noise.shape, releases=plan.releases, missing=plan.missing,
    )  # fmt: skip
    noise: Any = question.together(plan.noise)
    if valid_for == "any" and plan.noise.shape == "laplace":
        noise = PureDP(noise.level_upper(plan.length))
    elif valid_for != "any" and plan.releases > 1:
        return None  # several answers: what all algorithms of the guarantee leak, or nothing
    try:
        proof = leakage(
            noise,
            model,
            plan.against,
            delta=plan.delta,
            valid_for=valid_for,
            secret=question.window,
        )
    except NotSupported:
        return None
    return proof if proof.valid_for == valid_for else None


def _check_contribution(plan: Plan[Any], shape: Shaped) -> None:
    """Refuse persons with more records than a person's plan hides."""
    most = person_records(plan.model)
    if shape.longest > most:
        raise InvalidInput(
            f"the plan is for at most {most} records of a person, and one has {shape.longest}; "
            "plan for that many"
        )


def group_size(model: AnyModel) -> int | None:
    """Return the most records of a group under a model, None where it has no groups.

    >>> from undertow import Groups, MarkovChain
    >>> group_size(Groups(4)), group_size(MarkovChain([[.9, .1], [.3, .7]]))
    (4, None)
    """
    sizes = [
        size
        for member in model.members()
        if member.family == "groups" and (size := member.most_records()) is not None
    ]
    return min(sizes, default=None)


def check_groups(model: AnyModel, largest: int, *, person: str | None) -> None:
    """Refuse data with a larger group than the model has: sizes are public, and checked.

    A group is what one value of the column ``person`` holds: a household where it names
    households. Without the column all records together are one.
    """
    size = group_size(model)
    if size is None or largest <= size:
        return
    if person is None:
        raise InvalidInput(
            f"the model lets at most {size} records depend on each other, and no column says which "
            f"of {largest} belong together; name it (person=..., --person), or vouch that no more "
            "do: Data(..., ungrouped=True), --ungrouped, which every report repeats"
        )
    raise InvalidInput(
        f"the model lets at most {size} records depend on each other, and one group of the data "
        f"has {largest} (the rows with one person, or household); plan with Groups({largest})"
    )


def _with_groups(proof: Leakage, model: AnyModel, shape: Shaped, person: str | None) -> Leakage:
    """Return a proof under a model of groups with the sizes of groups in the data."""
    size = group_size(model)
    if size is None:
        return proof
    if person is not None:
        note = f"groups are the rows with one {person!r}: at most {shape.series}, as was checked"
    elif shape.series <= size:
        note = f"all {shape.series} records are one group of at most {size}"
    else:
        note = (
            f"no column says who belongs together: that at most {size} records do was not checked, "
            "the curator vouches for it (ungrouped)"
        )
    return replace(proof, assumptions=(*proof.assumptions, note))


def group_conditions(model: AnyModel, *, ungrouped: bool) -> tuple[str, ...]:
    """Return the clauses of a guarantee about groups that could not be checked."""
    size = group_size(model)
    if size is None or not ungrouped:
        return ()
    return (
        f"that at most {size} records belong together was not checked: the curator vouches for it",
    )


def _refusal(plan: Plan[Any], shape: Shaped, proofs: list[Leakage]) -> NotSupported:
    """Return the refusal of data that no proof covers, with the plan that would fit."""
    length = plan.model.length
    width, advice = needs(shape), ""
    if shape.split:
        what = "the groups divide the series of a person into several answers"
    elif shape.gaps:
        what = "the series have gaps"
    elif shape.windowed:
        what = f"this is a window of series of up to {shape.series} records"
    elif length is None:
        what = "a person has a single record"
    else:
        same = shape.shortest == shape.longest
        sizes = f"{shape.longest}" if same else f"{shape.shortest} to {shape.longest}"
        what = f"the series have {sizes} records"
        advice = "plan for this length, or for any length" if same else "plan for any length"
    if not advice:
        longer = " and a model without a length" if _long(plan.model, shape) else ""
        advice = f"plan with valid_for='{width}'{longer}"
    proved = (
        f"; for that its noise proves a leakage of {above(min(proof.upper for proof in proofs))}, "
        f"not {plan.limit:g}"
        if proofs
        else ""
    )
    return NotSupported(
        f"{what}, and the plan is for {_words(plan.leakage, length)} (method '{plan.method}')"
        f"{proved}; {advice}"
    )


def _words(proof: Leakage, length: int | None) -> str:
    """Return the shapes that a proof covers, in words."""
    size = "any length" if length is None else f"{length} records"
    return {
        "series": f"whole series of {size} without groups",
        "windows": "any window of a series of any length",
        "any": f"any part of series of {size}",
    }[proof.valid_for]
