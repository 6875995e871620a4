"""The methods of calibration on networks and pedigrees.

Each function answers a `Question` as in `planning.questions`: the noise, and a proof of what it
leaks. A set of models is protected against each of its members.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from undertow.adversaries import Against
from undertow.bounds.chains.quilt import Bound, Scale, Score
from undertow.bounds.engine import leakage
from undertow.bounds.networks.levels import dependent_records
from undertow.bounds.networks.programs import CELLS
from undertow.bounds.networks.quilts import NetworkQuilt, network_quilt
from undertow.bounds.networks.wasserstein import network_distance
from undertow.certificate import Leakage
from undertow.errors import MethodRefused, NothingToProtect
from undertow.mechanisms import DiscreteLaplace, Levelled, PureDP
from undertow.models.contagion import Contagion
from undertow.models.network import BayesianNetwork
from undertow.models.pedigree import Pedigree
from undertow.models.sets import members
from undertow.numerics import divide_up, up
from undertow.planning.budget import Search, largest_level
from undertow.planning.questions import CERTAIN, Question, Solution
from undertow.queries import Count, Histogram

__all__ = ["solve_exact", "solve_exchange", "solve_quilt", "solve_wasserstein"]

Structured = BayesianNetwork | Pedigree | Contagion

COARSE = 1e-7
"""Relative width of the search for noise where the worst allele frequency is itself searched."""


def solve_exact(question: Question) -> Solution:
    """Return the least noise for a count or a histogram, by its exact leakage.

    The leakage falls as the noise grows, so a search finds the scale, and the scale found is
    verified as it will be used.
    """
    query, models = question.query, _models(question, "exact")
    if not isinstance(query, Count | Histogram):
        raise MethodRefused(
            f"'exact' knows counts and histograms on networks, not {type(query).__name__}; use "
            "method='exchange'"
        )

    def measure(rate: float) -> Leakage:
        leak = _worst(DiscreteLaplace(query, 1 / rate), models, question.against)
        if leak.method not in ("exact", "informed"):
            raise MethodRefused(f"'exact' does not apply: {leak.assumptions[-1]}")
        return leak

    search = question.search
    if any(low < high for low, high in map(_interval, models)):
        search = Search(max(search.precision, COARSE), search.guess)
    rate = largest_level(measure, question.model, question.epsilon, search)
    if math.isinf(rate):
        raise NothingToProtect(CERTAIN)
    scale = up(1 / rate)
    leak = measure(1 / scale)
    while not leak.proves(question.epsilon):
        scale = scale * (1 + COARSE)
        leak = measure(1 / scale)
    return DiscreteLaplace(query, scale), lambda: leak


def solve_exchange(question: Question) -> Solution:
    """Return the noise for any query: what all algorithms of the same DP level could leak."""
    models = _models(question, "exchange")

    def measure(level: float) -> Leakage:
        found = [_bound(level, model, question.against) for model in models]
        return max(found, key=lambda leak: leak.upper)

    budget = largest_level(measure, question.model, question.epsilon, question.search)
    if math.isinf(budget):
        raise NothingToProtect(CERTAIN)
    mechanism = question.noise(up(question.query.sensitivity(question.length) / budget, 16))

    def prove() -> Leakage:
        level = PureDP(up(mechanism.dp_epsilon(question.length)))
        leak = _worst(level, models, question.against)
        whose = "the lower end and the witness are those of the worst algorithm found of this level"
        return replace(leak, assumptions=(*leak.assumptions, whose))

    return mechanism, prove


def solve_quilt(question: Question) -> Solution:
    """Return the noise of the best Markov quilts, Theorem 4.4 of [wang2016]."""
    form: Literal["any", "ignorant"] = "ignorant" if question.against == "ignorant" else "any"
    secrets = question.secrets
    networks = [
        pair
        for model in _models(question, "quilt")
        for pair in _networks(model, secrets.records, "quilt")
    ]

    def search(score: Score) -> NetworkQuilt:
        found = [network_quilt(net, form, score, secrets.pairs, places) for net, places in networks]
        return max(found, key=lambda quilt: quilt.value)

    found = search(Scale(question.epsilon))
    if found.value == 0:
        raise NothingToProtect(CERTAIN)
    sensitivity = question.query.sensitivity(question.length)
    scale, upper = up(sensitivity * found.value, 16), math.inf
    while True:
        mechanism = question.noise(scale)
        upper = up(search(Bound(up(mechanism.dp_epsilon(question.length)))).value)
        if upper <= question.epsilon:
            break
        scale = up(scale, 64)
    conditional = " (conditional on whatever else is known)" if form == "any" else ""
    nodes = ", ".join(map(repr, found.nodes)) or "nothing: all that depends on it is near"
    leak = Leakage(
        0.0, upper, "quilt", question.against,
        assumptions=(
            "the records follow the stated network",
            f"exact max-influences{conditional}",
            f"the worst record's quilt is {nodes}; {found.near} records are near",
        ),
        citation="Theorem 4.4 of [wang2016]",
        secrets=secrets,
    )  # fmt: skip
    return mechanism, lambda: leak


def solve_wasserstein(question: Question) -> Solution:
    """Return the noise for how far one record can move a count, Theorem 3.2 of [wang2016]."""
    query, secrets = question.query, question.secrets
    if not isinstance(query, Count):
        raise MethodRefused(
            f"'wasserstein' knows counts on networks, not {type(query).__name__}; use "
            "method='exchange'"
        )
    distance = 0
    for model in _models(question, "wasserstein"):
        for network, places in _networks(model, secrets.records, "wasserstein"):
            distance = max(distance, network_distance(network, query, secrets.pairs, places))
    if distance == 0:
        raise NothingToProtect(CERTAIN)
    mechanism = question.noise(divide_up(float(distance), question.epsilon))
    leak = Leakage(
        0.0, min(up(distance / mechanism.scale, 1), question.epsilon), "wasserstein",
        question.against,
        assumptions=(
            "the records follow the stated network",
            f"two values of a record move the answer by at most {distance}",
        ),
        citation="Theorem 3.2 of [wang2016]",
        secrets=secrets,
    )  # fmt: skip
    return mechanism, lambda: leak


def _models(question: Question, method: str) -> list[Structured]:
    """Return the networks and pedigrees of a question, or refuse anything else."""
    found: list[object] = list(members(question.model))
    models = [member for member in found if isinstance(member, Structured)]
    if len(models) < len(found):
        raise MethodRefused(
            f"'{method}' on networks needs networks and pedigrees only; use method='best'"
        )
    return models


def _worst(mechanism: Levelled, models: Sequence[Structured], against: Against) -> Leakage:
    found = [leakage(mechanism, model, against) for model in models]
    top = max(found, key=lambda leak: (leak.upper, leak.lower))
    shown = max(found, key=lambda leak: leak.lower)
    notes = tuple(dict.fromkeys(note for leak in found for note in leak.assumptions))
    return replace(top, lower=shown.lower, witness=shown.witness, assumptions=notes)


def _bound(level: float, model: Structured, against: Against) -> Leakage:
    """Return an upper end for all algorithms of a level, without looking for a lower one."""
    if not isinstance(model, Pedigree):
        return leakage(PureDP(level), model, against)
    if against == "informed":
        people = 1
    elif isinstance(against, str):
        families = model.families()
        largest = max(family.length for family in families)
        if 3**largest <= CELLS and not isinstance(model.allele_frequency, tuple):
            return leakage(PureDP(level), model, against)
        shapes = {family.shape(): family for family in families if family.length == largest}
        networks = [family.network(0.5) for family in shapes.values()]
        if against == "ignorant":  # d-separation may leave fewer
            networks = [family.network(0.5) for family in families]
        people = max(dependent_records(network, against) for network in networks)
    else:
        return leakage(PureDP(level), model, against)
    return Leakage(0.0, up(people * level), "group", against)


def _networks(
    model: Structured, records: Sequence[int] | None, method: str
) -> list[tuple[BayesianNetwork, list[int] | None]]:
    """Return the independent networks of a model, with the protected records of each."""
    if isinstance(model, BayesianNetwork):
        return [(model, None if records is None else list(records))]
    low, high = _interval(model)
    if low < high:
        raise MethodRefused(
            f"'{method}' needs one network, found an interval of probabilities; pass a number, or "
            "use method='exact'"
        )
    if isinstance(model, Contagion):
        return [(model.network(low), None if records is None else list(records))]
    found: list[tuple[BayesianNetwork, list[int] | None]] = []
    seen: set[object] = set()
    for family in model.families():
        network = family.network(low)
        number = {person: place for place, person in enumerate(model.people)}
        if records is None:
            if family.shape() not in seen:
                seen.add(family.shape())
                found.append((network, None))
            continue
        inside = [p for p, node in enumerate(network.records) if number[node] in set(records)]
        if inside:
            found.append((network, inside))
    return found


def _interval(model: Structured) -> tuple[float, float]:
    """Return the interval in which a parameter of the model lies, empty for a plain network."""
    match model:
        case Pedigree():
            return model.frequencies
        case Contagion():
            return model.passed
        case _:
            return (0.0, 0.0)
