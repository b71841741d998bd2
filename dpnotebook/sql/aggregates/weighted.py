"""Means in which rows have weights, as those of surveys: SUM(weight * x) over SUM(weight), measured as the mean it is.

A unit's vector has the sum of its weights and that of its weighted values, each less a centre of all values, as that of
an average has their number and their sum. So the noise is in proportion to how far values are spread, and not to the
largest product of a weight and a value; and a unit with large weights weighs less in both sums alike.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dpnotebook.dialect.attributes import number
from dpnotebook.planner.answers import Estimates
from dpnotebook.sql.aggregates.builder import WHOLE, Bounds, Builder
from dpnotebook.sql.aggregates.centring import centred_by
from dpnotebook.sql.aggregates.function import (
    LARGEST,
    Expectation,
    Integers,
    KnownGroups,
    Statistic,
    input_of,
    two_part_total,
)
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.ratios import Mean
from dpnotebook.sql.bounded_sums import Component, Partner, value_column
from dpnotebook.sql.parse.calls import Call
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.partials import Columns
from dpnotebook.sql.select import Aggregate
from dpnotebook.views import digits

TINY = -200  # exponent of factors that are none
UNKNOWN_WEIGHTS = "how wrong it will be depends on what the weights of a group add up to, which no release tells yet"


class SumOfWeights(Statistic):
    """The weights of a unit's rows that have a value and a weight."""

    name = "weights"

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the sum of the weights."""
        total = columns.total(steps.addend(weight_of(component), part))
        return f"coalesce(CAST({total} AS DOUBLE), {steps.ZERO})"


class WeightedValues(Statistic):
    """Values of rows, clamped, less what stands for the middle of their bounds, times their weights."""

    name = "weighted"

    def of_vector(self, component: Component, part: Fraction, columns: Columns) -> str:
        """Return the sum of the weighted values."""
        low, high = component.low, component.high
        assert component.centre is not None
        product = product_of(component.column, weight_of(component), low, high, component.centre)
        total = columns.total(steps.addend(product, part))
        return f"coalesce(CAST({total} AS DOUBLE), {steps.ZERO})"


class WeightedAverage(Mean):
    """SUM(weight * x) / SUM(weight), where the vectors of units are clipped to a norm."""

    kind = "weighted"
    nodes, word = (exp.RegrAvgy,), "weighted_avg"  # of two columns; it is written as the ratio that it is
    statistics = (SumOfWeights(), WeightedValues())
    operands, shown = 2, "mean"
    weighted = True

    def below(self, call: Call) -> bool:
        """Return False: it is made of a private select alone."""
        return False

    def vector(self, aggregate: Aggregate, values: Bounds | None, columns: Columns) -> list[str]:
        """Return the sum of the weights, and of the weighted values in lengths from their centre."""
        assert values is not None
        assert aggregate.other is not None
        low, high = values[:2]
        centre, half = centred_by(values)
        first, second = aggregate.input or 0, aggregate.other.input or 0
        column, weight = value_column(first, second), value_column(second, first)
        product = product_of(column, weight, low, high, centre)
        return [
            f"coalesce({two_part_total(weight, columns)}, {steps.ZERO})",
            f"coalesce({two_part_total(f'({product}) / {number(float(half))}', columns)}, {steps.ZERO})",
        ]

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return None: nobody knows how large weights are."""
        return None

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add the parts of the vector of each unit, whose norm is the last of the bounds."""
        assert builder.contribution.kind == "l2"
        assert aggregate.other is not None
        (low, high), norm = bounds[:2], bounds[-1]
        (centre, half), step = centred_by(bounds[:-1]), builder.step(norm, WHOLE, cost)
        largest, together = max(1, math.floor(norm / step)), len(builder.blocks)
        weight = Partner(aggregate.other.input or 0, Fraction(0), Fraction(1))
        components = tuple(
            Component(
                name, aggregate.input, low, high, step * worth, largest, other=weight, together=together, centre=centre
            )
            for name, worth in (("weights", Fraction(1)), ("weighted", half))
        )
        return replace(input_of(aggregate, bounds), blocks=(builder.vector(components, cost),), step=half, half=1)

    def estimate(self, measuring: Measuring, part: AggregateInput, noisy: Integers, confidence: float) -> Estimates:
        """Return the noisy sum over the noisy weight, as `Mean` does; of weights below zero likewise."""
        place = measuring.place(part.blocks[0])
        below = np.where(noisy[:, place.start] < 0, -1, 1)[:, None]
        turned = noisy.copy()
        turned[:, place] *= below
        return super().estimate(measuring, part, turned, confidence)

    def expected(
        self, measuring: Measuring, part: AggregateInput, confidence: float, known: KnownGroups | None
    ) -> Expectation:
        """Return the errors in groups whose weights a release told; nothing else tells what these add up to."""
        if known is None or not known.source:
            return Expectation(np.array([math.nan]), math.nan, UNKNOWN_WEIGHTS)
        return super().expected(measuring, part, confidence, known)

    def values(self, measuring: Measuring) -> str:
        """Return what the size of a group is."""
        return "in weights"

    def counting_less(self, norm: float) -> str:
        """Return which units weigh less."""
        most = digits(norm, 4)
        return f"units whose weights add up to more than about {most} count less in weighted means than they would"


def weight_of(component: Component) -> str:
    """Return the column of the weights in a query, of rows that have a value."""
    assert component.other is not None
    return value_column(component.other.input, component.input)


def product_of(column: str, weight: str, low: Fraction, high: Fraction, centre: Fraction) -> str:
    """Return how far a clamped value is from a centre, times its weight; NULL without either."""
    away = f"({steps.clamped(column, low, high)} - {number(float(centre))})"
    factors = [_some(away), _some(steps.clamped(weight, -(2.0**LARGEST), 2.0**LARGEST))]
    return f"CASE WHEN {column} IS NOT NULL THEN {' * '.join(factors)} END"


def _some(factor: str) -> str:
    """Return a factor, or zero where a product with it could be too small for a number."""
    return f"CASE WHEN abs({factor}) >= {number(2.0**TINY)} THEN {factor} ELSE {steps.ZERO} END"
