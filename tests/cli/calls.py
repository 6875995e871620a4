"""How the tests call the command line."""

import json
import os
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

import typer.testing
from typer.testing import CliRunner

from tests.processes import program
from undertow.cli.app import app

# Commands are built once in a process, as where they are called, not for every call.
typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]

ROWS = "0.882,0.118;0.305,0.695"
CHAIN = ("--transition", ROWS)
NAMED = (*CHAIN, "--states", "inactive,active")
PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": "", "COLUMNS": "100"}


def call(*arguments, env=None):
    """Run a command in this process; an unexpected exception is a failure, not an exit code."""
    runner = CliRunner()
    result = runner.invoke(app, [str(a) for a in arguments], env=PLAIN | (env or {}))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def call_json(*arguments):
    """Run a command that must succeed, and return its JSON."""
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert not result.stderr
    return strict(result.stdout)


def apart(*arguments, **options):
    """Run a command in a process of its own."""
    return program(*arguments, env=os.environ | PLAIN, **options)


def start(*arguments, **options):
    """Run the installed entry point in a fresh process."""
    entry = Path(sysconfig.get_path("scripts"), "undertow")
    return subprocess.run(
        [entry, *arguments],
        env=os.environ | PLAIN,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def strict(text):
    """Parse JSON, refusing what only Python accepts."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def rows(result):
    """Return the labelled rows of a plain table."""
    lines = [line.strip() for line in result.stdout.splitlines()[1:]]
    return dict(line.split("  ", 1) for line in lines)
