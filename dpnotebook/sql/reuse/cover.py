"""How the answers of a private aggregation follow from those of another one that was released.

They do where it asks for some of the other's aggregates over the same rows, or over those of some of its groups: the
numbers of these groups are picked out, in another order, or added up, with their noise. This is post-processing, and
estimates the very totals that would be measured.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.sql.aggregates.added_up import added_up, sums
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.parse.calls import EACH_ONCE
from dpnotebook.sql.reuse.levels import KeyLevels, NotTold, Told, key_levels
from dpnotebook.sql.reuse.pieces import PieceLevels, coarser, piece_levels
from dpnotebook.sql.reuse.rows import RowsText, read_rows
from dpnotebook.sql.rewrite.groups import place_of
from dpnotebook.sql.select import Aggregate, PrivateSelect

Group = tuple[Any, ...]
Levels = KeyLevels | PieceLevels
Blocks = tuple[int, ...]  # numbers of blocks


@dataclass(frozen=True)
class Cover:
    """Which numbers of a release answer a private aggregation.

    Parameters
    ----------
    asked, aggregates
        The aggregates that are asked, and of each the number in the release of one that is measured alike; of a mean
        that follows from a count and a sum, both.
    keys
        The groups of the answer.
    groups
        Of each of them, the numbers of the groups of the release that it consists of.
    """

    asked: tuple[Aggregate, ...]
    aggregates: tuple[tuple[int, ...], ...]
    keys: tuple[Group, ...]
    groups: tuple[tuple[int, ...], ...]

    @property
    def together(self) -> int:
        """How many groups of the release one group of the answer consists of, at most."""
        return max(map(len, self.groups))

    def measuring(self, released: Measuring) -> Measuring:
        """Return what was measured, as that of the answer: with the noise of all that is added up."""
        parts = tuple(
            _part([released.parts[i] for i in numbers], one)
            for numbers, one in zip(self.aggregates, self.asked, strict=True)
        )
        return added_up(replace(released, parts=parts), self.groups)

    def numbers(self, released: Measuring, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the noisy numbers of the groups of the answer, from those of the release."""
        return sums(released, numbers, self.groups)


def _part(parts: Sequence[AggregateInput], asked: Aggregate) -> AggregateInput:
    """Return what an aggregate is worked out from, by what that was measured for."""
    read, function = function_of(parts[-1].kind), function_of(asked.kind)
    alike = function.centres and function.squares == read.squares  # what moves variances is not what moves means
    moved, down = (parts[-1].moved, parts[-1].moved_down) if alike else (0.0, None)
    drawn = parts[-1].drawn if alike else 0.0
    lost = parts[-1].lost if function.kind == read.kind or (function.adds and read.adds) else ()
    part = replace(
        parts[-1],
        kind=asked.kind,
        fractions=asked.fractions,
        array=asked.array,
        population=asked.population,
        moved=moved,
        moved_down=down,
        lost=lost,
        drawn=drawn,
    )
    if len(parts) == 1 or part.bounds is None:
        return part
    low, high = part.bounds
    blocks = tuple(block for one in parts for block in one.blocks)
    return replace(part, blocks=blocks, step=(high - low) / 2 or Fraction(1), half=1)


def cover(
    select: PrivateSelect, released: PrivateSelect, keys: Sequence[Group], blocks: Sequence[Blocks], stable: bool
) -> Cover | None:
    """Return how a private aggregation follows from a released one; None where it does not.

    Parameters
    ----------
    select
        What is asked.
    released, keys
        What was measured, and its groups, as they were shown.
    blocks
        The numbers of the blocks that each of its aggregates is worked out from.
    stable
        Whether sums of noise have its law.
    """
    aggregates: dict[int, tuple[int, ...]] = {}
    for asked, mine in select.ways:
        numbers = next((of for way in released.ways if (of := _of_way(asked, *way, blocks)) is not None), None)
        if numbers is None:
            return None
        aggregates |= dict(zip(mine, numbers, strict=True))
    groups = groups_of(select, released, keys)
    if not groups:
        return None
    followed = tuple(aggregates[i] for i in range(len(select.aggregates)))
    found = Cover(select.aggregates, followed, tuple(groups), tuple(map(tuple, groups.values())))
    return found if found.together == 1 or (stable and _adds_up(select, released)) else None


