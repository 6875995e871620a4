"""What unknown records do to a message between two known ones, on a chain of order two.

Two states. Read outwards from a target, let rho(y, v) be the likelihood of all that is seen and
known beyond a record known to be v whose inner neighbour is y. Beyond it only the *message*
rho(1, v) / rho(0, v) matters, one positive number; the same without outputs is the *plain* message.
Across a gap of l unknown records to the next known one, with T the step over pairs of neighbours
and D = diag(1, e^theta) the likelihood of an unknown record,

    rho'(y', v') = sum_y M_l[(y', v'), (y, v)] rho(y, v),    M_l = (T D)^l T,

so that the message moves by a map a -> (n0 + n1 a) / (d0 + d1 a) with non-negative entries, which
is monotone. Intervals of messages go to intervals, and so do their plain ones, with D = 1.

**Rounding.** Everything here is a sum of products of non-negative numbers or a quotient of two, so
errors are relative. With u = 2^-53, an entry of T has an error of at most 6 u (the stationary law
of pairs is in closed form, three roundings; a reversed entry is a product and a quotient of such),
e^theta one of 2 u; a product of matrices adds one rounding for each factor, two for each sum, and
one where the matrix is scaled: at most 16 u for each of the l + 1 steps. A quotient of two sums of
two products adds 8 u. `PhaseGaps.pad` is 64 (l + 8) u with the largest l, more than both, and every
end of an interval is moved outwards by this share of itself.
"""

from dataclasses import dataclass

import numpy as np

from undertow.errors import NotSupported
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import ROUNDOFF, Array

__all__ = ["PhaseGaps", "Tilts", "binary_laws", "far_gaps", "longest_gap", "open_gaps"]

SMALLEST = 1e-250
"""Entries below it are refused (either side): relative errors need numbers that do not
underflow."""

MOST_GAP = 240
"""Unknown records between two known ones that are looked at one by one (cost)."""

MOST_WORDS = 7
"""The same where every unknown record may show either of two outputs (cost: 2^l words)."""

MOST_FAR = 20_000
"""Records after which an open side counts as endless (cost); until then the columns may agree."""

SETTLED, SETTLED_WORDS = 2e-5, 3e-3
"""Width of the far messages, in logarithms, at which longer gaps are no longer told apart; wider
where every word of outputs is tried (cost)."""


@dataclass(frozen=True, slots=True)
class Tilts:
    """How the likelihood of an unknown record grows when it turns from 0 to 1, in logarithms.

    ``own`` is the target's. ``near`` has one row for each phase, the distance to the target modulo
    its length: one row where all records are alike, two where every second one is relabelled. A row
    holds what outputs can do: one number where the worst is known, two where any output may be the
    worst.
    """

    own: float
    near: tuple[tuple[float, ...], ...]

    @property
    def phases(self) -> int:
        """How many distances are told apart."""
        return len(self.near)

    @property
    def says(self) -> bool:
        """Whether any output says anything."""
        return self.own != 0 or any(tilt != 0 for row in self.near for tilt in row)

    @property
    def words(self) -> bool:
        """Whether every output has to be tried."""
        return len(self.near[0]) > 1


@dataclass(frozen=True, slots=True, eq=False)
class PhaseGaps:
    """All gaps of one side up to a longest one, for one phase of the record before them.

    ``seen`` are the matrices M_l, one for each gap and word of outputs, shape (words, 4, 4), with
    pairs (y, v) in the order 2 y + v; ``gap`` says to which l each belongs. ``plain`` (gaps, 4, 4)
    are those without outputs. ``ends`` (words, 4) are the messages of a series that ends after l
    unknown records, ``far`` (words, 4, 4) and ``far_plain`` (4, 4) those of all that lies beyond
    the longest gap: the columns span it. ``word`` keeps the outputs.
    """

    seen: Array
    plain: Array
    ends: Array
    far: Array
    far_plain: Array
    gap: np.ndarray[tuple[int], np.dtype[np.int64]]
    word: tuple[tuple[int, ...], ...]
    pad: float

    @property
    def longest(self) -> int:
        """One more than the longest gap."""
        return len(self.plain)


def binary_laws(chain: SecondOrderChain) -> tuple[Array, Array]:
    """Return Pr[x, y] of two neighbours up to a factor, and the chain read backwards.

    What flows into 00 and 11 flows out of them: pi(0,0) p(1|00) = pi(1,0) p(0|10), and alike.

    >>> law, back = binary_laws(SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]]))
    >>> law
    array([[8., 1.],
           [1., 6.]])
    >>> back[0, 0].round(3)
    array([0.9, 0.1])
    """
    step = chain.transition
    law = np.ones((2, 2))
    law[0, 0] = step[1, 0, 0] / step[0, 0, 1]
    law[1, 1] = step[0, 1, 1] / step[1, 1, 0]
    # Pr[z before a, x] = pi(z, a) p(x | z, a) / pi(a, x): axes (x, a, z)
    back = (law[..., None] * step).transpose(2, 1, 0) / law.T[..., None]
    return law, back


