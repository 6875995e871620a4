"""One run of the studio: its settings, its work, its jobs, its private folder and its templates.

A piece of work (a model, a table, a question) is frozen, under a random name in the path. A change
makes a new one and leaves the old one as it was: the back button finds the old one, a reload the
same one, and two tabs cannot overwrite one another's question.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Literal

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from undertow import Plan
from undertow.errors import InvalidInput
from undertow.models.sets import AnyModel
from undertow_studio.fits import Fit, fit
from undertow_studio.jobs import Job, Jobs
from undertow_studio.questions import Question, plan_question, usual
from undertow_studio.rendering import render
from undertow_studio.tables import Folder, PrivateTable, Reading

if TYPE_CHECKING:
    from undertow import Ledger, Plan

__all__ = [
    "Gone",
    "JobRefused",
    "Pending",
    "Settings",
    "Studio",
    "Work",
    "see",
    "studio_of",
    "work_of",
]

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """What a studio was started with: files, the account, limits, and the secrets of this run.

    ``file`` is the table named on the command line, ``ledger`` and ``dataset`` the account that
    releases spend from. ``token`` opens the first page once, ``cookie`` is what it is exchanged
    for; both are drawn anew for every run. ``upload`` and ``body`` are the most bytes of an upload
    and of any other request, ``seconds`` the longest that a request may take.

    >>> Settings(port=8000).hosts
    ('127.0.0.1:8000', 'localhost:8000')
    """

    port: int = 0
    file: Path | None = None
    demo: bool = False
    ledger: str | None = field(default=None, repr=False)  # an address may hold a password
    dataset: str | None = None
    key: Path | None = None
    read_only: bool = False
    upload: int = 1024 * MEBIBYTE
    body: int = 4 * MEBIBYTE
    seconds: float = 30.0
    upload_seconds: float = 600.0
    token: str = field(default_factory=lambda: token_urlsafe(32), repr=False)
    cookie: str = field(default_factory=lambda: token_urlsafe(32), repr=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names by which a browser on this machine may call the studio."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def cookie_name(self) -> str:
        """The name of the cookie; browsers share cookies between ports, so it has the port."""
        return f"undertow-studio-{self.port}"

    @property
    def address(self) -> str:
        """Where the studio is, without the token."""
        return f"http://127.0.0.1:{self.port}/"

    @property
    def first_address(self) -> str:
        """The address to open first, once."""
        return f"{self.address}?token={self.token}"


Origin = Literal["example", "drawn", "file", "plan", "ledger"]

_KEPT = 1000
"""Pieces of work that are kept; the ones not looked at for longest go first."""


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of work, as far as it has come.

    ``model`` is None where it is to be fitted to the table. ``model_name`` names the model in this
    run: whatever is computed under it is computed once. ``plan`` is one that was brought along.
    """

    id: str
    title: str
    origin: Origin
    source: PrivateTable | None = None
    reading: Reading | None = None
    model: AnyModel | None = None
    model_name: str = ""
    question: Question | None = None
    plan: "Plan[Any] | None" = None

    @property
    def simulated(self) -> bool:
        """Whether its records are simulated."""
        return self.source is not None and self.source.simulated


class Works:
    """The pieces of work of a studio, by name."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Work] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, title: str, origin: Origin, **parts: Any) -> Work:
        """Return a new piece of work with a model of its own."""
        return self._keep(Work(_name(), title, origin, model_name=_name(), **parts))

    def change(self, work: Work, **parts: Any) -> Work:
        """Return a new piece of work that differs from another in some parts."""
        if "model" in parts or "reading" in parts:
            parts = {"model_name": _name(), **parts}
        return self._keep(replace(work, id=_name(), **parts))

    def find(self, name: str) -> Work | None:
        """Return a piece of work, None where it is not held (any more)."""
        with self._lock:
            work = self._held.get(name)
            if work is not None:
                self._held.move_to_end(name)
            return work

    def _keep(self, work: Work) -> Work:
        with self._lock:
            self._held[work.id] = work
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)
        return work


def _name() -> str:
    return token_urlsafe(9)


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
        """Return the result of work, begun if necessary; raise `Pending` until it has ended.

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
        """Return the result of work that has ended, None if it was not begun or has not ended."""
        job = self.jobs.known(key)
        return None if job is None or job.status != "done" else job.result

    def fail(self, job: Job) -> None:
        """Raise the refusal of a job."""
        raise JobRefused(job)

    def fit(self, work: Work) -> "Fit | None":
        """Return the fit of a piece of work, None where its model was not fitted."""
        if work.model is not None or work.source is None or work.reading is None:
            return None
        result: Fit = self.need(("fit", work.model_name), fit, work.source, work.reading)
        return result

    def model(self, work: Work) -> AnyModel:
        """Return the model of a piece of work, fitted where it is to be."""
        if work.model is not None:
            return work.model
        fitted = self.fit(work)
        if fitted is None:
            raise InvalidInput("say first what the columns of the table are")
        return fitted.chain

    def question(self, work: Work) -> Question:
        """Return the question of a piece of work, the usual one where nothing was asked yet."""
        if work.question is not None:
            return work.question
        every = "" if work.reading is None else work.reading.every or ""
        return usual(self.model(work), every)

    def plan(self, work: Work) -> "Plan[Any]":
        """Return the plan of a piece of work: the one brought along, or the least noise."""
        if work.plan is not None:
            return work.plan
        model, question = self.model(work), self.question(work)
        plan: Plan[Any] = self.need(
            ("plan", work.model_name, question), plan_question, question, model
        )
        return plan

    @cached_property
    def ledger(self) -> "Ledger | None":
        """The account that was named on the command line."""
        if self.settings.ledger is None or self.settings.dataset is None:
            return None
        from undertow import Ledger

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
    studio: Studio = request.app.state.studio
    return studio


def work_of(request: Request, name: str) -> Work:
    """Return the piece of work that a path names."""
    work = studio_of(request).works.find(name)
    if work is None:
        raise Gone
    return work


def see(work: Work, page: str) -> RedirectResponse:
    """Return the way to a page of a piece of work."""
    return RedirectResponse(f"/w/{work.id}/{page}", 303)
