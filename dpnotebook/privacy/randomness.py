"""Where random bits come from: streams that a key of 256 bits decides, fresh from the operating system for each charge.

Whatever was charged and not recorded may be measured again, and then it must come out the same: a failure tells
something, so nothing may be drawn twice for one charge. The key is all that is random about an answer, and it is kept
(in a file of its own) for just as long as the answer is not recorded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Source = Callable[[int], bytes]
"""Takes a number of bytes and returns exactly that many uniform random ones."""

KEY_BYTES = 32  # of the key of one charge: 256 bits, as many as SHAKE256 can make use of
_BLOCK = 1 << 13  # bytes of a stream that are made at a time


def random_bytes(count: int) -> bytes:
    """Return `count` bytes that nobody can predict, from the operating system; safe across forks and threads."""
    return os.urandom(count)


class Randomness:
    """All that is random about answering one charge: for each purpose an endless stream of its own.

    Parameters
    ----------
    key
        32 secret bytes; fresh ones from the operating system when None.

    Raises
    ------
    ValueError
        If the key is not 32 bytes.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.key = random_bytes(KEY_BYTES) if key is None else key
        if len(self.key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(self.key)}")

    def source(self, *purpose: str | int) -> Source:
        """Return a stream of uniform bytes from its beginning; other purposes have independent ones.

        It is for one thread, and what is read of it does not depend on the sizes of the pieces it is read in.

        Parameters
        ----------
        purpose
            What it is for, such as ("noise", 0).
        """
        return _Stream(self._seed(purpose))

    def secret(self, *purpose: str | int) -> str:
        """Return 32 hexadecimal digits that nobody can predict, always the same for one purpose."""
        return self.source(*purpose)(16).hex()

    def _seed(self, purpose: tuple[str | int, ...]) -> bytes:
        digest = hashlib.blake2b(key=self.key, digest_size=KEY_BYTES)
        for part in purpose:
            text = repr(part).encode()
            digest.update(len(text).to_bytes(8, "big") + text)
        return digest.digest()


class _Stream:
    """SHAKE-256 of a seed and a counter, block by block: as fast as the kernel's own generator, and the same anywhere.

    Source: NIST, FIPS 202, "SHA-3 standard: permutation-based hash and extendable-output functions", 2015.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed, self._blocks, self._left = seed, 0, b""

    def __call__(self, count: int) -> bytes:
        pieces, size = [self._left], len(self._left)
        while size < count:
            block = hashlib.shake_256(self._seed + self._blocks.to_bytes(8, "big")).digest(_BLOCK)
            pieces.append(block)
            self._blocks += 1
            size += _BLOCK
        drawn = b"".join(pieces)
        self._left = drawn[count:]
        return drawn[:count]


def words(source: Source, count: int, dtype: type[np.unsignedinteger[Any]]) -> NDArray[np.unsignedinteger[Any]]:
    """Return `count` uniform unsigned integers of `dtype`, shape (count,)."""
    return np.frombuffer(_exactly(source, count * np.dtype(dtype).itemsize), dtype=dtype)


def signs(source: Source, count: int) -> NDArray[np.int8]:
    """Return `count` fair signs, +1 or -1, shape (count,)."""
    bits = np.unpackbits(np.frombuffer(_exactly(source, (count + 7) // 8), dtype=np.uint8), count=count)
    return 1 - 2 * bits.view(np.int8)


class LazyUniform:
    """A uniform number in [0, 1) of which only as many bits are drawn as a decision needs.

    Parameters
    ----------
    value, bits
        What is known: the number lies in [value, value + 1) / 2^bits.
    source
        Where further bits come from.
    """

    def __init__(self, value: int, bits: int, source: Source) -> None:
        self.value = value
        self.bits = bits
        self.source = source

    def extend(self) -> None:
        """Draw 64 further bits."""
        self.value = self.value << 64 | int.from_bytes(_exactly(self.source, 8), "little")
        self.bits += 64

    def below(self, bounds: Callable[[int], tuple[Fraction, Fraction]]) -> bool:
        """Return whether the number is below p, exactly.

        Parameters
        ----------
        bounds
            Takes a number of decimal digits and returns bounds on p that differ by about 10^-digits or less.
        """
        while True:
            low, high = bounds(self.bits * 3 // 10 + 10)
            if self.value + 1 <= low * (1 << self.bits):
                return True
            if self.value >= high * (1 << self.bits):
                return False
            self.extend()


def _exactly(source: Source, count: int) -> bytes:
    drawn = source(count)
    if len(drawn) != count:
        raise ValueError(f"the source of random bytes returned {len(drawn)} bytes where {count} were asked for")
    return drawn
