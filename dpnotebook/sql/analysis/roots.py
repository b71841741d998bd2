"""Roots of variances, as the standard deviations that they are: SQRT(VAR_POP(x)) is STDDEV_POP(x).

A standard deviation has an interval that follows from that of the variance; a root of an answer has one only where no
noise makes the answer negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from dpnotebook.sql.aggregates.catalogue import DEVIATION, VARIANCE
from dpnotebook.sql.parse.calls import Call, call_of
from dpnotebook.sql.parse.statement_parser import clause_of


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
    for node in list(_roots(select)):
        if (call := _plain(node.this, VARIANCE.kind)) is not None:
            words = f"SQRT({call.words})" if call.words else ""
            node.replace(_deviation(call, words, node.this.unnest()))


def _roots(select: exp.Select) -> Iterator[exp.Sqrt]:
    for root in [*select.expressions, *(select.args.get(part) for part in ("having", "qualify", "order"))]:
        if root is not None:
            nodes = root.walk(prune=lambda node: isinstance(node, exp.Query) or call_of(node) is not None)
            yield from (node for node in nodes if isinstance(node, exp.Sqrt))


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
