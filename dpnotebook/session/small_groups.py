"""Groups that a policy withholds, because their noisy counts are too small: worked out from what was released alone.

A group is as large as its noisy count says, of privacy units where these were counted and of rows where not; the exact
count is looked at nowhere, so withholding is post-processing and costs nothing. Of several counts of a row all must be
large enough. Sums, means and quantiles of a group stay or go with the count that was asked for beside them; a question
without one is refused before it is paid for (`Policy.refusal`). A record keeps what was measured: it is every way to
look at it that leaves out the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.ledger import Record
from dpnotebook.session.policy import counts_of
from dpnotebook.session.statement_releases import select_frame
from dpnotebook.sql.statement import Statement

if TYPE_CHECKING:
    import pandas as pd

    from dpnotebook.progress import Progress
    from dpnotebook.session.release import Release

CHECKED = 0.95  # confidence of the intervals beside the counts that are looked at; counts do not depend on it


def without_small_groups(release: Release, minimum: int) -> Release:
    """Return a release of the planner without the groups whose noisy counts are below a minimum.

    Parameters
    ----------
    release
        As it was worked out from its record.
    minimum
        The smallest noisy count that is shown.
    """
    if release.tables is not None:
        release = replace(release, tables=release.tables.withholding(minimum))
    if release.unread:
        return release
    kept = _large(release.frame, counts_of(release.question), minimum)
    return release if kept.all() else _of_rows(release, np.flatnonzero(kept), _note(int((~kept).sum()), minimum))


def _of_rows(release: Release, rows: NDArray[np.intp], note: str) -> Release:
    """Return some rows of a release, however it is looked at."""
    again, redraws, adjusted = release.again, release.redraws, release.adjusted

    def moved(total: float | None, report: Progress) -> pd.DataFrame:
        assert adjusted is not None
        return adjusted(total, report).iloc[rows].reset_index(drop=True)

    return replace(
        release,
        frame=release.frame.iloc[rows].reset_index(drop=True),
        notes=(*release.notes, note),
        adjusted=None if adjusted is None else moved,
        again=None if again is None else lambda confidence: _of_rows(again(confidence), rows, note),
        redraws=None
        if redraws is None
        else lambda draws, **needed: {name: values[:, rows] for name, values in redraws(draws, **needed).items()},
    )


def record_without_small_groups(record: Record, statement: Statement, minimum: int) -> tuple[Record, tuple[str, ...]]:
    """Return what a record of a statement has of groups that are large enough, and what is to be said of the others.

    Parameters
    ----------
    record
        With the noisy numbers of every group that was released.
    statement
        What it answers.
    minimum
        The smallest noisy count that is shown.
    """
    answers, told, hidden = list(record.answers), [dict(one) for one in record.details["selects"]], 0
    for i, select in enumerate(statement.selects):
        names = [one.name for one in select.aggregates if one.kind in ("count", "units")]
        kept = _large(select_frame(record, i, select, CHECKED), names, minimum)
        hidden += int((~kept).sum())
        answers[i] = answers[i][kept]
        told[i]["keys"] = _picked(told[i]["keys"], kept)
    if not hidden:
        return record, ()
    kept_record = replace(record, numbers=tuple(answers), details=record.details | {"selects": told})
    return kept_record, (_note(hidden, minimum),)


def _picked(keys: Sequence[Any], kept: NDArray[np.bool_]) -> list[Any]:
    return [key for key, keep in zip(keys, kept, strict=True) if keep]


def _large(frame: pd.DataFrame, names: Sequence[str], minimum: int) -> NDArray[np.bool_]:
    """Return which rows have noisy counts of at least a minimum, all of them; none where nothing was counted."""
    if not names:
        return np.zeros(len(frame), dtype=bool)
    counts = np.array([frame[name].to_numpy(dtype=float) for name in names])
    return np.asarray((counts >= minimum).all(axis=0))


def _note(groups: int, minimum: int) -> str:
    several = f"{groups:,} groups are" if groups > 1 else "one group is"
    their = "their noisy counts are" if groups > 1 else "its noisy count is"
    return (
        f"{several} withheld, as {their} below {minimum:,}, the least that the policy shows; totals and shares of "
        "these rows are of the groups that are shown"
    )
