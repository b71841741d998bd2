"""Rows that an outer join pads with NULL: those of a public table that no protected row meets.

`FROM months LEFT JOIN spells` keeps months in which nobody is. Such a row is of nobody, and whether it is there may be
about a single person: so the join is read as an inner one, whose groups are known from the public table. That means the
same wherever padded rows add nothing to what is asked, which is worked out here of each expression; others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Flag, auto
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.ownership.expressions import bare, conjuncts
from dpnotebook.sql.ownership.scope import Column, Scope
from dpnotebook.sql.parse.statement_parser import call_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.queries import From, FromItem, Padding


class Value(Flag):
    """What an expression may be in a padded row."""

    MISSING = auto()
    ZERO = auto()  # or FALSE
    OTHER = auto()  # or TRUE


ANY = Value.MISSING | Value.ZERO | Value.OTHER
NOTHING = Value.MISSING | Value.ZERO  # what adds nothing to a sum, and what is not true
NEVER_MISSING = (exp.Array, exp.Exists)
UNKNOWN = (exp.Window, exp.Concat, exp.Query, exp.Star)  # CONCAT takes NULL for an empty text
FIRST_OF = (exp.Coalesce, exp.Greatest, exp.Least)

Evaluate = Callable[[exp.Expr], Value]


def values_in(node: exp.Expr, scope: Scope, text: Text) -> Value:
    """Return what an expression may be in a padded row.

    Parameters
    ----------
    node
        As it was read.
    scope, text
        What its names mean, and the statement.
    """

    def evaluate(inner: exp.Expr) -> Value:
        return _value(inner, evaluate, lambda column: _is_absent(column, scope, text))

    return evaluate(node)


def padded(source: From, where: exp.Where | None, text: Text) -> Padding | None:
    """Return of what padded rows are left behind WHERE; None where there are none.

    Parameters
    ----------
    source, where
        What is read, and which of its rows, as it was read; None for all.
    text
        The statement.

    Raises
    ------
    SQLError
        If it asks for padded rows, and for no other ones.
    """
    if source.padding is None or where is None:
        return source.padding
    kept: Padding | None = source.padding
    for part in conjuncts(where.this):
        if not _names_absent(part, source.scope, text):
            continue
        value = values_in(part, source.scope, text)
        if not value & Value.OTHER:
            kept = None
        elif all(values_in(one, source.scope, text) & Value.OTHER for one in _own(part, source.scope, text)):
            raise text.error(
                f"this keeps rows of {source.padding.kept} that no row of {source.padding.without} meets, and whether "
                f"there is one may be about a single {source.padding.one}: ask {_counted(source)}, which is about 0 "
                "there, or write the condition behind ON",
                part,
            )
    return kept


def may_hold(condition: exp.Expr, scope: Scope, text: Text) -> bool:
    """Return whether a condition, as it was read, may hold for a padded row."""
    return Value.OTHER in values_in(condition, scope, text)


def padded_by(
    left: From, right: FromItem, how: str, pads: Padding | None, meets: bool
) -> tuple[list[Column], list[Column], Padding | None]:
    """Return the columns of both sides of a join, with those that padded rows have no value of, and what is padded.

    Parameters
    ----------
    left, right, how
        What is joined, and how.
    pads
        What the join itself pads: rows of the side that is public.
    meets
        Whether rows of one side that were padded before may be joined with rows of the other.
    """
    keeps = [how in ("LEFT", "FULL"), how in ("RIGHT", "FULL")]
    paddings = [left.padding, right.padding]
    stay = [one is not None and (keeps[side] or meets) for side, one in enumerate(paddings)]
    private = [left.owner is not None, right.owner is not None]

    def absent(column: Column, side: int) -> bool:
        ways = [column.absent] if stay[side] else []
        ways += [not meets] if stay[1 - side] else []
        ways += [private[side]] if pads is not None else []
        return bool(ways) and all(ways)

    columns = [
        [replace(column, absent=absent(column, side)) for column in columns]
        for side, columns in enumerate((left.scope.columns, right.columns))
    ]
    staying = [one for one, still in zip(paddings, stay, strict=True) if still]
    return columns[0], columns[1], pads or next(iter(staying), None)


def check_aggregates(source: From, calls: Iterable[exp.Expr], text: Text) -> None:
    """Refuse aggregates that padded rows would add something to.

    Raises
    ------
    SQLError
        Saying what to write.
    """
    padding = source.padding
    for node in calls:
        call = call_of(node)
        if call is None or padding is None:
            continue
        rows = f"rows of {padding.kept} that no row of {padding.without} meets"
        words = call.words or text.words(node)
        if call.star or call.argument is None:
            raise text.error(f"{words} also counts {rows}; write {_counted(source)}, which counts the others", node)
        arguments = [call.argument, *([] if call.second is None else [call.second])]
        harmless = NOTHING if call.kind == "sum" else Value.MISSING
        # Of pairs of columns, a row without one of both adds nothing.
        if not any(values_in(each, source.scope, text) in harmless for each in arguments):
            present = f"{_name(source)} IS NOT NULL"
            raise text.error(
                f"{words} has a value also in {rows}; write it of the others: {words} FILTER (WHERE {present})", node
            )


def _own(condition: exp.Expr, scope: Scope, text: Text) -> list[exp.Expr]:
    """Return the parts one of which is to hold, where these name columns that padded rows have no value of."""
    found, waiting = [], [condition]
    while waiting:
        part = bare(waiting.pop())
        if isinstance(part, exp.Or):
            waiting += [part.expression, part.this]
        elif _names_absent(part, scope, text):
            found.append(part)
    return found


def _names_absent(node: exp.Expr, scope: Scope, text: Text) -> bool:
    """Return whether an expression names a column that padded rows have no value of."""
    parts = node.walk(prune=lambda inner: isinstance(inner, exp.Query))
    return any(isinstance(part, exp.Column) and _is_absent(part, scope, text) for part in parts)


def _is_absent(written: exp.Column, scope: Scope, text: Text) -> bool:
    if isinstance(written.this, exp.Star):
        return False
    found = scope.find(written, text)
    return found is not None and found[1] is scope and found[0].absent


def _counted(source: From) -> str:
    """Return the count of rows that are there, as it is written."""
    return f"COUNT({_name(source)})"


def _name(source: From) -> str:
    """Return a column that padded rows have no value of: the unit's, or what was joined on, where these are named."""
    named = [column for column in source.scope.columns if column.absent and (column.qualifier or column.bare)]
    named.sort(key=lambda column: (not column.unit, column.equal is None))
    found = next(iter(named), None)
    if found is None:
        return "column"
    return f"{found.qualifier}.{found.name}" if found.qualifier else found.name


