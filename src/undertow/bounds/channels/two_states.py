"""Sides of a chain whose records are shown, read outwards; exact for two states.

A side has an option: the nearest known record at some distance with some value, or nothing known up
to the end of the series. The loss is own + left + right, and the gain of a side is the log-ratio of
its messages with the outputs less that without them (docs, theory: the sides are independent).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from undertow.bounds.levels.sides import Bools, Ints, far_supports, log
from undertow.errors import InvalidInput
from undertow.models.chains import MarkovChain
from undertow.numerics import GAP, ROUNDOFF, Array, freeze, log_ratio

__all__ = [
    "FLIP",
    "PLAIN",
    "TAIL",
    "Extremes",
    "ObservedChain",
    "Option",
    "Products",
    "Reader",
    "Rung",
    "SeriesAttack",
    "TwoStates",
    "climb",
    "gains",
    "intervals",
    "law_ratios",
    "observe",
    "own_weights",
    "primitive",
    "pulls",
    "rung",
    "traced",
]


PLAIN = 1e-60
"""Least probability with which messages are carried as plain numbers: past a positive step the
entries of a message differ by no more than this factor, so none that matters can underflow."""


@dataclass(frozen=True, slots=True)
class ObservedChain:
    """A chain and what is shown of its records.

    ``channels`` is Pr[output | state] with shape (n, k, m), or (1, k, m) where all records go
    through the same channel. With ``noise``, a transition matrix of two states, a stationary
    noise chain is added modulo two instead, and ``channels`` only says how often a record is
    flipped. ``length`` None stands for any length.
    """

    chain: MarkovChain
    channels: Array
    length: int | None
    noise: Array | None = None

    @property
    def size(self) -> int:
        """The number of states."""
        return self.chain.size

    @property
    def alike(self) -> bool:
        """Whether all steps and all channels are the same."""
        return self.chain.homogeneous and len(self.channels) == 1

    def kernel(self, record: int, side: int) -> Array:
        """Return K[x, y] from a record (x) to the next one outwards (y).

        ``side`` is 1 to the right, where K is the transition matrix, and -1 to the left, where it
        is the transposed one: the law of the target cancels.
        """
        return np.asarray(self.chain.step(record) if side > 0 else self.chain.step(record - 1).T)

    def channel(self, record: int) -> Array:
        """Return the channel of a record."""
        return np.asarray(self.channels[0 if len(self.channels) == 1 else record])


@dataclass(frozen=True, slots=True)
class Option:
    """Knowledge on a side: ``value`` at ``distance``, or nothing on ``distance`` records."""

    distance: int
    value: int | None = None


@dataclass(frozen=True, slots=True)
class SeriesAttack:
    """A target, what is known left and right of it, and the two values that are compared."""

    target: int
    length: int
    left: Option
    right: Option
    value: int
    other: int

    def sides(self) -> tuple[tuple[int, Option], tuple[int, Option]]:
        """Return (-1, left) and (1, right)."""
        return (-1, self.left), (1, self.right)

    def known(self) -> dict[int, int]:
        """Return the nearest known records and their values."""
        return {
            self.target + side * option.distance: option.value
            for side, option in self.sides()
            if option.value is not None
        }


def observe(chain: MarkovChain, channels: object) -> ObservedChain:
    """Return the chain with checked channels: one (k, m) matrix, or a stack (n, k, m).

    >>> observe(MarkovChain([[.9, .1], [.2, .8]]), [[.8, .2], [.3, .7]]).alike
    True
    """
    stack = freeze(channels)
    stack = stack[None] if stack.ndim == 2 else stack
    if stack.ndim != 3 or stack.shape[1] != chain.size or not stack.size:
        raise InvalidInput(
            f"the chain has {chain.size} states; channels must have shape ({chain.size}, outputs) "
            f"or (records, {chain.size}, outputs), found {freeze(channels).shape}"
        )
    length = chain.length
    if len(stack) > 1:
        if length not in (None, len(stack)):
            raise InvalidInput(
                f"there are channels for {len(stack)} records, but the chain has {length}"
            )
        length = len(stack)
    return ObservedChain(chain, stack, length)


def primitive(chain: MarkovChain) -> bool:
    """Return whether the states of a homogeneous chain all mix in the end, whatever the start.

    >>> primitive(MarkovChain([[0, 1], [1, 0]])), primitive(MarkovChain([[0, 1], [.5, .5]]))
    (False, True)
    """
    if not chain.homogeneous:
        return True
    return bool(far_supports(chain.transition).all())


TAIL = GAP / 64
"""How far the bound on all options beyond a distance may lie above the best one before it when a
side is read no farther (upper side)."""


@dataclass(frozen=True, slots=True)
class Rung:
    """What N targets gain at one distance, or one target at N distances.

    Axes: N; own output (one class for channels, two for noise that is a chain); ordered pair of
    values; known value. ``known`` (N, O, D, V) is -inf where impossible. ``free`` (N, O, D):
    nothing is known, and only the outputs up to here are used. Both come as what was found and as
    a certified upper end. ``top`` (N, O, D) bounds all messages from here on, ``base`` (N, D)
    from below what known values say by themselves; ``law`` (N, D) is what the law of the target
    says, seen from the left.
    """

    known: Array
    known_upper: Array
    free: Array
    free_upper: Array
    top: Array
    base: Array
    law: Array


class Reader(Protocol):
    """A way to read the sides of a series."""

    longest: int
    """Records read on a side of a chain of any length (cost)."""

    mirrored: bool
    """Whether a stationary chain, all alike, looks the same in both directions."""

    def own(self, targets: Ints) -> tuple[Array, Ints]:
        """Return the log-ratio of the target's own output and which it is, (N, O, D)."""

    def table(self, side: int, most: int, settled: Callable[[Rung], bool]) -> Rung:
        """Return the gains of one target by distance, where all are alike, until settled."""

    def rungs(self, side: int, targets: Ints, most: int) -> Iterator[Rung]:
        """Yield the gains of some targets, distance by distance."""

    def laws(self, records: int) -> tuple[Array, Array]:
        """Return the log-ratios of the first records' laws, (records, 2), and errors (records,)."""

    def outputs(
        self, target: int, side: int, option: Option, own: int, pair: int
    ) -> dict[int, int]:
        """Return the outputs behind the best gain of a side."""


