"""``certify``: a certificate for a mechanism on a Markov chain, or the reason why there is none."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from undertow._version import __version__
from undertow.adversaries import Against, check_against
from undertow.certifying.arithmetic import normalised
from undertow.certifying.checking import checked_upper, own_losses, spending
from undertow.certifying.counting import counted_upper, log_upper
from undertow.certifying.document import (
    COUNTED,
    LARGEST,
    LAWS,
    STATES,
    STEPS,
    WORK,
    Certificate,
    CertifiedClaim,
)
from undertow.certifying.proving import Roots, SidePlan, find_roots
from undertow.errors import InvalidCertificate, NoPublicForm, NothingToProtect, NotSupported
from undertow.guarantees import PureDP
from undertow.mechanisms import DiscreteLaplace, Laplace, Mechanism, RandomizedResponse
from undertow.models.base import stands_for
from undertow.models.chains import MarkovChain
from undertow.models.fitting.checks import Check, origin_of
from undertow.models.records import audience_of, weakest
from undertow.models.sets import AnyModel
from undertow.numerics import Array
from undertow.plan import Plan, doubts
from undertow.queries import BinaryHistogram, Count, Histogram
from undertow.secrets import ONE_RECORD

__all__ = ["certify"]

_ROOMS = 256
"""Longest series of which every target has a proof of its own; longer ones share one."""

_SLACK = (2e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7)
"""What is added to every gain so that the check, rounded up, succeeds: the first that does."""

_FIRST = 16
_WORST = 2**11
"""Records swept on one side: at first, and at most (cost)."""

_ROUNDED = 1e-12
"""What is added to a proved upper end before it is claimed, relative to max(1, upper)."""

_MERGED = 256
"""Records after which states that still rule each other out are taken to do so for ever (cost)."""

_SHORT = 33
"""Longest series whose counts are recomputed as a whole at once (cost)."""

_LOOSE = 1e-11
"""What the tail beyond the swept records may add to a gain before more are swept."""


@overload
def certify(mechanism: "Plan[Any]") -> Certificate: ...
@overload
def certify(
    mechanism: Mechanism, model: AnyModel | None = None, against: Against = "any"
) -> Certificate: ...
def certify(
    mechanism: "Mechanism | Plan[Any]", model: AnyModel | None = None, against: Against = "any"
) -> Certificate:
    """Return a certificate of what a mechanism leaks, or refuse with the reason.

    For PureDP, counts and histograms with Laplace noise, and RandomizedResponse on a Markov chain
    whose steps are alike, against ``"any"``, ``"ignorant"`` or ``"informed"``; or for a `Plan` of
    one of these, and then for what the plan says of missing records; a count by itself is one of
    complete series. Its ``upper`` is what the check itself arrives at: that of `leakage`, or a
    little more (docs, "Certificates"). What is certified of a level holds for algorithms that read
    the states of records alone. Cost as of one leakage.

    >>> from undertow import MarkovChain, PureDP, verify
    >>> certificate = certify(PureDP(1.0), MarkovChain([[.882, .118], [.305, .695]]))
    >>> round(certificate.upper, 8)
    3.47487338
    """
    if isinstance(mechanism, Plan):
        _check_plan(mechanism.public())
        # a proof for all algorithms of the level is one for any pattern of missing records
        open_to_any = mechanism.missing == "any" and mechanism.leakage.valid_for == "any"
        certificate = _certified(
            mechanism.mechanism, mechanism.model, mechanism.against, counting=not open_to_any
        )
        return _weakened(certificate, mechanism.checks)
    certificate = _certified(mechanism, model, check_against(against), counting=True)
    return _weakened(certificate, () if model is None else model.checks)


def _weakened(certificate: Certificate, checks: Sequence[Check]) -> Certificate:
    """Return the certificate with the failed checks of its model as conditions."""
    if not checks or certificate.claim.against == "informed":
        return certificate
    return replace(certificate, conditions=doubts(checks))


def _certified(
    mechanism: Mechanism, model: AnyModel | None, against: Against, *, counting: bool
) -> Certificate:
    """Return the shortest certificate that checks.

    ``counting`` says that the law of a count of complete series may serve as its proof.
    """
    if not isinstance(against, str):
        raise _refused("against a named adversary", "ask against 'any', which covers all of them")
    whose = (model.origin, origin_of(model.checks)) if isinstance(model, AnyModel) else ()
    if audience_of(weakest(whose)) == "curator":
        raise NoPublicForm(
            "a certificate holds the model and the checks that it failed, for everybody to see, "
            "and this model was fitted to private records without noise; certify a chain written "
            "by hand, or one fitted to public records (public=True) or through noise ('undertow "
            "fit --private')"
        )
    if isinstance(model, AnyModel) and stands_for(model) is not model:
        raise _refused(
            "of the region that a fit stands for",
            "certify its point, MarkovChain.point(), which takes the estimate for the truth",
        )
    if not isinstance(model, MarkovChain):
        kind = "no model" if model is None else f"a {type(model).__name__}"
        raise _refused(f"of {kind}", "pass one MarkovChain")
    if not model.homogeneous:
        raise _refused("of a chain whose steps differ", "certify each of its steps as a chain")
    if model.size > STATES:
        raise _refused(f"of a chain with more than {STATES} states", "merge states")
    if model.visited() is None:
        raise NothingToProtect("every record is certain under the model: nothing can leak")
    claim = _claim(mechanism, model, against)
    own = None
    if isinstance(mechanism, RandomizedResponse):
        own = _flip_losses(mechanism)
    made_by = f"undertow {__version__}"
    if against == "informed":
        level = float(own_losses(claim, own).max())
        return Certificate(replace(claim, upper=level), "level", own, made_by=made_by)
    options = [_swept(claim, own, made_by)]
    if counting and claim.mechanism.get("query") == "count":
        options.append(_counted(claim, made_by))
    proved = [option for option in options if option is not None]
    if not proved:
        raise NotSupported(
            "no certificate can be checked here: the leakage is unbounded, or the chain forgets "
            f"too slowly for {_WORST} records on a side; give the chain a length"
        )
    best = min(proved, key=lambda option: option.upper)
    return proved[0] if proved[0].upper <= best.upper + 1e-9 else best


def _refused(what: str, instead: str) -> NotSupported:
    return NotSupported(
        f"a leakage {what} has no certificate that the verifier can check; {instead}"
    )


def _check_plan(plan: "Plan[Any]") -> None:
    """Refuse plans that promise something else than the leakage of one release about one record."""
    if plan.unit != "record":
        raise _refused("about all records of a person", "the level of the plan is its proof")
    if plan.delta:
        raise _refused("at a delta", "plan without delta")
    if plan.releases > 1:
        raise _refused("of several releases", "certify PureDP with the level of all together")
    if plan.leakage.secret != ONE_RECORD:
        raise _refused(
            "about a window, or about some records or values only", "plan for all records"
        )


def _claim(mechanism: object, model: MarkovChain, against: Any) -> CertifiedClaim:
    """Return the claim, its upper end still to be found."""
    start = "stationary" if isinstance(model.start, str) else tuple(model.start.tolist())
    names = tuple(map(str, model.states))
    if len(set(names)) < len(names):  # 1 and "1"
        names = tuple(map(repr, model.states))
    transition = tuple(tuple(row) for row in model.transition.tolist())
    described = _described(mechanism, model)
    return CertifiedClaim(names, transition, start, model.length, described, against, LARGEST)  # type: ignore[arg-type]


def _described(mechanism: object, model: MarkovChain) -> dict[str, Any]:
    match mechanism:
        case PureDP(unit="record"):
            if mechanism.epsilon > LARGEST:
                raise _refused(f"of a level above {LARGEST:g}", "such a level protects nothing")
            return {"kind": "pure-dp", "epsilon": float(mechanism.epsilon)}
        case Laplace() | DiscreteLaplace():
            query = mechanism.query
            fields = {"kind": mechanism.kind, "scale": float(mechanism.scale)}
            if mechanism.scale < 1 / LARGEST:
                raise _refused("with so little noise", "such noise protects nothing")
            if type(query) in (Count, BinaryHistogram):
                marks = [model.index(state) for state in query.named]
                counted = [state in marks for state in range(model.size)]
                return fields | {"query": "count", "counted": counted}
            if type(query) is Histogram:
                return fields | {"query": "histogram"}
            level = "certify PureDP with its dp_epsilon, and argue the sensitivity yourself"
            raise _refused(f"of a {type(query).__name__}", level)
        case RandomizedResponse():
            if mechanism.inputs != model.size:
                raise _refused("of a channel for other states", "pass the channel of this chain")
            return {"kind": "randomized-response", "matrix": mechanism.matrix.tolist()}
    raise _refused(
        f"of {type(mechanism).__name__}",
        "PureDP, Laplace and DiscreteLaplace counts and histograms, and RandomizedResponse have",
    )


def _flip_losses(mechanism: RandomizedResponse) -> tuple[tuple[float, ...], ...]:
    """Return the loss of one flipped record, (x, x'), rounded up."""
    matrix = normalised(mechanism.matrix)
    shown = matrix.high.max(axis=0) > 0
    low, high = matrix.low[:, shown], matrix.high[:, shown]
    if not (low > 0).all():
        raise _refused("of outputs that rule a state out", "it is unbounded already")
    ratio = np.nextafter(high[:, None] / low[None, :], np.inf).max(axis=2)
    # once more up: the check multiplies, and rounds the product down
    ratio = np.where(np.eye(len(ratio), dtype=bool), 1.0, ratio * (1 + 4e-16))
    return tuple(tuple(log_upper(entry) for entry in row) for row in ratio.tolist())


# --- finding a proof ------------------------------------------------------------------------------


def _claiming(certificate: Certificate, upper: float) -> Certificate:
    upper = math.nextafter(upper + _ROUNDED * max(1.0, upper), math.inf) if upper else 0.0
    if upper > LARGEST:
        raise _refused(f"above {LARGEST:g}", "such a mechanism protects nothing")
    return replace(certificate, claim=replace(certificate.claim, upper=upper))


def _swept(claim: CertifiedClaim, own: Any, made_by: str) -> Certificate | None:
    """Return the certificate of all algorithms of the level, None where no sweep proves one."""
    most = min(STEPS, _WORST if claim.length is None else claim.length - 1)
    whole = claim.length is not None and claim.length <= _ROOMS
    steps = most if whole else min(_FIRST, most)
    best: Certificate | None = None
    while True:
        roots = [find_roots(_plan(claim, steps, left)) for left in (True, False)]
        trial, loose = None, math.inf
        for slack in _SLACK:
            trial, loose = _with_slack(claim, own, steps, roots, slack, made_by)
            if trial is not None:
                # other code rounds elsewhere: what passes here gets four times the slack
                trial = _with_slack(claim, own, steps, roots, 4 * slack, made_by)[0] or trial
                break
        if trial is not None and (best is None or trial.upper < best.upper):
            best = trial
        hopeless = math.isinf(loose) and steps >= _MERGED
        if loose <= _LOOSE or steps >= most or hopeless:
            return best
        steps = min(2 * steps, most)


def _with_slack(
    claim: CertifiedClaim, own: Any, steps: int, roots: list[Roots], slack: float, made_by: str
) -> tuple[Certificate | None, float]:
    """Return the certificate if its check succeeds, and what the tail adds to its gains."""
    left, right = (side.sides(slack) for side in roots)
    if left is None or right is None:
        return None, math.inf
    loose = max(left[1], right[1])
    trial = Certificate(claim, "sweep", own, steps, left[0], right[0], made_by)
    if sum(len(side.mus) for side in (*left[0], *right[0])) * steps * claim.size**2 > WORK:
        return None, loose
    try:
        return _claiming(trial, checked_upper(trial)), loose
    except InvalidCertificate:
        return None, loose


def _plan(claim: CertifiedClaim, steps: int, left: bool) -> SidePlan:
    matrix = np.array(claim.transition)
    matrix = matrix / matrix.sum(axis=1, keepdims=True)
    size = len(matrix)
    ends: Array = np.ones(size)
    laws = np.ones((steps + 1, size))
    if left:
        ends = _first(claim, matrix)
        laws[0] = ends
        for step in range(1, steps + 1):
            laws[step] = ends if isinstance(claim.start, str) else laws[step - 1] @ matrix
    whole = claim.length is not None and steps == claim.length - 1
    return SidePlan(
        matrix.T if left else matrix, ends, laws, spending(claim), claim.against == "any",
        not whole, left, claim.length if whole and claim.length is not None else 1,
    )  # fmt: skip


def _first(claim: CertifiedClaim, matrix: Array) -> Array:
    """Return the law of the first record."""
    if isinstance(claim.start, str):
        return MarkovChain(matrix).initial
    start = np.array(claim.start)
    return np.asarray(start / start.sum())


def _counted(claim: CertifiedClaim, made_by: str) -> Certificate | None:
    """Return the certificate from the laws of the counts, None where they prove nothing finite."""
    most = min(COUNTED, math.isqrt(LAWS // claim.size**3))
    most = most if claim.length is None else min(most, claim.length - 1)
    steps = most if claim.length is not None and claim.length <= _SHORT else min(_FIRST, most)
    chain = normalised(np.array(claim.transition))
    certificate: Certificate | None = None
    while True:
        upper, inside = counted_upper(claim, chain, steps)
        before = math.inf if certificate is None else certificate.upper
        if upper < before:
            certificate = _claiming(
                Certificate(claim, "counts", None, steps, made_by=made_by), upper
            )
        if steps >= most or upper <= inside + _LOOSE or before - _LOOSE <= upper < math.inf:
            return certificate
        steps = min(2 * steps, most)
