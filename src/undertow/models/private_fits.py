"""A chain fitted to records through noise: what may be known of it, and how surely.

Nothing here looks at records: the noisy counts were released, and all that is made of them is
post-processing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, InvalidModel
from undertow.models.base import Model
from undertow.models.chain_classes import ChainBox
from undertow.models.checks import Check, privately
from undertow.models.markov import MarkovChain
from undertow.models.noisy_limits import limits, sum_limit
from undertow.models.origins import Origin, weakest
from undertow.numerics import Array, check_count, check_positive, freeze
from undertow.queries import State
from undertow.rounding import above

__all__ = ["PrivateFit", "check_confidence"]

_ENTRIES, _SUMS = 0.6, 0.35
"""The shares of the limits of entries, and of that of their sum, in the probability of a miss."""
_ROUNDS = 200
"""Rounds after which flows are balanced well enough (no guarantee rests on them)."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivateFit(MarkovChain):
    """The chain estimated from noisy transition counts: a `MarkovChain`, and safe to publish.

    P(x, y) = (C_xy + prior) / (C_x + k prior), where C is the released table made non-negative and
    consistent: as many steps lead into a state as out of it, which is so for the records up to one
    step for each series.

    Parameters
    ----------
    noisy
        (k, k) whole numbers as released, row = from: discrete Laplace noise of ``scale`` on each.
    level
        The DP level that they spent.
    sample_size
        A public number of records that were fitted.
    confidence
        That of `region`, fixed before the noise was drawn.
    within
        The class stated beforehand. A box narrows the region.

    >>> fit = PrivateFit([[6300, 850], [840, 1900]], ("off", "on"), level=.05, scale=80.0,
    ...                  sample_size=10_000)
    >>> fit.transition.round(3), float(fit.region().lower[0, 1].round(3))
    (array([[0.882, 0.118],
           [0.308, 0.692]]), 0.079)
    """

    noisy: npt.NDArray[np.int64] = field(repr=False)
    counts: Array = field(repr=False)
    level: float
    scale: float
    sample_size: int
    confidence: float
    within: Model | None = field(repr=False)
    release_id: str

    def __init__(
        self,
        noisy: Any,
        states: Sequence[State] | None = None,
        *,
        level: float,
        scale: float,
        sample_size: int,
        confidence: float = 0.95,
        within: Model | None = None,
        prior: float = 0.5,
        length: int | None = None,
        release_id: str = "",
    ) -> None:
        """Make a chain of the released counts."""
        table = freeze(noisy)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
            raise InvalidModel(f"noisy counts must be a square table, found shape {table.shape}")
        counts = freeze(_consistent(table))
        weights = counts + check_positive(prior, "prior")
        MarkovChain.__init__(
            self, weights / weights.sum(axis=1, keepdims=True), states, length=length
        )
        set_ = object.__setattr__
        whole = table.astype(np.int64)
        whole.setflags(write=False)
        set_(self, "_origin", "private")
        set_(self, "noisy", whole)
        set_(self, "counts", counts)
        set_(self, "level", check_positive(level, "level"))
        set_(self, "scale", check_positive(scale, "noise scale"))
        set_(self, "sample_size", check_count(sample_size, "sample_size", 1))
        set_(self, "confidence", check_confidence(confidence))
        set_(self, "within", within)
        set_(self, "release_id", release_id)

    @property
    def private(self) -> float:
        """The DP level that the fit spent."""
        return self.level

    @property
    def checks(self) -> tuple[Check, ...]:
        """What is known of the chain: its region, and no more."""
        return privately(1 - self.confidence)

    @classmethod
    def from_law_dict(cls, description: Any) -> MarkovChain:
        """Return the plain chain described by `law_dict`: counts are not written."""
        return MarkovChain.from_law_dict(description)

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"{MarkovChain.describe(self)}, fitted through noise at a DP level of {self.level:g}"

    def plausible_region(self) -> ChainBox:
        """Return the region, which the fit stands for."""
        return self.region()

    def _estimate(self) -> bool:
        return True

    def region(self, confidence: float | None = None) -> ChainBox:
        """Return the box of chains that holds the true one, except with probability 1 - confidence.

        Over the records and the noise together, for every number of visits to a state
        (`undertow.models.noisy_limits`), and inside the class that was stated beforehand where that
        is a box. The confidence is the one that was fixed when the noise was drawn: a confidence
        that is chosen by looking at the counts is none.
        """
        if confidence is not None and check_confidence(confidence) != self.confidence:
            raise InvalidInput(
                f"the confidence was fixed at {self.confidence:g} before the noise was drawn, and "
                "chosen afterwards it would be none; fit with confidence=... to have another"
            )
        miss = 1 - self.confidence
        two = self.size == 2
        low, high = limits(
            self.noisy, self.scale, self.sample_size, _ENTRIES * miss if two else miss
        )
        stated = self.within
        if isinstance(stated, ChainBox) and stated.size == self.size:
            low, high = np.maximum(low, stated.lower), np.minimum(high, stated.upper)
        bad = np.argwhere(low > high)
        if bad.size:
            x, y = (self.states[place] for place in bad[0])
            raise InvalidModel(
                f"the fit and the class that was stated beforehand exclude each other at {x!r} to "
                f"{y!r}: one of them is wrong; state a wider class"
            )
        trace = None
        if two:
            ends = low[[0, 1], [1, 0]], high[[0, 1], [1, 0]]  # of leaving either state
            least = sum_limit(self.noisy, self.scale, self.sample_size, _SUMS * miss, *ends)
            trace = float(np.nextafter(2 - least, 3))
        try:
            box = ChainBox(low, high, self.states, self.length, self._note(), trace)
        except InvalidModel as error:
            raise InvalidModel(
                "the fit and the class that was stated beforehand exclude each other: no row of "
                "probabilities is in both; state a wider class"
            ) from error
        box = box.with_checks(self.checks).with_origin(self._origin_within())
        return box.with_records(self.records)

    def _origin_within(self) -> Origin:
        """Return the origin of the region: that of the class stated beforehand enters it, too."""
        return self.origin if self.within is None else weakest((self.origin, self.within.origin))

    def _note(self) -> str:
        return (
            f"the box is the region of a private fit at a DP level of {above(self.level)}, which "
            f"misses the true chain with probability at most {above(1 - self.confidence)} over the "
            "records and the noise of the fit; the level of the fit is added to those of all other "
            "releases, and their sum is exchanged under it; which records are missing does not "
            "depend on what they would have been"
        )


def check_confidence(confidence: Any) -> float:
    """Return a confidence between 0 and 1.

    >>> check_confidence(.95)
    0.95
    """
    if isinstance(confidence, bool) or not isinstance(confidence, float | int):
        raise InvalidInput(f"confidence must be a number, found {type(confidence).__name__}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, such as 0.95; found {confidence}")
    return float(confidence)


def _consistent(noisy: Array) -> Array:
    """Return the nearest tables in turn: balanced flows, then nothing below 0.

    With d_x what leaves x less what enters it, C_xy = n_xy + (d_y - d_x) / 2k is the nearest table
    whose flows are balanced.

    >>> _consistent(np.array([[10.0, 4.0], [8.0, -3.0]]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    table, size = noisy.copy(), len(noisy)
    for _ in range(_ROUNDS):
        net = table.sum(axis=1) - table.sum(axis=0)  # (k,): out less in
        table = np.maximum(table + (net[None, :] - net[:, None]) / (2 * size), 0.0)
    return np.asarray(table)
