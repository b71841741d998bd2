"""By what the parts of a profile are found in the ledger: the rows, conditions, keys and bounds that they are of."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from dpnotebook.sql.aggregates.budget_split import averages_units, counts_values, has_range
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.centring import of_both
from dpnotebook.sql.level_texts import dumps, level_texts
from dpnotebook.sql.reuse.rows import read_rows
from dpnotebook.sql.select import Aggregate, PrivateSelect

DIFFERENT = "different"  # the part of a profile that tells of different values of units
MOST_PARTS = 8  # conditions and keys, some of which are left out in all ways


class Books(Protocol):
    """The ledger, as far as profiles need it."""

    def records(self, question: str, /) -> Sequence[Any]:
        """Return what was recorded of a question, or of statements that measured this part of a profile."""


class _Paid(Protocol):
    """What was found at a price, in the accountant's units."""

    @property
    def units(self) -> int: ...


Found = TypeVar("Found", bound=_Paid)


def weights_key(select: PrivateSelect, conditions: Sequence[str] | None = None) -> str:
    """Return by what is found by what is multiplied what units have in groups; with some of its conditions only."""
    rows = read_rows(select.rows)
    text = select.rows
    if rows is not None:
        text = dumps([rows.source, sorted(rows.conditions if conditions is None else conditions)])
    names = [f"k{i}" for i in range(len(select.keys))] if rows is None else rows.key_texts
    by = [
        [name, None if levels is None else level_texts(levels)]
        for name, levels in zip(names, select.levels, strict=True)
    ]
    return _digest(["weights", text, by])  # in the order of the keys, in which groups are told


def profile_keys(select: PrivateSelect, index: int) -> list[str]:
    """Return by what the parts of a profile are found that an aggregate needs: of norms, and of values where needed."""
    if counts_values(select, index):
        return [values_key(select, select.aggregates[index])]
    if averages_units(select, index):
        return [units_key(select, select.aggregates[index])]
    if not select.clips(index):
        return [range_key(select, one) for one in ranged(select, index)]
    return _keys(select, index, key_of)


def ranged(select: PrivateSelect, index: int) -> list[Aggregate]:
    """Return the columns of an aggregate between which bounds its rows lie is to be found, or was before."""
    sought = (one for one in select.aggregates[index].operands if one.bounds is None)
    return list(sought) if has_range(select, index) else []


def values_key(select: PrivateSelect, aggregate: Aggregate) -> str:
    """Return by what is found how many different values units have."""
    return key_of(DIFFERENT, select, aggregate)


def units_key(select: PrivateSelect, aggregate: Aggregate) -> str:
    """Return by what is found what bounds an average of what each unit has."""
    return key_of("averages", select, aggregate)


def range_key(select: PrivateSelect, aggregate: Aggregate) -> str:
    """Return by what bounds of the values of rows are found."""
    return range_keys(select, aggregate)[0]


def range_keys(select: PrivateSelect, aggregate: Aggregate) -> list[str]:
    """Return by what bounds of the values of rows are found, and by what earlier versions found them."""
    function = function_of(aggregate.kind)
    part = "sums" if function.adds else "values" if function.centres or function.paired else "range"
    return [key(part, select, aggregate) for key in (key_of, _written_key)]


def _keys(select: PrivateSelect, index: int, key: Callable[[str, PrivateSelect, Aggregate], str]) -> list[str]:
    aggregate = select.aggregates[index]
    keys = [key("norms", select, aggregate)]
    return keys + [key("values", select, one) for one in centred(aggregate) if one.values is None]


def centred(aggregate: Aggregate) -> tuple[Aggregate, ...]:
    """Return the columns of an aggregate whose values count from a centre, where vectors are clipped."""
    function = function_of(aggregate.kind)
    return aggregate.operands if function.paired else (aggregate,) if function.centres else ()


def values_of(aggregate: Aggregate) -> Bounds | None:
    """Return between which values rows lie, as is said or declared; None where that is to be found."""
    columns = [one.values for one in centred(aggregate) or (aggregate,)]
    if not function_of(aggregate.kind).paired:
        return columns[0]
    first, other = columns
    return None if first is None or other is None else of_both(first, other)


