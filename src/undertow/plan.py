"""The frozen plan: query, mechanism, certified leakage, and its file."""

import base64
import binascii
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal

from typing_extensions import TypeVar

from undertow.accuracy import accuracy as _accuracy
from undertow.accuracy import errors as _errors
from undertow.adversaries import Adversary, Against, check_against, words
from undertow.certificate import DEEPEST, Leakage, Witness, depth, is_unicode
from undertow.curves import check_delta
from undertow.errors import (
    FailedChecks,
    InvalidInput,
    InvalidPlan,
    NoPublicForm,
    NotSupported,
    UndertowError,
    UnknownState,
)
from undertow.files import create_new
from undertow.mechanisms import (
    LONGEST,
    NOISES,
    LocalMechanism,
    Noise,
    RandomizedResponse,
    Redaction,
    Scaled,
    TabulatedNoise,
    Unit,
    XorNoise,
    noisy,
)
from undertow.methods import METHODS, is_certified
from undertow.models.fitting.checks import (
    SAME_RECORDS,
    Check,
    accepted,
    check_accepted,
    checks_from_list,
    failed,
    listed,
    origin_of,
)
from undertow.models.records import CURATORS, Audience, Origin, audience_of, weakest
from undertow.models.registry import law_to_dict
from undertow.models.sets import AnyModel, ModelSet, model_from_dict
from undertow.models.validation import fields, names, number, numbers, text, whole
from undertow.numerics import check_epsilon, up
from undertow.queries import (
    AnyQuery,
    BaseQuery,
    BinaryHistogram,
    Count,
    Histogram,
    Linear,
    LocalQuery,
    Mean,
    State,
    Sum,
    Task,
    TopK,
    Transitions,
    rest_of,
)
from undertow.rounding import above, below, odds, stated
from undertow.secrets import ONE_RECORD, Secret, secret_from_dict

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from undertow.releasing.series import Stream

__all__ = [
    "Plan",
    "Suggested",
    "adversary_to_dict",
    "check_plan",
    "check_private",
    "checked",
    "checksum",
    "doubts",
    "exact_answer",
    "leakage_to_dict",
    "new_key",
    "parse",
    "premise",
    "public_key",
    "readings_moved",
    "sign",
]


UNBOUNDED = "not bounded: no bound covers all that the records suggest instead of the model"


@dataclass(frozen=True, slots=True)
class Suggested:
    """The leakage under the models that failed checks suggest instead of the fitted one.

    ``most`` is the largest bound known, under the model or under what one failed check suggests.
    ``bounded`` says whether it is a bound on all that the records suggest: not where a failed check
    suggests no model with a bound, and not where several failed, because no model has all that they
    suggest. ``attained`` is the largest leakage of an attack where no bound is known.
    """

    most: float
    attained: float = 0.0
    bounded: bool = True

    @classmethod
    def by(cls, checks: "Sequence[Check]", own: float) -> "Suggested":
        """Return the leakages that checks suggest, where it is at most ``own`` under the model.

        >>> from undertow.models.fitting.checks import Check
        >>> Suggested.by([Check("order", "failed", "", leakage=(1.5, 2.0))], 1.0)
        Suggested(most=2.0, attained=0.0, bounded=True)
        """
        ends = [check.leakage or (0.0, None) for check in failed(checks)]
        uppers = [upper for _, upper in ends if upper is not None]
        attained = max((lower for lower, upper in ends if upper is None), default=0.0)
        return cls(max([own, *uppers]), attained, len(uppers) == len(ends) <= 1)

    @classmethod
    def of(cls, plan: "Plan[Any]") -> "Suggested":
        """Return the leakages that the checks of a plan suggest.

        A plan for whole persons, and one against an attacker who knows all other records, hold
        whatever the dependence among records.
        """
        depends = plan.unit == "record" and plan.against != "informed"
        return cls.by(plan.checks if depends else (), plan.leakage.upper)

    def worse(self, own: float) -> bool:
        """Return whether the leakage may exceed ``own``."""
        return not self.bounded or self.most > own

    def unbounded(self) -> tuple[str, ...]:
        """Return clauses on the missing bound, and on the leakage that an attack attains."""
        attack = (
            f"an attack on what the records suggest attains a leakage of {below(self.attained)}"
        )
        return (*[UNBOUNDED] * (not self.bounded), *[attack] * (self.attained > 0))

    def beyond(self, limit: float) -> tuple[str, ...]:
        """Return the leakages beyond a limit, as clauses; none where the limit is a bound.

        >>> Suggested(2.0).beyond(1.0)
        ('under what the records suggest instead of the model it is a factor 7.39 (leakage 2)',)
        """
        most = (
            "under what the records suggest instead of the model it is a factor "
            f"{odds(self.most)} (leakage {above(self.most)})"
        )
        return (*self.unbounded(), *[most] * (self.most > limit))


def check_plan(plan: object) -> None:
    """Refuse anything but a plan."""
    if not isinstance(plan, Plan):
        raise InvalidInput(f"a Plan is required, found {type(plan).__name__}; use calibrate(...)")


