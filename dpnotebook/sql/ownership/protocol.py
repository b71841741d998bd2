"""What the parts of the ownership check ask of the statement that is being read; `reader.Reader` is that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.errors import SQLError
from dpnotebook.sql.ownership.queries import CommonTable, Environment, From, FromItem, Rows, Status
from dpnotebook.sql.ownership.scope import Scope
from dpnotebook.sql.statement import Relation


class ReaderProtocol(Protocol):
    """A statement as it is being read."""

    text: Text
    relations: Mapping[str, Relation]
    named: bool
    dropped: list[SQLError]
    groups_wanted: exp.Select | None
    resolved: dict[tuple[int, int], tuple[exp.Expr, Scope, exp.Expr]]

    def status(self, query: exp.Expr, environment: Environment) -> Status:
        """Return whether a query reads public tables only, gives rows that belong to units, or releases of them."""

    def refuse_private(self, query: exp.Expr, environment: Environment) -> None:
        """Refuse a subquery of an expression that reads a private table."""

    def source(self, select: exp.Select, environment: Environment, outer: Scope | None) -> From:
        """Return what the FROM of a select brings, its ownership checked."""

    def rows(self, query: exp.Expr, environment: Environment, outer: Scope | None) -> Rows:
        """Return a query over private rows or over public tables, understood."""

    def rows_of(self, query: exp.Expr, environment: Environment, outer: Scope | None) -> Rows:
        """Return a query in FROM, or in WITH; one over private rows that drops the unit is remembered."""

    def count_built(self) -> None:
        """Count a query that is written out."""

    def with_common_tables(self, query: exp.Expr, environment: Environment) -> Environment:
        """Return what a query can name, with the queries of its WITH clause."""

    def common_table(self, node: exp.Table, environment: Environment) -> CommonTable | None:
        """Return the query of a WITH clause that a table in FROM means, if it means one."""

    def alias(self) -> str:
        """Return a new name for a source."""

    def note(self, words: str) -> None:
        """Keep what the plan should say."""

    def public_groups(self, left: From, right: FromItem, how: str) -> FromItem | None:
        """Return the source that lists the groups of a release, if this join is one with public groups."""

    def check_parts(self, node: exp.Expr, known: frozenset[str]) -> None:
        """Refuse parts of a query that have no meaning here."""
