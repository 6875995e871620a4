"""The methods of calibration on networks and pedigrees.

Each is a pair of functions: ``solve_...`` returns the noise that answers a `Question` of
`planning.questions`, ``prove_...`` what the method certifies for a given noise. A set of models is
protected against each of its members.
"""

import math
from collections.abc import Callable, Sequence
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
from undertow.planning.budget import Search, aim, largest_level
from undertow.planning.questions import CERTAIN, Noise, Question, Remembered
from undertow.queries import Count, Histogram

__all__ = [
    "prove_exact",
    "prove_exchange",
    "prove_quilt",
    "prove_wasserstein",
    "solve_exact",
    "solve_exchange",
    "solve_quilt",
    "solve_wasserstein",
]

Structured = BayesianNetwork | Pedigree | Contagion

COARSE = 1e-7
"""Relative width of the search for noise where the worst allele frequency is itself searched."""


def solve_exact(question: Question) -> Noise:
    """Return the least noise for a count or a histogram, by its exact leakage.

    The leakage falls as the noise grows, so a search finds the scale, and the scale found is
    verified as it will be used.
    """
    models = _models(question, "exact")
    query = _bins(question)

    def measure(rate: float) -> Leakage:
        return _exact(question, DiscreteLaplace(query, 1 / rate))

    search = question.search
    if any(low < high for low, high in map(_interval, models)):
        search = Search(max(search.precision, COARSE), search.guess)
    rate = largest_level(measure, question.model, aim(question.epsilon), search)
    if math.isinf(rate):
        raise NothingToProtect(CERTAIN)
    noise = DiscreteLaplace(query, up(1 / rate))
    while not prove_exact(question, noise).proves(question.epsilon):
        noise = DiscreteLaplace(query, noise.scale * (1 + COARSE))
    return noise


@Remembered
def prove_exact(question: Question, noise: Noise) -> Leakage:
    """Return the exact leakage of a noisy count or histogram."""
    return _exact(question, noise)


def _exact(question: Question, noise: Noise) -> Leakage:
    _bins(question)
    leak = _worst(noise, _models(question, "exact"), question.against)
    if leak.method not in ("exact", "informed"):
        raise MethodRefused(f"'exact' does not apply: {leak.assumptions[-1]}")
    return leak


def _bins(question: Question) -> Count | Histogram:
    """Return the query if it asks how many, or refuse."""
    if not isinstance(question.query, Count | Histogram):
        raise MethodRefused(
            "'exact' knows counts and histograms on networks, not "
            f"{type(question.query).__name__}; use method='exchange'"
        )
    return question.query


def solve_exchange(question: Question) -> Noise:
    """Return the noise for any query: what all algorithms of the same DP level could leak."""
    models = _models(question, "exchange")

    def measure(level: float) -> Leakage:
        found = [_bound(level, model, question.against) for model in models]
        return max(found, key=lambda leak: leak.upper)

    budget = largest_level(measure, question.model, aim(question.epsilon), question.search)
    if math.isinf(budget):
        raise NothingToProtect(CERTAIN)
    return question.noise(up(question.query.sensitivity(question.length) / budget, 16))


@Remembered
def prove_exchange(question: Question, noise: Noise) -> Leakage:
    """Return what all algorithms of the DP level of a noise could leak."""
    level = PureDP(noise.level_upper(question.length))
    leak = _worst(level, _models(question, "exchange"), question.against)
    whose = "the lower end and the witness are those of the worst algorithm found of this level"
    return replace(leak, assumptions=(*leak.assumptions, whose), covers="any")


def solve_quilt(question: Question) -> Noise:
    """Return the noise of the best Markov quilts, Theorem 4.4 of [wang2016]."""
    found = _quilts(question)(Scale(aim(question.epsilon)))
    if found.value == 0:
        raise NothingToProtect(CERTAIN)
    noise = question.noise(up(question.query.sensitivity(question.length) * found.value, 16))
    while not prove_quilt(question, noise).proves(question.epsilon):
        noise = question.noise(up(noise.scale, 64))
    return noise


def _quilts(question: Question) -> Callable[[Score], NetworkQuilt]:
    """Return the search for the worst record's best quilt, by a score."""
    form, secrets = _form(question), question.secrets
    networks = [
        pair
        for model in _models(question, "quilt")
        for pair in _networks(model, secrets.records, "quilt")
    ]

    def search(score: Score) -> NetworkQuilt:
        found = [network_quilt(net, form, score, secrets.pairs, places) for net, places in networks]
        return max(found, key=lambda quilt: quilt.value)

    return search


def _form(question: Question) -> Literal["any", "ignorant"]:
    return "ignorant" if question.against == "ignorant" else "any"


@Remembered
def prove_quilt(question: Question, noise: Noise) -> Leakage:
    """Return what the best Markov quilts prove for the DP level of a noise."""
    found = _quilts(question)(Bound(noise.level_upper(question.length)))
    conditional = " (conditional on whatever else is known)" if _form(question) == "any" else ""
    nodes = ", ".join(map(repr, found.nodes)) or "nothing: all that depends on it is near"
    return Leakage(
        0.0, up(found.value), "quilt", question.against,
        assumptions=(
            "the records follow the stated network",
            f"exact max-influences{conditional}",
            f"the worst record's quilt is {nodes}; {found.near} records are near",
        ),
        citation="Theorem 4.4 of [wang2016]",
        secrets=question.secrets,
        covers="any",
    )  # fmt: skip


def solve_wasserstein(question: Question) -> Noise:
    """Return the noise for how far one record can move a count, Theorem 3.2 of [wang2016]."""
    distance = _distance(question)
    if distance == 0:
        raise NothingToProtect(CERTAIN)
    return question.noise(divide_up(float(distance), question.epsilon))


@Remembered
def prove_wasserstein(question: Question, noise: Noise) -> Leakage:
    """Return how far one record moves a count, in units of a noise's scale."""
    distance = _distance(question)
    return Leakage(
        0.0, divide_up(float(distance), noise.scale), "wasserstein", question.against,
        assumptions=(
            "the records follow the stated network",
            f"two values of a record move the answer by at most {distance}",
        ),
        citation="Theorem 3.2 of [wang2016]",
        secrets=question.secrets,
    )  # fmt: skip


@Remembered
def _distance(question: Question) -> int:
    """Return how far one record can move a count, the largest over the networks."""
    query, secrets = question.query, question.secrets
    if not isinstance(query, Count):
        raise MethodRefused(
            f"'wasserstein' knows counts on networks, not {type(query).__name__}; use "
            "method='exchange'"
        )
    found = [
        network_distance(network, query, secrets.pairs, places)
        for model in _models(question, "wasserstein")
        for network, places in _networks(model, secrets.records, "wasserstein")
    ]
    return max(found, default=0)


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
