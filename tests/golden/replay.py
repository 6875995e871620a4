"""Replay of witnesses: what an attack sees, computed from the definition.

A witness is replayed on every series of a small model, by enumeration, and on longer chains by
forward messages over hidden states. Both read nothing of the package but a model's and a
mechanism's own numbers, and share no code with `undertow.bounds`; stationary laws are solved in
fractions. `WITHOUT_REPLAY` says which lower ends have no witness that can be replayed.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

import undertow as ut
from tests.oracles import networks
from tests.oracles.exact import normalised, stationary
from tests.oracles.models import tables_of
from tests.oracles.tables import probability
from tests.oracles.windows import histories_leak
from undertow.mechanisms import TabulatedNoise
from undertow.models import SecondOrderChain
from undertow.models.networks import Contagion

Floats = npt.NDArray[Any]

WITHOUT_REPLAY = {
    "ChainBox": "the member of the box that is attacked is not part of the witness",
    "MixingClass": "the member of the class that is attacked is not part of the witness",
    "GaussianClass": "the covariance that is attacked is not part of the witness",
    "Sum, Mean, TopK, Transitions": "the answer to wait for is not part of the witness",
    "a delta above 0, but for Gaussian counts on chains": "the best test is not in the witness",
    "no witness": "whole persons, Groups, some levels of pedigrees and sets, and attackers who "
    "know all other records of a chain with a longer memory: none is given",
}
"""Lower ends that are compared with the recorded interval only, and why."""

POINTS = 3
"""Members of an interval of frequencies or rates that are attacked: the ends and the middle."""

ENUMERATED = 4096
"""Most paths of hidden states that are enumerated; beyond, forward messages are used."""


# --- models as arrays -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """Hidden states: the law of the first, the matrix of each step, the record's state in each."""

    start: Floats
    step: Callable[[int], Floats]
    shown: tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """Every possible series: states (records, series), and their probabilities."""

    series: Floats
    mass: Floats
    shown: tuple[Any, ...]


@lru_cache(maxsize=64)
def law_of(model: Any) -> Law | None:
    """Return a chain of any kind as hidden states, None for other models."""
    if isinstance(model, SecondOrderChain):
        size, table = len(model.states), np.asarray(model.transition)
        pairs = np.zeros((size * size, size * size))
        for x, y, z in np.ndindex(size, size, size):
            pairs[x * size + y, y * size + z] = table[x, y, z]
        return Law(
            solved(pairs), lambda record: pairs, tuple(y for _ in range(size) for y in model.states)
        )
    if isinstance(model, ut.HiddenChain):
        matrix = np.asarray(model.transition)
        return Law(solved(matrix), lambda record: matrix, tuple(model.symbols))
    if isinstance(model, ut.MarkovChain):
        stack = np.asarray(model.transition)
        start = solved(stack) if isinstance(model.start, str) else np.asarray(model.start)
        return Law(
            start, lambda record: stack if stack.ndim == 2 else stack[record], tuple(model.states)
        )
    return None


def solved(matrix: Floats) -> Floats:
    """Return the stationary law of a matrix, solved in fractions."""
    return np.array([float(mass) for mass in stationary([normalised(row) for row in matrix])])


@lru_cache(maxsize=64)
def tables(model: Any) -> tuple[Table, ...]:
    """Return the joint laws of a network, or of some members of a class of families."""
    if isinstance(model, Contagion):
        low, high = model.passed
        rates = [low + (high - low) * part / (POINTS - 1) for part in range(POINTS)]
        joints: list[Any] = [networks.joint_of(model.network(rate)) for rate in rates]
    elif isinstance(model, ut.BayesianNetwork):
        joints = [networks.joint_of(model)]
    else:
        joints = list(tables_of(model, POINTS))
    return tuple(
        Table(np.array(list(joint)).T, np.array([float(p) for p in joint.values()]), model.states)
        for joint in joints
    )


@lru_cache(maxsize=16)
def paths(hidden: int, length: int) -> Floats:
    """Return every path of hidden states, (records, paths)."""
    return np.indices((hidden,) * length).reshape(length, -1)


# --- what is seen ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sight:
    """A likelihood: a factor for each record's hidden state, times that of a noisy count.

    ``factor(record)`` is an array over hidden states or None; ``marks`` are the hidden states that
    are counted in the records ``inside``, and ``answers`` the likelihoods of a count of 0, 1, ..
    for each answer that is tried, (answers, counts).
    """

    factor: Callable[[int], Floats | None]
    marks: Floats | None = None
    inside: frozenset[int] = frozenset()
    answers: Floats | None = None


BLIND = Sight(lambda record: None)


