"""One question, one answer: check it, ask the module that proves the model's leakages."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from undertow import progress
from undertow.adversaries import Against, check_against, check_records, check_window
from undertow.bounds.channels.flips import level_of
from undertow.bounds.groups import RELATED, person_leakage
from undertow.bounds.levels.classes import boxes_leakage, chain_ceilings
from undertow.bounds.memory.missing import COMPLETE, over_patterns
from undertow.certificate import READS_STATES, UNSURE, Leakage, ValidFor, check_valid_for, worst
from undertow.curves import check_delta
from undertow.errors import EffortSpent, InvalidInput, NotSupported
from undertow.guarantees import Guarantee
from undertow.mechanisms import (
    Levelled,
    LocalMechanism,
    Mechanism,
    MetricDP,
    Noise,
    Normal,
    PureDP,
    RandomizedResponse,
    Scaled,
    TabulatedNoise,
    flips_epsilon_upper,
)
from undertow.models.base import Model, stands_for
from undertow.models.chains import MarkovChain
from undertow.models.classes import ChainBox
from undertow.models.registry import prover
from undertow.models.sets import ModelSet
from undertow.numerics import Array, up
from undertow.plan import doubts
from undertow.queries import BaseQuery, Linear
from undertow.secrets import ONE_RECORD, Person, Secret, Window, check_secret

__all__ = [
    "assuming",
    "at_least",
    "at_most",
    "check_fit",
    "leakage",
    "members_leakages",
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
    if against != "any" or not (counts or isinstance(mechanism, PureDP)):
        return 0.0
    chains = [member for member in model.members() if isinstance(member, MarkovChain)]
    # of several models any one may be true: what one of them leaks is attained
    return max((prover(one).leakage(mechanism, one, "informed").lower for one in chains), default=0)


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
    window = secret.window
    return max(_at_most(mechanism, one, against, window) for one in model.members())


def _at_most(mechanism: Mechanism, model: Model, against: Against, window: int) -> float:
    level = _level(mechanism, model)
    if not math.isfinite(level):
        return math.inf
    if against == "informed":
        return up(window * level)
    records = model.dependent_records()
    found = math.inf if records is None else up(window * records * level)
    from undertow.bounds.levels.sweep import block_upper, contraction_upper

    box = model if isinstance(model, ChainBox) else None
    if isinstance(model, MarkovChain):
        reduced = model.visited()
        if reduced is None:
            return 0.0
        found = min(found, block_upper(level, reduced, window))
        if (reduced.transition > 0).all():
            rows = reduced.transition.reshape(-1, reduced.size, reduced.size)  # (steps, k, k)
            low, high = rows.min(axis=0), rows.max(axis=0)
            box = ChainBox(low, high, reduced.states, length=reduced.length)
    if box is not None:
        found = min(found, contraction_upper(level, box, window))
    return found


def _level(mechanism: Mechanism, model: Model) -> float:
    """Return the DP level of a mechanism for one replaced record, inf where it has none."""
    if isinstance(mechanism, RandomizedResponse):
        return flips_epsilon_upper(mechanism)
    if not isinstance(mechanism, Levelled) or getattr(mechanism, "unit", "record") != "record":
        return math.inf
    if model.family == "gaussian" and not isinstance(mechanism, PureDP):
        return math.inf  # records without a range: others can move by more than one is declared to
    return float(mechanism.level_upper(model.length))


_FEW = 4
"""Fewer chains than this are simply asked, each."""
_RATIO = 1.03
"""Levels share the ceilings of the next power of this: ceilings grow with the level, so those of a
higher one hold, and a search that tries many levels sweeps few."""


def members_leakages(
    mechanism: Levelled, models: Sequence[Model], against: Against, ask: Callable[[Model], Leakage]
) -> list[Leakage]:
    """Return leakages of members, or of several together, whose worst is the worst of all.

    ``ask`` gives the leakage of a member, with its own proof.
    """
    if getattr(mechanism, "unit", "record") != "record":
        return [ask(model) for model in models]
    boxes = [
        model
        for model in models
        if isinstance(model, ChainBox) and model.size == 2 and not model.disclaimers()
    ]
    chains = [model for model in models if isinstance(model, MarkovChain) and _swept(model)]
    boxes = boxes if len(boxes) > 1 else []
    chains = chains if len(chains) >= _FEW else []
    held = {id(model) for model in (*boxes, *chains)}
    found = [ask(model) for model in models if id(model) not in held]
    if boxes:
        joint = boxes_leakage(mechanism.level_upper(boxes[0].length), boxes, against)
        if not isinstance(mechanism, PureDP):  # attained by some algorithm, not by this one
            joint = joint.upper_only()
        said = tuple(dict.fromkeys(line for box in boxes for line in box.disclaimers()))
        found.append(replace(joint, valid_for="any").with_assumptions(said))
    if chains:
        found += _of_chains(mechanism.level_upper(chains[0].length), chains, against, ask, found)
    return found


def _of_chains(
    epsilon: float,
    chains: Sequence[MarkovChain],
    against: Against,
    ask: Callable[[Model], Leakage],
    before: Sequence[Leakage],
) -> list[Leakage]:
    """Return the leakages of those chains that may be the worst."""
    proved = max((leak.upper for leak in before), default=-math.inf)
    above = _RATIO ** math.ceil(math.log(epsilon) / math.log(_RATIO))
    rough = _ceilings(max(above, epsilon), tuple(chains), against)  # (N,)
    first = int(rough.argmax())
    found = []
    if rough[first] > proved:
        found.append(ask(chains[first]))
        proved = max(proved, found[0].upper)
    left = [chain for place, chain in enumerate(chains) if place != first and rough[place] > proved]
    if not left:
        return found
    sharp = chain_ceilings(epsilon, left, against)  # (N,)
    for place in np.argsort(-sharp).tolist():
        # all that are left have no larger ceiling, and cannot be worse than what is proved
        if sharp[place] <= proved:
            break
        found.append(ask(left[place]))
        proved = max(proved, found[-1].upper)
    return found


@lru_cache(maxsize=16)
def _ceilings(epsilon: float, chains: tuple[MarkovChain, ...], against: Against) -> Array:
    return chain_ceilings(epsilon, chains, against)


def _swept(chain: MarkovChain) -> bool:
    """Return whether the ceilings speak of a chain: two states, one matrix, a stationary start."""
    return chain.size == 2 and chain.homogeneous and isinstance(chain.start, str)


_STEPS = 2
"""Steps of effort on channels with many states at an effort of 1; each costs four times as much."""

_MOST_STEPS = 5
"""Most of these steps (memory)."""

_BY_LEVEL = ("exchange", "group", "quilt", "quilt-approx")
"""Bounds on all algorithms of a DP level, whatever these do with the series."""


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
    model = stands_for(model)
    mechanism = _valued(mechanism, model)
    delta, effort = check_delta(delta), progress.check_effort(effort)
    more: Any = {"delta": delta, "effort": effort, "valid_for": valid_for, "secret": hidden}
    question = _named(mechanism, model, against, more)
    with progress.asking(
        question,
        lambda: 0.0 if delta else at_least(mechanism, model, against),
        lambda: at_most(mechanism, model, against, hidden),
    ) as asked:
        try:
            with progress.granting(effort):
                found = _answered(mechanism, model, against, more, question)
                return _of_complete(found, mechanism, model)
        except EffortSpent:
            with progress.unmetered():
                return _unfinished(asked, mechanism, model, against, more)


def _valued(mechanism: Mechanism, model: Model) -> Mechanism:
    """Return the mechanism with a query of the model's states, where it adds numbers up."""
    if not isinstance(mechanism, Noise):
        return mechanism
    query = model.valued(mechanism.query)
    return mechanism if query is mechanism.query else replace(mechanism, query=query)


