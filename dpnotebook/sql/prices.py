"""From an accuracy to a price, and from a price to what each aggregate of a statement gets and how wrong it will be."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.parts import PART
from dpnotebook.errors import AccuracyError, SQLError, shorten
from dpnotebook.planner.ledger_view import LedgerView
from dpnotebook.planner.plan import MANY_ROWS, PlannedMeasure
from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.privacy.spend import CellCost, CostTerm
from dpnotebook.query.question import Accuracy
from dpnotebook.sql.aggregates.bounds import check_scales
from dpnotebook.sql.aggregates.budget_split import Shares, cost_of_finding, counts_values, needs_bounds, shares
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.expected import FOUND_FIRST, error_shown, expected, fills_bounds, unit
from dpnotebook.sql.aggregates.function import Expectation, KnownGroups, counting
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.moved import with_moved
from dpnotebook.sql.aggregates.quantiles import OF_RANK
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.aggregates.what_is_lost import with_lost_planned
from dpnotebook.sql.known_values import KnownPairs, KnownValues, all_suited, known_ranges, known_values
from dpnotebook.sql.measured_units import KnownUnits, known_units
from dpnotebook.sql.profile import Clip, Norms, certain_clips, clips, is_enough
from dpnotebook.sql.rows_profile import counted_rows, known_rows, rows_sought
from dpnotebook.sql.select import Aggregate, PrivateSelect, is_column
from dpnotebook.sql.statement import Statement
from dpnotebook.sql.values_profile import KnownNewValues, known_new_values

LEAST_UNITS = 1000
NO_LEVELS = (
    "how far a quantile is off in what its values are counted in depends on how close together these lie, and no "
    "release tells that yet; give epsilon= instead. What that finds is kept: error= can be planned for this afterwards"
)
SelectGroups = Sequence[Sequence[KnownGroups | None]]  # of each aggregate of each private aggregation
DELTA_STEP = 10**24  # the ledger keeps deltas in whole numbers of its inverse
MOST_TRIES = 60
GUESSES = 12  # from the law of the noise; then the middle is tried
CLOSE, CLOSE_TO_JUMPS = 5000, 64  # one part of a price in so many is not looked for; where errors jump
SMALL, SMALLEST = 17, 40  # halvings of the budget: a search begins there, or lower if that keeps the error
ALIKE = 0.99  # times an error or more, which a dearer price has: then far dearer ones are looked at
RISES = 1.25  # times as dear as before is the first of these, and each one the square of that dearer
FAR = 10**6  # budgets: beyond them, nothing is looked for where errors hardly fall


class _Unknown(AccuracyError):
    """An error is not known at any price."""


class RecordedStatement(Protocol):
    """A release of a statement, as the ledger has it."""

    @property
    def number(self) -> int:
        """Its number in the ledger."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """What was planned."""

    @property
    def answers(self) -> Sequence[NDArray[np.int64]]:
        """Noisy numbers of the groups that were shown, one array a private aggregation."""

    @property
    def details(self) -> Mapping[str, Any]:
        """The keys of these groups, and what was measured of them."""


class StatementBooks(LedgerView, Protocol):
    """The ledger, as planning a statement sees it."""

    @property
    def refining(self) -> frozenset[tuple[int, int]]:
        """The releases, with places in them, that charges make sharper whose answers were not recorded."""

    @property
    def threshold_delta(self) -> Fraction:
        """The part of the budget's delta that is kept for thresholds."""

    @property
    def delta_remaining(self) -> Fraction:
        """What is left of it."""

    @property
    def told(self) -> Callable[[str, Callable[[RecordedStatement], Any]], Sequence[Any]]:
        """Finds what a function tells of each recorded answer to a question; that is kept."""

    @property
    def get(self) -> Callable[[int], RecordedStatement]:
        """Finds the record of a number."""


@dataclass(frozen=True)
class Priced:
    """Private aggregations at one price, each with what it measures."""

    shares: tuple[int, ...]
    deltas: tuple[Fraction, ...]
    measurings: tuple[Measuring, ...]
    parts: tuple[PlannedMeasure, ...]
    clips: tuple[Mapping[int, Clip], ...]
    rows: tuple[CountedRows | None, ...] = ()  # of a unit, that count: as was found; None where it is not to be found
    filled: bool = False  # whether noise fills the bounds of some answer


