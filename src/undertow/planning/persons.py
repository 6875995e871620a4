"""Plans that hide all records of a person, whatever the dependence among them."""

from dataclasses import replace
from fractions import Fraction

from undertow.bounds.groups import group_leakage
from undertow.certificate import Leakage
from undertow.errors import MethodRefused
from undertow.models.contagion import Contagion
from undertow.models.groups import Groups
from undertow.models.pedigree import Pedigree
from undertow.models.sets import AnyModel, members
from undertow.numerics import divide_up
from undertow.planning.methods import check_ranges
from undertow.planning.questions import Noise, Question

__all__ = ["contribution", "prove_person", "solve_person"]


def contribution(model: AnyModel) -> int:
    """Return the most records that a person has under a model, or refuse one that does not say.

    All of them count, independent of each other or not: a person's records are replaced together.

    >>> from undertow.models.markov import MarkovChain
    >>> contribution(MarkovChain([[.3, .7], [.3, .7]], length=30)), contribution(Groups(4))
    (30, 4)
    """
    found = members(model)
    if any(isinstance(member, Pedigree | Contagion) for member in found):
        raise MethodRefused(
            "unit='person' takes persons to be independent, and in this model every record is a "
            "person: relatives and housemates are not; use unit='record'"
        )
    sizes = [member.size if isinstance(member, Groups) else member.length for member in found]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        raise MethodRefused(
            "unit='person' multiplies by the most records that a person may have; give the chain "
            "a length"
        )
    return max(known)


def solve_person(question: Question) -> Noise:
    """Return the noise that hides as many records as a person may have."""
    _check(question)
    moved = Fraction(question.query.sensitivity_upper(question.length))
    return question.noise(divide_up(contribution(question.model) * moved, question.epsilon))


def prove_person(question: Question, noise: Noise) -> Leakage:
    """Return the level of a noise for all records of a person together."""
    _check(question)
    leak = group_leakage(noise, contribution(question.model), "any", question.length)
    return replace(
        leak, method="person", against=question.against, lower=0.0, covers="any",
        assumptions=(
            "a person has at most as many records as the model says",
            "different persons are independent",
        ),
        citation="definition of person-level differential privacy",
    )  # fmt: skip


def _check(question: Question) -> None:
    """Refuse questions about some values or records only, and answers without a range."""
    if not question.secrets.everything:
        raise MethodRefused(
            "unit='person' hides all records of a person, whatever they are: leave method, pairs "
            "and protect out"
        )
    check_ranges(question)
