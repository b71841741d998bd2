"""What was measured of groups that were added up: with the noise of all of them, which is more where they are more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.layers import Combination
from dpnotebook.sql.aggregates.lost_parts import lost_of
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring

DIGITS = 10**12  # of the scale of noise that was added up


def added_up(measuring: Measuring, together: Sequence[int]) -> Measuring:
    """Return what was measured, as that of sums of groups.

    Parameters
    ----------
    measuring
        What was measured of each; sums of its noise have its law.
    together
        How many of them one group of the answer consists of, by group.
    """
    if len(set(together)) > 1:
        return replace(measuring, together=tuple(together))
    return _of_sums(measuring, together[0])


def alike(measuring: Measuring, groups: int | None = None) -> list[tuple[NDArray[np.intp], Measuring]]:
    """Return the numbers of groups that have equal noise, and what was measured of these.

    Parameters
    ----------
    measuring
        What was measured.
    groups
        How many there are, the same ones several times over; those that it knows of when None.
    """
    known = np.array(measuring.together)
    every = np.resize(known, known.size if groups is None else groups)
    one = replace(measuring, together=())
    return [(np.flatnonzero(every == times), _of_sums(one, int(times))) for times in np.unique(known)]


def noisiest(measuring: Measuring) -> Measuring:
    """Return what was measured of the groups that have most noise, which may be all of them."""
    return alike(measuring)[-1][1] if measuring.together else measuring


def scales_by_group(measuring: Measuring, groups: int) -> tuple[tuple[Fraction, ...], ...]:
    """Return the noise scale of each noisy number, by group."""
    if not measuring.together:
        return (measuring.scales,) * groups
    found: list[tuple[Fraction, ...]] = [()] * groups
    for numbers, one in alike(measuring, groups):
        for number in numbers:
            found[number] = one.scales
    return tuple(found)


def _of_sums(measuring: Measuring, times: int) -> Measuring:
    """Return what was measured as that of sums of so many groups each."""
    if times == 1:
        return measuring
    more = math.sqrt(times)
    blocks = tuple(
        replace(block, scale=Fraction(round(float(block.scale) * more * DIGITS), DIGITS)) for block in measuring.blocks
    )
    parts = tuple(_part_of_sums(part, times) for part in measuring.parts)
    return replace(measuring, blocks=blocks, parts=parts)


def _part_of_sums(part: AggregateInput, times: int) -> AggregateInput:
    if part.lost:
        part = replace(part, lost=tuple(lost_of(part).of_groups(times)))
    if not part.layers:
        return part
    return replace(part, layers=tuple(Combination(*part.layers).of_groups(times)))
