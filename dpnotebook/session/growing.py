"""Tables that grow by parts: what a table is with one more of them, and whether rows are the part they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpnotebook.domain import Domain
from dpnotebook.domain.parts import with_parts, without_parts
from dpnotebook.domain.schema import without_words
from dpnotebook.errors import ArgumentError, DomainError, LedgerMismatch, shorten
from dpnotebook.ledger.chain import to_bytes
from dpnotebook.ledger.checks import changed_elsewhere
from dpnotebook.ledger.replay import parts_of
from dpnotebook.planner.table import TableSchema
from dpnotebook.session.protected_rows import ProtectedRows


def grown(table: TableSchema, known: Mapping[str, Any], here: int, *, one_part: bool) -> TableSchema:
    """Return what is public about a table that one more part is added to.

    Parameters
    ----------
    table
        As it is.
    known
        What the ledger knows of it.
    here
        How many of its parts are protected in this session.
    one_part
        Whether each unit is in one part only.

    Raises
    ------
    DomainError
        If that was said otherwise of earlier parts, or a column has the name of the attribute of parts.
    """
    if not isinstance(one_part, bool):
        raise ArgumentError(f"one_part= is True or False, not {shorten(one_part)}")
    adds = table.unit is not None and not one_part
    if known.get("adds", adds) != adds:
        before = "may have rows in several parts" if known["adds"] else "was said to be in one part"
        raise DomainError(
            f"one {table.one} {before} of {shorten(table.name)} when it first grew, and that holds for every part: "
            f"{'leave out one_part=True' if known['adds'] else 'write one_part=True'}"
        )
    parts = max(len(parts_of(known)), here + 1)
    return replace(table, domain=with_parts(table.columns, parts), parts=parts, asked=None, adds=adds)


def check_columns(table: TableSchema, known: Mapping[str, Any]) -> None:
    """Check that a table has here the columns that the ledger knows, before a part is added.

    Raises
    ------
    LedgerConflict
        If another kernel declared them otherwise meanwhile.
    """
    there = Domain.from_json(known["domain"])
    there = without_parts(there) if "parts" in known else there
    if to_bytes(without_words(there.to_json())) != to_bytes(without_words(table.columns.to_json())):
        raise changed_elsewhere(table.name)


def place_of(rows: ProtectedRows, parts: Sequence[ProtectedRows], part: int | None) -> int | None:
    """Return which part some rows are already, from 0; None where they are to be added.

    Parameters
    ----------
    rows, parts
        The rows, and those of the parts that are here.
    part
        Which part they are said to be, from 1; None if nothing is said.

    Raises
    ------
    ArgumentError
        If it is neither one that is here nor the next one.
    LedgerMismatch
        If that part has other rows.
    """
    if part is None:
        return next((place for place, there in enumerate(parts) if there.same_as(rows)), None)
    if isinstance(part, bool) or not isinstance(part, int) or not 1 <= part <= len(parts) + 1:
        raise ArgumentError(
            f"part= is the number of a part: the next one here is part {len(parts) + 1}; not {shorten(part)}"
        )
    if part > len(parts):
        return None
    if not parts[part - 1].same_as(rows):
        raise LedgerMismatch(f"part {part} of {shorten(rows.table.name)} has other rows than these")
    return part - 1


def already_words(name: str, place: int, here: int) -> str:
    """Return what to tell whoever adds rows that are a part already, of a table of which so many are here."""
    return (
        f"these rows are part {place + 1} of {shorten(name)} already, and were not added again. If they are others that"
        f" happen to be the same, write part={here + 1}"
    )


def check_new_rows(rows: ProtectedRows, parts: Sequence[ProtectedRows]) -> None:
    """Check that rows that are units are in one part only: an export of all until now has those of before as well.

    Raises
    ------
    DomainError
        If many are in an earlier part too.
    """
    name = rows.table.name
    for number, there in enumerate(parts, start=1):
        if rows.digests.share(there.digests):
            raise DomainError(
                f"rows of part {number} of {shorten(name)} are among these as well: they would count twice, and be "
                "protected half as well as the budget says. Give the new rows alone; if these are others that happen "
                f"to be the same, write session.extend({shorten(name, 120)}, ..., part={len(parts) + 1})"
            )


def check_part(name: str, rows: ProtectedRows, place: int, known: Sequence[str]) -> None:
    """Check that rows are the part that the ledger knows by this place, if it knows one.

    Raises
    ------
    LedgerMismatch
        If they are others.
    """
    if place < len(known) and rows.fingerprint != known[place]:
        other = known.index(rows.fingerprint) + 1 if rows.fingerprint in known else None
        what = f"these are part {other}" if other else "these are other rows, or its unit or max_rows differ"
        raise LedgerMismatch(
            f"the ledger knows {len(known)} parts of {shorten(name)}, and part {place + 1} of them comes next here: "
            f"{what}. Parts are added in the order in which they came first, and their rows stay as they are"
        )


def check_parts_are(name: str, parts: Sequence[ProtectedRows], known: Sequence[str]) -> None:
    """Check that all parts of a table are those that the ledger knows; see `check_part`."""
    for place, rows in enumerate(parts):
        check_part(name, rows, place, known)


def check_all_parts(table: TableSchema, given: int) -> None:
    """Check that all parts of a table are given together, as its domain can be extended for all of them only.

    Raises
    ------
    DomainError
        If they are not.
    """
    if given != table.parts:
        raise DomainError(
            f"{shorten(table.name)} has {table.parts} parts, and its domain is extended for all of them together: give "
            f"them as a list, in the order in which they came: session.protect([first, second], "
            f"{shorten(table.name, 120)}, domain=...). Here {'is' if given == 1 else 'are'} {given}"
        )


def given_parts(data: Any) -> list[Any]:
    """Return the parts of a table that is given in parts; of one that is not, it alone.

    Raises
    ------
    DomainError
        If there is none.
    """
    if not isinstance(data, list):
        return [data]
    if not data:
        raise DomainError("a table in parts needs at least one part: this list is empty")
    return data
