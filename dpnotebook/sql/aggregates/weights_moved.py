"""What it does to means and quantiles that only some rows of a unit count: noise is less, and weights are others.

A mean over few rows of each unit has little noise. But units with many rows weigh less in it than in the mean of all
rows, which is another number where values go with the number of rows. How far apart the means of such units are is not
measured: they are taken to be a random walk, from one number of rows to the next, whose steps are of either of two
lengths, as bounds may be close to all values or far wider.

As `unit_means` is for vectors that are clipped to a length, where it is measured.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.taken import REACH

Floats = NDArray[np.float64]

STEPS = (0.2, 0.03)  # half-widths: how far means of units move where their number of rows doubles, as likely either
# Of all weight that is of other units, by so much ranks of medians move where values go with how many rows one has, as
# times between visits do: by .56 to .63 where numbers of visits are lognormal, and hardly where values are alike.
ALONG = 0.6
WITHIN = 0.4  # half-widths: how far the values of one unit are spread about their mean
FARTHEST = 1.5  # half-widths: so far from those of all others may the means of units be that count less
AVERAGED = 1.5  # times the noise on a count, what the centred sum of a mean has, in half-widths
PAIRED = 10.0  # the same, of products of pairs, where bounds are several standard deviations away
RANKED = 8.0  # the same, of ranks, in halves of all values


class Weights(NamedTuple):
    """How much units weigh where so many rows of each count.

    Parameters
    ----------
    kept
        Rows that count, for each number, shape (tried,).
    lost
        By how much less one unit in each bin weighs, of the weight of all, shape (tried, bins); below 0 for more.
    passed
        By how much less those weigh together that have as many rows as a bin or more, shape (tried, bins).
    chance
        Variance of a mean of all for which rows of each unit count, where those of one unit have a variance of 1.
    """

    kept: Floats
    lost: Floats
    passed: Floats
    chance: Floats

    @property
    def moved(self) -> Floats:
        """Which part of all weight is that of other units, shape (tried,)."""
        return np.asarray(self.passed.max(axis=1, initial=0.0))


def weights_moved(lengths: Floats, excess: Floats, units: Floats) -> Weights:
    """Return how much units weigh where only some rows of each count.

    Parameters
    ----------
    lengths
        How many rows a unit in each bin has, shape (bins,).
    excess
        How many of them do not count, shape (tried, bins).
    units
        How many units are in each bin.
    """
    counted = lengths - excess
    every, kept = max(float(lengths @ units), 1.0), np.maximum(counted @ units, 1.0)
    lost = lengths / every - counted / kept[:, None]
    passed = np.cumsum((lost * units)[:, ::-1], axis=1)[:, ::-1]
    chance = ((counted * (excess / lengths)) @ units) / kept**2
    return Weights(kept, lost, passed, chance)


def doublings_walked(weights: Weights, lengths: Floats) -> Floats:
    """Return how far the mean of all is likely to move, in steps of a random walk of units' means: shape (tried,)."""
    doublings = np.diff(np.log2(lengths), prepend=np.log2(lengths[:1]))
    return np.asarray(np.sqrt(weights.passed**2 @ doublings))


def squared_shifts(weights: Weights, lengths: Floats) -> Floats:
    """Return by how much the mean of all is likely to move, squared, in half-widths, for each step: (steps, tried)."""
    return np.asarray(np.square(STEPS)[:, None] * doublings_walked(weights, lengths) ** 2)


def squared_errors(weights: Weights, lengths: Floats, noise: Floats, groups: float) -> Floats:
    """Return the squared error of the mean of a group, for each step and number of rows, in half-widths.

    Parameters
    ----------
    weights, lengths
        As `weights_moved` has them.
    noise
        Standard deviation of that on the sum of a group, for each number of rows, in half-widths.
    groups
        How many there are, of about the same size.
    """
    by_noise = (noise * groups / weights.kept) ** 2
    return np.asarray(
        np.minimum(squared_shifts(weights, lengths) + WITHIN**2 * groups * weights.chance + by_noise, 1.0)
    )


def ranked_errors(weights: Weights, noise: Floats, groups: float) -> Floats:
    """Return the squared error of a quantile of a group in ranks, for each number of rows, in halves of all values.

    Units with many rows often have values of their own, as times since the last visit, which are the shorter the more
    visits there are: intervals reach for `ALONG` of all the weight that is that of other units, and are shortest so.

    Parameters
    ----------
    weights, noise, groups
        As for `squared_errors`.
    """
    by_noise = (noise * groups / weights.kept) ** 2
    shifts = (2 * ALONG / REACH * weights.moved) ** 2
    return np.asarray(np.minimum(shifts + WITHIN**2 * groups * weights.chance + by_noise, 1.0))
