"""Recorded measurements with their noisy numbers, and what they say about a few attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.answers import Floats, noise_variance
from dpnotebook.planner.least_squares_state import Key, LeastSquaresState, Observation, Repeat
from dpnotebook.planner.plan import Planned
from dpnotebook.planner.product_terms import parts_of, projected
from dpnotebook.privacy.laws import Noise
from dpnotebook.query.measurement import Measurement


@dataclass(frozen=True, eq=False)
class Item:
    """One recorded measurement with its noisy numbers.

    Parameters
    ----------
    key
        The release, and the place in it.
    measurement
        What was asked.
    scale
        The scale of its noise.
    variance
        Variance of each number.
    noisy
        The numbers, shape (components, queries).
    refines
        The measurement that this one is a more accurate version of.
    group
        As in `Planned`.
    """

    key: Key
    measurement: Measurement
    scale: Fraction
    variance: float
    noisy: Floats = field(repr=False)
    refines: Key | None = None
    group: str | None = None


def item_of(planned: Planned, key: Key, noisy: NDArray[Any] | None, noise: Noise) -> Item:
    """Return a measurement as it is recorded, with its noisy numbers as integers; before it is made with None."""
    if noisy is None:
        noisy = np.zeros((planned.measurement.summand.components, planned.measurement.operator.shape[0]))
    values = np.ldexp(noisy.astype(float), -planned.bits)
    variance = noise_variance(noise, planned.scale)
    return Item(key, planned.measurement, planned.scale, variance, values, planned.refines, planned.group)


def told(items: Sequence[Item], names: Sequence[str], domain: Domain) -> list[Observation]:
    """Return what measurements of the same queries, at least one, say about some attributes."""
    first = items[0]
    if first.measurement.summand.components != 1:
        return []
    found = []
    for index, part in parts_of(first.measurement, domain, names):
        small = projected(part, names, domain)
        if small is not None:
            repeats = [
                Repeat(item.key, 1 / (item.variance * small.spread), small.answers(item.noisy[0])) for item in items
            ]
            found.append(Observation(first.measurement.key, index, small, tuple(repeats)))
    return found


def repeated(items: Iterable[Item]) -> list[list[Item]]:
    """Return measurements by what was asked, in the order in which that was asked first."""
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.measurement.key, []).append(item)
    return list(found.values())


def taken(block: LeastSquaresState, items: Sequence[Item], replaced: Collection[Key] = ()) -> bool:
    """Put measurements into a block, each refined one in the place of what it refines.

    Parameters
    ----------
    block
        Where it holds what a measurement refines, that is replaced.
    items
        In the order of recording.
    replaced
        Which measurements were refined by others.

    Returns
    -------
    bool
        Whether there was room for all that they say; where there was not, the block is of no more use.
    """
    fresh = []
    for item in items:
        if item.refines is not None and block.holds(item.refines):
            parts = told([item], block.names, block.domain)
            block.refine(item.refines, item.key, 1 / item.variance, {one.index: one.repeats[0].noisy for one in parts})
        elif item.key not in replaced:
            fresh.append(item)
    left = [one for same in repeated(fresh) for one in told(same, block.names, block.domain)]
    return block.add(left, whole=True) == len(left)
