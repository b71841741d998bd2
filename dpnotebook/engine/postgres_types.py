"""The columns of a table in PostgreSQL: what their types come down to, and how their values become canonical scalars.

A domain is its base type. Whole and other numbers, texts, truth values, dates and times are keys, levels and units;
they are told apart here as there, because what is equal for PostgreSQL has been made one value first. Everything else
is "other": shown as its text, so that nothing that is different there can meet, and refused where it would be a key.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpnotebook.dialect.attributes import identifier
from dpnotebook.dialect.types import LONGEST_TEXT, WIDEST_DOUBLE, WIDEST_WHOLE, Kind, check_unit_type

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("float4", "float8", "numeric"), "number"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid", "citext", "enum"), "text"),
    "bool": "boolean",
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "time"),
}
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
        digits, scale = self._size
        if 0 < digits <= WIDEST_DOUBLE and 0 <= scale <= NEAREST:
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
