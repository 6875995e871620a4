"""Chains estimated from records: counts, confidence, and a test of the order.

Everything here looks at records. A model fitted to private records is itself a disclosure, which
no noise protects: fit to public or older data, or say ``public=True`` where that is the case.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.errors import (
    InvalidInput,
    InvalidModel,
    NotSupported,
)
from undertow.labels import square
from undertow.models.chain_classes import ChainBox
from undertow.models.markov import MarkovChain
from undertow.models.origins import fitted_origin
from undertow.models.persons import HomogeneityTest, homogeneity_test
from undertow.models.population import population
from undertow.models.ratios import Difference, RatioTest, differ
from undertow.models.rows import check_prior, warn_fitted
from undertow.models.sequences import encode, given_states
from undertow.models.sets import ModelSet
from undertow.models.standing import accounted, stands_for
from undertow.models.stationary import one_closed_class
from undertow.models.tallies import MOST_TRIPLED, Ints, Tally, tally
from undertow.numerics import Array, check_flag, freeze
from undertow.queries import State

if TYPE_CHECKING:
    from undertow.models.checks import Check

__all__ = ["FittedChain", "OrderTest", "clopper_pearson", "fit_chain"]


@dataclass(frozen=True, slots=True)
class OrderTest(RatioTest):
    """Whether one record predicts the next as well as two do.

    ``difference`` is the likelihood ratio 2 sum N_xyz ln [p(z | x, y) / p(z | y)]; a small
    ``p_value`` speaks against order 1.

    >>> OrderTest(Difference(2.1, 2, 0.35)).words()
    'no sign that more than the last record matters (p = 0.35)'
    """

    difference: Difference

    def words(self, *, failed: bool | None = None) -> str:
        """Return the outcome in plain words; by itself it fails at a p-value below 0.05."""
        if not self.degrees:
            return "the order cannot be tested: no record was reached in two different ways"
        shown = self.difference.shown()
        if not (self.p_value < 0.05 if failed is None else failed):
            return f"no sign that more than the last record matters ({shown})"
        return (
            f"the last two records predict more than the last one ({shown}): a chain of order 1 "
            "describes these records only roughly"
        )


@dataclass(frozen=True, slots=True, eq=False)
class FittedChain(MarkovChain):
    """The chain estimated from transition counts: P(x, y) = (N_xy + prior) / (N_x + k prior).

    A `MarkovChain` in every respect, and equal to the plain chain of the same law. ``counts``,
    ``triples`` and the ``tally`` of the records (None: only counts were given) stay with this
    object: `law_dict` and the printed form leave them out.

    >>> chain = MarkovChain.from_counts([[90, 10], [9, 21]], public=True)
    >>> chain.transition
    array([[0.9, 0.1],
           [0.3, 0.7]])
    """

    counts: Ints = field(repr=False)
    triples: Ints | None = field(repr=False)
    prior: float
    tally: Tally | None = field(repr=False)

    def __init__(
        self,
        counts: Any,
        states: Sequence[State] | None = None,
        *,
        prior: float = 0.0,
        length: int | None = None,
        triples: Ints | None = None,
        tally: Tally | None = None,
        public: bool = False,
    ) -> None:
        """Check the counts and turn them into a chain."""
        counts, states = square(counts, states, "counts")
        table, weight = _whole(counts), check_prior(prior)
        MarkovChain.__init__(self, _shares(table, weight), states, length=length)
        set_ = object.__setattr__
        set_(self, "counts", table)
        set_(self, "triples", triples)
        set_(self, "prior", weight)
        set_(self, "tally", tally)
        set_(self, "_origin", fitted_origin(check_flag(public, "public")))
        if tally is not None:
            set_(self, "_records", tally.described)

    @classmethod
    def from_law_dict(cls, description: Any) -> MarkovChain:
        """Return the plain chain described by `law_dict`: counts are never written."""
        return MarkovChain.from_law_dict(description)

    @property
    def checks(self) -> "tuple[Check, ...]":
        """What the records say about the assumptions of the chain; computed once."""
        found: tuple[Check, ...] | None = getattr(self, "_checks", None)
        if found is None:
            from undertow.models.checking import checks_of

            found = checks_of(self, "public" if self.origin == "public" else "not private")
            object.__setattr__(self, "_checks", found)
        return found

    @property
    def unseen(self) -> list[tuple[State, State]]:
        """The transitions (from, to) that were never seen."""
        return [(self.states[x], self.states[y]) for x, y in np.argwhere(self.counts == 0)]

    def describe(self) -> str:
        """Return the model in one sentence, with the transitions that were never seen."""
        text = f"{MarkovChain.describe(self)}, fitted to records"
        if not self.unseen:
            return text
        shown = ", ".join(f"{x!r} to {y!r}" for x, y in self.unseen[:3])
        more = f" and {len(self.unseen) - 3} more" if len(self.unseen) > 3 else ""
        how = f"rest on the prior of {self.prior:g}" if self.prior else "count as impossible"
        return f"{text}; transitions that were never seen {how}: {shown}{more}"

    def intervals(self, confidence: float = 0.95) -> Array:
        """Return a confidence interval for every entry, shape (k, k, 2).

        Clopper-Pearson [clopper1934] for N_xy successes in N_x trials, each entry on its own; the
        prior does not enter. A state that was never left gets [0, 1]. The number of visits counts
        as fixed, which is exact in the limit of long series.

        >>> chain = MarkovChain.from_counts([[90, 10], [9, 21]], public=True)
        >>> chain.intervals()[0, 1].round(4)
        array([0.049 , 0.1762])
        """
        return clopper_pearson(self.counts, confidence)

    def plausible_region(self) -> ChainBox:
        """Return the region that the fit stands for: at a confidence of 0.95 unless given."""
        found: ChainBox | None = getattr(self, "_region", None)
        if found is None:
            found = self.plausible(0.95)
            object.__setattr__(self, "_region", found)
        return found

    def _estimate(self) -> bool:
        return True

    def region(self, confidence: float = 0.95) -> ChainBox:
        """Return the chains that the records leave plausible, as a model: what the fit stands for.

        The box of Clopper-Pearson intervals that hold together with the stated confidence, one for
        each row of two states, one for each entry of more (Bonferroni): certified for any number of
        visits that does not depend on the records, which is exact in the limit of long series.

        >>> chain = MarkovChain.from_counts([[90, 10], [9, 21]], public=True)
        >>> chain.region().lower.round(3)
        array([[0.812, 0.044],
               [0.132, 0.48 ]])
        """
        return stands_for(self.with_region(self.plausible(confidence)))  # type: ignore[return-value]

    def plausible(self, confidence: float) -> ChainBox:
        """Return the box of simultaneous intervals of all rows, with the checks of the fit."""
        free = 2 if self.size == 2 else self.size**2  # intervals that are not each other's rest
        ends = _clopper_pearson(self.counts, (1 - _confidence(confidence)) / free)  # (k, k, ends)
        box = ChainBox(
            np.minimum(ends[..., 0], self.transition),
            np.maximum(ends[..., 1], self.transition),
            self.states,
            self.length,
            f"the region of a fit, which holds the chain with confidence {confidence:.6g}",
        )
        return self.derived(box, alone=False)

    def order_test(self) -> OrderTest:
        """Return the likelihood-ratio test of order 1 against order 2.

        Degrees of freedom: for each middle state, (first states seen - 1) (last states seen - 1).
        The chi-square law holds in the limit of long series [anderson1957].

        >>> chain = MarkovChain.fit(MarkovChain([[.9, .1], [.3, .7]]).simulate(999, seed=1), public=True)
        >>> chain.order_test().degrees
        2
        """  # noqa: E501
        if self.triples is None:
            raise NotSupported(
                "the order is tested on runs of three records, and only pairs were counted; use "
                f"MarkovChain.fit on the records themselves, with at most {MOST_TRIPLED} states"
            )
        return OrderTest(differ(self.triples))  # tables by the first state of three

    def homogeneity_test(self) -> HomogeneityTest:
        """Return the likelihood-ratio test of one chain for all persons against one for each.

        Persons are those of a `undertow.Data`, or the sequences of a list. What it means in
        leakage: `undertow.person_budgets`.

        >>> chain = MarkovChain([[.9, .1], [.3, .7]])
        >>> sample = [chain.simulate(500, seed=seed) for seed in range(5, 10)]
        >>> MarkovChain.fit(sample, public=True).homogeneity_test().p_value > 0.05
        True
        """
        return homogeneity_test(self.tally)

    def population(
        self, share: float | None = None, confidence: float = 0.95, *, least: int = 0
    ) -> ModelSet:
        """Return the chains of all persons as a model: few boxes that cover them, certified.

        Two states. Without a ``share`` the true chain of every person in the sample is in it, with
        the stated confidence; with one, the chains of that share of all persons, drawn or not,
        if those in the sample were drawn independently (0.99 at 0.95 needs 299 persons, see
        `undertow.models.population`). Each person's estimation error is accounted for, so persons
        with few records widen it: ``least`` leaves out those with fewer transitions, and the model
        says so. It holds no person's chain; it is not private, and says that too.

        >>> chain = MarkovChain([[.9, .1], [.3, .7]])
        >>> sample = [chain.simulate(500, seed=seed) for seed in range(5)]
        >>> fitted = MarkovChain.fit(sample, public=True)
        >>> fitted.population().note.partition(";")[0]
        'holds for every person in the sample (5 persons), with confidence 95%'
        """
        found = population(self.tally, share, confidence, least=least, length=self.length)
        checks = accounted(self.checks, "persons", f"the model {found.note}")
        return self.passed_on(found, checks)


def fit_chain(
    sequences: Any,
    states: Sequence[State] | None = None,
    *,
    prior: float = 0.0,
    length: int | None = None,
    public: bool = False,
    stacklevel: int = 3,
) -> FittedChain:
    """Return the chain fitted to one or many sequences of records; see `MarkovChain.fit`.

    Cost O(n + k^3).

    >>> fit_chain([list("aabab"), ["b", None, "a", "b", "b"]], public=True).counts
    array([[1, 3],
           [1, 1]])
    """
    found = _tallied(sequences, states)
    size = len(found.states)
    if states is None and size < 2:
        raise InvalidModel(
            f"a chain needs records of at least two different states, found {size}; pass "
            "states=[...] and a prior if others are possible"
        )
    chain = FittedChain(
        found.counts,
        found.states,
        prior=prior,
        length=length,
        triples=found.triples,
        tally=found,
        public=public,
    )
    warn_fitted(public, stacklevel=stacklevel)
    return chain


def _tallied(sequences: Any, states: Sequence[State] | None) -> Tally:
    """Return the tally of records; what has a method ``tally``, as `undertow.Data`, is asked."""
    if callable(getattr(type(sequences), "tally", None)):
        asked: Tally = sequences.tally(None if states is None else given_states(states))
        return asked
    read = encode(sequences, states)
    found = tally(
        read.codes, read.states, series=read.series, persons=read.persons, hours=read.hours
    )
    return replace(found, described=read.described)


def _whole(counts: Any) -> Ints:
    table = freeze(counts)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
        raise InvalidModel(
            "counts must be a square table of at least two states, row = from, column = to; "
            f"found shape {table.shape}"
        )
    if not (np.isfinite(table).all() and (table >= 0).all() and (table == np.floor(table)).all()):
        raise InvalidModel("counts must be whole numbers from 0 on; pass what was counted")
    whole = table.astype(np.int64)
    whole.setflags(write=False)
    return whole


def _confidence(confidence: float) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, float | int):
        raise InvalidInput(f"confidence must be a number, found {type(confidence).__name__}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, such as 0.95; found {confidence}")
    return float(confidence)


def _shares(counts: Ints, prior: float) -> Array:
    """Return the rows of a chain, or say why the counts do not make one."""
    weights = counts + prior
    totals = weights.sum(axis=1, keepdims=True)
    empty = np.flatnonzero(totals[:, 0] <= 0)
    if empty.size:
        raise InvalidModel(
            f"row {int(empty[0])} of the counts is empty: no record follows that state; pass a "
            "prior (pseudo-counts, such as prior=0.5), leave the state out, or add records"
        )
    matrix = np.asarray(weights / totals)
    if not one_closed_class(matrix):
        raise InvalidModel(
            "the records never pass between two groups of states, so that no stationary law is "
            "certain; pass a prior (pseudo-counts, such as prior=0.5), or fit each group apart"
        )
    final = np.flatnonzero(matrix.diagonal() == 1)
    if final.size:
        raise InvalidModel(
            f"state {int(final[0])} of the counts (from 0) is never left, and a stationary chain "
            "would be in it for ever; pass a prior (pseudo-counts, such as prior=0.5), leave the "
            "state out, or add records"
        )
    return matrix


def clopper_pearson(counts: Ints, confidence: float) -> Array:
    """Return an interval for every entry of a table of counts, whose rows are those of a chain.

    >>> clopper_pearson(np.array([[90, 10]]), .95)[0, 1].round(4)
    array([0.049 , 0.1762])
    """
    return _clopper_pearson(counts, 1 - _confidence(confidence))


def _clopper_pearson(counts: Ints, alpha: float) -> Array:
    from scipy.special import betaincinv

    hits = counts.astype(np.float64)  # (k, k): N_xy
    misses = hits.sum(axis=1, keepdims=True) - hits
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), misses + 1, alpha / 2), 0.0)
    high = np.where(misses > 0, betaincinv(hits + 1, np.maximum(misses, 1), 1 - alpha / 2), 1.0)
    return np.stack([low, high], axis=2)  # (k, k, 2)
