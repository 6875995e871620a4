"""One side of a protected record, read outwards: what erasures, shown and known records say.

Numbers are kept as mantissa and whole exponent, entry by entry: erasures of long stretches have
chances far below the smallest float, and only their ratios matter.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.chains.rays import ordered_pairs
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, Array, pad_log

__all__ = [
    "Losses",
    "Option",
    "Side",
    "build_side",
    "nearest_known",
    "option_losses",
    "plain_ratios",
    "seen_states",
    "shown_levels",
    "side_losses",
]

Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Scaled = tuple[Array, Ints]
"""Mantissas in [1/2, 1) or 0, and their exponents."""

_NOWHERE = -(2**40)
"""Exponent of a sum without terms."""

_VANISHED = -1100
"""Exponents below this, relative to the largest term of a sum, cannot change the sum."""

_LN2 = float(np.log(2.0))


@dataclass(frozen=True, slots=True)
class Option:
    """What an attacker sees and knows on one side, by distance from the target.

    Records nearer than ``shown`` are seen erased and the one there has state ``state``; without
    ``shown`` all records up to the known one, or to the end, are seen erased. ``known`` is the
    distance of the nearest known record, of state ``value``; 0 where nothing is known.
    """

    shown: int = 0
    state: int = 0
    known: int = 0
    value: int = 0
    erased: int = 0


@dataclass(frozen=True, slots=True)
class Side:
    """The records on one side of a target, distance 1 first.

    ``erased`` and ``plain`` are stacks over distances 1 .. T of the chances to reach a state
    (last axis) from a value of the target, with all nearer records erased, and without looking
    (to the left: up to the law of the target and of the reached state). ``steps`` (T, k, k) tell
    which moves outwards are possible, ``shows`` (T, k) which states can be shown. ``end`` and
    ``open`` are the chances that all records are erased, and that nothing happens.
    """

    room: int
    erased: Scaled
    plain: Scaled
    steps: Bools
    shows: Bools
    end: Scaled
    open: Scaled
    error: float

    @property
    def reach(self) -> int:
        """The number of records looked at, T."""
        return len(self.shows)


def seen_states(chain: MarkovChain, last: int) -> Bools:
    """Return which states can occur at records 0 .. last, without asking how often.

    >>> seen_states(MarkovChain([[.5, .5], [0, 1]], start=[1, 0]), 1)
    array([[ True, False],
           [ True,  True]])
    """
    seen = np.empty((last + 1, chain.size), dtype=bool)
    seen[0] = chain.initial > 0
    steady = seen[0].all() and (chain.transition > 0).all()
    if isinstance(chain.start, str) or steady:
        seen[:] = seen[0]
        return seen
    arrows = (chain.transition > 0).astype(float)
    for record in range(last):
        arrow = arrows if chain.homogeneous else arrows[record]
        seen[record + 1] = seen[record].astype(float) @ arrow > 0
    return seen


def build_side(
    chain: MarkovChain,
    erasures: Array,
    target: int,
    right: bool,
    reach: int | None,
    flat: float = 0.0,
) -> Side:
    """Return one side of a target, as far as it matters.

    ``reach`` is the distance of the last known record that matters: None where every record may
    be known. Records beyond the first that is always shown are not looked at, unless they may
    be known and some moves of the chain are impossible. A search may also leave out records of
    which no value says more than ``flat``; beyond them none does.
    """
    length, size = erasures.shape
    room = length - 1 - target if right else target
    strict = bool((chain.transition > 0).all())
    seen = None if right else seen_states(chain, target)
    law = np.ones(size) if right else chain.initial
    kernel = _kernels(chain, target, right)
    chances = _scaled(erasures)
    erased: list[Array] = []
    places: list[Ints] = []
    moves: list[Bools] = []
    here = _scaled(np.tile(np.eye(size), (2, 1, 1)))
    nearer = _scaled(np.ones(size))
    for distance in range(1, room + 1):
        mantissa, exponent = kernel(distance)
        both = (
            np.stack([nearer[0][:, None] * mantissa, mantissa]),
            np.stack([nearer[1][:, None] + exponent, exponent]),
        )
        here = _times(here, both)
        record = target + distance if right else target - distance
        if seen is not None and not seen[record].all():
            here = here[0] * seen[record], here[1]
        erased.append(here[0])
        places.append(here[1])
        moves.append(mantissa > 0)
        nearer = chances[0][record], chances[1][record]
        over = not here[0][0].any()
        if distance == reach or (over and (reach == 0 or (reach is None and strict))):
            break
        if flat and strict and distance % 16 == 0 and _spread(here[0][1], here[1][1]) <= flat:
            break
    walked = len(erased)
    steady = right or isinstance(chain.start, str)
    stack = (
        np.array(erased).reshape(walked, 2, size, size),
        np.array(places, dtype=np.int64).reshape(walked, 2, size, size),
    )
    records = target + np.arange(1, walked + 1) * (1 if right else -1)
    far = _scaled(law)
    end = _times(
        (here[0][:1], here[1][:1]),
        ((nearer[0] * far[0])[None, :, None], (nearer[1] + far[1])[None, :, None]),
    )
    return Side(
        room=room,
        erased=(stack[0][:, 0], stack[1][:, 0]),
        plain=(stack[0][:, 1], stack[1][:, 1]),
        steps=np.array(moves, dtype=bool).reshape(walked, size, size),
        shows=erasures[records] < 1,
        end=(end[0][0, :, 0], end[1][0, :, 0]),
        open=_scaled(np.ones(size) if right else chain.law(target)),
        error=pad_log(walked, size) + pad_log(walked if steady else max(walked, target), size),
    )


def _kernels(chain: MarkovChain, target: int, right: bool) -> Callable[[int], Scaled]:
    """Return a function of the distance: the outward kernel that leads there, scaled."""
    if chain.homogeneous:
        fixed = _scaled(chain.transition if right else chain.transition.T)
        return lambda distance: fixed
    stack = _scaled(chain.transition)
    if right:
        return lambda distance: (stack[0][target + distance - 1], stack[1][target + distance - 1])
    return lambda distance: (stack[0][target - distance].T, stack[1][target - distance].T)


def _scaled(numbers: Array) -> Scaled:
    mantissa, exponent = np.frexp(numbers)
    return mantissa, exponent.astype(np.int64)


def _spread(mantissa: Array, exponent: Ints) -> float:
    """Return the largest log-ratio between two rows, up to a factor of each row."""
    logs = np.log(mantissa) + exponent * _LN2
    return float(np.ptp(logs - logs.mean(axis=1, keepdims=True), axis=0).max())


def _times(first: Scaled, second: Scaled) -> Scaled:
    """Return the product of two stacks of matrices, without underflow in any entry."""
    terms = first[0][..., :, :, None] * second[0][..., None, :, :]
    places = first[1][..., :, :, None] + second[1][..., None, :, :]
    places = np.where(terms > 0, places, _NOWHERE)
    top = places.max(axis=-2, keepdims=True)
    total = np.ldexp(terms, np.maximum(places - top, _VANISHED)).sum(axis=-2)
    mantissa, shift = np.frexp(total)
    return mantissa, np.where(mantissa > 0, top[..., 0, :] + shift, 0)


def _ratio(numbers: Scaled, value: Ints, other: Ints) -> Array:
    """Return ln of the chance at value over that at other, over the first axis but one.

    NaN where both are 0, inf where only the second is.
    """
    mantissa, exponent = numbers
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(mantissa)
        found = logs[..., value, :] - logs[..., other, :]
    moved = (exponent[..., value, :] - exponent[..., other, :]) * _LN2
    return np.where(np.isfinite(found), found + moved, found)


def plain_ratios(side: Side) -> Array:
    """Return ln Pr[X_t = v | x] / Pr[X_t = v | x'] by distance, ordered pair and state.

    NaN where the state is impossible under both values, or a value of the target is.
    """
    value, other = ordered_pairs(len(side.open[0]))
    return np.asarray(_ratio(side.plain, value, other) - _levels(side)[:, None])


def _levels(side: Side) -> Array:
    """Return ln of the chance of a value over that of the other (0 to the right), or NaN."""
    value, other = ordered_pairs(len(side.open[0]))
    found = _ratio((side.open[0][:, None], side.open[1][:, None]), value, other)[:, 0]
    return np.where(np.isfinite(found), found, np.nan)


def shown_levels(side: Side, against: Against) -> tuple[Array, Array, Array]:
    """Return what is taken off the ratios of erased prefixes, for a search over erasures.

    For a shown record (T, pairs, k) the least over nothing known and, against any, whatever may
    be known beyond; for an erased prefix up to a known record (T, pairs, k); for erasures to the
    end (pairs). NaN where there is no such option.
    """
    value, other = ordered_pairs(len(side.open[0]))
    plain = _ratio(side.plain, value, other)
    possible = ~np.isnan(plain)
    plain[~np.isfinite(plain)] = np.nan
    level = _levels(side)
    shown = np.where(possible, level[:, None], np.nan)
    if against != "any":
        return shown, np.full_like(plain, np.nan), level
    ahead, *_ = _ahead(side, plain, np.ones(side.reach, dtype=bool))
    return np.minimum(shown, ahead), plain, level


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of all options on a side, NaN where there is none.

    ``free`` (T, pairs, k): a shown record, nothing known. ``backed``: a shown record and the
    known one beyond it that helps most, ``spot`` (its distance and state). ``met``: erased up
    to a known record. ``end`` (pairs): erased throughout.
    """

    free: Array
    backed: Array
    met: Array
    end: Array
    spot: tuple[Ints, Ints]
    error: float


def option_losses(side: Side, against: Against, known: int | None) -> Losses:
    """Return the losses of all options that an adversary has on one side.

    ``known`` is the distance of the nearest known record for an explicit adversary (0: none on
    this side), None where the adversary may choose.
    """
    value, other = ordered_pairs(len(side.open[0]))
    hidden = _ratio(side.erased, value, other)
    hidden[np.isneginf(hidden)] = np.nan  # not to be seen under the first value
    plain = _ratio(side.plain, value, other)
    plain[~np.isfinite(plain)] = np.nan  # cannot be known while both values are possible
    level = _levels(side)
    last = _ratio((side.end[0][:, None], side.end[1][:, None]), value, other)[:, 0]
    none = np.full_like(hidden, np.nan)
    shown = np.where(side.shows[:, None, :], hidden, np.nan)
    sizes = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in (hidden, plain, level, last)]
    error = side.error + 16 * ROUNDOFF * sum(sizes)
    free, backed, met, end = none, none, none, np.full(len(value), np.nan)
    nowhere: Ints = np.zeros(none.shape, dtype=np.int64)
    spot = nowhere, nowhere
    if not known:
        free = shown - level[:, None]
        end = np.where(np.isneginf(last), np.nan, last - level)
    if known or (known is None and against == "any"):
        places = np.ones(side.reach, dtype=bool)
        if known:
            places = np.arange(1, side.reach + 1) == known
            shown[known - 1 :] = np.nan
        met = np.where(places[:, None, None], hidden - plain, np.nan)
        ahead, *where = _ahead(side, plain, places)
        ahead[np.isinf(ahead)] = np.nan
        backed = shown - ahead
        spot = where[0], where[1]
    return Losses(free, backed, met, end, spot, error)


