"""Sums and means as counts, so that what is known of one says something about the others.

A value between its bounds is shared between two levels, its upper and its lower end: of a row with value x the share
(x - low) / (high - low) is counted at the upper end and the rest at the lower. Over an attribute of these two levels,
which every table can be given, the two sums that a mean is measured by are a marginal, a sum is one linear query, and a
count is the total over both. Where the levels of a column are its very values, the same are linear in its histogram.
Of a truth value, and of rows of two whole numbers, the ends are levels: what is measured is counts of them, and the
histogram follows.

Both are the factorisation of a linear measure into a weight per level and counts: HDMM, Definition 2, with weights.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.domain.categorical import Categories
from dpnotebook.planner.items import Item
from dpnotebook.planner.product_terms import ProductTerm, is_identity, product_of
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Summand, value_range
from dpnotebook.workload import Explicit, Identity, Kron, Workload
from dpnotebook.workload.compose import Weighted

COUNT = Summand()
ENDS = Categories(["upper", "lower"])
NAMED = re.compile(r"ends of (.*) from (\S+) to (\S+) by (\S+)", re.DOTALL)

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ValueCounts:
    """A sum, or a pair of sums, as queries of counts.

    Parameters
    ----------
    part
        The queries, keys in the domain's order: of a pair three a group, both sums and what they add up to.
    order
        Where the queries of each kind are among its answers, shape (1 or 3, groups).
    reach
        The most that a noisy number can count for in an answer, in steps of the summand.
    reach_of_sums
        Of queries of a column's levels, the same where sums of its values are looked at too, of other rows as well.
    """

    part: ProductTerm
    order: NDArray[np.intp]
    reach: float
    reach_of_sums: float = 0.0


def ends_name(summand: Summand, where: Predicate) -> str:
    """Return the name of the attribute that has the two ends of a value as its levels; no column has it.

    Parameters
    ----------
    summand, where
        Whose values are shared between their ends, and the rows that take part.
    """
    if summand.holds:
        return f"truth of {summand.column} at {summand.holds}, not at {summand.fails}"
    wide = _widened(summand, where)
    return f"ends of {wide.column} from {wide.low} to {wide.high} by {wide.step}"


def summand_of(name: str) -> Summand | None:
    """Return the summand, of both ends, whose attribute has this name; None where the name is of a column."""
    found = NAMED.fullmatch(name)
    if found is None:
        return None
    low, high, step = (Fraction(each) for each in found.groups()[1:])
    return Summand(found[1], low, high, step, ends=True)


def at_levels(part: ProductTerm, names: Collection[str], domain: Domain) -> ProductTerm:
    """Return what is said of the ends of a value as said of the levels of its column, where these are its very values.

    Parameters
    ----------
    part
        Noisy answers over any attributes.
    names
        The attributes of interest: with both ends among them nothing is changed, as without the column.
    domain
        Of all of them.
    """
    place = next((place for place, axis in enumerate(part.axes) if domain[axis.attribute] == ENDS), None)
    factors = None if place is None else _factors(part.operator, len(part.axes))
    if place is None or factors is None or part.axes[place].attribute in names:
        return part
    summand = summand_of(part.axes[place].attribute)
    if summand is None or summand.column is None or summand.column not in names:
        return part
    values = summand.of_levels(domain[summand.column])
    if values is None:
        return part
    levels = allowed_levels(part.where, summand.column, domain)
    shared = Explicit(factors[place].dense() @ (values[:, levels] / summand.steps))
    axes = (*part.axes[:place], Axis(summand.column, levels), *part.axes[place + 1 :])
    return replace(part, axes=axes, operator=product_of([*factors[:place], shared, *factors[place + 1 :]]))


def _widened(summand: Summand, where: Predicate) -> Summand:
    """Return the summand of the declared bounds, where the rows have no value that those of this one would clamp.

    So sums of values that a condition bounds more tightly are told by the same two ends as all others of the column.
    """
    declared = None if summand.column is None else where.domain[summand.column].bounds
    if summand.column is None or declared is None:
        return summand
    low, high = (Fraction(repr(float(end))) for end in declared)
    if (summand.low, summand.high) == (low, high):  # as most are: nothing to look for
        return summand
    if (found := value_range(where, summand.column)) is None or found[0] < summand.low or found[1] > summand.high:
        return summand
    whole = ((summand.low - low) / summand.step).denominator == ((high - low) / summand.step).denominator == 1
    return replace(summand, low=low, high=high) if whole else summand


def may_be_shared(summand: Summand) -> bool:
    """Return whether values can be shared between their ends: of a sum, whether bounds are whole numbers of steps."""
    return summand.column is not None and (summand.ends or (summand.low / summand.step).denominator == 1)


def with_ends(domain: Domain, names: Iterable[str]) -> Domain:
    """Return a domain with attributes of two ends, by the names of `ends_name`; the columns keep their places."""
    return Domain({**domain, **dict.fromkeys(sorted(names), ENDS)})


def as_counts(item: Item) -> Item | None:
    """Return a measurement of sums as one of counts over the ends of the value, with its noisy numbers.

    Parameters
    ----------
    item
        Any measurement.

    Returns
    -------
    None where it counts rows already, or is no product of one operator an axis.
    """
    measured = item.measurement
    summand = measured.summand
    if not may_be_shared(summand) or (summand.holds and not counts_levels(measured)):
        return None
    factors = _factors(measured.operator, len(measured.axes))
    if factors is None:
        return None
    if counts_levels(measured):
        domain, column = measured.where.domain, str(summand.column)
        where, at = valued(measured.where, summand), _place(measured.axes, domain, column)
        levels = allowed_levels(where, column, domain)
        shared: Workload = Identity(len(levels))
        if summand.holds or not summand.ends:
            shared = Explicit(np.asarray(summand.of_levels(domain[column]))[:, levels])
        operator = product_of([*factors[:at], shared, *factors[at:]])
        axes = (*measured.axes[:at], Axis(column, levels), *measured.axes[at:])
        return replace(
            item, measurement=Measurement(operator, axes, where), numbers=in_counts(measured, item.noisy[None]), bits=0
        )
    wide = _widened(summand, measured.where)
    own = Explicit(_rows(summand, wide)) if wide != summand or not summand.ends else Identity(2)
    operator = product_of([*factors, own])
    if isinstance(own, Identity):
        operator = Weighted(summand.steps, operator)
    seen = Measurement(operator, (*measured.axes, _axis(summand, measured.where)), valued(measured.where, summand))
    return replace(item, measurement=seen, numbers=in_counts(measured, item.noisy[None]), bits=0)


def counts_levels(measured: Measurement) -> bool:
    """Return whether a measurement of sums counts levels of its column: single ones of two, no axis of it.

    Where a condition holds of a row both sums are counts of levels, however many there are.
    As a truth value has, or rows of two whole numbers: the values are the ends, each one step from the other. For a
    mean of one value all rows are at the same end: of its two sums one is their number, and the other is noise alone.
    """
    summand, where = measured.summand, measured.where
    column = summand.column
    if summand.holds and not any(axis.attribute == column for axis in measured.axes):
        return True
    if (
        column is None
        or summand.holds
        or (summand.ends and summand.steps != 1)
        or any(axis.attribute == column for axis in measured.axes)
    ):
        return False
    levels = allowed_levels(valued(where, summand), column, where.domain)
    few = len(levels) == 2 or (len(levels) == 1 and summand.ends)
    values = summand.of_levels(where.domain[column]) if few else None
    return values is not None and (not summand.ends or len(levels) == 1 or values[0, levels].tolist() == [0, 1])


def in_counts(measured: Measurement, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers of a measurement in the order in which `as_counts` has them.

    Parameters
    ----------
    measured
        What was measured; it can be seen as counts.
    numbers
        As they were measured, shape (draws, components, queries).

    Returns
    -------
    Shape (draws, components * queries); of both sums of one value those that count rows, shape (draws, queries).
    """
    draws, components, _ = numbers.shape
    if components == 1 or not counts_levels(measured):
        return numbers.swapaxes(1, 2).reshape(draws, -1)
    column, domain = str(measured.summand.column), measured.where.domain
    levels = allowed_levels(valued(measured.where, measured.summand), column, domain)
    if len(levels) == 1 and not measured.summand.holds:
        values = measured.summand.of_levels(domain[column])
        assert values is not None
        return numbers[:, int(values[1, levels[0]])]
    factors = _factors(measured.operator, len(measured.axes))
    assert factors is not None
    at = _place(measured.axes, domain, column)
    ordered = numbers if measured.summand.holds else numbers[:, ::-1]  # of two levels the lower one comes first
    by_factor = ordered.reshape(draws, components, *(factor.shape[0] for factor in factors))
    return np.moveaxis(by_factor, 1, 1 + at).reshape(draws, -1)


