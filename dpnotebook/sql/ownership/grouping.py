"""GROUP BY: its keys by name, by place in the list, by alias or as expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.safe.times import is_length_of_time
from dpnotebook.dialect.text import Text
from dpnotebook.sql.ownership.date_spans import part_of_times, truncation
from dpnotebook.sql.ownership.expressions import bare, column_of, resolve, words_of
from dpnotebook.sql.ownership.scope import Column, Scope
from dpnotebook.sql.parse.grouping_sets import has_sets, keys_of
from dpnotebook.sql.parse.statement_parser import call_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.protocol import ReaderProtocol
    from dpnotebook.sql.ownership.queries import Environment, Output


@dataclass(frozen=True)
class GroupKey:
    """What is grouped by.

    Parameters
    ----------
    name
        The alias or the column's name; else the words of the expression.
    node
        The expression, resolved.
    column
        The column that it is; None for other expressions.
    written
        As it was read.
    item
        Its place in the list of the select; None where it is not selected.
    span
        Of a column of times that is grouped by its spans, the column and which they are: "month" in DATE_TRUNC; or by
        parts of them: "MONTH" in EXTRACT.
    parts
        Of an expression, the columns that it is worked out from, each with what it is in `node`; none where it has
        others too.
    """

    name: str
    node: exp.Expr
    column: Column | None
    written: exp.Expr
    item: int | None
    span: tuple[Column, str] | None = None
    parts: tuple[tuple[exp.Column, Column], ...] = ()


@dataclass(frozen=True)
class Grouping:
    """The keys of a GROUP BY, and whether one of them is the unit.

    Parameters
    ----------
    all
        The keys, each once.
    by_unit
        Whether one is the unit.
    sets
        Where several sets of them are grouped by: the clause, with the places of keys in `all` for the keys.
    """

    all: tuple[GroupKey, ...] = ()
    by_unit: bool = False
    sets: exp.Group | None = None

    @property
    def keys(self) -> list[exp.Expr]:
        """What is grouped by beside the unit, each once."""
        return [key.node for key in self.all if key.column is None or not key.column.unit]


def grouping(select: exp.Select, scope: Scope, environment: Environment, reader: ReaderProtocol) -> Grouping:
    """Return what a select groups by.

    Raises
    ------
    SQLError
        If a key is an aggregate, or there is no such column.
    """
    group = select.args.get("group")
    if group is None:
        return Grouping()
    for part, value in group.args.items():
        if part != "expressions" and value:
            raise reader.text.error(
                f"GROUP BY {part.upper().replace('_', ' ')} is not supported; list the columns, one question for each "
                "set of them",
                group,
            )
    if not group.expressions:
        raise reader.text.error("after GROUP BY stand columns", "GROUP")
    found: list[GroupKey] = []
    named: list[tuple[exp.Expr, GroupKey]] = []
    sets: exp.Group = group.copy()
    for written, place in zip(keys_of(group), keys_of(sets), strict=True):
        key = _key(bare(written), select, scope, environment, reader)
        key = next((other for other in found if key.node == other.node), key)
        if all(key is not other for other in found):
            found.append(key)
        named.append((place, key))
    found.sort(key=lambda key: (key.item is None, key.item or 0))  # as they are selected, then the others
    for place, key in named:
        place.replace(exp.Literal.number(next(number for number, one in enumerate(found) if one is key)))
    by_unit = any(key.column is not None and key.column.unit for key in found)
    return Grouping(tuple(found), by_unit, sets if has_sets(group) else None)


def check_grouped(outputs: Iterable[Output], group: Grouping, select: exp.Select, text: Text) -> None:
    """Refuse columns in a list that are neither grouped by nor aggregated."""
    keys = [key.node for key in group.all]
    items = list(outputs)
    places = select.expressions if len(select.expressions) == len(items) else [None] * len(items)
    for output, place in zip(items, places, strict=True):
        if not output.unit and not _made_of(output.node, keys):
            raise text.error(
                f"{output.name} is selected, so it must be in GROUP BY, or in an aggregate",
                place or select.expressions[0],
            )


def check_having(select: exp.Select, group: Grouping, resolved: Callable[[exp.Expr], exp.Expr], text: Text) -> None:
    """Refuse columns in HAVING that are neither grouped by nor aggregated."""
    having = select.args.get("having")
    if having is not None and not _made_of(resolved(having.this), [key.node for key in group.all]):
        raise text.error("HAVING is about aggregates and what is in GROUP BY; write other conditions as WHERE", having)


def _made_of(node: exp.Expr, keys: list[exp.Expr]) -> bool:
    def stops(part: exp.Expr) -> bool:
        return call_of(part) is not None or isinstance(part, exp.Query) or part in keys

    return not any(
        isinstance(part, exp.Column) and part not in keys for part in node.walk(prune=stops) if not stops(part)
    )


def _key(
    written: exp.Expr, select: exp.Select, scope: Scope, environment: Environment, reader: ReaderProtocol
) -> GroupKey:
    text = reader.text
    place = _position(written, select, text)
    # Names of the list hide those of FROM in BigQuery, and the other way round in DuckDB.
    if place is None and isinstance(written, exp.Column):
        hidden = text.dialect == "bigquery" or scope.find(written, text) is None
        place = _alias(written, select) if hidden and not written.table else None
    node, name = written, None
    if place is not None:
        item = select.expressions[place]
        node, name = bare(item.unalias()), item.alias or None
        if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
            raise text.error("GROUP BY names columns of the list, not *", written)
    for part in node.walk(prune=lambda inner: isinstance(inner, exp.Query)):
        if call_of(part) is not None:
            raise text.error("this is an aggregate; group by columns", written)
    if isinstance(node, exp.Literal):
        raise text.error("group by columns, or by their places in the list", written)
    column = column_of(node, scope, text)
    resolved = resolve(node, scope, environment, reader)
    if is_length_of_time(resolved):
        raise text.error(
            "this is a length of time to the second, which hardly two rows share; group by DATE_DIFF('day', from, to)",
            written,
        )
    if place is None:
        place = _selected(node, resolved, select, scope, environment, reader)
        name = select.expressions[place].alias or None if place is not None else None
    words = name or (column.name if column is not None else words_of(node, text))
    parts = () if column is not None else _parts(node, scope, text)
    return GroupKey(words, resolved, column, node, place, _span(node, scope, text), parts)


def _span(node: exp.Expr, scope: Scope, text: Text) -> tuple[Column, str] | None:
    """Return the column of times whose spans or parts an expression is, and which they are."""
    found = truncation(node) or part_of_times(node)
    column = None if found is None else column_of(found[0], scope, text)
    return None if found is None or column is None else (column, found[1])


def _parts(node: exp.Expr, scope: Scope, text: Text) -> tuple[tuple[exp.Column, Column], ...]:
    """Return the columns of an expression, each once; none where one is of another query, or the unit."""
    found: dict[exp.Column, Column] = {}
    if node.find(exp.Query) is not None:
        return ()
    for part in node.find_all(exp.Column):
        column = column_of(part, scope, text)
        value = None if column is None or column.unit else scope.value(column)
        if column is None or not isinstance(value, exp.Column):
            return ()
        found[value] = column
    return tuple(found.items())


def _position(written: exp.Expr, select: exp.Select, text: Text) -> int | None:
    if not isinstance(written, exp.Literal) or written.is_string or not str(written.this).isdigit():
        return None
    place = int(written.this)
    if not 1 <= place <= len(select.expressions):
        raise text.error(f"there is no column {place} in the list, which has {len(select.expressions)}", written)
    return place - 1


def _alias(written: exp.Column, select: exp.Select) -> int | None:
    for place, item in enumerate(select.expressions):
        if isinstance(item, exp.Alias) and item.alias.casefold() == written.name.casefold():
            return place
    return None


def _selected(
    node: exp.Expr,
    resolved: exp.Expr,
    select: exp.Select,
    scope: Scope,
    environment: Environment,
    reader: ReaderProtocol,
) -> int | None:
    """Return the place in the list at which a key stands as it is."""
    for place, item in enumerate(select.expressions):
        shown = bare(item.unalias())
        if type(shown) is not type(node) or isinstance(shown, exp.Star) or _has_call(shown):
            continue
        if shown == node or resolve(shown, scope, environment, reader) == resolved:
            return place
    return None


def _has_call(node: exp.Expr) -> bool:
    return any(call_of(part) is not None for part in node.walk())
