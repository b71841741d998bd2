"""Buying a strategy for ranges of one ordered attribute: when what they cost one by one has come to its price."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dpnotebook.planner.history import StrategyPrice
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.pricing import Pricing, scale_for_units
from dpnotebook.planner.range_forecast import range_forecast
from dpnotebook.planner.range_strategy import Lacking, range_strategy
from dpnotebook.planner.ski_rental import LEAST_ASKED, Integers
from dpnotebook.planner.spare_budget import range_of
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.spend import Spend
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Question
from dpnotebook.workload import Coarse, Identity

CELLS = 160  # that a strategy tells apart
AGAIN = 1.25  # how much more may be paid when a price is worked out anew
FURTHER = 2  # times its price must be allowed for another strategy: the one before answers most of what comes
NEVER = 2**62  # units, more than any budget has: the price of what is not for sale


def ranges_to_buy(
    measurement: Measurement,
    target: float,
    block: LeastSquaresState,
    spend: Spend,
    credit: int,
    along: Callable[[], Integers | None],
    pricing: Pricing,
    worked_out: dict[str, StrategyPrice],
) -> tuple[tuple[Planned, ...], float] | None:
    """Return the strategy to measure now for the ranges that are likely to come, or nothing.

    Parameters
    ----------
    measurement, target
        The count of the range that is asked, and the variance that it may have.
    block
        Least squares over what was measured of the attribute.
    spend
        What every cell of the table has cost.
    credit, along
        What may be paid, in units, and works out what may be paid at each level, shape (levels,), None where that is
        not bounded; see `ski_rental`.
    pricing
        Of which table, with which noise, beside which earlier measurements.
    worked_out
        Where a price that is worked out is put, by the attribute. It holds for later questions once this one is
        recorded with it, and never because somebody looked at a plan.

    Returns
    -------
    What is measured, and which share of the likely ranges it leaves to be paid for.
    """
    domain, accountant = pricing.table.domain, pricing.accountant
    found = range_of(measurement, domain)
    if found is None or block.names != (found[0],):
        return None
    name, start, end = found
    per_unit = accountant.per_unit(pricing.table.contribution_bound)
    known = pricing.history.prices.get(name)
    if known is not None and credit < min(known.price, AGAIN * known.credit):
        return None
    asked = [*_asked(pricing.history.recent, name, pricing), (start, end, target)]
    if len(asked) < LEAST_ASKED:  # others of the kind were no ranges, or had no variance to be reached
        return None
    block = pricing.history.anew(block, measurement.summand)  # a strategy for ranges is sensitive to the last digit
    starts, ends, variances = np.array(asked).T
    labels = block.atoms.labels
    cuts = np.flatnonzero(np.diff(labels)) + 1
    forecast = range_forecast(starts, ends, variances, domain[name].size, CELLS, cuts)
    spent = spend.by_attribute(name)[: forecast.parts[-1]]
    most = along()
    purchase = range_strategy(
        forecast,
        block.line(forecast.parts),
        np.maximum.reduceat(spent, forecast.parts[:-1]),
        spend.maximum,
        domain[name].size,
        accountant.noise,
        per_unit,
        None if most is None else np.minimum.reduceat(most[: forecast.parts[-1]], forecast.parts[:-1]),
    )
    if isinstance(purchase, Lacking):
        worked_out[name] = StrategyPrice(credit + purchase.units, credit)
        return None
    bought = any(isinstance(source.part.operator, Coarse) for source in block.sources.values())
    needed = NEVER if purchase is None else purchase.rise * (FURTHER if bought else 1)
    worked_out[name] = StrategyPrice(needed, credit)
    if purchase is None or needed > credit:
        return None
    axis = Axis(name, tuple(range(domain[name].size)))
    strategy = Measurement(purchase.operator, (axis,), Predicate.everything(domain))
    scale = scale_for_units(strategy, purchase.units, pricing.table, accountant)
    return (Planned(strategy, scale, accountant.law.grid_bits(scale)),), purchase.missed


def _asked(recent: Sequence[Mapping[str, Any]], name: str, pricing: Pricing) -> list[tuple[float, float, float]]:
    """Return the ranges of one attribute among the latest questions, and the variances that they might have."""
    found = []
    for plan in recent:
        if not plan.get("target") or plan["question"]["keys"]:
            continue
        question = Question.from_json(plan["question"], pricing.table.domain)
        measure = question.measures[0]
        if measure.kind != "count" or question.where.attributes != (name,):
            continue
        run = range_of(Measurement(Identity(1), (), question.where), pricing.table.domain)
        if run is not None:
            found.append((float(run[1]), float(run[2]), float(plan["target"])))
    return found