def _place(axes: Sequence[Axis], domain: Domain, column: str) -> int:
    """Return where a column belongs among axes in the domain's order."""
    return int(np.searchsorted([domain.names.index(axis.attribute) for axis in axes], domain.names.index(column)))


def over_ends(part: ProductTerm, summand: Summand) -> ValueCounts | None:
    """Return sums over some groups as queries of counts over the ends of the value.

    Parameters
    ----------
    part
        The groups, as counts: one query a group.
    summand
        Whose values are summed.

    Returns
    -------
    None where values cannot be shared between their ends.
    """
    factors = _factors(part.operator, len(part.axes))
    if not may_be_shared(summand) or factors is None or summand.holds:
        return None
    where = valued(part.where, summand)
    if where.is_empty:
        return None
    rows = _rows(summand, _widened(summand, part.where))
    rows = _with_both(rows) if summand.ends else rows
    operator = product_of([*factors, Explicit(rows)])
    asked = ProductTerm((*part.axes, _axis(summand, part.where)), where, operator, 1.0, np.arange(0))
    order = np.arange(operator.shape[0]).reshape(-1, rows.shape[0]).T
    return ValueCounts(asked, order, float(np.abs(rows).max()))


def over_levels(part: ProductTerm, summand: Summand, domain: Domain) -> ValueCounts | None:
    """Return sums over groups as queries of the histogram of the column; parameters as for `over_ends`, and its domain.

    Returns
    -------
    None where a level holds more than one value, or the groups tell the column's values apart themselves.
    """
    factors, column = _factors(part.operator, len(part.axes)), summand.column
    if column is None or factors is None or any(axis.attribute == column for axis in part.axes):
        return None
    values, levels = summand.of_levels(domain[column]), allowed_levels(part.where, column, domain)
    if values is None or not values[:, levels].any():
        return None
    rows = _with_both(values[:, levels]) if summand.ends else values[:, levels]
    at = _place(part.axes, domain, column)
    axes = (*part.axes[:at], Axis(column, levels), *part.axes[at:])
    operator = product_of([*factors[:at], Explicit(rows), *factors[at:]])
    shape = [factor.shape[0] for factor in factors]
    order = np.arange(operator.shape[0]).reshape([*shape[:at], rows.shape[0], *shape[at:]])
    asked = ProductTerm(axes, part.where, operator, 1.0, np.arange(0))
    everywhere = float(np.abs(_with_both(values) if summand.ends else values).max())
    order = np.moveaxis(order, at, 0).reshape(rows.shape[0], -1)
    return ValueCounts(asked, order, float(np.abs(rows).max()), everywhere)


