"""What an aggregate is: how it is written and bounded, what is measured for it, and what its answers are.

Each aggregate is one class of these methods, in a file of this folder; `catalogue` lists them. Nothing else in the
package knows one by its name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpnotebook.dialect.attributes import number
from dpnotebook.dialect.text import Text
from dpnotebook.errors import shorten
from dpnotebook.planner.answers import Estimates
from dpnotebook.sql.aggregates.builder import Bounds, Builder
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.parse.calls import Call, Spelling
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.select import Aggregate, Contribution, is_column
from dpnotebook.views import digits

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Parts = Mapping[int, Fraction]

USUAL_ROWS = 1000.0  # values of a group, where nothing says how many there are
COARSE = 12  # values are split at 2^12, so that sums of both parts are exact sums of integers
FINEST = -46  # exponent of the least part of a value that counts
LARGEST = 69  # exponent of the largest value that is told from larger ones

NO_UNITS: Mapping[str, str] = MappingProxyType({})  # of columns, where nothing was said of them


@dataclass(frozen=True)
class Limits:
    """What bounds are chosen by.

    Parameters
    ----------
    contribution
        How what a unit adds is bounded.
    max_rows
        Most rows of a unit that are meant to count; None where nobody has said how many.
    single
        Whether no unit has more than one row.
    rows
        Whether each row of the table is a unit of its own.
    plain
        Whether the statement has no private clause and no private function.
    text
        The statement.
    values
        How many different values of a unit count, where these are counted; 0 where that is to be found.
    """

    contribution: Contribution
    max_rows: int | None
    single: bool
    rows: bool
    plain: bool
    text: Text
    values: int = 1


@dataclass(frozen=True)
class KnownGroups:
    """What is known of the groups of an aggregate, on which the errors of means depend.

    Parameters
    ----------
    sizes
        About how many values each has, at least 1, shape (groups,); one for all where only that is known.
    means, variances
        Of the values in each, NaN where that is not known; shape (groups,).
    units
        How many units are in each, NaN where that is not known; shape (groups,).
    source
        From where that is known, in words; empty where the owner of the table said it.
    counting
        Which part of the values counts, where units are clipped.
    pairs
        Sums over pairs of values as covariances have them, shape (sums, groups); None where these are not known.
    between
        The bounds of both values, on which these sums depend.
    binned, edges
        How many values are in each of bins with these edges, shape (bins, groups); None where that is not known.
    weighing
        By what is multiplied what units will have in these groups, shape (groups,); None where that is not known.
    """

    sizes: Floats
    means: Floats
    variances: Floats
    units: Floats
    source: str = ""
    counting: float = 1.0
    pairs: Floats | None = None
    between: tuple[Fraction, ...] = ()
    binned: Floats | None = None
    edges: tuple[float, ...] = ()
    weighing: Floats | None = None

    @classmethod
    def of(cls, sizes: Floats, means: Floats | None = None, variances: Floats | None = None) -> KnownGroups:
        """Return what is known, where that may be the sizes alone."""
        unknown = np.full(sizes.shape, math.nan)
        return cls(sizes, unknown if means is None else means, unknown if variances is None else variances, unknown)

    def together(self, groups: Sequence[Sequence[int]]) -> KnownGroups:
        """Return what is known of groups that consist of some of these."""
        every = np.fromiter(itertools.chain.from_iterable(groups), dtype=np.intp)
        starts = np.cumsum([0, *map(len, groups[:-1])])

        def added(part: Floats) -> Floats:
            return np.asarray(np.add.reduceat(part[..., every], starts, axis=-1))

        sizes, values, squares, units = map(added, self._sums)
        sizes = np.maximum(sizes, 1.0)
        means = values / sizes
        variances = np.maximum(squares / sizes - means**2, 0.0)
        pairs, binned = (None if one is None else added(one) for one in (self.pairs, self.binned))
        return replace(self, sizes=sizes, means=means, variances=variances, units=units, pairs=pairs, binned=binned)

    def at_least(self, size: float) -> KnownGroups:
        """Return what is known of groups with so many units, as far as they are known, or else of the largest."""
        units = np.where(np.isnan(self.units), self.sizes, self.units)
        return self.of_some(np.flatnonzero(units >= min(size, float(units.max()))))

    def of_some(self, kept: NDArray[np.intp]) -> KnownGroups:
        """Return what is known of some of the groups, by their numbers."""
        sizes, means, variances, units = (part[kept] for part in (self.sizes, self.means, self.variances, self.units))
        pairs, binned = (None if one is None else one[:, kept] for one in (self.pairs, self.binned))
        weighing = None if self.weighing is None else self.weighing[kept]
        found = replace(self, sizes=sizes, means=means, variances=variances, units=units, weighing=weighing)
        return replace(found, pairs=pairs, binned=binned)

    def weights(self, measuring: Measuring) -> Floats:
        """Return by what is multiplied what units have in these groups; the least where that is not told of each."""
        told = np.array(measuring.weighing, dtype=float) if self.weighing is None else self.weighing
        if told.size == self.sizes.size:
            return told
        return np.full(self.sizes.size, told.min() if told.size else 1.0)

    @property
    def _sums(self) -> tuple[Floats, ...]:
        """The numbers of values, their sums, those of their squares, and the numbers of units."""
        return self.sizes, self.sizes * self.means, self.sizes * (self.variances + self.means**2), self.units


def counting(groups: Sequence[KnownGroups | None], kept: Sequence[float]) -> Sequence[KnownGroups | None]:
    """Return what is known of the groups of aggregates, with which part of their values counts for each."""
    if all(part >= 1.0 for part in kept):
        return groups
    usual = KnownGroups.of(np.array([USUAL_ROWS]))
    known = groups or [None] * len(kept)
    return [one if part >= 1.0 else replace(one or usual, counting=part) for one, part in zip(known, kept, strict=True)]


@dataclass(frozen=True)
class Expectation:
    """How wrong the answers of an aggregate will be.

    Parameters
    ----------
    std_errors
        Standard error of an answer, shape (1,), or of that of each group where sizes are known, shape (groups,); NaN
        while it depends on bounds that are to be found.
    half_width
        Half-width of its interval, of the worst group.
    note
        What that rests on; empty when nothing.
    shown
        Of quantiles, whose errors are in ranks, the same in what their values are counted in; None where nothing tells.
    """

    std_errors: NDArray[np.float64]
    half_width: float
    note: str = ""
    shown: Expectation | None = None

    @property
    def std_error(self) -> float:
        """Standard error of an answer, of the worst group."""
        return float(self.std_errors.max())

    @property
    def as_shown(self) -> Expectation:
        """The same in what is shown, where that is told; itself elsewhere."""
        return self if self.shown is None else self.shown


class Statistic:
    """What a unit adds to a group, as SQL: an object for each name of a component's statistic.

    Attributes
    ----------
    name
        As components, and ledgers, have it.
    present
        Whether it is of rows that have anything in the input column, and not of numbers.
    summed
        Whether the numbers of a unit are added up before they are clamped.
    drawn
        Whether rows of a unit in a group are drawn for it.
    """

    name: ClassVar[str]
    present: ClassVar[bool] = False
    summed: ClassVar[bool] = False
    drawn: ClassVar[bool] = False

    def of_row(self, component: Component) -> str:
        """Return what one row adds, as an integer, where rows are bounded."""
        raise ValueError(f"{shorten(self.name)} has no meaning where single rows are bounded")

    def of_group(self, component: Component, columns: Columns, parts: Parts) -> str:
        """Return what a unit adds to a group, as an integer, where groups are bounded.

        Parameters
        ----------
        component
            What is added up.
        columns
            What is added up over the rows of the unit in the group; more is added to it.
        parts
            In what the numbers of each input are added up.
        """
        raise ValueError(f"{shorten(self.name)} has no meaning where groups are bounded")

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return what a unit has in a group, in parts of a step, as a number without fraction; for "l2"."""
        raise ValueError(f"{shorten(self.name)} is no vector that can be clipped to a norm")

    def alike(self, component: Component) -> bool:
        """Return whether that is the same in all groups of a unit, and of all units."""
        return False