def premise(plan: "Plan[Any]") -> str:
    """Return the premise of a number that holds under the plan's model alone.

    "" where no failed check is known to cost more.
    """
    worse = Suggested.of(plan).worse(plan.leakage.upper)
    return "if the model were true, " if worse else ""


def checked(checks: "Sequence[Check]", accepted: Sequence[str]) -> tuple[str, ...]:
    """Describe the outcome of the checks of a model, as clauses.

    >>> from undertow.models.fitting.checks import Check
    >>> checked((Check("order", "failed", ""), Check("time", "not tested", "")), ["order"])
    ("the check 'order' failed and was accepted", "'time' was not tested")
    >>> checked((), ())
    ('the model was not checked against records',)
    """
    if not checks:
        return ("the model was not checked against records",)
    broken = [check.name for check in failed(checks)]
    untested = [check.name for check in checks if check.outcome == "not tested"]
    approved = [name for name in broken if name in accepted]
    others = [name for name in broken if name not in accepted]
    clauses = (
        (
            approved,
            "the check {} failed and was accepted",
            "the checks {} failed and were accepted",
        ),
        (others, "the check {} failed", "the checks {} failed"),
        (untested, "{} was not tested", "{} were not tested"),
    )
    return tuple(
        (several if len(names) > 1 else one).format(listed(names))
        for names, one, several in clauses
        if names
    )


def doubts(checks: "Sequence[Check]") -> tuple[str, ...]:
    """Return the assumptions of a leakage about the checks of its model.

    >>> from undertow.models.fitting.checks import Check
    >>> doubts([Check("order", "failed", "")])
    ("not bounded unless the model is true all the same: the check 'order' failed",)
    >>> doubts([Check("order", "passed", "")])
    ()
    """
    clauses = checked(checks, ())
    if not failed(checks):
        return clauses
    return (f"not bounded unless the model is true all the same: {clauses[0]}", *clauses[1:])


def reading_error(plan: "Plan[Any]") -> float | None:
    """Return how far a reading is at most from the number of its state, None where unknown.

    The worst case over all readings, from cut points and bounds; never measured on records.
    """
    rule = plan.model.state_rule()
    return None if rule is None else rule.farthest(plan.query)


def exact_answer(plan: "Plan[Any]") -> str:
    """Describe the answer that an error bar is about: the truth, or its stand-in."""
    query: Any = plan.query
    stands = query.values is not None and reading_error(plan) != 0
    return "the answer on the numbers of the states" if stands else "the truth"


def readings_moved(plan: "Plan[Any]", rows: int | None) -> str | None:
    """Return how far rounding readings to the numbers of states moves an answer, in words.

    None where states have no numbers. Without ``rows`` it is per record.
    """
    query: Any = plan.query
    if query.values is None:
        return None
    error = reading_error(plan)
    if error is None:
        return "how far readings are from their state's number is not known"
    if rows is None:
        return f"rounding a reading to its state's number moves it by at most {above(error)}"
    moved = above(query.answer_shift(error, rows)) if error else "0"
    return f"rounding readings to their state's number moves the answer by at most {moved}"


FORMAT = "undertow-plan"
VERSION = 2

_LARGEST = 64 * 2**20
"""Characters of a plan file, at most."""

_LARGEST_NOISE = 1e300
"""Largest noise scale, and one over the least, whose error bars are floats."""

MEASURES = {
    "expected flips": 1.0,
    "information": math.inf,
    "utility": 1.0,
    "window bound printed": 1.0,
    "window bound": 1.0,
    "optimum": 1.0,
}
"""The measures of a local plan, and the largest value of each."""


# --- the file -------------------------------------------------------------------------------------


def parse(content: object) -> dict[str, Any]:
    """Return the JSON object of a plan file, or say why it is none.

    >>> parse('{"format": "undertow-plan", "version": 2}')
    {'format': 'undertow-plan', 'version': 2}
    """
    if isinstance(content, str | bytes) and len(content) > _LARGEST:
        raise InvalidPlan("this is not a plan file: it is larger than 64 MiB")
    try:
        body = json.loads(
            content,  # type: ignore[arg-type]
            object_pairs_hook=_unique_fields, parse_float=_finite_number,
            parse_constant=_finite_number,
        )  # fmt: skip
    except InvalidPlan:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidPlan("this is not a plan file: it is not JSON") from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise InvalidPlan(
            f'this is not a plan file: it lacks "format": "{FORMAT}"; make one with '
            "'undertow plan'"
        )
    version = body.get("version")
    if version != VERSION or type(version) is not int:
        raise InvalidPlan(
            f"the plan has version {str(version)[:40]!r}, this undertow reads version {VERSION}; "
            "make the plan again with this version"
        )
    if depth(body) > DEEPEST:
        raise InvalidPlan(f"the plan file nests lists more than {DEEPEST} deep")
    if not is_unicode(body):
        raise InvalidPlan("the plan file holds half of a surrogate pair, which is no text")
    return body