class Finding(Enum):
    """Which of the bounds that are known from earlier statements one finds anew from the data.

    ROUGH: those that are known from much noisier histograms than it can pay for; where an epsilon is said.
    NOTHING: none, what is known serves; for an error, which has to be known before.
    ALL: all of them, with less noise; for an error, which is foretold from what is known.
    """

    ROUGH = "rough"
    NOTHING = "nothing"
    ALL = "all"

    @classmethod
    def usual(cls, accuracy: Accuracy) -> Finding:
        """Return what is found anew where nothing else is cheaper."""
        return cls.NOTHING if accuracy.epsilon is None else cls.ROUGH

    @property
    def for_error(self) -> bool:
        """Whether an error is said, which is of noise and of what bounds take, as far as that is foretold."""
        return self is not Finding.ROUGH


class Price(NamedTuple):
    """What a statement costs to be as accurate as asked.

    Parameters
    ----------
    units
        In the accountant's units.
    finding
        What is found anew for that.
    """

    units: int
    finding: Finding


def price(
    statement: Statement,
    units: int,
    books: StatementBooks,
    confidence: float,
    groups: SelectGroups = (),
    known: Sequence[Mapping[int, Norms]] = (),
    finding: Finding = Finding.ROUGH,
) -> Priced:
    """Return what each private aggregation of a statement gets of a price in units, and the errors that gives.

    Parameters
    ----------
    statement, units, books, confidence
        What is asked, at which price, of which ledger, and with which confidence.
    groups
        What is known of the groups of aggregates, where there is such a thing.
    known
        What is known of the norms of each private aggregation.
    finding
        What of that is found anew.
    """
    each = split(statement.selects, units, books.accountant)
    pricing = _Pricing(statement.units, books, confidence, finding)
    found = [
        pricing.priced(select, share, known[place] if known else {}, groups[place] if groups else ())
        for place, (select, share) in enumerate(zip(statement.selects, each, strict=True))
    ]
    return Priced(
        each,
        tuple(one.delta for one in found),
        tuple(one.measuring for one in found),
        tuple(part for one in found for part in one.parts),
        tuple(one.clips for one in found),
        tuple(one.rows for one in found),
        any(one.filled for one in found),
    )


class _PricedSelect(NamedTuple):
    """What `Priced` has of one private aggregation."""

    delta: Fraction
    measuring: Measuring
    parts: tuple[PlannedMeasure, ...]
    clips: Mapping[int, Clip]
    rows: CountedRows | None
    filled: bool


class _Usable(NamedTuple):
    """What need not be found from the data at some price, by the numbers of the aggregates.

    Parameters
    ----------
    certain
        Norms that need no measurement.
    norms, ranges, of_units
        What was measured precisely enough: norms of units, bounds of values, and how many different values units have
        or what they have on average.
    """

    certain: Mapping[int, Clip]
    norms: Mapping[int, Norms]
    ranges: Mapping[int, KnownValues | KnownPairs]
    of_units: Mapping[int, KnownNewValues | KnownUnits]


