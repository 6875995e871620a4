"""The only code that turns a true answer into a released one."""

from collections.abc import Callable

from undertow.mechanisms import Noise, TabulatedNoise
from undertow.numerics import up
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
"""What is drawn for each kind of noise with an amount; all of it in whole numbers."""


def lattice_amount(mechanism: Noise, length: int | None = None) -> float:
    """Return the scale or sigma of the noise in the whole numbers that are released, rounded up.

    A count is a whole number already. A sum, mean or linear statistic is a number of lattice
    steps, of which a record moves at most ``steps``: noise of steps / sensitivity times the amount
    keeps the mechanism's level.

    >>> from undertow.mechanisms import Laplace
    >>> from undertow.queries import Sum
    >>> lattice_amount(Laplace(Sum(0, 10, steps=1000), scale=20.0)) >= 2000
    True
    """
    query = mechanism.query
    if query.integral:
        return mechanism.amount
    return up(query.lattice().steps * mechanism.amount / query.sensitivity(length), 8)


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