def checksum(body: dict[str, Any]) -> str:
    """Return the hash of the content of a plan file, less its checksum and its signature.

    >>> checksum({})[:8]
    '44136fa3'
    """
    content = {key: value for key, value in body.items() if key not in ("checksum", "signature")}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise InvalidPlan("the plan file names a field twice, so that it means two things")
    return entries


def _finite_number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise InvalidPlan("the plan file holds a number that JSON does not have, or none that fits")
    return value


# --- the randomisation ----------------------------------------------------------------------------


def _table_from_dict(query: AnyQuery, table: Any) -> TabulatedNoise:
    """Return the noise of a table: its first place, its weights in hexadecimal, its tails."""
    fields(table, "a table of noise", ("first", "weights", "ratio"))
    first, weights = table["first"], table["weights"]
    if type(first) is not int or not isinstance(weights, list) or len(weights) > LONGEST:
        raise InvalidPlan("a table of noise begins at a whole number and has a list of weights")
    if not all(isinstance(one, str) and _WEIGHT.fullmatch(one) for one in weights):
        raise InvalidPlan("the weights of a table of noise are hexadecimal numbers above 0")
    ratio = number(table["ratio"], "the ratio of the tails")
    return TabulatedNoise(query, first, tuple(int(one, 16) for one in weights), ratio)


_WEIGHT = re.compile("[1-9a-f][0-9a-f]{0,32}")
"""A weight as it is written: no zeros before it."""


def mechanism_from_dict(body: dict[str, Any]) -> Noise | LocalMechanism:
    """Return the randomisation of a plan file."""
    if "channel" not in body:
        query = _query_from_dict(body["query"])
        kind = NOISES.get(body["noise"]) if isinstance(body["noise"], str) else None
        if kind is None or kind.measure not in body:
            raise InvalidPlan(f"noise is {', '.join(NOISES)}, with its amount; found another kind")
        if kind is TabulatedNoise:
            return _table_from_dict(query, body[kind.measure])
        if kind.measure == "scale" and kind.kind != noisy(query, 1.0).kind:
            raise InvalidPlan(
                f"this question is answered with {noisy(query, 1.0).kind} noise, found another kind"
            )
        amount = number(body[kind.measure], f"noise {kind.measure}")
        if not 1 / _LARGEST_NOISE <= amount <= _LARGEST_NOISE:
            raise InvalidPlan(
                f"noise of that {kind.measure} has no finite error bars; measure in other units"
            )
        build: Any = kind
        return build(query, amount)  # type: ignore[no-any-return]
    channel = body["channel"]
    kind = channel.get("kind") if isinstance(channel, dict) else None
    if kind == "flips":
        fields(channel, "a channel of flips", ("kind", "matrix", "outputs"))
        outputs = names(channel["outputs"], "outputs")
        return RandomizedResponse(numbers(channel["matrix"]), outputs)
    if kind == "xor":
        fields(channel, "a noise chain", ("kind", "rho0", "rho1"))
        return XorNoise(number(channel["rho0"], "rho0"), number(channel["rho1"], "rho1"))
    if kind == "redaction":
        fields(channel, "a redaction", ("kind", "probabilities", "protect"))
        protect = _places_from_list(channel["protect"], "protect")
        return Redaction(numbers(channel["probabilities"]), protect)
    raise InvalidPlan("a channel is of kind 'flips', 'xor' or 'redaction'; found another")


def _read_count(description: Any) -> Count:
    fields(description, "a count", ("kind", "states"))
    if not isinstance(description["states"], list):
        raise InvalidPlan("a count needs a list of states")
    return Count(names(description["states"], "states"))


def _read_histogram(description: Any) -> Histogram:
    fields(description, "a histogram", ("kind",), ("totalled",))
    return Histogram(description.get("totalled", False))


def _read_binary_histogram(description: Any) -> BinaryHistogram:
    fields(description, "a histogram of two states", ("kind", "counted", "rest"))
    return BinaryHistogram(*(_state(description[of], of) for of in ("counted", "rest")))


def _read_top_k(description: Any) -> TopK:
    fields(description, "the most frequent states", ("kind", "k", "among"))
    return TopK(*(whole(description[of], of, 2**31) for of in ("k", "among")))


def _read_transitions(description: Any) -> Transitions:
    fields(description, "a table of transitions", ("kind",))
    return Transitions()


def _read_total(description: Any) -> Sum | Mean:
    kind: type[Sum] | type[Mean] = Sum if description["kind"] == Sum.kind else Mean
    fields(description, f"a {kind.kind}", ("kind", "lower", "upper", "values", "steps"))
    lower, upper = (number(description[end], end) for end in ("lower", "upper"))
    steps = whole(description["steps"], "steps of the lattice", 2**53)
    return kind(lower, upper, _values_from_list(description), steps)


