"""The keys of a private aggregation together: which groups they make, where these are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of
from dpnotebook.dialect.text import DIALECT, Text
from dpnotebook.sql.analysis.keys import (
    KeyColumn,
    columns_of,
    key_column,
    level_list,
    level_sql,
    looked_up,
    unknown_key,
)
from dpnotebook.sql.analysis.public_levels import PublicLevels
from dpnotebook.sql.ownership.expressions import total
from dpnotebook.sql.ownership.grouping import GroupKey
from dpnotebook.sql.select import KeysTogether
from dpnotebook.sql.statement import Relation

MAX_GROUPS = 1_000_000  # of all declared levels together


def key_columns(
    groups: Sequence[GroupKey],
    names: Sequence[str],
    relations: Mapping[str, Relation],
    public: PublicLevels | None,
    text: Text,
) -> tuple[list[KeyColumn], tuple[KeysTogether, ...]]:
    """Return keys with the levels that are declared of them, and of which levels of several there are groups.

    Parameters
    ----------
    groups
        What is grouped by.
    names
        What the keys are called.
    relations
        What is public about the tables.
    public
        The values of public columns; None where they are not to be known.
    text
        The statement.

    Raises
    ------
    SQLError
        If a key holds what has no canonical form: two values that differ in the database could be one here.
    """
    found: dict[int, KeyColumn] = {}
    together: list[KeysTogether] = []
    rows = _rows(groups, public)
    for row in dict.fromkeys(rows.values()):
        places = tuple(place for place, of in rows.items() if of == row)
        if public is None or row is None or len(places) == 1:
            # Of keys nobody knows the rows of, only some combinations may be there.
            of_one = None if row is None else public
            found |= {place: key_column(groups[place], names[place], relations, of_one, text) for place in places}
            continue
        inside = public.of_keys([column for place in places for column in columns_of(groups[place])])
        columns = [key_column(groups[place], names[place], relations, inside, text) for place in places]
        numbers = _numbers(columns, row, relations, inside)
        if numbers is None:
            columns = [key_column(groups[place], names[place], relations, None, text) for place in places]
        else:
            together.append(KeysTogether(places, numbers))
        found |= dict(zip(places, columns, strict=True))
    return _few_enough([found[place] for place in range(len(groups))], together, text)


def _rows(groups: Sequence[GroupKey], public: PublicLevels | None) -> dict[int, str | None]:
    """Return of each key by its number whose row it is of, as far as others may be of the same: else its own number."""
    if public is None:
        return {place: str(place) for place in range(len(groups))}
    tables = [public.tables(columns_of(group)) for group in groups]
    found: dict[int, str | None] = {}
    for place, (group, of) in enumerate(zip(groups, tables, strict=True)):
        shared = len(of) > 1 or any(of & other for i, other in enumerate(tables) if i != place)
        found[place] = public.row(columns_of(group)) if shared else str(place)
    return found


def _numbers(
    columns: Sequence[KeyColumn], row: str, relations: Mapping[str, Relation], public: PublicLevels
) -> tuple[tuple[int, ...], ...] | None:
    """Return which levels of keys stand together in a row of their public table; None where that is not known."""
    of = [column for key in columns for column in columns_of(key.written)]
    (table,) = public.tables(of)
    relation = relations[table]
    nodes = [public.in_table(column.written.node, row, missing=True) for column in columns]
    if relation.groups is None or None in nodes or any(column.attribute is None for column in columns):
        return None
    names = dict.fromkeys(one.sql(DIALECT) for node in nodes if node is not None for one in node.find_all(exp.Column))
    source, condition = ", ".join(names), public.condition(row)
    rows = f'SELECT {source} FROM "{table}"' + (f" WHERE {condition}" if condition else "")
    if any(column.missing for column in of):  # where an outer join keeps other rows, nothing is in any of them
        rows += f" UNION ALL SELECT {', '.join(['NULL'] * len(names))}"
    select = exp.Select().from_(exp.Var(this=f"({rows}) AS p"))
    for place, (column, node) in enumerate(zip(columns, nodes, strict=True)):
        assert node is not None
        select.append("expressions", exp.alias_(total(node), f"k{place}"))
        number_levels(select, place, place, column)
    return relation.groups(select.sql(DIALECT), len(columns))


def _few_enough(
    columns: list[KeyColumn], together: list[KeysTogether], text: Text
) -> tuple[list[KeyColumn], tuple[KeysTogether, ...]]:
    """Return keys that make no more groups than are listed; of those with most, the levels are not known then."""
    while True:
        beside = {place for one in together for place in one.keys}
        alone = [place for place, column in enumerate(columns) if place not in beside and column.key.levels]
        sizes: dict[tuple[int, ...], int] = {(place,): len(columns[place].key.levels or ()) for place in alone}
        sizes |= {one.keys: len(one.levels) for one in together}
        if prod(sizes.values()) <= MAX_GROUPS:
            return columns, tuple(together)
        largest = max(sizes, key=lambda places: sizes[places])
        together = [one for one in together if one.keys != largest]
        for place in largest:
            columns[place] = unknown_key(columns[place].written, columns[place].key.name, text)


def number_levels(select: exp.Select, place: int, number: int, column: KeyColumn) -> None:
    """Write the number of a key's level for its value, at a place of what is selected."""
    assert column.attribute is not None
    item = select.expressions[place]
    plain = isinstance(item.this, exp.Column | exp.Func) and not isinstance(item.this, exp.Connector)
    value = item.this.sql(DIALECT) if plain else f"({item.this.sql(DIALECT)})"  # NOT a IS NULL is NOT (a IS NULL)
    if looked_up(column.attribute):
        rows, on, found = level_list(column.attribute, value, f"l{number}")
        select.append("joins", exp.Join(this=exp.Var(this=rows), side="LEFT", on=exp.Var(this=on)))
    else:
        found = level_sql(column.attribute, value, kind_of(column.written.node) or "other")
    item.set("this", exp.Var(this=found))
