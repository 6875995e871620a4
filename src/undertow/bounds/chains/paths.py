"""Records outside the window that a witness is about: known, but without influence."""

from undertow.models.markov import MarkovChain

__all__ = ["SHOWN", "complete"]

SHOWN = 256
"""Longest series whose known records are all listed; beyond, only the nearest, which matter."""


def complete(chain: MarkovChain, known: dict[int, int], target: int, length: int) -> dict[int, int]:
    """Return the known records with all others outside the nearest ones filled in.

    Any values will do that can occur together with the nearest ones. Longer series than `SHOWN`
    are left alone.

    >>> complete(MarkovChain([[.9, .1], [.2, .8]]), {3: 1}, target=1, length=6)
    {3: 1, 4: 1, 5: 1}
    """
    if length > SHOWN or not known:
        return dict(sorted(known.items()))
    path = dict(known)
    below = [record for record in known if record < target]
    above = [record for record in known if record > target]
    if below:
        for record in range(max(below) - 1, -1, -1):
            back = chain.law(record) * chain.step(record)[:, path[record + 1]]
            path[record] = int(back.argmax())
    if above:
        for record in range(min(above) + 1, length):
            path[record] = int(chain.step(record - 1)[path[record - 1]].argmax())
    return dict(sorted(path.items()))
