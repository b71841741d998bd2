"""What is known of how much units add: noisy histograms that are measured once and used by every later statement.

Where vectors are clipped to a norm, the best norm depends on data. The first statement that needs it measures, with a
small share of its cost, how many units have vectors of which norm; for averages, between which values most rows lie.
What it found is recorded with its answer, and later statements over the same rows and groups read it there for nothing,
each choosing the norm that suits its own noise.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.sql.aggregates.bounds import STEPS_OF_MEANS, histogram_scale
from dpnotebook.sql.aggregates.budget_split import (
    BESIDE,
    OF_MEANS,
    Shares,
    cost_of,
    found_with,
    has_range,
    measured_before,
    needs_bounds,
    of_columns,
    of_norms,
    of_range,
    operands,
    whole_of,
    with_rest,
)
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.centring import (
    centred_by,
    each_of,
    is_centred,
    longest_between,
    longest_pair,
    of_both,
    of_products,
    squares_by,
)
from dpnotebook.sql.aggregates.covariance import USUALLY, moved_as
from dpnotebook.sql.aggregates.function import AggregateFunction
from dpnotebook.sql.aggregates.layer_norms import layers_to_clip_at, nearly_best_layers
from dpnotebook.sql.aggregates.layers import layers_of
from dpnotebook.sql.aggregates.moved import by_hidden_rows, with_alone
from dpnotebook.sql.aggregates.noising import Draw
from dpnotebook.sql.aggregates.norms import (
    described,
    nearly_best,
    norm_edges,
    norm_to_clip_at,
)
from dpnotebook.sql.aggregates.pair_bounds import Side, best_sides, taken_by
from dpnotebook.sql.aggregates.partitions import PARTS
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.aggregates.unit_means import FARTHEST, Choices, UnitMeans, choices_for_means
from dpnotebook.sql.bounded_sums import Component, Totals
from dpnotebook.sql.group_weights import GroupWeights, of_equal_size, weights_by_size
from dpnotebook.sql.level_texts import dumps, level_texts
from dpnotebook.sql.reuse.rows import read_rows
from dpnotebook.sql.rewrite import profiles as histograms
from dpnotebook.sql.rewrite.lengthened import STEPS, lengthened
from dpnotebook.sql.select import Aggregate, PrivateSelect
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.value_histogram import MovedAlone, ValueHistogram, measured_values

Run = Callable[[str], dict[str, NDArray[Any]]]

COARSER = 16  # times as much a histogram may cost before one is measured anew that found what it was for
HIDDEN = 4  # the same where noise hid it
MOST_PARTS = 8  # conditions and keys, some of which are left out in all ways
NEARLY = Fraction(999, 1000)  # norms are rounded
AWAY = 0.5  # how far the rows that are cut off are from the mean, at most, in half-widths of what values lie between
WORTH = 0.78  # times the error without weights, up to which groups are multiplied
# What tells how large groups are: rows of units, whose vectors are clipped to so many.
MOST_COUNTED = 8
SIZES = Component("count", None, Fraction(0), Fraction(MOST_COUNTED), Fraction(1, PARTS), MOST_COUNTED * PARTS)
ALONE = 2.0  # values of a unit on average, from which on nothing is said of those that have one
# Times the noise of a mean, for which bounds of pairs are chosen: norms of vectors with products are several times as
# many as units have rows.
NOISIER = 4.0
LONGER = 2.0  # times as much as a unit adds on average, to which most that it may add is cut, where that is not known
# In records, what bounds take from an answer.
CUT = ("cut_about", "cut", *(f"cut_{part}" for part in Taken._fields[2:]))
NOT_KNOWN = Taken()  # what bounds take from an answer


class Books(Protocol):
    """The ledger, as far as profiles need it."""

    def records(self, question: str, /) -> Sequence[Any]:
        """Return what was recorded of a question, or of statements that measured this part of a profile."""


@dataclass(frozen=True)
class Norms:
    """How many units have vectors of which norm.

    Parameters
    ----------
    counts
        Noisy number of units in each bin of `norm_edges`.
    scale
        Of the Gaussian noise on each.
    units
        What it cost, in the accountant's units.
    groups
        How many groups there were.
    values
        Bounds of the values, where the vectors depend on them, with what they are centred by behind them if that is not
        their middle; None where these do not, or were hidden by noise.
    cut
        What keeping values between these takes from an answer.
    means
        What these units have on average, for means and variances; None where that was not measured.
    even_groups
        How many groups of equal size would have as much noise on their means as these have; None likewise.
    alone
        What clipping to each of some norms does to a mean or a variance where every unit has one value, as the
        histogram of values tells; nothing where that was not measured with it.
    weights
        By what is multiplied what units have in groups, in these vectors; None where nothing is.
    """

    counts: tuple[int, ...]
    scale: Fraction
    units: int
    groups: int
    values: Bounds | None = None
    cut: Taken = NOT_KNOWN
    means: UnitMeans | None = None
    even_groups: float | None = None
    alone: MovedAlone = ()
    weights: GroupWeights | None = None

    @property
    def described(self) -> tuple[float, float, float]:
        """About how many units there are, and norms that half and 95% of them do not pass; NaN where hidden."""
        return described(self.counts, float(self.scale))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        values = None if self.values is None else [str(bound) for bound in self.values]
        told = {
            "counts": list(self.counts), "scale": str(self.scale), "units": self.units, "groups": self.groups,
            "values": values,
        } | _told_cut(self.cut)  # fmt: skip
        if self.means is not None:
            told |= {"unit_means": self.means.to_json(), "even_groups": self.even_groups}
        if self.weights is not None:
            told["weights"] = self.weights.to_json()
        return told | ({"alone": [list(one) for one in self.alone]} if self.alone else {})

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Norms:
        """Return what `to_json` wrote."""
        values = None if told["values"] is None else tuple(map(Fraction, told["values"]))
        counts, scale = tuple(told["counts"]), Fraction(told["scale"])
        means = UnitMeans.from_json(told["unit_means"]) if "unit_means" in told else None
        alone = tuple((one[0], one[1], one[2], one[3], one[4]) for one in told.get("alone", ()))
        even = told.get("even_groups")
        weights = GroupWeights.from_json(told["weights"]) if "weights" in told else None
        return cls(counts, scale, told["units"], told["groups"], values, _cut(told), means, even, alone, weights)


@dataclass(frozen=True)
class Clip:
    """What the vectors of an aggregate are clipped to.

    Parameters
    ----------
    bounds
        As `Average` and others have them; None where they are not known.
    lost
        What clipping takes from the answer of a group, in the units of the norm.
    cut
        What values outside the bounds take from a mean or a variance.
    moved
        By how much a mean or a variance moves, as units with many rows count less than they would.
    kept
        Which part of all values counts then.
    """

    bounds: Bounds | None
    lost: Taken = NOT_KNOWN
    cut: Taken = NOT_KNOWN
    moved: Taken = NOT_KNOWN
    kept: float = 1.0


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


def with_known_weights(select: PrivateSelect, books: Books) -> PrivateSelect:
    """Return a private aggregation where what units have in groups is multiplied as it was before for the same.

    Or as for the groups of more rows, of which it has some.
    """
    return select if (told := _known_weights(select, books)) is None else select.weighed(told)


def _known_weights(select: PrivateSelect, books: Books) -> GroupWeights | None:
    if not may_weigh(select):
        return None
    rows = read_rows(select.rows)
    conditions = [] if rows is None else list(rows.conditions)
    parts = _parts(conditions) if len(conditions) <= MOST_PARTS else [tuple(conditions)]
    for key in [weights_key(select, part) for part in reversed(parts)]:
        if told := recorded(books.records(key), key):
            return GroupWeights.from_json(told[0])
    return None


def may_weigh(select: PrivateSelect) -> bool:
    """Return whether what units have in groups may be multiplied: rows and what they have, of which parts are told."""
    return select.can_weigh and all(function_of(one.kind).of != "units" for one in select.aggregates)


def seeks_weights(select: PrivateSelect, books: Books, known: Collection[int]) -> bool:
    """Return whether it is still to be found how large groups are, before any vector is clipped to a norm."""
    return finds_weights(select, known) and _known_weights(select, books) is None


def finds_weights(select: PrivateSelect, known: Collection[int] = ()) -> bool:
    """Return whether a private aggregation by itself finds weights of groups: all of its norms are to be found."""
    return may_weigh(select) and all(needs_bounds(select, i, known) for i in range(len(select.aggregates)))


def profile_keys(select: PrivateSelect, index: int) -> list[str]:
    """Return by what the parts of a profile are found that an aggregate needs: of norms, and of values where needed."""
    if not select.clips(index):
        return [_range_key(select, one) for one in _ranged(select, index)]
    return _keys(select, index, _key)


def _ranged(select: PrivateSelect, index: int) -> list[Aggregate]:
    """Return the columns of an aggregate between which bounds its rows lie is to be found, or was before."""
    sought = (one for one in select.aggregates[index].operands if one.bounds is None)
    return list(sought) if has_range(select, index) else []


def _range_key(select: PrivateSelect, aggregate: Aggregate) -> str:
    return _range_keys(select, aggregate)[0]


def _range_keys(select: PrivateSelect, aggregate: Aggregate) -> list[str]:
    """Return by what bounds of the values of rows are found, and by what earlier versions found them."""
    function = function_of(aggregate.kind)
    part = "sums" if function.adds else "values" if function.centres or function.paired else "range"
    return [key(part, select, aggregate) for key in (_key, _written_key)]


def norms_told(select: PrivateSelect, index: int, told: Mapping[str, Any]) -> Norms | None:
    """Return the norms of an aggregate in a recorded profile; None where there are none."""
    found = [told[keys[0]] for keys in _all_keys(select, index) if keys[0] in told]
    return Norms.from_json(found[0]) if found else None


def ranges_told(select: PrivateSelect, told: Mapping[str, Any]) -> list[tuple[int, float, float]]:
    """Return between which values rows lie by a recorded profile: numbers of aggregates, and bounds; NaN if hidden.

    Of pairs of columns both are told, in their order.
    """
    found = []
    for i in range(len(select.aggregates)):
        for one in _ranged(select, i):
            part = next((told[key] for key in _range_keys(select, one) if key in told), None)
            if part is not None:
                values = part["values"]
                low, high = (math.nan, math.nan) if values is None else map(float, map(Fraction, values))
                found.append((i, low, high))
    return found


def _keys(select: PrivateSelect, index: int, key: Callable[[str, PrivateSelect, Aggregate], str]) -> list[str]:
    aggregate = select.aggregates[index]
    keys = [key("norms", select, aggregate)]
    return keys + [key("values", select, one) for one in _centred(aggregate) if one.values is None]


def _centred(aggregate: Aggregate) -> tuple[Aggregate, ...]:
    """Return the columns of an aggregate whose values count from a centre, where vectors are clipped."""
    function = function_of(aggregate.kind)
    return aggregate.operands if function.paired else (aggregate,) if function.centres else ()


def _values_of(aggregate: Aggregate) -> Bounds | None:
    """Return between which values rows lie, as is said or declared; None where that is to be found."""
    columns = [one.values for one in _centred(aggregate) or (aggregate,)]
    if not function_of(aggregate.kind).paired:
        return columns[0]
    first, other = columns
    return None if first is None or other is None else of_both(first, other)


def _all_keys(select: PrivateSelect, index: int) -> tuple[list[str], ...]:
    """Return `profile_keys`, and those that earlier versions had."""
    return tuple(_keys(select, index, key) for key in (_key, _written_key, _earlier_key))


def certain_clips(select: PrivateSelect) -> dict[int, Clip]:
    """Return norms that need not be measured, by the numbers of the aggregates: over all groups a unit is one unit."""
    return {
        i: Clip((Fraction(0), Fraction(1)))
        for i, aggregate in enumerate(select.aggregates)
        if select.clips(i) and not select.keys and function_of(aggregate.kind).of == "units"
        if needs_bounds(select, i)
    }


@dataclass(frozen=True)
class KnownValues:
    """Where the values of a column were found to be.

    Parameters
    ----------
    bounds, cut
        What suited the statement that found it, and what these bounds take from its answer.
    units
        What it cost, in the accountant's units.
    histogram, groups
        From which other bounds can be chosen, and about how many groups of equal size there were; None and NaN in
        records of before that was kept.
    """

    bounds: Bounds
    cut: Taken
    units: int
    histogram: ValueHistogram | None = None
    groups: float = math.nan

    def is_enough(self, wanted: int) -> bool:
        """Return whether it serves where values could be found anew for so many units; see `is_enough` of norms."""
        return self.units * (COARSER if self.cut.known else HIDDEN) >= wanted

    def anew(self, times: float) -> KnownValues:
        """Return about what would be found with so many times the noise; see `ValueHistogram.anew`."""
        return self if self.histogram is None else replace(self, histogram=self.histogram.anew(times))

    def suited(self, select: PrivateSelect, index: int, costs: Shares, accountant: Accountant) -> tuple[Bounds, Taken]:
        """Return the bounds that suit an aggregate, and what they take from its answer.

        Parameters
        ----------
        select, index
            The aggregate.
        costs, accountant
            What aggregates may cost, which decides about their noise.
        """
        if self.histogram is None:
            return self.bounds, self.cut
        noise = _noise_of_values(select, index, cost_of(select, costs, index), accountant, self.among(select))
        bounds, cut = self.histogram.bounds(select.aggregates[index], noise, clipped=select.clips(index))
        return (self.bounds, self.cut) if bounds is None else (bounds, cut)

    def among(self, select: PrivateSelect) -> float:
        """Return about how many groups of equal size there are: those that are declared, or as many as were found."""
        levels = [key.levels for key in select.keys]
        known = all(level is not None for level in levels)
        return math.prod(len(level or ()) for level in levels) if known else self.groups


@dataclass(frozen=True)
class KnownPairs:
    """Where the values of both columns of pairs were found to be: what `KnownValues` is for one.

    Parameters
    ----------
    columns
        Those of both; None of a column of which bounds are written.
    """

    columns: tuple[KnownValues | None, ...]

    @property
    def units(self) -> int:
        """What the noisier one cost, in the accountant's units."""
        return min(one.units for one in self.columns if one is not None)

    @property
    def histogram(self) -> ValueHistogram | None:
        """That of the first column of which one is known; None where none is kept."""
        return next((one.histogram for one in self.columns if one is not None), None)

    def is_enough(self, wanted: int) -> bool:
        """Return whether both serve where each could be found anew for so many units."""
        return all(one.is_enough(wanted) for one in self.columns if one is not None)

    def anew(self, times: float) -> KnownPairs:
        """Return about what would be found with so many times the noise."""
        return KnownPairs(tuple(None if one is None else one.anew(times) for one in self.columns))

    def suited(self, select: PrivateSelect, index: int, costs: Shares, accountant: Accountant) -> tuple[Bounds, Taken]:
        """Return the bounds of both columns, one behind the other, and what they take; see `KnownValues`."""
        told = next(one for one in self.columns if one is not None)
        noise = _noise_of_values(select, index, cost_of(select, costs, index), accountant, told.among(select))
        histograms = [None if one is None else one.histogram for one in self.columns]
        if select.clips(index):
            bounds, cut = _of_clipped_pair(select.aggregates[index], histograms, noise)
        else:
            bounds, cut = _of_pair(select.aggregates[index], histograms, noise, accountant.law)
        if bounds is not None:
            return bounds, cut
        both = zip(self.columns, select.aggregates[index].operands, strict=True)
        return sum((one.bounds if one is not None else operand.bounds or () for one, operand in both), ()), Taken()


