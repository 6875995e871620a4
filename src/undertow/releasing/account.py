"""Checks of a release against its ledger, and the entries that releases reserve."""

import hashlib
import json
import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from undertow.adversaries import words
from undertow.data.records import check_account
from undertow.errors import AccountWarning, InvalidInput, LedgerConflict, LedgerError, NotSupported
from undertow.ledger.entries import request
from undertow.ledger.keys import released
from undertow.ledger.rules import (
    Entry,
    Kind,
    Layout,
    Room,
    check_beside,
    check_same,
    gradual_spread,
)
from undertow.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Noise,
    RandomizedResponse,
    Scaled,
    XorNoise,
    flips_epsilon_upper,
)
from undertow.models.chains import MarkovChain
from undertow.models.classes import ChainBox
from undertow.models.fitting.checks import SAME_RECORDS, accept_option, listed
from undertow.models.records import RecordDescription
from undertow.numerics import divide_up
from undertow.plan import Plan
from undertow.queries import STEPS, Linear, Mean, Sum
from undertow.secrets import Window

if TYPE_CHECKING:
    from undertow.certificate import Leakage
    from undertow.ledger.book import Ledger, Reservation

__all__ = [
    "Foretold",
    "account_conditions",
    "check_ledger",
    "entry_for",
    "foretell",
    "level_of",
    "local_terms",
    "noise_terms",
    "released",
    "reserve",
    "spend_terms",
]


def check_ledger(plan: "Plan[Any]", ledger: "Ledger", series: int = 0, table: Any = None) -> None:
    """Refuse a plan for another unit, window or model than the ledger's, and longer series.

    Levels are exchanged under the ledger's model, so the series must be among those of the model,
    and the records of a ``table`` those that the model and earlier entries are about.
    """
    from undertow.ledger.book import Ledger

    if not isinstance(ledger, Ledger):
        raise InvalidInput(f"ledger must be a Ledger, found {type(ledger).__name__}")
    if plan.unit != ledger.unit:
        raise LedgerConflict(
            f"the plan protects one {plan.unit}, the ledger accounts by {ledger.unit}; plan with "
            f"secret={ledger.secret!r}, or keep another ledger"
        )
    window, kept = plan.leakage.secret.window, Window(ledger.secret.window)
    if window != kept.records:
        raise LedgerConflict(
            f"the plan protects {Window(window).length_words()}, the ledger {kept.length_words()}; "
            f"plan with secret={kept!r}, or keep another ledger"
        )
    _check_records(plan, ledger)
    check_account(ledger.model, plan, table)
    if _law(plan.model) != _law(ledger.model):
        raise LedgerConflict(
            "the plan was made under another model than the ledger's: levels exchanged under two "
            "models of the same data do not add up; plan with the ledger's model"
        )
    taken = [name for name in plan.accepted if name not in (*ledger.accepted, SAME_RECORDS)]
    if ledger.unit == "record" and taken:
        raise LedgerConflict(
            f"the plan accepts that its model failed {listed(taken)}, and the account does not: "
            "its statement would promise more than is known; keep an account that was opened with "
            f"the fitted model and {accept_option(plan.accepted)}"
        )
    length = ledger.model.length
    if ledger.unit == "record" and length is not None and series > length:
        raise LedgerConflict(
            f"the ledger's model is one of series of {length} records, and a series has {series}: "
            "records beyond it would go unaccounted; keep the account under a model without a "
            "length"
        )


def _check_records(plan: "Plan[Any]", ledger: "Ledger") -> None:
    """Refuse a plan about other records than those of the account, or of an earlier entry."""
    own, kept = plan.model.records, ledger.model.records
    if own.contradicts(kept):
        raise LedgerConflict(
            f"the plan is about other records than the account: {own}, against {kept}; plan with "
            "the ledger's model, or keep another ledger"
        )
    if not own or replace(own, source=None) == replace(kept, source=None):
        return
    for entry in ledger.entries():  # the account's model leaves open what its records are
        before = RecordDescription.from_dict(entry.about.get("records", {}))
        if own.contradicts(before):
            raise LedgerConflict(
                f"the plan is about other records than what this account has released: {own}, "
                f"against {before}; keep another ledger for these records"
            )