def gains(
    known: tuple[Array, Array], free: tuple[Array, Array], prior: Array, law: Array, slack: Array
) -> Rung:
    """Return the gains: largest messages less the log-ratios of known values and of laws.

    ``known`` (N, O, D, V) and ``free`` (N, O, D) come as found and as upper ends; ``said`` is
    (N, D, V), ``law`` (N, D); ``slack`` (N,) is added to all upper ends.
    """
    raised = np.broadcast_to(slack, law.shape[:1])[:, None, None]  # (N, 1, 1)
    with np.errstate(invalid="ignore"):
        gain, gain_upper = (part - prior[:, None] for part in known)  # (N, O, D, V)
        total, total_upper = (part - law[:, None] for part in free)  # (N, O, D)
    # (N, 1, D, V) and (N, 1, D)
    sure, certain = np.isfinite(prior)[:, None], np.isfinite(law)[:, None]
    return Rung(
        known=_possible(gain, sure),
        known_upper=_possible(gain_upper + raised[..., None], sure),
        free=_possible(total, certain),
        free_upper=_possible(total_upper + raised, certain),
        top=np.fmax.reduce(known[1], axis=3) + raised,
        base=np.fmin.reduce(prior, axis=2),
        law=law,
    )


def _possible(values: Array, sure: Bools) -> Array:
    """Return the values, -inf where they are undefined or their condition cannot occur."""
    return np.asarray(np.where(sure & ~np.isnan(values), values, -np.inf))


LOG_ERROR = 80.0
"""Roundings charged for each step of a side, per unit of size of its log-ratios (upper side)."""

FLIP = np.array([1.0, -1.0])
"""Direction 0 compares state 0 with 1, direction 1 the reverse."""


