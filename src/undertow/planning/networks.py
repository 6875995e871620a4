"""The methods of calibration on networks and pedigrees.

Each is a pair of functions: ``solve_...`` returns the noise that answers a `Question` of
`planning.questions`, ``prove_...`` what the method certifies for a given noise. A set of models is
protected against each of its members.
"""

from collections.abc import Sequence

from undertow.adversaries import Against
from undertow.bounds.channels.quilts import Score
from undertow.bounds.counts.laplace import METHOD as ENUMERATED
from undertow.bounds.engine import leakage
from undertow.bounds.networks.levels import CELLS, dependent_records
from undertow.bounds.networks.quilts import NetworkQuilt, network_distance, network_quilt
from undertow.certificate import Leakage
from undertow.errors import MethodRefused
from undertow.mechanisms import PureDP
from undertow.models.networks import BayesianNetwork, Contagion
from undertow.models.pedigrees import Family, Pedigree
from undertow.numerics import up
from undertow.planning.budget import Search
from undertow.planning.chains import (
    QuiltSearch,
    by_level,
    by_rate,
    distance_solver,
    quilt_solver,
    worst_of_level,
)
from undertow.planning.questions import Question, Remembered, Scaled, noise_solver
from undertow.queries import Count

__all__ = ["EXACT", "EXCHANGE", "QUILT", "WASSERSTEIN"]

Structured = BayesianNetwork | Pedigree | Contagion

COARSE = 1e-7
"""Relative width of the search for noise where the worst allele frequency is itself searched."""


SHARP = (ENUMERATED, "informed")
"""Proofs of the leakage of a noisy count where it is known exactly."""


def solve_exact(question: Question) -> Scaled:
    """Return the least noise for a count or a histogram, by its exact leakage.

    The leakage falls as the noise grows, so a search finds the scale, and the scale found is
    verified as it will be used.
    """
    models = _models(question)
    _check_bins(question)
    search = question.search
    if any(low < high for low, high in map(_interval, models)):
        search = Search(max(search.precision, COARSE), search.guess)
    noise = by_rate(question, lambda noise: prove_exact(question, noise), search)
    while not prove_exact(question, noise).proves(question.limit):
        noise = question.noise(noise.scale * (1 + COARSE))
    return noise


@Remembered
def prove_exact(question: Question, noise: Scaled) -> Leakage:
    """Return the exact leakage of a noisy count or histogram."""
    _check_bins(question)
    leak = leakage(noise, question.model, question.against)
    if leak.method not in SHARP:
        raise MethodRefused(f"'exact' does not apply: {leak.assumptions[-1]}")
    return leak


def _check_bins(question: Question) -> None:
    """Refuse a query that does not ask how many."""
    if not question.query.bins(question.model.states):
        raise MethodRefused(
            "'exact' knows counts and histograms on networks, not "
            f"{type(question.query).__name__}; use method='exchange'"
        )


def solve_exchange(question: Question) -> Scaled:
    """Return the noise for any query: what all algorithms of the same DP level could leak."""

    def measure(noise: Scaled) -> Leakage:
        level = noise.level_upper(question.length)
        bounds = [_bound(level, model, question.against) for model in _models(question)]
        return max(bounds, key=lambda leak: leak.upper)

    return by_level(question, measure)


@Remembered
def prove_exchange(question: Question, noise: Scaled) -> Leakage:
    """Return what all algorithms of the DP level of a noise could leak."""
    whose = "the lower end and the witness are those of the worst algorithm found of this level"
    return worst_of_level(question, noise, whose)


def _quilts(question: Question) -> QuiltSearch[NetworkQuilt]:
    """Return the search for the worst record's best quilt, by a score."""
    form, secret = question.form, question.secret
    networks = [
        pair for model in _models(question) for pair in _networks(model, secret.targets, "quilt")
    ]

    def search(score: Score) -> NetworkQuilt:
        quilts = [
            network_quilt(net, form, score, secret.value_pairs, places) for net, places in networks
        ]
        return max(quilts, key=lambda quilt: quilt.value)

    return search, ("the records follow the stated network", question.influences)


def _around(question: Question, quilt: NetworkQuilt) -> str:
    nodes = ", ".join(map(repr, quilt.nodes)) or "nothing: all that depends on it is near"
    return f"the worst record's quilt is {nodes}; {quilt.near} records are near"


@Remembered
def _distance(question: Question) -> int:
    """Return how far one record can move a count, the largest over the networks."""
    query, secret = question.query, question.secret
    if not isinstance(query, Count):
        raise MethodRefused(
            f"'wasserstein' knows counts on networks, not {type(query).__name__}; use "
            "method='exchange'"
        )
    distances = [
        network_distance(network, query, secret.value_pairs, places)
        for model in _models(question)
        for network, places in _networks(model, secret.targets, "wasserstein")
    ]
    return max(distances, default=0)


def _models(question: Question) -> list[Structured]:
    """Return the networks of a question; the registry sends no other model here."""
    return list(question.model.members())  # type: ignore[arg-type]


def _bound(level: float, model: Structured, against: Against) -> Leakage:
    """Return an upper end for all algorithms of a level, without looking for a lower one."""
    if not isinstance(model, Pedigree) or not isinstance(against, str):
        return leakage(PureDP(level), model, against)
    families = model.families()
    largest = max(family.length for family in families)
    people = 1
    if against != "informed":
        if 3**largest <= CELLS and not isinstance(model.allele_frequency, tuple):
            return leakage(PureDP(level), model, against)
        if against == "any":  # to the ignorant, d-separation may leave fewer of a larger family
            families = list({f.shape(): f for f in families if f.length == largest}.values())
        people = max(dependent_records(family.network(0.5), against) for family in families)
    return Leakage(0.0, up(people * level), "group", against)


def _networks(
    model: Structured, records: Sequence[int] | None, method: str
) -> list[tuple[BayesianNetwork, list[int] | None]]:
    """Return the independent networks of a model, with the protected records of each."""
    own = None if records is None else list(records)
    if isinstance(model, BayesianNetwork):
        return [(model, own)]
    low, high = _interval(model)
    if low < high:
        raise MethodRefused(
            f"'{method}' needs one network, found an interval of probabilities; pass a number, or "
            "use method='exact'"
        )
    if isinstance(model, Contagion):
        return [(model.network(low), own)]
    if records is None:
        distinct: dict[object, Family] = {}
        for family in model.families():
            distinct.setdefault(family.shape(), family)
        return [(family.network(low), None) for family in distinct.values()]
    people = {model.people[record] for record in records}
    networks = [family.network(low) for family in model.families()]
    inside = [[p for p, node in enumerate(net.observed) if node in people] for net in networks]
    return [(net, places) for net, places in zip(networks, inside, strict=True) if places]


def _interval(model: Structured) -> tuple[float, float]:
    """Return the interval in which a parameter of the model lies, empty for a plain network."""
    match model:
        case Pedigree():
            return model.frequencies
        case Contagion():
            return model.passed
        case _:
            return (0.0, 0.0)


EXACT = noise_solver(solve_exact, prove_exact)
EXCHANGE = noise_solver(solve_exchange, prove_exchange)
QUILT = quilt_solver("quilt", _quilts, _around)
WASSERSTEIN = distance_solver(_distance, "network")
