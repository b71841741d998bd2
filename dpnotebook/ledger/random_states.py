"""The random state of each charge whose answer is not recorded yet: a file of its own beside the ledger.

With it a charge that was interrupted is measured again with the very same noise; without it the charge can never be
measured again. It is no part of the ledger, because what SQLite erases stays in its file and its backups: of a recorded
answer nobody may ever work out the noise.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from pathlib import Path

from dpnotebook.ledger.failures import translated_system
from dpnotebook.privacy.randomness import KEY_BYTES, Randomness

SUFFIX = "-random-"
_TOKEN = re.compile("[0-9a-f]{32}")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)


class RandomStates:
    """The random states beside one ledger, by tokens that the ledger may keep: they tell nothing.

    Parameters
    ----------
    path
        The ledger's file; None keeps the states in memory, with a ledger that is there.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._memory: dict[str, bytes] = {}

    def make(self) -> str:
        """Make a fresh random state, on the disk when this returns, and return its token.

        Raises
        ------
        LedgerFull, LedgerReadOnly, LedgerError
            If it cannot be written.
        """
        token, key = secrets.token_hex(16), Randomness().key
        if self._path is None:
            self._memory[token] = key
            return token
        try:
            handle = os.open(self._file(token), os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NOFOLLOW | _BINARY, 0o600)
            try:
                os.write(handle, key + _proof(token, key))
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            self.forget(token)
            raise translated_system(error, self._path) from None
        return token

    def find(self, token: str | None) -> Randomness | None:
        """Return a random state; None where it is gone, or is not what was written."""
        if token is None or not _TOKEN.fullmatch(token):
            return None
        if self._path is None:
            known = self._memory.get(token)
            return None if known is None else Randomness(known)
        try:
            held = self._file(token).read_bytes()
        except OSError:
            return None
        key, proof = held[:KEY_BYTES], held[KEY_BYTES:]
        # A disk that lost power may give back zeros, which must never become noise that anybody knows.
        return Randomness(key) if len(key) == KEY_BYTES and proof == _proof(token, key) else None

    def forget(self, token: str) -> None:
        """Destroy a random state; what is gone already stays gone."""
        if self._path is None:
            self._memory.pop(token, None)
            return
        file = self._file(token)
        with contextlib.suppress(OSError):
            handle = os.open(file, os.O_WRONLY | _NOFOLLOW | _BINARY)
            try:
                os.write(handle, bytes(2 * KEY_BYTES))
                os.fsync(handle)
            finally:
                os.close(handle)
        with contextlib.suppress(OSError):
            file.unlink()

    def tokens(self) -> list[str]:
        """Return the tokens of all random states that are there."""
        if self._path is None:
            return list(self._memory)
        path = Path(self._path)
        with contextlib.suppress(OSError):
            start = path.name + SUFFIX
            found = (name.removeprefix(start) for name in os.listdir(path.parent) if name.startswith(start))
            return [token for token in found if _TOKEN.fullmatch(token)]
        return []

    def _file(self, token: str) -> Path:
        return Path(f"{self._path}{SUFFIX}{token}")


def _proof(token: str, key: bytes) -> bytes:
    """Return what shows that a key is the one that was made with a token."""
    return hashlib.blake2b(token.encode(), key=key, digest_size=KEY_BYTES).digest()
