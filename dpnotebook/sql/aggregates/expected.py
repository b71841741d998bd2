"""What a private aggregation will be like, in words and numbers, before anything is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.noise import integer_variance
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.bounds import units_found
from dpnotebook.sql.aggregates.estimating import whole_width
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.partitions import units_needed
from dpnotebook.sql.aggregates.quantiles import rank_error
from dpnotebook.sql.aggregates.ratios import expected_mean, expected_variance
from dpnotebook.sql.statement import PrivateSelect
from dpnotebook.strategy import Strategy

ADDED = ("count", "units", "sum")
USUAL_ROWS = 1000.0  # values of a group, where nothing says how many there are


@dataclass(frozen=True)
class Expectation:
    """How wrong the answers of an aggregate will be.

    Parameters
    ----------
    std_errors
        Standard error of an answer, shape (1,); NaN while it depends on bounds that are to be found.
    half_width
        Half-width of its interval.
    note
        What that rests on; empty when nothing.
    """

    std_errors: NDArray[np.float64]
    half_width: float
    note: str = ""

    @property
    def std_error(self) -> float:
        """Standard error of an answer."""
        return float(self.std_errors[0])


def expected(measuring: Measuring, confidence: float, rows: float | None = None) -> list[Expectation]:
    """Return how wrong the answers of every aggregate will be, by noise alone.

    Parameters
    ----------
    measuring
        What is measured.
    confidence
        Of the intervals.
    rows
        Values in a group, for means and variances, whose errors depend on it; a usual number when None.
    """
    return [_expected(measuring, part, confidence, rows) for part in measuring.parts]


def _expected(measuring: Measuring, part: AggregateInput, confidence: float, rows: float | None) -> Expectation:
    if part.bounds is None:
        note = "how wrong it will be depends on its bounds, which are found from the data first, with half of its share"
        return Expectation(np.array([math.nan]), math.nan, note)
    block = measuring.blocks[part.blocks[0]]
    reach = kappa(confidence, measuring.noise)
    if part.kind in ("count", "units", "sum"):
        error = math.sqrt(integer_variance(measuring.noise, block.scale)) * float(part.step)
        width = whole_width(measuring.noise, block.scale, confidence) * float(part.step)
        return Expectation(np.array([error]), width)
    if part.kind == "quantiles":
        assert isinstance(block.combine, Strategy)
        error = rank_error(measuring.noise, block.scale, block.combine)
        return Expectation(np.array([error]), reach * error, "errors of quantiles are in values of rank")
    size = USUAL_ROWS if rows is None else max(rows, 1.0)
    values = "units" if _of_units(measuring, part) else "values"
    note = f"errors of averages and variances are those of a group of {size:,.0f} {values}"
    error = (expected_mean if part.kind == "average" else expected_variance)(measuring, part, size)
    most = float(part.bounds[1] - part.bounds[0])
    most = most * most / 4 if part.kind == "variance" else most / 2
    return Expectation(np.array([min(error, most)]), min(reach * error, most), note)


def unit(select: PrivateSelect, index: int) -> str:
    """Return what the answers of an aggregate are counted in."""
    aggregate = select.aggregates[index]
    match aggregate.kind:
        case "count":
            return "rows"
        case "units":
            return "units"
        case "quantiles":
            return "values of rank"
        case "variance":
            return f"square of {aggregate.argument}'s units"
        case _:
            return aggregate.argument


def steps(measuring: Measuring) -> tuple[str, ...]:
    """Return how it is worked out, a line for each step."""
    found = [_contribution(measuring)]
    law = "discrete Laplace" if measuring.noise == "laplace" else "Gaussian"
    if any(part.bounds is None for part in measuring.parts):
        found.append(
            "find bounds first: a noisy histogram of orders of magnitude, each unit counted once, at half the "
            "aggregate's share of the cost"
        )
    found.append(f"add up clamped whole numbers in the engine, and add {law} noise to the sums of every group")
    if measuring.tau is not None:
        found.append(f"show groups whose noisy number of units is at least {_least(measuring):,.3g}; hide the others")
    return tuple(found)


def _contribution(measuring: Measuring) -> str:
    kind, most = measuring.contribution.kind, measuring.contribution.most
    if kind == "l2":
        return "scale what each unit adds, over all groups together, down to a bounded length"
    if kind == "rows":
        return f"keep {'one row' if most == 1 else f'a random sample of at most {most:,} rows'} of each unit"
    groups = "one random group" if most == 1 else f"a random sample of at most {most:,} groups"
    return f"add up each unit's rows by group, clamp them, and keep {groups} of each unit"


def warnings(measuring: Measuring, confidence: float, rows: float | None = None) -> tuple[str, ...]:
    """Return what a person should know before they ask: what may be wrong beside noise.

    Parameters
    ----------
    measuring
        What is measured.
    confidence
        Of the intervals.
    rows
        About how many rows there are.
    """
    found = _hidden(measuring) + _not_found(measuring) + _clipping(measuring, confidence)
    return tuple(dict.fromkeys(found))


def _hidden(measuring: Measuring) -> list[str]:
    """Return what a threshold does to small groups."""
    if measuring.tau is None:
        return []
    least, needed = math.ceil(_least(measuring)), groups_need(measuring)
    found = [f"a group needs about {needed:,} units to be shown (95%); fewer than about {least:,} mostly stay hidden"]
    if any(measuring.counted in part.blocks for part in measuring.parts):
        found.append(f"of groups with about {least:,} units those are shown whose count noise has raised")
    return found


def _not_found(measuring: Measuring) -> list[str]:
    """Return what becomes of aggregates whose bounds noise hides."""
    scales = [part.sought for part in measuring.parts if part.sought is not None]
    if not scales:
        return []
    needed = units_found(measuring.noise, max(scales))
    return [
        f"bounds are found where about {needed:,} units are of one order of magnitude, somewhat more where they are of "
        "several; with fewer the answer is 'not found', and is paid for all the same. Bounds that you write need none"
    ]


def groups_need(measuring: Measuring, probability: float = 0.95) -> int:
    """Return how many units a group needs to be shown with some probability."""
    assert measuring.counted is not None
    assert measuring.tau is not None
    tau = measuring.tau + (measuring.min_units - 1) * measuring.one
    scale = measuring.blocks[measuring.counted].scale
    return max(math.ceil(Fraction(units_needed(measuring.noise, scale, tau, probability), measuring.one)), 1)


def _least(measuring: Measuring) -> float:
    assert measuring.tau is not None
    return measuring.tau / measuring.one + measuring.min_units - 1


def _clipping(measuring: Measuring, confidence: float) -> list[str]:
    """Return what bounds may do: what they cut off is in no interval, and usually the larger error."""
    kind, most = measuring.contribution.kind, measuring.contribution.most
    found = []
    if kind == "groups" and measuring.grouped:
        vectors = measuring.noise == "gaussian" and all(part.kind in ADDED for part in measuring.parts)
        instead = ', or contribution="l2" clips whole vectors and usually errs least' if vectors else ""
        found.append(
            f"units in more than {'1 group' if most == 1 else f'{most:,} groups'} count in that many, drawn at random: "
            "totals come out too low, and no interval says so; max_groups_contributed= says how many"
            f"{instead}"
        )
    if kind == "rows":
        return found
    for part in measuring.parts:
        if part.kind not in ("count", "sum") or part.bounds is None:
            continue
        if part.kind == "count" and part.bounds == (0, 1):  # a count of units: rows are not meant to count
            continue
        low, high = (float(bound) for bound in part.bounds)
        width = _expected(measuring, part, confidence, None).half_width
        cut = (
            f"a unit's length over all groups is cut off at {high:,.6g}"
            if kind == "l2"
            else f"what a unit adds to a group is clamped to [{low:,.6g}, {high:,.6g}]"
        )
        found.append(
            f"{cut}: a group that loses more than {width:,.3g} by that is further off than noise takes it, and no "
            "interval says so"
        )
    return found


def _of_units(measuring: Measuring, part: AggregateInput) -> bool:
    return part.kind == "average" and measuring.contribution.kind == "groups"
