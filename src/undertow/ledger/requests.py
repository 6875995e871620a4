"""What is asked of a ledger, checked before anything is opened."""

import math
from collections.abc import Mapping
from json import loads
from typing import Any

from undertow.data.scopes import Scope, as_scope, check_name
from undertow.errors import InvalidInput, LedgerConflict
from undertow.ledger.rules import Entry, Terms, canonical, exact_level
from undertow.models.sets import AnyModel
from undertow.numerics import check_positive

__all__ = ["check_terms", "request", "wanted_terms"]


def wanted_terms(model: Any, limit: Any, against: Any, unit: Any) -> dict[str, Any]:
    """Return the terms that were passed, checked; None where nothing was."""
    if against not in (None, "any", "ignorant", "informed"):
        raise InvalidInput("a ledger is kept against 'any', 'ignorant' or 'informed'")
    if unit not in (None, "record", "person"):
        raise InvalidInput(f"unit must be 'record' or 'person', found {unit!r}")
    description = None
    if model is not None:
        if not isinstance(model, AnyModel):
            raise InvalidInput(f"a model is required, found {type(model).__name__}")
        description = loads(canonical(model.to_dict(), "model"))
    checked = None if limit is None else check_positive(limit, "the limit")
    return {"model": description, "limit": checked, "against": against, "unit": unit}


def check_terms(dataset: str, terms: Terms, wanted: Mapping[str, Any]) -> None:
    """Refuse terms other than the stored ones: two sets of terms would be two guarantees."""
    reasons = {
        "model": "another model: levels are exchanged once, under one model. Open it without one",
        "limit": f"the limit {terms.limit:.7g}. Open it without one, then use set_limit",
        "against": f"the adversary {terms.against!r}; open it without naming one",
        "unit": f"the unit {terms.unit!r}; open it without naming one",
    }
    for name, reason in reasons.items():
        if wanted[name] is not None and wanted[name] != getattr(terms, name):
            raise LedgerConflict(f"the data set {dataset!r} is kept under {reason}")


def request(
    release_id: str, level: Any, scope: Scope | None, about: Any, kind: str, leakage: Any
) -> Entry:
    """Return what is asked for, checked, or refuse what is no level."""
    key, where = check_name(release_id, "release id"), as_scope(scope)
    if about is not None and not isinstance(about, Mapping):
        raise InvalidInput(f"about must be a dictionary, found {type(about).__name__}")
    said = loads(canonical(dict(about or {}), "description in about"))
    if kind == "redaction":
        if level is not None and level != math.inf:
            raise InvalidInput("a redaction has no finite DP level; pass level=None")
        return Entry(key, "redaction", None, check_positive(leakage, "its leakage"), where, said)
    if kind != "release" or leakage is not None:
        raise InvalidInput(
            "an entry is a 'release' with a DP level or a 'redaction' with a leakage; leakages of "
            "releases are not added, they do not compose"
        )
    return Entry(key, "release", exact_level(level), None, where, said)
