"""ARG_MIN and ARG_MAX, also called MIN_BY and MAX_BY: the value in the row where another one is least or largest.

They are written as FIRST_VALUE over the same groups, in a query in FROM, and MIN of that, which is the same in all rows
of a group. So it is as for windows: where groups are those of one unit its own rows decide, ties included.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT, Text
from dpnotebook.sql.parse.calls import call_of
from dpnotebook.sql.parse.spellings import put

EXTREMES = (exp.ArgMin, exp.ArgMax)
WRITTEN = "written"  # notes what a window was written as
FIRST = "first value"


def with_first_values(tree: exp.Expr, least: exp.Expr, text: Text) -> exp.Expr:
    """Return a tree with windows in the place of ARG_MIN and ARG_MAX.

    Parameters
    ----------
    tree
        The statement as it is being read; it is changed in place.
    least
        MIN of the column `first value`, as it is read.
    text
        The statement.

    Raises
    ------
    SQLError
        If one stands where it has no group, or over a join.
    """
    for node in list(tree.find_all(*EXTREMES)):
        if any(call_of(part) is not None or isinstance(part, EXTREMES) for part in node.walk() if part is not node):
            raise text.error("an aggregate of an aggregate is not supported; aggregate in a query in FROM first", node)
    for select in reversed(list(tree.find_all(exp.Select))):
        roots = [*select.expressions, *(part for name in ("having", "order") if (part := select.args.get(name)))]
        found = [node for root in roots for node in root.walk(prune=_is_query) if isinstance(node, EXTREMES)]
        if found:
            _rewrite(select, found, least, text)
    left = tree.find(*EXTREMES)
    if left is not None:
        raise text.error("this stands in a list, in HAVING or in ORDER BY", left)
    return tree


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _rewrite(select: exp.Select, found: Sequence[exp.Expr], least: exp.Expr, text: Text) -> None:
    part = "from_" if "from_" in select.args else "from"
    group, first = select.args.get("group"), select.args.get(part)
    if first is None or select.args.get("joins") or (group is not None and any(_sets(group))):
        raise text.error("this is of one table or query in FROM: put joins and ROLLUP into one", found[0])
    called = first.this.alias_or_name or "rows"
    keys = [] if group is None else [_key(node, select) for node in group.expressions]
    items: list[exp.Expr] = [exp.Star()]
    for node in found:
        name = FIRST if len(items) == 1 else f"{FIRST} {len(items)}"
        window = _window(node, keys)
        window.meta[WRITTEN] = "ARG_MAX" if isinstance(node, exp.ArgMax) else "ARG_MIN"
        items.append(exp.alias_(window, name, quoted=True))
        made = least.copy()
        for column in made.find_all(exp.Column):
            column.set("this", exp.to_identifier(name, quoted=True))
        if node.parent is select:  # called as DuckDB calls it
            name, arguments = node.sql(DIALECT).split("(", 1)
            made = exp.alias_(made, f"{name.lower()}({arguments}", quoted=True)
        put(made, node)
    below = exp.Select(expressions=items)
    below.set(part, first)
    below.set("where", select.args.get("where"))
    select.set("where", None)
    alias = exp.TableAlias(this=exp.to_identifier(called, quoted=True))
    select.set(part, exp.From(this=exp.Subquery(this=below, alias=alias)))


def _sets(group: exp.Expr) -> list[object]:
    return [value for name, value in group.args.items() if name != "expressions" and value]


def _key(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return what is grouped by, where it is a place in the list or a name of it, written out."""
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        place = int(node.this)
        return select.expressions[place - 1].unalias().copy() if 0 < place <= len(select.expressions) else node.copy()
    named = [item for item in select.expressions if isinstance(item, exp.Alias) and item.alias == node.name]
    plain = isinstance(node, exp.Column) and not node.table
    return named[0].this.copy() if plain and named else node.copy()


def _window(node: exp.Expr, keys: list[exp.Expr]) -> exp.Window:
    """Return the value in the first row of its group, rows without one of both values being last."""
    value, by = node.this, node.expression
    missing = exp.or_(*(exp.Is(this=part.copy(), expression=exp.null()) for part in (value, by)))
    last = exp.Case(ifs=[exp.If(this=missing, true=exp.Literal.number(1))], default=exp.Literal.number(0))
    present = exp.Not(this=exp.Is(this=by.copy(), expression=exp.null()))
    order = [
        exp.Ordered(this=last, desc=False, nulls_first=False),
        exp.Ordered(this=by.copy(), desc=isinstance(node, exp.ArgMax), nulls_first=False),
    ]
    known = exp.Case(ifs=[exp.If(this=present, true=value.copy())])
    return exp.Window(
        this=exp.FirstValue(this=known),
        partition_by=[key.copy() for key in keys],
        order=exp.Order(expressions=order),
    )
