"""Forward and backward passes over hidden states, many starts at once, in blocks of records.

A hidden state shows its symbol with certainty, so that a step from one record to the next is a
matrix R x R over the hidden states of their symbols, R the most hidden states of a symbol. The
records are cut into blocks: the products of all blocks are taken side by side, a scan over the
blocks gives what enters each of them, and both passes then run through all blocks side by side.
Arrays have the axes of hidden states first and the blocks last. Used by fits and scores.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput
from undertow.numerics import Array

__all__ = ["Passes", "Posterior"]

Ints = npt.NDArray[np.int64]

MOST_HELD = 3 * 10**5
"""Entries of the matrices of all steps that are held at once (caches)."""

WIDEST = 8
"""Hidden states of a symbol up to which products of matrices pay; beyond, vectors one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Expected transitions given all records, for each start of a batch.

    ``log_likelihood`` (b,); ``counts`` (b, G, m, m), expected transitions by label; ``begun``
    (b, J, m), expected first hidden states by class of start.
    """

    log_likelihood: Array
    counts: Array
    begun: Array


class Passes:
    """Records prepared for passes: series of symbols, the labels of their steps, their starts.

    ``codes`` (n,) are numbers of symbols, ``ends`` where each series ends, ``owner`` (m,) the
    symbol of each hidden state, ``labels`` (n,) the number of the kernel that leads on from each
    record (None: one kernel), ``classes`` (series,) which start each series has (None: one).

    >>> passes = Passes(np.array([0, 0, 1]), np.array([3]), np.array([0, 1]))
    >>> step = np.array([[[[.9, .1], [.3, .7]]]])
    >>> float(np.exp(passes.run(np.array([[[.75, .25]]]), step).log_likelihood[0]).round(6))
    0.0675
    """

    def __init__(
        self, codes: Ints, ends: Ints, owner: npt.NDArray[np.intp], labels: Ints | None = None,
        classes: Ints | None = None,
    ) -> None:  # fmt: skip
        """Number the steps by label and symbols; steps into a new series by its start."""
        size, records = int(owner.max()) + 1, codes.size
        self.labels = 1 if labels is None else int(labels.max()) + 1
        self.classes = 1 if classes is None else int(classes.max()) + 1
        self.size, self.hidden, self.records = size, owner.size, records
        held = [np.flatnonzero(owner == symbol) for symbol in range(size)]
        self.width = max(len(some) for some in held)
        # (k, R): the hidden states of a symbol, the last place for a state that does not exist
        self.places = np.full((size, self.width), owner.size)
        for symbol, some in enumerate(held):
            self.places[symbol, : len(some)] = some
        begins = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        of_series = np.zeros(len(ends), np.int64) if classes is None else classes
        left = np.zeros(records, np.int64) if labels is None else labels
        inner, outer = self.labels * size**2, self.classes * size
        # kinds of steps: (label, symbol, next symbol), (class, first symbol), and none
        steps = (left[:-1] * size + codes[:-1]) * size + codes[1:]
        steps[begins[1:] - 1] = inner + of_series[1:] * size + codes[begins[1:]]
        self.first = int(of_series[0]) * size + int(codes[0])
        block = int(np.clip(np.sqrt(records) / 8, 4, 64))
        blocks = -(-max(records - 1, 1) // block)
        padded = np.full(block * blocks, inner + outer)
        padded[: records - 1] = steps
        self.steps = np.ascontiguousarray(padded.reshape(blocks, block).T)  # (block, blocks)
        flat = self.steps.reshape(-1)
        self.order = np.argsort(flat, kind="stable")
        self.kinds, starts = np.unique(flat[self.order], return_index=True)
        self.bounds = np.append(starts, flat.size)
        self.inner, self.outer = inner, outer

    def run(self, start: Array, kernels: Array) -> Posterior:
        """Return the posteriors of a batch of laws, start (b, J, m) and kernels (b, G, m, m)."""
        batch = len(kernels)
        most = max(1, MOST_HELD // (self.steps.size * self.width**2))
        if batch > most:
            parts = [
                self.run(start[one : one + most], kernels[one : one + most])
                for one in range(0, batch, most)
            ]
            return Posterior(*(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("log_likelihood", "counts", "begun")
            ))  # fmt: skip
        table, entry = self._tables(start, kernels)
        matrices = np.take(table, self.steps, axis=-1)  # (R, R, b, block, blocks)
        ahead, scales, tails = self._forward(matrices, entry)
        # what is left to come after each record, over its probability given the records before
        behind = np.empty_like(ahead)
        later = tails
        for place in reversed(range(len(self.steps))):
            scaled = later / scales[:, place]
            behind[:, :, place] = scaled
            later = _after(matrices[:, :, :, place], scaled)
        log_likelihood = np.log(scales).sum(axis=(1, 2)) + np.log(entry.sum(axis=0))
        return Posterior(log_likelihood, *self._summed(table, entry, ahead, behind, later))

    def scales(self, start: Array, kernels: Array) -> Array:
        """Return Pr[x_t | records before] of every record under one law, (n,)."""
        table, entry = self._tables(start[None], kernels[None])
        shares = np.empty(self.records)
        shares[0] = float(entry.sum())
        if self.width > WIDEST:
            return self._one_by_one(table[:, :, 0], entry[:, 0], shares)
        try:
            shares[1:] = self._by_blocks(table, entry)
        except InvalidInput:  # impossible, or a product of blocks that underflowed
            return self._one_by_one(table[:, :, 0], entry[:, 0], shares)
        return shares

    def _by_blocks(self, table: Array, entry: Array) -> Array:
        """Return the shares of all records but the first, some blocks at a time."""
        most = max(1, MOST_HELD // (len(self.steps) * self.width**2))
        within = np.empty(self.steps.shape)
        for first in range(0, self.steps.shape[1], most):
            part = slice(first, first + most)
            matrices = np.take(table, self.steps[:, part], axis=-1)
            entry, within[:, part] = self._through(matrices, entry)
        return np.asarray(within.T.reshape(-1)[: self.records - 1])

    def _through(self, matrices: Array, entry: Array) -> tuple[Array, Array]:
        """Return what leaves some blocks, and the shares of their records."""
        ahead, scales, _ = self._forward(matrices, entry, back=False)
        last = ahead[:, :, -1, -1:]
        left = _before(last, matrices[:, :, :, -1, -1:])[..., 0]
        return left / left.sum(axis=0), scales[0]

    def _one_by_one(self, table: Array, entry: Array, shares: Array) -> Array:
        """Fill in the shares of the records, vector by vector."""
        rows = np.ascontiguousarray(np.moveaxis(table, -1, 0))
        now = entry / shares[0]
        for record, kind in enumerate(self.steps.T.reshape(-1)[: self.records - 1].tolist()):
            now = now @ rows[kind]
            total = now.sum()
            if not total > 0:
                raise _impossible(record + 1)
            shares[record + 1] = total
            now /= total
        return shares

    def _tables(self, start: Array, kernels: Array) -> tuple[Array, Array]:
        """Return the matrix of each kind of step (R, R, b, kinds), and the first vector (R, b)."""
        batch, size, width = len(kernels), self.size, self.width
        wide = np.zeros((batch, self.labels, self.hidden + 1, self.hidden + 1))
        wide[:, :, :-1, :-1] = kernels
        begin = np.zeros((batch, self.classes, self.hidden + 1))
        begin[..., :-1] = start
        of_step = wide[:, :, self.places[:, None, :, None], self.places[None, :, None, :]]
        of_start = begin[:, :, self.places]  # (b, J, k, R)
        table = np.empty((width, width, batch, self.inner + self.outer + 1))
        # (b, G, k, k, R, R) to (R, R, b, G k k)
        table[..., : self.inner] = of_step.transpose(4, 5, 0, 1, 2, 3).reshape(
            width, width, batch, -1
        )
        into = of_start.transpose(3, 0, 1, 2).reshape(width, batch, -1)  # (R, b, J k)
        table[..., self.inner : -1] = into  # whatever the last record of the series before was
        table[..., -1] = np.eye(width)[:, :, None]
        entry = into[..., self.first]
        if not (entry.sum(axis=0) > 0).all() or self.classes * size < 1:
            raise _impossible(0)
        return table, entry

    def _forward(
        self, matrices: Array, entry: Array, *, back: bool = True
    ) -> tuple[Array, Array, Array]:
        """Return the vectors before each step, the shares of records, what follows each block.

        Vectors (R, b, block, blocks) are laws of the hidden state given the records so far, shares
        (b, block, blocks) the probabilities of the next record; what follows a block is up to a
        factor.
        """
        block = matrices.shape[3]
        product = matrices[:, :, :, 0]
        for place in range(1, block):
            product = _times(product, matrices[:, :, :, place])
            if place % 4 == 0 or place == block - 1:
                product = product / np.maximum(product.sum(axis=(0, 1)), 1e-300)
        ahead = np.empty((*matrices.shape[1:3], *matrices.shape[3:]))
        scales = np.empty(ahead.shape[1:])
        now = _entering(product, entry / entry.sum(axis=0))
        for place in range(block):
            ahead[:, :, place] = now
            now = _before(now, matrices[:, :, :, place])
            total = now.sum(axis=0)
            scales[:, place] = total
            now = now / np.where(total > 0, total, 1.0)
        if not (scales > 0).all():
            step, blocks = np.argwhere(~(scales > 0))[0, 1:].tolist()
            raise _impossible(blocks * block + step + 1)
        tails = _leaving(product) if back else now
        if back:  # so that the law given all records before and the tail multiply to one
            tails = tails / (now * tails).sum(axis=0)
        return ahead, scales, tails

    def _summed(
        self, table: Array, entry: Array, ahead: Array, behind: Array, later: Array
    ) -> tuple[Array, Array]:
        """Return expected transitions by label, and expected first states by class of start."""
        width, batch = self.width, entry.shape[1]
        # (b, steps, R), by kind of step
        one = ahead.reshape(width, batch, -1)[:, :, self.order].transpose(1, 2, 0)
        two = behind.reshape(width, batch, -1)[:, :, self.order].transpose(1, 2, 0)
        sums = np.zeros((batch, self.inner + self.outer + 1, width, width))
        for kind, low, high in zip(self.kinds, self.bounds[:-1], self.bounds[1:], strict=True):
            sums[:, kind] = one[:, low:high].transpose(0, 2, 1) @ two[:, low:high]
        sums *= table.transpose(2, 3, 0, 1)
        hidden = self.hidden + 1
        counts = np.zeros((batch, self.labels, hidden, hidden))
        rows, columns = self.places[:, None, :, None], self.places[None, :, None, :]
        counts[:, :, rows, columns] = sums[:, : self.inner].reshape(
            batch, self.labels, self.size, self.size, width, width
        )
        begun = np.zeros((batch, self.classes, hidden))
        into = sums[:, self.inner : -1].sum(axis=2)  # (b, J k, R)
        begun[:, :, self.places] = into.reshape(batch, self.classes, self.size, width)
        first = entry * later[:, :, 0]
        symbol, place = self.first % self.size, self.first // self.size
        begun[:, place, self.places[symbol]] += (first / first.sum(axis=0)).T
        return counts[..., :-1, :-1], begun[..., :-1]


def _times(one: Array, two: Array) -> Array:
    """Return the products of matrices (R, R, ...)."""
    total = one[:, 0, None] * two[None, 0]
    for place in range(1, len(two)):
        total += one[:, place, None] * two[None, place]
    return np.asarray(total)


def _before(vectors: Array, matrices: Array) -> Array:
    """Return row vectors (R, ...) times matrices (R, R, ...)."""
    total = vectors[0] * matrices[0]
    for place in range(1, len(vectors)):
        total += vectors[place] * matrices[place]
    return np.asarray(total)


def _after(matrices: Array, vectors: Array) -> Array:
    """Return matrices (R, R, ...) times column vectors (R, ...)."""
    total = matrices[:, 0] * vectors[0]
    for place in range(1, len(vectors)):
        total += matrices[:, place] * vectors[place]
    return np.asarray(total)


def _scanned(products: Array) -> Array:
    """Return the products of all matrices up to each one, each up to a factor."""
    total, reach = products, 1
    while reach < total.shape[-1]:
        joined = _times(total[..., :-reach], total[..., reach:])
        joined /= np.maximum(joined.sum(axis=(0, 1)), 1e-300)
        total = np.concatenate([total[..., :reach], joined], axis=-1)
        reach *= 2
    return total


def _entering(products: Array, entry: Array) -> Array:
    """Return the law that enters each block, given the one that enters the first."""
    laws = _before(entry[..., None], _scanned(products)[..., :-1])
    laws = np.concatenate([entry[..., None], laws], axis=-1)
    return np.asarray(laws / np.maximum(laws.sum(axis=0), 1e-300))


def _leaving(products: Array) -> Array:
    """Return what follows each block, up to a factor: products of the later blocks with ones."""
    turned = products[..., ::-1].swapaxes(0, 1)  # of transposes, the last block first
    later = _scanned(np.ascontiguousarray(turned))[..., :-1].sum(axis=0)[..., ::-1]
    ones = np.ones((*later.shape[:-1], 1))
    both = np.concatenate([later, ones], axis=-1)
    return np.asarray(both / both.sum(axis=0))


def _impossible(record: int) -> InvalidInput:
    return InvalidInput(
        f"record {record} (counting from 0) has probability 0 under the hidden chain; "
        "transitions that occur must be possible"
    )
