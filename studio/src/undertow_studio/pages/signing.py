"""Step 6: the promise, its assumptions, the budget of the year, dry run, release, the files."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from undertow.errors import InvalidInput, NotSupported
from undertow.plan import Plan, premise
from undertow.reporting import words
from undertow_studio import accounts
from undertow_studio.accounts import AccountPlace, Released
from undertow_studio.charts.calendars import calendar_chart
from undertow_studio.code import code_for_release
from undertow_studio.sessions import Work
from undertow_studio.studio import Studio, see, studio_of, work_of
from undertow_studio.views.fading import findings
from undertow_studio.views.odds import beliefs

__all__ = ["router"]

router = APIRouter()

_KINDS = {"html": "text/html", "json": "application/json", "txt": "text/plain", "csv": "text/csv"}


@router.get("/w/{name}/release")
async def sign(request: Request, name: str) -> Response:
    """Show what is promised, what it rests on, and what may be done."""
    studio, work = studio_of(request), work_of(request, name)
    plan = studio.plan(work)
    account, reason = account_of(studio, work, plan)
    year = None
    if account is not None:
        year = studio.need(_year_key(work, plan), accounts.year_of, plan, account)
    dry = studio.done(("dry", work.model_name, plan.fingerprint()))
    return studio.page(
        "release", work=work, year=year, reason=reason, dry=dry, account=account,
        chart=None if year is None else calendar_chart(year.year), released=_released(studio, work),
        **promise(plan), code=code_for_release(work, plan, studio.settings),
    )  # fmt: skip


@router.post("/w/{name}/dry-run")
async def dry_run(request: Request, name: str) -> Response:
    """Have a release tried out: nothing is drawn."""
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
    found = studio.need(key, *call) if job.status in ("waiting", "running", "done") else None
    if found is None:
        studio.fail(job)
    studio.jobs.forget(_year_key(work, studio.plan(work)))
    studio.jobs.forget(_dry(studio, work)[0])  # it speaks of what was left before
    plan = studio.plan(work)
    whose = words.audience(plan)
    return studio.page("released", work=work, released=found, plan=plan, whose=whose)


@router.get("/w/{name}/report.{ending}")
async def report(request: Request, name: str, ending: str) -> Response:
    """Return the report of a release, or its numbers, as a file."""
    studio, work = studio_of(request), work_of(request, name)
    found = _released(studio, work)
    if found is None:
        raise InvalidInput("nothing was released here yet: there is no report")
    content: dict[str, str | bytes] = {
        "html": found.html, "json": found.json, "txt": found.text, "csv": found.csv,
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
    found = code_for_release(work, studio.plan(work), studio.settings)
    text = {"sh": found[0].text, "py": found[1].text}.get(ending)
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
    said, alone = words.promise(plan), premise(plan)
    curator = plan.task == "answer"
    return {
        "plan": plan,
        "whose": words.audience(plan),
        "promise": said[:1].upper() + said[1:] + ".",
        "means": [
            f"{alone[:1].upper()}{alone[1:]}{means[:1].lower()}{means[1:]}" if alone else means
            for means in (one.words() for one in beliefs(plan.leakage.upper, plan.delta))
        ],
        "findings": findings(plan),
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
    found: Released | None = studio.done(("release", work.model_name, plan.fingerprint()))
    return found


def _dry(studio: Studio, work: Work) -> tuple[Any, tuple[Any, ...]]:
    plan, account = _allowed(studio, work)
    key = ("dry", work.model_name, plan.fingerprint())
    return key, (accounts.dry_run, work.source, work.reading, plan, account)


def _release(studio: Studio, work: Work) -> tuple[Any, tuple[Any, ...]]:
    plan, account = _allowed(studio, work)
    key = ("release", work.model_name, plan.fingerprint())
    origin = "simulated for a demonstration" if work.simulated else _ORIGINS[work.origin]
    return key, (accounts.carry_out, work.source, work.reading, plan, account, origin)


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
