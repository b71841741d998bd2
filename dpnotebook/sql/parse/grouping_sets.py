"""ROLLUP, CUBE and GROUPING SETS, as they stand after GROUP BY."""

from __future__ import annotations

from sqlglot import exp

GROUPINGS = exp.Rollup | exp.Cube | exp.GroupingSets


def has_sets(group: exp.Expr) -> bool:
    """Return whether a GROUP BY has several sets of keys."""
    return any(isinstance(node, GROUPINGS) for node in group.expressions)


def keys_of(group: exp.Expr) -> list[exp.Expr]:
    """Return what is grouped by, in all sets."""
    return [
        key
        for node in group.expressions
        for key in (keys_of(node) if isinstance(node, GROUPINGS | exp.Tuple) else [node])
    ]
