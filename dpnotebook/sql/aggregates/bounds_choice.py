"""Which bounds suit values of which it is not known how far they reach: those that err least in most of the ways.

Noise hides how many values are far out, and few of them decide how wide bounds should be: laws that suit the noisy
counts alike say quite different bounds. The bounds are chosen whose error, bias and noise together, has the least
logarithm on average over these laws: so they are the fewest times worse than what would be best if one knew which law
it is. By the least squared error on average, a law that is unlikely and heavy would decide about all others; by the
likeliest law alone, bounds would be far off where it is another one.

Source: Savage, The Foundations of Statistics (1954), chapter 9, on regret.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.sql.aggregates.centring import LEAST_SPREAD
from dpnotebook.sql.aggregates.ratios import MEAN_SHARE

Floats = NDArray[np.float64]
Answer = Literal["means", "sums", "squares", "vectors", "square vectors"]

TINY = 1e-300
OF_WIDTH = 0.1  # of a half-width: what noise is in proportion to, beside the spread, where vectors are clipped
OF_SQUARED = 0.03  # of the square of how far values may be from their mean: the same of squares


def reach(low: ArrayLike, high: ArrayLike, of: Answer) -> Floats:
    """Return what noise on an answer is in proportion to: how far values between bounds are from 0, or the middle.

    Parameters
    ----------
    low, high
        The bounds, or several pairs of them.
    of
        What the answer is: how large values are on average, all together, or how far they are spread; or on average
        where vectors are clipped, whose noise hardly depends on bounds: only few of them have values near these.
    """
    least, most = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    if of == "sums":
        return np.asarray(np.maximum(np.maximum(-least, most), 0.0))
    half: Floats = (most - least) / 2
    return np.asarray(half**2) if of in ("squares", "square vectors") else half


def noise_between(low: Floats, high: Floats, mean: float, variance: float, of: Answer, law: Noise) -> Floats:
    """Return the noise of an answer of all values, that of a sum of one between bounds 2 apart being 1.

    A mean is divided by a number of values that is noisy as well, which tells the more the farther it is from the
    middle of the bounds; a variance is less the square of the mean, likewise.

    Parameters
    ----------
    low, high, of
        As for `reach`.
    mean, variance
        Of the values, about.
    law
        Of the noise: on how many values are near one bound, near the other and half-way, with Laplace noise; on their
        number, sum and squares, with Gaussian noise.
    """
    if of == "vectors":
        return np.asarray(np.sqrt(variance + (OF_WIDTH * reach(low, high, of)) ** 2))
    far, euclidean = reach(low, high, of), law_of(law).euclidean
    if of == "sums":
        return far
    half = (high - low) / 2
    place = ((mean - (low + high) / 2) / half).clip(-1.0, 1.0)
    if of == "means":
        of_sum = float(MEAN_SHARE)
        varied = 1 / of_sum + place**2 / (1 - of_sum) if euclidean else 2 + 2 * place**2
        return np.asarray(far * np.sqrt(varied))
    spread = np.minimum(variance / half**2, 1 - place**2)  # no variance is more between bounds, with that mean
    if not euclidean:
        varied = ((1 + place) ** 2 - spread) ** 2 + (1 - place**2 + spread) ** 2 + ((1 - place) ** 2 - spread) ** 2
    else:
        varied = 3 * ((place**2 - spread + 0.5) ** 2 + 4 * place**2 + 0.25)
    return np.asarray(far * np.sqrt(varied))


def noise_of_squares(lows: Floats, highs: Floats, mean: float, places: Floats, weights: Floats) -> Floats:
    """Return the noise of a variance of clipped vectors, as `noise_between` has it, shape (lows, highs).

    It is in proportion to how far squares are spread, which the farthest values decide about, as bounds let them.

    Parameters
    ----------
    lows, highs
        Bounds to choose from, on either side of the mean.
    mean
        The mean of the values, about.
    places, weights
        Where values are, and which part of all is there, shape (bins,).
    """
    away, found = places - mean, []
    for power in (2, 4):
        below, above = (
            (np.where(outside, ends[:, None] ** power - away**power, 0.0)) @ weights
            for ends, outside in (
                (lows - mean, away < (lows - mean)[:, None]),
                (highs - mean, away > (highs - mean)[:, None]),
            )
        )
        found.append(float(away**power @ weights) + below[:, None] + above)
    variance, fourth = found
    reached = np.maximum(np.abs(lows - mean)[:, None], np.abs(highs - mean)) ** 2
    spread = np.maximum(fourth - variance**2, (LEAST_SPREAD * variance) ** 2)
    return np.asarray(np.sqrt(spread + (OF_SQUARED * reached) ** 2))


def bias(counts: Floats, edges: Floats, low: Floats, high: Floats, *, squares: bool) -> Floats:
    """Return what keeping values between bounds takes from a mean or a variance, for several bounds.

    Parameters
    ----------
    counts, edges
        How many values each bin holds, which are taken to be in its middle; the edges of the bins.
    low, high
        The bounds, shape (bounds,).
    squares
        Whether it is a variance.
    """
    weights = counts / max(float(counts.sum()), 1.0)
    mean = float((edges[1:] + edges[:-1]) / 2 @ weights)
    # What is beyond one end does not depend on the other: there are as many ends as edges, and far more pairs of them.
    (lows, of_low), (highs, of_high) = (np.unique(ends, return_inverse=True) for ends in (low, high))
    less, squares_less = (one @ weights for one in _below(edges, lows, mean))
    more, squares_more = (one @ weights for one in _below(-edges[::-1], -highs, -mean, reverse=True))
    return _together(less[of_low], more[of_high], squares_less[of_low], squares_more[of_high], squares=squares)


class TailsCut(NamedTuple):
    """What bounds to choose from take from an answer, over all ways in which tails may be: whatever the noise is.

    Parameters
    ----------
    lows, highs
        Bounds to choose from, on either side of the mean.
    less, squares_less
        What each lower one takes from the mean, and from the mean square, in each way, shape (ways, lows).
    more, squares_more
        The same of the upper ones, shape (ways, highs).
    """

    lows: Floats
    highs: Floats
    less: Floats
    squares_less: Floats
    more: Floats
    squares_more: Floats

    @classmethod
    def of(cls, below: Floats, above: Floats, edges: Floats, lows: Floats, highs: Floats, mean: float) -> TailsCut:
        """Return it for ways in which tails may be.

        Parameters
        ----------
        below, above
            Which part of all values is in each bin, in ways that are alike likely of those below the mean, and of those
            above it, shape (ways, bins).
        edges
            Of the bins.
        lows, highs
            Bounds to choose from, on either side of the mean.
        mean
            The mean of the values, about.
        """
        less, squares_less = ((one @ below.T).T for one in _below(edges, lows, mean))
        more, squares_more = ((one @ above.T).T for one in _below(-edges[::-1], -highs, -mean, reverse=True))
        return cls(lows, highs, less, squares_less, more, squares_more)

    def least_off(self, error: Floats, *, squares: bool) -> tuple[float, float]:
        """Return the bounds whose error has the least logarithm on average.

        Parameters
        ----------
        error
            The noise of an answer between bounds, shape (lows, highs).
        squares
            Whether the answer is a variance.
        """
        noise, score = error**2, np.zeros_like(error)
        for one, squared in zip(self.less[:, :, None], self.squares_less[:, :, None], strict=True):
            for other, squared_other in zip(self.more, self.squares_more, strict=True):
                taken = _together(one, other, squared, squared_other, squares=squares)
                score += np.log(noise + taken**2 + TINY)
        i, j = np.unravel_index(int(np.argmin(score)), score.shape)
        return float(self.lows[i]), float(self.highs[j])


def _below(edges: Floats, ends: Floats, mean: float, *, reverse: bool = False) -> tuple[Floats, Floats]:
    """Return what a value in each bin loses, or its square about the mean, shape (ends, bins); in reverse, of bins."""
    places = (edges[1:] + edges[:-1]) / 2
    less = np.maximum(ends[:, None] - places, 0.0)
    squares = np.where(less > 0.0, (places - mean) ** 2 - (ends[:, None] - mean) ** 2, 0.0)
    return (less[:, ::-1], squares[:, ::-1]) if reverse else (less, squares)


def _together(less: Floats, more: Floats, squares_less: Floats, squares_more: Floats, *, squares: bool) -> Floats:
    if not squares:  # what is cut off on one side may be less than is thought, so that it makes up for nothing
        return np.asarray(less + more)
    return np.asarray(np.maximum(squares_less + squares_more + (less - more) ** 2, 0.0))
