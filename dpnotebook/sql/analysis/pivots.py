"""PIVOT over what was released: one row for each combination of the other columns, one column for each value."""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT, Text
from dpnotebook.errors import shorten
from dpnotebook.sql.analysis.release_names import interval_columns, quoted
from dpnotebook.sql.analysis.visible_names import Names, aliased, as_duckdb
from dpnotebook.sql.ownership.scope import listed

FUNCTIONS = (exp.Sum, exp.Count, exp.Avg, exp.Min, exp.Max)


def pivoted(node: exp.Expr, source: exp.Expr, names: Names, text: Text) -> tuple[exp.Expr, Names]:
    """Return something in FROM with its PIVOT written as a grouping, and the names of its columns.

    Parameters
    ----------
    node
        As it was read.
    source
        What is pivoted, as DuckDB gets it.
    names
        Its columns.
    text
        The statement.

    Raises
    ------
    SQLError
        If it names a column that is not there, or something that is no aggregate of one.
    """
    pivots = node.args.get("pivots") or []
    if not pivots:
        return source, names
    pivot, fields = pivots[0], pivots[0].args.get("fields") or []
    field = fields[0] if len(fields) == 1 and len(pivots) == 1 else None
    if not isinstance(field, exp.In) or not field.expressions or not isinstance(field.this, exp.Column):
        raise text.error("write one PIVOT of one column: PIVOT (SUM(n) FOR column IN ('a', 'b'))", node)
    if names is None:
        raise text.error("what is pivoted lists its columns: name them in a query in FROM", node)
    shown = {name.casefold(): name for name in names}
    used = [*pivot.expressions, field.this]
    for column in [column for one in used for column in one.find_all(exp.Column)]:
        if column.name.casefold() not in shown:
            raise text.error(f"there is no column {shorten(column.name)} here; there are {listed(names)}", column)
    taken = {column.name.casefold() for one in used for column in one.find_all(exp.Column)}
    taken |= {beside.casefold() for name in names for beside in interval_columns(name)}  # of each value, others
    kept: list[exp.Expr] = [quoted(name) for name in names if name.casefold() not in taken]
    items = list(kept)
    for value in field.expressions:
        for one in pivot.expressions:
            name = _name(value, one, len(pivot.expressions), text)
            items.append(exp.alias_(_of_value(one.unalias(), field.this, value, text), name, quoted=True))
    unnamed = source.copy()
    for part in ("pivots", "alias"):
        unnamed.set(part, None)
    select = exp.Select(expressions=items).from_(exp.alias_(unnamed, "pivoted", table=True), copy=False)
    if kept:
        select.set("group", exp.Group(expressions=[column.copy() for column in kept]))
    alias = pivot.args.get("alias") or node.args.get("alias")
    found = exp.Subquery(this=select, alias=None if alias is None else alias.copy())
    return found, aliased(found, tuple(item.alias_or_name for item in items))


def _of_value(one: exp.Expr, column: exp.Expr, value: exp.Expr, text: Text) -> exp.Expr:
    """Return an aggregate of the rows that have a value in a column."""
    found = as_duckdb(one.copy())
    if not isinstance(found, FUNCTIONS) or isinstance(found.this, exp.Distinct):
        raise text.error("PIVOT is of SUM, COUNT, AVG, MIN or MAX of a column", one)
    of = exp.Literal.number(1) if isinstance(found.this, exp.Star) else found.this
    rows = exp.EQ(this=column.copy(), expression=(value.this if isinstance(value, exp.PivotAlias) else value).copy())
    found.set("this", exp.Case(ifs=[exp.If(this=rows, true=of.copy())]))
    return found


def _name(value: exp.Expr, one: exp.Expr, aggregates: int, text: Text) -> str:
    """Return the name of a column, as the dialect of the statement has it."""
    own = value.alias if isinstance(value, exp.PivotAlias) else value.name or value.sql(DIALECT)
    if text.dialect == "bigquery":
        return f"{one.alias}_{own}" if one.alias else own
    return f"{own}_{one.alias or one.sql(DIALECT)}" if one.alias or aggregates > 1 else own
