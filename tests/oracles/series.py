"""Brute force for flips and erasures on chains, written from the definitions and nothing else.

The leakage is the largest ln Pr[z | x_K, x] / Pr[z | x_K, x'] over targets, pairs of values, known
sets K with values x_K and outputs z; x_K must be possible with x and with x'. Three oracles:
`truth` takes the joint table of a short series and goes through all of these (long doubles, all
terms positive); `exact_ratio` does the same in fractions, series by series, with no reordering;
`long_leakage` walks along chains without zeros of any length, keeping per side the convex hull of
the likelihoods that some output attains. Where two apply they must agree, and `test_local` says so.
"""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import undertow as ut
from tests.oracles.enumeration import adversaries, largest, table_leakage
from tests.oracles.exact import largest_ratio

Floats = npt.NDArray[Any]
WIDE = np.longdouble


# --- the model and the mechanism as plain arrays --------------------------------------------------


def stationary(transition: Floats) -> list[Fraction]:
    """The law with w P = w, in exact arithmetic: states are removed one by one."""
    rows = [[Fraction(float(entry)) for entry in row] for row in transition]
    size = len(rows)
    for last in range(size - 1, 0, -1):
        away = sum(rows[last][:last])
        for x in range(last):
            rows[x][last] /= away
            for y in range(last):
                rows[x][y] += rows[x][last] * rows[last][y]
    law = [Fraction(1)]
    for state in range(1, size):
        law.append(sum((law[x] * rows[x][state] for x in range(state)), Fraction(0)))
    return [mass / sum(law) for mass in law]


def law_of(chain: ut.MarkovChain, n: int) -> tuple[Floats, Floats]:
    """The law of the first record, and the n - 1 transition matrices."""
    if isinstance(chain.start, str):
        first = stationary(chain.transition)
        initial = np.array([WIDE(f.numerator) / WIDE(f.denominator) for f in first])
    else:
        initial = np.asarray(chain.start, dtype=WIDE)
    size = chain.size
    return initial, np.broadcast_to(chain.transition.astype(WIDE), (n - 1, size, size))


def joint_of(chain: ut.MarkovChain, n: int) -> Floats:
    """The probability of every series, an axis for each record."""
    initial, steps = law_of(chain, n)
    table = initial
    for step in steps:
        table = table[..., None] * step
    return table


def channels_of(mechanism: Any, n: int) -> Floats:
    """Pr[output | state] of every record; the last output of a redaction is the erasure."""
    if isinstance(mechanism, ut.Redaction):
        erased = mechanism.probabilities.astype(WIDE)
        shown = np.eye(erased.shape[1], dtype=WIDE) * (1 - erased)[:, :, None]
        return np.concatenate([shown, erased[:, :, None]], axis=2)
    matrix = mechanism.matrix.astype(WIDE)
    return np.broadcast_to(matrix, (n, *matrix.shape))


def outputs_of(mechanism: Any, chain: ut.MarkovChain) -> list[Any]:
    """The names of the outputs, in the order of the channel's columns."""
    if isinstance(mechanism, ut.Redaction):
        return [*chain.states, None]
    if isinstance(mechanism, ut.XorNoise):
        return list(chain.states)
    if mechanism.outputs is not None:
        return list(mechanism.outputs)
    columns = mechanism.matrix.shape[1]
    return list(chain.states if columns == chain.size else range(columns))


def xor_likelihood(noise: Any, n: int) -> Floats:
    """Pr[z | x] with z = x xor y, y a stationary two-state chain: axes x_0 .. x_{n-1}, z."""
    up, down = WIDE(noise.rho0), WIDE(noise.rho1)
    step = np.array([[1 - up, up], [down, 1 - down]])
    table = np.array([down, up]) / (up + down)
    for _ in range(n - 1):
        table = table[..., None] * step
    flat = table.reshape(-1)
    code = np.arange(2**n)
    return flat[code[:, None] ^ code[None, :]].reshape((2,) * n + (2**n,))


# --- enumeration ----------------------------------------------------------------------------------


