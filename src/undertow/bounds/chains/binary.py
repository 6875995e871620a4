"""Closed forms for two states: positively correlated chains, nothing known, any length.

With q = P(0 -> 1), r = P(1 -> 0) and q + r <= 1 the worst epsilon-DP algorithm flips every record
independently, and the fixed point of its likelihood ratio solves a quadratic. These formulas
propose; the sweep certifies.
"""

import math

from undertow.models.markov import MarkovChain

__all__ = ["closed_budget", "closed_leakage"]

_LARGEST = 300.0
"""Levels beyond which the squares below would overflow."""


def closed_leakage(chain: MarkovChain, epsilon: float) -> float | None:
    """Return the leakage of all epsilon-DP algorithms against an ignorant adversary.

    2 ln[(B + sqrt(B^2 + 4 q r m^2)) / (2 r m)] with m = e^{epsilon/2}, B = (1 - q) m^2 - (1 - r),
    and the same with q and r exchanged; the larger. Floating point, not rounded to a side. None
    where the form does not apply.

    >>> round(closed_leakage(MarkovChain([[.882, .118], [.305, .695]]), 1.0), 12)
    3.458264743769
    """
    rates = _rates(chain)
    if rates is None or epsilon > _LARGEST:
        return None
    m = math.exp(epsilon / 2)
    found = []
    for q, r in (rates, rates[::-1]):
        b = (1 - q) * m * m - (1 - r)
        found.append(2 * math.log((b + math.sqrt(b * b + 4 * q * r * m * m)) / (2 * r * m)))
    return max(found)


def closed_budget(chain: MarkovChain, epsilon: float) -> float | None:
    """Return the inverse of `closed_leakage`: the DP level whose leakage is ``epsilon``.

    ln min(S0, S1), S0 = m^2, m = [(r E^2 - q) + sqrt((r E^2 - q)^2 + 4 (1-q)(1-r) E^2)] /
    (2 (1 - q) E) with E = e^{epsilon/2}; S1 with q and r exchanged (the closed form of
    Theorem 1 of [chakrabarti2022], solved for the channel).

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(closed_leakage(chain, closed_budget(chain, 1.0)), 12)
    1.0
    """
    rates = _rates(chain)
    if rates is None or epsilon > _LARGEST:
        return None
    e = math.exp(epsilon / 2)
    found = []
    for q, r in (rates, rates[::-1]):
        b = r * e * e - q
        m = (b + math.sqrt(b * b + 4 * (1 - q) * (1 - r) * e * e)) / (2 * (1 - q) * e)
        found.append(2 * math.log(m))
    return min(found)


def _rates(chain: MarkovChain) -> tuple[float, float] | None:
    if chain.size != 2 or not chain.homogeneous or not isinstance(chain.start, str):
        return None
    q, r = float(chain.transition[0, 1]), float(chain.transition[1, 0])
    return (q, r) if 0 < q < 1 and 0 < r < 1 and q + r <= 1 else None
