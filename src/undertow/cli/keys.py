"""``undertow keys``: keys that sign plans."""

from pathlib import Path
from typing import Annotated

import typer

from undertow.cli.options import GroupedCommand, JsonOption, command
from undertow.cli.output import answer, show

__all__ = ["keys_app"]


keys_app = typer.Typer(
    no_args_is_help=True,
    help="Manage keys that sign plans.",
)


@keys_app.callback()
def keys() -> None:
    """Manage keys that sign plans; a curator may accept plans of trusted keys only."""


@keys_app.command(cls=GroupedCommand, short_help="Create a key.")
@command
def new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="Path of the private key.")],
    as_json: JsonOption = False,
) -> None:
    """Create a key: NAME signs plans and stays secret, NAME.pub verifies them.

    \b
    Examples:
      undertow keys new curator
      undertow plan --model chain.json --count active --limit 1 --sign curator --output plan.json
    """
    from undertow.plan import new_key

    public = new_key(name)
    answer(
        {"private": str(name), "public": f"{name}.pub", "key": public},
        lambda: show(
            "The key",
            [
                ("private key", f"{name} (keep it secret)"),
                ("public key", f"{name}.pub"),
                ("trusted as", public),
            ],
        ),
        as_json=as_json,
    )
