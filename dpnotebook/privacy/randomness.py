"""Where random bits come from: the kernel, or AES in counter mode keyed by it for long requests.

No generator outlives the call that made it, so nothing can be shared between threads, copied by a fork or read later.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Source = Callable[[int], bytes]
"""Takes a number of bytes and returns exactly that many uniform random ones."""

_AES_FROM = 1 << 14  # bytes from which setting up a cipher is cheaper than asking the kernel


def random_bytes(count: int) -> bytes:
    """Return `count` bytes that nobody can predict; safe across forks and threads.

    Source: AES-256 in counter mode under a fresh key from the kernel when `cryptography` is installed and the request
    is long (20 times faster), the kernel's own generator otherwise.
    """
    aes = _aes() if count >= _AES_FROM else None
    return aes(count) if aes else os.urandom(count)


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


@cache
def _aes() -> Source | None:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        return None

    def stream(count: int) -> bytes:
        cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16)))
        return bytes(cipher.encryptor().update(bytes(count)))

    return stream