def _of_pair(
    aggregate: Aggregate, columns: Sequence[ValueHistogram | None], noise: float, law: Law
) -> tuple[Bounds | None, Taken]:
    """Return the bounds of both columns of pairs, and what they take; None where noise hides where values are.

    Parameters
    ----------
    aggregate, law
        What is asked of the pairs, and the law of the noise.
    columns
        Where values are; None of a column of which bounds are written, or nothing is kept.
    noise
        As for `ValueHistogram.bounds`.
    """
    squares, units, sides = function_of(aggregate.kind).squares, 1.0, []
    for operand, histogram in zip(aggregate.operands, columns, strict=True):
        if operand.bounds is not None:
            sides.append([Side(operand.bounds)])
        elif histogram is None:
            return None, NOT_KNOWN
        else:
            units = max(units, histogram.units)
            sides.append(histogram.sides(operand, noise))
    if not all(sides):
        return None, NOT_KNOWN
    first, other = best_sides(sides[0], sides[1], noise / units, law, squares=squares)
    return (*first.bounds, *other.bounds), taken_by(first, other, squares=squares)


def _of_clipped_pair(
    aggregate: Aggregate, columns: Sequence[ValueHistogram | None], noise: float
) -> tuple[Bounds | None, Taken]:
    """Return what vectors of pairs are centred by, and what bounds of values take; arguments as for `_of_pair`."""
    found = []
    for operand, histogram in zip(aggregate.operands, columns, strict=True):
        if operand.values is not None:
            found.append((operand.values, Side(operand.values)))
        elif histogram is None:
            return None, NOT_KNOWN
        else:
            bounds, cut = histogram.bounds(operand, NOISIER * noise, clipped=True)
            if bounds is None:
                return None, NOT_KNOWN
            found.append((bounds, histogram.side(bounds[:2], cut)))
    (first, x), (other, y) = found
    return of_both(first, other), taken_by(x, y, squares=function_of(aggregate.kind).squares)


