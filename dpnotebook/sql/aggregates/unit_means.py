"""To what norm units are clipped for means and variances: where noise, and what clipping does to weights, are least.

A mean does not need all rows of a unit: clipped to a small norm, all units weigh about alike, and the noise is small.
But units with many rows may have other values than those with few, and then the mean of all rows is another number. So
beside how many units there are of which norm, noisy histograms tell what their own means are, and how far these are
spread. By how much a mean moves when units are clipped follows for every norm.

A unit is in one bin, with a number between -1 and 1 in each histogram, so each costs what counting units costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.sql.aggregates.bounds import STEPS_OF_MEANS
from dpnotebook.sql.aggregates.hidden_tail import Taken
from dpnotebook.sql.aggregates.norms import norm_counts, norm_edges

Floats = NDArray[np.float64]

TOLD = 8.0  # times the noise on a bin: so many units tell what their means are, fewer are put with those of next bins
SPREAD_OF_SQUARES = 0.25  # how far the means of squares of units are spread, in squared half-widths
FARTHEST = 1.0  # half-widths: so far from all others may the means of units be that noise hides
UNSURE = 2.0  # standard deviations of its noise, by which a mean may move farther than is told
HISTOGRAMS = ("means", "ratios", "squares")


@dataclass(frozen=True)
class UnitMeans:
    """What units of which norm have: noisy sums over the units in each bin of `norm_edges`, in `STEPS_OF_MEANS` of 1.

    Parameters
    ----------
    means
        Of the mean of a unit's values, in half-widths from the middle of their bounds.
    ratios
        Of the norm of a unit's vector over its number of values, and over the most that this is: `longest`.
    squares
        Of the square of a unit's mean; for variances, of the mean of its squares.
    scale
        Of the Gaussian noise on each.
    """

    means: tuple[int, ...]
    ratios: tuple[int, ...]
    squares: tuple[int, ...]
    scale: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {name: list(getattr(self, name)) for name in HISTOGRAMS} | {"scale": str(self.scale)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> UnitMeans:
        """Return what `to_json` wrote."""
        return cls(*(tuple(map(int, told[name])) for name in HISTOGRAMS), Fraction(told["scale"]))


class MeanClip(NamedTuple):
    """A norm to clip to, for means or variances.

    Parameters
    ----------
    norm
        The norm.
    moved
        By how much it moves the answer of a group, in half-widths; for variances, in squared ones.
    kept
        Which part of all values counts then.
    """

    norm: Fraction
    moved: Taken
    kept: float


def longest(squares: bool) -> float:
    """Return the largest ratio of the norm of a unit's vector and its number of values."""
    return math.sqrt(3.0 if squares else 2.0)


def norm_for_means(
    counts: ArrayLike, scale: float, told: UnitMeans, noise: float, groups: float, squares: bool, usual: float
) -> MeanClip | None:
    """Return the norm with the least expected squared error of a mean or a variance; None where noise hides all.

    Parameters
    ----------
    counts, scale
        Noisy number of units in each bin of `norm_edges`, and the standard deviation of the noise.
    told
        What these units have.
    noise
        Standard deviation of the noise on a sum of a group, for a norm of 1.
    groups
        How many groups of equal size would have as much noise on their means.
    squares
        Whether it is for variances.
    usual
        A norm that no unit is meant to pass, as for `norm_to_clip_at`.
    """
    found = norm_counts(counts, scale, usual=usual)
    if found is None:
        return None
    choices = found.norms >= 1.0  # a value makes no vector shorter than that
    norms, lengths = found.norms[choices], np.maximum(found.lengths, 1.0)
    clipped = lengths - found.excess[choices]
    units = np.where(norm_edges()[1 : lengths.size + 1] >= 1.0, np.maximum(found.likely, 0.0), 0.0)
    of_bins = _averages(found.noisy, units.size, told, TOLD * max(scale, float(told.scale) / STEPS_OF_MEANS))
    ratios = (of_bins.ratios * longest(squares)).clip(1.0 / lengths, longest(squares))
    means = of_bins.squares.clip(0.0, 1.0) if squares else of_bins.means.clip(-1.0, 1.0)
    every = max(float((lengths / ratios) @ units), 1e-300)
    each = np.maximum((clipped / ratios) @ units, 1e-300)
    apart = clipped / each[:, None] - lengths / every
    moved = apart * units / ratios
    shift = moved @ means
    spread = SPREAD_OF_SQUARES if squares else _spread(of_bins, units * lengths / ratios / every)
    by_chance = spread * np.sqrt(groups * (apart**2 @ units))  # which units a group has
    best = int(np.argmin(shift**2 + by_chance**2 + (noise * norms * groups / each) ** 2))
    about = math.hypot(float(shift[best]), float(by_chance[best]))
    hidden = 1.0 - every / max(float((lengths / ratios) @ found.heavy), every)
    most = about + UNSURE * of_bins.error(moved[best]) + FARTHEST * hidden
    return MeanClip(Fraction(float(f"{norms[best]:.4g}")), Taken(about, most), float(each[best]) / every)


class _Averages(NamedTuple):
    """Averages over the units in each bin, shape (bins,) each; `parts` are bins that are looked at together."""

    means: Floats
    ratios: Floats
    squares: Floats
    parts: tuple[tuple[int, int, float], ...]
    scale: float

    def error(self, weights: Floats) -> float:
        """Return the standard error of a weighted sum of the means."""
        each = (
            float(weights[first:end].sum()) * self.scale * math.sqrt(end - first) / units
            for first, end, units in self.parts
        )
        return math.hypot(*each)


def _averages(noisy: Floats, bins: int, told: UnitMeans, needed: float) -> _Averages:
    """Return averages over the units in bins, from the longest on so many of these together as have enough units."""
    parts, end = [], bins
    for first in range(bins - 1, -1, -1):
        if (units := float(noisy[first:end].sum())) >= needed:
            parts.append((first, end, units))
            end = first
    if not parts:
        parts, end = [(0, bins, max(float(noisy[:bins].sum()), needed))], 0
    averages = np.zeros((len(HISTOGRAMS), bins))
    for place, name in enumerate(HISTOGRAMS):
        sums = np.array(getattr(told, name), dtype=float) / STEPS_OF_MEANS
        for first, last, units in parts:
            averages[place, first:last] = sums[first:last].sum() / units
        averages[place, :end] = averages[place, end]
    return _Averages(*averages, tuple(parts), float(told.scale) / STEPS_OF_MEANS)


def _spread(of_bins: _Averages, weights: Floats) -> float:
    """Return how far the means of units are spread around what they are on average."""
    variance = float(of_bins.squares.clip(0.0, 1.0) @ weights) - float(of_bins.means.clip(-1.0, 1.0) @ weights) ** 2
    return math.sqrt(min(max(variance, 0.0), 1.0))
