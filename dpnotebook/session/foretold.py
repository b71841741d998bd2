"""How wrong the columns that a statement works out will be, told from a release that has its aggregates already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.errors import DPError
from dpnotebook.planner.plan import PlannedMeasure
from dpnotebook.session.answer_frame import DERIVED, column_name
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.expected import least_shown
from dpnotebook.sql.aggregates.function import KnownGroups
from dpnotebook.sql.aggregates.layers import as_planned
from dpnotebook.sql.aggregates.measuring import Measuring
from dpnotebook.sql.aggregates.moved import without_lost
from dpnotebook.sql.aggregates.what_is_lost import with_lost

if TYPE_CHECKING:
    from dpnotebook.ledger import Record
    from dpnotebook.session.release import Release
    from dpnotebook.sql.plan import StatementPlan
    from dpnotebook.sql.reuse.known import AnsweredSelect

LARGE = KnownGroups.of(np.array([1e6]))  # a group in which means err as their noise does, and are not clipped
DIGITS = 10**12  # of the scale of noise


def foretold(
    plan: StatementPlan, known: AnsweredSelect, record: Record, revealed: Callable[[Record], Release]
) -> tuple[PlannedMeasure, ...]:
    """Return the errors of the columns that a statement works out, of the worst of the groups that will be shown.

    The answers that were released stand for those to come, and noise as it is planned is drawn on them. Nothing is read
    but what was released.

    Parameters
    ----------
    plan
        Of the statement; it has one private aggregation, and works something out.
    known, record
        The release that has its aggregates, as an answer to it, and as it was recorded.
    revealed
        Gives what a record answers to the statement.

    Returns
    -------
    None at all where it is not known yet how the statement will be bounded.
    """
    (planned,) = plan.measurings
    if not planned.complete:
        return ()
    numbers = known.numbers
    of_one = replace(known.measuring, together=())  # which is what is planned, for all groups alike
    measured = as_planned(_with_noise_of(of_one, planned, _fewer(plan, known)), planned, numbers)
    clips, rows = plan.clips[0] if plan.clips else {}, plan.rows[0] if plan.rows else None
    lost, cut = ({i: getattr(clip, name) for i, clip in clips.items()} for name in ("lost", "cut"))
    measured = with_lost(without_lost(measured), numbers, lost, cut, rows)  # by the bounds that are planned
    keys = known.keys
    if planned.tau is not None and known.measuring.counted is not None:
        place = known.measuring.place(known.measuring.counted).start
        shown = np.flatnonzero(numbers[:, place] / known.measuring.one >= least_shown(planned))
        numbers, keys = numbers[shown], tuple(keys[i] for i in shown)
    told = replace(known, measuring=measured, numbers=numbers, keys=keys)
    details: dict[str, Any] = {"selects": [told.details]}
    try:
        release = revealed(replace(record, numbers=(numbers,), details=details))
    except DPError:  # it cannot be worked out from these numbers; from others it may be
        return ()
    note = f"worked out from what release #{known.number} has, with the noise that is planned"
    return tuple(
        PlannedMeasure(column.name, column.words, "", *errors, note)
        for column in release.worked_out
        if column.kind == DERIVED and (errors := _worst(release, column.name)) is not None
    )


def delivered(known: AnsweredSelect, record: Record, revealed: Callable[[Record], Release]) -> float:
    """Return half of the longest interval of what a statement works out from a release; NaN where there is none.

    Parameters
    ----------
    known, record, revealed
        As for `foretold`.
    """
    release = revealed(replace(record, numbers=(known.numbers,), details={"selects": [known.details]}))
    found = [_worst(release, column.name) for column in release.worked_out if column.kind == DERIVED]
    return max((one[1] for one in found if one is not None), default=float("nan"))


def _fewer(plan: StatementPlan, known: AnsweredSelect) -> list[float]:
    """Return how many times as few values will count for each mean, as units are clipped to another norm."""
    kept = known.told.get("kept", {})
    clips = plan.clips[0] if plan.clips else {}
    return [
        float(kept.get(str(i), 1.0)) / (clips[i].kept if i in clips else 1.0) for i in range(len(known.measuring.parts))
    ]


def _with_noise_of(known: Measuring, planned: Measuring, fewer: Sequence[float]) -> Measuring:
    """Return what was measured with as much noise as is planned; where fewer values count there is more of it.

    Intervals hold as much of what clipping moves as is planned, too.
    """
    blocks = list(known.blocks)
    for one, other, times in zip(known.parts, planned.parts, fewer, strict=True):
        function = function_of(one.kind)
        before, after = (
            function.expected(measuring, part, 0.5, LARGE).std_error
            for measuring, part in ((known, one), (planned, other))
        )
        for block in one.blocks if before > 0 else ():
            scale = Fraction(round(float(known.blocks[block].scale) * times * after / before * DIGITS), DIGITS)
            blocks[block] = replace(blocks[block], scale=scale)
    parts = tuple(
        replace(one, moved=other.moved, moved_down=other.moved_down, drawn=other.drawn, pair=other.pair)
        if function_of(one.kind).centres or function_of(one.kind).paired
        else one
        for one, other in zip(known.parts, planned.parts, strict=True)
    )
    return replace(known, blocks=tuple(blocks), parts=parts)


def _worst(release: Release, name: str) -> tuple[float, float] | None:
    """Return the largest standard error of a column and half of its longest interval; None where none is finite."""
    lower, upper, error = (
        release.frame[column_name(name, part)].to_numpy(dtype=float) for part in ("lower", "upper", "std_error")
    )
    known = np.isfinite(lower) & np.isfinite(upper) & np.isfinite(error)
    if not known.any():
        return None
    return float(error[known].max()), float((upper - lower)[known].max() / 2)
