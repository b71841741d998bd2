"""Recorded measurements with their noisy numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.answers import Floats
from dpnotebook.planner.known_part import Key
from dpnotebook.planner.plan import Planned
from dpnotebook.privacy.laws import Law
from dpnotebook.query.measurement import Measurement

LEAST_VARIANCE = 1e-200  # of noise that is hardly ever anything: precisions and their products stay finite
SCALES = 1_024  # of noise whose variances are kept: a long history has few, each many times


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
    numbers, bits
        The numbers, shape (components, queries), times 2^bits: as few bytes as the ledger gives.
    refines
        The measurement that this one is a more accurate version of.
    group
        As in `Planned`.
    """

    key: Key
    measurement: Measurement
    scale: Fraction
    variance: float
    numbers: NDArray[Any] = field(repr=False)
    refines: Key | None = None
    group: str | None = None
    bits: int = 0

    @property
    def unit(self) -> float:
        """What 1 in the numbers is worth: a power of two, by which nothing is rounded."""
        return math.ldexp(1.0, -self.bits)

    @property
    def noisy(self) -> Floats:
        """The numbers, shape (components, queries)."""
        return np.asarray(self.numbers * self.unit, dtype=float)

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that it tells something about."""
        return self.measurement.attributes


@lru_cache(maxsize=SCALES)
def _variance(law: Law, numerator: int, denominator: int) -> float:  # a fraction takes long to be looked up
    return max(law.count_variance(Fraction(numerator, denominator)), LEAST_VARIANCE)


def item_of(planned: Planned, key: Key, noisy: NDArray[Any] | None, law: Law) -> Item:
    """Return a measurement as it is recorded, with its noisy numbers as integers; before it is made with None."""
    if noisy is None:
        noisy = np.zeros((planned.measurement.summand.components, planned.measurement.operator.shape[0]))
    variance = _variance(law, planned.scale.numerator, planned.scale.denominator)
    return Item(key, planned.measurement, planned.scale, variance, noisy, planned.refines, planned.group, planned.bits)
