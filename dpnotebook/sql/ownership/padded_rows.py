"""Rows that an outer join pads with NULL: those of a public table that no protected row meets.

`FROM months LEFT JOIN spells` keeps months in which nobody is. Such a row is of nobody, and whether it is there may be
about a single person: so the join is read as an inner one, whose groups are known from the public table. That means the
same wherever padded rows add nothing to what is asked, which is worked out here of each expression; others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Flag, auto
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.ownership.expressions import bare, conjuncts
from dpnotebook.sql.ownership.scope import Column, Scope
from dpnotebook.sql.parse.marking import CONDITIONS
from dpnotebook.sql.parse.statement_parser import call_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.queries import From, FromItem, Padding


class Outcome(Flag):
    """What an expression may be in a padded row."""

    MISSING = auto()
    ZERO = auto()  # or FALSE
    OTHER = auto()  # or TRUE


ANY = Outcome.MISSING | Outcome.ZERO | Outcome.OTHER
NOTHING = Outcome.MISSING | Outcome.ZERO  # what adds nothing to a sum, and what is not true
NEVER_MISSING = (exp.Array, exp.Exists)
UNKNOWN = (exp.Window, exp.Concat, exp.Query, exp.Star)  # CONCAT takes NULL for an empty text
FIRST_OF = (exp.Coalesce, exp.Greatest, exp.Least)

Evaluate = Callable[[exp.Expr], Outcome]


def outcomes(node: exp.Expr, scope: Scope, text: Text) -> Outcome:
    """Return what an expression may be in a padded row.

    Parameters
    ----------
    node
        As it was read.
    scope, text
        What its names mean, and the statement.
    """

    def evaluate(inner: exp.Expr) -> Outcome:
        return _value(inner, evaluate, lambda column: _is_absent(column, scope, text))

    return evaluate(node)


def padded(source: From, where: exp.Where | None, text: Text) -> Padding | None:
    """Return of what padded rows are left behind WHERE; None where there are none.

    Parameters
    ----------
    source, where
        What is read, and which of its rows, as it was read; None for all.
    text
        The statement.

    Raises
    ------
    SQLError
        If it asks for padded rows, and for no other ones.
    """
    if source.padding is None or where is None:
        return source.padding
    kept: Padding | None = source.padding
    for part in conjuncts(where.this):
        if not _names_absent(part, source.scope, text):
            continue
        value = outcomes(part, source.scope, text)
        if not value & Outcome.OTHER:
            kept = None
        elif all(outcomes(one, source.scope, text) & Outcome.OTHER for one in _own(part, source.scope, text)):
            raise text.error(
                f"this keeps rows of {source.padding.kept} that no row of {source.padding.without} meets, and whether "
                f"there is one may be about a single {source.padding.one}: ask {_counted(source)}, which is about 0 "
                "there, or write the condition behind ON",
                part,
            )
    return kept


def may_hold(condition: exp.Expr, scope: Scope, text: Text) -> bool:
    """Return whether a condition, as it was read, may hold for a padded row."""
    return Outcome.OTHER in outcomes(condition, scope, text)


def padded_by(
    left: From, right: FromItem, how: str, pads: Padding | None, meets: bool
) -> tuple[list[Column], list[Column], Padding | None]:
    """Return the columns of both sides of a join, with those that padded rows have no value of, and what is padded.

    Parameters
    ----------
    left, right, how
        What is joined, and how.
    pads
        What the join itself pads: rows of the side that is public.
    meets
        Whether rows of one side that were padded before may be joined with rows of the other.
    """
    keeps = [how in ("LEFT", "FULL"), how in ("RIGHT", "FULL")]
    paddings = [left.padding, right.padding]
    stay = [one is not None and (keeps[side] or meets) for side, one in enumerate(paddings)]
    private = [left.owner is not None, right.owner is not None]

    def absent(column: Column, side: int) -> bool:
        ways = [column.absent] if stay[side] else []
        ways += [not meets] if stay[1 - side] else []
        ways += [private[side]] if pads is not None else []
        return bool(ways) and all(ways)

    columns = [
        [replace(column, absent=absent(column, side)) for column in columns]
        for side, columns in enumerate((left.scope.columns, right.columns))
    ]
    staying = [one for one, still in zip(paddings, stay, strict=True) if still]
    return columns[0], columns[1], pads or next(iter(staying), None)


def check_aggregates(source: From, calls: Iterable[exp.Expr], text: Text) -> None:
    """Refuse aggregates that padded rows would add something to.

    Raises
    ------
    SQLError
        Saying what to write.
    """
    padding = source.padding
    for node in calls:
        call = call_of(node)
        if call is None or padding is None:
            continue
        rows = f"rows of {padding.kept} that no row of {padding.without} meets"
        words = call.words or text.words(node)
        if call.star or call.argument is None:
            raise text.error(f"{words} also counts {rows}; write {_counted(source)}, which counts the others", node)
        arguments = [call.argument, *([] if call.second is None else [call.second])]
        harmless = NOTHING if call.kind == "sum" else Outcome.MISSING
        # Of pairs of columns, a row without one of both adds nothing.
        if not any(outcomes(each, source.scope, text) in harmless for each in arguments):
            present = f"{_name(source)} IS NOT NULL"
            conditional = any(word in words.upper() for word in ("FILTER", *CONDITIONS))
            instead = f"add AND {present} to its condition" if conditional else f"{words} FILTER (WHERE {present})"
            raise text.error(f"{words} has a value also in {rows}; write it of the others: {instead}", node)


def notes_of(padding: Padding, hidden: bool) -> list[str]:
    """Return what a plan says of groups by columns of the public side."""
    if hidden:
        return [
            f"of {padding.kept} only groups with enough of {padding.without} are shown, not all that the join keeps: "
            "which groups there are is not known beforehand of all that is grouped by"
        ]
    return [
        f"all groups of {padding.kept} are shown: where no row of {padding.without} meets one, counts and sums are "
        "about 0"
    ]


def _own(condition: exp.Expr, scope: Scope, text: Text) -> list[exp.Expr]:
    """Return the parts one of which is to hold, where these name columns that padded rows have no value of."""
    found, waiting = [], [condition]
    while waiting:
        part = bare(waiting.pop())
        if isinstance(part, exp.Or):
            waiting += [part.expression, part.this]
        elif _names_absent(part, scope, text):
            found.append(part)
    return found


def _names_absent(node: exp.Expr, scope: Scope, text: Text) -> bool:
    """Return whether an expression names a column that padded rows have no value of."""
    parts = node.walk(prune=lambda inner: isinstance(inner, exp.Query))
    return any(isinstance(part, exp.Column) and _is_absent(part, scope, text) for part in parts)


def _is_absent(written: exp.Column, scope: Scope, text: Text) -> bool:
    if isinstance(written.this, exp.Star):
        return False
    found = scope.find(written, text)
    return found is not None and found[1] is scope and found[0].absent


def _counted(source: From) -> str:
    """Return the count of rows that are there, as it is written."""
    return f"COUNT({_name(source)})"


def _name(source: From) -> str:
    """Return a column that padded rows have no value of: the unit's, or what was joined on, where these are named."""
    named = [column for column in source.scope.columns if column.absent and (column.qualifier or column.bare)]
    named.sort(key=lambda column: (not column.unit, column.equal is None))
    found = next(iter(named), None)
    if found is None:
        return "column"
    return f"{found.qualifier}.{found.name}" if found.qualifier else found.name


