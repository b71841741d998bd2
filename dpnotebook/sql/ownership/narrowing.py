"""Which rows of a public table a query over it alone leaves, as a condition that the table itself can be asked with."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.sql.ownership.queries import From
from dpnotebook.sql.statement import Relation

OTHERWISE = ("group", "having", "qualify", "limit", "offset")  # parts of a query that leave out rows in other ways


def narrowing(query: exp.Select, source: From, where: exp.Expr | None, relations: Mapping[str, Relation]) -> str | None:
    """Return SQL of the condition, in the table's own names; empty without one, None where it has no such form.

    Parameters
    ----------
    query
        The query as it was read.
    source, where
        What it reads, and which of its rows, resolved; None for all.
    relations
        What is public about the tables.
    """
    columns = source.scope.columns
    if source.owner is not None or len(source.joined) != 1 or any(map(query.args.get, OTHERWISE)):
        return None
    below = {column.within for column in columns}
    if len(below) > 1 or any(column.narrowed for column in columns):
        return None
    found = [one for one in below if one]
    if where is not None:
        own = _in_table(where, {column.node: column.origin for column in columns}, relations)
        if own is None:
            return None
        found.append(f"({own})")
    return " AND ".join(found)


def _in_table(
    where: exp.Expr, origins: Mapping[exp.Expr, tuple[str, str] | None], relations: Mapping[str, Relation]
) -> str | None:
    """Return a condition in the names of its table; None where it is not of columns of that alone."""
    nodes = list(where.find_all(exp.Column))
    known = [origin for node in nodes if (origin := origins.get(node)) is not None]
    if not nodes or len(known) < len(nodes) or where.find(exp.Query, exp.Placeholder) is not None:
        return None
    if any(name in relations[table].clocks for table, name in known):  # moments that are read by another clock
        return None
    names = dict(zip(nodes, known, strict=True))

    def named(node: exp.Expr) -> exp.Expr:
        return exp.column(exp.to_identifier(names[node][1], quoted=True)) if isinstance(node, exp.Column) else node

    return where.transform(named).sql(DIALECT)
