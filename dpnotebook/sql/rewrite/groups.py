"""What queries found, group by group: filled in where groups are known beforehand, in the order of their keys."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.components import Totals
from dpnotebook.sql.statement import PrivateSelect

Columns = Mapping[str, NDArray[Any]]
Group = tuple[Any, ...]


class Found:
    """Integers by group.

    Parameters
    ----------
    select
        The private aggregation.
    width
        How many integers a group has.
    listed
        Groups that are there whether anybody is in them or not, columns `k0`, ...; None where none are listed.
    """

    def __init__(self, select: PrivateSelect, width: int, listed: Columns | None = None) -> None:
        self._keys, self._width = select.keys, width
        self._rows: dict[Group, int] = {}
        self._known = listed is not None
        groups: Sequence[Group] = ()
        if listed is not None:
            groups = sorted(set(self._read(listed)), key=_order)
        elif all(key.levels is not None for key in select.keys):
            self._known = True
            groups = list(itertools.product(*(range(len(key.levels or ())) for key in select.keys)))
        self._rows = {group: i for i, group in enumerate(groups)}
        self._numbers = np.zeros((len(groups), width), dtype=np.int64)

    def add(self, columns: Columns, found: Sequence[tuple[NDArray[np.intp] | int, NDArray[Any]]]) -> None:
        """Put the values of groups in their places.

        Parameters
        ----------
        columns
            Columns `k0`, ...: the groups.
        found
            Integers in the order of the columns, each array with where in the group's integers it belongs: one number
            for all, or one for each.
        """
        rows = self._numbered(columns, len(found[0][1]))
        for place, values in found:
            self._numbers[rows, place] = np.ma.filled(np.ma.asarray(values), 0).astype(np.int64)

    def totals(self) -> Totals:
        """Return all groups, in the order of their keys."""
        groups = list(self._rows)
        order = range(len(groups)) if self._known else sorted(range(len(groups)), key=lambda i: _order(groups[i]))
        keys = tuple(self._shown(groups[i]) for i in order)
        return Totals(keys, self._numbers[list(order)].reshape(len(keys), self._width))

    def _numbered(self, columns: Columns, size: int) -> NDArray[np.intp]:
        found = self._read(columns) if self._keys else [()] * size
        rows = np.array([self._rows.setdefault(group, len(self._rows)) for group in found], dtype=np.intp)
        more = len(self._rows) - len(self._numbers)
        if more:
            self._numbers = np.concatenate([self._numbers, np.zeros((more, self._width), dtype=np.int64)])
        return rows

    def _read(self, columns: Columns) -> list[Group]:
        return list(zip(*(_values(columns[f"k{i}"]) for i in range(len(self._keys))), strict=True))

    def _shown(self, group: Group) -> Group:
        pairs = zip(self._keys, group, strict=True)
        return tuple(_plain(value) if key.levels is None else key.levels[value] for key, value in pairs)


def _values(column: NDArray[Any]) -> list[Any]:
    """Return the values of a column, hashable and exact, None where NULL."""
    data, missing = np.ma.getdata(column), np.ma.getmaskarray(column)
    values = list(data) if data.dtype.kind in "mM" else data.tolist()
    return [None if absent else _hashable(value) for value, absent in zip(values, missing, strict=True)]


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return math.nan  # one object: others are not equal to themselves
    if isinstance(value, (list, dict, set, np.ndarray)):
        return str(value)
    return value


def _order(group: Group) -> tuple[tuple[int, str, Any], ...]:
    """Return what groups are sorted by: numbers by size, texts by code points, NULL last."""
    return tuple(_place(value) for value in group)


def _place(value: Any) -> tuple[int, str, Any]:
    if value is None:
        return 3, "", 0
    if isinstance(value, (bool, int, float)):
        return (2, "", 0) if value != value else (0, "", value)
    kind = type(value).__name__
    if isinstance(value, np.datetime64):
        return 1, kind, int(value.astype("datetime64[us]").astype(np.int64))
    return 1, kind, value


def _plain(value: Any) -> Any:
    """Return a value of a key as Python has it; times that Python cannot hold, as their text."""
    if not isinstance(value, (np.datetime64, np.timedelta64)):
        return value
    fine = value.astype("datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]")
    plain = fine.item()
    return str(value) if isinstance(plain, int) or fine != value else plain