@dataclass(frozen=True)
class _Pricing:
    """What the private aggregations of a statement are priced with: as for `price`.

    Parameters
    ----------
    counted_in
        What the values of columns are counted in, where that is said.
    """

    counted_in: Mapping[str, str]
    books: StatementBooks
    confidence: float
    finding: Finding

    def priced(
        self, select: PrivateSelect, share: int, norms: Mapping[int, Norms], groups: Sequence[KnownGroups | None]
    ) -> _PricedSelect:
        """Return what a private aggregation gets of its share of a price, and the errors that gives.

        Parameters
        ----------
        select, share
            The private aggregation, and what it may cost, in the accountant's units.
        norms, groups
            What is known of its norms, and of the groups of each of its aggregates.
        """
        accountant, asked = self.books.accountant, select
        delta = threshold_delta(select, share, self.books)
        rows, noisier = self._rows(select, share)
        if rows is not None:
            select = select.with_rows(rows.most)
        certain = certain_clips(select)
        costs = shares(asked if self._all_anew else select, share, accountant, certain)
        usable = self._usable(select, costs, certain, norms)
        foretold = _FoundAnew.of(select, costs, usable, accountant) if self._all_anew else None
        if foretold is not None and rows is not None:
            rows = rows.told_with(noisier ** (-1.0 / accountant.law.power))
        costs, found = self._clips(select, share, costs, usable)
        bounds = _bounds_of(found)
        measured = measuring(_usually(select), costs, accountant, delta, bounds)
        told_by = [{i: getattr(clip, name) for i, clip in found.items()} for name in ("moved", "cut")]
        if foretold is not None:
            told_by = [foretold.taken(by) for by in told_by]
            told_by[1] |= foretold.cuts(select, costs, self.books)
        measured = with_moved(measured, *told_by, rows=rows)
        if not self.finding.for_error:  # of counts and sums an error that is asked for is one of noise
            lost = {i: clip.lost for i, clip in found.items()}
            measured = with_lost_planned(measured, lost, rows, groups)
        check_scales(select, costs, accountant, delta)
        of_rows = 1.0 if rows is None else rows.kept
        kept = [
            found[i].kept if i in found else 1.0 if select.clips(i) else of_rows for i in range(len(select.aggregates))
        ]
        sized, ends = counting(groups, kept), _ends(select, costs, accountant, delta, bounds)
        errors = expected(measured, self.confidence, sized, of_all=self.finding.for_error)
        at_ends = [expected(one, self.confidence, sized, of_all=self.finding.for_error) for one in ends]
        sought = _sought(select, found)
        parts = [
            self._measure(select, i, error, measured.parts[i], [one[i].half_width for one in at_ends], i in sought)
            for i, error in enumerate(errors)
        ]
        filled = any(fills_bounds(part, error) for part, error in zip(measured.parts, errors, strict=True))
        if foretold is None:
            return _PricedSelect(delta, measured, tuple(parts), found, rows, filled)
        # What is measured is still to be found.
        measured = measuring(_usually(asked), costs, accountant, delta, _bounds_of(certain))
        return _PricedSelect(delta, measured, tuple(parts), certain, None, filled)

    @property
    def _law(self) -> Law:
        return self.books.accountant.law

    @property
    def _all_anew(self) -> bool:
        """Whether all bounds are found anew, so that what is known only foretells the error."""
        return self.finding is Finding.ALL

    def _rows(self, select: PrivateSelect, share: int) -> tuple[CountedRows | None, float]:
        """Return how many rows of a unit count, as was found before, and how much more a new histogram would cost.

        That is a factor, of what the known histogram cost; None and 1 where rows are not sought, or still to be found.
        """
        histogram = rows_sought(select, self.books, share, self._law, renew=not self.finding.for_error)
        if histogram is None:
            return None, 1.0
        costs = shares(select, share, self.books.accountant)
        found = counted_rows(histogram.told, select, costs, self.books.accountant)
        return found, max(costs.rows, 1) / histogram.told.units

    def _usable(
        self, select: PrivateSelect, costs: Shares, certain: Mapping[int, Clip], norms: Mapping[int, Norms]
    ) -> _Usable:
        """Return what is known precisely enough for what finding it would cost: for an error all that is known."""

        of_units: dict[int, KnownNewValues | KnownUnits] = {
            **known_new_values(select, self.books),
            **known_units(select, self.books),
        }

        def is_enough_of(i: int, known: KnownValues | KnownPairs | KnownNewValues | KnownUnits) -> bool:
            return self.finding.for_error or known.is_enough(cost_of_finding(select, costs, i), self._law)

        return _Usable(
            certain,
            {
                i: told
                for i, told in norms.items()
                if i not in certain
                and (self.finding.for_error or is_enough(select, i, told, cost_of_finding(select, costs, i), self._law))
            },
            {i: told for i, told in known_ranges(select, self.books).items() if is_enough_of(i, told)},
            {i: told for i, told in of_units.items() if is_enough_of(i, told)},
        )

    def _clips(
        self, select: PrivateSelect, share: int, costs: Shares, usable: _Usable
    ) -> tuple[Shares, dict[int, Clip]]:
        """Return what aggregates may cost, and to what they are clipped, which suits the noise of that.

        What need not be found leaves the answers more; not where it is to be found anew.
        """
        accountant = self.books.accountant
        at_hand = {*usable.certain, *usable.ranges, *usable.of_units}
        if at_hand and not self._all_anew:
            costs = shares(select, share, accountant, at_hand)
        suits = all_suited(select, usable.ranges, costs, accountant)
        suited = {i: Clip(bounds, cut=cut) for i, (bounds, cut) in suits.items()}
        suited |= {i: one.clip(select, i, costs, accountant) for i, one in usable.of_units.items()}
        if usable.norms and not self._all_anew:
            costs = shares(select, share, accountant, {**usable.norms, **usable.certain, **suited})
        found = clips(select, usable.norms, costs, accountant, layered=not self.finding.for_error)
        return costs, {**found, **usable.certain, **suited}

    def _measure(
        self,
        select: PrivateSelect,
        index: int,
        error: Expectation,
        part: AggregateInput,
        at_ends: Sequence[float],
        sought: bool,
    ) -> PlannedMeasure:
        """Return the error of an aggregate as a plan shows it: a range where it depends on what is still to be found.

        Parameters
        ----------
        select, index, part
            The aggregate, and what it is worked out from.
        error
            Its error, by what is known.
        at_ends
            Half-widths of its interval if every unit had one row, and if each had many.
        sought
            Whether it is still to be found to what it is clipped.
        """
        aggregate = select.aggregates[index]
        function = function_of(aggregate.kind)
        error, counted_in = error_shown(select, index, error, self.counted_in)
        std_error = float(np.max(error.std_errors)) if error.std_errors.size else math.nan
        half_width, half_widths = error.half_width, at_ends
        inside = aggregate.inside and part.bounds is None and not function.levelled  # errors of these are in ranks
        by_values = inside or (sought and function.usual_norm(None, 1) is None)
        if select.rows_if_hidden and not select.clips(index):
            by_values, half_width, std_error = inside, math.nan, math.nan
        elif inside and not at_ends:
            half_widths, half_width, std_error = [half_width], math.nan, math.nan
        return PlannedMeasure(
            aggregate.name,
            aggregate.words or aggregate.name,
            counted_in,
            std_error,
            half_width,
            error.note,
            _range(half_widths) if math.isnan(half_width) else None,
            by_values,
            _what_to_say(aggregate) if by_values and not (aggregate.values or inside) else "",
            _reach(aggregate, select.clips(index)) if inside else None,
        )


