"""Windows over the rows of one unit, below a private aggregation: the visit before, the first one, its number.

What such a window shows of a row follows from rows of the same unit, and from nothing else. So that it depends on no
others, rows have one order: where what is written leaves it open, all columns decide. Rows that are equal in all of
them may change places without a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.expressions import as_number, is_untyped
from dpnotebook.dialect.text import Text
from dpnotebook.dialect.types import SCALARS
from dpnotebook.sql.ownership.scope import Scope
from dpnotebook.sql.parse.first_values import WRITTEN

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.queries import From

RANKS = (exp.Rank, exp.DenseRank)  # which rows of one rank share
KEPT = "kept"  # what QUALIFY says of a row
BY_UNIT = (*RANKS, exp.RowNumber, exp.Lag, exp.Lead, exp.FirstValue)


def refuse_windows(written: exp.Expr, scope: Scope, text: Text) -> None:
    """Refuse windows over rows of several units: what one shows of a row would depend on the rows of others."""
    for node in written.find_all(exp.Window, exp.Qualify, exp.Grouping):
        if isinstance(node, exp.Grouping):
            raise text.error("GROUPING stands in a list whose GROUP BY has a ROLLUP, a CUBE or GROUPING SETS", node)
        if not isinstance(node, exp.Window) or not _is_of_one_unit(node, scope, text):
            refuse(node, scope, text)
        function, offset = node.this, node.this.args.get("offset")
        written_out = offset is None or (isinstance(offset, exp.Literal) and not offset.is_string)
        plain = node.args.get("spec") is None and function.args.get("default") is None and written_out
        if not isinstance(function, BY_UNIT) or not plain:
            message = (
                "over the rows of one unit there are ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD and FIRST_VALUE, as in "
                "LAG(column) or LAG(column, 2), without a frame; what is added up is a query with GROUP BY in FROM"
            )
            raise text.error(message, node)


def refuse(node: exp.Expr, scope: Scope, text: Text) -> None:
    """Raise SQLError for a window that is not over the rows of one unit, or not in a query that shows rows."""
    units = [column.name for column in scope.columns if column.unit]
    if WRITTEN in node.meta:
        by = f"GROUP BY {units[0]} in a query in FROM" if units else "a group for each unit in a query in FROM"
        message = f"{node.meta[WRITTEN]} would show a row of somebody; over the rows of one unit it needs {by}"
        raise text.error(message, "SELECT")
    if isinstance(node, exp.Window) and isinstance(node.this, exp.Ntile | exp.PercentRank | exp.CumeDist):
        message = (
            f"{node.this.sql_name()} of a row would depend on rows of others: ask APPROX_QUANTILES(column, 4) first, "
            "and group by what it tells, as in CASE WHEN column < :median THEN 'lower' ELSE 'upper' END"
        )
        raise text.error(message, node)
    own = f". In FROM, over the rows of each unit, it is PARTITION BY {units[0]}" if units else ""
    raise text.error(
        "windows are over groups that were released, as over rows one would tell of other units; write GROUP BY, and "
        f"SUM(COUNT(*)) OVER () for a total of all groups{own}",
        node,
    )


def in_full_order(found: exp.Expr, scope: Scope) -> exp.Expr:
    """Return an expression, its columns resolved, whose windows leave open no order of rows that differ."""
    for window in list(found.find_all(exp.Window)):
        if isinstance(window.this, RANKS):
            continue
        written = window.args.get("order")
        order = [] if written is None else [*_by_size(written.expressions)]
        for column in scope.columns:
            value = scope.value(column)
            value = value if column.kind in SCALARS else exp.cast(value, "text")
            order.append(exp.Ordered(this=value, desc=False, nulls_first=False))
        window.set("order", exp.Order(expressions=order))
    return found


def _by_size(written: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield what rows are in the order of, values of any kind by size first, where they are numbers."""
    for ordered in written:
        if isinstance(ordered, exp.Ordered) and is_untyped(ordered.this):
            by_size = ordered.copy()
            by_size.set("this", as_number(ordered.this))
            yield by_size
        yield ordered


def _is_of_one_unit(window: exp.Window, scope: Scope, text: Text) -> bool:
    """Return whether a window is over the rows of one unit: it is partitioned by the column of units."""
    for node in window.args.get("partition_by") or []:
        plain = node.unnest()
        found = scope.find(plain, text) if isinstance(plain, exp.Column) else None
        if found is not None and found[1] is scope and found[0].unit:
            return True
    return False


def only_kept(select: exp.Select, alias: str, distinct: bool) -> exp.Select:
    """Return a query over one that lists what QUALIFY says of its rows, with those of which it holds."""
    names = [item.alias for item in select.expressions if item.alias != KEPT]
    found = exp.Select(expressions=[exp.alias_(exp.column(name, table=alias), name) for name in names])
    if distinct:
        found.set("distinct", exp.Distinct())
    below = exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(alias)))
    return found.from_(below, copy=False).where(exp.column(KEPT, table=alias), copy=False)


def is_number_of_row(node: exp.Expr, scope: Scope) -> bool:
    """Return whether a resolved expression numbers the rows of each unit: each number is that of one row at most."""
    node = node.unnest()
    numbers = isinstance(node, exp.Window) and isinstance(node.this, exp.RowNumber) and scope.unit is not None
    return bool(numbers and node.args.get("partition_by") == [scope.unit])


def is_first(condition: exp.Expr, scope: Scope) -> bool:
    """Return whether a condition, resolved, leaves one row of each unit by the number that a window gives it."""
    return any(is_number_of_row(side, scope) for side in _equal_to_a_number(condition))


def first_of_unit(where: exp.Expr | None, source: From) -> bool:
    """Return whether a condition leaves one row of each unit, of a query alone in FROM that numbers them."""
    if where is None or len(source.joined) != 1:
        return False
    numbers = [column.node for column in source.scope.columns if column.numbers]
    return any(side.unnest() in numbers for side in _equal_to_a_number(where))


def _equal_to_a_number(condition: exp.Expr) -> list[exp.Expr]:
    """Return what has to be equal to a number that is written out, in any row of which a condition holds."""
    found, waiting = [], [condition]
    while waiting:
        part = waiting.pop().unnest()
        if isinstance(part, exp.And):
            waiting += [part.this, part.expression]
        elif isinstance(part, exp.EQ):
            sides = part.this, part.expression
            found += [side for side, other in (sides, sides[::-1]) if isinstance(other, exp.Literal)]
    return found
