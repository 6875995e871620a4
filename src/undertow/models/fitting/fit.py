"""Chains estimated from records: counts, confidence, and a test of the order.

Everything here looks at records. A model fitted to private records is itself a disclosure, which
no noise protects: fit to public or older data, or say ``public=True`` where that is the case.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.labels import square
from undertow.models.base import stands_for
from undertow.models.chains import MarkovChain, one_closed_class
from undertow.models.classes import ChainBox
from undertow.models.fitting.checks import Basis, Check, mark_accounted
from undertow.models.fitting.hypotheses import (
    Difference,
    Dynamics,
    Hypothesis,
    RatioTest,
    decide,
    differ,
    hypotheses_of,
    memory_test,
    sample,
)
from undertow.models.fitting.tally import (
    MOST_TRIPLED,
    Ints,
    TalliedSource,
    Tally,
    encode,
    given_states,
    tally,
)
from undertow.models.hidden import HiddenChain
from undertow.models.records import fitted_origin
from undertow.models.second_order import SecondOrderChain
from undertow.models.sets import ModelSet
from undertow.models.validation import check_prior, warn_fitted
from undertow.numerics import Array, check_count, check_flag, check_number, freeze, shown
from undertow.queries import State

if TYPE_CHECKING:
    from undertow.models.fitting.hidden import FittedHiddenChain
    from undertow.models.fitting.private import PrivateFit

__all__ = [
    "NOT_PRIVATE",
    "FittedChain",
    "FittedSecondOrderChain",
    "HomogeneityTest",
    "OrderTest",
    "clopper_pearson",
    "fit",
    "fit_chain",
    "fit_second_order",
    "homogeneity_test",
    "person_counts",
    "persons_needed",
    "population",
]


@dataclass(frozen=True, slots=True)
class HomogeneityTest(RatioTest):
    """Likelihood-ratio test of one chain for all persons.

    ``difference`` is the likelihood ratio of one chain for each person against one for all; a small
    ``p_value`` says that persons differ. ``persons`` counts those with a transition.

    >>> HomogeneityTest(9, Difference(8.1, 16, 0.95)).words()
    'no sign that persons differ (p = 0.95)'
    """

    persons: int
    difference: Difference

    def words(self, *, failed: bool | None = None) -> str:
        """Return the outcome in plain words; by itself it fails at a p-value below 0.05."""
        if not self.degrees:
            return "whether persons differ cannot be tested: no state was left by two of them"
        shown = self.difference.shown()
        if not (self.p_value < 0.05 if failed is None else failed):
            return f"no sign that persons differ ({shown})"
        return (
            f"persons differ ({shown}): one chain for all is not each person's chain, and noise "
            "made for it protects some of them less"
        )


def person_counts(tally: Tally | None) -> Ints:
    """Return the transitions of each person (P, k, k), or refuse a fit that kept none."""
    if tally is None or tally.persons is None:
        raise NotSupported(
            "persons are compared by the transitions of each, and this fit has kept none; fit the "
            "records themselves with MarkovChain.fit, with fewer states if there are many persons"
        )
    return tally.persons


def homogeneity_test(tally: Tally | None) -> HomogeneityTest:
    """Return the likelihood-ratio test of one chain for all persons; see `FittedChain`.

    Degrees of freedom: for each state, (persons who left it - 1) (states reached from it - 1).
    Visits count as fixed. Cost as `undertow.models.fitting.hypotheses.differ`.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> sample = [chain.simulate(500, seed=seed) for seed in range(5)]
    >>> MarkovChain.fit(sample, public=True).homogeneity_test().degrees
    8
    """
    counts = person_counts(tally)
    counts = counts[counts.sum(axis=(1, 2)) > 0]  # (P, k, k)
    return HomogeneityTest(len(counts), differ(counts))


NOT_PRIVATE = "not private: made of the records themselves, without noise"
"""The note of a model that was fitted to records without noise."""

_STAIRCASE_BOXES = 6
"""Boxes of a staircase, for chains that stay and for chains that change (each)."""
_LOG_ODDS_GRID = 1 / 32
"""Log-odds are rounded outwards to multiples of this: no person's own number is kept."""
_PERSON_ERROR = 0.01
"""The error that a person's estimate may have before an extreme person is left out instead."""
_INTERVAL_SLACK = 1e-9
"""Relative widening of every interval, outwards: far above the roundings of its logarithms."""