def _value(node: exp.Expr, evaluate: Evaluate, absent: Callable[[exp.Column], bool]) -> Value:
    """Return what an expression may be in a padded row, where that is known of what it is made of."""
    call = call_of(node)
    if call is not None:  # of padded rows alone: they make groups of their own, of no unit
        if call.argument is None or call.star:
            return Value.OTHER
        only = evaluate(call.argument) == Value.MISSING
        counts = call.distinct or call.kind == "count"
        return (Value.ZERO if counts else Value.MISSING) if only else ANY
    match node:
        case exp.Column():
            return Value.MISSING if absent(node) else ANY
        case exp.Null():
            return Value.MISSING
        case exp.Boolean():
            return Value.OTHER if node.this else Value.ZERO
        case exp.Literal():
            return Value.ZERO if not node.is_string and _is_zero(node.name) else Value.OTHER
        case exp.Paren():
            return evaluate(node.this)
        case exp.Not():
            return _negated(evaluate(node.this))
        case exp.And():
            return _both(evaluate(node.this), evaluate(node.expression))
        case exp.Or():
            return _negated(_both(_negated(evaluate(node.this)), _negated(evaluate(node.expression))))
        case exp.Is():
            return _is(evaluate(node.this), node.expression)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _same(node, evaluate)
        case exp.Between() | exp.In():
            return _among(node, evaluate)
        case exp.Case():
            return _case(node, evaluate)
        case exp.If():
            return _branches([(evaluate(node.this), node.args.get("true"))], node.args.get("false"), evaluate)
        case exp.Cast() | exp.TryCast():
            found = evaluate(node.this)
            return found if found == Value.MISSING else found | Value.MISSING
        case exp.Mul():
            return _times(evaluate(node.this), evaluate(node.expression))
    if isinstance(node, FIRST_OF):
        of = [evaluate(one) for one in (node.this, *node.expressions)]
        # Dialects differ in whether one missing value makes the greatest one missing.
        missing = (all if isinstance(node, exp.Coalesce) else any)(Value.MISSING in one for one in of)
        return reduce(or_, of) & ~Value.MISSING | (Value.MISSING if missing else Value(0))
    if isinstance(node, NEVER_MISSING):
        return Value.ZERO | Value.OTHER
    if isinstance(node, UNKNOWN):
        return ANY
    # All others that a statement may have are NULL where one of their arguments is.
    return Value.MISSING if any(evaluate(part) == Value.MISSING for part in node.iter_expressions()) else ANY


