"""Which of the declared groups can have rows at all, by the conditions of a statement: those that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.sql.reuse.levels import KeyLevels, NotTold, key_levels
from dpnotebook.sql.reuse.rows import read_rows
from dpnotebook.sql.select import Key, PrivateSelect


def possible_levels(select: PrivateSelect) -> tuple[tuple[Any, ...] | None, ...]:
    """Return the declared levels of each key that rows can have; None where nothing is declared.

    All of them where conditions, as far as they tell that, would leave none.

    Parameters
    ----------
    select
        The private aggregation.
    """
    return tuple(_possible(select, i) for i in range(len(select.keys)))


def possible_groups(select: PrivateSelect, keys: Sequence[Sequence[Any]]) -> NDArray[np.bool_]:
    """Return of each group whether it can have rows, shape (groups,).

    Parameters
    ----------
    select, keys
        The private aggregation, and its groups.
    """
    levels = [None if known is None else set(known) for known in possible_levels(select)]
    return np.array(
        [all(known is None or value in known for known, value in zip(levels, key, strict=True)) for key in keys],
        dtype=np.bool_,
    )


def _possible(select: PrivateSelect, number: int) -> tuple[Any, ...] | None:
    key, rows = select.keys[number], read_rows(select.rows)
    if key.levels is None or rows is None or not rows.conditions:
        return key.levels
    try:
        known = key_levels(rows, number, key)
    except NotTold:
        return key.levels
    kept = key.levels
    for condition in rows.conditions.values():
        kept = tuple(level for level in kept if _can_have(condition, known, key, level))
    return kept or key.levels


def _can_have(condition: exp.Expr, known: KeyLevels, key: Key, level: Any) -> bool:
    """Return whether a condition may hold of rows with a level; it does where it does not tell."""
    assert known.values is not None
    assert key.levels is not None
    try:
        return known.told(condition)(known.values[key.levels.index(level)]) is True
    except NotTold:
        return True
