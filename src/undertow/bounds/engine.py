"""Leakages: check a problem, reduce it where it can be, intersect what the provers prove.

A set is reduced to its members, a leakage at a delta to pure ones, a mechanism without provers to
all algorithms of its DP level; every other problem goes to the provers of the model's kind.
"""

import math
from dataclasses import replace
from itertools import count
from typing import Any

from undertow import progress
from undertow.adversaries import Against, check_against, check_records, check_window
from undertow.bounds.counts.tables import TABLES
from undertow.bounds.groups import GROUP, RELATED, flips_level, person_leakage, record_level
from undertow.bounds.memory.missing import COMPLETE, over_patterns
from undertow.bounds.protocol import Problem, Registry, intersection, provers_of
from undertow.bounds.sets import members_leakages
from undertow.certificate import READS_STATES, UNSURE, Leakage, ValidFor, check_valid_for, worst
from undertow.curves import check_delta
from undertow.errors import EffortSpent, InvalidInput, NotSupported
from undertow.guarantees import Guarantee
from undertow.mechanisms import (
    Levelled,
    LocalMechanism,
    Mechanism,
    Noise,
    Normal,
    PureDP,
    RandomizedResponse,
    Redaction,
    Scaled,
    TabulatedNoise,
)
from undertow.models.base import Model, stands_for
from undertow.models.chains import MarkovChain
from undertow.models.classes import ChainBox
from undertow.models.sets import ModelSet
from undertow.numerics import up
from undertow.plan import doubts
from undertow.queries import BaseQuery, Linear
from undertow.secrets import ONE_RECORD, Secret, Window, check_secret

__all__ = [
    "assuming",
    "at_least",
    "at_most",
    "check_fit",
    "leakage",
    "solve",
    "whole_secret",
]


def at_least(mechanism: Mechanism, model: Model, against: Against) -> float:
    """Return a leakage that is attained: on a chain, by whoever knows all other records.

    That adversary is one of ``any``. 0 where nothing is known at once. Cost O(k^3).

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> at_least(PureDP(1.0), chain, "any"), at_least(PureDP(1.0), chain, "ignorant")
    (1.0, 0.0)
    """
    counts = isinstance(mechanism, Scaled) and bool(mechanism.query.named)
    level = isinstance(mechanism, PureDP) and mechanism.unit == "record"
    if against != "any" or not (counts or level):
        return 0.0
    chains = [member for member in model.members() if isinstance(member, MarkovChain)]
    # of several models any one may be true: what one of them leaks is attained
    informed = (_intersected(Problem(mechanism, one, "informed")) for one in chains)
    return max((leak.lower for leak in informed), default=0.0)


def at_most(
    mechanism: Mechanism, model: Model, against: Against, secret: Secret = ONE_RECORD
) -> float:
    """Return a proved bound on the leakage about a secret, inf if there is none.

    The DP level times the number of records that depend on each other (Theorem 4.2 of [lange2024]),
    for each record of a window; on chains, and boxes of chains, also by contraction
    (`undertow.bounds.levels.sweep`). At a delta it holds as well: no leakage grows with it.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=3)
    >>> round(at_most(PureDP(1.0), chain, "any"), 3)
    2.204
    >>> round(at_most(PureDP(1.0), MarkovChain([[0, 1], [.5, .5]], length=8), "any"), 3)
    4.243
    """
    if secret.person:  # its leakage is in closed form
        return math.inf
    members = model.members()
    return max(_at_most(Problem(mechanism, one, against, secret)) for one in members)