def pulls(channels: Array) -> tuple[Ints, Ints]:
    """Return the outputs with least and with largest ln B(0, z) / B(1, z) of each record.

    >>> pulls(np.array([[[.7, .2, .1], [.1, .2, .7]]]))
    (array([2]), array([0]))
    """
    ratio = log_ratio(channels[:, 0], channels[:, 1])  # (n, m)
    never = np.isnan(ratio)
    low = np.where(never, np.inf, ratio).argmin(axis=1)
    high = np.where(never, -np.inf, ratio).argmax(axis=1)
    return low, high


def own_weights(observed: ObservedChain, targets: Ints) -> tuple[Array, Ints]:
    """Return the log-ratio of the target's own output and which it is, (N, O, 2) by direction."""
    if observed.noise is not None:
        keep = log(observed.channels[0, 0])  # Pr[keep], Pr[flip]
        lean = keep[0] - keep[1]
        weight = np.array([[lean, -lean], [-lean, lean]])  # (own output, direction)
        both = np.array([[0, 0], [1, 1]])
        return np.tile(weight, (len(targets), 1, 1)), np.tile(both, (len(targets), 1, 1))
    at = targets if len(observed.channels) > 1 else np.zeros(len(targets), dtype=np.int64)
    shown = np.stack(pulls(observed.channels)[::-1], axis=1)[at]  # (N, direction)
    # (N, state, direction)
    here = np.take_along_axis(observed.channels[at], shown[:, None, :], axis=2)
    weight = FLIP * (log(here[:, 0]) - log(here[:, 1]))
    return weight[:, None, :], shown[:, None, :]


