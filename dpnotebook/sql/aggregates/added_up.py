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


def added_up(measuring: Measuring, groups: Sequence[Sequence[int]]) -> Measuring:
    """Return what was measured, as that of sums of groups.

    Parameters
    ----------
    measuring
        What was measured of each; sums of its noise have its law.
    groups
        The numbers of those that one group of the answer consists of, by group.
    """
    if not measuring.weighing:
        together = tuple(map(len, groups))
        return replace(measuring, together=together) if len(set(together)) > 1 else _of_sums(measuring, together[0])
    weights = [np.array(measuring.weighing)[list(numbers)] for numbers in groups]
    common = tuple(int(np.lcm.reduce(part)) for part in weights)
    together = tuple(int(((whole // part) ** 2).sum()) for whole, part in zip(common, weights, strict=True))
    found = replace(measuring, weighing=common)
    return replace(found, together=together) if len(set(together)) > 1 else _of_sums(found, together[0])


def sums(measuring: Measuring, numbers: NDArray[np.int64], groups: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return the noisy numbers of sums of groups, each of the least weight that its parts can have in common.

    Parameters
    ----------
    measuring, groups
        As for `added_up`.
    numbers
        The noisy numbers of each, shape (groups, measured).
    """
    starts = np.cumsum([0, *map(len, groups[:-1])])
    every = np.concatenate(groups)
    found = numbers[every]
    if measuring.weighing:
        weights = np.array(measuring.weighing)[every]
        common = np.repeat(np.lcm.reduceat(weights, starts), list(map(len, groups)))
        factors = np.where(measuring.weighed, (common // weights)[:, None], 1)
        found = found * factors
    return np.asarray(np.add.reduceat(found, starts, axis=0))


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
    found = []
    for times in np.unique(known):
        of = np.flatnonzero(every == times)
        weighing = tuple(measuring.weighing[i % known.size] for i in of) if measuring.weighing else ()
        found.append((of, _of_sums(replace(measuring, together=(), weighing=weighing), int(times))))
    return found


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
        part = replace(part, lost=lost_of(part).of_groups(times).told)
    if not part.layers:
        return part
    return replace(part, layers=tuple(Combination(*part.layers).of_groups(times)))
