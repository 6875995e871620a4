"""What a release and a ledger must agree on before a level is reserved."""

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

from undertow.adversaries import words
from undertow.channels import RandomizedResponse, XorNoise, flips_epsilon_upper
from undertow.errors import LedgerConflict, NotSupported
from undertow.models.classes import ChainBox
from undertow.models.markov import MarkovChain
from undertow.plan import Plan

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger

__all__ = ["check_ledger", "identity", "local_entry", "released"]


def check_ledger(plan: "Plan[Any]", ledger: "Ledger") -> None:
    """Refuse a plan for another unit or another model than the ledger's."""
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


def identity(plan: "Plan[Any]", scope: Any) -> str:
    """Return a name that follows from what is asked of which records: the same question again."""
    about = [plan.fingerprint(), scope.by, scope.groups, scope.start, scope.end]
    text = json.dumps(about, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def local_entry(plan: "Plan[Any]", ledger: "Ledger") -> dict[str, Any]:
    """Return what `Ledger.reserve` is asked for a local plan, or refuse what does not compose."""
    mechanism = plan.mechanism
    if isinstance(mechanism, XorNoise):
        raise NotSupported(
            "a noise chain has no DP level, so nothing certified can be said about it together "
            "with other releases; a ledger accounts for independent flips: plan with "
            "method='exact'"
        )
    if isinstance(mechanism, RandomizedResponse):
        person = plan.unit == "person"  # then what is proved is about all records of a person
        level = _proved(plan) if person else flips_epsilon_upper(mechanism)
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
    return {"level": None, "kind": "redaction", "leakage": _proved(plan)}


def released(release_id: str) -> LedgerConflict:
    """Return the refusal of a second draw."""
    return LedgerConflict(
        f"the release {release_id!r} was made already, and a second draw would be a second "
        "release of the same records; use the outputs that were written then, or pay for a new "
        "release under another release_id"
    )


def _proved(plan: "Plan[Any]") -> float:
    """Return the leakage of a plan, which is rounded up already; an entry is never of nothing."""
    return max(plan.leakage.upper, math.ulp(0.0))


def _law(model: Any) -> Any:
    """Return a model's description without its length: what a level is exchanged under."""
    described = dict(model.to_dict())
    if isinstance(model, MarkovChain | ChainBox):
        described.pop("length", None)
    return described
