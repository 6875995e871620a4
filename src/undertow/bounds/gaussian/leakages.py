"""Leakage of noisy statistics of Gaussian records.

A value of the target shifts w . X, given the known records, by its regression coefficient, and far
answers attain the shift over the scale; for algorithms that are d-private in l1 the coefficients
of all unknown records add (Proposition 6.1 of [lange2024]; docs, theory: Gaussian records).
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from undertow.adversaries import Adversary, Against, check_against, check_records
from undertow.bounds.gaussian.search import EFFORT, Factor, Form, gaussian_factor
from undertow.bounds.protocol import AnswerProver, Prover
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import Laplace, Mechanism, MetricDP, PureDP
from undertow.models.gaussian import GaussianClass, MultivariateGaussian, blocks, gamma
from undertow.numerics import Array, check_positive, divide_up, down, up
from undertow.queries import STEPS, Linear, Mean, Query, Sum

__all__ = [
    "PROVERS",
    "Statistic",
    "class_factor",
    "clipped_attack",
    "far_answer_loss",
    "leakage",
    "leakage_at",
    "statistic_of",
]


def class_factor(model: GaussianClass, form: Form, against: Against = "any") -> Factor:
    """Return the largest value of a form over a class of covariances, as a certified interval.

    With v the weights of the records (column sums of |rows|), s the standard deviations and k
    known records, the unknown records' coefficients on X_i satisfy |beta_j| <= (s_j / s_i) rho /
    (1 - k rho): the correlation matrix of known records and target is I + E with column sums of
    |E| at most k rho, hence the column of its inverse sums to at most 1 / (1 - k rho). So

        max over i, k, U with n - 1 - k records of  v_i + sum over U of v_j min(cap, |beta_j|),

    where the worst U has the largest terms. k = 0 is attained by equal correlations with the signs
    of the weights, so that the bound is exact where k = 0 is the worst: for equal variances and
    weights if rho <= 1 / (n - 1), where it is 1 + (n - 1) rho. Unclipped forms are unbounded if
    n - 2 known records can be nearly collinear (rho >= 1 / (n - 2)); clipped ones never exceed
    the sum of the weights. Cost O(n^3 ln n) with clipping, O(n^2 ln n) otherwise.

    Differs from the paper: Theorem 6.2 of [lange2024] has n^2 / (4 (1 / rho - n + 2)) + 1 for equal
    variances, which is larger.

    >>> model = GaussianClass(5, 0.2)
    >>> round(class_factor(model, Form.apart(np.ones(5), clipped=False)).upper, 9)
    1.8
    """
    size, rho = model.length, model.rho
    weights = np.abs(form.rows).sum(axis=0)  # (n,): v_j
    if len(form.rows) > 1 and not form.alone:
        weights = weights * (1 + gamma(len(form.rows) + 2))
    clipped = bool(np.isfinite(form.caps).all())
    sds = np.ones(size) if model.sds is None else np.array(model.sds)
    targets = [against.target] if isinstance(against, Adversary) else list(range(size))
    best, target = 0.0, targets[0]
    for i in targets:
        others = np.delete(np.arange(size), i)  # (n - 1,)
        if isinstance(against, Adversary):
            left = np.array([j for j in others if j not in against.known], dtype=np.intp)
            others_sum = _sums(weights[left], sds[left] / sds[i], rho, len(against.known), clipped)[
                -1
            ]
        elif against == "informed":
            others_sum = 0.0
        elif against == "ignorant":
            others_sum = _sums(weights[others], sds[others] / sds[i], rho, 0, clipped)[-1]
        else:
            others_sum = _worst(weights[others], sds[others] / sds[i], rho, clipped)
        if weights[i] + others_sum > best:
            best, target = float(weights[i] + others_sum), i
    known = against.known if isinstance(against, Adversary) else ()
    if against == "informed":
        known = tuple(k for k in range(size) if k != target)
    alike = not (clipped or known)
    values = [_attained(form, sds, rho if alike else 0.0, i) for i in targets]
    lower = max(down(max(values), 4 * size + 4 * len(form.rows) + 16), 0.0)
    upper = max(up(best, 4 * size + 16), lower)
    shown = targets[int(np.argmax(values))]
    return Factor(lower, upper, shown, known, size if rho else 1)


def _sums(weights: Array, ratios: Array, rho: float, known: int, clipped: bool) -> Array:
    """Return 0 and the sums of the 1, 2, ... largest terms where so many records are known."""
    # 1 - k rho: the inverse's column sums to at most 1 / room
    room = down(1 - up(known * rho)) if known else 1.0
    slope = up(rho / room) if room > 0 else math.inf
    if slope == 0 or not len(weights):
        return np.zeros(len(weights) + 1)
    bounds = ratios * slope  # (others,): |beta_j| at most
    with np.errstate(invalid="ignore"):
        terms = weights * (np.minimum(bounds, 1.0) if clipped else bounds)
    terms = np.sort(np.where(weights > 0, terms, 0.0))[::-1]  # largest first: the worst U
    return np.concatenate([[0.0], np.cumsum(terms)])


def _worst(weights: Array, ratios: Array, rho: float, clipped: bool) -> float:
    """Return the largest sum over the unknown records, over the number of known ones."""
    size = len(weights)
    if clipped:
        return max(
            (float(_sums(weights, ratios, rho, k, True)[size - k]) for k in range(size)),
            default=0.0,
        )
    plain = _sums(weights, ratios, 1.0, 0, False)  # the same order for every number of known ones
    best = 0.0
    for k in range(size):
        room = down(1 - up(k * rho)) if k else 1.0
        if plain[size - k] > 0 and rho > 0:
            best = max(best, up(rho / room) * float(plain[size - k]) if room > 0 else math.inf)
    return best


def _attained(form: Form, sds: Array, rho: float, i: int) -> float:
    """Return the value about one target where all correlations are rho (0: independent records).

    Nothing is known, and records may change their sign to suit the weights of a single row.
    Independent records give the target's own weights to every adversary.
    """
    rows = np.abs(form.rows) if len(form.rows) == 1 or form.alone else form.rows
    others = np.delete(rows * sds, i, axis=1).sum(axis=1)  # (rows,)
    return float(np.abs(rows[:, i] + rho * others / sds[i]).sum())


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
    attacks: list[tuple[float, Witness]] = []
    for records in blocks(covariance):
        for target, unknown in _pairs(records, weights, inverse, against):
            known = [k for k in records if k not in (target, unknown)]
            if isinstance(against, Adversary):
                known = [k for k in known if k in against.known]
            middle = None if unknown is None else _moving(inverse[unknown], unknown, known, units)
            attacks.append(
                _attack(model, weights, clip, scale, inverse, target, unknown, known, middle)
            )
    if against == "ignorant" and size > 1:
        attacks = [(loss, attack) for loss, attack in attacks if not attack.known]
    return max(attacks, key=lambda each: each[0], default=None)


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
    """Compute the leakage of a mechanism about one Gaussian record, as a certified interval.

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
        return _leakage_at_rate(question, Fraction(mechanism.rate), model, against)
    if not isinstance(mechanism, Laplace):
        raise NotSupported(
            f"{type(mechanism).__name__} has no leakage on Gaussian records, which are real "
            "numbers: use Laplace(Sum(lower, upper), scale), Laplace(Linear(...), scale), "
            "MetricDP or PureDP"
        )
    if isinstance(mechanism.query, Query):
        level = divide_up(Fraction(mechanism.query.sensitivity_upper()), mechanism.scale)
        return _general(level, model, against, attained=False)
    question = statistic_of(mechanism.query, model, against, effort=effort)
    return leakage_at(question, mechanism.scale, model, against)


