"""From a WHERE clause to an expression over declared columns.

Conditions are = <> < <= > >=, BETWEEN, IN, IS NULL, IS TRUE, truth values alone, AND, OR, NOT. NULL is neither true nor
false, as everywhere in SQL.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlglot import exp

from dpnotebook.dialect.builders import type_name
from dpnotebook.domain import Bins, Dates, Times
from dpnotebook.errors import PredicateError
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.expression import And, Compare, Expression, IsNull, Not, OneOf, Or
from dpnotebook.sql.level_values import midnight
from dpnotebook.sql.linear.scope import LinearScope, NotLinear
from dpnotebook.sql.linear.worked_out import days_that_hold

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
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
ONE = datetime.timedelta(days=1)
DAY = re.compile(r"\d{4}-\d{2}-\d{2}( 00:00:00(\.0+)?)?")
NEVER = "a comparison with NULL is never true: write IS NULL or IS NOT NULL"


def predicate(where: exp.Expr | None, scope: LinearScope) -> Predicate:
    """Return the rows that a WHERE clause selects, by SQL's rules for NULL.

    Raises
    ------
    NotLinear
        If the clause is not a condition on declared columns.
    SQLError
        If it names a level that was not declared, or no row could ever satisfy it.
    """
    if where is None:
        return Predicate.everything(scope.domain)
    try:
        # Rows without a value of a column are no part of the table, where its missing values are not declared.
        told = And(*(condition(part, scope) for part in _conjuncts(where.this) if not _is_there(part, scope)))
        found = Predicate.of(told, scope.domain, nulls="sql")
    except PredicateError:  # of the whole: parts have been tried one by one
        raise NotLinear from None
    if found.is_empty:
        listed = [bare(item) for inside in where.find_all(exp.In) for item in inside.expressions]
        hint = "; NOT IN a list with NULL is never true" if any(isinstance(item, exp.Null) for item in listed) else ""
        raise scope.text.error(f"no row of the declared domain satisfies this WHERE, whatever the data{hint}", "WHERE")
    return found


def condition(node: exp.Expr, scope: LinearScope) -> Expression:
    """Return the expression of one condition."""
    node = bare(node)
    if isinstance(node, exp.And | exp.Or):
        parts = [condition(part, scope) for part in operands(node)]
        return And(*parts) if isinstance(node, exp.And) else Or(*parts)
    if isinstance(node, exp.Not):
        if isinstance(inner := bare(node.this), exp.Is) and not scope.domain[_column(inner.this, scope)].nullable:
            if isinstance(inner.expression, exp.Boolean):
                _refuse_text(_column(inner.this, scope), node, scope)
            raise NotLinear  # also true of what is missing
        return Not(condition(node.this, scope))
    if isinstance(node, exp.Boolean):
        return And() if node.this else Or()
    if isinstance(node, exp.Column):
        name = scope.column(node)
        if scope.domain[name].holds != "boolean":
            _refuse_text(name, node, scope)
            raise NotLinear
        return Compare(name, "==", True)
    if isinstance(node, exp.Is):
        return _is(node, scope)
    try:
        return _of_a_column(node, scope)
    except NotLinear:
        return days_that_hold(node, scope)


def _of_a_column(node: exp.Expr, scope: LinearScope) -> Expression:
    """Return the expression of a condition on a column as it is."""
    if type(node) in OPERATORS:
        return _comparison(node, OPERATORS[type(node)], scope)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        name = _with_order(_column(node.this, scope), scope)
        low = _atom(Compare(name, ">=", _given(node.args["low"], scope)), node, scope)
        return And(low, _atom(Compare(name, "<=", _given(node.args["high"], scope)), node, scope))
    if isinstance(node, exp.In) and node.expressions:
        name = _column(node.this, scope)
        return _atom(OneOf(name, [value(item) for item in node.expressions]), node, scope)
    raise NotLinear


def value(node: exp.Expr) -> Any:
    """Return the value that a literal stands for; None for NULL."""
    node = bare(node)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Neg):
        inner = value(node.this)
        if isinstance(inner, bool) or not isinstance(inner, int | float):
            raise NotLinear
        return -inner
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Cast) and type_name(node) in ("DATE", "TIMESTAMP", "TIMESTAMPNTZ"):  # DATE '2023-05-17'
        written = value(node.this)
        if isinstance(written, str) and DAY.fullmatch(written):
            return datetime.date.fromisoformat(written[:10])
    if (day := midnight(node)) is not None:
        return day
    raise NotLinear


def bare(node: exp.Expr) -> exp.Expr:
    """Return what stands in parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _comparison(node: exp.Expr, op: str, scope: LinearScope) -> Expression:
    left, right = bare(node.this), bare(node.expression)
    if _is_value(left) and _is_value(right):
        return _constant(node, op, scope)
    if _is_value(left):
        left, right, op = right, left, FLIPPED[op]
    name = _column(left, scope)
    given = _given(right, scope)
    if op not in ("==", "!="):
        _with_order(name, scope)
    return _atom(Compare(name, op, given), node, scope)


def _constant(node: exp.Expr, op: str, scope: LinearScope) -> Expression:
    """Return what a comparison of two numbers comes to: 1 = 1 is what generated SQL begins with."""
    left, right = _given(node.this, scope), _given(node.expression, scope)
    if any(isinstance(side, bool) or not isinstance(side, int | float) for side in (left, right)):
        raise NotLinear
    return And() if CONSTANTS[op](left, right) else Or()


