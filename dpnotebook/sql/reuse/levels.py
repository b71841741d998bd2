"""Of which groups a condition on what is grouped by is true: told from the keys of groups alone, by SQL's rules."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from dpnotebook.dialect.text import DIALECT
from dpnotebook.sql.reuse.rows import RowsText, literal
from dpnotebook.sql.select import Key

COMPARED: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
FLIPPED = {operator.lt: operator.gt, operator.gt: operator.lt, operator.le: operator.ge, operator.ge: operator.le}
NUMBERS = ("integer", "number")
Told = Callable[[Any], bool | None]
LARGEST = 1 << 53  # whole numbers up to here are floating-point numbers too


class NotTold(Exception):
    """The keys of groups do not tell of which of them a condition is true."""


class _Other:
    """A value that is none of the declared ones."""


OTHER = _Other()


@dataclass(frozen=True)
class KeyLevels:
    """What the rows of the groups have in one of the columns that are grouped by.

    Parameters
    ----------
    column
        SQL of the column.
    kind
        What it holds.
    values
        By level, what its rows have there: `OTHER` where that is none of the declared values. None where nothing is
        declared, and groups have what rows have.
    missing, other
        Whether rows without a value, and those with one that is not declared, are in groups too.
    """

    column: str
    kind: str
    values: tuple[Any, ...] | None
    missing: bool = True
    other: bool = True

    def told(self, condition: exp.Expr) -> Told:
        """Return what tells whether a condition on the column is true of rows that have a value there.

        Raises
        ------
        NotTold
            If it is no condition on the column alone; and by what is returned, if it is true of some such rows only.
        """
        return _told(condition, self)

    def has_all(self, conditions: Sequence[Told]) -> bool:
        """Return whether every row is in a group of which some conditions are true together."""
        absent = [value for value, there in ((None, self.missing), (OTHER, self.other)) if not there]
        return all(any(told(value) is not True for told in conditions) for value in absent)


def key_levels(rows: RowsText, number: int, key: Key) -> KeyLevels:
    """Return what the rows of the groups have in the column that a key is of.

    Raises
    ------
    NotTold
        If that does not follow from the SQL of the key, as of bins.
    """
    node = rows.keys[number]
    if key.kind not in ("text", "boolean", *NUMBERS):
        raise NotTold
    if key.levels is None:
        return KeyLevels(node.sql(DIALECT), key.kind, None)
    if not isinstance(node, exp.Case) or node.this is not None:
        raise NotTold
    first, *branches = node.args["ifs"]
    absent = _bare(first.this)
    if not isinstance(absent, exp.Is) or not isinstance(absent.expression, exp.Null):
        raise NotTold
    column, default = absent.this.sql(DIALECT), node.args.get("default")
    values: list[Any] = [OTHER] * len(key.levels)
    missing = _number(first.args["true"])
    if missing is not None:
        values[missing] = None
    if branches:
        for branch in branches:
            values[_place(branch.args["true"])] = _declared(branch.this, column, key)
        if key.kind == "boolean" and _number(default) is not None:  # else both are written out
            values[_place(default)] = False
    elif isinstance(default, exp.Coalesce):
        for place, value in _listed(rows, default):
            values[place] = value
        default = default.expressions[0]
    else:
        return KeyLevels(column, "integer", _clamped(key, default), missing is not None)
    other = _number(default) is not None or {True, False} <= {one for one in values if isinstance(one, bool)}
    given = _written_results(absent.this)
    listed = bool(given) and all(isinstance(result, exp.Literal | exp.Boolean | exp.Null) for result in given)
    never_missing = listed and not any(isinstance(result, exp.Null) for result in given)
    return KeyLevels(column, key.kind, tuple(values), missing is not None or never_missing, other or listed)


def _written_results(node: exp.Expr) -> list[exp.Expr]:
    """Return all that a CASE can give, NULL where it has no ELSE; nothing of anything else."""
    node = _bare(node)
    if not isinstance(node, exp.Case):
        return []
    results = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default") or exp.null()]
    return [_bare(result) for result in results]


def _declared(condition: exp.Expr, column: str, key: Key) -> Any:
    """Return the value of a level, from the condition that a row has it."""
    if key.kind == "boolean":
        negative = isinstance(condition, exp.Not)
        if (condition.this if negative else condition).sql(DIALECT) == column:
            return not negative
    elif isinstance(condition, exp.EQ) and condition.this.sql(DIALECT) == column:
        return _literal(condition.expression, key.kind)
    raise NotTold


def _listed(rows: RowsText, found: exp.Coalesce) -> tuple[tuple[int, Any], ...]:
    """Return the levels that are looked up in a list, with their numbers."""
    told = rows.lists.get(found.this.table) if isinstance(found.this, exp.Column) else None
    if told is None:
        raise NotTold
    return told


def _clamped(key: Key, node: exp.Expr | None) -> tuple[Any, ...]:
    """Return the levels of a range of whole numbers, as it is declared: its ends have what is beyond them too."""
    if key.levels is None or node is None or node.find(exp.Least) is None:
        raise NotTold
    if any(label is not None and type(label) is not int for label in key.levels):
        raise NotTold
    return key.levels


def _told(node: exp.Expr, key: KeyLevels) -> Told:
    """Return what tells whether a condition holds of a value, None where SQL's answer is NULL."""
    node = _bare(node)
    if isinstance(node, exp.Not):
        return _not(_told(node.this, key))
    if isinstance(node, exp.And | exp.Or):
        parts = [_told(part, key) for part in (node.this, node.expression)]
        return _all(parts) if isinstance(node, exp.And) else _any(parts)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null) and _is_column(node.this, key):
        return lambda value: value is None
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
        inner, wanted = _told(node.this, key), bool(node.expression.this)
        return lambda value: inner(value) is wanted
    if isinstance(node, exp.In) and node.expressions and _is_column(node.this, key):
        return _any([_compared(operator.eq, item, key) for item in node.expressions])
    if isinstance(node, exp.Between) and _is_column(node.this, key) and not node.args.get("symmetric"):
        ends = (operator.ge, node.args["low"]), (operator.le, node.args["high"])
        return _all([_compared(how, end, key) for how, end in ends])
    if type(node) in COMPARED:
        how = COMPARED[type(node)]
        if _is_column(node.this, key):
            return _compared(how, node.expression, key)
        if _is_column(node.expression, key):
            return _compared(FLIPPED.get(how, how), node.this, key)
    if key.kind == "boolean" and _is_column(node, key):
        return lambda value: None if value is None else _known(value)
    raise NotTold


