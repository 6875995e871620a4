"""Chains, flips and likelihood ratios that the results of [chakrabarti2022] share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from undertow import MarkovChain, Plan, RandomizedResponse, Series, calibrate
from undertow.auditing.attackers import prior_law
from undertow.auditing.inference import posteriors
from undertow.certificate import Leakage
from undertow.mechanisms import Flips
from undertow.numerics import Array
from undertow_papers.registry import printed

__all__ = ["FILES", "KEY", "binary", "flips_of", "how", "planned", "rates", "ratios", "values"]

KEY = "chakrabarti2022"

FILES = (
    "Values of its code come from the output files that the authors published with it; the text at "
    "hand has no pictures to read values off."
)
"""Said wherever such values are compared."""


def values(name: str) -> dict[str, Any]:
    """Return the printed values of one figure.

    >>> values("fig3")["theta"]
    0.35
    """
    printed_values: dict[str, Any] = printed(KEY)[name]
    return printed_values


def binary(q: float, r: float, length: int | None = None) -> MarkovChain:
    """Return the chain with q = P(0 -> 1) and r = P(1 -> 0) that starts in its long-run law.

    >>> binary(.2, .35).transition.tolist()
    [[0.8, 0.2], [0.35, 0.65]]
    """
    return MarkovChain([[1 - q, q], [r, 1 - r]], length=length)


def flips_of(rho: float) -> RandomizedResponse:
    """Return flips of both states at one rate."""
    return RandomizedResponse.binary(rho, rho)


def how(bracket: Leakage) -> str:
    """Return in words how a leakage is attained, empty where there is no witness."""
    return "" if bracket.witness is None else bracket.witness.words()


def planned(chain: MarkovChain, epsilon: float, *, corrected: bool = False) -> Plan[Flips]:
    """Return the paper's flips (Theorem 1 and Corollary 1), or those that hold against everyone.

    >>> round(planned(binary(.1, .1), 4.0).expected_flips, 6)
    0.313112
    >>> round(planned(binary(.1, .1), 4.0, corrected=True).expected_flips, 6)
    0.343653
    """
    if corrected:
        return calibrate(Series(), chain, epsilon, "any", method="exact")
    return calibrate(Series(), chain, epsilon, "ignorant", method="chakrabarti")


def rates(plan: Plan[Flips]) -> tuple[float, float]:
    """Return rho0 and rho1 of independent flips.

    >>> [round(rate, 6) for rate in rates(planned(binary(.2, .35), 2.0))]
    [0.342902, 0.255443]
    """
    channel = plan.mechanism
    if not isinstance(channel, RandomizedResponse):
        raise TypeError("independent flips are required")
    return float(channel.matrix[0, 1]), float(channel.matrix[1, 0])


def ratios(
    outputs: Any, flips: Flips, chain: MarkovChain, known: Mapping[int, int] | None = None
) -> Array:
    """Return ln Pr[z | X_i = 0, known] / Pr[z | X_i = 1, known] of each record, by Bayes' rule.

    By the forward-backward recursion, which shares no arithmetic with the bounds it judges. Known
    records have no ratio (NaN).

    >>> ratios([0, 0, 0], RandomizedResponse.binary(.02, .02), binary(.1, .1)).round(4).tolist()
    [6.0655, 7.9536, 6.0655]
    """
    law = posteriors(outputs, flips, chain, known)  # (.., records, states)
    size = law.shape[-2]
    facts = dict(known or {})
    places = np.array(sorted(facts), dtype=np.int64)
    states = np.array([facts[place] for place in places.tolist()], dtype=np.int64)
    prior = prior_law(chain, np.array([size]), places, states)  # (records, states)
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.log(law[..., 0]) - np.log(law[..., 1])
        # posterior odds over prior odds
        log_ratios = moved - (np.log(prior[:, 0]) - np.log(prior[:, 1]))
    return np.asarray(log_ratios)