@dataclass(frozen=True)
class _FoundAnew:
    """How much less noise the histograms of a profile will have when they are measured anew, than those that are known.

    Parameters
    ----------
    times
        What bounds will take from an answer, times what they take by the histograms that are known, by the number of
        the aggregate: about in proportion to the noise of these.
    """

    times: Mapping[int, float]

    @classmethod
    def of(cls, select: PrivateSelect, costs: Shares, usable: _Usable, accountant: Accountant) -> _FoundAnew:
        """Return it for what the histograms will cost; see `price`."""
        known = {**usable.ranges, **usable.norms, **usable.of_units}
        less = {i: one.units / max(cost_of_finding(select, costs, i), 1) for i, one in known.items()}
        return cls({i: times ** (1.0 / accountant.law.power) for i, times in less.items()})

    def cuts(self, select: PrivateSelect, costs: Shares, books: StatementBooks) -> dict[int, Taken]:
        """Return what bounds of values will take from variances, which noise of the known histogram decides about."""
        found = {}
        for i, times in self.times.items():
            if not function_of(select.aggregates[i].kind).squares:
                continue
            values = known_values(select, i, books) if select.clips(i) else known_ranges(select, books).get(i)
            if values is not None and values.histogram is not None:
                found[i] = values.anew(times).suited(select, i, costs, books.accountant)[1]
        return {i: cut for i, cut in found.items() if cut.known}

    def taken(self, known: Mapping[int, Taken]) -> dict[int, Taken]:
        """Return what bounds will take, given what they take now."""
        return {i: taken.times(self.times.get(i, 1.0)) for i, taken in known.items()}


def _bounds_of(clipped: Mapping[int, Clip]) -> dict[int, Bounds | None]:
    return {i: clip.bounds for i, clip in clipped.items()}


def _usually(select: PrivateSelect) -> PrivateSelect:
    """Return a private aggregation with as many rows of a unit as count if noise hides how many should."""
    return select.with_rows(select.rows_if_hidden) if select.rows_if_hidden else select


