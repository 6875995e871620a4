"""How records depend on each other, for readers: small matrices printed, large ones located."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from undertow.models.sets import AnyModel

__all__ = ["SMALL", "Matrix", "Parameters", "found_in", "parameters", "reach"]

SMALL = 6
"""States of a matrix that is printed in full; larger ones are in the plan file."""

_MODELS = 3
"""Models of a set that are printed; more are in the plan file."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Transition probabilities: exact (``low`` is ``high``), or between two ends."""

    caption: str
    states: tuple[Any, ...]
    low: tuple[tuple[float, ...], ...]
    high: tuple[tuple[float, ...], ...]
    start: Any = None

    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Return a row of cells for each state that is left, six digits each."""
        pairs = zip(self.states, self.low, self.high, strict=True)
        return tuple(
            (str(state), *(_cell(*ends) for ends in zip(low, high, strict=True)))
            for state, low, high in pairs
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description, every digit of it."""
        start = {} if self.start is None else {"start": self.start}
        if self.low == self.high:
            return {"transition": [list(row) for row in self.low]} | start
        return {
            "transition_lower": [list(row) for row in self.low],
            "transition_upper": [list(row) for row in self.high],
        } | start


@dataclass(frozen=True, slots=True)
class Parameters:
    """The numbers of a model: the matrices if all are small, and how large they are."""

    matrices: tuple[Matrix, ...]
    size: str


def parameters(model: AnyModel) -> Parameters:
    """Return the transition matrices of a model, none of them where one is large or no matrix.

    >>> from undertow import MarkovChain
    >>> found = parameters(MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active")))
    >>> found.size, found.matrices[0].rows()
    ('a matrix of 2 x 2', (('idle', '0.9', '0.1'), ('active', '0.3', '0.7')))
    """
    described = list(_members(model.law_dict()))
    if len(described) > _MODELS:
        what = "contexts" if "of" in described[0] else "models"
        return Parameters((), f"the parameters of {len(described)} {what}")
    found = [
        _matrix(
            one,
            one.get("of", "" if len(described) == 1 else f" of model {place} of {len(described)}"),
        )
        for place, one in enumerate(described, 1)
    ]
    complete = tuple(matrix for matrix in found if matrix is not None)
    sizes = " and ".join(dict.fromkeys(map(_size, described)))
    return Parameters(complete if len(complete) == len(found) else (), sizes)


def reach(model: AnyModel) -> str | None:
    """Return how far back the guarantee looks, None where records have no order.

    >>> from undertow import MarkovChain
    >>> reach(MarkovChain([[.9, .1], [.3, .7]]))
    'the guarantee holds as long as each record depends on those before it through the last one'
    """
    found = dict.fromkeys(member.reach() for member in model.members() if member.reach())
    if not found:
        return None
    return (
        "the guarantee holds as long as each record depends on those before it through "
        + ", or ".join(found)
    )


def found_in(fingerprint: str | None) -> str:
    """Return where the model stands with every digit.

    >>> found_in("0f5c")
    'the plan file with the hash 0f5c'
    """
    return "the plan" if fingerprint is None else f"the plan file with the hash {fingerprint}"


def _members(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in description.get("models", ()):
        yield from _members(one)
    for label, matrix in zip(
        description.get("labels", ()), description.get("matrices", ()), strict=True
    ):  # one matrix for each context of a chain
        said = f" of {description['context']} {label}"
        yield {"transition": matrix, "states": description["states"], "of": said}
    if "models" not in description and "labels" not in description:
        yield description


def _entries(description: dict[str, Any]) -> Any:
    return description.get("transition", description.get("lower"))


def _size(description: dict[str, Any]) -> str:
    entries = _entries(description)
    if entries is None:
        return "parameters that are no matrix"
    shape = np.shape(entries)
    if len(shape) == 3 and description.get("kind") == "markov-chain":  # steps, from, to
        return f"a matrix of {shape[1]} x {shape[2]} for each of {shape[0]} steps"
    return f"a matrix of {' x '.join(map(str, shape))}"


def _matrix(description: dict[str, Any], which: str) -> Matrix | None:
    low = _entries(description)
    if low is None or len(np.shape(low)) != 2 or len(low) > SMALL:
        return None
    high = description.get("upper", low)
    box = "; from least to most" if "upper" in description else ""
    return Matrix(
        f"Transition matrix{which} (row: from, column: to{box})",
        tuple(
            description.get("symbols", description["states"])
        ),  # of hidden states: what they show
        tuple(map(tuple, low)),
        tuple(map(tuple, high)),
        description.get("start"),
    )


def _cell(low: float, high: float) -> str:
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