def _value(node: exp.Expr, evaluate: Evaluate, absent: Callable[[exp.Column], bool]) -> Outcome:
    """Return what an expression may be in a padded row, where that is known of what it is made of."""
    call = call_of(node)
    if call is not None:  # of padded rows alone: they make groups of their own, of no unit
        if call.argument is None or call.star:
            return Outcome.OTHER
        only = evaluate(call.argument) == Outcome.MISSING
        counts = call.distinct or call.kind == "count"
        return (Outcome.ZERO if counts else Outcome.MISSING) if only else ANY
    match node:
        case exp.Column():
            return Outcome.MISSING if absent(node) else ANY
        case exp.Null():
            return Outcome.MISSING
        case exp.Boolean():
            return Outcome.OTHER if node.this else Outcome.ZERO
        case exp.Literal():
            return Outcome.ZERO if not node.is_string and _is_zero(node.name) else Outcome.OTHER
        case exp.Paren():
            return evaluate(node.this)
        case exp.Not():
            return _negated(evaluate(node.this))
        case exp.And():
            return _both(evaluate(node.this), evaluate(node.expression))
        case exp.Or():
            return _negated(_both(_negated(evaluate(node.this)), _negated(evaluate(node.expression))))
        case exp.Is():
            return _is(evaluate(node.this), node.expression)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _same(node, evaluate)
        case exp.Between() | exp.In():
            return _among(node, evaluate)
        case exp.Case():
            return _case(node, evaluate)
        case exp.If():
            return _branches([(evaluate(node.this), node.args.get("true"))], node.args.get("false"), evaluate)
        case exp.Cast() | exp.TryCast() | exp.Nullif():  # of a value, that value or nothing
            found = evaluate(node.this)
            return found if found == Outcome.MISSING else found | Outcome.MISSING
        case exp.Mul():
            return _times(evaluate(node.this), evaluate(node.expression))
    if isinstance(node, FIRST_OF):
        of = [evaluate(one) for one in (node.this, *node.expressions)]
        # Dialects differ in whether one missing value makes the greatest one missing.
        missing = (all if isinstance(node, exp.Coalesce) else any)(Outcome.MISSING in one for one in of)
        return reduce(or_, of) & ~Outcome.MISSING | (Outcome.MISSING if missing else Outcome(0))
    if isinstance(node, NEVER_MISSING):
        return Outcome.ZERO | Outcome.OTHER
    if isinstance(node, UNKNOWN):
        return ANY
    # All others that a statement may have are NULL where one of their arguments is.
    return Outcome.MISSING if any(evaluate(part) == Outcome.MISSING for part in node.iter_expressions()) else ANY


