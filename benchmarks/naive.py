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