def _ends(
    select: PrivateSelect,
    costs: Shares,
    accountant: Accountant,
    delta: Fraction,
    found: Mapping[int, tuple[Fraction, ...] | None],
) -> list[Measuring]:
    """Return what would be measured if every unit had one row, and if each had many: the ends of what errors may be.

    An empty list where nothing is still to be found that depends on how many rows units have.
    """
    if not (sought := _sought(select, found)) and not select.rows_if_hidden:
        return []
    measured = []
    for rows in sorted({1, MANY_ROWS if sought else min(MANY_ROWS, select.most_counted)}):
        drawn = select.with_rows(min(rows, select.most_counted)) if select.rows_if_hidden else select
        aggregates = ((i, select.aggregates[i]) for i in sought)
        norms = {i: function_of(one.kind).usual_norm(one.values or one.within, rows) for i, one in aggregates}
        known = {i: norm for i, norm in norms.items() if norm is not None}
        measured.append(measuring(drawn, costs, accountant, delta, {**found, **known}))
    return measured


def _sought(select: PrivateSelect, found: Collection[int]) -> list[int]:
    """Return the numbers of the aggregates of which the norm, or how many values count, is still to be found."""
    found_first = (i for i in range(len(select.aggregates)) if select.clips(i) or counts_values(select, i))
    return [i for i in found_first if needs_bounds(select, i, found)]


def _what_to_say(aggregate: Aggregate) -> str:
    """Return what makes the error of an aggregate known before a first run, where nothing is known of its values.

    Nothing makes that of a mean in which rows have weights known.
    """
    if function_of(aggregate.kind).weighted:
        return ""
    per = "row" if function_of(aggregate.kind).rowwise else "group"
    column = f"declare {shorten(aggregate.argument)} in domain=, or " if is_column(aggregate.argument) else ""
    return f"to know it before a first run, {column}write contribution_bounds_per_{per} => (lower, upper)"


def _reach(aggregate: Aggregate, clipped: bool) -> tuple[float, str] | None:
    """Return the number that noise of a sum or a mean is in proportion to, and what that is, in words; else None.

    That is how far declared values reach from 0 for sums, and how far they lie apart for means; or how they are spread
    for means of clipped vectors, which are centred. Other aggregates are not linear in their values.
    """
    function = function_of(aggregate.kind)
    if aggregate.within is None or function.squares or function.paired or not (function.adds or function.centres):
        return None
    low, high = map(float, aggregate.within)
    if function.adds:
        return max(-low, high), "that values reach from 0"
    return ((high - low) / 2, "of their standard deviation") if clipped else (high - low, "that values lie apart")


def _range(half_widths: Sequence[float]) -> tuple[float, float] | None:
    """Return the ends of a range of half-widths; None where one is not known."""
    known = bool(half_widths) and all(map(math.isfinite, half_widths))
    return (min(half_widths), max(half_widths)) if known else None


def threshold_delta(select: PrivateSelect, units: int, books: StatementBooks) -> Fraction:
    """Return what the threshold of a private aggregation takes of the delta that is kept for thresholds.

    As much of it as the aggregation takes of the whole budget: so a budget that is not exceeded always has enough.

    Raises
    ------
    SQLError
        If it needs a threshold, and the budget keeps no delta for one.
    """
    if select.selection != "threshold":
        return Fraction(0)
    if not books.threshold_delta:
        unknown = ", ".join(key.name for key in select.keys if key.levels is None) or "these keys"
        public = ", ".join(select.public)
        listed = f". All values of a public table, as {public}, are groups where a frame of it is registered"
        raise SQLError(
            f"which groups of {unknown} exist is not known beforehand, and hiding those of few people takes a budget "
            f"with delta: dpn.Budget(epsilon=..., delta=1e-6). Or write out which you want, as in WHERE column IN "
            f"('a', 'b') or WHERE day >= '2024-01-01' AND day < '2025-01-01'; or declare the levels of {unknown}, or "
            f"of what it is worked out from, in domain={listed if public else ''}"
        )
    share = min(books.threshold_delta * units / books.accountant.total, books.threshold_delta)
    if select.delta is not None:
        share = min(share, select.delta)
    delta = Fraction(math.floor(share * DELTA_STEP), DELTA_STEP)
    if not delta:
        raise SQLError("the threshold that hides small groups needs a delta above 0; write delta = 1e-7, for example")
    return delta


