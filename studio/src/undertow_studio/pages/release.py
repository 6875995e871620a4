"""Step 6: the guarantee, its assumptions, the budget of the year, dry run, release and files."""

import datetime as dt
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from undertow import Person, Plan, Window
from undertow.errors import InvalidInput, NotSupported, UndertowError
from undertow.ledger.replay import levels_after
from undertow.models.fitting.checks import SAME_RECORDS
from undertow.plan import premise
from undertow.progress import doing
from undertow.reporting import scope, words
from undertow.reporting.formats import csv_bytes
from undertow.rounding import above, below
from undertow_studio.charts.calendar import calendar_chart
from undertow_studio.code import code_for_release
from undertow_studio.fits import findings
from undertow_studio.odds import beliefs
from undertow_studio.studio import Studio, Work, see, studio_of, work_of
from undertow_studio.tables import PrivateTable, Reading, naming

if TYPE_CHECKING:
    from undertow import Ledger
    from undertow.ledger.rules import Entry

__all__ = ["BudgetYear", "Day", "router"]

router = APIRouter()

DAYS = 366
"""Days of the calendar: a year, and the day after which it repeats."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day with releases: the level of the data set after it, and what the day's releases had.

    ``spent`` and ``reserved`` add up the levels of the day's entries, ``level`` is the largest sum
    over the records, of all days up to this one: entries that touch different records do not add
    up there; inf after a redaction, beside which nothing can be released.
    """

    day: str
    spent: float
    reserved: float
    level: float


@dataclass(frozen=True, slots=True)
class BudgetYear:
    """A year of an account: its budget, its days with releases, and a weekly release from today on.

    ``weekly`` is the DP level of the release, 0 for none; it is taken to touch the same records
    every week, which is the most that it can cost.
    """

    budget: float
    first: str
    today: str
    days: tuple[Day, ...]
    weekly: float = 0.0

    @property
    def spent(self) -> float:
        """The level of the data set today."""
        return self.days[-1].level if self.days else 0.0

    @property
    def last(self) -> str:
        """The last day of the calendar."""
        return (dt.date.fromisoformat(self.first) + dt.timedelta(days=DAYS - 2)).isoformat()

    def weeks(self) -> tuple[tuple[str, float], ...]:
        """Return the days of the weekly release from today on, with the level after each."""
        if not self.weekly or math.isinf(self.spent):
            return ()
        today, last = dt.date.fromisoformat(self.today), dt.date.fromisoformat(self.last)
        count = (last - today).days // 7 + 1
        start = Fraction(self.spent)
        return tuple(
            ((today + dt.timedelta(weeks=week)).isoformat(),
             float(start + (week + 1) * Fraction(self.weekly)))
            for week in range(max(count, 0))
        )  # fmt: skip

    def exhausted(self) -> str | None:
        """Return the day of the first weekly release that does not fit, None if all do."""
        return next((day for day, level in self.weeks() if level > self.budget), None)

    def words(self) -> str:
        """Return the state of the account and what a weekly release would leave, in words."""
        if math.isinf(self.spent):
            return "The data set was redacted: nothing else of it can be released."
        share = 0.0 if not self.budget else self.spent / self.budget
        now = f"{share:.0%} of the budget is spent or reserved."
        if not self.weekly:
            return now
        if not self.weeks():
            return f"{now} The year is over."
        ends = self.exhausted()
        if ends is not None:
            fit = sum(level <= self.budget for _, level in self.weeks())
            times = "once more" if fit == 1 else f"{fit} more times"
            day = dt.date.fromisoformat(ends)
            return f"{now} A weekly release fits {times}, and no longer on {day.day} {day:%B %Y}."
        over = self.budget - self.weeks()[-1][1]
        return (
            f"{now} A weekly release to the end of the year would leave {over / self.budget:.0%}."
        )


