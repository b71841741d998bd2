"""The value of an expression for every combination of declared levels of its columns, as the engine works it out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.dialect.expressions import check_comparisons, with_kind
from dpnotebook.domain import Dates
from dpnotebook.domain.calendar import begin_of_span
from dpnotebook.predicate.expression import And, Compare, Expression, OneOf, Or
from dpnotebook.sql.level_values import LevelledColumn, Value, has_values, kinds_of, values, with_whole_numbers
from dpnotebook.sql.linear.scope import LinearScope, NotLinear
from dpnotebook.sql.ownership.date_spans import truncation

MOST_RUNS = 12  # of days, which are said by their ends; of more all days are listed


@dataclass(frozen=True)
class LevelValues:
    """An expression, level by level.

    Parameters
    ----------
    columns
        The declared columns in it, by name, with their levels.
    values
        Its value for every combination of these and of nothing, the last column's changing first.
    """

    columns: dict[str, LevelledColumn]
    values: list[Value]


def worked_out(node: exp.Expr, scope: LinearScope) -> LevelValues:
    """Return the values of an expression.

    Raises
    ------
    NotLinear
        If they do not follow from levels, or are too many.
    """
    columns: dict[str, LevelledColumn] = {}
    resolved = exp.Paren(this=node.copy())
    for place in list(resolved.find_all(exp.Column)):
        name = scope.column(place)
        named = exp.column(name, quoted=True)
        shown: exp.Expr = with_kind(named.copy(), kinds_of(scope.domain[name])[0])
        without_hours = name in scope.dates and isinstance(scope.domain[name], Dates)
        place.replace(with_kind(exp.cast(shown, "date"), "time") if without_hours else shown)
        columns[name] = LevelledColumn(named, scope.domain[name])
    told = list(columns.values())
    if not all(has_values(column.attribute, resolved, column.node) for column in told):
        raise NotLinear
    meant = with_whole_numbers(check_comparisons(resolved, node, scope.text).this)
    found = None if meant is None else values(meant, told)
    if found is None:
        raise NotLinear
    return LevelValues(columns, found)


def days_that_hold(node: exp.Expr, scope: LinearScope) -> Expression:
    """Return a condition on the year, or another part, of a column of dates as one on its days.

    Raises
    ------
    NotLinear
        If it is of another column, or holds for days that are missing.
    """
    if {type(scope.domain[scope.column(column)]) for column in node.find_all(exp.Column)} != {Dates}:
        raise NotLinear
    found = worked_out(node, scope)
    *holds, missing = found.values
    if len(found.columns) > 1 or missing is not None or any(type(each) is not bool for each in holds):
        raise NotLinear
    ((name, column),) = found.columns.items()
    labels = column.attribute.labels
    runs = column.attribute.runs(np.array(holds, dtype=bool))
    if len(runs) > MOST_RUNS:
        return OneOf(name, [label for label, each in zip(labels, holds, strict=False) if each])
    found_between = [(labels[start], labels[stop - 1]) for start, stop in runs]
    return Or(*(And(Compare(name, ">=", first), Compare(name, "<=", last)) for first, last in found_between))


@dataclass(frozen=True)
class DaysOfSpans:
    """The months, or other spans, that an expression makes of a column of days.

    Parameters
    ----------
    column
        The declared column.
    starts
        The first moment of each span, shape (spans,).
    spans
        The number of each day's span, shape (days,).
    """

    column: str
    starts: NDArray[np.datetime64]
    spans: NDArray[np.intp]


def days_of_spans(node: exp.Expr, scope: LinearScope) -> DaysOfSpans | None:
    """Return the spans that DATE_TRUNC makes of days; None where it is not known which day is in which of them.

    As of any other expression, and of months.
    """
    found = truncation(node)
    if found is None or not isinstance(found[0], exp.Column):
        return None
    name, by = scope.column(found[0]), found[1]
    attribute = scope.domain[name]
    if not isinstance(attribute, Dates):
        return None
    if attribute.by != "day" or attribute.clamps or attribute.other_index is not None:
        return None
    starts, spans = np.unique(begin_of_span(attribute.starts[:-1], by), return_inverse=True)
    return DaysOfSpans(name, starts, spans)