def units_for(
    statement: Statement,
    accuracy: Accuracy,
    books: StatementBooks,
    groups: SelectGroups = (),
    known: Sequence[Mapping[int, Norms]] = (),
    lowest: int = LEAST_UNITS,
) -> Price:
    """Return the least price, its units rounded up to four figures, at which a statement is as accurate as asked.

    Parameters
    ----------
    statement, accuracy, books
        What is asked, how good the answer must be or what it may cost, and the budget.
    groups
        What is known of the groups of aggregates, where there is such a thing.
    known
        What is known of the norms of each private aggregation.
    lowest
        The least price, in units, that an error may have.

    Raises
    ------
    AccuracyError
        If the accuracy cannot be planned for.
    """
    if accuracy.relative is not None:
        raise AccuracyError(
            f"error='{accuracy.percent}' is planned from a past noisy answer to the same statement, of one column, and "
            "none tells how large that is yet: ask it once with epsilon=, or say error= in the answer's own units"
        )
    if accuracy.epsilon is not None:
        return Price(books.accountant.units(accuracy.epsilon), Finding.usual(accuracy))
    aim = accuracy.error if accuracy.error is not None else math.sqrt(accuracy.variance or 0.0)
    check_target(statement, accuracy)

    def reached(finding: Finding, units: int) -> float:
        priced = price(statement, units, books, accuracy.confidence, groups, known, finding)
        parts = priced.parts
        if any(part.unit == OF_RANK for part in parts):
            raise _Unknown(f"{accuracy.text} cannot be planned: {NO_LEVELS}")
        worst = max(part.half_width if accuracy.error is not None else part.std_error for part in parts)
        if not math.isfinite(worst):
            reason = parts[0].note or "the error is not known beforehand"
            after = ". What that finds is kept: error= can be planned for this afterwards" * (FOUND_FIRST in reason)
            raise AccuracyError(f"{accuracy.text} cannot be planned: {reason}; give epsilon= instead{after}")
        # Bounds that are narrower than what is asked for would keep any error: more noise than they have tells nothing.
        return max(worst, 2 * aim) if priced.filled else worst

    grows = any(known) or any(certain_clips(select) or select.rows_if_hidden for select in statement.selects)
    found: list[Price] = []
    refused: AccuracyError | None = None
    findings = (Finding.NOTHING, Finding.ALL) if _may_be_found_anew(statement, known, books) else (Finding.NOTHING,)
    for finding in findings:
        most = min((one.units for one in found), default=None)
        try:
            at = partial(reached, finding)
            units = least(at, aim, books.accountant, from_below=grows, lowest=lowest, most=most)
            found.append(Price(units, finding))
        except AccuracyError as error:
            refused = refused or error
    if not found:
        assert refused is not None
        raise refused
    best = min(found, key=lambda one: one.units)
    if (
        best.finding is Finding.NOTHING
        and best.units > books.accountant.total
        and _are_rough(statement, best.units, known, books.accountant)
    ):
        raise AccuracyError(
            f"{accuracy.text} cannot be planned: how much one unit adds is known too roughly for that. A statement "
            "with epsilon= finds it more precisely, the more the larger it is; then error= can be planned from that"
        )
    return best


def check_target(statement: Statement, accuracy: Accuracy) -> None:
    """Raise AccuracyError if no error can hold for what a statement measures: several units, or values without an end.

    Parameters
    ----------
    statement, accuracy
        What is asked, and the error or the variance that its answers are to keep.
    """
    asked = [(select, i, one) for select in statement.selects for i, one in enumerate(select.aggregates)]
    if len(kinds := sorted({_shown_in(*one, statement.units) or "plain numbers" for one in asked})) > 1:
        raise AccuracyError(
            f"{accuracy.text} cannot hold for {' and '.join(kinds)} at once; give epsilon=, or ask them apart"
        )
    for select, i, one in asked:
        ends = function_of(one.kind).levelled and not {0.0, 1.0}.isdisjoint(one.fractions)
        if ends and needs_bounds(select, i) and one.within is None:
            raise AccuracyError(
                f"{accuracy.text} cannot be planned: the least and the greatest of all values may lie anywhere beyond "
                "bounds that are found from the data, so that their intervals have no end. Write bounds, such as "
                f"MAX({shorten(one.argument)}, contribution_bounds_per_row => (0, 100)), or give epsilon="
            )


