"""Parts of a plan as JSON-ready dictionaries, and back.

A file may come from anywhere: every field is read by its type, unknown and missing ones are
refused, and what is read must fit together. That the noise keeps the guarantee is for
`undertow.planning.proofs` to check.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Literal

from undertow.adversaries import Adversary, Against, Secrets, check_against
from undertow.canonical import DEEPEST, depth, is_unicode
from undertow.certificate import Leakage, Witness
from undertow.channels import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.curves import check_delta
from undertow.errors import InvalidPlan
from undertow.mechanisms import NOISES, Noise, TabulatedNoise, noisy
from undertow.models.described import fields, names, number, numbers, text, whole
from undertow.queries import (
    AnyQuery,
    BinaryHistogram,
    Count,
    Histogram,
    Linear,
    Mean,
    State,
    Sum,
    TopK,
    Transitions,
)
from undertow.tabulated import LONGEST

__all__ = [
    "MEASURES",
    "checksum",
    "leakage_from_dict",
    "leakage_to_dict",
    "measures_from_dict",
    "mechanism_from_dict",
    "parse",
]

FORMAT = "undertow-plan"
VERSION = 1

_LARGEST = 64 * 2**20
"""Characters of a plan file, at most."""

_LOUDEST = 1e300
"""Largest noise scale, and one over the least, whose error bars are floats."""

MEASURES = {
    "expected flips": 1.0,
    "information": math.inf,
    "utility": 1.0,
    "window bound printed": 1.0,
    "window bound": 1.0,
    "optimum": 1.0,
}
"""What a local plan may say about itself, and the most that each can be."""


# --- the file -------------------------------------------------------------------------------------


def parse(content: object) -> dict[str, Any]:
    """Return the JSON object of a plan file, or say why it is none.

    >>> parse('{"format": "undertow-plan", "version": 1}')
    {'format': 'undertow-plan', 'version': 1}
    """
    if isinstance(content, str | bytes) and len(content) > _LARGEST:
        raise InvalidPlan("this is not a plan file: it is larger than 64 MiB")
    try:
        body = json.loads(
            content,  # type: ignore[arg-type]
            object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite,
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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidPlan("the plan file names a field twice, so that it means two things")
    return found


def _finite(digits: str) -> float:
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
        if not 1 / _LOUDEST <= amount <= _LOUDEST:
            raise InvalidPlan(
                f"noise of that {kind.measure} has no finite error bars; measure in other units"
            )
        made: Any = kind
        return made(query, amount)  # type: ignore[no-any-return]
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
        protect = _records(channel["protect"], "protect")
        return Redaction(numbers(channel["probabilities"]), protect)
    raise InvalidPlan("a channel is of kind 'flips', 'xor' or 'redaction'; found another")


def _query_from_dict(description: Any) -> Any:
    kind = description.get("kind") if isinstance(description, dict) else None
    match kind:
        case "count":
            fields(description, "a count", ("kind", "states"))
            if not isinstance(description["states"], list):
                raise InvalidPlan("a count needs a list of states")
            return Count(names(description["states"], "states"))
        case "histogram":
            fields(description, "a histogram", ("kind",), ("totalled",))
            return Histogram(description.get("totalled", False))
        case "binary-histogram":
            fields(description, "a histogram of two states", ("kind", "counted", "rest"))
            return BinaryHistogram(*(_state(description[of], of) for of in ("counted", "rest")))
        case "top-k":
            fields(description, "the most frequent states", ("kind", "k", "among"))
            return TopK(*(whole(description[of], of, 2**31) for of in ("k", "among")))
        case "transitions":
            fields(description, "a table of transitions", ("kind",))
            return Transitions()
        case "sum" | "mean":
            fields(description, f"a {kind}", ("kind", "lower", "upper", "values", "steps"))
            lower, upper = (number(description[end], end) for end in ("lower", "upper"))
            steps = whole(description["steps"], "steps of the lattice", 2**53)
            return (Sum if kind == "sum" else Mean)(lower, upper, _values(description), steps)
        case "linear":
            fields(description, "a linear query", ("kind", "weights", "spread", "lower", "values"))
            spread = number(description["spread"], "spread")
            least = _maybe(description["lower"], "lower")
            return Linear(numbers(description["weights"]), spread, least, _values(description))
    raise InvalidPlan(
        "a question is a count, histogram, top-k, transitions, sum, mean or linear; found another"
    )


def _state(value: Any, what: str) -> State:
    """Return the one state that a file names."""
    (state,) = names([value], what)
    return state  # type: ignore[no-any-return]


def _values(description: dict[str, Any]) -> list[tuple[State, float]] | None:
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


def _maybe(value: Any, name: str) -> float | None:
    return None if value is None else number(value, name)


def measures_from_dict(description: Any) -> tuple[tuple[str, float], ...]:
    """Return what a local plan says about itself.

    >>> measures_from_dict({"utility": 0.5})
    (('utility', 0.5),)
    """
    found = fields(description, "the measures of a plan", (), tuple(MEASURES))
    for name, value in found.items():
        if not 0 <= number(value, name) <= MEASURES[name]:
            raise InvalidPlan(f"{name} must lie between 0 and {MEASURES[name]:g}")
    return tuple((name, float(value)) for name, value in found.items())


# --- the certificate ------------------------------------------------------------------------------


def leakage_to_dict(leakage: Leakage) -> dict[str, Any]:
    """Return the certificate of a plan."""
    against = leakage.against
    named = (
        {"target": against.target, "known": list(against.known)}
        if isinstance(against, Adversary)
        else against
    )
    pairs, records = leakage.secrets.pairs, leakage.secrets.records
    return {
        "lower": leakage.lower,
        "upper": leakage.upper,
        "method": leakage.method,
        "against": named,
        "pairs": None if pairs is None else [list(pair) for pair in pairs],
        "protect": None if records is None else list(records),
        **({"protect_window": leakage.secrets.window} if leakage.secrets.window > 1 else {}),
        "witness": None if leakage.witness is None else leakage.witness.to_dict(),
        "assumptions": list(leakage.assumptions),
        "citation": leakage.citation,
        "covers": leakage.covers,
        **(
            {"delta": leakage.delta, "curve": [list(pair) for pair in leakage.curve]}
            if leakage.delta
            else {}
        ),
    }


def leakage_from_dict(description: Any) -> Leakage:
    """Return the certificate described by `leakage_to_dict`; ``covers`` is "series" if left out."""
    needed = (
        "lower", "upper", "method", "against", "pairs", "protect", "witness", "assumptions",
        "citation",
    )  # fmt: skip
    read = fields(description, "a leakage", needed, ("covers", "delta", "curve", "protect_window"))
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
        against=_against(read["against"]),
        witness=None if read["witness"] is None else _witness(read["witness"]),
        assumptions=tuple(text(note, "an assumption") for note in read["assumptions"]),
        citation=None if citation is None else text(citation, "a citation"),
        secrets=_secrets(read["pairs"], read["protect"], read.get("protect_window", 1)),
        covers=_covers(read.get("covers", "series")),
        delta=check_delta(number(read.get("delta", 0.0), "delta")),
        curve=_curve(read.get("curve", [])),
    )


def _curve(pairs: Any) -> tuple[tuple[float, float], ...]:
    """Return pairs of an epsilon and a delta, each number finite and not below 0."""
    if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise InvalidPlan("a curve is a list of pairs of an epsilon and a delta")
    found = tuple((number(e, "epsilon"), number(d, "delta")) for e, d in pairs)
    if any(e < 0 or not 0 <= d <= 1 for e, d in found):
        raise InvalidPlan("a curve has an epsilon below 0, or a delta that is no probability")
    return found


def _against(named: Any) -> Against:
    if isinstance(named, dict):
        fields(named, "an adversary", ("target", "known"))
        target = whole(named["target"], "target")
        return Adversary(target, _records(named["known"], "known"))
    if isinstance(named, str):
        return check_against(named)
    raise InvalidPlan("against must be 'any', 'ignorant', 'informed' or an adversary")


def _secrets(pairs: Any, protect: Any, window: Any) -> Secrets:
    if pairs is not None:
        if not isinstance(pairs, list):
            raise InvalidPlan("pairs must be a list of pairs of states")
        for pair in pairs:
            if not isinstance(pair, list) or len(names(pair, "states")) != 2:
                raise InvalidPlan("pairs must be a list of pairs of states")
    size = whole(window, "the window that is protected")
    return Secrets(pairs, None if protect is None else _records(protect, "protect"), size)


def _covers(name: object) -> Literal["series", "windows", "any"]:
    if name in ("series", "windows", "any"):
        return name
    raise InvalidPlan("a proof covers 'series', 'windows' or 'any' shapes of data, found another")


def _records(listed: Any, name: str) -> list[int]:
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


def _witness(description: Any) -> Witness:
    """Return the attack described by ``Witness.to_dict``, its records within its series."""
    keys = ("target", "length", "known", "value", "other", "sets", "output", "outputs")
    read = fields(description, "a witness", keys, ("window", "histories"))
    (length,) = _records([read["length"]], "the length of a witness")
    places = _records([read["target"]], "the target of a witness")
    for key in ("known", "sets", "outputs"):
        rows = read[key]
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == 2 for row in rows
        ):
            raise InvalidPlan(f"'{key}' of a witness must be pairs of a record and what it holds")
        places += _records([record for record, _ in rows], f"'{key}' of a witness")
    window = read.get("window")
    if window is not None:
        if not isinstance(window, list) or len(window) != 2:
            raise InvalidPlan("the window of a witness must be its first record and its end")
        first, end = _records(window, "the window of a witness")
        if not first < end <= length:
            raise InvalidPlan("the window of a witness must lie within its series")
    lived = read.get("histories")
    if lived is not None:
        places.append(read["target"] + _history(lived) - 1)
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
    names(list(_named(read)), "the values of a witness")
    return Witness.from_dict(read)


def _history(lived: Any) -> int:
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


def _named(read: dict[str, Any]) -> Iterator[State]:
    """Yield every value that a witness names."""
    yield from (value for each in read.get("histories") or () for value in each)
    yield from (read["value"], read["other"])
    yield from (value for _, value in read["known"])
    yield from (value for _, value in read["outputs"] if value is not None)  # None: erased
    yield from (state for _, states in read["sets"] for state in states)
