"""The most likely series as a whole, by Viterbi's recursion."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.auditing.hidden import Observed, impossible, observe, read_known, read_outputs
from undertow.auditing.posteriors import logs
from undertow.channels import LocalMechanism
from undertow.models.base import Model
from undertow.queries import State

__all__ = ["decoded", "viterbi"]


def viterbi(
    outputs: Any,
    channel: LocalMechanism,
    chain: Model,
    known: Mapping[int, State] | None = None,
) -> Any:
    """Return the series that is most likely given the outputs, in the form that they came in.

    The x_0 .. x_{n-1} with the largest Pr[x | z, known records]. As a whole it is the best guess;
    record by record the largest of the `posteriors` is right more often. Where several are
    equally likely, one of them. Arguments are those of `posteriors`; series may differ in length.
    Time is n k^2, memory n k bytes.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> chain = MarkovChain([[.9, .1], [.1, .9]], states=("idle", "active"))
    >>> flips = RandomizedResponse.binary(.25, .25)
    >>> viterbi(["idle", "active", "idle", "idle"], flips, chain)
    ['idle', 'idle', 'idle', 'idle']
    >>> viterbi(["idle", "active", "idle", "idle"], flips, chain, known={0: "active"})
    ['active', 'active', 'idle', 'idle']
    """
    read = read_outputs(outputs, channel, chain)
    observed = observe(read, channel, chain)
    path = decoded(observed.knowing(*read_known(known, observed, chain)))
    return read.restore(chain.states, path, None)


def decoded(observed: Observed) -> npt.NDArray[Any]:
    """Return the numbers of the states of the most likely series, of all records that are there.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.data.codes import Rule, coded
    >>> flips, chain = RandomizedResponse.binary(.25, .25), MarkovChain([[.9, .1], [.1, .9]])
    >>> decoded(observe(coded([0, 1, 0], Rule((0, 1))), flips, chain)).tolist()
    [0, 0, 0]
    """
    from undertow.models import forward_backward as kernels

    model = observed.hidden
    records, size = int(observed.ends[-1]), model.start.size
    width = np.uint8 if size <= 256 else np.int32
    # back: (steps of time, hidden states), path: (steps of time,)
    back, path = np.empty((records, size), dtype=width), np.empty(records, dtype=width)
    loop = kernels.compiled(kernels.decode)
    place = loop(observed.codes, observed.ends, *logs(observed), back, path)
    if place >= 0:
        raise impossible(observed, place)
    if (model.owner != np.arange(size)).any():
        path = model.owner.astype(width)[path]  # hidden states to those of the records
    return observed.there(path)