def side_losses(
    side: Side, against: Against, known: int | None
) -> tuple[Array, list[Option], float]:
    """Return the largest loss on a side for each ordered pair of values, how, and its error.

    The loss is -inf where no values of known records allow both values of the target.
    """
    pairs = len(ordered_pairs(len(side.open[0]))[0])
    if not side.room:
        return np.zeros(pairs), [Option()] * pairs, 0.0
    losses = option_losses(side, against, known)
    search = _Search(np.full(pairs, -np.inf), [Option()] * pairs)
    search.offer(losses.end, Option(erased=side.room))
    search.offer_table(losses.free, lambda t, pair, w: Option(t, w, erased=t - 1))
    search.offer_table(losses.met, lambda t, pair, v: Option(0, 0, t, v, erased=t - 1))
    far, what = losses.spot
    search.offer_table(
        losses.backed,
        lambda t, pair, w: Option(
            t, w, int(far[t - 1, pair, w]), int(what[t - 1, pair, w]), erased=t - 1
        ),
    )
    return search.best, search.option, float(losses.error)


@dataclass(slots=True)
class _Search:
    """The best option of each pair so far."""

    best: Array
    option: list[Option]

    def offer(self, losses: Array, option: Option) -> None:
        """Take an option for the pairs that it serves better; NaN serves none."""
        for pair in np.flatnonzero(np.where(np.isnan(losses), -np.inf, losses) > self.best):
            self.best[pair], self.option[pair] = losses[pair], option

    def offer_table(self, losses: Array, make: Callable[[int, int, int], Option]) -> None:
        """Take the largest of losses (distance, pair, state) for each pair, NaN left out."""
        if not losses.size:
            return
        pairs, size = losses.shape[1:]
        flat = np.where(np.isnan(losses), -np.inf, losses).transpose(1, 0, 2).reshape(pairs, -1)
        for pair, spot in enumerate(flat.argmax(axis=1)):
            if flat[pair, spot] > self.best[pair]:
                distance, state = divmod(int(spot), size)
                self.best[pair] = flat[pair, spot]
                self.option[pair] = make(distance + 1, pair, state)


