"""Comparisons before a release: chain orders, persons, other models, and checks of a table.

`orders` and `persons` compare fitted chains, `robustness` a plan under other models, `validate`
checks a table for problems. Loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undertow.data.problems import validate
    from undertow.diagnostics.chain_orders import orders
    from undertow.diagnostics.other_models import robustness
    from undertow.diagnostics.person_chains import persons

__all__ = ["orders", "persons", "robustness", "validate"]

_HOMES = {
    "orders": "diagnostics.chain_orders",
    "persons": "diagnostics.person_chains",
    "robustness": "diagnostics.other_models",
    "validate": "data.problems",
}

if not TYPE_CHECKING:  # else every name would be taken to be one of these

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'undertow.diagnostics' has no attribute {name!r}")
        value = getattr(import_module(f"undertow.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