def _at_most(problem: Problem) -> float:
    """Return the least of the bounds by group size and by contraction, inf if there is none."""
    level, model, window = record_level(problem), problem.model, problem.secret.window
    if not math.isfinite(level):
        return math.inf
    if problem.against == "informed":
        return up(window * level)
    least = GROUP.prove(problem).upper if GROUP.supports(problem) else math.inf
    from undertow.bounds.levels.sweep import block_upper, contraction_upper

    box = model if isinstance(model, ChainBox) else None
    if isinstance(model, MarkovChain):
        reduced = model.visited()
        if reduced is None:
            return 0.0
        least = min(least, block_upper(level, reduced, window))
        if (reduced.transition > 0).all():
            rows = reduced.transition.reshape(-1, reduced.size, reduced.size)  # (steps, k, k)
            low, high = rows.min(axis=0), rows.max(axis=0)
            box = ChainBox(low, high, reduced.states, length=reduced.length)
    if box is not None:
        least = min(least, contraction_upper(level, box, window))
    return least


def leakage(
    mechanism: Mechanism,
    model: Model,
    against: Against = "any",
    secret: Secret | None = None,
    delta: float = 0.0,
    valid_for: ValidFor = "series",
    *,
    effort: float = 1.0,
) -> Leakage:
    """Return what a mechanism reveals about one record, or a window, as a certified interval.

    The supremum, over target records, pairs of their values, what the adversary may know, and
    outputs s, of ln Pr[s | value, known] / Pr[s | other value, known]. With a ``delta`` the least
    epsilon with Pr[S | value, known] <= e^epsilon Pr[S | other value, known] + delta for all of
    these and every set S of outputs: odds move by more than 2 e^epsilon with probability at most
    2 delta.

    Parameters
    ----------
    mechanism
        `PureDP` (all epsilon-DP algorithms at once), `ApproximateDP`, `ZCDP`, `GDP`, `Profile`
        and `MetricDP` likewise, `Laplace`, `DiscreteLaplace`, `TabulatedNoise`, `Gaussian` or
        `DiscreteGaussian`; for series `RandomizedResponse`, `XorNoise` or `Redaction` (about its
        protected records).
    model
        How the records depend on each other.
    against
        ``"any"`` (default), ``"ignorant"``, ``"informed"`` or an `Adversary`.
    delta
        0 (default) for pure leakage; guarantees that are not pure, and Gaussian noise, need more.
        ``curve`` of the result holds further pairs.
    effort
        How much work the search may take, as a multiple of the default: five to ten seconds,
        but counted, so that the result is the same on every machine; ``math.inf`` for any. A search
        that ends early leaves an interval that is certified but open, and says so.
    valid_for
        The shapes of data that the upper end must hold for: ``"series"`` (default; one answer on
        whole series), ``"windows"`` (on any window of each series too, whatever is known outside
        it) or ``"any"`` (windows, gaps, groups within a series: any algorithm of this DP level).
    secret
        What must stay secret: one record (default); a `Window`, the whole history of so many
        records in a row, bounded on chains, boxes and classes of them, and groups, by the
        mechanism's DP level (at a ``delta`` by its guarantee), where an `Adversary` wants the
        window that begins with its target; or a `Person`, all records together, at most as many as
        the model says.

    >>> from undertow import ApproximateDP, MarkovChain, PureDP, Window, leakage
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> leak = leakage(PureDP(1.0), chain)
    >>> round(leak.upper, 4), leak.witness.words()  # doctest: +ELLIPSIS
    (3.4749, "target record ...")
    >>> round(leakage(ApproximateDP(1.0, 1e-6), chain, delta=2e-5).upper, 3)
    3.474
    >>> round(leakage(PureDP(1.0), chain, secret=Window(12)).upper, 4)
    14.4749
    """
    against, hidden = check_against(against), whole_secret(secret)
    check_valid_for(valid_for)
    if not isinstance(mechanism, Mechanism):
        raise InvalidInput(
            "the first argument must be a mechanism such as PureDP(1.0) or "
            f"Laplace(Count('active'), scale=4.0), found {type(mechanism).__name__}"
        )
    if not isinstance(model, Model):
        raise InvalidInput(
            "the second argument must be a model such as MarkovChain(...) or Groups(4), found "
            f"{type(model).__name__}"
        )
    delta, effort = check_delta(delta), progress.check_effort(effort)
    return solve(Problem(mechanism, model, against, hidden, delta, valid_for, effort))


