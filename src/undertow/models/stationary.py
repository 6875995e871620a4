"""The stationary law of a transition matrix, and which states and steps can occur at all.

What is possible is decided on the support of the matrices, as a graph, never by a probability that
a float may have lost. `refuse_rare_steps` sees to it that the probability of everything possible
is an ordinary float.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidModel
from undertow.numerics import RAREST, Array

__all__ = ["Support", "one_closed_class", "reachable", "refuse_rare_steps", "stationary_law"]

Support = npt.NDArray[np.bool_]
"""Which entries of a law or a matrix are possible."""

_LOOKED_AT = 4096
"""First records of a chain with a given start at which rare steps are looked for one by one: the
last ones are looked at too, and in between the law of a state that is left for good falls."""


def reachable(matrix: Array | Support) -> Support:
    """Return whether y can be reached from x in zero or more steps, as a boolean matrix.

    >>> reachable(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[ True, False],
           [ True,  True]])
    """
    reach = np.asarray((matrix > 0) | np.eye(len(matrix), dtype=bool))
    for _ in range(max(1, int(np.ceil(np.log2(len(matrix)))))):
        reach = reach @ reach
    return reach


def one_closed_class(support: Array | Support) -> bool:
    """Return whether a matrix has one closed class of states, so that its stationary law is unique.

    >>> one_closed_class(np.eye(2)), one_closed_class(np.array([[0.5, 0.5], [0, 1]]))
    (False, True)
    """
    members, reach = _recurrent(support)
    return bool(reach[np.ix_(members, members)].all())


def _recurrent(support: Array | Support) -> tuple[npt.NDArray[np.intp], Support]:
    """Return the states from which only states are reached that lead back, and what is reached."""
    reach = reachable(support)
    return np.flatnonzero(~(reach & ~reach.T).any(axis=1)), reach


def stationary_law(matrix: Array, support: Support | None = None) -> Array:
    """Return the unique law pi with pi P = pi.

    States are eliminated one by one without a subtraction [grassmann1985], so every entry has
    a relative error of a few k^2 roundings however small it is. Cost O(k^3). Raises
    `InvalidModel` where two closed classes make the law ambiguous, and where a state of the closed
    class has a probability below `RAREST`. What is lost on the way is less than 1e-307, and no
    exit is rarer than the rarest step (`refuse_rare_steps`): a law that passes is accurate.
    ``support`` says which entries are possible where the matrix is a product that may have lost
    some.

    >>> stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]]))
    array([0.75, 0.25])
    """
    members, reach = _recurrent(matrix if support is None else support)
    if not reach[np.ix_(members, members)].all():
        raise InvalidModel(
            "the stationary law is not unique: the chain has several closed classes of states; "
            "pass start=[...], the distribution of the first record"
        )
    law = np.zeros(len(matrix))
    with np.errstate(all="ignore"):  # what overflows or is lost is found below
        law[members] = _eliminate(matrix[np.ix_(members, members)])
    rare = members[~(law[members] >= RAREST)]
    if rare.size:
        raise InvalidModel(
            f"state number {rare[0]} can occur, but its probability under the stationary law is "
            f"below {RAREST:g}: {_ADVICE}"
        )
    return law


_ADVICE = (
    "numbers so small are lost when they are multiplied; write 0 for a step that is impossible, "
    "raise the probability of one that is not, or merge the state with another"
)


def refuse_rare_steps(
    transition: Array, initial: Array, length: int | None, *, stationary: bool
) -> None:
    """Refuse a chain on which a step that can occur has a joint probability below `RAREST`.

    Joint: of the two records at its ends, Pr[X_t = x] P_t(x, y). Where the start is stationary one
    law is looked at; where it is given, and the steps are alike, the laws of the first and the last
    records, or the first 2 k where the length is open; where the steps differ, all.
    """
    most = float(transition.min())
    if most > 0 and most * min(most, float(initial[initial > 0].min())) >= RAREST:
        return  # from the second record on every law is at least the least entry
    if stationary:
        _refuse(initial[None], (initial > 0)[None], transition[None], None)
        return
    for first, laws, possible in _laws(transition, initial, length):
        steps = transition[None] if transition.ndim == 2 else transition[first : first + len(laws)]
        _refuse(laws, possible, steps, first)


def _refuse(laws: Array, possible: Support, steps: Array, first: int | None) -> None:
    """Refuse rare steps from records with these laws, the first of them ``first``."""
    rare = possible[:, :, None] & (steps > 0) & ~(laws[:, :, None] * steps >= RAREST)
    if rare.any():
        record, x, y = np.argwhere(rare)[0].tolist()
        at = "under the stationary law" if first is None else f"at record {first + record}"
        shorter = "" if first is None else ", or give the chain fewer records"
        raise InvalidModel(
            f"the step from state number {x} to {y} can occur, but the joint probability of its "
            f"two records {at} is below {RAREST:g}: {_ADVICE}{shorter}"
        )


def _laws(
    transition: Array, initial: Array, length: int | None
) -> Iterator[tuple[int, Array, Support]]:
    """Yield the first of some records, their laws, and which states they can have."""
    size, alike = len(initial), transition.ndim == 2
    steps = 2 * size if length is None else length - 1
    law, possible = initial, initial > 0
    support = transition > 0
    first = 0
    while first < (min(steps, _LOOKED_AT) if alike else steps):
        count = min(_LOOKED_AT, steps - first)
        laws, states = np.empty((count, size)), np.empty((count, size), dtype=bool)
        for place in range(count):
            laws[place], states[place] = law, possible
            step = ... if alike else first + place
            law, possible = law @ transition[step], possible @ support[step]
        yield first, laws, states
        first += count
    for record in range(max(first, steps - size), steps):
        law = initial @ np.linalg.matrix_power(transition, record)
        possible = (initial > 0) @ np.linalg.matrix_power(support, record)
        yield record, law[None], possible[None]


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
