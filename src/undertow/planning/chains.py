"""The methods of calibration on Markov chains, and on the classes of chains.

Each is a pair of functions: ``solve_...`` returns the noise that answers a
`undertow.planning.questions.Question`, ``prove_...`` what the method certifies for a given noise.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from undertow import progress
from undertow.bounds.channels.quilts import (
    Bound,
    NoiseScore,
    Quilt,
    Score,
    approximate_influence,
    pruned_search,
    quilt_search,
    spectral_gap,
)
from undertow.bounds.channels.wasserstein import count_distance, enumerable, query_distance
from undertow.bounds.counts.histograms import METHOD as HISTOGRAMS
from undertow.bounds.counts.histograms import STEPS as HISTOGRAM_STEPS
from undertow.bounds.counts.laplace import METHOD as ENUMERATED
from undertow.bounds.engine import leakage
from undertow.bounds.levels.chains import far_attained
from undertow.bounds.levels.replay import replay_count
from undertow.bounds.networks.quilts import NetworkQuilt
from undertow.bounds.published import (
    curve_budget,
    lange_constant,
    temporal_budget,
    zhao_budget,
    zhao_constant,
)
from undertow.certificate import Leakage
from undertow.errors import EffortSpent, Infeasible, InvalidModel, MethodRefused, NothingToProtect
from undertow.mechanisms import PureDP
from undertow.models.chains import MarkovChain
from undertow.models.classes import MixingClass
from undertow.models.sets import AnyModel
from undertow.numerics import divide_up, up
from undertow.planning.budget import (
    Guide,
    ReplayGuide,
    Search,
    aim,
    guide_for,
    largest_level,
    level_leakage,
    search_for,
    upper_end_only,
)
from undertow.planning.questions import (
    CERTAIN,
    Question,
    Remembered,
    Scaled,
    Solver,
    chains_of,
    noise_solver,
)
from undertow.queries import AnyQuery, Count
from undertow.secrets import Secret

__all__ = [
    "EXACT", "EXCHANGE", "INFLUENCE_CURVE", "LANGE", "QUILT", "QUILT_APPROX", "TEMPORAL",
    "WASSERSTEIN", "ZHAO", "ZHAO_MULTISTEP", "by_level", "by_rate", "distance_solver",
    "quilt_effort", "quilt_solver", "wasserstein_effort", "withstood", "worst_of_level",
]  # fmt: skip


def solve_exact(question: Question) -> Scaled:
    """Return the least noise for a count, a sum or a histogram, by its own leakage."""
    if question.query.per_state:
        return _solve_histogram(question)
    _check_exact(question)

    def measure(noise: Scaled) -> Leakage:
        leak = _own_leakage(question, noise)
        if not progress.left():  # what it proves now is not the leakage of this very answer
            raise EffortSpent(_LONGER)
        return leak

    if not question.query.named:  # one look tells whether the theorem of sums applies
        moved = question.query.sensitivity(question.length)
        _enumerated(measure(question.noise(moved / question.limit)))
    guide, chain, counted = None, question.model, question.query.named
    if isinstance(chain, MarkovChain) and counted:
        guide = ReplayGuide(
            lambda witness, rate: replay_count(witness, chain, counted, 1 / rate)[1]
        )
    return by_rate(question, measure, question.search, guide)


def by_rate(
    question: Question,
    measure: Callable[[Scaled], Leakage],
    search: Search,
    guide: Guide | None = None,
) -> Scaled:
    """Return the least noise whose leakage keeps the guarantee: it falls as the noise grows."""
    rate = largest_level(
        lambda rate: measure(question.noise(up(1 / rate))),
        question.model, aim(question.limit), search, guide,
    )  # fmt: skip
    if math.isinf(rate):
        raise NothingToProtect(CERTAIN)
    return question.noise(up(1 / rate))


_LONGER = (
    "'exact' needs more than the effort allowed; effort=10 allows ten times as much, "
    "effort=math.inf any, and method='exchange' is quicker"
)


def withstood(question: Question, noise: Scaled, proved: Leakage) -> bool:
    """Return whether no attack that is known makes a noise leak more than the limit.

    ``proved`` is the certificate of another noise for the same question: its witness is tried on
    this one. False is certain, and so for every smaller noise, whatever its proof.
    """
    most = max(far_attained(proved, noise, chain) for chain in chains_of(question.model))
    return not most > question.limit


@Remembered
def prove_exact(question: Question, noise: Scaled) -> Leakage:
    """Return the leakage of a noisy count, sum or histogram, of whole series or of any window."""
    if question.query.per_state:
        return _prove_histogram(question, noise)
    _check_exact(question)
    return _enumerated(_own_leakage(question, noise), question.query.named != ())


@Remembered
def _own_leakage(question: Question, noise: Scaled) -> Leakage:
    """Return the leakage of a noisy answer, for the search and for the proof of its result."""
    return leakage(noise, question.model, question.against, valid_for=question.valid_for)


def _enumerated(leak: Leakage, counts: bool = False) -> Leakage:
    """Return a leakage that is that of the answer itself, or refuse another."""
    if leak.method == ENUMERATED:
        return leak
    why = "cannot enumerate the windows of this chain" if counts else (
        "knows sums on chains whose steps, in the order of the states, are totally positive"
    )  # fmt: skip
    raise MethodRefused(f"'exact' {why}; use method='exchange'")


def _check_exact(question: Question) -> None:
    """Refuse anything but counts, and sums whose steps are the states, on chains."""
    query = question.query
    if query.named:
        question.chains("exact")
        return
    if query.kind not in ("sum", "mean"):
        raise MethodRefused(
            f"'exact' knows counts on chains, not {type(query).__name__}; use method='exchange'"
        )
    for chain in question.chains("exact"):
        if query.added(chain.states, chain.length) is None:
            raise MethodRefused(
                f"'exact' knows counts on chains, not every {type(query).__name__}: each state "
                "needs a number, and a mean the number of records; use method='exchange'"
            )


_MOST_CHAINS = 8
"""Most chains of a set (cost: some tenths of a second for each at every scale)."""

_WORTH = 1e-3
"""Share by which the leakage of a histogram must be below that of its level to be searched for: a
look at one level tells, and chains that stay as they are have nothing to gain."""


def _solve_histogram(question: Question) -> Scaled:
    """Return the least noise for a histogram, by windows of records around every target.

    Refuses with `MethodRefused` where the windows show nothing that the exchange rate does not.
    """
    _check_histogram(question)
    level, model, against = question.limit / 3, question.model, question.against
    noise = question.noise(question.query.sensitivity() / level)
    own, bound = leakage(noise, model, against), leakage(PureDP(level), model, against)
    if not own.upper < bound.upper * (1 - _WORTH):
        raise MethodRefused(
            "'exact' enumerates the histograms of records near the target, and here they leak as "
            "much as any algorithm of the same level, or the chain remembers longer; use "
            "method='exchange'"
        )
    return by_rate(question, lambda noise: leakage(noise, model, against), question.search)


def _prove_histogram(question: Question, noise: Scaled) -> Leakage:
    """Return the leakage of a noisy histogram by windows of records."""
    _check_histogram(question)
    leak = leakage(noise, question.model, question.against)
    if leak.method != HISTOGRAMS:
        raise MethodRefused(
            "'exact' proves nothing about this histogram that 'exchange' does not; use "
            "method='exchange'"
        )
    return leak


def _check_histogram(question: Question) -> None:
    """Refuse models and shapes of data beyond the theorem of windows."""
    members = question.chains("exact")
    if len(members) > _MOST_CHAINS:
        raise MethodRefused(
            f"'exact' knows histograms under at most {_MOST_CHAINS} chains, found {len(members)}; "
            "use method='exchange'"
        )
    for chain in members:
        if chain.size not in HISTOGRAM_STEPS:
            raise MethodRefused(
                f"'exact' knows histograms of at most {max(HISTOGRAM_STEPS)} states on chains, "
                f"found {chain.size}; use method='exchange'"
            )
    if question.valid_for != "series":
        raise MethodRefused(
            "'exact' is about the histogram of whole series; use method='exchange', which covers "
            "everything that is done with a series"
        )


def solve_exchange(question: Question) -> Scaled:
    """Return the noise for any query: what all algorithms of its DP level could leak."""
    _more_than_mixing(question)

    def measure(noise: Scaled) -> Leakage:
        if upper_end_only(question.model):
            level = noise.level_upper(question.length)
            return level_leakage(level, question.model, question.against, question.window)
        return prove_exchange(question, noise)

    return by_level(
        question, measure, guide_for(question.model, question.against, question.secret.window)
    )


def by_level(
    question: Question, measure: Callable[[Scaled], Leakage], guide: Guide | None = None
) -> Scaled:
    """Return the noise of the largest DP level that keeps the guarantee.

    Where ``measure`` is the remembered proof of a noise, the proof of the plan costs nothing more.
    """

    def noise_at(level: float) -> Scaled:
        return question.noise(up(question.query.sensitivity(question.length) / level, 16))

    search = search_for(question.limit, question.secret.window, question.search)
    budget = largest_level(
        lambda level: measure(noise_at(level)), question.model, aim(question.limit), search, guide
    )
    if math.isinf(budget):
        raise NothingToProtect(CERTAIN)
    return noise_at(budget)


@Remembered
def prove_exchange(question: Question, noise: Scaled) -> Leakage:
    """Return what all algorithms of the DP level of a noise could leak."""
    _more_than_mixing(question)
    whose = "the lower end and the witness are those of the worst algorithm of this DP level"
    return worst_of_level(question, noise, whose)


def worst_of_level(question: Question, noise: Scaled, whose: str) -> Leakage:
    """Return the leakage of all algorithms of the DP level of a noise; ``whose`` is a note."""
    level = PureDP(noise.level_upper(question.length))
    leak = leakage(level, question.model, question.against, question.window)
    return replace(leak, assumptions=(*leak.assumptions, whose), valid_for="any")


def _more_than_mixing(question: Question) -> None:
    if any(member.kind == "mixing" for member in question.model.members()):
        raise MethodRefused(
            "'exchange' needs the chain, not only how fast it mixes; use method='quilt-approx'"
        )


Q = TypeVar("Q", Quilt, NetworkQuilt)

QuiltSearch = tuple[Callable[[Score], Q], tuple[str, ...]]
"""A search for the worst record's quilt by a score, and the assumptions that it rests on."""