def solve(problem: Problem) -> Leakage:
    """Return the leakage of a checked problem: what is proved, or what the effort allows.

    Reductions ask it for the problems that they reduce to.

    >>> round(solve(Problem(PureDP(1.0), MarkovChain([[.9, .1], [.1, .9]], length=3))).upper, 3)
    2.552
    """
    problem = _of_numbers(replace(problem, model=stands_for(problem.model)))
    mechanism, model = problem.mechanism, problem.model
    with progress.asking(
        _search_name(problem),
        lambda: 0.0 if problem.delta else at_least(mechanism, model, problem.against),
        lambda: at_most(mechanism, model, problem.against, problem.secret),
    ) as question:
        try:
            with progress.granting(problem.effort):
                return _of_complete(_proved(problem), problem)
        except EffortSpent:
            with progress.unmetered():
                return _unfinished(question, problem)


def _of_numbers(problem: Problem) -> Problem:
    """Return the problem with a query of the model's states, where the query adds up numbers."""
    mechanism = problem.mechanism
    if not isinstance(mechanism, Noise):
        return problem
    query = problem.model.valued(mechanism.query)
    if query is mechanism.query:
        return problem
    return replace(problem, mechanism=replace(mechanism, query=query))


def _of_complete(leak: Leakage, problem: Problem) -> Leakage:
    """Return a leakage that says that every record has a value, where its proof needs that."""
    mechanism = problem.mechanism
    if not isinstance(mechanism, Noise) or over_patterns(leak, mechanism, problem.model):
        return leak
    others = tuple(line for line in leak.assumptions if line != COMPLETE)  # each of a set has it
    return replace(leak, assumptions=(COMPLETE, *others))


def _unfinished(question: progress.Question, problem: Problem) -> Leakage:
    """Return the interval that a search leaves whose effort is spent: proved without a search."""
    lower, upper = question.reached()
    leak = Leakage(
        lower, upper, "group", problem.against, assumptions=(progress.SPENT,),
        citation="Theorem 4.2 of [lange2024], and contraction of likelihood ratios (docs, theory)",
        secret=problem.secret, valid_for="any", delta=problem.delta,
    )  # fmt: skip
    return assuming(leak, problem)


def _search_name(problem: Problem) -> tuple[Any, ...]:
    """Return the name under which a search reports lower ends, where one search answers alone."""
    mechanism = problem.mechanism
    name: tuple[Any, ...] = ("other", None)
    if isinstance(mechanism, PureDP) and mechanism.unit == "record" and not problem.delta:
        name = ("level", mechanism.epsilon)
    elif isinstance(mechanism, Scaled) and mechanism.query.named and not problem.delta:
        name = ("count", (mechanism.scale, frozenset(mechanism.query.named), problem.valid_for))
    return *name, problem.model, problem.against, problem.secret


def _proved(problem: Problem) -> Leakage:
    """Return what the first reduction that applies proves, else what provers prove together."""
    progress.doing("looking for the worst adversary")
    mechanism, model, secret = problem.mechanism, problem.model, problem.secret
    if SETS.supports(problem):
        return SETS.prove(problem)
    check_records(problem.against, model.length)
    check_window(Window(secret.window), problem.against, model.length)
    if isinstance(mechanism, Noise):
        check_fit(mechanism.query, model)
    for reduction in (PERSONS, DELTAS):
        if reduction.supports(problem):
            return reduction.prove(problem)
    leak = assuming(_intersected(problem), problem)
    if secret.window > 1:
        return replace(leak, valid_for="any", secret=secret)
    # whatever is done to the series, flips and algorithms of a level are what they are
    return leak if isinstance(mechanism, Noise | Redaction) else replace(leak, valid_for="any")


def _intersected(problem: Problem) -> Leakage:
    """Intersect the brackets of the provers of a model's kind, and the bound by group size.

    If all refuse, all algorithms of the mechanism's DP level are asked about instead.
    """
    try:
        leak = Registry(*provers_of(problem.model), TABLES).prove(problem)
    except EffortSpent:
        raise
    except NotSupported:
        if LEVELS.supports(problem):
            return LEVELS.prove(problem)
        if problem.secret.window > 1 and problem.model.lowered() and GROUP.supports(problem):
            return GROUP.prove(problem)
        raise
    if leak.closed or not GROUP.supports(problem):
        return leak
    return intersection(leak, GROUP.prove(problem))


