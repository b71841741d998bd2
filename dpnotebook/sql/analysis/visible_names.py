"""What can be named above the releases, so that nothing fails there after it was paid for."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.errors import shorten
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.scope import listed
from dpnotebook.sql.parse.elsewhere import COLUMNS as ELSEWHERE
from dpnotebook.sql.parse.statement_parser import call_of


@dataclass(frozen=True)
class VisibleNames:
    """What can be named at a place above the releases.

    Parameters
    ----------
    names
        Columns; None where they are not known.
    tables
        What can stand before them, in lower case.
    """

    names: tuple[str, ...] | None = ()
    tables: frozenset[str] = frozenset()

    def __add__(self, other: VisibleNames) -> VisibleNames:
        names = None if self.names is None or other.names is None else self.names + other.names
        return VisibleNames(names, self.tables | other.tables)


NOTHING = VisibleNames()
Names = tuple[str, ...] | None


def check_names(query: exp.Select, known: VisibleNames, text: Text) -> None:
    """Refuse a column that is not there: the statement would fail after it was paid for."""
    if known.names is None:
        return
    names = {name.casefold() for name in known.names} | {item.alias.casefold() for item in query.expressions}
    roots = [*query.expressions]
    parts = ("where", "group", "having", "qualify", "order")
    roots += [part for name in parts if (part := query.args.get(name)) is not None]
    roots += [on for node in query.args.get("joins") or [] if (on := node.args.get("on")) is not None]
    for root in roots:
        for node in root.walk(prune=lambda node: isinstance(node, exp.Query)):
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                continue
            if node.name.casefold() not in names:
                near = get_close_matches(node.name, known.names, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {listed(known.names)}"
                hint = ELSEWHERE.get(node.name.upper(), hint)
                raise text.error(f"there is no column {shorten(node.name)} here; {hint}", node)
            if node.table and node.table.casefold() not in known.tables:
                message = f"there is no table {shorten(node.table)} here; there are {listed(sorted(known.tables))}"
                raise text.error(message, node)


def as_duckdb(node: exp.Expr) -> exp.Expr:
    """Return a call of an aggregate over releases as DuckDB has it."""
    call = call_of(node)
    return node if call is None else function_of(call.kind).over_release(node, call)


def selected(query: exp.Select, available: Names) -> Names:
    """Return the names of the columns that a select lists."""
    found: tuple[str, ...] = ()
    for item in query.expressions:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            if available is None:
                return None
            found += available
        else:
            found += (item.alias_or_name or item.sql("duckdb"),)
    return found


def aliased(node: exp.Expr, names: Names) -> Names:
    """Return names of columns after an alias such as `t(a, b)`."""
    alias = node.args.get("alias")
    renamed = [name.name for name in alias.args.get("columns") or []] if isinstance(alias, exp.TableAlias) else []
    return names if names is None else (*renamed, *names[len(renamed) :])


def called(node: exp.Expr) -> frozenset[str]:
    """Return what something in FROM is called."""
    name = node.alias_or_name.casefold()
    return frozenset([name]) if name else frozenset()
