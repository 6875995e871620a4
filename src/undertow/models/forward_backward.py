"""Passes forth and back through hidden chains: compiled where numba is installed, plain elsewhere.

Attackers (`undertow.auditing`) and fits of hidden chains use the same loops.

Each loop walks over series that stand one after the other in ``codes``; ``ends`` says where each
ends. ``emission`` has the probability of each code (row) in each hidden state (column). ``steps``
holds one transition matrix, or with ``moving`` = 1 one for each step. A loop returns -1, or the
place of the first record at which the outputs so far have probability 0. Both ways do the same
operations in the same order.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["UNDERFLOW", "compiled", "decode", "expect", "smooth", "smooth_logs", "smooth_pair"]

TINY = 1e-290
"""Below it a product may lose digits (lower side): the sweep starts again with logarithms."""

UNDERFLOW = -2
"""What a sweep returns when a probability has become too small for it."""


@cache
def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loop of this module compiled, or as it is where numba is absent.

    What was compiled is kept on the disk, where there is a place that can be written to.

    >>> compiled(smooth_pair) is compiled(smooth_pair)
    True
    """
    try:
        from numba import njit  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return loop
    made: Callable[..., Any]
    try:
        made = njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # nowhere to keep it
        made = njit(nogil=True)(loop)
    return made


def smooth_pair(
    codes: Any, ends: Any, start: Any, steps: Any, moving: int, emission: Any, out: Any
) -> int:
    """Fill ``out`` (records, 2) with the posteriors of two hidden states.

    The way forth keeps Pr[state | outputs so far] in ``out``; the way back multiplies it by the
    probability of the outputs still to come. Both are rescaled at every record, so nothing but
    ``out`` grows with the records. Returns `UNDERFLOW` where a probability that is not 0
    becomes too small.
    """
    first = 0
    for end in ends:
        # a, b: Pr[state 0, outputs so far] and Pr[state 1, outputs so far], up to a common factor
        a, b = start[0] * emission[codes[first], 0], start[1] * emission[codes[first], 1]
        for t in range(first, end):
            if t > first:
                step = (t - first - 1) * moving  # the matrix that leads from record t - 1 to t
                a, b = (
                    (a * steps[step, 0, 0] + b * steps[step, 1, 0]) * emission[codes[t], 0],
                    (a * steps[step, 0, 1] + b * steps[step, 1, 1]) * emission[codes[t], 1],
                )
            total = a + b
            if total < TINY:
                return t if total == 0.0 else UNDERFLOW
            scale = 1.0 / total
            a *= scale
            b *= scale
            if (0.0 < a < TINY) or (0.0 < b < TINY):
                return UNDERFLOW
            out[t, 0] = a
            out[t, 1] = b
        # c, d: Pr[outputs after t | state] up to a common factor; after the last record, nothing
        c, d = 1.0, 1.0
        for t in range(end - 2, first - 1, -1):
            step = (t - first) * moving
            # b_t(x) = sum_y P(x, y) Pr[z_{t+1} | y] b_{t+1}(y)
            c *= emission[codes[t + 1], 0]
            d *= emission[codes[t + 1], 1]
            c, d = (
                steps[step, 0, 0] * c + steps[step, 0, 1] * d,
                steps[step, 1, 0] * c + steps[step, 1, 1] * d,
            )
            scale = 1.0 / (c + d)
            c *= scale
            d *= scale
            if (0.0 < c < TINY) or (0.0 < d < TINY):
                return UNDERFLOW
            # Pr[X_t = x | all outputs] is proportional to a_t(x) b_t(x)
            a = out[t, 0] * c
            b = out[t, 1] * d
            total = a + b
            if total < TINY:
                return UNDERFLOW
            scale = 1.0 / total
            out[t, 0] = a * scale
            out[t, 1] = b * scale
        first = end
    return -1


def smooth(
    codes: Any, ends: Any, start: Any, steps: Any, moving: int, emission: Any, out: Any
) -> int:
    """Fill ``out`` (records, states) with the posteriors of any number of hidden states."""
    size = start.size
    now = np.empty(size)
    new = np.empty(size)
    first = 0
    for end in ends:
        for t in range(first, end):
            total = 0.0
            step = (t - first - 1) * moving
            for y in range(size):
                mass = start[y]
                if t > first:
                    mass = 0.0
                    for x in range(size):
                        mass += now[x] * steps[step, x, y]
                # a_t(y) = Pr[z_t | y] sum_x a_{t-1}(x) P(x, y)
                new[y] = mass * emission[codes[t], y]
                total += new[y]
            if total < TINY:
                return t if total == 0.0 else UNDERFLOW
            for y in range(size):
                now[y] = new[y] / total
                if 0.0 < now[y] < TINY:
                    return UNDERFLOW
                out[t, y] = now[y]
        for x in range(size):
            now[x] = 1.0  # b_{end-1}: nothing is left to come
        for t in range(end - 2, first - 1, -1):
            step = (t - first) * moving
            for y in range(size):
                # b_t(x) = sum_y P(x, y) Pr[z_{t+1} | y] b_{t+1}(y)
                now[y] *= emission[codes[t + 1], y]
            whole = 0.0
            for x in range(size):
                mass = 0.0
                for y in range(size):
                    mass += steps[step, x, y] * now[y]
                new[x] = mass
                whole += mass
            total = 0.0
            for x in range(size):
                now[x] = new[x] / whole
                if 0.0 < now[x] < TINY:
                    return UNDERFLOW
                total += out[t, x] * now[x]
            if total < TINY:
                return UNDERFLOW
            for x in range(size):
                out[t, x] = out[t, x] * now[x] / total  # a_t(x) b_t(x), rescaled
        first = end
    return -1


