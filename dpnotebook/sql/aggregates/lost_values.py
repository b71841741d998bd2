"""What keeping values between bounds may take from a mean or a variance: as a histogram tells, in ways alike likely.

Bounds are chosen where noise hides what is beyond them: what they take is hardly ever known within a factor of two. In
many ways that suit the noisy counts alike it is worked out how much it is; one that few pass is what it may be. What is
cut off above makes a mean too small, and what is cut off below too large; a variance can only be too small, as values
that are kept between bounds are nearer to each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.hidden_tail import possible_losses

Floats = NDArray[np.float64]

SELDOM = 0.025  # of the ways, in which more is lost than is said to be the most: as seldom as noise passes an end
PLACES = 5  # of a normal number, for what noise says of bins in which units are found
KEPT = 81  # of the ways of either side, beside each of which are all of the other side
PARTS = 4  # of a bin, in which values are taken to be spread evenly


class Lost(NamedTuple):
    """What bounds take from an answer.

    Parameters
    ----------
    about
        What is expected: half of the ways have less.
    most
        What they hardly take more than, in either direction.
    below, above
        By how much the answer may be too small, and too large, which hardly is more.
    """

    about: float
    most: float
    below: float
    above: float


def lost_between(
    noisy: Floats, scale: float, edges: Floats, found: tuple[int, int], low: float, high: float, *, squares: bool
) -> Lost:
    """Return what keeping values between bounds takes from their mean or their variance.

    Parameters
    ----------
    noisy, scale, edges
        Noisy number of units in each bin, the standard deviation of the noise, and the edges of the bins.
    found
        The first bin in which units are found, and the one behind the last.
    low, high
        The bounds.
    squares
        Whether it is a variance.
    """
    inside = slice(*found)
    total = max(float(noisy[inside].sum()), scale)
    ends = np.interp(np.arange(PARTS * noisy.size + 1) / PARTS, np.arange(edges.size), edges)
    places = (ends[1:] + ends[:-1]) / 2
    mean = float(places.clip(low, high).reshape(-1, PARTS).mean(axis=1)[inside] @ noisy[inside]) / total
    sides = []  # above and below
    for farther, end, turn in ((places - high, high, 1), (low - places, low, -1)):
        outside = np.maximum(farther, 0.0)
        respects = [outside]
        if squares:
            respects.append(np.where(outside > 0.0, (places - mean) ** 2 - (end - mean) ** 2, 0.0))
        each, farthest = (
            np.stack([summed(one.reshape(-1, PARTS), axis=1) for one in respects], axis=1)[::turn]
            for summed in (np.mean, np.max)
        )
        bins = _turned(found, noisy.size, turn)
        sides.append(_side(noisy[::turn], scale, (turn * edges)[::turn], bins, each, farthest))
    above, below = sides[0][None] / total, sides[1][:, None] / total
    if squares:  # about their own mean, which is cut off too
        less = np.maximum(above[..., 1] + below[..., 1] - (above[..., 0] - below[..., 0]) ** 2, 0.0).ravel()
        about, most = np.quantile(less, [0.5, 1.0 - SELDOM])
        return Lost(float(about), float(most), float(most), 0.0)
    # What is cut off on one side makes up for nothing: a group may have hardly any of it.
    about, most = np.quantile(above[..., 0] + below[..., 0], [0.5, 1.0 - SELDOM])
    too_small, too_large = (float(np.quantile(side[..., 0], 1.0 - SELDOM)) for side in (above, below))
    return Lost(float(about), float(most), too_small, too_large)


def _turned(found: tuple[int, int], size: int, turn: int) -> tuple[int, int]:
    """Return the same bins as they are counted from the other end."""
    return found if turn > 0 else (size - found[1], size - found[0])


def _side(noisy: Floats, scale: float, edges: Floats, found: tuple[int, int], each: Floats, farthest: Floats) -> Floats:
    """Return what is lost on the far side in all ways that are alike likely, shape (ways, respects).

    In half of them all values of a bin are the same, at its far end, as of those who have the most that there is.
    """
    from scipy.special import ndtri

    inside = slice(*found)
    hidden = possible_losses(noisy, scale, edges, *found, each[found[1] :])
    normal = ndtri((np.arange(PLACES) + 0.5) / PLACES)[:, None]
    ways = []
    for one in (each[inside], farthest[inside]):
        told, error = noisy[inside] @ one, scale * np.sqrt((one**2).sum(axis=0))
        ways.append(np.maximum(hidden[:, None] + told + error * normal, 0.0).reshape(-1, each.shape[1]))
    lost = np.concatenate(ways)
    order = np.argsort(lost[:, -1])
    return np.asarray(lost[order[(2 * np.arange(KEPT) + 1) * order.size // (2 * KEPT)]])
