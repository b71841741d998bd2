"""From SQL to questions: one SELECT of COUNT, SUM and AVG over one protected table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpnotebook.question import Question
    from dpnotebook.reuse.table import Table

__all__ = ["question_from_sql"]


def question_from_sql(statement: str, tables: Mapping[str, Table], parameters: Mapping[str, Any]) -> Question:
    """Return the question that a SQL statement asks of a protected table; see `dpnotebook.sql.parse`.

    Parameters
    ----------
    statement
        One SELECT in DuckDB's SQL.
    tables
        What is public about each protected table, by name.
    parameters
        Values of `:name` in the statement: numbers, texts, True or False. They are bound as values, never as text.

    Raises
    ------
    SQLError
        If the statement is not one that can be answered; the text points at the place and says what to write.
    """
    from dpnotebook.sql.parse import question_from_sql as parse  # sqlglot takes a third of a second to import

    return parse(statement, tables, parameters)
