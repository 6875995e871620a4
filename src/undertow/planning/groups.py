"""Scaled for several records at once: those that depend on each other, or those of a person.

Nothing is assumed about the dependence among them, so they are hidden together.
"""

from dataclasses import replace
from fractions import Fraction

from undertow.adversaries import Secrets
from undertow.bounds.groups import group_leakage
from undertow.certificate import Leakage
from undertow.errors import MethodRefused
from undertow.models.sets import AnyModel
from undertow.numerics import divide_up
from undertow.planning.questions import Question, Scaled, noise_way

__all__ = ["GROUP", "contribution", "dependents", "group_noise", "prove_group", "solve_group"]


def group_noise(size: int, question: Question) -> Scaled:
    """Return the noise that hides so many records, size * sensitivity / limit, rounded up."""
    return question.noise(divide_up(_moved(size, question), question.limit))


def _moved(size: int, question: Question) -> Fraction:
    """Return how far the answer moves with so many records: all of a person's, or any."""
    if question.unit == "person":
        return question.query.person_upper(size, question.length)
    return size * Fraction(question.query.sensitivity_upper(question.length))


def solve_group(question: Question) -> Scaled:
    """Return the noise for as many records as depend on each other, or as a person has."""
    return group_noise(_size(question), question)


def prove_group(question: Question, noise: Scaled) -> Leakage:
    """Return what any dependence among as many records could leak."""
    size = _size(question)
    if question.unit == "person":
        leak = group_leakage(noise, size, "any", question.length)
        upper = divide_up(_moved(size, question), noise.scale)
        return replace(
            leak, method="person", against=question.against, lower=0.0, upper=upper, covers="any",
            assumptions=(
                "a person has at most as many records as the model says",
                "different persons are independent",
            ),
            citation="definition of person-level differential privacy",
        )  # fmt: skip
    window = question.secrets.window
    # a window's records are counted in the size, also those that whoever knows the others lacks
    leak = group_leakage(noise, size, question.against if window == 1 else "any", question.length)
    alone = question.families == {"groups"}
    return replace(
        leak, lower=leak.lower if alone else 0.0, covers="any", against=question.against,
        secrets=Secrets(window=window),
    )  # fmt: skip


GROUP = noise_way(solve_group, prove_group)


def contribution(model: AnyModel) -> int:
    """Return the most records that a person has under a model, or refuse one that does not say.

    All of them count, independent of each other or not: a person's records are replaced together.

    >>> from undertow import Groups, MarkovChain
    >>> contribution(MarkovChain([[.3, .7], [.3, .7]], length=30)), contribution(Groups(4))
    (30, 4)
    """
    found = model.members()
    if any(member.records_are_persons for member in found):
        raise MethodRefused(
            "unit='person' takes persons to be independent, and in this model every record is a "
            "person: relatives and housemates are not; use unit='record'"
        )
    return _largest(
        [member.most_records() for member in found],
        "unit='person' multiplies by the most records that a person may have; give the chain a "
        "length",
    )


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
    if question.unit == "person":
        if not question.secrets.everything:
            raise MethodRefused(
                "unit='person' hides all records of a person, whatever they are: leave method, "
                "pairs and protect out"
            )
        size = contribution(question.model)
    else:
        refusal = "'group' multiplies by the number of dependent records; give the chain a length"
        size = dependents(question, refusal)
        if question.secrets.window > 1:
            size = _touched(question, refusal)
    _check_ranges(question)
    return size


def _touched(question: Question, refusal: str) -> int:
    """Return how many records depend on a window: as many groups, or all of a series.

    Whoever knows all other records leaves the window itself.
    """
    window = question.secrets.window
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