def _ahead(side: Side, plain: Array, places: Bools) -> tuple[Array, Ints, Ints]:
    """Return, behind each shown record, the known one that helps most: ratio, distance, state.

    The least ln of the chances of a known state beyond distance t that can follow state w there.
    """
    reach, pairs, size = plain.shape
    least = np.full((reach, pairs, size), np.inf)
    where = np.zeros((reach, pairs, size), dtype=np.int64)
    state = np.zeros((reach, pairs, size), dtype=np.int64)
    for t in range(reach - 1, 0, -1):  # from distance t to t + 1; arrays count from 0
        here = np.where(np.isnan(plain[t]) | ~places[t], np.inf, plain[t])
        near = here <= least[t]
        choice = np.where(near, here, least[t])  # (pairs, k): best at or beyond t + 1
        far = np.where(near, t + 1, where[t])
        what = np.where(near, np.arange(size), state[t])
        options = np.where(side.steps[t][None], choice[:, None, :], np.inf)  # pair, w, v
        spot = options.argmin(axis=2)
        take = np.arange(pairs)[:, None], spot
        least[t - 1] = np.take_along_axis(options, spot[..., None], axis=2)[..., 0]
        where[t - 1], state[t - 1] = far[take], what[take]
    return least, where, state


def nearest_known(against: Against, target: int) -> tuple[int | None, int | None]:
    """Return the distances of the nearest known records, left and right; None leaves it open.

    >>> nearest_known(Adversary(3, [0, 5]), 3), nearest_known("any", 3)
    ((3, 2), (None, None))
    """
    if isinstance(against, Adversary):
        left = (target - record for record in against.known if record < target)
        right = (record - target for record in against.known if record > target)
        return min(left, default=0), min(right, default=0)
    return (None, None) if against == "any" else (0, 0)