def _exact_quilts(question: Question) -> QuiltSearch[Quilt]:
    """Return the search for quilts with exact influences, Theorem 4.4 of [wang2016]."""
    chains = question.chains("quilt")
    form, secret = question.form, question.secret
    if all(chain.visited() is None for chain in chains):
        raise NothingToProtect(CERTAIN)

    def search(score: Score) -> Quilt:
        quilts = [quilt_search(c, form, score, secret.value_pairs, secret.targets) for c in chains]
        return max(quilts, key=lambda quilt: quilt.value)

    premises = ("the records follow the stated Markov chain", question.influences)
    return search, premises


def _mixing_quilts(question: Question) -> QuiltSearch[Quilt]:
    """Return the search for quilts known by how fast the chain mixes, Lemma 4.7 of [wang2016]."""
    classes: list[tuple[float, float]] = []
    notes: list[str] = []
    for member in question.model.members():
        if isinstance(member, MixingClass):
            classes.append((member.pi_min, member.gap))
        elif isinstance(member, MarkovChain):
            classes.append(_mixing(member, notes))
        else:
            raise MethodRefused(
                "'quilt-approx' needs a MarkovChain, or a class of chains known by how fast they "
                f"mix, found {member.describe()}; use method='best'"
            )

    def search(score: Score) -> Quilt:
        quilts = [
            pruned_search(
                partial(approximate_influence, pi_min, gap), question.length, score,
                question.secret.targets,
            )
            for pi_min, gap in classes
        ]  # fmt: skip
        return max(quilts, key=lambda quilt: quilt.value)

    premises = (
        "the records follow a chain with at least this least stationary probability and gap: "
        + "; ".join(f"{pi_min:.6g}, {gap:.6g}" for pi_min, gap in classes),
        *notes,
    )
    return search, premises


