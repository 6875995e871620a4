"""Folds of series that come in pieces, in order: the digest of their records, and their outputs.

Labels, places and numbers are those of `undertow.data.rewriting`, and so are the outputs under the
same key, wherever the pieces lie. A fold that is copied or sent begins anew.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.channels import LocalMechanism
from undertow.data.coded_pieces import CodedPiece, CodedPieces, Coding, Survey
from undertow.data.codes import Numbers, Rule
from undertow.data.folds import CODE, CountTable
from undertow.data.grid import GROUP, THERE
from undertow.data.pieces import check_whole, feed
from undertow.data.rewriting import made_of, restored
from undertow.errors import InvalidInput
from undertow.sampling.keyed import Carry, Digest, Key, randomised

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = ["Digested", "Rewriting", "SpreadSeries", "needed"]


def needed(data: "Data", rule: Rule) -> "tuple[pl.Expr, ...]":
    """Return what these folds need of each row, or refuse a table that cannot be rewritten."""
    return (*made_of(data, rule), data.record.there.alias(THERE))


class SpreadSeries(CodedPieces):
    """The records of a cluster, of which this machine sees none: what is known of them all."""

    def survey(self, length: int | None = None) -> Survey:
        """Refuse records that are in no state, where the rule does; the refusal depends on them."""
        data, rule = self.data, self.rule
        wrong = data.record.positions(rule.names, named=True).is_null()
        wrong = wrong if rule.missing is None else wrong & data.record.there
        counted = CountTable(data.grid, [GROUP, CODE])
        feed(data, [counted], wrong.alias(CODE))
        if counted.counted()[CODE].any():
            raise rule.refusal(f"a row of {data.record.words}")
        return Survey(length)

    def irregular(self, length: int) -> None:
        """Refuse series that do not have exactly so many records; they have no numbers."""
        shape = self.data.shape()
        if (shape.shortest, shape.series) != (length, length):
            found = shape.shortest if shape.series == length else shape.series
            raise InvalidInput(
                f"the plan is for exactly {length} records, and a series has {found}, absent steps "
                "and records outside a window or its groups included; plan for this length"
            )

    def pieces(self, words: str = "records read") -> Iterator[CodedPiece]:
        """Yield outputs, a partition after the other; records are never brought to this machine."""
        if not self.rule.outputs:
            check_whole(self.data, "a list of records")
        source: Any = self.data.source
        coding = Coding(self.data, self.rule)
        for rows in source.brought(self.data, *needed(self.data, self.rule)):
            piece = coding.take(rows)
            if piece is not None:
                yield piece


class Digested:
    """A fold: the keyed digest of records, and how many records and series there are.

    ``secret`` is its key. Without one anybody can compute it: for outputs, which are public. Then
    places are ranks, whatever step of time is named.
    """

    ordered = True

    def __init__(self, data: "Data", rule: Rule, secret: bytes | None = None) -> None:
        self._given = (data, rule, secret)
        self._coding, self._digest = Coding(data, rule), Digest(Key(secret or bytes(32)))
        self.records = self.series = 0

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        piece = self._coding.take(rows)
        if piece is not None:
            self.add(piece, piece.codes)

    def add(self, piece: CodedPiece, codes: Numbers) -> None:
        """Take the next series, with numbers of their states or of their outputs."""
        self.records += codes.size
        self.series += len(piece.labels) - piece.goes_on
        places = None if self._given[2] is None else piece.places
        self._digest.feed(piece.labels, piece.lengths, codes, places)

    def result(self) -> bytes:
        """Return the digest of all series."""
        return self._digest.result()

    def merge(self, other: "Digested") -> None:
        """Take over what was kept of other persons."""
        self._digest.merge(other.result())
        self.records, self.series = self.records + other.records, self.series + other.series

    def state(self) -> list[Any]:
        """Return the digest and the numbers."""
        return [self.result().hex(), self.records, self.series]

    def load(self, state: list[Any]) -> "Digested":
        """Return the fold that has these."""
        made = Digested(*self._given)
        made._digest.merge(bytes.fromhex(state[0]))
        made.records, made.series = state[1:]
        return made

    def __reduce__(self) -> Any:
        return Digested, self._given


class Rewriting:
    """Rows into outputs under a key, piece by piece; keeps digests of the records and the outputs.

    ``secret`` is that of the flips, ``digest`` that of the digest of the records.
    """

    def __init__(
        self, data: "Data", rule: Rule, mechanism: LocalMechanism, names: Sequence[Any],
        secret: bytes, digest: bytes,
    ) -> None:  # fmt: skip
        self._given = (data, rule, mechanism, tuple(names), secret, digest)
        self._coding, self._key = Coding(data, rule), Key(secret)
        self._carry: Carry | None = None
        self.read, self.shown = Digested(data, rule, digest), Digested(data, rule)

    @property
    def needed(self) -> "tuple[pl.Expr, ...]":
        """What is made of each row of the table."""
        return needed(*self._given[:2])

    def rewritten(self, rows: "pl.DataFrame") -> "pl.DataFrame":
        """Return the released ones of the next rows: public columns as they were, then outputs."""
        data, _, mechanism, names, _, _ = self._given
        piece = self._coding.take(rows)
        if piece is None:
            erased = np.zeros(0, np.bool_) if mechanism.task == "redact" else None
            return restored(data, rows[:0], names, np.zeros(0, np.uint8), erased)
        self.read.add(piece, piece.codes)
        drawn = randomised(
            mechanism,
            self._key,
            piece.labels,
            piece.lengths,
            piece.codes,
            piece.places,
            self._carry,
        )
        self._carry, erased = drawn.carry, drawn.erased
        shown = drawn.numbers if erased is None else np.where(erased, len(names), drawn.numbers)
        self.shown.add(piece, shown)
        made: pl.DataFrame = piece.restore(names, drawn.numbers, erased)
        return made

    def merge(self, other: "Rewriting") -> None:
        """Take over what was kept of other persons."""
        self.read.merge(other.read)
        self.shown.merge(other.shown)

    def state(self) -> list[Any]:
        """Return both digests."""
        return [self.read.state(), self.shown.state()]

    def load(self, state: list[Any]) -> "Rewriting":
        """Return what has these digests."""
        made = Rewriting(*self._given)
        made.read, made.shown = self.read.load(state[0]), self.shown.load(state[1])
        return made

    def __reduce__(self) -> Any:
        return Rewriting, self._given
