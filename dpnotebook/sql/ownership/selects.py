"""Queries below a private aggregation: projections, conditions, and groupings by the unit.

Each query over private rows carries the unit of each row in a column of its own, whatever it selects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.errors import SQLError
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.correlated import refuse_in_groups
from dpnotebook.sql.ownership.expressions import bare, resolve, total
from dpnotebook.sql.ownership.grouping import check_grouped, check_having, grouping
from dpnotebook.sql.ownership.narrowing import narrowing
from dpnotebook.sql.ownership.outputs import aliases_of, listed_outputs
from dpnotebook.sql.ownership.padded_rows import padded
from dpnotebook.sql.ownership.queries import Environment, From, Output, Rows, named_outputs
from dpnotebook.sql.ownership.scope import Scope
from dpnotebook.sql.ownership.select_parts import calls_of, refuse_calls
from dpnotebook.sql.ownership.set_operations import set_operation
from dpnotebook.sql.ownership.windows import (
    KEPT,
    first_of_unit,
    is_first,
    only_kept,
    refuse,
    refuse_windows,
)
from dpnotebook.sql.parse.statement_parser import call_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol

Aliases = Mapping[str, Callable[[], exp.Expr]]

ONE_SET = "ROLLUP, CUBE and GROUPING SETS stand in the private aggregation or above it; list the columns here"
KEEPS = "which rows are kept would depend on rows of other units; leave it out below the aggregation"


def read_rows(query: exp.Expr, environment: Environment, outer: Scope | None, reader: ReaderProtocol) -> Rows:
    """Return a query understood; see `Reader.rows`."""
    environment = reader.with_common_tables(query, environment)
    if isinstance(query, exp.Subquery):
        if query.args.get("limit") or query.args.get("offset"):
            raise reader.text.error("write LIMIT inside the parentheses", query)
        return reader.rows(query.this, environment, outer)
    if isinstance(query, exp.SetOperation):
        return set_operation(query, environment, outer, reader)
    if not isinstance(query, exp.Select):
        raise reader.text.error("a subquery is a SELECT", query)
    if reader.status(query, environment) == "released":
        raise reader.text.error(
            "a private aggregation stands inside another one, or is joined with private rows; below the "
            "aggregation, group by the unit's column too",
            _aggregation(query),
        )
    source = reader.source(query, environment, outer)
    if source.owner is not None and (query.args.get("limit") or query.args.get("offset")):
        raise reader.text.error(f"LIMIT below an aggregation is not supported: {KEEPS}", query.args.get("limit"))
    return _select(query, source, environment, reader)


def _select(query: exp.Select, source: From, environment: Environment, reader: ReaderProtocol) -> Rows:
    scope = source.scope
    group = grouping(query, scope, environment, reader)
    if group.sets is not None:
        raise reader.text.error(ONE_SET, query.args["group"])
    aggregated = bool(calls_of(query)) or query.args.get("group") is not None or query.args.get("having") is not None
    _check_windows(query, scope, aggregated, reader)
    outputs = listed_outputs(query, scope, environment, reader)
    aliases = aliases_of(query, outputs)
    kept = condition(query, "qualify", scope, environment, reader, aliases)
    if aggregated:
        refuse_in_groups(query, reader)
        check_grouped(outputs, group, query, reader.text)
        check_having(query, group, lambda written: resolve(written, scope, environment, reader, aliases), reader.text)
    if not outputs:
        raise reader.text.error("a SELECT lists columns", query)
    where = condition(query, "where", scope, environment, reader)
    having = condition(query, "having", scope, environment, reader, aliases)
    padding = padded(source, query.args.get("where"), reader.text)
    distinct = query.args.get("distinct")
    owned = source.owner is not None
    source.single = source.single or first_of_unit(where, source)
    if distinct is not None:
        _check_distinct(query, distinct, source, outputs, reader)
    tail = [] if owned else _tail(query, scope, environment, aliases, reader)
    if aggregated:
        roots = [*(output.node for output in outputs), *([having] if having is not None else []), *tail]
        _check_inner_calls(query, source, roots, reader)
    source.take_asked()
    nodes = [total(output.node) for output in outputs]
    keys = [total(key) for key in group.keys]
    every = range(len(outputs))
    by_unit = aggregated and owned

    def build(wanted: Iterable[int]) -> exp.Expr:
        select = exp.Select()
        items = named_outputs(nodes, every if distinct is not None else wanted, scope.unit)
        select.set("expressions", items if kept is None else [*items, exp.alias_(kept.copy(), KEPT)])
        if distinct is not None and kept is None:
            select.set("distinct", exp.Distinct())
        used = [*items, *(node for node in (where, having, kept) if node is not None), *keys, *tail]
        if source.joined:
            source.build(select, used)
        if where is not None:
            select.set("where", exp.Where(this=where.copy()))
        grouped = ([scope.unit.copy()] if by_unit and scope.unit is not None else []) + [key.copy() for key in keys]
        if grouped:
            select.set("group", exp.Group(expressions=grouped))
        if having is not None:
            select.set("having", exp.Having(this=having.copy()))
        for node in tail:
            select.set(node.key, node.copy())
        return select if kept is None else only_kept(select, reader.alias(), distinct is not None)

    single = source.single or (by_unit and not keys) or (distinct is not None and all(o.unit for o in outputs))
    single = single or (kept is not None and is_first(kept, scope))
    return Rows(
        tuple(outputs),
        source.owner,
        build,
        single,
        source.tables,
        source.public,
        distinct is not None,
        distinct is not None,
        padding,
        narrowing(query, source, where, reader.relations),
        1 if single and owned else source.times,
    )


def _check_windows(query: exp.Select, scope: Scope, aggregated: bool, reader: ReaderProtocol) -> None:
    """Refuse windows but those over the rows of one unit, in the list of a query that shows rows."""
    kept = query.args.get("qualify")
    parts = [*query.expressions, *([] if kept is None else [kept.this])]
    listed = [node for item in parts for node in item.find_all(exp.Window)]
    if aggregated and listed:
        refuse(listed[0], scope, reader.text)
    if kept is None:
        return
    if not listed:
        raise reader.text.error("QUALIFY is a condition on a window; write this one as WHERE", kept.this)
    refuse_windows(kept.this, scope, reader.text)
    refuse_calls(
        kept.this, "an aggregate cannot stand in QUALIFY here; aggregate in a query in FROM first", reader.text
    )


def _check_distinct(
    query: exp.Select, distinct: exp.Expr, source: From, outputs: list[Output], reader: ReaderProtocol
) -> None:
    if distinct.args.get("on"):
        raise reader.text.error("DISTINCT ON is not supported: which row is kept is not said; group by columns", query)
    unit = None if source.owner is None else source.owner.unit
    if unit is not None and not any(output.unit for output in outputs):
        message = (
            f"SELECT DISTINCT below an aggregation lists the unit's column {unit} too; how many different values there "
            "are is COUNT(DISTINCT column)"
        )
        raise reader.text.error(message, query.expressions[0])


def _check_inner_calls(query: exp.Select, source: From, nodes: list[exp.Expr], reader: ReaderProtocol) -> None:
    """Refuse aggregates that are not of this query's own rows, and those that cannot be below another aggregation."""
    own = {item.source.alias for item in source.joined}
    for node in calls_of(query):
        call = call_of(node)
        if call is not None and (call.private or not function_of(call.kind).below(call)):
            raise reader.text.error(
                "below a private aggregation there are COUNT, SUM, AVG, MIN, MAX, VAR and STDDEV", node
            )
    for root in nodes:
        for part in root.walk(prune=lambda part: isinstance(part, exp.Query)):
            if call_of(part) is None:
                continue
            if any(call_of(inner) is not None for inner in part.walk() if inner is not part):
                message = "an aggregate of an aggregate is not supported; aggregate in a query in FROM first"
                raise reader.text.error(message, calls_of(query)[0])
            if any(column.table not in own for column in part.find_all(exp.Column)):
                raise reader.text.error(
                    "an aggregate in a subquery is of columns of the subquery, not of those around it",
                    calls_of(query)[0],
                )


