"""Expressions that no row can make fail: what fails is NULL instead, and everything else keeps its value.

A failure is an answer: a query that stops where somebody's value is 0 tells that it is. So below a private
aggregation numbers are calculated with as DOUBLE, which never overflows into an error; a division by zero, a logarithm
of a negative number, a text that is no number, and infinity minus infinity are NULL; dates are those of the years 1 to
9999. The forms used have the same meaning in DuckDB, PostgreSQL and Spark, but for TRY_CAST (see `engine.dialects`).
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpnotebook.dialect.expressions import kind_of, with_kind
from dpnotebook.dialect.safe.choices import case, casted, choice, compared, is_true, logical, texts
from dpnotebook.dialect.safe.numbers import (
    arithmetic,
    divided,
    logarithm,
    negative,
    of_number,
    power,
    root,
    sign,
    summed,
)
from dpnotebook.dialect.safe.times import dated, difference, extract, shifted, truncated
from dpnotebook.dialect.safe.typed import Misfit, boolean, number, time
from dpnotebook.errors import SQLError

TOTAL = "total"
MAX_NODES = 20_000  # some rules write an expression twice
Rule = Callable[[exp.Expr], exp.Expr]


def make_total(node: exp.Expr, condition: bool = False) -> exp.Expr:
    """Return an expression with the value of another one, and NULL where that would fail.

    Parameters
    ----------
    node
        An expression whose columns have their kinds noted (`kinds.with_kind`); it is left as it is. Queries inside
        are left out: what they select is made total where they are read. Applied to its own result it changes nothing.
    condition
        Whether it stands where a truth value is wanted: in WHERE, ON, HAVING.

    Raises
    ------
    Misfit
        If dates stand where numbers or truth values are wanted, or the other way round.
    """
    if sum(1 for _ in node.walk()) > MAX_NODES:
        raise SQLError("an expression of this statement is too long; take it apart")
    holder = exp.Paren(this=node.copy())
    for part in reversed(list(holder.walk(prune=_is_done))):
        rule = RULES.get(type(part))
        if rule is None or part is holder or _is_done(part) or part.parent is None:
            continue
        parent, key, index = part.parent, part.arg_key, part.index
        kind = kind_of(part)
        try:
            made = rule(part)
        except Misfit as error:
            raise Misfit(str(error), part) from None
        if made is not part:
            with_kind(made, made.meta.get("kind") if kind is None else kind)
            assert key is not None
            parent.set(key, made, index)
    made = boolean(holder.this) if condition else holder.this
    if isinstance(made, exp.Literal) and kind_of(made) == "number":
        made = number(made)  # engines have it as a decimal, which numbers of other columns may not fit into
    if isinstance(made, exp.Column | exp.Window) and kind_of(made) == "time":
        made = time(made)  # what is shown of it cannot be more than what those who read it can hold
    made.meta[TOTAL] = True
    made.parent = None
    return made


def _is_done(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query) or bool(node.meta.get(TOTAL))


def _paren(node: exp.Expr) -> exp.Expr:
    for note in ("double", "dated", "kind"):
        if note in node.this.meta:
            node.meta[note] = node.this.meta[note]
    return node


RULES: dict[type[exp.Expr], Rule] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), arithmetic),
    **dict.fromkeys((exp.Div, exp.SafeDivide, exp.IntDiv, exp.Mod), divided),
    **dict.fromkeys((exp.Abs, exp.Round, exp.Floor, exp.Ceil, exp.Trunc, exp.Exp), of_number),
    **dict.fromkeys((exp.Ln, exp.Log), logarithm),
    **dict.fromkeys((exp.Cast, exp.TryCast), casted),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), logical),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), compared),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between), compared),
    **dict.fromkeys((exp.Case, exp.If), case),
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif), choice),
    **dict.fromkeys((exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Substring, exp.SplitPart), texts("this")),
    **dict.fromkeys((exp.Left, exp.Right), texts("this")),
    **dict.fromkeys((exp.DPipe, exp.StartsWith, exp.EndsWith, exp.Contains), texts("this", "expression")),
    **dict.fromkeys((exp.Like, exp.ILike), texts("this")),
    **dict.fromkeys((exp.Extract, exp.Year, exp.Quarter, exp.Month, exp.Day, exp.Hour, exp.Minute), extract),
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), truncated),
    **dict.fromkeys((exp.DateAdd, exp.DateSub), shifted),
    **dict.fromkeys((exp.Sum, exp.Avg, exp.Variance, exp.VariancePop, exp.StddevSamp, exp.StddevPop), summed),
    exp.PercentileCont: summed,
    exp.DateDiff: difference,
    exp.Date: dated,
    exp.Sqrt: root,
    exp.Pow: power,
    exp.Neg: negative,
    exp.Sign: sign,
    exp.Paren: _paren,
    exp.Is: is_true,
    exp.Concat: texts("expressions"),
    exp.Replace: texts("this", "expression", "replacement"),
    exp.StrPosition: texts("this", "substr"),
}
