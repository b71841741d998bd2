"""What names mean inside a query: the columns that its FROM brings, and those that it gives on.

Every source of a query gets a name of our own, and every column is named through its source: no name that somebody
wrote reaches the engine but those of tables and their columns, so nothing can hide behind another name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fractions import Fraction

from sqlglot import exp

from dpnotebook.dialect.expressions import MaybeKind, with_kind
from dpnotebook.dialect.text import Text
from dpnotebook.dialect.types import ROW_UNIT
from dpnotebook.errors import shorten
from dpnotebook.sql.parse.elsewhere import COLUMNS as ELSEWHERE

UNIT = "u"  # the unit's column of a query over private rows


@dataclass(frozen=True)
class Owner:
    """Whose rows they are: which column identifies the unit, what its values can be compared with, whose they are.

    Parameters
    ----------
    unit
        The unit's column as it was declared; None: each row of `table` is a unit of its own.
    table
        The first table they come from.
    kind
        What the unit's column holds.
    populations
        Those of all tables they come from; see `dpnotebook.sql.ownership.populations`.
    named
        The population, where it is one that was given a name.
    """

    unit: str | None
    table: str
    kind: MaybeKind
    populations: frozenset[tuple[str, str]]
    named: str | None = None

    @property
    def one(self) -> str:
        """What a unit is called."""
        return self.named or self.unit or f"row of {self.table}"

    def of(self, populations: frozenset[tuple[str, str]]) -> Owner:
        """Return the owner of rows that come from tables of these populations."""
        return replace(self, populations=populations, named=self.named if len(populations) == 1 else None)


@dataclass(frozen=True)
class Column:
    """A column that can be named.

    Parameters
    ----------
    name, qualifier
        Its name, and what can stand before it.
    node
        What it is: a column of a source of ours.
    kind
        What it holds; None if that is not known.
    unit
        Whether it is the privacy unit of its row.
    origin
        The table and the column whose values it has as they are.
    lost
        A declared column that had this name before it was redefined.
    bare, shown
        Whether it can be named without its qualifier, and whether * shows it.
    element
        What the elements of a list hold, where that is known.
    rounded
        Whether it holds numbers that are not exactly what is stored.
    growth
        How many times as long as those of a table its texts can be.
    numbers
        Whether it numbers the rows of each unit, from 1 on, in the query that it is from.
    missing
        Whether a join keeps rows that have no value of it.
    narrowed
        Whether a query over public tables alone leaves out some of its values.
    within
        Where it leaves out rows by a condition on columns of their table alone: that condition, in the table's names.
    row
        The source in FROM, wherever it is read, of whose rows it is a column as they are; None where it is of none.
    absent
        Whether it is NULL in the rows that an outer join pads, where it has such rows.
    equal, equal_row
        The table and the column whose values it has in all rows, by a join with it, and of which rows that is.
    untyped
        Whether its texts stand for values of any kind.
    form
        What it is beside its kind, as `dialect.types` calls it; empty where it is nothing else.
    unit_or_null
        Whether it is the privacy unit of its row, or NULL, as an outer join pads it.
    ends
        Between which numbers it lies in every row, where a query below says so; see `value_bounds`.
    """

    name: str
    qualifier: str | None
    node: exp.Expr
    kind: MaybeKind
    unit: bool = False
    origin: tuple[str, str] | None = None
    lost: str | None = None
    bare: bool = True
    shown: bool = True
    element: MaybeKind = None
    rounded: bool = False
    growth: int = 1
    numbers: bool = False
    missing: bool = False
    narrowed: bool = False
    row: str | None = None
    absent: bool = False
    within: str = ""
    equal: tuple[str, str] | None = None
    equal_row: str | None = None
    untyped: bool = False
    form: str = ""
    unit_or_null: bool = False
    ends: tuple[Fraction, Fraction] | None = None


@dataclass
class Scope:
    """What can be named at a place of a query.

    Parameters
    ----------
    columns
        In the order in which * shows them.
    unit
        The unit of a row, where rows have one: everything that is the unit is written as this.
    outer
        What can be named around an expression subquery.
    dropped
        Names of unit columns that were not selected from subqueries below, for errors.
    owner
        Whose the rows are; None where they are public, or while FROM is still being read.
    asked, asked_public
        The protected and public tables that subqueries in expressions about these rows read.
    """

    columns: list[Column] = field(default_factory=list)
    unit: exp.Expr | None = None
    outer: Scope | None = None
    dropped: tuple[str, ...] = ()
    owner: Owner | None = None
    asked: list[str] = field(default_factory=list)
    asked_public: list[str] = field(default_factory=list)

    def find(self, written: exp.Column, text: Text) -> tuple[Column, Scope] | None:
        """Return the column that a name means and where it was found; None if there is none.

        Raises
        ------
        SQLError
            If the name can mean several.
        """
        name, table = written.name.casefold(), written.table.casefold() or None
        scope: Scope | None = self
        while scope is not None:
            found = [
                column
                for column in scope.columns
                if column.name.casefold() == name and (column.bare if table is None else column.qualifier == table)
            ]
            if len(found) > 1:
                raise text.error(_ambiguous(written, found), written)
            if found:
                return found[0], scope
            scope = scope.outer
        return None

    def value(self, column: Column) -> exp.Expr:
        """Return a copy of what a column is."""
        node = self.unit if column.unit and self.unit is not None else column.node
        value = with_kind(node.copy(), column.kind)
        value.meta["growth"] = column.growth
        if column.untyped:
            value.meta["untyped"] = True
        if column.form:
            value.meta["form"] = column.form
        return value

    def unknown(self, written: exp.Column) -> str:
        """Return what to tell someone who named a column that is not there."""
        if written.name.casefold() == ROW_UNIT:
            return "the rows of a table without a unit column have no name: write COUNT(*) to count them"
        qualifiers = list(dict.fromkeys(column.qualifier for column in self.columns if column.qualifier))
        dotted = f"{written.table}.{written.name}".casefold()
        found = next((column.name for column in self.columns if column.name.casefold() == dotted), None)
        if found is not None:
            return f"{shorten(found)} is one name, with a point in it: write it in double quotes"
        if written.table and written.table.casefold() not in qualifiers:
            return f"there is no table {shorten(written.table)} in this FROM; there are {listed(qualifiers)}"
        near = next((name for name in self.dropped if name.casefold() == written.name.casefold()), None)
        if near is not None:
            return f"the subquery in FROM drops the unit column {near}: select it there too"
        among = [column for column in self.columns if written.table.casefold() in ("", column.qualifier)]
        names = list(dict.fromkeys(column.name for column in among))
        close = get_close_matches(written.name, names, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {listed(names)}"
        if written.this.args.get("quoted") and not written.table and not close:
            hint = f"double quotes are for names, and a text stands in single quotes: '{written.name}'"
        hint = ELSEWHERE.get(written.name.upper(), hint)
        where = f"in {written.table}" if written.table else "here"
        return f"there is no column {shorten(written.name)} {where}; {hint}"


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return names for a sentence."""
    found = list(names)
    if not found:
        return "none"
    return ", ".join(found[:most]) + (f" and {len(found) - most:,} more" if len(found) > most else "")


def _ambiguous(written: exp.Column, found: list[Column]) -> str:
    qualified = [f"{column.qualifier}.{column.name}" for column in found if column.qualifier]
    if len({name.casefold() for name in qualified}) == len(found) and not written.table:
        return f"{written.name} can be {' or '.join(qualified)}; write one of them"
    origins = {column.origin for column in found if column.origin is not None}
    if len(origins) == len(found) and len({table for table, _ in origins}) == 1 and len(set(qualified)) == len(found):
        names = " and ".join(shorten(name) for _, name in sorted(origins))
        return f"{names} differ only in case, which SQL cannot tell apart; rename one of them before protect()"
    return f"{written.name} is the name of several columns; give each its own name with AS"
