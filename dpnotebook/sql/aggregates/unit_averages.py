"""Averages over rows from what each unit has: a noisy sum of what its values are away from a centre, and of its rows.

Without Gaussian noise a few rows of each unit would be drawn, and noise be in proportion to all that these may be. What
a unit's values come to beside a centre is one number: all rows count, each as much as any other, and noise is in
proportion to what the largest of these numbers are.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpnotebook.sql.aggregates.builder import FINE, WHOLE, Bounds, Builder
from dpnotebook.sql.aggregates.function import Limits, Statistic, input_of
from dpnotebook.sql.aggregates.measuring import AggregateInput
from dpnotebook.sql.aggregates.ratios import Mean
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.aggregates.weighted import product_of, weight_of
from dpnotebook.sql.bounded_sums import Component, Partner
from dpnotebook.sql.parse.calls import Call
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.select import Aggregate
from dpnotebook.views import digits

FAR = Fraction(1 << 63)  # what no mean of a unit is beyond
# Of the cost, for what values come to beside the centre: their number tells little, as the mean is near the centre.
SUM_SHARE = Fraction(3, 4)


class UnitRows(Statistic):
    """The number of values of a unit, at most as many as count."""

    name = "unit rows"

    def of_row(self, component: Component) -> str:
        """Return the number of values, in steps; 0 without any."""
        rows = weight_of(component)
        bounded = steps.clamped(rows, component.low, component.high)
        ends = steps.inside(component.low, component.high, component.step, component.largest)
        return f"CASE WHEN {rows} IS NULL THEN 0 ELSE {steps.within(steps.whole(bounded, component.step), *ends)} END"


class AwayFromCentre(Statistic):
    """What the values of a unit come to, each less a centre: its mean less that, times their number; clamped.

    Of more values than count it is as much as of so many: such a unit weighs less in both sums alike.
    """

    name = "unit away"

    def of_row(self, component: Component) -> str:
        """Return it, in steps; 0 without any value."""
        bounded = steps.clamped(away_of(component), component.low, component.high)
        ends = steps.inside(component.low, component.high, component.step, component.largest)
        whole = steps.within(steps.whole(bounded, component.step), *ends)
        return f"CASE WHEN {component.column} IS NULL THEN 0 ELSE {whole} END"


def away_of(component: Component) -> str:
    """Return SQL of what values of a unit come to beside the centre of a component; NULL without any."""
    assert component.centre is not None
    assert component.other is not None
    rows = steps.clamped(weight_of(component), component.other.low, component.other.high)
    return product_of(component.column, rows, -FAR, FAR, component.centre)


class UnitAverage(Mean):
    """AVG(x) over rows, of a query that has the mean of the values of each unit, and their number."""

    kind = "unit_average"
    nodes, word = (exp.RegrAvgx,), "avg"  # of two columns; it is written as the AVG that it is
    statistics = (UnitRows(), AwayFromCentre())
    operands, shown = 2, "mean"
    by_units = True
    clipped = False
    least = 100  # it has three histograms and two sums

    def below(self, call: Call) -> bool:
        """Return False: it is made of a private select alone."""
        return False

    def declared(self, values: Bounds | None, limits: Limits) -> Bounds | None:
        """Return None: nothing declared tells how far all values of a unit are from a centre."""
        return None

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Add both sums.

        The bounds are those of what a unit adds, beside the centre; then the centre, a length in which answers are
        told, and how many rows of a unit count.
        """
        assert aggregate.other is not None
        low, high, centre, length, rows = bounds if len(bounds) == 5 else (*bounds[:2], Fraction(0), *2 * (bounds[1],))
        low, high, rows = low - centre, high - centre, max(rows, Fraction(1))
        first, second = aggregate.input or 0, aggregate.other.input or 0
        of_sum = int(cost * SUM_SHARE)
        most, of_rows = max(abs(low), abs(high)), builder.step(rows, WHOLE, cost - of_sum)
        step, of_rows = builder.step(most, FINE, of_sum), max(of_rows, Fraction(1))
        partner = Partner(second, Fraction(0), rows)
        counted = Component(
            "unit rows", first, Fraction(0), rows, of_rows, max(1, math.floor(rows / of_rows)), other=partner
        )
        added = Component(
            "unit away", first, low, high, step, max(1, math.floor(most / step)), other=partner, centre=centre
        )
        blocks = builder.plain(counted, cost - of_sum), builder.plain(added, of_sum)
        return replace(input_of(aggregate, bounds), blocks=blocks, step=length, half=1)

    def said_between(self, part: AggregateInput) -> str:
        """Return what bounds are of, in words."""
        assert part.bounds is not None
        low, high, centre, _, rows = map(float, part.bounds)
        return (
            f"the values of one unit, of which {rows:,.0f} count at most, are taken to come to between "
            f"{digits(low - centre, 4)} and {digits(high - centre, 4)} together, each less {digits(centre, 6)}"
        )

    def taken(self, cut: Taken) -> tuple[Taken, str]:
        """Return what bounds take from a mean."""
        return cut, "mean"
