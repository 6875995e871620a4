"""What noisy statistics of Gaussian records leak: one number, a regression coefficient.

For a query w . X with Laplace noise of scale b, target i and known records K, two values of the
target that differ by M shift the law of w . X, given X_K, by M c with

    c = Cov(w . X, X_i | X_K) / Var(X_i | X_K),

and change nothing else. A shift by M c under Laplace noise of scale b is a leakage of exactly
M |c| / b: far answers attain it. Several outputs add up; algorithms that are d-private in l1 at
rate tau leak at most tau M (1 + sum |beta_j|), beta_j the coefficient of X_i for each unknown
record, and the identity query attains it (Proposition 6.1 of [lange2024]).
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from undertow.adversaries import Adversary, Against, check_against, check_records
from undertow.bounds.gaussian.classes import class_factor
from undertow.bounds.gaussian.clipped import clipped_attack
from undertow.bounds.gaussian.numbers import Form
from undertow.bounds.gaussian.search import EFFORT, Factor, gaussian_factor
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import Laplace, Mechanism, MetricDP, PureDP
from undertow.models.definite import blocks
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.numerics import Array, check_positive, divide_up, down
from undertow.queries import STEPS, Linear, Mean, Query, Sum

__all__ = ["Statistic", "asked", "leakage", "leakage_at"]

AnyGaussian = MultivariateGaussian | GaussianClass

_MODEL = "the records are jointly Gaussian with the stated covariance"
_THEORY = "docs, theory: Gaussian records"


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic of Gaussian records and its certified factor.

    With noise of scale b (or at rate 1 / b) it leaks at most ``factor.upper`` times ``moved`` / b;
    ``attained`` says whether ``factor.lower`` is reached as well. Records are clipped to ``clip``
    where that is given, and weighed by ``weights``.
    """

    factor: Factor
    moved: Fraction
    spread: float
    method: str
    assumptions: tuple[str, ...]
    citation: str
    attained: bool = True
    clip: tuple[float, float] | None = None
    weights: tuple[float, ...] = ()


def leakage(
    mechanism: Mechanism,
    model: AnyGaussian,
    against: Against = "any",
    *,
    spread: float | None = None,
    effort: int = EFFORT,
) -> Leakage:
    """Return what a mechanism reveals about one Gaussian record, as a certified interval.

    Parameters
    ----------
    mechanism
        `Laplace` of a `Linear` query (exact, one output or several), of a `Sum` or `Mean` of
        clipped records or a `Linear` one with a range (by their own bound), or of a `Query`;
        `MetricDP` (all d-private algorithms at once); `PureDP` (only the general bound).
    model
        A `MultivariateGaussian`, or a class ``MultivariateGaussian.bounded(n, rho)``.
    against
        ``"any"`` (default), ``"ignorant"``, ``"informed"`` or an `Adversary`.
    spread
        For `MetricDP`: how far two values of a record may lie apart, by default the model's.
    effort
        How hard to search for the worst known set where no closed form applies.

    >>> from undertow.queries import Linear
    >>> model = MultivariateGaussian(0, [[1, .9, 0], [.9, 1, .3], [0, .3, 1]])
    >>> leak = leakage(Laplace(Linear([1, 1, 1], spread=1.0), scale=1.0), model)
    >>> round(leak.upper, 6), leak.witness.target, leak.witness.known
    (2.578947, 1, ((0, 0.0),))
    """
    against = check_against(against)
    check_records(against, model.length)
    if isinstance(mechanism, PureDP):
        return _general(mechanism.epsilon, model, against)
    if isinstance(mechanism, MetricDP):
        wide = spread if spread is not None else model.spread
        if wide is None:
            raise NotSupported(
                "metric privacy bounds the leakage per unit of difference, and Gaussian values lie "
                "any distance apart; say how far two values of a record may differ: "
                "MultivariateGaussian(..., spread=...)"
            )
        question = _metric(check_positive(wide, "spread"), model, against, effort)
        return _told(question, Fraction(mechanism.rate), model, against)
    if not isinstance(mechanism, Laplace):
        raise NotSupported(
            f"{type(mechanism).__name__} has no leakage on Gaussian records, which are real "
            "numbers: use Laplace(Sum(lower, upper), scale), Laplace(Linear(...), scale), "
            "MetricDP or PureDP"
        )
    if isinstance(mechanism.query, Query):
        level = divide_up(Fraction(mechanism.query.sensitivity_upper()), mechanism.scale)
        return _general(level, model, against, attained=False)
    question = asked(mechanism.query, model, against, effort=effort)
    return leakage_at(question, mechanism.scale, model, against)


