"""One row of a comparison: what one method costs for a guarantee, or why it has no answer."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from undertow.adversaries import Against, Window, words
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.methods import METHODS, Method
from undertow.plan import Plan
from undertow.planning.methods import effort_of
from undertow.planning.proofs import covers_records
from undertow.planning.questions import Question, Shape
from undertow.planning.search import plan_by, unknown

__all__ = ["EFFORT", "Row", "row_of"]

EFFORT = 1e5
"""Effort that a row may take, in units of some 30 microseconds: about three seconds."""

PATIENCE = 0.25
"""Share of its own counted effort that a method may spend on a row: it is known too late to refuse
beforehand."""


@dataclass(frozen=True, slots=True)
class Row:
    """One method's answer: a plan, or the reason why there is none.

    ``protects`` is the adversary that the plan was made for. A method that knows only the
    ignorant attacker is shown for that one; ``meets`` says whether the plan keeps the guarantee
    that was asked for, which a published one must be found to do. ``leakage`` is what the plan
    leaks in truth against the adversary asked about, by the sharpest certified bound, and None
    where none is known; of Gaussian noise, and of several releases, it is what the method proves.
    ``noise`` is the kind of noise, None for a series. ``failure`` is what was raised where that is
    no refusal: the memory did not suffice, a number left its range, or there is a defect. If the
    plan stands, its sharper leakage failed. ``complete`` says that the plan assumes that no value
    is missing, which was not asked for.
    """

    method: str
    certified: bool
    protects: Against
    meets: bool
    plan: Plan[Any] | None
    reason: str | None
    leakage: Leakage | None
    seconds: float
    noise: Shape | None = None
    failure: Exception | None = None
    complete: bool = False

    @property
    def scale(self) -> float | None:
        """The scale of Laplace noise on a curator's answer."""
        return self._amount("scale")

    @property
    def sigma(self) -> float | None:
        """The standard deviation of Gaussian noise on a curator's answer."""
        return self._amount("sigma")

    def _amount(self, measure: str) -> float | None:
        found = None if self._noisy is None else self._noisy.noise
        return found.amount if found is not None and found.measure == measure else None

    @property
    def expected_error(self) -> float | None:
        """The expected absolute error of one released number."""
        return None if self._noisy is None else self._noisy.expected_error

    @property
    def measures(self) -> dict[str, float]:
        """What a local plan keeps of the series, by name."""
        return {} if self.plan is None else dict(self.plan.measures)

    @property
    def error_bar(self) -> float | None:
        """The distance within which all released numbers lie with probability 95%."""
        return None if self._noisy is None else self._noisy.accuracy(0.05)

    @property
    def _noisy(self) -> Plan[Any] | None:
        """The plan, where it adds noise to an answer."""
        return self.plan if self.plan is not None and self.plan.task == "answer" else None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        leak = self.leakage
        return {
            "method": self.method,
            "basis": "certified" if self.certified else "published",
            "protects": self.protects if isinstance(self.protects, str) else words(self.protects),
            "meets": self.meets,
            "noise": self.noise,
            "scale": self.scale,
            "sigma": self.sigma,
            "expected_error": self.expected_error,
            "error_bar": self.error_bar,
            "measures": self.measures,
            "leakage": None if leak is None else [leak.lower, leak.upper],
            "assumptions": [] if self.plan is None else list(self.plan.leakage.assumptions),
            "reason": self.reason,
            **({"complete": True} if self.complete else {}),
            "seconds": self.seconds,
            **({} if self.failure is None else {"failure": type(self.failure).__name__}),
        }


def row_of(
    method: Method, question: Question[Any], allowed: float, accepted: tuple[str, ...] = ()
) -> Row:
    """Return one method's row; one for the ignorant attacker only is shown for that one.

    ``allowed`` is the effort that it may take, as a multiple of `EFFORT`; ``accepted`` are the
    failed checks that its plan accepts. Whatever goes wrong ends
    in this row, and takes no other with it; but a question that makes no sense is refused.
    """
    guards, against = method.guards(question.against), question.against
    shape = question.shape if question.query.task == "answer" else None
    whom: Against = against if guards else "ignorant"
    began = time.perf_counter()
    asked = replace(question, against=whom)
    found = _tried(lambda: replace(_plan(method, asked, allowed), accepted=accepted))
    seconds = time.perf_counter() - began
    plan = found.value
    truth: _Tried[Leakage | None] = _Tried()
    if plan is not None:
        truth = _tried(lambda: _truth(plan, against))
    leak = truth.value
    complete = question.missing is None and plan is not None and plan.missing == "none"
    complete = complete and question.query.task == "answer"
    kept = method.certified or (leak is not None and leak.proves(question.limit))
    return Row(
        method.name, method.certified, whom, guards and plan is not None and kept, plan,
        found.reason, leak, seconds, shape, found.failure or truth.failure, complete,
    )  # fmt: skip


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Tried(Generic[T]):
    """What came of an attempt: something, or the reason why not, and the exception of a failure."""

    value: T | None = None
    reason: str | None = None
    failure: Exception | None = None


def _tried(work: Callable[[], T]) -> _Tried[T]:
    """Return what some work returns, or why it does not."""
    try:
        return _Tried(work())
    except NotSupported as refusal:
        return _Tried(reason=str(refusal))
    except InvalidInput:  # the question is wrong, not the method
        raise
    except MemoryError as error:
        return _Tried(reason="failed: it needs more memory than there is", failure=error)
    except Exception as error:  # noqa: BLE001  (a defect in one method hides no other: it is told)
        said = " ".join(str(error).split())
        return _Tried(reason=f"failed: {type(error).__name__}: {said}", failure=error)


def _plan(method: Method, question: Question[Any], allowed: float) -> Plan[Any]:
    """Return the plan of a method, or refuse; also where it takes more effort than a row may."""
    if not method.knows(question.shape, question.releases):
        raise MethodRefused(unknown(method, question, question.shape))
    times = effort_of(method, question) / (EFFORT * allowed)
    if times > 1:
        raise MethodRefused(
            f"'{method.name}' needs about {times:.2g} times the effort allowed for a row; ask for "
            f"it by name, method='{method.name}', or allow more, effort={2 * times * allowed:.1g}"
        )
    # a small effort refuses by the estimate above, and does not cut short what it lets in
    effort = max(1.0, allowed)
    patience = min(1.0, PATIENCE * effort)
    return plan_by(method, replace(question, patience=patience, effort=effort))


def _truth(plan: Plan[Any], against: Against) -> Leakage | None:
    """Return the sharpest certified leakage of a plan's noise, where one is known."""
    method = METHODS[plan.task][plan.method]
    # a published method's plan carries the leakage that is certified for its noise
    if plan.against == against and (method.tight or not method.certified):
        return plan.leakage
    if plan.delta or plan.releases > 1:  # anything sharper takes long, or is about one answer
        return plan.leakage if plan.against == against else None
    window = Window(plan.leakage.secrets.window)
    found = leakage(plan.mechanism, plan.model, against, protect=window)
    if plan.task == "answer" and not covers_records(plan, found):  # of any pattern of records
        found = leakage(plan.mechanism, plan.model, against, covers="any", protect=window)
    secrets = plan.leakage.secrets
    if plan.against != against or secrets.pairs is not None or secrets.records is not None:
        return found
    return replace(found, upper=min(found.upper, plan.leakage.upper))
