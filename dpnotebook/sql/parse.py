"""A statement as a question: which table, which aggregates, by which columns, of which rows.

Answered are `SELECT [columns,] aggregates FROM table [WHERE condition] [GROUP BY columns]` over one protected table:

* aggregates COUNT(*), COUNT(column), SUM(column), AVG(column), with aliases. Without one, an answer is called count,
  count_income, sum_income or avg_income. Sums and averages clamp to the declared bounds.
* conditions on declared columns: = <> < <= > >=, BETWEEN, IN, IS NULL, IS TRUE, truth values alone, AND, OR,
  NOT. NULL is neither true nor false, as everywhere in SQL.
* GROUP BY by name or by place in the list. Every declared level is in the answer, also where no row has it, and the
  keys are in the answer even if they are not selected.

Order, limits and conditions on the answer are for the release, where they cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from dpnotebook.errors import DomainError
from dpnotebook.predicate import Predicate
from dpnotebook.predicate.expression import IsNull, Not
from dpnotebook.question import Measure, Question, bounded_value
from dpnotebook.reuse.table import Table
from dpnotebook.sql.allowed import ONE_COLUMN, check
from dpnotebook.sql.complete import check_complete
from dpnotebook.sql.condition import Scope, predicate
from dpnotebook.sql.text import Text, parse, read

KINDS: dict[type[exp.Expr], str] = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "mean"}
WORDS = {"count": "count", "sum": "sum", "mean": "avg"}
PARTS = ("std_error", "lower", "upper")


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of the statement.

    Parameters
    ----------
    measure
        What it asks for.
    counted
        The column whose values COUNT(column) counts; None for COUNT(*), SUM and AVG.
    node
        Where it stands.
    """

    measure: Measure
    counted: str | None
    node: exp.Expr


def question_from_sql(statement: str, tables: Mapping[str, Table], parameters: Mapping[str, Any]) -> Question:
    """Return the question that a SQL statement asks; parameters and errors as in `dpnotebook.sql`."""
    text = read(statement)
    try:
        tree = parse(text)
        if isinstance(tree, exp.Subquery):
            raise text.error("write one SELECT, without parentheses around it", text.tokens[0])
        check_complete(tree, text)
        return question_of(tree, text, tables, parameters)
    except RecursionError:
        raise text.error("the statement is nested too deeply; write it flatter") from None


def question_of(tree: exp.Expr, text: Text, tables: Mapping[str, Table], parameters: Mapping[str, Any]) -> Question:
    """Return the question that a tree asks; as `question_from_sql`."""
    check(tree, text)
    return _question(tree, text, tables, parameters)


def match_name(written: str, known: Iterable[str]) -> list[str]:
    """Return the known names that a name in SQL can mean: itself, else all that differ in case only."""
    names = list(known)
    return [written] if written in names else [name for name in names if name.casefold() == written.casefold()]


def _question(tree: exp.Expr, text: Text, tables: Mapping[str, Table], parameters: Mapping[str, Any]) -> Question:
    if not isinstance(tree, exp.Select):
        raise text.error("write one SELECT, without parentheses around it", tree)
    table, qualifier = _table(tree, text, tables)
    scope = Scope(text, table.domain, lambda column: _column(column, text, table, qualifier), parameters)
    where = predicate(tree.args.get("where"), scope)
    selected, aggregates = _selected(tree, scope)
    keys = _keys(tree, selected, scope)
    _check_names(aggregates, keys, text)
    return Question(table.name, tuple(part.measure for part in aggregates), keys, _rows(where, aggregates, text))


def _table(select: exp.Select, text: Text, tables: Mapping[str, Table]) -> tuple[Table, str]:
    """Return the table that is asked, and what its columns can be qualified with."""
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise text.error("there is no FROM: say which protected table is asked", "SELECT")
    node = source.this
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise text.error("after FROM stands the name of one protected table", node)
    found = match_name(node.name, tables)
    if len(found) > 1:
        raise text.error(
            f"{node.name} can be {' or '.join(map(repr, found))}; write one of them exactly, in quotes", node
        )
    if not found:
        near = get_close_matches(node.name, tables, 1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"protected are {', '.join(tables)}"
            if tables
            else ("protect one first: session.protect(frame, 'name', domain={...})")
        )
        raise text.error(f"no table {node.name!r} is protected in this session; {hint}", node)
    return tables[found[0]], node.alias or node.name


def _column(node: exp.Column, text: Text, table: Table, qualifier: str) -> str:
    """Return the declared column that a column of the statement means."""
    if isinstance(node.this, exp.Star):
        raise text.error("* stands in COUNT(*) only; name declared columns", node)
    if node.table and node.table.casefold() != qualifier.casefold():
        raise text.error(f"the table is called {qualifier} here: write {qualifier}.{node.name}", node)
    found = match_name(node.name, table.domain.names)
    if len(found) != 1:
        raise text.error(table.domain.unknown(node.name), node)
    return found[0]


