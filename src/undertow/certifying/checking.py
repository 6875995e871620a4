"""The check of a certificate: one sweep for every ratio that it names, rounded up.

No search happens here: the certificate names the ratios mu, and a gain s is proved for an option
if some sweep c_1 = K(x, .) - mu K(x', .), c_{t+1} = m(c_t) K ends as docs/certificates.md, "The
mathematics of the check", requires, and mu Pr[option | x'] <= e^s Pr[option | x].
"""

import math
from typing import NamedTuple

import numpy as np

from undertow.certifying.arithmetic import (
    Bools,
    Interval,
    Ints,
    exp_lower,
    normalised,
    powers,
    product,
    stationary,
)
from undertow.certifying.counting import counted_upper
from undertow.certifying.document import Certificate, CertifiedClaim, SideProof, parse
from undertow.errors import InvalidCertificate
from undertow.numerics import Array

__all__ = ["checked_upper", "own_losses", "spending", "verify"]


def verify(certificate: Certificate | str | bytes) -> float:
    """Return the upper end that a certificate proves, or refuse a claim below it.

    Shares no code with the bounds that found it. Cost O(mus k^2 steps); for counts
    O(k^3 steps^2). Raises `InvalidCertificate` where the file is malformed, a step of the proof
    does not hold, or the claim is less than what is proved.

    >>> from undertow import MarkovChain, PureDP, certify
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> certificate = certify(PureDP(1.0), chain)
    >>> verify(certificate.to_json()) <= certificate.upper
    True
    """
    if not isinstance(certificate, Certificate):
        certificate = parse(certificate)
    proved = checked_upper(certificate)
    if not proved <= certificate.upper:
        raise InvalidCertificate(
            f"the certificate claims an upper end of {certificate.upper!r}; its proof gives "
            f"{proved!r}"
        )
    return proved


def checked_upper(certificate: Certificate) -> float:
    """Return the upper end that the proof gives, whatever is claimed."""
    claim = certificate.claim
    own = own_losses(claim, certificate.own)
    if certificate.proof == "level":
        return float(own.max())
    chain = normalised(np.array(claim.transition))
    if certificate.proof == "counts":
        return counted_upper(claim, chain, certificate.steps)[0]
    table = powers(chain, certificate.steps)
    laws = _laws(claim, chain, table)
    spend = spending(claim)
    for left, sides in ((True, certificate.left), (False, certificate.right)):
        _check(_side(claim, chain, table, laws, spend, left), sides)
    size = claim.size
    rooms = 1 if claim.length is None else claim.length
    bounds = np.zeros((2, rooms if len(certificate.left[0].gains) > 1 else 1, size, size))
    for at, sides in enumerate((certificate.left, certificate.right)):
        for side in sides:
            if len(side.gains) not in (1, bounds.shape[1]):
                raise InvalidCertificate("all gains must be of one length")
            bounds[at, :, side.value, side.other] = side.gains
    return _largest(own, bounds, claim.length)


def _largest(own: Array, gains: Array, length: int | None) -> float:
    """Return the largest own + left + right, rounded up; gains (side, records, x, x')."""
    left, right = gains
    if length is not None and len(left) > 1:
        right = right[::-1]  # i records on the left, length - 1 - i on the right
    apart = ~np.eye(len(own), dtype=bool)
    sums = np.nextafter(np.nextafter(left + right, np.inf) + own, np.inf)
    return float(sums[:, apart].max())


# --- the mechanism --------------------------------------------------------------------------------


def _level(claim: CertifiedClaim) -> tuple[float, float]:
    """Return the DP level of a curator's mechanism, and that of one unit, rounded up."""
    mechanism = claim.mechanism
    if mechanism["kind"] == "pure-dp":
        return float(mechanism["epsilon"]), 0.0
    once = math.nextafter(1 / float(mechanism["scale"]), math.inf)
    return (once if mechanism["query"] == "count" else 2 * once), once


def own_losses(claim: CertifiedClaim, own: tuple[tuple[float, ...], ...] | None) -> Array:
    """Return the loss of the target's own record, (x, x'), rounded up and checked."""
    size = claim.size
    if claim.mechanism["kind"] != "randomized-response":
        losses = np.full((size, size), _level(claim)[0])
        if claim.mechanism.get("query") == "count":
            marks = np.array(claim.mechanism["counted"])
            losses = np.where(marks[:, None] != marks, losses, 0.0)
        np.fill_diagonal(losses, 0.0)
        return losses
    losses, matrix = np.array(own), normalised(np.array(claim.mechanism["matrix"]))
    for x in range(size):
        for y in range(size):
            if x == y:
                continue
            limit = exp_lower(float(losses[x, y]))
            # Pr[z | x] <= e^own Pr[z | y] for every output z
            covered = np.nextafter(matrix.low[y] * limit, 0) >= matrix.high[x]
            if not (covered | (matrix.high[x] == 0)).all():
                raise InvalidCertificate(
                    f"own[{x}][{y}] is less than what one flipped record tells"
                )
    return losses


