"""Counts and sums of a release added up over its rows, with intervals: totals, and totals by some of its keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError, shorten
from dpnotebook.query.question import Measure
from dpnotebook.session.answer_frame import column_name
from dpnotebook.session.compared import Compared, ComparedAnswers, ComparedQuestion
from dpnotebook.session.redraws import FEWEST, Drawn, as_often_as_can_be, draws_for, followed, intervals, same_noise
from dpnotebook.sql.statement import ShownColumn, Statement

if TYPE_CHECKING:
    import pandas as pd

ADD_UP = ("count", "sum")
OF_A_GROUP = ("from a group", "out of a group")  # in notes, what bounds take
CANNOT = "the rows of this release do not add up: ask for the total by a verb, or in SQL"


def added_up(release: Compared, by: Sequence[str]) -> ComparedAnswers:
    """Return the counts and sums of a release, added up over rows that agree in some of its keys.

    Parameters
    ----------
    release
        Counts or sums by keys, each row of the table in at most one of its groups.
    by
        Keys that are kept; none for one total.

    Raises
    ------
    WorkloadError
        If its answers are of another kind, overlap, or were moved, it has no such key, or no row: what is hidden or
        withheld has a total too, and that is not 0.
    """
    measures = _adding(release)
    for key in by:
        if key not in release.keys:
            known = ", ".join(map(shorten, release.keys)) or "none"
            raise WorkloadError(f"this release has no key {shorten(key)} to add up by; its keys are {known}")
    if not len(release.frame):
        why = "".join(f": {one}" for one in release.notes[:1])
        raise WorkloadError(f"no group is shown, so there is nothing to add up{why}")
    if release.redraws is None:
        raise WorkloadError("counts that were moved are not redrawn: add up the release as it was measured")
    redraws, kept = release.redraws, [key for key in release.keys if key in by]
    place, frame = _groups(release.frame, kept)
    groups = len(frame) if kept else 1

    def totals(draws: int) -> Mapping[str, NDArray[Any]]:
        drawn = redraws(draws)
        found = {one.name: _summed(np.asarray(drawn[one.name], dtype=float), place, groups) for one in measures}
        return same_noise(found, drawn)

    drawn = as_often_as_can_be(totals, draws_for(release.confidence, len(release.frame), 0) or FEWEST)
    if drawn is None:
        raise WorkloadError("these answers are too many to add up with intervals; their values alone are in .frame")
    notes, noise = [*release.notes, *_of_groups(release, place)], followed(drawn)
    for one in measures:
        found = _summed(release.frame[one.name].to_numpy(dtype=float)[None], place, groups)[0]
        ends = intervals(Drawn(found, drawn[one.name]), noise, None, release.confidence)
        frame[one.name] = found
        for part, numbers in vars(ends).items():
            frame[column_name(one.name, part)] = numbers
        notes += ends.notes(one.name)
    shown = tuple(
        ShownColumn(one.name, release.words_of(one), one.kind, one.column, release.unit_of(one)) for one in measures
    )
    words = " and ".join(dict.fromkeys(one.words for one in shown))
    question = ComparedQuestion(release.table, f"{words} by {', '.join(kept)}" if kept else words, release.where, shown)
    return ComparedAnswers(frame, question, release.sources or (release.number,), tuple(dict.fromkeys(notes)), totals)


def _adding(release: Compared) -> tuple[Measure | ShownColumn, ...]:
    """Return the measures that add up over the rows of a release."""
    apart = not isinstance(release.question, Statement) or release.question.outer is None
    found = tuple(one for one in release.measures if one.kind in ADD_UP)
    overlapping = any(isinstance(one, Measure) and one.workload is not None for one in found)
    if not apart or not found or overlapping:
        raise WorkloadError(CANNOT)
    return found


def _of_groups(release: Compared, place: NDArray[np.intp]) -> Iterator[str]:
    """Yield what totals of groups lack, in words: groups that are not shown, and what is taken from each that is."""
    groups = int(np.bincount(place).max(initial=0))
    if isinstance(release.question, Statement) and release.question.selects[0].selection == "threshold":
        yield "the total of the groups that are shown: those hidden for having too few people are not in it"
    if groups > 1 and any(words in note for note in release.notes for words in OF_A_GROUP):
        yield f"up to {groups:,} groups are added up here: a total lacks up to {groups:,} times what a group does"


def _groups(frame: pd.DataFrame, kept: list[str]) -> tuple[NDArray[np.intp], pd.DataFrame]:
    """Return in which group each row is, and the keys of the groups, in the order in which they come."""
    import pandas as pd

    if not kept:
        return np.zeros(len(frame), dtype=np.intp), pd.DataFrame(index=range(1))
    place = frame.groupby(kept, sort=False, dropna=False).ngroup().to_numpy(dtype=np.intp)
    first = np.unique(place, return_index=True)[1]
    return place, frame[kept].iloc[first].reset_index(drop=True)


def _summed(values: NDArray[np.float64], place: NDArray[np.intp], groups: int) -> NDArray[np.float64]:
    """Return the sums over the columns of each group, shape (draws, groups)."""
    found = np.zeros((values.shape[0], groups))
    np.add.at(found.T, place, values.T)
    return found
