"""Digests that only who has the key can make."""

from __future__ import annotations

import hashlib


def keyed(key: bytes, *parts: str | bytes) -> str:
    """Return a digest of parts that only who has the key can make."""
    digest = hashlib.blake2b(key=key, digest_size=32)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
