"""The linear route: a plain aggregation over one table's declared columns is a question for the planner.

There it is answered from everything recorded and by the strategies that fit it; what has no such form is measured by
itself. It is `SELECT [columns,] aggregates FROM table [WHERE condition] [GROUP BY columns]`:

* aggregates COUNT(*), COUNT(column), SUM(column), AVG(column), MEDIAN(column) and percentiles; sums and averages clamp
  to the declared bounds; COUNTIF, FILTER and sums or counts of a CASE that is 1 or nothing are of fewer rows; AVG of a
  condition on one column, or of a CASE that is 1 or 0, is a share;
* conditions as in `dpnotebook.sql.linear.condition`; columns by name or, in GROUP BY, by place in the list; keys that
  are worked out from them as in `dpnotebook.sql.linear.written_keys`.

Every declared level is in the answer, also where no row has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.domain import Dates, Domain, Times
from dpnotebook.errors import DomainError, SQLError
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.expression import IsNull, Not
from dpnotebook.query.question import Measure, Question, Summand, bounded_value, levels_in, narrowed, truth_value
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.linear.condition import bare, predicate
from dpnotebook.sql.linear.scope import LinearScope, NotLinear
from dpnotebook.sql.linear.worked_out import days_of_spans
from dpnotebook.sql.linear.written_keys import GroupedLevels, grouped_levels, in_groups
from dpnotebook.sql.ownership.catalog import match_name
from dpnotebook.sql.ownership.date_spans import truncation
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.completeness import check_complete
from dpnotebook.sql.parse.marking import CONDITIONS
from dpnotebook.sql.parse.regression import MOMENTS
from dpnotebook.sql.parse.spellings import says_all
from dpnotebook.sql.parse.statement_parser import Surface, read_surface
from dpnotebook.sql.statement import Statement

# The parts of a SELECT that such a question has; without the underscore that some versions of sqlglot put behind them.
PARTS = frozenset({"kind", "expressions", "from", "where", "group"})
# Words that are read as others, so that a tree that is written out again has not the words of the statement.
QUANTILES = ("MEDIAN", "NTILE", "PERCENTILE_CONT", "QUANTILE_CONT", "APPROX_QUANTILE")
TRUTH = (exp.Predicate, exp.Connector, exp.Not)
BRANCHES = ("IF", "IIF", "IFNULL", "NVL")
PARTS_OF_DATES = (
    *("STRFTIME", "DAYNAME", "MONTHNAME", "DATE_PART", "DATEPART", "WEEK", "WEEKOFYEAR"),
    *("WEEKDAY", "ISODOW", "DAYOFWEEK", "DAYOFMONTH", "DAYOFYEAR"),
)
REWRITTEN = frozenset(
    {
        *(*CONDITIONS, *QUANTILES, *BRANCHES, *PARTS_OF_DATES),
        *("FILTER", "OVER", "DATE", "TIMESTAMP", "DATE_TRUNC", "TIMESTAMP_TRUNC"),
        *("INTERVAL", "EXTRACT", "EPOCH", "CAST", "TRY_CAST", "::", "ARG_MIN", "ARG_MAX", "MIN_BY", "MAX_BY"),
        *(node.sql_name() for node in MOMENTS),
    }
)


@dataclass(frozen=True)
class LinearAggregate:
    """An aggregate of the statement: what it asks for, and the column whose values COUNT(column) counts."""

    measure: Measure
    counted: str | None = None
    rows: Predicate | None = None  # of those that are selected, where it counts fewer


def linear_question(
    statement: Statement,
    tables: Mapping[str, TableSchema],
    parameters: Mapping[str, Any],
    dates: frozenset[str] = frozenset(),
) -> Question | None:
    """Return what a statement's private aggregation asks of declared columns; None where it has no such form.

    Parameters
    ----------
    statement
        What was understood of it.
    tables
        What is public about each protected table, by name.
    parameters
        Values of `:name` in it.
    dates
        Columns of its table that hold dates, which have no hours.

    Raises
    ------
    SQLError
        If it has that form, and a condition in it can never hold or names a level that was not declared, or a word of
        it has no meaning.
    """
    if len(statement.selects) != 1 or statement.selects[0].tree is None:
        return None
    surface = read_surface(statement.text, parameters)
    select = statement.selects[0].tree
    try:
        table = tables[statement.table]
        question = _question(select, table, scope_of(surface.text, table, dates), statement)
    except NotLinear:
        return None
    spans = any(isinstance(table.domain[name], Dates) for name in question.keys)
    if spans and any(key.levels is None for key in statement.selects[0].keys):
        return None  # what a name means that is both an alias and a column was decided when the statement was read
    check_whole(surface, rewritten=question.written is not None)
    return question


def question_of_groups(
    statement: Statement, table: TableSchema, dates: frozenset[str] = frozenset(), parameters: Mapping[str, Any] = {}
) -> Question | None:
    """Return how many rows each group of a statement's only private aggregation has; None where it has no such form.

    Parameters
    ----------
    statement, table
        What was understood of it, and what is public about its table.
    dates, parameters
        As for `linear_question`.
    """
    (select, *others) = statement.selects
    if others or select.tree is None or statement.tables != (table.name,):
        return None
    keys = select.tree.copy()
    keys.set("expressions", keys.expressions[: len(select.keys)])
    try:
        text = read_surface(statement.text, parameters).text
        groups = _question(keys, table, scope_of(text, table, dates), statement)
    except (NotLinear, SQLError):
        return None
    return replace(groups, measures=(Measure("count"),), written=None)


def check_whole(surface: Surface, *, rewritten: bool = False) -> None:
    """Raise SQLError where a word of a statement is not in its tree; nothing is told of words that are read as others.

    Parameters
    ----------
    surface
        The statement.
    rewritten
        Whether some of it was.
    """
    rewritten = rewritten or any(token.text.upper() in REWRITTEN for token in surface.tokens)
    if not (rewritten or says_all(surface.tokens)):
        check_complete(surface.tree, replace(surface.text, tokens=surface.tokens))


def new_names(statement: Statement) -> dict[str, str]:
    """Return what a statement calls its keys where those are not the names of their columns."""
    tree = statement.selects[0].tree
    items = tree.expressions if tree is not None else []
    named = [(item.this, item.alias) for item in items if isinstance(item, exp.Alias)]
    columns = [(_times(node) or node, alias) for node, alias in named]
    return {node.name: alias for node, alias in columns if isinstance(node, exp.Column)}


def _times(node: exp.Expr) -> exp.Column | None:
    """Return the column of times that an expression makes spans of."""
    found = truncation(node)
    return found[0] if found is not None and isinstance(found[0], exp.Column) else None


def _question(select: exp.Select, table: TableSchema, scope: LinearScope, statement: Statement) -> Question:
    source = select.args.get("from_") or select.args.get("from")
    if any(value and name.rstrip("_") not in PARTS for name, value in select.args.items()) or source is None:
        raise NotLinear
    if not isinstance(source.this, exp.Table) or source.this.alias_column_names:
        raise NotLinear
    where = table.within(predicate(select.args.get("where"), scope))
    keys: list[str | None] = []
    aggregates = []
    worked_out: list[tuple[exp.Expr, GroupedLevels]] = []
    for place, item in enumerate(select.expressions):
        node, alias = (item.this, item.alias) if isinstance(item, exp.Alias) else (item, "")
        if isinstance(node, exp.Column):
            keys.append(_whole_column(node, scope))
        elif alias and truncation(node) is not None and not _longer(node, scope):
            keys.append(_spans(node, scope))
        elif place < len(statement.selects[0].keys):
            worked_out.append((bare(node), grouped_levels(node, statement.selects[0].keys[place], scope)))
            keys += worked_out[-1][1].columns
        else:
            aggregates.append(_aggregate(node, alias, scope))
            keys.append(None)
    grouped = _keys(select, keys, scope, worked_out)
    if any(_alike(part.measure, grouped, where) for part in aggregates):
        raise NotLinear
    rows = _rows(where, aggregates)
    if rows is not None:
        question = Question(table.name, tuple(part.measure for part in aggregates), grouped, rows)
    else:
        question = _of_different_rows(Question(table.name, (), grouped, where), aggregates)
    return narrowed(in_groups(question, [key for _, key in worked_out], statement.text) if worked_out else question)


def scope_of(text: Text, table: TableSchema, dates: frozenset[str] = frozenset()) -> LinearScope:
    """Return what names in a statement about one table mean; of whose columns some may hold dates without hours."""
    return LinearScope(text, table.domain, lambda node: _column(node, table), dates)


def _column(node: exp.Column, table: TableSchema) -> str:
    """Return the declared column that a column of the statement means."""
    found = [] if isinstance(node.this, exp.Star) else match_name(node.name, dict.fromkeys(table.domain.names))
    if len(found) != 1:
        raise NotLinear
    return found[0]


def _aggregate(node: exp.Expr, name: str, scope: LinearScope) -> LinearAggregate:
    call = call_of(node)
    kind = None if call is None else function_of(call.kind).linear
    if kind is None:
        raise NotLinear
    argument = _without_cast(bare(node.this), scope)
    if kind == "mean" and (summand := _truth(argument, scope)) is not None:
        return LinearAggregate(Measure("mean", summand.column, name, summand))
    if (counted := _counted(kind, argument)) is not None:
        return LinearAggregate(Measure("count", name=name), rows=_counts(counted, scope))
    if kind == "count" and (argument == exp.Star() or isinstance(argument, exp.Literal)):
        return LinearAggregate(Measure("count", name=name))
    rows = None
    if (branch := _branch(argument)) is not None:
        condition_, argument, left = branch
        if not (left is None or isinstance(left, exp.Null) or (kind == "sum" and _is_number(left, "0"))):
            raise NotLinear
        rows = _counts(condition_, scope)
    if not isinstance(argument, exp.Column):
        raise NotLinear
    column = scope.column(argument)
    if kind == "quantile":
        assert call is not None
        return LinearAggregate(Measure("quantile", column, name, quantile=_fraction(call, column, scope)), rows=rows)
    if kind == "count":
        return LinearAggregate(Measure("count", name=name), column, rows)
    try:
        summand = bounded_value(scope.domain, column, ends=kind == "mean")
    except DomainError:
        raise NotLinear from None
    return LinearAggregate(Measure(kind, column, name, summand), rows=rows)


def _fraction(call: Call, column: str, scope: LinearScope) -> float:
    """Return which quantile of a column of numbers a call asks for: neither the least value nor the greatest.

    These are not the levels that a count first or last passes, but those that noise can tell from nothing.
    """
    if call.array or len(call.fractions) != 1 or not 0 < call.fractions[0] < 1 or scope.domain[column].bounds is None:
        raise NotLinear
    return call.fractions[0]


def _counted(kind: str, argument: exp.Expr) -> exp.Expr | None:
    """Return the condition of the rows that COUNT or SUM of a CASE, or SUM of a condition, counts; else None."""
    if kind == "sum" and isinstance(argument, TRUTH):
        return argument
    if (branch := _branch(argument)) is None:
        return None
    condition_, given, left = branch
    nothing = left is None or isinstance(left, exp.Null)
    if kind == "count" and nothing and isinstance(given, exp.Literal):
        return condition_
    return condition_ if kind == "sum" and _is_number(given, "1") and (nothing or _is_number(left, "0")) else None


def _without_cast(argument: exp.Expr, scope: LinearScope) -> exp.Expr:
    """Return the condition, or the column of truth values, that is cast to a number; any other argument as it is."""
    if not isinstance(argument, exp.Cast) or not argument.to.is_type(*exp.DataType.NUMERIC_TYPES):
        return argument
    inner = bare(argument.this)
    truths = isinstance(inner, exp.Column) and scope.domain[scope.column(inner)].holds == "boolean"
    return inner if truths or isinstance(inner, TRUTH) else argument


def _truth(argument: exp.Expr, scope: LinearScope) -> Summand | None:
    """Return what AVG of a condition, or of a CASE that is 1 or else 0, averages; None of anything else."""
    if isinstance(argument, TRUTH):
        found = truth_value(_counts(argument, scope), _counts(exp.Not(this=exp.paren(argument.copy())), scope))
    elif (branch := _branch(argument)) is not None and _is_number(branch[1], "1") and _is_number(branch[2], "0"):
        holds = _counts(branch[0], scope)
        found = truth_value(holds, ~holds)
    else:
        return None
    if found is None:
        raise NotLinear
    return found


def _counts(condition_: exp.Expr, scope: LinearScope) -> Predicate:
    """Return the rows of which a condition inside an aggregate is true; one that no row can meet counts none."""
    try:
        return predicate(exp.Where(this=condition_), scope)
    except SQLError:
        raise NotLinear from None


def _branch(argument: exp.Expr) -> tuple[exp.Expr, exp.Expr, exp.Expr | None] | None:
    """Return the condition of a CASE of one branch or an IF, what it is then, and what else; None for anything else."""
    if isinstance(argument, exp.If):
        other = argument.args.get("false")
        return argument.this, bare(argument.args["true"]), None if other is None else bare(other)
    if not isinstance(argument, exp.Case) or argument.this is not None or len(argument.args["ifs"]) != 1:
        return None
    (branch,), other = argument.args["ifs"], argument.args.get("default")
    return branch.this, bare(branch.args["true"]), None if other is None else bare(other)


def _is_number(node: exp.Expr | None, written: str) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.this in (written, f"{written}.0")


def _keys(
    select: exp.Select, selected: list[str | None], scope: LinearScope, worked_out: list[tuple[exp.Expr, GroupedLevels]]
) -> tuple[str, ...]:
    """Return the keys: those that are selected, in their order, then the rest; of those worked out their columns."""
    group = select.args.get("group")
    called = {item.alias: item.this for item in select.expressions if isinstance(item, exp.Alias)}
    written = [node for node, _ in worked_out]
    given = [bare(item) for item in (group.expressions if group is not None else []) if bare(item) not in written]
    # GROUP BY month, which is what the list calls DATE_TRUNC('month', ...)
    given = [
        called[item.name]
        if isinstance(item, exp.Column) and item.name not in scope.domain and _times(called.get(item.name, item))
        else item
        for item in given
    ]
    grouped = [_grouped(item, selected, scope) for item in given]
    columns = [name for _, key in worked_out for name in key.columns]
    chosen = [name for name in selected if name is not None]
    if not set(chosen) <= {*grouped, *columns} or len({*grouped, *columns}) < len({*grouped}) + len(columns):
        raise NotLinear  # what is selected is no key, or two keys are about one column
    return tuple(dict.fromkeys([*chosen, *grouped]))


def _whole_column(node: exp.Column, scope: LinearScope) -> str:
    """Return a column that is grouped by as it is: of times that would be a group for each moment."""
    name = scope.column(node)
    if isinstance(scope.domain[name], Dates | Times):
        raise NotLinear
    return name


def _longer(node: exp.Expr, scope: LinearScope) -> bool:
    """Return whether an expression makes spans of more than a level of a column of days."""
    found = days_of_spans(node, scope)
    return found is not None and found.starts.size < found.spans.size


def _spans(node: exp.Expr, scope: LinearScope) -> str:
    """Return the column of dates whose levels an expression makes: DATE_TRUNC('month', ...) where these are months."""
    found = truncation(node)
    if found is None or not isinstance(found[0], exp.Column):
        raise NotLinear
    name, by = scope.column(found[0]), found[1]
    attribute = scope.domain[name]
    if not isinstance(attribute, Dates) or attribute.other_index is not None:
        raise NotLinear
    if attribute.by != by or attribute.by_span(by) != attribute:
        raise NotLinear
    return name


def _grouped(item: exp.Expr, selected: list[str | None], scope: LinearScope) -> str:
    if isinstance(item, exp.Column):
        return _whole_column(item, scope)
    if truncation(item) is not None:
        return _spans(item, scope)
    if isinstance(item, exp.Literal) and not item.is_string and str(item.this).isdigit():
        place = int(item.this)
        name = selected[place - 1] if 1 <= place <= len(selected) else None
        if name is not None:
            return name
    raise NotLinear


def _rows(where: Predicate, aggregates: list[LinearAggregate]) -> Predicate | None:
    """Return the rows that all aggregates count: COUNT(column) those with a value, SUM and AVG may do without the rest.

    None where no set of rows is right for all of them.
    """
    exact = [_selected(part, where) for part in aggregates if part.measure.kind == "count"]
    rows = exact[0] if exact else _selected(aggregates[0], where) if aggregates else where
    for part in aggregates:
        values = _valued(part.measure, where.domain)
        if rows & values != _selected(part, where) & values:
            return None
    if rows.is_empty:
        raise NotLinear
    return rows


def _of_different_rows(question: Question, aggregates: list[LinearAggregate]) -> Question:
    """Return a question with measures that have rows of their own; each must have all groups that the question has."""
    where, domain = question.where, question.where.domain
    groups = [allowed_levels(where, name, domain) for name in question.keys]
    measures = []
    for part in aggregates:
        rows = _selected(part, where)
        if rows.is_empty or [allowed_levels(rows, name, domain) for name in question.keys] != groups:
            raise NotLinear
        own = _selected(part, Predicate.everything(domain))
        measures.append(part.measure if rows == where else replace(part.measure, rows=own))
    return replace(question, measures=tuple(measures))


def _present(column: str | None, domain: Domain) -> Predicate:
    """Return the rows that have a value in a column; all without one."""
    if column is None:
        return Predicate.everything(domain)
    return Predicate.of(Not(IsNull(column)), domain, nulls="sql")


def _valued(measure: Measure, domain: Domain) -> Predicate:
    """Return the rows that add something to a measure."""
    if measure.kind == "count" or not measure.summand.holds:
        return _present(None if measure.kind == "count" else measure.column, domain)
    assert measure.column is not None
    return Predicate.box(domain, {measure.column: measure.summand.has_value(domain[measure.column])})


def _alike(measure: Measure, keys: Sequence[str], where: Predicate) -> bool:
    """Return whether a condition that is averaged holds for all rows of a group or for none."""
    summand = measure.summand
    if not summand.holds or summand.column is None:
        return False
    size = where.domain[summand.column].size
    levels = (levels_in(runs, size) for runs in (summand.holds, summand.fails))
    rows = (where & Predicate.box(where.domain, {summand.column: mask}) for mask in levels)
    return summand.column in keys or any(each.is_empty for each in rows)


def _selected(part: LinearAggregate, where: Predicate) -> Predicate:
    """Return the rows that an aggregate is of, among those of WHERE."""
    rows = where & _present(part.counted, where.domain)
    return rows if part.rows is None else rows & part.rows
