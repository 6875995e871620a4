"""Bounds on flipped series as printed in the literature: published, not certified.

They stand here to be compared with, and to plan as the papers do. All are about chains of two
states and rounded to nearest. `theorem_one` holds against an attacker who knows no other record;
that it holds against all of them (Theorem 2 of [chakrabarti2022]) is wrong.
"""

import math

from undertow import MarkovChain
from undertow.bounds.published import zhao_budget
from undertow.errors import Infeasible, InvalidInput
from undertow.numerics import check_epsilon

__all__ = [
    "approximate_flips",
    "corollary_two",
    "largest_ratio",
    "plain_flips",
    "theorem_one",
    "zhao_flips",
    "zhao_one_step_flips",
]


def theorem_one(q: float, r: float, rho0: float, rho1: float) -> float:
    """Return the bound on ln Pr[z | X_i = 0] / Pr[z | X_i = 1], for every length.

    ln a^2 / (c d) with c = 2 r rho1, d = 2 r (1 - rho0) and

        a = sqrt((1-q)^2 (1-rho0)^2 - 2 (1-q-r-qr) (1-rho0) rho1 + (1-r)^2 rho1^2)
            + (1-q) (1-rho0) - (1-r) rho1.

    q = P(0 -> 1), r = P(1 -> 0); exchange q with r and rho0 with rho1 for the other direction.
    Tight as the series grows. Theorem 1 of [chakrabarti2022].

    >>> round(theorem_one(.1, .1, .02, .02), 4)
    8.2456
    """
    for value, name in ((q, "q"), (r, "r"), (rho0, "rho0"), (rho1, "rho1")):
        _check_rate(value, name, 1.0)
    kept, flipped = 1 - rho0, rho1
    inner = ((1 - q) * kept) ** 2 + ((1 - r) * flipped) ** 2
    inner -= 2 * (1 - q - r - q * r) * kept * flipped
    a = math.sqrt(max(inner, 0.0)) + (1 - q) * kept - (1 - r) * flipped
    return 2 * math.log(a) - math.log(2 * r * flipped) - math.log(2 * r * kept)


def largest_ratio(q: float, r: float, epsilon: float) -> float:
    """Return S, the largest (1 - rho0) / rho1 whose bound in `theorem_one` is at most epsilon.

    S = m^2, m = (b + sqrt(b^2 + 4 (1-q) (1-r) E^2)) / (2 (1-q) E) with E = e^(epsilon / 2) and
    b = r E^2 - q: Theorem 1 of [chakrabarti2022] solved for the flips, in which it is linear.

    >>> round(largest_ratio(.2, .35, 2.0), 9)
    2.572388328
    """
    half_level = math.exp(check_epsilon(epsilon) / 2)
    b = r * half_level**2 - q
    root = math.sqrt(b * b + 4 * (1 - q) * (1 - r) * half_level**2)
    return ((b + root) / (2 * (1 - q) * half_level)) ** 2


def corollary_two(theta: float, rho: float) -> float:
    """Return `theorem_one` for a symmetric chain and symmetric flips.

    ln (1-rho)/rho (a/c)^2 with a = sqrt(theta^2 + (1-2 theta)(1-2 rho)^2) + (1-theta)(1-2 rho)
    and c = 2 theta (1-rho). Corollary 2 of [chakrabarti2022]. Differs from the paper: the worst
    of n records is number ceil(n / 2), counted from 1.

    >>> round(corollary_two(.1, .02) - theorem_one(.1, .1, .02, .02), 12)
    0.0
    """
    _check_rate(theta, "theta", 1.0)
    _check_rate(rho, "rho", 1.0)
    root = math.sqrt(theta**2 + (1 - 2 * theta) * (1 - 2 * rho) ** 2)
    a = root + (1 - theta) * (1 - 2 * rho)
    return math.log((1 - rho) / rho) + 2 * math.log(a / (2 * theta * (1 - rho)))


def approximate_flips(theta: float, epsilon: float) -> float:
    """Return the flips that Corollary 2 of [chakrabarti2022] suggests for a symmetric chain.

    (4 + t (t e - 2) - sqrt(t^2 e (4 + t (t e - 4)))) / (8 + 2 t (t e + t - 4)), t = theta and
    e = e^epsilon: more than needed. The exact inverse is 1 / (1 + S) with S from `largest_ratio`.

    >>> round(approximate_flips(.35, 1.0), 8)
    0.43278353
    """
    _check_rate(theta, "theta", 0.5)
    t, fade = theta, math.exp(-check_epsilon(epsilon))
    root = t * math.sqrt(t * t + 4 * (1 - t) * fade)
    kept = t * t + (4 - 2 * t) * fade + root  # (A + root of B) / e, where A - root of B is wanted
    above = 4 * t * t + (4 - 2 * t) ** 2 * fade
    return fade * above / kept / (2 * t * t + (8 + 2 * t * t - 8 * t) * fade)


def plain_flips(epsilon: float) -> float:
    """Return the flips of plain differential privacy, 1 / (e^epsilon + 1).

    What an attacker learns who knows all other records; equation (5) of [chakrabarti2022].

    >>> round(plain_flips(0.5), 6)
    0.377541
    """
    fade = math.exp(-check_epsilon(epsilon))
    return fade / (1 + fade)


def zhao_one_step_flips(theta: float, epsilon: float, *, printed: bool = False) -> float:
    """Return the flips of the level epsilon - 6 ln (1-theta)/theta, for a symmetric chain.

    (1-t)^6 / (t^6 e^epsilon + (1-t)^6). Equation (6) of [chakrabarti2022], after [zhao2017].
    Differs from the paper: it prints a factor 2 (``printed=True``) that does not follow from its
    equation (5), and flips above 1/2. `Infeasible` unless epsilon is above 6 ln (1-t)/t.

    >>> round(zhao_one_step_flips(.35, 4.0), 6)
    0.429041
    >>> round(zhao_one_step_flips(.35, 4.0, printed=True), 6)
    0.858082
    """
    _check_rate(theta, "theta", 0.5)
    least = 6 * math.log((1 - theta) / theta)
    if check_epsilon(epsilon) <= least:
        raise Infeasible(
            f"the level epsilon - {least:.6g} must be positive on this chain, found epsilon "
            f"{epsilon:g}; raise epsilon or use zhao_flips",
            least,
        )
    return (2 if printed else 1) * plain_flips(epsilon - least)


def zhao_flips(chain: MarkovChain, epsilon: float, length: int | None = None) -> float:
    """Return the flips 1 / (1 + e^level) at the level of `zhao_budget`.

    Proposition 1 of [chakrabarti2022], after [zhao2017]; the top curve of its figure 3.

    >>> chain = MarkovChain([[.65, .35], [.35, .65]], length=30)
    >>> round(zhao_flips(chain, 1.0), 8)
    0.46625531
    """
    return plain_flips(zhao_budget(chain, epsilon, length))


def _check_rate(value: float, name: str, most: float) -> None:
    if not 0 < value < most:
        raise InvalidInput(f"{name} must lie strictly between 0 and {most:g}, found {value}")
