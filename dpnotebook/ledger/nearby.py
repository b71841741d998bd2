"""Other ledgers in the folder of one: a second one for the same people grants a second budget, without a word.

Nobody can tell for certain: a ledger's fingerprints are keyed with a secret of its own, and rows change. So a table of
the same name, of the same declared domain or of the same named population is told of; no data is read for that. A
copy of the very ledger is told of where it knows what this one does not.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpnotebook.domain.schema import without_words
from dpnotebook.ledger.exposure import warn
from dpnotebook.ledger.journals import APPLICATION, as_it_lies
from dpnotebook.privacy.accountant import accountant_for
from dpnotebook.privacy.budget import Budget

MOST_FILES = 200
_OTHERS = ("-journal", "-wal", "-shm", ".new")
_SECTOR = 512  # every database is a multiple of it

HashAt = Callable[[int], bytes | None]


def warn_of_others(path: str, last: int, hash_at: HashAt, values: Mapping[str, Any]) -> None:
    """Warn, once, of ledgers in the same folder that know a table, or more of this ledger than it does itself.

    Parameters
    ----------
    path
        The ledger's file.
    last, hash_at
        The number of its last entry, and what gives the hash of an entry by its number.
    values
        What the table is to be registered with: name, domain and population count.

    Warns
    -----
    LedgerWarning
        Of each such file.
    """
    for other in _candidates(path):
        try:
            with as_it_lies(other) as connection:
                text = _what_it_knows(connection, path, other, (last, hash_at), values)
        except (sqlite3.Error, ValueError, KeyError, TypeError, ArithmeticError, AttributeError):
            continue  # no ledger, or one that is being written to
        if text:
            warn(text, about=f"{path} {other} {values['name']}")


def _candidates(path: str) -> Iterator[str]:
    """Yield the files beside a ledger that may be ledgers, those of that suffix first, at most a number of them."""
    try:
        own = os.stat(path)
        found = [
            entry.path
            for entry in os.scandir(os.path.dirname(path))
            if not entry.name.endswith(_OTHERS) and "-random-" not in entry.name and entry.is_file()
        ]
    except OSError:
        return
    suffixes = {".ledger", os.path.splitext(path)[1]}
    found.sort(key=lambda name: (os.path.splitext(name)[1] not in suffixes, name))
    for name in found[:MOST_FILES]:
        try:
            status = os.stat(name)
        except OSError:
            continue
        if status.st_size and status.st_size % _SECTOR == 0 and not os.path.samestat(status, own):
            yield name


def _what_it_knows(
    connection: sqlite3.Connection, path: str, other: str, own: tuple[int, HashAt], values: Mapping[str, Any]
) -> str:
    """Return what a user should know of a file beside the ledger; empty if nothing."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        return ""
    name, (last, hash_at) = os.path.basename(other), own
    ((first, opening),) = connection.execute("SELECT hash, payload FROM entry WHERE number = 1").fetchall()
    ((entries, spent, head),) = connection.execute("SELECT entries, spent, head FROM state").fetchall()
    if first == hash_at(1):
        if entries <= last and hash_at(entries) == head:
            return ""  # a copy that was made before, such as a backup
        known = connection.execute("SELECT hash FROM entry WHERE number = ?", [last]).fetchone()
        return _of_a_copy(os.path.basename(path), name, later=known is not None and known[0] == hash_at(last))
    said: dict[str, dict[str, Any]] = {}
    kinds = "'register', 'correct', 'extend', 'grow', 'population'"
    for (payload,) in connection.execute(f"SELECT payload FROM entry WHERE kind IN ({kinds})"):
        told = json.loads(payload)
        said[told["name"]] = said.get(told["name"], {}) | told
    same = next((words for table in said.values() if (words := _alike(table, values))), "")
    if not same:
        return ""
    accountant = accountant_for(Budget.from_json(json.loads(opening)["budget"]))
    return (
        f"the ledger {name} in the same folder also knows {same}. Neither counts what the other spends (ε = "
        f"{accountant.epsilon(spent):.3g} there): if both are about the same people, use one, "
        f"dpn.Session(budget, ledger={other!r})"
    )


def _of_a_copy(own: str, name: str, later: bool) -> str:
    if later:
        return (
            f"{name} in the same folder is a later copy of this ledger: what was spent after {own} was copied or "
            f"restored is not counted here. Go on with the later one"
        )
    return (
        f"{name} in the same folder is a copy of this ledger that was used by itself: neither counts what the other "
        f"spends. Go on with one of them"
    )


def _alike(known: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Return in what a table of another ledger is like this one, in words; empty if in nothing."""
    if known["name"] == values["name"]:
        return f"a table {values['name']!r}"
    if known.get("population") is not None and known.get("population") == values.get("population"):
        return f"a table of the population {values['population']!r}, {known['name']!r}"
    domain = values["domain"]
    if json.dumps(without_words(known["domain"])) == json.dumps(without_words(domain)) and domain.get("attributes"):
        return f"a table of the same columns, {known['name']!r}"
    return ""
