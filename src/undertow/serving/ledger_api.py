"""The HTTP API of a ledger: reserve, confirm, cancel and read an account.

Requests carry ``Authorization: Bearer TOKEN``. Clients choose the ids of releases, so requests are
idempotent: a repeated one returns the recorded state. Refusals carry the type and the message of
the error. The service sees levels, scopes and released answers, never a record.
"""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import anyio
from fastapi import Depends, FastAPI, Query, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from undertow._version import __version__
from undertow.errors import (
    BudgetExceeded,
    InvalidInput,
    LedgerConflict,
    LedgerDamaged,
    LedgerUnavailable,
    NotSupported,
    UndertowError,
)
from undertow.serving.accounts import (
    Accounts,
    Amount,
    Cancelled,
    Client,
    Clients,
    Confirmed,
    EntryHash,
    Limit,
    NoSuchDataset,
    Page,
    Question,
    Role,
)
from undertow.serving.http import announced, counted, with_headers

__all__ = ["ServiceSettings", "create_service"]


_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_STATUS: tuple[tuple[type[UndertowError], int], ...] = (
    (NoSuchDataset, 404),
    (BudgetExceeded, 409),
    (LedgerConflict, 409),
    (LedgerDamaged, 500),
    (LedgerUnavailable, 503),
    (InvalidInput, 422),
    (NotSupported, 422),
)
"""The status code of each error; the first match counts."""

_KINDS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
    405: "MethodNotAllowed", 413: "TooLarge", 421: "Misdirected", 429: "TooMany",
}  # fmt: skip
_REASONS = {
    400: "A body that is no JSON, or an address that is no UTF-8.",
    401: "No token of a client.",
    403: "A role or a data set that the client does not have, or a request of a web page.",
    404: "No such data set or release.",
    409: "BudgetExceeded, with what is left; LedgerConflict.",
    413: "A request that is too large.",
    421: "A host that the service does not answer to.",
    422: "A value that is missing, unknown or not allowed.",
    429: "More requests of this client at once than wait; ask again.",
    500: "LedgerDamaged.",
    503: "LedgerUnavailable.",
}
"""The status codes of refusals for the schema; the body is a `Refusal`."""


class Refusal(BaseModel):
    """The reason of a refusal: the type of the error, and what to do."""

    error: str
    message: str
    left: Annotated[float | None, Field(description="of BudgetExceeded: what still fits")] = None


class _Json(JSONResponse):
    """JSON in valid UTF-8, even of invalid text in a ledger."""

    def render(self, content: Any) -> bytes:
        """Return the text in UTF-8, lone surrogates as question marks."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def _refused(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the refusals of a request, for the schema."""
    always = (400, 403, 413, 421, 422, 500)
    return {
        code: {"model": Refusal, "description": _REASONS[code]} for code in sorted({*always, *more})
    }


@dataclass(slots=True)
class Turns:
    """The turns of clients: none can delay the others.

    So many of a client are answered, so many more wait, and the rest are refused.
    """

    answered: int = 4
    waiting: int = 60
    _here: Counter[str] = field(default_factory=Counter)
    _served: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def taken(self, client: str) -> AsyncIterator[None]:
        """Wait for a turn, and release it."""
        if self._here[client] >= self.answered + self.waiting:
            raise HTTPException(
                429, "too many requests of this client at once; ask again", {"Retry-After": "1"}
            )
        self._here[client] += 1
        try:
            while self._served[client] >= self.answered:
                await anyio.sleep(0.005)
            self._served[client] += 1
            try:
                yield
            finally:
                self._served[client] -= 1
        finally:
            self._here[client] -= 1


_HOST = re.compile(r"[a-z0-9.-]+|\[[0-9a-f:]+\]")


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """The host names of a service, and the largest request in bytes.

    ``hosts`` are names without ports; those of this machine always count.
    """

    hosts: tuple[str, ...] = ()
    body: int = 2**20
    turns: Turns = field(default_factory=Turns)

    def __post_init__(self) -> None:
        """Validate the names."""
        for name in self.hosts:
            if not _HOST.fullmatch(name):
                raise InvalidInput(
                    f"a host is a name in lower case without a port, found {name!r}; write "
                    "ledger.example.org"
                )

    def answers(self, host: str) -> bool:
        """Tell whether a host name is one of the service.

        >>> ServiceSettings(("ledger.example.org",)).answers("ledger.example.org:443")
        True
        >>> ServiceSettings().answers("attacker.example")
        False
        """
        name = re.sub(r":[0-9]+$", "", host.lower())
        return name in ("localhost", "127.0.0.1", "[::1]", *self.hosts)


