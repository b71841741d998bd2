"""The SQL of the rows that a private aggregation is about, written so that equal questions have equal texts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of
from dpnotebook.dialect.text import DIALECT
from dpnotebook.sql.analysis.keys import KeyColumn, level_list, level_sql, looked_up
from dpnotebook.sql.ownership.expressions import total
from dpnotebook.sql.ownership.queries import From
from dpnotebook.sql.ownership.scope import UNIT


def rows_text(
    source: From, where: exp.Expr | None, keys: Sequence[KeyColumn], inputs: Sequence[exp.Expr]
) -> tuple[str, tuple[str, ...]]:
    """Return SQL of the rows (the unit as u, keys as k0, k1, ..., inputs as x0, x1, ...), and the tables in it.

    Parameters
    ----------
    source
        What is read.
    where
        Which rows take part.
    keys, inputs
        What is grouped by, and what is aggregated.
    """
    unit = source.scope.unit
    assert unit is not None
    items = [exp.alias_(unit.copy(), UNIT)]
    written = [total(column.written.node.copy()) for column in keys]
    items += [exp.alias_(node, f"k{number}") for number, node in enumerate(written)]
    items += [exp.alias_(node.copy(), f"x{number}") for number, node in enumerate(inputs)]
    select = exp.Select(expressions=items)
    source.build(select, [*items, *([where] if where is not None else [])])
    present = exp.Not(this=exp.Is(this=unit.copy(), expression=exp.null()))
    conditions = [present] if where is None else [where.copy(), present]
    select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    rename(select)
    tables = tuple(dict.fromkeys(table.name for table in select.find_all(exp.Table, bfs=False)))
    for number, column in enumerate(keys):
        if column.attribute is not None:
            _number_levels(select, number, column)
    return select.sql(DIALECT), tables


def groups_text(keys: Sequence[exp.Expr], source: From) -> str:
    """Return SQL of the groups of a release, over public tables: k0, k1, ..."""
    assert source.groups is not None
    items = [exp.alias_(key.copy(), f"k{number}") for number, key in enumerate(keys)]
    numbers = {int(key.name[1:]) for key in keys}
    select = exp.Select(expressions=items, distinct=exp.Distinct())
    select.from_(source.groups.build(sorted(numbers)), copy=False)
    rename(select)
    return select.sql(DIALECT)


def rename(tree: exp.Expr) -> None:
    """Number the sources of a query in the order in which they stand in it."""
    names: dict[str, str] = {}
    nodes = list(tree.walk(bfs=False))
    for node in nodes:
        if isinstance(node, exp.TableAlias) and node.name not in names:
            names[node.name] = f"s{len(names)}"
    for node in nodes:
        if isinstance(node, exp.TableAlias):
            node.set("this", exp.to_identifier(names[node.name]))
        elif isinstance(node, exp.Column) and node.table:
            node.set("table", exp.to_identifier(names[node.table]))


def _number_levels(select: exp.Select, number: int, column: KeyColumn) -> None:
    """Write the number of a key's level for its value."""
    assert column.attribute is not None
    item = select.expressions[1 + number]
    plain = isinstance(item.this, exp.Column | exp.Func) and not isinstance(item.this, exp.Connector)
    value = item.this.sql(DIALECT) if plain else f"({item.this.sql(DIALECT)})"  # NOT a IS NULL is NOT (a IS NULL)
    if looked_up(column.attribute):
        rows, on, found = level_list(column.attribute, value, f"l{number}")
        select.append("joins", exp.Join(this=exp.Var(this=rows), side="LEFT", on=exp.Var(this=on)))
    else:
        found = level_sql(column.attribute, value, kind_of(column.written.node) or "other")
    item.set("this", exp.Var(this=found))
