"""Connections that wait for nobody for ever: the HTTP protocol of our servers.

uvicorn bounds the pause between two requests alone. Whoever connects and says nothing, sends a
header byte by byte, never ends a body or never reads the answer keeps a connection, and so a file
of the process, as long as he likes. Here each of these has an end, and connections have a number:
when all are taken, the one that has waited longest for its request makes room.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from undertow.errors import InvalidInput

__all__ = ["BACKLOG", "Guarded", "most_connections"]

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
