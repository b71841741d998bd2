"""From a WHERE clause to an expression over declared columns."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dpnotebook.domain import Bins, Domain
from dpnotebook.domain.values import plain
from dpnotebook.errors import PredicateError, SQLError
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.expression import And, Compare, Expression, IsNull, Not, OneOf, Or
from dpnotebook.sql.text import Text

OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "==",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
CONSTANTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NEVER = "a comparison with NULL is never true: write IS NULL or IS NOT NULL"


@dataclass(frozen=True)
class Scope:
    """What names and parameters in a statement mean.

    Parameters
    ----------
    text
        The statement.
    domain
        The declared columns of its table.
    column
        The declared column that a column of the tree means; raises SQLError if none.
    parameters
        Values of `:name`.
    """

    text: Text
    domain: Domain
    column: Callable[[exp.Column], str]
    parameters: Mapping[str, Any]


def predicate(where: exp.Expr | None, scope: Scope) -> Predicate:
    """Return the rows that a WHERE clause selects, by SQL's rules for NULL.

    Raises
    ------
    SQLError
        If the clause is not a condition on declared columns, or no row could ever satisfy it.
    """
    if where is None:
        return Predicate.everything(scope.domain)
    try:
        found = Predicate.of(condition(where.this, scope), scope.domain, nulls="sql")
    except PredicateError as error:  # of the whole: parts have been tried one by one
        raise scope.text.error(str(error), "WHERE") from None
    if found.is_empty:
        listed = [_bare(item) for inside in where.find_all(exp.In) for item in inside.expressions]
        hint = "; NOT IN a list with NULL is never true" if any(isinstance(item, exp.Null) for item in listed) else ""
        raise _mistake(
            scope.text.error(f"no row of the declared domain satisfies this WHERE, whatever the data{hint}", "WHERE")
        )
    return found


def condition(node: exp.Expr, scope: Scope) -> Expression:
    """Return the expression of one condition."""
    node = _bare(node)
    if isinstance(node, exp.And | exp.Or):
        parts = [condition(part, scope) for part in _operands(node)]
        return And(*parts) if isinstance(node, exp.And) else Or(*parts)
    if isinstance(node, exp.Not):
        return Not(condition(node.this, scope))
    if isinstance(node, exp.Boolean):
        return And() if node.this else Or()
    if isinstance(node, exp.Column):
        name = scope.column(node)
        if scope.domain[name].holds != "boolean":
            raise scope.text.error(f"{name} alone is no condition; compare it with a value", node)
        return Compare(name, "==", True)
    if type(node) in OPERATORS:
        return _comparison(node, OPERATORS[type(node)], scope)
    if isinstance(node, exp.Between):
        name = _with_order(_column(node.this, scope), node, scope)
        low = _atom(Compare(name, ">=", _given(node.args["low"], scope)), node, scope)
        return And(low, _atom(Compare(name, "<=", _given(node.args["high"], scope)), node, scope))
    if isinstance(node, exp.In):
        name = _column(node.this, scope)
        if not node.expressions:
            raise scope.text.error("the list after IN is empty", node)
        return _atom(OneOf(name, [value(item, scope) for item in node.expressions]), node, scope)
    if isinstance(node, exp.Is):
        return _is(node, scope)
    raise scope.text.error(f"{scope.text.words(node)!r} is no condition; compare a column with a value", node)


def value(node: exp.Expr, scope: Scope) -> Any:
    """Return the value that a literal or a parameter stands for; None for NULL."""
    node = _bare(node)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(node, scope)
    if isinstance(node, exp.Neg):
        inner = value(node.this, scope)
        if isinstance(inner, bool) or not isinstance(inner, int | float):
            raise scope.text.error("a minus sign stands before a number only", node)
        return -inner
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Placeholder):
        return _parameter(node, scope)
    if isinstance(node, exp.Column):
        written = node.name
        if node.this.args.get("quoted") and not node.table:
            raise scope.text.error(f"double quotes are for names; write texts in single quotes, '{written}'", node)
        raise scope.text.error(
            f"{written} stands where a value is wanted: columns are compared with values, texts stand in single quotes "
            f"('{written}'), and values of the notebook are bound as :name",
            node,
        )
    raise scope.text.error(f"{scope.text.words(node)!r} stands where a value is wanted", node)


def _comparison(node: exp.Expr, op: str, scope: Scope) -> Expression:
    left, right = _bare(node.this), _bare(node.expression)
    if _is_value(left) and _is_value(right):
        return _constant(node, op, scope)
    if _is_value(left):
        left, right, op = right, left, FLIPPED[op]
    name = _column(left, scope)
    given = _given(right, scope)
    if op not in ("==", "!="):
        _with_order(name, node, scope)
    return _atom(Compare(name, op, given), node, scope)


def _constant(node: exp.Expr, op: str, scope: Scope) -> Expression:
    """Return what a comparison of two numbers comes to: 1 = 1 is what generated SQL begins with."""
    left, right = _given(node.this, scope), _given(node.expression, scope)
    if any(isinstance(side, bool) or not isinstance(side, int | float) for side in (left, right)):
        raise scope.text.error("neither side is a column; compare a declared column with a value", node)
    return And() if CONSTANTS[op](left, right) else Or()


def _is(node: exp.Is, scope: Scope) -> Expression:
    name, right = _column(node.this, scope), node.expression
    if isinstance(right, exp.Null):
        return IsNull(name)
    if isinstance(right, exp.Boolean) and scope.domain[name].holds == "boolean":
        # unlike =, IS is never undecided
        return And(Not(IsNull(name)), Compare(name, "==", bool(right.this)))
    raise scope.text.error("after IS stands NULL or NOT NULL, or TRUE or FALSE for a column of truth values", node)


def _with_order(name: str, node: exp.Expr, scope: Scope) -> str:
    attribute = scope.domain[name]
    if attribute.holds == "boolean":
        raise scope.text.error(f"{name} is true or false: write {name} or NOT {name}", node)
    if not attribute.ordered and attribute.holds != "number":
        raise scope.text.error(f"the levels of {name} have no order: list those that count, {name} IN (...)", node)
    return name


def _atom(expression: Expression, node: exp.Expr, scope: Scope) -> Expression:
    """Return the expression if its column's levels can decide it; SQLError at its place if not."""
    try:
        Predicate.of(expression, scope.domain, nulls="sql")
    except PredicateError as error:
        refused = scope.text.error(str(error), node)
        cut = isinstance(expression, (Compare, OneOf)) and isinstance(scope.domain[expression.attribute], Bins)
        raise (refused if cut else _mistake(refused)) from None  # values inside a bin can be told apart in the rows
    return expression