def _read_linear(description: Any) -> Linear:
    fields(description, "a linear query", ("kind", "weights", "spread", "lower", "values"))
    spread = number(description["spread"], "spread")
    least = _optional_number(description["lower"], "lower")
    return Linear(numbers(description["weights"]), spread, least, _values_from_list(description))


QUERIES: dict[str, Callable[[dict[str, Any]], BaseQuery]] = {
    Count.kind: _read_count,
    Histogram.kind: _read_histogram,
    BinaryHistogram.kind: _read_binary_histogram,
    TopK.kind: _read_top_k,
    Transitions.kind: _read_transitions,
    Sum.kind: _read_total,
    Mean.kind: _read_total,
    Linear.kind: _read_linear,
}
"""The readers of the queries of plan files, by kind: a new query has one line here."""


def _query_from_dict(description: Any) -> Any:
    """Return the query of a plan file."""
    kind = description.get("kind") if isinstance(description, dict) else None
    if not isinstance(kind, str) or kind not in QUERIES:
        raise InvalidPlan(f"a question is a {', '.join(QUERIES)}; found another")
    return QUERIES[kind](description)


def _state(value: Any, what: str) -> State:
    """Return the one state that a file names."""
    (state,) = names([value], what)
    return state  # type: ignore[no-any-return]


def _values_from_list(description: dict[str, Any]) -> list[tuple[State, float]] | None:
    """Return the number of each state that a file gives, None where it gives none."""
    listed = description["values"]
    if listed is None:
        return None
    if not isinstance(listed, list) or any(
        not isinstance(pair, list) or len(pair) != 2 for pair in listed
    ):
        raise InvalidPlan("values must be pairs of a state and its number")
    states = names([state for state, _ in listed], "states")
    numbers_ = (number(each, "a value") for _, each in listed)
    return list(zip(states or (), map(float, numbers_), strict=True))


def _optional_number(value: Any, name: str) -> float | None:
    return None if value is None else number(value, name)


def measures_from_dict(description: Any) -> tuple[tuple[str, float], ...]:
    """Read the measures of a local plan.

    >>> measures_from_dict({"utility": 0.5})
    (('utility', 0.5),)
    """
    measures = fields(description, "the measures of a plan", (), tuple(MEASURES))
    for name, value in measures.items():
        if not 0 <= number(value, name) <= MEASURES[name]:
            raise InvalidPlan(f"{name} must lie between 0 and {MEASURES[name]:g}")
    return tuple((name, float(value)) for name, value in measures.items())


# --- the certificate ------------------------------------------------------------------------------


def adversary_to_dict(against: Against) -> str | dict[str, Any]:
    """Return the name of an adversary, or its target and its known records."""
    if isinstance(against, Adversary):
        return {"target": against.target, "known": list(against.known)}
    return against


def leakage_to_dict(leakage: Leakage) -> dict[str, Any]:
    """Return the certificate of a plan."""
    return {
        "lower": leakage.lower,
        "upper": leakage.upper,
        "method": leakage.method,
        "against": adversary_to_dict(leakage.against),
        "secret": leakage.secret.to_dict(),
        "witness": None if leakage.witness is None else leakage.witness.to_dict(),
        "assumptions": list(leakage.assumptions),
        "citation": leakage.citation,
        "valid_for": leakage.valid_for,
        **(
            {"delta": leakage.delta, "curve": [list(pair) for pair in leakage.curve]}
            if leakage.delta
            else {}
        ),
    }


def leakage_from_dict(description: Any) -> Leakage:
    """Return the certificate described by `leakage_to_dict`."""
    needed = (
        "lower", "upper", "method", "against", "secret", "witness", "assumptions", "citation",
        "valid_for",
    )  # fmt: skip
    read = fields(description, "a leakage", needed, ("delta", "curve"))
    lower, upper = (float(number(read[end], f"the {end} end")) for end in ("lower", "upper"))
    if not 0 <= lower <= upper:
        raise InvalidPlan("the ends of a leakage must be ordered, 0 <= lower <= upper")
    if not isinstance(read["assumptions"], list):
        raise InvalidPlan("assumptions must be a list of texts")
    citation = read["citation"]
    return Leakage(
        lower=lower,
        upper=upper,
        method=text(read["method"], "the method of a leakage"),
        against=_against_from_dict(read["against"]),
        witness=None if read["witness"] is None else _witness_from_dict(read["witness"]),
        assumptions=tuple(text(note, "an assumption") for note in read["assumptions"]),
        citation=None if citation is None else text(citation, "a citation"),
        secret=_secret_from_entry(read["secret"]),
        valid_for=_valid_for(read["valid_for"]),
        delta=check_delta(number(read.get("delta", 0.0), "delta")),
        curve=_curve_from_list(read.get("curve", [])),
    )


