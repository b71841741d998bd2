"""The SQL of the rows of a private aggregation, taken apart again: what they are of, which they are, and their columns.

Read from the text that the ledger keeps, in one spelling, so that old and new statements are compared alike.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.sql.reuse.level_lists import MARK, Levels, Literal, Shortened, shortened
from dpnotebook.sql.reuse.spelling import all_of, as_number_of_truth, flattened, is_flat, with_counted_spans
from dpnotebook.sql.select import PrivateSelect

LOOKED_UP = re.compile(r"l\d+")  # what lists of levels are called
LEVELS = "levels"
PLAIN, KEYED = "relation", "relation but for keys"  # what digests of rows begin with
MANY, FEW = 7, 2  # so many conditions are left out in all ways; of more, at most so many


@dataclass(frozen=True)
class RowsText:
    """The rows of a private aggregation, without what there may be thousands of: trees of lists of levels.

    Parameters
    ----------
    source
        What they are of, with the unit: equal for aggregations over the same tables, joined alike.
    conditions
        Those that all of them satisfy, by their text.
    keys, inputs
        The columns `k0`, ... and `x0`, ...
    key_texts
        SQL of the keys, with the levels that these are looked up among, whatever their places.
    lists
        The numbers and values of levels that are looked up, by the name that their list has; None of other values.
    before, behind
        The statement as it stands: the unit and each key as items of its list, and what stands behind the list.
    """

    source: str
    conditions: Mapping[str, exp.Expr]
    keys: tuple[exp.Expr, ...]
    key_texts: tuple[str, ...]
    inputs: tuple[str, ...]
    lists: Mapping[str, Levels | None]
    before: tuple[str, ...]
    behind: str

    def columns_of(self, key: exp.Expr) -> frozenset[str]:
        """Return SQL of the columns that a key, or a condition, is worked out from."""
        found = {(one.table, one.name): one for one in key.find_all(exp.Column) if one.table not in self.lists}
        return frozenset(one.sql(DIALECT) for one in found.values())

    @cached_property
    def key_columns(self) -> tuple[frozenset[str], ...]:
        """SQL of the columns that each key is worked out from."""
        return tuple(map(self.columns_of, self.keys))

    def keys_of(self, column: str) -> list[int]:
        """Return the numbers of the keys that are worked out from one column alone."""
        return [i for i, columns in enumerate(self.key_columns) if columns == {column}]

    def is_of(self, node: exp.Expr, column: str) -> bool:
        """Return whether a condition is of one column alone, and of that."""
        return self.columns_of(node) == {column}

    def narrowed(self, column: int | None, grouped: bool) -> str:
        """Return the SQL of the rows with no input but one, called x, and without keys where these do not matter."""
        items = list(self.before if grouped else self.before[:1])
        if column is not None and column < len(self.inputs):
            items.append(f"{self.inputs[column]} AS x")
        return f"SELECT {', '.join(items)}{self.behind}"


def read_rows(text: str, *, as_written: bool = False) -> RowsText | None:
    """Return the rows that the SQL of a private aggregation gives; None where it has another form.

    Parameters
    ----------
    text
        The SQL.
    as_written
        Whether it is read without putting it into one spelling first, as earlier versions did.
    """
    return _read(text)[as_written]


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[RowsText | None, RowsText | None]:
    """Return the rows in one spelling, and as they are written."""
    short = shortened(text)
    found = _read_short(short)
    if short.rows and (found is None or any(map(_has_list, found))):  # a list stands where it is more than looked up in
        found = _read_short(Shortened(text, ()))
    return (None, None) if found is None else found


def _has_list(rows: RowsText) -> bool:
    """Return whether a list of levels that was set aside stands anywhere but where levels are looked up."""
    return any(MARK in one for one in (rows.source, *rows.conditions, *rows.inputs, *rows.before))


def _read_short(short: Shortened) -> tuple[RowsText, RowsText] | None:
    tree = sqlglot.parse_one(short.text, read=DIALECT)
    if not isinstance(tree, exp.Select) or all(item.alias != "u" for item in tree.selects):
        return None
    if is_flat(tree):
        written, conditions = _taken_apart(tree, short)
    else:
        flat = flattened(tree)
        written, _ = _taken_apart(tree, short)
        found, conditions = _taken_apart(flat, short)
        return replace(found, conditions=_by_text(conditions), before=written.before, behind=written.behind), written
    return replace(written, conditions=_by_text(conditions)), written


def _taken_apart(tree: exp.Select, short: Shortened) -> tuple[RowsText, list[exp.Expr]]:
    """Return the rows of a tree, which is taken apart, as they are written, and their conditions in one spelling."""
    named = {item.alias: item.unalias() for item in tree.selects}
    keys = tuple(named[name] for name in _numbered(named, "k"))
    inputs = [as_number_of_truth(named[name]).sql(DIALECT) for name in _numbered(named, "x")]
    first = exp.alias_(named["u"], "u").sql(DIALECT)
    before = [first, *(f"{key.sql(DIALECT)} AS k{i}" for i, key in enumerate(keys))]
    tree.set("expressions", [exp.alias_(named["u"].copy(), "u")])
    behind = tree.sql(DIALECT).removeprefix(f"SELECT {first}")
    joins = tree.args.get("joins") or []
    lists = {join.this.alias_or_name: join for join in joins if LOOKED_UP.fullmatch(join.this.alias_or_name)}
    keys = tuple(with_counted_spans(key.copy()) for key in keys)
    where = tree.args.get("where")
    tree.set("joins", [join for join in joins if join.this.alias_or_name not in lists])
    tree.set("where", None)
    rows = RowsText(
        tree.sql(DIALECT),
        {} if where is None else _by_text(_all_of(where.this)),
        keys,
        tuple(short.whole(_key_text(key.copy(), lists)) for key in keys),
        tuple(inputs),
        {name: _levels(join, short) for name, join in lists.items()},
        tuple(before),
        short.whole(behind),
    )
    return rows, [] if where is None else all_of(where.this)


def _by_text(conditions: Iterable[exp.Expr]) -> dict[str, exp.Expr]:
    return {node.sql(DIALECT): node.copy() for node in conditions}


def literal(node: exp.Expr) -> Literal | None:
    """Return the value that a literal stands for; None where it is no text, number or truth value."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal):
        written = str(node.this)
        if node.is_string:
            return written
        return int(written) if written.isdigit() else float(written)
    if isinstance(node, exp.Neg):
        inner = literal(node.this)
        return -inner if type(inner) in (int, float) else None  # type: ignore[operator]
    return bool(node.this) if isinstance(node, exp.Boolean) else None