def spending(claim: CertifiedClaim) -> Array:
    """Return the factors of negative entries in the sweep, (k,), rounded down."""
    size = claim.size
    if claim.mechanism["kind"] != "randomized-response":
        return np.full(size, exp_lower(-_level(claim)[0]))
    matrix = normalised(np.array(claim.mechanism["matrix"]))
    shown = matrix.high.max(axis=0) > 0  # an output that never occurs tells nothing
    low, high = matrix.low[:, shown], matrix.high[:, shown]
    # (y, y', z): Pr[z | y] / Pr[z | y']
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nextafter(low[:, None] / high[None, :], 0.0)
    ratio = np.where(high[None, :] > 0, ratio, np.inf).min(axis=2)  # (y, y')
    np.fill_diagonal(ratio, np.inf)
    least = ratio.min(axis=1) if size == 2 else np.full(size, ratio.min())
    return np.asarray(np.maximum(np.minimum(least, 1.0), 0.0))


# --- the chain ------------------------------------------------------------------------------------


def _laws(claim: CertifiedClaim, chain: Interval, table: Interval) -> Interval:
    """Return the laws of records 0 .. steps, (steps + 1, k)."""
    steps, size = table.low.shape[:2]
    if isinstance(claim.start, str):
        law = stationary(chain)
        if law is None:
            raise InvalidCertificate("not checkable: the stationary law is not that of all states")
        shape = (steps + 1, size)
        return Interval(np.broadcast_to(law.low, shape), np.broadcast_to(law.high, shape))
    first = normalised(np.array([claim.start]))  # (1, k)
    later = [product(first, Interval(table.low[step], table.high[step])) for step in range(steps)]
    both = [first, *later]
    return Interval(
        np.concatenate([law.low for law in both]), np.concatenate([law.high for law in both])
    )


class _Task(NamedTuple):
    """One side to check, and what all of its pairs share."""

    claim: CertifiedClaim
    kernel: Interval
    """(y, z): outwards from the target; to the left the transposed transition matrix."""

    table: Interval
    """(steps, x, v): Pr[v known at distance 1 .. steps | x], up to a factor for each v."""

    laws: Interval
    """(steps + 1, k): Pr[target = x] where so many records precede it."""

    spend: Array
    left: bool

    def open_priors(self, step: int) -> Interval:
        """Return Pr[so many records, nothing known | x], up to a factor, (k,)."""
        size = len(self.spend)
        return self.laws.row(step) if self.left else Interval(np.ones(size), np.ones(size))


def _side(
    claim: CertifiedClaim,
    chain: Interval,
    table: Interval,
    laws: Interval,
    spend: Array,
    left: bool,
) -> _Task:
    if not left:
        return _Task(claim, chain, table, laws, spend, left)
    kernel = Interval(chain.low.T, chain.high.T)
    turned = Interval(table.low.transpose(0, 2, 1), table.high.transpose(0, 2, 1))
    return _Task(claim, kernel, turned, laws, spend, left)


class _Sweeps(NamedTuple):
    """All mus of all pairs on one side, swept together: N of them."""

    owner: Ints
    """(N,): the number of the pair."""

    mus: Array
    value: Ints
    other: Ints

    def first(self, kernel: Interval) -> Array:
        """Return c_1, rounded up, (N, k)."""
        ours = kernel.high[self.value][self.owner]
        theirs = kernel.low[self.other][self.owner]
        signed = np.nextafter(ours - np.nextafter(self.mus[:, None] * theirs, 0), np.inf)
        return np.where((ours == 0) & (theirs == 0), 0.0, signed)

    def allowed(self, limit: Array, priors: Interval) -> Bools:
        """Return whether mu Pr[option | x'] <= e^s Pr[option | x], (N, options)."""
        ours, theirs = priors.low[self.value][self.owner], priors.high[self.other][self.owner]
        most = np.nextafter(limit[self.owner][:, None] * ours, -np.inf)
        return np.asarray(np.nextafter(self.mus[:, None] * theirs, np.inf) <= most)

    def require(self, proved: Bools, possible: Bools) -> None:
        """Refuse where an option that some pair has is proved by none of its mus."""
        covered = ~possible
        np.logical_or.at(covered, self.owner, proved)
        if not covered.all():
            raise InvalidCertificate("a gain is less than what the sweep at its mus proves")

    def possible(self, priors: Interval) -> Bools:
        """Return which options (pairs, options) both values can have."""
        return np.asarray((priors.high[self.value] > 0) & (priors.high[self.other] > 0))


