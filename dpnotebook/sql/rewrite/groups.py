"""What queries found, group by group: filled in where groups are known beforehand, in the order of their keys.

Keys are canonical scalars (see `engine.kinds`): groups that differ in the database differ here.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import EngineError
from dpnotebook.sql.bounded_sums import Totals
from dpnotebook.sql.select import Key, PrivateSelect

Columns = Mapping[str, NDArray[Any]]
Group = tuple[Any, ...]

MOST_WHOLE = 1 << 53  # floating-point numbers up to here are shown as whole ones where they are


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
        self._known, self._only = listed is not None, bool(select.together) and None not in select.levels
        groups: Sequence[Group] = ()
        if listed is not None:
            groups = sorted(set(self._read(listed)), key=_order)
        elif all(key.levels is not None for key in select.keys):
            self._known = True
            groups = select.every_group
        self._rows = {group: i for i, group in enumerate(groups)}
        self._numbers = np.zeros((len(groups), width), dtype=np.int64)

    def add(
        self,
        columns: Columns,
        found: Sequence[tuple[NDArray[np.intp] | int, NDArray[Any]]],
        among: Container[Group] | None = None,
    ) -> None:
        """Put the values of groups in their places.

        Parameters
        ----------
        columns
            Columns `k0`, ...: the groups.
        found
            Integers in the order of the columns, each array with where in the group's integers it belongs: one number
            for all, or one for each.
        among
            Groups, as they are shown: others are left out. None: all are added.

        Raises
        ------
        EngineError
            If two groups of the database are one here: what one of them adds would be lost.
        """
        read = self._read(columns) if self._keys else [()] * len(found[0][1])
        if among is not None or self._only:  # no row is in a group that its public table does not have
            kept = np.array([self._is_among(group, among) for group in read], dtype=bool)
            read = [group for group, inside in zip(read, kept, strict=True) if inside]
            found = [(place if isinstance(place, int) else place[kept], values[kept]) for place, values in found]
        rows = self._numbered(read)
        for place, values in found:
            places = np.unique(rows * self._width + place)
            if places.size < rows.size:
                raise EngineError("groups that differ in the database cannot be told apart here")
            self._numbers[rows, place] = np.ma.filled(np.ma.asarray(values), 0).astype(np.int64)

    def _is_among(self, group: Group, among: Container[Group] | None) -> bool:
        if self._only and group not in self._rows:
            return False
        return among is None or self._shown(group) in among

    def totals(self) -> Totals:
        """Return all groups, in the order of their keys."""
        groups = list(self._rows)
        order = range(len(groups)) if self._known else sorted(range(len(groups)), key=lambda i: _order(groups[i]))
        keys = tuple(self._shown(groups[i]) for i in order)
        return Totals(keys, self._numbers[list(order)].reshape(len(keys), self._width))

    @property
    def groups(self) -> frozenset[Group]:
        """All groups so far, as they are shown."""
        return frozenset(map(self._shown, self._rows))

    def _numbered(self, found: Sequence[Group]) -> NDArray[np.intp]:
        rows = np.array([self._rows.setdefault(group, len(self._rows)) for group in found], dtype=np.intp)
        more = len(self._rows) - len(self._numbers)
        if more:
            self._numbers = np.concatenate([self._numbers, np.zeros((more, self._width), dtype=np.int64)])
        return rows

    def _read(self, columns: Columns) -> list[Group]:
        found = (_values(columns[f"k{i}"], key) for i, key in enumerate(self._keys))
        return list(zip(*found, strict=True))

    def _shown(self, group: Group) -> Group:
        pairs = zip(self._keys, group, strict=True)
        return tuple(_plain(value) if key.levels is None else key.levels[value] for key, value in pairs)


def _values(column: NDArray[Any], key: Key) -> list[Any]:
    """Return the values of a column, exact, None where NULL."""
    data, missing = np.ma.getdata(column), np.ma.getmaskarray(column)
    values = list(data) if data.dtype.kind in "mM" else data.tolist()
    if key.levels is None and key.kind in ("integer", "number"):
        return [None if absent else _number(value) for value, absent in zip(values, missing, strict=True)]
    return [None if absent else value for value, absent in zip(values, missing, strict=True)]


def _number(value: Any) -> Any:
    """Return a number that left the engine as a text: an int where it is whole, a float where one is exactly it."""
    if not isinstance(value, str):
        return value
    near = float(value)
    if math.isinf(near) or "e" in value.lower():  # of floating point
        return int(near) if near.is_integer() and abs(near) <= MOST_WHOLE else near
    number = Decimal(value)
    if number == number.to_integral_value():
        return int(number)
    return near if Decimal(repr(near)) == number else number


def _order(group: Group) -> tuple[tuple[int, str, Any], ...]:
    """Return what groups are sorted by: numbers by size, texts by code points, NULL last."""
    return tuple(place_of(value) for value in group)


def place_of(value: Any) -> tuple[int, str, Any]:
    """Return what a value of a key is sorted by."""
    if value is None:
        return 3, "", 0
    if isinstance(value, (bool, int, float, Decimal)):
        return 0, "", value
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
