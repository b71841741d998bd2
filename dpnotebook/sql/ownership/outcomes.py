"""What an expression may be where some columns have no value: nothing, zero, or anything else, by SQL's rules."""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from functools import reduce
from operator import or_

from sqlglot import exp

from dpnotebook.sql.parse.statement_parser import call_of


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


def outcomes_where(node: exp.Expr, absent: Callable[[exp.Column], bool]) -> Outcome:
    """Return what an expression may be where columns are NULL.

    Parameters
    ----------
    node
        As it was read.
    absent
        Whether a column is one of these.
    """

    def evaluate(inner: exp.Expr) -> Outcome:
        return _value(inner, evaluate, absent)

    return evaluate(node)


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
    listed = not (node.args.get("query") or node.args.get("unnest"))  # nothing is among no rows, not even NULL
    if evaluate(node.this) != Outcome.MISSING or (not listed and node.args.get("negate")):
        return ANY
    return Outcome.MISSING if listed else NOTHING


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
