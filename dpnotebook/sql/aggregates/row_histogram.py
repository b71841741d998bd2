"""How many units have how many rows: a noisy histogram that counts every unit once, by the number of its rows.

A bin is found where it, or a run of a few up to it, holds more than noise would hardly ever put there. What is behind
these bins is read off the tail that they have, as `hidden_tail` has it; other units may lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.sql.aggregates.bounds import RUNS, reached
from dpnotebook.sql.aggregates.hidden_tail import hidden_tail
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram
from dpnotebook.sql.aggregates.units_apart import REACH, UnitsApart, units_apart

Floats = NDArray[np.float64]

STEPS = 2  # bins of numbers of rows in a factor of two
SURE = 1e-4  # how likely noise alone may fill some bin or run of bins: then more noise is added than is best
USUAL = 0.35  # of the laws of a tail, the one that is expected
WARY = 0.15  # of what a tail may hold beyond that, so much is taken to be there: more is lost by it than by noise


@dataclass(frozen=True)
class RowHistogram:
    """How many units have how many rows.

    Parameters
    ----------
    most
        Rows of a unit that are told apart: who has more is counted with so many.
    counts
        Noisy number of units in each bin of `row_edges`.
    scale, noise
        Of the noise on each, and its law.
    units
        What it cost, in the accountant's units.
    """

    most: int
    counts: tuple[int, ...]
    scale: Fraction
    noise: Noise
    units: int

    @property
    def end(self) -> int | None:
        """The bin behind the last one in which units are found; None where noise hides them all."""
        return _end(self.counts, self.scale, self.noise)

    @property
    def described(self) -> tuple[float, float, float]:
        """About how many units there are, and rows that half and 95% of them do not pass; NaN where hidden."""
        if self.end is None:
            return math.nan, math.nan, math.nan
        below = np.maximum.accumulate(np.cumsum(np.array(self.counts[: self.end], dtype=float)))
        units = max(float(below[-1]), 1.0)
        edges = row_edges(self.most)
        places = (min(int(np.searchsorted(below, share * units)), self.end - 1) for share in (0.5, 0.95))
        half, most = (float(edges[place + 1] - 1) for place in places)
        return round(units), half, most

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told = {"most": self.most, "counts": list(self.counts), "scale": str(self.scale)}
        return told | {"noise": self.noise, "units": self.units}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> RowHistogram:
        """Return what `to_json` wrote."""
        counts = tuple(map(int, told["counts"]))
        return cls(int(told["most"]), counts, Fraction(told["scale"]), told["noise"], int(told["units"]))


def row_edges(most: int) -> tuple[int, ...]:
    """Return the least number of rows in each bin, in steps of about sqrt(2), and `most + 1` behind them."""
    powers = (round(2.0 ** (i / STEPS)) for i in range(STEPS * most.bit_length() + 1))
    return (*dict.fromkeys(edge for edge in powers if edge <= most), most + 1)


class UnitsByRows(NamedTuple):
    """Units in each bin: to choose by, on average, at most; and those that may lie apart, with up to so many rows."""

    likely: Floats
    average: Floats
    heavy: Floats
    apart: UnitsApart
    farthest: float


@lru_cache(maxsize=64)
def units_by_rows(told: RowHistogram) -> UnitsByRows | None:
    """Return how many units have how many rows, as far as noise and a tail tell; None where noise hides all."""
    if (end := told.end) is None:
        return None
    counts, edges = np.array(told.counts, dtype=float), np.array(row_edges(told.most), dtype=float)
    law = law_of(told.noise)
    spread = math.sqrt(law.variance(told.scale))
    found = NoisyHistogram(counts, spread, edges).with_found(0, end)
    tails = hidden_tail(found, USUAL) if end < counts.size else (np.zeros(0),) * 3
    likely, average, heavy = (np.concatenate([counts[:end], tail]) for tail in tails)
    beyond = min(end + REACH, counts.size)
    apart = units_apart(
        (counts - likely)[end:beyond], spread, float(counts[:end].sum()), end, counts.size - beyond,
        stable=law.stable,
    )  # fmt: skip
    return UnitsByRows(likely + WARY * np.maximum(heavy - likely, 0.0), average, heavy, apart, edges[beyond] - 1.0)


@lru_cache(maxsize=256)
def _end(counts: tuple[int, ...], scale: Fraction, noise: Noise) -> int | None:
    """Return where the last run of bins ends that noise would hardly have filled; None where there is none."""
    noisy, found = np.array(counts, dtype=float), []
    widths = [width for width in RUNS if width <= noisy.size]
    for width in widths:
        sums = np.convolve(noisy, np.ones(width), "valid")
        level = reached(noise, scale, SURE / len(widths) / sums.size, width)
        found += [int(start) + width for start in np.flatnonzero(sums >= level)]
    return max(found, default=None)