def _mistake(error: SQLError) -> SQLError:
    error.mistake = True
    return error


def _column(node: exp.Expr, scope: Scope) -> str:
    node = _bare(node)
    if isinstance(node, exp.Column):
        return scope.column(node)
    raise scope.text.error(
        f"{scope.text.words(node)!r} stands where a declared column is wanted; compare a column with a value", node
    )


def _given(node: exp.Expr, scope: Scope) -> Any:
    found = value(node, scope)
    if found is None:
        raise scope.text.error(NEVER, node)
    return found


def _is_value(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal | exp.Neg | exp.Boolean | exp.Null | exp.Placeholder)


def _number(node: exp.Literal, scope: Scope) -> int | float:
    written = str(node.this)
    try:
        return int(written) if written.isdigit() else float(written)
    except ValueError:
        raise scope.text.error(f"{written} is not a number", node) from None


def _parameter(node: exp.Placeholder, scope: Scope) -> Any:
    name = node.name
    if name not in scope.parameters:
        raise scope.text.error(
            f":{name} has no value: give parameters={{{name!r}: ...}}, or in a notebook a variable of this name", node
        )
    found = plain(scope.parameters[name])
    if not isinstance(found, int | float | str | bool):
        kind = "None; write IS NULL for missing values" if found is None else f"a {type(found).__name__}"
        raise scope.text.error(f":{name} is {kind}, and a parameter is a number, a text, True or False", node)
    if isinstance(found, float) and not math.isfinite(found):
        raise scope.text.error(f":{name} is not a finite number", node)
    return found if isinstance(found, bool) else _base(found)


def _base(found: int | float | str) -> int | float | str:
    """Return the plain value of an instance of a subclass."""
    if isinstance(found, str):
        return str(found)
    return int(found) if isinstance(found, int) else float(found)


def _operands(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain of one operator in order; a chain of thousands is a tree as deep."""
    found, waiting = [], [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _bare(node: exp.Expr) -> exp.Expr:
    # some parentheses that begin with a parameter are read as an alias without a name
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Alias) and not node.args.get("alias")):
        node = node.this
    return node
