"""By how much intervals of means and variances are longer for what bounds and norms move.

Clipping moves an answer by a bias and not by noise: it is the same each time. An interval for noise alone would hold
too seldom, so it is made longer, as if the bias was one more noise. For bounds of values the bias is known in either
direction, as a number that is passed as seldom as noise passes an end of an interval, and that much is added. For norms
it is known as a root mean square over groups, which is rather too little, and counts `STRETCHED` times. What values
that are far from all others may do is left out: intervals would be ten times as long, and cards say it beside them.

Source: Armstrong and Kolesar, Optimal inference in a class of regression models, Econometrica 86 (2018), of intervals
that know a bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.counted_rows import QUANTILES, CountedRows
from dpnotebook.sql.aggregates.covariance import PairTaken
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.taken import REACH, Taken

TINY = 1e-300
WALKED = 0.1  # standard deviations: how far means of units are taken to move where their number of rows doubles
HIDDEN_DOUBLINGS = 2.0  # of the number of rows, between the mean of units and that of rows where noise hides that
USUAL_SPREAD = 0.4  # half-widths of declared bounds: how far values are spread where nobody tells
STRETCHED = 1.5  # of 1, 1.5 and 2 the least with which intervals of averages hold nine times of ten in most tables


def with_moved(measuring: Measuring, *told: Mapping[int, Taken], rows: CountedRows | None = None) -> Measuring:
    """Return what is measured, with by how much intervals of means and variances are longer.

    Parameters
    ----------
    measuring
        What is measured.
    told
        What norms and bounds of values take from answers or move them by, by the number of the aggregate.
    rows
        How many rows of a unit count, where that was found.
    """
    parts = list(measuring.parts)
    for i, part in enumerate(parts):
        if function_of(part.kind).paired and part.found and part.bounds is not None:
            mine = [by[i] for by in told if i in by]
            pair = next((tuple(PairTaken.of(one)) for one in mine if math.isfinite(one.spread)), ())
            down, up = (math.hypot(*each) for each in zip((0.0, 0.0), *map(_moves, mine), strict=True))
            by_rows = 0.0 if rows is None or measuring.contribution_of(part).kind != "rows" else rows.drawn
            parts[i] = replace(part, pair=pair, moved=up, moved_down=None if down == up else down, drawn=by_rows)
        elif function_of(part.kind).centres and part.found:
            down, up = (
                math.hypot(*each) for each in zip((0.0, 0.0), *(_moves(by[i]) for by in told if i in by), strict=True)
            )
            drawn = 0.0
            if rows is not None and measuring.contribution_of(part).kind == "rows" and part.bounds is not None:
                size = _spread(part, [by[i].spread for by in told if i in by])
                walked = WALKED * rows.walked * size
                down, up, drawn = math.hypot(down, walked), math.hypot(up, walked), rows.drawn * size**2
                drawn *= not function_of(part.kind).weighted  # of which no number of values tells how they weigh
            parts[i] = replace(part, moved=up, moved_down=None if down == up else down, drawn=drawn)
        elif rows is not None and rows.shifted and function_of(part.kind).errors_of == QUANTILES:
            shifted = rows.shifted if measuring.contribution_of(part).kind == "rows" else 0.0
            parts[i] = replace(part, shifted=shifted)
    return replace(measuring, parts=tuple(parts))


def by_hidden_rows(bounds: Sequence[Fraction], units: float, *, squares: bool) -> Taken:
    """Return by how much a mean or a variance is taken to move where all units count alike, whatever rows they have.

    Parameters
    ----------
    bounds
        Between which values are, first of all.
    units
        About how many there are, or noise hides.
    squares
        Whether it is a variance.
    """
    size = _size(bounds, [], squares=squares)
    about = math.hypot(WALKED * HIDDEN_DOUBLINGS, 1.0 / math.sqrt(units)) * size
    return Taken(about, 2.0 * about)


def _spread(part: AggregateInput, told: Sequence[float]) -> float:
    """Return how far values are spread about a mean, or their squares about a variance, by what is told of values."""
    assert part.bounds is not None
    return _size(part.bounds, told, squares=function_of(part.kind).squares)


def _size(bounds: Sequence[Fraction], told: Sequence[float], *, squares: bool) -> float:
    low, high = (float(bound) for bound in bounds[:2])
    size = next(filter(math.isfinite, told), USUAL_SPREAD * (high - low) / 2)
    return math.sqrt(2.0) * size**2 if squares else size


def with_alone(moved: Taken, alone: Sequence[Sequence[float]], norm: float) -> Taken:
    """Return what clipping to a norm does, which is no less than if every unit had one value: it clips far values.

    Parameters
    ----------
    moved
        What is told by the norms of units.
    alone
        Norms, and what clipping to each does where every unit has one value: about, at most, by how much an answer is
        too small then, and too large.
    norm
        That vectors are clipped to.
    """
    if not moved.known:
        return moved
    norms, *columns = np.log(np.maximum(np.array(alone, dtype=float), TINY)).T  # each falls as a power, or faster
    about, most, below, above = (math.exp(float(np.interp(math.log(norm), norms, column))) for column in columns)
    of_norms = REACH * STRETCHED * moved.about
    return moved._replace(
        about=max(moved.about, about),
        most=max(moved.most, most),
        below=math.hypot(of_norms, below),
        above=math.hypot(of_norms, above),
    )


def _moves(taken: Taken) -> tuple[float, float]:
    """Return what bounds or norms are taken to do, as standard deviations: make an answer too large, and too small.

    What bounds of pairs do depends on the answer: they are told apart.
    """
    if math.isfinite(taken.spread) and math.isfinite(taken.heavy):
        return 0.0, 0.0
    if math.isfinite(taken.below):
        return taken.above / REACH, taken.below / REACH
    about = STRETCHED * taken.about if math.isfinite(taken.about) else 0.0
    return about, about


def without_lost(measuring: Measuring) -> Measuring:
    """Return what is measured, with intervals of counts and sums that hold noise alone: what their error promises."""
    return replace(measuring, parts=tuple(replace(part, lost=()) for part in measuring.parts))
