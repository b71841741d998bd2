"""The values that a column of a public table has: groups by it are known beforehand, and none is hidden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.domain import Attribute, Boolean, Categories, Dates
from dpnotebook.errors import DomainError
from dpnotebook.sql.ownership.expressions import conjuncts
from dpnotebook.sql.ownership.scope import Column, Scope
from dpnotebook.sql.public_values import PublicValues
from dpnotebook.sql.statement import Relation


class PublicLevels:
    """What is known of the public columns in a private aggregation, and of its conditions on them.

    Parameters
    ----------
    relations
        What is public about the tables.
    scope
        The columns of its FROM.
    where
        Its condition, resolved; None where it has none.
    """

    def __init__(self, relations: Mapping[str, Relation], scope: Scope, where: exp.Expr | None) -> None:
        self._relations = relations
        self._columns = {column.node: column for column in scope.columns}
        self._where = [] if where is None else conjuncts(where)

    def tables(self, columns: Iterable[Column]) -> set[str]:
        """Return the public tables that columns are of."""
        return {origin[0] for column in columns if (origin := self._origin(column)) is not None}

    def _origin(self, column: Column | None) -> tuple[str, str] | None:
        """Return the column of a public table whose values a column has."""
        origins = [] if column is None else [None if column.narrowed else column.origin, column.equal]
        return next((one for one in origins if one is not None and not self._relations[one[0]].private), None)

    def values(self, column: Column | None) -> PublicValues | None:
        """Return the values of a public column in rows for which the conditions may hold; None if unknown."""
        origin = self._origin(column)
        if origin is None or column is None:
            return None
        relation = self._relations[origin[0]]
        found = None if relation.levels is None else relation.levels(origin[1], self._condition(column))
        if not found:
            return None
        present = tuple(value for value in found if value is not None)
        empty = len(present) < len(found) and origin == column.origin
        return PublicValues(present, empty or column.missing) if present else None

    def attribute(self, column: Column) -> Attribute | None:
        """Return the values of a column as what could have been declared of it, days for moments; None if unknown."""
        found = self.values(column)
        if found is None:
            return None
        try:
            if found.kind == "boolean":
                return Boolean(nullable=found.nullable)
            if found.kind == "time":
                days = [moment.date() for moment in found.levels]
                return Dates(min(days), max(days), nullable=found.nullable)
            return Categories(found.levels, nullable=found.nullable)
        except DomainError:  # what no answer can be written with
            return None

    def _condition(self, column: Column) -> str:
        """Return SQL of the conditions on what stands beside a public column in the row of its table.

        Which of the levels those on the column itself leave is worked out for all columns alike, and later.
        """
        found = []
        for part in self._where:
            nodes = list(part.find_all(exp.Column))
            beside = all((one := self._columns.get(node)) is not None and _are_beside(one, column) for node in nodes)
            itself = all(node == column.node for node in nodes)
            if itself or not beside or part.find(exp.Query, exp.Placeholder) is not None:
                continue
            inside = part.transform(lambda node: self._in_table(node) if isinstance(node, exp.Column) else node)
            found.append(f"({inside.sql(DIALECT)})")
        return " AND ".join(found)

    def _in_table(self, node: exp.Column) -> exp.Column:
        origin = self._columns[node].origin
        assert origin is not None
        return exp.column(exp.to_identifier(origin[1], quoted=True))


def _are_beside(one: Column, other: Column) -> bool:
    """Return whether two columns are of one row of a table, which stands in FROM itself."""
    if one.missing or one.origin is None or other.origin is None:
        return False
    same = one.origin[0] == other.origin[0] and one.node.args.get("table") == other.node.args.get("table")
    return same and all(column.node.name == column.origin[1] for column in (one, other) if column.origin is not None)