def smooth_logs(
    codes: Any, ends: Any, start: Any, steps: Any, moving: int, emission: Any, out: Any
) -> int:
    """Do what `smooth` does where probabilities are too small for it: all inputs are logarithms."""
    size = start.size

    def log_total(law: Any, step: Any) -> float:  # ln sum_x exp(law(x) + step(x))
        peak = -np.inf
        for x in range(size):
            peak = max(peak, law[x] + step[x])
        if peak == -np.inf:
            return peak
        mass = 0.0
        for x in range(size):
            mass += math.exp(law[x] + step[x] - peak)
        return peak + math.log(mass)

    now = np.empty(size)
    new = np.empty(size)
    first = 0
    for end in ends:
        for t in range(first, end):
            top = -np.inf
            step = (t - first - 1) * moving
            for y in range(size):
                mass = start[y] if t == first else log_total(now, steps[step, :, y])
                new[y] = mass + emission[codes[t], y]  # ln a_t(y)
                top = max(top, new[y])
            if top == -np.inf:
                return t
            for y in range(size):
                now[y] = new[y] - top
                out[t, y] = now[y]
        for x in range(size):
            now[x] = 0.0  # ln b_{end-1}
        for t in range(end - 1, first - 1, -1):
            if t < end - 1:
                step = (t - first) * moving
                for y in range(size):
                    now[y] += emission[codes[t + 1], y]
                top = -np.inf
                for x in range(size):
                    new[x] = log_total(now, steps[step, x, :])  # ln b_t(x)
                    top = max(top, new[x])
                for x in range(size):
                    now[x] = new[x] - top
            best = -np.inf
            for x in range(size):
                best = max(best, out[t, x] + now[x])
            total = 0.0
            for x in range(size):
                out[t, x] = math.exp(out[t, x] + now[x] - best)  # a_t(x) b_t(x), the largest 1
                total += out[t, x]
            for x in range(size):
                out[t, x] /= total
        first = end
    return -1


def expect(
    codes: Any, ends: Any, start: Any, step: Any, owner: Any, scales: Any, ahead: Any,
    counts: Any, begun: Any,
) -> int:  # fmt: skip
    """Add up Pr[S_t = s, S_{t+1} = s' | all records] over steps in ``counts``, (states, states).

    ``begun`` gets the sum of Pr[S_first = s | all records] over series.

    Records are seen as they are: hidden state s shows the code ``owner[s]``. ``scales`` gets
    Pr[x_t | records before] of every record, the likelihood being their product; ``ahead``
    (records, hidden states) is used for the way forth. The two passes are those of `smooth`; one
    more product at each step on the way back gives the pair.
    """
    size = start.size
    now = np.empty(size)
    new = np.empty(size)
    first = 0
    for end in ends:
        for t in range(first, end):
            total = 0.0
            for y in range(size):
                mass = 0.0
                if owner[y] == codes[t]:
                    mass = start[y]
                    if t > first:
                        mass = 0.0
                        for x in range(size):
                            mass += now[x] * step[x, y]
                new[y] = mass
                total += mass
            if total <= 0.0:
                return t
            scales[t] = total
            for y in range(size):
                now[y] = new[y] / total  # Pr[S_t = y | records up to t]
                ahead[t, y] = now[y]
        for x in range(size):
            now[x] = 1.0  # Pr[records after t | S_t = x] / Pr[records after t | records up to t]
        for t in range(end - 1, first, -1):
            for x in range(size):
                mass = 0.0
                for y in range(size):
                    if owner[y] == codes[t]:
                        part = step[x, y] * now[y] / scales[t]
                        mass += part
                        counts[x, y] += ahead[t - 1, x] * part
                new[x] = mass
            for x in range(size):
                now[x] = new[x]
        for x in range(size):
            begun[x] += ahead[first, x] * now[x]
        first = end
    return -1


def decode(
    codes: Any, ends: Any, start: Any, steps: Any, moving: int, emission: Any, back: Any, path: Any
) -> int:
    """Fill ``path`` with the most likely hidden series; all inputs are logarithms.

    ``back`` (records, states) keeps where the best way to each state came from. Of ways that are
    equally likely, the one that comes from the lower state is taken.
    """
    size = start.size
    now = np.empty(size)
    new = np.empty(size)
    first = 0
    for end in ends:
        for t in range(first, end):
            top = -np.inf
            step = (t - first - 1) * moving
            for y in range(size):
                best = start[y]
                if t > first:
                    came = 0
                    # the best way to y is the best way to some x and a step (Bellman)
                    best = now[0] + steps[step, 0, y]
                    for x in range(1, size):
                        way = now[x] + steps[step, x, y]
                        if way > best:
                            best = way
                            came = x
                    back[t, y] = came
                new[y] = best + emission[codes[t], y]
                top = max(top, new[y])
            if top == -np.inf:
                return t
            for y in range(size):
                now[y] = new[y] - top
        last = 0
        for y in range(1, size):
            if now[y] > now[last]:
                last = y
        path[end - 1] = last
        for t in range(end - 1, first, -1):
            # back along the best ways
            last = back[t, last]
            path[t - 1] = last
        first = end
    return -1
