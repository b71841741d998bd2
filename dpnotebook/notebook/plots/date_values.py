"""Axes of values that are dates, such as medians of them: days are numbers to a plot, and dates to people."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.notebook.cards.release import Series
from dpnotebook.notebook.plots.theme import plain

MOST_TICKS = 6  # that have room beside each other
STEPS = (("D", (1, 2, 5, 10)), ("M", (1, 2, 3, 6)), ("Y", (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)))


def value_axis(series: Series, *, from_zero: bool = False) -> dict[str, Any]:
    """Return the axis along which values lie, with dates as dates.

    Parameters
    ----------
    series
        The values and their intervals.
    from_zero
        Whether the axis has to show where 0 is, which no date is.
    """
    axis: dict[str, Any] = {"title": {"text": plain(series.unit)}}
    if series.dates:
        return axis | date_ticks(series)
    return axis | ({"rangemode": "tozero"} if from_zero else {})


def date_ticks(series: Series) -> dict[str, Any]:
    """Return the places and the names of some dates, as plotly's axes and colour bars take them."""
    days = np.concatenate([series.lower, series.value, series.upper])
    days = days[np.isfinite(days)]
    if not days.size:
        return {}
    shown, unit = _round_dates(int(days.min()), int(days.max()))
    first = shown.astype("datetime64[D]")
    written = "%d %b<br>%Y" if unit == "D" else "%b<br>%Y" if unit == "M" else "%Y"
    names = [day.strftime(written).lstrip("0") for day in first.tolist()]
    return {"tickvals": first.astype(np.int64).tolist(), "ticktext": names}


def _round_dates(first: int, last: int) -> tuple[NDArray[np.datetime64], str]:
    """Return round dates from one day to another, numbered from 1970-01-01, and the unit that they are whole of."""
    ends = np.array([first, last]).astype("datetime64[D]")
    for unit, steps in STEPS:
        start, stop = ends.astype(f"datetime64[{unit}]").astype(np.int64)
        for step in steps:
            low = start - start % step
            if (stop - low) // step < MOST_TICKS:
                return np.arange(low, stop + 1, step).astype(f"datetime64[{unit}]"), unit
    return ends, "D"
