"""The values that a column of a public table has: groups by it are known beforehand, and none is hidden."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpnotebook.dialect.expressions import MaybeKind
from dpnotebook.dialect.text import DIALECT
from dpnotebook.domain import Attribute, Boolean, Categories, Dates
from dpnotebook.errors import DomainError
from dpnotebook.sql.analysis.written_levels import written_levels
from dpnotebook.sql.ownership.expressions import conjuncts
from dpnotebook.sql.ownership.scope import Column, Scope
from dpnotebook.sql.public_values import PublicValues
from dpnotebook.sql.statement import Relation


@dataclass(frozen=True)
class _Place:
    """Where a public column has its values from: a table, its column, and the source in FROM whose rows these are."""

    table: str
    name: str
    row: str | None


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
    keys
        Columns each of which is grouped by, beside others of its row: conditions on one of them alone are left for
        later, as are those on the column whose values are asked for.
    lists
        Whether its condition lists the values of private columns too, of which nothing is declared.
    """

    def __init__(
        self,
        relations: Mapping[str, Relation],
        scope: Scope,
        where: exp.Expr | None,
        keys: Collection[Column] = (),
        *,
        lists: bool = False,
    ) -> None:
        self._relations, self._scope, self._condition = relations, scope, where
        self._columns = {column.node: column for column in scope.columns}
        self._where = [] if where is None else conjuncts(where)
        self._keys = {column.node for column in keys}
        self._lists = lists

    def of_keys(self, keys: Iterable[Column]) -> PublicLevels:
        """Return the same where several columns of one row are grouped by."""
        return PublicLevels(self._relations, self._scope, self._condition, tuple(keys), lists=self._lists)

    def tables(self, columns: Iterable[Column]) -> set[str]:
        """Return the public tables that columns are of."""
        return {place.table for column in columns if (place := self._place(column)) is not None}

    def row(self, columns: Iterable[Column]) -> str | None:
        """Return the source of FROM of whose rows all columns are; None where they are of several, or of none."""
        rows = {None if (place := self._place(column)) is None else place.row for column in columns}
        return rows.pop() if len(rows) == 1 else None

    def _place(self, column: Column | None) -> _Place | None:
        """Return the column of a public table whose values a column has."""
        if column is None:
            return None
        origins = [(None if column.narrowed else column.origin, column.row), (column.equal, column.equal_row)]
        places = (_Place(*origin, row) for origin, row in origins if origin is not None)
        return next((one for one in places if not self._relations[one.table].private), None)

    def values(self, column: Column | None) -> PublicValues | None:
        """Return the values of a public column in rows for which the conditions may hold; None if unknown."""
        place = self._place(column)
        if place is None or column is None:
            return None
        relation = self._relations[place.table]
        condition = self.condition(place.row, column)
        found = None if relation.levels is None else relation.levels(place.name, condition)
        if not found:
            return None
        present = tuple(value for value in found if value is not None)
        empty = len(present) < len(found) and (place.table, place.name) == column.origin
        return PublicValues(present, empty or column.missing) if present else None

    def attribute(self, column: Column) -> Attribute | None:
        """Return the values of a column as what could have been declared of it, days for moments; None if unknown."""
        found = self.values(column)
        if found is None:
            return None if column.origin is None else self.listed(column.node, column.kind)
        try:
            if found.kind == "boolean":
                return Boolean(nullable=found.nullable)
            if found.kind == "time":
                days = [moment.date() for moment in found.levels]
                return Dates(min(days), max(days), nullable=found.nullable)
            return Categories(found.levels, nullable=found.nullable)
        except DomainError:  # what no answer can be written with
            return None

    def listed(self, node: exp.Expr, kind: MaybeKind) -> Attribute | None:
        """Return the values that conditions leave to an expression over private columns; None if unknown."""
        return written_levels(node, kind, self._where) if self._lists else None

    def condition(self, row: str | None, column: Column | None = None) -> str:
        """Return SQL of the conditions on what stands in the row of a public table, beside a column; empty for none.

        Which of the levels those on the column itself leave is worked out for all columns alike, and later.
        """
        found = [one.within for one in self._scope.columns if row is not None and one.row == row and one.within][:1]
        keys = self._keys if column is None else self._keys | {column.node}
        for part in self._where if row is not None else ():
            nodes = set(part.find_all(exp.Column))
            if (len(nodes) == 1 and nodes <= keys) or part.find(exp.Query, exp.Placeholder) is not None:
                continue
            inside = self.in_table(part, row)
            if nodes and inside is not None:
                found.append(f"({inside.sql(DIALECT)})")
        return " AND ".join(found)

    def in_table(self, node: exp.Expr, row: str | None, *, missing: bool = False) -> exp.Expr | None:
        """Return an expression as one over the public table itself; None where it has columns of other rows.

        Parameters
        ----------
        node, row
            The expression, and the source of whose rows it is to be.
        missing
            Whether its columns may be missing, all at once, where an outer join keeps other rows.
        """
        names = {}
        for column in node.find_all(exp.Column):
            known = self._columns.get(column)
            name = None if known is None or (known.missing and not missing) else self._name(known, row)
            if name is None:
                return None
            names[column] = exp.column(exp.to_identifier(name, quoted=True))
        return node.transform(lambda one: names[one].copy() if isinstance(one, exp.Column) else one)

    @staticmethod
    def _name(column: Column, row: str | None) -> str | None:
        """Return what a column is called in the table of a row; None where it is of another row."""
        for origin, of in ((column.origin, column.row), (column.equal, column.equal_row)):
            if origin is not None and of is not None and of == row:
                return origin[1]
        return None
