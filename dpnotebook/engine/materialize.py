"""Queries with a part that must be worked out once, for databases that work out a part anew for each that reads it."""

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot import exp


def first_held(query: str, name: str) -> tuple[str, str] | None:
    """Return the first part of a query that is to be worked out once, and the query with a table in its place.

    Parameters
    ----------
    query
        DuckDB's SQL; parts before the one that is MATERIALIZED are not read by those after it.
    name
        What the table will be called.

    Returns
    -------
    Two queries of DuckDB's SQL; None where no part is to be worked out once.
    """
    if " AS MATERIALIZED " not in query:
        return None
    tree: Any = sqlglot.parse_one(query, read="duckdb")
    parts = tree.ctes
    number = next((i for i, part in enumerate(parts) if part.args.get("materialized")), None)
    if number is None:
        return None
    held = parts[number]
    inner = held.this.copy()
    before = parts[:number]
    if before:
        inner = exp.select("*").from_(held.alias)
        held.set("materialized", None)
        inner.set("with_", exp.With(expressions=[part.copy() for part in [*before, held]]))
    for part in parts[: number + 1]:
        part.pop()
    if not tree.ctes:
        tree.set("with_", None)
    for table in tree.find_all(exp.Table):
        if table.name == held.alias and not table.db:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            table.set("this", exp.to_identifier(name, quoted=True))
    return inner.sql("duckdb"), tree.sql("duckdb")
