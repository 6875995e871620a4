"""An attack on clipped sums of Gaussian records: what far answers say if one record is unknown."""

import math

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.certificate import Witness
from undertow.models.definite import blocks
from undertow.models.gaussian import MultivariateGaussian
from undertow.numerics import Array, down

__all__ = ["clipped_attack", "far_answer_loss"]

_PAIRS = 48
"""Pairs of a target and an unknown record that are tried (a cost limit on the lower end)."""

_ERROR = 1e-11
"""Relative error allowed to sums of exponentials and normal probabilities (lower side)."""

_NEGLIGIBLE = 1e-9
"""Entries of the inverse covariance, in units of its diagonal, that may as well be rounding."""


_WORST = 1e5
"""Largest condition number of the correlations at which plain inverses are believed to `_ERROR`."""


def clipped_attack(
    model: MultivariateGaussian,
    weights: Array,
    clip: tuple[float, float],
    scale: float,
    against: Against,
) -> tuple[float, Witness] | None:
    """Return the loss and the attack on the sum of weights[t] * clip(X_t) with Laplace noise.

    The attacker knows all records of the target's block but one, compares the two ends of the
    range, and waits for an answer far out on either side. With n = 2 this is the leakage itself
    wherever the worst answer is a far one. The known values put the unknown record in the middle of
    the range where some known record moves it. The loss is rounded down. None against adversaries
    who leave more than one record unknown.
    """
    covariance, size = model.covariance, model.length
    if np.linalg.cond(covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))) > (
        _WORST
    ):
        return None
    inverse: Array = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    units = np.sqrt(np.diag(inverse))  # (n,): 1 / sd(X_j | all others)
    found: list[tuple[float, Witness]] = []
    for records in blocks(covariance):
        for target, unknown in _pairs(records, weights, inverse, against):
            known = [k for k in records if k not in (target, unknown)]
            if isinstance(against, Adversary):
                known = [k for k in known if k in against.known]
            middle = None if unknown is None else _moving(inverse[unknown], unknown, known, units)
            found.append(
                _attack(model, weights, clip, scale, inverse, target, unknown, known, middle)
            )
    if against == "ignorant" and size > 1:
        found = [(loss, attack) for loss, attack in found if not attack.known]
    return max(found, key=lambda each: each[0], default=None)


def far_answer_loss(
    weights: tuple[float, float], clip: tuple[float, float], means: tuple[float, float],
    sd: float, scale: float,
) -> float:  # fmt: skip
    """Return the leakage of far answers about a target at the upper against the lower end.

    ``weights`` are those of the target and of the unknown record, ``means`` the unknown record's
    means given the upper and the lower end, ``sd`` its deviation. With Z the answer and s far out,
    Pr[s | x] is proportional to exp(+-w_i x / b) E[exp(+-w_j clip(X_j) / b) | x].

    >>> round(far_answer_loss((1, 1), (0, 10), (7.5, 2.5), 0.8660254, scale=10.0), 6)
    1.499898
    """
    own, other = weights
    low, high = clip
    best = 0.0
    for sign in (1.0, -1.0):
        tilt = sign * other / scale  # far answers weigh clip(X_j) by e^(tilt clip)
        moved = _log_moment(tilt, clip, means[0], sd) - _log_moment(tilt, clip, means[1], sd)
        best = max(best, abs(sign * own * (high - low) / scale + moved))
    return best


def _pairs(
    records: list[int], weights: Array, inverse: Array, against: Against
) -> list[tuple[int, int | None]]:
    """Return targets and the one record that is unknown besides; None where all are known."""
    heavy = [t for t in records if weights[t]]
    if against == "informed" or len(records) == 1:
        return [(t, None) for t in heavy]
    if isinstance(against, Adversary):
        left = [t for t in records if t != against.target and t not in against.known]
        if against.target not in records or len(left) > 1:
            return []
        return [(against.target, left[0] if left else None)]
    if against == "ignorant" and len(records) > 2:
        return []
    both = [(i, j) for i in records for j in records if i != j]
    worth = {
        (i, j): abs(weights[i])
        + abs(weights[j]) * min(1.0, abs(inverse[i, j] / inverse[j, j]))
        for i, j in both
    }  # fmt: skip
    chosen: list[tuple[int, int | None]] = list(sorted(both, key=worth.__getitem__)[-_PAIRS:])
    return [*chosen, *((t, None) for t in heavy if against != "ignorant")]


def _moving(row: Array, unknown: int, known: list[int], units: Array) -> int | None:
    """Return the known record that moves the unknown one most; None where none surely does."""
    sizes = {k: abs(float(row[k])) for k in known}
    sure = [k for k in known if sizes[k] > _NEGLIGIBLE * float(units[unknown] * units[k])]
    return max(sure, key=sizes.__getitem__, default=None)


def _attack(
    model: MultivariateGaussian, weights: Array, clip: tuple[float, float], scale: float,
    inverse: Array, target: int, unknown: int | None, known: list[int], middle: int | None,
) -> tuple[float, Witness]:  # fmt: skip
    """Return the attack on one target with one record unknown, or none."""
    low, high = clip
    values = {k: float(model.mean[k]) for k in known}
    own = float(weights[target])
    if unknown is None:
        loss = abs(own) * (high - low) / scale
    else:
        conditional = -inverse[unknown] / inverse[unknown, unknown]  # (n,): coefficients
        slope, sd = float(conditional[target]), 1 / math.sqrt(float(inverse[unknown, unknown]))
        centre = float(model.mean[unknown]) + slope * ((low + high) / 2 - float(model.mean[target]))
        if middle is not None:
            values[middle] += ((low + high) / 2 - centre) / float(conditional[middle])
            centre = (low + high) / 2
        half, other = slope * (high - low) / 2, float(weights[unknown])
        means = centre + half, centre - half
        loss = 0.0
        if (high - low) * abs(other) / scale <= 500:  # beyond, its exponential is no float
            loss = far_answer_loss((own, other), clip, means, sd, scale)
    safe = max(down(loss) - _ERROR * max(1.0, loss), 0.0)
    return safe, Witness(target, model.length, tuple(values.items()), float(high), float(low))


def _log_moment(tilt: float, clip: tuple[float, float], mean: float, sd: float) -> float:
    """Return ln E[exp(tilt (clip(X) - low))] for X Gaussian, up to rounding."""
    low, high = clip
    first, last = (low - mean) / sd, (high - mean) / sd
    # mass clipped to either end
    ends = _below(first) + math.exp(tilt * (high - low)) * _below(-last)
    # completing the square moves the mean by tilt sd^2
    power = tilt * (mean - low) + (tilt * sd) ** 2 / 2
    inside = _between(first - tilt * sd, last - tilt * sd)
    middle = math.exp(power + math.log(inside)) if inside > 0 else 0.0
    return math.log(ends + middle)


def _below(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2


def _between(low: float, high: float) -> float:
    return _below(-low) - _below(-high) if low > 0 else _below(high) - _below(low)
