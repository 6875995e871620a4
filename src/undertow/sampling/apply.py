"""The only code that turns a true answer into a released one."""

from undertow.errors import NotSupported
from undertow.mechanisms import DiscreteLaplace, Laplace
from undertow.sampling.bits import Randomness
from undertow.sampling.integers import discrete_laplace

__all__ = ["randomise"]


def randomise(
    mechanism: Laplace | DiscreteLaplace, answer: list[int], randomness: Randomness
) -> list[int]:
    """Return the answer plus the mechanism's noise, independent per number.

    >>> from undertow.queries import Count
    >>> from undertow.sampling.bits import Secure
    >>> type(randomise(DiscreteLaplace(Count("a"), 2.0), [10], Secure())[0])
    <class 'int'>
    """
    if not isinstance(mechanism, DiscreteLaplace):
        raise NotSupported(
            "only whole-number answers (Count, Histogram) can be released: real answers need a "
            "declared lattice, because floating-point noise on a float is not private"
        )
    noise = discrete_laplace(mechanism.scale, len(answer), randomness)
    return [exact + z for exact, z in zip(answer, noise, strict=True)]
