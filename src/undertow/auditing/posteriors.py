"""What outputs say of each record: exact posteriors, by the forward-backward recursion."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from undertow.auditing.hidden import Observed, impossible, observe, read_known, read_outputs
from undertow.channels import LocalMechanism
from undertow.errors import InvalidInput
from undertow.models.base import Model
from undertow.numerics import Array
from undertow.queries import State

__all__ = ["posteriors", "smoothed"]


def posteriors(
    outputs: Any,
    channel: LocalMechanism,
    chain: Model,
    known: Mapping[int, State] | None = None,
) -> Array:
    """Return Pr[X_t = x | all outputs, known records], a row for each record.

    The forward-backward recursion: Pr[X_t = x | z] is proportional to a_t(x) b_t(x), with
    a_t(x) = Pr[z_0 .. z_t, X_t = x] and b_t(x) = Pr[z_{t+1} .. | X_t = x], rescaled at every step.
    Exact up to rounding, for chains whose steps differ, any finite channel, noise that is itself a
    chain, and erasures. Time is n k^2, memory that of the result. Probabilities below 1e-290 are
    computed again with logarithms, which takes about ten times as long.

    Parameters
    ----------
    outputs
        One series of outputs (None where a record is erased), or an array with a row for each.
    channel
        What randomised the records: `RandomizedResponse`, `XorNoise` or `Redaction`.
    chain
        The law of the records.
    known
        The state of each record that the attacker knows, by its number; in every series the same.

    Returns
    -------
    The array (records, states), or (series, records, states).

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> chain = MarkovChain([[.9, .1], [.1, .9]])
    >>> flips = RandomizedResponse.binary(.25, .25)
    >>> posteriors([0, 1, 0], flips, chain).round(3)
    array([[0.711, 0.289],
           [0.645, 0.355],
           [0.711, 0.289]])
    >>> posteriors([0, 1, 0], flips, chain, known={1: 1})[0].round(3)
    array([0.25, 0.75])
    """
    read = read_outputs(outputs, channel, chain)
    table = isinstance(outputs, np.ndarray) and outputs.ndim == 2
    lengths = {int(length) for length in read.lengths}
    if len(lengths) > 1:
        raise InvalidInput(
            f"series of one length are required, found lengths from {min(lengths)} to "
            f"{max(lengths)}; take one series after the other"
        )
    observed = observe(read, channel, chain)
    found = smoothed(observed.knowing(*read_known(known, observed, chain)))
    many = table or len(read.lengths) > 1
    return found.reshape(len(read.lengths), -1, len(chain.states)) if many else found


def smoothed(observed: Observed) -> Array:
    """Return the posteriors of all records that are there, series after series.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.data.codes import Rule, coded
    >>> flips, chain = RandomizedResponse.binary(.25, .25), MarkovChain([[.9, .1], [.1, .9]])
    >>> smoothed(observe(coded([0, 0], Rule((0, 1))), flips, chain)).round(3)
    array([[0.875, 0.125],
           [0.875, 0.125]])
    """
    from undertow.models import forward_backward as kernels

    model = observed.hidden
    size = model.start.size
    out = np.empty((int(observed.ends[-1]), size))  # (steps of time, hidden states)
    loop = kernels.compiled(kernels.smooth_pair if size == 2 else kernels.smooth)
    parts = (model.start, model.steps, model.moving, model.emission)
    place = loop(observed.codes, observed.ends, *parts, out)
    if place == kernels.UNDERFLOW:
        loop = kernels.compiled(kernels.smooth_logs)
        place = loop(observed.codes, observed.ends, *logs(observed), out)
    if place >= 0:
        raise impossible(observed, place)
    found: Array = observed.there(model.records(out))  # (records, states)
    return found


def logs(observed: Observed) -> tuple[Array, Array, int, Array]:
    """Return start, steps and emission as logarithms, as the loops take them."""
    model = observed.hidden
    with np.errstate(divide="ignore"):
        return np.log(model.start), np.log(model.steps), model.moving, np.log(model.emission)
