"""What a plan says where a join repeats the rows that are added up: each counts as often as others meet it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.expressions import column_of
from dpnotebook.sql.ownership.queries import From
from dpnotebook.sql.parse.statement_parser import Call
from dpnotebook.sql.statement import Relation


def repeated_rows(calls: Sequence[Call], source: From, relations: Mapping[str, Relation], text: Text) -> list[str]:
    """Return which sums and averages are of rows that a join repeats: of a table with one row of each unit.

    Parameters
    ----------
    calls
        What is asked.
    source
        What is read.
    relations
        What is public about the tables.
    text
        The statement.
    """
    read = [item.source.tables for item in source.joined if item.source.owner is not None and not item.source.single]
    once = {name for tables in read for name in tables if relations[name].max_rows == 1}
    others = [name for tables in read for name in tables if name not in once]
    if source.single or not others:
        return []
    of_tables: dict[tuple[str, ...], list[str]] = {}
    for call in calls:
        if call.argument is None or function_of(call.kind).linear not in ("sum", "mean"):
            continue
        columns = [column_of(node, source.scope, text) for node in call.argument.find_all(exp.Column)]
        origins = [None if one is None else one.origin for one in columns]
        tables = tuple(sorted({one[0] for one in origins if one is not None}))
        if origins and None not in origins and once.issuperset(tables):
            of_tables.setdefault(tables, []).append(call.words)
    return [
        f"{' and '.join(words)}: a row of {' and '.join(tables)} counts once for each row of {others[0]} it meets"
        for tables, words in of_tables.items()
    ]
