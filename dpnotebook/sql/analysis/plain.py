"""Statements that the planner may answer by itself: one plain aggregation over one protected table."""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.sql.analysis.aggregation import Aggregation
from dpnotebook.sql.ownership.select_parts import calls_of, expression_queries, from_of


def plain_tree(select: exp.Select, found: Aggregation, contribution: str | None) -> exp.Select | None:
    """Return the aggregation alone, as it was read, without HAVING, ORDER BY and LIMIT; None if it is not plain.

    Parameters
    ----------
    select
        The statement.
    found
        What it measures.
    contribution
        "l2", or None.
    """
    first = from_of(select)
    plain = (
        contribution is None
        and not found.measured.written
        and isinstance(first, exp.Table)
        and not first.args.get("sample")
        and not select.args.get("joins")
        and not (select.args.get("with_") or select.args.get("with"))
        and not expression_queries(select)
    )
    if not plain:
        return None
    items: list[exp.Expr] = []
    taken: set[str] = set()
    for column in found.keys:
        written, name = column.written.written, column.key.name
        named = isinstance(written, exp.Column) and written.name.casefold() == name.casefold()
        items.append(written.copy() if named else exp.alias_(written.copy(), name, quoted=True))
    for node in calls_of(select):
        name = found.names[id(node)]
        if name not in taken:
            taken.add(name)
            items.append(exp.alias_(node.copy(), name, quoted=True))
    tree = exp.Select(expressions=items)
    for part in ("from_", "from", "where"):
        if select.args.get(part) is not None:
            tree.set(part, select.args[part].copy())
    if found.keys:
        tree.set("group", exp.Group(expressions=[column.written.written.copy() for column in found.keys]))
    return tree
