"""A limit on leakage in odds and plain chances, rounded to the safe side.

Whoever believed something with probability p, and sees an output of leakage at most L, believes it
afterwards with probability at most p e^L / (1 - p + p e^L): odds p / (1 - p) move by a factor e^L.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from undertow.errors import InvalidInput
from undertow.numerics import down, up
from undertow.rounding import odds, stated

__all__ = ["Belief", "about", "allowed", "beliefs", "chance_above", "chance_below", "factor"]

_PRIORS = (Fraction(1, 2), Fraction(1, 10), Fraction(1, 100))
"""Beliefs before that an explanation goes through."""

_LEAST = 1e-9
"""Chances below it are said to be 0, or to be at most this where they must not be less."""

_CERTAIN = Fraction(999, 1000)
"""Above, people hear certainty; so that is what is said."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What someone thought before, and the least and the most that they can think afterwards.

    ``lower`` is rounded down, ``upper`` up. With a ``delta`` the range is one that is left with
    probability at most twice the delta.

    >>> print(allowed(0.1, 1.0).words())
    Someone who thought 1 in 10 would at most think 1 in 4.
    """

    prior: float
    lower: float
    upper: float
    delta: float = 0.0

    def words(self) -> str:
        """Return the largest change in one sentence."""
        rarely = ""
        if self.delta:
            rarely = f", except with probability at most {stated(2 * self.delta)}"
        if self.upper >= _CERTAIN:
            return f"Someone who thought {about(self.prior)} could become all but certain{rarely}."
        return (
            f"Someone who thought {about(self.prior)} would at most think "
            f"{chance_above(self.upper)}{rarely}."
        )


def allowed(prior: float, leakage: float, delta: float = 0.0) -> Belief:
    """Return what a leakage allows someone to believe who thought ``prior`` before.

    With a ``delta`` the factor is 2 e^leakage, exceeded with probability at most 2 delta, as in
    `Plan.guarantee`.

    >>> found = allowed(0.5, math.log(3))
    >>> 0.75 <= found.upper < 0.7500000001, 0.2499999999 < found.lower <= 0.25
    (True, True)
    """
    if not 0 < prior < 1:
        raise InvalidInput(f"a belief before is a probability between 0 and 1, found {prior}")
    if not leakage >= 0:
        raise InvalidInput(f"a leakage is at least 0, found {leakage}")
    most = up(leakage + math.log(2), 4) if delta else leakage
    if most > 700:
        return Belief(prior, 0.0, 1.0, delta)
    rate = math.exp(most)
    # p r / (1 - p + p r): six roundings of positive numbers, and that of the exponential
    high = min(1.0, up(prior * rate / (1 - prior + prior * rate), 16))
    low = max(0.0, down(prior / (prior + (1 - prior) * rate), 16))
    return Belief(prior, low, high, delta)


def beliefs(leakage: float, delta: float = 0.0) -> tuple[Belief, ...]:
    """Return what a leakage allows for a toss-up, a suspicion and a remote possibility.

    >>> for belief in beliefs(1.0):
    ...     print(belief.words())
    Someone who thought 1 in 2 would at most think 3 in 4.
    Someone who thought 1 in 10 would at most think 1 in 4.
    Someone who thought 1 in 100 would at most think 1 in 37.
    """
    return tuple(allowed(float(prior), leakage, delta) for prior in _PRIORS)


def factor(leakage: float, delta: float = 0.0) -> str:
    """Return a limit on leakage as a sentence about odds.

    >>> factor(1.0)
    'Odds move by at most a factor of 2.72.'
    """
    if not delta:
        return f"Odds move by at most a factor of {odds(leakage)}."
    return (
        f"Odds move by at most a factor of {odds(leakage + math.log(2))}, except with probability "
        f"at most {stated(2 * delta)}."
    )


def chance_above(p: float) -> str:
    """Return the least simple chance that is not below ``p``: what may be said of an upper end.

    >>> chance_above(0.2319), chance_above(0.7311), chance_above(0.0268), chance_above(0.9999)
    ('1 in 4', '3 in 4', '1 in 37', 'certainty')
    """
    _check(p)
    chance = min((c for c in _simple() if c >= Fraction(p)), default=Fraction(1))
    if p <= _LEAST:
        return _said(Fraction(1, 10**9)) if p else "0"
    if p < 0.1:  # 1 in n, n as large as p allows
        whole = int(1 / Fraction(p))
        chance = min(chance, Fraction(1, whole // _unit(whole) * _unit(whole)))
    return _said(chance)


def chance_below(p: float) -> str:
    """Return the largest simple chance that is not above ``p``: what may be said of a lower end.

    >>> chance_below(0.2319), chance_below(0.0268), chance_below(0.0)
    ('2 in 9', '1 in 38', '0')
    """
    _check(p)
    chance = max((c for c in _simple() if c <= Fraction(p)), default=Fraction(0))
    if p < _LEAST:
        return "0"
    if p < 0.1:
        whole = math.ceil(1 / Fraction(p))
        chance = max(chance, Fraction(1, -(-whole // _unit(whole)) * _unit(whole)))
    return _said(chance)


def about(p: float) -> str:
    """Return the simple chance that is nearest to ``p``, by its odds.

    >>> about(0.5), about(0.663), about(0.1), about(0.0031)
    ('1 in 2', '2 in 3', '1 in 10', '1 in 320')
    """
    _check(p)
    if p < 0.1:
        return "0" if p < _LEAST else f"1 in {_two_digits(1 / p):,}"
    if p > 0.95:
        left = 1 - p
        if left < 1e-3:
            return "certainty"
        near = _two_digits(1 / left)
        return f"{near - 1:,} in {near:,}"
    return _said(min(_simple(), key=lambda c: abs(_log_odds(float(c)) - _log_odds(p))))


@lru_cache(maxsize=1)
def _simple() -> tuple[Fraction, ...]:
    """Return the chances that people picture: m in n for small n, and all but 1 in n."""
    few = {Fraction(m, n) for n in range(2, 11) for m in range(1, n)}
    most = {1 - Fraction(1, n) for n in (12, 15, 20, 25, 30, 40, 50, 75, 100, 200, 500, 1000)}
    return tuple(sorted(few | most))


def _said(chance: Fraction) -> str:
    if chance >= 1:
        return "certainty"
    if not chance:
        return "0"
    return f"{chance.numerator:,} in {chance.denominator:,}"


def _two_digits(value: float) -> int:
    return int(float(f"{value:.2g}"))


def _unit(whole: int) -> int:
    """Return the power of ten of the third digit of a whole number."""
    return int(10 ** max(0, len(str(whole)) - 3))


def _log_odds(p: float) -> float:
    return math.log(p) - math.log1p(-p)


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise InvalidInput(f"a probability lies between 0 and 1, found {p}")
