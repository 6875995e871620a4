"""The audited code as a black box, by default that of a release, for many series at once.

Input: states as numbers (in the order of the plan's states) or real values, a row for each series.
Output: a row for each series with the released numbers (a histogram has one for each state), or the
numbers of the outputs (one more number stands for an erased record).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import LocalMechanism, RandomizedResponse, Selection
from undertow.plan import Plan
from undertow.queries import AnyQuery, Lattice, State
from undertow.sampling.answers import lattice_amount, randomise, select
from undertow.sampling.bits import Insecure, Randomness, Secure
from undertow.sampling.flips import draw
from undertow.sampling.streams import draws

__all__ = [
    "Batch",
    "BlackBox",
    "alone",
    "beside",
    "checked",
    "exact_answers",
    "release_code",
    "together",
]

Batch = npt.NDArray[Any]
BlackBox = Callable[[Batch], Batch]
"""Series in, answers out."""


def release_code(
    plan: "Plan[Any]", states: tuple[State, ...], seed: np.random.SeedSequence | None = None
) -> BlackBox:
    """Return the randomisation that a release of the plan runs, for batches of series.

    With a seed it is repeatable: flips and erasures run the same code on other bits, discrete
    noise comes from another sampler of the same law.

    >>> from undertow.certificate import Leakage
    >>> from undertow.models.chains import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.1, .9]])
    >>> flips = RandomizedResponse.binary(.25, .25)
    >>> plan = Plan(flips, chain, 6.0, Leakage(5.6, 5.6, "exact", "any"), "exact")
    >>> release_code(plan, chain.states)(np.zeros((3, 4), dtype=np.uint8)).shape
    (3, 4)
    """
    randomness, mechanism = _bits(seed), plan.mechanism
    if isinstance(mechanism, LocalMechanism):
        return _series(mechanism, len(states), randomness)
    return _answers(plan, states, randomness)


def _bits(seed: np.random.SeedSequence | None) -> Callable[[], Randomness]:
    """Return the source of random bits for each batch."""
    if seed is None:
        return Secure
    numbers = np.random.default_rng(seed)
    return lambda: Insecure(int(numbers.integers(2**62)))


def _series(
    mechanism: LocalMechanism, states: int, randomness: Callable[[], Randomness]
) -> BlackBox:
    flips = isinstance(mechanism, RandomizedResponse)

    def run(series: Batch) -> Batch:
        # records are flipped one by one, so any order of them will do: here, as they lie
        lying = np.ascontiguousarray(series.T if flips else series)
        lengths = np.full(len(series), series.shape[1])
        numbers, erased = draw(mechanism, lying.ravel(), draws(randomness()), lengths)
        shown = numbers if erased is None else np.where(erased, states, numbers)
        return shown.reshape(lying.shape).T if flips else shown.reshape(lying.shape)

    return run


def _answers(
    plan: "Plan[Any]", states: tuple[State, ...], randomness: Callable[[], Randomness]
) -> BlackBox:
    lattice_amount(plan.noise, plan.length)  # refuses what has no lattice
    exact, released = _exact(plan.noise.query.exact_query, states)
    chosen = plan.noise
    if isinstance(chosen, Selection):  # places of states, (draws, k)
        return lambda series: np.array(select(chosen, exact(series).tolist(), randomness()))

    def run(series: Batch) -> Batch:
        numbers = exact(series)  # (draws, released numbers)
        flat = numbers.ravel().tolist()
        noisy = randomise(plan.noise, flat, randomness(), plan.length)
        return released(np.array(noisy, dtype=np.float64).reshape(numbers.shape), series.shape[1])

    return run


def _pairs(series: Batch, size: int) -> Batch:
    """Return how often each state is followed by each, (draws, size * size), row by row."""
    pairs = series[:, :-1] * size + series[:, 1:]  # (draws, records - 1)
    return np.stack([(pairs == pair).sum(axis=1) for pair in range(size**2)], axis=1)


def _exact(query: AnyQuery, states: tuple[State, ...]) -> tuple[BlackBox, Callable[..., Batch]]:
    """Return the whole-number answer of each series, and the number that is released for it."""
    if query.kind == "transitions":
        return lambda series: _pairs(series, len(states)), lambda numbers, _: numbers
    if query.integral:
        # (counts, states)
        bins = np.array([[state in some for state in states] for some in query.bins(states)])
        return (
            lambda series: np.stack([row[series].sum(axis=1) for row in bins], axis=1),
            lambda numbers, _: numbers,
        )
    lattice = query.valued(states).lattice()
    places = np.array(lattice.places or (), dtype=np.int64)

    def total(series: Batch) -> Batch:
        placed = places[series] if states else _placed(lattice, series)  # (draws, records): steps
        if lattice.weights is not None:
            weights = np.array(lattice.weights, dtype=np.int64)
            # weight times step, rounded to the nearest step in whole numbers
            placed = (2 * placed * weights + lattice.steps) // (2 * lattice.steps)
        return np.asarray(placed.sum(axis=1, keepdims=True))

    def released(numbers: Batch, rows: int) -> Batch:
        base = query.answer(0, rows)
        return float(base) + numbers * float(query.answer(1, rows) - base)

    return total, released


def exact_answers(plan: "Plan[Any]", states: tuple[State, ...]) -> BlackBox:
    """Return the code that answers the plan's question without noise.

    >>> from undertow import Count, Laplace
    >>> from undertow.certificate import Leakage
    >>> from undertow.models.chains import MarkovChain
    >>> chain, proved = MarkovChain([[.9, .1], [.1, .9]]), Leakage(1, 1, "exact", "any")
    >>> plan = Plan(Laplace(Count(1), 4.0), chain, 1.0, proved, "exact")
    >>> exact_answers(plan, chain.states)(np.array([[0, 1, 1]])).tolist()
    [[2.0]]
    """
    if isinstance(plan.noise, Selection):
        raise NotSupported("a selection names states; there are no exact numbers to compare with")
    exact, released = _exact(plan.noise.query.exact_query, states)
    return lambda series: np.asarray(released(exact(series), series.shape[1]), dtype=np.float64)


def _placed(lattice: Lattice, values: Batch) -> Batch:
    """Return the lattice steps of many real values (vectorised `Lattice.place`)."""
    share = (np.clip(values, lattice.lower, lattice.upper) - lattice.lower) / (
        lattice.upper - lattice.lower
    )
    return np.clip(np.floor(share * lattice.steps + 0.5), 0, lattice.steps).astype(np.int64)


def together(mechanism: BlackBox, releases: int) -> BlackBox:
    """Return code that answers repeatedly about the same series.

    >>> together(lambda series: series.sum(axis=1), 2)(np.ones((1, 3))).tolist()
    [[3.0, 3.0]]
    """
    if releases == 1:
        return mechanism

    def run(series: Batch) -> Batch:
        return np.hstack([checked(mechanism(series), series, None) for _ in range(releases)])

    return run


def beside(mechanism: BlackBox, other: Batch, lag: int, *, calls: bool) -> BlackBox:
    """Return code that answers about each series and about another one before and after it.

    The other series, always the same, is so many rows away in one call, or in the same row of a
    call so many ``calls`` away. The numbers of the three answers come side by side. Whether noise
    is shared with the answer before or after it depends on where a run of equal noise begins:
    series stand at every place of such a run in turn, so that all batches mix these cases alike.

    >>> late = beside(lambda rows: np.arange(len(rows)), np.zeros(3), 1, calls=False)
    >>> sorted(late(np.ones((2, 3))).tolist())  # rows 0 to 4, and 5 to 9
    [[1, 0, 2], [6, 5, 7]]
    """

    def among_rows(series: Batch) -> Batch:
        blocks = -(-len(series) // lag)
        # (blocks, places, rows, records): the other series but in the second place
        rows = np.tile(other, (blocks, _SLOTS, lag, 1)).astype(series.dtype)
        own = np.tile(other, (blocks * lag, 1)).astype(series.dtype)
        own[: len(series)] = series
        rows[:, 1] = own.reshape(blocks, lag, -1)
        replies = np.asarray(mechanism(rows.reshape(-1, series.shape[1])))
        answers = replies.reshape(blocks, _SLOTS, lag, -1)
        parts = [answers[:, place].reshape(blocks * lag, -1) for place in (1, 0, 2)]
        return np.hstack(parts)[: len(series)]

    def among_calls(series: Batch) -> Batch:
        rest = np.tile(other, (-(-len(series) // lag), 1)).astype(series.dtype)
        own = np.tile(rest, (lag, 1))
        own[: len(series)] = series
        groups = [
            np.concatenate([np.asarray(mechanism(part)).reshape(len(part), -1) for part in parts])
            for parts in ([rest] * lag, own.reshape(lag, *rest.shape), [rest] * lag)
        ]  # three arrays (rows of all calls, numbers)
        return np.hstack([groups[place] for place in (1, 0, 2)])[: len(series)]

    def run(series: Batch) -> Batch:
        # in no regular order: an audit takes every second answer
        order = np.random.default_rng(len(series)).permutation(len(series))
        # half of the calls come three times the distance later, where runs of two are shifted
        half = (len(series) + 1) // 2 if calls else len(series)
        parts = [order[:half], order[half:]]
        ask = among_calls if calls else among_rows
        answers = np.concatenate([ask(series[part]) for part in parts if len(part)])
        replies = np.empty_like(answers)
        replies[order] = answers
        return replies

    return run


_SLOTS = 5
"""Series of a call of which one is the target: runs of two, three or four cover every place."""


def alone(mechanism: BlackBox) -> BlackBox:
    """Return code that answers about each series in a call of its own.

    >>> alone(lambda rows: rows.sum(axis=1) + len(rows))(np.ones((2, 3))).tolist()
    [[4.0], [4.0]]
    """

    def run(series: Batch) -> Batch:
        answers = [np.asarray(mechanism(series[row : row + 1])) for row in range(len(series))]
        return np.concatenate([one.reshape(1, -1) for one in answers])

    return run


def checked(answers: Any, series: Batch, outputs: int | None) -> Batch:
    """Return the answers of a black box with a row for each series, or refuse them.

    ``outputs`` is the number of different outputs of a series, None where numbers are released.

    >>> checked([3, 5], np.zeros((2, 9)), None).tolist()
    [[3.0], [5.0]]
    """
    replies = np.asarray(answers)
    if replies.ndim == 1 and outputs is None:
        replies = replies[:, None]
    if replies.ndim != 2 or len(replies) != len(series) or replies.dtype.kind not in "biuf":
        raise InvalidInput(
            f"the mechanism was given {len(series)} series and must return a row of numbers for "
            f"each; it returned an array of shape {replies.shape} and type {replies.dtype}"
        )
    if outputs is None:
        if not np.isfinite(replies).all():
            raise InvalidInput(
                "the mechanism returned an answer that is no finite number; return finite numbers"
            )
        return replies.astype(np.float64)
    whole = replies.dtype.kind in "biu"
    inside = bool(replies.size) and replies.shape == series.shape and whole
    if not inside or replies.min() < 0 or replies.max() >= outputs:
        raise InvalidInput(
            f"the mechanism must return an output for each of {series.shape[1]} records, a whole "
            f"number from 0 to {outputs - 1} (the last one stands for an erased record, where "
            "records are erased)"
        )
    return replies
