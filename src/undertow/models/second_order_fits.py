"""Chains of order two estimated from records: the counts behind them, and what was tested."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from undertow.errors import InvalidModel, NotSupported
from undertow.models.autocorrelation import Dynamics
from undertow.models.checking import Hypothesis, decided, hypotheses_of, memory_test, sample
from undertow.models.checks import Basis, Check
from undertow.models.fitting import FittedChain, clopper_pearson, fit_chain
from undertow.models.hidden_chain import HiddenChain
from undertow.models.ratios import Difference
from undertow.models.rows import check_prior
from undertow.models.second_order import SecondOrderChain
from undertow.models.tallies import Ints, Tally
from undertow.numerics import Array
from undertow.queries import State

__all__ = ["FittedSecondOrderChain", "fit_second_order"]

_CARRIED = ("time", "hours", "persons")
"""Checks of the first-order fit that speak of order two as well: they compare parts of the records
by their pairs."""
_RANK = 1e-12
"""Relative variance below which a combination of scores is constant."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedSecondOrderChain(SecondOrderChain):
    """The chain estimated from runs of three: P(x, y, z) = (N_xyz + prior) / (N_xy + k prior).

    A `SecondOrderChain` in every respect. ``counts`` and the ``tally`` of the records stay with
    this object: `law_dict` and the printed form leave them out.

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
    def from_law_dict(cls, description: Any) -> SecondOrderChain:
        """Return the plain chain described by `law_dict`: counts are never written."""
        return SecondOrderChain.from_law_dict(description)

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
    fewest = int(chain.counts.sum(axis=2).min())
    yield sample(fewest, f"every pair of neighbours was left at least {fewest} times", basis)
    pairs = HiddenChain.of(chain)
    model = Dynamics(pairs.transition, pairs.initial, pairs.shown)
    stretch = _stretch(chain)
    yield from decided(
        [
            Hypothesis(
                "order", None, untested="two records against three: runs of four are needed"
            ),
            memory_test(chain.tally, model, "a chain of order two"),
            *(
                _stretched(test, stretch)
                for test in hypotheses_of(chain.first)
                if test.name in _CARRIED
            ),
        ],
        basis,
    )


def _stretched(test: Hypothesis, factor: float) -> Hypothesis:
    """Return a test of order one as it is under order two, with its own p-value in words."""
    if not isinstance(test.found, Difference):
        return replace(test, found=None, alternative=None)
    found = test.found.stretched(factor)
    passed, failed = (
        said.replace(test.found.shown(), found.shown()) for said in (test.passed, test.failed)
    )
    return replace(test, found=found, passed=passed, failed=failed, alternative=None)


def _stretch(chain: FittedSecondOrderChain) -> float:
    """Return by how much a likelihood ratio over pairs may be larger than under order one, at most.

    Under order one the scores of a row, 1{X = x}(1{Y = y} - P(x, y)) over steps from X to Y, do not
    depend on each other; under order two they do, and the ratio is a sum of squares weighted by the
    eigenvalues of their long-run covariance against that of independent steps [rao1981]. The
    largest eigenvalue bounds all of them.
    """
    size, rows = chain.size, chain.first_order().transition
    step, law = chain.pairs().transition, chain.pair_law.reshape(-1)
    # (pair, score): of the row of the first record
    scores = np.zeros((size, size, size, size))
    scores[np.arange(size), :, np.arange(size)] = np.eye(size) - rows[:, None, :]
    flat = scores.reshape(size**2, size**2)
    later = np.linalg.inv(np.eye(size**2) - step + law) - np.eye(size**2)
    alone = flat.T @ (law[:, None] * flat)
    cross = flat.T @ (law[:, None] * (later @ flat))
    values, axes = np.linalg.eigh(alone)
    kept = values > _RANK * values.max()
    axes = axes[:, kept] / np.sqrt(values[kept])
    return max(1.0, float(np.linalg.eigvalsh(axes.T @ (alone + cross + cross.T) @ axes).max()))