def known_ranges(select: PrivateSelect, books: Books) -> dict[int, KnownValues | KnownPairs]:
    """Return where the values of rows were found to be before, by the numbers of the aggregates.

    Parameters
    ----------
    select, books
        The private aggregation, and the ledger.
    """
    found: dict[int, KnownValues | KnownPairs] = {}
    for i, aggregate in enumerate(select.aggregates):
        if not (sought := _ranged(select, i)):
            continue
        best = [_best_values(_range_keys(select, one), books) for one in sought]
        known = [one for one in best if one is not None]
        if len(known) < len(sought):
            continue
        if not function_of(aggregate.kind).paired:
            found[i] = known[0]
        elif all(one.histogram is not None for one in known):
            columns = iter(known)
            found[i] = KnownPairs(tuple(next(columns) if one.bounds is None else None for one in aggregate.operands))
    return found


def known_norms(select: PrivateSelect, books: Books, *, wider: bool = False) -> dict[int, Norms]:
    """Return what was measured before of the norms of the vectors of aggregates, by their numbers.

    Parameters
    ----------
    select, books
        The private aggregation, and the ledger.
    wider
        Whether norms of more rows, or of larger groups, serve where its own are not known: they are no smaller.
    """
    found = {}
    for i in range(len(select.aggregates)):
        if select.clips(i) and needs_bounds(select, i):
            norms = _most_accurate([keys[0] for keys in _all_keys(select, i)], books, select.weights)
            if wider and (norms is None or _is_hidden(select, i, norms)):
                norms = _wider_norms(select, i, books) or norms
            if norms is not None:
                found[i] = norms
    for i in range(len(select.aggregates)):  # of a variance and its root, that have one vector
        if (before := measured_before(select, i)) is not None and needs_bounds(select, i):
            both = [found[j] for j in (before, i) if j in found]
            found |= dict.fromkeys((before, i), max(both, key=lambda norms: norms.units)) if both else {}
    return found