def _is_zero(number: str) -> bool:
    try:
        return float(number) == 0
    except ValueError:
        return False


def _negated(value: Outcome) -> Outcome:
    found = value & Outcome.MISSING
    found |= Outcome.OTHER if Outcome.ZERO in value else Outcome(0)
    return found | (Outcome.ZERO if Outcome.OTHER in value else Outcome(0))


def _both(one: Outcome, other: Outcome) -> Outcome:
    """Return what AND of two conditions may be."""
    found = Outcome.ZERO & (one | other)
    found |= Outcome.OTHER & one & other
    missing = (Outcome.MISSING in one and bool(other & ~Outcome.ZERO)) or (
        Outcome.MISSING in other and bool(one & ~Outcome.ZERO)
    )
    return found | (Outcome.MISSING if missing else Outcome(0))


def _times(one: Outcome, other: Outcome) -> Outcome:
    if Outcome.MISSING in (one, other):
        return Outcome.MISSING
    return NOTHING if one in NOTHING or other in NOTHING else ANY


def _is(value: Outcome, what: exp.Expr) -> Outcome:
    """Return what IS NULL, IS TRUE or IS FALSE may be of a value."""
    if isinstance(what, exp.Boolean):
        wanted = Outcome.OTHER if what.this else Outcome.ZERO
    elif isinstance(what, exp.Null):
        wanted = Outcome.MISSING
    else:
        return ANY
    found = Outcome.OTHER if value & wanted else Outcome(0)
    return found | (Outcome.ZERO if value & ~wanted else Outcome(0))


def _same(node: exp.Expr, evaluate: Evaluate) -> Outcome:
    """Return what IS NOT DISTINCT FROM, or IS DISTINCT FROM, may be."""
    sides = [evaluate(side) for side in (node.this, node.expression)]
    if Outcome.MISSING not in sides:
        return Outcome.ZERO | Outcome.OTHER
    other = sides[1] if sides[0] == Outcome.MISSING else sides[0]
    found = _is(other, exp.Null())
    return found if isinstance(node, exp.NullSafeEQ) else _negated(found)


def _among(node: exp.Expr, evaluate: Evaluate) -> Outcome:
    """Return what it may be whether a value is between others, or among them."""
    if evaluate(node.this) != Outcome.MISSING or (node.args.get("query") and node.args.get("negate")):
        return ANY
    return NOTHING if node.args.get("query") else Outcome.MISSING  # nothing is among the rows of a query without any


def _case(node: exp.Case, evaluate: Evaluate) -> Outcome:
    of = None if node.this is None else evaluate(node.this)
    branches = []
    for branch in node.args["ifs"]:
        if of is None:
            holds = evaluate(branch.this)
        else:
            holds = Outcome.MISSING if Outcome.MISSING in (of, evaluate(branch.this)) else ANY
        branches.append((holds, branch.args.get("true")))
    return _branches(branches, node.args.get("default"), evaluate)


def _branches(
    branches: list[tuple[Outcome, exp.Expr | None]], otherwise: exp.Expr | None, evaluate: Evaluate
) -> Outcome:
    """Return what the first of some branches whose condition holds may be."""
    found = Outcome(0)
    for holds, result in branches:
        if Outcome.OTHER in holds:
            found |= Outcome.MISSING if result is None else evaluate(result)
            if holds == Outcome.OTHER:
                return found
    return found | (Outcome.MISSING if otherwise is None else evaluate(otherwise))
