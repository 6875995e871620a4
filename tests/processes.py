"""The program in processes of its own, forked from one that has the package loaded and did nothing.

What is tested is what a process leaves behind: exit codes, what it printed, files, ledgers. A fresh
interpreter that loads the package takes ten times as long as most commands; a few tests in
`tests/cli/test_entry.py` start one, because there the start is what is tested.
"""

import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
HEAVY = ("lstm", "kernels")  # few commands need what these load
PRELOADED = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in sorted(SOURCE.rglob("*.py"))
    if path.stem not in ("__init__", "__main__", *HEAVY) and "papers" not in path.parts
]
OTHERS = [  # what most commands load, and what those load that draw; a missing one is passed over
    "polars", "scipy.optimize", "scipy.stats", "rich.console", "rich.progress", "typer._adapters",
    "matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg",
]  # fmt: skip
PATIENCE = 300.0
CONTEXT: Any = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([*PRELOADED, *OTHERS])


def program(
    *arguments: str,
    prepare: tuple[Callable[..., None], *tuple[Any, ...]] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | str = ".",
) -> subprocess.CompletedProcess[str]:
    """Run ``undertow`` with the arguments in a process of its own.

    ``prepare`` is a function of a light module and its arguments, called in the process first.
    """
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder, name) for name in ("stdout", "stderr")]
        told = (list(map(str, arguments)), prepare, dict(os.environ if env is None else env))
        child = CONTEXT.Process(target=_main, args=(*told, str(Path(cwd).resolve()), printed))
        child.start()
        child.join(PATIENCE)
        if child.exitcode is None:
            child.kill()
            raise TimeoutError(f"undertow {arguments} still runs after {PATIENCE} s")
        out, err = (path.read_text("utf-8") for path in printed)
        return subprocess.CompletedProcess(arguments, child.exitcode, out, err)


def _main(
    arguments: list[str], prepare: Any, environment: dict[str, str], cwd: str, printed: list[Path]
) -> None:
    for descriptor, path in enumerate(printed, 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    if prepare is not None:
        function, *values = prepare
        function(*values)
    sys.argv = ["undertow", *arguments]
    importlib.import_module("undertow.cli").main()


# --- ways to die ----------------------------------------------------------------------------------


def die_at_checkpoint(point: str, count: int, umask: int) -> None:
    """End when a checkpoint of the ledger or of the files is passed for the ``count``-th time."""
    seen: list[str] = []

    def reached(checkpoint: str) -> None:
        seen.append(checkpoint)
        if seen.count(point) == count:
            os._exit(9)

    importlib.import_module("undertow.ledger").reached = reached  # type: ignore[attr-defined]
    os.umask(umask)


def die_in(module: str, name: str, spared: int = 0) -> None:
    """End in a call of a function, or of a method, after those that are spared."""
    holder: Any = importlib.import_module(module)
    *outer, name = name.split(".")
    for part in outer:
        holder = getattr(holder, part)
    real, calls = getattr(holder, name), []

    def die(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) > spared:
            os._exit(9)
        return real(*arguments, **options)

    setattr(holder, name, die)


def in_pieces(rows: int, largest: int | None = None) -> None:
    """Read every file in pieces of so many rows; no file may become larger than ``largest``."""
    from undertow.data.readers.sources import Source

    setattr(Source, "pieces", lambda *_: rows)  # noqa: B010  (a method of a slotted class)
    if largest is not None:
        small_files(largest)


def small_files(largest: int) -> None:
    """Let no file become larger than so many bytes, what is printed included."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))


def full_output() -> None:
    """Print to a device that is always full."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
