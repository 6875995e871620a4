"""Step 1: an example, a table and its columns, a plan, the account's model, a drawn model."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, QueryParams, UploadFile

from undertow import Groups, MarkovChain, MultivariateGaussian, Pedigree, Plan
from undertow.errors import InvalidInput, UndertowError
from undertow.models import Contagion
from undertow.models.sets import AnyModel
from undertow_studio.code import code_for_model
from undertow_studio.examples import EXAMPLES, example
from undertow_studio.pages.depends import picture_of
from undertow_studio.questions import question_of
from undertow_studio.rendering import in_words
from undertow_studio.studio import Studio, Work, see, studio_of, work_of
from undertow_studio.tables import PrivateTable, Reading, columns_of, guess

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
    question = question_of(plan)
    work = studio.works.begin(title, "plan", model=plan.model, plan=plan, question=question)
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
        page = "release" if work.question is not None else "depends"
        return see(studio.works.change(work, reading=reading), page)
    parts: dict[str, Any] = {"reading": reading, "model": None}
    if form.get("model") == "ledger":
        ledger = await run_in_threadpool(lambda: studio.ledger)
        parts["model"] = None if ledger is None else ledger.model
    return see(studio.works.change(work, **parts), "depends")


def _reading(given: dict[str, str]) -> Reading:
    fields: dict[str, Any] = {one: given[one] or None for one in _FIELDS}
    named = tuple(part.strip() for part in given["states"].split(",") if part.strip())
    return Reading(**fields, states=named)


def _try(work: Work, reading: Reading) -> None:
    """Refuse a reading that the columns do not allow; no record is read."""
    from undertow_studio.tables import naming

    if work.source is not None:
        with naming(work.source):
            reading.open(work.source)


def _known(work: Work) -> dict[str, str] | None:
    if work.reading is None:
        return None
    fields = {one: getattr(work.reading, one) or "" for one in _FIELDS}
    return fields | {"states": ",".join(work.reading.states)}


async def _ask(
    studio: Studio, work: Work, given: dict[str, str] | None, wrong: str = "", status: int = 200
) -> Response:
    if work.source is None:
        return see(work, "data")
    columns = await run_in_threadpool(columns_of, work.source)
    return studio.page(
        "read",
        status,
        work=work,
        columns=list(columns),
        given=given or guess(columns),
        wrong=wrong,
        stated=work.model is not None and work.origin in _STATED,
    )


LEAST, MOST = 2, 6
"""States of a chain that is drawn."""

_TITLES = {
    "chain": "Markov chain",
    "family": "Pedigree",
    "household": "Household or group",
    "correlation": "Correlated measurements",
}
_FAMILY = "child = father + mother\nsister = father + mother"
_PEOPLE, _LETTERS = 60, 4000

Form = FormData | QueryParams


@router.get("/draw/{kind}")
async def draw(request: Request, kind: str) -> Response:
    """Show the model that is being drawn, as far as the form says it."""
    studio = studio_of(request)
    model, wrong = None, ""
    try:
        model = _model(kind, request.query_params)
    except UndertowError as error:
        wrong = in_words(error)
    return _page(studio, kind, request.query_params, model, wrong)


@router.post("/draw/{kind}")
async def drawn(request: Request, kind: str) -> Response:
    """Take the model that was drawn."""
    studio, form = studio_of(request), await request.form()
    try:
        model = _model(kind, form)
    except UndertowError as error:
        return _page(studio, kind, form, None, in_words(error), 422)
    return see(studio.works.begin(_TITLES[kind], "drawn", model=model), "depends")


def _page(
    studio: Studio, kind: str, form: Form, model: AnyModel | None, wrong: str = "",
    status: int = 200,
) -> Response:  # fmt: skip
    if kind not in _TITLES:
        raise InvalidInput(f"what can be drawn is {', '.join(_TITLES)}")
    content: dict[str, Any] = {"kind": kind, "title": _TITLES[kind], "family": _FAMILY}
    if kind == "chain":
        size = _size(form)
        content |= {"size": size, "names": _names(form, size), "weights": _weights(form, size)}
    picture = None if model is None else picture_of(model)[1]
    described = "" if model is None else model.describe()
    return studio.page(
        "draw", status, wrong=wrong, picture=picture, described=described,
        given={name: str(form.get(name, "")) for name in form}, **content,
    )  # fmt: skip


def _model(kind: str, form: Form) -> AnyModel:
    match kind:
        case "chain":
            return _chain(form)
        case "family":
            return _pedigree(form)
        case "household":
            if str(form.get("how", "any")) == "any":
                return Groups(_whole(form, "size", 4, 1, 1000))
            ends = _share(form, "least", 0.1), _share(form, "most", 0.5)
            return Contagion(_whole(form, "size", 4, 1, 8), _share(form, "outside", 0.1), ends)
        case "correlation":
            size = _whole(form, "size", 4, 2, 50)
            rho, mean = _real(form, "rho", 0.5), _real(form, "mean", 0.0)
            spread = _real(form, "deviation", 1.0)
            if not -1 < rho < 1 or not spread > 0:
                raise InvalidInput("a correlation lies between -1 and 1, a deviation above 0")
            table = [
                [spread**2 * (1.0 if i == j else rho) for j in range(size)] for i in range(size)
            ]
            return MultivariateGaussian([mean] * size, table)
    raise InvalidInput(f"what can be drawn is {', '.join(_TITLES)}")


def _chain(form: Form) -> MarkovChain:
    """Return the chain of some sliders: each row of weights is divided by its sum."""
    size = _size(form)
    rows = []
    for weights in _weights(form, size):
        total = sum(weights)
        if not total > 0:
            raise InvalidInput("from each state something must follow: move a slider of its row")
        row = [round(weight / total, 6) for weight in weights]
        row[row.index(max(row))] += 1 - sum(row)
        rows.append(row)
    return MarkovChain(rows, _names(form, size))


def _pedigree(form: Form) -> Pedigree:
    parents: dict[str, tuple[str, str]] = {}
    text = str(form.get("family", _FAMILY))[:_LETTERS]
    for line in text.splitlines():
        if not line.strip():
            continue
        child, equals, rest = line.partition("=")
        both = [part.strip() for part in rest.split("+")]
        if not equals or len(both) != 2 or not all([child.strip(), *both]):
            raise InvalidInput("write each child on a line of its own: child = father + mother")
        if child.strip() in parents:
            raise InvalidInput("a child is on two lines; each has one")
        parents[child.strip()] = (both[0], both[1])
    if not parents or len(parents) > _PEOPLE:
        raise InvalidInput(f"a family has 1 to {_PEOPLE} children")
    ends = _share(form, "rare", 0.05), _share(form, "common", 0.5)
    return Pedigree(parents=parents, allele_frequency=ends)


def _size(form: Form) -> int:
    text = str(form.get("states", LEAST))
    return int(text) if text in map(str, range(LEAST, MOST + 1)) else LEAST


def _names(form: Form, size: int) -> tuple[str, ...]:
    usual = ("inactive", "active") if size == LEAST else tuple("ABCDEF"[:size])
    given = [str(form.get(f"name{place}", "")).strip()[:40] for place in range(size)]
    return tuple(name or usual[place] for place, name in enumerate(given))


def _weights(form: Form, size: int) -> list[list[float]]:
    stay = 80.0
    return [
        [
            _real(form, f"p{row}-{column}", stay if row == column else (100 - stay) / (size - 1))
            for column in range(size)
        ]
        for row in range(size)
    ]


def _real(form: Form, name: str, usual: float) -> float:
    text = str(form.get(name, "")).strip()
    try:
        value = float(text) if text else usual
    except ValueError:
        raise InvalidInput("a number is required") from None
    if not abs(value) <= 1e9:
        raise InvalidInput("a number of ordinary size is required")
    return value


def _share(form: Form, name: str, usual: float) -> float:
    value = _real(form, name, usual)
    if not 0 <= value <= 1:
        raise InvalidInput("a probability lies between 0 and 1")
    return value


def _whole(form: Form, name: str, usual: int, least: int, most: int) -> int:
    value = _real(form, name, usual)
    if value != int(value) or not least <= value <= most:
        raise InvalidInput(f"a whole number from {least} to {most} is required")
    return int(value)
