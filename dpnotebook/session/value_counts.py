"""Histograms as `value_counts` shows them: the most frequent level first, and shares of all rows.

Both are worked out from the noisy counts alone, so they cost what the histogram does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.session.answer_frame import DERIVED, column_name
from dpnotebook.session.redraws import FEWEST, Drawn, Ends, as_often_as_can_be, draws_for, intervals
from dpnotebook.sql.statement import ShownColumn

if TYPE_CHECKING:
    from dpnotebook.session.release import Release

Floats = NDArray[np.float64]

IN_NOISY_ORDER = "in the order of noisy counts: rows whose intervals overlap may belong in another one"
NOT_REDRAWN = "shares are without intervals, as the answers are too many, or combined from too much, to be redrawn"


def most_frequent_first(release: Release) -> Release:
    """Return the same release with its rows in descending order of their noisy counts.

    Parameters
    ----------
    release
        One count for each row; its order is that of the declared levels.
    """
    order = np.argsort(-release.frame[release.names[0]].to_numpy(dtype=float), kind="stable")
    again, redraws, adjusted = release.again, release.redraws, release.adjusted
    return replace(
        release,
        frame=release.frame.iloc[order].reset_index(drop=True),
        notes=(*release.notes, IN_NOISY_ORDER),
        ordered=(False,) * len(release.ordered),
        again=None if again is None else lambda confidence: most_frequent_first(again(confidence)),
        redraws=None
        if redraws is None
        else lambda draws: {name: values[:, order] for name, values in redraws(draws).items()},
        adjusted=None
        if adjusted is None
        else lambda total, report: adjusted(total, report).iloc[order].reset_index(drop=True),
    )


def shares_of_all(release: Release) -> Release:
    """Return what share of all rows of a release each of its counts is, with intervals; noise of the total included.

    Parameters
    ----------
    release
        One count for each row.
    """
    name = release.names[0]
    counts, redraws, again = release.frame[name].to_numpy(dtype=float), release.redraws, release.again
    values = _shares(counts[None])[0]

    def drawn(draws: int) -> tuple[Floats, Floats]:
        assert redraws is not None
        found = np.asarray(redraws(draws)[name], dtype=float)
        return _shares(found), np.broadcast_to(found.sum(axis=1, keepdims=True), found.shape)

    def shown(draws: int) -> Mapping[str, NDArray[Any]]:
        found = drawn(draws)[0]
        return {name: np.where(np.isfinite(found), found, np.nan)}

    often = None
    if redraws is not None:
        often = as_often_as_can_be(drawn, draws_for(release.confidence, counts.size, 0) or FEWEST)
    if often is None:
        ends, notes = Ends(*(np.full(counts.size, np.nan) for _ in range(3))), [NOT_REDRAWN]
    else:
        ends = intervals(Drawn(values, often[0], (often[1],)), (), None, release.confidence)
        notes = list(ends.notes(name))
    frame = release.frame.assign(**{name: np.where(np.isfinite(values), values, np.nan)})
    for part, numbers in vars(ends).items():
        frame[column_name(name, part)] = numbers
    return replace(
        release,
        frame=frame,
        unit="",
        adjusted=None,
        notes=(*release.notes, *notes),
        worked_out=(ShownColumn(name, "share of rows", DERIVED),),
        again=None if again is None else lambda confidence: shares_of_all(again(confidence)),
        redraws=None if redraws is None else shown,
    )


def as_value_counts(release: Release, *, normalize: bool, sort: bool) -> Release:
    """Return a histogram as `value_counts` shows it; parameters as for the verb."""
    shown = shares_of_all(release) if normalize else release
    return most_frequent_first(shown) if sort else shown


def _shares(counts: Floats) -> Floats:
    """Return shares of the rows, infinite where there are none; shape (draws, rows)."""
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total == 0, np.inf, counts / np.where(total == 0, 1.0, total))