def assuming(leak: Leakage, problem: Problem) -> Leakage:
    """Return a leakage that also says what its model does not, and that it is one of many.

    All algorithms of a level are those that read the states alone, where a model has any. A level
    for whole persons, and plain differential privacy against an informed attacker, hold whatever
    the records have to do with each other.
    """
    if problem.about_persons:
        return leak
    model, informed = problem.model, leak.against == "informed"
    notes = doubts(model.checks) if model.checks and not informed else ()
    notes = (*notes, *model.disclaimers())
    if model.states and not informed and not isinstance(problem.mechanism, Noise | LocalMechanism):
        notes = (*notes, READS_STATES)
    if model.several() and not informed:
        notes = (*notes, UNSURE)
    return leak.with_assumptions(notes)


class SetReduction:
    """A set of models: the worst leakage of its members."""

    name = "set"

    def supports(self, problem: Problem) -> bool:
        """Tell whether the model is a set."""
        return isinstance(problem.model, ModelSet)

    def prove(self, problem: Problem) -> Leakage:
        """Return the worst leakage of the members."""
        model = problem.model
        if not isinstance(model, ModelSet):
            raise NotSupported(f"a ModelSet is required, found {type(model).__name__}")
        leaks = self._leakages(problem, model)
        return assuming(worst(leaks, model.note, len(model.models)), problem)

    @staticmethod
    def _leakages(problem: Problem, model: ModelSet) -> list[Leakage]:
        """Return leakages of members of a set whose worst is that of the set."""
        mechanism, numbers, name = problem.mechanism, count(1), _search_name(problem)

        def ask(member: Model) -> Leakage:
            progress.doing("asking the models of the set", next(numbers), len(model.models))
            leak = solve(replace(problem, model=member))
            progress.attained(name, lambda: leak.lower)  # one of the models may be the true one
            return leak

        plain = not problem.delta and problem.secret == ONE_RECORD
        if not plain or not isinstance(mechanism, Levelled):
            return [ask(member) for member in model.models]
        for member in model.models:
            check_records(problem.against, member.length)
            if isinstance(mechanism, Noise):
                check_fit(mechanism.query, member)
        return members_leakages(mechanism, model.models, problem.against, ask)


class PersonBound:
    """Whole persons as the secret, or a pure level for whole persons: group privacy."""

    name = "person"

    def supports(self, problem: Problem) -> bool:
        """Tell whether the secret, or the pure level, is about persons."""
        return problem.secret.person or (
            problem.about_persons and not problem.delta and isinstance(problem.mechanism, PureDP)
        )

    def prove(self, problem: Problem) -> Leakage:
        """Return the level for persons, or that of as many records as a person has."""
        mechanism, model, against = problem.mechanism, problem.model, problem.against
        if isinstance(mechanism, PureDP) and mechanism.unit == "person":
            leak = _person(mechanism, model, against)
            return replace(leak, valid_for="any", secret=problem.secret, delta=problem.delta)
        if problem.delta or isinstance(mechanism, Guarantee | Normal):
            raise NotSupported(
                "what is revealed about all records of a person at a delta is not bounded here: "
                "take the (epsilon, delta) of a guarantee for whole persons, which is what it leaks"
            )
        if isinstance(mechanism, Scaled):
            return person_leakage(mechanism, model, against)
        return person_leakage(_level_of(mechanism, model), model, against)