def replayed(witness: Any, mechanism: Any, model: Any, delta: float = 0.0) -> float | None:
    """Return the leakage to a witness's attacker, None if the witness has no replay.

    A log-likelihood ratio; at a ``delta`` the epsilon of the best set of answers beyond a number.
    """
    if isinstance(model, ut.ModelSet):
        seen = [
            replayed(witness, mechanism, member, delta)
            for member in model.models
            if member.length in (None, witness.length)
        ]
        return max((value for value in seen if value is not None), default=None)
    if isinstance(model, ut.MultivariateGaussian):
        return None if delta else _gaussian(witness, mechanism, model)
    law = law_of(model)
    if law is None and not isinstance(model, ut.BayesianNetwork | ut.Pedigree | Contagion):
        return None
    if delta:
        return None if law is None else _normal(witness, mechanism, law, delta)
    if law is None and isinstance(mechanism, ut.PureDP) and not witness.sets:
        return max(_by_program(witness, mechanism.epsilon, table) for table in tables(model))
    shown = law.shown if law is not None else tuple(model.states)
    if isinstance(mechanism, ut.XorNoise) and law is not None:
        law = _with_noise_chain(law, mechanism)
        shown = law.shown
    sight = _sight(witness, mechanism, model, shown)
    if sight is None:
        return None
    if law is None:
        return max(_by_enumeration(witness, sight, table) for table in tables(model))
    if len(law.shown) ** witness.length <= ENUMERATED:
        return _by_enumeration(witness, sight, _all_paths(law, witness.length))
    return _by_messages(witness, sight, law)


def _with_noise_chain(law: Law, noise: Any) -> Law:
    """Return the hidden states with those of a noise chain, 2 x + y."""
    step = np.array([[1 - noise.rho0, noise.rho0], [noise.rho1, 1 - noise.rho1]])
    start = np.array([noise.rho1, noise.rho0]) / (noise.rho0 + noise.rho1)
    return Law(
        np.kron(law.start, start),
        lambda record: np.kron(law.step(record), step),
        tuple(state for state in law.shown for _ in range(2)),
    )


def _sight(witness: Any, mechanism: Any, model: Any, shown: tuple[Any, ...]) -> Sight | None:
    """Return the likelihood of what a witness looks at."""
    if isinstance(mechanism, ut.MetricDP) and witness.outputs:  # a reading falls off with distance
        readings, numbers = dict(witness.outputs), np.array(shown, dtype=np.float64)
        return Sight(
            lambda record: (
                np.exp(-mechanism.rate * np.abs(numbers - readings[record]))
                if record in readings
                else None
            )
        )
    if isinstance(mechanism, ut.PureDP | ut.MetricDP):
        level = (
            mechanism.epsilon
            if isinstance(mechanism, ut.PureDP)
            else mechanism.rate * (max(model.states) - min(model.states))
        )
        sets = dict(witness.sets) or {witness.target: (witness.value,)}
        return Sight(lambda record: _tilt(level, sets.get(record), shown))
    if isinstance(mechanism, ut.RandomizedResponse) and witness.sets:
        sets, level = dict(witness.sets), mechanism.dp_epsilon()
        return Sight(lambda record: _tilt(level, sets.get(record), shown))
    if isinstance(mechanism, ut.RandomizedResponse | ut.XorNoise | ut.Redaction):
        return _channel(dict(witness.outputs), mechanism, model, shown)
    query = getattr(mechanism, "query", None)
    if isinstance(query, ut.Histogram) and not witness.histories:
        bins = dict(witness.sets).get(witness.target, (witness.value,))
        known = dict(witness.known)
        level = 2 / mechanism.scale
        return Sight(lambda record: None if record in known else _tilt(level, bins, shown))
    if isinstance(query, ut.Count) and witness.sets:  # all algorithms of the level of the noise
        sets, level = dict(witness.sets), mechanism.dp_epsilon(model.length)
        return Sight(lambda record: _tilt(level, sets.get(record), shown))
    if isinstance(query, ut.Count):
        return _count(witness, mechanism, model, shown)
    return None


def _tilt(level: float, states: Iterable[Any] | None, shown: tuple[Any, ...]) -> Floats | None:
    if states is None:
        return None
    return np.exp(level * np.array([state in tuple(states) for state in shown]))


