"""Random bytes in bulk: a cipher keyed by the operating system, or a seed for experiments.

Every record takes one byte of ``first``; those that it does not decide take seven bytes of
``further``. Both are read in order, so outputs do not depend on the sizes of pieces.
`undertow.sampling.keyed` has bytes by address instead, in any order.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, NotSupported
from undertow.sampling.bits import Insecure, Randomness, Secure

__all__ = [
    "ByteArray",
    "ByteSource",
    "Bytes",
    "Draws",
    "block_cipher",
    "draws",
    "single_draws",
    "system_bytes",
]

ByteArray = npt.NDArray[np.uint8]

_ZEROS = 2**20
"""Bytes of keystream made at a time: the zeros that are encrypted stay in the cache."""

_FEW = 2**12
"""Bytes that the operating system gives sooner than a cipher is made ready."""

_ROOM = 15
"""Bytes beyond the end that some versions of the cipher ask for, and do not write."""


class Bytes(Protocol):
    """A stream of uniformly random bytes."""

    def take(self, count: int) -> ByteArray:
        """Return the next ``count`` bytes."""
        ...


class ByteSource(Protocol):
    """Protocol of sources of random bytes: streams in order, or addresses."""

    def firsts(self, start: int, stop: int) -> ByteArray:
        """Return the first bytes of the records from ``start`` up to ``stop``."""
        ...

    def furthers(self, records: npt.NDArray[np.intp]) -> ByteArray:
        """Return the seven further bytes of some records, a row for each."""
        ...

    def starts(self, series: npt.NDArray[np.intp], attempt: int) -> ByteArray:
        """Return eight bytes for the start of some series, a row for each."""
        ...


@dataclass(frozen=True, slots=True)
class Draws:
    """The two streams: one byte for each record, and seven more for each undecided one.

    As a `ByteSource`, each request takes the next bytes, whatever its address.
    """

    first: Bytes
    further: Bytes

    def firsts(self, start: int, stop: int) -> ByteArray:
        """Return as many bytes of ``first`` as there are records."""
        return self.first.take(stop - start)

    def furthers(self, records: npt.NDArray[np.intp]) -> ByteArray:
        """Return seven bytes of ``further`` for each record, (records, 7)."""
        return self.further.take(7 * records.size).reshape(-1, 7)

    def starts(self, series: npt.NDArray[np.intp], attempt: int) -> ByteArray:
        """Return eight bytes of ``further`` for each series, (series, 8), whichever attempt."""
        return self.further.take(8 * series.size).reshape(-1, 8)


def draws(randomness: Randomness | None = None) -> Draws:
    """Return fresh streams for one call that randomises many records.

    Secure bytes are the keystream of AES-256 in counter mode, under a key and a counter that the
    operating system gives anew for every piece that is taken: nothing is kept that a copy of the
    process, whatever its number, could repeat. Small pieces, and all where the package
    ``cryptography`` is absent, come from the operating system itself.

    >>> draws(Secure()).first.take(3).size
    3
    >>> same = [draws(Insecure(seed=1)).first.take(4).tolist() for _ in range(2)]
    >>> same[0] == same[1]
    True
    """
    if isinstance(randomness, Insecure):
        return _seeded(randomness.seed)
    _check_secure(randomness)
    try:
        return Draws(_Keystream(), _Keystream())
    except ImportError:
        return single_draws(randomness)


def single_draws(randomness: Randomness | None = None) -> Draws:
    """Return streams for one record at a time: secure ones are the operating system's own.

    >>> single_draws(Secure()).further.take(7).size
    7
    """
    if isinstance(randomness, Insecure):
        return _seeded(randomness.seed)
    return Draws(system_bytes(randomness), system_bytes(randomness))


def system_bytes(randomness: Randomness | None = None) -> Bytes:
    """Return the operating system's own bytes, drawn as they are taken; nothing else is secure.

    >>> system_bytes(Secure()).take(3).size
    3
    """
    _check_secure(randomness)
    return _System()


def block_cipher(key: bytes) -> Callable[[npt.NDArray[Any]], ByteArray]:
    """Return AES-256 of single blocks: a function of (blocks, 16) bytes to as many.

    Blocks are enciphered one by one and never chained: what becomes of one depends on it and the
    key alone. Over different blocks that is a pseudorandom function of their content.

    >>> one = block_cipher(bytes(32))(np.zeros((2, 16), dtype=np.uint8))
    >>> one.shape, one[0].tobytes() == one[1].tobytes(), one[0, :4].tobytes().hex()
    ((2, 16), True, 'dc95c078')
    """
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        raise NotSupported(
            "bits by address are those of a cipher of the package cryptography, which cannot be "
            "imported; install it: pip install cryptography"
        ) from None
    # no block is enciphered twice for two purposes, so that equal blocks show nothing
    encryptor: Any = Cipher(algorithms.AES(key), modes.ECB()).encryptor()

    def enciphered(blocks: npt.NDArray[Any]) -> ByteArray:
        content = blocks.view(np.uint8).reshape(-1)  # (16 blocks,)
        output = np.empty(content.size + _ROOM, dtype=np.uint8)
        encryptor.update_into(content, output)
        return output[: content.size].reshape(-1, 16)

    return enciphered


def _check_secure(randomness: object) -> None:
    if randomness is not None and not isinstance(randomness, Secure):
        raise InvalidInput("randomness must be Secure() or Insecure(seed)")


def _seeded(seed: int) -> Draws:
    first, further = np.random.SeedSequence(seed).spawn(2)
    return Draws(_Seeded(first), _Seeded(further))


class _Keystream:
    """AES-256 in counter mode over zeros, under a new key at every call; nothing is kept."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._zeros = np.zeros(_ZEROS, dtype=np.uint8)
        self._cipher: Any = (Cipher, algorithms.AES, modes.CTR)

    def take(self, count: int) -> ByteArray:
        if count <= _FEW:
            return np.frombuffer(os.urandom(count), dtype=np.uint8)
        cipher, key, counter = self._cipher
        encryptor = cipher(key(os.urandom(32)), counter(os.urandom(16))).encryptor()
        output = np.empty(count + _ROOM, dtype=np.uint8)
        for start in range(0, count, _ZEROS):  # one counter throughout: the keystream goes on
            size = min(_ZEROS, count - start)
            room = output[start : start + size + _ROOM]
            encryptor.update_into(self._zeros[:size], room)
        return output[:count]


class _System:
    """The operating system's source itself: nothing is kept."""

    def take(self, count: int) -> ByteArray:
        return np.frombuffer(os.urandom(count), dtype=np.uint8)


class _Seeded:
    """The raw 64-bit words of PCG64, little end first: the same on every machine and version."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._words = np.random.PCG64(seed)
        self._rest = np.empty(0, dtype=np.uint8)

    def take(self, count: int) -> ByteArray:
        missing = count - self._rest.size
        if missing > 0:
            # whole words are drawn, and the bytes left over are kept: pieces do not matter
            words = np.asarray(self._words.random_raw((missing + 7) // 8), dtype="<u8")
            self._rest = np.concatenate([self._rest, words.view(np.uint8)])
        block, self._rest = self._rest[:count], self._rest[count:]
        return block
