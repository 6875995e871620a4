"""Flips, erasures and noise chains with addressed bits: one secret key, a series, a place.

An output depends on the key, the label of its series, its place and its state only, so it is the
same for any pieces, order, machine or repetition. Thresholds as in `undertow.sampling.flips`;
docs/vectors/README.md has the addresses for other languages.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import LocalMechanism, Redaction, XorNoise
from undertow.sampling.flips import PIECE, Codes, draw
from undertow.sampling.streams import ByteArray, block_cipher

__all__ = [
    "PLACES",
    "AddressedBytes",
    "Carry",
    "Digest",
    "Key",
    "Randomised",
    "addresses",
    "check_places",
    "randomised",
]

Whole = npt.NDArray[np.int64]

PLACES = 2**40
"""Places that a series has: five bytes number them."""

_SECRET, _ADDRESS = 32, 10
"""Bytes of a key, and of the address of a series."""

_FIRST, _FURTHER, _START = 0, 1, 2
"""What a block is for: first bytes of sixteen records, further ones of one, the start of noise."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Key:
    """The secret of one release, 32 bytes; nothing prints, compares or pickles it.

    ``exported()`` gives the bytes to the workers of the same release, who make a Key of them.

    >>> key = Key.fresh()
    >>> key
    Key(secret)
    >>> len(Key(key.exported()).exported())
    32
    """

    _secret: bytes

    def __post_init__(self) -> None:
        """Check that these are bytes, and enough."""
        if type(self._secret) is not bytes or len(self._secret) != _SECRET:
            raise InvalidInput(f"a key is {_SECRET} secret bytes; make one with Key.fresh()")

    @classmethod
    def fresh(cls) -> "Key":
        """Return a new key of the operating system's cryptographic source."""
        return cls(os.urandom(_SECRET))

    def exported(self) -> bytes:
        """Return the secret itself, for workers of the same release and for nobody else."""
        return self._secret

    def for_input(self, digest: bytes) -> "Key":
        """Return the key for one input: the same for the same digest, another for any other.

        So flips of changed records have nothing in common with those of the records before.

        >>> key = Key(bytes(32))
        >>> one, same, other = (key.for_input(bytes([n]) * 32).exported() for n in (1, 1, 2))
        >>> one == same, one == other
        (True, False)
        """
        return Key(self.derived("input", digest))

    def derived(self, purpose: str, content: bytes = b"") -> bytes:
        """Derive 32 bytes for one purpose; they reveal nothing about the key or other purposes.

        BLAKE2b under the key, personalised by the purpose.
        """
        person = f"undertow {purpose}".encode()
        return blake2b(content, digest_size=32, key=self._secret, person=person).digest()

    def __repr__(self) -> str:
        return "Key(secret)"

    def __getstate__(self) -> Any:
        raise NotSupported(
            "a key is never copied with other objects: who has it can undo the flips; exported() "
            "gives its bytes to workers of the same release"
        )


def check_places(steps: int) -> None:
    """Refuse series with more steps (absent ones counted) than there are addresses.

    >>> check_places(PLACES)
    """
    if steps > PLACES:
        raise InvalidInput(
            f"a series has {steps:,} steps of time, absent ones counted, and bits have addresses "
            f"for {PLACES:,}; say a longer step of time, or none"
        )


def addresses(key: Key, labels: Sequence[str]) -> ByteArray:
    """Return the address of each series by its label, (series, 10).

    BLAKE2b of the label's UTF-8 bytes, 10 bytes long, under a key derived for addresses. Of n
    series two share an address with a probability below n^2 2^-81 (10^9 series: 10^-6), which
    counts as never. About a microsecond for each.

    >>> addresses(Key(bytes(32)), ["0", "1"]).shape
    (2, 10)
    """
    begun = blake2b(digest_size=_ADDRESS, key=key.derived("series"))
    content = bytearray()
    for label in labels:
        one = begun.copy()
        one.update(_encoded(label))
        content += one.digest()
    return np.frombuffer(bytes(content), dtype=np.uint8).reshape(-1, _ADDRESS)