def _shown_in(select: PrivateSelect, index: int, aggregate: Aggregate, units: Mapping[str, str]) -> str:
    """Return what the intervals of an aggregate are counted in."""
    function = function_of(aggregate.kind)
    return function.unit_of_values(aggregate, units) if function.levelled else unit(select, index, units)


def _may_be_found_anew(statement: Statement, known: Sequence[Mapping[int, Norms]], books: StatementBooks) -> bool:
    """Return whether bounds are known from histograms that take something from answers, which finer ones do less."""
    centred = [
        [i for i, one in enumerate(select.aggregates) if function_of(one.kind).centres] for select in statement.selects
    ]
    norms = any(i in told for told, of in zip(known, centred, strict=False) for i in of)
    drawn = [any(function_of(one.kind).levelled for one in select.aggregates) for select in statement.selects]
    rows = any(
        (of or levelled) and known_rows(select, books)
        for select, of, levelled in zip(statement.selects, centred, drawn, strict=True)
    )
    return (
        norms
        or rows
        or any(known_units(select, books) for select in statement.selects)
        or any(
            i in known_ranges(select, books) for select, of in zip(statement.selects, centred, strict=True) for i in of
        )
    )


def _are_rough(statement: Statement, units: int, known: Sequence[Mapping[int, Norms]], accountant: Accountant) -> bool:
    """Return whether norms are known from histograms that are far noisier than a price would make new ones."""
    each = split(statement.selects, units, accountant)
    found = (
        (select, shares(select, share, accountant), told)
        for select, share, told in zip(statement.selects, each, known, strict=True)
    )
    return any(
        not is_enough(select, i, norms, cost_of_finding(select, costs, i), accountant.law)
        for select, costs, told in found
        for i, norms in told.items()
        if i not in certain_clips(select)
    )


def at_epsilon(statement: Statement, accountant: Accountant) -> tuple[Statement, float | None]:
    """Return a statement without the epsilon that it says itself, and that epsilon; None where it says none.

    Several private aggregations keep theirs as their weights in the whole.
    """
    given = [select.epsilon for select in statement.selects]
    if all(epsilon is None for epsilon in given):
        return statement, None
    if any(epsilon is None for epsilon in given):
        raise SQLError("one of the private queries says its epsilon and another does not: write it in all, or in none")
    total = sum(accountant.units(epsilon) for epsilon in given)
    if len(given) == 1:
        (epsilon,) = given
        assert epsilon is not None
        return replace(statement, selects=(replace(statement.selects[0], epsilon=None),)), float(epsilon)
    return statement, accountant.epsilon(total)


def conflicting(own: float, given: Mapping[str, object]) -> None:
    """Refuse an accuracy that is given beside a statement that says its epsilon.

    Raises
    ------
    AccuracyError
        If one is.
    """
    for name, value in given.items():
        if value is not None and not (name == "epsilon" and value == own):
            raise AccuracyError(
                f"the statement says epsilon = {own:g} in its OPTIONS, and {name}={shorten(value)} is given beside "
                "it: leave "
                "one of them out"
            )


def cost_of(statement: Statement, units: int, books: StatementBooks) -> CellCost:
    """Return a cost that is the same in every cell, as a statement may look at any of them; of the parts it reads."""
    norms = {}
    if statement.parts is not None and statement.parts[0] == books.spend.sizes.get(PART):
        norms[PART] = np.isin(np.arange(1, statement.parts[0] + 1), statement.parts[1]).astype(np.int64)
    return CellCost((CostTerm(Fraction(units), norms),))


