"""Exact leakage of a redacted series about its protected records.

An attacker sees some records and sees that others are erased. How often a record is erased may
depend on its value, so an erasure is evidence too. On either side of a protected record nothing
matters beyond the first record that is shown or known, because the chain forgets the rest there.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.levels.sides import (
    Bools,
    Ints,
    check_inside,
    joined,
    nearest_known,
    ordered_pairs,
    start_error,
    stated,
    supports,
    witnessed,
)
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.mechanisms import Redaction
from undertow.models.chains import MarkovChain
from undertow.numerics import (
    ROUNDOFF,
    Array,
    check_count,
    check_epsilon,
    down,
    log_ratio,
    pad_log,
    up,
)
from undertow.queries import State
from undertow.secrets import Records

__all__ = [
    "ErasedOption",
    "ErasedSide",
    "ErasureLosses",
    "Regions",
    "binary_rates",
    "build_side",
    "influence",
    "influences",
    "least_distance",
    "lone_losses",
    "option_losses",
    "plain_ratios",
    "redaction_leakage",
    "redaction_radius",
    "regions",
    "shown_levels",
    "side_losses",
    "widest",
    "window_bound",
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
        ratio = log_ratio(self.mantissa[..., value, :], self.mantissa[..., other, :])
        moved = (self.exponent[..., value, :] - self.exponent[..., other, :]) * _LN2
        return np.where(np.isfinite(ratio), ratio + moved, ratio)


@dataclass(frozen=True, slots=True)
class ErasedOption:
    """Observed and known records on one side, by distance from the target.

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
    ratios = side.open.ratios()[:, 0]
    return np.where(np.isfinite(ratios), ratios, np.nan)


