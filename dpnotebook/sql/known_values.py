"""Between which values rows lie, as profiles in the ledger tell, and which bounds suit the noise of an answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.sql.aggregates.budget_split import Shares, cost_of
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.centring import of_both
from dpnotebook.sql.aggregates.pair_bounds import Side, best_sides, taken_by
from dpnotebook.sql.aggregates.taken import NOT_KNOWN, Taken
from dpnotebook.sql.profile_keys import Books, all_keys, range_keys, ranged, recorded
from dpnotebook.sql.select import Aggregate, PrivateSelect
from dpnotebook.sql.value_histogram import ValueHistogram

COARSER = 4  # a histogram serves until a new one would have so many times less noise, where it found what it was for
HIDDEN = 2  # the same where noise hid that
# The same of how many rows, or different values, units have: how many answers lack is told by nothing else. Shares that
# statements of one price have for it are 2.5 times apart.
OF_NUMBERS = 2.6
# Bounds of pairs are chosen for so many times the noise of a mean: vectors with products in them are clipped to norms
# that are several times the number of rows of a unit.
NOISIER = 4.0
LONGER = 2.0  # times what a unit adds on average: the norm that vectors are taken to be clipped to while it is unknown
# In records, what bounds take from an answer.
CUT = ("cut_about", "cut", *(f"cut_{part}" for part in Taken._fields[2:]))


def ranges_told(select: PrivateSelect, told: Mapping[str, Any]) -> list[tuple[int, float, float]]:
    """Return between which values rows lie by a recorded profile: numbers of aggregates, and bounds; NaN if hidden.

    Of pairs of columns both are told, in their order.
    """
    found = []
    for i in range(len(select.aggregates)):
        for one in ranged(select, i):
            part = next((told[key] for key in range_keys(select, one) if key in told), None)
            if part is not None:
                values = part["values"]
                low, high = (math.nan, math.nan) if values is None else map(float, map(Fraction, values))
                found.append((i, low, high))
    return found


def serves(units: int, wanted: int, law: Law, *, hidden: bool = False, coarser: float = COARSER) -> bool:
    """Return whether a histogram serves where another one could be measured, which would have less noise.

    Parameters
    ----------
    units, wanted
        What it cost, and what the other one could, in the accountant's units.
    law
        Of the noise, which decides by how much that grows less.
    hidden
        Whether noise hid what it was for.
    coarser
        Until that has so many times less.
    """
    return noise_anew(units, wanted, law) * (HIDDEN if hidden else coarser) >= 1.0


def noise_anew(units: int, wanted: int, law: Law) -> float:
    """Return how many times the noise of a histogram another one would have; arguments as for `serves`."""
    return float((units / max(wanted, 1)) ** (1.0 / law.power))


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

    def is_enough(self, wanted: int, law: Law) -> bool:
        """Return whether it serves where values could be found anew for so many units; see `serves`."""
        return serves(self.units, wanted, law, hidden=not self.cut.known)

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
        noise = noise_of_values(select, index, cost_of(select, costs, index), accountant, self.among(select))
        bounds, cut = self.histogram.bounds(select.aggregates[index], noise, clipped=select.clips(index))
        return (self.bounds, self.cut) if bounds is None else (bounds, cut)

    def among(self, select: PrivateSelect) -> float:
        """Return about how many groups of equal size there are: those that are declared, or as many as were found."""
        return self.groups if None in select.levels else select.groups_of(select.levels)


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

    def is_enough(self, wanted: int, law: Law) -> bool:
        """Return whether both serve where each could be found anew for so many units."""
        return all(one.is_enough(wanted, law) for one in self.columns if one is not None)

    def anew(self, times: float) -> KnownPairs:
        """Return about what would be found with so many times the noise, in steps of four: prices share it."""
        times = 4.0 ** round(math.log(times, 4.0))
        return KnownPairs(tuple(None if one is None else one.anew(times) for one in self.columns))

    def suited(self, select: PrivateSelect, index: int, costs: Shares, accountant: Accountant) -> tuple[Bounds, Taken]:
        """Return the bounds of both columns, one behind the other, and what they take; see `KnownValues`."""
        told = next(one for one in self.columns if one is not None)
        noise = noise_of_values(select, index, cost_of(select, costs, index), accountant, told.among(select))
        histograms = [None if one is None else one.histogram for one in self.columns]
        if select.clips(index):
            bounds, cut = of_clipped_pair(select.aggregates[index], histograms, noise)
        else:
            bounds, cut = of_pair(select.aggregates[index], histograms, noise, accountant.law)
        if bounds is not None:
            return bounds, cut
        both = zip(self.columns, select.aggregates[index].operands, strict=True)
        return sum((one.bounds if one is not None else operand.bounds or () for one, operand in both), ()), Taken()


def of_pair(
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


def of_clipped_pair(
    aggregate: Aggregate, columns: Sequence[ValueHistogram | None], noise: float
) -> tuple[Bounds | None, Taken]:
    """Return what vectors of pairs are centred by, and what bounds of values take; arguments as for `of_pair`."""
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
        if not (sought := ranged(select, i)):
            continue
        best = [_best_values(range_keys(select, one), books) for one in sought]
        known = [one for one in best if one is not None]
        if len(known) < len(sought):
            continue
        if not function_of(aggregate.kind).paired:
            found[i] = known[0]
        elif all(one.histogram is not None for one in known):
            columns = iter(known)
            found[i] = KnownPairs(tuple(next(columns) if one.bounds is None else None for one in aggregate.operands))
    return found


def all_suited(
    select: PrivateSelect, ranges: Mapping[int, KnownValues | KnownPairs], costs: Shares, accountant: Accountant
) -> dict[int, tuple[Bounds, Taken]]:
    """Return the bounds that suit aggregates of which is known where values are, and what these take from answers.

    A sum that is read off the measurement of a mean has the bounds of that.

    Parameters
    ----------
    select, costs, accountant
        As for `KnownValues.suited`.
    ranges
        What is known, by the numbers of the aggregates.
    """
    found = {i: values.suited(select, i, costs, accountant) for i, values in ranges.items()}
    for i, values in ranges.items():
        if (of := costs.measured_by[i]) != i and of in found and function_of(select.aggregates[i].kind).adds:
            bounds, histogram = found[of][0], values.histogram
            cut = NOT_KNOWN if histogram is None else histogram.taken(select.aggregates[i], bounds)
            found[i] = bounds, cut
    return found


def known_values(select: PrivateSelect, index: int, books: Books) -> KnownValues | KnownPairs | None:
    """Return between which values most rows were found to lie before, where vectors are centred by these."""
    aggregate = select.aggregates[index]
    if function_of(aggregate.kind).paired:
        keys = iter(zip(*(every[1:] for every in all_keys(select, index)), strict=True))
        sought = [one.values is None for one in aggregate.operands]
        columns = [_best_values(next(keys), books) if wanted else None for wanted in sought]
        if not any(sought) or any(
            wanted and (one is None or one.histogram is None) for wanted, one in zip(sought, columns, strict=True)
        ):
            return None
        return KnownPairs(tuple(columns))
    return _best_values([keys[1] for keys in all_keys(select, index) if len(keys) > 1], books)


def _best_values(keys: Iterable[str], books: Books) -> KnownValues | None:
    """Return what the least noisy histograms told."""
    told = (part for key in keys for part in recorded(books.records(key), key))
    parts = [part for part in told if part["values"] is not None]
    if not parts:
        return None
    best = max(parts, key=lambda part: int(part["units"]))
    low, high = map(Fraction, best["values"])
    histogram = ValueHistogram.from_json(best["histogram"]) if "histogram" in best else None
    return KnownValues((low, high), cut_told(best), int(best["units"]), histogram, best.get("even_groups", math.nan))


def cut_told(told: Mapping[str, Any]) -> Taken:
    """Return what bounds of values take from an answer; NaN in records of before that was told."""
    return Taken(*(float(told.get(part, math.nan)) for part in CUT))


def cut_to_json(cut: Taken) -> dict[str, float]:
    """Return the part of a record that `cut_told` reads: none where it is not known."""
    return {part: number for part, number in zip(CUT, cut, strict=True) if math.isfinite(number)}


def noise_of_values(select: PrivateSelect, index: int, cost: int, accountant: Accountant, groups: float) -> float:
    """Return the standard deviation of noise for which bounds of values are chosen, over all groups together.

    Each group has noise of its own and a share of the units only: so it is that of one group times their number.
    """
    l2, most = select.clips(index), select.contribution_of(index).most
    scale = accountant.scale(cost, 1 if l2 else most**accountant.law.power)
    # The histogram counts units, and a value is a row: nobody knows how many a unit has, between one and the most.
    return (LONGER if l2 else 1.0 / math.sqrt(most)) * groups * math.sqrt(accountant.law.variance(scale))


def values_told(
    bounds: Bounds | None, cut: Taken, units: int, histogram: ValueHistogram, groups: float
) -> dict[str, Any]:
    """Return what is recorded of where values are."""
    values = None if bounds is None else [str(bound) for bound in bounds[:2]]
    told = {"values": values, "units": units} | cut_to_json(cut)
    hidden = bounds is None or histogram.between is None  # bounds are what is declared then
    return told if hidden else told | {"histogram": histogram.to_json(), "even_groups": groups}
