"""How many values of rank quantiles will be off: tried on usual columns, or on what releases tell of the column."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.redraws import redrawn_noise
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.crossings import (
    TINY,
    band,
    crossed_at,
    crossed_between,
    cumulative_weights,
    excess_errors,
    rank_read,
    rising,
)
from dpnotebook.strategy import Strategy

Floats = NDArray[np.float64]

CERTAIN = 0.95  # of the intervals inside which answers are
# Quantiles are read off noisy counts so often, to see how far they are off: that tells a standard error to 5%, as half
# of the draws mirror the others and Laplace noise has longer tails.
TRIED: dict[Noise, int] = {"gaussian": 200, "laplace": 800}
# For so many values of a usual column, in errors of a cumulative count. These are close where few values are beyond a
# high quantile: how far it is moved then, for noise to tell it from the end, first grows and then falls.
SIZES = (*(4.0 * 2.0 ** (k / 2) for k in range(8)), *(4.0**k for k in range(4, 8)))
FILLED = (0.1, 0.8)  # of the bins, that values of a usual column are in, least and most: anywhere among them
GOLDEN = 0.618034  # its multiples, without their whole parts, are spread evenly, whatever comes in the order of tries
SCALE = 1_000.0  # of the noise there, in steps: fine enough to be a continuous law
LOOKED_AT = 4  # of known groups, those that are off most: they share the tries, so that a plan takes no longer


def off_by(strategy: Strategy, fraction: float, noise: Noise, sizes: Floats, known: Floats | None = None) -> Floats:
    """Return how far quantiles are off in values of rank, ascending; shape (groups, tries).

    Parameters
    ----------
    strategy, fraction, noise
        How the bins are measured, which quantile is read off, and the law of the noise.
    sizes
        How many values each group has, in median errors of the counts less that fraction of all; so are the answers.
    known
        How many of them are at or below each bin, shape (groups, bins), where that is known: with the same number of
        values, cumulative counts may be known twice as well in one column as in another, by where its values lie among
        the parts that are measured, and by how close together they are. A usual column when None.
    """
    usual = _usual(strategy, fraction, noise, sizes)
    if known is None:
        return usual
    size = np.sqrt((usual**2).mean(axis=1))
    worst = np.argsort(-size, kind="stable")[:LOOKED_AT]
    each = TRIED[noise] // len(worst) // 2 * 2
    tried = [known_off(strategy, fraction, noise, known[i].tobytes(), each, place) for place, i in enumerate(worst)]
    shares = np.sort(np.concatenate([off / max(size[i], TINY) for off, i in zip(tried, worst, strict=True)]))
    return np.asarray(size[:, None] * shares)


def _usual(strategy: Strategy, fraction: float, noise: Noise, sizes: Floats) -> Floats:
    """Return `ranks_off` for numbers of values of groups, between those that are tried; shape (groups, tries)."""
    places = np.interp(np.log(np.maximum(sizes, TINY)), np.log(SIZES), np.arange(len(SIZES)))
    first = np.minimum(places.astype(int), len(SIZES) - 2)
    tried = {one: ranks_off(strategy, fraction, noise, SIZES[one]) for one in {*first.tolist(), *(first + 1).tolist()}}
    lower, upper = (
        np.array([tried[one] for one in ends.tolist()]).reshape(-1, TRIED[noise]) for ends in (first, first + 1)
    )
    share = (places - first)[:, None]
    return np.asarray((1 - share) * lower + share * upper)


@lru_cache(maxsize=256)
def ranks_off(strategy: Strategy, fraction: float, noise: Noise, size: float) -> Floats:
    """Return by how many values of rank quantiles of a usual column are off, ascending; shape (tries,).

    Its values are spread evenly over a part of the bins, as bounds are wider than most of what is between them: another
    part in each try, as errors depend on that. That counts rise takes out a part of their noise, more where values are
    few: no formula says how much, so it is tried.

    Parameters
    ----------
    strategy, fraction, noise
        How the bins are measured, which quantile is read off, and the law of the noise.
    size
        How many values there are, in median errors of the counts less that fraction of all; so is the answer.
    """
    errors, times = excess_errors(strategy, fraction), TRIED[noise]
    middle = max(float(np.median(errors)), TINY)
    values = size * middle
    first, full = _usual_columns(len(errors), times)
    counts = values * ((np.arange(1, len(errors) + 1) - first[:, None]) / full[:, None]).clip(0.0, 1.0)
    found = _read(strategy, fraction, noise, counts, times, b"ranks")
    ranks = ((found - first) / full).clip(0.0, 1.0) * values
    return np.asarray(np.sort(np.abs(ranks - fraction * values)) / middle)


@lru_cache(maxsize=64)
def known_off(strategy: Strategy, fraction: float, noise: Noise, counts: bytes, times: int, place: int) -> Floats:
    """Return the same of a column whose cumulative counts are known, in median errors as well; shape (times,).

    Parameters
    ----------
    strategy, fraction, noise
        As for `ranks_off`.
    counts
        The bytes of how many values are at or below each bin, in median errors.
    times, place
        How often it is tried, and with which noise: another for each place.
    """
    middle = max(float(np.median(excess_errors(strategy, fraction))), TINY)
    exact = np.frombuffer(counts) * middle
    found = _read(strategy, fraction, noise, exact[None], times, b"known %d" % place)
    below = np.concatenate([[0.0], exact])
    ranks = np.interp(found, np.arange(len(below)), below)
    return np.asarray(np.abs(ranks - fraction * exact[-1]) / middle)


def _read(strategy: Strategy, fraction: float, noise: Noise, exact: Floats, times: int, salt: bytes) -> Floats:
    """Return in which bin, and where in it, quantiles are read off with noise of variance 1 added; shape (times,)."""
    errors, counts = excess_errors(strategy, fraction), exact + _noise_of_counts(strategy, noise, times, salt)
    excess = rising(counts - fraction * counts[:, -1:], errors)
    places = np.arange(len(errors), dtype=float)
    rank = rank_read(np.maximum(counts[:, -1], 0.0), errors, fraction)
    found = crossed_at(excess - (rank - fraction * counts[:, -1])[:, None], -rank, places, places + 1)
    return np.asarray(found.clip(*crossed_between(excess, errors, band(CERTAIN, noise), places, places + 1)))


@lru_cache(maxsize=8)
def _noise_of_counts(strategy: Strategy, noise: Noise, times: int, salt: bytes) -> Floats:
    """Return the noise that is tried on cumulative counts, shape (times, bins), if that on what is measured has 1."""
    weights = cumulative_weights(strategy)
    drawn = redrawn_noise(noise, SCALE, times, weights.shape[1], salt) / math.sqrt(law_of(noise).variance(SCALE))
    return np.asarray(drawn @ weights.T)


def _usual_columns(bins: int, times: int) -> tuple[Floats, Floats]:
    """Return where the values of a usual column begin in each try, and over how many bins they are spread."""
    tries, (least, most) = np.arange(times, dtype=float), FILLED
    full = bins * (least + (most - least) * (tries * GOLDEN % 1.0))
    return np.asarray((bins - full) * (tries + 0.5) / times), np.asarray(full)


def left_of_errors(strategy: Strategy, fraction: float, noise: Noise, sizes: Floats) -> Floats:
    """Return what part of its error is left in a cumulative count, near a quantile, as counts rise; shape (groups,)."""
    if fraction in (0.0, 1.0):  # these are read off where noise can tell them from nothing, and err as that count does
        return np.ones(sizes.size)
    errors = excess_errors(strategy, fraction)
    first, full = _usual_columns(len(errors), TRIED[noise])
    places = (first + full * fraction).astype(int)
    here = math.sqrt(float((errors[places] ** 2).mean()))
    off = _usual(strategy, fraction, noise, sizes)
    return np.asarray(np.minimum(np.sqrt((off**2).mean(axis=1)) * float(np.median(errors)) / max(here, TINY), 1.0))


def off_at_most(off: Floats, confidence: float, noise: Noise) -> float:
    """Return how far off answers are with a confidence; of one too rare to be tried, as much farther as noise is."""
    tried = min(confidence, 1 - 10 / TRIED[noise])
    farther = max(kappa(confidence, noise) / kappa(tried, noise), 1.0)
    return float(np.quantile(off, tried)) * farther
