"""The command line: ``undertow plan``, ``undertow release`` and the others."""

import os
import sys
from io import TextIOWrapper

__all__ = ["main"]


def main() -> None:
    """Run the command line; exit with 0 (done), 1 (refused), 2 (wrong usage), 130 (interrupted)."""
    if isinstance(sys.stdout, TextIOWrapper):  # a name may not fit the terminal's encoding
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from undertow.cli.app import app

        app(prog_name="undertow")
    except KeyboardInterrupt:  # before a command has begun
        sys.stderr.write("undertow: interrupted\n")
        sys.exit(130)
    except OSError as error:  # the answer could not be printed: a full disk, a closed terminal
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor at exit
        sys.stderr.write(f"undertow: cannot print the answer: {error.strerror or error}\n")
        sys.exit(1)
