"""Observation models of attackers: a hidden chain, and the likelihood of each output.

Flips and erasures leave the chain of the records itself hidden. Noise that is a chain is hidden
with it: the hidden states are then pairs of a record and a flip, and an output is their sum modulo
two, with certainty.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.data.codes import Coded, Lookup, Rule, coded_whole
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.models.base import Model
from undertow.models.lowered import LoweredLaw, by_state
from undertow.numerics import Array, check_count
from undertow.queries import State

__all__ = [
    "Hidden",
    "Observed",
    "blank",
    "check_length",
    "decoded",
    "hidden",
    "impossible",
    "known_places",
    "known_states",
    "lowered_law",
    "observe",
    "posteriors",
    "read_known",
    "read_outputs",
    "smoothed",
    "viterbi",
]


Codes = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """A hidden chain and the probability of each output in each hidden state.

    ``steps`` has one transition matrix, one for each step, or those of a cycle. A row of
    ``emission`` is an output; row ``nothing`` stands for a record of which nothing is seen.
    ``owner`` is the state of the record in each hidden state, ``own`` the probability of each
    output in each state of its record alone, ``erased`` the row that an erasure means, by place.
    """

    start: Array
    steps: Array
    emission: Array
    owner: npt.NDArray[np.intp]
    own: Array
    nothing: int
    erased: npt.NDArray[np.intp] | None = None

    @property
    def moving(self) -> int:
        """Whether the steps differ (1) or not (0)."""
        return int(len(self.steps) > 1)

    def step(self, record: int) -> Array:
        """Return the matrix that leads from a record to the next one."""
        kernel: Array = self.steps[record % len(self.steps)]
        return kernel

    def law(self, record: int) -> Array:
        """Return the law of the hidden state of a record, without outputs."""
        if self.moving:
            return reduce(np.matmul, map(self.step, range(record)), self.start)
        return np.asarray(self.start @ np.linalg.matrix_power(self.steps[0], record))

    def outputs(self, record: int, *, own: bool = False) -> Array:
        """Return the probability of each output of a record, shape (outputs, hidden states).

        With ``own`` in each state of the record alone. Where records are erased, that comes last.
        """
        table = self.own if own else self.emission
        if self.erased is None:
            return table[: self.nothing]
        gone = table[self.erased[record]]  # (hidden states,)
        return np.vstack([table[: self.nothing] * (1 - gone), gone])  # (states + 1, hidden states)

    def records(self, law: Array) -> Array:
        """Return a law of hidden states as one of the records' states."""
        # hidden states of one record state stand next to each other: (..., hidden) -> (..., states)
        return by_state(law, self.owner)


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """Outputs of series that stand one after the other, as rows of the emission.

    Absent steps are records of which nothing is seen; ``present`` has the places of the others
    (None: all are there). ``ends`` says where each series ends.
    """

    hidden: Hidden
    codes: Codes
    ends: npt.NDArray[np.int64]
    present: npt.NDArray[np.int64] | None

    @property
    def begins(self) -> npt.NDArray[np.int64]:
        """Start of each series."""
        return np.concatenate([[0], self.ends[:-1]])

    def present_values(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of the records that are present."""
        return values if self.present is None else values[self.present]

    def with_known(self, places: npt.NDArray[np.int64], states: Codes) -> "Observed":
        """Return the outputs with the states of some records as evidence."""
        if not places.size:
            return self
        hidden, owner = self.hidden, self.hidden.owner
        seen = self.codes[places].astype(np.int64)  # (known records,): what their outputs are
        size = int(owner[-1]) + 1
        # each pair of output and known state becomes one more row of the emission
        pairs, rows = np.unique(seen * size + states.astype(np.int64), return_inverse=True)
        # the output's probability where the state is the known one, else 0: (pairs, hidden states)
        likelihoods = hidden.emission[pairs // size] * (owner[None, :] == (pairs % size)[:, None])
        emission = np.concatenate([hidden.emission, likelihoods])  # (rows + pairs, hidden states)
        codes = self.codes.astype(_width(len(emission)))
        codes[places] = len(hidden.emission) + rows
        return replace(self, hidden=replace(hidden, emission=emission), codes=codes)


def hidden(channel: LocalMechanism, chain: Model) -> Hidden:
    """Return the hidden chain of a channel on a chain of records, which may be hidden itself.

    >>> from undertow import MarkovChain
    >>> flips = RandomizedResponse.binary(.1, .2)
    >>> hidden(flips, MarkovChain([[.9, .1], [.3, .7]])).emission.tolist()
    [[0.9, 0.2], [0.1, 0.8], [1.0, 1.0]]
    """
    _check(channel, chain)
    law, size = lowered_law(chain), len(chain.states)
    start, steps, owner = law.start, law.kernels, law.symbols
    if isinstance(channel, RandomizedResponse):
        outputs = channel.matrix.shape[1]
        # (outputs + 1, states): the last says nothing
        rows = np.vstack([channel.matrix.T, np.ones(size)])
        return Hidden(start, steps, rows[:, owner], owner, rows, outputs)
    if isinstance(channel, XorNoise):
        a, b, rate = channel.rho0, channel.rho1, channel.flip_rate
        noise = np.array([[1 - a, a], [b, 1 - b]])  # (noise before, noise): 1 is a flip
        start = np.asarray(np.kron(start, np.array([1 - rate, rate])), dtype=np.float64)
        # (1 or steps, from, to), each over pairs
        steps = np.stack([np.kron(step, noise) for step in steps])
        # hidden states are (hidden state, flip); the output is record and flip modulo 2
        owner, flip = np.repeat(owner, 2), np.tile([0, 1], owner.size)
        shown = (owner + flip) % 2
        rows = np.array([shown == 0, shown == 1, shown >= 0], dtype=np.float64)
        own = np.array([[1 - rate, rate], [rate, 1 - rate], [1, 1]])  # (outputs + 1, states)
        return Hidden(start, steps, rows, owner, own, 2)
    # places with the same row of erasures share a row of the emission
    probabilities, places = np.unique(channel.probabilities, axis=0, return_inverse=True)
    # (states + 1 + erasures, states)
    rows = np.vstack([np.eye(size), np.ones(size), probabilities])
    erased = size + 1 + places.reshape(-1)
    return Hidden(start, steps, rows[:, owner], owner, rows, size, erased)


def lowered_law(chain: Model) -> LoweredLaw:
    """Return the lowered law of a model, or refuse a model without one.

    >>> from undertow import MarkovChain
    >>> lowered_law(MarkovChain([[.9, .1], [.3, .7]])).plain
    True
    """
    law = chain.lowered()
    if law is None:
        raise InvalidInput(
            "a MarkovChain is required, or a chain of order two or hidden one, found "
            f"{type(chain).__name__}"
        )
    return law


def blank(chain: Model, lengths: npt.NDArray[np.int64]) -> Observed:
    """Return series of a chain without outputs.

    >>> from undertow import MarkovChain
    >>> blank(MarkovChain([[.9, .1], [.3, .7]]), np.array([2, 3])).codes.size
    5
    """
    law = lowered_law(chain)
    ones, own = np.ones((1, law.size)), np.ones((1, len(chain.states)))
    nothing = Hidden(law.start, law.kernels, ones, law.symbols, own, 0)
    ends = np.cumsum(lengths, dtype=np.int64)
    return Observed(nothing, np.zeros(int(ends[-1]), dtype=np.uint8), ends, None)


def observe(read: Coded, channel: LocalMechanism, chain: Model) -> Observed:
    """Return series of outputs as what a hidden chain emits; an erased one has the last number.

    >>> from undertow import MarkovChain
    >>> flips, chain = RandomizedResponse.binary(.1, .2), MarkovChain([[.9, .1], [.3, .7]])
    >>> observe(coded_whole([1, 1, 0], Rule((0, 1)), "it"), flips, chain).codes.tolist()
    [1, 1, 0]
    """
    channel_law = hidden(channel, chain)
    _check_lengths(read, channel, chain)
    codes = read.codes
    if isinstance(channel, Redaction) and channel_law.erased is not None:
        length, size = channel.length, len(chain.states)
        places = np.tile(np.arange(length), len(read.lengths))
        _check_shown(codes, channel, places)
        # (records,): rows of the emission
        codes = np.where(codes == size, channel_law.erased[places], codes)
    codes = np.ascontiguousarray(codes, dtype=_width(len(channel_law.emission)))
    spans = read.spans[read.spans > 0]
    ends = np.cumsum(spans, dtype=np.int64)
    if read.places is None:
        return Observed(channel_law, codes, ends, None)
    begins = np.cumsum(read.spans) - read.spans
    present = np.repeat(begins, read.lengths) + read.places  # (records,): their steps of time
    filled = np.full(int(ends[-1]), channel_law.nothing, dtype=codes.dtype)  # (steps of time,)
    filled[present] = codes
    return Observed(channel_law, filled, ends, present)


def read_outputs(outputs: Any, channel: LocalMechanism, chain: Model) -> Coded:
    """Return outputs as numbers; an erased one has the number after all states."""
    _check(channel, chain)
    return coded_whole(outputs, Rule.of_outputs(channel, chain.states), "an attack")


def read_known(
    known: Mapping[int, State] | None, observed: Observed, chain: Model
) -> tuple[npt.NDArray[np.int64], Codes]:
    """Return the places and states of records that are known in every series."""
    facts = known_states(known, chain)
    if facts and observed.present is not None:
        raise NotSupported("known records of series with absent steps: fill the steps first")
    lengths = np.diff(observed.ends, prepend=0)
    states = np.array([*facts.values()], dtype=np.int64)
    return known_places(facts, lengths), np.tile(states, len(lengths))


def known_states(known: Mapping[int, State] | None, chain: Model) -> dict[int, int]:
    """Return the number of the state of each known record; refuse unknown states."""
    if known is not None and not isinstance(known, Mapping):
        raise InvalidInput(
            f"known must say the state of each known record, as in {{5: 'active'}}; found "
            f"{type(known).__name__}"
        )
    lookup = Lookup(Rule(chain.states))
    return {
        check_count(record, "known record", 0): lookup.settled(
            state, f"what is known of record {record}"
        )
        for record, state in (known or {}).items()
    }


def known_places(records: Iterable[int], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the places of some records in every series, where series follow each other.

    >>> known_places([0, 2], np.array([3, 4])).tolist()
    [0, 2, 3, 5]
    """
    listed, shortest = np.array([*records], dtype=np.int64), int(lengths.min())
    if listed.max(initial=-1) >= shortest:
        raise InvalidInput(
            f"record {listed.max()} is said to be known, but a series has {shortest} records, "
            "counted from 0"
        )
    begins = np.cumsum(lengths) - lengths
    return np.asarray((begins[:, None] + listed).reshape(-1))  # (series, records), flat


def impossible(observed: Observed, place: int) -> InvalidInput:
    """Return the error about outputs that the model rules out, by place."""
    series = int(np.searchsorted(observed.ends, place, side="right"))
    record = place - int(observed.begins[series])
    where = f"record {record}" + (f" of series {series}" if len(observed.ends) > 1 else "")
    return InvalidInput(
        f"the outputs up to {where} (counting from 0) have probability 0 under the model and what "
        "is known; check that file, plan and model belong together"
    )


def _check(channel: Any, chain: Any) -> None:
    if not isinstance(chain, Model):
        raise InvalidInput(f"a MarkovChain is required, found {type(chain).__name__}")
    lowered_law(chain)
    if not isinstance(channel, LocalMechanism):
        raise InvalidInput(
            "a RandomizedResponse, XorNoise or Redaction is required, found "
            f"{type(channel).__name__}"
        )
    if channel.inputs != len(chain.states):
        raise InvalidInput(
            f"the channel is for {channel.inputs} states, the chain has {len(chain.states)}"
        )


def check_length(chain: Model, longest: int) -> None:
    """Refuse series that are longer than those the model is for."""
    if chain.length is not None and longest > chain.length:
        raise InvalidInput(
            f"the model is for at most {chain.length} records of a series, and one has {longest}"
        )


def _check_lengths(read: Coded, channel: LocalMechanism, chain: Model) -> None:
    check_length(chain, int(read.spans.max()))
    if channel.length is None:
        return
    wrong = np.flatnonzero((read.spans != channel.length) | (read.lengths != read.spans))
    if wrong.size:
        raise InvalidInput(
            f"the redaction is for series of exactly {channel.length} records, and series "
            f"{int(wrong[0])} (counting from 0) has {int(read.lengths[wrong[0]])}; pass whole "
            "series, erased records included"
        )


def _check_shown(codes: Codes, channel: Redaction, places: npt.NDArray[np.intp]) -> None:
    """Refuse a record that is shown where its state is always erased."""
    size = channel.probabilities.shape[1]
    shown = np.flatnonzero(codes < size)
    never = channel.probabilities[places[shown], codes[shown]] >= 1
    if never.any():
        place = int(shown[np.argmax(never)])
        raise InvalidInput(
            f"record {place % channel.length} of series {place // channel.length} (counting from "
            "0) is shown, which has probability 0 under the redaction; check that file and plan "
            "belong together"
        )


def _width(rows: int) -> npt.DTypeLike:
    """Return an integer type for a number of codes (few types need few compilations)."""
    return np.uint8 if rows <= 256 else np.int32


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
    law = smoothed(observed.with_known(*read_known(known, observed, chain)))
    many = table or len(read.lengths) > 1
    return law.reshape(len(read.lengths), -1, len(chain.states)) if many else law


def smoothed(observed: Observed) -> Array:
    """Return the posteriors of all present records, series after series.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.data.codes import Rule, coded
    >>> flips, chain = RandomizedResponse.binary(.25, .25), MarkovChain([[.9, .1], [.1, .9]])
    >>> smoothed(observe(coded([0, 0], Rule((0, 1))), flips, chain)).round(3)
    array([[0.875, 0.125],
           [0.875, 0.125]])
    """
    from undertow.models.fitting import hidden as kernels

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
    law: Array = observed.present_values(model.records(out))  # (records, states)
    return law


def logs(observed: Observed) -> tuple[Array, Array, int, Array]:
    """Return start, steps and emission as logarithms."""
    model = observed.hidden
    with np.errstate(divide="ignore"):
        return np.log(model.start), np.log(model.steps), model.moving, np.log(model.emission)


def viterbi(
    outputs: Any,
    channel: LocalMechanism,
    chain: Model,
    known: Mapping[int, State] | None = None,
) -> Any:
    """Return the most likely series given the outputs, in the form of the outputs.

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
    path = decoded(observed.with_known(*read_known(known, observed, chain)))
    return read.restore(chain.states, path, None)


def decoded(observed: Observed) -> npt.NDArray[Any]:
    """Return the most likely series of states, for all present records.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.data.codes import Rule, coded
    >>> flips, chain = RandomizedResponse.binary(.25, .25), MarkovChain([[.9, .1], [.1, .9]])
    >>> decoded(observe(coded([0, 1, 0], Rule((0, 1))), flips, chain)).tolist()
    [0, 0, 0]
    """
    from undertow.models.fitting import hidden as kernels

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
    return observed.present_values(path)
