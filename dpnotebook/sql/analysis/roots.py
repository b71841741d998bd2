"""Variances and standard deviations by their moments: SQRT(AVG(x * x) - AVG(x) * AVG(x)) is STDDEV_POP(x).

A standard deviation has an interval that follows from that of the variance; a root of an answer has one only where no
noise makes the answer negative. And a variance is measured about the middle of its values: the difference of two means
that are far larger, each with noise of its own, is up to fifty times farther off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from dpnotebook.sql.aggregates.catalogue import AVERAGE, DEVIATION, VARIANCE
from dpnotebook.sql.ownership.select_parts import calls_of
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.statement_parser import clause_of

Node = TypeVar("Node", bound=exp.Expr)
TWO, ZERO = exp.Literal.number(2), exp.Literal.number(0)


def as_variances(select: exp.Select) -> None:
    """Write the mean of squares less the square of the mean as the variance that it is.

    Left as it is: where the mean of squares is shown as well, so that all that is shown fits together; that of private
    functions, and of selects with a private clause.

    Parameters
    ----------
    select
        The select, of which expressions are replaced.
    """
    if clause_of(select) is not None:
        return
    found = [(node, *pair) for node in _nodes(select, exp.Sub) if (pair := _moments(node)) is not None]
    inside = {id(part) for node, *_ in found for part in node.walk()}
    shown = [call for call in calls_of(select) if id(call) not in inside]
    for node, squares, call in found:
        if squares not in shown:
            argument = call.argument
            assert argument is not None
            made = VARIANCE.node(call, argument.copy())
            made.meta.update(call=call, start=squares.meta["start"], end=squares.meta["end"])
            node.replace(made)


def as_deviations(select: exp.Select) -> None:
    """Write roots of variances as deviations.

    Left as they are: those of private functions, and of selects with a private clause.

    Parameters
    ----------
    select
        The select, of which expressions are replaced.
    """
    if clause_of(select) is not None:
        return
    for node in list(_nodes(select, exp.Sqrt)):
        if (call := _plain(node.this, VARIANCE.kind)) is not None:
            words = f"SQRT({call.words})" if call.words else ""
            node.replace(_deviation(call, words, node.this.unnest()))


def _nodes(select: exp.Select, kind: type[Node]) -> Iterator[Node]:
    """Yield the nodes of a kind in what a select shows, and in what chooses and orders its groups."""
    for root in [*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order"))]:
        if root is not None:
            nodes = root.walk(prune=lambda node: isinstance(node, exp.Query) or call_of(node) is not None)
            yield from (node for node in nodes if isinstance(node, kind))


def _moments(node: exp.Sub) -> tuple[exp.Expr, Call] | None:
    """Return the mean of squares in a difference, and the call of the variance that this is; None where it is none."""
    squares, mean = _inner(node.this), _base(node.expression)
    above, below = _plain(squares, AVERAGE.kind), None if mean is None else _plain(mean, AVERAGE.kind)
    if above is None or below is None or above.argument is None or below.argument is None:
        return None
    if _squared(above.argument) != below.argument.unnest():
        return None
    words = f"{above.words} - {below.words} * {below.words}" if above.words and below.words else ""
    return squares, Call(VARIANCE.kind, argument=below.argument, population=True, words=words)


def _base(node: exp.Expr) -> exp.Expr | None:
    """Return what an expression is the square of; None where it is none."""
    node = _inner(node)
    sides = (_inner(node.this), _inner(node.expression)) if isinstance(node, exp.Mul | exp.Pow) else None
    if sides is None:
        return None
    of_itself = isinstance(node, exp.Mul) and sides[0] == sides[1]
    return sides[0] if of_itself or (isinstance(node, exp.Pow) and sides[1] == TWO) else None


def _squared(node: exp.Expr) -> exp.Expr | None:
    """Return what is squared in each row: also of some rows alone, or with 0 where it is missing."""
    node = _inner(node)
    if isinstance(node, exp.Coalesce) and node.expressions == [ZERO]:
        base = _squared(node.this)
        return None if base is None else exp.Coalesce(this=base, expressions=[ZERO.copy()])
    if isinstance(node, exp.Case) and node.this is None and len(node.args["ifs"]) == 1:
        branch, other = node.args["ifs"][0], node.args.get("default")
        base = _squared(branch.args["true"])
        if base is None or not (other is None or other == ZERO):
            return None
        made = exp.Case(ifs=[exp.If(this=branch.this.copy(), true=base)])
        made.set("default", None if other is None else other.copy())
        return made
    base = _base(node)
    return None if base is None else base.copy()


def _inner(node: exp.Expr) -> exp.Expr:
    """Return what stands in parentheses."""
    return node.unnest()


def _plain(node: exp.Expr, kind: str) -> Call | None:
    """Return the call of a kind that a node is, if it says nothing of how it is measured."""
    call = call_of(node.unnest())
    if call is None or call.kind != kind or call.private or call.bounds is not None or call.epsilon is not None:
        return None
    return call


def _deviation(call: Call, words: str, variance: exp.Expr) -> exp.Expr:
    """Return the root of a variance, which is read from where that stands."""
    assert call.argument is not None
    made = DEVIATION.node(replace(call, kind=DEVIATION.kind), call.argument.copy())
    made.meta.update(
        call=replace(call, kind=DEVIATION.kind, words=words), start=variance.meta["start"], end=variance.meta["end"]
    )
    return made
