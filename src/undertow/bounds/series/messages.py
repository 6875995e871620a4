"""Two states: the extreme messages of a side, one monotone map at a time.

A *message* is the likelihood of everything beyond a record, given that record's value. Of two
states only its log-ratio R matters, and one step inwards over an output z is

    R' = M(R),      M(R) = ln (G00 e^R + G01) / (G10 e^R + G11),

G[x, y] = K[x, y] B(y, z) for channels. M rises or falls throughout, so the largest and the
smallest R' over all outputs farther away come from the largest and the smallest R: two numbers
per option are enough, however long the side. Ratios may be infinite (an output that excludes a
state); a message that excludes both states is impossible and drops out.

Noise that is itself a chain has G[x, y] = K[x, y] N[x + o, y + z] (modulo two) between a record
that shows o and one that shows z: there is then a message for each output of the inner record.

Rounding. M never stretches: it shrinks Hilbert's projective metric by tanh(D / 4) at least, with
D = |ln G00 G11 / (G01 G10)|. So the error after t steps is at most 1 / (1 - tanh(D / 4)) times that
of one step, and never more than t times. One step takes logarithms, exponentials and sums of
numbers of size at most S (the largest entry or log-ratio met): fewer than 36 S + 12 roundings.
`LOG_ERROR` charges twice that, because a gain is the difference of two log-ratios.
"""

import math
from collections.abc import Iterator

import numpy as np

from undertow.bounds.chains.known import Ints, log
from undertow.bounds.series.observed import ObservedChain, Option
from undertow.bounds.series.rungs import Rung, gains
from undertow.numerics import ROUNDOFF, Array, log_ratio

__all__ = ["FLIP", "Extremes", "intervals", "law_ratios", "own_weights", "pulls", "rung", "traced"]

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
    found = np.empty(records)
    found[0] = ratio[0]
    for record in range(1, records):
        ratio = _carry(log(chain.step(record - 1).T), ratio)
        found[record] = ratio[0]
        if chain.homogeneous and found[record] == found[record - 1]:
            found[record:] = found[record]
            break
    kernels = log(chain.transition)
    size = 1.0 + max(_size(found), _size(kernels))
    return found, LOG_ERROR * size * _counted(kernels, np.arange(1.0, records + 1)) * ROUNDOFF


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
    said = FLIP[:, None] * prior[:, None, :]  # (N, direction, v)
    known, free = message[..., :2], message[..., 2]
    return gains((known, known), (free, free), said, law, error)


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