def _channel(outputs: dict[int, Any], mechanism: Any, model: Any, shown: tuple[Any, ...]) -> Sight:
    """Return the likelihood of shown records."""
    states = tuple(model.states)

    def factor(record: int) -> Floats | None:
        if record not in outputs:
            return None
        output = outputs[record]
        if isinstance(mechanism, ut.XorNoise):  # the record and the noise agree with what is shown
            return np.array(
                [float((states.index(x) ^ (h % 2)) == states.index(output))
                 for h, x in enumerate(shown)]
            )  # fmt: skip
        if isinstance(mechanism, ut.Redaction):
            rates = mechanism.probabilities[record]
            return np.array([
                rates[states.index(x)] if output is None
                else (1 - rates[states.index(x)]) * (x == output)
                for x in shown
            ])  # fmt: skip
        matrix = np.asarray(mechanism.matrix)
        named = mechanism.outputs or (
            states if matrix.shape[1] == len(states) else range(matrix.shape[1])
        )
        column = list(named).index(output)
        return np.array([matrix[states.index(x), column] for x in shown])

    return Sight(factor)


def _count(witness: Any, mechanism: Any, model: Any, shown: tuple[Any, ...]) -> Sight:
    """Return the likelihood of a noisy count: of a window, or of the records that are unknown.

    On a chain the records beyond the nearest known ones are independent of the target, and count
    as known; what known records contribute is left out of the answer.
    """
    marks = np.array([state in mechanism.query.states for state in shown], dtype=bool)
    known = {record for record, _ in witness.known}
    first, last = 0, witness.length
    if witness.window is not None:
        first, last = witness.window
    elif isinstance(model, ut.MarkovChain):
        first = max((record + 1 for record in known if record < witness.target), default=0)
        last = min((record for record in known if record > witness.target), default=witness.length)
    inside = frozenset(range(first, last)) - known
    most = len(inside)
    outside = None if witness.output is None else witness.output <= 0 or witness.output >= most
    if outside and not isinstance(mechanism, TabulatedNoise):
        # |answer - count| is linear in the count: a factor for each counted record
        load = np.exp((1 if witness.output >= most else -1) * marks / mechanism.scale)
        if most > 0:
            return Sight(lambda record: load if record in inside else None)
    tried: Iterable[int] = [witness.output]
    if witness.output is None:
        tried = range(most + 1)
    if isinstance(mechanism, TabulatedNoise):
        if witness.output is None:
            end = mechanism.first + len(mechanism.weights) + most
            tried = range(mechanism.first - 1, end + 1)
        answers = [[float(probability(mechanism, s - m)) for m in range(most + 1)] for s in tried]
    else:
        answers = [[-abs(s - m) / mechanism.scale for m in range(most + 1)] for s in tried]
        answers = [np.exp(np.array(row) - max(row)).tolist() for row in answers]
    return Sight(lambda record: None, marks, inside, np.array(answers))


# --- two ways to sum ------------------------------------------------------------------------------


def _facts(witness: Any, histories: tuple[Any, ...]) -> dict[int, Any]:
    """Return the records that are given, with their values."""
    return {
        **dict(witness.known), **{witness.target + i: state for i, state in enumerate(histories)},
    }  # fmt: skip


def _sides(witness: Any) -> Iterator[dict[int, Any]]:
    """Yield what is given on the two sides of the comparison."""
    for lived in witness.histories or ((witness.value,), (witness.other,)):
        yield _facts(witness, lived)


def _all_paths(law: Law, length: int) -> Table:
    """Return every path of hidden states with its probability."""
    series = paths(len(law.shown), length)
    mass = law.start[series[0]]
    for record in range(length - 1):
        mass = mass * law.step(record)[series[record], series[record + 1]]
    return Table(series, mass, law.shown)


def _by_enumeration(witness: Any, sight: Sight, table: Table) -> float:
    """Return the log ratio by summing over every series."""
    logs = []
    records = range(len(table.series))
    for facts in _sides(witness):
        mass = table.mass
        for record, state in facts.items():
            allowed = np.array([state == shown for shown in table.shown])
            mass = mass * allowed[table.series[record]]
        total = mass.sum()
        if not total > 0:
            return -math.inf  # the attack is impossible
        weight = np.ones_like(mass)
        for record in records:
            factor = sight.factor(record)
            if factor is not None:
                weight = weight * factor[table.series[record]]
        if sight.answers is not None and sight.marks is not None:
            count = np.zeros(table.series.shape[1], dtype=int)
            for record in sight.inside:
                count += sight.marks[table.series[record]]
            each = sight.answers[:, count] @ (mass * weight)
        else:
            each = np.array([(mass * weight).sum()])
        logs.append(_log(each) - math.log(total))
    return _largest(logs)


def _by_program(witness: Any, level: float, table: Table) -> float:
    """Return the largest log ratio of any algorithm of a level, by one linear program."""
    size, records = len(table.shown), len(table.series)
    joint = np.zeros((size,) * records)
    joint[tuple(table.series)] = table.mass
    facts = {record: table.shown.index(state) for record, state in witness.known}
    one, two = ((table.shown.index(state),) for state in (witness.value, witness.other))
    return histories_leak(joint, level, witness.target, facts, one, two)