def _check(task: _Task, sides: tuple[SideProof, ...]) -> None:
    """Check the gains of all pairs on one side, at every option the adversary may have."""
    claim, (steps, size) = task.claim, task.table.low.shape[:2]
    sweeps = _Sweeps(
        np.repeat(np.arange(len(sides)), [len(side.mus) for side in sides]),
        np.concatenate([side.mus for side in sides]),
        np.array([side.value for side in sides]),
        np.array([side.other for side in sides]),
    )
    limits = [np.array([exp_lower(gain) for gain in side.gains]) for side in sides]
    ones = Interval(np.ones(size), np.ones(size))
    ends = task.laws.row(0) if task.left else ones
    signed = sweeps.first(task.kernel)  # (N, k)
    for step in range(1, steps + 1):
        limit = np.array([limit[min(step, len(limit) - 1)] for limit in limits])  # (pairs,)
        if claim.against == "any":
            known = task.table.row(step - 1)
            proved = sweeps.allowed(limit, known) & (signed <= 0)  # (N, v)
            sweeps.require(proved, sweeps.possible(known))
        spent = _spent(signed, task.spend)
        free = task.open_priors(step)
        free = Interval(free.low[:, None], free.high[:, None])  # (k, 1)
        proved = sweeps.allowed(limit, free) & (_weighed(spent, ends) <= 0)[:, None]
        sweeps.require(proved, sweeps.possible(free))
        if step < steps:
            signed = _moved(spent, task.kernel)
    if claim.length is None or steps < claim.length - 1:
        # beyond, Pr[known | x] / Pr[known | x'] is a mean of those at the last step; with nothing
        # known to the right it is 1
        last = task.table.row(steps - 1)
        if claim.against == "ignorant" and not task.left:
            last = Interval(ones.low[:, None], ones.high[:, None])
        final = np.array([limit[-1] for limit in limits])
        theirs = last.high[sweeps.other][sweeps.owner]
        everywhere = (sweeps.allowed(final, last) | (theirs == 0)).all(axis=1)
        fallen = (signed <= 0).all(axis=1)
        sweeps.require((everywhere & fallen)[:, None], np.ones((len(sides), 1), dtype=bool))


# --- the sweep, rounded up ------------------------------------------------------------------------


def _product_up(signed: Array, weight: Array) -> Array:
    raw = signed * weight
    exact = (signed == 0) | (weight == 0)
    return np.where(exact, 0.0, np.nextafter(raw, np.inf))


def _sum_up(one: Array, two: Array) -> Array:
    return np.where((one == 0) | (two == 0), one + two, np.nextafter(one + two, np.inf))


def _weighed(spent: Array, ends: Interval) -> Array:
    """Return sum_y ends(y) spent(y), rounded up, (N,)."""
    total = np.zeros(len(spent))
    for state in range(spent.shape[1]):
        weight = np.where(spent[:, state] > 0, ends.high[state], ends.low[state])
        total = _sum_up(total, _product_up(spent[:, state], weight))
    return total


def _spent(signed: Array, spend: Array) -> Array:
    return np.where(signed < 0, _product_up(signed, spend), signed)


def _moved(spent: Array, kernel: Interval) -> Array:
    """Return spent @ kernel, rounded up, and scaled by a power of two that keeps it a float."""
    peak = np.abs(spent).max(axis=1)
    scale = np.where(peak > 0, np.frexp(np.where(peak > 0, peak, 1.0))[1], 0)
    scaled = np.ldexp(spent, -scale[:, None])
    exact = np.ldexp(scaled, scale[:, None]) == spent
    spent = np.where(exact, scaled, np.nextafter(scaled, np.inf))
    total = np.zeros(spent.shape)
    for state in range(spent.shape[1]):
        column = spent[:, state, None]
        weight = np.where(column > 0, kernel.high[state], kernel.low[state])
        total = _sum_up(total, _product_up(column, weight))
    return total
