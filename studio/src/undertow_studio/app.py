"""The application: its pages, its static files, and what it says when something goes wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from undertow.errors import UndertowError
from undertow_studio.guard import Guard
from undertow_studio.jobs import Jobs
from undertow_studio.pages import (
    attacker,
    costs,
    data,
    depends,
    drawing,
    jobs,
    question,
    signing,
    start,
)
from undertow_studio.refusals import in_words
from undertow_studio.settings import Settings
from undertow_studio.studio import Gone, JobRefused, Pending, Studio, studio_of

__all__ = ["create_app"]

PAGES = (start, drawing, data, depends, question, costs, attacker, signing, jobs)


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
    for page in PAGES:
        app.include_router(page.router)
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
    """Say why the work that a page needs was not done."""
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
    words = {404: "there is no such page", 405: "this page cannot be asked in that way"}
    said = words.get(status, error.detail)  # type: ignore[attr-defined]
    return studio_of(request).page("refused", status, reason=said, again="", path="")


async def _failed(request: Request, error: Exception) -> Response:
    """Say that something failed; its words may quote the data, so only its kind is told."""
    words = f"the studio failed in a way that it should not ({type(error).__name__})"
    return studio_of(request).page("refused", 500, reason=words, again="", path="")
