"""Writing the database: the first entry, those that follow, and the log of refusals. All inside a transaction."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from dpnotebook.ledger import snapshot
from dpnotebook.ledger.chain import GENESIS, Entry, entry_after, to_bytes
from dpnotebook.ledger.reading import REFUSED, statement_text
from dpnotebook.ledger.replay import Replay
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.budget import Budget
from dpnotebook.privacy.spend import DENSE_LIMIT, Spend


def write_opening(connection: sqlite3.Connection, budget: Budget, accountant: Accountant) -> None:
    """Write the first entry of a new ledger: its budget, and the digest of a fresh key."""
    key = secrets.token_bytes(32)
    opening = {
        "budget": budget.to_json(),
        "noise": accountant.noise,
        "total": accountant.total,
        "cells": DENSE_LIMIT,
        "merge": True,  # ledgers of earlier versions, without it, replay as they were written
        "key": hashlib.sha256(key).hexdigest(),
    }
    entry = entry_after(0, GENESIS, "open", to_bytes(opening))
    _insert(connection, entry, None)
    connection.execute("INSERT INTO state VALUES (1, ?, 0, ?, ?)", (entry.number, entry.hash, key))


def charge_values(view: Replay, table: str, question: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Return the payload of a charge of nothing: what costs something says so in place of the last four values.

    Raises
    ------
    NotProtected
        If the ledger knows no such table.
    """
    return {
        "number": len(view.lines) + 1,
        "table": table,
        "question": question,
        "plan": plan,
        "cost": [],
        "units": 0,
        "spent": view.spent,
        "cells": view.table(table).digest,
    }


def append(
    connection: sqlite3.Connection,
    view: Replay,
    kind: str,
    values: dict[str, Any],
    *,
    units: int = 0,
    blob: bytes | None = None,
    after: Entry | None = None,
) -> Entry:
    """Append an entry and move the state on.

    The view stays as it is until the entry is read back, so that after a failed commit there is nothing to undo; a
    second entry of the same transaction is told which is the first, which must be of no units.
    """
    number, head = (view.entries, view.head) if after is None else (after.number, after.hash)
    entry = entry_after(number, head, kind, to_bytes(values))
    _insert(connection, entry, blob)
    state = (entry.number, view.spent + units, entry.hash)
    connection.execute("UPDATE state SET entries = ?, spent = ?, head = ?", state)
    return entry


def write_snapshot(connection: sqlite3.Connection, table: str, charge: int, spend: Spend) -> None:
    """Write the spend of a table after a charge in place of its last snapshot."""
    row = (table, charge, snapshot.pack(spend))
    connection.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", row)


def write_refusal(
    connection: sqlite3.Connection,
    table: str,
    question: str,
    requested: int | Fraction,
    remaining: int | Fraction,
    told: Mapping[str, Any],
) -> None:
    """Log a charge that was refused: the units that were asked for and left, or where they are Fractions the delta.

    Beside the question's digest is written what is told of it, in the words of a person; see `REFUSED`.
    """
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    # As text: what was asked for may be more than 64 bits hold.
    amounts = [f"delta {n}" if isinstance(n, Fraction) else str(n) for n in (requested, remaining)]
    told = {**told, "statement": statement_text(told)}
    said = {name: told[name] for name in REFUSED if told.get(name)}
    row = (time, table, json.dumps({"key": question, **said}, ensure_ascii=False), *amounts)
    connection.execute("INSERT INTO refusal VALUES (?, ?, ?, ?, ?)", row)


def _insert(connection: sqlite3.Connection, entry: Entry, blob: bytes | None) -> None:
    row = (entry.number, entry.kind, entry.time, entry.payload, entry.prev, entry.hash, blob)
    connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", row)
