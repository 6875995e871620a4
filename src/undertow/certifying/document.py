"""The certificate as a file: its fields, their types and their limits; read strictly.

Every field but ``conditions`` is required and none is unknown; a number is finite and a float holds
it. What the numbers prove is checked in `undertow.certifying.checking`.
"""

import json
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from undertow.errors import InvalidCertificate

__all__ = ["FORMAT", "VERSION", "Certificate", "CertifiedClaim", "SideProof", "parse"]

FORMAT = "undertow-certificate"
VERSION = 1

STATES = 64
"""Most states of a chain."""

STEPS = 65536
"""Most records that a proof sweeps on one side."""

COUNTED = 128
"""Most records of a side whose counts are recomputed."""

LAWS = 2**24
"""Most steps^2 states^3 of the laws of counts."""

LARGEST = 600.0
"""Largest gain, level and upper end: its exponential is a float, with room for products."""

WORK = 2**31
"""Most products that a check takes: mus x steps x states^2, or those of the counts."""

CONDITIONS = 64
"""Most clauses that weaken a claim."""

_CHARACTERS = 16 * 2**20
_SUM = 1e-12
_LONGEST = 10**9
_ADVERSARIES = ("any", "ignorant", "informed")

Against = Literal["any", "ignorant", "informed"]


@dataclass(frozen=True, slots=True)
class CertifiedClaim:
    """The claim of a certificate: the model, the mechanism, the adversary and the upper end."""

    states: tuple[str, ...]
    transition: tuple[tuple[float, ...], ...]
    start: Literal["stationary"] | tuple[float, ...]
    length: int | None
    mechanism: dict[str, Any]
    against: Against
    upper: float

    @property
    def size(self) -> int:
        """The number of states."""
        return len(self.states)


@dataclass(frozen=True, slots=True)
class SideProof:
    """The proof about one side of the target and one pair of values.

    ``gains`` are upper ends of s(value, other) by the number of records on the side, or one for
    all numbers; ``mus`` are the ratios at which the sweep is made.
    """

    value: int
    other: int
    gains: tuple[float, ...]
    mus: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A claim about a leakage, with the data for its proof.

    ``conditions`` are what weakens the claim beyond its model, in words: checks of a fitted model
    that failed, or that nothing tested. They are read with the claim and prove nothing.

    Made by `undertow.certify`; `undertow.verify` and the C program in ``verifier/`` check it.

    >>> from undertow import MarkovChain, PureDP, certify
    >>> certificate = certify(PureDP(0.5), MarkovChain([[.8, .2], [.4, .6]]), against="informed")
    >>> certificate.upper, certificate.proof, parse(certificate.to_json()) == certificate
    (0.5, 'level', True)
    """

    claim: CertifiedClaim
    proof: Literal["level", "sweep", "counts"]
    own: tuple[tuple[float, ...], ...] | None = None
    steps: int = 0
    left: tuple[SideProof, ...] = ()
    right: tuple[SideProof, ...] = ()
    made_by: str = ""
    conditions: tuple[str, ...] = ()

    @property
    def upper(self) -> float:
        """The upper end that is claimed."""
        return self.claim.upper

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the file."""
        claim = self.claim
        proof: dict[str, Any] = {"kind": self.proof}
        if self.own is not None:
            proof["own"] = [list(row) for row in self.own]
        if self.proof != "level":
            proof["steps"] = self.steps
        if self.proof == "sweep":
            for name, sides in (("left", self.left), ("right", self.right)):
                proof[name] = [
                    {
                        "value": side.value, "other": side.other,
                        "gains": list(side.gains), "mus": list(side.mus),
                    }
                    for side in sides
                ]  # fmt: skip
        start = claim.start if isinstance(claim.start, str) else list(claim.start)
        return {
            "format": FORMAT,
            "version": VERSION,
            "claim": {"upper": claim.upper, "against": claim.against},
            "model": {
                "kind": "markov-chain", "states": list(claim.states),
                "transition": [list(row) for row in claim.transition],
                "start": start, "length": claim.length,
            },
            "mechanism": claim.mechanism,
            "proof": proof,
            "made_by": self.made_by,
            **({"conditions": list(self.conditions)} if self.conditions else {}),
        }  # fmt: skip

    def to_json(self) -> str:
        """Return the text of the file; numbers are those of the proof, to the last bit."""
        parts = (
            f"{json.dumps(name)}: {json.dumps(part, allow_nan=False)}"
            for name, part in self.to_dict().items()
        )
        return "{\n" + ",\n".join(parts) + "\n}"


# --- reading --------------------------------------------------------------------------------------


