"""The content of a report as plain data: the answer, its guarantee, and their origin.

Only the released numbers depend on the records.
"""

import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow._version import __version__
from undertow.adversaries import words as attacker
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import Gaussian, Noise, Normal
from undertow.methods import METHODS, Method
from undertow.models.sets import AnyModel
from undertow.plan import Plan, premise, readings_moved
from undertow.planning.calibrate import effort_of, solve
from undertow.planning.questions import check_question
from undertow.reporting import scope, words

if TYPE_CHECKING:
    from undertow.planning.questions import Question
    from undertow.releasing.request import Release

__all__ = [
    "BETA",
    "Alternative",
    "Facts",
    "Matrix",
    "check_fields",
    "found_in",
    "gather",
    "guarantee_fields",
    "model_fields",
    "numbers",
    "occasion_fields",
    "parameters",
    "proof_method",
    "proved",
    "reach",
]


SMALL = 6
"""States of a matrix that is printed in full; larger ones are in the plan file."""

_MODELS = 3
"""Models of a set that are printed; more are in the plan file."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Transition probabilities: exact (``low`` is ``high``), or between two ends."""

    caption: str
    states: tuple[Any, ...]
    low: tuple[tuple[float, ...], ...]
    high: tuple[tuple[float, ...], ...]
    start: Any = None

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Return a row of cells of six digits for each state."""
        pairs = zip(self.states, self.low, self.high, strict=True)
        return tuple(
            (str(state), *(_cell(*ends) for ends in zip(low, high, strict=True)))
            for state, low, high in pairs
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description with all digits."""
        start = {} if self.start is None else {"start": self.start}
        if self.low == self.high:
            return {"transition": [list(row) for row in self.low]} | start
        return {
            "transition_lower": [list(row) for row in self.low],
            "transition_upper": [list(row) for row in self.high],
        } | start


@dataclass(frozen=True, slots=True)
class Parameters:
    """The numbers of a model: the matrices if all are small, and how large they are."""

    matrices: tuple[Matrix, ...]
    size: str


def parameters(model: AnyModel) -> Parameters:
    """Return the transition matrices of a model, none of them where one is large or no matrix.

    >>> from undertow import MarkovChain
    >>> found = parameters(MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active")))
    >>> found.size, found.matrices[0].rows()
    ('a matrix of 2 x 2', (('idle', '0.9', '0.1'), ('active', '0.3', '0.7')))
    """
    described = list(_members(model.law_dict()))
    if len(described) > _MODELS:
        what = "contexts" if "of" in described[0] else "models"
        return Parameters((), f"the parameters of {len(described)} {what}")
    matrices = [
        _matrix(
            one,
            one.get("of", "" if len(described) == 1 else f" of model {place} of {len(described)}"),
        )
        for place, one in enumerate(described, 1)
    ]
    complete = tuple(matrix for matrix in matrices if matrix is not None)
    sizes = " and ".join(dict.fromkeys(map(_size, described)))
    return Parameters(complete if len(complete) == len(matrices) else (), sizes)


def reach(model: AnyModel) -> str | None:
    """Return the memory of the model in words, None if records have no order.

    >>> from undertow import MarkovChain
    >>> reach(MarkovChain([[.9, .1], [.3, .7]]))
    'the guarantee holds as long as each record depends on those before it through the last one'
    """
    memories = dict.fromkeys(member.reach() for member in model.members() if member.reach())
    if not memories:
        return None
    return (
        "the guarantee holds as long as each record depends on those before it through "
        + ", or ".join(memories)
    )


def found_in(fingerprint: str | None) -> str:
    """Return the place of the exact parameters in words.

    >>> found_in("0f5c")
    'the plan file with the hash 0f5c'
    """
    return "the plan" if fingerprint is None else f"the plan file with the hash {fingerprint}"