def account_conditions(plan: "Plan[Any]", ledger: "Ledger") -> tuple[str, ...]:
    """Return the conditions of an account beyond those of the plan, as clauses of a guarantee.

    A plan on a model written by hand may be spent from the account of a fitted one of the same law.
    """
    if ledger.accepted == tuple(name for name in plan.accepted if name != SAME_RECORDS):
        return ()
    return (f"of the account: {', '.join(ledger.conditions())}",)


def entry_for(
    plan: "Plan[Any]", table: Any, shape: Any, release_id: str | None, *,
    level: float | None = None, kind: Kind = "release", leakage: float | None = None,
    mu: float | None = None, rho: float | None = None,
) -> Entry:  # fmt: skip
    """Return the ledger entry of a request; the same request has the same name.

    The name covers the plan, the records touched, where they are read from, how they are read,
    and the public shape; nothing of it depends on a value.
    """
    about = {"plan": plan.fingerprint(), "asked": table.reading(), "shape": _described(shape)}
    about |= {"accepted": list(plan.accepted)} if plan.accepted else {}
    records = replace(plan.model.records, source=None).to_dict()
    about |= {"records": records} if records else {}
    text = json.dumps([about, table.touched()], default=str, sort_keys=True)
    named = release_id if release_id is not None else hashlib.sha256(text.encode()).hexdigest()[:32]
    return request(named, level, table.scope(), about, kind, leakage, {"mu": mu, "rho": rho})


