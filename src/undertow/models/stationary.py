"""The stationary law of a transition matrix, accurate in every entry."""

import numpy as np

from undertow.errors import InvalidModel
from undertow.numerics import Array

__all__ = ["reachable", "stationary_law"]


def reachable(matrix: Array) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Return whether y can be reached from x in zero or more steps, as a boolean matrix.

    >>> reachable(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[ True, False],
           [ True,  True]])
    """
    reach = (matrix > 0) | np.eye(len(matrix), dtype=bool)
    for _ in range(max(1, int(np.ceil(np.log2(len(matrix)))))):
        reach = (reach.astype(np.float64) @ reach.astype(np.float64)) > 0
    return reach


def stationary_law(matrix: Array) -> Array:
    """Return the unique law pi with pi P = pi.

    States are eliminated one by one without a subtraction [grassmann1985], so every entry has
    a relative error of a few k^2 roundings however small it is. Cost O(k^3). Raises
    `InvalidModel` where two closed classes make the law ambiguous.

    >>> stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]]))
    array([0.75, 0.25])
    """
    reach = reachable(matrix)
    recurrent = ~(reach & ~reach.T).any(axis=1)  # from x only states that lead back to x
    members = np.flatnonzero(recurrent)
    if not reach[np.ix_(members, members)].all():
        raise InvalidModel(
            "the stationary law is not unique: the chain has several closed classes of states; "
            "pass start=[...], the distribution of the first record"
        )
    law = np.zeros(len(matrix))
    law[members] = _eliminate(matrix[np.ix_(members, members)])
    return law


def _eliminate(matrix: Array) -> Array:
    work = np.array(matrix)
    size = len(work)
    for last in range(size - 1, 0, -1):
        leaving = work[last, :last].sum()
        work[:last, last] /= leaving
        # paths through the state left out
        work[:last, :last] += np.outer(work[:last, last], work[last, :last])
    law = np.ones(size)
    for state in range(1, size):
        law[state] = law[:state] @ work[:state, state]
    return np.asarray(law / law.sum())