def _is_zero(number: str) -> bool:
    try:
        return float(number) == 0
    except ValueError:
        return False


def _negated(value: Value) -> Value:
    found = value & Value.MISSING
    found |= Value.OTHER if Value.ZERO in value else Value(0)
    return found | (Value.ZERO if Value.OTHER in value else Value(0))


def _both(one: Value, other: Value) -> Value:
    """Return what AND of two conditions may be."""
    found = Value.ZERO & (one | other)
    found |= Value.OTHER & one & other
    missing = (Value.MISSING in one and bool(other & ~Value.ZERO)) or (
        Value.MISSING in other and bool(one & ~Value.ZERO)
    )
    return found | (Value.MISSING if missing else Value(0))


def _times(one: Value, other: Value) -> Value:
    if Value.MISSING in (one, other):
        return Value.MISSING
    return NOTHING if one in NOTHING or other in NOTHING else ANY


def _is(value: Value, what: exp.Expr) -> Value:
    """Return what IS NULL, IS TRUE or IS FALSE may be of a value."""
    if isinstance(what, exp.Boolean):
        wanted = Value.OTHER if what.this else Value.ZERO
    elif isinstance(what, exp.Null):
        wanted = Value.MISSING
    else:
        return ANY
    found = Value.OTHER if value & wanted else Value(0)
    return found | (Value.ZERO if value & ~wanted else Value(0))


def _same(node: exp.Expr, evaluate: Evaluate) -> Value:
    """Return what IS NOT DISTINCT FROM, or IS DISTINCT FROM, may be."""
    sides = [evaluate(side) for side in (node.this, node.expression)]
    if Value.MISSING not in sides:
        return Value.ZERO | Value.OTHER
    other = sides[1] if sides[0] == Value.MISSING else sides[0]
    found = _is(other, exp.Null())
    return found if isinstance(node, exp.NullSafeEQ) else _negated(found)


def _among(node: exp.Expr, evaluate: Evaluate) -> Value:
    """Return what it may be whether a value is between others, or among them."""
    if evaluate(node.this) != Value.MISSING or (node.args.get("query") and node.args.get("negate")):
        return ANY
    return NOTHING if node.args.get("query") else Value.MISSING  # nothing is among the rows of a query without any


def _case(node: exp.Case, evaluate: Evaluate) -> Value:
    of = None if node.this is None else evaluate(node.this)
    branches = []
    for branch in node.args["ifs"]:
        if of is None:
            holds = evaluate(branch.this)
        else:
            holds = Value.MISSING if Value.MISSING in (of, evaluate(branch.this)) else ANY
        branches.append((holds, branch.args.get("true")))
    return _branches(branches, node.args.get("default"), evaluate)


def _branches(branches: list[tuple[Value, exp.Expr | None]], otherwise: exp.Expr | None, evaluate: Evaluate) -> Value:
    """Return what the first of some branches whose condition holds may be."""
    found = Value(0)
    for holds, result in branches:
        if Value.OTHER in holds:
            found |= Value.MISSING if result is None else evaluate(result)
            if holds == Value.OTHER:
                return found
    return found | (Value.MISSING if otherwise is None else evaluate(otherwise))
