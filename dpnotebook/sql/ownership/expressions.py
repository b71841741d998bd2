"""Expressions below a private aggregation: every column resolved, every comparison possible, no row that can fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.expressions import (
    NO_ORDER,
    NUMBERS,
    alike,
    as_number,
    check_comparisons,
    form_of,
    is_untyped,
    kind_of,
    with_kind,
)
from dpnotebook.dialect.safe.expressions import make_total
from dpnotebook.dialect.safe.typed import Misfit
from dpnotebook.dialect.text import DIALECT, Text
from dpnotebook.dialect.types import ENUM
from dpnotebook.sql.ownership.clocks import check_offsets
from dpnotebook.sql.ownership.correlated import OF_UNIT, rows_of_unit
from dpnotebook.sql.ownership.growth import check_growth
from dpnotebook.sql.ownership.scope import Column, Scope
from dpnotebook.sql.ownership.windows import in_full_order, refuse_windows
from dpnotebook.sql.parse.statement_parser import call_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol
    from dpnotebook.sql.ownership.queries import Environment


def bare(node: exp.Expr) -> exp.Expr:
    """Return a node without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that all have to hold for a condition to hold."""
    found, waiting = [], [node]
    while waiting:
        part = bare(waiting.pop())
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def words_of(node: exp.Expr, text: Text) -> str:
    """Return an expression as it is written, for the name of a column."""
    unwritten = isinstance(node, exp.Null | exp.Boolean) or node.find(exp.Window) is not None  # has no place of its own
    words = node.sql(DIALECT) if unwritten else text.words(node)
    return words + ")" * (words.count("(") - words.count(")"))


def column_of(node: exp.Expr, scope: Scope, text: Text) -> Column | None:
    """Return the column of the scope itself that an expression is, None if it is something else."""
    node = bare(node)
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    found = scope.find(node, text)
    return found[0] if found is not None and found[1] is scope else None


def resolve(
    written: exp.Expr,
    scope: Scope,
    environment: Environment,
    reader: ReaderProtocol,
    aliases: Mapping[str, Callable[[], exp.Expr]] | None = None,
) -> exp.Expr:
    """Return an expression with columns of our own sources, expression subqueries included.

    Parameters
    ----------
    written
        As it was read.
    scope, environment
        What its names mean.
    reader
        Who reads the statement.
    aliases
        What other names stand for, by their lower case: columns of the select list.

    Raises
    ------
    SQLError
        If a name means nothing, a comparison could fail, or a subquery reads a private table.
    """
    refuse_windows(written, scope, reader.text)
    place = None if aliases else (id(written), id(scope))
    if place is not None and place in reader.resolved:
        return reader.resolved[place][2].copy()
    check_offsets(written, scope, reader.relations, reader.text)
    holder = exp.Paren(this=written.copy())
    places = [node for node in holder.walk(prune=_is_query) if isinstance(node, exp.Column) or _is_query(node)]
    for node in places:
        if not isinstance(node, exp.Column):
            node.replace(_subquery(node, scope, environment, reader))
        else:
            node.replace(_column(node, scope, reader, aliases or {}))
    _name_ends(check_comparisons(holder, written, reader.text))
    found: exp.Expr = in_full_order(holder.this, scope)
    check_growth(found, written, reader.text)
    found.parent = None
    if place is not None:
        reader.resolved[place] = written, scope, found
    return found.copy()


def _name_ends(tree: exp.Expr) -> None:
    """Write MIN and MAX of truth values as BOOL_AND and BOOL_OR, which every engine has.

    Those of values of any kind are numbers where there are some.
    """
    for node in list(tree.find_all(exp.Min, exp.Max, exp.Greatest, exp.Least, exp.Ordered)):
        values = [node.this, *(node.expressions if isinstance(node, exp.Greatest | exp.Least) else ())]
        if any(form_of(value) == ENUM for value in values):
            raise Misfit(NO_ORDER, node)
    for node in list(tree.find_all(exp.Min, exp.Max)):
        call = call_of(node)
        if call is not None and call.of_truth and is_untyped(node.this):
            node.set("this", with_kind(exp.TryCast(this=node.this, to=exp.DataType.build("BOOLEAN")), "boolean"))
        made: exp.Expr
        if kind_of(node.this) == "boolean":
            made = (exp.LogicalAnd if isinstance(node, exp.Min) else exp.LogicalOr)(this=node.this)
            made.meta.update(node.meta)
            node.replace(made)
        elif call is not None and call.of_truth:
            raise Misfit("BOOL_OR and BOOL_AND are of a condition, as in BOOL_OR(reason = 'sick')", node)
        elif is_untyped(node.this) and not isinstance(node.parent, exp.Window):
            end = node.copy()
            end.set("this", as_number(node.this))
            number = with_kind(exp.TryCast(this=with_kind(end, "number"), to=exp.DataType.build("TEXT")), "text")
            made = with_kind(exp.Coalesce(this=number, expressions=[node.copy()]), "text")
            made.meta["untyped"] = True
            node.replace(made)


def total(node: exp.Expr, condition: bool = False) -> exp.Expr:
    """Return a resolved expression that no row can make fail."""
    return make_total(node, condition)


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _column(
    node: exp.Column, scope: Scope, reader: ReaderProtocol, aliases: Mapping[str, Callable[[], exp.Expr]]
) -> exp.Expr:
    if isinstance(node.this, exp.Star):
        raise reader.text.error("* stands in a list of columns, or in COUNT(*)", node)
    if len(node.parts) > 2:
        raise reader.text.error("write the table's name or alias and the column: table.column", node)
    found = scope.find(node, reader.text)
    if found is not None:
        column, where = found
        if column.unit:
            reader.named = True
        value = where.value(column)
        value.meta.update({key: node.this.meta[key] for key in ("start", "end") if key in node.this.meta})
        return value
    if not node.table and node.name.casefold() in aliases:
        return aliases[node.name.casefold()]()
    raise reader.text.error(scope.unknown(node), node)


def _subquery(node: exp.Expr, scope: Scope, environment: Environment, reader: ReaderProtocol) -> exp.Expr:
    """Return a subquery of an expression, over public tables, as the engine gets it."""
    inner = node
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    if isinstance(inner, exp.Select) and inner.meta.get(OF_UNIT):

        def made(written: exp.Expr, known: Scope, condition: bool) -> exp.Expr:
            return total(resolve(bare(written), known, environment, reader), condition)

        return rows_of_unit(inner, scope, environment, reader, made)
    reader.refuse_private(node, environment)
    query = reader.rows(inner, environment, scope)
    parent = node.parent
    if isinstance(parent, exp.Exists):
        return query.build(range(1))
    if len(query.outputs) != 1:
        raise reader.text.error("a subquery in an expression gives one column", node)
    if isinstance(parent, exp.In) and parent.args.get("query") is node:
        _check_in(parent, query.outputs[0].node, scope, environment, reader)
        return exp.Subquery(this=query.build(range(1)))
    if not _one_row(inner):
        # With several values an engine stops, and some do so only if a row comes to ask for them.
        raise reader.text.error(
            "a subquery that stands for a value has one: aggregate it, as in MAX(column), write LIMIT 1, or use IN",
            node,
        )
    found = exp.Subquery(this=query.build(range(1)))
    found.meta.update(kind=query.outputs[0].kind, growth=query.outputs[0].growth)
    return found


def _check_in(node: exp.In, inner: exp.Expr, scope: Scope, environment: Environment, reader: ReaderProtocol) -> None:
    value = resolve(node.this, scope, environment, reader) if _unresolved(node.this) else node.this
    left, right = kind_of(value), kind_of(inner)
    if is_untyped(value) and right in NUMBERS:
        return  # it is read as a number where that is
    if left in (None, "other") or right in (None, "other") or not alike(left, right):
        raise reader.text.error(
            "the values before and after IN are not known to be of the same kind; CAST both to it", node
        )


def _unresolved(node: exp.Expr) -> bool:
    return any("kind" not in column.meta for column in node.find_all(exp.Column))


def _one_row(node: exp.Expr) -> bool:
    """Whether a query has at most one row whatever the tables hold: LIMIT 1, or an aggregate without groups."""
    limit = node.args.get("limit")
    if limit is not None and isinstance(limit.expression, exp.Literal) and limit.expression.name in ("0", "1"):
        return True
    if not isinstance(node, exp.Select) or node.args.get("group"):
        return False
    return any(call_of(part) is not None for item in node.expressions for part in item.walk(prune=_is_query))
