"""Step 1, continued: what the columns of a table are, and what was chosen."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from undertow.errors import InvalidInput, UndertowError
from undertow_studio.code import code_for_model
from undertow_studio.reading import Reading, columns_of, guess
from undertow_studio.refusals import in_words
from undertow_studio.sessions import Work
from undertow_studio.studio import Studio, see, studio_of, work_of

__all__ = ["router"]

router = APIRouter()

_FIELDS = ("value", "person", "time", "every", "state")
_STATED = ("drawn", "plan", "ledger")
"""Pieces of work whose model no table changes."""
_LONGEST = 400
"""Letters that a field may have."""


@router.get("/w/{name}/data")
async def chosen(request: Request, name: str) -> Response:
    """Show what was chosen."""
    studio, work = studio_of(request), work_of(request, name)
    if work.model is None and work.reading is None:
        return see(work, "read")
    described = "" if work.model is None else work.model.describe()
    return studio.page("data", work=work, described=described, code=code_for_model(work))


@router.get("/w/{name}/read")
async def columns(request: Request, name: str) -> Response:
    """Ask what the columns are."""
    studio, work = studio_of(request), work_of(request, name)
    return await _ask(studio, work, _known(work))


@router.post("/w/{name}/data")
async def read(request: Request, name: str) -> Response:
    """Take what the columns are."""
    studio, work = studio_of(request), work_of(request, name)
    form = await request.form()
    given = {one: str(form.get(one, "")).strip()[:_LONGEST] for one in (*_FIELDS, "states")}
    if work.source is None:
        raise InvalidInput("there is no table to read")
    try:
        reading = _reading(given)
        await run_in_threadpool(_try, work, reading)
    except UndertowError as error:
        return await _ask(studio, work, given, in_words(error), 422)
    if work.model is not None and work.origin in _STATED:  # its model was there before the table
        page = "release" if work.asked is not None else "depends"
        return see(studio.works.change(work, reading=reading), page)
    parts: dict[str, Any] = {"reading": reading, "model": None}
    if form.get("model") == "ledger":
        ledger = await run_in_threadpool(lambda: studio.ledger)
        parts["model"] = None if ledger is None else ledger.model
    return see(studio.works.change(work, **parts), "depends")


def _reading(given: dict[str, str]) -> Reading:
    told: dict[str, Any] = {one: given[one] or None for one in _FIELDS}
    named = tuple(part.strip() for part in given["states"].split(",") if part.strip())
    return Reading(**told, states=named)


def _try(work: Work, reading: Reading) -> None:
    """Refuse a reading that the columns do not allow; no record is read."""
    from undertow_studio.reading import naming

    if work.source is not None:
        with naming(work.source):
            reading.open(work.source)


def _known(work: Work) -> dict[str, str] | None:
    if work.reading is None:
        return None
    found = {one: getattr(work.reading, one) or "" for one in _FIELDS}
    return found | {"states": ",".join(work.reading.states)}


async def _ask(
    studio: Studio, work: Work, given: dict[str, str] | None, wrong: str = "", status: int = 200
) -> Response:
    if work.source is None:
        return see(work, "data")
    found = await run_in_threadpool(columns_of, work.source)
    return studio.page(
        "read",
        status,
        work=work,
        columns=list(found),
        given=given or guess(found),
        wrong=wrong,
        stated=work.model is not None and work.origin in _STATED,
    )