def _of_way(
    select: PrivateSelect, released: PrivateSelect, numbers: tuple[int, ...], blocks: Sequence[Blocks]
) -> tuple[tuple[int, ...], ...] | None:
    """Return the numbers in a release of what each aggregate follows from; None where one follows from nothing.

    Parameters
    ----------
    select
        What is asked, bounded alike.
    released, numbers
        Aggregates of the release that are bounded alike, and their numbers in it.
    blocks
        As for `cover`.
    """
    rows, others = read_rows(select.rows), read_rows(released.rows)
    if rows is None or others is None or not _bounded_alike(select, released):
        return None
    same = rows.conditions.keys() == others.conditions.keys() and len(select.keys) == len(released.keys)
    fewer = not same or None in _places(select, rows, released, others)
    sampled = select.contribution.kind != "l2" and not (select.single and released.single)
    if sampled and fewer and not (select.counts_all_rows and released.counts_all_rows):
        return None  # a sample of a unit's rows, or groups, is one of those that take part
    found = _aggregates(select, rows, released, others, [blocks[i] for i in numbers])
    return None if found is None else tuple(tuple(numbers[i] for i in each) for each in found)


def groups_of(select: PrivateSelect, released: PrivateSelect, keys: Sequence[Group]) -> dict[Group, list[int]] | None:
    """Return the groups of a private aggregation, and of which groups of a released one each consists, by their number.

    None where the rows of both are not those of such groups.

    Parameters
    ----------
    select
        What is asked.
    released, keys
        What was measured, and its groups, as they were shown.
    """
    rows, others = read_rows(select.rows), read_rows(released.rows)
    if rows is None or others is None or not keys or rows.source != others.source:
        return None
    try:
        return _groups(select, released, _rolled_up(select, rows, released, others, keys))
    except NotTold:
        return None


def _rolled_up(
    select: PrivateSelect, rows: RowsText, released: PrivateSelect, others: RowsText, keys: Sequence[Group]
) -> list[tuple[int, Group]]:
    """Return the numbers of released groups that groups of the answer consist of, and of which each is a part.

    Raises
    ------
    NotTold
        If that does not follow from what is grouped by, or some rows of the answer are in no released group.
    """
    places = _places(select, rows, released, others)
    more = [node for text, node in rows.conditions.items() if text not in others.conditions]
    less = [node for text, node in others.conditions.items() if text not in rows.conditions]
    coarse = [rows.key_columns[j] for j, place in enumerate(places) if place is None]
    each = [*coarse, *map(others.columns_of, less)]
    if any(len(found) != 1 for found in each):
        raise NotTold
    columns = dict.fromkeys(column for found in each for column in found)
    if columns and released.selection != "all":  # rows that are asked may be in groups that were not shown
        raise NotTold
    mine, theirs, parts = {}, {}, {}
    for column in columns:
        mine[column] = rows.keys_of(column)
        theirs[column] = others.keys_of(column)
        found = None
        if theirs[column]:
            both = [
                tuple((i, len(of.keys[i].levels or ())) for i in numbers)
                for of, numbers in ((select, mine[column]), (released, theirs[column]))
            ]
            by_dates = column in select.dates or column in released.dates
            found = coarser(select.rows, both[0], released.rows, both[1], column, by_dates)
        if found is None:
            raise NotTold
        parts[column] = _labels(found, select, mine[column], released, theirs[column])
        more = [node for node in more if not rows.is_of(node, column)]
    done = {i for numbers in theirs.values() for i in numbers}
    kept = _kept(others, released, keys, more, [place for place in places if place is not None], select.dates, done)
    answer: list[tuple[int, Group]] = []
    for number in kept:
        group = [None if place is None else keys[number][place] for place in places]
        for column, labels in parts.items():
            own = labels[tuple(keys[number][i] for i in theirs[column])]
            if own is None:
                break
            for j, label in zip(mine[column], own, strict=True):
                group[j] = label
        else:
            answer.append((number, tuple(group)))
    return answer