def shown_levels(side: ErasedSide, against: Against) -> tuple[Array, Array, Array]:
    """Return the levels taken off the ratios of erased prefixes, for a search over erasures.

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


METHOD = "exact"

FAINT = 1e-250
"""Least probability of a state of the target (lower side): below, its log would lose digits."""


def redaction_leakage(
    mechanism: Redaction, chain: MarkovChain, against: Against = "any"
) -> Leakage:
    """Compute the leakage of a redacted series about its protected records, as an interval.

    For a target i, values x and x', known records K: the largest ln Pr[z | x, x_K] / Pr[z | x',
    x_K] over outputs z, each record of which is its value or erased (Definition 1 of
    [massny2025] is the case of no known record). Given the value of the target its two sides
    are independent, so the largest losses of the sides add up. On a side, with E_t(x, w) the
    probability that the records nearer than t are erased and the one at distance t is w,

        shown w at t, nothing known:        ln E_t(x, w) / E_t(x', w)
        shown w at t, v known at c > t:     ln E_t(x, w) / E_t(x', w) - ln P^c(x, v) / P^c(x', v)
        erased up to c, where v is known:   ln E_c(x, v) / E_c(x', v) - ln P^c(x, v) / P^c(x', v)
        erased to the end of the series:    ln E_end(x) / E_end(x').

    Both ends are the same number rounded outwards. Cost O(n k^3) for each protected record; less
    where some record nearby is always shown.

    Parameters
    ----------
    mechanism
        The probabilities of erasure, a row for each record; the chain must have as many records,
        or no length.
    against
        ``"any"`` (default), ``"ignorant"``, ``"informed"`` (who learns nothing from a redaction),
        or an `Adversary`, whose target may be any record.

    >>> chain = MarkovChain([[.75, .25], [.5, .5]])
    >>> leak = redaction_leakage(Redaction([[1, 1], [1 / 8, 1]]), chain, "ignorant")
    >>> round(leak.upper, 6), leak.witness.outputs
    (0.492476, ((1, None),))
    """
    against = check_against(against)
    _check(mechanism, chain, against)
    targets = (against.target,) if isinstance(against, Adversary) else mechanism.protect
    secret = Records(targets)
    bracket = stated(METHOD, "Definition 1 of [massny2025]", 0.0, 0.0, against, secret=secret)
    if against == "informed":  # the neighbours are known, and the record itself is erased
        return bracket
    for target in targets:
        lower, upper, witness = _target_loss(mechanism, chain, against, target)
        bracket = replace(bracket, upper=max(bracket.upper, upper))
        if lower > bracket.lower:
            bracket = replace(bracket, lower=lower, witness=witness)
    return bracket


def _target_loss(
    mechanism: Redaction, chain: MarkovChain, against: Against, target: int
) -> tuple[float, float, Witness | None]:
    """Return both ends of the loss about one record, and its attack."""
    law = chain.law(target)
    possible = supports(chain, target + 1, target)[0]
    if (law[possible] < FAINT).any():
        raise NotSupported(
            f"a state of record {target} is possible but has a probability below {FAINT:g}; "
            "drop the state, or make its probability 0"
        )
    value, other = ordered_pairs(chain.size)
    near = (None, None) if against == "any" else nearest_known(against)
    sides = [
        build_side(chain, mechanism.probabilities, target, right, near[right])
        for right in (False, True)
    ]
    losses, options, errors = zip(
        *(side_losses(side, against, near[right]) for right, side in enumerate(sides)), strict=True
    )
    erased = mechanism.probabilities[target]  # its own output says nothing if it is always erased
    own = np.zeros(len(value))
    if (erased < 1).any():
        own = np.where(erased[value] < 1, np.inf, log_ratio(erased[value], erased[other]))
    both = np.where(possible[value] & possible[other], 0.0, -np.inf)  # (pairs,)
    total = joined(*losses, own, both)  # the sides are independent given the target: losses add
    if total.max() == -np.inf:  # the target has one value only
        return 0.0, 0.0, None
    pair = int(total.argmax())
    loss = float(total[pair])
    error = sum(errors) + start_error(chain)
    x, y = int(value[pair]), int(other[pair])
    seen: dict[int, State] = {}
    if (erased < 1).any():
        seen[target] = chain.states[x] if erased[x] < 1 else None
    known: dict[int, int] = {}
    for option, sign in ((options[0](pair), -1), (options[1](pair), 1)):
        seen |= {target + sign * distance: None for distance in range(1, option.erased + 1)}
        if option.shown:
            seen[target + sign * option.shown] = chain.states[option.state]
        if option.known:
            known[target + sign * option.known] = option.value
    outputs = tuple(sorted(seen.items()))
    witness = witnessed(chain, target, mechanism.length, known, (x, y), outputs=outputs)
    return max(down(loss, 16) - error, 0.0), max(up(loss, 16) + error, 0.0), witness


def _check(mechanism: Redaction, chain: MarkovChain, against: Against) -> None:
    """Refuse a table that does not fit the chain, or an adversary outside of it."""
    records, states = mechanism.probabilities.shape
    if states != chain.size:
        raise InvalidInput(
            f"the table of erasures has {states} states, the chain {chain.size}; they must agree"
        )
    if chain.length not in (None, records):
        raise InvalidInput(
            f"the table of erasures has {records} records, the chain {chain.length}; they must "
            "agree"
        )
    check_inside(against, records)


ENDLESS = 2**62
"""Records that no series has: distances are not told apart beyond."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Records by what they may show: all values (small), some (medium), none (large)."""

    small: tuple[int, ...]
    medium: tuple[int, ...]
    large: tuple[int, ...]


def influence(chain: MarkovChain, target: int, record: Any, value: Any = None) -> float:
    """Return how much one record, or several, can say about the target.

    The pointwise influence ln max Pr[X_record = value | X_target = x] / Pr[.. | x'] over pairs x,
    x', for a given value; the largest over all values (the max-influence) without one.
    Definition 3 of [massny2025]. Of several records (and as many values) only the nearest on
    each side of the target count, because the chain forgets the rest there. A record says
    nothing about itself: 0. Differs from the paper: any number of states, so the maximum is over
    all pairs of values.

    >>> chain = MarkovChain([[.75, .25], [.5, .5]])
    >>> influence(chain, 0, 1, 0), influence(chain, 0, 1)
    (0.405465, 0.693147)
    """
    target = check_count(target, "target", 0)
    many = isinstance(record, Sequence | np.ndarray)
    records = [check_count(r, "record", 0) for r in (record if many else [record])]
    values: list[State] = [None] * len(records)
    if value is not None:
        values = list(value) if many else [value]
        if len(values) != len(records):
            raise InvalidInput(f"{len(records)} records need as many values, found {len(values)}")
    total: Any = 0.0
    for right in (False, True):
        beside = [
            (abs(r - target), r, v)
            for r, v in zip(records, values, strict=True)
            if r != target and (r > target) == right
        ]
        if beside:
            _, near, what = min(beside, key=lambda each: each[0])
            ratios = _log_ratios(chain, target, near)
            blank = np.where(np.isnan(ratios), -np.inf, ratios)
            total = total + (blank.max(axis=1) if what is None else blank[:, chain.index(what)])
    return float(np.max(total, initial=0.0))


def _log_ratios(chain: MarkovChain, target: int, record: int) -> Array:
    """Return ln Pr[X_record = v | X_target = x] / Pr[.. | x'], a row for each ordered pair.

    NaN where a value of the target is impossible, or the state under both values.
    """
    law = chain.law(target)
    if record > target:
        backward = np.array(chain.between(target, record))
    else:
        joint = chain.law(record)[:, None] * chain.between(record, target)  # (v, x)
        backward = joint.T / np.where(law > 0, law, 1.0)[:, None]  # (x, v), by Bayes' rule
    backward[law <= 0] = np.nan
    value, other = ordered_pairs(chain.size)
    return log_ratio(backward[value], backward[other])


def influences(chain: MarkovChain, target: int, length: int) -> Array:
    """Return the pointwise influence of the target on each value of each record, (length, k).

    The target itself gets inf: its value would say everything. A value that a record cannot
    take gets 0. Cost O(n k^3).

    >>> influences(MarkovChain([[.75, .25], [.5, .5]]), 0, 3).round(4).tolist()
    [[inf, inf], [0.4055, 0.6931], [0.0953, 0.1823]]
    """
    value, other = ordered_pairs(chain.size)
    law = chain.law(target)
    possible = (law[value] > 0) & (law[other] > 0)
    values = np.full((length, chain.size), np.inf)
    ones = np.ones((length, chain.size))
    for right in (False, True):
        side = build_side(chain, ones, target, right, None)
        ratios = plain_ratios(side)[:, possible]  # (T, pairs, k)
        best = np.where(np.isnan(ratios), 0.0, ratios).max(axis=1, initial=0.0)  # (T, k)
        records = target + np.arange(1, side.room + 1) * (1 if right else -1)
        values[records] = best
    return values


def regions(chain: MarkovChain, target: int, epsilon: float, length: int | None = None) -> Regions:
    """Return the regions S, M, L around a target: the records by what they may show at a budget.

    Small: every value has a pointwise influence of at most epsilon. Medium: some values have.
    Large: none, and the target itself (in the paper by intention; its formula leaves it out).
    Section II of [massny2025], for any number of states.

    >>> regions(MarkovChain([[.99, .01], [.8, .2]], length=5), 0, 1.0)
    Regions(small=(3, 4), medium=(1, 2), large=(0,))
    """
    epsilon = check_epsilon(epsilon)
    length = _length(chain, length)
    if check_count(target, "target", 0) >= length:
        raise InvalidInput(f"record {target} is outside the {length} records, counted from 0")
    below = influences(chain, target, length) <= epsilon  # (records, k)
    every, some = below.all(axis=1), below.any(axis=1)
    return Regions(
        small=tuple(np.flatnonzero(every).tolist()),
        medium=tuple(np.flatnonzero(some & ~every).tolist()),
        large=tuple(np.flatnonzero(~some).tolist()),
    )


def redaction_radius(mechanism: Redaction, target: int | None = None) -> tuple[int, int]:
    """Return how many records next to a protected one are always erased, left and right.

    Definition 5 of [massny2025].

    >>> redaction_radius(Redaction([[0, 0], [1, 1], [1, 1], [1, 1], [0, 1]], protect=2))
    (1, 1)
    """
    target = mechanism.protect[0] if target is None else target
    shown = np.flatnonzero((mechanism.probabilities < 1).any(axis=1))
    left, right = shown[shown < target], shown[shown > target]
    return (
        int(target - 1 - left[-1]) if left.size else target,
        int(right[0] - target - 1) if right.size else mechanism.length - 1 - target,
    )


def window_bound(
    chain: MarkovChain, target: int, length: int, epsilon: float, printed: bool = False
) -> float:
    """Return an upper bound on the utility of erasures that do not look at the values.

    Theorem 2 of [massny2025], against an attacker who knows no other record. Differs from the
    paper: R2 = min{R1, max(1, 2 Delta*(epsilon / 2) - 2)}, because two windows whose widths
    differ by one can be private where the printed bound, 2 Delta*(epsilon / 2) - 1, excludes
    them; and it is refused for alpha + beta > 1, where influences are not convex and windows of
    very different widths can be private. ``printed`` asks for the theorem as printed, which is no
    bound.

    >>> chain = MarkovChain([[.8, .2], [.3, .7]])
    >>> window_bound(chain, 5, 12, .92), window_bound(chain, 5, 12, .92, printed=True)
    (0.6667, 0.5833)
    """
    alpha, beta = binary_rates(chain, "the window bound")
    if not printed and alpha + beta > 1:
        raise MethodRefused(
            "the window bound needs neighbours that agree more often than not, Pr(0 -> 1) + "
            f"Pr(1 -> 0) <= 1, found {alpha + beta:g}; use method='optimal' or 'mq'"
        )
    place = min(target + 1, length - target)  # counted from 1, from the nearer end

    near, far = (widest(alpha, beta, room) for room in (place - 1, length - place))
    if epsilon < far:
        return 0.0
    whole, half = (least_distance(alpha, beta, share) for share in (epsilon, epsilon / 2))
    one_sided = whole + place - 1
    if epsilon < near + far:
        return max(1 - one_sided / length, 0.0)
    two_sided = 2 * half - 1 if printed else max(1, 2 * half - 2)
    return max(1 - min(one_sided, two_sided) / length, 0.0)


def binary_rates(chain: MarkovChain, who: str) -> tuple[float, float]:
    """Return Pr(0 -> 1) and Pr(1 -> 0) of a stationary chain on two states, or refuse the chain.

    >>> binary_rates(MarkovChain([[.9, .1], [.4, .6]]), "this")
    (0.1, 0.4)
    """
    if chain.size != 2 or not chain.homogeneous or not isinstance(chain.start, str):
        raise MethodRefused(
            f"{who} is stated for two states, one transition matrix and a stationary start; use "
            "method='mq' or 'optimal'"
        )
    alpha, beta = float(chain.transition[0, 1]), float(chain.transition[1, 0])
    if not (0 < alpha < 1 and 0 < beta < 1):
        raise MethodRefused(
            f"{who} is stated for chains in which every step is possible; use method='mq' or "
            "'optimal'"
        )
    return alpha, beta


def widest(alpha: float, beta: float, distance: int) -> float:
    """Return the max-influence at a distance on a stationary chain of two states, 0 at 0.

    Proposition 1 of [massny2025], for either order of the rates.

    >>> widest(0.25, 0.5, 1)
    0.693147
    """
    if not distance:
        return 0.0
    factor = max(alpha / beta, beta / alpha)
    if alpha + beta < 1:  # what is forgotten can be far below what is left
        forgotten = -math.expm1(distance * math.log1p(-alpha - beta))
        return abs(math.log1p(factor * (1 - forgotten)) - math.log(forgotten))
    fading = (1 - alpha - beta) ** distance
    return abs(math.log1p(factor * fading) - math.log1p(-fading))


def least_distance(alpha: float, beta: float, epsilon: float) -> int:
    """Return Delta*(epsilon), the least distance with a max-influence of at most epsilon.

    Bisection, because influences fall with the distance; past `ENDLESS` no series ends.

    >>> least_distance(0.25, 0.5, 0.5)
    2
    """
    high = 1
    while high < ENDLESS and widest(alpha, beta, high) > epsilon:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if widest(alpha, beta, middle) > epsilon else (low, middle)
    return high


def _length(chain: MarkovChain, length: int | None) -> int:
    """Return the number of records, stated or of the chain."""
    records = chain.length if length is None else check_count(length, "length", 1)
    if records is None:
        raise InvalidInput("the chain has no length; say how many records: length=100")
    if chain.length not in (None, records):
        raise InvalidInput(f"length is {records}, but the chain has {chain.length} records")
    return records
