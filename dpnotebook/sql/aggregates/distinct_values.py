"""COUNT(DISTINCT column): how many different values there are, of which each unit brings a few at most.

Whatever values others have, a unit that brings k of them changes the number of all by k at most. Which ones it brings
is drawn at random from its own, each once, so that the draw of one unit depends on no other.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpnotebook.sql.aggregates.added import Added
from dpnotebook.sql.aggregates.builder import Bounds, Builder
from dpnotebook.sql.aggregates.function import Limits, Statistic, input_of
from dpnotebook.sql.aggregates.measuring import AggregateInput
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.parse.calls import Call
from dpnotebook.sql.select import Aggregate, Contribution


class DifferentValues(Statistic):
    """The number of different values that some units bring to a group; no sum over them."""

    name = "distinct"


class CountValues(Added):
    """COUNT(DISTINCT column) of values that units may share."""

    kind = "different values"
    word, counted_in = "distinct", "values"
    statistics = (DifferentValues(),)
    of = "values"
    adds = clipped = False
    by_itself = True
    shown = "count"

    def needs_bounds(self, contribution: Contribution) -> bool:
        """Return False: how many values a unit brings follows from how it is asked."""
        return False

    def declared(self, values: Bounds | None, limits: Limits) -> Bounds | None:
        """Return how many values one unit brings."""
        return Fraction(0), Fraction(limits.values)

    def node(self, call: Call, *arguments: exp.Expr) -> exp.Expr:
        """Return COUNT(DISTINCT column)."""
        return exp.Count(this=exp.Distinct(expressions=[*arguments]), big_int=True)

    def column(self, aggregate: Aggregate) -> str | None:
        """Return the column that is looked at."""
        return aggregate.argument

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Count values."""
        most = int(bounds[1])
        component = Component("distinct", aggregate.input, Fraction(0), Fraction(most), Fraction(1), most)
        return replace(input_of(aggregate, bounds), blocks=(builder.plain(component, cost),), step=Fraction(1))
