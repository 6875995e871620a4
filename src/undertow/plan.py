"""The frozen plan: what will be released, how, and what that was proved to leak."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic

from typing_extensions import TypeVar

from undertow.accuracy import accuracy as _accuracy
from undertow.accuracy import errors as _errors
from undertow.adversaries import Adversary, Against, Window, words
from undertow.base_query import State, Task, rest_of
from undertow.canonical import is_unicode
from undertow.certificate import Leakage
from undertow.channels import LocalMechanism
from undertow.conditions import Suggested, conditions_of, readings_moved
from undertow.curves import check_delta
from undertow.deprecations import warn
from undertow.errors import (
    FailedChecks,
    InvalidInput,
    InvalidPlan,
    NoPublicForm,
    NotSupported,
    UndertowError,
    UnknownState,
)
from undertow.mechanisms import Noise, Scaled, Unit
from undertow.methods import METHODS, is_certified
from undertow.models.acceptance import accepted, check_accepted
from undertow.models.checks import Check, checks_from_list, origin_of
from undertow.models.described import fields, names, number, text, whole
from undertow.models.origins import CURATORS, Audience, Origin, audience_of, weakest
from undertow.models.registry import law_to_dict
from undertow.models.sets import AnyModel, model_from_dict
from undertow.numerics import check_epsilon, up
from undertow.plan_format import (
    FORMAT,
    VERSION,
    checksum,
    leakage_from_dict,
    leakage_to_dict,
    measures_from_dict,
    mechanism_from_dict,
    parse,
)
from undertow.queries import AnyQuery, LocalQuery
from undertow.rounding import above, odds, stated
from undertow.signatures import verified

__all__ = ["Plan"]

M = TypeVar("M", bound=Noise | LocalMechanism, default=Scaled, covariant=True)


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Generic[M]):
    """A query, the randomisation that answers it, and the certified leakage of the two together.

    Made by `calibrate`; holds no solver and no records. ``origin`` says where its model comes from,
    and ``audience`` who may see it: not every plan may be published. ``limit`` is what was asked
    for, ``leakage.upper`` what is proved. ``unit`` says what is protected: one record, or all
    records of one person. ``measures`` are named numbers about a local plan: how much of the series
    stays, and how much could. With a ``delta`` the leakage is one at that delta; with several
    ``releases`` it is that of as many releases of this noise on the same records together.
    ``checks`` are what was tested of a fitted model, with what each failure costs this plan;
    ``accepted`` names the failed ones that the caller took upon themselves. ``missing`` says what
    a missing record is: ``"any"`` pattern of them is covered, ``"none"`` is said to occur (as of
    flips and erasures, where nothing else is said), or they are records in the state named.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> plan = calibrate(Count("active"), chain, limit=1.0)
    >>> Plan.from_json(plan.to_json()) == plan
    True
    """

    mechanism: M
    model: AnyModel
    limit: float
    leakage: Leakage
    method: str
    unit: Unit = "record"
    measures: tuple[tuple[str, float], ...] = ()
    delta: float = 0.0
    releases: int = 1
    checks: tuple[Check, ...] = ()
    accepted: tuple[str, ...] = ()
    missing: State = "any"

    def __post_init__(self) -> None:
        """Take over what was tested of the model; no record of a series to be flipped is missing.

        Flips and erasures are of records that all have a state.
        """
        if not self.checks and self.model.checks:
            object.__setattr__(self, "checks", self.model.checks)
        if self.missing == "any" and self.task != "answer":
            object.__setattr__(self, "missing", "none")

    def check_accepted(self) -> None:
        """Refuse a plan of whose model a check failed that nobody accepted.

        `compare` makes such plans to show what methods cost. A plan for whole persons holds
        whatever the dependence among the records of a person.
        """
        if self.unit == "record":
            check_accepted(self.checks, self.accepted)

    @property
    def noise(self) -> Noise:
        """The noise of a curator's plan; refuses the plan of a series."""
        found: Any = self.mechanism
        if self.task == "answer":
            return found  # type: ignore[no-any-return]
        verb = "redact" if self.task == "redact" else "sanitize"
        raise NotSupported(
            f"this plan randomises a series record by record, it answers no query with noise; use "
            f"{verb}(plan, data)"
        )

    @property
    def query(self) -> AnyQuery | LocalQuery:
        """What is asked."""
        return self.mechanism.query

    @property
    def task(self) -> Task:
        """What is released: an answer, a series with flips, or one with erasures."""
        return self.mechanism.task

    @property
    def epsilon(self) -> float:
        """The limit, by the name that it had."""
        warn("plan.epsilon", "plan.limit")
        return self.limit

    @property
    def against(self) -> Against:
        """The adversary covered."""
        return self.leakage.against

    @property
    def length(self) -> int | None:
        """The number of records, where the model fixes it."""
        return self.model.length

    @property
    def states(self) -> tuple[State, ...]:
        """The states of the model, () where it names none."""
        return self.model.states

    @property
    def origin(self) -> Origin:
        """Where its model and its checks come from: the one that discloses most."""
        return weakest((self.model.origin, origin_of(self.checks)))

    @property
    def audience(self) -> Audience:
        """Who may see the plan and its reports: ``"public"``, or the ``"curator"`` alone."""
        return audience_of(self.origin)

    def public(self) -> "Plan[M]":
        """Return the plan, which may be published; refuse one that is the curator's.

        >>> from undertow import Count, MarkovChain, calibrate
        >>> plan = calibrate(Count(1), MarkovChain([[.9, .1], [.3, .7]]), limit=1.0)
        >>> plan.public() is plan
        True
        """
        if self.audience == "public":
            return self
        raise NoPublicForm(
            f"this plan has no public form: {CURATORS}; fit through noise ('undertow fit "
            "--private', MarkovChain.fit(..., private=LEVEL, ledger=...)), or to records that are "
            "public (public=True), and plan again"
        )

    @property
    def dp_epsilon(self) -> float:
        """The level against an attacker who knows all other records."""
        return self.mechanism.dp_epsilon(self.length)

    @property
    def rho(self) -> float:
        """The zCDP parameter of one release, rounded up: of a DP level, level^2 / 2 [bun2016]."""
        if self.noise.measure == "sigma":
            found: Any = self.noise
            return float(found.rho_upper(self.length))
        return up(self.noise.level_upper(self.length) ** 2 / 2)

    def to_opendp(self) -> Any:
        """Return the OpenDP measurement that does the same: records in, a noisy answer out.

        One replaced record is distance 1 (change-one), at which its map is the level of the plan,
        or its rho. See `undertow.measurements` for what has none.
        """
        from undertow.measurements import to_opendp

        self.check_accepted()
        return to_opendp(self.noise, self.states, self.length, self.rest)

    @property
    def rest(self) -> State | None:
        """The state in which missing records are counted, None where they are in none."""
        return rest_of(self.missing, self.states)

    @property
    def numbers(self) -> int:
        """How many noisy numbers a release has."""
        return self.query.numbers(self.states)

    @property
    def expected_error(self) -> float:
        """The expected absolute error of one released number.

        Of a selection, the largest expected number of records by which a selected state falls
        short of the most frequent one among those not selected before it.
        """
        return _errors(self.noise, len(self.states))[0]

    @property
    def variance(self) -> float:
        """The variance of one released number; refused for a selection, which releases none."""
        if self.query.selects:
            return self.noise.variance()
        return _errors(self.noise, len(self.states))[1]

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
        """Return alpha: all released numbers are within alpha with probability 1 - beta.

        Of a selection: all selected states fall short by at most alpha.
        """
        return _accuracy(self.noise, beta, self.numbers)

    def conditions(self) -> tuple[str, ...]:
        """Return what weakens the guarantee, each as a clause of its first sentence."""
        return conditions_of(self)

    def guarantee(self, *more: str) -> str:
        """Return the guarantee in one sentence, with every condition that weakens it.

        ``more`` are the conditions of one release: what its data did not say.
        """
        return "; ".join([self._bound(), *self.conditions(), *more])

    def _bound(self) -> str:
        """Return the weakest bound known: under the model, or what its failed checks suggest."""
        own, suggested = self.leakage.upper, Suggested.of(self)
        if not suggested.worse(own):
            return f"{self._gain()} {self._moved(own)}"
        alone, said = f"{self._gain()} {self._moved(own)}", [*suggested.unbounded()]
        if suggested.most > own:
            most = f"{self._gain()} {self._moved(suggested.most)}"
            said.append(f"under what the records suggest instead, {most}")
            alone = self._moved(own)
        return "; ".join([*said, f"if the model were true, {alone}"])

    def _gain(self) -> str:
        """Return who can learn what, and from how many releases."""
        what = self.leakage.secrets.words()
        if self.unit == "person":
            what = "between any two histories of one person"
        who = words(self.against, self.leakage.secrets.window)
        several = f"{self.releases} releases together: " if self.releases > 1 else ""
        return f"{several}{who} can raise the odds {what}"

    def _moved(self, upper: float) -> str:
        """Return what a leakage means: how far the odds move."""
        if not self.delta:
            return f"by at most a factor {odds(upper)} (leakage {above(upper)})"
        return (
            f"by more than a factor {odds(upper + math.log(2))} with probability at most "
            f"{stated(2 * self.delta)} (leakage {above(upper)} at delta {stated(self.delta)})"
        )

    def __repr__(self) -> str:
        """Return the plan in one line: what is asked, on what kind of model, for what guarantee."""
        protect = self.leakage.secrets.protect
        return (
            f"Plan({self.query!r} on {type(self.model).__name__}, limit={self.limit:g}, "
            f"{f'delta={self.delta:g}, ' if self.delta else ''}"
            f"{f'releases={self.releases}, ' if self.releases > 1 else ''}"
            f"{f'protect={protect!r}, ' if isinstance(protect, Window) else ''}"
            f"against={self.against!r}, method={self.method!r}, unit={self.unit!r})"
        )

    def __str__(self) -> str:
        """Return the plan for people: question, guarantee, noise, error, proof, unit and model."""
        basis = "certified" if is_certified(self) else "as published"
        rows = [
            ("question", self.query.words()),
            ("guarantee", self.guarantee()),
            *_randomisation(self),
            ("method", f"{self.method}, {basis}; {_COVERED[self.leakage.covers]}"),
            ("protects", _protected(self)),
            ("model", self.model.describe()),
            *(("checked", check.said()) for check in self.checks),
        ]
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:<{width}}  {words}" for label, words in rows)

    def fingerprint(self) -> str:
        """Return a hash that only this plan has, for reports and ledgers."""
        body: str = json.loads(self.to_json())["checksum"]
        return body

    def to_json(self) -> str:
        """Return the plan as JSON text with a version and a checksum."""
        self.check_accepted()
        described = self.mechanism.to_dict()
        body = {
            "format": FORMAT,
            "version": VERSION,
            **described,
            "model": law_to_dict(self.model),
            **({"audience": self.audience} if self.audience == "curator" else {}),
            "limit": self.limit,
            **({"delta": self.delta} if self.delta else {}),
            **({"releases": self.releases} if self.releases > 1 else {}),
            "method": self.method,
            "unit": self.unit,
            "leakage": leakage_to_dict(self.leakage),
            **({"measures": dict(self.measures)} if "channel" in described else {}),
            **({"checks": [check.to_dict() for check in self.checks]} if self.checks else {}),
            **({"accepted": list(self.accepted)} if self.accepted else {}),
            **({} if self.missing == _UNSAID[self.task] else {"missing": self.missing}),
        }
        for said in (*self.leakage.assumptions, getattr(self.model, "note", None) or ""):
            text(said, "the note of a model set, like every assumption,")
        for state in (*self.states, *_named(self)):
            if not isinstance(state, str | int | float):
                raise InvalidInput(
                    "state names must be strings or numbers to be written to a plan file, found "
                    f"{type(state).__name__}"
                )
        try:
            written = json.dumps({**body, "checksum": checksum(body)}, indent=2, allow_nan=False)
        except TypeError as error:
            raise InvalidInput(
                "names in a model must be texts, numbers or tuples of these to be written to a file"
            ) from error
        except ValueError as error:
            raise InvalidInput(
                "an infinite or undefined number cannot be written to a plan file; plans with a "
                "finite leakage and finite state names can"
            ) from error
        if not is_unicode(body):
            raise InvalidInput(
                "a name in the plan holds half of a surrogate pair, which is no text; rename it"
            )
        return written

    @classmethod
    def from_json(cls, text: str, trusted: Iterable[str] | None = None) -> "Plan[Any]":
        """Return the plan written by `to_json`; refuse anything else.

        With ``trusted`` public keys (see `undertow.signatures`), refuse a plan that none of them
        signed; a signature that does not match is refused always.

        Every field is checked for itself and against the others. Whether the noise keeps the
        guarantee is checked by `undertow.planning.proofs.check_proof`, before anything is released.
        A plan with a failed check that it does not accept is refused with `FailedChecks`.
        """
        body = parse(text)
        if body.get("checksum") != checksum(body):
            raise InvalidPlan(
                "the plan's checksum does not match its content: it was edited or damaged, so its "
                "guarantee no longer holds; make the plan again"
            )
        if trusted is not None or "signature" in body:
            verified(body, trusted)
        try:
            return _read(body)
        except FailedChecks:
            raise
        except UndertowError as error:
            raise InvalidPlan(
                f"the plan file is malformed: {error}; make it again with 'undertow plan' or "
                "calibrate(...)"
            ) from error