def parse(text: str | bytes) -> Certificate:
    """Parse a certificate file, or refuse it with the reason.

    >>> parse("{}")
    Traceback (most recent call last):
    undertow.errors.InvalidCertificate: the certificate needs 'format'; none was found
    """
    if not isinstance(text, str | bytes):
        raise InvalidCertificate(
            f"a certificate is the text of a file, found {type(text).__name__}"
        )
    if len(text) > _CHARACTERS:
        raise InvalidCertificate("this is no certificate: it is larger than 16 MiB")
    try:
        text = text if isinstance(text, str) else text.decode("utf-8")
        body = json.loads(
            text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite
        )
    except InvalidCertificate:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidCertificate("this is no certificate: it is not JSON") from error
    names = ("format", "version", "claim", "model", "mechanism", "proof", "made_by")
    body = _fields(body, "the certificate", names, ("conditions",))
    if body["format"] != FORMAT:
        raise InvalidCertificate(f'this is no certificate: it lacks "format": "{FORMAT}"')
    if type(body["version"]) is not int or body["version"] != VERSION:
        raise InvalidCertificate(
            f"the certificate has another version than {VERSION}, the one that is read here"
        )
    if type(body["made_by"]) is not str:
        raise InvalidCertificate("made_by must be a text")
    claim = _claim(body)
    proof = _proof(body["proof"], claim, body["made_by"])
    if "conditions" not in body:
        return proof
    conditions = _list(body["conditions"], "conditions", 1, CONDITIONS)
    if any(type(clause) is not str for clause in conditions):
        raise InvalidCertificate("conditions must be texts")
    return replace(proof, conditions=tuple(conditions))


def _claim(body: dict[str, Any]) -> CertifiedClaim:
    claimed = _fields(body["claim"], "the claim", ("upper", "against"))
    upper = _number(claimed["upper"], "upper", 0.0, LARGEST)
    if claimed["against"] not in _ADVERSARIES:
        raise InvalidCertificate("against must be 'any', 'ignorant' or 'informed'")
    named = ("kind", "states", "transition", "start", "length")
    model = _fields(body["model"], "the model", named)
    if model["kind"] != "markov-chain":
        raise InvalidCertificate("not checkable: the model is no Markov chain")
    states = _list(model["states"], "states", 2, STATES)
    if not all(type(name) is str for name in states) or len(set(states)) < len(states):
        raise InvalidCertificate("states must be texts, each another")
    size = len(states)
    rows = _list(model["transition"], "transition", size, size)
    transition = tuple(_law(row, f"row {at} of transition", size) for at, row in enumerate(rows))
    start = model["start"]
    if start != "stationary":
        start = _law(start, "start", size)
    length = model["length"]
    if length is not None:
        length = _whole(length, "length", 2, _LONGEST)
    mechanism = _mechanism(body["mechanism"], size)
    return CertifiedClaim(
        tuple(states), transition, start, length, mechanism, claimed["against"], upper
    )  # fmt: skip


def _mechanism(described: Any, size: int) -> dict[str, Any]:
    """Return the mechanism if it is one that can be checked."""
    kind = described.get("kind") if isinstance(described, dict) else None
    if kind == "pure-dp":
        fields = _fields(described, "the mechanism", ("kind", "epsilon"))
        _number(fields["epsilon"], "epsilon", 0.0, LARGEST)
    elif kind in ("laplace", "discrete-laplace"):
        counts = described.get("query") == "count"
        more = ("counted",) if counts else ()
        fields = _fields(described, "the mechanism", ("kind", "query", "scale", *more))
        _number(fields["scale"], "scale", 1 / LARGEST, 1e300)
        if counts:
            counted = _list(fields["counted"], "counted", size, size)
            if not all(type(mark) is bool for mark in counted):
                raise InvalidCertificate("counted must say true or false for every state")
        elif fields["query"] != "histogram":
            raise InvalidCertificate("not checkable: the query is no count and no histogram")
    elif kind == "randomized-response":
        fields = _fields(described, "the mechanism", ("kind", "matrix"))
        rows = _list(fields["matrix"], "matrix", size, size)
        widths = {len(_list(row, "a row of matrix", 1, STATES)) for row in rows}
        if len(widths) > 1:
            raise InvalidCertificate("the rows of matrix differ in length")
        for at, row in enumerate(rows):
            _law(row, f"row {at} of matrix", widths.copy().pop())
    else:
        raise InvalidCertificate("not checkable: the mechanism is of no kind known here")
    return fields


