"""The least noise for a guarantee: one method by name, or the best of the certified ones."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, overload

from undertow import progress
from undertow.adversaries import Against
from undertow.bounds.groups import person_records
from undertow.bounds.memory.missing import over_patterns, over_patterns_as_complete
from undertow.certificate import WIDTHS, Leakage, ValidFor
from undertow.errors import (
    Contradiction,
    EffortSpent,
    IncompleteSeries,
    InvalidInput,
    MethodRefused,
    NothingToProtect,
    NotSupported,
)
from undertow.mechanisms import Flips, Noise, Redaction
from undertow.methods import BEST, METHODS, Method, find_method
from undertow.models.base import Model, advise_point
from undertow.models.fitting.checks import accepted
from undertow.models.sets import AnyModel, ModelSet, SingleModel
from undertow.numerics import check_positive, divide_up, up
from undertow.plan import Plan
from undertow.planning.acceptance import LITTLE, Trial, admit, leakage_under, price, priced, quickly
from undertow.planning.chains import withstood
from undertow.planning.questions import (
    Objective,
    Question,
    Scaled,
    Shape,
    Solution,
    Solver,
    chains_of,
    check_question,
)
from undertow.queries import AnyQuery, LocalQuery, Redacted, Series, State, Task
from undertow.secrets import ONE_RECORD, Secret

__all__ = ["calibrate", "effort_of", "least_error", "plan_at_level", "plan_by", "prove", "solve"]


LESS = (
    "the search for the least noise ended with its effort spent: less may do; effort=10 allows "
    "ten times as much, effort=math.inf searches to the end"
)
"""Note on noise whose search ended early."""


def effort_of(method: Method, question: Question[Any]) -> float:
    """Return how long a method takes for a question, in units of some 30 microseconds.

    It is counted from the model, so the same on every machine; 0 for a method that says nothing,
    because it has an effort limit of its own or needs no time at all.
    """
    return 0.0 if method.effort is None else float(named(method.effort)(question))


def solve(method: Method, question: Question[Any]) -> Solution:
    """Return the mechanism that a method finds for a question, or refuse.

    Where families of models are mixed, each is asked by itself: the largest noise serves them
    all, since more noise never leaks more. The question's effort is for all of them; where it is
    spent the mechanism is a proved one, and may have more noise than need be.
    """
    with progress.granting(question.effort):
        solutions = []
        for solver, part in _parts(method, question):
            solution = solver.solve(part)
            if solution.leakage is not None:
                leak = solution.leakage.with_assumptions(part.model.disclaimers())
                solution = replace(solution, leakage=leak)
            solutions.append(solution)
        if not progress.left():
            solutions = [
                replace(each, notes=(*each.notes, LESS), optimal=False) for each in solutions
            ]
    if len(solutions) == 1:
        return solutions[0]
    return max(solutions, key=lambda each: each.mechanism.amount)


def prove(method: Method, question: Question[Any], mechanism: Any) -> Leakage:
    """Return the leakage that a method certifies for a mechanism: the worst of mixed families.

    With an effort of its own, so that it can be repeated.
    """
    with progress.granting(question.effort):
        leaks = [
            solver.prove(part, mechanism).with_assumptions(part.model.disclaimers())
            for solver, part in _parts(method, question)
        ]
    if any(leak.secret.window != question.secret.window for leak in leaks):
        raise MethodRefused(f"'{method.name}' proved nothing about a window of records here")
    if len(leaks) == 1:
        return leaks[0]
    worst = max(leaks, key=lambda leak: leak.upper)
    notes = dict.fromkeys(note for leak in leaks for note in leak.assumptions)
    least = min(leaks, key=lambda leak: WIDTHS.index(leak.valid_for))
    return replace(
        worst, lower=0.0, witness=None, assumptions=tuple(notes), valid_for=least.valid_for
    )


def _parts(method: Method, question: Question[Any]) -> list[tuple[Solver, Question[Any]]]:
    """Return the solvers of a method, each with the part of the question that it answers."""
    method.check(question)
    solvers = method.solver(question.shape)
    if solvers is None:
        raise Contradiction(f"'{method.name}' accepts a question that it has no solver for")
    if isinstance(solvers, str | Solver):
        return [(_solver(solvers), question)]
    families: dict[str, list[SingleModel]] = {}
    for member in question.model.members():
        families.setdefault(member.family, []).append(member)
    return [
        (
            _solver(solvers.get(family) or solvers["other"]),
            question if len(families) == 1 else replace(question, model=ModelSet(models)),
        )
        for family, models in families.items()
    ]


def _solver(entry: str | Solver) -> Solver:
    """Return the solver of a registry entry, imported where it is a name."""
    solver: Solver = named(entry) if isinstance(entry, str) else entry
    return solver


def named(place: str) -> Any:
    """Return the object of a name in the registry, imported when first used.

    >>> named("chains.lange_constant").__name__
    'lange_constant'
    """
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"undertow.planning.{module}"), name)


_EVEN = 2e-10
"""Relative increase of noise accepted for a proof that covers more: the width of a search."""

_FAR = 2.0
"""Ratio of errors at which one kind of noise is out of the question: the sharper methods for
Gaussian noise need at most a sixth less of it than the closed form, wherever both were run."""

_TIE = 1e-9
"""Relative difference of noise below which two plans cost the same."""

_WORTH = 1e-3
"""Relative gain in error that makes a search worth while, and a table of noise worth having:
Laplace noise by its level has a wider proof, which serves other releases too."""

_PATIENCE = 0.08
"""Share of the effort of noise of any shape that ``best`` allows it: about two seconds."""


@overload
def calibrate(
    query: AnyQuery, model: AnyModel, limit: float = ..., against: Against = ...,
    secret: Secret | None = ..., *, releases: int = ..., valid_for: ValidFor | None = ...,
    method: str = ..., accept: Sequence[str] = ..., missing: State | None = ...,
    objective: Objective | None = ..., effort: float | None = ...,
) -> Plan: ...  # fmt: skip
@overload
def calibrate(
    query: AnyQuery, model: AnyModel, limit: float = ..., against: Against = ...,
    secret: Secret | None = ..., *, delta: float, releases: int = ...,
    valid_for: ValidFor | None = ..., method: str = ..., accept: Sequence[str] = ...,
    missing: State | None = ..., noise: Shape | None = ..., effort: float | None = ...,
) -> Plan[Noise]: ...  # fmt: skip
@overload
def calibrate(
    query: Series, model: AnyModel, limit: float = ..., against: Against = ...,
    secret: None = ..., *, valid_for: ValidFor | None = ..., method: str = ...,
    accept: Sequence[str] = ..., missing: State | None = ..., objective: Objective | None = ...,
    effort: float | None = ...,
) -> Plan[Flips]: ...  # fmt: skip
@overload
def calibrate(
    query: Redacted, model: AnyModel, limit: float = ..., against: Against = ...,
    secret: None = ..., *, valid_for: ValidFor | None = ..., method: str = ...,
    accept: Sequence[str] = ..., missing: State | None = ..., objective: Objective | None = ...,
    effort: float | None = ...,
) -> Plan[Redaction]: ...  # fmt: skip


def calibrate(
    query: AnyQuery | LocalQuery,
    model: AnyModel,
    limit: float = 1.0,
    against: Against = "any",
    secret: Secret | None = None,
    delta: float = 0.0,
    releases: int = 1,
    valid_for: ValidFor | None = None,
    method: str = "best",
    accept: Sequence[str] = (),
    missing: State | None = None,
    objective: Objective | None = None,
    noise: Shape | None = None,
    effort: float | None = None,
) -> Plan | Plan[Noise] | Plan[Flips] | Plan[Redaction]:
    """Return the plan with the least noise whose leakage is certainly at most ``limit``.

    Parameters
    ----------
    method
        A name of `undertow.methods`: for a curator's answer such as ``exact`` (the leakage of
        this very answer), ``exchange`` (what any algorithm of the same level could leak) or
        ``group`` (any dependence whatever), for `Series` and `Redacted` their own. ``best`` has
        the least error among the certified ones, or shows most.
    secret
        What must stay secret: by default any value of any one record. ``Pairs([("walk", "run")])``
        and ``Records([17])`` name the values and the records (from 0) that matter: quilts and the
        Wasserstein distance use them, the other methods hide everything. ``Window(12)`` is the
        whole history of any twelve records in a row, which the methods for guarantees hide
        (``exchange``, ``closed``, ``group``). ``Person()`` is all records of one person at once, at
        most the model's length of them, whatever the dependence among them; persons must be
        independent.
    objective
        For `Series`, what to spare: ``"flips"`` (default; the least expected share of false
        records), ``"information"`` (the most about a record in its output), or the costs of
        flipping each state. For a count with method ``optimal`` the error to make small:
        ``"absolute"`` (default) or ``"squared"``.
    valid_for
        The shapes of data that the proof must cover: ``"windows"`` (one answer on whole series or
        any window of each, of any length), ``"any"`` (also groups within a series, gaps, several
        answers on disjoint records). By default whole series, and more where that costs no more
        noise. Say ``"series"`` if this one answer on whole series is all that is ever released of
        them: then ``best`` also tries noise of any shape (``optimal``), which errs less and has a
        higher DP level. A release of another shape than its plan's proof covers is refused unless
        the noise suffices all the same.
    delta
        0 (default) for pure leakage. Above it the leakage is to be at most ``limit`` at ``delta``:
        odds move by more than 2 e^limit with probability at most 2 delta.
    noise
        ``"laplace"``, ``"gaussian"`` or ``"discrete-gaussian"`` (both need a delta); by default
        whichever errs less. Gaussian noise pays where many answers are released.
    releases
        How many releases of this noise on the same records shall keep the limit together.
    missing
        What a record without a value in a state is. ``"any"``: the proof covers every pattern of
        missing records, where which are missing depends on no record. ``"none"``: none is missing;
        one that is all the same counts as the first state. A state: missing records are in it. By
        default the state that the model was fitted with for them; else ``"any"``, but ``"none"``
        for a method asked for by name whose proof needs complete series, and for `Series` and
        `Redacted`, in which every record has a state.
    effort
        How much work each method may take, as a multiple of five to ten seconds, but counted, so
        that the plan is the same on every machine; ``math.inf`` for any. A search that ends early
        leaves a certified plan with more noise than need be, and says so. By default 1; a method
        that is asked for by name and has no answer before its end works to its end.
    accept
        Names of failed checks of a fitted model that are taken upon oneself, such as ``("order",
        "memory")``. Each that failed must be named, or the model is refused with `FailedChecks`;
        the promise of the plan then begins with what the failure costs. Names that did not fail
        are an error; ``"same-records"`` is always allowed.

    >>> from undertow import Count, MarkovChain, Window, calibrate
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], ("inactive", "active"), length=15264)
    >>> plan = calibrate(Count("active"), chain, limit=1.0)
    >>> round(plan.mechanism.scale, 4)
    3.9948
    >>> published = calibrate(Count("active"), chain, 1.0, against="ignorant", method="quilt")
    >>> round(published.mechanism.scale, 4)
    14.813
    >>> hour = calibrate(Count("active"), chain, limit=1.0, secret=Window(12))
    >>> hour.method, round(hour.mechanism.scale, 3)
    ('exchange', 14.865)
    """
    question = check_question(
        query, model, limit, against, secret, objective=objective, valid_for=valid_for, delta=delta,
        noise=noise, releases=releases, missing=missing, effort=1.0 if effort is None else effort,
    )  # fmt: skip
    taken = admit(model, accept, lambda: _trial(question), all_of=not question.secret.person)
    choice: Any = method  # callers without types pass anything
    best = isinstance(choice, str) and choice == BEST
    chosen = None if best else find_method(query.task, choice)
    if effort is None and chosen is not None and not chosen.anytime:
        question = replace(question, effort=math.inf)
    with advise_point(model):
        if objective is not None and query.task == "answer" and not (chosen and chosen.tabulated):
            raise InvalidInput(
                "Laplace and Gaussian noise serve every objective alike; objective='squared' is "
                "for method='optimal', leave it out here"
            )
        shapes = question.shapes(noise)
        if chosen is None:
            plans = _best_plans(question, shapes)
        else:
            known = [shape for shape in shapes if chosen.solver(shape) is not None]
            if not known:
                chosen.check(question)
            plans = [plan_by(chosen, question.shaped(shape)) for shape in known]
        return priced(_least_of_shapes(plans), taken)


def _trial(question: Question[Any]) -> Trial:
    """Return the plan of the first method that answers, those of a limited effort before others."""
    small = replace(question, effort=LITTLE).shaped(question.shape)
    for method in sorted(_candidates(small), key=lambda method: not method.anytime):
        with suppress(MethodRefused):
            plan = plan_by(method, small)
            break
    else:
        raise NotSupported("no method answers this question")

    def elsewhere(model: Model) -> Leakage:
        if not _candidates(replace(small, model=model)):
            raise NotSupported("no method answers this question under this model")
        return leakage_under(plan, model, quickly=quickly(plan, model))

    return Trial(partial(price, plan=plan), elsewhere)


def _best_plans(question: Question[Any], shapes: list[Shape]) -> list[Plan[Any]]:
    """Return the best plan for each kind of noise that has one.

    Gaussian noise is searched for thoroughly only where its closed form comes near Laplace noise.
    """
    if question.missing is None:
        question = question.with_missing("any")
    plans: list[Plan[Any]] = []
    refusals: list[str] = []
    for shape in shapes:
        part = question.shaped(shape)
        try:
            plans.append(_inferior_plan(part, plans) or _best_plan(part))
        except NothingToProtect:
            raise
        except NotSupported as refusal:
            if len(shapes) == 1:
                raise
            refusals.append(str(refusal))
    if not plans:
        raise NotSupported("; ".join(dict.fromkeys(refusals)))
    return plans


def _inferior_plan(question: Question[Any], plans: list[Plan[Any]]) -> Plan[Any] | None:
    """Return a quick method's plan, if it errs far more than the plans for other kinds of noise.

    What is sharper than a quick method is slower to find, and never worth a factor of `_FAR`.
    """
    if not plans:
        return None
    least = min(plan.expected_error for plan in plans)
    for method in _candidates(question):
        if method.quick:
            with suppress(MethodRefused):
                plan = plan_by(method, question)
                if plan.expected_error > _FAR * least:
                    return plan
    return None


def _least_of_shapes(plans: list[Plan[Any]]) -> Plan[Any]:
    """Return the plan with the least error, with the ratios of errors as assumptions."""
    best = least_error(plans)
    notes = []
    for plan in plans:
        if plan is not best and best.expected_error:
            ratio = plan.expected_error / best.expected_error
            notes.append(f"{_kind(best)} errs {ratio:.2g} times less than {_kind(plan)} would here")
    leak = best.leakage
    return replace(best, leakage=replace(leak, assumptions=(*leak.assumptions, *notes)))


def _kind(plan: Plan[Any]) -> str:
    """Return the kind of noise of a plan in words."""
    return f"{'Laplace' if plan.noise.measure == 'scale' else plan.noise.words} noise"


def plan_by(method: Method, question: Question[Any]) -> Plan[Any]:
    """Return the plan that a method makes for a question, with its proof, or refuse."""
    return _solve_and_prove(method, question)[0]


def _solve_and_prove(method: Method, question: Question[Any]) -> tuple[Plan[Any], bool]:
    """Return the plan of a method, and whether no other can serve better.

    Where nothing is said of missing records, any pattern of them is covered if the method's proof
    does that, and none is assumed to be missing if it does not.
    """
    if question.missing is None:
        if covers_missing(method, question):
            with suppress(IncompleteSeries):
                return _solve_and_prove(method, question.with_missing("any"))
        return _solve_and_prove(method, question.with_missing("none"))
    if question.missing == "any" and not covers_missing(method, question):
        raise IncompleteSeries(_COMPLETE.format(method.name))
    method.check(question)
    _check_shape(method.name, method.scope.valid_for, question)
    solution = solve(method, question)
    mechanism = question.each(solution.mechanism)
    leak = solution.leakage or prove(method, question, question.together(mechanism))
    leak = replace(leak, delta=question.delta)
    _check_proof(method, question, mechanism, leak)
    plan: Plan[Any] = Plan(
        mechanism, question.model, question.limit, leak.with_assumptions(solution.notes),
        method.name, measures=solution.measures, delta=question.delta,
        releases=question.releases, missing=question.missing,
    )  # fmt: skip
    tight = method.tight and leak.closed and question.secret == ONE_RECORD
    return plan, LESS not in solution.notes and (solution.optimal or tight)


def _check_proof(method: Method, question: Question[Any], mechanism: Any, leak: Leakage) -> None:
    """Refuse a proof that covers less than the question: missing records, the limit, the shape."""
    if (
        question.missing == "any"
        and question.query.task == "answer"
        and not over_patterns(leak, mechanism, question.model)
    ):
        raise IncompleteSeries(_COMPLETE.format(method.name))
    if method.certified and not leak.proves(question.limit):
        raise NotSupported(
            f"'{method.name}' could not certify a leakage of {question.limit:g}; the best it "
            f"proves is {leak.upper:.6g}"
        )
    _check_shape(method.name, leak.valid_for, question)


_COMPLETE = (
    "the proof of '{}' needs complete series, and missing='any' leaves open which records are "
    "missing; say missing='none', name the state that missing records have, or use "
    "method='exchange'"
)


def covers_missing(method: Method, question: Question[Any]) -> bool:
    """Return whether the proof of a method may hold for every pattern of missing records."""
    if method.scope.valid_for == "any" or method.task != "answer":
        return True
    if method.tabulated or question.query.selects:
        return False
    noise = question.noise(1.0) if question.shape == "laplace" else question.normal(1.0)
    return over_patterns_as_complete(noise, question.model, question.against)


def _check_shape(name: str, valid_for: ValidFor, question: Question[Any]) -> None:
    """Refuse a proof that does not cover the shapes of data that were asked for."""
    if WIDTHS.index(valid_for) < WIDTHS.index(question.valid_for):
        raise MethodRefused(
            f"the proof of '{name}' covers '{valid_for}', not valid_for='{question.valid_for}'; "
            "use method='exchange', which covers everything that is done with a series"
        )


def _best_plan(question: Question[Any]) -> Plan[Any]:
    """Return the certified plan with the least error, or that shows most, for a kind of noise.

    What a search can win at most is asked before it is begun: a plan that no noise smaller by a
    thousandth could replace, because an attack on that noise exceeds the limit, ends the search,
    and so does one that nothing can improve. Where such attacks are known, the method with the
    widest proof, which is the quickest, comes first; elsewhere it is tried at the end, with the
    noise of the plan that is settled.
    """
    methods = _candidates(question)
    if len(methods) == 1:
        return plan_by(methods[0], question)
    attackable = _attackable(question)
    if attackable:
        wider = {method.wider for method in methods}
        methods.sort(key=lambda method: method.name not in wider)
    one_record = len(question.families) == 1 and question.secret == ONE_RECORD
    plans: dict[str, Plan[Any]] = {}
    refusals: dict[str, NotSupported] = {}
    settled = False
    for method in methods:
        if one_record and method.subsumed_by in plans:
            continue
        try:
            plan, settled = _solve_and_prove(method, question)
        except NothingToProtect:
            raise
        except NotSupported as refusal:
            refusals[method.name] = refusal
            continue
        plans[method.name] = plan
        if settled:
            plans.update(_wider_plan(method, methods, question, plans))
        # whether no proof keeps the limit with noise that is smaller by a thousandth
        if settled or (
            attackable
            and not withstood(
                question, question.noise(plan.noise.amount / (1 + _WORTH)), plan.leakage
            )
        ):
            break
    if not plans:
        reasons = refusals or _unaccepted(question)
        raise NotSupported(f"no method can keep this guarantee. {_listed_reasons(reasons)}")
    best = least_error(plans.values())
    cut = [repr(name) for name, reason in refusals.items() if isinstance(reason, EffortSpent)]
    if cut and not settled:
        note = _MORE.format(" and ".join(cut))
        best = replace(best, leakage=best.leakage.with_assumptions((note,)))
    return _any_shape(question, best)


def _wider_plan(
    method: Method, methods: list[Method], question: Question[Any], plans: dict[str, Plan[Any]]
) -> dict[str, Plan[Any]]:
    """Return the plan of the method with the wider proof, if it is new and needs the same noise."""
    for wider in methods:
        if wider.name == method.wider and wider.name not in plans:
            noise = plans[method.name].noise
            noise = noise.with_amount(up(noise.amount * (1 + _EVEN)))
            with suppress(NotSupported):
                if prove(wider, question, noise).proves(question.limit):
                    return {wider.name: plan_by(wider, question)}
    return {}


_LONGEST = 320
"""Characters of the reasons that a refusal lists; the first one is always there."""


def _listed_reasons(refusals: Mapping[str, NotSupported | str]) -> str:
    """Return why methods refused, each reason once, with the names of those that gave it.

    Those that send the reader to another of them come last. Where it gets long, the names alone of
    those whose reasons `compare` lists.
    """
    names: dict[str, list[str]] = {}
    for name, refusal in refusals.items():
        names.setdefault(str(refusal).replace(f"'{name}'", "it"), []).append(name)
    given = sorted(
        names.items(), key=lambda one: any(f"method='{name}'" in one[0] for name in refusals)
    )
    reasons = [f"{', '.join(each)}: {reason}" for reason, each in given]
    while len(reasons) > 1 and len("; ".join(reasons)) > _LONGEST:
        reasons.pop()
    left = [name for _, each in given[len(reasons) :] for name in each]
    more = f"; compare(...) says why not {', '.join(left)}" if left else ""
    return "; ".join(reasons) + more


_MORE = (
    "{} had its effort spent: less noise may do; effort=10 allows ten times as much, "
    "effort=math.inf any"
)


def _attackable(question: Question[Any]) -> bool:
    """Return whether attacks are known that every noise of this kind must withstand."""
    query = question.query
    return (
        query.task == "answer"
        and question.shape == "laplace"
        and not query.selects
        and bool(query.named or query.per_state)
        and question.releases == 1
        and question.secret == ONE_RECORD
        and question.families == {"chain"}
        and bool(chains_of(question.model))
    )


def _candidates(question: Question[Any]) -> list[Method]:
    """Return the certified methods that accept a question and are open to ``best``."""
    return [
        method
        for method in METHODS[question.query.task].values()
        if method.certified
        and method.best == "always"
        and method.accepts(question)
        and (question.missing != "any" or covers_missing(method, question))
    ]


def _unaccepted(question: Question[Any]) -> dict[str, str]:
    """Return why the certified methods that come nearest to a question do not accept it."""
    methods = [method for method in METHODS[question.query.task].values() if method.certified]
    nearest = max(method.nearness(question) for method in methods)
    return {
        method.name: reason
        for method in methods
        if method.nearness(question) == nearest and (reason := method.refusal(question))
    }


def _any_shape(question: Question[Any], plan: Plan[Any]) -> Plan[Any]:
    """Return the plan with noise of any shape, where only this answer counts and it errs less."""
    if not question.alone:
        return plan
    for method in METHODS[question.query.task].values():
        if method.best == "alone" and method.accepts(question):
            with suppress(MethodRefused):
                other = plan_by(method, replace(question, patience=_PATIENCE))
                if other.expected_error < plan.expected_error * (1 - _WORTH):
                    plan = other
    return plan


_COST: dict[Task, Callable[[Plan[Any]], float]] = {
    "answer": lambda plan: plan.expected_error,
    "flip": lambda plan: plan.expected_flips,
    "redact": lambda plan: -plan.utility,
}
"""Criterion that plans are compared by: less is better."""


def least_error(plans: Iterable[Plan[Any]]) -> Plan[Any]:
    """Return the plan with the least error, or that shows most; of those that all but tie, the
    widest proof.

    Of proofs that cover the same shapes, the exact one.
    """
    costs = [(_COST[plan.task](plan), plan) for plan in plans]
    least = min(cost for cost, _ in costs)
    close = [(cost, plan) for cost, plan in costs if cost - _TIE * abs(cost) <= least]
    width = max(WIDTHS.index(plan.leakage.valid_for) for _, plan in close)
    widest = [pair for pair in close if WIDTHS.index(pair[1].leakage.valid_for) == width]
    tight = [pair for pair in widest if find_method(pair[1].task, pair[1].method).tight]
    return min(tight or widest, key=lambda pair: pair[0])[1]


def plan_at_level(
    query: AnyQuery, model: AnyModel, level: float, against: Against = "any",
    secret: Secret | None = None, accept: Sequence[str] = (),
) -> Plan[Scaled]:  # fmt: skip
    """Return the plan whose noise has a DP level of at most ``level``; its limit is what it leaks.

    The inverse of `calibrate`: for an account in which levels are shared out. Leakages are those of
    all algorithms of the level, so that any shape of data is covered. For persons the level is that
    of all records of one person. ``accept`` names failed checks, as in `calibrate`.

    >>> from undertow import Count, MarkovChain
    >>> plan = plan_at_level(Count(1), MarkovChain([[.9, .1], [.3, .7]]), 0.25)
    >>> plan.noise.scale >= 4.0, plan.noise.level_upper() <= 0.25, plan.limit < 1.1
    (True, True, True)
    """
    target = check_positive(level, "level")
    question = check_question(query, model, target, against, secret, valid_for="any")
    person = question.secret.person
    taken = accepted(question.model.checks, accept, all_of=not person)
    noise = _noise(question, target)
    method = _method_of_level(question)
    proof = prove(method, question, noise)
    if not math.isfinite(proof.upper):
        raise NotSupported(
            f"at a DP level of {target:g} nothing finite can be said about what leaks under "
            f"{model.describe()}: some state may last for ever; state a class without zeros, or "
            "give it a length"
        )
    plan = Plan(noise, question.model, proof.upper, proof, method.name)
    return priced(plan, taken)


def _method_of_level(question: Question) -> Method:
    """Return the method that proves what all algorithms of a DP level leak, or refuse."""
    methods = [
        method
        for method in METHODS["answer"].values()
        if method.certified and method.scope.releases and method.solver("laplace") is not None
    ]
    return next((method for method in methods if method.accepts(question)), methods[0])


def _noise(question: Question, level: float) -> Scaled:
    """Return the least noise whose level, rounded up, is at most ``level``."""
    query, length = question.query, question.length
    if question.secret.person:
        return question.noise(
            divide_up(query.person_upper(person_records(question.model), length), level)
        )
    noise = question.noise(query.sensitivity(length) / level)
    while noise.level_upper(length) > level:  # a few units in the last place
        noise = question.noise(math.nextafter(noise.scale, math.inf))
    return noise