_COVERED = {
    "series": "the proof covers one answer about whole series",
    "windows": "the proof covers one answer about whole series, or about one window of each",
    "any": "the proof covers any windows and groups of the series, and several answers on "
    "disjoint records",
}
_UNITS = {
    "record": "one record of a series, with all that other records say about it",
    "person": "all records of one person at once",
}


def _protected(plan: Plan[Any]) -> str:
    """Return what is protected, in words."""
    window = plan.leakage.secrets.window
    if window == 1:
        return _UNITS[plan.unit]
    return f"the history of any {window} records in a row, with all that other records say about it"


def _randomisation(plan: Plan[Any]) -> Iterator[tuple[str, str]]:
    """Yield the noise and how far off it puts an answer, or what a local plan keeps."""
    if plan.task != "answer":
        yield "keeps", ", ".join(f"{name} {value:.4g}" for name, value in plan.measures)
        return
    yield "noise", plan.noise.said()
    error = f"{plan.expected_error:.4g} expected"
    if plan.query.selects:
        yield (
            "error",
            (
                f"selected states fall short by at most {error}; all of them by at most "
                f"{plan.accuracy():.4g} with probability 95%"
            ),
        )
        return
    if plan.states or plan.query.kind not in ("histogram", "transitions"):
        error += f"; within {plan.accuracy():.4g} with probability 95%"
    moved = readings_moved(plan, plan.length)
    yield "error", error if moved is None else f"{error}; {moved}"


