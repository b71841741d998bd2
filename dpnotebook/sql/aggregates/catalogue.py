"""Every aggregate there is, one a line, by its kind, by the names it is written with, and what is added up for it."""

from __future__ import annotations

from dpnotebook.sql.aggregates.added import Count, CountUnits, Sum
from dpnotebook.sql.aggregates.covariance import Correlation, Covariance
from dpnotebook.sql.aggregates.distinct_values import CountValues
from dpnotebook.sql.aggregates.function import AggregateFunction, Statistic
from dpnotebook.sql.aggregates.quantiles import Quantiles
from dpnotebook.sql.aggregates.ratios import Average, Deviation, Variance
from dpnotebook.sql.aggregates.unit_averages import UnitAverage
from dpnotebook.sql.aggregates.weighted import WeightedAverage
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.parse.calls import Spelling

AGGREGATES: tuple[AggregateFunction, ...] = (
    Count(),
    CountUnits(),
    Sum(),
    Average(),
    Variance(),
    Deviation(),
    Quantiles(),
    Covariance(),
    Correlation(),
    WeightedAverage(),
    UnitAverage(),
    CountValues(),
)
NAMES: dict[str, tuple[AggregateFunction, Spelling]] = {
    name: (one, spelling) for one in AGGREGATES for name, spelling in one.spellings.items()
}
PRIVATE = frozenset(name for name in NAMES if name.startswith("ANON_"))  # by themselves, without a clause
AVERAGE = next(one for one in AGGREGATES if one.averages)  # what a count over the count that it is a part of is
WEIGHTED = next(one for one in AGGREGATES if one.weighted)  # what a weighted sum over the sum of the weights is
UNIT_AVERAGE = next(one for one in AGGREGATES if one.by_units)  # what an average is of what each unit has
VARIANCE, DEVIATION = (one for one in AGGREGATES if isinstance(one, Variance))  # which is its root
DISTINCT_VALUES = next(one for one in AGGREGATES if one.by_itself)  # what DISTINCT counts, where not units
_KINDS = {one.kind: one for one in AGGREGATES}
_STATISTICS = {statistic.name: statistic for one in AGGREGATES for statistic in one.statistics}


def function_of(kind: str) -> AggregateFunction:
    """Return an aggregate by its kind."""
    return _KINDS[kind]


def statistic_of(component: Component) -> Statistic:
    """Return what a component adds up."""
    return _STATISTICS[component.statistic]


def names() -> tuple[str, ...]:
    """Return the names by which people are told of all aggregates."""
    return tuple(name for one in AGGREGATES for name in one.said)
