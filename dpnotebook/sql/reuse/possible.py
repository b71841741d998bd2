"""Which of the declared groups can have rows at all, by the conditions of a statement: those that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.reuse.levels import NotTold, Told, key_levels
from dpnotebook.sql.reuse.pieces import piece_levels
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
    return tuple(
        _possible_by_pieces(select.rows, i, key, _possible(select.rows, i, key), select.dates)
        for i, key in enumerate(select.keys)
    )


def possible_groups(select: PrivateSelect, keys: Sequence[Sequence[Any]]) -> NDArray[np.bool_]:
    """Return of each group whether it can have rows, shape (groups,).

    Parameters
    ----------
    select, keys
        The private aggregation, and its groups.
    """
    found = np.ones(len(keys), dtype=np.bool_)
    for i, (key, kept) in enumerate(zip(select.keys, possible_levels(select), strict=True)):
        if kept is not None and kept is not key.levels:
            known = set(kept)
            found &= np.fromiter((group[i] in known for group in keys), dtype=np.bool_, count=len(keys))
    return found


@lru_cache(maxsize=64)
def _possible(text: str, number: int, key: Key) -> tuple[Any, ...] | None:
    """Return the same of one key of rows, given their SQL."""
    rows = read_rows(text)
    if key.levels is None or rows is None or not rows.conditions:
        return key.levels
    try:
        known = key_levels(rows, number, key)
    except NotTold:
        return key.levels
    assert known.values is not None
    kept = list(zip(key.levels, known.values, strict=True))
    for condition in rows.conditions.values():
        try:
            holds = known.told(condition)
        except NotTold:
            continue
        kept = [(level, value) for level, value in kept if _may_hold(holds, value)]
    return tuple(level for level, _ in kept) if 0 < len(kept) < len(key.levels) else key.levels


@lru_cache(maxsize=64)
def _possible_by_pieces(
    text: str, number: int, key: Key, known: tuple[Any, ...] | None, dates: tuple[str, ...]
) -> tuple[Any, ...] | None:
    """Return those of the levels of a key that rows can have by conditions on what it is worked out from."""
    rows = read_rows(text)
    if key.levels is None or known is None or rows is None or not rows.conditions:
        return known
    try:
        found = piece_levels(text, number, len(key.levels), rows.conditions.values(), dates)
    except NotTold:
        return known
    may = dict(zip(key.levels, found.may_hold(rows.conditions.values()), strict=True))
    kept = tuple(level for level in known if may[level])
    return kept if 0 < len(kept) < len(known) else known


def _may_hold(holds: Told, value: Any) -> bool:
    """Return whether a condition may hold of rows with a value; it may where the value does not tell."""
    try:
        return holds(value) is True
    except NotTold:
        return True
