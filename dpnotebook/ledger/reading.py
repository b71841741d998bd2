"""Reading the database: replaying entries, and finding charges, answers and refusals again."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpnotebook.ledger.chain import Broken, Entry, entry_from_row, intact
from dpnotebook.ledger.collecting import collecting_later
from dpnotebook.ledger.releases import Charge, Record, charge_from, recorded_from, unpack
from dpnotebook.ledger.replay import ChargeLine, Replay
from dpnotebook.privacy.accountant import DELTA_UNITS

COLUMNS = "number, kind, time, payload, prev, hash, length(answers)"

AT_ONCE = 250  # charges that are read together
# What the log tells of a refused question, beside its digest: it in words, as SQL where it was asked so, its accuracy,
# who asked, and why not.
REFUSED = ("words", "statement", "accuracy", "analyst", "why")
HISTORY = ("number", "time", "table", "question", "plan", "units", "delta", "state")


def replay(connection: sqlite3.Connection, view: Replay | None) -> Replay:
    """Bring a view up to the last entry, and check that the state kept beside the entries follows from them.

    Parameters
    ----------
    connection
        In a transaction.
    view
        What was replayed before; None starts with the first entry. It is changed, also where this raises.

    Raises
    ------
    Broken
        If an entry does not follow from the one before, or the state from the entries.
    """
    entries, spent, head, last = _state(connection)
    if view is None:
        view = Replay(snapshots(connection))
    if entries > view.entries:
        rows = connection.execute(f"SELECT {COLUMNS} FROM entry WHERE number > ? ORDER BY number", (view.entries,))
        with collecting_later():
            for row in rows:
                view.apply(entry_from_row(row))
        view.share()
    if entries < view.entries:
        raise Broken("entries that were there are gone")
    if (view.entries, view.spent, view.head) != (entries, spent, head) or last != entries or view.unused_snapshots:
        raise Broken("its totals do not follow from its entries")
    return view


def snapshots(connection: sqlite3.Connection) -> dict[str, tuple[int, bytes]]:
    """Return the snapshots of spends: by table, the number of a charge and the packed spend after it."""
    rows = connection.execute("SELECT name, charge, spend FROM snapshot").fetchall()
    try:
        return {name.decode(): (int(charge), bytes(spend)) for name, charge, spend in rows}
    except (AttributeError, ValueError, TypeError):
        raise Broken("a snapshot of the spend cannot be read") from None


def hash_of(connection: sqlite3.Connection, number: int) -> bytes | None:
    """Return the hash of the entry with this number, None if there is none."""
    row = connection.execute("SELECT hash FROM entry WHERE number = ?", (number,)).fetchone()
    return None if row is None else row[0]


def key_of(connection: sqlite3.Connection, view: Replay) -> bytes:
    """Return the ledger's key, checked against the digest in its first entry."""
    (key,) = connection.execute("SELECT key FROM state").fetchone()
    if not isinstance(key, bytes) or hashlib.sha256(key).hexdigest() != view.opening.get("key"):
        raise Broken("its key was changed")
    return key


def read_charge(connection: sqlite3.Connection, line: ChargeLine) -> Charge:
    """Return a charge."""
    entry, _ = _entry(connection, line.entry)
    return charge_from(entry.values, entry.time, line.since)


def read_record(connection: sqlite3.Connection, line: ChargeLine) -> Record:
    """Return a charge with its recorded answers."""
    return next(read_records(connection, [line]))


def read_records(connection: sqlite3.Connection, lines: Sequence[ChargeLine]) -> Iterator[Record]:
    """Yield charges with their recorded answers, in the order that is given."""
    for start in range(0, len(lines), AT_ONCE):
        some = lines[start : start + AT_ONCE]
        numbers = [number for line in some for number in (line.entry, line.record) if number is not None]
        marks = ", ".join("?" * len(numbers))
        query = f"SELECT {COLUMNS}, answers FROM entry WHERE number IN ({marks})"
        rows = {row[0]: row for row in connection.execute(query, numbers)}
        for line in some:
            assert line.record is not None
            charge, _ = _checked(rows.get(line.entry), line.entry)
            entry, blob = _checked(rows.get(line.record), line.record)
            values = entry.values
            answers = unpack(blob, values["answers"])
            yield recorded_from(charge.values, charge.time, line.since, answers, values["details"])


def read_history(
    connection: sqlite3.Connection, view: Replay, after: int = 0, among: Sequence[int] = ()
) -> list[dict[str, Any]]:
    """Return these charges, and every one after a number, in order, and whether the answer of each was recorded."""
    rows = []
    for line in (*(view.line(number) for number in among), *view.lines[after:]):
        entry, _ = _entry(connection, line.entry)
        values = entry.values
        values |= {"time": entry.time, "state": "charged" if line.record is None else "recorded"}
        values["delta"] = Fraction(values.get("delta", 0), DELTA_UNITS)
        rows.append({name: values[name] for name in HISTORY})
    return rows


def read_refusals(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the log of refused charges, with what was told of each; earlier versions wrote its digest alone."""
    rows = connection.execute("SELECT time, name, question, requested, remaining FROM refusal ORDER BY rowid")
    names = ("time", "table", "question", "requested", "remaining")
    try:
        texts = [[value.decode() for value in row] for row in rows]
        rows_read = [dict(zip(names, [*row[:3], *map(_amount, row[3:])], strict=True)) for row in texts]
        return [one | _told(str(one["question"])) for one in rows_read]
    except (AttributeError, ValueError, ZeroDivisionError, KeyError, TypeError):
        raise Broken("its log of refused charges cannot be read") from None


def statement_text(plan: Mapping[str, Any]) -> str:
    """Return the text of the statement that a plan is of, with the values that were bound to names in it, as a comment.

    Empty where it is of none, or has no text of it.
    """
    statement = plan.get("statement", {})
    text, values = str(statement.get("text", "")).strip(), statement.get("options", {}).get("parameters", {})
    bound = ", ".join(f":{name} = {value!r}" for name, value in values.items())
    return f"{text} -- {bound}" if bound else text


def _told(question: str) -> dict[str, str]:
    """Return the digest of a refused question, and what was told of it: texts, empty where nothing was."""
    told = json.loads(question) if question.startswith("{") else {"key": question}
    return {"question": str(told["key"]), **{name: str(told.get(name, "")) for name in REFUSED}}


def _amount(text: str) -> int | Fraction:
    return Fraction(text.removeprefix("delta ")) if text.startswith("delta ") else int(text)


def _state(connection: sqlite3.Connection) -> tuple[int, int, bytes, int]:
    rows = connection.execute("SELECT entries, spent, head, (SELECT max(number) FROM entry) FROM state").fetchall()
    if len(rows) != 1:
        raise Broken("its totals are missing")
    entries, spent, head, last = rows[0]
    if not (isinstance(entries, int) and isinstance(spent, int) and isinstance(last, int) and entries > 0):
        raise Broken("its totals cannot be read")
    return entries, spent, head, last


def _entry(connection: sqlite3.Connection, number: int) -> tuple[Entry, object]:
    row = connection.execute(f"SELECT {COLUMNS}, answers FROM entry WHERE number = ?", (number,)).fetchone()
    return _checked(row, number)


def _checked(row: tuple[Any, ...] | None, number: int) -> tuple[Entry, object]:
    if row is None:
        raise Broken(f"entry {number} is missing")
    entry = entry_from_row(row[:-1])
    if not intact(entry):
        raise Broken(f"entry {number} was changed after it was written")
    return entry, row[-1]
