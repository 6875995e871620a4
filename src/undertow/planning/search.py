"""The least noise for a promise: one method by name, or the best of the certified ones."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, overload

from undertow.adversaries import Against, Secrets, check_against
from undertow.bounds.engine import check_fit
from undertow.certificate import WIDTHS, Covers, check_covers
from undertow.channels import Flips, Redaction
from undertow.errors import (
    InvalidInput,
    MethodRefused,
    NothingToProtect,
    NotSupported,
    UnknownState,
)
from undertow.mechanisms import Unit
from undertow.models.sets import AnyModel, members
from undertow.numerics import check_epsilon, up
from undertow.plan import Plan
from undertow.planning.flip_aims import Objective
from undertow.planning.local import calibrate_series
from undertow.planning.methods import METHODS
from undertow.planning.persons import prove_person, solve_person
from undertow.planning.questions import Question, kind_of
from undertow.queries import AnyQuery, Count, LocalQuery, Redacted, Series

__all__ = ["METHODS", "calibrate", "check_question", "least_error"]

_EVEN = 2e-10
"""How much more noise, relatively, a proof that covers more is worth: the width of a search."""

_TIE = 1e-9
"""Relative difference of noise below which two plans cost the same."""


@overload
def calibrate(
    query: AnyQuery, model: AnyModel, epsilon: float, against: Against = ..., method: str = ...,
    *, pairs: Any = ..., protect: Any = ..., unit: Unit = ..., objective: Objective | None = ...,
    covers: Covers = ...,
) -> Plan: ...  # fmt: skip
@overload
def calibrate(
    query: Series, model: AnyModel, epsilon: float, against: Against = ..., method: str = ...,
    *, pairs: Any = ..., protect: Any = ..., unit: Unit = ..., objective: Objective | None = ...,
    covers: Covers = ...,
) -> Plan[Flips]: ...  # fmt: skip
@overload
def calibrate(
    query: Redacted, model: AnyModel, epsilon: float, against: Against = ..., method: str = ...,
    *, pairs: Any = ..., protect: Any = ..., unit: Unit = ..., objective: Objective | None = ...,
    covers: Covers = ...,
) -> Plan[Redaction]: ...  # fmt: skip


def calibrate(
    query: AnyQuery | LocalQuery,
    model: AnyModel,
    epsilon: float,
    against: Against = "any",
    method: str = "best",
    *,
    pairs: Any = None,
    protect: Any = None,
    unit: Unit = "record",
    objective: Objective | None = None,
    covers: Covers = "series",
) -> Plan | Plan[Flips] | Plan[Redaction]:
    """Return the plan with the least noise whose leakage is certainly at most ``epsilon``.

    Parameters
    ----------
    method
        ``exact`` (the leakage of this very answer), ``exchange`` (what any algorithm of the same
        level could leak), ``quilt``, ``quilt-approx`` and ``wasserstein`` [wang2016],
        ``dependent`` [liu2016], ``group`` (any dependence whatever), ``best`` (the least expected
        error among these); or, as published and not certified, ``lange``, ``zhao``,
        ``zhao-multistep`` and ``gaussian-bound``. For `Series`:
        ``exact``, ``exchange``, ``xor``, and as published ``chakrabarti``. For `Redacted`:
        ``optimal``, ``mq``, ``3r-relaxed``, ``3r-constant``, ``3r-individual``, and as published
        ``mq-printed``.
    pairs, protect
        Pairs of states that must not be told apart, and the records (from 0) that matter; by
        default all. Quilts and the Wasserstein distance use them; the other methods protect
        everything.
    unit
        ``"record"``: one record of a series is protected, given how records depend on each
        other. ``"person"``: all records of one person at once, at most the model's length of
        them, whatever the dependence among them; persons must be independent.
    objective
        For `Series`, what to spare: ``"flips"`` (default; the least expected share of false
        records), ``"information"`` (the most about a record in its output), or the costs of
        flipping each state.
    covers
        The shapes of data that the proof must cover: ``"series"`` (one answer on whole series),
        ``"windows"`` (also on any window of each), ``"any"`` (also groups within a series, gaps,
        several answers on disjoint records). A release of another shape than its plan's proof
        covers is refused unless the noise suffices all the same.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], ("inactive", "active"), length=15264)
    >>> plan = calibrate(Count("active"), chain, epsilon=1.0)
    >>> round(plan.mechanism.scale, 4)
    3.9948
    >>> published = calibrate(Count("active"), chain, 1.0, against="ignorant", method="quilt")
    >>> round(published.mechanism.scale, 4)
    14.813
    """
    if isinstance(query, Series | Redacted):
        if pairs is not None or protect is not None or unit != "record":
            raise InvalidInput(
                "pairs, protect and unit belong to a curator's answers; a Series protects every "
                "record, and Redacted(protect=...) names the records"
            )
        if isinstance(query, Series):
            return calibrate_series(model, epsilon, against, method, objective or "flips")
    if objective is not None:
        raise InvalidInput("an objective belongs to calibrate(Series(), ...); leave it out here")
    if isinstance(query, Redacted):
        from undertow.planning.redaction import calibrate_redacted

        return calibrate_redacted(query, model, epsilon, against, method)
    asked = check_question(query, model, epsilon, against, pairs, protect)
    question = replace(asked, covers=check_covers(covers))
    if unit != "record":
        return _person(question, method, unit)
    if method == "best":
        return _best(question)
    if method not in METHODS:
        raise InvalidInput(
            f"unknown method {method!r}; the methods are {', '.join((*METHODS, 'best'))}"
        )
    return _solved(question, method)


def _person(question: Question, method: str, unit: str) -> Plan:
    """Return the plan that hides all records of a person: noise for as many as there may be."""
    if unit != "person":
        raise InvalidInput(f"unit must be 'record' or 'person', found {unit!r}")
    if method not in ("best", "group"):
        raise MethodRefused(
            "unit='person' hides all records of a person, whatever they are: leave method, pairs "
            "and protect out"
        )
    noise = solve_person(question)
    leak = prove_person(question, noise)
    return Plan(noise, question.model, question.epsilon, leak, "group", unit="person")


def _solved(question: Question, name: str) -> Plan:
    method = METHODS[name]
    method.admit(question.against)
    mechanism = method.solve(question)
    leak = method.prove(question, mechanism)
    if method.certified and not leak.proves(question.epsilon):
        raise NotSupported(
            f"{name} could not certify a leakage of {question.epsilon}; the best it proves is "
            f"{leak.upper:.6g}"
        )
    if not leak.reaches(question.covers):
        raise MethodRefused(
            f"the proof of '{name}' covers '{leak.covers}', not covers='{question.covers}'; use "
            "method='exchange', which covers everything that is done with a series"
        )
    return Plan(mechanism, question.model, question.epsilon, leak, name)


def _best(question: Question) -> Plan:
    """Return the certified plan with the least expected error.

    A closed exact leakage of the whole promise leaves nothing to gain, unless the exchange rate,
    which covers more shapes of data, keeps the promise with the same noise; quilts and dependence
    coefficients never beat the exchange rate unless they may leave some values or records out.
    """
    plans: dict[str, Plan] = {}
    kinds = {kind_of(member) for member in members(question.model)}
    reasons: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        if not method.certified or not method.covers(question.against):
            continue
        if not method.suits(question.model):
            continue
        if question.secrets.everything:
            if "exact" in plans and plans["exact"].leakage.closed:
                return _widest(question, plans["exact"])
            if len(kinds) > 1:
                pass
            elif name in ("quilt", "quilt-approx", "dependent") and "exchange" in plans:
                continue
        try:
            plans[name] = _solved(question, name)
        except NothingToProtect:
            raise
        except NotSupported as reason:
            reasons.setdefault(str(reason), []).append(name)
    if not plans:
        told = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
        raise NotSupported(f"no method can keep this promise. {told}")
    return least_error(plans.values())


def _widest(question: Question, exact: Plan) -> Plan:
    """Return the exact plan, or that of the exchange rate where it costs no more noise."""
    method = METHODS["exchange"]
    if not method.suits(question.model):
        return exact
    noise = question.noise(up(exact.noise.scale * (1 + _EVEN)))
    try:
        if not method.prove(question, noise).proves(question.epsilon):
            return exact
        return least_error([exact, _solved(question, method.name)])
    except NotSupported:
        return exact


def least_error(plans: Iterable[Plan]) -> Plan:
    """Return the plan with the least expected error; of those that all but tie, the widest proof.

    Of proofs that cover the same shapes, the exact one.
    """
    listed = list(plans)
    least = min(plan.expected_error for plan in listed)
    close = [plan for plan in listed if plan.expected_error * (1 - _TIE) <= least]
    width = max(WIDTHS.index(plan.leakage.covers) for plan in close)
    widest = [plan for plan in close if WIDTHS.index(plan.leakage.covers) == width]
    exact = [plan for plan in widest if plan.method == "exact"]
    return min(exact or widest, key=lambda plan: plan.expected_error)


def check_question(
    query: AnyQuery,
    model: AnyModel,
    epsilon: float,
    against: Against,
    pairs: Any = None,
    protect: Any = None,
) -> Question:
    """Return the question if it makes sense: states that exist, records inside the series."""
    epsilon, against, secrets = (
        check_epsilon(epsilon),
        check_against(against),
        Secrets(pairs, protect),
    )
    if not isinstance(query, AnyQuery):
        raise InvalidInput(
            f"the first argument must be a query such as Count('active'), found "
            f"{type(query).__name__}"
        )
    if not isinstance(model, AnyModel):
        raise InvalidInput(
            f"the second argument must be a model such as MarkovChain(...), found "
            f"{type(model).__name__}"
        )
    length = model.length
    named = [*(query.states if isinstance(query, Count) else ())]
    named += [state for pair in secrets.pairs or () for state in pair]
    known = model.states
    for state in named:
        if known and state not in known:
            shown = ", ".join(map(repr, known[:12]))
            raise UnknownState(f"the model has no state {state!r}; its states are {shown}")
    for member in members(model):
        check_fit(query, member)
    last = max(secrets.records or (0,))
    if length is not None and last >= length:
        raise InvalidInput(
            f"protect names record {last}, but the series has {length} records, counted from 0"
        )
    return Question(query, model, epsilon, against, secrets)
