"""What every server of ours does with a request before and after it is answered.

Bodies are counted while they arrive, so that a request cannot fill the memory by not saying how
long it is; every answer carries headers that let a browser do nothing with it but show it.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Send

from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import uvicorn

__all__ = [
    "announced",
    "configured",
    "counted",
    "is_loopback",
    "listening",
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

    from undertow.serving.connections import BACKLOG, Guarded, most_connections

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