def budget_year(ledger: "Ledger", today: dt.date, weekly: float = 0.0) -> BudgetYear:
    """Return the year of a ledger's account, from 1 January on.

    Reads the ledger once; nothing is written. Entries before the first day count as spent on it.
    """
    if math.isnan(weekly) or weekly < 0:
        raise InvalidInput(f"a weekly release has a DP level of at least 0, found {weekly}")
    begin = dt.date(today.year, 1, 1)
    days = spending_days(levels_after(ledger.entries(), ledger.unit), begin)
    return BudgetYear(ledger.budget, begin.isoformat(), today.isoformat(), days, weekly)


def spending_days(levels: "Iterable[tuple[Entry, float]]", first: dt.date) -> tuple[Day, ...]:
    """Return the days on which an account spent, from its entries with the level after each."""
    days: dict[str, Day] = {}
    for entry, level in levels:
        day = max(entry.at[:10], first.isoformat())
        before = days.get(day, Day(day, 0.0, 0.0, 0.0))
        own = entry.level or 0.0
        confirmed = entry.status == "confirmed"
        days[day] = Day(
            day, before.spent + own * confirmed, before.reserved + own * (not confirmed), level
        )
    return tuple(days[day] for day in sorted(days))


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
        from undertow import Ledger

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


def compute_year(plan: "Plan[Any]", account: AccountPlace) -> Year:
    """Return the budget of the year, with this plan released every week from today on."""
    ledger = account.open(plan)
    level = plan.dp_epsilon if plan.task == "answer" else 0.0
    year = budget_year(ledger, dt.datetime.now(dt.UTC).date(), level if level < 1e9 else 0.0)
    spent = above(ledger.leakage().upper, 4)
    live = [entry for entry in ledger.entries() if entry.status != "cancelled"]
    return Year(year, ledger.limit, spent, len(live), "; ".join(ledger.conditions()))


