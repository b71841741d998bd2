"""Statements that the planner may answer by itself: one plain aggregation over one protected table.

What only selects rows and columns of the table below it, in a subquery or WITH, is the same as one condition more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpnotebook.sql.analysis.aggregation import Aggregation
from dpnotebook.sql.ownership.select_parts import calls_of, expression_queries, from_of
from dpnotebook.sql.select import ContributionChoice

# The parts of a SELECT that only chooses rows and columns; without the underscore that versions of sqlglot put there.
CHOOSING = frozenset({"kind", "expressions", "from", "where"})


def plain_tree(select: exp.Select, found: Aggregation, contribution: ContributionChoice | None) -> exp.Select | None:
    """Return the aggregation alone, as it was read, without HAVING, ORDER BY and LIMIT; None if it is not plain.

    Parameters
    ----------
    select
        The statement.
    found
        What it measures.
    contribution
        "l2" where it was asked for; the planner bounds rows.
    """
    below, conditions = _rows_of_one_table(select), row_conditions(select)
    if contribution == "l2" or found.measured.written or below is None or conditions is None:
        return None
    items: list[exp.Expr] = []
    taken: set[str] = set()
    for column in found.keys:
        written, name = column.written.written, column.key.name
        own = below.columns is None and isinstance(written, exp.Column)
        named = own and written.name.casefold() == name.casefold()
        items.append(written.copy() if named else exp.alias_(written.copy(), name, quoted=True))
    for node in calls_of(select):
        name = found.names[id(node)]
        if name not in taken:
            taken.add(name)
            items.append(exp.alias_(node.copy(), name, quoted=True))
    tree = exp.Select(expressions=items)
    if found.keys:
        tree.set("group", exp.Group(expressions=[column.written.written.copy() for column in found.keys]))
    if not below.renames(tree):
        return None
    if conditions:
        tree.set("where", exp.Where(this=exp.and_(*conditions)))
    return tree.from_(below.table)


def row_conditions(select: exp.Select) -> tuple[exp.Expr, ...] | None:
    """Return the conditions that all rows of an aggregation satisfy, in a table's own names; None if it is not of one.

    Parameters
    ----------
    select
        The statement.
    """
    below, where = _rows_of_one_table(select), select.args.get("where")
    if below is None or where is None:
        return None if below is None else below.conditions
    own = where.copy()
    return (*below.conditions, own.this) if below.renames(own) else None


def over_one_table(select: exp.Select) -> exp.Select | None:
    """Return a select of rows of one table as one that reads the table itself; None where it reads anything else.

    Parameters
    ----------
    select
        The select as it was read; its WITH clause is that of the table it names alone.
    """
    below = _rows_of_one_table(select)
    if below is None:
        return None
    found = select.copy()
    for part in ("with", "with_", "from", "from_"):
        found.set(part, None)
    if not below.renames(found):
        return None
    for condition in below.conditions:
        found.where(exp.Paren(this=condition.copy()), copy=False)
    found.from_(exp.Table(this=below.table.this.copy(), db=below.table.args.get("db")), copy=False)
    for column in found.find_all(exp.Column):
        column.set("table", None)
    return found


@dataclass(frozen=True)
class _RowsBelow:
    """Rows and columns of one table.

    Parameters
    ----------
    table
        The table.
    conditions
        Which of its rows, in its own names of columns.
    columns
        What its columns are called, casefolded; None where they have their own names.
    """

    table: exp.Table
    conditions: tuple[exp.Expr, ...] = ()
    columns: Mapping[str, exp.Column] | None = None

    def renames(self, tree: exp.Expr) -> bool:
        """Write the table's own names into a tree in the place of others; False where one is unknown."""
        for node in list(tree.find_all(exp.Column)):
            if self.columns is None:
                continue
            own = self.columns.get(node.name.casefold())
            if own is None or isinstance(node.this, exp.Star):
                return False
            node.replace(own.copy())
        return True


def _rows_of_one_table(select: exp.Select) -> _RowsBelow | None:
    """Return what an aggregation is of, where that is rows of one table that nothing else has a part in."""
    if select.args.get("joins") or expression_queries(select):
        return None
    return _rows_below(select, _common_tables(select))


def _common_tables(select: exp.Select) -> dict[str, _RowsBelow | None]:
    """Return what is known by the names of WITH clauses; None for what is no rows of one table."""
    found: dict[str, _RowsBelow | None] = {}
    clause = select.args.get("with_") or select.args.get("with")
    if clause is None:
        return found
    for item in clause.expressions:
        plain = not clause.args.get("recursive") and not item.args["alias"].args.get("columns")
        found[item.alias.casefold()] = _selected(item.this, found) if plain else None
    return found


def _rows_below(select: exp.Select, known: Mapping[str, _RowsBelow | None]) -> _RowsBelow | None:
    """Return what a select reads, as rows of one table; None where it is anything else."""
    first = from_of(select)
    if first is None or first.args.get("sample") or first.args.get("joins") or first.args.get("pivots"):
        return None
    if isinstance(first, exp.Subquery):
        alias = first.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return None
        return _selected(first.this, known)
    if not isinstance(first, exp.Table) or first.alias_column_names:
        return None
    if not first.db and first.name.casefold() in known:
        return known[first.name.casefold()]
    return _RowsBelow(first.copy())


def _selected(query: exp.Expr, known: Mapping[str, _RowsBelow | None]) -> _RowsBelow | None:
    """Return a query as rows and columns of one table; None where it does more than choose them."""
    if not isinstance(query, exp.Select) or expression_queries(query) or calls_of(query):
        return None
    if any(value and name.rstrip("_") not in CHOOSING for name, value in query.args.items()):
        return None
    below = _rows_below(query, known)
    if below is None:
        return None
    chosen = exp.Select(expressions=[item.copy() for item in query.expressions])
    if (where := query.args.get("where")) is not None:
        chosen.set("where", where.copy())
    columns = below.columns
    if not (len(query.expressions) == 1 and isinstance(query.expressions[0], exp.Star) and _is_plain(query)):
        written = [item.this if isinstance(item, exp.Alias) else item for item in chosen.expressions]
        if not all(isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) for node in written):
            return None
        names = [item.alias_or_name.casefold() for item in chosen.expressions]
        if len(set(names)) < len(names) or not below.renames(chosen):
            return None
        written = [item.this if isinstance(item, exp.Alias) else item for item in chosen.expressions]
        columns = dict(zip(names, written, strict=True))
    elif not below.renames(chosen):
        return None
    conditions = below.conditions if where is None else (*below.conditions, chosen.args["where"].this)
    return _RowsBelow(below.table, conditions, columns)


def _is_plain(query: exp.Select) -> bool:
    """Return whether a star stands alone, without EXCEPT, REPLACE or RENAME."""
    return not any(value for name, value in query.expressions[0].args.items() if name != "this")
