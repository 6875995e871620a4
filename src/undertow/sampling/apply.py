"""The only code that turns a true answer into a released one."""

from undertow.mechanisms import DiscreteLaplace, Laplace
from undertow.numerics import up
from undertow.sampling.bits import Randomness
from undertow.sampling.integers import discrete_laplace

__all__ = ["lattice_scale", "randomise"]


def lattice_scale(mechanism: Laplace | DiscreteLaplace, length: int | None = None) -> float:
    """Return the scale of the noise in the whole numbers that are released, rounded up.

    A count is a whole number already. A sum, mean or linear statistic is a number of lattice
    steps, of which a record moves at most ``steps``: noise of scale steps / level on it keeps the
    mechanism's DP level, sensitivity / scale.

    >>> from undertow.queries import Sum
    >>> lattice_scale(Laplace(Sum(0, 10, steps=1000), scale=20.0)) >= 2000
    True
    """
    query = mechanism.query
    if query.integral:
        return mechanism.scale
    return up(query.lattice().steps / mechanism.dp_epsilon(length))


def randomise(
    mechanism: Laplace | DiscreteLaplace,
    answer: list[int],
    randomness: Randomness,
    length: int | None = None,
) -> list[int]:
    """Return the whole-number answer plus the mechanism's noise, independent per number.

    >>> from undertow.queries import Count
    >>> from undertow.sampling.bits import Secure
    >>> type(randomise(DiscreteLaplace(Count("a"), 2.0), [10], Secure())[0])
    <class 'int'>
    """
    noise = discrete_laplace(lattice_scale(mechanism, length), len(answer), randomness)
    return [exact + z for exact, z in zip(answer, noise, strict=True)]
