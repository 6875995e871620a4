"""The plan of an answer that spends a given DP level, whatever that leaks."""

import math
from collections.abc import Sequence

from undertow.adversaries import Against, Window
from undertow.errors import NotSupported
from undertow.mechanisms import Unit
from undertow.methods import find_method
from undertow.models.acceptance import accepted
from undertow.models.sets import AnyModel
from undertow.numerics import check_positive, divide_up
from undertow.plan import Plan
from undertow.planning.checked import priced
from undertow.planning.groups import contribution
from undertow.planning.methods import prove
from undertow.planning.questions import Question, Scaled
from undertow.planning.search import check_question
from undertow.queries import AnyQuery

__all__ = ["plan_at_level"]


def plan_at_level(
    query: AnyQuery, model: AnyModel, level: float, against: Against = "any",
    unit: Unit = "record", protect: Window | None = None, accept: Sequence[str] = (),
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
    wanted = check_positive(level, "level")
    question = check_question(query, model, wanted, against, None, protect, unit=unit, covers="any")
    taken = accepted(question.model.checks, accept, all_of=unit == "record")
    noise = _noise(question, wanted)
    method = find_method("answer", "group" if unit == "person" else "exchange")
    proof = prove(method, question, noise)
    if not math.isfinite(proof.upper):
        raise NotSupported(
            f"at a DP level of {wanted:g} nothing finite can be said about what leaks under "
            f"{model.describe()}: some state may last for ever; state a class without zeros, or "
            "give it a length"
        )
    plan = Plan(noise, question.model, proof.upper, proof, method.name, unit=unit)
    return priced(plan, taken)


def _noise(question: Question, level: float) -> Scaled:
    """Return the least noise whose level, rounded up, is at most ``level``."""
    query, length = question.query, question.length
    if question.unit == "person":
        return question.noise(
            divide_up(query.person_upper(contribution(question.model), length), level)
        )
    noise = question.noise(query.sensitivity(length) / level)
    while noise.level_upper(length) > level:  # a few units in the last place
        noise = question.noise(math.nextafter(noise.scale, math.inf))
    return noise
