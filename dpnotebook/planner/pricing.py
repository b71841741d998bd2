"""From an accuracy to noise scales, and from those to what is paid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from dpnotebook.domain.parts import PART
from dpnotebook.planner.answers import Answers, scale_of_variance
from dpnotebook.planner.history import History
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.table import TableSchema
from dpnotebook.planner.to_linear import parts_read
from dpnotebook.privacy.accountant import LEAST_UNITS, Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.privacy.spend import CellCost
from dpnotebook.query.measurement import Measurement
from dpnotebook.query.question import Accuracy
from dpnotebook.strategy import Strategy

BITS = 32  # of the scale of a refinement: what rounding did to the precision that is missing is beyond them
LAST_DIGITS = 1 + 2**-46  # of a float
FIGURES = 4  # of a price in units: a person reads it, and it is rounded up by a thousandth at most


def units_for(
    accuracy: Accuracy, answers: Sequence[Answers], table: TableSchema, accountant: Accountant
) -> tuple[int, list[int]]:
    """Return what the whole query costs, in units, and each measure's share of it.

    An epsilon is shared evenly; for an error or a variance every measure gets what it needs to keep the promise.
    """
    if accuracy.epsilon is not None:
        units = accountant.units(accuracy.epsilon)
        return units, [units // len(answers)] * len(answers)
    shares = [
        least_units(answer.measurement, answer.scale_for(accuracy, accountant.law), table, accountant)
        for answer in answers
    ]
    return sum(shares), shares


def least_units(measurement: Measurement, scale: Fraction, table: TableSchema, accountant: Accountant) -> int:
    """Return what a measurement costs with noise of at most this scale, rounded up to four figures.

    A person reads it, and it costs at most a thousandth more.
    """
    cost = math.ceil(_norm(measurement, table, accountant) * accountant.rate(scale))
    units = max(cost + _rounding(measurement, table, accountant), LEAST_UNITS)
    step = 10 ** max(len(str(units)) - FIGURES, 0)
    return int(-(-units // step) * step)


def scale_for_units(measurement: Measurement, units: int, table: TableSchema, accountant: Accountant) -> Fraction:
    """Return the least noise that a cost in units allows."""
    share = max(units - _rounding(measurement, table, accountant), 1)
    return accountant.scale(share, _norm(measurement, table, accountant))


def scales(
    answers: Sequence[Answers], shares: Sequence[int], table: TableSchema, accountant: Accountant
) -> list[Fraction]:
    """Return the least noise that each measure's share of the cost allows."""
    return [
        scale_for_units(answer.measurement, share, table, accountant)
        for answer, share in zip(answers, shares, strict=True)
    ]


def cost_of(items: Sequence[Planned], table: TableSchema, accountant: Accountant) -> CellCost:
    """Return what measurements cost in each cell of the table; of a refinement, what it adds to the first cost."""
    costs = [
        item.measurement.cost(
            table.domain,
            accountant,
            item.scale,
            table.contribution_bound,
            item.before if item.refines else None,
            _parts(item.measurement, table),
        )
        for item in items
    ]
    return costs[0] if len(costs) == 1 else CellCost(tuple(term for cost in costs for term in cost.terms))


def units_of(items: Sequence[Planned], table: TableSchema, accountant: Accountant) -> int:
    """Return what measurements cost together, in units, whatever was spent before; never less."""
    return units_in(cost_of(items, table, accountant), table)


def units_in(cost: CellCost, table: TableSchema) -> int:
    """Return what costs in each cell come to, in units, whatever was spent before; never less."""
    return cost.bound_over(PART if table.adds else None)


class Pricing(NamedTuple):
    """What it takes to price a measurement: of which table, with which noise, beside which earlier ones."""

    table: TableSchema
    accountant: Accountant
    history: History


def more_precise(
    measurement: Measurement, precision: float, pricing: Pricing, strategy: Strategy | None = None
) -> Planned:
    """Return how to know a measurement's answers by so much more precision, in one over squared integers.

    Where the same queries were measured before with Laplace noise, that measurement is refined, which is cheaper than
    another one; Gaussian noise loses nothing by another one.
    """
    table, accountant, history = pricing
    law = accountant.law
    item = history.latest(measurement) if law.refines else None
    if item is not None:
        scale = _rounded_down(scale_of_variance(law, 1 / (1 / item.variance + precision)))
        if scale < item.scale:
            return Planned(measurement, scale, law.grid_bits(scale), strategy, item.key, item.scale)
    units = least_units(measurement, scale_of_variance(law, 1 / precision), table, accountant)
    scale = scale_for_units(measurement, units, table, accountant)
    return Planned(measurement, scale, law.grid_bits(scale), strategy)


def _rounded_down(scale: Fraction) -> Fraction:
    """Return the next lower scale of so many bits, or itself where it has no more but for the last digits of floats."""
    mantissa, exponent = math.frexp(scale)
    return Fraction(math.floor(mantissa * 2**BITS * LAST_DIGITS)) * Fraction(2) ** (exponent - BITS)


def as_precise_as(planned: Planned, pricing: Pricing) -> Planned | None:
    """Return the refinement of an earlier measurement of the same queries to this noise, where there is one."""
    item = pricing.history.latest(planned.measurement) if pricing.accountant.law.refines else None
    if item is None or planned.scale >= item.scale:
        return None
    return replace(planned, refines=item.key, before=item.scale)


def added_precision(planned: Planned, law: Law) -> float:
    """Return what a planned measurement adds to the precision of each of its numbers."""
    before = 0.0 if planned.before is None else 1 / law.count_variance(planned.before)
    return 1 / law.count_variance(planned.scale) - before


def _rounding(measurement: Measurement, table: TableSchema, accountant: Accountant) -> int:
    """Return by how many units the cost can exceed norm * rate: each of its terms is rounded up by itself."""
    terms = measurement.cost_terms(table.domain, accountant.law.power)
    return max(terms * max(_parts(measurement, table), 1) - 1, 0)


def _norm(measurement: Measurement, table: TableSchema, accountant: Accountant) -> int:
    norm = measurement.norm(table.domain, accountant.law.power)
    return norm * accountant.per_unit(table.contribution_bound * max(_parts(measurement, table), 1))


def _parts(measurement: Measurement, table: TableSchema) -> int:
    """Return how many parts a measurement reads of a table whose parts add up; 0 of other tables."""
    return len(parts_read(measurement)) if table.adds else 0