_UNSAID: dict[Task, str] = {"answer": "any", "flip": "none", "redact": "none"}
"""What a file that says nothing of missing records has: flips and erasures need their state."""

_ALWAYS = ("format", "version", "model", "limit", "method", "unit", "leakage", "checksum")
_MORE = ("signature", "audience", "delta", "releases", "checks", "accepted", "missing")


def _read(body: dict[str, Any]) -> Plan[Any]:
    """Return the plan of a file whose checksum is right, if its parts fit together."""
    if "epsilon" in body and "limit" not in body:  # as files of version 0.1 have it
        body = {"limit": body["epsilon"], **{k: v for k, v in body.items() if k != "epsilon"}}
    local = "channel" in body
    amount = next((name for name in ("sigma", "table") if name in body), "scale")
    own = ("channel", "measures") if local else ("query", "noise", amount)
    fields(body, "a plan", (*_ALWAYS, *own), _MORE)
    mechanism = mechanism_from_dict(body)
    checks = checks_from_list(body.get("checks", []))
    model = model_from_dict(body["model"])
    if checks:  # plans on the model of this plan are asked about them too
        model = model.with_checks([replace(check, leakage=None) for check in checks])
    if body["unit"] not in ("record", "person") or (local and body["unit"] != "record"):
        raise InvalidPlan("unit must be 'record', or 'person' for a curator's answer")
    plan: Plan[Any] = Plan(
        mechanism=mechanism,
        model=model,
        limit=check_epsilon(number(body["limit"], "limit"), "limit"),
        leakage=leakage_from_dict(body["leakage"]),
        method=text(body["method"], "method"),
        unit=body["unit"],
        measures=measures_from_dict(body["measures"]) if local else (),
        delta=check_delta(number(body.get("delta", 0.0), "delta")),
        releases=whole(body.get("releases", 1), "releases", 10**9),
        checks=checks,
        accepted=tuple(names(body.get("accepted", []), "accepted checks")),
        missing=body.get("missing", _UNSAID[mechanism.task]),
    )
    accepted(plan.checks, plan.accepted, all_of=plan.unit == "record")
    if body.get("audience", "public") != plan.audience:
        raise InvalidPlan("it is the curator's by what its model was fitted to, or says so wrongly")
    method = METHODS[plan.task].get(plan.method)
    if method is None or (plan.unit == "person" and not method.persons):
        raise InvalidPlan("no method of that name makes such plans")
    if plan.leakage.delta != plan.delta or (local and (plan.delta or plan.releases > 1)):
        raise InvalidPlan("its leakage is at another delta than its guarantee")
    if not plan.releases >= 1 or (not local and not plan.delta and plan.noise.measure == "sigma"):
        raise InvalidPlan("Gaussian noise needs a delta above 0, and a plan at least one release")
    if method.certified and not plan.leakage.proves(plan.limit):
        raise InvalidPlan("its leakage is above its guarantee")
    _check_channel(plan)
    _check_missing(plan)
    _check_records(plan)
    _check_states(plan)
    return plan


