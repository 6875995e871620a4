"""The studio on a port of this machine, until Ctrl-C."""

import contextlib
import logging
import webbrowser
from collections.abc import Callable
from dataclasses import replace

from undertow.errors import NotSupported
from undertow.studio.settings import Settings

__all__ = ["check_installed", "serve"]

_LOOPBACK = "127.0.0.1"


def check_installed() -> None:
    """Refuse to start without the packages of the studio, and say what to install."""
    from importlib.util import find_spec

    absent = [
        name for name in ("fastapi", "uvicorn", "python_multipart") if find_spec(name) is None
    ]
    if absent:
        raise NotSupported(
            f"the studio needs {', '.join(absent)}; install it with: pip install 'undertow[studio]'"
        )


def serve(settings: Settings, told: Callable[[str], object], *, browser: bool = True) -> None:
    """Serve the studio until it is interrupted; ``told`` is given the address to open, once.

    The port is taken before anything is printed, and belongs to the loopback interface: other
    machines cannot reach it.
    """
    import uvicorn

    from undertow.serving.http import configured, listening
    from undertow.studio.app import create_app

    bound = listening(_LOOPBACK, settings.port)
    settings = replace(settings, port=bound.getsockname()[1])
    _quiet()
    config = configured(
        create_app(settings), patience=600.0, log_config=None, timeout_keep_alive=30,
        timeout_graceful_shutdown=2, h11_max_incomplete_event_size=2**16,
    )  # fmt: skip
    server = uvicorn.Server(config)
    told(settings.first_address)
    if browser:
        webbrowser.open(settings.first_address)
    with bound, contextlib.suppress(KeyboardInterrupt):  # which is how it ends
        server.run(sockets=[bound])


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
