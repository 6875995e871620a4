"""Missing records: which proofs about complete series hold for every pattern of them.

A record without a value is in no state, so it adds nothing: the answer is another query, one that
leaves some records out. An adversary may know which, as long as that depends on no record.

- What all algorithms of a DP level leak covers every pattern: an algorithm that ignores some
  records has that level too. Such proofs cover ``"any"`` shape of data.
- **Lemma.** Let the law of the records be MTP2 in some order of their states (zeros admitted), and
  let the answer be the sum over records t of w_t f(x_t) with a monotone f, with Laplace noise of
  scale b, continuous or discrete. Then no w in {0, 1}^n leaks more than w = 1, for any target, pair
  of values and known records. Proof. Let f rise (else reverse the order), u < v, and condition on
  the known records: the law stays MTP2. An output s has the likelihood e^(-|s - F| / b) times a
  constant, and with g = e^(F / b) the ratio h = e^(-|s - F| / b) / g falls in F. Under the law
  tilted by g, a product of functions of single records, the records given v dominate those given u,
  so E_g[h | v] <= E_g[h | u]: no output tells v from u better than s = infinity does, where the
  log-ratio is ln E[e^(F / b) | v] - ln E[e^(F / b) | u]. Its derivative in w_t is
  (E_g[f(x_t) | v] - E_g[f(x_t) | u]) / b >= 0 by the same dominance. For u against v take
  g = e^(-F / b). A histogram of two states is the count of one of them, seen twice: with m records
  that are there, |s' - (m - F)| rises and falls as a second |s - F|, and g = e^(2 F / b).
- Whoever knows all records but one sees a sum of constants and of that one: a record that is
  missing takes its constant along, and itself shows nothing.

Everything else is a proof about complete series.
"""

from functools import lru_cache

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.memory.attractive_networks import node_orders
from undertow.certificate import Leakage
from undertow.mechanisms import DiscreteLaplace, Laplace, Noise
from undertow.models.attractive import total_margin
from undertow.models.chains import MarkovChain
from undertow.models.networks import BayesianNetwork
from undertow.models.sets import AnyModel, SingleModel
from undertow.queries import AnyQuery

__all__ = [
    "COMPLETE",
    "over_patterns",
    "over_patterns_as_complete",
]


COMPLETE = "every record has a value in a state of the model: where some are missing, more may leak"
"""The assumption of a proof about complete series."""


def over_patterns(leak: Leakage, mechanism: Noise, model: AnyModel) -> bool:
    """Return whether a proof about a noisy answer holds for every pattern of missing records.

    >>> from undertow import Count, MarkovChain, leakage
    >>> noise = DiscreteLaplace(Count(1), 2.0)
    >>> for stay in (0.9, 0.1):
    ...     chain = MarkovChain([[stay, 1 - stay], [1 - stay, stay]], length=5)
    ...     print(over_patterns(leakage(noise, chain), noise, chain))
    True
    False
    """
    if leak.valid_for == "any":
        return True
    return leak.secret.window == 1 and over_patterns_as_complete(mechanism, model, leak.against)


def over_patterns_as_complete(mechanism: Noise, model: AnyModel, against: Against) -> bool:
    """Return whether a noisy answer certainly leaks most where no record is missing."""
    query = mechanism.query
    if query.selects or query.totalled or query.kind == "binary-histogram":
        return False
    if against == "informed":
        return bool(query.named) or query.per_state or query.kind in ("sum", "mean", "linear")
    if not isinstance(mechanism, Laplace | DiscreteLaplace):
        return False
    return all(_monotone(_weights(query, each), query.kind, each) for each in model.members())


@lru_cache(maxsize=256)
def _monotone(weights: tuple[float, ...] | None, kind: str, model: SingleModel) -> bool:
    """Return whether a law is MTP2 in an order of its states in which the answer is monotone."""
    if weights is None:
        return False
    if isinstance(model, MarkovChain):
        states = model.states if kind in _ADDED else range(model.size)
        order = np.argsort(np.asarray(states))
        rising = [weights[place] for place in order]
        if rising not in (sorted(rising), sorted(rising, reverse=True)):
            return False
        steps = model.transition.reshape(-1, model.size, model.size)  # (steps, from, to)
        return all(total_margin(step[np.ix_(order, order)]) >= 0 for step in steps)
    if isinstance(model, BayesianNetwork):
        orders = node_orders(model) if model.size == 2 else None
        return orders is not None and len({orders[place] for place in model.places}) == 1
    return False


_ADDED = ("sum", "mean")


def _weights(query: AnyQuery, model: SingleModel) -> tuple[float, ...] | None:
    """Return what each state adds to the answer, None where that is no function of the state."""
    if query.named:
        return tuple(float(state in query.named) for state in model.states)
    if query.per_state and len(model.states) == 2:
        return (0.0, 1.0)
    if query.kind in _ADDED:
        added = query.added(model.states, model.length)
        return None if added is None else tuple(float(number) for number in added)
    return None
