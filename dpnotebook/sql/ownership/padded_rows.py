"""Rows that an outer join pads with NULL: those of a public table that no protected row meets.

`FROM months LEFT JOIN spells` keeps months in which nobody is. Such a row is of nobody, and whether it is there may be
about a single person: so the join is read as an inner one, whose groups are known from the public table. That means the
same wherever padded rows add nothing to what is asked, which is worked out here of each expression; others are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpnotebook.dialect.text import Text
from dpnotebook.sql.ownership.expressions import bare, conjuncts
from dpnotebook.sql.ownership.outcomes import NOTHING, Outcome, outcomes_where
from dpnotebook.sql.ownership.scope import Column, Scope
from dpnotebook.sql.parse.marking import CONDITIONS
from dpnotebook.sql.parse.statement_parser import call_of

if TYPE_CHECKING:
    from dpnotebook.sql.ownership.queries import From, FromItem, Padding


def outcomes(node: exp.Expr, scope: Scope, text: Text) -> Outcome:
    """Return what an expression may be in a padded row.

    Parameters
    ----------
    node
        As it was read.
    scope, text
        What its names mean, and the statement.
    """
    return outcomes_where(node, lambda column: _is_absent(column, scope, text))


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
