"""What kind of query it is: over public tables, of rows that belong to units, or of what was released of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.sql.ownership.catalog import find_relation
from dpnotebook.sql.ownership.grouping import grouping
from dpnotebook.sql.ownership.queries import Environment, Status
from dpnotebook.sql.ownership.select_parts import calls_of, expression_queries, source_nodes
from dpnotebook.sql.parse.statement_parser import call_of, clause_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol


def find_status(query: exp.Expr, environment: Environment, reader: ReaderProtocol) -> Status:
    """Return the status of a query; see `Reader.status`."""
    environment = reader.with_common_tables(query, environment)
    if isinstance(query, exp.Subquery):
        return source_status(query, environment, reader)
    if isinstance(query, exp.SetOperation):
        return _worst([reader.status(query.this, environment), reader.status(query.expression, environment)])
    if not isinstance(query, exp.Select):
        return source_status(query, environment, reader)
    status = _worst(source_status(node, environment, reader) for node in source_nodes(query))
    if status == "owned":
        return "released" if is_private_aggregation(query, environment, reader) else "owned"
    inner = [reader.status(node, environment) for node in expression_queries(query)]
    return "released" if status == "released" or any(found != "public" for found in inner) else "public"


def source_status(node: exp.Expr, environment: Environment, reader: ReaderProtocol) -> Status:
    """Return the status of something in FROM."""
    if isinstance(node, exp.Subquery):
        statuses = [reader.status(node.this, reader.with_common_tables(node, environment))]
        if isinstance(node.this, exp.Table):  # joins in parentheses; a query has looked at its own
            statuses += [source_status(item.this, environment, reader) for item in node.this.args.get("joins") or []]
        return _worst(statuses)
    if isinstance(node, exp.Table):
        common = reader.common_table(node, environment)
        if common is not None:
            return reader.status(common.node.this, common.environment)
        return "owned" if find_relation(node, reader.relations, reader.text).private else "public"
    return "public"


def is_private_aggregation(select: exp.Select, environment: Environment, reader: ReaderProtocol) -> bool:
    """Whether a select over private rows adds up rows of several units."""
    calls = calls_of(select)
    if clause_of(select) is not None or any(call_of(node).private for node in calls):  # type: ignore[union-attr]
        return True
    if not calls and select.args.get("group") is None and select.args.get("having") is None:
        return False
    source = reader.source(select, environment, None)
    return not grouping(select, source.scope, environment, reader).by_unit


def refuse_private(query: exp.Expr, environment: Environment, reader: ReaderProtocol) -> None:
    """Refuse a subquery of an expression that reads a private table.

    Raises
    ------
    SQLError
        Naming the table.
    """
    status = reader.status(query, environment)
    if status == "public":
        return
    names = [node for node in query.find_all(exp.Table) if _is_private(node, environment, reader)]
    name = names[0].name if names else "a private table"
    instead = "move it to FROM, and join it on the unit"
    if status == "released":
        instead += "; or ask for it by itself first, and bind its answer, as in > :average"
    raise reader.text.error(
        f"{name} is private and stands in a subquery of an expression: {instead}", names[0] if names else query
    )


def _is_private(node: exp.Table, environment: Environment, reader: ReaderProtocol) -> bool:
    try:
        return source_status(node, environment, reader) != "public"
    except LookupError:
        return False  # a name of a WITH inside the subquery


def _worst(statuses: Iterable[Status]) -> Status:
    found = list(statuses)
    return "owned" if "owned" in found else "released" if "released" in found else "public"
