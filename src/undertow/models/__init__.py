"""Correlation models: who depends on whom.

Beside the models that `undertow` exports: contagion, the classes of models, and what fits and
constructors return. Loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from undertow.models.attractive import Attractiveness, is_attractive
    from undertow.models.chains import ContextChain
    from undertow.models.classes import ChainBox, MixingClass
    from undertow.models.fitting.fit import FittedChain
    from undertow.models.fitting.private import PrivateFit
    from undertow.models.gaussian import GaussianClass
    from undertow.models.hidden import PeriodicHiddenChain
    from undertow.models.networks import Contagion
    from undertow.models.second_order import SecondOrderChain

__all__ = [
    "Attractiveness",
    "ChainBox",
    "Contagion",
    "ContextChain",
    "FittedChain",
    "GaussianClass",
    "MixingClass",
    "PeriodicHiddenChain",
    "PrivateFit",
    "SecondOrderChain",
    "is_attractive",
]

_HOMES = {
    "Attractiveness": "attractive",
    "ChainBox": "classes",
    "Contagion": "networks",
    "ContextChain": "chains",
    "FittedChain": "fitting.fit",
    "GaussianClass": "gaussian",
    "MixingClass": "classes",
    "PeriodicHiddenChain": "hidden",
    "PrivateFit": "fitting.private",
    "SecondOrderChain": "second_order",
    "is_attractive": "attractive",
}

if not TYPE_CHECKING:  # else every name would be taken to be one of these

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'undertow.models' has no attribute {name!r}")
        value = getattr(import_module(f"undertow.models.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