def dates_of_keys(text: str, dates: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return SQL of the columns in the keys of rows which hold dates, which have no hours.

    Parameters
    ----------
    text
        SQL of the rows.
    dates
        By table, its columns that hold dates.
    """
    rows = read_rows(text)
    names = {name for columns in dates.values() for name in columns}
    keys = () if rows is None else rows.keys
    columns = [column for key in keys for column in key.find_all(exp.Column) if column.name in names]
    if rows is None or not columns:
        return ()
    tables = {table.alias: table.name for table in sqlglot.parse_one(rows.source, read=DIALECT).find_all(exp.Table)}
    found = (column.sql(DIALECT) for column in columns if column.name in dates.get(tables.get(column.table, ""), ()))
    return tuple(dict.fromkeys(found))


def relation_key(select: PrivateSelect) -> str | None:
    """Return a digest that is equal for private aggregations of the same rows, however these are put; None if unknown.

    Parameters
    ----------
    select
        The private aggregation: its tables, how they are joined, its conditions, and whether vectors are clipped.
    """
    rows = read_rows(select.rows)
    return None if rows is None else _digest(select, rows, rows.conditions)


def keyed_relation(select: PrivateSelect) -> str | None:
    """Return a digest of its rows but for conditions on columns that are grouped by alone: groups may tell of these.

    None where there are no such conditions.
    """
    rows = read_rows(select.rows)
    if rows is None:
        return None
    grouped = {columns for columns in rows.key_columns if len(columns) == 1}
    others = [text for text, node in rows.conditions.items() if rows.columns_of(node) not in grouped]
    return None if len(others) == len(rows.conditions) else _digest(select, rows, others, KEYED)


def relation_keys(select: PrivateSelect) -> list[str]:
    """Return the digest of its rows, and the one that earlier versions recorded, of the very spelling."""
    both = [read_rows(select.rows), read_rows(select.rows, as_written=True)]
    return list(dict.fromkeys(_digest(select, rows, rows.conditions) for rows in both if rows is not None))


def wider_keys(select: PrivateSelect) -> list[str]:
    """Return the digests of the same rows and of more: those of some of its conditions, all of which must hold.

    Releases that have these, and others on what they group by, are found as well: their groups may tell of which they
    are true.
    Of many conditions only those digests that leave out few; also by the spelling, as earlier versions recorded them.
    """
    found: dict[str, None] = {}
    for as_written in (False, True):
        rows = read_rows(select.rows, as_written=as_written)
        if rows is None:
            continue
        every = list(rows.conditions)
        left_out = (len(every) - size for size in range(len(every)) if size <= FEW or len(every) <= MANY)
        kept = (part for size in left_out for part in itertools.combinations(every, size))
        names = (PLAIN,) if as_written else (PLAIN, KEYED)
        found |= dict.fromkeys(_digest(select, rows, part, name) for part in kept for name in names)
    return list(found)


def _digest(select: PrivateSelect, rows: RowsText, conditions: Iterable[str], name: str = PLAIN) -> str:
    told = [list(select.tables), rows.source, sorted(conditions), select.contribution.kind]
    return f"{name} " + hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _key_text(key: exp.Expr, lists: Mapping[str, exp.Join]) -> str:
    """Return the SQL of a key, and of its list of levels, under a name that does not tell the place of the key."""
    found = [column for column in key.find_all(exp.Column) if column.table in lists]
    names = dict.fromkeys(column.table for column in found)
    for column in found:
        column.set("table", exp.to_identifier(LEVELS))
    return " ".join([key.sql(DIALECT), *(_renamed(lists[name], name).sql(DIALECT) for name in names)])


def _renamed(join: exp.Expr, name: str) -> exp.Expr:
    """Return a list of levels, which is of no other use than its values any more, under another name."""
    join.this.args["alias"].set("this", exp.to_identifier(LEVELS))
    for column in join.args["on"].find_all(exp.Column):
        if column.table == name:
            column.set("table", exp.to_identifier(LEVELS))
    return join


def _levels(join: exp.Join, short: Shortened) -> Levels | None:
    """Return the numbers and values of a list of levels; None where some are no literals."""
    pairs = [item.expressions for item in join.this.find_all(exp.Tuple) if len(item.expressions) == 2]
    found = [(literal(place), literal(value)) for value, place in pairs]
    if len(found) == 1 and short.stands_for_list(found[0][1]):
        return short.levels(str(found[0][1]))
    told = tuple((place, value) for place, value in found if type(place) is int and value is not None)
    return told if len(told) == len(found) else None


def _numbered(named: Mapping[str, exp.Expr], letter: str) -> list[str]:
    found: list[str] = []
    while f"{letter}{len(found)}" in named:
        found.append(f"{letter}{len(found)}")
    return found


def _all_of(node: exp.Expr) -> list[exp.Expr]:
    """Return the conditions that all have to hold for a condition to hold."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        return [*_all_of(node.this), *_all_of(node.expression)]
    return [node]