def all_keys(select: PrivateSelect, index: int) -> tuple[list[str], ...]:
    """Return `profile_keys`, and those that earlier versions had."""
    return tuple(_keys(select, index, key) for key in (key_of, _written_key, _earlier_key))


def subsets_of(conditions: Sequence[str]) -> list[tuple[str, ...]]:
    """Return some of the conditions in all ways, none and all of them too."""
    return [part for size in range(len(conditions) + 1) for part in itertools.combinations(conditions, size)]


def recorded(records: Iterable[Any], key: str) -> list[Mapping[str, Any]]:
    """Return what records of statements tell of a part of a profile."""
    return [
        select["profile"][key]
        for record in records
        for select in record.details.get("selects", ())
        if key in select.get("profile", {})
    ]


def most_precise(books: Books, key: str, read: Callable[[Mapping[str, Any]], Found]) -> Found | None:
    """Return what was found of a part of a profile for most units; None where it never was.

    Parameters
    ----------
    books, key
        The ledger, and what the part is found by.
    read
        Reads it from what records tell.
    """
    return max(map(read, recorded(books.records(key), key)), key=lambda one: one.units, default=None)


def key_of(
    part: str,
    select: PrivateSelect,
    aggregate: Aggregate,
    conditions: Sequence[str] | None = None,
    keys: Sequence[int] | None = None,
    *,
    as_written: bool = False,
) -> str:
    """Return what a part of a profile is found by: the order of keys, columns and conditions does not matter to it.

    With some of its conditions and keys only, that of more rows and larger groups; or of rows as they are written.
    """
    rows = read_rows(select.rows, as_written=as_written)
    if rows is None:
        return _earlier_key(part, select, aggregate)
    grouped = part in ("norms", DIFFERENT) or select.selection == "public"
    levels = [None if key.levels is None else level_texts(key.levels) for key in select.keys]
    places = range(len(levels)) if keys is None else keys
    by = [[rows.key_texts[i], levels[i]] for i in places] if grouped else []
    column = None if aggregate.input is None else rows.inputs[aggregate.input]
    if part == "norms" and function_of(aggregate.kind).weighted and aggregate.other is not None:
        column = f"{column} weighted by {rows.inputs[aggregate.other.input or 0]}"
    kept = sorted(rows.conditions if conditions is None else conditions)
    if part == "norms" and function_of(aggregate.kind).paired and aggregate.other is not None:
        column = f"{column}, {rows.inputs[aggregate.other.input or 0]}"
    asked = [_kind(part, aggregate), column, rows.source, kept, sorted(by, key=dumps)]
    return _digest([part, *asked, _bounds(aggregate), select.groups if grouped else None])


def _written_key(part: str, select: PrivateSelect, aggregate: Aggregate) -> str:
    """Return what versions found a part by that knew rows by their spelling."""
    return key_of(part, select, aggregate, as_written=True)


def _earlier_key(part: str, select: PrivateSelect, aggregate: Aggregate) -> str:
    grouped = part in ("norms", DIFFERENT) or select.selection == "public"
    keys = [[key.levels is not None, level_texts(key.levels)] for key in select.keys] if grouped else []
    rows = read_rows(select.rows)
    text = select.rows if rows is None else rows.narrowed(aggregate.input, grouped)
    told = [part, _kind(part, aggregate), aggregate.input is None, _bounds(aggregate), text, keys]
    return _digest([*told, select.groups if grouped else None])


def _kind(part: str, aggregate: Aggregate) -> str:
    function = function_of(aggregate.kind)
    return aggregate.kind if part == "norms" else "squares" * (function.squares or function.paired)


def _bounds(aggregate: Aggregate) -> list[str] | None:
    told = [None if one.values is None else list(map(str, one.values)) for one in centred(aggregate)]
    if function_of(aggregate.kind).paired and aggregate.other is not None:
        return [dumps(one) for one in told]
    return None if aggregate.values is None else list(map(str, aggregate.values))


def _digest(told: list[Any]) -> str:
    return "profile " + hashlib.sha256(dumps(told).encode()).hexdigest()
