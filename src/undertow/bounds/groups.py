"""Any dependence among a bounded number of records."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from undertow.adversaries import Adversary, Against
from undertow.bounds.metric import refused
from undertow.bounds.protocol import AnswerProver, ChannelProver, Problem, Prover, WindowProver
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.mechanisms import (
    Levelled,
    LocalMechanism,
    MetricDP,
    PureDP,
    RandomizedResponse,
    TabulatedNoise,
    flips_epsilon_upper,
)
from undertow.models.base import Model
from undertow.models.groups import Groups
from undertow.numerics import divide_up
from undertow.secrets import Person

__all__ = [
    "GROUP",
    "PROVERS",
    "RELATED",
    "GroupBound",
    "flips_level",
    "group_leakage",
    "leakage",
    "person_leakage",
    "person_records",
    "record_level",
    "window_leakage",
]


RELATED = (
    "secret=Person() takes persons to be independent, and in this model every record is a person: "
    "relatives and housemates are not; hide one record"
)
"""Why a model of related persons does not bound what is revealed about a whole person."""


def leakage(mechanism: Levelled | MetricDP, model: Groups, against: Against) -> Leakage:
    """Return size * epsilon, which copies of one record attain.

    >>> leakage(PureDP(0.5), Groups(4), "any").upper
    2.0
    """
    return replace(group_leakage(refused(mechanism), model.size, against), valid_for="any")


def window_leakage(level: float, model: Groups, against: Against, window: int) -> Leakage:
    """Compute the leakage of a DP level about ``window`` records: w * size * epsilon.

    The records lie in at most w groups, which have at most w * size records. Given the known
    records the others are independent of them: averaged over those an output's likelihood still
    changes by at most a factor e^epsilon per record, and all w * size of them may change. Where
    each lies in a group of its own and the others are copies of it, they do. Whoever knows all
    others learns w * epsilon.

    >>> window_leakage(0.5, Groups(4), "any", 3).upper
    6.0
    """
    size = window if against == "informed" else window * model.size
    bracket = group_leakage(PureDP(level), size, "any")
    note = f"at most {model.size} records depend on each other, in any way"
    touched = f"the {window} records of a window may lie in as many groups"
    return replace(bracket, against=against, assumptions=(note, touched))


def group_leakage(
    mechanism: Levelled, size: int, against: Against, length: int | None = None
) -> Leakage:
    """Return size * epsilon: the general bound for any dependence among ``size`` records.

    Theorem 4.2 of [lange2024]; copies of one record attain it, so it is exact for the class of
    all dependences. The informed attacker learns epsilon only.

    >>> group_leakage(PureDP(0.5), 4, "any").upper
    2.0
    """
    exact = Fraction(1 if against == "informed" else size)
    if isinstance(mechanism, PureDP):
        level, attained = divide_up(exact * Fraction(mechanism.epsilon), 1.0), True
    else:
        moved = Fraction(mechanism.query.sensitivity_upper(length))
        level = divide_up(exact * moved, mechanism.scale)
        attained = mechanism.query.integral and not mechanism.query.selects
    return Leakage(
        math.nextafter(level, 0.0) if attained else 0.0, level,
        "group", against,
        assumptions=(f"at most {size} records depend on each other, in any way",),
        citation="Theorem 4.2 of [lange2024]",
    )  # fmt: skip


def person_records(model: Model) -> int:
    """Return the most records that a person has under a model, or refuse one that does not say.

    All of them count, independent of each other or not: a person's records are replaced together.

    >>> from undertow import MarkovChain
    >>> person_records(MarkovChain([[.3, .7], [.3, .7]], length=30)), person_records(Groups(4))
    (30, 4)
    """
    members = model.members()
    if any(member.records_are_persons for member in members):
        raise MethodRefused(RELATED)
    sizes = [member.most_records() for member in members]
    bounded = [size for size in sizes if size is not None]
    if len(bounded) < len(sizes):
        raise MethodRefused(
            "secret=Person() multiplies by the most records that a person may have; give the chain "
            "a length"
        )
    return max(bounded)


def person_leakage(mechanism: Levelled, model: Model, against: Against) -> Leakage:
    """Compute the leakage of replacing all records of a person: group privacy, any dependence.

    The level of m replaced records, or how far m records move the answer over the scale.

    >>> from undertow import Count, DiscreteLaplace
    >>> person_leakage(DiscreteLaplace(Count("active"), 60.0), Groups(30), "any").upper
    0.5
    """
    size = person_records(model)
    if isinstance(mechanism, PureDP):
        upper = divide_up(size * Fraction(mechanism.epsilon), 1.0)
    else:
        upper = divide_up(mechanism.query.person_upper(size, model.length), mechanism.scale)
    return Leakage(
        0.0, upper, "person", against, secret=Person(), valid_for="any",
        assumptions=(
            "a person has at most as many records as the model says",
            "different persons are independent",
        ),
        citation="definition of person-level differential privacy",
    )  # fmt: skip


def flips_level(mechanism: RandomizedResponse, model: Model) -> float:
    """Return the DP level of flips for a model, rounded up; refuse another number of states.

    >>> round(flips_level(RandomizedResponse.binary(.25, .25), Groups(3)), 6)
    1.098612
    """
    states = len(model.states)
    if states not in (0, mechanism.inputs):
        raise InvalidInput(
            f"the mechanism is for {mechanism.inputs} states, the model has {states}; they must "
            "agree"
        )
    return flips_epsilon_upper(mechanism)


def channel_leakage(
    mechanism: LocalMechanism, model: Groups, against: Against, steps: int
) -> Leakage:
    """Return size * epsilon for flips of a DP level epsilon, which copies of one record attain.

    >>> round(channel_leakage(RandomizedResponse.binary(.25, .25), Groups(3), "any", 2).upper, 6)
    3.295837
    """
    if not isinstance(mechanism, RandomizedResponse):
        raise NotSupported(
            f"what {type(mechanism).__name__} leaks is known for a MarkovChain, found "
            f"{model.describe()}; use a chain, or a ModelSet of chains"
        )
    return leakage(PureDP(flips_level(mechanism, model)), model, against)


def record_level(problem: Problem) -> float:
    """Return the DP level of a mechanism for one replaced record, inf where it has none."""
    mechanism, model = problem.mechanism, problem.model
    if isinstance(mechanism, RandomizedResponse):
        return flips_epsilon_upper(mechanism)
    if problem.about_persons or not isinstance(mechanism, Levelled | TabulatedNoise):
        return math.inf
    if model.family == "gaussian" and not isinstance(mechanism, PureDP):
        return math.inf  # records without a range: others can move by more than one is declared to
    return float(mechanism.level_upper(model.length))


@dataclass(frozen=True, slots=True)
class GroupBound:
    """The level times the records that are unknown and depend on each other, for any model."""

    name: str = "group"

    def supports(self, problem: Problem) -> bool:
        """Tell whether the level is finite and the number of dependent records is known."""
        if problem.delta or problem.about_persons or not math.isfinite(record_level(problem)):
            return False
        return problem.against == "informed" or problem.model.dependent_records() is not None

    def prove(self, problem: Problem) -> Leakage:
        """Return the upper end.

        The records of a window lie in as many groups at most. Given the known records, all others
        of these groups may change (Theorem 4.2 of [lange2024]).

        >>> from undertow import HiddenChain
        >>> steps = [[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]]
        >>> chain = HiddenChain(steps, (0, 0, 1), length=4)
        >>> GROUP.prove(Problem(PureDP(.5), chain, Adversary(1, [0]))).upper
        1.5
        """
        model, against, window = problem.model, problem.against, problem.secret.window
        records = window * (model.dependent_records() or 0)
        if model.length is not None:
            known = len(against.known) if isinstance(against, Adversary) else 0
            records = min(records, model.length - known)
        note = f"at most {records} records depend on each other, in any way"
        if against == "informed":
            records, note = window, "all records but those of the secret are known"
        level = Fraction(record_level(problem))
        return Leakage(
            0.0, divide_up(records * level, 1.0), "group", against, assumptions=(note,),
            citation="Theorem 4.2 of [lange2024]", secret=problem.secret, valid_for="any",
        )  # fmt: skip


GROUP = GroupBound()

PROVERS: tuple[Prover, ...] = (
    AnswerProver("groups", Groups, leakage),
    WindowProver("groups, window", Groups, window_leakage),
    ChannelProver("groups, channel", Groups, channel_leakage),
)