def _curve_from_list(pairs: Any) -> tuple[tuple[float, float], ...]:
    """Return pairs of an epsilon and a delta, each number finite and not below 0."""
    if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise InvalidPlan("a curve is a list of pairs of an epsilon and a delta")
    points = tuple((number(e, "epsilon"), number(d, "delta")) for e, d in pairs)
    if any(e < 0 or not 0 <= d <= 1 for e, d in points):
        raise InvalidPlan("a curve has an epsilon below 0, or a delta that is no probability")
    return points


def _against_from_dict(named: Any) -> Against:
    if isinstance(named, dict):
        fields(named, "an adversary", ("target", "known"))
        target = whole(named["target"], "target")
        return Adversary(target, _places_from_list(named["known"], "known"))
    if isinstance(named, str):
        return check_against(named)
    raise InvalidPlan("against must be 'any', 'ignorant', 'informed' or an adversary")


def _secret_from_entry(description: Any) -> Secret:
    """Return the secret of a certificate, its records and states in the form that files have."""
    read = fields(description, "a secret", ("kind",), ("records", "pairs"))
    records, pairs = read.get("records"), read.get("pairs")
    if isinstance(records, list):
        _places_from_list(records, "the records of a secret")
    elif records is not None:
        whole(records, "the records of a window")
    if pairs is not None:
        if not isinstance(pairs, list):
            raise InvalidPlan("pairs must be a list of pairs of states")
        for pair in pairs:
            if not isinstance(pair, list) or len(names(pair, "states")) != 2:
                raise InvalidPlan("pairs must be a list of pairs of states")
    return secret_from_dict(read)


def _valid_for(name: object) -> Literal["series", "windows", "any"]:
    if name in ("series", "windows", "any"):
        return name
    raise InvalidPlan("a proof covers 'series', 'windows' or 'any' shapes of data, found another")


def _places_from_list(listed: Any, name: str) -> list[int]:
    """Return a list of different records."""
    if not isinstance(listed, list):
        raise InvalidPlan(f"{name} must be a list of records")
    for record in listed:
        if isinstance(record, bool) or not isinstance(record, int) or record < 0:
            raise InvalidPlan(f"{name} must be a list of records, counted from 0")
        whole(record, name)
    if len(set(listed)) < len(listed):
        raise InvalidPlan(f"{name} names a record twice")
    return listed


def _witness_from_dict(description: Any) -> Witness:
    """Return the attack described by ``Witness.to_dict``, its records within its series."""
    keys = ("target", "length", "known", "value", "other", "sets", "output", "outputs")
    read = fields(description, "a witness", keys, ("window", "histories"))
    (length,) = _places_from_list([read["length"]], "the length of a witness")
    places = _places_from_list([read["target"]], "the target of a witness")
    for key in ("known", "sets", "outputs"):
        rows = read[key]
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == 2 for row in rows
        ):
            raise InvalidPlan(f"'{key}' of a witness must be pairs of a record and what it holds")
        places += _places_from_list([record for record, _ in rows], f"'{key}' of a witness")
    window = read.get("window")
    if window is not None:
        if not isinstance(window, list) or len(window) != 2:
            raise InvalidPlan("the window of a witness must be its first record and its end")
        first, end = _places_from_list(window, "the window of a witness")
        if not first < end <= length:
            raise InvalidPlan("the window of a witness must lie within its series")
    lived = read.get("histories")
    if lived is not None:
        places.append(read["target"] + _history_length(lived) - 1)
    if max(places) >= length:
        raise InvalidPlan("a witness names a record beyond its series")
    if read["target"] in (record for record, _ in read["known"]):
        raise InvalidPlan("a witness knows its own target")
    for _, states in read["sets"]:
        if not isinstance(states, list):
            raise InvalidPlan("'sets' of a witness must be lists of states")
    output = read["output"]
    if output is not None:
        number(output, "the output of a witness")
    witness = Witness.from_dict(read)
    names(witness.values(), "the values of a witness")
    return witness


def _history_length(lived: Any) -> int:
    """Return how many records the two histories of a witness have, or refuse what is none."""
    if (
        not isinstance(lived, list)
        or len(lived) != 2
        or not all(isinstance(h, list) for h in lived)
    ):
        raise InvalidPlan("the histories of a witness must be two lists of values")
    if len(lived[0]) != len(lived[1]) or len(lived[0]) < 2:
        raise InvalidPlan("the histories of a witness must have as many records, at least two")
    return len(lived[0])


PREFIX = "ed25519:"
_PRIME = 2**255 - 19
"""Of the field over which the curve of Ed25519 is."""
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = {1, _PRIME - 1, 0, _EIGHTH, _PRIME - _EIGHTH}
"""The y of the points whose order divides 8: under such a key anybody can sign anything."""
_SIGNED_CONTEXT = b"undertow plan, version 2, sha256 of its content: "


