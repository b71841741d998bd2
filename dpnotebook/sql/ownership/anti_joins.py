"""LEFT JOIN ... WHERE right.id IS NULL: who has no row in another table, written as NOT EXISTS.

It is the same question, and as such it says of a row nothing but whether there is another: a unit has no more rows then
than without the join, and what was released of it in one spelling answers it in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from dpnotebook.sql.ownership.catalog import private_names
from dpnotebook.sql.ownership.expressions import bare, conjuncts
from dpnotebook.sql.ownership.select_parts import source_nodes
from dpnotebook.sql.parse.semi_joins import as_condition, keeps_rows, on_of
from dpnotebook.sql.statement import Relation

CLAUSES = ("where", "group", "having", "qualify", "order", "distinct", "windows")


def with_anti_joins(tree: exp.Expr, relations: Mapping[str, Relation]) -> exp.Expr:
    """Return a statement with NOT EXISTS in the place of such joins with private tables; it is changed in place.

    Parameters
    ----------
    tree
        The statement as it was read.
    relations
        What its tables are.
    """
    common = {each.alias.casefold() for each in tree.find_all(exp.CTE)}
    private = private_names(tree, relations)
    for select in list(tree.find_all(exp.Select)):
        for join in list(select.args.get("joins") or []):
            table = join.this
            relation = relations.get(table.name) if isinstance(table, exp.Table) else None
            if relation is None or not relation.private or table.name.casefold() in common:
                continue
            others = [one for one in source_nodes(select) if one is not table]
            if not any(named.name.casefold() in private for one in others for named in one.find_all(exp.Table)):
                continue  # of a public table: which of its rows nobody meets is not answered
            if str(join.args.get("side") or "").upper() == "LEFT" and keeps_rows(select, join):
                _rewrite(select, join, relation)
    return tree


def _rewrite(select: exp.Select, join: exp.Join, relation: Relation) -> None:
    """Put NOT EXISTS in the place of a join of whose table nothing is said but that a key of it is missing."""
    where, condition = select.args.get("where"), on_of(select, join)
    if where is None or condition is None:
        return
    called = join.this.alias_or_name.casefold()
    parts = conjuncts(where.this)
    missing = [part for part in parts if _is_missing(part, called, _keys(condition, called))]
    if not missing or any(_names(part, called, relation) for part in _others(select, join, parts, missing)):
        return
    rest = [part.copy() for part in parts if not any(part is one for one in missing)]
    select.set("where", exp.Where(this=exp.and_(*rest, copy=False)) if rest else None)
    as_condition(select, join, condition, "LEFT JOIN")


def _keys(condition: exp.Expr, called: str) -> set[str]:
    """Return the columns of the joined table that equal something in each row that is joined: none of them is NULL."""
    sides = [side for part in conjuncts(condition) if isinstance(part, exp.EQ) for side in part.iter_expressions()]
    columns = [bare(side) for side in sides]
    return {one.name.casefold() for one in columns if isinstance(one, exp.Column) and one.table.casefold() == called}


def _is_missing(part: exp.Expr, called: str, keys: set[str]) -> bool:
    """Return whether a condition is that a key of the joined table is NULL."""
    if not isinstance(part, exp.Is) or not isinstance(part.expression, exp.Null):
        return False
    of = bare(part.this)
    return isinstance(of, exp.Column) and of.table.casefold() == called and of.name.casefold() in keys


def _others(select: exp.Select, join: exp.Join, parts: list[exp.Expr], missing: list[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield everything else in a select that may name columns."""
    yield from select.expressions
    yield from (part for part in parts if not any(part is one for one in missing))
    yield from (node for name in CLAUSES[1:] if isinstance(node := select.args.get(name), exp.Expr))
    yield from (window for window in select.args.get("windows") or [])
    yield from (one for one in select.args["joins"] if one is not join)


def _names(part: exp.Expr, called: str, relation: Relation) -> bool:
    """Return whether columns of the joined table are named, or may be: by * too, and by names without a table."""
    own = {name.casefold() for name in relation.columns}
    if isinstance(part, exp.Star):
        return True
    for column in part.find_all(exp.Column):
        if column.table.casefold() == called or (not column.table and column.name.casefold() in own):
            return True
        if isinstance(column.this, exp.Star):
            return True
    return False
