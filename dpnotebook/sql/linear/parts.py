"""Which parts of a table that grew the rows of a statement can be in, whatever else it asks of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from dpnotebook.domain.parts import PART
from dpnotebook.errors import SQLError
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.sql.linear.condition import bare, operands, predicate
from dpnotebook.sql.linear.questions import scope_of
from dpnotebook.sql.linear.scope import NotLinear
from dpnotebook.sql.parse.statement_parser import read_surface
from dpnotebook.sql.statement import Statement


def parts_of_rows(statement: Statement, table: TableSchema, parameters: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the parts, numbered from 1, that the rows can be in that a statement aggregates; None where that is open.

    Told by those conditions that all have to hold and that are about the part alone: a row of another part is none of
    its rows then, and loses nothing by it.

    Parameters
    ----------
    statement
        What was understood of it.
    table
        What is public about the table.
    parameters
        Values of `:name` in it.
    """
    conditions = statement.selects[0].conditions
    if len(statement.selects) != 1 or statement.tables != (table.name,) or conditions is None:
        return None
    scope = scope_of(read_surface(statement.text, parameters).text, table)
    found = Predicate.everything(table.domain)
    for one in map(bare, conditions):
        for part in operands(one) if isinstance(one, exp.And) else [one]:
            try:
                rows = predicate(exp.Where(this=part), scope)
            except (NotLinear, SQLError):
                continue
            found &= rows if rows.attributes == (PART,) else Predicate.everything(table.domain)
    levels = allowed_levels(found, PART, table.domain)
    return tuple(level + 1 for level in levels) if len(levels) < table.parts else None