def profiled(select: PrivateSelect, books: Books) -> list[Any]:
    """Return the records that a private aggregation may take norms or values from: all must be of the rows of today."""
    seen, select = _Consulted(books), with_known_weights(select, books)  # any weights suit any rows
    known_ranges(select, seen)
    known_norms(select, seen, wider=True)
    for i in range(len(select.aggregates)):
        if select.clips(i):
            known_values(select, i, seen)
    return list(seen.found.values())


class _Consulted:
    """The ledger, with all records that were looked at for a part of a profile that they measured."""

    def __init__(self, books: Books) -> None:
        self.found: dict[int, Any] = {}
        self._books = books

    def records(self, question: str, /) -> Sequence[Any]:
        """Return what was recorded, and keep in mind what of that has a part of a profile."""
        records = self._books.records(question)
        self.found |= {record.number: record for record in records if recorded([record], question)}
        return records


def _most_accurate(keys: Iterable[str], books: Books, weights: GroupWeights | None) -> Norms | None:
    every = (Norms.from_json(part) for key in keys for part in recorded(books.records(key), key))
    parts = [part for part in every if part.weights == weights]
    return max(parts, key=lambda part: part.units, default=None)


def _wider_norms(select: PrivateSelect, index: int, books: Books) -> Norms | None:
    """Return the norms of the same aggregate, of the nearest rows and groups that have all of its own in them.

    What a unit has of these is no longer than that, or for averages and variances sqrt(3) times as long at most. Sums
    of values of either sign may cancel out in larger groups, and a unit counts once there too: these have none.
    """
    rows, aggregate = read_rows(select.rows), select.aggregates[index]
    function = function_of(aggregate.kind)
    signed = not function.centres and (not aggregate.values or min(aggregate.values) < 0)
    cancels = function.of == "numbers" and (signed or function.weighted)
    if rows is None or select.groups is not None or cancels:
        return None
    conditions, keys = list(rows.conditions), list(range(len(select.keys)))
    if len(conditions) + len(keys) > MOST_PARTS:
        return None
    sizes = range(len(keys) + 1) if function.of != "units" else [len(keys)]
    ways = [(part, by) for some in sizes for by in itertools.combinations(keys, some) for part in _parts(conditions)]
    for part, by in sorted(ways, key=lambda way: -len(way[0]) - len(way[1])):
        norms = _most_accurate([_key("norms", select, aggregate, part, by)], books, select.weights)
        if norms is not None and not _is_hidden(select, index, norms):
            return norms
    return None


def _parts(conditions: Sequence[str]) -> list[tuple[str, ...]]:
    return [part for size in range(len(conditions) + 1) for part in itertools.combinations(conditions, size)]


def all_norms_known(select: PrivateSelect, books: Books, *, wider: bool = False) -> bool:
    """Return whether everything is known that the error of a private aggregation depends on; see `known_norms`."""
    select = with_known_weights(select, books)
    known = known_norms(select, books, wider=wider)
    certain = certain_clips(select)
    unknown = [i for i in range(len(select.aggregates)) if select.clips(i) and needs_bounds(select, i, certain)]
    return all(i in known and not _is_hidden(select, i, known[i]) for i in unknown)


def all_ranges_known(select: PrivateSelect, books: Books) -> bool:
    """Return whether all bounds are known that are to be found inside those that are declared."""
    inside = {i for i, one in enumerate(select.aggregates) if one.within is not None and not select.clips(i)}
    return all_norms_known(select, books) and inside <= known_ranges(select, books).keys()


def with_usual_norms(statement: Statement) -> Statement:
    """Return a statement that clips to the norms of as many rows as a unit is declared to have."""
    return replace(statement, selects=tuple(map(_with_usual_norms, statement.selects)))


def _with_usual_norms(select: PrivateSelect) -> PrivateSelect:
    if select.contribution.kind != "l2":
        return select
    aggregates = [
        replace(one, bounds=function_of(one.kind).usual_norm(one.values, select.contribution.most), values=None)
        if needs_bounds(select, i) and not select.written and not function_of(one.kind).centres
        else one
        for i, one in enumerate(select.aggregates)
    ]
    return replace(select, contribution=replace(select.contribution, most=1), aggregates=tuple(aggregates))