def reserve(entry: Entry, table: Any, ledger: "Ledger") -> "Reservation":
    """Spend what an entry asks for; the account notes the public shape of the table before.

    Says where else the same table stands in an account.
    """
    identity = table.identity()
    for warning in [] if identity is None else ledger.bind(identity):
        warnings.warn(warning, AccountWarning, stacklevel=4)
    return ledger.reserve(
        entry.release_id, entry.level, entry.scope, entry.about, kind=entry.kind,
        leakage=entry.leakage, mu=entry.mu, rho=entry.rho, delta=entry.delta,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Foretold:
    """Effect of an entry on a ledger: ``found`` is the entry that it holds already.

    ``room`` is what the records have spent now, None for a redaction, which stands alone.
    """

    entry: Entry
    found: Entry | None
    room: Room | None

    @property
    def recorded(self) -> bool:
        """Whether the release was made already."""
        return self.found is not None and self.found.result is not None

    @property
    def spends(self) -> float:
        """The level that would be reserved now."""
        return self.entry.level or 0.0 if self.found is None else 0.0

    @property
    def left(self) -> float | None:
        """The level that is left to the records now."""
        return None if self.room is None else self.room.left()

    @property
    def after(self) -> Room | None:
        """The spend of the records after the release."""
        more = self.entry.spend
        if self.room is None or more is None or self.found is not None:
            return self.room
        return self.room.after(more)

    @property
    def left_after(self) -> float | None:
        """The level that would be left then."""
        return None if self.after is None else self.after.left()


def foretell(entry: Entry | None, ledger: "Ledger | None") -> Foretold | None:
    """Return the effect of an entry, or refuse what the ledger would refuse; write nothing.

    None where nothing is accounted.
    """
    if entry is None or ledger is None:
        return None
    room = None if entry.kind == "redaction" else ledger.room(entry.scope)
    recorded = ledger.entry(entry.release_id)
    if recorded is None:
        try:
            _check_room(ledger, entry)
        except LedgerError:
            recorded = ledger.entry(entry.release_id)
            if recorded is None:
                raise
            # the same command in another process took the room between the two looks
    if recorded is not None:
        check_same(recorded, entry)
    return Foretold(entry, recorded, room)


def _check_room(ledger: "Ledger", wanted: Entry) -> None:
    """Refuse what the ledger would refuse to reserve, without reserving it."""
    entries = [entry for entry in ledger.entries() if entry.status != "cancelled"]
    redacted = [entry.leakage for entry in entries if entry.kind == "redaction"]
    check_beside(Layout(used=bool(entries), redaction=next(iter(redacted), None)), wanted)
    ledger.room(wanted.scope).check(wanted)


def _described(shape: Any) -> dict[str, Any]:
    """Return the public facts that a repeated question must have again."""
    groups = None
    if shape.groups is not None:
        groups = hashlib.sha256(json.dumps(shape.groups, default=str).encode()).hexdigest()[:16]
    names = ("rows", "persons", "longest", "series", "start", "end")
    return {name: getattr(shape, name) for name in names} | {"groups": groups}


def noise_terms(plan: Plan[Noise], proof: "Leakage") -> dict[str, Any]:
    """Return what a curator's plan spends: its level, or the mu or rho of noise that has none.

    Gaussian noise is drawn as a normal variable rounded to a whole number, which is a function of
    the answer with the noise and so keeps its mu-GDP; discrete Gaussian noise is not GDP, it has
    its zCDP parameter. All rounded up.
    """
    match plan.noise:
        case Gaussian() as noise:
            return {"mu": noise.mu_upper(plan.length)}
        case DiscreteGaussian() as noise:
            return {"rho": noise.rho_upper(plan.length)}
    return {"level": level_of(plan, proof)}


def spend_terms(plan: Plan[Noise], proof: "Leakage") -> dict[str, Any]:
    """Return what a curator's plan spends for `entry_for`, or refuse what does not compose."""
    terms, words = noise_terms(plan, proof), plan.noise.words
    if "level" in terms:
        return terms
    if plan.unit == "person":
        raise NotSupported(
            f"how much {words} noise spends on all records of a person is not known to a ledger; "
            "plan with noise='laplace'"
        )
    if gradual_spread(plan.model) is not None:
        raise NotSupported(
            "levels under a model of Gaussian records with a spread are rates of d-privacy, and "
            f"nothing is known of what they are worth together with {words} noise; plan with "
            "noise='laplace', or keep the account under the model without its spread"
        )
    return terms


def level_of(plan: Plan[Noise], proof: "Leakage") -> float:
    """Return the level of a curator's plan in the currency of its model, rounded up.

    The DP level of its noise, for persons what its ``proof`` says; for Gaussian records with a
    ``spread`` the rate of the noise times the spread. A record is rounded to a step of its range
    before it is added, and so moves by up to two steps more; all records of the model may.
    """
    if plan.unit == "person":
        return proof.upper
    spread, noise = gradual_spread(plan.model), plan.noise
    if spread is None or not isinstance(noise, Scaled):  # inf, where there is no level
        return noise.level_upper(plan.length)
    query, length = noise.query, plan.length or 1
    if not isinstance(query, Sum | Mean | Linear):
        raise NotSupported(f"{type(query).__name__} has no rate; ask for a Sum, Mean or Linear")
    moved = Fraction(query.sensitivity_upper(length))  # by a record that goes through its range
    if isinstance(query, Linear):
        wide, steps = Fraction(query.spread), STEPS
    else:
        wide, steps = Fraction(query.upper) - Fraction(query.lower), query.steps
    rate = moved / wide  # how far the answer moves for each unit of a record
    reach = rate * (Fraction(spread) + 2 * length * wide / steps)
    return divide_up(reach, noise.scale)  # exact up to here, rounded up once


def local_terms(plan: "Plan[Any]", ledger: "Ledger", proof: "Leakage") -> dict[str, Any]:
    """Return what a local plan spends for `entry_for`, or refuse what does not compose."""
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
    # a redaction is not exchanged: what the account holds is the leakage that was proved for it
    least = max(proof.upper, math.ulp(0.0))  # an entry is never of nothing
    return {"level": None, "kind": "redaction", "leakage": least}


def _law(model: Any) -> Any:
    """Return a model's description without its length, which levels are not exchanged by.

    Neither are they by the names of states that groups may have, and by where the model comes from.
    """
    described = model.law_dict()
    if isinstance(model, MarkovChain | ChainBox):
        described.pop("length", None)
    if model.family == "groups":
        described.pop("states", None)
    return described
