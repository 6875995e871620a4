"""One question, one answer: which bounds apply, and where they meet."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.chains.boxes import box_leakage
from undertow.bounds.chains.count import count_leakage
from undertow.bounds.chains.exchange import exchange_leakage
from undertow.bounds.chains.pieces import window_leakage
from undertow.bounds.chains.quilt import Bound, approximate_influence, pruned_search
from undertow.bounds.chains.replay import replay_count
from undertow.bounds.gaussian.leakages import gaussian_leakage
from undertow.bounds.networks.leakages import network_leakage
from undertow.bounds.networks.pedigrees import pedigree_leakage
from undertow.bounds.networks.sweeps import contagion_leakage
from undertow.bounds.series.locally import chain_leakage, level_of
from undertow.certificate import WIDTHS, Covers, Leakage, Witness, check_covers
from undertow.channels import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.errors import Contradiction, InvalidInput, NotSupported
from undertow.mechanisms import (
    DiscreteLaplace,
    Laplace,
    Levelled,
    Mechanism,
    MetricDP,
    PureDP,
    dp_epsilon_upper,
    sensitivity_upper,
)
from undertow.models.classes import ChainBox, MixingClass
from undertow.models.contagion import Contagion
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.markov import MarkovChain
from undertow.models.network import BayesianNetwork
from undertow.models.pedigree import Pedigree
from undertow.models.sets import AnyModel, ModelSet, SingleModel
from undertow.numerics import divide_up, down, up
from undertow.plan import model_length
from undertow.queries import Count, Histogram, Linear

__all__ = ["check_fit", "group_leakage", "leakage"]


EFFORT = 2
"""How hard to work on channels with many states; each step more costs about four times as much."""


_BY_LEVEL = ("exchange", "group", "quilt", "quilt-approx")
"""Bounds on all algorithms of a DP level, whatever these do with the series."""


def leakage(
    mechanism: Mechanism,
    model: AnyModel,
    against: Against = "any",
    *,
    effort: int = EFFORT,
    covers: Covers = "series",
) -> Leakage:
    """Return what a mechanism reveals about one record, as a certified interval.

    The supremum, over target records, pairs of their values, what the adversary may know, and
    outputs s, of ln Pr[s | value, known] / Pr[s | other value, known].

    Parameters
    ----------
    mechanism
        `PureDP` (all epsilon-DP algorithms at once), `MetricDP`, `Laplace` or `DiscreteLaplace`;
        for series `RandomizedResponse`, `XorNoise` or `Redaction` (about its protected records).
    model
        How the records depend on each other.
    against
        ``"any"`` (default), ``"ignorant"``, ``"informed"`` or an `Adversary`.
    effort
        For flipped series with many states, whose interval may stay open: more narrows it.
    covers
        The shapes of data that the upper end must hold for: ``"series"`` (default; one answer on
        whole series), ``"windows"`` (on any window of each series too, whatever is known outside
        it) or ``"any"`` (windows, gaps, groups within a series: any algorithm of this DP level).

    >>> from undertow import MarkovChain, PureDP, leakage
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> leak = leakage(PureDP(1.0), chain)
    >>> round(leak.upper, 4), leak.witness.words()  # doctest: +ELLIPSIS
    (3.4749, "target record ...")
    """
    against = check_against(against)
    check_covers(covers)
    found = _dispatched(mechanism, model, against, effort, covers)
    if isinstance(model, ModelSet):  # its members have their ends and shapes already
        return found
    by_level = isinstance(mechanism, PureDP | MetricDP | RandomizedResponse | XorNoise)
    if isinstance(model, MarkovChain | ChainBox | MixingClass | Groups):
        by_level = by_level or found.method in _BY_LEVEL
    return replace(found, covers="any") if by_level else found


def _dispatched(
    mechanism: Mechanism, model: AnyModel, against: Against, effort: int, covers: Covers
) -> Leakage:
    local = isinstance(mechanism, RandomizedResponse | XorNoise | Redaction)
    if not local and not isinstance(mechanism, PureDP | MetricDP | Laplace | DiscreteLaplace):
        raise InvalidInput(
            "the first argument must be a mechanism such as PureDP(1.0) or "
            f"Laplace(Count('active'), scale=4.0), found {type(mechanism).__name__}"
        )
    if isinstance(model, ModelSet):
        return _over_set(mechanism, model, against, effort, covers)
    if isinstance(model, SingleModel):
        _check_adversary(model, against)
        if isinstance(mechanism, RandomizedResponse | XorNoise | Redaction):
            return _local(mechanism, model, against, effort)
        if covers != "series" and isinstance(mechanism, Laplace | DiscreteLaplace):
            return _elsewhere(mechanism, model, against, covers)
        if isinstance(mechanism, PureDP) and mechanism.unit == "person":
            return _person(mechanism, model, against)
        if isinstance(mechanism, Laplace | DiscreteLaplace):
            check_fit(mechanism.query, model)
        if isinstance(model, MultivariateGaussian | GaussianClass):
            return gaussian_leakage(mechanism, model, against)
        if isinstance(model, BayesianNetwork):
            return network_leakage(_levelled(mechanism), model, against)
        if isinstance(model, Pedigree):
            return pedigree_leakage(_levelled(mechanism), model, against)
        if isinstance(model, Contagion):
            return contagion_leakage(_levelled(mechanism), model, against)
        if isinstance(mechanism, MetricDP):
            return _metric(mechanism, model, against)
        if isinstance(model, Groups):
            return group_leakage(mechanism, model.size, against)
        if isinstance(model, MarkovChain):
            return _on_chain(mechanism, model, against)
        return _on_class(mechanism, model, against)
    raise InvalidInput(
        "the second argument must be a model such as MarkovChain(...) or Groups(4), found "
        f"{type(model).__name__}"
    )


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
        level = divide_up(exact * Fraction(mechanism.epsilon), 1.0)
        attained = True
    else:
        moved = Fraction(sensitivity_upper(mechanism.query, length))
        level = divide_up(exact * moved, mechanism.scale)
        attained = isinstance(mechanism.query, Count | Histogram)
    return Leakage(
        math.nextafter(level, 0.0) if attained else 0.0, level,
        "group", against,
        assumptions=(f"at most {size} records depend on each other, in any way",),
        citation="Theorem 4.2 of [lange2024]",
    )  # fmt: skip


def _levelled(mechanism: Levelled | MetricDP) -> Levelled:
    """Return the mechanism, or refuse one that only numbers have."""
    if isinstance(mechanism, MetricDP):
        raise NotSupported(
            "metric privacy needs to know how far two values lie apart; on a network use "
            "PureDP(rate * spread)"
        )
    return mechanism


def check_fit(query: object, model: SingleModel) -> None:
    """Refuse a linear statistic of other records than the model's.

    >>> from undertow.queries import Linear
    >>> check_fit(Linear([1, 1], spread=5), MarkovChain([[.5, .5], [.5, .5]], (0, 5), length=2))
    """
    if not isinstance(query, Linear) or isinstance(model, Groups | MixingClass):
        return
    if model.length not in (None, query.records):
        raise InvalidInput(f"{query.records} weights do not fit {model.length} records")
    numbers = [state for state in model.states if isinstance(state, int | float)]
    apart = max(numbers) - min(numbers) if numbers else 0
    if apart > query.spread:
        raise InvalidInput(
            f"spread says that two values of a record differ by at most {query.spread:g}, but the "
            f"model's states lie {apart:g} apart; say spread={apart:g}"
        )


def _local(mechanism: LocalMechanism, model: SingleModel, against: Against, effort: int) -> Leakage:
    if isinstance(model, MarkovChain):
        return chain_leakage(mechanism, model, against, effort)
    states = 0 if isinstance(model, Groups) else len(model.states)
    if isinstance(mechanism, RandomizedResponse) and states not in (0, len(mechanism.matrix)):
        raise InvalidInput(
            f"the mechanism is for {len(mechanism.matrix)} states, the model has {states}; they "
            "must agree"
        )
    bound = leakage(level_of(mechanism, model), model, against)
    return bound if isinstance(model, Groups) else replace(bound, lower=0.0, witness=None)


def _on_chain(mechanism: Levelled, chain: MarkovChain, against: Against) -> Leakage:
    if isinstance(mechanism, PureDP):
        return exchange_leakage(mechanism.epsilon, chain, against)
    level = dp_epsilon_upper(mechanism, chain.length)
    if isinstance(mechanism.query, Count):
        wanted = [chain.index(state) for state in mechanism.query.states]
        counted = np.isin(np.arange(chain.size), wanted)
        exact = count_leakage(mechanism.scale, counted, chain, against)
        if exact is not None and exact.closed:
            return exact
        bound = exchange_leakage(level, chain, against)
        if exact is None:
            return _far_count(bound, mechanism, chain)
        return _meet(exact, replace(bound, lower=0.0, witness=None))
    bound = exchange_leakage(level, chain, against)
    if isinstance(mechanism.query, Histogram) and bound.witness is not None:
        return _histogram(bound, bound.witness, mechanism.scale, chain)
    return replace(bound, lower=0.0, witness=None)


def _elsewhere(
    mechanism: Laplace | DiscreteLaplace, model: SingleModel, against: Against, covers: Covers
) -> Leakage:
    """Return the leakage of a noisy answer on parts of the series.

    Counts of windows on chains have a proof of their own. Whatever is done with a series, an
    algorithm of this DP level does it, so what all of these leak bounds every other answer.
    """
    check_fit(mechanism.query, model)
    query = mechanism.query
    if covers == "windows" and isinstance(query, Count) and isinstance(model, MarkovChain):
        counted = np.isin(np.arange(model.size), [model.index(state) for state in query.states])
        found = window_leakage(mechanism.scale, counted, model, against)
        if found is not None:
            return found
    level = PureDP(dp_epsilon_upper(mechanism, model_length(model)))
    return replace(leakage(level, model, against), lower=0.0, witness=None)


def _on_class(mechanism: Levelled, model: ChainBox | MixingClass, against: Against) -> Leakage:
    """Return the worst case over a class of chains, through the level of the algorithm."""
    level = dp_epsilon_upper(mechanism, model.length)
    if isinstance(model, ChainBox):
        found = box_leakage(level, model, against)
        own = isinstance(mechanism, PureDP)
        return found if own else replace(found, lower=0.0, witness=None)
    if against == "informed" or (against != "ignorant" and model.length is not None):
        size = 1 if against == "informed" else model.length or 1
        return replace(group_leakage(mechanism, size, against, model.length), lower=0.0)
    if against != "ignorant":
        raise NotSupported(
            "how fast a chain mixes bounds what an attacker learns who knows no other record; "
            "against one who knows some, give the class a length, or the chain itself"
        )
    quilt = pruned_search(
        lambda steps: approximate_influence(model.pi_min, model.gap, steps),
        model.length, Bound(level),
    )  # fmt: skip
    return Leakage(
        0.0, up(quilt.value), "quilt-approx", against,
        assumptions=(model.describe(),), citation="Theorem 4.4 and Lemma 4.7 of [wang2016]",
    )  # fmt: skip


def _metric(
    mechanism: MetricDP, model: MarkovChain | Groups | ChainBox | MixingClass, against: Against
) -> Leakage:
    """Return the leakage through the DP level: the rate times the spread of the states.

    Two states are no nearer to each other than their spread, so nothing is lost there; with more
    only the upper end is claimed.
    """
    if isinstance(model, Groups | MixingClass):
        raise NotSupported(
            "metric privacy needs to know how far two values lie apart; use a MarkovChain whose "
            "states are numbers, or PureDP(rate * spread)"
        )
    try:
        values = [float(state) for state in model.states]  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise NotSupported(
            "metric privacy measures how far two values lie apart; name the states by numbers, "
            "e.g. states=(0, 1, 2)"
        ) from error
    level = PureDP(up(mechanism.dp_epsilon(max(values) - min(values))))
    found = leakage(level, model, against)
    note = "two values of a record lie at most their largest difference apart"
    found = replace(found, assumptions=(*found.assumptions, note))
    return found if len(values) == 2 else replace(found, lower=0.0, witness=None)


def _far_count(bound: Leakage, mechanism: Laplace | DiscreteLaplace, chain: MarkovChain) -> Leakage:
    """Return the exchange bound with a lower end that far answers of this count attain."""
    attack, query = bound.witness, mechanism.query
    if attack is None or not isinstance(query, Count):
        return replace(bound, lower=0.0, witness=None)
    tries = [
        replay_count(replace(attack, output=output, sets=()), chain, query.states, mechanism.scale)
        for output in (0, -1)
    ]
    witness, value = max(tries, key=lambda found: found[1])
    return replace(bound, lower=min(max(down(value, 256), 0.0), bound.upper), witness=witness)


def _histogram(bound: Leakage, attack: Witness, scale: float, chain: MarkovChain) -> Leakage:
    """Return the exchange bound with a lower end that this histogram attains.

    Far answers, the bins of a set S too high and all others too low, have likelihood
    exp((2 / scale) #{t : x_t in S}) up to a factor: a product likelihood with one set throughout.
    """
    others = [s for s in chain.states if s not in (attack.value, attack.other)]
    if len(others) <= 6:
        sets = [
            (attack.value, *rest)
            for size in range(len(others) + 1)
            for rest in combinations(others, size)
        ]
    else:
        used = {states for _, states in attack.sets if attack.value in states}
        sets = [(attack.value,), *(s for s in used if attack.other not in s)]
    losses = [
        (replay_count(replace(attack, output=-1, sets=()), chain, members, scale / 2)[1], members)
        for members in sets
    ]
    value, members = max(losses, key=lambda pair: pair[0])
    witness = replace(attack, sets=((attack.target, tuple(members)),))
    return replace(bound, lower=min(max(down(value, 256), 0.0), bound.upper), witness=witness)


def _person(mechanism: PureDP, model: SingleModel, against: Against) -> Leakage:
    if isinstance(model, Pedigree | Contagion):
        raise NotSupported(
            "unit='person' takes persons to be independent, and in this model every record is a "
            "person: relatives and housemates are not; use unit='record'"
        )
    return Leakage(
        mechanism.epsilon, mechanism.epsilon, "person", against,
        assumptions=(
            "the algorithm is epsilon-DP for replacing all records of a person",
            "different persons are independent",
        ),
        citation="definition of person-level differential privacy",
    )  # fmt: skip


def _over_set(
    mechanism: Mechanism, models: ModelSet, against: Against, effort: int, covers: Covers
) -> Leakage:
    """Return the worst member: the largest lower end with its witness, the largest upper end."""
    found = [
        leakage(mechanism, member, against, effort=effort, covers=covers)
        for member in models.models
    ]
    worst = max(found, key=lambda leak: (leak.upper, leak.lower))
    least = min((leak.covers for leak in found), key=WIDTHS.index)
    shown = max(found, key=lambda leak: leak.lower)
    return replace(
        worst, lower=shown.lower, witness=shown.witness,
        assumptions=(
            f"one of the {len(found)} models of the set is true",
            *(() if models.note is None else (models.note,)),
            *dict.fromkeys(a for leak in found for a in leak.assumptions),
        ),
        covers=least,
    )  # fmt: skip


def _meet(first: Leakage, second: Leakage) -> Leakage:
    """Return the intersection of two certified intervals of the same quantity.

    It bears the name of the first method where that one closes it, of the tighter one otherwise.
    """
    lower = max(first, second, key=lambda leak: leak.lower)
    upper = min(first, second, key=lambda leak: leak.upper)
    if lower.lower > upper.upper:
        raise Contradiction(
            f"{lower.method} proves a leakage of at least {lower.lower}, {upper.method} of at "
            f"most {upper.upper}; please report the model and the mechanism"
        )
    both = replace(first, lower=lower.lower, upper=upper.upper, witness=lower.witness)
    return both if both.closed else replace(upper, lower=lower.lower, witness=lower.witness)


def _check_adversary(model: SingleModel, against: Against) -> None:
    if isinstance(against, Adversary) and not isinstance(model, Groups):
        last = max((against.target, *against.known))
        if model.length is not None and last >= model.length:
            raise InvalidInput(
                f"the adversary names record {last}, but the model has {model.length} records, "
                "counted from 0"
            )