def _is(node: exp.Is, scope: LinearScope) -> Expression:
    name, right = _column(node.this, scope), node.expression
    if isinstance(right, exp.Null):
        if not scope.domain[name].nullable:
            raise NotLinear  # of what the table leaves out only the rows can tell
        return IsNull(name)
    if isinstance(right, exp.Boolean) and scope.domain[name].holds == "boolean":
        # unlike =, IS is never undecided
        return And(Not(IsNull(name)), Compare(name, "==", bool(right.this)))
    if isinstance(right, exp.Boolean):
        _refuse_text(name, node, scope)
    raise NotLinear


def _refuse_text(name: str, node: exp.Expr, scope: LinearScope) -> None:
    """Raise SQLError if a condition is that a declared text is true, which it is not, as `column = TRUE` is refused."""
    attribute = scope.domain[name]
    if attribute.holds == "text":
        raise scope.text.error(
            f"{name} alone is no condition, since it is not true or false; compare it, as in "
            f"{name} = '{attribute.labels[-1]}'",
            node,
        )


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that all have to hold, whatever parentheses stand around some of them."""
    node = bare(node)
    return [each for part in operands(node) for each in _conjuncts(part)] if isinstance(node, exp.And) else [node]


def _is_there(node: exp.Expr, scope: LinearScope) -> bool:
    """Return whether a condition is that a column has a value, of which missing values are not declared."""
    node = bare(node)
    inner = bare(node.this) if isinstance(node, exp.Not) else None
    if not isinstance(inner, exp.Is) or not isinstance(inner.expression, exp.Null):
        return False
    return not scope.domain[_column(inner.this, scope)].nullable


def _with_order(name: str, scope: LinearScope) -> str:
    attribute = scope.domain[name]
    if attribute.holds == "boolean" or (not attribute.ordered and attribute.holds != "number"):
        raise NotLinear
    return name


def _atom(expression: Compare | OneOf, node: exp.Expr, scope: LinearScope) -> Expression:
    """Return the expression if its column's levels can decide it; SQLError at its place if not."""
    if (days := _of_dates(expression, node, scope)) is not None:
        return days
    if not _is_of_days(expression, scope):
        raise NotLinear
    try:
        Predicate.of(expression, scope.domain, nulls="sql")
    except PredicateError as error:
        # the rows can tell apart what is inside a bin or a month
        if isinstance(scope.domain[expression.attribute], Bins | Dates):
            raise NotLinear from None
        raise scope.text.error(str(error), node) from None
    return expression


def _of_dates(expression: Compare | OneOf, node: exp.Expr, scope: LinearScope) -> Expression | None:
    """Return a comparison of dates without hours as one of midnights, which levels decide; None of anything else."""
    if expression.attribute not in scope.dates or not isinstance(scope.domain[expression.attribute], Dates):
        return None
    values = expression.values if isinstance(expression, OneOf) else (expression.value,)
    days = [datetime.date.fromisoformat(str(one)) for one in values if DATE.fullmatch(str(one))]
    if len(days) < len(values) or datetime.date.max in days:
        return None
    at_least, before = (partial(Compare, expression.attribute, op) for op in (">=", "<"))

    def on(day: datetime.date) -> Expression:
        return And(_atom(at_least(day), node, scope), _atom(before(day + ONE), node, scope))

    if isinstance(expression, OneOf):
        return Or(*map(on, days))
    match expression.op:
        case "<=":
            return _atom(before(days[0] + ONE), node, scope)
        case ">":
            return _atom(at_least(days[0] + ONE), node, scope)
        case "==":
            return on(days[0])
        case "!=":
            return Not(on(days[0]))
    return None


def _is_of_days(expression: Compare | OneOf, scope: LinearScope) -> bool:
    """Whether SQL means by a comparison with dates what the levels of dates say: >= or < a midnight.

    To SQL a date is its midnight. Columns that hold no dates are compared with none.
    """
    attribute = scope.domain[expression.attribute]
    values = expression.values if isinstance(expression, OneOf) else (expression.value,)
    if isinstance(attribute, Times):  # the column is moments to SQL
        return False
    if not isinstance(attribute, Dates):
        return not any(isinstance(one, datetime.date) for one in values)
    if not isinstance(expression, Compare):
        return False
    return expression.op in (">=", "<") and bool(DAY.fullmatch(str(expression.value)))


def _column(node: exp.Expr, scope: LinearScope) -> str:
    node = bare(node)
    if isinstance(node, exp.Column):
        return scope.column(node)
    raise NotLinear


def _given(node: exp.Expr, scope: LinearScope) -> Any:
    found = value(node)
    if found is None:
        raise scope.text.error(NEVER, node)
    return found


def _is_value(node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal | exp.Neg | exp.Boolean | exp.Null) or midnight(node) is not None:
        return True
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)


def _number(written: str) -> int | float:
    try:
        return int(written) if written.isdigit() else float(written)
    except ValueError:
        raise NotLinear from None


def operands(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain of one operator in order; a chain of thousands is a tree as deep."""
    found, waiting = [], [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found
