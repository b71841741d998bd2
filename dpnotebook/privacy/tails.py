"""How far noise reaches: half-widths of intervals of single draws and of weighted sums of draws.

Laplace noise is on the integers, and its half-widths are those of the discrete law. Gaussian noise is drawn on a grid
of 2^10 steps a sigma or finer, so its half-widths are those of the normal law.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.privacy.noise import checked_confidence, checked_scale

Floats = NDArray[np.float64]


def half_widths(weights: ArrayLike, scale: object, noise: Noise, confidence: float, step: float = 1.0) -> Floats:
    """Return for each row w of weights the h with P(step |sum_j w_j V_j| <= h) >= confidence, V_j independent noise.

    Parameters
    ----------
    weights
        What each draw counts for in each answer, shape (answers, draws).
    scale
        Scale of the noise: b of the discrete Laplace law on the integers, or sigma of the Gaussian law. One for all
        draws, or a sequence of one a draw.
    noise
        Which law: "laplace" or "gaussian".
    confidence
        Probability that the interval covers, above 0 and at most 1 - 10^-9.
    step
        What one unit of the noise is worth.

    Returns
    -------
    float array of shape (answers,). One Laplace draw: its exact quantile. Several: by inversion of the characteristic
    function, within 0.3% of the exact quantile, or of two standard deviations where that is more (1.3% where scales
    are below a third of a step), and where the sum lives on a lattice the exact quantile itself.

    Raises
    ------
    AccuracyError
        If the scale or the confidence is out of its range.
    ValueError
        If the weights are not a finite matrix, or the scales are not one a draw.
    """
    size = np.abs(np.asarray(weights, dtype=float))
    if size.ndim != 2 or not np.all(np.isfinite(size)):
        raise ValueError("weights must be a matrix of finite numbers, one row per answer")
    confidence = checked_confidence(confidence)
    scales = _scales(scale, size.shape[1])
    largest = size.max(axis=1, initial=0.0)
    unit = np.where(largest > 0, largest, 1.0)
    relative = size / unit[:, None]
    # Many draws mostly have one scale between them, and a fraction takes long to hash.
    known = {id(each): each for each in scales}
    places = {key: place for place, key in enumerate(known)}
    which = np.array([places[id(each)] for each in scales], dtype=np.intp)
    width = law_of(noise).half_widths_of_sums(relative, list(known.values()), which, confidence)
    return np.asarray(width * unit * step)


def _scales(scale: object, draws: int) -> list[Fraction]:
    """Return the scale of every draw; those of one object are one object."""
    if not isinstance(scale, (Sequence, np.ndarray)) or isinstance(scale, str):
        return [checked_scale(scale)] * draws
    if len(scale) != draws:
        raise ValueError(f"there are {len(scale)} scales for {draws} draws; give one scale, or one a draw")
    each_draw = list(scale)  # an array makes new objects at every look
    known = {key: checked_scale(each) for key, each in {id(each): each for each in each_draw}.items()}
    return [known[id(each)] for each in each_draw]


def kappa(confidence: float, noise: Noise) -> float:
    """Return the largest half-width, in standard deviations, that any weighted sum of draws has at this confidence.

    For planning, when the weights are not known yet. Gaussian: the normal quantile. Laplace: the largest of a single
    draw's ln(1 / beta) / sqrt 2, the normal limit's quantile and, in between (beta near 0.093), that of two equal
    draws; a search over weights and scales found no other sum above them. It is a statement about fine noise: on the
    integers a half-width is a whole number of steps, which adds up to `grid_excess`.
    """
    return law_of(noise).kappa(confidence)


def farthest(std_error: float, noise: Noise, confidence: float, step: float, scale: float) -> float:
    """Return a half-width that no combination of draws of this standard error passes, whatever its weights up to one.

    Parameters
    ----------
    std_error
        Of the combination, in the answer's units.
    noise, confidence
        The law of the draws, and the probability to keep.
    step
        What one unit of the noise is worth in the answer's units.
    scale
        The least scale of a draw, in steps.
    """
    return float(farthest_of(np.array([std_error]), noise, confidence, step, scale)[0])


def farthest_of(std_errors: Floats, noise: Noise, confidence: float, step: float | Floats, scale: float) -> Floats:
    """Return `farthest` of each of several combinations, shape (answers,); `step` is one number, or one an answer.

    Where no draw counts, as for a group that a filter excludes, nothing reaches anywhere.
    """
    return law_of(noise).farthest(std_errors, confidence, step, scale)