def channel_leakage(
    joint: Floats, channels: Floats, against: Any = "any", targets: Sequence[int] | None = None
) -> float:
    """The leakage of independent channels.

    What is shown of a known record is a factor of both probabilities, so it is left out.
    """
    n = joint.ndim
    worst = 0.0
    for target, known in adversaries(n, against, targets):
        table = joint
        for record in range(n):  # the first axis is worked on, and goes to the end
            if record == target:
                table = np.moveaxis(table, 0, -1)[..., None] * channels[record]
            elif record in known:
                table = np.moveaxis(table, 0, -1)
            else:
                table = np.tensordot(table, channels[record], axes=(0, 0))
        hidden = tuple(r for r in range(n) if r != target and r not in known)
        prior = np.expand_dims(joint.sum(axis=hidden, keepdims=True), target + 1)
        table, prior = np.moveaxis(table, target, 0), np.moveaxis(prior, target, 0)
        worst = max(worst, largest(table, np.broadcast_to(prior, table.shape)))
        if math.isinf(worst):
            break
    return worst


def truth(mechanism: Any, chain: Any, against: Any = "any", n: int | None = None) -> float:
    """The leakage by enumeration; the length must be small, and n where the chain has none."""
    if isinstance(chain, ut.ModelSet):
        return max(truth(mechanism, model, against, n) for model in chain.models)
    if isinstance(mechanism, ut.Redaction):
        n = mechanism.length
        table = channels_of(mechanism, n)
        return channel_leakage(joint_of(chain, n), table, against, mechanism.protect)
    n = n or chain.length
    if isinstance(mechanism, ut.XorNoise):
        return table_leakage(joint_of(chain, n), xor_likelihood(mechanism, n), against)
    return channel_leakage(joint_of(chain, n), channels_of(mechanism, n), against)


# --- fractions ------------------------------------------------------------------------------------


def exact_ratio(mechanism: Any, chain: ut.MarkovChain, against: Any = "any") -> Fraction | None:
    """e^leakage as a fraction, series by series and output by output; None stands for infinity.

    The floats of the chain and of the mechanism are taken for the numbers that they are.
    """
    n = chain.length or mechanism.length
    first = (
        stationary(chain.transition)
        if isinstance(chain.start, str)
        else [Fraction(float(mass)) for mass in chain.start]
    )
    law = {}
    for records in itertools.product(range(chain.size), repeat=n):
        law[records] = first[records[0]]
        for place, (x, y) in enumerate(itertools.pairwise(records)):
            law[records] *= Fraction(float(chain.step(place)[x, y]))
    targets = mechanism.protect if isinstance(mechanism, ut.Redaction) else None
    found = largest_ratio(law, lambda records: _exact_outputs(mechanism, records), against, targets)
    return None if found is None else Fraction(found)


