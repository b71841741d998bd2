"""Ownership: every row below a private aggregation belongs to exactly one privacy unit.

The check of Table 4.3 of Wilson et al., applied bottom-up. Each query over private rows carries the unit of each row in
a column of its own, which no statement can name or overwrite, through projections, groupings, joins and set operations;
what a statement says about the unit's column is checked against the rules, and never trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.errors import SQLError
from dpnotebook.sql.ownership.queries import CommonTable, Environment, From, FromItem, Rows, Status
from dpnotebook.sql.ownership.scope import Scope
from dpnotebook.sql.ownership.selects import drops, read_rows
from dpnotebook.sql.ownership.sources import read_from
from dpnotebook.sql.ownership.status import find_status, refuse_private
from dpnotebook.sql.statement import Relation

ValueBounds = Literal["auto", "declared"]

MAX_BUILT = 500  # selects that one statement may come to, with its common tables written out wherever they are used


class Reader:
    """A statement as it is being read; what is found of a query is found once.

    Parameters
    ----------
    text
        The statement.
    relations
        What its tables are.
    bounds
        What values are clamped to that have declared bounds, and none that are written: "declared", or "auto" for
        narrower ones that are found privately; None where that depends on the column.
    lists
        Whether groups by a column of which nothing is declared are those that conditions leave to it.
    """

    def __init__(
        self,
        text: Text,
        relations: Mapping[str, Relation],
        bounds: ValueBounds | None = None,
        *,
        lists: bool = False,
    ) -> None:
        self.text = text
        self.relations: Mapping[str, Relation] = relations
        self.bounds: ValueBounds | None = bounds
        self.lists = lists
        self.named = False  # whether it names a unit's column anywhere
        self.dropped: list[SQLError] = []  # subqueries that do not select it
        self.notes: list[str] = []
        self.groups_wanted: exp.Select | None = None  # the select whose last join may list its groups
        self._aliases = 0
        self._built = 0
        # By identity, with the objects themselves: an identity is given anew when its object is gone.
        self.resolved: dict[tuple[int, int], tuple[exp.Expr, Scope, exp.Expr]] = {}
        self._status: dict[int, tuple[exp.Expr, Status]] = {}
        self._sources: dict[int, tuple[exp.Expr, From]] = {}
        self._rows: dict[int, tuple[exp.Expr, Rows]] = {}

    def status(self, query: exp.Expr, environment: Environment) -> Status:
        """Return whether a query reads public tables only, gives rows that belong to units, or releases of them."""
        if id(query) not in self._status:
            self._status[id(query)] = query, find_status(query, environment, self)
        return self._status[id(query)][1]

    def refuse_private(self, query: exp.Expr, environment: Environment) -> None:
        """Refuse a subquery of an expression that reads a private table."""
        refuse_private(query, environment, self)

    def source(self, select: exp.Select, environment: Environment, outer: Scope | None) -> From:
        """Return what the FROM of a select brings, its ownership checked."""
        if id(select) not in self._sources:
            self._sources[id(select)] = select, read_from(select, environment, outer, self)
        return self._sources[id(select)][1]

    def rows(self, query: exp.Expr, environment: Environment, outer: Scope | None) -> Rows:
        """Return a query over private rows or over public tables, understood.

        Raises
        ------
        SQLError
            If a row of it could belong to nobody, or to several units, or be an aggregate of several units.
        """
        if id(query) not in self._rows:
            self._rows[id(query)] = query, read_rows(query, environment, outer, self)
        return self._rows[id(query)][1]

    def rows_of(self, query: exp.Expr, environment: Environment, outer: Scope | None) -> Rows:
        """Return a query in FROM, or in WITH; one over private rows that drops the unit is remembered."""
        rows = self.rows(query, environment, outer)
        if rows.owner is not None and rows.owner.unit is not None and not any(output.unit for output in rows.outputs):
            self.dropped.append(drops(query, rows, self))
        return rows

    def count_built(self) -> None:
        """Count a query that is written out.

        Raises
        ------
        SQLError
            If they are too many.
        """
        self._built += 1
        if self._built > MAX_BUILT:
            raise self.text.error("the statement comes to too many queries; name fewer of them more than once")

    def with_common_tables(self, query: exp.Expr, environment: Environment) -> Environment:
        """Return what a query can name, with the queries of its WITH clause."""
        clause = query.args.get("with_") or query.args.get("with")
        if clause is None:
            return environment
        if clause.args.get("recursive"):
            raise self.text.error("recursive queries are not supported", clause)
        found = dict(environment)
        here: set[str] = set()
        for node in clause.expressions:
            name = node.alias.casefold()
            if name in here:
                raise self.text.error(f"WITH defines {node.alias} twice", node.args.get("alias") or node)
            here.add(name)
            found[name] = CommonTable(node, dict(found))
        return found

    def common_table(self, node: exp.Table, environment: Environment) -> CommonTable | None:
        """Return the query of a WITH clause that a table in FROM means, if it means one."""
        return environment.get(node.name.casefold()) if len(node.parts) == 1 else None

    def alias(self) -> str:
        """Return a new name for a source."""
        self._aliases += 1
        return f"s{self._aliases - 1}"

    def note(self, words: str) -> None:
        """Keep what the plan should say."""
        if words not in self.notes:
            self.notes.append(words)

    def public_groups(self, left: From, right: FromItem, how: str) -> FromItem | None:
        """Return the source that lists the groups of a release, if this join is one with public groups."""
        if self.groups_wanted is None:
            return None
        if how == "RIGHT" and left.owner is not None and right.owner is None and right.distinct:
            return right
        only = left.joined[0].source if len(left.joined) == 1 else None
        if how == "LEFT" and right.owner is not None and only is not None and only.owner is None and only.distinct:
            return only
        return None

    def check_parts(self, node: exp.Expr, known: frozenset[str]) -> None:
        """Refuse parts of a query that have no meaning here."""
        for part, value in node.args.items():
            if part.rstrip("_") not in known and value and part not in ("kind", "only"):
                word = part.rstrip("_").upper()
                raise self.text.error(
                    f"{word} is not supported here", value if isinstance(value, exp.Expression) else node
                )