def _on_pairs(step: Array) -> Array:
    """Return the step over pairs, (x, y) to (y, z): shape (4, 4)."""
    matrix = np.zeros((2, 2, 2, 2))
    middle = np.arange(2)
    matrix[:, middle, middle] = step
    return matrix.reshape(4, 4)


def _scaled(matrices: Array) -> Array:
    """Return matrices divided by their largest entries."""
    return np.asarray(matrices / matrices.max(axis=(-2, -1), keepdims=True))


def _weights(tilt: float) -> Array:
    """Return the likelihood of the second record of each pair, at most 1: shape (4,)."""
    one = np.array([np.exp(min(-tilt, 0.0)), np.exp(min(tilt, 0.0))])
    return np.tile(one, 2)


def longest_gap(step: Array, tilts: Tilts) -> int:
    """Return how many unknown records are told apart: until all that lies beyond looks alike.

    >>> longest_gap(np.full((2, 2, 2), .5), Tilts(1.0, ((1.0,),)))
    3
    """
    most, settled = (MOST_WORDS, SETTLED_WORDS) if tilts.words else (MOST_GAP, SETTLED)
    pairs = _on_pairs(step)
    plain, seen = np.eye(4), np.eye(4)
    for length in range(1, most):
        plain = _scaled(pairs @ plain)
        # one after the other from the inside, the phases in turn; a constant word stands for all
        seen = _scaled((pairs * _weights(tilts.near[length % tilts.phases][0])) @ seen)
        if length > 2 and max(_width(plain), _width(seen)) < settled:
            return length
    return most


def _width(matrix: Array) -> float:
    with np.errstate(divide="ignore"):
        logs = np.log(matrix)
    apart = logs[:, None, :] - logs[None, :, :]
    return float(np.ptp(apart, axis=2).max()) if np.isfinite(apart).all() else np.inf


def open_gaps(step: Array, tilts: Tilts, phase: int, longest: int) -> PhaseGaps:
    """Return all gaps of fewer than ``longest`` records after a record at some phase."""
    pairs, phases = _on_pairs(step), tilts.phases
    inner = np.eye(4)[None]  # (T D)^l of every word of l outputs
    words: list[tuple[int, ...]] = [()]
    seen, plain, ends, gap, word = [], [], [], [], []
    bare = np.eye(4)
    for length in range(longest):
        seen.append(_scaled(inner @ pairs))
        ends.append(inner.sum(axis=2))
        plain.append(_scaled(bare @ pairs))
        gap += [length] * len(words)
        word += words
        nexts = tilts.near[(phase + length + 1) % phases]
        # the new record is the outermost: multiplied from the right, every output in turn
        inner = np.concatenate([_scaled(inner @ (pairs * _weights(tilt))) for tilt in nexts])
        words = [(*before, place) for place in range(len(nexts)) for before in words]
        bare = _scaled(bare @ pairs)
    made = np.concatenate(seen), np.stack(plain), np.concatenate(ends), inner, bare
    if min(float(table[table > 0].min()) for table in made) < SMALLEST or not (
        (inner > 0).all() and (bare > 0).all()
    ):
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    pad = 64 * (longest + 8) * ROUNDOFF
    return PhaseGaps(*made, np.array(gap), tuple(word), pad)


def far_gaps(step: Array, tilts: Tilts, phase: int) -> PhaseGaps:
    """Return what is open and endless beyond a record, each record with its first output.

    Powers are taken until their columns agree to rounding; then only ``far`` and ``pad`` count.
    """
    pairs, phases = _on_pairs(step), tilts.phases
    inner = np.eye(4)
    records = 0
    while records < MOST_FAR:
        for _ in range(8 * phases):
            records += 1
            inner = inner @ (pairs * _weights(tilts.near[(phase + records) % phases][0]))
            inner = inner / inner.max()
        if _width(inner) < 64 * records * ROUNDOFF:
            break
    if not float(inner.min()) > SMALLEST:
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    none, ones = np.empty((0, 4, 4)), np.ones((4, 4))
    pad = 64 * (records + 8) * ROUNDOFF
    return PhaseGaps(
        none, none, np.empty((0, 4)), inner[None], ones, np.empty(0, np.int64), (), pad
    )
