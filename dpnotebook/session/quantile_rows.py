"""Several quantiles that a statement has side by side, as the planner's answers have them: a row for each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.session.answer_frame import QUANTILE, column_name
from dpnotebook.session.release import Release
from dpnotebook.sql.statement import ShownColumn

PARTS = ("value", "std_error", "lower", "upper")


def names_beside(quantiles: Sequence[float], taken: Collection[str]) -> list[str]:
    """Return what columns of quantiles are called, "25%" and so on, unless a key has such a name.

    Examples
    --------
    >>> names_beside([0.25, 0.5], ["sex"]), names_beside([0.25], ["25%"])
    (['25%', '50%'], ['25%_'])
    """
    names = [f"{100 * quantile:.12g}%" for quantile in quantiles]
    while {_part(name, part) for name in names for part in PARTS} & set(taken):
        names = [f"{name}_" for name in names]
    return names


def in_rows(
    release: Release, columns: Mapping[str, float], name: str, of: str, unit: str | None, keys: Sequence[str]
) -> Release:
    """Return a release with a row for each group and quantile.

    Parameters
    ----------
    release
        One row a group, the quantiles side by side.
    columns
        What each quantile is called there.
    name
        What the only value is called.
    of, unit
        The column that they are of, and what that is counted in.
    keys
        What was grouped by.
    """
    frame, again, redraws = release.frame, release.again, release.redraws
    size, several = len(frame), len(columns)
    shown = frame[[*keys]].loc[np.repeat(frame.index, several)].reset_index(drop=True)
    shown[QUANTILE] = np.tile(list(columns.values()), size)
    for part in PARTS:
        each = [frame[_part(column, part)].to_numpy() for column in columns]
        shown[_part(name, part)] = np.stack(each, axis=1).reshape(-1)

    def drawn(draws: int) -> Mapping[str, NDArray[Any]]:
        assert redraws is not None
        found = redraws(draws)
        return {name: np.stack([found[column] for column in columns], axis=2).reshape(draws, -1)}

    return replace(
        release,
        frame=shown,
        ordered=(*release.ordered, True),
        worked_out=(ShownColumn(name, f"QUANTILE of {of}", "quantile", of, unit),),
        again=None if again is None else lambda confidence: in_rows(again(confidence), columns, name, of, unit, keys),
        redraws=None if redraws is None else drawn,
    )


def _part(name: str, part: str) -> str:
    return name if part == "value" else column_name(name, part)
