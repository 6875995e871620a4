"""The worst adversary of a statistic of Gaussian records: closed forms first, then searches."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from undertow.adversaries import Adversary, Against, within
from undertow.bounds.gaussian.branch_and_bound import EFFORT, branch_and_bound
from undertow.bounds.gaussian.laws import Law
from undertow.bounds.gaussian.numbers import Form, FormValue, GaussianBlock, settle
from undertow.bounds.gaussian.sets import MOST_SETS, all_known_sets, count_sets, sets_cost
from undertow.models.definite import blocks, gamma
from undertow.models.gaussian import MultivariateGaussian
from undertow.numerics import GAP, up

__all__ = ["EFFORT", "Factor", "gaussian_factor"]

_FEW_SETS = 2e5
"""Numbers up to which all known sets are looked at without searching (a cost limit)."""

_ENOUGH = 1e-6
"""Relative width at which an interval of a factor counts as exact (upper side): no search goes on
to narrow a closed form that rounding has widened less than that."""

_EVALUATED = 512
"""Adversaries that are evaluated one by one, exactly (a cost limit)."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A certified interval of a form's largest value, and the adversary that attains ``lower``.

    ``records`` is how many records depend on each other where the worst one may be.
    """

    lower: float
    upper: float
    target: int
    known: tuple[int, ...]
    records: int

    @property
    def exact(self) -> bool:
        """Whether both ends agree as far as anyone needs."""
        return _close(self.lower, self.upper, _ENOUGH)


@lru_cache(maxsize=64)
def gaussian_factor(
    model: MultivariateGaussian, form: Form, against: Against = "any", effort: int = EFFORT
) -> Factor:
    """Return the largest value of a form over the adversaries, as a certified interval.

    For target i and known K the form is built from the coefficients of X_i in the regression of
    its rows on X_K and X_i. Independent blocks of records are searched one by one: by closed form
    where knowing less is provably worse (`_dominated`, `_attractive`), over all known sets where
    they are few, by branch and bound otherwise. The result depends on the effort, never on the
    clock.

    >>> model = MultivariateGaussian(0, [[1, .9, 0], [.9, 1, .3], [0, .3, 1]])
    >>> worst = gaussian_factor(model, Form.linear(np.ones(3)))
    >>> round(worst.upper, 9), worst.target, worst.known
    (2.578947368, 1, (0,))
    """
    found: list[Factor] = []
    for records, law in _laws(model):
        if isinstance(against, Adversary) and against.target not in records:
            continue
        block = GaussianBlock.of(law, Form(form.rows[:, records], form.caps))
        worst, upper = _worst(block, within(against, records), effort)
        known = tuple(records[k] for k in worst.known)
        found.append(Factor(worst.lower, upper, records[worst.target], known, len(records)))
    best = max(found, key=lambda each: each.lower)
    return Factor(
        best.lower,
        max(each.upper for each in found),
        best.target,
        best.known,
        max(each.records for each in found),
    )


@lru_cache(maxsize=16)
def _laws(model: MultivariateGaussian) -> list[tuple[list[int], Law]]:
    """Return the independent blocks of a model, with the inverses that will be made of them."""
    return [(records, Law.of(model.covariance, records)) for records in blocks(model.covariance)]


def _worst(block: GaussianBlock, against: Against, effort: int) -> tuple[FormValue, float]:
    """Return the worst adversary of a block, certified, and an upper end for all of them."""
    if not len(block.form.rows):
        return FormValue(0.0, 0.0, 0, ()), 0.0
    if isinstance(against, Adversary):
        found = block.evaluate(against.target, against.known)
        return found, found.upper
    if against == "informed" or block.size == 1:
        return _informed(block)
    start, upper = _ignorant(block)
    if against == "ignorant":
        return start, upper
    start = max(start, _informed(block)[0], key=lambda each: each.lower)
    ignorant, upper = upper, max(_dominated(block), start.upper)
    if _close(start.lower, upper, _ENOUGH):
        return start, upper
    if not block.sure:
        return _meet(_fragile(block, start), upper)
    upper = max(min(upper, _attractive(block, ignorant)), start.upper)
    if _close(start.lower, upper, _ENOUGH):
        return start, upper
    if sets_cost(block) <= _FEW_SETS:
        return _meet(all_known_sets(block), upper)
    worst, found_upper = branch_and_bound(block, start, effort)
    upper = min(upper, found_upper)
    if not _close(worst.lower, upper, 2 * GAP) and sets_cost(block) <= MOST_SETS:
        return _meet(all_known_sets(block), upper)
    return worst, max(upper, worst.upper)


def _informed(block: GaussianBlock) -> tuple[FormValue, float]:
    """Return the worst target for an adversary who knows all other records: its own weights."""
    # (n,): all others known, own weights
    values = block.values(block.form.rows.T, np.arange(block.size))
    target = int(values.argmax())
    found = block.evaluate(target, [k for k in range(block.size) if k != target])
    return found, max(up(float(values[target]), len(block.form.rows) + 4), found.upper)


def _ignorant(block: GaussianBlock) -> tuple[FormValue, float]:
    """Return the worst target for an adversary who knows nothing: Cov(row, X_i) / Var(X_i)."""
    variances = np.diag(block.covariance)  # (n,)
    values = block.values((block.products / variances).T, np.arange(block.size))  # (n,)
    sizes = np.abs(block.form.rows) @ np.abs(block.covariance) / variances  # (rows, n)
    errors = gamma(block.size + len(block.form.rows) + 8) * sizes.sum(axis=0) * block.scale
    candidates: list[tuple[float, int, tuple[int, ...]]] = [
        (float(value), i, ()) for i, value in enumerate(values)
    ]
    return settle(block, candidates, float(errors.max()), _EVALUATED)


def _dominated(block: GaussianBlock) -> float:
    """Return the value of the ignorant adversary if weak dependence makes it the worst, else inf.

    For a form that sees every record by itself, weights v: if v_s Sigma_ss >= sum over j != s of
    v_j |Sigma_js| for every s, no adversary learns more than an ignorant one. Proof: with M the
    comparison matrix (diagonal of Sigma, minus the absolute values elsewhere), |Sigma_SS^-1| <=
    M_SS^-1, and sum_U v_j |Sigma_js| <= (v_S M_SS)_s, so the unknown records' coefficients on X_i
    satisfy sum_U v_j |beta_j| <= v_i. Learning one more record k changes beta_j by gamma_jk
    beta_k, where the gamma_jk are such coefficients on X_k: sum v_j |gamma_jk| <= v_k, so that no
    more is gained than v_k |beta_k|, which is lost. Equal variances and correlations of at most
    1 / (n - 1) satisfy it. Cost O(n^2). Rounded up.
    """
    if not block.form.alone:
        return math.inf
    weights = np.abs(block.form.rows).sum(axis=0)
    sizes = np.abs(block.covariance) * weights[:, None]  # (n, n): v_j |Sigma_js|
    own = np.diag(sizes)
    # (n,): sum over j != s, rounded up
    others = (sizes.sum(axis=0) - own) * (1 + gamma(2 * block.size + 4))
    if not (own * (1 - gamma(4)) >= others + gamma(block.size) * own).all():
        return math.inf
    free = Form(block.form.rows, np.full(len(block.form.caps), np.inf))
    return _ignorant(GaussianBlock(block.law, free))[1]


def _attractive(block: GaussianBlock, ignorant: float) -> float:
    """Return the value of the ignorant adversary if it is the worst by attraction, else inf.

    If the inverse covariance Q has no positive entry off its diagonal (an M-matrix), perhaps after
    some records have changed their sign, and no row has weights of both signs then, eliminating an
    unknown record u adds -Q_ju w_u / Q_uu >= 0 to every other coefficient and keeps Q an M-matrix:
    the more is unknown, the more is learned. Entries that rounding leaves slightly positive, as in
    Markov sequences, where they are 0, widen the result by their margin, twice. Rounded up.
    """
    covariance, inverse = block.covariance, block.law.precision
    # (n,): the only choice that can make Q attractive
    signs = np.where(covariance[0] < 0, -1.0, 1.0)
    turned = block.form.rows * signs  # (rows, n)
    same = (turned >= 0).all(axis=1) | (turned <= 0).all(axis=1)
    if not same.all():
        return math.inf
    units = np.sqrt(np.diag(inverse.matrix))
    # (n, n), diagonal 1 before it is left out
    scaled = inverse.matrix * signs[:, None] * signs / units[:, None] / units
    np.fill_diagonal(scaled, -1.0)
    above = float(scaled.max(initial=-1.0)) + 4 * inverse.error
    if above <= 0:
        return ignorant
    moved = 2 * above + inverse.error  # an M-matrix lies so near
    if not 4 * moved * block.size < inverse.least:
        return math.inf
    share = moved * (1 + math.sqrt(2 * block.size / inverse.least)) ** 2
    return up(ignorant + 2 * float(block.margin(2 * share).max()))


def _fragile(block: GaussianBlock, start: FormValue) -> tuple[FormValue, float]:
    """Return what is certain about a covariance too close to singular for eliminations.

    All known sets where conditioning is still safe; all adversaries one by one where they are few;
    otherwise |Cov(row, X_i | X_K)| / Var(X_i | X_K) <= sd(row) / sd(X_i | X_K), which is at most
    sd(row) / sqrt(least eigenvalue).
    """
    everyone = range(block.size)
    if math.isfinite(block.dual) and sets_cost(block) <= MOST_SETS:
        return all_known_sets(block)
    if block.size * count_sets(block.size - 1) <= _EVALUATED:
        found = [
            block.evaluate(i, known)
            for i in everyone
            for count in everyone
            for known in combinations([k for k in everyone if k != i], count)
        ]
        return max(found, key=lambda each: each.lower), max(each.upper for each in found)
    # (rows,): sd(row) / sd(X_i | X_K), at most
    reach = block.deviations / math.sqrt(block.law.least) * (1 + 1e-9)
    values = block.values(np.tile(reach, (block.size, 1)), np.arange(block.size))
    return start, max(up(float(values.max()), len(reach) + 4), start.upper)


def _meet(worst: tuple[FormValue, float], upper: float) -> tuple[FormValue, float]:
    return worst[0], max(min(worst[1], upper), worst[0].upper)


def _close(lower: float, upper: float, width: float) -> bool:
    return math.isfinite(upper) and upper - lower <= width * upper