def known_values(select: PrivateSelect, index: int, books: Books) -> KnownValues | KnownPairs | None:
    """Return between which values most rows were found to lie before, where vectors are centred by these."""
    aggregate = select.aggregates[index]
    if function_of(aggregate.kind).paired:
        keys = iter(zip(*(every[1:] for every in _all_keys(select, index)), strict=True))
        sought = [one.values is None for one in aggregate.operands]
        columns = [_best_values(next(keys), books) if wanted else None for wanted in sought]
        if not any(sought) or any(
            wanted and (one is None or one.histogram is None) for wanted, one in zip(sought, columns, strict=True)
        ):
            return None
        return KnownPairs(tuple(columns))
    return _best_values([keys[1] for keys in _all_keys(select, index) if len(keys) > 1], books)


def _best_values(keys: Iterable[str], books: Books) -> KnownValues | None:
    """Return what the least noisy histograms told."""
    told = (part for key in keys for part in recorded(books.records(key), key))
    parts = [part for part in told if part["values"] is not None]
    if not parts:
        return None
    best = max(parts, key=lambda part: int(part["units"]))
    low, high = map(Fraction, best["values"])
    histogram = ValueHistogram.from_json(best["histogram"]) if "histogram" in best else None
    return KnownValues((low, high), _cut(best), int(best["units"]), histogram, best.get("even_groups", math.nan))


def _cut(told: Mapping[str, Any]) -> Taken:
    """Return what bounds of values take from an answer; NaN in records of before that was told."""
    return Taken(*(float(told.get(part, math.nan)) for part in CUT))


def _told_cut(cut: Taken) -> dict[str, float]:
    """Return the part of a record that `_cut` reads: none where it is not known."""
    return {part: number for part, number in zip(CUT, cut, strict=True) if math.isfinite(number)}


def recorded(records: Iterable[Any], key: str) -> list[Mapping[str, Any]]:
    """Return what records of statements tell of a part of a profile."""
    return [
        select["profile"][key]
        for record in records
        for select in record.details.get("selects", ())
        if key in select.get("profile", {})
    ]


def clips(
    select: PrivateSelect, known: Mapping[int, Norms], shares: Shares, accountant: Accountant, *, layered: bool = True
) -> dict[int, Clip]:
    """Return to what the vectors of aggregates are clipped whose norms were measured.

    Parameters
    ----------
    select
        The private aggregation.
    known
        What is known of them.
    shares
        What each aggregate may cost, which decides about its noise.
    accountant
        The law of the noise.
    layered
        Whether counts and sums may be measured in two layers; not where an error is promised.
    """
    return {i: _clip(select, i, norms, cost_of(select, shares, i), accountant, layered) for i, norms in known.items()}


def is_enough(select: PrivateSelect, index: int, norms: Norms, wanted: int) -> bool:
    """Return whether a histogram serves where another one could be measured for so many units."""
    return norms.units * (HIDDEN if _is_hidden(select, index, norms) else COARSER) >= wanted


def still_suits(
    select: PrivateSelect,
    index: int,
    norms: Norms,
    bounds: Bounds,
    cost: int,
    accountant: Accountant,
    own: int | None = None,
) -> bool:
    """Return whether vectors that were clipped for one price may stay so for another one.

    Parameters
    ----------
    select, index
        The aggregate.
    norms, bounds
        What is known of its norms, and to what vectors were clipped.
    cost, accountant
        What the aggregate may cost, which decides about its noise.
    own
        What it costs with these vectors, where that is something else.
    """
    noise = _noise_of_one(cost, accountant)
    mine = noise if own is None else _noise_of_one(own, accountant)
    if norms.means is not None:
        choices = _choices(select, index, norms)
        as_far = _moved_as(function_of(select.aggregates[index].kind))
        return choices is None or (mine == noise and choices.nearly_best(float(bounds[-1]), noise / as_far))
    told = _to_choose_by(select, index, norms, noise)
    most = _most_groups(select) if function_of(select.aggregates[index].kind).of == "units" else None
    if told is None or (most is not None and bounds[1] >= most * NEARLY):
        return True
    mine = _as_wrong(norms, mine)
    if (layers := layers_of(bounds)) is not None:
        return nearly_best_layers(layers, *told, mine)
    return nearly_best(float(bounds[-1]), *told, mine)


def _noise_of_one(cost: int, accountant: Accountant) -> float:
    """Return the standard deviation of noise that hides 1, for a cost."""
    return math.sqrt(accountant.law.variance(accountant.scale(cost, 1)))


def _as_wrong(norms: Norms, noise: float) -> float:
    """Return noise beside what norms take from groups, which are divided by their weights as it is."""
    return noise if norms.weights is None else noise * norms.weights.error


def _is_hidden(select: PrivateSelect, index: int, norms: Norms) -> bool:
    """Return whether noise hides what the vectors of an aggregate are to be clipped to."""
    aggregate = select.aggregates[index]
    if function_of(aggregate.kind).centres and _values_of(aggregate) is None and norms.values is None:
        return True
    return norm_to_clip_at(norms.counts, float(norms.scale), 1.0, 1) is None


def _most_groups(select: PrivateSelect) -> Fraction | None:
    """Return the norm of a unit that is in every group, rounded up; None where not all groups are declared."""
    if None in select.levels:
        return None
    groups = math.prod(len(known) for known in select.levels if known is not None)
    square = groups
    if (weights := select.weights) is not None:
        square = sum(weight**2 for _, weight in weights.listed) + (groups - len(weights.listed)) * weights.others**2
    return Fraction(math.isqrt(10**8 * square) + 1, 10**4)


