"""To which two norms the vectors of units are clipped, where counts and sums are measured in two layers.

What clipping takes away is read off the same noisy histogram as for one norm (`norms`). How much of the second layer is
not in proportion to the first, no histogram of norms tells: it is taken to be the part `CHOSEN`. On made-up tables of
sixteen kinds it is .02 to .1 where whoever has much has it where the others have theirs, or in a few groups that are
different for everybody; up to .9 where all who have much have it in the same groups, as in one of few others. There two
layers were up to 1.4 times as wrong as one norm; over all kinds .73 times (geometric mean).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.sql.aggregates.layers import LARGEST, Layers
from dpnotebook.sql.aggregates.norms import NEARLY, NormCounts, errors_of_norms, norm_counts, taken_by, usual_errors
from dpnotebook.sql.aggregates.taken import Taken

Floats = NDArray[np.float64]
Places = tuple[NDArray[np.intp], NDArray[np.intp]]

FEWEST_GROUPS = 5  # with fewer, where the second layer lies is no better known than by its own numbers
GAIN = 0.97  # times the error of one norm, from which on two are worth it
SHORTER, LONGER = 16.0, 32.0  # times the best single norm, at most, that two norms are from it
APART = 1.2  # times the short norm, that the long one is at least
HIDDEN = 5.5  # times the noise on the first layer, at most, that on the second: of what it hides no interval knows
MOST_OF_LARGEST = 2.0  # times the error of one norm, that of the largest group, which the second layer's noise moves
STEPS = 2  # of the norms to choose from, every second
SHARES = tuple(Fraction(percent, 100) for percent in (5, 10, 20, 35, 50))  # of the cost, for the second layer
CHOSEN = 0.07  # with .15 the others lose less: errors of those kinds are .79 and 1.3 times that of one norm


def layers_to_clip_at(
    counts: ArrayLike, scale: float, noise: float, groups: int, whole: bool = False, usual: float = math.inf
) -> tuple[Layers, Taken] | None:
    """Return two norms with the least expected squared error, and what clipping to the longer one takes away.

    Parameters
    ----------
    counts, scale, noise, groups, whole, usual
        As for `norms.norm_to_clip_at`.

    Returns
    -------
    None where one norm is as good, or noise hides all.
    """
    if groups < FEWEST_GROUPS or (found := norm_counts(counts, scale, whole, usual, groups)) is None:
        return None
    single = errors_of_norms(found, noise, groups)
    places = _places(found, int(np.argmin(single)), whole)
    errors = np.stack([_errors(found, noise, groups, places, float(share)) for share in SHARES])
    share, inner, outer = np.unravel_index(int(np.argmin(errors)), errors.shape)
    if not errors[share, inner, outer] < single.min() + math.log(GAIN):
        return None
    short, long = (int(places[which][at]) for which, at in ((0, inner), (1, outer)))
    lost, length = found.excess @ found.likely, float(found.lengths @ found.likely)
    between = max(float(lost[short] - lost[long]), 0.0)
    more = between / max(length - float(lost[short]), between, 1e-9)
    layers = Layers(
        _rounded(found.norms[long]),
        _rounded(found.norms[short]),
        SHARES[share],
        _rounded(more),
        _rounded(between / math.sqrt(groups)),
        Fraction(groups),
    )
    return layers, taken_by(found, long, groups)


def nearly_best_layers(
    layers: Layers,
    counts: ArrayLike,
    scale: float,
    noise: float,
    groups: int,
    whole: bool = False,
    usual: float = math.inf,
    own: float | None = None,
) -> bool:
    """Return whether two norms that vectors were clipped to give nearly the least error with other noise too.

    Parameters
    ----------
    layers
        That are asked about; the others as for `norms.norm_to_clip_at`.
    own
        The noise that these would have, where it is another one.
    """
    if (found := norm_counts(counts, scale, whole, usual, groups)) is None:
        return True
    single = errors_of_norms(found, noise, groups)
    places = _places(found, int(np.argmin(single)), whole)
    best = min(float(_errors(found, noise, groups, places, float(share)).min()) for share in SHARES)
    inner, outer = (np.array([np.argmin(np.abs(found.norms - float(norm)))]) for norm in (layers.inner, layers.outer))
    error = float(_errors(found, noise if own is None else own, groups, (inner, outer), float(layers.share)).min())
    return error <= min(best, float(single.min())) + math.log(NEARLY)


def _places(found: NormCounts, best: int, whole: bool) -> Places:
    """Return the numbers of the norms that either of two may be."""
    every = np.arange(best % STEPS, found.norms.size, STEPS)
    norms, one = found.norms[every], found.norms[best]
    short = every[(norms >= max(one / SHORTER, 1.0 / APART if whole else 0.0)) & (norms <= one)]
    return short if short.size else np.array([best]), every[(norms >= one) & (norms <= one * LONGER)]


def _errors(found: NormCounts, noise: float, groups: int, places: Places, share: float) -> Floats:
    """Return the logarithm of the error of each pair of norms, expected over whether some units lie apart."""
    inner, outer = found.norms[places[0]][:, None], found.norms[places[1]][None, :]
    first = (noise * inner) ** 2 / (1.0 - share)
    second = (noise * (outer - inner)) ** 2 / share + 1e-300
    length = float(found.lengths @ found.likely)

    def squared(lost: Floats, moved: float) -> Floats:
        short, long = lost[places[0]][:, None], lost[places[1]][None, :]
        between = np.maximum(short - long, 0.0)
        more = between / np.maximum(np.maximum(length - short, between), 1e-9)
        apart = (CHOSEN * between) ** 2 / groups
        shrunk = second / (apart + second)
        kept = second * (1.0 - shrunk + moved * shrunk)
        return np.asarray(first * (1.0 + more * shrunk) ** 2 + kept + long**2 / groups)

    # Three directions of all groups are not shrunk, or are what shrinking itself costs; the largest moves with one.
    errors, of_largest = (
        usual_errors(found, partial(squared, moved=moved)) for moved in (3.0 / groups, max(LARGEST, 3.0 / groups))
    )
    most = float(errors_of_norms(found, noise, groups).min()) + math.log(MOST_OF_LARGEST)
    may_be = (outer >= APART * inner) & (of_largest <= most) & (second <= HIDDEN**2 * first)
    return np.asarray(np.where(may_be, errors, math.inf))


def _rounded(number: float) -> Fraction:
    """Return a number with four digits."""
    return Fraction(float(f"{number:.4g}"))
