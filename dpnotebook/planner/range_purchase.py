"""Buying a strategy for ranges of one ordered attribute: when what they cost one by one has come to its price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpnotebook.planner.answers import grid_bits
from dpnotebook.planner.history import StrategyPrice
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.pricing import Pricing, scale_for_units
from dpnotebook.planner.range_forecast import range_forecast
from dpnotebook.planner.range_strategy import price_of, range_strategy, to_be_paid
from dpnotebook.planner.spare_budget import range_of
from dpnotebook.predicate import Predicate
from dpnotebook.privacy.spend import Spend
from dpnotebook.query.measurement import Axis, Measurement
from dpnotebook.query.question import Question
from dpnotebook.workload import Coarse, Identity

LEAST_ASKED = 4  # ranges from which it is guessed what comes
CELLS = 160  # that a strategy tells apart
AGAIN = 1.25  # how much more must have been paid before a price is worked out anew
LEAST_PAID = 3  # prices of the range that is asked, after a first purchase: no strategy will be cheaper
NEVER = 2**62  # units, more than any budget has: the price of what is not for sale


def ranges_to_buy(
    measurement: Measurement,
    target: float,
    block: LeastSquaresState,
    spend: Spend,
    reactive: int,
    pricing: Pricing,
    worked_out: dict[str, StrategyPrice],
) -> tuple[Planned, ...]:
    """Return the strategy to measure now for the ranges that are likely to come, or nothing.

    Ski rental: it is bought when what ranges have cost since the last purchase, the present one included, has come to
    a share of its price. So not much more than what was best in hindsight is paid, whatever is asked.

    Parameters
    ----------
    measurement, target
        The count of the range that is asked, and the variance that it may have.
    block
        Least squares over what was measured of the attribute.
    spend
        What every cell of the table has cost.
    reactive
        What ranges have cost since the last purchase, this one included, in units.
    pricing
        Of which table, with which noise, beside which earlier measurements.
    worked_out
        Where a price that is worked out is put, by the attribute. It holds for later questions once this one is
        recorded with it, and never because somebody looked at a plan.
    """
    domain, accountant = pricing.table.domain, pricing.accountant
    found = range_of(measurement, domain)
    if found is None or block.names != (found[0],):
        return ()
    name, start, end = found
    per_unit = accountant.per_unit(pricing.table.max_rows)
    known = pricing.history.prices.get(name)
    if known is not None and reactive < min(known.rise, AGAIN * known.reactive):
        return ()
    bought = any(isinstance(source.part.operator, Coarse) for source in block.sources.values())
    paid = reactive / price_of(target, accountant.noise, per_unit)
    if bought and paid < LEAST_PAID:
        return ()
    recent = pricing.history.recent
    asked = [*_asked(recent, name, pricing), (start, end, target)]
    if len(asked) < LEAST_ASKED:
        return ()
    starts, ends, variances = np.array(asked).T
    labels = block.atoms.labels
    cuts = np.flatnonzero(np.diff(labels)) + 1
    forecast = range_forecast(starts, ends, variances, domain[name].size, CELLS, cuts)
    spent = spend.by_attribute(name)[: forecast.parts[-1]]
    purchase = range_strategy(
        forecast,
        block.line(forecast.parts),
        np.maximum.reduceat(spent, forecast.parts[:-1]),
        spend.maximum,
        domain[name].size,
        accountant.noise,
        per_unit,
    )
    needed = NEVER
    if purchase is not None:
        needed = to_be_paid(purchase.price, paid / (_since_purchase(recent) + 1) if bought else None)
    worked_out[name] = StrategyPrice(needed, reactive)
    if purchase is None or reactive < needed:
        return ()
    axis = Axis(name, tuple(range(domain[name].size)))
    strategy = Measurement(purchase.operator, (axis,), Predicate.everything(domain))
    scale = scale_for_units(strategy, purchase.units, pricing.table, accountant)
    return (Planned(strategy, scale, grid_bits(accountant.noise, scale)),)


def _since_purchase(recent: Sequence[Mapping[str, Any]]) -> int:
    """Return how many of the latest questions were asked after something was bought."""
    for count, plan in enumerate(reversed(recent)):
        if "buy" in plan.get("actions", ()):
            return count
    return len(recent)


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
