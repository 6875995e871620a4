"""The plain versions that the library is measured against: no pruning, no certificate, no sharing.

They compute the same numbers from the same formulas, one option after another.
"""

import itertools

import numpy as np

import undertow as ut


def exchange(chain: ut.MarkovChain, epsilon: float, reach: int) -> float:
    """Return the leakage against any adversary, known records up to ``reach`` away.

    Dinkelbach's iteration on explicit bridge kernels, for each side, pair, distance and value.
    """
    kernel = np.asarray(chain.transition)
    size = chain.size
    joint = chain.initial[:, None] * kernel
    backward = joint.T / chain.initial[:, None]
    best = {}
    for side, forward in (("left", backward), ("right", kernel)):
        powers = [np.eye(size)]
        for _ in range(reach):
            powers.append(powers[-1] @ forward)
        for x, y in itertools.permutations(range(size), 2):
            gains = [_dinkelbach([forward] * reach, epsilon, x, y)]
            for distance in range(1, reach + 1):
                for v in range(size):
                    steps = []
                    for left in range(distance, 1, -1):
                        rows = forward * powers[left - 1][:, v]
                        steps.append(rows / rows.sum(axis=1, keepdims=True))
                    gains.append(_dinkelbach(steps, epsilon, x, y))
            best[side, x, y] = max(gains)
    pairs = itertools.permutations(range(size), 2)
    return epsilon + max(best["left", x, y] + best["right", x, y] for x, y in pairs)


def _dinkelbach(steps: list[np.ndarray], epsilon: float, x: int, y: int) -> float:
    if not steps:
        return 0.0
    ratio = 1.0
    for _ in range(60):
        top, bottom = steps[0][x], steps[0][y]
        for place in range(len(steps)):
            boost = np.where(top - ratio * bottom > 0, np.exp(epsilon), 1.0)
            top, bottom = top * boost, bottom * boost
            if place + 1 < len(steps):
                top, bottom = top @ steps[place + 1], bottom @ steps[place + 1]
            scale = bottom.max()
            top, bottom = top / scale, bottom / scale
        found = top.sum() / bottom.sum()
        if found <= ratio * (1 + 1e-14):
            break
        ratio = found
    return float(np.log(ratio))


def count(chain: ut.MarkovChain, counted: list[int], scale: float, reach: int) -> float:
    """Return the leakage of a noisy count, known records up to ``reach`` away on both sides.

    The law of every window by transfer matrices, the noise by a full sum, every answer looked at.
    """
    kernel, size = np.asarray(chain.transition), chain.size
    marks = np.isin(np.arange(size), counted).astype(int)
    powers = [np.linalg.matrix_power(kernel, step) for step in range(reach + 1)]
    sides: dict[str, list[tuple[int, int, np.ndarray]]] = {"left": [], "right": []}
    for side, step in (("left", kernel.T), ("right", kernel)):
        table = step[:, :, None]  # (target value, last state, count)
        for distance in range(1, reach + 1):
            power = powers[distance].T if side == "left" else powers[distance]
            for v in range(size):
                sides[side].append((distance, v, table[:, v] / power[:, v : v + 1]))
            moved = np.zeros((size, size, table.shape[2] + 1))
            for state in range(size):
                moved[:, state, marks[state] : marks[state] + table.shape[2]] += table[:, state]
            table = np.einsum("xsj,sv->xvj", moved, step)
    best = 0.0
    for (_, _, left), (_, _, right) in itertools.product(sides["left"], sides["right"]):
        answers = np.arange(left.shape[1] + right.shape[1])
        noise = np.exp(-np.abs(answers[:, None] - answers[None, :]) / scale)
        logs = []
        for x in range(size):
            law = np.zeros(len(answers))
            window = np.convolve(left[x], right[x])
            law[marks[x] : marks[x] + len(window)] = window
            logs.append(np.log(noise @ law))
        for x, y in itertools.permutations(range(size), 2):
            best = max(best, float((logs[x] - logs[y]).max()))
    return best


