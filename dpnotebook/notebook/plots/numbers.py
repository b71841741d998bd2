"""The numbers of a release in words: each with its interval, and all of them as a table."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from dpnotebook.notebook import formatting
from dpnotebook.notebook.cards.picked_lines import picked_note
from dpnotebook.notebook.cards.release import (
    ANYTHING,
    NO_INTERVAL,
    Series,
    beside,
    facts,
    series_of,
    written_in,
)
from dpnotebook.notebook.plots.levels import key_levels
from dpnotebook.notebook.tables import AnswerTable

if TYPE_CHECKING:
    from dpnotebook.session.release import Release


def said(series: Series, unit: bool = True) -> list[str]:
    """Return each value with its error as text: `1,234 ±31 rows`, or `12 (3 to 20)` where that is not symmetric.

    Parameters
    ----------
    series
        One measure.
    unit
        Whether to say what it is counted in.
    """
    after = f" {series.unit}" if unit and series.unit and not series.dates else ""  # a date is counted in nothing
    symmetric, found = series.symmetric, []
    for row, (value, half) in enumerate(zip(series.value.tolist(), series.half.tolist(), strict=True)):
        if missing := instead(series, row):
            found.append(missing)
            continue
        if not math.isfinite(half):
            found.append(f"{formatting.rounded(value)}{after} ({series.open_ended(row) or NO_INTERVAL})")
            continue
        lower, upper = (series.said(float(ends[row]), half) for ends in (series.lower, series.upper))
        error = f"±{formatting.error(half)}" if symmetric else f"({lower} to {upper})"
        found.append(f"{series.said(value, half)} {error}{after}")
    return found


def instead(series: Series, row: int) -> str:
    """Return what is said instead of a value that is not there or may be anything; empty of one that is known."""
    if series.open_ended(row) == ANYTHING:
        return ANYTHING
    if math.isnan(series.value[row]):
        return series.absent if series.searched else "no value"
    return ""


def warnings(release: Release) -> list[str]:
    """Return what a reader of the intervals has to know, wherever they are handed on."""
    return [note for note in (*release.notes, picked_note(release)) if note]


def answer_table(release: Release, rows: int | None = None) -> AnswerTable:
    """Return a release as a table: its keys, each measure with its interval, and what stands beside them.

    Parameters
    ----------
    release
        What to list.
    rows
        How many of its rows; all when None.
    """
    whole, others = len(release.frame), beside(release)
    if rows is not None and rows < whole:
        release = replace(release, frame=release.frame.iloc[:rows])
    keys = [key_levels(release, key) for key in release.keys]
    found = list(series_of(release))
    columns = [key.names for key in keys]
    columns += [said(series, unit=False) for series in found]
    columns += [[written_in(release, name, row) for row in range(len(release.frame))] for name in others]
    return AnswerTable(
        (*(key.title for key in keys), *(_title(series) for series in found), *others),
        tuple(zip(*columns, strict=True)) if columns else (),
        "l" * len(keys) + "r" * (len(found) + len(others)),
        whole - len(release.frame),
        " · ".join((facts(release), *warnings(release))),
    )


def _title(series: Series) -> str:
    name = series.unit if series.name == "value" and series.unit else series.name
    return f"{name} ({series.unit})" if name != series.unit and series.unit not in ("", "rows") else name
