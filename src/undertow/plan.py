"""The frozen plan: what will be released, how, and what that was proved to leak."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from undertow import accuracy as _accuracy
from undertow.adversaries import Against, words
from undertow.certificate import Leakage
from undertow.channels import LocalMechanism, RandomizedResponse, Redaction
from undertow.errors import InvalidInput, InvalidPlan, NotSupported, UndertowError
from undertow.mechanisms import DiscreteLaplace, Laplace, Noise, PureDP, Unit
from undertow.models.groups import Groups
from undertow.models.sets import AnyModel, ModelSet, model_from_dict
from undertow.plan_format import (
    leakage_from_dict,
    leakage_to_dict,
    mechanism_from_dict,
    mechanism_to_dict,
)
from undertow.queries import AnyQuery, Count, Histogram, Linear, LocalQuery, Redacted, Series, State
from undertow.rounding import above, odds

__all__ = ["Plan"]

FORMAT = "undertow-plan"
VERSION = 1

M = TypeVar("M", bound=Noise | LocalMechanism, default=Noise, covariant=True)


@dataclass(frozen=True, slots=True)
class Plan(Generic[M]):
    """A query, the randomisation that answers it, and the certified leakage of the two together.

    Made by `calibrate`; holds no solver and no data. ``epsilon`` is what was asked for,
    ``leakage.upper`` what is proved. ``unit`` says what is protected: one record, or all records
    of one person. ``measures`` are named numbers about a local plan: how much of the series
    stays, and how much could.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> plan = calibrate(Count("active"), chain, epsilon=1.0)
    >>> Plan.from_json(plan.to_json()) == plan
    True
    """

    mechanism: M
    model: AnyModel
    epsilon: float
    leakage: Leakage
    method: str
    unit: Unit = "record"
    measures: tuple[tuple[str, float], ...] = ()

    @property
    def noise(self) -> Noise:
        """The noise of a curator's plan; refuses the plan of a series."""
        if isinstance(self.mechanism, Laplace | DiscreteLaplace):
            return self.mechanism
        verb = "redact" if isinstance(self.mechanism, Redaction) else "sanitize"
        raise NotSupported(
            f"this plan randomises a series record by record, it answers no query with noise; use "
            f"{verb}(plan, data)"
        )

    @property
    def query(self) -> AnyQuery | LocalQuery:
        """What is asked."""
        if isinstance(self.mechanism, Laplace | DiscreteLaplace):
            return self.mechanism.query
        if isinstance(self.mechanism, Redaction):
            return Redacted(self.mechanism.protect, self.mechanism.length)
        return Series()

    @property
    def against(self) -> Against:
        """The adversary covered."""
        return self.leakage.against

    @property
    def length(self) -> int | None:
        """The number of records, where the model fixes it."""
        return model_length(self.model)

    @property
    def states(self) -> tuple[State, ...]:
        """The states of the model, () where it names none."""
        return model_states(self.model)

    @property
    def dp_epsilon(self) -> float:
        """The level against an attacker who knows all other records."""
        if isinstance(self.mechanism, RandomizedResponse):
            return self.mechanism.dp_epsilon()
        return self.noise.dp_epsilon(self.length)

    @property
    def numbers(self) -> int:
        """How many noisy numbers a release has."""
        if isinstance(self.query, Linear):
            return self.query.outputs
        if not isinstance(self.query, Histogram):
            return 1
        if not self.states:
            raise NotSupported(
                "the model names no states, so the number of bins is unknown; use a model "
                "that does, such as a MarkovChain"
            )
        return len(self.states)

    @property
    def expected_error(self) -> float:
        """The expected absolute error of one released number."""
        return _accuracy.expected_error(self.noise)

    @property
    def variance(self) -> float:
        """The variance of one released number."""
        return _accuracy.variance(self.noise)

    @property
    def utility(self) -> float:
        """The expected share of a redacted series that is shown."""
        return self._measure("utility")

    @property
    def expected_flips(self) -> float:
        """The expected share of a flipped series that is false."""
        return self._measure("expected flips")

    def _measure(self, name: str) -> float:
        for known, value in self.measures:
            if known == name:
                return value
        raise NotSupported(f"a plan for {type(self.query).__name__} has no {name}")

    def accuracy(self, beta: float = 0.05) -> float:
        """Return alpha: all released numbers are within alpha with probability 1 - beta."""
        return _accuracy.accuracy(self.noise, beta, self.numbers)

    def guarantee(self) -> str:
        """Return the promise in plain words."""
        what = self.leakage.secrets.words()
        if self.unit == "person":
            what = "between any two histories of one person"
        return (
            f"{words(self.against)} can raise the odds {what} "
            f"by at most a factor {odds(self.leakage.upper)} (leakage {above(self.leakage.upper)})"
        )

    def fingerprint(self) -> str:
        """Return a hash that only this plan has, for reports and ledgers."""
        body: str = json.loads(self.to_json())["checksum"]
        return body

    def to_json(self) -> str:
        """Return the plan as JSON text with a version and a checksum."""
        body = {
            "format": FORMAT,
            "version": VERSION,
            **mechanism_to_dict(self.mechanism),
            "model": self.model.to_dict(),
            "epsilon": self.epsilon,
            "method": self.method,
            "unit": self.unit,
            "leakage": leakage_to_dict(self.leakage),
            **({"measures": dict(self.measures)} if self.measures else {}),
        }
        for state in _names(self):
            if not isinstance(state, str | int | float):
                raise InvalidInput(
                    "state names must be strings or numbers to be written to a plan file, found "
                    f"{type(state).__name__}"
                )
        try:
            return json.dumps({**body, "checksum": _checksum(body)}, indent=2, allow_nan=False)
        except TypeError as error:
            raise InvalidInput(
                "names in a model must be texts, numbers or tuples of these to be written to a file"
            ) from error
        except ValueError as error:
            raise InvalidInput(
                "an infinite or undefined number cannot be written to a plan file; plans with a "
                "finite leakage and finite state names can"
            ) from error

    @classmethod
    def from_json(cls, text: str) -> "Plan[Any]":
        """Return the plan written by `to_json`; refuse anything else."""
        body = _parse(text)
        try:
            mechanism: Any = mechanism_from_dict(body)
            return Plan(
                mechanism=mechanism,
                model=model_from_dict(body["model"]),
                epsilon=body["epsilon"],
                leakage=leakage_from_dict(body["leakage"]),
                method=body["method"],
                unit=PureDP(1.0, body["unit"]).unit,
                measures=tuple((str(k), float(v)) for k, v in body.get("measures", {}).items()),
            )
        except (KeyError, TypeError, ValueError, AttributeError, UndertowError) as error:
            raise InvalidPlan(
                f"the plan file is malformed ({type(error).__name__}); make it again with "
                "'undertow plan' or calibrate(...)"
            ) from error