def persons_needed(share: float, confidence: float) -> int:
    """Return the least number of persons needed for a statement about a share of all.

    The least n with 1 - share^n > confidence.

    >>> persons_needed(.99, .95), persons_needed(.9, .9)
    (299, 22)
    """
    share, confidence = _part(share, "share"), _part(confidence, "confidence")
    n = max(1, math.floor(math.log1p(-confidence) / math.log(share)) - 1)
    while not 1 - share**n > confidence:
        n += 1
    return n


def population(
    tally: Tally | None,
    share: float | None = None,
    confidence: float = 0.95,
    *,
    least: int = 0,
    length: int | None = None,
) -> ModelSet:
    """Return the chains of all persons of a sample, or of a share of all persons, as a model.

    Arguments as in `FittedChain.population`. Cost O(P log P).
    """
    confidence = _part(confidence, "confidence")
    counts = _usable_persons(
        person_counts(tally), tally, check_count(least, "least (transitions)", 0)
    )
    if share is None:
        boxes, open_ends = _of_sample(counts, confidence)
        note = f"holds for every person in the sample ({len(counts)} persons)"
    else:
        share = _part(share, "share")
        boxes, open_ends = _of_share(counts, share, confidence)
        note = f"holds for {_percent(share)} of persons"
    note += f", with confidence {_percent(confidence)}"
    if least:
        note += f", among persons with at least {least} transitions"
    if share is not None:
        note += ", if those in the sample were drawn independently of each other"
    if not np.isfinite(boxes).all():
        raise NotSupported(
            f"the records of {open_ends} persons leave open that they never leave a state again, "
            "and then no noise is enough; leave persons with few records out (least=...), or "
            "speak of a share of all persons (share=0.99)"
        )
    states = () if tally is None else tally.states
    models = [_chain_box(box, states, length) for box in _rounded(boxes)]
    return ModelSet(models, f"{note}; {NOT_PRIVATE}")


def _usable_persons(counts: Ints, tally: Tally | None, least: int) -> Ints:
    """Return the counts of persons with enough transitions, or refuse."""
    if counts.shape[1] != 2:
        raise NotSupported(
            f"the chains of persons are bounded for two states, and these have {counts.shape[1]}; "
            "make two states of the records, or fit cohorts of persons who are alike (by=...)"
        )
    several = counts.sum(axis=(1, 2))  # (P,)
    alone = int((several == 0).sum())
    if alone and not least:
        raise InvalidInput(
            f"{alone} of {len(counts)} persons have no two records that follow each other, and "
            "nothing is known of their chains; leave such persons out with least=1"
        )
    usable = counts[several >= max(least, 1)]
    if not len(usable):
        raise InvalidInput(f"no person has {max(least, 1)} transitions; say a smaller least=...")
    return np.asarray(usable)


def _of_sample(counts: Ints, confidence: float) -> tuple[Array, int]:
    """Return boxes (J, 2, 2) that hold all persons at once, and the number of open ones."""
    boxes = _regions(counts, (1 - confidence) / len(counts))
    open_ends = int((~np.isfinite(boxes)).any(axis=(1, 2)).sum())
    return (boxes, open_ends) if open_ends else (_staircase(boxes), 0)