def _labels(
    found: Mapping[tuple[int, ...], tuple[int, ...] | None],
    select: PrivateSelect,
    mine: Sequence[int],
    released: PrivateSelect,
    theirs: Sequence[int],
) -> dict[Group, Group | None]:
    """Return of which groups the rows of finer groups are, by their labels; of those that have no rows nothing."""
    names = [dict(enumerate(select.keys[j].levels or ())) for j in mine]
    labels: dict[Group, Group | None] = defaultdict(lambda: None)
    for fine, coarse in found.items():
        of = tuple((released.keys[i].levels or ())[number] for i, number in zip(theirs, fine, strict=True))
        labels[of] = coarse and tuple(name[number] for name, number in zip(names, coarse, strict=True))
    return labels


def _bounded_alike(select: PrivateSelect, released: PrivateSelect) -> bool:
    """Return whether units are bounded, and their groups shown, by the same rules."""
    return (
        select.tables == released.tables
        and select.contribution == released.contribution
        and bool(select.rows_if_hidden) == bool(released.rows_if_hidden)
        and select.groups is None
        and released.groups is None
        and select.min_units == released.min_units
        and select.selection in ("all", released.selection)
    )


def _aggregates(
    select: PrivateSelect, rows: RowsText, released: PrivateSelect, others: RowsText, blocks: Sequence[Blocks]
) -> tuple[tuple[int, ...], ...] | None:
    """Return the numbers in the release of what each aggregate follows from; None where one follows from nothing."""
    told = [_told(aggregate, others) for aggregate in released.aggregates]
    kind = select.contribution.kind
    of_rows = kind == "rows" or (kind == "groups" and select.single and released.single)
    found = []
    for one in (_told(aggregate, rows) for aggregate in select.aggregates):
        numbers = (told.index(one),) if one in told else _of_squares(one, told)
        numbers = numbers or (_moments(one, told, blocks) if of_rows else ())
        if not numbers:
            return None
        found.append(numbers)
    return tuple(found)


