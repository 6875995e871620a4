"""Step 1: an example, a file, a plan, the account's model; drawn models are in `drawing`."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from undertow.errors import InvalidInput, UndertowError
from undertow.plan import Plan
from undertow_studio.examples import EXAMPLES, example
from undertow_studio.questions import asked_of
from undertow_studio.reading import PrivateTable, columns_of
from undertow_studio.refusals import in_words
from undertow_studio.sessions import Work
from undertow_studio.studio import Studio, see, studio_of, work_of

__all__ = ["router"]

router = APIRouter()

_PIECE = 2**20
_PLAN = 4 * 2**20


@router.get("/")
async def start(request: Request) -> Response:
    """Show what there is to begin with; a demonstration begins with its example, once."""
    studio = studio_of(request)
    if studio.settings.demo and not studio.demonstrated:
        studio.demonstrated = True
        return see(open_example(studio, EXAMPLES[0].name), "depends")
    return _start(studio)


@router.post("/new/example")
async def begin_example(request: Request) -> Response:
    """Begin with an example."""
    studio, form = studio_of(request), await request.form()
    return see(open_example(studio, str(form.get("name", ""))), "depends")


@router.post("/new/file")
async def begin_file(request: Request) -> Response:
    """Begin with the file that was named on the command line."""
    studio = studio_of(request)
    path = studio.settings.file
    if path is None:
        raise InvalidInput("no file was named when the studio was started")
    return await _table(studio, PrivateTable(path, path.name))


@router.post("/new/upload")
async def begin_upload(request: Request) -> Response:
    """Begin with a table that is uploaded."""
    studio = studio_of(request)
    try:
        source = await uploaded(request)
    except UndertowError as error:
        return _start(studio, in_words(error), 422)
    return await _table(studio, source)


@router.post("/w/{name}/upload")
async def attach(request: Request, name: str) -> Response:
    """Bring a table to a model or a plan that has none."""
    studio, work = studio_of(request), work_of(request, name)
    source = await uploaded(request)
    await run_in_threadpool(columns_of, source)
    return see(studio.works.change(work, source=source, reading=None), "read")


@router.post("/w/{name}/file")
async def attach_file(request: Request, name: str) -> Response:
    """Bring the file that was named on the command line to a model or a plan."""
    studio, work = studio_of(request), work_of(request, name)
    path = studio.settings.file
    if path is None:
        raise InvalidInput("no file was named when the studio was started")
    source = PrivateTable(path, path.name)
    return see(studio.works.change(work, source=source, reading=None), "read")


async def uploaded(request: Request) -> PrivateTable:
    """Return the table that a request uploads, kept in the private folder."""
    studio = studio_of(request)
    async with request.form(max_files=1, max_fields=8) as form:
        given = form.get("table")
        if not isinstance(given, UploadFile):
            raise InvalidInput("choose a table to read")
        return await studio.folder.keep(given.filename or "", _pieces(given))


@router.post("/new/plan")
async def begin_plan(request: Request) -> Response:
    """Begin with a plan that is uploaded."""
    studio = studio_of(request)
    async with request.form(max_files=1, max_fields=8) as form:
        given = form.get("plan")
        if not isinstance(given, UploadFile):
            raise InvalidInput("choose a plan to open")
        content = await given.read(_PLAN + 1)
    try:
        if len(content) > _PLAN:
            raise InvalidInput("a plan has at most 4 MiB")
        plan = await run_in_threadpool(_plan, content)
    except UndertowError as error:
        return _start(studio, in_words(error), 422)
    title = f"A plan: {plan.query.words()}"
    asked = asked_of(plan)
    work = studio.works.begin(title, "plan", model=plan.model, plan=plan, asked=asked)
    return see(work, "release")


@router.post("/new/ledger")
async def begin_ledger(request: Request) -> Response:
    """Begin with the model of the account."""
    studio = studio_of(request)
    ledger = await run_in_threadpool(lambda: studio.ledger)
    if ledger is None:
        raise InvalidInput("the studio was started without a ledger")
    title = f"The model of {ledger.dataset}"
    return see(studio.works.begin(title, "ledger", model=ledger.model), "depends")


def open_example(studio: Studio, name: str) -> Work:
    """Return a piece of work with an example."""
    one = example(name)
    source = one.source(studio.folder)
    model = None if one.model is None else one.model()
    return studio.works.begin(one.title, "example", source=source, reading=one.reading, model=model)


async def _table(studio: Studio, source: PrivateTable) -> Response:
    """Begin with a table, if it is one."""
    try:
        await run_in_threadpool(columns_of, source)
    except UndertowError as error:
        return _start(studio, in_words(error), 422)
    return see(studio.works.begin(source.name, "file", source=source), "read")


def _start(studio: Studio, wrong: str = "", status: int = 200) -> Response:
    return studio.page("start", status, examples=EXAMPLES, wrong=wrong)


def _plan(content: bytes) -> "Plan[Any]":
    try:
        return Plan.from_json(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidInput("a plan is text in UTF-8, and this file is not") from None


async def _pieces(given: UploadFile) -> Any:
    while piece := await given.read(_PIECE):
        yield piece
