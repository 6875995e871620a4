"""One side of a protected record, read outwards: what erasures, shown and known records say.

Numbers are kept as mantissa and whole exponent, entry by entry: erasures of long stretches have
probabilities far below the smallest float, and only their ratios matter.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.chains.known import Bools, Ints, ordered_pairs, supports
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, Array, log_ratio, pad_log

__all__ = [
    "ErasedOption",
    "ErasedSide",
    "ErasureLosses",
    "build_side",
    "lone_losses",
    "option_losses",
    "plain_ratios",
    "shown_levels",
    "side_losses",
]

_NOWHERE = -(2**40)
"""Exponent of a sum without terms."""

_VANISHED = -1100
"""Exponents below this, relative to the largest term of a sum, cannot change the sum."""

_LN2 = float(np.log(2.0))


@dataclass(frozen=True, slots=True)
class Scaled:
    """Numbers as mantissas in [1/2, 1) or 0 and whole exponents, entry by entry."""

    mantissa: Array
    exponent: Ints

    @classmethod
    def of(cls, numbers: Array) -> "Scaled":
        """Return plain numbers in this form."""
        mantissa, exponent = np.frexp(numbers)
        return cls(mantissa, exponent.astype(np.int64))

    @classmethod
    def stack(cls, parts: "list[Scaled]", shape: tuple[int, ...] | None = None) -> "Scaled":
        """Return several stacked along a new first axis; ``shape`` where there may be none."""
        mantissa = np.array([part.mantissa for part in parts], dtype=float)
        exponent = np.array([part.exponent for part in parts], dtype=np.int64)
        return cls(mantissa, exponent) if shape is None else cls(
            mantissa.reshape(shape), exponent.reshape(shape)
        )  # fmt: skip

    def at(self, place: Any) -> "Scaled":
        """Return some of the numbers, by any index of an array."""
        return Scaled(self.mantissa[place], self.exponent[place])

    def __mul__(self, other: "Scaled") -> "Scaled":
        """Return entry times entry; the mantissas may leave [1/2, 1)."""
        return Scaled(self.mantissa * other.mantissa, self.exponent + other.exponent)

    def __matmul__(self, other: "Scaled") -> "Scaled":
        """Return the product of two stacks of matrices, without underflow in any entry."""
        # (..., row, inner, column)
        terms = self.mantissa[..., :, :, None] * other.mantissa[..., None, :, :]
        places = self.exponent[..., :, :, None] + other.exponent[..., None, :, :]
        places = np.where(terms > 0, places, _NOWHERE)
        top = places.max(axis=-2, keepdims=True)  # the largest term sets the scale of each sum
        total = np.ldexp(terms, np.maximum(places - top, _VANISHED)).sum(axis=-2)
        mantissa, shift = np.frexp(total)
        return Scaled(mantissa, np.where(mantissa > 0, top[..., 0, :] + shift, 0))

    def ratios(self) -> Array:
        """Return ln of one row over another for all ordered pairs of rows, (..., pairs, columns).

        NaN where both are 0, inf where only the second is.
        """
        value, other = ordered_pairs(self.mantissa.shape[-2])
        # (..., pairs, columns)
        found = log_ratio(self.mantissa[..., value, :], self.mantissa[..., other, :])
        moved = (self.exponent[..., value, :] - self.exponent[..., other, :]) * _LN2
        return np.where(np.isfinite(found), found + moved, found)


@dataclass(frozen=True, slots=True)
class ErasedOption:
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
class ErasedSide:
    """The records on one side of a target, distance 1 first.

    ``erased`` and ``plain`` are stacks over distances 1 .. T of the probabilities to reach a state
    (last axis) from a value of the target, with all nearer records erased, and without looking
    (to the left: up to the law of the target and of the reached state). ``steps`` (T, k, k) tell
    which moves outwards are possible, ``shows`` (T, k) which states can be shown. ``end`` and
    ``open`` are the probabilities that all records are erased, and that nothing happens.
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