def statistic_of(
    query: object,
    model: AnyGaussian,
    against: Against,
    *,
    metric: bool = False,
    effort: int = EFFORT,
) -> Statistic:
    """Return the factor of a query; with ``metric`` that of all algorithms of the same rate.

    >>> model = MultivariateGaussian.bounded(3, 0.275)
    >>> round(statistic_of(Linear([1, 1, 1], spread=1.0), model, "any").factor.upper, 6)
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
    bracket = _leakage_at_rate(question, 1 / Fraction(scale), model, against)
    if question.clip is None or not isinstance(model, MultivariateGaussian):
        return bracket
    unit = float(question.moved / (Fraction(question.clip[1]) - Fraction(question.clip[0])))
    weights = np.array(question.weights) * unit
    attack = clipped_attack(model, weights, question.clip, scale, against)
    if attack is None:
        return bracket
    loss, witness = attack
    return replace(bracket, lower=min(loss, bracket.upper), witness=witness)


def _leakage_at_rate(
    question: Statistic, rate: Fraction, model: AnyGaussian, against: Against
) -> Leakage:
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
    note = f"at most {most} records depend on each other, in any way: a DP level alone says no more"
    return Leakage(
        min(lower, upper), upper, "group", against,
        assumptions=(f"{note} about Gaussian records; MetricDP and Laplace noise on sums do",),
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


PROVERS: tuple[Prover, ...] = (
    AnswerProver("gaussian", MultivariateGaussian, leakage),
    AnswerProver("gaussian class", GaussianClass, leakage),
)
