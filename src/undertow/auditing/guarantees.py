"""What a guarantee says about attackers: how often a guess may be right, and whom it covers.

A leakage of at most epsilon means that outputs move the odds between two states of a record by at
most a factor e^epsilon. The bound printed in [chakrabarti2022] (section 4.3) has the larger of q/r
and r/q where the smaller belongs; these are the corrected ones.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary
from undertow.models.base import Model
from undertow.models.sets import ModelSet
from undertow.numerics import Array
from undertow.plan import Plan

__all__ = ["average_bound", "covers", "pointwise_bound"]


def average_bound(prior: Any, epsilon: float) -> Any:
    """Return how often a guess can be right at most, on average over the outputs.

    ``prior`` is the law of the record before the outputs are seen (given what is known), or an
    array of such laws in its rows. Over all channels of level epsilon, sum_x prior(x) Pr[guess x |
    x] is largest where the m likeliest states are guessed and told apart alike: e^epsilon (sum of
    the m largest priors) / (e^epsilon + m - 1), for the best m. For two states that is max(pi_0,
    pi_1, e^epsilon / (1 + e^epsilon)).

    >>> round(average_bound([.5, .5], 0.5), 9)
    0.622459331
    >>> average_bound([.9, .1], 0.5)
    0.9
    """
    law = np.asarray(prior, dtype=np.float64)
    top = np.cumsum(-np.sort(-law, axis=-1), axis=-1)  # (..., m): the m largest priors
    extra = np.arange(law.shape[-1])
    # e^epsilon / (e^epsilon + m - 1) for m = 1 + extra; e^-epsilon is 0 where nothing is guaranteed
    bound = np.minimum((top / (1 + extra * math.exp(-epsilon))).max(axis=-1), 1.0)  # (...)
    return bound if law.ndim > 1 else float(bound)


def pointwise_bound(prior: Any, epsilon: float) -> Any:
    """Return how sure of a state an attacker can be at most, whatever the output.

    e^epsilon / (e^epsilon + (1 - p) / p) for the largest prior p: for two states of a stationary
    chain e^epsilon / (e^epsilon + min(q/r, r/q)).

    >>> round(pointwise_bound([.25, .75], 1.0), 6)
    0.890768
    """
    law = np.asarray(prior, dtype=np.float64)
    largest = law.max(axis=-1)  # (...): over the states
    bound = largest / (largest + (1 - largest) * math.exp(-epsilon))
    return bound if law.ndim > 1 else float(bound)


def covers(
    plan: Plan[Any],
    *,
    attacker: str,
    known: tuple[int, ...],
    targets: tuple[int, ...] | None,
    model: Model,
) -> bool:
    """Return whether the guarantee of a plan is about this attacker.

    An attacker who looks at one output alone is covered by every guarantee about that record: what
    he sees is part of what each of the others sees, and speaks of no other record. All others are
    covered if they know what the guarantee allows them to know: *any* covers all, *ignorant* those
    who know nothing, *informed* those who know all other records. ``targets`` None means all.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> plan = calibrate(Count(1), chain, limit=1.0, against="ignorant", method="exact")
    >>> [covers(plan, attacker="bayes", known=k, targets=None, model=chain) for k in [(), (3,)]]
    [True, False]
    """
    secrets, against = plan.leakage.secrets, plan.against
    if secrets.pairs is not None and len(secrets.pairs) < math.comb(len(model.states), 2):
        return False
    if secrets.records is not None and (targets is None or not set(targets) <= {*secrets.records}):
        return False
    if not _is_member(model, plan.model):
        return False
    if isinstance(against, Adversary):
        alone = targets == (against.target,)
        return alone and (attacker == "single-bit" or _knows(attacker, known) == against.known)
    if attacker in ("single-bit", "prior") or against == "any":
        return True
    return _knows(attacker, known) == (() if against == "ignorant" else None)


def _knows(attacker: str, known: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return which records an attacker knows, None for all but the target."""
    return None if attacker == "informed" else tuple(sorted(known))


def _is_member(model: Model, guaranteed: Any) -> bool:
    if isinstance(guaranteed, ModelSet):
        return any(_is_member(model, member) for member in guaranteed.models)
    return bool(model == guaranteed)


def odds_shift(posterior: Array, prior: Array) -> npt.NDArray[np.float64]:
    """Return how far the outputs moved the odds between two states of each record, as a logarithm.

    The largest ln (p(x) / p(x')) - ln (prior(x) / prior(x')) over the states that the prior allows.

    >>> odds_shift(np.array([[.9, .1]]), np.array([[.75, .25]])).round(6)
    array([1.098612])
    """
    shifts = np.empty(len(posterior))
    for begin in range(0, len(posterior), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.log(posterior[part]) - np.log(prior[part])  # (records, states)
        barred = prior[part] <= 0
        high = np.where(barred, -np.inf, moved).max(axis=1)  # (records,): over the states allowed
        low = np.where(barred, np.inf, moved).min(axis=1)
        shifts[part] = np.maximum(high - low, 0.0)
    return shifts


_CHUNK = 2**18
"""Records whose logarithms are taken at once: what they need beside the posteriors."""