class DeltaReduction:
    """A leakage at a delta: exchanged from pure leakages, or searched along a curve."""

    name = "delta"

    def supports(self, problem: Problem) -> bool:
        """Tell whether there is a delta, or a mechanism that needs one."""
        return bool(problem.delta) or isinstance(problem.mechanism, Guarantee | Normal)

    def prove(self, problem: Problem) -> Leakage:
        """Return the least upper end of the exchange and the searches."""
        from undertow.bounds.curves.leakages import at_delta

        wide = problem.secret.window > 1
        leak = at_delta(
            problem.mechanism, problem.model, problem.against, problem.delta, problem.valid_for,
            lambda other: solve(replace(problem, mechanism=other, delta=0.0)), closed=wide,
        )  # fmt: skip
        leak = assuming(leak, problem)
        return replace(leak, secret=problem.secret) if wide else leak


class LevelReduction:
    """A mechanism that no prover knows: what all algorithms of its DP level leak."""

    name = "level"

    def supports(self, problem: Problem) -> bool:
        """Tell whether the mechanism is seen through its level by this secret and shape."""
        mechanism = problem.mechanism
        if isinstance(mechanism, PureDP) or problem.about_persons or problem.delta:
            return False
        if problem.secret.window > 1:
            return True
        return problem.about_parts or isinstance(mechanism, TabulatedNoise | RandomizedResponse)

    def prove(self, problem: Problem) -> Leakage:
        """Return the upper end of the level, or refuse a mechanism that has none."""
        level = _level_of(problem.mechanism, problem.model, problem.secret.window)
        return solve(replace(problem, mechanism=level, valid_for="series")).upper_only()


SETS, PERSONS, DELTAS, LEVELS = SetReduction(), PersonBound(), DeltaReduction(), LevelReduction()


def _level_of(mechanism: Mechanism, model: Model, window: int = 1) -> PureDP:
    """Return all algorithms of the DP level of a mechanism, or refuse one without."""
    if isinstance(mechanism, RandomizedResponse):
        level = flips_level(mechanism, model)
        if math.isfinite(level):
            return PureDP(level)
    elif isinstance(mechanism, Levelled | TabulatedNoise):
        return PureDP(mechanism.level_upper(model.length))
    secret = "one record" if window == 1 else "a window of records"
    raise NotSupported(
        f"what {type(mechanism).__name__} leaks about {secret} under {model.describe()} is not "
        "known: it has no finite DP level of its own; hide one record of a chain, or use noise or "
        "flips of every record"
    )


def whole_secret(secret: object) -> Secret:
    """Return a secret about all values of all records, one record by default; refuse another.

    >>> whole_secret(None)
    Window(records=1)
    """
    hidden = check_secret(secret)
    if hidden.targets is None and hidden.value_pairs is None:
        return hidden
    raise InvalidInput(
        f"secret must be a Window or a Person here, found {type(hidden).__name__}: a leakage is "
        "about all values of all records; name one record with against=Adversary(5)"
    )


def check_fit(query: BaseQuery, model: Model) -> None:
    """Refuse a linear statistic of other records than the model's.

    >>> from undertow.models.chains import MarkovChain
    >>> check_fit(Linear([1, 1], spread=5), MarkovChain([[.5, .5], [.5, .5]], (0, 5), length=2))
    """
    if not isinstance(query, Linear):
        return
    if model.length not in (None, query.records):
        raise InvalidInput(f"{query.records} weights do not fit {model.length} records")
    if query.lower is not None:  # numbers are clipped to the spread
        return
    numbers = [number for _, number in model.valued(query).values or ()]
    apart = max(numbers) - min(numbers) if numbers else 0
    if apart > query.spread:
        raise InvalidInput(
            f"spread says that two values of a record differ by at most {query.spread:g}, but the "
            f"model's states lie {apart:g} apart; say spread={apart:g}"
        )


def _person(mechanism: PureDP, model: Model, against: Against) -> Leakage:
    """Return the leakage of an algorithm that is epsilon-DP for whole persons."""
    if model.records_are_persons:
        raise NotSupported(RELATED)
    return Leakage(
        mechanism.epsilon, mechanism.epsilon, "person", against,
        assumptions=(
            "the algorithm is epsilon-DP for replacing all records of a person",
            "different persons are independent",
        ),
        citation="definition of person-level differential privacy",
    )  # fmt: skip
