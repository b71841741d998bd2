"""Subqueries of an expression that compare a row with others of its own unit: was there a later visit, how many before?

They are written out where they stand, and that units are equal is written into them by us, whatever the statement says.
So what one shows of a row follows from the rows of its unit, as after a join on the unit. Populations are those of such
a join: an INNER one where a row is left out without the others, else a LEFT one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.populations import different_kinds, joined, refusal, stays
from dpnotebook.sql.parse.statement_parser import call_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol
    from dpnotebook.sql.ownership.queries import Environment, From
    from dpnotebook.sql.ownership.scope import Scope

OF_UNIT = "of the unit"  # notes such a subquery
REQUIRED = "required"  # and one without whose rows the row around it is left out


def rows_of_unit(
    query: exp.Select,
    scope: Scope,
    environment: Environment,
    reader: ReaderProtocol,
    made: Callable[[exp.Expr, Scope, bool], exp.Expr],
) -> exp.Expr:
    """Return a subquery over the rows of the unit of the row around it: what stands in EXISTS, or a value.

    Parameters
    ----------
    query
        As it was read.
    scope, environment
        What can be named around it.
    reader
        Who reads the statement.
    made
        Gives an expression as the engine gets it, from what it can name and whether it is a condition.

    Raises
    ------
    SQLError
        If its rows could be those of other units, or of units that have left.
    """
    source = reader.source(query, environment, scope)
    around, owner = scope.owner, source.owner
    inside, outside = source.scope.unit, scope.unit
    if around is None or owner is None or inside is None or outside is None or None in (around.unit, owner.unit):
        reader.refuse_private(query, environment)
        raise reader.text.error("this cannot stand in an expression here; move it to FROM", query)
    if not _equates_units(query.args["where"].this, source.scope, scope, reader):
        raise reader.text.error(
            f"rows of other units would be compared: write {owner.unit} = {around.unit}, of both tables", query
        )
    if around.kind != owner.kind:
        raise reader.text.error(different_kinds(around, owner), query)
    value = None if isinstance(query.parent, exp.Exists) else _value(query, source, reader, made)
    conditions = [
        exp.EQ(this=inside.copy(), expression=outside.copy()),
        made(query.args["where"].this, source.scope, True),
    ]
    source.take_asked()
    assert source.owner is not None
    if stays("INNER" if query.meta.get(REQUIRED) else "LEFT", around, source.owner):
        word = "a condition about the same unit in another table"
        raise reader.text.error(refusal(word, [around.table, *source.tables], reader.relations, True), query)
    scope.owner = joined(around, source.owner)
    scope.asked += [table for table in source.tables if table not in scope.asked]
    scope.asked_public += [table for table in source.public if table not in scope.asked_public]
    select = exp.Select(expressions=[exp.Literal.number(1) if value is None else value])
    source.build(select, [*select.expressions, *conditions])
    select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    if value is None:
        return select
    found = exp.Subquery(this=select)
    found.meta.update(kind=kind_of(value), growth=1)
    return found


def _equates_units(where: exp.Expr, inside: Scope, outside: Scope, reader: ReaderProtocol) -> bool:
    """Return whether a condition says that the unit of a row inside is that of the row around it."""
    where = where.unnest()
    if isinstance(where, exp.And):
        return any(_equates_units(side, inside, outside, reader) for side in (where.this, where.expression))
    sides = [where.this.unnest(), where.expression.unnest()] if isinstance(where, exp.EQ) else []
    if not sides or not all(isinstance(side, exp.Column) for side in sides):
        return False
    found = [one for side in sides if (one := inside.find(side, reader.text)) is not None]
    scopes = [scope for column, scope in found if column.unit]
    return len(scopes) == 2 and {id(scope) for scope in scopes} == {id(inside), id(outside)}


def _value(
    query: exp.Select, source: From, reader: ReaderProtocol, made: Callable[[exp.Expr, Scope, bool], exp.Expr]
) -> exp.Expr:
    """Return the one aggregate that a subquery is, of columns of its own."""
    written = query.expressions[0].unalias().unnest()
    call = call_of(written)
    if len(query.expressions) != 1 or call is None or call.private or not function_of(call.kind).below(call):
        raise reader.text.error("a subquery that stands for a value is one COUNT, SUM, AVG, MIN or MAX", query)
    found = made(written, source.scope, False)
    own = {item.source.alias for item in source.joined}
    if any(column.table not in own for column in found.find_all(exp.Column)):
        message = "an aggregate in a subquery is of columns of the subquery, not of those around it"
        raise reader.text.error(message, written)
    return found


def refuse_in_groups(select: exp.Select, reader: ReaderProtocol) -> None:
    """Refuse such subqueries outside WHERE in a query that groups by the unit: they would be of one of its rows."""
    parts = [*select.expressions, select.args.get("group"), select.args.get("having")]
    for part in parts:
        for node in part.find_all(exp.Select) if part is not None else []:
            if node.meta.get(OF_UNIT):
                raise reader.text.error("put this into the list of a query in FROM, and group that by the unit", node)
