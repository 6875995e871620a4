"""What a release and a ledger must agree on before a level is reserved."""

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from undertow.adversaries import words
from undertow.channels import RandomizedResponse, XorNoise, flips_epsilon_upper
from undertow.errors import LedgerConflict, NotSupported
from undertow.ledger.currency import gradual_spread
from undertow.models.chain_classes import ChainBox
from undertow.models.markov import MarkovChain
from undertow.numerics import divide_up
from undertow.plan import Plan
from undertow.queries import STEPS, Linear, Mean, Sum

if TYPE_CHECKING:
    from undertow.certificate import Leakage
    from undertow.ledger.book import Ledger

__all__ = ["Asking", "asking", "check_ledger", "level_of", "local_entry", "released"]


def check_ledger(plan: "Plan[Any]", ledger: "Ledger", series: int = 0) -> None:
    """Refuse a plan for another unit or another model than the ledger's, and longer series.

    Levels are exchanged under the ledger's model, so the series must be among those of the model.
    """
    if plan.unit != ledger.unit:
        raise LedgerConflict(
            f"the plan protects one {plan.unit}, the ledger accounts by {ledger.unit}; plan with "
            f"unit='{ledger.unit}', or keep another ledger"
        )
    if _law(plan.model) != _law(ledger.model):
        raise LedgerConflict(
            "the plan was made under another model than the ledger's: levels exchanged under two "
            "models of the same data do not add up; plan with the ledger's model"
        )
    length = ledger.model.length
    if ledger.unit == "record" and length is not None and series > length:
        raise LedgerConflict(
            f"the ledger's model is one of series of {length} records, and a series has {series}: "
            "records beyond it would go unaccounted; keep the account under a model without a "
            "length"
        )


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked of which records: the name of a release, and what a ledger knows of it."""

    release_id: str
    scope: Any
    about: dict[str, Any]


def asking(plan: "Plan[Any]", table: Any, shape: Any, release_id: str | None = None) -> Asking:
    """Return the request that stands for a question; the same question has the same name.

    It covers the plan, the records touched, where they are read from, how they are read, and the
    public shape; nothing of it depends on a value.
    """
    scope = table.scope()
    about = {"plan": plan.fingerprint(), "asked": table.asked(), "shape": _described(shape)}
    touched = [scope.by, scope.groups, scope.start, scope.end, scope.clock]
    text = json.dumps([about, touched], default=str, sort_keys=True)
    named = release_id or hashlib.sha256(text.encode()).hexdigest()[:32]
    return Asking(named, scope, about)


def _described(shape: Any) -> dict[str, Any]:
    """Return the public facts that a repeated question must have again."""
    names = json.dumps(shape.groups, default=str)
    return {
        "rows": shape.rows, "persons": shape.persons, "longest": shape.longest,
        "series": shape.series, "start": shape.start, "end": shape.end,
        "groups": None if shape.groups is None else hashlib.sha256(names.encode()).hexdigest()[:16],
    }  # fmt: skip


def level_of(plan: Plan, proof: "Leakage") -> float:
    """Return the level of a curator's plan in the currency of its model, rounded up.

    The DP level of its noise, for persons what its ``proof`` says; for Gaussian records with a
    ``spread`` the rate of the noise times the spread. A record is rounded to a step of its range
    before it is added, and so moves by up to two steps more; all records of the model may.
    """
    if plan.unit == "person":
        return proof.upper
    spread = gradual_spread(plan.model)
    if spread is None:
        return plan.noise.level_upper(plan.length)
    query, length = plan.noise.query, plan.length or 1
    if not isinstance(query, Sum | Mean | Linear):
        raise NotSupported(f"{type(query).__name__} has no rate; ask for a Sum, Mean or Linear")
    moved = Fraction(query.sensitivity_upper(length))  # by a record that goes through its range
    if isinstance(query, Linear):
        wide, steps = Fraction(query.spread), STEPS
    else:
        wide, steps = Fraction(query.upper) - Fraction(query.lower), query.steps
    rate = moved / wide  # how far the answer moves for each unit of a record
    reach = rate * (Fraction(spread) + 2 * length * wide / steps)
    return divide_up(reach, plan.noise.scale)


def local_entry(plan: "Plan[Any]", ledger: "Ledger", proof: "Leakage") -> dict[str, Any]:
    """Return what `Ledger.reserve` is asked for a local plan, or refuse what does not compose."""
    mechanism = plan.mechanism
    if isinstance(mechanism, XorNoise):
        raise NotSupported(
            "a noise chain has no DP level, so nothing certified can be said about it together "
            "with other releases; a ledger accounts for independent flips: plan with "
            "method='exact'"
        )
    if isinstance(mechanism, RandomizedResponse):
        level = flips_epsilon_upper(mechanism)
        if level == math.inf:
            raise NotSupported(
                "some output excludes a state for certain, so the flips have no finite DP level "
                "and a ledger cannot account for them"
            )
        return {"level": level}
    if plan.against not in ("any", ledger.against):
        raise LedgerConflict(
            f"the plan covers {words(plan.against)}, the ledger covers {words(ledger.against)}; "
            f"plan with against='{ledger.against}'"
        )
    least = max(proof.upper, math.ulp(0.0))  # an entry is never of nothing
    return {"level": None, "kind": "redaction", "leakage": least}


def released(release_id: str) -> LedgerConflict:
    """Return the refusal of a second draw."""
    return LedgerConflict(
        f"the release {release_id!r} was made already, and a second draw would be a second "
        "release of the same records; use the outputs that were written then, or pay for a new "
        "release under another release_id"
    )


def _law(model: Any) -> Any:
    """Return a model's description without its length: what a level is exchanged under."""
    described = dict(model.to_dict())
    if isinstance(model, MarkovChain | ChainBox):
        described.pop("length", None)
    return described
