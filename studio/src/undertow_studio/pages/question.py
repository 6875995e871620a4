"""Step 3: the query, the secret, the adversary and the limit on leakage."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from undertow.errors import InvalidInput, UndertowError
from undertow.models.fitting.checks import accepted, failed
from undertow.models.sets import AnyModel
from undertow_studio.code import code_for_plan
from undertow_studio.questions import KINDS, Question, kinds_for
from undertow_studio.rendering import in_words, render
from undertow_studio.studio import Studio, Work, see, studio_of, work_of

__all__ = ["router"]

router = APIRouter()


@router.get("/w/{name}/question")
async def show_question(request: Request, name: str) -> Response:
    """Show the question."""
    studio, work = studio_of(request), work_of(request, name)
    return _page(studio, work, studio.model(work), studio.question(work))


@router.post("/w/{name}/question")
async def take_question(request: Request, name: str) -> Response:
    """Take the question."""
    studio, work = studio_of(request), work_of(request, name)
    model, before = studio.model(work), studio.question(work)
    form = await request.form()
    try:
        question = Question.of_form(form, model, before)
        if question.kind not in kinds_for(model):
            raise InvalidInput("this query does not apply to records that follow such a model")
        accepted(model.checks, question.accept, all_of=question.unit != "person")
    except UndertowError as error:
        return _page(studio, work, model, before, in_words(error), 422)
    return see(studio.works.change(work, question=question, plan=None), "costs")


@router.get("/odds")
async def odds(limit: str = "1") -> Response:
    """Return what a limit means, for the slider."""
    try:
        value = float(limit)
    except ValueError:
        value = 0.0
    if not 0 < value <= 100:
        return HTMLResponse("<p>The limit must be above 0, and at most 100.</p>")
    return HTMLResponse(render("odds", limit=value))


def _page(
    studio: Studio,
    work: Work,
    model: AnyModel,
    question: Question,
    wrong: str = "",
    status: int = 200,
) -> Response:
    persons = model.family == "chain"
    record_words = (
        "the value of one person, with all that other records reveal about it"
        if model.records_are_persons
        else "one value of the table, with all that other records reveal about it"
    )
    return studio.page(
        "question", status, work=work, question=question, kinds=kinds_for(model), words=KINDS,
        states=list(map(str, model.states)), windows=model.family == "chain", persons=persons,
        record_words=record_words, broken=failed(model.checks),
        fitted=model.records.source is not None, wrong=wrong, limit=question.limit,
        code=code_for_plan(work, model, question),
    )  # fmt: skip