def _selected(select: exp.Select, scope: Scope) -> tuple[list[str | None], list[Aggregate]]:
    """Return the key that each selected item is (None for an aggregate), and the aggregates."""
    keys: list[str | None] = []
    aggregates = []
    for item in select.expressions:
        node, alias = (item.this, item.alias) if isinstance(item, exp.Alias) else (item, None)
        if isinstance(item, exp.Alias) and not isinstance(item.args["alias"], exp.Identifier):
            raise scope.text.error("after an aggregate stands a comma, or AS and a name", node)
        if type(node) in KINDS:
            aggregates.append(_aggregate(node, alias, scope))
            keys.append(None)
        elif isinstance(node, exp.Column):
            keys.append(_key(node, alias, keys, scope))
        elif isinstance(node, exp.Star):
            raise scope.text.error("rows cannot be shown; ask for aggregates: COUNT(*), SUM(column), AVG(column)", node)
        else:
            raise scope.text.error("select declared columns and COUNT, SUM or AVG of them, nothing else", node)
    if not aggregates:
        raise scope.text.error("rows cannot be shown; add COUNT(*), SUM(column) or AVG(column)", "SELECT")
    return keys, aggregates


def _key(node: exp.Column, alias: str | None, before: list[str | None], scope: Scope) -> str:
    name = scope.column(node)
    if alias is not None and alias.casefold() != name.casefold():
        raise scope.text.error(f"{name} keeps its name in the answer; leave out AS {alias}", node)
    if name in before:
        raise scope.text.error(f"{name} is selected twice", node)
    return name


def _aggregate(node: exp.Expr, alias: str | None, scope: Scope) -> Aggregate:
    kind, argument = KINDS[type(node)], node.this
    while isinstance(argument, exp.Paren):
        argument = argument.this
    if argument is None:
        raise scope.text.error("write COUNT(*) for the number of rows", node)
    if kind == "count" and isinstance(argument, exp.Star | exp.Literal):
        return Aggregate(Measure("count", name=alias or WORDS[kind]), None, node)
    if not isinstance(argument, exp.Column):
        raise scope.text.error(ONE_COLUMN, node)
    column = scope.column(argument)
    name = alias or f"{WORDS[kind]}_{column}"
    if kind == "count":
        return Aggregate(Measure("count", name=name), column, node)
    try:
        summand = bounded_value(scope.domain, column, ends=kind == "mean")
    except DomainError as error:
        raise scope.text.error(str(error), argument) from None
    measure = Measure("sum" if kind == "sum" else "mean", column, name, summand)
    return Aggregate(measure, None, node)


def _keys(select: exp.Select, selected: list[str | None], scope: Scope) -> tuple[str, ...]:
    """Return the keys: those that are selected, in their order, then the rest."""
    group = select.args.get("group")
    if group is not None and not group.expressions:
        raise scope.text.error("after GROUP BY stand columns", "GROUP")
    grouped: list[str] = []
    for item in group.expressions if group is not None else []:
        name = _grouped(item, selected, scope)
        if name not in grouped:
            grouped.append(name)
    for item, key in zip(select.expressions, selected, strict=True):
        if key is not None and key not in grouped:
            raise scope.text.error(f"{key} is selected, so it must be in GROUP BY", item)
    chosen = [name for name in selected if name is not None]
    return tuple(chosen + [name for name in grouped if name not in chosen])


def _grouped(item: exp.Expr, selected: list[str | None], scope: Scope) -> str:
    while isinstance(item, exp.Paren):
        item = item.this
    if isinstance(item, exp.Column):
        return scope.column(item)
    if isinstance(item, exp.Literal) and not item.is_string and str(item.this).isdigit():
        place = int(item.this)
        if not 1 <= place <= len(selected):
            raise scope.text.error(f"there is no column {place} in the list, which has {len(selected)}", item)
        name = selected[place - 1]
        if name is None:
            raise scope.text.error(f"column {place} is an aggregate; group by a declared column", item)
        return name
    raise scope.text.error("group by declared columns, by name or by their place in the list", item)


def _check_names(aggregates: list[Aggregate], keys: tuple[str, ...], text: Text) -> None:
    """Refuse an aggregate that is asked twice, and names that two columns of the answer would share."""
    taken = {name.casefold() for name in keys}
    asked = []
    for part in aggregates:
        asking = replace(part.measure, name=""), part.counted
        if asking in asked:
            raise text.error("this is asked twice, and each would get a part of the budget; ask it once", part.node)
        asked.append(asking)
        name = part.measure.name
        columns = {name.casefold(), *(f"{name}_{suffix}".casefold() for suffix in PARTS)}
        if name == "value":
            columns = {name, *PARTS}
        if columns & taken:
            raise text.error(
                f"two columns of the answer would be called {name!r}; give one another name with AS", part.node
            )
        taken |= columns


def _rows(where: Predicate, aggregates: list[Aggregate], text: Text) -> Predicate:
    """Return the rows that all aggregates count: COUNT(column) those with a value, SUM and AVG may do without the rest.

    Raises
    ------
    SQLError
        If no set of rows is right for all of them.
    """

    def present(column: str | None) -> Predicate:
        if column is None:
            return Predicate.everything(where.domain)
        return Predicate.of(Not(IsNull(column)), where.domain, nulls="sql")

    exact = [(part, where & present(part.counted)) for part in aggregates if part.measure.kind == "count"]
    rows = exact[0][1] if exact else where
    for part in aggregates:
        column = part.counted if part.measure.kind == "count" else part.measure.column
        wanted = where & present(column)
        if (rows if part.measure.kind == "count" else rows & present(column)) != wanted:
            raise text.error(
                "one question is about one set of rows, and this counts others than the aggregates before it, because "
                "of missing values: ask it in a statement of its own",
                part.node,
            )
    if rows.is_empty:
        raise text.error("no row of the declared domain has a value to count here", aggregates[0].node)
    return rows