def _of_complete(found: Leakage, mechanism: Mechanism, model: Model) -> Leakage:
    """Return a leakage that says that every record has a value, where its proof needs that."""
    if not isinstance(mechanism, Noise) or over_patterns(found, mechanism, model):
        return found
    others = tuple(said for said in found.assumptions if said != COMPLETE)  # each of a set says it
    return replace(found, assumptions=(COMPLETE, *others))


def _unfinished(
    asked: progress.Question, mechanism: Mechanism, model: Model, against: Against,
    more: dict[str, Any],
) -> Leakage:  # fmt: skip
    """Return the interval that a search leaves whose effort is spent: proved without a search."""
    lower, upper = asked.reached()
    found = Leakage(
        lower, upper, "group", against, assumptions=(progress.SPENT,),
        citation="Theorem 4.2 of [lange2024], and contraction of likelihood ratios (docs, theory)",
        secret=more["secret"], valid_for="any", delta=more["delta"],
    )  # fmt: skip
    return assuming(found, model, mechanism)


def _named(
    mechanism: Mechanism, model: Model, against: Against, more: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the name of a question: that of the search which answers it, where one does alone."""
    name: tuple[Any, ...] = ("other", None)
    if isinstance(mechanism, PureDP) and mechanism.unit == "record" and not more["delta"]:
        name = ("level", mechanism.epsilon)
    elif isinstance(mechanism, Scaled) and mechanism.query.named and not more["delta"]:
        name = ("count", (mechanism.scale, frozenset(mechanism.query.named), more["valid_for"]))
    return *name, model, against, more["secret"]


def _answered(
    mechanism: Mechanism, model: Model, against: Against, more: dict[str, Any],
    question: tuple[Any, ...],
) -> Leakage:  # fmt: skip
    """Return the leakage that was asked for, once the question makes sense."""
    delta, secret, valid_for = more["delta"], more["secret"], more["valid_for"]
    progress.doing("looking for the worst adversary")
    if isinstance(model, ModelSet):
        each = _of_set(mechanism, model, against, more, question)
        return assuming(worst(each, model.note, len(model.models)), model, mechanism)
    check_records(against, model.length)
    check_window(Window(secret.window), against, model.length)
    if secret.person:
        return assuming(_of_person(mechanism, model, against, delta), model, mechanism)
    wide = secret.window > 1
    if delta or isinstance(mechanism, Guarantee | Normal):
        if isinstance(mechanism, Noise):
            check_fit(mechanism.query, model)
        from undertow.bounds.curves.leakages import at_delta

        more["delta"] = 0.0
        found = at_delta(
            mechanism, model, against, delta, valid_for,
            lambda other: leakage(other, model, against, **more), closed=wide,
        )  # fmt: skip
        found = assuming(found, model, mechanism)
        return replace(found, secret=secret) if wide else found
    if wide:
        return assuming(_wide(mechanism, model, against, secret.window), model, mechanism)
    proved = _proved(mechanism, model, against, more["effort"], valid_for)
    proved = assuming(proved, model, mechanism)
    everywhere = not isinstance(mechanism, Noise) and mechanism.kind != "redaction"
    if model.family in ("chain", "groups"):
        everywhere = everywhere or proved.method in _BY_LEVEL
    return replace(proved, valid_for="any") if everywhere else proved


def assuming(found: Leakage, model: Model, mechanism: Mechanism) -> Leakage:
    """Return a leakage that also says what its model does not, and that it is one of many.

    All algorithms of a level are those that read the states alone, where a model has any. A level
    for whole persons, and plain differential privacy against an informed attacker, hold whatever
    the records have to do with each other.
    """
    if found.method == "person":
        return found
    informed = found.against == "informed"
    notes = doubts(model.checks) if model.checks and not informed else ()
    notes = (*notes, *model.disclaimers())
    if model.states and not informed and not isinstance(mechanism, Noise | LocalMechanism):
        notes = (*notes, READS_STATES)
    if model.several() and not informed:
        notes = (*notes, UNSURE)
    return found.with_assumptions(notes)


def _of_set(
    mechanism: Mechanism, model: ModelSet, against: Against, more: dict[str, Any],
    question: tuple[Any, ...],
) -> list[Leakage]:  # fmt: skip
    """Return leakages of members of a set whose worst is that of the set."""
    asked = count(1)

    def ask(member: Model) -> Leakage:
        progress.doing("asking the models of the set", next(asked), len(model.models))
        found = leakage(mechanism, member, against, **more)
        progress.attained(question, lambda: found.lower)  # one of the models may be the true one
        return found

    plain = not more["delta"] and more["secret"] == ONE_RECORD
    if not plain or not isinstance(mechanism, Levelled):
        return [ask(member) for member in model.models]
    for member in model.models:
        check_records(against, member.length)
        if isinstance(mechanism, Noise):
            check_fit(mechanism.query, member)
    return members_leakages(mechanism, model.models, against, ask)


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


def _wide(mechanism: Mechanism, model: Model, against: Against, window: int) -> Leakage:
    """Return what all algorithms of a mechanism's level leak about a window of its records."""
    family, secret = prover(model), Window(window)
    if isinstance(mechanism, PureDP) and mechanism.unit == "person":
        return replace(_person(mechanism, model, against), valid_for="any", secret=secret)
    if not hasattr(family, "window_leakage"):
        raise NotSupported(
            "what is revealed about a window of records is known for chains of order one and two, "
            f"their classes and groups, not for {model.describe()}: its records have no order, or "
            "no bound is known; hide one record, or plan with Groups"
        )
    level = _wide_level(mechanism, model)
    found: Leakage = family.window_leakage(level, model, against, window)
    if isinstance(mechanism, Noise) and hasattr(family, "window_attained"):
        found = family.window_attained(found, mechanism, model)
    elif not isinstance(mechanism, PureDP):  # which is all algorithms of the level, and attains it
        found = found.upper_only()
    return replace(found, valid_for="any", secret=secret)


def _wide_level(mechanism: Mechanism, model: Model) -> float:
    """Return the DP level through which a window sees a mechanism, or refuse one without."""
    if isinstance(mechanism, LocalMechanism):
        level = math.inf
        if isinstance(mechanism, RandomizedResponse):
            level = flips_epsilon_upper(mechanism)
            _check_states(mechanism, model)
        if math.isfinite(level):
            return level
    elif not isinstance(mechanism, MetricDP):
        levelled: Any = mechanism
        if isinstance(mechanism, Noise):
            check_fit(mechanism.query, model)
        return float(levelled.level_upper(model.length))
    raise NotSupported(
        f"what {type(mechanism).__name__} leaks about a window of records is not known: it has no "
        "finite DP level of its own; hide one record, or use noise or flips of every record"
    )


def _proved(
    mechanism: Mechanism, model: Model, against: Against, effort: float, valid_for: ValidFor
) -> Leakage:
    """Return what the model's own module proves, or what all algorithms of the level leak."""
    family = prover(model)
    if isinstance(mechanism, LocalMechanism):
        if hasattr(family, "local"):
            steps = _MOST_STEPS
            if math.isfinite(effort):
                steps = min(max(_STEPS + round(math.log(effort, 4)), 0), steps)
            found: Leakage = family.local(mechanism, model, against, steps)
            return found
        return _local(mechanism, model, against)
    if isinstance(mechanism, Noise):
        check_fit(mechanism.query, model)
        if valid_for != "series":
            return _elsewhere(mechanism, model, against, valid_for)
    if isinstance(mechanism, TabulatedNoise):
        return _tabulated(mechanism, model, against)
    if isinstance(mechanism, PureDP) and mechanism.unit == "person":
        return _person(mechanism, model, against)
    curator: Leakage = family.leakage(mechanism, model, against)
    summed = isinstance(mechanism, Noise) and mechanism.query.totalled
    return curator.with_assumptions((_SUMMED,)) if summed else curator


_SUMMED = (
    "the lower end and the witness are those of the noisy numbers before they are moved to their "
    "public sum"
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


def _local(mechanism: LocalMechanism, model: Model, against: Against) -> Leakage:
    """Return the leakage of flips through their DP level."""
    level = level_of(mechanism, model)
    _check_states(mechanism, model)
    bound = leakage(level, model, against)
    return bound if model.family == "groups" else bound.upper_only()


def _check_states(mechanism: LocalMechanism, model: Model) -> None:
    """Refuse a channel for another number of states than the model's."""
    states = len(model.states)
    if states not in (0, mechanism.inputs):
        raise InvalidInput(
            f"the mechanism is for {mechanism.inputs} states, the model has {states}; they "
            "must agree"
        )


def _elsewhere(mechanism: Noise, model: Model, against: Against, valid_for: ValidFor) -> Leakage:
    """Return the leakage of a noisy answer on parts of the series.

    Some counts of windows have a proof of their own. Whatever is done with a series, an
    algorithm of this DP level does it, so what all of these leak bounds every other answer.
    """
    family = prover(model)
    if valid_for == "windows" and hasattr(family, "windows") and isinstance(mechanism, Scaled):
        found: Leakage | None = family.windows(mechanism, model, against)
        if found is not None:
            return found
    return _of_level(mechanism, model, against)


def _tabulated(mechanism: TabulatedNoise, model: Model, against: Against) -> Leakage:
    """Return the leakage of noise from a table: exact, or what all algorithms of its level leak."""
    from undertow.bounds.counts.tables import table_leakage

    try:
        return table_leakage(mechanism, model, against)
    except NotSupported:
        return _of_level(mechanism, model, against)


def _of_level(mechanism: Noise, model: Model, against: Against) -> Leakage:
    """Bound the leakage of a mechanism by that of all algorithms of its DP level."""
    return leakage(PureDP(mechanism.level_upper(model.length)), model, against).upper_only()


def _of_person(mechanism: Mechanism, model: Model, against: Against, delta: float) -> Leakage:
    """Return what a mechanism leaks about all records of a person together."""
    if isinstance(mechanism, PureDP) and mechanism.unit == "person":
        proved = _person(mechanism, model, against)
        return replace(proved, valid_for="any", secret=Person(), delta=delta)
    if delta or isinstance(mechanism, Guarantee | Normal):
        raise NotSupported(
            "what is revealed about all records of a person at a delta is not bounded here: take "
            "the (epsilon, delta) of a guarantee for whole persons, which is what it leaks"
        )
    if isinstance(mechanism, Scaled):
        check_fit(mechanism.query, model)
        return person_leakage(mechanism, model, against)
    return person_leakage(PureDP(_wide_level(mechanism, model)), model, against)


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