class _Links:
    """The maps G of all steps on one side, in logarithms, and who stands at their ends.

    Step t joins an inner and an outer record. Where all steps are alike there is one of them, from
    a record to another one like it.
    """

    def __init__(self, observed: ObservedChain, side: int) -> None:
        chain, noise, bit = observed.chain, observed.noise, np.arange(2)
        self.side, self.alike = side, observed.alike
        self.records = 1 if self.alike else observed.length or 2
        count = max(1, self.records - 1)
        steps = np.broadcast_to(chain.transition, (count, 2, 2))
        self.kernel = log(steps if side > 0 else steps.transpose(0, 2, 1))
        if noise is not None:
            before, after = bit[:, None, None, None] ^ bit[:, None], bit[:, None, None] ^ bit
            self.outputs = np.tile(bit, (count, 1))
            self.maps = self.kernel[:, None, None] + log(noise)[before, after]  # [t, o, z, x, y]
            self.known, self.follow = self.maps, bit
            return
        channels = observed.channels
        if len(channels) > 1:
            channels = channels[1:] if side > 0 else channels[:-1]
        channels = np.broadcast_to(channels, (count, *channels.shape[1:]))
        self.outputs = np.stack(pulls(channels), axis=1)  # (t, z): the least and the largest
        seen = np.take_along_axis(log(channels), self.outputs[:, None, :], axis=2)  # (t, y, z)
        # (t, 1, z, x, y)
        self.maps = (self.kernel[:, None] + seen.transpose(0, 2, 1)[:, :, None, :])[:, None]
        self.known, self.follow = self.kernel[:, None, None], np.zeros(2, dtype=np.int64)

    def outer(self, values: Array) -> Array:
        """Return the values at the outer record of each step."""
        if self.alike:
            return values
        return values[1:] if self.side > 0 else values[:-1]

    def inner(self, values: Array) -> Array:
        """Return values of steps by their inner record; a record without a step gets NaN."""
        if self.alike:
            return values
        edge = np.full((1, *values.shape[1:]), np.nan)
        return np.concatenate([values, edge] if self.side > 0 else [edge, values])

    def extend(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Return the extremes (N, O, C) one step inwards from those of the outer records."""
        both = self.outer(np.stack([low, high], axis=2))[:, None, self.follow]  # (t, 1, z, 2, C)
        shape = (*both.shape[:3], -1)
        ends = _carry(self.maps, both.reshape(shape))
        ends = ends.reshape(*ends.shape[:3], *both.shape[3:])  # (t, O, z, ends, C)
        least, largest = np.fmin.reduce(ends, axis=(2, 3)), np.fmax.reduce(ends, axis=(2, 3))
        return self.inner(least), self.inner(largest)

    def plain(self, ratio: Array) -> Array:
        """Return log-ratios (N, C) one step inwards, without outputs."""
        return self.inner(_carry(self.kernel, self.outer(ratio)))


def _carry(maps: Array, ratio: Array) -> Array:
    """Return M(ratio): maps (..., 2, 2) in logarithms, ratios (..., C); NaN where impossible."""
    zero, one = np.minimum(ratio, 0.0), np.minimum(-ratio, 0.0)
    with np.errstate(invalid="ignore"):
        top = np.logaddexp(maps[..., 0, 0, None] + zero, maps[..., 0, 1, None] + one)
        low = np.logaddexp(maps[..., 1, 0, None] + zero, maps[..., 1, 1, None] + one)
        return np.asarray(top - low)


def _counted(maps: Array, steps: Array) -> Array:
    """Return how many errors of one step there are after so many steps through some maps."""
    with np.errstate(invalid="ignore"):
        # D of each map
        spread = np.abs(maps[..., 0, 0] + maps[..., 1, 1] - maps[..., 0, 1] - maps[..., 1, 0])
    widest = float(np.where(np.isnan(spread), np.inf, spread).max())
    shrink = math.tanh(widest / 4) + 64 * ROUNDOFF * (1 + min(widest, 700.0))
    return np.asarray(np.minimum(steps, 1 / (1 - shrink)) if shrink < 1 else steps)


def _size(values: Array) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def law_ratios(observed: ObservedChain, records: int) -> tuple[Array, Array]:
    """Return ln Pr[X_t = 0] / Pr[X_t = 1] of the first records and errors; nothing underflows."""
    chain = observed.chain
    ratio = log(chain.initial[:1]) - log(chain.initial[1:])
    if isinstance(chain.start, str):
        return np.full(records, ratio[0]), np.zeros(records)
    values = np.empty(records)
    values[0] = ratio[0]
    for record in range(1, records):
        ratio = _carry(log(chain.step(record - 1).T), ratio)
        values[record] = ratio[0]
        if chain.homogeneous and values[record] == values[record - 1]:
            values[record:] = values[record]
            break
    kernels = log(chain.transition)
    size = 1.0 + max(_size(values), _size(kernels))
    return values, LOG_ERROR * size * _counted(kernels, np.arange(1.0, records + 1)) * ROUNDOFF


Extremes = tuple[Array, Array, Array, Array, Array]
"""Least and largest messages (N, O, 3), priors (N, 2), laws (N,), errors (N,): see `rung`."""


def intervals(observed: ObservedChain, side: int, most: int) -> Iterator[Extremes]:
    """Yield the extremes at distances 1 .. most, of all records, or of one where all are alike.

    Where all are alike, the open left side at distance t is that of target t, start and all.
    """
    links = _Links(observed, side)
    ended = doubt = np.zeros(links.records)
    if side < 0:
        ended, doubt = law_ratios(observed, links.records)
    with np.errstate(invalid="ignore"):
        first = links.known[..., 0, :] - links.known[..., 1, :]  # (t, O, z, v)
        prior = links.inner(links.kernel[:, 0] - links.kernel[:, 1])  # (N, v)
    low = high = np.tile(ended[:, None, None], (1, links.maps.shape[1], 1))
    low, high = links.extend(low, high)
    low = np.concatenate([links.inner(np.fmin.reduce(first, axis=2)), low], axis=2)
    high = np.concatenate([links.inner(np.fmax.reduce(first, axis=2)), high], axis=2)
    size = max(1.0, _size(links.maps))
    many = _counted(links.maps, np.arange(most + 1.0))
    for step in range(1, most + 1):
        if step > 1:
            low, high = links.extend(low, high)
            prior = links.plain(prior)
        if links.alike and side < 0:
            ended = links.plain(ended[:, None])[:, 0]
        size = max(size, _size(low), _size(high), _size(ended))
        error = LOG_ERROR * (many[step] + 2.0) * (1.0 + size) * ROUNDOFF
        yield low, high, prior, ended, doubt + error


def rung(low: Array, high: Array, prior: Array, ended: Array, error: Array) -> Rung:
    """Return the gains from extremes (N, O, 3) of messages: known 0, known 1, nothing known."""
    message = np.stack([high, -low], axis=2)  # (N, O, direction, 3)
    law = FLIP * ended[:, None]  # (N, direction)
    signed = FLIP[:, None] * prior[:, None, :]  # (N, direction, v)
    known, free = message[..., :2], message[..., 2]
    return gains((known, known), (free, free), signed, law, error)


def traced(
    observed: ObservedChain, target: int, side: int, option: Option, own: int, direction: int
) -> dict[int, int]:
    """Return the outputs behind the best gain of a side, by record.

    The recursion runs once more along the side and keeps which output and which extreme every
    extreme came from; the choices are then read off from the target outwards.
    """
    count, far = option.distance, target + side * option.distance
    links = _Links(observed, side)
    at = np.arange(target, far, side)  # inner records
    steps = np.zeros(count, dtype=np.int64) if links.alike else (at if side > 0 else at - 1)
    choices: list[tuple[Ints, Ints]] = []
    if option.value is None:
        start = 0.0 if side > 0 else float(law_ratios(observed, far + 1)[0][far])
        ends = np.full((2, links.maps.shape[1]), start)  # (least or largest, o)
    else:
        with np.errstate(invalid="ignore"):
            first = links.known[steps[-1], ..., option.value]
            first = first[..., 0] - first[..., 1]  # (O, z)
        ends = np.stack([np.fmin.reduce(first, axis=1), np.fmax.reduce(first, axis=1)])
        choices.append(_pick(first[None]))
    for step in steps[::-1][len(choices) :]:
        moved = _carry(links.maps[step], ends[:, None, links.follow, None])[..., 0]  # (end, O, z)
        choices.append(_pick(moved))
        ends = np.stack([np.fmin.reduce(moved, axis=(0, 2)), np.fmax.reduce(moved, axis=(0, 2))])
    outputs: dict[int, int] = {}
    end, place = 1 - direction, own
    for index, (came, shown) in enumerate(reversed(choices)):
        output = int(shown[end, place])
        if index + 1 < count or option.value is None or observed.noise is not None:
            outputs[target + side * (index + 1)] = int(links.outputs[steps[index], output])
        end, place = int(came[end, place]), int(links.follow[output])
    return outputs


def _pick(values: Array) -> tuple[Ints, Ints]:
    """Return for the least and the largest entry (end, o, z) its end and its z: each (2, O)."""
    flat = values.transpose(1, 0, 2).reshape(values.shape[1], -1)  # (O, end and z)
    sized = np.clip(flat, -np.finfo(float).max, np.finfo(float).max)  # NaN loses to infinities
    least = np.where(np.isnan(flat), np.inf, sized).argmin(axis=1)
    most = np.where(np.isnan(flat), -np.inf, sized).argmax(axis=1)
    places = np.stack([least, most])  # (ends, O)
    return places // values.shape[2], places % values.shape[2]


PLAIN_ERROR = 20.0
"""Roundings charged for each factor of a product, and for each unit of a log-ratio (upper side)."""


def _patterned(
    observed: ObservedChain, target: int, side: int, option: Option, direction: int
) -> dict[int, int]:
    """Return the worst outputs of a side, by record."""
    low, high = pulls(observed.channels)
    shown = (high, low) if direction == 0 else (low, high)
    outputs: dict[int, int] = {}
    turned = 0
    last = option.distance if option.value is None else option.distance - 1
    for step in range(1, last + 1):
        record = target + side * step
        turned ^= int(_turns(observed.kernel(record - side, side)))
        outputs[record] = int(shown[turned][0 if len(low) == 1 else record])
    if option.value is None and side < 0 and last:
        outputs |= _certain(observed, target - last)
    return outputs


def _certain(observed: ObservedChain, record: int) -> dict[int, int]:
    """Return a possible output of a record that has only one possible value, or nothing."""
    law = observed.chain.law(record)
    if law.all():
        return {}
    return {record: int(observed.channel(record)[int(law.argmax())].argmax())}


def _turns(kernel: Array) -> Bools:
    """Return whether the map of a kernel (..., 2, 2) falls."""
    falls = kernel[..., 0, 0] * kernel[..., 1, 1] < kernel[..., 0, 1] * kernel[..., 1, 0]
    return np.asarray(falls)


class Products:
    """One side of a series all of whose steps and channels are alike, grown as far as needed."""

    def __init__(self, observed: ObservedChain, side: int) -> None:
        """Start with the identity and the first factor of each pass: 0 over 1, 1 over 0, none."""
        chain, channel = observed.chain, observed.channels[0]
        self.kernel = chain.transition if side > 0 else np.ascontiguousarray(chain.transition.T)
        self.far = np.ones(2) if side > 0 else chain.initial
        low, high = (channel[:, int(index[0])] for index in pulls(observed.channels))
        even = [high, low, np.ones(2)]
        odd = [low, high, np.ones(2)] if _turns(self.kernel) else even
        self.even = np.stack([self.kernel * seen / seen.max() for seen in even])  # pass, x, y
        self.table = np.empty((3, 2, 2, 2))  # pass, x, y, t
        self.table[..., 0] = np.eye(2)
        self.table[..., 1] = np.stack([self.kernel * seen / seen.max() for seen in odd])

    @property
    def steps(self) -> int:
        """Number of distances."""
        return self.table.shape[3] - 1

    def grow(self, steps: int) -> None:
        """Extend the products to at least so many factors, by doubling."""
        while self.steps < steps:
            count = self.steps + 1  # even: the pattern of outputs repeats after two records
            take = min(count, steps + 1 - count + (steps + 1) % 2)
            block = np.einsum("pxk,pky->pxy", self.table[..., -1], self.even)  # (pass, x, y)
            near = self.table[..., :take]  # (pass, x, y, t)
            part = (
                block[:, :, 0, None, None] * near[:, None, 0]
                + block[:, :, 1, None, None] * near[:, None, 1]
            )
            part /= part.max(axis=(1, 2), keepdims=True)
            self.table = np.concatenate([self.table, part], axis=3)

    def rung(self) -> Rung:
        """Return the gains at all distances as one rung, a row for each distance."""
        near, k = self.table[..., :-1], self.kernel
        # (pass, x, v, t)
        known = near[:, :, 0, None] * k[0][:, None] + near[:, :, 1, None] * k[1][:, None]
        # (pass, x, t)
        ended = self.table[:, :, 0, 1:] * self.far[0] + self.table[:, :, 1, 1:] * self.far[1]
        if not self.far.all():  # the first record is certain: as good as known
            ended = known[:, :, int(self.far.argmax())]
        ratio = np.log(known[:, 0]) - np.log(known[:, 1])  # (pass, v, t)
        total = np.log(ended[:, 0]) - np.log(ended[:, 1])  # (pass, t)
        return _passed(ratio.transpose(2, 0, 1), total.T, np.arange(1, self.steps + 1))


def _passed(ratio: Array, total: Array, steps: Ints) -> Rung:
    """Return the gains of three passes: known (N, 3, v) and open (N, 3), after so many steps."""
    size = 1.0 + float(np.abs(ratio).max())
    error = np.asarray(PLAIN_ERROR * (steps + 2.0 + size) * ROUNDOFF)
    every = np.concatenate([ratio, total[..., None]], axis=2)[:, :, None]  # (N, 3, 1, v and open)
    return rung(every[:, 1], every[:, 0], ratio[:, 2], total[:, 2], error)


def climb(observed: ObservedChain, side: int, targets: Ints, most: int) -> Iterator[Rung]:
    """Yield the gains of some targets at distances 1 .. most; nonsense where room is lacking."""
    chain, channels = observed.chain, observed.channels
    steps = chain.transition[None] if chain.homogeneous else chain.transition
    steps = steps if side > 0 else steps.transpose(0, 2, 1)
    falls = _turns(steps)
    shown = np.stack(pulls(channels))
    laws = np.ones((1, 2)) if side > 0 else chain.marginals(int(targets.max()) + 1)
    passed = targets if side < 0 else np.zeros_like(targets)  # roundings of their laws
    turned = np.zeros(len(targets), dtype=np.int64)
    near = np.broadcast_to(np.eye(2), (len(targets), 3, 2, 2))  # S: target, pass, x, y
    for distance in range(1, most + 1):
        record = np.maximum(targets + side * distance, 0)
        step = np.minimum(record - (side > 0), len(steps) - 1)
        kernel = steps[step]
        turned = turned ^ falls[step]
        known = (
            near[..., 0, None] * kernel[:, None, None, 0]
            + near[..., 1, None] * kernel[:, None, None, 1]
        )  # (N, 3, x, v)
        here = np.minimum(record, len(channels) - 1)
        pick = shown[np.stack([1 - turned, turned], axis=1), here[:, None]]  # (N, pass)
        seen = np.ones((len(targets), 3, 2))
        seen[:, :2] = channels[here[:, None], :, pick]
        near = known * seen[:, :, None, :]
        near = near / near.max(axis=(2, 3), keepdims=True)
        law = laws[np.minimum(record, len(laws) - 1)]  # (N, 2)
        # (N, pass, x)
        ended = near[..., 0] * law[:, None, None, 0] + near[..., 1] * law[:, None, None, 1]
        sure = np.flatnonzero(~law.all(axis=1))  # a certain record is as good as known
        ended[sure] = known[sure, :, :, law[sure].argmax(axis=1)]
        ratio = np.log(known[:, :, 0]) - np.log(known[:, :, 1])  # (N, 3, v)
        total = np.log(ended[..., 0]) - np.log(ended[..., 1])  # (N, 3)
        yield _passed(ratio, total, distance + passed)


class TwoStates:
    """Two states: products of matrices where every step is possible, else extreme messages."""

    longest: int = 65_536
    mirrored: bool = True  # every two-state chain is reversible

    def __init__(self, observed: ObservedChain) -> None:
        """Choose the way to read."""
        self.observed = observed
        # every transition is possible, so that the worst outputs form a pattern
        self.steady = observed.noise is None and bool(observed.chain.transition.min() >= PLAIN)
        if not primitive(observed.chain):
            self.longest = 64  # nothing merges, however far one reads

    def own(self, targets: Ints) -> tuple[Array, Ints]:
        """Return the log-ratio of the target's own output and which it is, (N, O, 2)."""
        return own_weights(self.observed, targets)

    def table(self, side: int, most: int, settled: Callable[[Rung], bool]) -> Rung:
        """Return the gains of one target by distance, where all are alike, until settled."""
        if self.steady:
            products, steps = Products(self.observed, side), 64
            while True:
                products.grow(min(steps, most))
                rung = products.rung()
                if products.steps >= most or settled(rung):
                    return rung
                steps *= 4
        read: list[Extremes] = []
        check = 16
        for extremes in intervals(self.observed, side, most):
            read.append(extremes)
            if len(read) == check:
                if settled(_stacked(read)):
                    break
                check += check // 2
        return _stacked(read)

    def rungs(self, side: int, targets: Ints, most: int) -> Iterator[Rung]:
        """Yield the gains of some targets, distance by distance."""
        if self.steady:
            yield from climb(self.observed, side, targets, most)
            return
        for low, high, prior, ended, error in intervals(self.observed, side, most):
            yield rung(*(part[targets] for part in (low, high, prior, ended, error)))

    def laws(self, records: int) -> tuple[Array, Array]:
        """Return the log-ratios of the first records' laws, (records, 2), and errors (records,)."""
        ratios, error = law_ratios(self.observed, records)
        return FLIP * ratios[:, None], error

    def outputs(
        self, target: int, side: int, option: Option, own: int, pair: int
    ) -> dict[int, int]:
        """Return the outputs behind the best gain of a side."""
        if not option.distance:
            return {}
        if self.steady:
            return _patterned(self.observed, target, side, option, pair)
        return traced(self.observed, target, side, option, own, pair)


def _stacked(read: list[Extremes]) -> Rung:
    """Return the rungs of one target as one, a row for each distance."""
    low, high, prior, ended, error = (np.concatenate(part) for part in zip(*read, strict=True))
    return rung(low, high, prior, ended, error)
