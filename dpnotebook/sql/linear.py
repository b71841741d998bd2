"""The linear route: a plain aggregation over one table's declared columns is a question for the planner.

There it is answered from everything recorded and by the strategies that fit it; what has no such form is measured by
itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot

from dpnotebook.errors import SQLError
from dpnotebook.question import Question
from dpnotebook.reuse.table import Table
from dpnotebook.sql.parse import question_of
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.text import DIALECT, Text


def linear_question(statement: Statement, tables: Mapping[str, Table]) -> Question | None:
    """Return what a statement's private aggregation asks of declared columns; None where it has no such form.

    Parameters
    ----------
    statement
        What was understood of it.
    tables
        What is public about each protected table, by name.

    Raises
    ------
    SQLError
        If it has that form, and a condition in it can never hold or names a level that was not declared.
    """
    if len(statement.selects) != 1 or statement.selects[0].tree is None:
        return None
    text = Text(statement.text, tuple(sqlglot.tokenize(statement.text, read=DIALECT)))
    try:
        return question_of(statement.selects[0].tree, text, tables, {})
    except SQLError as error:
        if error.mistake:
            raise
        return None