def _clip(select: PrivateSelect, index: int, norms: Norms, cost: int, accountant: Accountant, layered: bool) -> Clip:
    aggregate = select.aggregates[index]
    function, values = function_of(aggregate.kind), _values_of(aggregate) or norms.values
    noise = _noise_of_one(cost, accountant)
    usual = _usual(select, index, norms)
    if function.centres and norms.means is not None:
        if values is None or (choices := _choices(select, index, norms)) is None:
            return Clip(usual, cut=norms.cut) if usual else _of_one_row(select, index, norms)
        chosen, (worth, answer) = choices.best(noise / _moved_as(function)), _worth(aggregate, values, norms.cut)
        about, most, _, apart, looked = chosen.moved[:5]
        moved = Taken(about * worth, most * worth, answer, apart * worth, looked)
        if norms.alone:
            moved = with_alone(moved, norms.alone, float(chosen.norm), ALONE - choices.rows)
        return Clip((*values, chosen.norm), cut=norms.cut, moved=moved, kept=chosen.kept)
    told = _to_choose_by(select, index, norms, noise)
    found = None if told is None else norm_to_clip_at(*told)
    if found is None:
        return Clip(usual, cut=norms.cut)
    norm, lost = found
    if function.centres:  # as earlier versions recorded them: all rows should count, as far as noise lets them
        return Clip((*(values or ()), max(norm, Fraction(1))), cut=norms.cut)
    layered = layered and function.of != "units"  # who counts once in a group is hardly in proportion to the others
    if layered and told is not None and (two := layers_to_clip_at(*told)) is not None:
        return Clip(two[0].bounds, two[1], norms.cut)
    if function.of == "units" and (at_most := _most_groups(select)) is not None and norm >= at_most * NEARLY:
        norm, lost = at_most, Taken(0.0, 0.0)
    return Clip((Fraction(0), norm), lost, norms.cut)


def _of_one_row(select: PrivateSelect, index: int, norms: Norms) -> Clip:
    """Return the norm of one row of a unit, between declared bounds, where noise hides how many rows units have.

    All units count about alike then, whatever they have: a mean needs no more. Where values lie inside these bounds is
    as good as hidden too: vectors are about the middle, and none of a single row is cut.
    """
    aggregate = select.aggregates[index]
    function, values = function_of(aggregate.kind), aggregate.values or aggregate.within
    usual = None if function.paired or function.weighted else function.usual_norm(values and values[:2], 1)
    if usual is None:
        return Clip(None, cut=norms.cut)
    weights = 1 if norms.weights is None else Fraction(norms.weights.longer)
    units = max(float(sum(norms.counts)), float(norms.scale) * math.sqrt(len(norms.counts)), 1.0)
    moved = by_hidden_rows(usual, units, squares=function.squares)
    return Clip((*usual[:-1], usual[-1] * weights), cut=Taken(0.0, 0.0, below=0.0, above=0.0), moved=moved)


def _moved_as(function: AggregateFunction) -> float:
    """Return how far an answer moves where the mean of the last part of its vectors moves by 1."""
    return float(moved_as(np.array(USUALLY))) if function.paired and function.squares else 1.0


def _worth(aggregate: Aggregate, values: Bounds, cut: Taken) -> tuple[float, float]:
    """Return what the last part of a vector is worth in the answer, and about how large this is; NaN if unknown."""
    function = function_of(aggregate.kind)
    if function.paired:
        x, y = each_of(values)
        return float(of_products(values)) * (1.0 if function.squares else float(x[3] * y[3])), math.nan
    half = float(centred_by(values)[1])
    return (float(squares_by(values)[1]) * half**2, cut.answer) if function.squares else (half, math.nan)


def _usual(select: PrivateSelect, index: int, norms: Norms) -> Bounds | None:
    """Return what vectors are clipped to whose norms noise hides; None where nothing is meant to be usual."""
    aggregate, most = select.aggregates[index], select.contribution_of(index).most
    values = _values_of(aggregate) or norms.values or _within(aggregate)
    if values is None and function_of(aggregate.kind).paired:  # what is usual foretells errors, and bounds nothing
        return None
    usual = function_of(aggregate.kind).usual_norm(values, most) if most > 1 else None
    if usual is None or norms.weights is None:
        return usual
    return (*usual[:-1], usual[-1] * Fraction(norms.weights.longer))


def _within(aggregate: Aggregate) -> Bounds | None:
    """Return between which declared bounds values are, where these are found inside them; None where some are not."""
    if not function_of(aggregate.kind).paired:
        return aggregate.within
    first, other = (one.values or one.within for one in aggregate.operands)
    return None if first is None or other is None else of_both(first, other)


def _most_usual(select: PrivateSelect, index: int, norms: Norms) -> float:
    """Return the norm that no unit is meant to pass."""
    aggregate, usual = select.aggregates[index], _usual(select, index, norms)
    if usual is None:
        return math.inf
    if (values := _values_of(aggregate) or norms.values) is None or not is_centred(values):
        return float(usual[-1])
    times = 1.0 if norms.weights is None else norms.weights.longer
    function = function_of(aggregate.kind)
    longest = longest_pair if function.paired else longest_between
    return times * select.contribution_of(index).most * longest(values, squares=function.squares)


def _choices(select: PrivateSelect, index: int, norms: Norms) -> Choices | None:
    """Return the norms that units may be clipped to for a mean, of which the profile tells what units have."""
    assert norms.means is not None
    assert norms.even_groups is not None  # recorded with them
    aggregate, usual, farthest = select.aggregates[index], _most_usual(select, index, norms), FARTHEST
    function, scale = function_of(aggregate.kind), float(norms.scale)
    if (values := _values_of(aggregate) or norms.values) is not None and function.paired:
        x, y = (float((one[1] - one[0]) / 2 / one[3]) for one in each_of(values))
        farthest *= x * y / float(of_products(values))
    elif values is not None:
        away = float((values[1] - values[0]) / 2 / centred_by(values)[1])
        farthest *= away**2 / float(squares_by(values)[1]) if function.squares else away
    weighted = function.weighted or norms.weights is not None
    squares = function.squares or function.paired
    of = norms.counts, scale, norms.means, norms.even_groups, squares, usual, farthest, weighted
    return choices_for_means(*of)


