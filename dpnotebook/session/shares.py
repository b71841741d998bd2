"""Shares of rows that satisfy a condition, as pandas users write them: `(df.ward == "A").mean()`."""

from __future__ import annotations

import re
from collections.abc import Collection

from dpnotebook.predicate import Predicate
from dpnotebook.query.question import Measure, truth_value

# What a condition has and the name of a column mostly has not.
CONDITION = re.compile(r"[=<>~&|]|\b(?:in|and|or|not|isna|notna|isnull|notnull|between)\b|\.\w+\(")


def is_condition(text: object, columns: Collection[str]) -> bool:
    """Return whether somebody wrote a condition where a column is expected.

    Parameters
    ----------
    text
        What was given.
    columns
        The names of all columns.

    Examples
    --------
    >>> is_condition("age >= 65", ["age"]), is_condition("age", ["age"]), is_condition("cost in €", ["cost in €"])
    (True, False, False)
    """
    return isinstance(text, str) and text not in columns and CONDITION.search(text) is not None


def share_of(condition: Predicate, where: Predicate) -> Measure | None:
    """Return the share of rows that satisfy a condition; rows without a value are not among them, and count.

    Parameters
    ----------
    condition
        What is true of some rows.
    where
        Which rows take part.

    Returns
    -------
    None where the condition is about several columns, or all rows that take part are alike.
    """
    summand = truth_value(condition, ~condition)
    alike = (where & condition).is_empty or (where & ~condition).is_empty
    return None if summand is None or alike else Measure("mean", summand.column, summand=summand)
