"""Commands whose options are declared once: dataclasses that many commands take."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from undertow.cli.output import refusals
from undertow.cli.waiting import ProgressOption, wanting

__all__ = ["command", "option"]


def option(
    metavar: str | None, words: str, default: Any = None, *, name: str | None = None, **more: Any
) -> Any:
    """Return the default of a parameter, or of a field, that declares an option.

    It is called like the parameter unless there is a ``name``; ``words`` are its help, and
    ``MISSING`` for a default says that it must be given.
    """
    made = {"name": name, "metavar": metavar, "help": words, **more}
    return field(default=default, metadata=made)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as Typer takes it; its refusals are told, with exit code 1.

    A parameter whose type is a dataclass stands for the options that are the fields of the class,
    in its place, and is given them put together. What the class itself refuses is wrong usage.
    Every command also takes ``--progress`` and ``--no-progress``, which it need not know of.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pair:
    ...     left: int
    ...     right: int = option("N", "The other number.", 2)
    >>> @command
    ... def add(pair: Pair, as_json: bool = False) -> None:
    ...     print(pair.left + pair.right)
    >>> list(inspect.signature(add).parameters)
    ['left', 'right', 'as_json', 'progress']
    >>> add(left=1)
    3
    """
    own = inspect.signature(function).parameters.values()
    options = {parameter.name: list(_options(parameter)) for parameter in own}
    kinds: dict[str, Any] = {one.name: one.annotation for one in own}

    def run(**given: Any) -> None:
        with wanting(given.pop("progress", None)), refusals(given.get("as_json", False)):
            made = {}
            for name, listed in options.items():
                found = {one.name: given.get(one.name, one.default) for one in listed}
                grouped = is_dataclass(kinds[name])
                made[name] = kinds[name](**found) if grouped else found[name]
            function(**made)

    every = [one for several in options.values() for one in several]
    every.append(_declared("progress", ProgressOption, None))
    every.sort(key=lambda one: one.default is not inspect.Parameter.empty)  # needed ones first
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, __name__
    run.__annotations__ = {one.name: one.annotation for one in every}
    vars(run)["__signature__"] = inspect.Signature(every)
    return run


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the options that a parameter stands for: itself, or the fields of its class."""
    kind = parameter.annotation
    if not is_dataclass(kind):
        yield _declared(parameter.name, kind, parameter.default)
        return
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        yield _declared(one.name, hints[one.name], one if one.metadata else one.default)


def _declared(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """Return a parameter as Typer reads it; its default may be what `option` made."""
    if isinstance(default, Field):
        said = dict(default.metadata)
        flag = said.pop("name") or f"--{name.replace('_', '-')}"
        kind, default = Annotated[kind, typer.Option(flag, **said)], default.default
    needed = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=needed, annotation=kind)