def asked(
    query: object,
    model: AnyGaussian,
    against: Against,
    *,
    metric: bool = False,
    effort: int = EFFORT,
) -> Statistic:
    """Return the factor of a query; with ``metric`` that of all algorithms of the same rate.

    >>> model = MultivariateGaussian.bounded(3, 0.275)
    >>> round(asked(Linear([1, 1, 1], spread=1.0), model, "any").factor.upper, 6)
    1.55
    """
    size = model.length
    if isinstance(query, Linear):
        if query.records != size:
            raise InvalidInput(f"{query.records} weights do not fit {size} records")
        heights = np.abs(np.atleast_2d(query.weights)).sum(axis=0)  # (n,): l1 over the outputs
        if query.lower is not None:
            ends = (float(query.lower), float(query.lower + query.spread))
            moved = Fraction(query.spread)
            return _clipped(query.weights, heights, ends, moved, STEPS, model, against, effort)
        if metric:
            whole = _metric(query.spread, model, against, effort)
            return replace(whole, moved=Fraction(query.sensitivity_upper()))
        factor = _factor(model, Form.linear(query.weights), against, effort)
        method = "exact" if factor.exact else "branch-and-bound"
        return Statistic(
            factor, Fraction(query.spread), query.spread,
            method if isinstance(model, MultivariateGaussian) else "bounded",
            (_law(model), _apart(query.spread)), _THEORY,
        )  # fmt: skip
    if isinstance(query, Sum | Mean):
        ends = (float(query.lower), float(query.upper))
        moved = Fraction(query.upper) - Fraction(query.lower)
        moved = moved if isinstance(query, Sum) else moved / size
        return _clipped(
            np.ones(size), np.ones(size), ends, moved, query.steps, model, against, effort
        )  # fmt: skip
    raise NotSupported(
        f"{type(query).__name__} asks for states, and Gaussian records are real numbers; ask for a "
        "Sum, a Mean or a Linear statistic"
    )


def leakage_at(question: Statistic, scale: float, model: AnyGaussian, against: Against) -> Leakage:
    """Return the leakage of a statistic with Laplace noise of the given scale."""
    told = _told(question, 1 / Fraction(scale), model, against)
    if question.clip is None or not isinstance(model, MultivariateGaussian):
        return told
    unit = float(question.moved / (Fraction(question.clip[1]) - Fraction(question.clip[0])))
    weights = np.array(question.weights) * unit
    attack = clipped_attack(model, weights, question.clip, scale, against)
    if attack is None:
        return told
    loss, witness = attack
    return replace(told, lower=min(loss, told.upper), witness=witness)


def _told(question: Statistic, rate: Fraction, model: AnyGaussian, against: Against) -> Leakage:
    """Return the leakage factor * moved * rate, rounded outwards."""
    factor, total = question.factor, question.moved * rate
    upper, lower, witness = math.inf, 0.0, None
    if math.isfinite(factor.upper):
        upper = divide_up(Fraction(factor.upper) * total, 1.0)  # one rounding, upwards
    if question.attained:
        lower = min(max(down(float(Fraction(factor.lower) * total), 2), 0.0), upper)
        witness = _witness(factor, model, question.spread)
    return Leakage(
        lower, upper, question.method, against, witness, question.assumptions, question.citation
    )  # fmt: skip


def _factor(model: AnyGaussian, form: Form, against: Against, effort: int) -> Factor:
    if isinstance(model, GaussianClass):
        return class_factor(model, form, against)
    return gaussian_factor(model, form, against, effort)


