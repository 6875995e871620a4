"""Scaled for several records at once: those that depend on each other, or those of a person.

Nothing is assumed about the dependence among them, so they are hidden together.
"""

from dataclasses import replace
from fractions import Fraction

from undertow.bounds.groups import group_leakage, person_leakage, person_records
from undertow.certificate import Leakage
from undertow.errors import MethodRefused
from undertow.numerics import divide_up
from undertow.planning.questions import Question, Scaled, noise_solver
from undertow.secrets import Window

__all__ = ["GROUP", "dependents", "group_noise"]


def group_noise(size: int, question: Question) -> Scaled:
    """Return the noise that hides so many records, size * sensitivity / limit, rounded up."""
    if question.secret.person:
        moved = question.query.person_upper(size, question.length)
    else:
        moved = size * Fraction(question.query.sensitivity_upper(question.length))
    return question.noise(divide_up(moved, question.limit))


def solve_group(question: Question) -> Scaled:
    """Return the noise for as many records as depend on each other, or as a person has."""
    return group_noise(_size(question), question)


def prove_group(question: Question, noise: Scaled) -> Leakage:
    """Return what any dependence among as many records could leak."""
    size = _size(question)
    if question.secret.person:
        return person_leakage(noise, question.model, question.against)
    window = question.secret.window
    # a window's records are counted in the size, also those that whoever knows the others lacks
    leak = group_leakage(noise, size, question.against if window == 1 else "any", question.length)
    alone = question.families == {"groups"}
    return replace(
        leak, lower=leak.lower if alone else 0.0, valid_for="any", against=question.against,
        secret=Window(window),
    )  # fmt: skip


GROUP = noise_solver(solve_group, prove_group)


def dependents(question: Question, refusal: str) -> int:
    """Return how many records depend on each other; an informed attacker knows all but one."""
    size = _largest([member.dependent_records() for member in question.model.members()], refusal)
    return 1 if question.against == "informed" else size


def _largest(sizes: list[int | None], refusal: str) -> int:
    """Return the largest size, or refuse where one has no bound."""
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        raise MethodRefused(refusal)
    return max(known)


def _size(question: Question) -> int:
    """Return how many records to hide, or refuse."""
    if question.secret.person:
        size = person_records(question.model)
    else:
        refusal = "'group' multiplies by the number of dependent records; give the chain a length"
        size = dependents(question, refusal)
        if question.secret.window > 1:
            size = _touched(question, refusal)
    _check_ranges(question)
    return size


def _touched(question: Question, refusal: str) -> int:
    """Return how many records depend on a window: as many groups, or all of a series.

    Whoever knows all other records leaves the window itself.
    """
    window = question.secret.window
    if question.against == "informed":
        return window
    sizes = []
    for member in question.model.members():
        size, length = member.dependent_records(), member.length
        several = None if size is None else window * size
        sizes.append(several if length is None or several is None else min(several, length))
    return _largest(sizes, refusal)


def _check_ranges(question: Question) -> None:
    """Refuse a question in which one record can move the answer without bound."""
    query = question.query
    if "gaussian" not in question.families:
        return
    if query.integral:
        raise MethodRefused(
            f"{type(query).__name__} asks for states, and Gaussian records are real numbers; ask "
            "for a Sum, a Mean or a Linear statistic"
        )
    if query.kind == "linear" and query.ends is None:
        raise MethodRefused(
            "'group' needs records with a range, and unclipped Gaussian records have none; use "
            "method='exact', or clip them (Sum, Mean)"
        )
