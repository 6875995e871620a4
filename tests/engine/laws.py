"""Laws with hidden states, ordinary and hostile, each as a model and as a joint table."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import undertow as ut
from undertow.testing import enumeration as oracle

Floats = npt.NDArray[np.float64]

A = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4], [0.3, 0.3, 0.3, 0.1],
              [0.05, 0.15, 0.1, 0.7]])  # fmt: skip
B = np.array([[0.7, 0.2, 0.08, 0.02], [0.3, 0.4, 0.2, 0.1], [0.1, 0.2, 0.4, 0.3],
              [0.02, 0.08, 0.2, 0.7]])  # fmt: skip
P3 = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
SYMBOLS = (0, 0, 1, 1)


@dataclass(frozen=True)
class Law:
    """A model of a few records and the joint table of their values."""

    model: Any
    joint: Floats


def stationary(matrix: Floats) -> Floats:
    """The stationary law of a matrix, by its linear equations."""
    size = len(matrix)
    equations = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    solution = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.asarray(np.maximum(solution, 0.0) / np.maximum(solution, 0.0).sum())


def chain(matrix: Floats, records: int) -> Law:
    """A chain of order one: one hidden state a value."""
    joint = oracle.chain_joint(stationary(matrix), matrix, records)
    return Law(ut.MarkovChain(matrix, tuple(range(len(matrix))), length=records), joint)


def hidden(matrix: Floats, symbols: tuple[int, ...], records: int) -> Law:
    """A hidden chain."""
    joint = oracle.hidden_joint(stationary(matrix), matrix, symbols, records)
    return Law(ut.HiddenChain(matrix, symbols, length=records), joint)


def order_two(tensor: Floats, records: int) -> Law:
    """A chain of order two; hidden state k x + y stands for x, then y."""
    size = len(tensor)
    pairs = np.zeros((size,) * 4)
    for x, y in itertools.product(range(size), repeat=2):
        pairs[x, y, y] = tensor[x, y]
    kernel = pairs.reshape(size**2, size**2)
    symbols = tuple(state % size for state in range(size**2))
    joint = oracle.hidden_joint(stationary(kernel), kernel, symbols, records)
    return Law(ut.MarkovChain.second_order(tensor, length=records), joint)


def rows(rng: np.random.Generator, shape: tuple[int, ...], hostile: bool) -> Floats:
    """Random rows; hostile ones have entries down to 1e-6, a few of them nearly certain."""
    table = rng.dirichlet(np.full(shape[-1], 0.25 if hostile else 1.0), size=shape[:-1])
    table = np.maximum(table, 1e-6 if hostile else 0.02)
    return np.asarray(table / table.sum(axis=-1, keepdims=True))


def adversary(rng: np.random.Generator, records: int, window: int = 1) -> ut.Adversary:
    """A random target with a random set of known records outside its window."""
    target = int(rng.integers(records - window + 1))
    others = [t for t in range(records) if not target <= t < target + window]
    return ut.Adversary(target, [t for t in others if rng.random() < 0.4])


def truth(law: Law, level: float, who: ut.Adversary, window: int = 1) -> float:
    """What all algorithms of a level leak to an adversary, over all it may know."""
    against = (who.target, who.known)
    return oracle.likelihood_leakage(law.joint, level, against, window).leakage
