"""The parts of a select as sqlglot reads it: what stands in FROM, its aggregates, the queries in its expressions."""

from __future__ import annotations

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.parse.statement_parser import call_of


def source_nodes(select: exp.Select) -> list[exp.Expr]:
    """Return what stands in FROM."""
    first = from_of(select)
    return [] if first is None else [first, *(node.this for node in select.args.get("joins") or [])]


def from_of(select: exp.Select) -> exp.Expr | None:
    """Return the first thing in FROM."""
    node = select.args.get("from_") or select.args.get("from")
    return None if node is None else node.this


def expression_queries(select: exp.Select) -> list[exp.Expr]:
    """Return the subqueries in the expressions of a select."""
    roots = [*select.expressions]
    roots += [node for node in source_nodes(select) if isinstance(node, exp.Unnest | exp.Values)]
    parts = ("where", "group", "having", "qualify", "order")
    roots += [node for part in parts if (node := select.args.get(part)) is not None]
    roots += [on for node in select.args.get("joins") or [] if (on := node.args.get("on")) is not None]
    return [node for root in roots for node in root.walk(prune=_is_query) if _is_query(node)]


def calls_of(select: exp.Select) -> list[exp.Expr]:
    """Return the calls of aggregate functions of a select itself."""
    roots = [*select.expressions]
    roots += [node for part in ("having", "qualify", "order") if (node := select.args.get(part)) is not None]
    return [
        node
        for root in roots
        for node in root.walk(prune=lambda node: _is_query(node) or call_of(node) is not None)
        if call_of(node) is not None
    ]


def refuse_calls(node: exp.Expr, message: str, text: Text) -> None:
    """Refuse aggregates in an expression."""
    for part in node.walk(prune=_is_query):
        if call_of(part) is not None:
            raise text.error(message, part)


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)
