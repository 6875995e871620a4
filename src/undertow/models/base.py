"""What every correlation model is: a frozen description of how records depend on each other."""

from typing import Any, Protocol, runtime_checkable

__all__ = ["Model"]


@runtime_checkable
class Model(Protocol):
    """A correlation model; the bounds dispatch on its concrete type."""

    def describe(self) -> str:
        """Return the model in one plain sentence."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description with a ``kind`` field."""
        ...