def _exact_outputs(mechanism: Any, records: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """Pr[z | x] for all outputs z of one series x."""
    n = len(records)
    if isinstance(mechanism, ut.XorNoise):
        up, down = Fraction(mechanism.rho0), Fraction(mechanism.rho1)
        step, start = ((1 - up, up), (down, 1 - down)), (down / (up + down), up / (up + down))
        found = {}
        for noise in itertools.product(range(2), repeat=n):
            probability = start[noise[0]]
            for a, b in itertools.pairwise(noise):
                probability *= step[a][b]
            found[tuple(x ^ y for x, y in zip(records, noise, strict=True))] = probability
        return found
    if isinstance(mechanism, ut.Redaction):
        rows = []
        for record, state in enumerate(records):
            erased = Fraction(float(mechanism.probabilities[record, state]))
            row = [Fraction(0)] * mechanism.probabilities.shape[1] + [erased]
            row[state] = 1 - erased
            rows.append(row)
    else:
        rows = [[Fraction(float(entry)) for entry in mechanism.matrix[state]] for state in records]
    return {
        output: math.prod((row[z] for row, z in zip(rows, output, strict=True)), start=Fraction(1))
        for output in itertools.product(range(len(rows[0])), repeat=n)
    }


# --- a witness on trial ---------------------------------------------------------------------------


def replay(witness: Any, mechanism: Any, chain: ut.MarkovChain) -> float:
    """The log ratio that an attack attains: forward sums over hidden states, of any length."""
    n = witness.length
    initial, steps = law_of(chain, n)
    names = outputs_of(mechanism, chain)
    if isinstance(mechanism, ut.XorNoise):  # hidden state 2 x + y
        up, down = WIDE(mechanism.rho0), WIDE(mechanism.rho1)
        noise = np.array([[1 - up, up], [down, 1 - down]])
        initial = np.kron(initial, np.array([down, up]) / (up + down))
        steps = np.array([np.kron(step, noise) for step in steps])
        shown = np.array([[1, 0], [0, 1], [0, 1], [1, 0]], dtype=WIDE)
        channels, value = np.broadcast_to(shown, (n, 4, 2)), np.array([0, 0, 1, 1])
    else:
        channels, value = channels_of(mechanism, n), np.arange(chain.size)
    seen = {record: channels[record][:, names.index(output)] for record, output in witness.outputs}

    def logarithm(target: Any, outputs: dict[int, Floats]) -> float:
        pinned = {record: chain.index(fact) for record, fact in witness.known}
        pinned[witness.target] = chain.index(target)
        vector, total = initial, 0.0
        for record in range(n):
            if record:
                vector = vector @ steps[record - 1]
            if record in pinned:
                vector = vector * (value == pinned[record])
            if record in outputs:
                vector = vector * outputs[record]
            if not vector.any():
                return -math.inf
            total += float(np.log(vector.sum()))
            vector = vector / vector.sum()
        return total

    one, two = (logarithm(state, {}) for state in (witness.value, witness.other))
    assert math.isfinite(one + two), "the witness knows what cannot be"
    top, bottom = (logarithm(state, seen) for state in (witness.value, witness.other))
    assert math.isfinite(top), "the witness waits for what cannot be seen"
    return (top - one) - (bottom - two)


# --- long chains without zeros --------------------------------------------------------------------


def hull(points: Floats) -> Floats:
    """The corners of normalised likelihoods (rows) of two or three states."""
    if points.shape[1] == 2:
        order = np.argsort(points[:, 0])
        return points[[order[0], order[-1]]]
    flat = sorted({(float(a), float(b)) for a, b in points[:, :2]})

    def half(line: list[tuple[float, float]]) -> list[tuple[float, float]]:
        kept: list[tuple[float, float]] = []
        for c in line:
            while len(kept) > 1:
                (ax, ay), (bx, by) = kept[-2:]
                if (bx - ax) * (c[1] - ay) - (by - ay) * (c[0] - ax) > 1e-18:
                    break
                kept.pop()
            kept.append(c)
        return kept

    corners = {*half(flat), *half(flat[::-1])}
    return np.array([(a, b, 1 - a - b) for a, b in sorted(corners)])


def _sides(kernel: Floats, channel: Floats, reach: int, base: Floats) -> list[Floats]:
    """For each number of unknown records, the largest log ratio [x, x'] that outputs attain."""
    vectors, found = base / base.sum(axis=1, keepdims=True), []
    for _ in range(reach):
        logs = np.log(vectors)
        found.append((logs[:, :, None] - logs[:, None, :]).max(axis=0))
        moved = (vectors[:, None, :] * channel.T[None, :, :]).reshape(-1, len(kernel)) @ kernel.T
        vectors = hull(moved / moved.sum(axis=1, keepdims=True))
    return found


def long_leakage(
    transition: Any, matrix: Any, n: int, against: str = "any", *, profile: bool = False
) -> Any:
    """The leakage of one channel on a stationary chain without zeros, n records, k = 2 or 3.

    ``profile``: a table [x, x'] of the largest log ratios instead of the largest of all.
    """
    right, channel = np.array(transition, dtype=np.float64), np.array(matrix, dtype=np.float64)
    size = len(right)
    law = np.array([float(mass) for mass in stationary(right)])
    left = (law[:, None] * right).T / law[:, None]
    sides = []
    for kernel in (left, right):
        best = np.array(_sides(kernel, channel, n, np.ones((1, size))))
        if against == "any":
            power = np.eye(size)
            powers = [power := power @ kernel for _ in range(n - 1)]
            known = np.full((n, size, size), -np.inf)
            for value in range(size):
                path = _sides(kernel, channel, n - 1, kernel[:, value][None])
                for distance, (reached, power) in enumerate(zip(path, powers, strict=True), 1):
                    prior = np.log(power[:, value])
                    loss = reached - (prior[:, None] - prior[None, :])
                    known[distance] = np.maximum(known[distance], loss)
            best = np.maximum(best, np.maximum.accumulate(known, axis=0))
        sides.append(best)
    with np.errstate(divide="ignore"):
        logs = np.log(channel)
    own = (logs[:, None, :] - logs[None, :, :]).max(axis=2)
    table = np.max([sides[0][i] + sides[1][n - 1 - i] for i in range(n)], axis=0) + own
    return table if profile else float(table.max())


def long_xor(transition: Any, noise: Any, n: int, against: str = "any") -> float:
    """The leakage of XOR noise on a stationary two-state chain without zeros, n records.

    Given the output z_t, the noise is y_t = x_t xor z_t, so two hidden states remain. Per side and
    output at the near end, the least and the largest ratio of the likelihoods of 0 and 1 are kept:
    each step is a Moebius map of that ratio. Both chains are their own reversals.
    """
    p = np.array(transition, dtype=np.float64)
    y = np.array([[1 - noise.rho0, noise.rho0], [noise.rho1, 1 - noise.rho1]])
    rest = np.array([noise.rho1, noise.rho0]) / (noise.rho0 + noise.rho1)
    move = {
        (z, w): np.array([[p[a, b] * y[a ^ z, b ^ w] for b in (0, 1)] for a in (0, 1)])
        for z in (0, 1)
        for w in (0, 1)
    }

    def stepped(before: dict[int, list[Floats]]) -> dict[int, list[Floats]]:
        after: dict[int, list[Floats]] = {}
        for z in (0, 1):
            moved = [move[z, w] @ vector for w in (0, 1) for vector in before[w]]
            moved = sorted(moved, key=lambda v: v[0] / v[1])
            after[z] = [v / v.sum() for v in (moved[0], moved[-1])]
        return after

    def losses(base: dict[int, list[Floats]], priors: list[Floats]) -> list[Floats]:
        """For each length: the least and the largest ln L(0) / L(1), per output of the target."""
        found, sets = [], base
        for prior in priors:
            off = math.log(prior[0] / prior[1])
            logs = [[math.log(v[0] / v[1]) - off for v in sets[z]] for z in (0, 1)]
            found.append(np.array([[min(row), max(row)] for row in logs]))
            sets = stepped(sets)
        return found

    flat = np.ones(2)
    best = losses({0: [flat], 1: [flat]}, [flat] * n)
    if against == "any":
        best = [pair.copy() for pair in best]
        power = np.eye(2)
        powers = [power := power @ p for _ in range(n - 1)]
        reach = [np.array([[np.inf, -np.inf]] * 2) for _ in range(n)]
        for v in (0, 1):
            for shown in (0, 1):  # what is seen of the known record gives its noise away
                column = {z: [move[z, shown][:, v]] for z in (0, 1)}
                path = losses(column, [power[:, v] for power in powers])
                for distance, pair in enumerate(path, 1):
                    _widen(reach[distance], pair)
        for distance in range(1, n):
            _widen(reach[distance], reach[distance - 1])
        for pair, more in zip(best, reach, strict=True):
            _widen(pair, more)
    worst = 0.0
    for i in range(n):
        for z in (0, 1):
            own = math.log(rest[z] / rest[1 ^ z])
            low, high = best[i][z] + best[n - 1 - i][z] + own
            worst = max(worst, float(high), -float(low))
    return worst


def _widen(pair: Floats, more: Floats) -> None:
    pair[:, 0] = np.minimum(pair[:, 0], more[:, 0])
    pair[:, 1] = np.maximum(pair[:, 1], more[:, 1])