def _proof(described: Any, claim: CertifiedClaim, made_by: str) -> Certificate:
    kind = described.get("kind") if isinstance(described, dict) else None
    flips = claim.mechanism["kind"] == "randomized-response"
    names = ("kind", *(("own",) if flips else ()))
    if kind == "sweep":
        names += ("steps", "left", "right")
    elif kind == "counts":
        names += ("steps",)
    elif kind != "level":
        raise InvalidCertificate("the proof is of no kind known here")
    proof = _fields(described, "the proof", names)
    own = None
    if flips:
        rows = _list(proof["own"], "own", claim.size, claim.size)
        own = tuple(_numbers(row, "own", claim.size, claim.size) for row in rows)
    if kind == "level":
        if claim.against != "informed":
            raise InvalidCertificate("a level alone proves a claim against 'informed' only")
        return Certificate(claim, "level", own, made_by=made_by)
    if claim.against == "informed":
        raise InvalidCertificate("a claim against 'informed' is proved by the level alone")
    most = STEPS if claim.length is None else min(STEPS, claim.length - 1)
    steps = _whole(proof["steps"], "steps", 1, most)
    if kind == "counts":
        _whole(steps, "steps", 1, COUNTED)
        if claim.mechanism.get("query") != "count":
            raise InvalidCertificate("the counts of a side prove something about a count only")
        return Certificate(claim, "counts", own, steps, made_by=made_by)
    left, right = (_sides(proof[name], name, claim) for name in ("left", "right"))
    if any(len(side.gains) > 1 for side in (*left, *right)) and steps + 1 != claim.length:
        raise InvalidCertificate("gains for each record need all of them swept: steps is too small")
    work = sum(len(side.mus) for side in (*left, *right)) * steps * claim.size**2
    if work > WORK:
        raise InvalidCertificate("checking this proof would take too long")
    return Certificate(claim, "sweep", own, steps, left, right, made_by)


def _sides(described: Any, name: str, claim: CertifiedClaim) -> tuple[SideProof, ...]:
    """Return the proofs of one side: every ordered pair of values once, in order."""
    size = claim.size
    proofs = []
    for entry in _list(described, name, size * (size - 1), size * (size - 1)):
        part = _fields(entry, f"an entry of {name}", ("value", "other", "gains", "mus"))
        gains = _numbers(part["gains"], "gains", 1, max(1, min(claim.length or 1, STEPS)))
        if len(gains) not in (1, claim.length):
            raise InvalidCertificate("gains must be one number, or one for each record")
        if any(later < gain for gain, later in pairwise(gains)):
            raise InvalidCertificate("gains must not fall: more records on a side tell no less")
        mus = _numbers(part["mus"], "mus", 1, STEPS, 1e300)
        proofs.append(
            SideProof(_whole(part["value"], "value", 0, size - 1),
                 _whole(part["other"], "other", 0, size - 1), gains, mus)
        )  # fmt: skip
    wanted = [(x, y) for x in range(size) for y in range(size) if x != y]
    if [(side.value, side.other) for side in proofs] != wanted:
        raise InvalidCertificate(f"{name} must have every pair of values once, in order")
    return tuple(proofs)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InvalidCertificate("the certificate names a field twice, so that it means two things")
    return fields


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise InvalidCertificate("the certificate holds a number that no float holds")
    return value


def _fields(
    described: Any, what: str, names: tuple[str, ...], more: tuple[str, ...] = ()
) -> dict[str, Any]:
    if not isinstance(described, dict):
        raise InvalidCertificate(f"{what} must be an object with fields")
    for name in names:
        if name not in described:
            raise InvalidCertificate(f"{what} needs {name!r}; none was found")
    for name in described:
        if name not in (*names, *more):
            raise InvalidCertificate(f"{what} has no field {name[:40]!r}")
    return described


def _list(value: Any, what: str, least: int, most: int) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise InvalidCertificate(f"{what} must be a list of {least} to {most} entries")
    return value


def _number(value: Any, what: str, least: float, most: float) -> float:
    if type(value) not in (int, float) or not least <= value <= most:
        raise InvalidCertificate(f"{what} must be a number from {least:g} to {most:g}")
    return float(value)


def _whole(value: Any, what: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidCertificate(f"{what} must be a whole number from {least} to {most}")
    return value


def _numbers(
    value: Any, what: str, least: int, most: int, largest: float = LARGEST
) -> tuple[float, ...]:
    return tuple(_number(entry, what, 0.0, largest) for entry in _list(value, what, least, most))


def _law(value: Any, what: str, size: int) -> tuple[float, ...]:
    law = tuple(_number(entry, what, 0.0, 1.0) for entry in _list(value, what, size, size))
    if not abs(math.fsum(law) - 1) <= _SUM:
        raise InvalidCertificate(f"{what} must sum to 1 within {_SUM:g}")
    return law
