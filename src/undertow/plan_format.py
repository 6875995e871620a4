"""Parts of a plan as JSON-ready dictionaries, and back."""

from typing import Any, Literal

from undertow.adversaries import Adversary, Secrets, check_against
from undertow.certificate import Leakage, Witness
from undertow.channels import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.errors import InvalidInput, InvalidPlan
from undertow.mechanisms import DiscreteLaplace, Laplace, Noise
from undertow.queries import AnyQuery, Count, Histogram, Linear, Mean, Query, Sum

__all__ = ["leakage_from_dict", "leakage_to_dict", "mechanism_from_dict", "mechanism_to_dict"]


def mechanism_to_dict(mechanism: Noise | LocalMechanism) -> dict[str, Any]:
    """Return the entries of a plan file that describe the randomisation."""
    match mechanism:
        case Laplace() | DiscreteLaplace():
            discrete = isinstance(mechanism, DiscreteLaplace)
            return {
                "query": _query_to_dict(mechanism.query),
                "noise": "discrete-laplace" if discrete else "laplace",
                "scale": mechanism.scale,
            }
        case RandomizedResponse(matrix, outputs):
            named = None if outputs is None else list(outputs)
            return {"channel": {"kind": "flips", "matrix": matrix.tolist(), "outputs": named}}
        case XorNoise(rho0, rho1):
            return {"channel": {"kind": "xor", "rho0": rho0, "rho1": rho1}}
        case Redaction(probabilities, protect):
            return {
                "channel": {
                    "kind": "redaction",
                    "probabilities": probabilities.tolist(),
                    "protect": list(protect),
                }
            }


def mechanism_from_dict(body: dict[str, Any]) -> Noise | LocalMechanism:
    """Return the randomisation described by `mechanism_to_dict`."""
    channel = body.get("channel")
    if channel is None:
        query = _query_from_dict(body["query"])
        discrete = {"discrete-laplace": True, "laplace": False}[body["noise"]]
        return (DiscreteLaplace if discrete else Laplace)(query, body["scale"])
    match channel["kind"]:
        case "flips":
            return RandomizedResponse(channel["matrix"], channel["outputs"])
        case "xor":
            return XorNoise(channel["rho0"], channel["rho1"])
        case "redaction":
            return Redaction(channel["probabilities"], channel["protect"])
    raise InvalidPlan(f"unknown kind of channel {channel['kind']!r}")


def _query_to_dict(query: AnyQuery) -> dict[str, Any]:
    match query:
        case Count():
            return {"kind": "count", "states": list(query.states)}
        case Histogram():
            return {"kind": "histogram"}
        case Sum() | Mean():
            kind = "sum" if isinstance(query, Sum) else "mean"
            ends = {"lower": query.lower, "upper": query.upper}
            return {"kind": kind, **ends, "missing": query.missing, "steps": query.steps}
        case Linear():
            weights = query.weights.tolist()
            return {
                "kind": "linear", "weights": weights, "spread": query.spread, "lower": query.lower,
            }  # fmt: skip
        case Query():
            raise InvalidInput(
                "a plan for a Python function cannot be written to a file; keep the plan in "
                "memory, or use Count, Histogram, Sum, Mean or Linear"
            )


def _query_from_dict(description: dict[str, Any]) -> Any:
    match description["kind"]:
        case "count":
            return Count(description["states"])
        case "histogram":
            return Histogram()
        case "sum" | "mean" as kind:
            ends = description["lower"], description["upper"]
            return (Sum if kind == "sum" else Mean)(
                *ends, description["missing"], description["steps"]
            )
        case "linear":
            return Linear(description["weights"], description["spread"], description["lower"])
    raise InvalidPlan(f"unknown kind of query {description['kind']!r}")


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
        "witness": None if leakage.witness is None else leakage.witness.to_dict(),
        "assumptions": list(leakage.assumptions),
        "citation": leakage.citation,
        "covers": leakage.covers,
    }


def leakage_from_dict(description: dict[str, Any]) -> Leakage:
    """Return the certificate described by `leakage_to_dict`."""
    named = description["against"]
    against = Adversary(**named) if isinstance(named, dict) else check_against(named)
    witness = description["witness"]
    return Leakage(
        lower=float(description["lower"]),
        upper=float(description["upper"]),
        method=description["method"],
        against=against,
        witness=None if witness is None else Witness.from_dict(witness),
        assumptions=tuple(description["assumptions"]),
        citation=description["citation"],
        secrets=Secrets(description.get("pairs"), description.get("protect")),
        covers=_covers(description.get("covers", "series")),
    )


def _covers(name: object) -> Literal["series", "windows", "any"]:
    if name in ("series", "windows", "any"):
        return name
    raise InvalidPlan("a proof covers 'series', 'windows' or 'any' shapes of data, found another")
