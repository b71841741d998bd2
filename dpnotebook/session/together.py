"""How rarely each interval may miss, for all of a release to hold at once, where numbers depend on the same noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotebook.errors import DPError
from dpnotebook.session.answer_frame import column_name

Floats = NDArray[np.float64]

DRAWS, FEWEST = 4_000, 2_000  # of the noise: with fewer it is not told how often intervals miss together
MOST = 4_000_000  # numbers that are redrawn


def misses_together(
    frame: pd.DataFrame,
    names: Sequence[str],
    confidence: float,
    redraws: Callable[[int], Mapping[str, NDArray[np.generic]]],
) -> float | None:
    """Return how often each interval may miss, for any of them to miss as often as one did; None where that is unknown.

    The noise is drawn again: how far the number is off that is off most, in half-widths of its own interval, says how
    much longer all of them have to be, and how often each misses then. Numbers that are worked out from the same noise,
    such as a total and its parts, miss together, and so each may miss more often than by the union bound.

    Parameters
    ----------
    frame, names
        Of a release, and its columns with intervals.
    confidence
        Of these.
    redraws
        Gives the columns with their noise drawn again, each of shape (draws, rows).
    """
    cells = len(frame) * len(names)
    draws = min(DRAWS, MOST // max(cells, 1))
    if cells < 2 or draws < FEWEST:
        return None
    try:
        drawn = redraws(draws)
    except DPError:
        return None
    off, cells = [np.zeros((draws, 0))], 0
    for name in names:
        missing = frame[name].isna().to_numpy() if frame[name].dtype != object else np.zeros(len(frame), dtype=bool)
        cells += int((~missing).sum())
        if name in drawn and frame[name].dtype.kind in "iuf":
            off.append(_half_widths_off(frame, name, np.asarray(drawn[name], dtype=float)))
    told = np.concatenate(off, axis=1)
    if told.shape[1] < 2:
        return None
    # What is off by no number of half-widths, such as a rank of which there is no other, misses by the union bound.
    alone = (1 - confidence) / cells
    rest = 1 - confidence - alone * (cells - told.shape[1])
    longer = np.quantile(told.max(axis=1), 1 - rest, method="higher")
    return float(min(max((told > longer).mean(), alone), 1 - confidence))


def _half_widths_off(frame: pd.DataFrame, name: str, drawn: Floats) -> Floats:
    """Return how far redraws are off their number, in half-widths of its interval on that side; shape (draws, told)."""
    value, lower, upper = (
        frame[one].to_numpy(dtype=float) for one in (name, column_name(name, "lower"), column_name(name, "upper"))
    )
    known = np.isfinite(value) & np.isfinite(lower) & np.isfinite(upper) & (lower < value) & (value < upper)
    away = np.where(np.isfinite(drawn), drawn - value, np.inf)[:, known]
    return np.asarray(np.where(away > 0, away / (upper - value)[known], -away / (value - lower)[known]))