def _axis(summand: Summand, where: Predicate) -> Axis:
    return Axis(ends_name(summand, where), (0, 1))


def _rows(summand: Summand, wide: Summand) -> Integers:
    """Return what a row at either end of the wide bounds adds to each component, in steps; shape (components, 2).

    A row that is shared between the ends has between its own bounds what the shares of these rows add up to.
    """
    ends = np.array([int((wide.high - summand.low) / summand.step), int((wide.low - summand.low) / summand.step)])
    if summand.ends:
        return np.stack([ends, summand.steps - ends])
    return (ends + int(summand.low / summand.step))[None]


def _with_both(rows: Integers) -> Integers:
    """Return the queries of two sums, and of what they add up to."""
    return np.concatenate([rows, rows.sum(axis=0, keepdims=True)])


def valued(where: Predicate, summand: Summand) -> Predicate:
    """Return those of some rows that have a value: others add nothing to a sum."""
    assert summand.column is not None
    present = summand.has_value(where.domain[summand.column])
    return where if present.all() else where & Predicate.box(where.domain, {summand.column: present})


def _factors(operator: Workload, axes: int) -> list[Workload] | None:
    """Return an operator as one factor an axis; None where it is no such product."""
    if not axes:
        return [] if operator.shape == (1, 1) and is_identity(operator) else None
    factors = list(operator.factors) if isinstance(operator, Kron) else [operator]
    return factors if len(factors) == axes else None
