"""The only code that turns a true answer into a released one."""

from collections.abc import Callable

from undertow.mechanisms import Noise, TabulatedNoise, lattice_amount
from undertow.sampling.bits import Randomness
from undertow.sampling.integers import discrete_laplace
from undertow.sampling.normals import discrete_gaussian, rounded_normal
from undertow.sampling.tables import tabulated

__all__ = ["lattice_amount", "randomise"]

_DRAWS: dict[str, Callable[[float, int, Randomness], list[int]]] = {
    "laplace": discrete_laplace,  # on the lattice of a real answer
    "discrete-laplace": discrete_laplace,
    "gaussian": rounded_normal,
    "discrete-gaussian": discrete_gaussian,
}
"""Sampler of each kind of noise with an amount; all in whole numbers."""


def randomise(
    mechanism: Noise, answer: list[int], randomness: Randomness, length: int | None = None
) -> list[int]:
    """Return the whole-number answer plus the mechanism's noise, independent per number.

    >>> from undertow.mechanisms import DiscreteLaplace
    >>> from undertow.queries import Count
    >>> from undertow.sampling.bits import Secure
    >>> type(randomise(DiscreteLaplace(Count("a"), 2.0), [10], Secure())[0])
    <class 'int'>
    """
    if isinstance(mechanism, TabulatedNoise):
        noise = tabulated(mechanism, len(answer), randomness)
    else:
        amount = lattice_amount(mechanism, length)
        noise = _DRAWS[mechanism.kind](amount, len(answer), randomness)
    return [exact + z for exact, z in zip(answer, noise, strict=True)]