def _mixing(chain: MarkovChain, notes: list[str]) -> tuple[float, float]:
    """Return the least stationary probability and the gap of a chain, or refuse it."""
    reduced = chain.visited()
    if reduced is None:
        raise NothingToProtect(CERTAIN)
    if not reduced.homogeneous:
        raise MethodRefused(
            "'quilt-approx' is stated for one transition matrix, this chain has one for each step; "
            "use method='quilt'"
        )
    least, gap, reversible = 0.0, 0.0, True
    with suppress(InvalidModel):  # several closed classes: no gap
        settled = MarkovChain(reduced.transition, reduced.states)
        least = float(settled.initial.min())
        if least > 0:
            gap, reversible = spectral_gap(settled)
    if gap <= 0:
        raise MethodRefused(
            "'quilt-approx' needs a chain that forgets where it was (irreducible and aperiodic, a "
            "spectral gap above 0); use method='exchange'"
        )
    if not reversible:
        notes.append(
            f"the chain is not reversible: the gap is half that of P P*, {gap:.6g}, instead of "
            "1 - |lambda_2|"
        )
    return least, gap


def quilt_solver(
    method: str, search_of: Callable[[Question], QuiltSearch[Q]], note: Callable[[Question, Q], str]
) -> Solver:
    """Return the solver of a method that searches for Markov quilts, Theorem 4.4 of [wang2016].

    ``note`` describes the quilt of the worst record.
    """

    def certify(question: Question, noise: Scaled) -> Leakage:
        searched: QuiltSearch[Q] = search_of(question)
        quilt = searched[0](Bound(noise.level_upper(question.length)))
        return Leakage(
            0.0, up(quilt.value), method, question.against,
            assumptions=(*searched[1], note(question, quilt)),
            citation="Theorem 4.4 of [wang2016]", secret=question.secret, valid_for="any",
        )  # fmt: skip

    prove = Remembered(certify)

    def solve(question: Question) -> Scaled:
        search, _ = search_of(question)
        quilt = search(NoiseScore(aim(question.limit)))
        if math.isinf(quilt.value):  # a record reaches everywhere
            raise MethodRefused(
                f"'{method}' finds no quilt that a record influences by less than "
                f"{question.limit:g}; give the chain a length, raise the limit, or use "
                "method='exchange'"
            )
        if quilt.value == 0:
            raise NothingToProtect(CERTAIN)
        noise = question.noise(up(question.query.sensitivity(question.length) * quilt.value, 16))
        for _ in range(8):  # a little more where the proof needs it
            if prove(question, noise).proves(question.limit):
                break
            noise = question.noise(up(noise.scale, 64))
        return noise

    return noise_solver(solve, prove)


