"""Columns of moments, told by the clocks of their own place: what a statement reads, groups by and compares with.

A database keeps moments in UTC, where a day of Paris begins at 22:00 or 23:00 of the day before. Their hours, days and
months are those that clocks show at that place, which the declared domain says, or the type of a frame's column. How
long it is from one moment to another is told by those clocks too: an hour more, or less, where they were changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpnotebook.dialect.safe.typed import on_clock
from dpnotebook.dialect.text import Text
from dpnotebook.dialect.types import ROW_UNIT
from dpnotebook.errors import shorten
from dpnotebook.sql.ownership.scope import Scope
from dpnotebook.sql.statement import Relation

# A time with a place of its own: '2024-05-31 12:00:00+02:00', '2024-05-31T12:00Z'.
ELSEWHERE = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}.*(Z|[+-]\d{2}(:?\d{2})?)", re.IGNORECASE)


def by_clocks(relation: Relation, table: exp.Expr, names: Sequence[str]) -> exp.Expr:
    """Return some columns of a table, and its unit, with times as clocks show them.

    ```sql
    (SELECT "id", CASE WHEN "t" BETWEEN ... THEN "t" AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Paris' ... AS "t" FROM v)
    ```

    Parameters
    ----------
    relation, table
        The table, and what it is in the query.
    names
        Of the columns that are read.
    """
    unit = [relation.unit or ROW_UNIT] if relation.private else []
    items: list[exp.Expr] = []
    for name in dict.fromkeys([*unit, *names]):
        column: exp.Expr = exp.column(exp.to_identifier(name, quoted=True))
        if name in relation.clocks and name not in unit:
            column = exp.alias_(on_clock(column, relation.clocks[name]), exp.to_identifier(name, quoted=True))
        items.append(column)
    return exp.Subquery(this=exp.Select(expressions=items).from_(table, copy=False))


def check_offsets(written: exp.Expr, scope: Scope, relations: Mapping[str, Relation], text: Text) -> None:
    """Refuse a time of another place beside a column that is told by the clocks of its own.

    Parameters
    ----------
    written, scope
        An expression as it was read, and what its names mean.
    relations, text
        What is known of tables, and the statement.

    Raises
    ------
    SQLError
        If there is one.
    """
    literals = [node for node in written.find_all(exp.Literal) if node.is_string and ELSEWHERE.fullmatch(node.name)]
    if not literals:
        return
    for column in written.find_all(exp.Column):
        found = None if isinstance(column.this, exp.Star) else scope.find(column, text)
        origin = None if found is None else found[0].origin
        zone = None if origin is None else relations[origin[0]].clocks.get(origin[1])
        if zone is not None:
            raise text.error(
                f"{shorten(column.name)} is told by the clocks of {zone}: write times as these show them, such as "
                "'2024-05-31 12:00:00'",
                literals[0],
            )
