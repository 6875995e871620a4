"""Losses of windows of a noisy count: one right option, many left ones, both orders of a pair.

The likelihood of an answer s is the sum over left counts of law(count) times the noisy right law
at s - count - own. It is a product of matrices of numbers; logarithms are taken of the largest and
the least ratio alone, and everywhere only where a likelihood would underflow.
"""

from dataclasses import dataclass

import numpy as np

from undertow.bounds.chains.known import Ints
from undertow.numerics import Array
from undertow.progress import spend

__all__ = ["LOGS", "Laws", "Windows", "drift", "windows_of"]

LOGS = 64
"""How much dearer a sum of logarithms is than a multiplication."""

FLOOR = 1e-250
"""Least likelihood that a product is trusted with; terms lost to underflow are far below."""


@dataclass(frozen=True, slots=True)
class Laws:
    """Log-laws of side counts, before and after the noise, and what follows from them.

    ``law`` and ``noisy`` have shape (T + 1, B, k + 1, k, J): distance, which, column (known state
    or open), value of the target, count. ``loss`` (T + 1, B, k + 1, P) is the side loss, ``joint``
    the same for the side together with the target, and ``tails`` (2, ...) the side loss far below
    and far above the counts; -inf marks impossible options. ``likely`` is exp of ``law``.
    """

    law: Array
    noisy: Array
    loss: Array
    joint: Array
    tails: Array
    likely: Array


@dataclass(frozen=True, slots=True)
class Windows:
    """Likelihoods of all answers under the two values of a pair, (options, answers) each.

    As numbers, and as logarithms where ``logs`` says so. ``work`` counts multiplications.
    """

    one: Array
    two: Array
    logs: bool
    work: int

    def extremes(self) -> tuple[Array, Ints, Array, Ints]:
        """Return the largest log-ratio and its answer for either order of the pair, (options,)."""
        # (options, answers)
        ratio = self.one - self.two if self.logs else self.one / self.two
        high, low = ratio.argmax(axis=1), ratio.argmin(axis=1)
        at = np.arange(len(ratio))
        most, least = ratio[at, high], ratio[at, low]
        if not self.logs:
            most, least = np.log(most), np.log(least)
        return most, high, -least, low

    def logarithms(self, options: Ints) -> tuple[Array, Array]:
        """Return ln of the likelihoods of some options, (options, answers) each."""
        one, two = self.one[options], self.two[options]
        return (one, two) if self.logs else (np.log(one), np.log(two))


def windows_of(
    laws: Laws, which: Ints, states: tuple[int, int], own: tuple[int, int], left: Ints, right: int,
    rate: float,
) -> Windows:  # fmt: skip
    """Return the likelihoods of the windows with the left options and one right option.

    Options are flat indices of (distance, column); ``own`` is what the target adds under either
    value. Cost: options times left counts times answers.
    """
    width, columns = laws.law.shape[-1], laws.law.shape[2]
    near, far = int(left.max()) // columns + 1, right // columns + 1
    answers = near + far
    products, parts = [], []
    for state, shift in zip(states, own, strict=True):
        noisy = laws.noisy[:, which[1], :, state].reshape(-1, width)[right, :far]  # (right counts,)
        reach = _reach(noisy, near, shift, rate)
        likely = laws.likely[:, which[0], :, state].reshape(-1, width)[left, :near]
        products.append(likely @ np.exp(reach))  # (left options, answers)
        parts.append(reach)
    work = 2 * len(left) * near * answers
    spend(work + 40 * near * answers, 3)
    if min(float(product.min()) for product in products) >= FLOOR:
        return Windows(products[0], products[1], logs=False, work=work)
    logs = []
    spend(LOGS * work)
    for state, reach in zip(states, parts, strict=True):
        law = laws.law[:, which[0], :, state].reshape(-1, width)[left, :near]
        logs.append(_blend(law, reach))
    return Windows(logs[0], logs[1], logs=True, work=LOGS * work)


def _reach(noisy: Array, near: int, shift: int, rate: float) -> Array:
    """Return ln of the noisy right law at each answer, for each count on the left: (near, answers).

    ``noisy`` covers counts 0 .. len - 1; beyond them it falls off like the noise. The target adds
    ``shift``.
    """
    answers = near + len(noisy)
    place = np.arange(-near - shift, answers)
    inside = np.clip(place, 0, len(noisy) - 1)
    line = noisy[inside] - rate * np.abs(place - inside)
    # the row of left count j begins at place -shift - j, which is entry near - j of the line
    return np.lib.stride_tricks.sliding_window_view(line, answers)[near:0:-1]


def _blend(law: Array, reach: Array) -> Array:
    """Return ln of sum over counts of exp(law + reach), (N, answers)."""
    total = np.full((len(law), reach.shape[1]), -np.inf)
    for count in np.flatnonzero(np.isfinite(law).any(axis=0)):
        total = np.logaddexp(total, law[:, count, None] + reach[count])
    return total


def drift(wave: Array | float, spread: Array | float) -> Array:
    """Return by how much a common record, summed out, can raise a log-ratio, elementwise.

    ln of max E_p[B] / E_q[B] over laws p, q and B > 0 with ln p/q oscillating by at most
    ``wave`` and ln B by at most ``spread``: 2 ln cosh((o + r) / 4) / cosh((o - r) / 4), at most the
    smaller of the two. A linear functional's ratio is largest where B has two values only, and then
    so may p / q.

    >>> drift(2.0, 0.0), round(float(drift(2.0, 2.0)), 6)
    (array(0.), 0.867562)
    """
    less, more = np.minimum(wave, spread), np.maximum(wave, spread)
    with np.errstate(invalid="ignore"):
        # ln cosh u = u + ln(1 + exp(-2 u)) - ln 2 for u >= 0; the larger one may be endless
        curve = np.log1p(np.exp(-(more + less) / 2)) - np.log1p(np.exp(-(more - less) / 2))
    return np.asarray(np.where(np.isinf(less), np.inf, less + 2 * curve))