def build_side(
    chain: MarkovChain, erasures: Array, target: int, right: bool, reach: int | None,
    flat: float = 0.0,
) -> ErasedSide:  # fmt: skip
    """Return one side of a target, as far as it matters.

    ``reach`` is the distance of the last known record that matters: None where every record may
    be known. Records beyond the first that is always shown are not looked at, unless they may
    be known and some moves of the chain are impossible. A search may also leave out records of
    which no value says more than ``flat``; beyond them none does.
    """
    length, size = erasures.shape
    room, sign = (length - 1 - target, 1) if right else (target, -1)
    strict = bool((chain.transition > 0).all())
    seen = None if right else supports(chain, target + 1)
    hidden = Scaled.of(erasures)
    # outward kernels K[x, y]: to the left transposed, so that the law of the target cancels
    kernels = Scaled.of(chain.transition if right else chain.transition.swapaxes(-1, -2))
    walked: list[Scaled] = []
    moves: list[Bools] = []
    here = Scaled.of(np.tile(np.eye(size), (2, 1, 1)))  # (nearer ones erased or not, x, state)
    nearer = Scaled.of(np.ones(size))
    for distance in range(1, room + 1):
        record = target + sign * distance
        step = kernels if chain.homogeneous else kernels.at(record - right)
        # E_t = E_{t-1} diag(erased) K beside P^t = P^{t-1} K, as one product of stacks (2, k, k)
        here = here @ Scaled.stack([nearer.at((slice(None), None)) * step, step])
        if seen is not None and not seen[record].all():
            here = Scaled(here.mantissa * seen[record], here.exponent)
        walked.append(here)
        moves.append(step.mantissa > 0)
        nearer = hidden.at(record)
        over = not here.mantissa[0].any()
        if distance == reach or (over and (reach == 0 or (reach is None and strict))):
            break
        if flat and strict and distance % 16 == 0 and _spread(here.at(1)) <= flat:
            break
    count = len(walked)
    steady = right or isinstance(chain.start, str)
    law = Scaled.of(np.ones(size) if right else chain.initial)
    both = Scaled.stack(walked, (count, 2, size, size))  # (T, erased or plain, x, state)
    return ErasedSide(
        room=room,
        erased=both.at((slice(None), 0)),
        plain=both.at((slice(None), 1)),
        steps=np.array(moves, dtype=bool).reshape(count, size, size),
        shows=erasures[target + sign * np.arange(1, count + 1)] < 1,
        end=(here.at([0]) @ (nearer * law).at((None, slice(None), None))).at(0),
        open=Scaled.of((np.ones(size) if right else chain.law(target))[:, None]),
        error=pad_log(count, size) + pad_log(count if steady else max(count, target), size),
    )


def _spread(numbers: Scaled) -> float:
    """Return the largest log-ratio between two rows, up to a factor of each row."""
    logs = np.log(numbers.mantissa) + numbers.exponent * _LN2  # (x, state)
    return float(np.ptp(logs - logs.mean(axis=1, keepdims=True), axis=0).max())


def plain_ratios(side: ErasedSide) -> Array:
    """Return ln Pr[X_t = v | x] / Pr[X_t = v | x'] by distance, ordered pair and state.

    NaN where the state is impossible under both values, or a value of the target is.
    """
    return np.asarray(side.plain.ratios() - _levels(side)[:, None])


def _levels(side: ErasedSide) -> Array:
    """Return ln of the probability of a value over that of the other (0 to the right), or NaN."""
    found = side.open.ratios()[:, 0]
    return np.where(np.isfinite(found), found, np.nan)


def shown_levels(side: ErasedSide, against: Against) -> tuple[Array, Array, Array]:
    """Return what is taken off the ratios of erased prefixes, for a search over erasures.

    For a shown record (T, pairs, k) the least over nothing known and, against any, whatever may
    be known beyond; for an erased prefix up to a known record (T, pairs, k); for erasures to the
    end (pairs). NaN where there is no such option.
    """
    plain = side.plain.ratios()
    possible = ~np.isnan(plain)
    plain[~np.isfinite(plain)] = np.nan
    level = _levels(side)  # (pairs,)
    shown = np.where(possible, level[:, None], np.nan)
    if against != "any":
        return shown, np.full_like(plain, np.nan), level
    ahead, *_ = _ahead(side, plain, np.ones(side.reach, dtype=bool))
    return np.minimum(shown, ahead), plain, level


