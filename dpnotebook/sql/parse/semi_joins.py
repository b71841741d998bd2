"""SEMI and ANTI joins: conditions whether there is a row in another table, written as such.

`patients ANTI JOIN visits USING (patient)` are the patients WHERE NOT EXISTS (SELECT 1 FROM visits WHERE ...).
"""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.spellings import PLACE

KINDS = ("SEMI", "ANTI")
WRITTEN_AS = "written as"  # notes as which join a condition was written, for errors
KEEPING = ("", "LEFT")  # sides of joins behind which the rows that were there are those that the condition is about


def with_semi_joins_as_conditions(tree: exp.Expr, text: Text) -> exp.Expr:
    """Return a tree with EXISTS in the place of SEMI joins, and NOT EXISTS in that of ANTI joins.

    Parameters
    ----------
    tree
        The statement as it is being read; it is changed in place.
    text
        The statement.

    Raises
    ------
    SQLError
        If it is not said by which columns they join, or it cannot be said of which table these are.
    """
    for join in list(tree.find_all(exp.Join)):
        kind, select = str(join.args.get("kind") or "").upper(), join.parent
        if kind not in KINDS or not isinstance(select, exp.Select):
            continue
        condition = on_of(select, join)
        if condition is None or not keeps_rows(select, join):
            word = "IN" if kind == "SEMI" else "NOT IN"
            raise text.error(f"write ON a.id = b.id behind this {kind} JOIN, or WHERE id {word} (SELECT id ...)", join)
        as_condition(select, join, condition, f"{kind} JOIN")
    return tree


def on_of(select: exp.Select, join: exp.Join) -> exp.Expr | None:
    """Return what a join joins on, with the tables of its columns; None where that is not written."""
    if (on := join.args.get("on")) is not None:
        return on if isinstance(on, exp.Expr) else None
    using, before = join.args.get("using"), select.args.get("joins", [])
    first = select.args.get("from_") or select.args.get("from")
    if not using or first is None or before[0] is not join:  # behind others it may be a column of any of them
        return None
    names = [exp.to_identifier(of.alias_or_name, quoted=True) for of in (first.this, join.this)]
    sides = [[exp.column(name.copy(), table=of.copy()) for of in names] for name in using]
    return exp.and_(*(exp.EQ(this=left, expression=right) for left, right in sides), copy=False)


def keeps_rows(select: exp.Select, join: exp.Join) -> bool:
    """Return whether the joins behind this one leave the rows before it as they are, so that it can come after them."""
    joins = select.args["joins"]
    behind = joins[next(place for place, one in enumerate(joins) if one is join) + 1 :]
    return all(str(one.args.get("side") or "").upper() in KEEPING for one in behind)


def as_condition(select: exp.Select, join: exp.Join, condition: exp.Expr, written: str) -> None:
    """Put a condition in the place of a join: that there is a row to join for SEMI joins, else none."""
    query = exp.Select(expressions=[exp.Literal.number(1)], where=exp.Where(this=condition.copy()))
    exists: exp.Expr = exp.Exists(this=query.from_(join.this.copy(), copy=False))
    exists.meta.update({key: join.meta[key] for key in PLACE if key in join.meta} | {WRITTEN_AS: written})
    join.pop()
    select.where(exists if written == "SEMI JOIN" else exp.Not(this=exists), copy=False)
