"""Scaled for statistics of Gaussian records: leakage is factor times range over scale.

Each method is a pair of functions, as the registry of methods expects: one returns the noise that
answers a `planning.questions.Question`, ``prove_...`` what is certified for a given noise. The
leakage is proportional to 1 / scale, so that no search is needed.
"""

from dataclasses import replace
from fractions import Fraction

from undertow.bounds.gaussian.leakages import AnyGaussian, leakage_at, statistic_of
from undertow.bounds.published import published_gaussian_factor
from undertow.certificate import Leakage
from undertow.errors import MethodRefused, NothingToProtect
from undertow.mechanisms import Laplace
from undertow.models.gaussian import GaussianClass
from undertow.numerics import divide_up
from undertow.planning.budget import aim
from undertow.planning.questions import Question, Remembered, Scaled, noise_solver
from undertow.queries import Linear, Mean, Sum

__all__ = ["BOUND", "EXACT", "EXCHANGE"]


def exact(question: Question) -> Laplace:
    """Return the noise at the exact factor of an unclipped linear query, one output or several.

    scale = factor * spread / limit, rounded up. Clipped sums have no exact factor: refused.

    >>> from undertow.secrets import ONE_RECORD
    >>> from undertow import MultivariateGaussian
    >>> from undertow.planning.questions import Question
    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]])
    >>> question = Question(Linear([1, 1], spread=10), pair, 1.0, "any", ONE_RECORD)
    >>> noise = exact(question)
    >>> round(noise.scale, 6), prove_exact(question, noise).proves(1.0)
    (15.0, True)
    """
    _unclipped(question)
    return _solved(question, "exact", metric=False)


@Remembered
def prove_exact(question: Question, noise: Scaled) -> Leakage:
    """Return the exact leakage of an unclipped linear query."""
    _unclipped(question)
    return _proved(question, "exact", noise, metric=False)


def _unclipped(question: Question) -> None:
    if not isinstance(question.query, Linear) or question.query.lower is not None:
        raise MethodRefused(
            "'exact' knows linear statistics of unclipped Gaussian records, Linear(weights, "
            "spread); clipping makes them another statistic: use method='exchange'"
        )


def exchange(question: Question) -> Laplace:
    """Return the noise at which no algorithm of the same l1 rate leaks more than limit.

    Proposition 6.1 of [lange2024] with the worst known set; for clipped sums and means the same
    with each record's share capped by the range, which is what they are certified by.

    >>> from undertow.secrets import ONE_RECORD
    >>> from undertow import MultivariateGaussian
    >>> from undertow.planning.questions import Question
    >>> pair = MultivariateGaussian(5, [[1, .5], [.5, 1]])
    >>> question = Question(Sum(0, 10), pair, 1.0, "any", ONE_RECORD)
    >>> noise = exchange(question)
    >>> round(noise.scale, 4), prove_exchange(question, noise).proves(1.0)
    (15.0, True)
    """
    return _solved(question, "exchange", metric=True)


@Remembered
def prove_exchange(question: Question, noise: Scaled) -> Leakage:
    """Return what all algorithms of the l1 rate of a noise could leak."""
    return replace(_proved(question, "exchange", noise, metric=True), valid_for="any")


def gaussian_bound(question: Question) -> Laplace:
    """Return the noise of the published Gaussian bound.

    scale = factor * sensitivity / limit with the factor of `published_gaussian_factor` at the
    largest correlation. It assumes equal variances; where they differ the certified leakage may
    exceed limit. Proposition 6.4 of [lange2024].

    >>> from undertow.secrets import ONE_RECORD
    >>> from undertow import MultivariateGaussian
    >>> from undertow.planning.questions import Question
    >>> pair = MultivariateGaussian([100, 87], [[225, 137], [137, 417]])
    >>> question = Question(Sum(0, 200), pair, 1.0, "any", ONE_RECORD)
    >>> prove_gaussian_bound(question, gaussian_bound(question)).lower > 1.0
    True
    """
    query = _statistic(question, "gaussian-bound")
    models = _gaussians(question)
    factor = max(
        published_gaussian_factor(
            model.length, model.rho if isinstance(model, GaussianClass) else
            model.largest_correlation,
        )
        for model in models
    )  # fmt: skip
    return Laplace(query, factor * query.sensitivity(question.length) / question.limit)


@Remembered
def prove_gaussian_bound(question: Question, noise: Scaled) -> Leakage:
    """Return the certified leakage of the noise of the published bound."""
    return _proved(question, "gaussian-bound", noise, metric=False)


def _solved(question: Question, method: str, *, metric: bool) -> Laplace:
    query, models = _statistic(question, method), _gaussians(question)
    factors = [statistic_of(query, model, question.against, metric=metric) for model in models]
    uppers = [each.factor.upper for each in factors]
    if max(uppers) == float("inf"):
        raise MethodRefused(
            f"'{method}' finds no finite factor: with correlations this large some records may all "
            "but determine others; give the covariance itself, or clip the records (Sum, Mean)"
        )
    total = max(Fraction(each.factor.upper) * each.moved for each in factors)
    if total == 0:
        raise NothingToProtect(
            "the answer does not depend on the target: nothing can leak, and no noise is needed"
        )
    return Laplace(query, divide_up(total, aim(question.limit)))


def _proved(question: Question, method: str, noise: Scaled, *, metric: bool) -> Leakage:
    """Return the largest leakage over the models, with the witness of the largest lower end."""
    against, query = question.against, _statistic(question, method)
    bounds = [
        leakage_at(statistic_of(query, model, against, metric=metric), noise.scale, model, against)
        for model in _gaussians(question)
    ]
    worst = max(bounds, key=lambda leak: (leak.upper, leak.lower))
    shown = max(bounds, key=lambda leak: leak.lower)
    notes = worst.assumptions
    if worst.method == "metric":
        notes = (
            *notes,
            "the lower end and the witness are those of the worst algorithm of this rate",
        )
    return Leakage(
        shown.lower, worst.upper, worst.method, against, shown.witness, notes, worst.citation
    )


def _statistic(question: Question, method: str) -> Sum | Mean | Linear:
    if isinstance(question.query, Sum | Mean | Linear):
        return question.query
    raise MethodRefused(
        f"'{method}' knows sums, means and linear statistics of Gaussian records, not "
        f"{type(question.query).__name__}; use method='group'"
    )


def _gaussians(question: Question) -> list[AnyGaussian]:
    """Return the members of the model; the registry sends no other here."""
    return list(question.model.members())  # type: ignore[arg-type]


EXACT = noise_solver(exact, prove_exact)
EXCHANGE = noise_solver(exchange, prove_exchange)
BOUND = noise_solver(gaussian_bound, prove_gaussian_bound)
