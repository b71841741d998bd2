"""The columns of a Spark frame: how their values become canonical scalars.

Whole and other numbers, texts, truth values, dates and times are keys, levels and units; what is equal for Spark has
been made one value first. Everything else is "other": shown as its text, and refused where it would be a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpnotebook.dialect.types import LONGEST_TEXT, WIDEST_DOUBLE, WIDEST_WHOLE, Kind, check_unit_type

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("string", "char", "varchar", "void"), "text"),
    "boolean": "boolean",
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "time"),
}
BYTEWISE = "UTF8_BINARY"


@dataclass(frozen=True)
class SparkColumn:
    """A column.

    Parameters
    ----------
    name
        As the frame calls it.
    place
        What we call it: names may differ in case alone.
    type
        Spark's own object for its type.
    """

    name: str
    place: str
    type: Any

    @property
    def words(self) -> str:
        """The type as it is written in SQL."""
        return str(self.type.simpleString())

    def kind(self, unit: bool = False) -> Kind:
        """Return what it holds, as statements see it."""
        head = self._head
        if head == "decimal":
            return "integer" if self._whole else "text" if unit else "number"
        return KINDS.get(head, "other")

    @property
    def decimal(self) -> bool:
        """Whether its plain values, but for those of a unit, are decimals that no floating-point number need hold."""
        return self._head == "decimal" and not self._whole and not self._short

    @property
    def zoned(self) -> bool:
        """Whether it holds moments, which are on different days in different places."""
        return self._head == "timestamp"

    def plain(self, unit: bool = False) -> str:
        """Return SQL of its canonical scalar: equal where the values are equal, and only there; no value makes it fail.

        NaN is NULL and -0.0 is 0.0; times not of the years 1 to 9999 are NULL, and so are texts that are not UTF-8 or
        have more than a megabyte; texts are told apart by their bytes; times are in UTC.

        Raises
        ------
        DomainError
            If it is to be the unit and does not tell units apart.
        """
        if unit:
            collation = None if self._bytewise else BYTEWISE
            check_unit_type(self.name, self.kind(), self.words, "a frame", collation)
        column, kind, head = self.place, self.kind(), self._head
        if kind == "integer":
            return f"CAST({column} AS BIGINT)"
        if head in ("float", "double"):
            return f"nullif(CAST({column} AS DOUBLE), CAST('NaN' AS DOUBLE)) + CAST(0 AS DOUBLE)"
        if head == "decimal":
            return f"CAST({column} AS STRING)" if unit else f"CAST({column} AS DOUBLE)" if self._short else column
        if head == "date":
            return f"CASE WHEN {column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {column} END"
        if kind == "time":
            time, last = f"CAST({column} AS TIMESTAMP_NTZ)", "9999-12-31 23:59:59.999999"
            return f"CASE WHEN {time} BETWEEN TIMESTAMP_NTZ '0001-01-01' AND TIMESTAMP_NTZ '{last}' THEN {time} END"
        if kind == "boolean":
            return column
        text = f"CAST({self._written()} AS STRING)"  # of the collation that goes by bytes
        fits = f"octet_length({text}) <= {LONGEST_TEXT} AND is_valid_utf8({text})"  # others are one text to Python
        return f"CASE WHEN {fits} THEN {text} END"

    def raw(self) -> str:
        """Return SQL of it where "other" types are to be seen for what they are."""
        return self.plain() if self.kind() != "other" else self.place

    def digested(self) -> str:
        """Return SQL of what tells whether it has changed; as it always was, or ledgers would not know their tables."""
        column, head = self.place, self._head
        if head in ("float", "double"):
            return f"nullif({column}, CAST('NaN' AS {head}))"
        if head == "decimal":
            return f"CAST({column} AS DOUBLE)"
        if self.kind() == "time":
            return self.plain()
        return self._written()

    def _written(self) -> str:
        """Return SQL of its text."""
        if self._head == "binary":
            return f"hex({self.place})"
        if self._head == "variant":
            return f"to_json({self.place})"
        if self._head in ("geometry", "geography"):
            return f"hex(st_asbinary({self.place}))"
        return f"CAST({self.place} AS STRING)"

    @property
    def _bytewise(self) -> bool:
        return bool(getattr(self.type, "collation", BYTEWISE) == BYTEWISE)

    @property
    def _head(self) -> str:
        return self.words.split("(")[0].split("<")[0].split(" ")[0]

    @property
    def _whole(self) -> bool:
        return bool(self._head == "decimal" and self.type.scale == 0 and self.type.precision <= WIDEST_WHOLE)

    @property
    def _short(self) -> bool:
        return bool(self.type.precision <= WIDEST_DOUBLE)
