"""What every server of ours does with a request before and after it is answered.

Bodies are counted while they arrive, so that a request cannot fill the memory by not saying how
long it is; every answer carries headers that let a browser do nothing with it but show it.
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

__all__ = [
    "BACKLOG",
    "Guarded",
    "announced",
    "configured",
    "counted",
    "is_loopback",
    "listening",
    "most_connections",
    "run",
    "with_headers",
]


def with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    """Return how to send an answer that carries these headers."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            found = MutableHeaders(scope=message)
            for name, value in headers.items():
                found[name] = value
        await send(message)

    return sending


def counted(receive: Receive, most: int, words: str) -> Receive:
    """Return how to receive a body of at most so many bytes; more end the request with 413."""
    found = 0

    async def receiving() -> Message:
        nonlocal found
        message = await receive()
        found += len(message.get("body", b""))
        if found > most:
            raise HTTPException(413, words)
        return message

    return receiving


def announced(headers: Headers) -> int:
    """Return how many bytes a request says that it has; 0 where it does not say."""
    text = headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def is_loopback(address: str) -> bool:
    """Return whether an address reaches this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    with suppress(ValueError):
        return ip_address(address).is_loopback
    return address == "localhost"


def listening(address: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address of this machine; port 0 takes a free one."""
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
    """Return how uvicorn serves an application of ours: quiet, and with an end to every wait.

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
    """Answer requests until the process is interrupted; the server itself logs no request."""
    import uvicorn

    with suppress(KeyboardInterrupt):  # the way to end it
        uvicorn.Server(configured(app)).run(sockets=[bound])


BACKLOG = 32
"""Connections that are taken in one step of the loop, before any is cut off to make room."""

_FILES = 64 + 3 * BACKLOG
"""Open files that are left to the ledger (databases, journals, clients), and to those few steps."""


class Guarded(H11Protocol):
    """HTTP/1.1 with an end to every wait; subclasses say how long and how many.

    A timer runs whenever the client is due: from the connection, or the last answer, until the
    next request is there in full, and while an answer waits to be read.
    """

    patience = 30.0
    """Seconds for a whole request, and for the client to read what the buffers do not hold."""
    most = 200
    """Connections at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Wait for nothing yet."""
        super().__init__(*args, **kwargs)
        self._due: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether the next step is the client's: no request is being answered."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete or cycle.more_body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Expect a request; if there is no place, the one that is due longest is cut off."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._expect()
        if len(self.connections) > self.most:
            idle = (one for one in self.connections if isinstance(one, Guarded) and one.waits)
            min(idle, key=Guarded._since, default=self)._cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._rest()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Rest when the request is there in full."""
        super().data_received(data)
        if not self.waits:
            self._rest()

    def on_response_complete(self) -> None:
        """Expect the next request, unless it came with the last one."""
        self._expect()  # also where the connection is being closed: the answer has to be read
        super().on_response_complete()
        if not self.waits:
            self._rest()

    def pause_writing(self) -> None:
        """Expect the client to read."""
        super().pause_writing()
        self._expect()

    def resume_writing(self) -> None:
        """Rest if an answer is still being made."""
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
        """Close at once, whatever is still to be written."""
        self._rest()
        self.connections.discard(self)
        self.transport.abort()


def most_connections() -> int:
    """Return how many connections the open files of this process allow."""
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