def split(selects: Sequence[PrivateSelect], units: int, accountant: Accountant) -> tuple[int, ...]:
    """Share a price among private aggregations, as the statement weighs them or evenly; some units may be left."""
    given = [None if select.epsilon is None else accountant.units(select.epsilon) for select in selects]
    known = [weight for weight in given if weight is not None]
    usual = max(sum(known) // len(known), 1) if known else 1
    weights = [usual if weight is None else weight for weight in given]
    return tuple(units * weight // sum(weights) for weight in weights)


def least(
    reached: Callable[[int], float],
    aim: float,
    accountant: Accountant,
    *,
    from_below: bool,
    lowest: int = LEAST_UNITS,
    most: int | None = None,
) -> int:
    """Return the least units, rounded up to four figures, whose error is at most `aim`; errors fall as units rise.

    Where norms are chosen by the price, and grow with it, errors fall more slowly and can even rise. Then a price that
    keeps the error says nothing about lower ones, and the search goes up from the cheapest (`from_below`).

    Parameters
    ----------
    reached
        Gives the error at a price.
    aim
        The error that is asked for.
    accountant
        Of the budget.
    from_below
        Whether the search starts at the cheapest price, and not at the whole budget.
    lowest
        No price is below this.
    most
        About how much is worth looking at; None for whatever noise can be drawn.

    Raises
    ------
    AccuracyError
        If no noise that can be drawn keeps the error.
    """
    reached, power = cache(reached), accountant.law.power
    low, high, units = 0, 0, max(accountant.total, lowest)
    if from_below:
        start = _cheapest(reached, accountant.total, SMALL)
        if reached(start) <= aim:
            start = _cheapest(reached, accountant.total, SMALLEST)
        units = lowest = max(start, lowest)
    rises, stairs, hopeless = RISES, False, False
    for tried in range(MOST_TRIES):
        error = reached(units)
        beside = high if error <= aim else low
        alike = bool(beside) and ALIKE * reached(beside) < error < reached(beside) / ALIKE
        stairs = stairs or (alike and bool(high))
        if error <= aim:
            high = units
        else:
            rises = rises**2 if alike and not high else RISES
            hopeless = rises > RISES and units > FAR * accountant.total
            if hopeless:
                break
            low = units
        if high and high - low <= _near(reached, low, high, power):
            break
        if low and high and aim > 0:
            guess = round(_passed(aim, (low, reached(low)), (high, reached(high))) * 1.0001)
        else:
            guess = round(units * (error / aim) ** power * 1.0001) if aim > 0 else 2 * units
        least, near = max(low + 1, lowest), max(high // CLOSE, 1)
        if not high:
            units = max(guess, least, round(rises * units) if rises > RISES else 0)
        elif error <= aim and guess >= high - near:  # as near as one looks, if a little less is not enough
            units = max(high - near, least)
        elif least < guess < high and not stairs and tried < GUESSES:
            units = guess
        else:  # errors that jump, or hardly fall, are no guide
            units = max(math.isqrt(least * high), least)
        if high and units >= high:
            break
        if units > accountant.total * 10**9 or (most is not None and low >= most):
            break
        units = units if most is None or high else min(units, max(most, least))
    if not high and hopeless:
        raise AccuracyError(
            "no price comes near to keeping this error, as far as is known now; ask for a larger one, or give epsilon="
        )
    if not high:
        raise AccuracyError("no noise that can be drawn keeps this error; ask for a larger one, or give epsilon=")
    step = 10 ** max(len(str(high)) - 4, 0)
    rounded = max(-(-high // step) * step, LEAST_UNITS)
    return high if from_below and reached(rounded) > aim else rounded


def _near(reached: Callable[[int], float], low: int, high: int, power: int) -> int:
    """Return how near to each other a price that misses an error and one that keeps it need not be brought.

    Farther where errors jump, as those of quantiles do from bin to bin.
    """
    jumps = low and reached(low) > reached(high) * (high / low) ** (2 / power)
    return max(high // (CLOSE_TO_JUMPS if jumps else CLOSE), 1)


def _passed(aim: float, low: tuple[int, float], high: tuple[int, float]) -> float:
    """Return at about which price errors pass `aim`, between two prices with their errors: on a line in logarithms."""
    (less, larger), (more, smaller) = low, high
    share = math.log(larger / aim) / math.log(larger / smaller) if smaller > 0 else 1.0
    return float(less * (more / less) ** share)


def _cheapest(reached: Callable[[int], float], total: int, halvings: int) -> int:
    """Return about the least units that anything can be measured for, from a budget halved so many times on."""
    units = max(LEAST_UNITS, total >> halvings)
    while units < total:
        try:
            reached(units)
        except _Unknown:
            raise
        except (AccuracyError, SQLError):
            units *= 16
        else:
            break
    return units
