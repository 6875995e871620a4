"""Methods at work: the solvers that the registry names, asked for a mechanism or for a proof.

A method is one idea; chains, Gaussian records and networks have ways of their own for it.
"""

from dataclasses import replace
from importlib import import_module
from typing import Any

from undertow import progress
from undertow.certificate import WIDTHS, Leakage
from undertow.errors import MethodRefused
from undertow.methods import Method, methods_for
from undertow.models.sets import ModelSet, SingleModel
from undertow.planning.questions import Question, Solution, Way

__all__ = ["LESS", "effort_of", "named", "prove", "solve"]


LESS = (
    "the search for the least noise ended with its effort spent: less may do; effort=10 allows "
    "ten times as much, effort=math.inf searches to the end"
)
"""What is said of noise whose search ended early."""


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
        found = [_told(way.solve(part), part) for way, part in _parts(method, question)]
        if not progress.left():
            found = [replace(each, notes=(*each.notes, LESS), optimal=False) for each in found]
    return max(found, key=lambda each: each.mechanism.amount) if len(found) > 1 else found[0]


def prove(method: Method, question: Question[Any], mechanism: Any) -> Leakage:
    """Return what a method certifies for a mechanism: where families are mixed, the worst.

    With an effort of its own, so that it can be repeated.
    """
    with progress.granting(question.effort):
        found = [
            way.prove(part, mechanism).with_assumptions(part.model.disclaimers())
            for way, part in _parts(method, question)
        ]
    if any(leak.secrets.window != question.secrets.window for leak in found):
        raise MethodRefused(f"'{method.name}' proved nothing about a window of records here")
    if len(found) == 1:
        return found[0]
    worst = max(found, key=lambda leak: leak.upper)
    notes = dict.fromkeys(note for leak in found for note in leak.assumptions)
    least = min(found, key=lambda leak: WIDTHS.index(leak.covers))
    return replace(worst, lower=0.0, witness=None, assumptions=tuple(notes), covers=least.covers)


def _told(solution: Solution, question: Question[Any]) -> Solution:
    """Return a solution whose certificate, if there is one, says what the model does not cover."""
    if solution.leakage is None:
        return solution
    leak = solution.leakage.with_assumptions(question.model.disclaimers())
    return replace(solution, leakage=leak)


def _parts(method: Method, question: Question[Any]) -> list[tuple[Way, Question[Any]]]:
    """Return the ways of a method, each with the part of the question that it answers."""
    if not method.suits(question.model):
        others = methods_for(question.model, method.task)
        raise MethodRefused(
            f"'{method.name}' has nothing to say about {question.model.describe()}; use "
            f"method='{next(iter(others), 'best')}'"
        )
    _check_history(method, question)
    ways = method.solver if question.shape == "laplace" else method.normal or method.solver
    if isinstance(ways, str | Way):
        return [(_way(ways), question)]
    found: dict[str, list[SingleModel]] = {}
    for member in question.model.members():
        found.setdefault(member.family, []).append(member)
    return [
        (
            _way(ways.get(family) or ways["other"]),
            question if len(found) == 1 else replace(question, model=ModelSet(models)),
        )
        for family, models in found.items()
    ]


def _check_history(method: Method, question: Question[Any]) -> None:
    """Refuse a window of records where the method, or the order of the records, is in the way."""
    method.admit_secrets(question.secrets)
    if question.secrets.window == 1 or question.families <= {"chain", "groups", "second-order"}:
        return
    raise MethodRefused(
        "what is revealed about a window of records is known for chains of order one and two, "
        f"their classes and groups, not for {question.model.describe()}; protect one record, or "
        "plan with Groups"
    )


def _way(solver: str | Way) -> Way:
    way: Way = named(solver) if isinstance(solver, str) else solver
    return way


def named(place: str) -> Any:
    """Return what a name in the registry stands for, imported when it is first asked.

    >>> named("chains.lange_constant").__name__
    'lange_constant'
    """
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"undertow.planning.{module}"), name)
