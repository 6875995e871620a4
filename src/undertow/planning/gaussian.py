"""Noise for statistics of Gaussian records: leakage is factor times range over scale.

Each function answers a `planning.questions.Question` as the registry of methods expects: the noise,
and a function that proves its leakage. The leakage is proportional to 1 / scale, so that no search
is needed.
"""

from collections.abc import Callable
from fractions import Fraction

from undertow.bounds.gaussian.leakages import AnyGaussian, asked, leakage_at
from undertow.bounds.published.gaussian import published_gaussian_factor
from undertow.certificate import Leakage
from undertow.errors import MethodRefused, NothingToProtect
from undertow.mechanisms import Laplace
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.sets import members
from undertow.numerics import divide_up
from undertow.planning.questions import Question
from undertow.queries import Linear, Mean, Sum

__all__ = ["exact", "exchange", "gaussian_bound"]

Solution = tuple[Laplace, Callable[[], Leakage]]


def exact(question: Question) -> Solution:
    """Return the noise at the exact factor of an unclipped linear query, one output or several.

    scale = factor * spread / epsilon, rounded up. Clipped sums have no exact factor: refused.

    >>> from undertow.adversaries import EVERYTHING
    >>> from undertow.planning.questions import Question
    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]])
    >>> noise, prove = exact(Question(Linear([1, 1], spread=10), pair, 1.0, "any", EVERYTHING))
    >>> round(noise.scale, 6), prove().proves(1.0)
    (15.0, True)
    """
    query = question.query
    if not isinstance(query, Linear) or query.lower is not None:
        raise MethodRefused(
            "'exact' knows linear statistics of unclipped Gaussian records, Linear(weights, "
            "spread); clipping makes them another statistic: use method='exchange'"
        )
    return _solved(question, "exact", metric=False)


def exchange(question: Question) -> Solution:
    """Return the noise at which no algorithm of the same l1 rate leaks more than epsilon.

    Proposition 6.1 of [lange2024] with the worst known set; for clipped sums and means the same
    with each record's share capped by the range, which is what they are certified by.

    >>> from undertow.adversaries import EVERYTHING
    >>> from undertow.planning.questions import Question
    >>> pair = MultivariateGaussian(5, [[1, .5], [.5, 1]])
    >>> noise, prove = exchange(Question(Sum(0, 10), pair, 1.0, "any", EVERYTHING))
    >>> round(noise.scale, 4), prove().proves(1.0)
    (15.0, True)
    """
    return _solved(question, "exchange", metric=True)


def gaussian_bound(question: Question) -> Solution:
    """Return the noise of the published Gaussian bound, and the leakage certified for it.

    scale = factor * sensitivity / epsilon with the factor of `published_gaussian_factor` at the
    largest correlation. It assumes equal variances; where they differ the certified leakage may
    exceed epsilon. Proposition 6.4 of [lange2024].

    >>> from undertow.adversaries import EVERYTHING
    >>> from undertow.planning.questions import Question
    >>> pair = MultivariateGaussian([100, 87], [[225, 137], [137, 417]])
    >>> noise, prove = gaussian_bound(Question(Sum(0, 200), pair, 1.0, "any", EVERYTHING))
    >>> prove().lower > 1.0
    True
    """
    query = _statistic(question, "gaussian-bound")
    models = _gaussians(question, "gaussian-bound")
    factor = max(
        published_gaussian_factor(
            model.length, model.rho if isinstance(model, GaussianClass) else
            model.largest_correlation,
        )
        for model in models
    )  # fmt: skip
    mechanism = Laplace(query, factor * query.sensitivity(question.length) / question.epsilon)
    return mechanism, lambda: _proved(question, models, mechanism, metric=False)


def _solved(question: Question, method: str, *, metric: bool) -> Solution:
    query, models = _statistic(question, method), _gaussians(question, method)
    found = [asked(query, model, question.against, metric=metric) for model in models]
    uppers = [each.factor.upper for each in found]
    if max(uppers) == float("inf"):
        raise MethodRefused(
            f"'{method}' finds no finite factor: with correlations this large some records may all "
            "but determine others; give the covariance itself, or clip the records (Sum, Mean)"
        )
    total = max(Fraction(each.factor.upper) * each.moved for each in found)
    if total == 0:
        raise NothingToProtect(
            "the answer does not depend on the target: nothing can leak, and no noise is needed"
        )
    mechanism = Laplace(query, divide_up(total, question.epsilon))
    return mechanism, lambda: _proved(question, models, mechanism, metric=metric)


def _proved(
    question: Question, models: list[AnyGaussian], mechanism: Laplace, *, metric: bool
) -> Leakage:
    """Return the largest leakage over the models, with the witness of the largest lower end."""
    against = question.against
    found = [
        leakage_at(asked(mechanism.query, model, against, metric=metric), mechanism.scale, model,
                   against)
        for model in models
    ]  # fmt: skip
    worst = max(found, key=lambda leak: (leak.upper, leak.lower))
    shown = max(found, key=lambda leak: leak.lower)
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


def _gaussians(question: Question, method: str) -> list[AnyGaussian]:
    """Return the members of the model, all of them Gaussian."""
    found: list[AnyGaussian] = []
    listed: list[object] = list(members(question.model))
    for member in listed:
        if not isinstance(member, MultivariateGaussian | GaussianClass):
            raise MethodRefused(
                f"'{method}' for Gaussian records found another model among them, a "
                f"{type(member).__name__}; use method='group'"
            )
        found.append(member)
    return found
