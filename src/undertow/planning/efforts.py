"""How long methods take for a question, counted from the model: the same on every machine.

The unit is what takes some 30 microseconds. Tables leave out what would take far longer than a
reader waits (`undertow.planning.rows`), and so do reports; a method that is asked for by name works
to its end. These are estimates, right within a small factor, and no number that is returned depends
on them.
"""

from typing import Any

import numpy as np

from undertow.models.markov import MarkovChain
from undertow.planning.chains import quilt_effort
from undertow.planning.questions import Question, chains_of

__all__ = ["optimal", "quilt", "wasserstein"]

_MICROSECOND = 1 / 30
_DIRECT, _SHALLOW, _DEEPEST = 128, 16, 512
"""Records up to which a Wasserstein distance looks at every window, and the cuts of longer ones."""

_NEVER = 1e6
"""Records after which a chain counts as one that does not forget."""


def quilt(question: Question[Any]) -> float:
    """Return the effort of a search for Markov quilts."""
    return quilt_effort(question.model)


def wasserstein(question: Question[Any]) -> float:
    """Return the effort of a Wasserstein distance of a count.

    Short series compare every record and pair of values, O(n^2 k^2). Long ones are cut where the
    chain has forgotten, and match all pairs of states there.

    >>> from undertow.planning.search import check_question
    >>> from undertow.queries import Count
    >>> quick = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> slow = MarkovChain([[.98, .02], [.02, .98]])
    >>> [wasserstein(check_question(Count(1), c, 1.0, "any")) > 1e5 for c in (quick, slow)]
    [False, True]
    """
    if question.query.kind != "count":
        return 0.0  # all series are enumerated where these are few, and refused otherwise
    return sum(_distance(chain, question) for chain in chains_of(question.model))


def _distance(chain: MarkovChain, question: Question[Any]) -> float:
    pairs = chain.size * (chain.size - 1) / 2
    records, length = question.secrets.records, chain.length
    if length is not None and length <= _DIRECT:
        looked = length if records is None else len(records)
        return looked * pairs * (200 + 6 * length) * _MICROSECOND
    if not chain.homogeneous:
        return 0.0  # refused
    depth, needed = _SHALLOW, 8 * _width(chain)
    while depth < min(needed, _DEEPEST):
        depth *= 2
    labels = chain.size**2
    sides = 4 * pairs * 200 * labels
    if needed > 2 * _DEEPEST:  # windows in boxes; a chain that never forgets is refused
        windows = 0.0 if needed > _NEVER else (1.5e6 if length is None else 2e5) * labels
        return (sides + windows) * _MICROSECOND
    # windows of a series of any length have any number of records on either side; most are
    # dismissed by what is known of their sides
    rooms = 0.3 * depth**2 if length is None else 2.0 * depth * min(pairs, 2)
    windows = rooms * (16 * depth + 60 * labels)
    return (sides + windows) * _MICROSECOND


def _width(chain: MarkovChain) -> float:
    """Return how many records a chain takes to forget, 1 / gap."""
    second = sorted(abs(np.linalg.eigvals(chain.transition)))[-2]
    return 1 / max(1 - float(second), 1e-9)


def optimal(question: Question[Any]) -> float:
    """Return the least effort that the program of the least noise takes on a chain.

    Every round multiplies the laws of all windows by the table of the noise: pairs x counts x
    answers, with no fewer windows than those of eight records a side, and a table of 16 scales.
    """
    if question.query.kind != "count" or question.against == "ignorant":
        return 0.0
    reach, most = 8, 0.0
    for chain in chains_of(question.model):
        if chain.length is not None:
            reach = min(reach, chain.length - 1)
        options = reach * (chain.size + 1) + 1
        counts = 2 * reach + 2
        answers = 32 / question.limit + counts
        most += options**2 * chain.size * (chain.size - 1) * counts * answers
    return most / 3000
