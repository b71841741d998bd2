"""Joins with public tables whose key is a declared column: what they say of a row follows from the level of that.

`FROM people JOIN regions USING (city) WHERE north` selects some cities, and `GROUP BY region` groups by them. Where no
key stands twice in the public table, a join with it neither repeats nor changes rows, so that the statement means the
same without it: with `city IN (...)` and `CASE WHEN city IN (...) THEN ... END` in place of the columns of that table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from sqlglot import exp

from dpnotebook.dialect.attributes import identifier, literal
from dpnotebook.domain import Categories, Domain
from dpnotebook.engine.sealed import without_files
from dpnotebook.sql.statement import Relation

MOST_ROWS = 2_000  # of a public table, and
MOST_LEVELS = 1_000  # of a key, that are compared
KINDS = {"text": "VARCHAR", "boolean": "BOOLEAN", "whole": "BIGINT"}  # that are compared as they are written


class _Otherwise(Exception):
    """The statement is not of the form."""


@dataclass(frozen=True)
class _Joined:
    """A public table beside the protected one."""

    key: str
    levels: tuple[Any, ...]
    names: Collection[str]  # of its columns
    left: bool
    read: Callable[[bool], tuple[dict[str, str], str]]  # its rows, when all else is seen to be of the form

    @cached_property
    def _read(self) -> tuple[dict[str, str], str]:
        return self.read(self.left)

    @property
    def columns(self) -> Mapping[str, str]:
        """Columns whose values are compared as they are written, and their kinds."""
        return self._read[0]

    @property
    def query(self) -> str:
        """SQL of the levels of the key, in order, with what the table says of each."""
        return self._read[1]

    def column(self, name: str) -> list[tuple[Any, Any]]:
        """Return levels that are met, and what the table says of each; None for nothing."""
        return [(self.levels[place], value) for place, value in self.asked(f"SELECT l.i, r.{identifier(name)}")]

    def where(self, condition: str) -> list[Any]:
        """Return the levels for which a condition on the columns of the table holds."""
        places = self.asked("SELECT l.i", f" WHERE {condition}")
        return [self.levels[place] for (place,) in places]

    def asked(self, select: str, condition: str = "") -> list[tuple[Any, ...]]:
        return _told(f"{select} {self.query}{condition} ORDER BY l.i")


@lru_cache(maxsize=256)
def _told(query: str) -> list[tuple[Any, ...]]:
    """Return what a query tells that has all its rows in its text, and neither a clock nor chance."""
    with without_files() as connection:
        return connection.execute(query).fetchall()


@dataclass(frozen=True, eq=False)
class PublicRows:
    """The rows of a public table, and what was written out of them.

    Parameters
    ----------
    frame
        The rows; None where they are too many.
    """

    frame: Any
    kept: dict[tuple[Any, ...], tuple[dict[str, str], str]] = field(default_factory=dict, repr=False)


def without_public_joins(
    tree: exp.Expr,
    name: str,
    domain: Domain,
    relations: Mapping[str, Relation],
    rows: Callable[[str], PublicRows],
) -> str | None:
    """Return a statement that means the same without its joins with public tables; None where that is not known.

    Parameters
    ----------
    tree
        The statement.
    name, domain
        The protected table that it is about, and what is declared of it.
    relations
        What is public about every table, by name.
    rows
        Reads a public table, of at most `MOST_ROWS`.
    """
    import duckdb

    nested = (exp.Subquery, exp.CTE, exp.Window, exp.SetOperation)
    if not isinstance(tree, exp.Select) or not tree.args.get("joins") or tree.find(*nested) is not None:
        return None
    if sum(1 for _ in tree.find_all(exp.Select)) > 1:
        return None
    try:
        return _Statement(tree.copy(), name, domain, relations, rows).written()
    except (_Otherwise, duckdb.Error):
        return None


class _Statement:
    def __init__(
        self,
        tree: exp.Select,
        name: str,
        domain: Domain,
        relations: Mapping[str, Relation],
        rows: Callable[[str], PublicRows],
    ) -> None:
        self.tree, self.domain, self.relations, self.rows = tree, domain, relations, rows
        source = next((found.this for part in ("from_", "from") if (found := tree.args.get(part)) is not None), None)
        _check(isinstance(source, exp.Table) and source.name == name and not source.alias_column_names)
        assert source is not None
        self.own, self.columns = source.alias_or_name, relations[name].columns
        self.using: dict[str, str] = {}
        self.joined: dict[str, _Joined] = {}
        for join in tree.args["joins"]:
            table = join.this
            _check(isinstance(table, exp.Table) and not table.alias_column_names)
            _check(table.name in relations and not relations[table.name].private)
            _check(table.alias_or_name not in {self.own, *self.joined})
            self.joined[table.alias_or_name] = self._joined(join, table)

    def _joined(self, join: exp.Join, table: exp.Table) -> _Joined:
        side, kind = join.side.upper(), join.kind.upper()
        _check(side in ("", "LEFT") and kind in ("", "INNER", "OUTER") and not join.method)
        columns = self.relations[table.name].columns
        if using := join.args.get("using"):
            _check(len(using) == 1)
            key = other = using[0].name
            self.using[key] = key
        else:
            on = join.args.get("on")
            _check(isinstance(on, exp.EQ) and isinstance(on.left, exp.Column) and isinstance(on.right, exp.Column))
            assert on is not None
            sides = {
                one.table or (self.own if one.name not in columns else table.alias_or_name): one.name
                for one in (on.left, on.right)
            }
            _check(sides.keys() == {self.own, table.alias_or_name})
            key, other = sides[self.own], sides[table.alias_or_name]
        _check(key in self.domain and key in self.columns and other in columns)
        attribute = self.domain[key]
        # Of numbers it is not known whether they are whole: 3.5 is at level 3 and meets no 3.
        _check(isinstance(attribute, Categories) and self.columns[key] == columns[other] == "text")
        levels = tuple(_plain(value) for value in attribute.levels)
        # A row with some other value may meet a row of the public table; one without a value meets none.
        _check(len(levels) <= MOST_LEVELS and attribute.size == len(levels) + attribute.nullable)
        return _Joined(
            key, levels, columns, join.side.upper() == "LEFT", partial(self._query, table.name, other, levels)
        )

    def _query(self, name: str, other: str, levels: tuple[Any, ...], left: bool) -> tuple[dict[str, str], str]:
        """Return the kinds of the columns of a public table, and SQL of what it says of each level of the key."""
        rows = self.rows(name)
        if (other, levels, left) not in rows.kept:
            rows.kept[other, levels, left] = self._written_out(name, rows.frame, other, levels, left)
        return rows.kept[other, levels, left]

    def _written_out(
        self, name: str, frame: Any, other: str, levels: tuple[Any, ...], left: bool
    ) -> tuple[dict[str, str], str]:
        _check(frame is not None and not frame[other].dropna().duplicated().any())
        kinds = {column: _kind(frame[column], kind) for column, kind in self.relations[name].columns.items()}
        told = {column: kind for column, kind in kinds.items() if kind in KINDS}
        listed = ", ".join(f"({place}, {literal(level)})" for place, level in enumerate(levels))
        return told, (
            f"FROM (VALUES {listed}) AS l(i, k) {'LEFT JOIN' if left else 'JOIN'} ({_values(frame, told)}) AS r "
            f"ON l.k = r.{identifier(other)}"
        )

    def written(self) -> str:
        """Return the statement without its joins."""
        tree = self.tree
        tree.set("joins", None)
        conditions: list[exp.Expr] = []
        where = tree.args.get("where")
        asked = [] if where is None else where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
        conditions += [self._condition(condition) for condition in asked]
        for joined in self.joined.values():
            met = joined.where("TRUE")
            if not joined.left and len(met) < self.domain[joined.key].size:
                conditions.append(self._in(joined.key, met))
        names = [self._named(item) for item in tree.expressions]
        tree.set("expressions", names)
        for part in ("group", "order"):
            if (found := tree.args.get(part)) is not None:
                for column in list(found.find_all(exp.Column)):
                    self._replace(column, found is tree.args.get("order"))
        tree.set("where", exp.Where(this=exp.and_(*conditions)) if conditions else None)
        _check(all(column.table in ("", self.own) for column in tree.find_all(exp.Column)))
        return tree.sql("duckdb")

    def _of(self, column: exp.Column) -> _Joined | None:
        """Return the public table that a column is of; None for one of the protected table."""
        name = column.name
        if column.table:
            _check(column.table == self.own or column.table in self.joined)
            return self.joined.get(column.table)
        if name in self.using:
            return None
        of = [joined for joined in self.joined.values() if name in joined.names]
        _check(len(of) + (name in self.columns) == 1)
        return of[0] if of else None

    def _condition(self, node: exp.Expr) -> exp.Expr:
        """Return a condition, as one on the key where it is of a public table."""
        of = {id(found): found for column in node.find_all(exp.Column) if (found := self._of(column)) is not None}
        if not of:
            return node
        _check(len(of) == 1 and node.find(exp.AggFunc, exp.Query) is None)
        (joined,) = of.values()
        asked = exp.Paren(this=node.copy())
        for column in list(asked.find_all(exp.Column)):
            _check(self._of(column) is joined and column.name in joined.columns)
            column.replace(exp.column(column.name, table="r", quoted=True))
        return self._in(joined.key, joined.where(asked.sql("duckdb")))

    def _in(self, key: str, levels: list[Any]) -> exp.Expr:
        _check(bool(levels))
        return exp.In(this=self._key(key), expressions=[_literal(level) for level in levels])

    def _key(self, key: str) -> exp.Column:
        return exp.column(key, table=self.own, quoted=True)

    def _named(self, item: exp.Expr) -> exp.Expr:
        """Return what is selected, a column of a public table as what follows from the key under the same name."""
        if isinstance(item, exp.Column):
            return item if self._of(item) is None else exp.alias_(self._case(item), item.name, quoted=True)
        if isinstance(item, exp.Alias) and isinstance(item.this, exp.Column):
            return item if self._of(item.this) is None else exp.alias_(self._case(item.this), item.alias, quoted=True)
        for column in item.find_all(exp.Column):
            _check(self._of(column) is None)
        return item

    def _case(self, column: exp.Column) -> exp.Expr:
        joined = self._of(column)
        assert joined is not None
        _check(column.name in joined.columns)
        values: dict[Any, list[Any]] = {}
        for level, value in joined.column(column.name):
            values.setdefault(value, []).append(level)
        _check(bool(values) and None not in values)
        found = exp.Case()
        for value, levels in values.items():
            found = found.when(self._in(joined.key, levels), _literal(value))
        return found

    def _replace(self, column: exp.Column, ordered: bool) -> None:
        """Replace a column of a public table by which rows are grouped or put in order."""
        names = {item.alias for item in self.tree.expressions if isinstance(item, exp.Alias)}
        if not column.table and column.name in names and column.name not in self.columns:
            return
        if self._of(column) is None:
            return
        if ordered:
            _check(column.name in names)
            column.replace(exp.column(column.name, quoted=True))
        else:
            column.replace(self._case(column))


def _check(holds: bool) -> None:
    if not holds:
        raise _Otherwise


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _literal(value: Any) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    return exp.Literal.string(value) if isinstance(value, str) else exp.convert(int(value))


def _kind(column: Any, kind: str) -> str:
    return "whole" if kind == "number" and column.dtype.kind in "iu" else kind


def _values(frame: Any, columns: Mapping[str, str]) -> str:
    """Return SQL of the rows of a public table."""
    import pandas as pd

    def written(value: Any, kind: str) -> str:
        if pd.isna(value):
            return f"CAST(NULL AS {KINDS[kind]})"
        value = _plain(value)
        return f"CAST({literal(int(value) if kind == 'whole' else value)} AS {KINDS[kind]})"

    rows = [
        ", ".join(written(value, kind) for value, kind in zip(row, columns.values(), strict=True))
        for row in frame[list(columns)].itertuples(index=False)
    ]
    _check(bool(rows))
    names = ", ".join(map(identifier, columns))
    return f"SELECT * FROM (VALUES {', '.join(f'({row})' for row in rows)}) AS t({names})"
