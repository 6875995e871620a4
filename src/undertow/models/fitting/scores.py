"""Predictive scores: how many bits each record costs, given the past of its own series."""

from typing import Any

import numpy as np

from undertow.errors import InvalidInput, NotSupported
from undertow.models.base import Model
from undertow.models.fitting.passes import Passes
from undertow.models.fitting.series import Unbroken, cycle_of, unbroken
from undertow.models.hidden import PeriodicHiddenChain
from undertow.numerics import Array

__all__ = ["bits", "score"]


def score(model: Model, data: Any) -> float:
    """Return the mean of -log2 Pr[record | records before it in its series]; see `Model.score`."""
    if model.lowered() is None:
        raise NotSupported(
            f"records are scored under chains, and this is a {type(model).__name__}: a record "
            "there has no past"
        )
    return float(bits(model, unbroken(data, model.states)).mean())


def bits(model: Model, read: Unbroken) -> Array:
    """Return -log2 Pr[record | records before it in its series] of every record.

    Cost O(n R^3) for at most R hidden states of a state, O(n R^2) for many.
    """
    law = model.lowered()
    if law is None:
        raise NotSupported(f"a chain is required, found a {type(model).__name__}")
    codes = np.array([model.index(state) for state in read.states])[read.codes]
    labels, classes = None, None
    start, kernels = law.start[None], law.kernels
    if isinstance(model, PeriodicHiddenChain):
        cycle = cycle_of(model)
        labels = cycle.labels_of(read)
        kernels = law.kernels[:: model.steps_per]
        first, classes = np.unique(cycle.phases_of(read)[read.begins], return_inverse=True)
        laws = model.hidden_laws()[:, np.argsort(model.shown, kind="stable")]
        start = laws[first]
    elif law.phases > 1:
        longest = int(np.diff(read.ends, prepend=0).max())
        if longest > law.phases + 1:
            raise InvalidInput(
                f"the chain has {law.phases + 1} records, each step its own matrix, and a series "
                f"of the data has {longest}; score series of at most its length"
            )
        labels = np.minimum(read.places, law.phases - 1)
    passes = Passes(codes, read.ends, law.symbols, labels, classes)
    with np.errstate(divide="ignore"):
        return -np.log2(passes.scales(start[: passes.classes], kernels[: passes.labels]))
