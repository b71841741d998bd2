"""What a private select shows of its release: its list, HAVING, ORDER BY and LIMIT over the released columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from dpnotebook.errors import shorten
from dpnotebook.sql.analysis.aggregation import Aggregation
from dpnotebook.sql.analysis.release_names import PARTS, interval_columns, quoted
from dpnotebook.sql.analysis.rolled_up import grouped_again, is_added, over_groups
from dpnotebook.sql.analysis.visible_names import VisibleNames
from dpnotebook.sql.ownership.expressions import bare, resolve, words_of
from dpnotebook.sql.ownership.queries import Environment
from dpnotebook.sql.ownership.reader import Reader
from dpnotebook.sql.parse.statement_parser import call_of


class Subqueries(Protocol):
    """What a view asks of the statement around it; `outer.Outer` answers."""

    reader: Reader

    def known(self, columns: list[str]) -> VisibleNames:
        """Return what subqueries can name: the columns of the release."""

    def scalar(self, node: exp.Expr, environment: Environment, around: VisibleNames) -> exp.Expr:
        """Return a subquery of an expression over releases."""


@dataclass
class View:
    """A private select over its release.

    Parameters
    ----------
    table
        The name of the release.
    items
        The list: expressions over the release and their names.
    exact
        Whether the list is keys and aggregates of the release as they are.
    tail
        HAVING as WHERE, QUALIFY, ORDER BY, LIMIT and OFFSET, as parts of a select; of several sets of keys, those too.
    columns
        All columns of the release.
    """

    table: str
    items: list[tuple[exp.Expr, str]]
    exact: bool
    tail: dict[str, exp.Expr]
    columns: list[str]

    @property
    def names(self) -> list[str]:
        """The names of its list, and of intervals of them."""
        named = [name for _, name in self.items]
        return named + [column for column in self.columns if column not in named]

    @property
    def is_release(self) -> bool:
        """Whether it shows the release as it is."""
        return self.exact and not self.tail

    def whole(self) -> exp.Select:
        """Return it as a select of all columns of the release, intervals included; for exact ones."""
        return self._select([exp.Star()])

    def listed(self, mentioned: set[str]) -> exp.Select:
        """Return it as a select of its list, with those columns of intervals that the statement names."""
        items: list[exp.Expr] = [exp.alias_(node.copy(), name, quoted=True) for node, name in self.items]
        taken = {name.casefold() for _, name in self.items}
        for column in self.columns:
            if column.casefold() in mentioned and column.casefold() not in taken and column.endswith(PARTS):
                items.append(quoted(column))
        return self._select(items)

    def _select(self, items: list[exp.Expr]) -> exp.Select:
        select = exp.Select(expressions=items).from_(exp.to_table(self.table), copy=False)
        for part, node in self.tail.items():
            select.set(part, node.copy())
        return select


def view(select: exp.Select, found: Aggregation, place: int, outer: Subqueries, environment: Environment) -> View:
    """Return what a private select shows of its release.

    Parameters
    ----------
    select
        The select as it was read.
    found
        What it measures.
    place
        The number of its release.
    outer
        Who reads what stands above.
    environment
        Names of WITH clauses.

    Raises
    ------
    SQLError
        If it shows columns that are neither grouped by nor aggregated.
    """
    return _Viewer(select, found, outer, environment).view(f"release_{place}")


class _Viewer:
    """A private select as its list is being read."""

    def __init__(self, select: exp.Select, found: Aggregation, outer: Subqueries, environment: Environment) -> None:
        self.select, self.found, self.outer, self.environment = select, found, outer, environment
        self.reader = outer.reader
        self.items: list[tuple[exp.Expr, str]] = []
        measured = found.measured
        self.aggregates = [aggregate.name for aggregate in measured.aggregates]
        self.columns = [key.name for key in measured.keys]
        for name in self.aggregates if self.found.group.sets is None else []:
            self.columns += [name, *interval_columns(name)]
        self.sets = grouped_again(found)

    def view(self, table: str) -> View:
        taken: set[str] = set()
        for item in self.select.expressions:
            if is_added(item):
                continue
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                raise self.reader.text.error("* stands in COUNT(*) only here; list keys and aggregates", item)
            node = self.post(item.unalias(), aliases=False)
            name = item.alias or (
                node.name if isinstance(node, exp.Column) else words_of(item.unalias(), self.reader.text)
            )
            if item.alias and name.casefold() in taken:
                raise self.reader.text.error(
                    f"two columns of the answer would be called {shorten(name)}; give one another name with AS", item
                )
            stem, number = name, 2
            while name.casefold() in taken:
                name, number = f"{stem}_{number}", number + 1
            taken.add(name.casefold())
            self.items.append((node, name))
        shown = [node.name for node, name in self.items if isinstance(node, exp.Column) and node.name == name]
        exact = len(shown) == len(self.items) and len(set(shown)) == len(shown) and self.sets is None
        return View(table, self.items, exact, self._tail(), self.columns)

    def _tail(self) -> dict[str, exp.Expr]:
        parts = self.select.args
        tail: dict[str, exp.Expr] = {}
        if self.sets is not None:
            tail["group"] = self.sets
        if parts.get("having") is not None:
            having = self.post(parts["having"].this, aliases=True)
            if self.sets is not None:
                tail["having"] = exp.Having(this=having)
            else:
                tail["where"] = exp.Where(this=having)
        if parts.get("qualify") is not None:
            tail["qualify"] = exp.Qualify(this=self.post(parts["qualify"].this, aliases=True))
        if parts.get("order") is not None:
            tail["order"] = exp.Order(expressions=[self._ordered(item) for item in parts["order"].expressions])
        for part in ("limit", "offset"):
            if parts.get(part) is not None:
                tail[part] = parts[part].copy()
        return tail

    def _ordered(self, item: exp.Ordered) -> exp.Ordered:
        found = item.copy()
        inner = bare(item.this)
        if isinstance(inner, exp.Literal) and not inner.is_string and str(inner.this).isdigit():
            place = int(inner.this)
            if not 1 <= place <= len(self.items):
                raise self.reader.text.error(f"there is no column {place} in the list", inner)
            found.set("this", self.items[place - 1][0].copy())
        else:
            found.set("this", self.post(item.this, aliases=True, alias_first=True))
        return found

    def post(self, written: exp.Expr, *, aliases: bool, alias_first: bool = False) -> exp.Expr:
        """Return an expression of the select over the columns of its release.

        Parameters
        ----------
        written
            As it was read.
        aliases
            Whether it can use names of the list.
        alias_first
            Whether these go before columns.
        """
        if call_of(written) is not None:
            return self._answer(written)
        if isinstance(written, exp.Query):
            return self.outer.scalar(written, self.environment, self.outer.known(self.columns))
        if isinstance(written, exp.Column):
            return self._column(written, aliases=aliases, alias_first=alias_first)
        key = self._key(written)
        if key is not None:
            return key
        copy = written.copy()
        for part, value in written.args.items():
            if isinstance(value, exp.Expression):
                copy.set(part, self.post(value, aliases=aliases, alias_first=alias_first))
            elif isinstance(value, list):
                changed = [
                    self.post(inner, aliases=aliases, alias_first=alias_first)
                    if isinstance(inner, exp.Expression)
                    else inner
                    for inner in value
                ]
                copy.set(part, changed)
        return copy

    def _answer(self, written: exp.Expr) -> exp.Expr:
        """Return an aggregate: a column of the release, or what follows from it for several groups."""
        if self.sets is None:
            return quoted(self.found.names[id(written)])
        return over_groups(written, self.select, self.found, self.reader)

    def _column(self, written: exp.Column, *, aliases: bool, alias_first: bool) -> exp.Expr:
        name = written.name.casefold()
        named = (
            [node for node, shown in self.items if shown.casefold() == name] if aliases and not written.table else []
        )
        if named and alias_first:
            return named[0].copy()
        scope = self.found.source.scope
        found = scope.find(written, self.reader.text)
        if found is not None:
            value = scope.value(found[0])
            for column in self.found.keys:
                if column.written.node == value:
                    return quoted(column.key.name)
        if self.sets is not None and not written.table:  # an answer of larger groups is no column of the release
            named = named or [node for node, shown in self.items if shown.casefold() == name]
        if named:
            return named[0].copy()
        if not written.table:
            for shown in self.columns:
                if shown.casefold() == name and (shown.endswith(PARTS) or found is None):
                    return quoted(shown)
        if found is None:
            raise self.reader.text.error(scope.unknown(written), written)
        said = f"{written.name} is neither grouped by nor aggregated here: add it to GROUP BY, or aggregate it"
        if (alias := self._column_called_like(written)) is not None:
            said = (
                f"GROUP BY {alias} means the column {alias} of the table, as there is one, and not what the list calls "
                "so: give that another name, or write its place, GROUP BY 1"
            )
        raise self.reader.text.error(said, written)

    def _column_called_like(self, written: exp.Column) -> str | None:
        """Return the name that the list gives an expression with a column in it, if a column is grouped by with it."""
        columns = [key.written.written for key in self.found.keys]
        grouped = {column.name.casefold() for column in columns if isinstance(column, exp.Column)}
        for item in self.select.expressions:
            inside = any(column.name == written.name for column in item.find_all(exp.Column))
            if isinstance(item, exp.Alias) and item.alias.casefold() in grouped and inside:
                return str(item.alias)
        return None

    def _key(self, written: exp.Expr) -> exp.Expr | None:
        """Return the key that an expression is, None if it is none."""
        for column in self.found.keys:
            if column.written.column is not None or type(column.written.written) is not type(written):
                continue
            if any(call_of(node) is not None or isinstance(node, exp.Window) for node in written.walk()):
                return None
            if column.written.written == written:
                return quoted(column.key.name)
            if resolve(written, self.found.source.scope, self.environment, self.reader) == column.written.node:
                return quoted(column.key.name)
        return None