def new_key(path: str | Path) -> str:
    """Return a new public key; write it to ``path``.pub, and its private key to ``path``.

    The private file is readable by its owner only; neither replaces a file that is there.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     key = new_key(Path(folder) / "curator")
    >>> key[:8], len(key)
    ('ed25519:', 52)
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    written = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = _public_text(private)
    secret, open_ = Path(path), Path(f"{path}.pub")
    for place in (secret, open_):
        if place.exists():
            raise InvalidInput(f"{place} exists; choose another name for the new key")
    _write(secret, written, 0o600)
    _write(open_, (public + "\n").encode(), 0o644)
    return public


def public_key(text: str) -> str:
    """Return a public key as it is compared, from the content of a public key file.

    Refuses a key under which anybody can sign (a point of small order), and a second spelling of a
    key: trust in one would not be trust in the other.

    >>> public_key("ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\\n")[-4:]
    'URo='
    """
    key = text.strip()
    raw = _from_base64(key.removeprefix(PREFIX))
    if not key.startswith(PREFIX) or len(raw) != 32 or key != _base64(raw):
        raise InvalidInput(
            "a public key is one line such as ed25519:..., as 'undertow keys new' writes it"
        )
    y = int.from_bytes(raw, "little") % 2**255  # the first bit is the sign of x
    if y >= _PRIME or y in _SMALL_ORDER:
        raise InvalidInput(
            "this public key belongs to nobody: anybody can sign under it (a point of small order, "
            "or no canonical encoding); ask for the key that 'undertow keys new' wrote"
        )
    return key


def sign(text: str, private_key: str | Path) -> str:
    """Return a plan file with the signature of a private key file; any other signature goes.

    What is signed is the checksum of the content, so the layout of the file may change.
    """
    body = parse(text)
    if body.get("checksum") != checksum(body):
        raise InvalidPlan("the plan's checksum does not match its content; it is not signed")
    key = _read_private(Path(private_key))
    signature = {
        "algorithm": "ed25519",
        "public_key": _public_text(key),
        "signature": base64.b64encode(key.sign(_message(body))).decode(),
    }
    return json.dumps({**body, "signature": signature}, indent=2, allow_nan=False)


def check_private(path: str | Path) -> str:
    """Check a private key file, and return its public key."""
    return _public_text(_read_private(Path(path)))


def verified(body: dict[str, Any], trusted: Iterable[str] | None) -> str | None:
    """Return the key that signed the content of a plan file, None without a signature.

    A wrong signature is refused always, none or a stranger's where ``trusted`` is given.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    content = body.get("signature")
    if "signature" not in body:
        if trusted is not None:
            raise InvalidPlan("the plan is not signed, and only plans of trusted keys are accepted")
        return None
    signature: dict[str, Any] = content if isinstance(content, dict) else {}
    plain = set(signature) == {"algorithm", "public_key", "signature"}
    if not plain or not all(isinstance(part, str) for part in signature.values()):
        raise InvalidPlan("the plan's signature is malformed; sign it again")
    if signature["algorithm"] != "ed25519":
        raise InvalidPlan("the plan's signature is of an unknown kind; sign it again")
    try:
        key = public_key(signature["public_key"])
    except InvalidInput as error:
        raise InvalidPlan(f"the plan's signature says nothing: {error}") from error
    try:
        public = Ed25519PublicKey.from_public_bytes(_from_base64(key.removeprefix(PREFIX)))
        public.verify(_from_base64(signature["signature"]), _message(body))
    except (InvalidSignature, ValueError) as error:
        raise InvalidPlan(
            "the plan's signature does not match its content: it was edited after it was signed; "
            "ask its maker for the plan again"
        ) from error
    if trusted is not None and key not in {public_key(each) for each in trusted}:
        raise InvalidPlan(
            f"the plan is signed by {key}, which is not among the trusted keys; trust it, or ask "
            "for a plan by somebody who is"
        )
    return key


def _message(body: dict[str, Any]) -> bytes:
    return _SIGNED_CONTEXT + checksum(body).encode()


