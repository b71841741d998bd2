"""What a table in PostgreSQL is: where its rows lie, and whether they are the same whenever they are read.

Rows that lie in tables of the database's own are seen as they were at one moment, whatever happens to them later. But
for TRUNCATE, a table that is rewritten, and one that takes another's name: those are noticed, by the number of the file
that a table lies in, and by the names of its columns, which the system tells as they are now. What is worked out anew
whenever it is read (views, foreign tables, rows behind a policy) is copied once, for as long as a connection lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpnotebook.dialect.attributes import identifier
from dpnotebook.engine.postgres_types import COLUMNS, PostgresColumn
from dpnotebook.errors import DomainError, shorten

if TYPE_CHECKING:
    from dpnotebook.engine.postgres import PostgresExecutor

TABLE, PARTITIONED, MATERIALIZED = "r", "p", "m"
SELECTABLE = (TABLE, PARTITIONED, MATERIALIZED, "v", "f")

_ABOUT = """
SELECT n.nspname, c.relname, c.relkind::text, c.relhassubclass, row_security_active(c.oid),
    has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = {relation}::oid
"""
# These functions tell what is there now, whatever moment the rows of the transaction are of; for that some table of the
# system must be read, or what happened elsewhere meanwhile is not known.
_STATE = """
SELECT (SELECT string_agg((pg_identify_object('pg_class'::regclass, {relation}, place)).identity, ' ' ORDER BY place)
        FROM unnest('{{{places}}}'::int[]) AS place),
    (SELECT string_agg(concat_ws(' ', part, pg_relation_filenode(part), row_security_active(part)), ',' ORDER BY part)
     FROM {parts})
FROM (SELECT FROM pg_class LIMIT 1) AS looked
"""
_PARTS = "(SELECT relid::oid AS part FROM pg_partition_tree({relation}::oid::regclass)) AS parts"
_ALONE = "(VALUES ({relation}::oid)) AS parts(part)"
_KINDS = """
SELECT bool_and(relkind IN ('r', 'p')) FROM pg_class
WHERE oid IN (SELECT relid FROM pg_partition_tree({relation}::oid::regclass))
"""


@dataclass(frozen=True)
class State:
    """How a table lies in the database: the full names of its columns, and the files of it and of its parts."""

    names: str | None
    files: str | None


@dataclass(frozen=True)
class PostgresRelation:
    """A table or view.

    Parameters
    ----------
    number
        The system's number of it.
    name
        Its full name, quoted.
    kind
        What the system calls its kind.
    columns
        In order.
    fixed
        Whether the rows of one moment are the same whenever they are read.
    """

    number: int
    name: str
    kind: str
    columns: tuple[PostgresColumn, ...]
    fixed: bool

    @property
    def place(self) -> str:
        """Where its rows are read from: not from tables that somebody makes children of it meanwhile."""
        return f"ONLY {self.name}" if self.fixed and self.kind != PARTITIONED else self.name

    def state(self, executor: PostgresExecutor) -> State:
        """Return what changes when its rows are thrown away or others take its name."""
        parts = (_PARTS if self.kind == PARTITIONED else _ALONE).format(relation=self.number)
        places = ",".join(str(column.place) for column in self.columns)
        return State(*executor.about(_STATE.format(relation=self.number, places=places, parts=parts))[0])


def relation_of(executor: PostgresExecutor, number: int | None, table: str) -> PostgresRelation:
    """Return a table or view by its number.

    Parameters
    ----------
    executor
        A connection whose search path is the system's own.
    number
        The system's number of it; None where there is none.
    table
        As it was given.

    Raises
    ------
    DomainError
        If there is none, or it may not be read.
    """
    found = [] if number is None else executor.once(_ABOUT.format(relation=number))
    if not found or found[0][2] not in SELECTABLE or not found[0][5]:
        raise DomainError(f"there is no table or view {shorten(table)} in that database, or it may not be read")
    schema, name, kind, children, policy, _ = found[0]
    columns = tuple(PostgresColumn(*row) for row in executor.once(COLUMNS.format(relation=number)))
    fixed = kind in (TABLE, PARTITIONED, MATERIALIZED) and not policy
    if kind == PARTITIONED:
        fixed = fixed and executor.once(_KINDS.format(relation=number)) == [(True,)]
    else:
        fixed = fixed and not children
    return PostgresRelation(int(number or 0), f"{identifier(schema)}.{identifier(name)}", kind, columns, fixed)
