"""COUNT(DISTINCT column): how many different values there are, where each unit stands for a few of its own at most.

Units stand for values so that as many as can be count (`rewrite/different_values.py`): one unit changes the number by
as many as it may stand for. One is enough wherever no few units have many values that nobody else has, and noise is in
proportion to how many these are: how many is found where nobody says it (`new_values.py`).
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

MOST_VALUES = 1024  # different values of a unit that are told apart, and may count
STEP = 2  # how much one unit changes by how much more are counted where each stands for two values in place of one


class DifferentValues(Statistic):
    """The number of different values in a group that units can stand for; no sum over them."""

    name = "matched"


class CountValues(Added):
    """COUNT(DISTINCT column) of values that units may share."""

    kind = "different values"
    word, counted_in = "distinct", "values"
    statistics = (DifferentValues(),)
    of = "values"
    adds = clipped = False
    by_itself = True
    shown = "values"

    def needs_bounds(self, contribution: Contribution) -> bool:
        """Return True: of how many values each unit counts."""
        return True

    def declared(self, values: Bounds | None, limits: Limits) -> Bounds | None:
        """Return how many values one unit may stand for; None where that is to be found."""
        return (Fraction(0), Fraction(limits.values)) if limits.values else None

    def usual_norm(self, values: Bounds | None, rows: int) -> Bounds | None:
        """Return that each of so many rows has a value of its own."""
        return Fraction(0), Fraction(rows)

    def node(self, call: Call, *arguments: exp.Expr) -> exp.Expr:
        """Return COUNT(DISTINCT column)."""
        return exp.Count(this=exp.Distinct(expressions=[*arguments]), big_int=True)

    def column(self, aggregate: Aggregate) -> str | None:
        """Return the column that is looked at."""
        return aggregate.argument

    def build(self, builder: Builder, aggregate: Aggregate, bounds: Bounds, cost: int) -> AggregateInput:
        """Count values."""
        most = int(bounds[1])
        component = Component("matched", aggregate.input, Fraction(0), Fraction(most), Fraction(1), most)
        return replace(input_of(aggregate, bounds), blocks=(builder.plain(component, cost),), step=Fraction(1))