class AddressedBytes:
    """The bytes of series under a key: a `Source` for flips, erasures and noise chains.

    Block = address (10 bytes), what it is for (1), index (5, highest first), enciphered by AES-256
    under a key derived for bits. First bytes: record ``place`` has byte place % 16 of index
    place // 16. Further bytes: bytes 0 .. 6 of index place. Starts: bytes 0 .. 7 of index attempt.
    No two of these blocks are the same, so all bytes are independent.

    ``where`` are addresses, (series, 10); ``lengths`` the records of each series, one at least;
    ``places`` that of every record in its series, by default one after the other from ``begins``.
    """

    def __init__(
        self, key: Key, where: ByteArray, lengths: Whole, places: Whole | None, begins: Whole
    ) -> None:
        """Prepare the cipher; no bytes are made yet."""
        self._cipher = block_cipher(key.derived("bits"))
        self._ends = np.cumsum(lengths)  # (series,)
        self._begins, self._places = begins, places
        whole = np.zeros((len(where), 16), dtype=np.uint8)
        whole[:, :_ADDRESS] = where
        halves = whole.view(">u8")  # (series, 2): the index is the low end of the second half
        self._high, self._low = halves[:, 0], halves[:, 1].astype(np.uint64)
        self._offsets = begins - (self._ends - lengths)  # (series,): place minus record

    def firsts(self, start: int, stop: int) -> ByteArray:
        """Return the first bytes of the records from ``start`` up to ``stop``."""
        series, begins, sizes = self._runs(start, stop)
        index = begins >> 4
        counts = ((begins + sizes - 1) >> 4) - index + 1  # (runs,): blocks of each
        before = np.cumsum(counts) - counts
        total = int(counts.sum())
        # (blocks,): each run's own blocks one after the other
        numbers = np.repeat(index - before, counts) + np.arange(total)
        words = self._blocks(np.repeat(series, counts), _FIRST, numbers).ravel()
        at = 16 * before + (begins & 15)  # (runs,): where the bytes of each run begin
        if series.size == 1:
            return words[int(at[0]) : int(at[0]) + stop - start]
        shift = at - (np.cumsum(sizes) - sizes)
        return words[np.repeat(shift, sizes) + np.arange(stop - start)]

    def furthers(self, records: npt.NDArray[np.intp]) -> ByteArray:
        """Return the seven further bytes of some records, (records, 7)."""
        series = np.searchsorted(self._ends, records, side="right")
        places = records + self._offsets[series] if self._places is None else self._places[records]
        return self._blocks(series, _FURTHER, places)[:, :7]

    def starts(self, series: npt.NDArray[np.intp], attempt: int) -> ByteArray:
        """Return eight bytes for the start of some series, (series, 8)."""
        return self._blocks(series, _START, np.full(series.size, attempt))[:, :8]

    def _runs(self, start: int, stop: int) -> tuple[npt.NDArray[np.intp], Whole, Whole]:
        """Return series, first place and length of the runs of neighbouring places in a range."""
        low = int(np.searchsorted(self._ends, start, side="right"))
        high = int(np.searchsorted(self._ends, stop, side="left")) + 1
        heads = np.concatenate([[start], self._ends[low : high - 1]])  # (series here,)
        if self._places is None:
            sizes = np.diff(heads, append=stop)
            series = np.arange(low, high)
            return series, heads + self._offsets[series], sizes
        here = self._places[start:stop]
        fresh = np.empty(stop - start, dtype=np.bool_)  # (records,): whether a run begins
        np.not_equal(np.diff(here), 1, out=fresh[1:])
        fresh[heads - start] = True
        at = np.flatnonzero(fresh)  # (runs,)
        sizes = np.diff(at, append=stop - start)
        return np.searchsorted(self._ends, at + start, side="right"), here[at], sizes

    def _blocks(self, series: npt.NDArray[np.intp], purpose: int, index: Whole) -> ByteArray:
        """Return the encrypted blocks, (blocks, 16)."""
        blocks = np.empty((series.size, 2), dtype=">u8")
        blocks[:, 0] = self._high[series]
        blocks[:, 1] = self._low[series] | (index.astype(np.uint64) + np.uint64(purpose << 40))
        return self._cipher(blocks)


@dataclass(frozen=True, slots=True)
class Carry:
    """State between pieces: the last series, its last place, the noise there.

    The next piece goes on with that series if its first label is the same. Like the records it is
    private: with the outputs it tells them.
    """

    label: str
    place: int
    state: int = 0


@dataclass(frozen=True, slots=True)
class Randomised:
    """Outputs of a piece: their numbers, which are erased (None: none can be), where it ended."""

    numbers: Codes
    erased: npt.NDArray[np.bool_] | None
    carry: Carry | None