def _members(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in description.get("models", ()):
        yield from _members(one)
    for label, matrix in zip(
        description.get("labels", ()), description.get("matrices", ()), strict=True
    ):  # one matrix for each context of a chain
        context = f" of {description['context']} {label}"
        yield {"transition": matrix, "states": description["states"], "of": context}
    if "models" not in description and "labels" not in description:
        yield description


def _entries(description: dict[str, Any]) -> Any:
    return description.get("transition", description.get("lower"))


def _size(description: dict[str, Any]) -> str:
    entries = _entries(description)
    if entries is None:
        return "parameters that are no matrix"
    shape = np.shape(entries)
    if len(shape) == 3 and description.get("kind") == "markov-chain":  # steps, from, to
        return f"a matrix of {shape[1]} x {shape[2]} for each of {shape[0]} steps"
    return f"a matrix of {' x '.join(map(str, shape))}"


def _matrix(description: dict[str, Any], which: str) -> Matrix | None:
    low = _entries(description)
    if low is None or len(np.shape(low)) != 2 or len(low) > SMALL:
        return None
    high = description.get("upper", low)
    box = "; from least to most" if "upper" in description else ""
    return Matrix(
        f"Transition matrix{which} (row: from, column: to{box})",
        tuple(
            description.get("symbols", description["states"])
        ),  # of hidden states: what they show
        tuple(map(tuple, low)),
        tuple(map(tuple, high)),
        description.get("start"),
    )


def _cell(low: float, high: float) -> str:
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


BETA = 0.05
"""All error bars of a report hold together with probability 1 - BETA."""

_PATIENCE = 3e4
"""The effort of a method in a report: about a second."""

_SLOW = (
    "its noise takes long to find where records far apart depend on each other, and is left to "
    "'undertow compare'"
)


@dataclass(frozen=True, slots=True)
class Number:
    """One released number: of which group and state, and how far off it may be.

    Of a selection, the state of a rank, and how far its count may fall short.
    """

    group: Any
    state: Any
    value: Any
    within: float

    def label(self) -> str:
        """Return the group and the state, or nothing.

        >>> Number("north", "idle", 12, 4.0).label()
        'north, idle'
        """
        return ", ".join(str(name) for name in (self.group, self.state) if name is not None)

    def shown(self) -> str:
        """Return the value without digits below the noise.

        >>> Number(None, None, 1234.56789, 12.0).shown(), Number(None, None, 7, 3.0).shown()
        ('1234.57', '7')
        """
        if not isinstance(self.value, float) or not self.within:
            return str(self.value)
        return f"{self.value:.{max(0, 3 - math.floor(math.log10(self.within)))}f}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        names = {"group": plain(self.group), "state": plain(self.state)}
        return {key: name for key, name in names.items() if name is not None} | {
            "value": plain(self.value),
            "within": self.within,
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another method for the same guarantee: its noise, or why it has none."""

    method: str
    certified: bool
    noise: Noise | None
    error: float | None
    reason: str | None

    @property
    def scale(self) -> float | None:
        """The scale of Laplace noise, None where there is none."""
        return amounts(self.noise)["scale"]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "method": self.method,
            "basis": "certified" if self.certified else "published",
            **amounts(self.noise),
            "expected_error": self.error,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of a report of a release."""

    release: "Release"
    numbers: tuple[Number, ...]
    alternatives: tuple[Alternative, ...]
    fingerprint: str | None
    versions: dict[str, str]

    @property
    def plan(self) -> Plan[Any]:
        """The plan of the release."""
        return self.release.plan

    @property
    def proved(self) -> Plan[Any]:
        """The plan with the certificate that covers this very release."""
        return proved(self.release)

    @property
    def private(self) -> bool:
        """Whether the noise was drawn from the operating system's secure source."""
        return self.release.randomness == "secure"

    @property
    def rounding(self) -> str | None:
        """The largest error of rounding to state numbers and to a lattice, in words."""
        rows = self.release.rows
        moves = readings_moved(self.plan, rows), words.rounding(self.plan.noise.query, rows)
        return "; ".join(part for part in moves if part is not None) or None

    def rows(self) -> list[dict[str, Any]]:
        """Return the released numbers as rows of a table, which say if they are the curator's."""
        whose = {"audience": self.plan.audience} if self.plan.audience == "curator" else {}
        return [number.to_dict() | whose for number in self.numbers]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as one JSON-ready object."""
        release, plan = self.release, self.proved
        leak = plan.leakage
        return {
            "format": "undertow-report",
            "version": 1,
            "audience": plan.audience,
            "question": plan.noise.query.words(),
            "numbers": [number.to_dict() for number in self.numbers],
            "probability": 1 - BETA,
            **occasion_fields(release),
            "noise": {
                "words": words.noise(plan),
                **amounts(plan.noise),
                "expected_error": plan.expected_error,
                "randomness": release.randomness,
                "private": self.private,
            },
            "rounding": self.rounding,
            "promise": guarantee_fields(plan, release.conditions)
            | {
                "dp_level": plan.dp_epsilon,
                **_approximate(plan),
                "valid_for": leak.valid_for,
                "proved_for": scope.proved_for(leak, plan.length, release.window),
                "method": proof_method(release),
            },
            "model": model_fields(plan, release.source, self.fingerprint),
            "checks": check_fields(plan),
            "comparison": [row.to_dict() for row in self.alternatives],
            "plan": self.fingerprint,
            "release_id": release.release_id or None,
            "ledger_entry": release.entry,
            "versions": self.versions,
        }


def amounts(noise: Noise | None) -> dict[str, float | None]:
    """Return how much noise there is for programs: its scale, for Gaussian noise its sigma."""
    if noise is None or noise.measure != "sigma":
        return {"scale": getattr(noise, "scale", None)}
    return {"scale": None, "sigma": noise.amount}


def _approximate(plan: Plan[Any]) -> dict[str, Any]:
    """Return the fields of a guarantee at a delta, and of several releases; none otherwise."""
    fields: dict[str, Any] = {}
    if plan.releases > 1:
        fields["releases"] = plan.releases
    noise = plan.noise
    if isinstance(noise, Gaussian):
        fields["mu"] = noise.mu_upper(plan.length)
    if isinstance(noise, Normal):
        fields["rho"] = noise.rho_upper(plan.length)
        fields["levels"] = words.levels(plan)
    return fields


def occasion_fields(facts: Any) -> dict[str, Any]:
    """Return for programs which records a release or a series is about, and when it was drawn."""
    return {
        "records": facts.rows,
        "persons": facts.persons,
        "window": None if facts.window is None else list(map(plain, facts.window)),
        "groups": None if facts.groups is None else list(map(plain, facts.groups)),
        "made": facts.made or None,
        "recorded_earlier": facts.replayed,
    }


def guarantee_fields(plan: Plan[Any], conditions: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the guarantee of a plan for programs."""
    leak = plan.leakage
    attack = leak.witness and words.attack(leak.witness, longer=plan.length is None)
    return {
        "words": plan.guarantee(*conditions),
        "conditions": [*plan.conditions(), *conditions],
        "unit": plan.unit,
        "unit_words": words.unit(plan),
        "secret": leak.secret.to_dict(),
        "limit": plan.limit,
        "leakage": [leak.lower, leak.upper],
        **(
            {"delta": plan.delta, "odds": premise(plan) + words.odds_sentence(plan)}
            if plan.delta
            else {}
        ),
        "against": (
            plan.against
            if isinstance(plan.against, str)
            else attacker(plan.against, leak.secret.window)
        ),
        "covered": words.covered(plan),
        "not_covered": words.not_covered(plan),
        "assumptions": list(leak.assumptions),
        "method": plan.method,
        "proved_by": leak.citation,
        "witness": attack,
    }


def proved(release: "Release") -> Plan[Any]:
    """Return the plan of a release with the certificate that covers this very release."""
    return release.plan if release.proof is None else replace(release.plan, leakage=release.proof)


def proof_method(release: "Release") -> str:
    """Return the method of the proof: the plan's own, unless another one covers the release."""
    plan, proof = release.plan, release.proof
    if proof is None or replace(proof, assumptions=plan.leakage.assumptions) == plan.leakage:
        return plan.method  # what the data says about an assumption changes no proof
    return proof.method


def model_fields(plan: Plan[Any], source: str | None, fingerprint: str | None) -> dict[str, Any]:
    """Return the model for programs: its matrices if they are small, else where they are."""
    numbers = parameters(plan.model)
    return {
        "words": plan.model.describe(),
        "memory": reach(plan.model),
        "states": [plain(state) for state in plan.states],
        "parameters": [matrix.to_dict() for matrix in numbers.matrices] or None,
        "size": numbers.size,
        "found_in": found_in(fingerprint),
        "records": replace(plan.model.records, source=None).to_dict() or None,
        "origin": plan.model.origin,
        "source": source,
    }


def check_fields(plan: Plan[Any]) -> list[dict[str, Any]]:
    """Return for programs what was tested of the model; its alternatives stand in the plan."""
    return [
        {
            "name": check.name,
            "outcome": check.outcome,
            "words": check.words,
            "basis": check.basis,
            "leakage": None if check.leakage is None else list(check.leakage),
        }
        for check in plan.checks
    ]


def gather(release: "Release") -> Facts:
    """Return what there is to say about a release.

    The other methods are calibrated for the same guarantee; what their noise leaks in truth, which
    can take minutes, is left to `undertow.compare`.
    """
    return Facts(
        release=release,
        numbers=tuple(numbers(release)),
        alternatives=tuple(_alternatives(release.plan)),
        fingerprint=_fingerprint(release.plan),
        versions={
            "undertow": __version__,
            "Python": platform.python_version(),
            "numpy": metadata.version("numpy"),
        },
    )


def numbers(release: "Release") -> Iterator[Number]:
    """Yield the released numbers; their error bars hold together."""
    groups = [(None, release.value)] if release.groups is None else list(release.value.items())
    for (group, found), bar in zip(groups, release.error_bars(BETA), strict=True):
        for state, value in release.plan.noise.query.labelled_numbers(found, release.plan.states):
            yield Number(group, state, value, bar)


def _alternatives(plan: Plan[Any]) -> Iterator[Alternative]:
    """Yield the plan's own noise, and that of the cheap methods for the same guarantee."""
    known = METHODS["answer"]
    own = known[plan.method]
    yield Alternative(own.name, own.certified, plan.noise, plan.expected_error, None)
    if plan.unit == "person":  # there is one method for persons
        return
    question = check_question(
        plan.noise.query, plan.model, plan.limit, plan.against, plan.leakage.secret,
        delta=plan.delta, releases=plan.releases, missing=plan.missing,
    )  # fmt: skip
    for method in known.values():
        if method is own or not method.quick or not method.suits(plan.model):
            continue
        for shape in question.shapes(None):
            if method.solver(shape) is not None:
                yield _alternative(method, plan, question.shaped(shape))


def _alternative(method: Method, plan: Plan[Any], question: "Question[Any]") -> Alternative:
    """Return the noise of a method for the guarantee of a plan, or why it has none."""
    if effort_of(method, question) > _PATIENCE:
        return Alternative(method.name, method.certified, None, None, _SLOW)
    try:
        method.check(question)
        mechanism = question.each(solve(method, question).mechanism)
    except NotSupported as reason:
        # advice is for planners, not for readers
        why = str(reason).partition("; use method=")[0].partition(": use method=")[0]
        return Alternative(method.name, method.certified, None, None, why)
    error = replace(plan, mechanism=mechanism).expected_error
    return Alternative(method.name, method.certified, mechanism, error, None)


def _fingerprint(plan: Plan[Any]) -> str | None:
    try:
        return plan.fingerprint()
    except InvalidInput:  # it cannot be written to a file: names of states that JSON has not
        return None


def plain(name: Any) -> Any:
    """Return a name as JSON can have it."""
    return name if name is None or isinstance(name, str | int | float | bool) else str(name)
