"""The least noise of any shape for a count: what it must keep, and its proof.

All pairs of laws that an adversary can tell apart are constraints of a linear program
(`noise_tables`); what it finds is rounded to multiples of 2^-128, and what is rounded is proved
(docs, theory: least noise of any shape).
"""

from undertow.bounds.engine import assuming
from undertow.bounds.tabulated.leakages import sources, table_leakage
from undertow.bounds.tabulated.pairs import CountPairs, joined
from undertow.certificate import Leakage, worst
from undertow.errors import MethodRefused, NothingToProtect, NotSupported
from undertow.methods import METHODS
from undertow.models.sets import ModelSet
from undertow.planning.budget import aim
from undertow.planning.methods import solve
from undertow.planning.noise_tables import LARGE, MOST, Loss, least_table
from undertow.planning.questions import CERTAIN, Question, Remembered, Solution, Way
from undertow.tabulated import TabulatedNoise

__all__ = ["OPTIMAL", "solve_optimal"]

CHARGED = 1e-4
"""Share of a limit that the longest sides may cost without a look at Laplace noise."""


def _pairs(question: Question) -> CountPairs:
    """Return the pairs of laws of all models that may be true, or refuse."""
    if not question.query.named:
        raise MethodRefused(
            f"'optimal' knows counts, not {type(question.query).__name__}; use method='exchange'"
        )
    if question.against == "informed":
        raise MethodRefused(
            "who knows all other records is kept out best by discrete Laplace noise [ghosh2009]; "
            "use method='exact'"
        )
    try:
        found = [
            source.pairs
            for member in question.model.members()
            for source in sources(question.query, member, question.against, question.limit)
        ]
    except NotSupported as reason:
        raise MethodRefused(str(reason)) from reason
    if not found:
        raise NothingToProtect(CERTAIN)
    return joined(found) if len(found) > 1 else found[0]


@Remembered
def solve_optimal(question: Question) -> Solution:
    """Return the least noise of any shape for a count, with its proof."""
    pairs = _pairs(question)
    limit = aim(question.limit)
    loss: Loss = "squared" if question.objective == "squared" else "absolute"
    for _ in range(4):
        table = least_table(pairs, limit, loss=loss, most=MOST * question.patience)
        if not table.closed:
            raise MethodRefused(
                "the search for the least noise did not come to its end, as it may where limits "
                f"are above {LARGE:g}; use method='exact'"
            )
        noise = table.noise(question)
        leak = prove_optimal(question, noise)
        if leak.proves(aim(question.limit)):
            break
        limit = limit - 2 * (leak.upper - aim(question.limit))  # rounding alone is in the way
    _check_better(question, pairs, noise)
    return Solution(noise, leak)


def _check_better(question: Question, pairs: CountPairs, noise: TabulatedNoise) -> None:
    """Refuse noise that errs more than the exact discrete Laplace noise.

    It may where long sides cost much, or are stood for by windows that no adversary sees.
    """
    if pairs.real.all() and pairs.slack.max() <= CHARGED * question.limit:
        return
    laplace = solve(METHODS["answer"]["exact"], question).mechanism
    if laplace.expected_error() < noise.expected_error():
        raise MethodRefused(
            "long sides cannot be told from windows that nobody sees, and noise that keeps the "
            "limit for these too errs more than Laplace noise; use method='exact'"
        )


@Remembered
def prove_optimal(question: Question, noise: TabulatedNoise) -> Leakage:
    """Return the exact leakage of noise from a table."""
    try:
        found = [
            assuming(table_leakage(noise, one, question.against, question.limit), one, noise)
            for one in question.model.members()
        ]
    except NotSupported as reason:
        raise MethodRefused(str(reason)) from reason
    note = getattr(question.model, "note", None)
    return worst(found, note) if isinstance(question.model, ModelSet) else found[0]


OPTIMAL = Way(solve_optimal, prove_optimal)