def quilt_scale(chain: ut.MarkovChain, epsilon: float) -> float:
    """Return the scale of MQMExact, looking at every quilt of every record: O(T^3)."""
    length, size = chain.length or 0, chain.size
    kernel, law = np.asarray(chain.transition), np.asarray(chain.initial)
    powers = [np.eye(size)]
    for _ in range(length):
        powers.append(powers[-1] @ kernel)
    pairs = list(itertools.permutations(range(size), 2))
    left = np.array(
        [
            [np.log(p[:, x] * law[y] / (p[:, y] * law[x])).max() for x, y in pairs]
            for p in powers[1:]
        ]
    )
    right = np.array([[np.log(p[x] / p[y]).max() for x, y in pairs] for p in powers[1:]])
    worst = 0.0
    for i in range(length):
        best = length / epsilon
        inside = np.arange(1, length - i + 1)
        for a in range(1, i + 2):  # a = i + 1 and c = length - i: no record there
            share = left[a - 1] if a <= i else np.zeros(len(pairs))
            beyond = np.vstack([right[: length - i - 1], np.zeros(len(pairs))])
            influence = (share + beyond).max(axis=1)
            fits = influence < epsilon
            if fits.any():
                scales = (a + inside[fits] - 1) / (epsilon - influence[fits])
                best = min(best, float(scales.min()))
        worst = max(worst, best)
    return worst


def varied_quilt_scale(chain: ut.MarkovChain, epsilon: float) -> float:
    """Return the scale of MQMExact where steps differ, from the definition of max-influence.

    For every record i and quilt (a, c): the largest log-ratio of Pr[X_a = u, X_c = v | X_i = x] for
    two values x. O(T^3) quilts, each with its own conditional laws.
    """
    length, size = chain.length or 0, chain.size
    laws = [np.asarray(chain.law(record)) for record in range(length)]
    between = [[chain.between(i, j) for j in range(i, length)] for i in range(length)]
    worst = 0.0
    for i in range(length):
        best = length / epsilon
        for a, c in itertools.product([None, *range(i)], [None, *range(i + 1, length)]):
            inside = (length if c is None else c) - (-1 if a is None else a) - 1
            # Pr[quilt | x] up to nothing: (x, u, v), a missing side has one value
            left = np.ones((size, 1))
            if a is not None:
                left = (laws[a][:, None] * between[a][i - a] / laws[i]).T
            right = np.ones((size, 1)) if c is None else between[i][c - i]
            seen = left[:, :, None] * right[:, None, :]
            influence = float(np.log(seen[:, None] / seen[None, :]).max())
            if influence < epsilon:
                best = min(best, inside / (epsilon - influence))
        worst = max(worst, best)
    return worst


def count_distance(chain: ut.MarkovChain, counted: list[int]) -> int:
    """Return the Wasserstein distance of a count, comparing the laws of every record's window."""
    length, size = chain.length or 0, chain.size
    kernel, law = np.asarray(chain.transition), np.asarray(chain.initial)
    backward = (law[:, None] * kernel).T / law[:, None]
    marks = np.isin(np.arange(size), counted).astype(int)
    sides = []
    for step in (backward, kernel):
        laws = [np.ones((size, 1))]
        for _ in range(length - 1):
            moved = np.zeros((size, laws[-1].shape[1] + 1))
            for state in range(size):
                moved[state, marks[state] : marks[state] + laws[-1].shape[1]] = laws[-1][state]
            laws.append(step @ moved)
        sides.append(laws)
    worst = 0
    for i in range(length):
        for x, y in itertools.combinations(range(size), 2):
            below = []
            for state in (x, y):
                window = np.convolve(sides[0][i][state], sides[1][length - 1 - i][state])
                whole = np.zeros(len(window) + 1)
                whole[marks[state] : marks[state] + len(window)] = window
                below.append(np.cumsum(whole))
            for one, two in (below, below[::-1]):
                needed = np.searchsorted(two, one * (1 - 1e-12)) - np.arange(len(one))
                worst = max(worst, int(needed.max()))
    return worst