def compute_dry_run(
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
        forecast = foretell(ready.entry, book)
    if forecast is None:
        raise UndertowError("there is no account to spend from")
    known = forecast.recorded
    spends = f"a DP level of {above(forecast.spends)}"
    if known:
        spends = "nothing: this release is recorded, and its answer is given again"
    now, then = forecast.left, forecast.left_after
    left = "" if now is None or then is None else f"{below(now, 4)} now, {below(then, 4)} after it"
    return Dry(
        plan.query.words(), scope.records(ready.shape.rows, ready.shape.persons),
        scope.proved_for(ready.proof, plan.length, ready.table.bounds()), spends, left, known,
        forecast.entry.release_id,
    )  # fmt: skip


def compute_release(
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
    numbers, rows = report.facts.numbers, report.facts.rows()
    return Released(
        tuple((one.label(), one.shown(), above(one.within, 4)) for one in numbers),
        plan.query.words(), plan.guarantee(*out.conditions), scope.records(out.rows, out.persons),
        out.release_id, out.entry or "", scope.drawn(out.made), out.replayed, report.html(),
        report.to_json() + "\n", report.text(), csv_bytes(rows, list(rows[0])),
    )  # fmt: skip


_KINDS = {"html": "text/html", "json": "application/json", "txt": "text/plain", "csv": "text/csv"}


@router.get("/w/{name}/release")
async def sign(request: Request, name: str) -> Response:
    """Show what is promised, what it rests on, and what may be done."""
    studio, work = studio_of(request), work_of(request, name)
    plan = studio.plan(work)
    account, reason = account_of(studio, work, plan)
    year = None
    if account is not None:
        year = studio.need(_year_key(work, plan), compute_year, plan, account)
    dry = studio.done(("dry", work.model_name, plan.fingerprint()))
    return studio.page(
        "release", work=work, year=year, reason=reason, dry=dry, account=account,
        chart=None if year is None else calendar_chart(year.year), released=_released(studio, work),
        **promise(plan), code=code_for_release(work, plan, studio.settings),
    )  # fmt: skip


@router.post("/w/{name}/dry-run")
async def dry_run(request: Request, name: str) -> Response:
    """Begin a dry run: nothing is drawn."""
    studio, work = studio_of(request), work_of(request, name)
    key, call = _dry(studio, work)
    for one in (key, _year_key(work, studio.plan(work))):
        studio.jobs.forget(one)  # others may have spent from the account since
    studio.jobs.ask(key, *call)
    return RedirectResponse(f"/w/{work.id}/dry-run", 303)


@router.get("/w/{name}/dry-run")
async def dry(request: Request, name: str) -> Response:
    """Wait for the dry run, then show it where it was asked for."""
    studio, work = studio_of(request), work_of(request, name)
    key, call = _dry(studio, work)
    studio.need(key, *call)
    return RedirectResponse(f"/w/{work.id}/release#dry-run", 303)


@router.post("/w/{name}/release")
async def release(request: Request, name: str) -> Response:
    """Release, once it was said to be meant."""
    studio, work = studio_of(request), work_of(request, name)
    form = await request.form()
    if form.get("meant") != "yes":
        raise InvalidInput("say that you have read the promise, by its box, before you release")
    key, call = _release(studio, work)
    known = studio.jobs.known(key)
    if known is not None and known.status == "refused":
        studio.jobs.forget(key)  # the account may have more room by now
    studio.jobs.ask(key, *call)
    return RedirectResponse(f"/w/{work.id}/released", 303)


@router.get("/w/{name}/released")
async def released(request: Request, name: str) -> Response:
    """Show what was released; what was not asked for is not begun here."""
    studio, work = studio_of(request), work_of(request, name)
    key, call = _release(studio, work)
    job = studio.jobs.known(key)
    if job is None:
        return see(work, "release")
    result = studio.need(key, *call) if job.status in ("waiting", "running", "done") else None
    if result is None:
        studio.fail(job)
    studio.jobs.forget(_year_key(work, studio.plan(work)))
    studio.jobs.forget(_dry(studio, work)[0])  # it speaks of what was left before
    plan = studio.plan(work)
    whose = words.audience(plan)
    return studio.page("released", work=work, released=result, plan=plan, whose=whose)


@router.get("/w/{name}/report.{ending}")
async def report(request: Request, name: str, ending: str) -> Response:
    """Return the report of a release, or its numbers, as a file."""
    studio, work = studio_of(request), work_of(request, name)
    result = _released(studio, work)
    if result is None:
        raise InvalidInput("nothing was released here yet: there is no report")
    content: dict[str, str | bytes] = {
        "html": result.html, "json": result.json, "txt": result.text, "csv": result.csv,
    }  # fmt: skip
    if ending not in content:
        raise InvalidInput(f"a report is a file in {', '.join(content)}")
    return _file(content[ending], _KINDS[ending], f"release.{ending}")


@router.get("/w/{name}/plan.json")
async def plan_file(request: Request, name: str) -> Response:
    """Return the plan as a file."""
    studio, work = studio_of(request), work_of(request, name)
    return _file(studio.plan(work).to_json() + "\n", "application/json", "plan.json")


@router.get("/w/{name}/code.{ending}")
async def code_file(request: Request, name: str, ending: str) -> Response:
    """Return the commands or the Python of the whole path as a file."""
    studio, work = studio_of(request), work_of(request, name)
    parts = code_for_release(work, studio.plan(work), studio.settings)
    text = {"sh": parts[0].text, "py": parts[1].text}.get(ending)
    if text is None:
        raise InvalidInput("code is a file in sh or py")
    return _file(text + "\n", "text/plain", f"release.{ending}")


@router.get("/w/{name}/statement")
async def statement(request: Request, name: str) -> Response:
    """Show the statement for a privacy impact assessment: one page, to be printed and signed."""
    studio, work = studio_of(request), work_of(request, name)
    plan = studio.plan(work)
    return studio.page(
        "statement", work=work, released=_released(studio, work), **promise(plan),
        covered=words.covered(plan), excluded=words.not_covered(plan), unit=words.unit(plan),
        account=account_of(studio, work, plan)[0], model=plan.model.describe(),
    )  # fmt: skip


def promise(plan: "Plan[Any]") -> dict[str, Any]:
    """Return what a plan promises, and what that rests on, for templates."""
    guarantee, alone = words.promise(plan), premise(plan)
    if not alone:  # a premise says itself what the guarantee rests on
        guarantee = f"if the records follow the model, {guarantee}"
    curator = plan.task == "answer"
    return {
        "plan": plan,
        "whose": words.audience(plan),
        "promise": words.sentence(guarantee) + ".",
        "means": [
            f"{alone[:1].upper()}{alone[1:]}{means[:1].lower()}{means[1:]}" if alone else means
            for means in (one.words() for one in beliefs(plan.leakage.upper, plan.delta))
        ],
        "findings": findings(plan.checks),
        "assumptions": plan.leakage.assumptions,
        "fingerprint": plan.fingerprint(),
        "curator": curator,
        "noise": words.noise(plan) if curator else "",
        "within": plan.accuracy(0.05) if curator else None,
        "measures": [] if curator else [words.measure(*one) for one in plan.measures],
    }


def account_of(studio: Studio, work: Work, plan: "Plan[Any]") -> tuple[AccountPlace | None, str]:
    """Return the account that a release would spend from, or None and why there is no release."""
    settings = studio.settings
    if settings.read_only:
        return None, "this studio was started read-only: it plans, and releases nothing"
    if plan.task != "answer":
        return None, (
            "a series is released by the command below, which writes it to a file of yours, whole "
            "or not at all"
        )
    if work.source is None or work.reading is None:
        return (
            None,
            "there is no table here yet: bring one, or release with the command below",
        )
    if work.simulated:
        named = f"{work.model_name} {plan.unit} {plan.leakage.secret.window} {plan.against}"
        where = str(studio.folder.path / "demonstration.db")
        return AccountPlace(where, named, demonstration=True), ""
    if settings.ledger is None or settings.dataset is None:
        return None, (
            "this studio has no account, and works read-only: start it with "
            "undertow studio FILE --ledger year.db --dataset NAME to release"
        )
    return AccountPlace(settings.ledger, settings.dataset, settings.key), ""


def _released(studio: Studio, work: Work) -> Released | None:
    try:
        plan = studio.plan(work)
    except (InvalidInput, NotSupported):
        return None
    result: Released | None = studio.done(("release", work.model_name, plan.fingerprint()))
    return result


def _dry(studio: Studio, work: Work) -> tuple[Any, tuple[Any, ...]]:
    plan, account = _allowed(studio, work)
    key = ("dry", work.model_name, plan.fingerprint())
    return key, (compute_dry_run, work.source, work.reading, plan, account)


def _release(studio: Studio, work: Work) -> tuple[Any, tuple[Any, ...]]:
    plan, account = _allowed(studio, work)
    key = ("release", work.model_name, plan.fingerprint())
    origin = "simulated for a demonstration" if work.simulated else _ORIGINS[work.origin]
    return key, (compute_release, work.source, work.reading, plan, account, origin)


_ORIGINS = {
    "example": "an example", "drawn": "stated by hand", "file": "fitted to the same table",
    "plan": "the plan file", "ledger": "the account",
}  # fmt: skip


def _allowed(studio: Studio, work: Work) -> "tuple[Plan[Any], AccountPlace]":
    plan = studio.plan(work)
    account, reason = account_of(studio, work, plan)
    if account is None:
        raise InvalidInput(reason)
    return plan, account


def _year_key(work: Work, plan: "Plan[Any]") -> Any:
    return ("year", work.model_name, plan.fingerprint())


def _file(content: str | bytes, kind: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kind, headers=headers)