def _check_channel(plan: Plan[Any]) -> None:
    """Refuse a channel for other records or states than the model's."""
    if plan.task == "answer":
        return
    channel = plan.mechanism
    if channel.inputs != len(plan.states) or (
        plan.length is not None and channel.length not in (None, plan.length)
    ):
        raise InvalidPlan("the channel is for other records or states than the model's")


def _check_missing(plan: Plan[Any]) -> None:
    """Refuse a word about missing records that is no state of the model."""
    known = [(type(state), state) for state in (*plan.states, "any", "none")]
    if (type(plan.missing), plan.missing) not in known:
        raise InvalidPlan("what it says of missing records is no state of the model")


def _check_records(plan: Plan[Any]) -> None:
    """Refuse records beyond the series."""
    length = plan.mechanism.length or plan.length
    leak, places = plan.leakage, [0]
    if isinstance(leak.against, Adversary):
        places += [leak.against.target, *leak.against.known]
    places += [*(leak.secrets.records or ()), leak.secrets.window - 1]
    if leak.witness is not None:
        places.append(leak.witness.length - 1)
    if length is not None and max(places) >= length:
        raise InvalidPlan(f"it names record {max(places)}, but the series has {length} records")


def _check_states(plan: Plan[Any]) -> None:
    """Refuse states that the model does not name."""
    if not plan.states:
        if plan.query.values is not None:
            raise InvalidPlan("its question has values of states, and its model names none")
        return
    shown = getattr(plan.mechanism, "outputs", None) or ()
    known = {(type(state), state) for state in (*plan.states, *shown)}
    try:
        fits = plan.model.valued(plan.query.on(plan.states, plan.rest)) == plan.query
    except UnknownState:
        fits = False
    if not fits:
        raise InvalidPlan(
            "its question is about other states than the model's, or does not say what each of "
            "them counts as"
        )
    for state in _named(plan):
        if (type(state), state) not in known:
            raise InvalidPlan("it names a state that the model does not have")


def _named(plan: Plan[Any]) -> Iterator[State]:
    """Yield every state that a plan names beside its model."""
    witness = plan.leakage.witness
    yield from plan.query.named
    for pair in plan.leakage.secrets.pairs or ():
        yield from pair
    if witness is not None:
        yield from (witness.value, witness.other)
        yield from (state for each in witness.lived for state in each)
        yield from (value for _, value in witness.known)
        yield from (state for _, states in witness.sets for state in states)
