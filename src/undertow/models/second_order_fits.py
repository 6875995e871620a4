"""Chains of order two estimated from records: the counts behind them, and what was tested."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.errors import InvalidModel, NotSupported
from undertow.models.checking import checks_of
from undertow.models.checks import Basis, Check, untested
from undertow.models.fitting import FittedChain, clopper_pearson, fit_chain
from undertow.models.hidden_chain import HiddenChain
from undertow.models.rows import check_prior
from undertow.models.second_order import SecondOrderChain
from undertow.models.tallies import Ints, Tally
from undertow.numerics import Array
from undertow.queries import State

if TYPE_CHECKING:
    from undertow.models.checking import Autocorrelation

__all__ = ["FittedSecondOrderChain", "fit_second_order"]

_CARRIED = ("time", "hours", "persons")
"""Checks of the first-order fit that speak of order two as well: they compare parts of the records
by their pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedSecondOrderChain(SecondOrderChain):
    """The chain estimated from runs of three: P(x, y, z) = (N_xyz + prior) / (N_xy + k prior).

    A `SecondOrderChain` in every respect. ``counts`` and the ``tally`` of the records stay with
    this object: `to_dict` and the printed form leave them out.

    >>> from undertow.models.markov import MarkovChain
    >>> chain = MarkovChain.fit(list("aababbbaabba"), order=2, prior=1.0, public=True)
    >>> chain.counts[0, 0].tolist(), chain.transition[0, 0].tolist()
    ([0, 2], [0.25, 0.75])
    """

    counts: Ints = field(repr=False)
    prior: float
    tally: Tally | None = field(repr=False)
    first: FittedChain = field(repr=False)
    """The first-order chain fitted to the same records."""

    @classmethod
    def of_fit(cls, fitted: FittedChain, prior: float | None = None) -> "FittedSecondOrderChain":
        """Return the chain of the runs of three that a fit has counted."""
        if fitted.triples is None:
            raise NotSupported(
                "order two needs runs of three records, and only pairs were counted; use "
                "MarkovChain.fit on the records themselves"
            )
        weight = fitted.prior if prior is None else check_prior(prior)
        counts = fitted.triples + weight
        sums = counts.sum(axis=2)
        never = np.argwhere(sums == 0)
        if never.size:
            x, y = (fitted.states[int(place)] for place in never[0])
            raise InvalidModel(
                f"no record was ever seen after {x!r} and {y!r}; pass a prior, such as prior=0.5"
            )
        chain = cls.__new__(cls)
        SecondOrderChain.__init__(chain, counts / sums[..., None], fitted.states, fitted.length)
        facts = {"counts": fitted.triples, "prior": weight, "tally": fitted.tally}
        for name, value in (facts | {"_origin": fitted.origin, "first": fitted}).items():
            object.__setattr__(chain, name, value)
        object.__setattr__(chain, "_records", fitted.records)
        return chain

    @classmethod
    def from_dict(cls, description: Any) -> SecondOrderChain:
        """Return the plain chain described by `to_dict`: counts are never written."""
        return SecondOrderChain.from_dict(description)

    @property
    def checks(self) -> tuple[Check, ...]:
        """What the records say about the assumptions of the chain; computed once."""
        found: tuple[Check, ...] | None = getattr(self, "_checks", None)
        if found is None:
            found = tuple(_checks(self, "public" if self.origin == "public" else "not private"))
            object.__setattr__(self, "_checks", found)
        return found

    @property
    def unseen(self) -> list[tuple[State, State, State]]:
        """The runs of three that were never seen."""
        names = self.states
        return [(names[x], names[y], names[z]) for x, y, z in np.argwhere(self.counts == 0)]

    def describe(self) -> str:
        """Return the model in one sentence, with how many runs of three were never seen."""
        text = f"{SecondOrderChain.describe(self)}, fitted to records"
        if not self.unseen:
            return text
        how = f"rest on the prior of {self.prior:g}" if self.prior else "count as impossible"
        return f"{text}; {len(self.unseen)} runs of three were never seen and {how}"

    def intervals(self, confidence: float = 0.95) -> Array:
        """Return a confidence interval for every entry, shape (k, k, k, 2).

        Clopper-Pearson [clopper1934], each entry on its own, as `FittedChain.intervals`.
        """
        rows = self.counts.reshape(self.size**2, self.size)
        return clopper_pearson(rows, confidence).reshape(*self.counts.shape, 2)

    def region(self, confidence: float = 0.95) -> SecondOrderChain:
        """Refuse: no bound over a region of chains of order two is known."""
        raise NotSupported(
            "no leakage is known over a whole region of chains of order two; plan for the fit "
            "itself with a prior, or for the region of the first-order fit: "
            "MarkovChain.fit(...).region()"
        )


def fit_second_order(
    sequences: Any, states: Sequence[State] | None = None, *, prior: float = 0.0,
    length: int | None = None, public: bool = False, stacklevel: int = 4,
) -> FittedSecondOrderChain:  # fmt: skip
    """Return the chain of order two fitted to sequences; see `MarkovChain.fit`."""
    return FittedSecondOrderChain.of_fit(
        fit_chain(
            sequences, states, prior=prior, length=length, public=public, stacklevel=stacklevel
        )
    )


def _checks(chain: FittedSecondOrderChain, basis: Basis) -> Iterator[Check]:
    """Yield the checks of a chain of order two: those that the counts of a fit allow."""
    from undertow.models.checking import FEW, memory

    fewest = int(chain.counts.sum(axis=2).min())
    said = f"every pair of neighbours was left at least {fewest} times"
    if fewest >= FEW:
        yield Check("sample", "passed", said, basis)
    else:
        few = f"some pair of neighbours was left {fewest} times, fewer than {FEW}"
        yield Check("sample", "failed", few, basis)
    yield Check("order", "not tested", "two records against three: runs of four are needed", basis)
    found: Autocorrelation | None = None
    if chain.tally is not None:
        found = memory(chain.tally, chain.first_order(), HiddenChain.of(chain).integrated())
    if found is None:
        yield Check("memory", "not tested", "too few records follow each other", basis)
    else:
        yield found.check(basis, "a chain of order two")
    carried = {check.name: check for check in checks_of(chain.first, basis)}
    for name in _CARRIED:
        check = carried.get(name)
        if check is None or check.outcome == "not tested":
            yield check or untested(chain.origin == "public", name)[0]
        else:
            yield Check(name, check.outcome, check.words, basis)
