"""Small Markov chains of every kind, deterministic from their seeds.

Positive entries are at least FLOOR: below that the linear programs of the oracle lose digits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import undertow as ut
from undertow.testing.enumeration import chain_joint

Floats = npt.NDArray[np.float64]
Start = Floats | Literal["stationary"]

FLOOR = 0.01


def stationary(transition: Floats) -> Floats:
    """Return the law with w P = w, by least squares (the package does it otherwise)."""
    size = len(transition)
    system = np.vstack([transition.T - np.eye(size), np.ones(size)])
    law, *_ = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)
    return law / law.sum()


@dataclass(frozen=True)
class Example:
    """A chain, its joint table for the oracle, and the model object for the package."""

    name: str
    transition: Floats
    start: Start
    length: int

    @property
    def size(self) -> int:
        return self.transition.shape[-1]

    @cached_property
    def initial(self) -> Floats:
        return stationary(self.transition) if isinstance(self.start, str) else self.start

    @cached_property
    def joint(self) -> Floats:
        return chain_joint(self.initial, self.transition, length=self.length)

    def model(self, states: tuple[Any, ...] | None = None) -> ut.MarkovChain:
        return ut.MarkovChain(self.transition, states=states, start=self.start, length=self.length)

    def any_length(self) -> ut.MarkovChain:
        return ut.MarkovChain(self.transition, start=self.start)

    def relabelled(self, order: list[int]) -> "Example":
        """Return the same chain with state order[i] called i."""
        start = self.start if isinstance(self.start, str) else self.start[order]
        turned = self.transition[..., order, :][..., order]
        return Example(self.name, turned, start, self.length)

    def reversed(self) -> "Example":
        """Return the chain that reads the records backwards."""
        steps = np.broadcast_to(self.transition, (self.length - 1, self.size, self.size))
        law, backwards = self.initial, []
        for step in steps:
            joint = law[:, None] * step
            law = joint.sum(axis=0)
            backwards.append(joint.T / law[:, None])
        return Example(self.name, np.array(backwards[::-1]), law, self.length)

    def __str__(self) -> str:
        return f"{self.name}-k{self.size}-n{self.length}"


def _rows(rng: np.random.Generator, *shape: int) -> Floats:
    """Return random laws along the last axis, every entry at least about FLOOR."""
    rows = rng.dirichlet(np.full(shape[-1], 0.8), size=shape[:-1]).clip(1.5 * FLOOR)
    return rows / rows.sum(axis=-1, keepdims=True)


def _masked(rng: np.random.Generator, mask: Floats) -> Floats:
    rows = _rows(rng, *mask.shape) * mask
    return rows / rows.sum(axis=-1, keepdims=True)


def _law(rng: np.random.Generator, k: int) -> Floats:
    return _rows(rng, 1, k)[0]


Maker = Callable[[np.random.Generator, int, int], tuple[Floats, Start]]


def _generic(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    return _rows(rng, k, k), _law(rng, k)


def _stationary(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    return _rows(rng, k, k), "stationary"


def _sticky(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    return 0.25 * _rows(rng, k, k) + 0.75 * np.eye(k), "stationary"


def _negative(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    """A record seldom repeats the one before."""
    away = _masked(rng, 1 - np.eye(k))
    return 0.95 * away + 0.05 * np.eye(k), "stationary"


def _wavering(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    """Negatively correlated too, but quick to forget."""
    return 0.6 * _masked(rng, 1 - np.eye(k)) + 0.1 * _rows(rng, k, k) + 0.3 * np.eye(
        k
    ), "stationary"


def _zeros(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    """Some steps, and one first state, are impossible."""
    mask = (rng.random((k, k)) < 0.6).astype(np.float64)
    mask[np.arange(k), rng.permutation(k)] = 1.0
    first = np.ones(k)
    first[rng.integers(k)] = 0.0 if k > 2 else 1.0
    return _masked(rng, mask), _masked(rng, first[None])[0]


def _absorbing(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    rows = _rows(rng, k, k)
    rows[-1] = np.eye(k)[-1]
    return rows, _law(rng, k)


def _periodic(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    """Even states lead to odd ones and back."""
    parity = np.arange(k) % 2
    mask = (parity[:, None] != parity[None, :]).astype(np.float64)
    return _masked(rng, mask), _law(rng, k)


def _cycle(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    return np.roll(np.eye(k), 1, axis=1), _law(rng, k)


def _frozen(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    return np.eye(k), _law(rng, k)


def _varying(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    return _rows(rng, n - 1, k, k), _law(rng, k)


def _varying_zeros(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    """Every step has its own impossible moves; some states may be impossible at some time."""
    mask = (rng.random((n - 1, k, k)) < 0.55).astype(np.float64)
    for step in mask:
        step[np.arange(k), rng.integers(k, size=k)] = 1.0
    return _masked(rng, mask), _law(rng, k)


def _point_mass(rng: np.random.Generator, k: int, n: int) -> tuple[Floats, Start]:
    return _rows(rng, k, k), np.eye(k)[rng.integers(k)]


FAMILIES: dict[str, Maker] = {
    "generic": _generic,
    "stationary": _stationary,
    "sticky": _sticky,
    "negative": _negative,
    "wavering": _wavering,
    "zeros": _zeros,
    "absorbing": _absorbing,
    "periodic": _periodic,
    "cycle": _cycle,
    "frozen": _frozen,
    "varying": _varying,
    "varying-zeros": _varying_zeros,
    "point-mass": _point_mass,
}

POSITIVE = ("generic", "stationary", "sticky", "negative", "wavering", "varying")


def example(family: str, k: int, n: int, seed: int = 0) -> Example:
    """Return one chain of a family with k states and n records."""
    rng = np.random.default_rng([seed, *family.encode(), k, n])
    transition, start = FAMILIES[family](rng, k, n)
    return Example(family, transition, start, n)


def adversary(chain: Example, seed: int) -> tuple[int, tuple[int, ...]]:
    """Return a random target and known records of a chain."""
    rng = np.random.default_rng([seed, chain.length])
    order = [int(record) for record in rng.permutation(chain.length)]
    known = order[1 : 1 + int(rng.integers(0, chain.length))]
    return order[0], tuple(sorted(known))
