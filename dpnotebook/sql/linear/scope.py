"""What names mean in a statement about the declared columns of one table, and what is raised where they mean none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.domain import Domain


class NotLinear(Exception):
    """What is asked is no question about declared columns alone."""


@dataclass(frozen=True)
class LinearScope:
    """What names in a statement mean.

    Parameters
    ----------
    text
        The statement.
    domain
        The declared columns of its table.
    column
        The declared column that a column of the tree means; raises NotLinear if none.
    dates
        Columns that hold dates, which have no hours.
    """

    text: Text
    domain: Domain
    column: Callable[[exp.Column], str]
    dates: frozenset[str] = frozenset()
