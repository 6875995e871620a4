"""``undertow studio``: the command that serves the local pages."""

from pathlib import Path
from typing import Annotated

import typer

from undertow.cli.options import KeyOption, command, misuse, option
from undertow.errors import NotSupported
from undertow.rounding import visible

__all__ = ["studio"]

FileArgument = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="Table of records (.csv, .csv.gz or .parquet)."),
]


@command
def studio(
    data: FileArgument = None,
    demo: bool = option(None, "Simulated week of activity to begin with.", False),
    ledger: str | None = option("LEDGER", "Ledger of releases: a file or a URL.", group="Ledger"),
    dataset: str | None = option("NAME", "Data set in the ledger.", group="Ledger"),
    key: KeyOption = None,
    port: int = option("N", "Port of this machine (0: any free port).", 0, min=0),
    read_only: bool = option(None, "Pages without releases.", False),
    no_browser: bool = option(None, "Address printed, no browser opened.", False),
) -> None:
    """Serve local pages from a table to a release.

    Only the browser of this machine is served, and the printed address is valid for one browser.
    Without a ledger only simulated records are released.

    \b
    Examples:
      undertow studio --demo
      undertow studio activity.csv.gz --ledger year.db --dataset w25
    """
    if (ledger is None) != (dataset is None):
        raise misuse("--ledger and --dataset go together")
    if port > 65535:
        raise misuse(f"--port is at most 65535, found {port}")
    _check_installed()
    from undertow_studio.serving import serve
    from undertow_studio.studio import Settings

    settings = Settings(
        port=port, file=None if data is None else data.resolve(), demo=demo, ledger=ledger,
        dataset=dataset, key=key, read_only=read_only,
    )  # fmt: skip
    _check(settings.file, ledger, dataset, key)
    serve(settings, _tell, browser=not no_browser)


def _check_installed() -> None:
    """Refuse to start without the packages of the studio, and say what to install."""
    from importlib.util import find_spec

    absent = [
        name for name in ("fastapi", "uvicorn", "python_multipart") if find_spec(name) is None
    ]
    if absent:
        raise NotSupported(
            f"the studio needs {', '.join(absent)}; install it with: pip install undertow-studio"
        )


def _check(data: Path | None, ledger: str | None, dataset: str | None, key: Path | None) -> None:
    """Refuse a file or an account that is not there, before anything is served."""
    if data is not None:
        from undertow.data.readers.sources import column_names

        column_names(data)
    if ledger is not None:
        from undertow.cli.options import open_ledger

        open_ledger(ledger, dataset, key)


def _tell(address: str) -> None:
    typer.echo(visible(f"The studio is at {address}"))
    typer.echo("The address is good for one browser. Ctrl-C ends the studio.")