@dataclass(frozen=True, slots=True)
class _Piece:
    """Series with records, by label: where each goes on, and where each ends."""

    labels: Sequence[str]
    lengths: Whole
    places: Whole | None
    begins: Whole
    lasts: Whole
    state: int | None

    @classmethod
    def of(
        cls, labels: Sequence[str], lengths: Any, records: int, places: Any, carry: Carry | None
    ) -> "_Piece":
        """Return a piece after checks; series without records are left out."""
        sizes = np.asarray(lengths, dtype=np.int64)
        if len(labels) != sizes.size or int(sizes.sum()) != records or (sizes < 0).any():
            raise InvalidInput(
                f"{sizes.size} lengths with {int(sizes.sum())} records in all were given for "
                f"{len(labels)} labels and {records} records"
            )
        if not (sizes > 0).all():
            labels = [label for label, size in zip(labels, sizes, strict=True) if size]
            sizes = sizes[sizes > 0]
        if len(set(labels)) != len(labels):
            raise InvalidInput(
                "two series have the same label, and would have the same bits; the records of a "
                "series must follow each other: sort by person and time"
            )
        going = carry if carry is not None and labels and labels[0] == carry.label else None
        begins = np.zeros(sizes.size, dtype=np.int64)
        if going is not None:
            begins[0] = going.place + 1
        if places is None:
            where, lasts = None, begins + sizes - 1
        else:
            where = np.asarray(places, dtype=np.int64)
            lasts = _checked_places(where, sizes, begins)
        check_places(int(lasts.max(initial=-1)) + 1)
        return cls(labels, sizes, where, begins, lasts, None if going is None else going.state)

    def ended(self, state: int = 0) -> Carry | None:
        """Return where the piece ended."""
        return Carry(self.labels[-1], int(self.lasts[-1]), state) if self.labels else None

    def places_within(self, length: int) -> Whole | None:
        """Return the places in series of one length, None where all of them are there."""
        if int(self.lasts.max()) >= length:
            raise InvalidInput(
                f"the erasures are of series of {length} records, and one has "
                f"{int(self.lasts.max()) + 1}; plan for this length"
            )
        if self.places is not None or (self.lengths == length).all():
            return self.places
        heads = np.cumsum(self.lengths) - self.lengths - self.begins
        return np.arange(int(self.lengths.sum())) - np.repeat(heads, self.lengths)


def _checked_places(places: Whole, sizes: Whole, begins: Whole) -> Whole:
    """Return the last place of each series; places must grow, or two records would share bits."""
    heads = np.cumsum(sizes) - sizes  # (series,)
    wrong = places.size != int(sizes.sum())
    if not wrong and places.size:
        grows = np.diff(places) > 0
        grows[heads[1:] - 1] = True  # another series begins
        wrong = not grows.all() or bool((places[heads] < begins).any())
    if wrong:
        raise InvalidInput(
            "the places of a series must grow from record to record, counting from 0, one for each "
            "record; sort by person and time"
        )
    return places[heads + sizes - 1] if places.size else places


def randomised(
    mechanism: LocalMechanism, key: Key, labels: Sequence[str], lengths: Any, codes: Codes,
    places: Any = None, carry: Carry | None = None,
) -> Randomised:  # fmt: skip
    """Return outputs for a piece of series: its labels, the records of each, all their states.

    ``places`` are those of the records in their series, by default all of them one after the
    other. A series may go on from piece to piece: pass the ``carry`` of the piece before.
    The outputs of all pieces together are those of one piece. Linear in the records, for a noise
    chain in the steps between places; a microsecond more for each series.

    >>> from undertow.mechanisms import RandomizedResponse
    >>> flips = RandomizedResponse.binary(.5, .5)
    >>> key, records = Key(bytes(32)), np.array([0, 1, 1, 0, 1], dtype=np.uint8)
    >>> whole = randomised(flips, key, ["ann", "bob"], [3, 2], records)
    >>> first = randomised(flips, key, ["ann"], [2], records[:2])
    >>> rest = randomised(flips, key, ["ann", "bob"], [1, 2], records[2:], carry=first.carry)
    >>> whole.numbers.tolist() == first.numbers.tolist() + rest.numbers.tolist()
    True
    """
    piece = _Piece.of(labels, lengths, codes.size, places, carry)
    if not piece.labels:
        return Randomised(codes, None, carry)
    where, noise = addresses(key, piece.labels), 0
    if not isinstance(mechanism, XorNoise):
        places = piece.places
        source = AddressedBytes(key, where, piece.lengths, places, piece.begins)
        if isinstance(mechanism, Redaction):
            places = piece.places_within(mechanism.length)
        numbers, erased = draw(mechanism, codes, source, piece.lengths, places)
    else:  # all steps, absent ones too, from where the piece before has ended
        steps, at = piece.lasts - piece.begins + 1, None  # (series,)
        if piece.places is not None:
            heads = np.cumsum(steps) - steps - piece.begins
            at = np.repeat(heads, piece.lengths) + piece.places  # (records,): their steps
        source = AddressedBytes(key, where, steps, None, piece.begins)
        numbers, erased = draw(mechanism, codes, source, steps, at, piece.state)
        noise = int(numbers[-1] ^ codes[-1])
    return Randomised(numbers, erased, piece.ended(noise))