def _by_messages(witness: Any, sight: Sight, law: Law) -> float:
    """Return the log ratio by forward messages, over (hidden state, count so far)."""
    logs = []
    for facts in _sides(witness):
        seen = _forward(facts, witness.length, sight, law)
        plain = _forward(facts, witness.length, BLIND, law)
        if not np.isfinite(plain).all():
            return -math.inf
        logs.append(seen - plain)
    return _largest(logs)


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _largest(logs: list[Floats]) -> float:
    """Return the largest log ratio of the answers that can be seen with the first value."""
    top, bottom = (
        np.broadcast_to(each, np.broadcast_shapes(*(l.shape for l in logs))) for each in logs
    )
    possible = np.isfinite(top)
    return float((top[possible] - bottom[possible]).max()) if possible.any() else -math.inf


def _forward(facts: dict[int, Any], length: int, sight: Sight, law: Law) -> Floats:
    """Return ln Pr[facts, what is seen] for every answer that is tried."""
    counts = 1 if sight.answers is None else sight.answers.shape[1]
    message = np.zeros((len(law.shown), counts))  # (hidden state, count)
    message[:, 0] = law.start
    total = 0.0
    for record in range(length):
        if record:
            message = law.step(record - 1).T @ message
        if record in facts:
            message = message * np.array([[facts[record] == state] for state in law.shown])
        factor = sight.factor(record)
        if factor is not None:
            message = message * factor[:, None]
        if sight.marks is not None and record in sight.inside:
            moved = np.zeros_like(message)
            moved[:, 1:] = message[:, :-1]
            message = np.where(sight.marks[:, None], moved, message)
        scale = float(message.sum())
        if not scale > 0:
            return np.full(1, -math.inf)
        total += math.log(scale)
        message = message / scale
    law_of_count = message.sum(axis=0)
    answers = np.ones((1, 1)) if sight.answers is None else sight.answers
    return np.asarray(total + _log(answers @ law_of_count))


def _normal(witness: Any, mechanism: Any, law: Law, delta: float) -> float | None:
    """Return the leakage at a delta of a count with Gaussian noise: answers beyond a number.

    Pr[S | value] = e^epsilon Pr[S | other] + delta for the best half-line S.
    """
    if not isinstance(mechanism, ut.Gaussian) or not isinstance(mechanism.query, ut.Count):
        return None
    marks = np.array([state in mechanism.query.states for state in law.shown], dtype=bool)
    known = {record for record, _ in witness.known}
    first = max((record + 1 for record in known if record < witness.target), default=0)
    last = min((record for record in known if record > witness.target), default=witness.length)
    inside = frozenset(range(first, last)) - known
    counts = np.arange(len(inside) + 1)
    sight = Sight(lambda record: None, marks, inside, np.eye(len(counts)))
    shares = []
    for facts in _sides(witness):
        logs = _forward(facts, witness.length, sight, law)
        weights = np.exp(logs - logs.max())
        shares.append(weights / weights.sum())

    def gain(place: float, side: int) -> float:
        top, bottom = (
            float(share @ ndtr(side * (counts - place) / mechanism.sigma)) for share in shares
        )
        return -math.log((top - delta) / bottom) if top > delta else 0.0

    found = []
    for side in (1, -1):
        places = np.linspace(-12 * mechanism.sigma, counts[-1] + 12 * mechanism.sigma, 400)
        near = min(places, key=lambda place: gain(place, side))
        step = places[1] - places[0]
        best = minimize_scalar(
            gain, args=(side,), bounds=(near - step, near + step), method="bounded",
            options={"xatol": 1e-9},
        )  # fmt: skip
        found.append(-float(best.fun))
    return max(found)


# --- Gaussian records -----------------------------------------------------------------------------


def _gaussian(witness: Any, mechanism: Any, model: Any) -> float | None:
    """Return what the far answers of a noisy linear statistic see: how far its mean moves.

    Far out ln E[exp(-|s - F| / scale)] is the mean of F over the scale, up to what cancels.
    """
    if not isinstance(mechanism, ut.Laplace) or not isinstance(mechanism.query, ut.Linear):
        return None
    covariance, weights = np.asarray(model.covariance), np.asarray(mechanism.query.weights)
    given = [witness.target, *(record for record, _ in witness.known)]
    slopes = np.linalg.solve(covariance[np.ix_(given, given)], covariance[given])[0]
    return float(abs(weights @ slopes) * abs(witness.value - witness.other) / mechanism.scale)