class AggregateFunction:
    """An aggregate over privacy units.

    Attributes
    ----------
    kind
        Its name in plans and ledgers, which never changes.
    spellings
        How it is written, and what each of these names says; those with ANON_ are private by themselves.
    said
        The names by which people are told that there is such an aggregate.
    nodes
        What it is in a tree: of a sample, where that differs, and of a population.
    word
        What stands before the column in the name of an answer.
    counted_in
        What its answers are counted in; None: in what the column is.
    statistics
        What is added up for it.
    of
        What it is of: "numbers" of a column, "values" of any kind, or "units".
    operands
        Of how many columns it is: one, or two.
    distinct
        The kind of aggregate that DISTINCT makes of it; None where it cannot have that.
    star
        Whether it can be of rows: COUNT(*).
    whole_bounds, equal_bounds
        Whether its bounds are whole numbers, and whether the lower one may equal the upper one.
    rowwise
        Whether it looks at single rows, however units are bounded.
    adds
        Whether it adds up what units have in one number.
    averages
        Whether it is the average of the values of rows.
    counts_and_sums
        Whether the number of values and their sum are measured for it.
    clipped
        Whether all of a unit can be clipped to one norm.
    weighted
        Whether rows have weights, and all of a unit must be clipped to one norm.
    by_itself
        Whether it bounds what a unit adds by itself, however that is done for the others.
    by_units
        Whether it is of what each unit has in one row: the mean of its values, and their number.
    centres
        Whether values count from the middle of their bounds then.
    squares
        Whether its answers follow from squares of values.
    paired
        Whether it is of pairs of values, each of which counts between bounds of its own column.
    errors_of
        What cards say that its errors are of.
    levelled
        Whether the levels of a declared column are used.
    least
        The least it can cost, in the accountant's units: it may have to share them between bounds and its sums.
    sized
        Whether its errors depend on how many values a group has.
    shown
        What its answers are to cards and plots.
    linear
        What the planner calls it, where that can answer it by itself.
    """

    kind: ClassVar[str]
    spellings: ClassVar[Mapping[str, Spelling]] = {}
    said: ClassVar[tuple[str, ...]] = ()
    nodes: ClassVar[tuple[type[exp.Expr], ...]] = ()
    word: ClassVar[str]
    counted_in: ClassVar[str | None] = None
    statistics: ClassVar[tuple[Statistic, ...]] = ()
    of: ClassVar[Literal["numbers", "values", "units"]] = "numbers"
    operands: ClassVar[int] = 1
    distinct: ClassVar[str | None] = None
    star: ClassVar[bool] = False
    whole_bounds: ClassVar[bool] = False
    equal_bounds: ClassVar[bool] = False
    rowwise: ClassVar[bool] = False
    adds: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    counts_and_sums: ClassVar[bool] = False
    clipped: ClassVar[bool] = False
    weighted: ClassVar[bool] = False
    by_itself: ClassVar[bool] = False
    by_units: ClassVar[bool] = False
    centres: ClassVar[bool] = False
    squares: ClassVar[bool] = False
    paired: ClassVar[bool] = False
    errors_of: ClassVar[str] = ""
    levelled: ClassVar[bool] = False
    least: ClassVar[int] = 12
    sized: ClassVar[bool] = False
    shown: ClassVar[str] = "sum"
    linear: ClassVar[Literal["count", "sum", "mean", "quantile"] | None] = None

    # How it is written

    def node(self, call: Call, *arguments: exp.Expr) -> exp.Expr:
        """Return the node of sqlglot's that stands for a call.

        Parameters
        ----------
        call
            The call, without its arguments.
        arguments
            What it is about: an expression or a star, or two expressions.
        """
        return self.nodes[-1 if call.population else 0](**dict(zip(("this", "expression"), arguments, strict=False)))

    def over_release(self, node: exp.Expr, call: Call) -> exp.Expr:
        """Return a call over releases as DuckDB has it."""
        return node

    def word_of(self, call: Call) -> str:
        """Return what stands before the column in the name of an answer."""
        return self.word

    def below(self, call: Call) -> bool:
        """Return whether it can stand below a private aggregation, over the rows of one unit."""
        return True

    def missing(self, name: str) -> str:
        """Return what to write where it has no argument, or one too few."""
        return f"{name}(column)" if self.operands == 1 else f"{name}(x, y)"

    def wrong_bounds(self, name: str, per: Literal["group", "row"]) -> str | None:
        """Return what is wrong about bounds of what a unit adds to a group, or of a row; None where nothing is."""
        if self.rowwise and per == "group":
            return f"{name} is bounded row by row: write contribution_bounds_per_row => {self.written_bounds}"
        return None

    @property
    def written_bounds(self) -> str:
        """How bounds are written."""
        return "(lower, upper)" if self.operands == 1 else "((lower, upper), (lower, upper))"

    # How it is bounded

    def needs_bounds(self, contribution: Contribution) -> bool:
        """Return whether there are bounds at all: a unit is there, or it is not."""
        return self.of != "units"

    def declared(self, values: Bounds | None, limits: Limits) -> Bounds | None:
        """Return the bounds that follow from what is declared; None where they must be found from the data.

        Parameters
        ----------
        values
            Bounds of the values of the column; None where it has none.
        limits
            How a unit is bounded.
        """
        return values

    def whole(self, aggregate: Aggregate) -> bool:
        """Return whether what is bounded are whole numbers."""
        return aggregate.integer

    def counts_units(self, aggregate: Aggregate, contribution: Contribution) -> bool:
        """Return whether it is a number of units: each adds one or nothing, and one wherever it has a row."""
        return self.of == "units"

    def row_magnitude(self, aggregate: Aggregate) -> str:
        """Return SQL of what the size of a row is, where bounds of rows are to be found."""
        return f"y{aggregate.input}"

    def group_magnitude(self, aggregate: Aggregate, columns: Columns) -> str:
        """Return SQL of what a unit would add to a group, not clamped; NULL where it has no value."""
        return two_part_total(f"y{aggregate.input}", columns)

    def vector(self, aggregate: Aggregate, values: Bounds | None, columns: Columns) -> list[str]:
        """Return SQL of the parts of a unit's vector in a group, as numbers; what it is clipped to is its norm.

        Parameters
        ----------
        aggregate
            What is asked.
        values
            Bounds of the values of the column, where these matter.
        columns
            What is added up over the rows of the unit in the group; more is added to it.
        """
        return [self.group_magnitude(aggregate, columns)]

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return the bounds, with the norm of so many rows of a unit, where data does not tell them; None if unknown.

        Parameters
        ----------
        values
            Bounds of the values of the column; None where they are not known.
        rows
            Rows of a unit that are meant to count.
        """
        return None

    def usual_bounds(self, aggregate: Aggregate) -> Bounds | None:
        """Return bounds with which it errs as with any others that data may tell; None where it does not."""
        return None

    # What is measured, with which noise

    def measured_with(self, aggregate: Aggregate, other: Aggregate, contribution: Contribution) -> bool:
        """Return whether an aggregate is read off the measurement of another one, for which both pay.

        Parameters
        ----------
        aggregate, other
            Both of them.
        contribution
            How what a unit adds to them is bounded.
        """
        return False

    def read_off(self, part: AggregateInput, aggregate: Aggregate) -> AggregateInput:
        """Return what an aggregate is worked out from, given that of another one with which it is measured."""
        own = input_of(aggregate, ())
        return replace(part, kind=own.kind, fractions=own.fractions, array=own.array, population=own.population)

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add what is measured for an aggregate, and return what it is worked out from.

        Parameters
        ----------
        builder
            What is measured so far.
        aggregate
            What is asked.
        bounds
            Lower and upper, as they were written, declared or found.
        cost
            In the accountant's units.
        """
        raise NotImplementedError

    # What follows from that

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return answers with standard errors and intervals, shape (groups,), or (groups, quantiles) for arrays.

        Parameters
        ----------
        measuring, part
            What was measured, and the aggregate; its bounds are known.
        noisy
            Noisy numbers of all blocks, shape (groups, measured).
        confidence
            Probability with which an interval holds.
        """
        raise NotImplementedError

    def together(self, parts: Sequence[AggregateInput], estimates: Sequence[Estimates]) -> list[Estimates]:
        """Return the answers of several of its kind in one statement, so that they agree with one another.

        Parameters
        ----------
        parts, estimates
            The aggregates, and their answers.
        """
        return list(estimates)

    def expected(
        self, measuring: Measuring, part: AggregateInput, confidence: float, known: KnownGroups | None
    ) -> Expectation:
        """Return how wrong its answers will be by noise alone.

        Parameters
        ----------
        measuring, part
            What is measured, and the aggregate; its bounds are known.
        confidence
            Of the intervals.
        known
            What is known of the groups; when None one that is usual.
        """
        raise NotImplementedError

    def known(self, measuring: Measuring, part: AggregateInput, noisy: Integers) -> KnownGroups | None:
        """Return what its noisy numbers say of groups, beside its answers; None where that is nothing."""
        return None

    def unit(self, aggregate: Aggregate, units: Mapping[str, str] = NO_UNITS) -> str:
        """Return what its errors are planned in, given the units of columns that have one."""
        return self.counted_in or self.unit_of_values(aggregate, units)

    def unit_of_values(self, aggregate: Aggregate, units: Mapping[str, str] = NO_UNITS) -> str:
        """Return what its values are counted in: of quantiles, whose errors are planned in ranks, what is delivered."""
        argument = aggregate.argument
        return units.get(argument, argument if is_column(argument) else "")

    def column(self, aggregate: Aggregate) -> str | None:
        """Return what cards say that its answers are of; None for counts."""
        return aggregate.argument if self.of == "numbers" else None

    def taken(self, cut: Taken) -> tuple[Taken, str]:
        """Return what bounds of values take from an answer, and what that is.

        Parameters
        ----------
        cut
            What they take from the mean of the values, or from their variance where squares are added up.
        """
        return cut, "mean"

    def columns_between(self, part: AggregateInput) -> list[Bounds]:
        """Return between which bounds the values of each of its columns are taken to be."""
        return [] if part.bounds is None else [part.bounds[:2]]

    def said_between(self, part: AggregateInput) -> str:
        """Return between what bounds that were found let values be, in words."""
        ends = [f"{digits(float(low), 6)} and {digits(float(high), 6)}" for low, high in self.columns_between(part)]
        return f"values are taken to be between {', and '.join(ends)}"

    def counting_less(self, norm: float) -> str:
        """Return which units weigh less where vectors are clipped to a norm, in words."""
        rows = "1 row" if f"{norm:.3g}" == "1" else f"{digits(norm)} rows"
        return f"units with more than about {rows}, or with values far from the others, count less than they would"

    def clips(self, part: AggregateInput) -> bool:
        """Return whether bounds may cut off some of what a unit adds to a group."""
        return False


def two_part_total(value: str, columns: Columns) -> str:
    """Return SQL of the sum of a number of any size over the rows of a unit in a group; NULL where none has it."""
    bounded = steps.clamped(value, -(2.0**LARGEST), 2.0**LARGEST)
    whole = steps.whole(bounded, 2.0**COARSE)
    rest = steps.whole(f"({bounded} - {whole} * {number(2.0**COARSE)})", 2.0**FINEST)
    large, small = (
        f"CAST({columns.total(f'CASE WHEN {value} IS NOT NULL THEN {steps.exact(steps.integer(part))} END')} AS DOUBLE)"
        for part in (whole, rest)
    )
    return f"({large} * {number(2.0**COARSE)} + {small} * {number(2.0**FINEST)})"


def input_of(aggregate: Aggregate, bounds: Bounds) -> AggregateInput:
    """Return what an aggregate is worked out from, before anything is measured for it."""
    return AggregateInput(
        aggregate.kind, (), bounds, fractions=aggregate.fractions, array=aggregate.array,
        population=aggregate.population,
    )  # fmt: skip