def _of_squares(asked: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return the number of a variance of the same values, or of its root, if that is what is asked.

    A variance of a sample, that of a population and their roots are worked out from one measurement.
    """
    if not function_of(asked["kind"]).squares:
        return ()
    among = (number for number, one in enumerate(told) if _values(one) == _values(asked))
    return tuple(number for number in among if function_of(told[number]["kind"]).squares)[:1]


def _moments(asked: Mapping[str, Any], told: Sequence[Mapping[str, Any]], blocks: Sequence[Blocks]) -> tuple[int, ...]:
    """Return the number of a mean that a count or a sum follows from, or those of both that a mean follows from.

    Where rows are bounded, and not all that a unit adds up, these are of the same values: as many, clamped alike. Both
    have blocks of their own: what was read off those of another mean is between its bounds.
    """
    bounded = [number for number, one in enumerate(told) if _values(one) == _values(asked)]
    counting = [number for number, one in enumerate(told) if one["input"] == asked["input"] is not None]
    if asked["kind"] in ("count", "sum"):
        among = counting if asked["kind"] == "count" else bounded
        return tuple(number for number in among if function_of(told[number]["kind"]).counts_and_sums)[:1]
    if not function_of(asked["kind"]).averages:
        return ()
    by_itself = {i for i, own in enumerate(blocks) if blocks.count(own) == 1}
    counts = [i for i in counting if told[i]["kind"] == "count" and _each_once(told[i]) and i in by_itself]
    sums = [i for i in bounded if told[i]["kind"] == "sum" and i in by_itself]
    return (counts[0], sums[0]) if counts and sums else ()


def _values(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return of which values an aggregate is, and how these are clamped."""
    return {**told, "kind": None, "population": None}


def _each_once(told: Mapping[str, Any]) -> bool:
    """Return whether every value counts as one."""
    return told["bounds"] in (None, [str(bound) for bound in EACH_ONCE])


def _told(aggregate: Aggregate, rows: RowsText) -> Mapping[str, Any]:
    """Return what is measured, with the columns as they stand in the rows; any quantiles are read off the same bins."""
    told = aggregate.canonical | {"epsilon": None, "fractions": []}
    for part, one in (("input", aggregate), ("other", aggregate.other)):
        if one is not None and one.input is not None:
            column = rows.inputs[one.input]
            told[part] = column if one is aggregate else _told(replace(one, other=None), rows)
    return told


def _places(select: PrivateSelect, rows: RowsText, released: PrivateSelect, others: RowsText) -> list[int | None]:
    """Return of each key its number in the release; None of one that is not there."""
    told = [(others.key_texts[i], key.levels, key.kind) for i, key in enumerate(released.keys)]
    asked = [(rows.key_texts[i], key.levels, key.kind) for i, key in enumerate(select.keys)]
    return [told.index(one) if one in told else None for one in asked]


def _kept(
    others: RowsText,
    released: PrivateSelect,
    keys: Sequence[Group],
    conditions: Sequence[exp.Expr],
    places: Sequence[int],
    dates: Sequence[str],
    done: Collection[int],
) -> list[int]:
    """Return the numbers of the groups whose rows satisfy further conditions; of some keys they are told already.

    Raises
    ------
    NotTold
        If that does not follow from the keys, or if there are such rows in no group.
    """
    of_key: dict[int, list[tuple[Levels, list[Told]]]] = {}
    for condition in conditions:
        for i in (i for i in range(len(released.keys)) if i not in done):
            known = of_key.get(i) or [(one, []) for one in _levels(released, others, i, conditions, dates)]
            if _noted(condition, known):
                of_key[i] = known
                break
        else:
            raise NotTold
    kept = list(range(len(keys)))
    for i, key in enumerate(released.keys):
        if i not in places and i not in of_key and i not in done and not key_levels(others, i, key).has_all([]):
            raise NotTold
    for i, known in of_key.items():
        if i not in places and not any(level.has_all(own) for level, own in known):
            raise NotTold
        levels = released.keys[i].levels
        place = {} if levels is None else {label: number for number, label in enumerate(levels)}
        holds: dict[Any, bool] = {}
        for label in {group[i] for group in keys}:
            holds[label] = all(
                told(label if level.values is None else level.values[place[label]])
                for level, own in known
                for told in own
            )
        kept = [number for number in kept if holds[keys[number][i]]]
    return kept


def _levels(
    released: PrivateSelect, others: RowsText, number: int, conditions: Sequence[exp.Expr], dates: Sequence[str]
) -> Iterator[Levels]:
    """Yield what tells of which groups of a key a condition is true: by its levels, and piece by piece."""
    key = released.keys[number]
    with contextlib.suppress(NotTold):
        yield key_levels(others, number, key)
    if key.levels is not None:
        with contextlib.suppress(NotTold):
            yield piece_levels(released.rows, number, len(key.levels), conditions, dates)


def _noted(condition: exp.Expr, known: Sequence[tuple[Levels, list[Told]]]) -> bool:
    """Note a condition with the first levels that tell of it, and return whether there are such."""
    for level, own in known:
        with contextlib.suppress(NotTold):
            told = level.told(condition)
            told(None)
            own.append(told)
            return True
    return False


def _groups(
    select: PrivateSelect, released: PrivateSelect, parts: Sequence[tuple[int, Group]]
) -> dict[Group, list[int]]:
    """Return the groups of the answer, in their order, and the numbers of the groups that each consists of.

    None at all where some that have to be in the answer were not shown.
    """
    found: dict[Group, list[int]] = {}
    for number, group in parts:
        found.setdefault(group, []).append(number)
    if released.selection != "all" and any(len(numbers) > 1 for numbers in found.values()):
        return {}  # of larger groups, parts that were not shown would be missing
    if select.selection == "all":
        every = [
            tuple((key.levels or ())[number] for key, number in zip(select.keys, group, strict=True))
            for group in select.every_group
        ]
        if released.selection != "all" and len(every) > len(found):
            return {}
        if select.together and not found.keys() <= set(every):  # the public table had other rows
            return {}
        return {group: found[group] for group in every if group in found}
    order = [None if key.levels is None else {label: i for i, label in enumerate(key.levels)} for key in select.keys]

    def place(group: Group) -> list[Any]:
        return [place_of(value if known is None else known[value]) for value, known in zip(group, order, strict=True)]

    return {group: found[group] for group in sorted(found, key=place)}


def _adds_up(select: PrivateSelect, released: PrivateSelect) -> bool:
    """Return whether what is measured of groups adds up to that of larger ones."""
    functions = [function_of(aggregate.kind) for aggregate in select.aggregates]
    if any(function.by_itself for function in functions):
        return False
    once = released.single or (released.counts_all_rows and released.contribution.most == 1)
    return once or all(function.of != "units" for function in functions)
