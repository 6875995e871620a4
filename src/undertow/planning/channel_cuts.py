"""Attacks as functions of a channel: how much each tells, and how that changes with the channel."""

from dataclasses import dataclass, replace

import numpy as np

from undertow.certificate import Witness
from undertow.models.markov import MarkovChain
from undertow.numerics import GRAIN, Array

__all__ = ["Cut", "CutSet"]


@dataclass(frozen=True, slots=True)
class Cut:
    """One attack on one chain, as a function of the channel.

    ``steps`` lead from each record to the next, ``fixed`` holds a 0/1 row for each record (what is
    known of it), ``shown`` its output (-1 if it does not matter). The prior odds of the known
    records do not depend on the channel: ``offset`` takes them out.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> seen = tuple((record, 0) for record in range(5))
    >>> attack = Witness(2, 5, ((0, 1), (4, 1)), 0, 1, outputs=seen)
    >>> round(Cut.of(attack, chain).loss(np.array([[.98, .02], [.02, .98]])), 9)
    9.407941541
    """

    law: Array
    steps: Array
    fixed: Array
    shown: tuple[int, ...]
    target: int
    value: int
    other: int
    offset: float

    @classmethod
    def of(cls, witness: Witness, chain: MarkovChain) -> "Cut":
        """Return the attack that a witness describes, on a chain."""
        known = {record: chain.index(state) for record, state in witness.known}
        shown = {record: chain.index(state) for record, state in witness.outputs}
        named = {witness.target, *known, *shown}
        first, span = min(named), range(min(named), max(named) + 1)
        fixed = np.ones((len(span), chain.size))  # (records, states)
        for record, state in known.items():
            fixed[record - first] = np.eye(chain.size)[state]
        steps = np.array([chain.step(record) for record in span[:-1]])  # (steps, states, states)
        bare = cls(
            chain.law(first), steps.reshape(-1, chain.size, chain.size), fixed,
            (-1,) * len(span), witness.target - first,
            chain.index(witness.value), chain.index(witness.other), 0.0,
        )  # fmt: skip
        outputs = tuple(shown.get(record, -1) for record in span)
        return replace(bare, shown=outputs, offset=bare.loss(np.ones((chain.size, 1))))

    def loss(self, channel: Array) -> float:
        """Return the loss of the attack."""
        return float(CutSet([self]).losses(channel)[0])


class CutSet:
    """Attacks that are evaluated together; the same one is kept once.

    Shorter attacks are continued by records that stay where they are and show nothing. Channels
    are taken as planned channels are, with no entry below one grain.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> cut = Cut.of(Witness(2, 5, (), 0, 1, outputs=((1, 0), (2, 0))), chain)
    >>> cuts = CutSet([cut, cut])
    >>> len(cuts), cuts.losses(np.array([[.8, .2], [.2, .8]])).round(6)
    (1, array([2.432263]))
    """

    def __init__(self, cuts: list[Cut]) -> None:
        self.cuts: list[Cut] = []
        self._seen: set[tuple[object, ...]] = set()
        self.add(cuts)

    def __len__(self) -> int:
        return len(self.cuts)

    def add(self, cuts: list[Cut]) -> None:
        """Take more attacks in."""
        for cut in cuts:
            key = (cut.shown, cut.target, cut.value, cut.other, cut.fixed.tobytes(),
                   cut.law.tobytes(), cut.steps.tobytes())  # fmt: skip
            if key not in self._seen:
                self._seen.add(key)
                self.cuts.append(cut)
        if self.cuts:
            self._pack()

    def _pack(self) -> None:
        """Lay all attacks out in arrays, with axes (attacks, records, value or other, states)."""
        count, size = len(self.cuts), len(self.cuts[0].law)
        records = max(len(cut.shown) for cut in self.cuts)
        self.law = np.array([cut.law for cut in self.cuts])[:, None, :]  # (C, 1, k)
        self.offset = np.array([cut.offset for cut in self.cuts])
        self.steps = np.tile(np.eye(size), (max(records - 1, 1), count, 1, 1))  # (R - 1, C, k, k)
        self.mask = np.ones((count, records, 2, size))
        self.shown = np.full((count, records), -1)
        for row, cut in enumerate(self.cuts):
            span = len(cut.shown)
            self.steps[: span - 1, row] = cut.steps
            self.mask[row, :span] = cut.fixed[:, None]
            self.mask[row, cut.target] *= np.eye(size)[[cut.value, cut.other]]
            self.shown[row, :span] = cut.shown

    def _forward(self, channel: Array) -> tuple[Array, list[Array], Array]:
        """Return the weights (C, R, 2, k), the messages from the left, and the losses (C,)."""
        channel = np.maximum(channel, GRAIN)
        columns = np.column_stack([channel, np.ones(len(channel))]).T  # -1 is the column of ones
        weights = self.mask * columns[self.shown][:, :, None]
        loss, messages = -self.offset, []
        message = self.law
        for place in range(weights.shape[1]):
            message = (message @ self.steps[place - 1] if place else message) * weights[:, place]
            mass = message.sum(axis=2, keepdims=True)  # (C, 2, 1)
            message = message / mass
            messages.append(message)
            # the product of all masses is the likelihood
            loss = loss + np.log(mass[:, 0, 0]) - np.log(mass[:, 1, 0])
        return weights, messages, loss

    def losses(self, channel: Array) -> Array:
        """Return the loss of each attack."""
        return self._forward(channel)[2]

    def evaluate(self, channel: Array) -> tuple[Array, Array]:
        """Return the losses (C,), and their gradients (C, k, m) in the entries of the channel.

        d ln Pr[z | x] / d B(y, o) is the expected number of records in state y that show o, given
        the attack, divided by B(y, o).
        """
        weights, messages, losses = self._forward(channel)
        outputs = channel.shape[1]
        counts = np.zeros((outputs + 1, len(self), len(channel)))  # (outputs or none, C, k)
        rows = np.arange(len(self))
        back = np.ones_like(messages[0])  # (C, 2, k): messages from the right
        for place in reversed(range(len(messages))):
            posterior = messages[place] * back  # of the state of this record, for either value
            posterior /= posterior.sum(axis=2, keepdims=True)
            counts[self.shown[:, place], rows] += posterior[:, 0] - posterior[:, 1]
            if place:
                back = (weights[:, place] * back) @ self.steps[place - 1].swapaxes(-1, -2)
                back = back / back.sum(axis=2, keepdims=True)
        slopes = counts[:-1].transpose(1, 2, 0) / np.maximum(channel, GRAIN)
        return losses, slopes
