"""Which account a release spends from, and what a release would do, or did, there."""

import datetime as dt
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.errors import UndertowError
from undertow.models.fitting.checks import SAME_RECORDS
from undertow.plan import Plan
from undertow.progress import doing
from undertow.reporting import scope
from undertow.reporting.formats import csv_bytes
from undertow.rounding import above, below
from undertow.secrets import Person, Window
from undertow_studio.reading import PrivateTable, Reading, naming
from undertow_studio.views.calendar import BudgetYear, budget_year

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger

__all__ = ["AccountPlace", "Dry", "Released", "Year", "carry_out", "dry_run", "year_of"]

DEMONSTRATION = 4.0
"""How many times the limit of its first release the account of an example allows."""


@dataclass(frozen=True, slots=True)
class AccountPlace:
    """Where an account is. One of a demonstration is made when it is first opened."""

    where: str = field(repr=False)  # the address of a database may hold its password
    dataset: str
    key: Path | None = None
    demonstration: bool = False

    def open(self, plan: "Plan[Any]") -> "Ledger":
        """Return the ledger."""
        from undertow.ledger.book import Ledger

        if not self.demonstration:
            return Ledger(self.where, self.dataset, create=False, key=self.key)
        against = plan.against if isinstance(plan.against, str) else "any"
        secret = plan.leakage.secret
        return Ledger(
            self.where, self.dataset, plan.model, DEMONSTRATION * plan.limit, against=against,
            secret=secret if isinstance(secret, Window | Person) else None, memory=False,
            accept=[name for name in plan.accepted if name != SAME_RECORDS],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dry:
    """What a release would do, in words: nothing was drawn, recorded or written."""

    question: str
    records: str
    proved: str
    spends: str
    left: str
    recorded: bool
    release_id: str


@dataclass(frozen=True, slots=True)
class Released:
    """What was released, and the files that say so."""

    answers: tuple[tuple[str, str, str], ...]
    question: str
    guarantee: str
    records: str
    release_id: str
    entry: str
    made: str
    replayed: bool
    html: str
    json: str
    text: str
    csv: bytes


@dataclass(frozen=True, slots=True)
class Year:
    """The account's year, what it allows, and what weakens that."""

    year: BudgetYear
    limit: float
    spent: str
    releases: int
    conditions: str


def year_of(plan: "Plan[Any]", account: AccountPlace) -> Year:
    """Return the budget of the year, with this plan released every week from today on."""
    ledger = account.open(plan)
    level = plan.dp_epsilon if plan.task == "answer" else 0.0
    year = budget_year(ledger, dt.datetime.now(dt.UTC).date(), level if level < 1e9 else 0.0)
    spent = above(ledger.leakage().upper, 4)
    live = [entry for entry in ledger.entries() if entry.status != "cancelled"]
    return Year(year, ledger.limit, spent, len(live), "; ".join(ledger.conditions()))


def dry_run(
    source: PrivateTable, reading: Reading, plan: "Plan[Any]", account: AccountPlace
) -> Dry:
    """Return what a release would do, or refuse it; spends nothing and draws nothing."""
    from undertow.releasing.account import foretell
    from undertow.releasing.request import prepare

    with naming(source), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doing("reading the shape of the table")
        book = account.open(plan)
        ready = prepare(plan, reading.open(source), book)
        asked = foretell(ready.entry, book)
    if asked is None:
        raise UndertowError("there is no account to spend from")
    known = asked.recorded
    spends = f"a DP level of {above(asked.spends)}"
    if known:
        spends = "nothing: this release is recorded, and its answer is given again"
    now, then = asked.left, asked.left_after
    left = "" if now is None or then is None else f"{below(now, 4)} now, {below(then, 4)} after it"
    return Dry(
        plan.query.words(), scope.records(ready.shape.rows, ready.shape.persons),
        scope.proved_for(ready.proof, plan.length, ready.table.bounds()), spends, left, known,
        asked.entry.release_id,
    )  # fmt: skip


def carry_out(
    source: PrivateTable, reading: Reading, plan: "Plan[Any]", account: AccountPlace, origin: str
) -> Released:
    """Return the answer: reserved before it is drawn, recorded before it is shown."""
    from undertow.releasing.request import carry_out as draw
    from undertow.releasing.request import prepare

    with naming(source), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doing("reading the records")
        book = account.open(plan)
        ready = prepare(plan, reading.open(source), book)
        doing("drawing the noise")
        out = draw(ready, book, source=origin)
    doing("writing the report")
    report = out.report()
    found, rows = report.facts.numbers, report.facts.rows()
    return Released(
        tuple((one.label(), one.shown(), above(one.within, 4)) for one in found),
        plan.query.words(), plan.guarantee(*out.conditions), scope.records(out.rows, out.persons),
        out.release_id, out.entry or "", scope.drawn(out.made), out.replayed, report.html(),
        report.to_json() + "\n", report.text(), csv_bytes(rows, list(rows[0])),
    )  # fmt: skip
