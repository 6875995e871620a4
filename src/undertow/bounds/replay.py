"""Re-evaluation of witnesses by plain sums over paths, apart from the code that found them."""

import math

import numpy as np

from undertow.certificate import Witness
from undertow.models.markov import MarkovChain
from undertow.numerics import Array

__all__ = ["replay_pure_dp"]


def replay_pure_dp(witness: Witness, chain: MarkovChain, epsilon: float) -> float:
    """Return the leakage of the witness's mechanism at the witness's output and adversary.

    The mechanism answers with likelihood proportional to
    exp(epsilon 1[X_target = value] + epsilon #{t : X_t in sets[t]}), which is epsilon-DP.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=2)
    >>> attack = Witness(0, 2, (), value=0, other=1, sets=((1, (0,)),))
    >>> round(replay_pure_dp(attack, chain, 1.0), 6)
    1.775987
    """
    value, other = chain.index(witness.value), chain.index(witness.other)
    boost = {
        record: np.exp(epsilon * np.isin(np.arange(chain.size), [chain.index(s) for s in states]))
        for record, states in witness.sets
    }
    total = epsilon
    for side in (-1, 1):
        loaded = _message(witness, chain, boost, side)
        plain = _message(witness, chain, {}, side)
        for message, sign in ((loaded, 1.0), (plain, -1.0)):
            if message[other] <= 0 or message[value] <= 0:
                return math.inf if message[value] > 0 and sign > 0 else -math.inf
            total += sign * (math.log(message[value]) - math.log(message[other]))
    return total


def _message(
    witness: Witness, chain: MarkovChain, boost: dict[int, Array], side: int
) -> Array:
    """Return Pr[what is known on a side] times the likelihood there, given each target value.

    On the left it is joint with the law of the target: that factor is the same loaded or plain.
    """
    target = witness.target
    known = {record: chain.index(state) for record, state in witness.known}
    near = [record for record in known if (record - target) * side > 0]
    marked = [record for record, _ in witness.sets if (record - target) * side > 0]
    if near:
        start = min(near, key=lambda record: abs(record - target))
        message = np.zeros(chain.size)
        message[known[start]] = 1.0
    else:
        start = max([*marked, target + side * 0], key=lambda record: abs(record - target))
        message = np.ones(chain.size) if side > 0 else _law(chain, start)
    for record in range(start, target, -side):
        message = message * boost.get(record, 1.0)
        if side > 0:
            message = chain.step(record - 1) @ message
        else:
            message = message @ chain.step(record)
        message = message / message.max()
    return np.asarray(message)


def _law(chain: MarkovChain, record: int) -> Array:
    if isinstance(chain.start, str) or record == 0:
        return chain.initial
    return np.asarray(chain.initial @ chain.between(0, record))
