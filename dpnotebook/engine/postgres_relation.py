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
from dpnotebook.dialect.types import ENUM, LONGEST_TEXT, PADDED, WIDEST_DOUBLE, WIDEST_WHOLE, Kind, check_unit_type
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

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("float4", "float8", "numeric"), "number"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid", "citext", "enum"), "text"),
    "bool": "boolean",
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "time"),
}
FORMS = {"enum": ENUM, "bpchar": PADDED}
FARTHEST, NEAREST = 300, 290  # digits before and behind the point of what is a DOUBLE without an error
_LAST = {"date": "9999-12-31", "timestamp": "9999-12-31 23:59:59.999999"}

# Run with search_path = pg_catalog: nobody's functions and operators but the system's own.
COLUMNS = """
WITH RECURSIVE base(place, name, type, modifier, sorting) AS (
    SELECT attnum, attname, atttypid, atttypmod, attcollation FROM pg_attribute
    WHERE attrelid = {relation}::oid AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT place, name, typbasetype, CASE WHEN modifier = -1 THEN typtypmod ELSE modifier END, sorting
    FROM base JOIN pg_type ON pg_type.oid = type WHERE typtype = 'd'
)
SELECT place, name,
    CASE WHEN typtype = 'e' THEN 'enum' WHEN typnamespace = 'pg_catalog'::regnamespace THEN typname
         WHEN EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
                      WHERE d.classid = 'pg_type'::regclass AND d.objid = pg_type.oid
                      AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'citext') THEN 'citext' END,
    format_type(pg_type.oid, NULL), modifier,
    coalesce((SELECT collisdeterministic FROM pg_collation c WHERE c.oid = sorting), true)
FROM base JOIN pg_type ON pg_type.oid = type WHERE typtype <> 'd' ORDER BY place
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


# The columns of a table in PostgreSQL: what their types come down to, and how their values become canonical scalars.
#
# A domain is its base type. Whole and other numbers, texts, truth values, dates and times are keys, levels and units;
# they are told apart here as there, because what is equal for PostgreSQL has been made one value first. Everything else
# is "other": shown as its text, so that nothing that is different there can meet, and refused where it would be a key.
@dataclass(frozen=True)
class PostgresColumn:
    """A column, its type resolved through domains.

    Parameters
    ----------
    place, name
        Its number and its name in the table.
    type
        The base type, as the system calls it: "int4"; "enum" and "citext" are called so; None for other people's.
    words
        The type as it is written in SQL.
    modifier
        PostgreSQL's own note of its size; -1 where there is none.
    bytewise
        Whether its collation tells texts apart that differ in a byte.
    """

    place: int
    name: str
    type: str | None
    words: str
    modifier: int = -1
    bytewise: bool = True

    def kind(self, unit: bool = False) -> Kind:
        """Return what it holds, as statements see it."""
        if self.type == "numeric":
            return "integer" if self._whole else "text" if unit else "number"
        return KINDS.get(self.type or "", "other")

    @property
    def decimal(self) -> bool:
        """Whether its plain values, but for those of a unit, are decimals that no floating-point number need hold."""
        digits, scale = self._size
        short = 0 < digits <= WIDEST_DOUBLE and 0 <= scale <= NEAREST
        return self.type == "numeric" and not self._whole and not short

    @property
    def zoned(self) -> bool:
        """Whether it holds moments, which are on different days in different places."""
        return self.type == "timestamptz"

    def plain(self, unit: bool = False) -> str:
        """Return SQL of its canonical scalar: equal where the values are equal, and only there; no value makes it fail.

        NaN is NULL and -0.0 is 0.0; times that are infinite or not of the years 1 to 9999 are NULL, and so are texts of
        more than a megabyte; texts are told apart by their bytes; times are in UTC.

        Raises
        ------
        DomainError
            If it is to be the unit and does not tell units apart.
        """
        if unit:
            collation = None if self.bytewise else '"C"'
            check_unit_type(self.name, self.kind(), self.words, "a view", collation)
        column, kind = identifier(self.name), self.kind()
        if kind == "boolean":
            return f"{column}::boolean"
        if kind == "time":
            return self._time(column)
        if kind == "text":
            return self._within(column, self._text(column, unit))
        if self.type in ("float4", "float8"):
            return f"nullif({column}::float8, 'NaN'::float8) + 0::float8"
        if self.type == "numeric":
            return self._numeric(column, unit)
        if kind == "integer":
            return f"{column}::bigint"
        return f'pg_temp.dp_text({column}) COLLATE "C"'

    def raw(self) -> str:
        """Return SQL of it where "other" types are to be seen for what they are."""
        return self.plain() if self.kind() != "other" else identifier(self.name)

    def digested(self) -> str:
        """Return SQL of what tells whether it has changed; as it always was, or ledgers would not know their tables."""
        column = identifier(self.name)
        if self.type in ("float4", "float8"):
            return f"nullif({column}::{self.type}, 'NaN')"
        if self.type == "numeric":
            return f"pg_temp.dp_number({column}::numeric)"
        return {"text": self._text(column, False), "other": _written(column)}.get(self.kind()) or self.plain()

    def _time(self, column: str) -> str:
        name = "date" if self.type == "date" else "timestamp"
        plain = f"({column}::timestamptz AT TIME ZONE 'UTC')" if self.type == "timestamptz" else f"{column}::{name}"
        return f"CASE WHEN {plain} BETWEEN {name} '0001-01-01' AND {name} '{_LAST[name]}' THEN {plain} END"

    def _text(self, column: str, unit: bool) -> str:
        if self.type in ("enum", "uuid"):
            return _written(column)
        if self.type == "citext" and unit:  # that is how it tells values apart
            return f'lower({column}::text COLLATE "default") COLLATE "C"'
        return f'{column}::text COLLATE "C"'

    def _within(self, column: str, text: str) -> str:
        """Return a text, NULL where it is too long; the length is that of what is stored, which need not be fetched."""
        characters = self.modifier - 4 if self.type in ("varchar", "bpchar") and self.modifier >= 4 else LONGEST_TEXT
        if self.type in ("enum", "uuid", "name") or 4 * characters <= LONGEST_TEXT:
            return text
        return f"CASE WHEN octet_length({column}::text) <= {LONGEST_TEXT} THEN {text} END"

    def _numeric(self, column: str, unit: bool) -> str:
        value = f"nullif({column}::numeric, 'NaN'::numeric)"
        if self._whole:
            return f"{value}::bigint"
        if unit:
            return f'trim_scale({value})::text COLLATE "C"'
        if not self.decimal:
            return f"{value}::float8"
        near, far = (
            f"abs({column}::numeric) < 1e-{NEAREST}",
            f"{column}::numeric BETWEEN -1e{FARTHEST} AND 1e{FARTHEST}",
        )
        return f"CASE WHEN {near} THEN 0 WHEN {far} THEN {column}::numeric END"

    @property
    def _whole(self) -> bool:
        digits, scale = self._size
        return self.type == "numeric" and 0 < digits <= WIDEST_WHOLE and scale == 0

    @property
    def _size(self) -> tuple[int, int]:
        """Digits and scale of a numeric; (0, 0) where it may have any."""
        if self.modifier < 4:
            return 0, 0
        scale = (self.modifier - 4) & 2047
        return (self.modifier - 4) >> 16, scale - 2048 if scale > 1023 else scale


def _written(column: str) -> str:
    """Return SQL of what the type itself writes for a value; a cast may be somebody's own function."""
    return f'CASE WHEN num_nonnulls({column}) = 1 THEN concat({column}) COLLATE "C" END'
