"""The application: its pages, its static files, the progress of work, and the pages of errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from undertow.errors import UndertowError
from undertow_studio.guard import Guard
from undertow_studio.jobs import Jobs
from undertow_studio.pages import attacker, costs, data, depends, question, release
from undertow_studio.rendering import in_words, render
from undertow_studio.studio import Gone, JobRefused, Pending, Settings, Studio, studio_of

__all__ = ["create_app"]

router = APIRouter()

PAGES = (data, depends, question, costs, attacker, release)


def create_app(
    settings: Settings, workers: Jobs | None = None, studio: Studio | None = None
) -> Guard:
    """Return the studio as an ASGI application behind its guard; it is `Guard.app` inside."""
    studio = studio or Studio(settings, workers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        studio.jobs.warm()
        yield
        studio.close()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.studio = studio
    for routes in (router, *(page.router for page in PAGES)):
        app.include_router(routes)
    app.mount("/static", StaticFiles(packages=[("undertow_studio", "static")]))
    app.add_exception_handler(Pending, _pending)
    app.add_exception_handler(JobRefused, _refused)
    app.add_exception_handler(Gone, _gone)
    app.add_exception_handler(UndertowError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _failed)
    return Guard(app, settings, studio.folder.close_door)


async def _pending(request: Request, error: Exception) -> Response:
    """Show how far the work is that a page waits for."""
    job = error.job  # type: ignore[attr-defined]
    return studio_of(request).page("waiting", 202, job=job, back=request.url.path)


async def _refused(request: Request, error: Exception) -> Response:
    """Show the refusal of the work that a page needs."""
    job = error.job  # type: ignore[attr-defined]
    status = 422 if job.status == "refused" else 500 if job.status == "failed" else 200
    again = request.url.path if job.status != "refused" else ""
    return studio_of(request).page(
        "refused", status, reason=job.reason, again=again, path=request.url.path
    )


async def _gone(request: Request, _: Exception) -> Response:
    words = "this piece of work is not held any more: the studio was started again, or it is old"
    return studio_of(request).page("refused", 404, reason=words, again="", path="")


async def _invalid(request: Request, error: Exception) -> Response:
    return studio_of(request).page(
        "refused", 422, reason=in_words(error), again="", path=request.url.path
    )


async def _http(request: Request, error: Exception) -> Response:
    status = error.status_code  # type: ignore[attr-defined]
    words = {404: "there is no such page", 405: "this page does not take such a request"}
    reason = words.get(status, error.detail)  # type: ignore[attr-defined]
    return studio_of(request).page("refused", status, reason=reason, again="", path="")


async def _failed(request: Request, error: Exception) -> Response:
    """Show that a request failed, with the kind of the error only: its words may quote the data."""
    words = f"the studio failed in a way that it should not ({type(error).__name__})"
    return studio_of(request).page("refused", 500, reason=words, again="", path="")


@router.get("/jobs/{name}")
async def progress(request: Request, name: str) -> Response:
    """Return whether work has ended, and how far it is as a part of a page."""
    job = studio_of(request).jobs.find(name)
    if job is None:
        return JSONResponse({"ended": True, "part": ""})
    return JSONResponse({"ended": job.ended, "part": render("progress", job=job)})


@router.post("/jobs/{name}/cancel")
async def cancel(request: Request, name: str) -> Response:
    """End work, and go back to where the question can be changed."""
    job, form = studio_of(request).jobs.find(name), await request.form()
    if job is None:
        raise Gone
    job.cancel()
    back = str(form.get("back", ""))
    parts = back.split("/")
    own = (
        len(parts) == 4 and parts[1] == "w" and parts[2].replace("-", "").replace("_", "").isalnum()
    )
    if not own:
        return RedirectResponse("/", 303)
    page = "data" if parts[3] in ("depends", "question") else "question"
    return RedirectResponse(f"/w/{parts[2]}/{page}", 303)