def condition(
    query: exp.Select,
    part: str,
    scope: Scope,
    environment: Environment,
    reader: ReaderProtocol,
    aliases: Aliases | None = None,
) -> exp.Expr | None:
    """Return WHERE, HAVING or QUALIFY of a select, resolved; None without one."""
    written = query.args.get(part)
    if written is None:
        return None
    if part == "where":
        refuse_calls(written.this, "an aggregate stands in WHERE; write the condition as HAVING", reader.text)
    return total(resolve(bare(written.this), scope, environment, reader, aliases), True)


def _tail(
    query: exp.Select, scope: Scope, environment: Environment, aliases: Aliases, reader: ReaderProtocol
) -> list[exp.Expr]:
    """Return ORDER BY, LIMIT and OFFSET of a select over public tables."""
    tail: list[exp.Expr] = []
    order = query.args.get("order")
    if order is not None and query.args.get("limit") is not None:
        items = []
        for item in order.expressions:
            copy = item.copy()
            copy.set("this", total(resolve(item.this, scope, environment, reader, aliases)))
            items.append(copy)
        tail.append(exp.Order(expressions=items))
    for part in ("limit", "offset"):
        node = query.args.get(part)
        if node is not None:
            if not isinstance(node.expression, exp.Literal):
                raise reader.text.error(f"{part.upper()} is a number that is written out", node)
            tail.append(node.copy())
    return tail


def drops(query: exp.Expr, rows: Rows, reader: ReaderProtocol) -> SQLError:
    """Return what to tell someone whose subquery drops the unit."""
    inner = query
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    assert rows.owner is not None
    items = inner.expressions if isinstance(inner, exp.Select) else []
    unit = rows.owner.unit
    for item in items:
        derived = isinstance(item, exp.Alias) and any(
            column.name.casefold() == str(unit).casefold() for column in item.this.find_all(exp.Column)
        )
        if derived:
            return reader.text.error(
                f"this derives a value from {unit}, and the rows of the subquery have no unit then; select {unit} "
                "itself too",
                item,
            )
    return reader.text.error(f"this query drops the unit column: select {unit} too", items[0] if items else query)


def _aggregation(query: exp.Select) -> exp.Expr:
    calls = calls_of(query)
    return calls[0] if calls else query.args.get("group") or query
