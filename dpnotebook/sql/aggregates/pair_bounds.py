"""Between which values both columns of a pair count: bounds with which a covariance, or a correlation, errs least.

A histogram of each column tells how far its values are spread between bounds, and what these take from its variance.
What they take from a covariance depends on how both columns go together where they are cut off, which no histogram of
one tells: mostly about as they do elsewhere, by which bounds are chosen; intervals hold whatever it is. Noise is in
proportion to the product of both half-widths, and on the squares that a correlation needs to each of these squared.

If bounds cut off parts v and w of both variances, the product of the standard deviations of what is left is
sqrt((1 - v) (1 - w)) times that of all. The exact covariance is that of what is left, and c (v + w) / 2 times that
product, with c between -1 and 1 as both go together where they are cut off: where one is the other, c is 1, and so are
the correlations of what is left and of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import Law
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.taken import Taken

Floats = NDArray[np.float64]

USUAL_PLACE, USUAL_SPREAD, USUAL_FOURTH = 0.5, 0.25, 3.0  # of a column of which nothing is known, in half-widths
CORRELATIONS = (0.2, 0.5, 0.8)  # for which bounds are to suit, as likely each
# What bounds take from a covariance, in correlations. Where values are spread along a line, that is the mean of the
# parts that they take from both variances; where the line bends, their geometric mean, or somewhat less. A covariance
# is never less by nothing where one column alone is cut off, as a geometric mean has it.
ON_A_LINE, ON_A_BEND = 1.05, (0.8, 0.95)
OF_COVARIANCES = (0.5, 0.85, 1.1)
TINY = 1e-300
# Of mu^2, for 1, a, b, a b and the squares: the best for covariances where means are half-way to a bound.
GAUSSIAN_SHARES = (1, 2, 2, 4, 2, 2)
SQUARES_SHARE = Fraction(1, 6)  # of epsilon, for each sum of squares: then all sums of a correlation err about the same


class Side(NamedTuple):
    """Bounds of one column, and what is known of the values between them.

    Parameters
    ----------
    bounds
        Lower and upper.
    place, spread
        How far their mean is from the middle, and their standard deviation, in half-widths.
    fourth
        Their fourth moment about the mean, in squares of their variance.
    cut
        What the bounds take from their variance, and how large it is.
    """

    bounds: Bounds
    place: float = USUAL_PLACE
    spread: float = USUAL_SPREAD
    fourth: float = USUAL_FOURTH
    cut: Taken = Taken(0.0, 0.0, below=0.0, above=0.0)

    @property
    def deviation(self) -> float:
        """The standard deviation of the values as they count."""
        return self.spread * float(self.bounds[1] - self.bounds[0]) / 2

    def left(self, most: bool = False) -> float:
        """Return which part of the variance of all values the bounds leave, about or at least; 1 where nothing tells.

        It is not worked out from what they take: where that is next to all, nothing would be left of it.
        """
        taken = self.cut.below if most and math.isfinite(self.cut.below) else self.cut.most if most else self.cut.about
        variance = self.deviation**2
        if not (math.isfinite(taken) and taken > 0.0 and variance > 0.0):
            return 1.0
        return variance / (taken + variance)


def side_of(bounds: Bounds, cut: Taken, places: Floats, units: Floats) -> Side:
    """Return what is known of values between bounds.

    Parameters
    ----------
    bounds, cut
        The bounds, and what they take from the variance of all values.
    places, units
        Where values are, and about how many units have them, shape (bins,).
    """
    low, high = map(float, bounds)
    half, total = (high - low) / 2, float(units.sum())
    if half <= 0.0 or total <= 0.0:
        return Side(bounds, cut=cut)
    values = (places.clip(low, high) - (low + high) / 2) / half
    mean = float(values @ units) / total
    away = (values - mean) ** 2
    variance = float(away @ units) / total
    if variance <= TINY:
        return Side(bounds, cut=cut)
    return Side(bounds, mean, math.sqrt(variance), float(away**2 @ units) / total / variance**2, cut)


def best_sides(
    first: Sequence[Side], other: Sequence[Side], noise: float, law: Law, *, squares: bool
) -> tuple[Side, Side]:
    """Return the bounds of both columns whose error has the least logarithm on average; see `bounds_choice`.

    Parameters
    ----------
    first, other
        Bounds to choose from, of either column.
    noise
        Standard deviation of the noise on a mean of 1 for all that the answer costs.
    law
        Of the noise.
    squares
        Whether it is a correlation, for which squares are measured too.
    """
    covariance = noise_of_moments(law, squares=squares) * noise**2
    score = np.zeros((len(first), len(other)))
    for i, x in enumerate(first):
        for j, y in enumerate(other):
            kept, joint = _kept(x.left(), y.left())
            v, w = 1.0 - x.left(), 1.0 - y.left()
            bends = [times * math.sqrt(v * w) for times in ON_A_BEND]
            together = [*bends, ON_A_LINE * joint] if squares else [times * joint for times in OF_COVARIANCES]
            for r in CORRELATIONS:
                error = _error(covariance, x, y, r, squares=squares)
                for one in together:
                    # A correlation is that of what is kept, in whose own deviations it errs.
                    bias = r * (one - (1.0 - kept)) / max(kept, TINY) if squares else r * one
                    size = math.hypot(error if squares else kept * error, bias)  # whose square may be no number
                    score[i, j] += 2 * math.log(max(size, TINY))
    best, beside = divmod(int(np.argmin(score)), len(other))
    return first[best], other[beside]


def taken_by(first: Side, other: Side, *, squares: bool) -> Taken:
    """Return what bounds of both columns take from a correlation, or from a covariance.

    Parameters
    ----------
    first, other
        The bounds.
    squares
        Whether it is a correlation.
    """
    both = first.deviation * other.deviation
    heavy = math.sqrt(first.fourth * other.fourth)
    if not (first.cut.known and other.cut.known):
        return Taken(spread=both, heavy=heavy)
    about, most = (_kept(first.left(how), other.left(how)) for how in (False, True))
    told = [max(1.0 - kept, joint) if squares else joint / max(kept, TINY) * both for kept, joint in (about, most)]
    kept, joint = most
    return Taken(told[0] / 2, told[1], spread=both, kept=kept, joint=joint, heavy=heavy)


def _kept(first: float, other: float) -> tuple[float, float]:
    """Return which part of the product of the exact standard deviations is kept, and which is cut off.

    Parameters
    ----------
    first, other
        Which parts of both variances are left.
    """
    return math.sqrt(first) * math.sqrt(other), 1.0 - (first + other) / 2


def _error(covariance: Floats, x: Side, y: Side, r: float, *, squares: bool) -> float:
    """Return the noise of a correlation, or of a covariance in both standard deviations, as these are kept."""
    m, n, s, t = x.place, y.place, x.spread, y.spread
    line = np.array([m * n - r * s * t, -n, -m, 1.0, 0.0, 0.0])[: len(covariance)] / (s * t)
    if squares:
        line = np.array([m * n, -n, -m, 1.0, 0.0, 0.0]) / (s * t)
        line -= r / 2 * (np.array([m * m, -2 * m, 0.0, 0.0, 1.0, 0.0]) / s**2)
        line -= r / 2 * (np.array([n * n, 0.0, -2 * n, 0.0, 0.0, 1.0]) / t**2)
    return math.sqrt(max(float(line @ covariance @ line), 0.0))


def noise_of_moments(law: Law, *, squares: bool) -> Floats:
    """Return the covariance of the noise on 1, a, b, a b and the squares, where that on 1 alone would be 1.

    Parameters
    ----------
    law
        Of the noise.
    squares
        Whether the squares are measured.
    """
    if law.euclidean:
        whole = sum(GAUSSIAN_SHARES[: 6 if squares else 4])
        variances = [whole / share for share in GAUSSIAN_SHARES]
    else:  # in four corners, each of which is half of a moment twice as often
        rest = 1.0 - 2.0 * float(SQUARES_SHARE) * squares
        variances = [4.0 / rest**2] * 4 + [float(SQUARES_SHARE) ** -2.0] * 2
    found = np.diag(variances)
    for q in (4, 5):  # twice the squares less the number is measured
        found[q, q] = (variances[q] + variances[0]) / 4
        found[q, 0] = found[0, q] = variances[0] / 2
    found[4, 5] = found[5, 4] = variances[0] / 4
    return found if squares else found[:4, :4]