def _metric(spread: float, model: AnyGaussian, against: Against, effort: int) -> Statistic:
    """Return 1 + sum |beta_j| at its worst: the factor of all d-private algorithms of a rate."""
    form = Form.apart(np.ones(model.length), clipped=False)
    factor = _factor(model, form, against, effort)
    return Statistic(
        factor, Fraction(spread), spread, "metric",
        (_law(model), "the algorithm is d-private in l1 (epsilon-DP alone does not suffice)",
         _apart(spread)),
        "Proposition 6.1 of [lange2024]",
    )  # fmt: skip


def _clipped(
    weights: Array, heights: Array, ends: tuple[float, float], moved: Fraction, steps: int,
    model: AnyGaussian, against: Against, effort: int,
) -> Statistic:  # fmt: skip
    """Return the factor max over K, i of v_i + sum over U of v_j min(1, |beta_j|).

    Clipped to a range of width M, unknown record j moves by at most min(M, |beta_j| M), whatever
    the others do, if the target's two values differ by at most M. The factor never exceeds the
    group's. Records are rounded to steps of the range before they are added: each moves by up to
    two steps more. What is exact for the unclipped sum may be too little for the clipped one.
    """
    factor = _factor(model, Form.apart(heights, clipped=True), against, effort)
    # two steps for each record that may move
    pad = 2 * Fraction(factor.records) * Fraction(float(heights.max())) / steps
    # Theorem 4.2 of [lange2024], weighed
    group = sum(map(Fraction, sorted(heights.tolist())[-factor.records :]))
    if against == "informed":
        pad, group = Fraction(0), Fraction(float(heights.max()))
    upper = divide_up(min(Fraction(factor.upper) + pad, Fraction(group)), 1.0)
    values = f"records are clipped to [{ends[0]:g}, {ends[1]:g}], as wide as two values of the "
    return Statistic(
        replace(factor, lower=min(factor.lower, upper), upper=upper),
        moved, ends[1] - ends[0], "clipped", (_law(model), values + "target differ at most"),
        _THEORY,
        attained=isinstance(model, GaussianClass),
        clip=ends if weights.ndim == 1 else None,
        weights=tuple(weights.ravel().tolist()),
    )  # fmt: skip


def _general(
    level: float, model: AnyGaussian, against: Against, *, attained: bool = True
) -> Leakage:
    """Return the general bound: the DP level times the number of dependent records.

    An epsilon-DP algorithm may react to a threshold rather than gradually, and Gaussian values that
    lie far apart push all dependent records over theirs: if no spread is given, the bound is
    approached, by as many records as correlate with one target.
    """
    most = 1 if against == "informed" else model.dependent_records()
    if isinstance(against, Adversary):
        groups = [[*range(model.length)]] if most > 1 else [[against.target]]
        if isinstance(model, MultivariateGaussian):
            groups = blocks(model.covariance)
        mine = next(group for group in groups if against.target in group)
        most = len({*mine} - {*against.known})
    reached = 1
    if attained and model.spread is None and against in ("any", "ignorant"):
        reached = most
        if isinstance(model, MultivariateGaussian):  # those that correlate with one record
            reached = int((model.covariance != 0).sum(axis=1).max())
    upper = divide_up(Fraction(most) * Fraction(level), 1.0)
    lower = math.nextafter(float(Fraction(reached) * Fraction(level)), 0.0) if attained else 0.0
    said = f"at most {most} records depend on each other, in any way: a DP level alone says no more"
    return Leakage(
        min(lower, upper), upper, "group", against,
        assumptions=(f"{said} about Gaussian records; MetricDP and Laplace noise on sums do",),
        citation="Theorem 4.2 of [lange2024]",
    )  # fmt: skip


def _witness(factor: Factor, model: AnyGaussian, spread: float) -> Witness:
    """Return the adversary with values half the spread on either side of the mean."""
    mean = model.mean if isinstance(model, MultivariateGaussian) else np.zeros(model.length)
    centre, half = float(mean[factor.target]), spread / 2
    return Witness(
        factor.target, model.length, tuple((k, float(mean[k])) for k in factor.known),
        centre + half, centre - half,
    )  # fmt: skip


def _law(model: AnyGaussian) -> str:
    return _MODEL if isinstance(model, MultivariateGaussian) else model.describe()


def _apart(spread: float) -> str:
    return f"two values of the target differ by at most {spread:g}"