class _Door:
    """The ASGI middleware of the service: Host, Origin, body size, headers."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or refuse it with the reason."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, sending = Headers(scope=scope), with_headers(send, _HEADERS)
        most = self.settings.body
        words = f"a request has at most {most} bytes"
        hosts = headers.getlist("host")
        refused: Callable[..., Any] | None = None
        if len(hosts) != 1 or not self.settings.answers(hosts[0]):
            refused = _refusal(421, "Misdirected", "this ledger does not answer under that name")
        elif not _readable(scope):
            refused = _refusal(400, "BadRequest", "an address must be UTF-8, percent-encoded")
        elif "origin" in headers:
            refused = _refusal(403, "Forbidden", "programs ask this ledger, pages do not")
        elif announced(headers) > most:
            refused = _refusal(413, "TooLarge", words)
        if refused is not None:
            await refused(scope, receive, sending)
            return
        await self.app(scope, counted(receive, most, words), sending)


def _readable(scope: Scope) -> bool:
    """Tell whether the path of a request is UTF-8.

    What is not would be replaced by marks, and several ids be taken for one.
    """
    address = scope.get("raw_path", b"").partition(b"?")[0] + b"?" + scope["query_string"]
    try:
        unquote_to_bytes(address).decode()
    except UnicodeDecodeError:
        return False
    return True


def create_service(
    accounts: Accounts, clients: Callable[[], Clients], settings: ServiceSettings | None = None
) -> FastAPI:
    """Return the service; ``clients`` is called at every request, so removals count at once."""
    api = FastAPI(
        title="undertow ledger",
        version=__version__,
        description="What was released from data whose records depend on each other.",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
    )
    settings = settings or ServiceSettings()
    api.add_middleware(_Door, settings=settings)
    _refusals(api)
    bearer = HTTPBearer(auto_error=False, description="the token of a client")

    def known(
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> Client:
        who = None if given is None else clients().named(given.credentials)
        if who is None:
            raise HTTPException(
                401, "a token of a client is needed", {"WWW-Authenticate": "Bearer"}
            )
        return who

    async def client(who: Annotated[Client, Depends(known)]) -> AsyncIterator[Client]:
        async with settings.turns.taken(who.name):
            yield who

    def allowed(role: Role) -> Any:
        def check(dataset: str, who: Annotated[Client, Depends(client)]) -> Client:
            if not who.may(role, dataset):
                raise HTTPException(403, f"client {who.name!r} may not {_DOES[role]} {dataset!r}")
            return who

        return Depends(check)

    reader, spender, owner = allowed("read"), allowed("spend"), allowed("limit")
    listing = _refused(401, 429, 503)
    reading = _refused(401, 404, 429, 503)
    writing = _refused(401, 404, 409, 429, 503)

    @api.get("/v1/health", summary="Whether the service answers.", responses=_refused())
    def health() -> dict[str, str]:
        return {"status": "ready", "version": __version__}

    @api.get("/v1/datasets", summary="The data sets that this client may read.", responses=listing)
    def names(who: Annotated[Client, Depends(client)]) -> dict[str, list[str]]:
        return {"datasets": [name for name in accounts.names() if who.may("read", name)]}

    @api.get(
        "/v1/datasets/{dataset}", summary="Terms, what is spent, what is left.", responses=reading
    )
    def terms(dataset: str, who: Client = reader) -> dict[str, Any]:
        return accounts.terms(dataset)

    @api.post(
        "/v1/datasets/{dataset}/left", summary="What still fits some records.", responses=reading
    )
    def left(dataset: str, records: Question, who: Client = reader) -> dict[str, Any]:
        return accounts.left(dataset, records)

    @api.get(
        "/v1/datasets/{dataset}/releases",
        summary="Entries in order, page by page: go on after the one that 'next' names.",
        response_model=dict[str, Any],
        responses=reading,
    )
    def releases(dataset: str, page: Annotated[Page, Query()], who: Client = reader) -> _Json:
        return _Json(accounts.releases(dataset, page.after, page.limit))

    @api.get(
        "/v1/datasets/{dataset}/releases/{release_id}",
        summary="One entry.",
        response_model=dict[str, Any],
        responses=reading,
    )
    def release(dataset: str, release_id: str, who: Client = reader) -> _Json:
        entry = accounts.release(dataset, release_id)
        if entry is None:
            raise HTTPException(404, f"nothing was reserved under the id {release_id!r}")
        return _Json(entry)

    @api.put(
        "/v1/datasets/{dataset}/releases/{release_id}",
        summary="Spend a level on some records, before noise is drawn; idempotent.",
        status_code=201,
        response_model=dict[str, Any],
        responses={200: {"description": "Reserved before, with the same content."}, **writing},
    )
    def reserve(dataset: str, release_id: str, amount: Amount, who: Client = spender) -> _Json:
        new, entry = accounts.reserve(dataset, release_id, amount, who)
        fields = {"release_id": entry.release_id, "entry": entry.entry_hash, "made": entry.made}
        return _Json({**fields, "result": entry.result}, 201 if new else 200)

    @api.post(
        "/v1/datasets/{dataset}/releases/{release_id}/begin",
        summary="Say that noise is about to be drawn: no way back.",
        responses=writing,
    )
    def begin(dataset: str, release_id: str, who: Client = spender) -> dict[str, Any]:
        accounts.begin(dataset, release_id, who)
        return {"release_id": release_id, "begun": True}

    @api.post(
        "/v1/datasets/{dataset}/releases/{release_id}/confirm",
        summary="Record what is published; publish what this returns. The first one wins.",
        response_model=dict[str, Any],
        responses=writing,
    )
    def confirm(
        dataset: str, release_id: str, published: Confirmed, who: Client = spender
    ) -> _Json:
        result = accounts.confirm(dataset, release_id, published.result, who)
        return _Json({"release_id": release_id, "result": result})

    @api.post(
        "/v1/datasets/{dataset}/releases/{release_id}/cancel",
        summary="Give back what was reserved and never begun.",
        responses=writing,
    )
    def cancel(
        dataset: str, release_id: str, given_up: Cancelled, who: Client = spender
    ) -> dict[str, Any]:
        accounts.cancel(dataset, release_id, given_up.why, who)
        return {"release_id": release_id, "cancelled": True}

    @api.put(
        "/v1/datasets/{dataset}/limit", summary="Change the limit; recorded.", responses=writing
    )
    def limit(dataset: str, wanted: Limit, who: Client = owner) -> dict[str, Any]:
        accounts.set_limit(dataset, wanted.limit, wanted.delta)
        return accounts.terms(dataset)

    @api.post("/v1/verify", summary="Whether the ledger is as it was written.", responses=writing)
    def verify(
        who: Annotated[Client, Depends(client)], entries: list[EntryHash] | None = None
    ) -> dict[str, Any]:
        return {"verified": True, "events": accounts.verify(entries or [])}

    return api


_DOES: dict[Role, str] = {
    "read": "read", "spend": "spend from", "limit": "change the limit of"
}  # fmt: skip


def _refusals(api: FastAPI) -> None:
    """Answer every error with its type and message, without content of the request."""
    from fastapi.exceptions import RequestValidationError

    @api.exception_handler(UndertowError)
    async def refused(request: Request, problem: UndertowError) -> JSONResponse:
        status = next((code for kind, code in _STATUS if isinstance(problem, kind)), 500)
        more = {"left": problem.left} if isinstance(problem, BudgetExceeded) else {}
        return _refusal(status, type(problem).__name__, str(problem), **more)

    @api.exception_handler(RequestValidationError)
    async def malformed(request: Request, problem: RequestValidationError) -> JSONResponse:
        places = [".".join(map(str, one["loc"])) + ": " + one["msg"] for one in problem.errors()]
        return _refusal(422, "InvalidInput", "; ".join(places[:6]))

    @api.exception_handler(HTTPException)
    async def other(request: Request, problem: HTTPException) -> JSONResponse:
        kind = _KINDS.get(problem.status_code, "Refused")
        answer = _refusal(problem.status_code, kind, problem.detail)
        answer.headers.update(problem.headers or {})
        return answer


def _refusal(status: int, kind: str, words: str, **more: Any) -> JSONResponse:
    return _Json({"error": kind, "message": words, **more}, status)