@dataclass(frozen=True, slots=True)
class ErasureLosses:
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


def option_losses(side: ErasedSide, against: Against, known: int | None) -> ErasureLosses:
    """Return the losses of all options that an adversary has on one side.

    ``known`` is the distance of the nearest known record for an explicit adversary (0: none on
    this side), None where the adversary may choose.
    """
    hidden = side.erased.ratios()  # (T, pairs, k)
    hidden[np.isneginf(hidden)] = np.nan  # not to be seen under the first value
    plain = side.plain.ratios()
    plain[~np.isfinite(plain)] = np.nan  # cannot be known while both values are possible
    level = _levels(side)
    last = side.end.ratios()[:, 0]  # (pairs,)
    none = np.full_like(hidden, np.nan)
    shown = np.where(side.shows[:, None, :], hidden, np.nan)
    sizes = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in (hidden, plain, level, last)]
    error = side.error + 16 * ROUNDOFF * sum(sizes)
    free, backed, met, end = none, none, none, np.full(len(level), np.nan)
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
        # E_c over P^c, the third line of `redaction_leakage`
        met = np.where(places[:, None, None], hidden - plain, np.nan)
        ahead, *where = _ahead(side, plain, places)
        ahead[np.isinf(ahead)] = np.nan
        backed = shown - ahead
        spot = where[0], where[1]
    return ErasureLosses(free, backed, met, end, spot, error)


def lone_losses(
    chain: MarkovChain, target: int, right: bool, length: int, against: Against,
    known: int | None, flat: float = 0.0,
) -> tuple[Array, float]:  # fmt: skip
    """Return the loss of showing each value of each record on a side, all nearer ones erased.

    (T, pairs, k) for the pairs of values that the target can take, 0 where there is no such
    option; and its error. ``known`` and ``flat`` as in `option_losses` and `build_side`.
    """
    value, other = ordered_pairs(chain.size)
    law = chain.law(target)
    side = build_side(chain, np.ones((length, chain.size)), target, right, known, flat)
    losses = option_losses(replace(side, shows=np.ones_like(side.shows)), against, known)
    # (T, pairs, k)
    shown = np.fmax(losses.free, losses.backed)[:, (law[value] > 0) & (law[other] > 0)]
    return np.where(np.isnan(shown), 0.0, shown), losses.error


def side_losses(
    side: ErasedSide, against: Against, known: int | None
) -> tuple[Array, Callable[[int], ErasedOption], float]:
    """Return the largest loss on a side for each ordered pair of values, how, and its error.

    The loss is -inf where no values of known records allow both values of the target.
    """
    size = len(side.open.mantissa)
    pairs = size * (size - 1)
    if not side.room:
        return np.zeros(pairs), lambda pair: ErasedOption(), 0.0
    losses = option_losses(side, against, known)
    # (pairs, options): all erased first, then three tables over (distance, state)
    rows = [
        losses.end[:, None],
        *(
            table.transpose(1, 0, 2).reshape(pairs, -1)
            for table in (losses.free, losses.met, losses.backed)
        ),
    ]
    flat = np.concatenate(rows, axis=1)  # (pairs, options)
    flat[np.isnan(flat)] = -np.inf
    spots = flat.argmax(axis=1)

    def option(pair: int) -> ErasedOption:
        if not spots[pair]:
            return ErasedOption(erased=side.room)
        table, place = divmod(int(spots[pair]) - 1, side.reach * size)
        near, state = divmod(place, size)
        if table == 1:
            return ErasedOption(known=near + 1, value=state, erased=near)
        far, what = (int(part[near, pair, state]) for part in losses.spot)
        return ErasedOption(near + 1, state, far if table else 0, what if table else 0, near)

    return flat.max(axis=1), option, float(losses.error)


def _ahead(side: ErasedSide, plain: Array, places: Bools) -> tuple[Array, Ints, Ints]:
    """Return, behind each shown record, the known one that helps most: ratio, distance, state.

    The least log-ratio of a known state beyond distance t that can follow state w there.
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
