"""What is asked of a ledger, checked before anything is opened."""

import math
from collections.abc import Mapping
from json import loads
from typing import Any

from undertow.adversaries import Window
from undertow.canonical import canonical
from undertow.curves import check_delta
from undertow.data.scopes import Scope, as_scope, check_name
from undertow.errors import InvalidInput, LedgerConflict, NotSupported
from undertow.guarantees import GDP, ZCDP, ApproximateDP, PureDP
from undertow.ledger.rules import Entry, Terms, exact_level
from undertow.models.acceptance import accept_option, accepted, check_accepted
from undertow.models.records import RecordDescription
from undertow.models.registry import law_to_dict
from undertow.models.sets import AnyModel
from undertow.models.standing import stands_for
from undertow.numerics import check_choice, check_number, check_positive, up

__all__ = ["amounts_of", "check_terms", "request", "wanted_terms"]


def wanted_terms(
    model: Any, limit: Any, against: Any, unit: Any, delta: Any = None, pure: Any = None,
    protect: Any = None, accept: Any = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the terms that were passed, checked; None where nothing was.

    ``checks`` are those of the model, and ``accepted`` the names among ``accept`` that failed.
    """
    if against is not None:
        check_choice(against, "against, of a ledger,", ("any", "ignorant", "informed"))
    if unit is not None:
        check_choice(unit, "unit", ("record", "person"))
    if protect is not None and not isinstance(protect, Window):
        raise InvalidInput(
            f"protect must be a Window, found {type(protect).__name__}: a ledger protects every "
            "record; write protect=Window(12)"
        )
    if protect is not None and protect.records > 1 and unit == "person":
        raise InvalidInput(
            "unit='person' hides all records of a person, every window of them too: leave protect "
            "out"
        )
    description = None
    if model is not None:
        if not isinstance(model, AnyModel):
            raise InvalidInput(f"a model is required, found {type(model).__name__}")
        model = stands_for(model)
        description = loads(canonical(law_to_dict(model), "model"))
    checks = () if model is None else model.checks
    checked = None if limit is None else check_positive(limit, "the limit")
    rare = None if delta is None else check_delta(delta)
    share = None if pure is None else check_number(pure, "the pure level")
    share = check_positive(share, "the pure level") if share else share
    return {
        "model": description, "limit": checked, "against": against, "unit": unit, "delta": rare,
        "pure": share,
        "window": None if protect is None else protect.records,
        "checks": checks, "accepted": accepted(checks, accept, all_of=False),
    }  # fmt: skip


def check_terms(dataset: str, terms: Terms, wanted: Mapping[str, Any]) -> None:
    """Refuse terms other than the stored ones: two sets of terms would be two guarantees."""
    reasons = {
        "model": "another model: levels are exchanged once, under one model. Open it without one",
        "limit": f"the limit {terms.limit:.7g}. Open it without one, then use set_limit",
        "delta": f"the delta {terms.delta:.7g}. Open it without one, then use set_limit",
        "pure": f"a level of {terms.pure:.7g} set aside; open it without naming one",
        "against": f"the adversary {terms.against!r}; open it without naming one",
        "unit": f"the unit {terms.unit!r}; open it without naming one",
        "window": f"a window of {terms.window} for what is protected; open it without naming one",
    }
    for name, reason in reasons.items():
        mine, stored = wanted[name], getattr(terms, name)
        if name == "model" and mine is not None:  # levels are exchanged by the law, whoever made it
            about = [RecordDescription.from_dict(one.get("records", {})) for one in (mine, stored)]
            if about[0].contradicts(about[1]):
                raise LedgerConflict(
                    f"the data set {dataset!r} is kept for other records: {about[1]}; the model is "
                    f"about {about[0]}"
                )
            mine, stored = ({**one, "origin": None, "records": None} for one in (mine, stored))
        if mine is not None and mine != stored:
            raise LedgerConflict(f"the data set {dataset!r} is kept under {reason}")
    asked, held = wanted["accepted"], tuple(terms.accepted)
    if asked and asked != held:
        kept = accept_option(held) if held else "no acceptance of a failed check"
        raise LedgerConflict(
            f"the data set {dataset!r} is kept under {kept}; open it without accept, or keep the "
            "account of these records under another name from the start"
        )
    if terms.unit == "record":
        check_accepted(wanted["checks"], held)


def request(
    release_id: str, level: Any, scope: Scope | None, about: Any, kind: str, leakage: Any,
    beside: Mapping[str, Any] | None = None,
) -> Entry:  # fmt: skip
    """Return what is asked for, checked, or refuse what is no level.

    ``level`` may also be a guarantee (`PureDP`, `ApproximateDP`, `ZCDP`, `GDP`); ``beside`` are mu,
    rho and delta.
    """
    key, where = check_name(release_id, "release id"), as_scope(scope)
    if about is not None and not isinstance(about, Mapping):
        raise InvalidInput(f"about must be a dictionary, found {type(about).__name__}")
    said = loads(canonical(dict(about or {}), "description in about"))
    given = {name: part for name, part in (beside or {}).items() if part is not None}
    check_choice(kind, "kind", ("release", "redaction"))
    if kind == "redaction":
        if given or (level is not None and level != math.inf):
            raise InvalidInput("a redaction has no finite DP level; pass level=None")
        return Entry(key, "redaction", None, check_positive(leakage, "its leakage"), where, said)
    if leakage is not None:
        raise InvalidInput(
            "an entry is a 'release' with a DP level or a 'redaction' with a leakage; leakages of "
            "releases are not added, they do not compose"
        )
    if hasattr(level, "curve"):
        if given:
            raise InvalidInput("a guarantee says all of its numbers; pass no mu, rho or delta")
        level, given = amounts_of(level)
    parts: dict[str, Any] = {
        name: exact_level(part, f"the {name} of a release") for name, part in given.items()
    }
    if "delta" in parts:
        check_delta(parts["delta"])
        if level is None and len(parts) == 1:
            raise InvalidInput("a delta stands beside the DP level (or mu, or rho) it belongs to")
    own = None if level is None and parts else exact_level(level)
    return Entry(key, "release", own, None, where, said, **parts)


def amounts_of(guarantee: Any) -> tuple[float | None, dict[str, float]]:
    """Return the level of a guarantee for one replaced record, and its mu, rho and delta.

    One that speaks of adding or removing a record is taken twice: for GDP 2 mu, for zCDP 4 rho,
    for (e, d) (2 e, d (1 + e^e)), all rounded up.

    >>> amounts_of(GDP(.25)), amounts_of(ApproximateDP(.5, 1e-6))
    ((None, {'mu': 0.25}), (0.5, {'delta': 1e-06}))
    """
    twice = getattr(guarantee, "neighbours", "replace") == "add-remove"
    match guarantee:
        case PureDP(epsilon=epsilon):
            return epsilon, {}
        case GDP(mu=mu):
            return None, {"mu": 2 * mu if twice else mu}
        case ZCDP(rho=rho):
            return None, {"rho": 4 * rho if twice else rho}
        case ApproximateDP(epsilon=epsilon, delta=delta) if not twice:
            return epsilon, {"delta": delta} if delta else {}
        case ApproximateDP(epsilon=epsilon, delta=delta):
            both = up(delta * (1 + math.exp(epsilon)), 16)
            return 2 * epsilon, {"delta": both} if delta else {}
    raise NotSupported(
        f"{type(guarantee).__name__} does not compose in a ledger: of an algorithm together with "
        "others it says nothing that adds up; enter its mu (GDP), its rho (zCDP), or one pair "
        "(epsilon, delta) of it"
    )
