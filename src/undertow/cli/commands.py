"""Commands whose options are declared once: dataclasses that many commands take."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

from undertow.cli.output import refusals

__all__ = ["command"]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function as Typer takes it; its refusals are told, with exit code 1.

    A parameter whose type is a dataclass stands for the options that are the fields of the class,
    in its place, and is given them put together. What the class itself refuses is wrong usage.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pair:
    ...     left: int
    ...     right: int = 2
    >>> @command
    ... def add(pair: Pair, as_json: bool = False) -> None:
    ...     print(pair.left + pair.right)
    >>> list(inspect.signature(add).parameters)
    ['left', 'right', 'as_json']
    >>> add(left=1)
    3
    """
    own = inspect.signature(function).parameters.values()
    options = [option for parameter in own for option in _options(parameter)]

    def run(**given: Any) -> None:
        with refusals(given.get("as_json", False)):
            function(**{parameter.name: _gathered(parameter, given) for parameter in own})

    required = [option for option in options if option.default is inspect.Parameter.empty]
    optional = [option for option in options if option not in required]
    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, __name__
    run.__annotations__ = {option.name: option.annotation for option in options}
    vars(run)["__signature__"] = inspect.Signature([*required, *optional])
    return run


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the options that a parameter stands for: itself, or the fields of its class."""
    kind = parameter.annotation
    if not is_dataclass(kind):
        yield parameter
        return
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        yield inspect.Parameter(
            one.name, parameter.kind, default=default, annotation=hints[one.name]
        )


def _gathered(parameter: inspect.Parameter, given: dict[str, Any]) -> Any:
    """Return what a parameter is given: its option, or the class made of its options."""
    kind = parameter.annotation
    names = [option.name for option in _options(parameter)]
    found = {name: given[name] for name in names if name in given}
    if is_dataclass(kind) and isinstance(kind, type):
        return kind(**found)
    return found.get(parameter.name, parameter.default)