def _of_share(counts: Ints, share: float, confidence: float) -> tuple[Array, int]:
    """Return boxes (J, 2, 2) that hold a share of all persons, and how many persons are open."""
    total, needed = len(counts), persons_needed(share, confidence)
    if total < needed:
        raise InvalidInput(
            f"{total} persons are too few to speak of {_percent(share)} of all persons with "
            f"confidence {_percent(confidence)}: {needed} are needed; ask for less, or leave "
            "share=... out, which speaks of the persons in the sample"
        )
    aside = min(total - needed, max(20, total // 4))
    order = np.random.default_rng(0).permutation(total)  # not by what the records say
    shape = np.zeros((1, 2, 2))  # without persons to set aside: around independent fair coins
    if aside:
        guess = counts[order[:aside]] + 0.5
        logs = np.log(guess)
        stay = np.stack(
            [logs[:, 0, 0] - logs[:, 0, 1], logs[:, 1, 1] - logs[:, 1, 0]], axis=1
        )  # (persons, state): log-odds of staying
        shape = _staircase(np.stack([stay, stay], axis=2))
    dropped, beta = _order_statistic(total - aside, share, confidence)
    boxes = _regions(counts[order[aside:]], beta)  # (n, state, end)
    # (n, J): how far a step of the staircase must grow to hold a person's box
    below = (shape[None, :, :, 0] - boxes[:, None, :, 0]).max(axis=2)
    above = (boxes[:, None, :, 1] - shape[None, :, :, 1]).max(axis=2)
    scores = np.sort(np.maximum(below, above).min(axis=1))[::-1]  # (n,)
    reach = float(scores[dropped])
    grown = shape + np.array([-reach, reach])
    grown = grown[(grown[:, :, 0] <= grown[:, :, 1]).all(axis=1)]  # a negative reach empties some
    return grown, int(np.isinf(scores).sum())


def _order_statistic(total: int, share: float, confidence: float) -> tuple[int, float]:
    """Return the number of extreme persons left out, and the error of each estimate."""
    from scipy.special import bdtr

    def fits(dropped: int, beta: float) -> bool:
        missed = float(bdtr(dropped, total, (1 - share) * (1 - beta)))
        return missed * (1 + _INTERVAL_SLACK) <= 1 - confidence

    dropped = 0
    while fits(dropped + 1, _PERSON_ERROR):
        dropped += 1
    low, high = 0.0, 0.5
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(dropped, middle) else (low, middle)
    if not low:
        raise InvalidInput(
            f"{total} persons leave no room for the error of their estimates at this share and "
            "confidence; add a person, or ask for less"
        )
    return dropped, low


def _regions(counts: Ints, beta: float) -> Array:
    """Return the log-odds of staying that each person's records leave open, (P, state, end)."""
    stays = np.stack([counts[:, 0, 0], counts[:, 1, 1]], axis=1)  # (P, state)
    low, high = _interval(stays, counts.sum(axis=2) - stays, beta / 2)
    with np.errstate(divide="ignore"):
        return np.stack([np.log(low) - np.log1p(-low), np.log(high) - np.log1p(-high)], axis=2)


def _interval(hits: Ints, misses: Ints, beta: float) -> tuple[Array, Array]:
    """Return both ends of {p : p^h (1-p)^m >= beta mixture(h, m)}, rounded outwards.

    The logarithm of the left side is concave with its peak at h / (h + m), which is inside.
    """
    from scipy.special import betaln, xlog1py, xlogy

    floor = betaln(hits + 0.5, misses + 0.5) - betaln(0.5, 0.5) + math.log(beta)
    floor = floor - _INTERVAL_SLACK * (1 + np.abs(floor))
    peak = np.where(hits + misses > 0, hits / np.maximum(hits + misses, 1), 0.5)
    ends = []
    for border, never in ((0.0, hits == 0), (1.0, misses == 0)):
        outside, inside = np.full(peak.shape, border), peak.copy()
        for _ in range(60):
            middle = (outside + inside) / 2
            kept = xlogy(hits, middle) + xlog1py(misses, -middle) >= floor
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        ends.append(np.where(never, border, outside))
    return ends[0], ends[1]


def _staircase(boxes: Array) -> Array:
    """Return few boxes (J, 2, 2) that cover boxes (P, 2, 2) of axes (state, end)."""
    staying = boxes.sum(axis=(1, 2)) >= 0
    heights = []
    if staying.any():
        heights.append(_steps(boxes[staying]))
    if not staying.all():  # mirrored: who changes most is who stays least
        heights.append(-_steps(-boxes[~staying][:, :, ::-1])[:, :, ::-1])
    return np.concatenate(heights)


def _steps(boxes: Array) -> Array:
    """Return boxes with one lower corner and few upper ones, which cover all."""
    low = boxes[:, :, 0].min(axis=0)  # (2,)
    corners: list[tuple[float, float]] = []
    # upper corners that no other exceeds in both, the first coordinate falling
    for first, second in sorted(map(tuple, boxes[:, :, 1].tolist()), reverse=True):
        if not corners or second > corners[-1][1]:
            corners.append((first, second))
    while len(corners) > _STAIRCASE_BOXES:
        costs = [(one[0] - two[0]) * (two[1] - one[1]) for one, two in pairwise(corners)]
        place = int(np.argmin(costs))
        corners[place : place + 2] = [(corners[place][0], corners[place + 1][1])]
    return np.array([np.stack([low, corner], axis=1) for corner in np.array(corners)])


def _rounded(boxes: Array) -> Array:
    """Return boxes of log-odds widened to the grid, without those inside another."""
    wide = np.stack(
        [
            np.floor(boxes[..., 0] / _LOG_ODDS_GRID) * _LOG_ODDS_GRID,
            np.ceil(boxes[..., 1] / _LOG_ODDS_GRID) * _LOG_ODDS_GRID,
        ],
        axis=2,
    )
    wide = np.unique(wide, axis=0)  # (J, state, end)
    held = (wide[:, None, :, 0] >= wide[None, :, :, 0]) & (
        wide[:, None, :, 1] <= wide[None, :, :, 1]
    )
    inside = np.asarray(held.all(axis=2))  # (J, J): the first inside the second
    np.fill_diagonal(inside, False)
    return np.asarray(wide[~inside.any(axis=1)])


def _chain_box(box: Array, states: tuple[State, ...], length: int | None) -> ChainBox:
    """Return the chains with log-odds of staying in a box (state, end), rounded outwards."""
    low, high = (1 / (1 + np.exp(-box[:, end])) for end in (0, 1))  # (state,): staying
    least, most = low * (1 - _INTERVAL_SLACK), 1 - (1 - high) * (1 - _INTERVAL_SLACK)
    lower, upper = np.empty((2, 2)), np.empty((2, 2))
    for state in range(2):
        lower[state, state], upper[state, state] = least[state], most[state]
        lower[state, 1 - state], upper[state, 1 - state] = 1 - most[state], 1 - least[state]
    return ChainBox(lower, upper, states, length)


def _part(value: float, name: str) -> float:
    fraction = check_number(value, name)
    if not 0 < fraction < 1:
        raise InvalidInput(f"{name} must lie between 0 and 1, such as 0.95; found {fraction}")
    return fraction


def _percent(part: float) -> str:
    return f"{100 * part:.6g}%"


@dataclass(frozen=True, slots=True)
class OrderTest(RatioTest):
    """Likelihood-ratio test of order one against order two.

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
        records = None if tally is None else tally.described
        self._set_provenance(origin=fitted_origin(check_flag(public, "public")), records=records)

    @classmethod
    def from_law_dict(cls, description: Any) -> MarkovChain:
        """Return the plain chain described by `law_dict`: counts are never written."""
        return MarkovChain.from_law_dict(description)

    @property
    def checks(self) -> "tuple[Check, ...]":
        """The checks of the chain, computed once from its counts."""
        checks = self.provenance.checks
        if checks is None:
            from undertow.models.fitting.hypotheses import checks_of

            checks = checks_of(self, "public" if self.origin == "public" else "not private")
            self._set_provenance(checks=checks)
        return checks

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
        """Return the confidence region of the fit: at 0.95 unless another is given."""
        region = self.provenance.region
        if not isinstance(region, ChainBox):
            region = self.plausible(0.95)
            self._set_provenance(region=region)
        return region

    def _estimate(self) -> bool:
        return True

    def region(self, confidence: float = 0.95) -> ChainBox:
        """Return the confidence region of the fit as a model.

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

        >>> series = MarkovChain([[.9, .1], [.3, .7]]).simulate(999, seed=1)
        >>> MarkovChain.fit(series, public=True).order_test().degrees
        2
        """
        if self.triples is None:
            raise NotSupported(
                "the order is tested on runs of three records, and only pairs were counted; use "
                f"MarkovChain.fit on the records themselves, with at most {MOST_TRIPLED} states"
            )
        return OrderTest(differ(self.triples))  # tables by the first state of three

    def homogeneity_test(self) -> HomogeneityTest:
        """Return the likelihood-ratio test of one chain for all persons against one for each.

        Persons are those of a `undertow.Data`, or the sequences of a list. What it means in
        leakage: `undertow.diagnostics.persons`.

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
        `undertow.models.fitting.fit`). Each person's estimation error is accounted for, so persons
        with few records widen it: ``least`` leaves out those with fewer transitions, and the model
        says so. It holds no person's chain; it is not private, and says that too.

        >>> chain = MarkovChain([[.9, .1], [.3, .7]])
        >>> sample = [chain.simulate(500, seed=seed) for seed in range(5)]
        >>> fitted = MarkovChain.fit(sample, public=True)
        >>> fitted.population().note.partition(";")[0]
        'holds for every person in the sample (5 persons), with confidence 95%'
        """
        models = population(self.tally, share, confidence, least=least, length=self.length)
        checks = mark_accounted(self.checks, "persons", f"the model {models.note}")
        return self.passed_on(models, checks)


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
    tallied = _tallied(sequences, states)
    size = len(tallied.states)
    if states is None and size < 2:
        raise InvalidModel(
            f"a chain needs records of at least two different states, found {size}; pass "
            "states=[...] and a prior if others are possible"
        )
    chain = FittedChain(
        tallied.counts,
        tallied.states,
        prior=prior,
        length=length,
        triples=tallied.triples,
        tally=tallied,
        public=public,
    )
    warn_fitted(public, stacklevel=stacklevel)
    return chain


def _tallied(sequences: Any, states: Sequence[State] | None) -> Tally:
    """Return the tally of records; a `TalliedSource`, such as `undertow.Data`, counts its own."""
    if isinstance(sequences, TalliedSource):
        return sequences.tally(None if states is None else given_states(states))
    read = encode(sequences, states)
    tallied = tally(
        read.codes, read.states, series=read.series, persons=read.persons, hours=read.hours
    )
    return replace(tallied, described=read.described)


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
    """Return the transition matrix of counts, or refuse empty rows."""
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


_PAIR_CHECKS = ("time", "hours", "persons")
"""Checks of the first-order fit that speak of order two as well: they compare parts of the records
by their pairs."""
_RANK_TOLERANCE = 1e-12
"""Relative variance below which a combination of scores is constant."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedSecondOrderChain(SecondOrderChain):
    """The chain estimated from runs of three: P(x, y, z) = (N_xyz + prior) / (N_xy + k prior).

    A `SecondOrderChain` in every respect. ``counts`` and the ``tally`` of the records stay with
    this object: `law_dict` and the printed form leave them out.

    >>> from undertow.models.chains import MarkovChain
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
        for name, value in (facts | {"first": fitted}).items():
            object.__setattr__(chain, name, value)
        return chain.with_origin(fitted.origin).with_records(fitted.records)

    @classmethod
    def from_law_dict(cls, description: Any) -> SecondOrderChain:
        """Return the plain chain described by `law_dict`: counts are never written."""
        return SecondOrderChain.from_law_dict(description)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the chain, computed once from its counts."""
        checks = self.provenance.checks
        if checks is None:
            checks = tuple(_checks(self, "public" if self.origin == "public" else "not private"))
            self._set_provenance(checks=checks)
        return checks

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
    yield from decide(
        [
            Hypothesis(
                "order", None, untested="two records against three: runs of four are needed"
            ),
            memory_test(chain.tally, model, "a chain of order two"),
            *(
                _stretched(test, stretch)
                for test in hypotheses_of(chain.first)
                if test.name in _PAIR_CHECKS
            ),
        ],
        basis,
    )


def _stretched(test: Hypothesis, factor: float) -> Hypothesis:
    """Return a test of order one with its p-value under order two."""
    if not isinstance(test.statistic, Difference):
        return replace(test, statistic=None, alternative=None)
    stretched = test.statistic.stretched(factor)
    passed, failed = (
        text.replace(test.statistic.shown(), stretched.shown())
        for text in (test.passed, test.failed)
    )
    return replace(test, statistic=stretched, passed=passed, failed=failed, alternative=None)


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
    positive = values > _RANK_TOLERANCE * values.max()
    axes = axes[:, positive] / np.sqrt(values[positive])
    return max(1.0, float(np.linalg.eigvalsh(axes.T @ (alone + cross + cross.T) @ axes).max()))


def fit(
    sequences: Any, states: Sequence[State] | None, *, order: Any, prior: float,
    length: int | None, public: bool, private: float | None, ledger: Any, confidence: float,
    release_id: str | None, missing: State | None = None,
) -> "FittedChain | FittedSecondOrderChain | FittedHiddenChain | PrivateFit":  # fmt: skip
    """Fit the model that `MarkovChain.fit` requests; refuse arguments that exclude each other."""
    counted = isinstance(order, int | np.integer) and not isinstance(order, bool)
    hidden = isinstance(order, str) and order == "hidden"
    if not hidden and (not counted or order not in (1, 2)):
        raise InvalidInput(
            f"order must be 1, 2 or 'hidden', found {shown(order)}: for a longer memory say "
            "'hidden', or give each public context a matrix of its own (fit_by_context)"
        )
    if missing is not None and (private is not None or missing in ("any", "none")):
        raise InvalidInput(
            "missing names a state of the fitted model, other than 'any' and 'none', in which the "
            "missing records are; a private fit takes no such state: leave missing or private out"
        )
    if private is not None:
        if order != 1:
            raise InvalidInput("a private fit is of order 1; leave order out, or private")
        if public:
            raise InvalidInput("records are public, or the fit is private: not both")
        learn = import_module("undertow.releasing.private_fit").private_fit  # above: it draws noise
        private_fit: PrivateFit = learn(
            sequences, states, level=private, ledger=ledger, confidence=confidence, prior=prior,
            length=length, release_id=release_id,
        )  # fmt: skip
        return private_fit
    if ledger is not None or release_id is not None:
        raise InvalidInput("a ledger accounts for a private fit; say private=LEVEL")
    if hidden:
        for name, given in (("a prior", prior), ("missing", missing is not None)):
            if given:
                raise InvalidInput(f"{name} is for chains of order one and two; leave it out")
        from undertow.models.fitting.hidden import fit_hidden

        return fit_hidden(sequences, states, length=length, public=public, attractive=True)
    make = fit_chain if order == 1 else fit_second_order
    # warnings are about the line that called `MarkovChain.fit`
    how: Any = {"prior": prior, "length": length, "public": public, "stacklevel": 3 + order}
    if missing is None:
        return make(sequences, states, **how)
    fitted = make(encode(sequences, states).filled(missing), None, **how)
    return fitted.with_records(replace(fitted.records, missing=missing))