def _inside(question: Question, quilt: Quilt) -> str:
    return f"the worst record's quilt has {quilt.inside(question.length)} records inside"


def distance_solver(distance: Callable[[Question], float], model: str) -> Solver:
    """Return the solver for how far one record moves the answer, Theorem 3.2 of [wang2016].

    ``model`` is what the records follow, in words.
    """

    def solve(question: Question) -> Scaled:
        moved = distance(question)
        if moved == 0:
            raise NothingToProtect(CERTAIN)
        return question.noise(divide_up(moved, question.limit))

    def prove(question: Question, noise: Scaled) -> Leakage:
        moved = distance(question)
        return Leakage(
            0.0, divide_up(moved, noise.scale), "wasserstein", question.against,
            assumptions=(
                f"the records follow the stated {model}",
                f"two values of a record move the answer by at most {moved:g}",
            ),
            citation="Theorem 3.2 of [wang2016]", secret=question.secret,
        )  # fmt: skip

    return noise_solver(solve, prove)


def _chain_distance(question: Question) -> float:
    question.chains("wasserstein")
    return _distance(question.query, question.model, question.secret)


@Remembered
def _distance(query: AnyQuery, model: AnyModel, secret: Secret) -> float:
    """Return how far one record moves the answer, the largest over the chains."""
    hidden = (secret.value_pairs, secret.targets)

    def reach(chain: MarkovChain) -> float:
        if isinstance(query, Count):
            counted = np.isin(np.arange(chain.size), [chain.index(s) for s in query.states])
            bracket = count_distance(chain, counted, *hidden)
            if bracket.lower == bracket.upper or not enumerable(
                chain
            ):  # else two probabilities may tie
                return float(bracket.upper)
        return query_distance(chain, query, *hidden)

    return max(map(reach, chains_of(model)))


def _published(method: str, constant: Callable[[MarkovChain], float], question: Question) -> Scaled:
    """Return the noise of a bound limit + constant."""
    largest = max(constant(chain) for chain in question.chains(method))
    if question.limit <= largest:
        raise Infeasible(
            f"'{method}' adds {largest:.6f} to the DP level, whatever the noise: it needs a "
            f"limit above {largest:.6f}, found {question.limit:g}; use method='exchange'",
            largest,
        )
    return _at_level(question, question.limit - largest)


def _rival(
    method: str, budget: Callable[[MarkovChain, float], float], question: Question
) -> Scaled:
    """Return the noise of the level that a paper's bound leaves, the least over the chains."""
    chains = question.chains(method)
    return _at_level(question, min(budget(chain, question.limit) for chain in chains))


