"""What the pages share: settings, pieces of work, jobs, the private folder, and templates."""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from undertow.errors import InvalidInput
from undertow.models.sets import AnyModel
from undertow_studio import calls
from undertow_studio.jobs import Job, Jobs
from undertow_studio.questions import AskedQuestion, usual
from undertow_studio.rendering import render
from undertow_studio.sessions import Work, Works
from undertow_studio.settings import Settings
from undertow_studio.uploads import Folder

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger
    from undertow.plan import Plan
    from undertow_studio.calls import Fit

__all__ = ["Gone", "JobRefused", "Pending", "Studio", "see", "studio_of", "work_of"]

_PATIENCE = 0.12
"""Seconds a page waits for work before it shows that it waits."""


class Pending(Exception):  # noqa: N818
    """A page needs work that has not ended."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job


class JobRefused(Exception):  # noqa: N818
    """A page needs work that was refused, has failed, or was cancelled."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job


class Gone(Exception):  # noqa: N818
    """A piece of work is not held any more."""


class Studio:
    """One run of the studio."""

    def __init__(self, settings: Settings, jobs: Jobs | None = None) -> None:
        self.settings, self.jobs = settings, jobs or Jobs()
        self.works, self.folder = Works(), Folder()
        self.demonstrated = False

    def need(
        self, key: Hashable, call: Callable[..., Any], *arguments: Any, later: bool = False
    ) -> Any:
        """Return the result of work, which is begun if nobody has; else raise what it is at.

        ``later`` says that it is a part of a page that can be read without it.
        """
        job = self.jobs.ask(key, call, *arguments, later=later)
        job.wait(_PATIENCE)
        if job.status == "done":
            return job.result
        if job.ended:
            raise JobRefused(job)
        raise Pending(job)

    def done(self, key: Hashable) -> Any:
        """Return the result of work that somebody has asked for and that has ended, else None."""
        job = self.jobs.known(key)
        return None if job is None or job.status != "done" else job.result

    def fail(self, job: Job) -> None:
        """Say why work was not done."""
        raise JobRefused(job)

    def fit(self, work: Work) -> "Fit | None":
        """Return the fit of a piece of work, None where its model was not fitted."""
        if work.model is not None or work.source is None or work.reading is None:
            return None
        found: Fit = self.need(("fit", work.model_name), calls.fit, work.source, work.reading)
        return found

    def model(self, work: Work) -> AnyModel:
        """Return the model of a piece of work, fitted where it is to be."""
        if work.model is not None:
            return work.model
        found = self.fit(work)
        if found is None:
            raise InvalidInput("say first what the columns of the table are")
        return found.chain

    def asked(self, work: Work) -> AskedQuestion:
        """Return the question of a piece of work, the usual one where nothing was asked yet."""
        if work.asked is not None:
            return work.asked
        every = "" if work.reading is None else work.reading.every or ""
        return usual(self.model(work), every)

    def plan(self, work: Work) -> "Plan[Any]":
        """Return the plan of a piece of work: the one brought along, or the least noise."""
        if work.plan is not None:
            return work.plan
        model, asked = self.model(work), self.asked(work)
        made: Plan[Any] = self.need(("plan", work.model_name, asked), calls.plan, asked, model)
        return made

    @cached_property
    def ledger(self) -> "Ledger | None":
        """The account that was named on the command line."""
        if self.settings.ledger is None or self.settings.dataset is None:
            return None
        from undertow.ledger.book import Ledger

        where, name = self.settings.ledger, self.settings.dataset
        return Ledger(where, name, create=False, key=self.settings.key)

    def page(self, template: str, status: int = 200, **content: Any) -> HTMLResponse:
        """Return a page."""
        return HTMLResponse(render(template, studio=self, **content), status)

    def close(self) -> None:
        """End all work and remove the folder."""
        self.jobs.close()
        self.folder.remove()


def studio_of(request: Request) -> Studio:
    """Return the studio that a request is for."""
    found: Studio = request.app.state.studio
    return found


def work_of(request: Request, name: str) -> Work:
    """Return the piece of work that a path names."""
    found = studio_of(request).works.find(name)
    if found is None:
        raise Gone
    return found


def see(work: Work, page: str) -> RedirectResponse:
    """Return the way to a page of a piece of work."""
    return RedirectResponse(f"/w/{work.id}/{page}", 303)
