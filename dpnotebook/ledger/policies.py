"""Policies that a ledger is under: each is an entry of the chain, with its reason, and the last is the one that holds.

What a policy allows is decided above, where questions are known; here is what all kernels have to agree on: which
policy it is, by its digest, and the most that all answers together may take under it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpnotebook.errors import LedgerConflict


@dataclass(frozen=True)
class RecordedPolicy:
    """A policy as a ledger has it.

    Parameters
    ----------
    said
        What it says, as JSON values.
    digest
        SHA-256 of that, as hex digits.
    most
        Units that all answers together may take; None where the budget alone bounds them.
    reason
        Why it was changed; empty of the first.
    time
        Since when, ISO 8601 in UTC.
    entry
        The number of the entry in the chain.
    """

    said: dict[str, Any]
    digest: str
    most: int | None
    reason: str
    time: str
    entry: int


def digest_of(said: Mapping[str, Any]) -> str:
    """Return the digest of what a policy says: the same, however its file is laid out."""
    return hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def read_policy_entry(values: Mapping[str, Any], time: str, entry: int) -> RecordedPolicy:
    """Return the policy that an entry says.

    Raises
    ------
    ValueError
        If it says none, or another than its digest.
    """
    said, most, reason = values["policy"], values["most"], values["reason"]
    if not isinstance(said, dict) or digest_of(said) != values["digest"]:
        raise ValueError("it does not say the policy that it names")
    if not isinstance(reason, str) or not (most is None or (type(most) is int and most >= 0)):
        raise ValueError("it is no policy")
    return RecordedPolicy(said, values["digest"], most, reason, time, entry)


def check_same_policy(policies: Sequence[RecordedPolicy], followed: str | None) -> None:
    """Check that a ledger is under the policy that is followed here.

    Raises
    ------
    LedgerConflict
        If another kernel has put it under another one.
    """
    if (policies[-1].digest if policies else None) != followed:
        raise LedgerConflict(
            "another kernel has put this ledger under another policy; nothing was spent. Restart the kernel and open "
            "it with dpn.Session.from_policy(...)"
        )
