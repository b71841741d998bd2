"""Whether what a statement works out from its releases can be worked out, before anything is paid for."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpnotebook.dialect.attributes import identifier
from dpnotebook.domain.values import plain
from dpnotebook.engine.sealed import empty_database
from dpnotebook.errors import SQLError, shorten
from dpnotebook.ledger.forks import lock
from dpnotebook.sql.analysis.release_names import interval_columns
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement import Relation, Statement

if TYPE_CHECKING:
    import duckdb

_lock = lock()

# A value of each kind that any cast of that kind takes; a text that is not declared may be anything.
SAMPLE = {"integer": 1, "number": 1.0, "boolean": True, "time": datetime.datetime(2000, 1, 1)}
BESIDE = len(interval_columns(""))
AT_ONCE = 200  # rows of one INSERT, each of which takes as long as many rows

TYPES = {"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "boolean": "BOOLEAN", "time": "TIMESTAMP"}


def check_outer(statement: Statement, relations: Mapping[str, Relation]) -> None:
    """Refuse a statement whose outer part DuckDB cannot work out, by trying it on tables of the same columns.

    Their rows hold the declared levels of the keys, and numbers that no release is known by.

    Parameters
    ----------
    statement
        What was understood of it.
    relations
        What is public about the tables.

    Raises
    ------
    SQLError
        In DuckDB's words, which know of nothing but names and types of columns.
    """
    if statement.outer is None:
        return
    import duckdb

    tables = {f"release_{place}": _columns(select) for place, select in enumerate(statement.selects)}
    for name in statement.public:
        tables[name] = {column: TYPES.get(kind, "") for column, kind in relations[name].columns.items()}
    if not all(all(columns.values()) for columns in tables.values()):
        return  # what some column holds is not known: then only the rows themselves can tell
    with _lock:
        connection = empty_database(os.getpid())
        connection.execute("BEGIN")
        try:
            for name, columns in tables.items():
                listed = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns.items())
                connection.execute(f"CREATE TABLE {identifier(name)} ({listed})")
            connection.execute(f"EXPLAIN {statement.outer}").fetchall()
            for place, select in enumerate(statement.selects):
                _fill(connection, f"release_{place}", select)
            connection.execute(statement.outer).fetchall()
        except duckdb.Error as failure:
            text = str(failure).split("\n\nLINE")[0].strip().splitlines()
            raise SQLError(
                f"this cannot be worked out from the answer: {shorten(text[0] if text else failure, 200)}"
            ) from None
        finally:
            connection.execute("ROLLBACK")


def _fill(connection: duckdb.DuckDBPyConnection, name: str, select: PrivateSelect) -> None:
    """Insert rows such as a release may have, every declared level of every key among them."""
    rows = max((len(key.levels) for key in select.keys if key.levels), default=1)
    numbers = ["[1e0]" if aggregate.array else "1e0" for aggregate in select.aggregates for _ in range(1 + BESIDE)]
    marks = ", ".join([*(f"TRY_CAST(? AS {TYPES[key.kind]})" for key in select.keys), *numbers])
    for first in range(0, rows, AT_ONCE):
        some = range(first, min(first + AT_ONCE, rows))
        keys = [
            plain(key.levels[row % len(key.levels)] if key.levels else SAMPLE.get(key.kind))
            for row in some
            for key in select.keys
        ]
        connection.execute(f"INSERT INTO {identifier(name)} VALUES {', '.join(f'({marks})' for _ in some)}", keys)


def _columns(select: PrivateSelect) -> dict[str, str]:
    """Return the types of the columns of a release; an empty one where that is not known."""
    found = {key.name: TYPES.get(key.kind, "") for key in select.keys}
    for aggregate in select.aggregates:
        kind = "DOUBLE[]" if aggregate.array else "DOUBLE"
        found |= dict.fromkeys([aggregate.name, *interval_columns(aggregate.name)], kind)
    return found