def _at_level(question: Question, level: float) -> Scaled:
    """Return the noise of a DP level."""
    return question.noise(question.query.sensitivity(question.length) / level)


@Remembered
def prove_published(question: Question, noise: Scaled) -> Leakage:
    """Return the certified leakage of the noise of a published bound."""
    question.chains("a published bound")
    return leakage(noise, question.model, question.against)


def quilt_effort(question: Question) -> float:
    """Return how long a search for quilts takes, in units of some 30 microseconds.

    Quilts are as wide as dependence reaches, 1 / gap with the gap of the transition matrix; all
    widths on both sides are tried, and each position where the law of a record changes.
    """
    work = 0.0
    for chain in chains_of(question.model):
        if not chain.homogeneous:
            work += 150.0 * (chain.length or math.inf)
            continue
        width = _width(chain)
        positions = 1.0 if isinstance(chain.start, str) else 50 * width
        work += chain.size / 2 * width**2 * positions
    return work


_MICROSECOND = 1 / 30
_DIRECT, _SHALLOW, _DEEPEST = 128, 16, 512
"""Records up to which a Wasserstein distance looks at every window, and the cuts of longer ones."""

_NEVER = 1e6
"""Records after which a chain counts as one that does not forget."""


def wasserstein_effort(question: Question) -> float:
    """Return the effort of a Wasserstein distance of a count.

    Short series compare every record and pair of values, O(n^2 k^2). Long ones are cut where the
    chain has forgotten, and match all pairs of states there.

    >>> from undertow.planning.questions import check_question
    >>> quick = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> slow = MarkovChain([[.98, .02], [.02, .98]])
    >>> [wasserstein_effort(check_question(Count(1), c, 1.0, "any")) > 1e5 for c in (quick, slow)]
    [False, True]
    """
    if question.query.kind != "count":
        return 0.0  # all series are enumerated where these are few, and refused otherwise
    return sum(_distance_effort(chain, question) for chain in chains_of(question.model))


def _distance_effort(chain: MarkovChain, question: Question) -> float:
    """Return the effort of a Wasserstein distance of a count on one chain."""
    pairs = chain.size * (chain.size - 1) / 2
    records, length = question.secret.targets, chain.length
    if length is not None and length <= _DIRECT:
        targets = length if records is None else len(records)
        return targets * pairs * (200 + 6 * length) * _MICROSECOND
    if not chain.homogeneous:
        return 0.0  # refused
    depth, needed = _SHALLOW, 8 * _width(chain)
    while depth < min(needed, _DEEPEST):
        depth *= 2
    labels = chain.size**2
    sides = 4 * pairs * 200 * labels
    if needed > 2 * _DEEPEST:  # windows in boxes; a chain that never forgets is refused
        windows = 0.0 if needed > _NEVER else (1.5e6 if length is None else 2e5) * labels
        return (sides + windows) * _MICROSECOND
    # windows of a series of any length have any number of records on either side; most are
    # dismissed by what is known of their sides
    rooms = 0.3 * depth**2 if length is None else 2.0 * depth * min(pairs, 2)
    windows = rooms * (16 * depth + 60 * labels)
    return (sides + windows) * _MICROSECOND


def _width(chain: MarkovChain) -> float:
    """Return how many records a chain takes to forget, 1 / gap."""
    second = sorted(abs(np.linalg.eigvals(chain.transition)))[-2]
    return 1 / max(1 - float(second), 1e-9)


EXACT = noise_solver(solve_exact, prove_exact)
EXCHANGE = noise_solver(solve_exchange, prove_exchange)
QUILT = quilt_solver("quilt", _exact_quilts, _inside)
QUILT_APPROX = quilt_solver("quilt-approx", _mixing_quilts, _inside)
WASSERSTEIN = distance_solver(_chain_distance, "Markov chain")
LANGE = noise_solver(partial(_published, "lange", lange_constant), prove_published)
ZHAO = noise_solver(partial(_published, "zhao", zhao_constant), prove_published)
ZHAO_MULTISTEP = noise_solver(partial(_rival, "zhao-multistep", zhao_budget), prove_published)
INFLUENCE_CURVE = noise_solver(partial(_rival, "influence-curve", curve_budget), prove_published)
TEMPORAL = noise_solver(partial(_rival, "temporal", temporal_budget), prove_published)
