"""Commands of other distributions, found through the entry-point group ``undertow.commands``.

`undertow-studio` and `undertow-papers` register one command each; where one is not installed, its
name stays a command that says what to install.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import typer

from undertow.cli.options import GroupedCommand, misuse

__all__ = ["ATTACKERS_GROUP", "GROUP", "add_commands", "registered_attacker"]

GROUP = "undertow.commands"
"""The entry-point group: a name, and the function that carries out the command."""


ATTACKERS_GROUP = "undertow.attackers"
"""The entry-point group of attackers: a name, and a function of ``tick`` that makes one."""


class _Plugin(NamedTuple):
    summary: str
    distribution: str


_PLUGINS = {
    "reproduce": _Plugin("Recompute the results of the five papers.", "undertow-papers"),
    "studio": _Plugin("Open the local pages in a browser.", "undertow-studio"),
}


def add_commands(app: typer.Typer) -> None:
    """Add the commands that other distributions register, and a refusal for each one missing."""
    installed = {point.name: point for point in entry_points(group=GROUP)}
    for name, plugin in _PLUGINS.items():
        if name in installed:
            command = installed[name].load()
            app.command(name, cls=GroupedCommand, short_help=plugin.summary)(command)
        else:
            app.command(
                name,
                short_help=f"{plugin.summary} (needs {plugin.distribution})",
                context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
            )(_missing(name, plugin.distribution))


def registered_attacker(name: str, tick: Callable[[int, int], object]) -> Any:
    """Return the attacker that another distribution registers under a name, or the name itself."""
    for point in entry_points(group=ATTACKERS_GROUP, name=name):
        return point.load()(tick=tick)
    return name


def _missing(name: str, distribution: str) -> Callable[[], None]:
    def refuse() -> None:
        raise misuse(f"'undertow {name}' comes with another package: pip install {distribution}")

    refuse.__doc__ = f"Install {distribution} for this command: pip install {distribution}."
    return refuse
