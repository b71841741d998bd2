"""The SQL of the rows of a private aggregation, taken apart again: what they are of, which they are, and their columns.

Read from the text that the ledger keeps, so that old and new statements are compared by the same thing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.sql.select import PrivateSelect

LOOKED_UP = re.compile(r"l\d+")  # what lists of levels are called
LEVELS = "levels"
MANY, FEW = 7, 2  # so many conditions are left out in all ways; of more, at most so many


@dataclass(frozen=True)
class RowsText:
    """The rows of a private aggregation.

    Parameters
    ----------
    source
        What they are of, with the unit: equal for aggregations over the same tables, joined alike.
    conditions
        Those that all of them satisfy, by their text.
    keys, inputs
        The columns `k0`, ... and `x0`, ...
    lists
        SQL of the levels that are looked up in a list, by the name that a key has for it.
    """

    source: str
    conditions: Mapping[str, exp.Expr]
    keys: tuple[exp.Expr, ...]
    inputs: tuple[str, ...]
    lists: Mapping[str, exp.Expr]

    def key_text(self, number: int) -> str:
        """Return the SQL of a key, with the levels that it is looked up among."""
        node = self.keys[number].copy()
        found = [column for column in node.find_all(exp.Column) if column.table in self.lists]
        lists = [_renamed(self.lists[name].copy(), name) for name in dict.fromkeys(column.table for column in found)]
        for column in found:
            column.set("table", exp.to_identifier(LEVELS))
        return " ".join(one.sql(DIALECT) for one in (node, *lists))


@lru_cache(maxsize=1024)
def read_rows(text: str) -> RowsText | None:
    """Return the rows that the SQL of a private aggregation gives; None where it has another form."""
    tree = sqlglot.parse_one(text, read=DIALECT)
    if not isinstance(tree, exp.Select) or tree.args.get("where") is None:
        return None
    named = {item.alias: item.unalias() for item in tree.expressions}
    lists: dict[str, exp.Expr] = {}
    joins = []
    for join in tree.args.get("joins") or []:
        if LOOKED_UP.fullmatch(join.this.alias_or_name):
            lists[join.this.alias_or_name] = join.copy()
        else:
            joins.append(join)
    conditions = {node.sql(DIALECT): node for node in _all_of(tree.args["where"].this)}
    below = tree.copy()
    for part, value in (("joins", [join.copy() for join in joins]), ("where", None)):
        below.set(part, value)
    below.set("expressions", [exp.alias_(named["u"].copy(), "u")])
    return RowsText(
        below.sql(DIALECT),
        conditions,
        tuple(named[name] for name in _numbered(named, "k")),
        tuple(named[name].sql(DIALECT) for name in _numbered(named, "x")),
        lists,
    )


def relation_key(select: PrivateSelect) -> str | None:
    """Return a digest that is equal for private aggregations of the same rows, however these are put; None if unknown.

    Parameters
    ----------
    select
        The private aggregation: its tables, how they are joined, its conditions, and whether vectors are clipped.
    """
    rows = read_rows(select.rows)
    return None if rows is None else _digest(select, rows, rows.conditions)


def wider_keys(select: PrivateSelect) -> list[str]:
    """Return the digests of the same rows and of more: those of some of its conditions, all of which must hold.

    Of many conditions only those digests that leave out few.
    """
    rows = read_rows(select.rows)
    if rows is None:
        return []
    every = list(rows.conditions)
    left_out = (len(every) - size for size in range(len(every)) if size <= FEW or len(every) <= MANY)
    kept = [part for size in left_out for part in itertools.combinations(every, size)]
    return [_digest(select, rows, part) for part in kept]


def _digest(select: PrivateSelect, rows: RowsText, conditions: Iterable[str]) -> str:
    told = [list(select.tables), rows.source, sorted(conditions), select.contribution.kind]
    return "relation " + hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _renamed(tree: exp.Expr, name: str) -> exp.Expr:
    """Return a list of levels under a name that does not tell the place of its key."""
    for node in tree.find_all(exp.TableAlias):
        if node.name == name:
            node.set("this", exp.to_identifier(LEVELS))
    for column in tree.find_all(exp.Column):
        if column.table == name:
            column.set("table", exp.to_identifier(LEVELS))
    return tree


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
