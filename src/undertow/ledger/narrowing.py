"""The region of a private fit, from what the account itself holds of it."""

from dataclasses import replace
from typing import Any

import numpy as np

from undertow.errors import LedgerConflict, NotSupported
from undertow.ledger.rules import Entry, Terms, allowance
from undertow.mechanisms import DiscreteLaplace
from undertow.models.fitting.checks import Check, privately, worst_of
from undertow.models.fitting.private import PrivateFit
from undertow.models.records import RecordDescription, weakest
from undertow.models.sets import AnyModel, model_from_dict
from undertow.queries import Transitions

__all__ = ["affordable", "believed", "check_narrowing", "recorded_fit", "tested_of"]


def check_narrowing(terms: Terms) -> None:
    """Refuse an account that a fit cannot narrow, or that one has narrowed already."""
    if terms.unit == "person":
        raise LedgerConflict(
            "an account of persons does not depend on how the records of a person depend on each "
            "other: its budget is the limit, before and after a fit"
        )
    if terms.delta:
        raise LedgerConflict(
            "an account with a delta is not narrowed: what is proved of fit and answers together "
            "is proved of DP levels; keep an account without a delta"
        )
    if terms.missed:
        raise LedgerConflict(
            "the account was narrowed by a fit before: it is under that region, and the fit may "
            "have missed once already"
        )


def recorded_fit(entry: Entry, terms: Terms) -> PrivateFit:
    """Return the fit that an entry holds; its confidence was written before its noise was drawn."""
    fit: Any = entry.about.get("fit")
    if not isinstance(fit, dict) or entry.kind != "release" or entry.level is None:
        raise LedgerConflict(
            f"the release {entry.release_id!r} is no private fit; make one with "
            "MarkovChain.fit(data, private=LEVEL, ledger=ledger)"
        )
    if entry.result is None:
        raise LedgerConflict(f"the fit {entry.release_id!r} was reserved and never made; repeat it")
    scale, states = fit["scale"], tuple(fit["states"])
    if DiscreteLaplace(Transitions(), scale).level_upper() > entry.level:
        raise LedgerConflict(f"the fit {entry.release_id!r} has spent less than its noise is worth")
    noisy = np.array(entry.result["numbers"][0]).reshape(len(states), len(states))
    return PrivateFit(
        noisy, states, level=entry.level, scale=scale, sample_size=fit["records"],
        confidence=fit["confidence"], within=model_from_dict(terms.model),
        release_id=entry.release_id,
    ).with_records(RecordDescription.from_dict(fit.get("described", {})))  # fmt: skip


def believed(terms: Terms) -> AnyModel:
    """Return the model of an account, with what was tested of it, or what a private fit knows.

    What failed checks cost when the limit is reached is no cost of a single plan, and left out.
    """
    model = model_from_dict(terms.model)
    tested = tuple(replace(check, leakage=None) for check in tested_of(terms))
    checks = worst_of([tested, privately(terms.missed) if terms.missed else ()])
    if terms.missed:
        model = model.with_origin(weakest((model.origin, "private")))
    return model.with_checks(checks) if checks else model


def tested_of(terms: Terms) -> tuple[Check, ...]:
    """Return what was tested of a model, with what all releases together leak where it failed."""
    return tuple(map(Check.from_dict, terms.checks))


def affordable(terms: Terms, model: AnyModel) -> float:
    """Return the level that the limit of an account allows under a region, 0 for nothing."""
    try:
        return allowance(terms.limit, 0.0, model, terms.against, terms.unit, terms.window)[0]
    except NotSupported:
        return 0.0