def _to_choose_by(
    select: PrivateSelect, index: int, norms: Norms, noise: float
) -> tuple[tuple[int, ...], float, float, int, bool, float] | None:
    """Return what `norm_to_clip_at` takes; None where it is not known what vectors are centred by."""
    aggregate = select.aggregates[index]
    function = function_of(aggregate.kind)
    if function.centres and _values_of(aggregate) is None and norms.values is None:
        return None
    away, whole = AWAY if function.centres else 1.0, function.of != "numbers" or (function.adds and aggregate.integer)
    known = _most_usual(select, index, norms)
    return norms.counts, float(norms.scale), _as_wrong(norms, noise) / away, norms.groups, whole, known


def measured_weights(
    select: PrivateSelect,
    there: Totals,
    spent: int,
    accountant: Accountant,
    run: Run,
    draw: Draw,
) -> tuple[GroupWeights, float]:
    """Measure by what is multiplied what units have in groups, before their vectors are clipped.

    How large groups are takes half of what that may cost, and the other half by how much vectors grow by the weights
    that suit these sizes: they are used where the errors of all groups together are clearly less by them.

    Parameters
    ----------
    select, there
        The private aggregation, and the groups that will be shown, with what adds up to `SIZES`.
    spent
        What this may cost.
    accountant, run, draw
        As for `measured_profile`.

    Returns
    -------
    The weights, and how many groups of equal size would have as much noise on their means with them, on average.
    """
    law, quarter = accountant.law, spent // 4
    if not quarter:
        return GroupWeights(), 1.0
    exact = there.numbers[:, 0]
    scale = accountant.scale(2 * quarter, SIZES.largest**2)
    noise = math.sqrt(law.variance(scale))
    sizes = exact + draw(law.name, scale, exact.size)
    weights = weights_by_size(select.levels, there.keys, sizes, noise)
    if not weights.unlike:
        return weights, 1.0
    times = np.array(weights.of(select.levels, there.keys), dtype=float)
    scale = accountant.scale(2 * quarter, 2 * STEPS**2)
    counted, grown = lengthened(select.weighed(weights), run) + draw(law.name, scale, 2)
    unsure = math.sqrt(law.variance(scale))
    grown = (max(grown, 0) + unsure) * (weights.others**2 - 1) / max(counted, unsure)
    longer = math.sqrt(1.0 + grown)
    error = longer * math.sqrt((times**-2.0).mean())
    if error > WORTH:
        return GroupWeights(), 1.0
    return replace(weights, longer=longer, error=error), of_equal_size(np.maximum(sizes, noise) * times)