def model_length(model: AnyModel) -> int | None:
    """Return the number of records that a model fixes, or None.

    >>> from undertow import MarkovChain
    >>> model_length(MarkovChain([[.5, .5], [.5, .5]], length=9))
    9
    """
    if isinstance(model, ModelSet):
        return next((n for n in map(model_length, model.models) if n is not None), None)
    return None if isinstance(model, Groups) else model.length


def model_states(model: AnyModel) -> tuple[State, ...]:
    """Return the state names of a model, or () where it has none.

    >>> from undertow import MarkovChain
    >>> model_states(MarkovChain([[.5, .5], [.5, .5]]))
    (0, 1)
    """
    if isinstance(model, ModelSet):
        return next((s for s in map(model_states, model.models) if s), ())
    return () if isinstance(model, Groups) else model.states


def _names(plan: "Plan[Any]") -> list[State]:
    witness = plan.leakage.witness
    counted = plan.query.states if isinstance(plan.query, Count) else ()
    seen = () if witness is None else (witness.value, witness.other)
    secret = [state for pair in plan.leakage.secrets.pairs or () for state in pair]
    return [*plan.states, *counted, *seen, *secret]


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _parse(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidPlan("this is not a plan file: it is not JSON") from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise InvalidPlan(
            f'this is not a plan file: it lacks "format": "{FORMAT}"; make one with '
            "'undertow plan'"
        )
    if body.get("version") != VERSION:
        raise InvalidPlan(
            f"the plan has version {body.get('version')!r}, this undertow reads version {VERSION}; "
            "make the plan again with this version"
        )
    checksum = body.pop("checksum", None)
    try:
        expected = _checksum(body)
    except ValueError as error:
        raise InvalidPlan("the plan file holds a number that JSON does not have") from error
    if checksum != expected:
        raise InvalidPlan(
            "the plan's checksum does not match its content: it was edited or damaged, so its "
            "guarantee no longer holds; make the plan again"
        )
    return body
