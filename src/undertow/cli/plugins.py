"""Commands of other distributions, found through the entry-point group ``undertow.commands``.

`undertow-studio` and `undertow-papers` register one command each; the command of a missing
distribution names what to install.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

import typer

from undertow.cli.options import GroupedCommand, misuse

__all__ = ["add_commands", "registered_attacker"]

GROUP = "undertow.commands"
"""The entry-point group of commands: a name and a function."""

ATTACKERS_GROUP = "undertow.attackers"
"""The entry-point group of attackers: a name and a function of ``tick``."""


_ATTACKERS = {"lstm": "undertow-papers[neural]"}
"""Distribution that provides each further attacker."""


class _Plugin(NamedTuple):
    summary: str
    distribution: str


_PLUGINS = {
    "reproduce": _Plugin("Recompute the results of the papers.", "undertow-papers"),
    "studio": _Plugin("Open the local pages in a browser.", "undertow-studio"),
}


def add_commands(app: typer.Typer, installed: Iterable[EntryPoint] | None = None) -> None:
    """Add the commands of other distributions, and a refusal for each one that is missing.

    By default the ``installed`` entry points of the group.
    """
    points = entry_points(group=GROUP) if installed is None else installed
    commands = {point.name: point for point in points}
    for name, plugin in _PLUGINS.items():
        if name in commands:
            command = commands[name].load()
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
    if name in _ATTACKERS:
        raise misuse(
            f"the attacker '{name}' comes with another package: pip install '{_ATTACKERS[name]}'"
        )
    return name


def _missing(name: str, distribution: str) -> Callable[[], None]:
    def refuse() -> None:
        raise misuse(f"'undertow {name}' comes with another package: pip install {distribution}")

    refuse.__doc__ = f"Install {distribution} for this command: pip install {distribution}."
    return refuse
