"""Request handling shared by every server: limits on bodies, connections and waits; headers.

Bodies are counted while they arrive, so that an undeclared length cannot exhaust the memory;
responses carry headers that forbid browsers to run or embed them.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import uvicorn

__all__ = ["announced", "configured", "counted", "is_loopback", "listening", "run", "with_headers"]


def with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Return a send function that adds headers to a response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields = MutableHeaders(scope=message)
            for name, value in headers.items():
                fields[name] = value
        await send(message)

    return sending


def counted(receive: Receive, most: int, words: str) -> Receive:
    """Return a receive function that limits the bytes of a body; more raise a 413."""
    size = 0

    async def receiving() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413, words)
        return message

    return receiving


def announced(headers: Headers) -> int:
    """Return the declared length of a body in bytes, 0 if undeclared."""
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def is_loopback(address: str) -> bool:
    """Tell whether an address is a loopback address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    with suppress(ValueError):
        return ip_address(address).is_loopback
    return address == "localhost"


def listening(address: str, port: int) -> socket.socket:
    """Return a socket bound to a local address; port 0 takes a free one."""
    if not 0 <= port <= 65535:
        raise InvalidInput(f"a port is a number from 0 to 65535, found {port}")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
        bound.listen(128)  # whoever asks before the server has started waits
    except OSError as problem:
        bound.close()
        raise InvalidInput(
            f"cannot listen on {address} port {port}: {problem.strerror}; name another --port"
        ) from None
    return bound


def configured(app: ASGIApp, patience: float = 30.0, **settings: Any) -> "uvicorn.Config":
    """Return the configuration of uvicorn: no log, and a timeout on every wait.

    ``patience``: the seconds that a client has for a whole request, and to read what is answered.
    """
    import uvicorn

    limited = type("Limited", (Guarded,), {"most": most_connections(), "patience": patience})
    ours: dict[str, Any] = {
        "http": limited, "backlog": BACKLOG, "ws": "none", "access_log": False,
        "log_level": "error", "server_header": False, "timeout_graceful_shutdown": 10,
    }  # fmt: skip
    return uvicorn.Config(app, **{**ours, **settings})


def run(app: ASGIApp, bound: socket.socket) -> None:
    """Serve requests until the process is interrupted; requests are not logged."""
    import uvicorn

    with suppress(KeyboardInterrupt):  # the way to end it
        uvicorn.Server(configured(app)).run(sockets=[bound])


BACKLOG = 32
"""The connections accepted in one step of the loop, before any is closed to make room."""

_FILES = 64 + 3 * BACKLOG
"""The open files reserved for the ledger (databases, journals, clients) and for one step."""


class Guarded(H11Protocol):
    """HTTP/1.1 with a timeout on every wait; subclasses set the time and the number.

    A timer runs whenever the client is due: from the connection, or the last answer, until the
    next request is there in full, and while an answer waits to be read.
    """

    patience = 30.0
    """Seconds for a whole request, and for the client to read beyond the buffers."""
    most = 200
    """The most simultaneous connections."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Start without a timeout."""
        super().__init__(*args, **kwargs)
        self._due: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether the connection waits for the client, with no request in progress."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete or cycle.more_body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Await a request; without a free place close the connection that has waited longest."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._expect()
        if len(self.connections) > self.most:
            idle = (one for one in self.connections if isinstance(one, Guarded) and one.waits)
            min(idle, key=Guarded._since, default=self)._cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout of a lost connection."""
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop the timeout once the request is complete."""
        super().data_received(data)
        if not self.waits:
            self._rest()

    def on_response_complete(self) -> None:
        """Await the next request, unless it was pipelined."""
        self._expect()  # also where the connection is being closed: the answer has to be read
        super().on_response_complete()
        if not self.waits:
            self._rest()

    def pause_writing(self) -> None:
        """Start a timeout for the client to read."""
        super().pause_writing()
        self._expect()

    def resume_writing(self) -> None:
        """Stop the timeout while a response is computed."""
        super().resume_writing()
        if not self.waits:
            self._rest()

    def _since(self) -> float:
        return 0.0 if self._due is None else self._due.when()

    def _expect(self) -> None:
        self._rest()
        self._due = self.loop.call_later(self.patience, self._cut)

    def _rest(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _cut(self) -> None:
        """Close at once, dropping unwritten data."""
        self._rest()
        self.connections.discard(self)
        self.transport.abort()


def most_connections() -> int:
    """Return the number of connections that the limit on open files allows."""
    try:
        import resource
    except ImportError:  # no such limit on this system
        return Guarded.most
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return Guarded.most
    if allowed < _FILES + BACKLOG:
        raise InvalidInput(
            f"a server needs at least {_FILES + BACKLOG} open files, and {allowed} are allowed; "
            "raise that with: ulimit -n 1024"
        )
    return min(Guarded.most, allowed - _FILES)