def _public_text(private: "Ed25519PrivateKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return _base64(raw)


def _base64(raw: bytes) -> str:
    return PREFIX + base64.b64encode(raw).decode()


def _read_private(path: Path) -> "Ed25519PrivateKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InvalidInput(f"cannot read the key file {path}: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            f"{path} is no private key for plans; make one with 'undertow keys new NAME'"
        )
    return key


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        handle = create_new(path, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from error


def _from_base64(text: str) -> bytes:
    """Return the bytes of a base64 text, b'' if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


M = TypeVar("M", bound=Noise | LocalMechanism, default=Scaled, covariant=True)


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Generic[M]):
    """A query, the randomisation that answers it, and the certified leakage of the two together.

    Made by `calibrate`; holds no solver and no records. ``origin`` says where its model comes from,
    and ``audience`` who may see it: not every plan may be published. ``limit`` is what was asked
    for, ``leakage.upper`` what is proved about ``leakage.secret``. ``measures`` are named numbers
    about a local plan: how much of the series stays, and how much could. With a ``delta`` the
    leakage is one at that delta; with several
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
        mechanism: Any = self.mechanism
        if self.task == "answer":
            return mechanism  # type: ignore[no-any-return]
        raise NotSupported(
            "this plan randomises a series record by record, it answers no query with noise; use "
            "sanitize(plan, data)"
        )

    @property
    def query(self) -> AnyQuery | LocalQuery:
        """The query."""
        return self.mechanism.query

    @property
    def task(self) -> Task:
        """Kind of release: an answer, a series with flips, or one with erasures."""
        return self.mechanism.task

    @property
    def unit(self) -> Unit:
        """What its secret is a part of: one ``"record"`` or more, or all of a ``"person"``."""
        return "person" if self.leakage.secret.person else "record"

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
        """Origin of its model and its checks: the one that discloses most."""
        return weakest((self.model.origin, origin_of(self.checks)))

    @property
    def audience(self) -> Audience:
        """Audience of the plan and its reports: ``"public"``, or the ``"curator"`` alone."""
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
            noise: Any = self.noise
            return float(noise.rho_upper(self.length))
        return up(self.noise.level_upper(self.length) ** 2 / 2)

    def stream(self, *, strict: bool = False, insecure_seed: int | None = None) -> "Stream":
        """Return what randomises one series record by record, for a device that holds no more.

        Flips need no memory, erasures the number of records so far, a noise chain its state. Bits
        come from the operating system for each record. ``strict`` is that of `sanitize`; with the
        same ``insecure_seed`` that returns the same outputs of the whole series.

        >>> from undertow import MarkovChain, Series, calibrate
        >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
        >>> plan = calibrate(Series(), chain, limit=3.0)
        >>> list(plan.stream(insecure_seed=1).each(["idle", "active", "active", "idle"]))
        ['idle', 'idle', 'active', 'idle']
        """
        series = import_module("undertow.releasing.series")  # a layer above plans: it draws noise
        begun: Stream = series.stream(self, strict=strict, insecure_seed=insecure_seed)
        return begun

    @property
    def rest(self) -> State | None:
        """The state in which missing records are counted, None where they are in none."""
        return rest_of(self.missing, self.states)

    @property
    def numbers(self) -> int:
        """Number of noisy numbers in a release."""
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
        """Return what weakens the guarantee, each as a clause, the weightiest first."""
        clauses = list(checked(self.checks, self.accepted)) if self.unit == "record" else []
        if self.audience != "public":
            clauses.append(f"{CURATORS}: this plan is the curator's")
        if self.missing == "any":
            clauses.append("assumes that which values are missing depends on no record")
        elif self.missing == "none":
            unlike = "" if self.rest is None else f" (one that is counts as {self.rest!r})"
            clauses.append(f"assumes that no value is missing{unlike}")
        else:
            clauses.append(f"missing values are records in state {self.missing!r}")
        error = reading_error(self)
        if self.query.values is not None and error != 0:
            distance = (
                "how far readings are from their state's number is not known"
                if error is None
                else f"a reading, clipped to the range, lies within {above(error)} of it"
            )
            clauses.append(f"a record counts as the number of its state, and {distance}")
        if records := str(self.model.records):
            clauses.append(records)
        if SAME_RECORDS in self.accepted:
            clauses.append(
                "the model may be fitted to the very records that are released, which was accepted"
            )
        return tuple(clauses)

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
        alone, clauses = f"{self._gain()} {self._moved(own)}", [*suggested.unbounded()]
        if suggested.most > own:
            most = f"{self._gain()} {self._moved(suggested.most)}"
            clauses.append(f"under what the records suggest instead, {most}")
            alone = self._moved(own)
        return "; ".join([*clauses, f"if the model were true, {alone}"])

    def _gain(self) -> str:
        """Return who can learn what, and from how many releases."""
        what = self.leakage.secret.words()
        who = words(self.against, self.leakage.secret.window)
        several = f"{self.releases} releases together: " if self.releases > 1 else ""
        return f"{several}{who} can raise the odds {what}"

    def _moved(self, upper: float) -> str:
        """Describe a leakage by how far the odds move."""
        if not self.delta:
            return f"by at most a factor {odds(upper)} (leakage {above(upper)})"
        return (
            f"by more than a factor {odds(upper + math.log(2))} with probability at most "
            f"{stated(2 * self.delta)} (leakage {above(upper)} at delta {stated(self.delta)})"
        )

    def __repr__(self) -> str:
        """Return the plan in one line: query, kind of model, guarantee."""
        secret = self.leakage.secret
        return (
            f"Plan({self.query!r} on {type(self.model).__name__}, limit={self.limit:g}, "
            f"{f'delta={self.delta:g}, ' if self.delta else ''}"
            f"{f'releases={self.releases}, ' if self.releases > 1 else ''}"
            f"{'' if secret == ONE_RECORD else f'secret={secret!r}, '}"
            f"against={self.against!r}, method={self.method!r})"
        )

    def __str__(self) -> str:
        """Return the plan for people: question, guarantee, noise, error, proof, unit and model."""
        basis = "certified" if is_certified(self) else "as published"
        window, others = self.leakage.secret.window, "with all that other records say about it"
        protects = f"one record of a series, {others}"
        if self.unit == "person":
            protects = "all records of one person at once"
        elif window > 1:
            protects = f"the history of any {window} records in a row, {others}"
        rows = [
            ("question", self.query.words()),
            ("guarantee", self.guarantee()),
            *_randomisation(self),
            ("method", f"{self.method}, {basis}; {_COVERED[self.leakage.valid_for]}"),
            ("protects", protects),
            ("model", self.model.describe()),
            *(("checked", check.summary()) for check in self.checks),
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
            "leakage": leakage_to_dict(self.leakage),
            **({"measures": dict(self.measures)} if "channel" in described else {}),
            **({"checks": [check.to_dict() for check in self.checks]} if self.checks else {}),
            **({"accepted": list(self.accepted)} if self.accepted else {}),
            **({} if self.missing == _DEFAULT_MISSING[self.task] else {"missing": self.missing}),
        }
        note = self.model.note if isinstance(self.model, ModelSet) else None
        for assumption in (*self.leakage.assumptions, note or ""):
            text(assumption, "the note of a model set, like every assumption,")
        for state in (*self.states, *_named_states(self)):
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

        With ``trusted`` public keys (see `undertow.plan`), refuse a plan that none of them
        signed; a signature that does not match is refused always.

        Every field is checked for itself and against the others. Whether the noise keeps the
        guarantee is checked by `undertow.planning.coverage.check_proof` before a release.
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
            return _plan_from_dict(body)
        except FailedChecks:
            raise
        except UndertowError as error:
            raise InvalidPlan(
                f"the plan file is malformed: {error}; make it again with 'undertow plan' or "
                "calibrate(...)"
            ) from error


_COVERED = {
    "series": "the proof covers one answer about whole series",
    "windows": "the proof covers one answer about whole series, or about one window of each, of any"
    " length",
    "any": "the proof covers any windows and groups of the series, and several answers on "
    "disjoint records",
}


def _randomisation(plan: Plan[Any]) -> Iterator[tuple[str, str]]:
    """Yield the noise and the error of an answer, or the measures of a local plan."""
    if plan.task != "answer":
        yield "keeps", ", ".join(f"{name} {value:.4g}" for name, value in plan.measures)
        return
    yield "noise", plan.noise.describe()
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


_DEFAULT_MISSING: dict[Task, str] = {"answer": "any", "flip": "none", "redact": "none"}
"""What a file that says nothing of missing records has: flips and erasures need their state."""

_REQUIRED = ("format", "version", "model", "limit", "method", "leakage", "checksum")
_OPTIONAL = ("signature", "audience", "delta", "releases", "checks", "accepted", "missing")


def _plan_from_dict(body: dict[str, Any]) -> Plan[Any]:
    """Return the plan of a file whose checksum is right, if its parts fit together."""
    local = "channel" in body
    amount = next((name for name in ("sigma", "table") if name in body), "scale")
    own = ("channel", "measures") if local else ("query", "noise", amount)
    fields(body, "a plan", (*_REQUIRED, *own), _OPTIONAL)
    mechanism = mechanism_from_dict(body)
    checks = checks_from_list(body.get("checks", []))
    model = model_from_dict(body["model"])
    if checks:  # plans on the model of this plan are asked about them too
        model = model.with_checks([replace(check, leakage=None) for check in checks])
    plan: Plan[Any] = Plan(
        mechanism=mechanism,
        model=model,
        limit=check_epsilon(number(body["limit"], "limit"), "limit"),
        leakage=leakage_from_dict(body["leakage"]),
        method=text(body["method"], "method"),
        measures=measures_from_dict(body["measures"]) if local else (),
        delta=check_delta(number(body.get("delta", 0.0), "delta")),
        releases=whole(body.get("releases", 1), "releases", 10**9),
        checks=checks,
        accepted=tuple(names(body.get("accepted", []), "accepted checks")),
        missing=body.get("missing", _DEFAULT_MISSING[mechanism.task]),
    )
    accepted(plan.checks, plan.accepted, all_of=plan.unit == "record")
    if body.get("audience", "public") != plan.audience:
        raise InvalidPlan("it is the curator's by what its model was fitted to, or says so wrongly")
    method = METHODS[plan.task].get(plan.method)
    if local and (plan.leakage.secret.person or plan.leakage.secret.window > 1):
        raise InvalidPlan("a window or a person is the secret of a curator's answer alone")
    if method is None or (plan.unit == "person" and not method.scope.persons):
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
    places += [*(leak.secret.targets or ()), leak.secret.window - 1]
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
    for state in _named_states(plan):
        if (type(state), state) not in known:
            raise InvalidPlan("it names a state that the model does not have")


def _named_states(plan: Plan[Any]) -> Iterator[State]:
    """Yield every state that a plan names beside its model."""
    witness = plan.leakage.witness
    yield from plan.query.named
    for pair in plan.leakage.secret.value_pairs or ():
        yield from pair
    yield from () if witness is None else witness.values()
