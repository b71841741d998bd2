"""Names of the columns of a release: aliases, else what a column is or counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.errors import shorten
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.ownership.grouping import Grouping
from dpnotebook.sql.parse.statement_parser import Call

PARTS = ("std_error", "lower", "upper")


@dataclass
class Names:
    """Names that are taken in a release, in lower case."""

    text: Text
    taken: set[str] = field(default_factory=set)

    def keys(self, group: Grouping, select: exp.Select) -> list[str]:
        """Return names of keys: their aliases or columns."""
        found = []
        for key in group.all:
            name = self._free(key.name)
            self.taken.add(name.casefold())
            found.append(name)
        return found

    def aggregate(self, call: Call, alias: str | None, column: str | None, at: exp.Expr) -> str:
        """Return the name of an aggregate, free with those of its intervals.

        Parameters
        ----------
        call
            What it asks for.
        alias
            Its name in the list.
        column
            The column it is about.
        at
            Where it stands, for errors.

        Raises
        ------
        SQLError
            If its alias is the name of another column.
        """
        if alias is not None:
            if self._clash(alias):
                raise self.text.error(
                    f"two columns of the answer would be called {shorten(alias)}; give one another name with AS", at
                )
            name = alias
        else:
            word = function_of(call.kind).word_of(call)
            name = self._free(call.called or (word if column is None else f"{word}_{column}"))
        self.taken |= _columns(name)
        return name

    def _clash(self, name: str) -> bool:
        return bool(_columns(name) & self.taken)

    def _free(self, name: str) -> str:
        found, number = name, 2
        while self._clash(found):
            found, number = f"{name}_{number}", number + 1
        return found


def interval_columns(name: str) -> list[str]:
    """Return the columns beside that of an aggregate: those of one called value have no name before them."""
    return [part if name == "value" else f"{name}_{part}" for part in PARTS]


def quoted(name: str) -> exp.Column:
    """Return a column of a release, in a query."""
    return exp.column(exp.to_identifier(name, quoted=True))


def _columns(name: str) -> set[str]:
    return {column.casefold() for column in (name, *interval_columns(name))}
