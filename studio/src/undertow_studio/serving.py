"""The server of the studio on a port of this machine, until Ctrl-C."""

import contextlib
import logging
import signal
import threading
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from undertow_studio.studio import Settings

if TYPE_CHECKING:
    import uvicorn

__all__ = ["serve"]

_LOOPBACK = "127.0.0.1"


def serve(settings: Settings, announce: Callable[[str], object], *, browser: bool = True) -> None:
    """Serve the studio until it is interrupted; ``told`` is given the address to open, once.

    The port is taken before anything is printed, and belongs to the loopback interface: other
    machines cannot reach it. The browser is given a private file that leads to the address, not
    the address, and nothing waits for it. A terminal that is closed ends the studio as Ctrl-C does.
    """
    import uvicorn

    from undertow.serving.http import configured, listening
    from undertow_studio.app import create_app
    from undertow_studio.studio import Studio
    from undertow_studio.tables import sweep

    bound = listening(_LOOPBACK, settings.port)
    settings = replace(settings, port=bound.getsockname()[1])
    _quiet()
    sweep()
    studio = Studio(settings)
    config = configured(
        create_app(settings, studio=studio), patience=600.0, log_config=None, timeout_keep_alive=30,
        timeout_graceful_shutdown=2, h11_max_incomplete_event_size=2**16,
    )  # fmt: skip
    server = uvicorn.Server(config)
    announce(settings.first_address)
    if browser:
        door = studio.folder.door(settings.first_address).as_uri()
        threading.Thread(target=_open, args=(door,), daemon=True).start()
    interrupted = contextlib.suppress(KeyboardInterrupt)  # which is how it ends
    with contextlib.closing(studio), bound, interrupted, _ended_by_hangup(server):
        server.run(sockets=[bound])


def _open(address: str) -> None:
    """Open the browser; one of the terminal keeps this thread until it is closed."""
    with contextlib.suppress(webbrowser.Error, OSError):  # the address is printed in any case
        webbrowser.open(address)


@contextlib.contextmanager
def _ended_by_hangup(server: "uvicorn.Server") -> Iterator[None]:
    """End the server in order when its terminal is closed, unless that is to be ignored."""
    before = signal.getsignal(signal.SIGHUP)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: setattr(server, "should_exit", True))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


class _NoQuotes(logging.Filter):
    """Leaves of an error its kind: its words, and the lines of a traceback, may quote the data."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[0] is not None:
            record.msg, record.args = f"undertow studio: {record.exc_info[0].__name__}", ()
            record.exc_info = record.exc_text = None
        return True


def _quiet() -> None:
    """Log errors alone, without what they quote."""
    for name in ("uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.ERROR)
        logger.addFilter(_NoQuotes())
