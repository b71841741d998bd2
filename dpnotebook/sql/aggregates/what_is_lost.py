"""By how much intervals of counts and sums are longer for what bounds take: as profiles and noisy answers tell it.

The units that lose most by a norm are those with many rows. They may be concentrated in a few groups, and each of these
loses more than its share then: how much more, at most, follows from how units can be spread over groups by the noisy
answers. Where values of both signs cancel out, nothing tells which sign loses more. A sum in which not all rows count
lacks three things: the rows that do not count, what bounds take from those that do, and that units with many rows may
have other values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.added import Added
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.counted_rows import CountedRows
from dpnotebook.sql.aggregates.estimating import estimate
from dpnotebook.sql.aggregates.function import KnownGroups
from dpnotebook.sql.aggregates.lost_parts import LostParts
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring
from dpnotebook.sql.aggregates.taken import REACH, Taken

Floats = NDArray[np.float64]

# A unit is in 1 + x groups, by all noisy answers at most; those that lose most are taken to be in 1 + SPREAD * x.
SPREAD = 2.5
ONE_SIDED = 0.8  # of all that units add: where so much is left after both signs cancel out, one sign is rare
SURELY = 2.0  # standard deviations of noise, beyond which the sign of an answer is told
USUAL_MEAN = 0.25  # of the largest value, what values are on average where nobody tells
ANY = 0.5  # a confidence: of intervals that nobody looks at


def with_lost(
    measuring: Measuring,
    numbers: NDArray[np.int64],
    lost: Mapping[int, Taken],
    cut: Mapping[int, Taken],
    rows: CountedRows | None,
) -> Measuring:
    """Return what was measured, with what bounds take from counts and sums.

    Parameters
    ----------
    measuring, numbers
        What was measured, and the noisy numbers of the groups that are shown, shape (groups, measured).
    lost, cut
        What norms take from groups, and bounds from values, by the number of the aggregate.
    rows
        How many rows of a unit count, where that was found.
    """
    # Norms take from vectors what these are where groups are multiplied, and answers are divided in the end.
    parts, found = list(measuring.parts), estimate(replace(measuring, weighing=()), numbers, ANY)
    for i, part in enumerate(parts):
        if function_of(part.kind).by_itself and i in lost and not part.lost:
            parts[i] = replace(part, lost=_by_values(lost[i], found[i].value, found[i].std_error).told)
        if not function_of(part.kind).adds or not part.found or part.lost:
            continue
        by_norm = measuring.contribution_of(part).kind == "l2"
        mine = None if rows is None or by_norm else _rows_of(rows, part)
        told = (lost.get(i),) if by_norm else (None if mine is None else mine.lost, cut.get(i))
        unbounded = not by_norm and rows is not None and rows.unbounded and not _each_is_there(measuring, part)
        if not unbounded and not any(_tells(one) for one in told):
            continue
        one, signed = found[i], function_of(part.kind).of == "numbers"
        whole, sign = _whole(one.value, one.std_error, signed)
        if by_norm:
            off = _by_norm(lost[i], one.value, one.std_error, whole, signed)
        else:
            off = _by_rows(mine, cut.get(i), part, whole, sign)
        if unbounded:
            low, high = part.bounds[:2] if signed and part.bounds is not None else (0, 1)
            off = off._replace(endless_down=float(low < 0), endless_up=float(high > 0))
        parts[i] = replace(part, lost=off.told)
    return replace(measuring, parts=tuple(parts))


def with_lost_planned(
    measuring: Measuring, lost: Mapping[int, Taken], rows: CountedRows | None, groups: Sequence[KnownGroups | None]
) -> Measuring:
    """Return what will be measured, with about by how much intervals of counts and sums will be longer.

    Where it is not known how large groups are, it is that of a group that loses as much as all others.

    Parameters
    ----------
    measuring, lost, rows
        As for `with_lost`.
    groups
        What is known of the groups of each aggregate; nothing where that is nothing.
    """
    parts = list(measuring.parts)
    for i, part in enumerate(parts):
        function = function_of(part.kind)
        if function.by_itself and i in lost and _tells(lost[i]):
            parts[i] = replace(part, moved=lost[i].below / REACH, moved_down=0.0)
        if not function.adds or not part.found:
            continue
        by_norm = measuring.contribution_of(part).kind == "l2"
        taken = lost.get(i) if by_norm else None
        if not by_norm and rows is not None and function.of != "numbers":
            taken = _rows_of(rows, part).lost
        if taken is None or not _tells(taken):
            continue
        known = groups[i] if groups else None
        assert isinstance(function, Added)  # nothing else adds up
        sizes = np.zeros(0) if known is None else function.sizes(known) * known.weights(measuring)
        if by_norm and sizes.size > 1 and np.isfinite(sizes).all():
            whole, _ = _whole(sizes, np.zeros(sizes.size), function.summed)
            off = _by_norm(taken, sizes, np.zeros(sizes.size), whole, function.summed)
            parts[i] = replace(part, lost=off.told)
        else:
            parts[i] = replace(part, moved=taken.below / REACH, moved_down=0.0)
    return replace(measuring, parts=tuple(parts))


def _rows_of(rows: CountedRows, part: AggregateInput) -> CountedRows:
    """Return what rows that do not count take from an aggregate: of numbers of units, what they lack of units."""
    known = function_of(part.kind).of == "units" and rows.lost_units.known
    return replace(rows, lost=rows.lost_units) if known else rows


def _each_is_there(measuring: Measuring, part: AggregateInput) -> bool:
    """Return whether all units are counted whose rows are drawn: without groups, each has one that is."""
    component = measuring.component(measuring.blocks[part.blocks[0]].columns[0])
    return function_of(part.kind).of == "units" and component.input is None and not measuring.grouped


def _tells(taken: Taken | None) -> bool:
    """Return whether it is known how much is taken, and from how large an answer: earlier versions recorded neither."""
    return taken is not None and math.isfinite(taken.below) and taken.answer > 0.0


def _whole(values: Floats, errors: Floats, signed: bool) -> tuple[float, int]:
    """Return the size of all answers together, and their sign; 0 for that where both signs are there."""
    total = float(values.sum())
    noise = float(np.sqrt((errors**2).sum()))
    if not signed:
        return max(total, noise, 1e-300), 1
    surely = np.abs(values) > SURELY * errors
    size = float(np.abs(values[surely]).sum())
    if abs(total) >= ONE_SIDED * size and abs(total) > noise:
        return abs(total), 1 if total > 0 else -1
    return max(size, noise, 1e-300), 0


def _by_norm(taken: Taken, values: Floats, errors: Floats, whole: float, signed: bool) -> LostParts:
    """Return what is lost by vectors that are clipped to a norm."""
    shared = math.sqrt(taken.groups)
    kept, most, single = (part * shared for part in (taken.answer, taken.below, taken.single))
    square = float((values**2 - errors**2).sum())
    length = math.sqrt(max(square, 0.0)) or whole
    farthest = max(whole / length, 1.0)
    spread = min(farthest, 1.0 + SPREAD * max(whole / kept - 1.0, 0.0))
    either = 0.0
    if signed and (left := abs(float(values.sum())) / kept) < ONE_SIDED and len(values):
        either = most * (1.0 - left) / math.sqrt(len(values)) / REACH
    size = max(whole, kept)
    return LostParts(most * spread / size / REACH, 0.0, single**2 / size, size, either)


def _by_values(missed: Taken, values: Floats, errors: Floats) -> LostParts:
    """Return what is missed of different values, of which each unit stands for some only."""
    size = np.abs(values) + errors
    share = missed.below * math.sqrt(missed.groups) / max(float(size.sum()), 1e-300) if _tells(missed) else 0.0
    return LostParts(share / REACH, whole=float(size.sum()))


def _by_rows(rows: CountedRows | None, cut: Taken | None, part: AggregateInput, whole: float, sign: int) -> LostParts:
    """Return what is lost by rows that do not count, and values that are kept between bounds."""
    about = most = chance = carried = 0.0
    if rows is not None and _tells(rows.lost):
        left = rows.lost
        about, most = left.about / left.answer, left.below / left.answer
        chance = (left.single / left.answer) ** 2 * whole
        carried = rows.carried
    back = 0.0
    size = math.nan
    if cut is not None and _tells(cut):
        size = cut.answer
        up, down = (cut.below, cut.above) if sign >= 0 else (cut.above, cut.below)
        if sign == 0:
            up = down = max(cut.below, cut.above)
        up, back = up / size, down / size
        expected = min(cut.about / size, up)
        about, most = (
            about + expected * (1.0 + about),
            about + expected * (1.0 + about) + math.hypot(most - about, (up - expected) * (1.0 + about)),
        )
        if math.isfinite(cut.single):
            chance += cut.single**2 / size
    if carried and part.bounds is not None:
        low, high = (float(end) for end in part.bounds[:2])
        if not math.isfinite(size):
            size = USUAL_MEAN * max(abs(low), abs(high)) or 1.0
        carried *= (high - low) / size
    more, less = (math.hypot(side / REACH, carried) for side in (most, back))
    return LostParts(more, less, chance, whole)