def measured_profile(
    select: PrivateSelect,
    known: Mapping[int, tuple[Bounds, Taken]],
    shares: Shares,
    accountant: Accountant,
    groups: int,
    even_groups: float,
    run: Run,
    draw: Draw,
    keep: histograms.Keep | None = None,
) -> tuple[dict[int, Norms], dict[str, Any], Shares]:
    """Measure what is not known of the profile of a private aggregation.

    Parameters
    ----------
    select
        The private aggregation.
    known
        Bounds of values that were found before, and what these take from an answer at most, by the number of the
        aggregate.
    shares
        What it costs.
    accountant
        The law of the noise.
    groups, even_groups
        How many groups there are, and how many of equal size would have as much noise on their means.
    run
        Executes a query in DuckDB's SQL.
    draw
        Draws noise of a law and a scale.
    keep
        Keeps the rows of a query that several others read; None where nothing can be kept.

    Returns
    -------
    The norms by the number of the aggregate, what is recorded, by what it is found by, and the shares, where what that
    did not cost is the answers'.
    """
    found: dict[int, Norms] = {}
    told: dict[str, Any] = {}
    values: dict[int, Bounds | None] = {}
    first: dict[int, int] = {}
    beside: dict[int, list[int]] = {}
    searched: dict[int, list[tuple[ValueHistogram, int] | None]] = {}
    rest: dict[int, int] = {}
    for at, (i, aggregate) in enumerate(operands(select)):
        if not select.clips(i) or not needs_bounds(select, i, shares.known) or aggregate.bounds is not None:
            continue
        if aggregate is not select.aggregates[i]:  # the other column of pairs, which are one vector
            continue
        first[i] = operands(select)[found_with(select, at, shares.known)][0]
        if first[i] != i:
            continue
        function, cost = function_of(aggregate.kind), shares.auto[at]
        declared = _values_of(aggregate)
        values[i], cut = known.get(i, (None, NOT_KNOWN)) if declared is None else (declared, NOT_KNOWN)
        if function.centres and values[i] is None:
            columns = _centred(aggregate)
            costs = of_columns(cost, len(columns), whole_of(select, shares, at))
            searched[i] = [
                measured_values(select, one, accountant, costs, run, draw, keep) if one.values is None else None
                for one in columns
            ]
            spent = sum(each[1] for each in searched[i] if each is not None)
            rest[at] = cost - spent - (cost := of_norms(cost, len(columns)))
        beside[i] = [cost // BESIDE * share for share in OF_MEANS] if function.centres else []
        scale = histogram_scale(accountant, cost - sum(beside[i]))
        found[i] = Norms((), scale, cost, groups, values[i] if function.centres else None, cut, weights=select.weights)
    shares = with_rest(select, shares, rest)
    for i, columns_found in searched.items():
        noise = _noise_of_values(select, i, cost_of(select, shares, i), accountant, even_groups)
        aggregate = select.aggregates[i]
        function, keys = function_of(aggregate.kind), iter(profile_keys(select, i)[1:])
        alone: MovedAlone = ()
        for one, each in zip(_centred(aggregate), columns_found, strict=True):
            if each is not None:
                histogram, spent = each
                values[i], cut = bounds, cut = histogram.bounds(one, noise, clipped=True)
                told[next(keys)] = _told_values(bounds, cut, spent, histogram, even_groups)
                if bounds is not None and not (function.weighted or function.paired):
                    alone = histogram.moved_alone(bounds, squares=function.squares)
        if function.paired:
            both = [None if each is None else each[0] for each in columns_found]
            values[i], cut = _of_clipped_pair(select.aggregates[i], both, noise)
        found[i] = replace(found[i], values=values[i], cut=cut, alone=alone)
    wanted = [i for i in found if values[i] is not None or not function_of(select.aggregates[i].kind).centres]
    read = select.vectors or select
    exact = histograms.norms(read, [(select.aggregates[i], values[i]) for i in wanted], run) if wanted else []
    counted = dict(zip(wanted, exact, strict=True))
    nothing = np.zeros(norm_edges().size - 1, dtype=np.int64)
    for i, norms in found.items():
        counts = counted[i].counts if i in counted else nothing
        noisy = counts + draw(accountant.noise, norms.scale, counts.size)
        found[i] = replace(norms, counts=tuple(map(int, noisy)))
        if i in counted and (sums := counted[i].sums) is not None:
            scales = [histogram_scale(accountant, each) * STEPS_OF_MEANS for each in beside[i]]
            means, ratios, squares = (
                tuple(map(int, part + draw(accountant.noise, scale, part.size)))
                for part, scale in zip(sums, scales, strict=True)
            )
            directed = is_centred(values[i] or ())
            unit_means = UnitMeans(means, ratios, squares, scales[0], scales[-1], directed)
            found[i] = replace(found[i], means=unit_means, even_groups=even_groups)
        told[profile_keys(select, i)[0]] = found[i].to_json()
    return {i: found[of] for i, of in first.items()}, told, shares


def measured_ranges(
    select: PrivateSelect,
    shares: Shares,
    accountant: Accountant,
    groups: int,
    run: Run,
    draw: Draw,
    keep: histograms.Keep | None = None,
) -> tuple[dict[int, Clip], dict[str, Any], Shares]:
    """Measure between which values rows lie, where each of them counts by itself and nothing is known of that.

    Parameters
    ----------
    select, shares, accountant, groups, run, draw, keep
        As for `measured_profile`.

    Returns
    -------
    The bounds by the number of the aggregate, without any where noise hides them, what is recorded, by what it is found
    by, and the shares, where what that did not cost is the answers'.
    """
    searched: dict[int, ValueHistogram] = {}
    spending: dict[int, int] = {}
    first: dict[int, list[tuple[Aggregate, int | None]]] = {}
    for at, (i, operand) in enumerate(operands(select)):
        if i in shares.known or not has_range(select, i):
            continue
        of = None if operand.bounds is not None else found_with(select, at, shares.known)
        first.setdefault(i, []).append((operand, of))
        if of is not None and of not in searched:
            costs = of_range(shares.auto[of], whole_of(select, shares, of))
            searched[of], spending[of] = measured_values(select, operand, accountant, costs, run, draw, keep)
    shares = with_rest(select, shares, {of: shares.auto[of] - spent for of, spent in spending.items()})
    found: dict[int, Clip] = {}
    told: dict[str, Any] = {}
    for i, columns in first.items():
        noise = _noise_of_values(select, i, cost_of(select, shares, i), accountant, groups)
        if function_of(select.aggregates[i].kind).paired:
            histograms = [None if of is None else searched[of] for _, of in columns]
            bounds, cut = _of_pair(select.aggregates[i], histograms, noise, accountant.law)
            found[i] = Clip(bounds, cut=cut)
        for operand, of in columns:
            if of is not None:
                bounds, cut = searched[of].bounds(operand, noise)
                found.setdefault(i, Clip(bounds, cut=cut))
                told[_range_key(select, operand)] = _told_values(bounds, cut, spending[of], searched[of], groups)
    return found, told, shares


def _noise_of_values(select: PrivateSelect, index: int, cost: int, accountant: Accountant, groups: float) -> float:
    """Return the noise that bounds of values are chosen for: a group has a share of the units, and its own noise."""
    l2, most = select.clips(index), select.contribution_of(index).most
    scale = accountant.scale(cost, 1 if l2 else most**accountant.law.power)
    # The histogram counts units, and a value is a row: nobody knows how many a unit has, between one and the most.
    return (LONGER if l2 else 1.0 / math.sqrt(most)) * groups * math.sqrt(accountant.law.variance(scale))


def _told_values(
    bounds: Bounds | None, cut: Taken, units: int, histogram: ValueHistogram, groups: float
) -> dict[str, Any]:
    """Return what is recorded of where values are."""
    values = None if bounds is None else [str(bound) for bound in bounds[:2]]
    told = {"values": values, "units": units} | _told_cut(cut)
    hidden = bounds is None or histogram.between is None  # bounds are what is declared then
    return told if hidden else told | {"histogram": histogram.to_json(), "even_groups": groups}


def _key(
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
    grouped = part == "norms" or select.selection == "public"
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
    return _key(part, select, aggregate, as_written=True)


def _earlier_key(part: str, select: PrivateSelect, aggregate: Aggregate) -> str:
    grouped = part == "norms" or select.selection == "public"
    keys = [[key.levels is not None, level_texts(key.levels)] for key in select.keys] if grouped else []
    rows = read_rows(select.rows)
    text = select.rows if rows is None else rows.narrowed(aggregate.input, grouped)
    told = [part, _kind(part, aggregate), aggregate.input is None, _bounds(aggregate), text, keys]
    return _digest([*told, select.groups if grouped else None])


def _kind(part: str, aggregate: Aggregate) -> str:
    function = function_of(aggregate.kind)
    return aggregate.kind if part == "norms" else "squares" * (function.squares or function.paired)


def _bounds(aggregate: Aggregate) -> list[str] | None:
    told = [None if one.values is None else list(map(str, one.values)) for one in _centred(aggregate)]
    if function_of(aggregate.kind).paired and aggregate.other is not None:
        return [dumps(one) for one in told]
    return None if aggregate.values is None else list(map(str, aggregate.values))


def _digest(told: list[Any]) -> str:
    return "profile " + hashlib.sha256(dumps(told).encode()).hexdigest()