class Digest:
    """A keyed hash of series that depends neither on their order nor on pieces.

    Sum modulo 2^256, over series, of BLAKE2b-256 under a key derived for digests, of: the length of
    the label (8 bytes, highest first), the label, and for every record in order its place (8) and
    the number of its state (2). Who does not have the key learns nothing from it.

    >>> key, records = Key(bytes(32)), np.array([0, 1, 1, 0, 1], dtype=np.uint8)
    >>> whole, parts, others = Digest(key), Digest(key), Digest(key)
    >>> whole.feed(["ann", "bob"], [3, 2], records)
    >>> parts.feed(["bob"], [1], records[3:4])
    >>> parts.feed(["bob"], [1], records[4:])
    >>> others.feed(["ann"], [3], records[:3])
    >>> parts.merge(others.result())
    >>> whole.result() == parts.result()
    True
    """

    def __init__(self, key: Key) -> None:
        """Begin with no series."""
        self._begun = blake2b(digest_size=32, key=key.derived("digest"))
        self._sum = 0
        self._open: Any = None  # the hash of the series that may go on
        self._carry: Carry | None = None

    def feed(self, labels: Sequence[str], lengths: Any, codes: Codes, places: Any = None) -> None:
        """Add a piece; its first series goes on with the last one if it has the same label.

        About two nanoseconds for a record and two microseconds for a series.
        """
        piece = _Piece.of(labels, lengths, codes.size, places, self._carry)
        if not piece.labels:
            return
        open_now = -1 if piece.state is None else 0  # the number of the series that goes on
        self._carry = piece.ended()
        ends = np.cumsum(piece.lengths)
        begins = ends - piece.lengths
        for start in range(0, codes.size, PIECE):
            stop = min(start + PIECE, codes.size)
            low = int(np.searchsorted(ends, start, side="right"))
            high = int(np.searchsorted(ends, stop, side="left")) + 1
            # (series here,): from where to where their records are in this part
            heads = np.maximum(begins[low:high], start) - start
            tails = np.minimum(ends[low:high], stop) - start
            rows = np.empty(stop - start, dtype=[("place", ">u8"), ("state", ">u2")])
            rows["state"] = codes[start:stop]
            if piece.places is None:
                offsets = piece.begins[low:high] - begins[low:high]  # place minus record
                rows["place"] = np.arange(start, stop) + np.repeat(offsets, tails - heads)
            else:
                rows["place"] = piece.places[start:stop]
            content = memoryview(rows.tobytes())
            parts = zip((10 * heads).tolist(), (10 * tails).tolist(), strict=True)
            for series, (head, tail) in enumerate(parts, low):
                if series != open_now:
                    self._begin(_encoded(piece.labels[series]))
                    open_now = series
                self._open.update(content[head:tail])

    def merge(self, other: bytes) -> None:
        """Add the result of another fold, of other series, under the same key."""
        if type(other) is not bytes or len(other) != 32:
            raise InvalidInput("the result of a fold is 32 bytes")
        self._sum += int.from_bytes(other)

    def result(self) -> bytes:
        """Return the digest of all series so far, 32 bytes; the last may still go on."""
        last = 0 if self._open is None else int.from_bytes(self._open.digest())
        return ((self._sum + last) % 2**256).to_bytes(32)

    def _begin(self, label: bytes) -> None:
        """End the series that is open, and begin another."""
        if self._open is not None:
            self._sum += int.from_bytes(self._open.digest())
        self._open = self._begun.copy()
        self._open.update(len(label).to_bytes(8) + label)


def _encoded(label: str) -> bytes:
    """Return the bytes of a label; what is no text of Unicode has bytes of its own."""
    return label.encode("utf-8", "surrogatepass")