def _is_column(node: exp.Expr, key: KeyLevels) -> bool:
    """Return whether a node is the column of a key, also as a floating-point number where it holds numbers."""
    return _bare(node).sql(DIALECT) == key.column or _number_of(node, key.kind).sql(DIALECT) == key.column


def _compared(how: Callable[[Any, Any], bool], other: exp.Expr, key: KeyLevels) -> Told:
    """Return how values compare with a literal, which has to be declared where not all values are."""
    given = _literal(other, key.kind)
    equal, declared = how in (operator.eq, operator.ne), given in (key.values or ())
    if not equal and key.kind not in NUMBERS:  # texts are sorted in other ways elsewhere
        raise NotTold

    def told(value: Any) -> bool | None:
        if value is None:
            return None
        if value is OTHER and not (equal and declared):
            raise NotTold
        return how(value, _same_kind(given, value))

    return told


def _same_kind(given: Any, value: Any) -> Any:
    """Return a literal that compares with a value here as it does in a database, also as a floating-point number."""
    numbers = all(type(one) in (int, float) for one in (given, value))
    if max(abs(given), abs(value)) < LARGEST if numbers else value is OTHER or type(given) is type(value):
        return given
    raise NotTold


def _known(value: Any) -> bool:
    if not isinstance(value, bool):
        raise NotTold
    return value


def _literal(node: exp.Expr, kind: str) -> Any:
    """Return the value of a literal that is compared with a column of a kind."""
    found = literal(_number_of(node, kind))
    held = {"text": (str,), "boolean": (bool,)}.get(kind, (int, float))
    if type(found) not in held or (kind == "integer" and isinstance(found, float) and not found.is_integer()):
        raise NotTold
    return found


def _number_of(node: exp.Expr, kind: str) -> exp.Expr:
    """Return what is read as a floating-point number, of columns of numbers."""
    node = _bare(node)
    if kind in NUMBERS and isinstance(node, exp.Cast) and node.to.sql(DIALECT) == "DOUBLE":
        return _bare(node.this)
    return node


def _bare(node: exp.Expr) -> exp.Expr:
    """Return what stands in parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _not(part: Told) -> Told:
    def told(value: Any) -> bool | None:
        found = part(value)
        return None if found is None else not found

    return told


def _any(parts: Sequence[Told]) -> Told:
    def told(value: Any) -> bool | None:
        found = [part(value) for part in parts]
        return True if True in found else None if None in found else False

    return told


def _all(parts: Sequence[Told]) -> Told:
    def told(value: Any) -> bool | None:
        found = [part(value) for part in parts]
        return False if False in found else None if None in found else True

    return told


def _number(node: exp.Expr | None) -> int | None:
    """Return the number of a level; None where there is NULL in its place."""
    return int(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def _place(node: exp.Expr | None) -> int:
    found = _number(node)
    if found is None:
        raise NotTold
    return found
