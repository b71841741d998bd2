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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.bounds import STEPS_OF_MEANS
from dpnotebook.sql.aggregates.hidden_humps import hidden_humps
from dpnotebook.sql.aggregates.norms import NEARLY, STEPS, NormCounts, norm_counts, norm_edges, runs_start
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.aggregates.units_apart import EVEN, UnitsApart, expected_errors

Floats = NDArray[np.float64]

TOLD = 4.0  # times the noise on a bin: fewer units are put together with those of the next norms
STEP_OF_MEANS = 0.25  # how far means of units move where their norm doubles, in how far they are spread
STEP_OF_RATIOS = 0.05  # the same of ratios
STEP_OF_DIRECTIONS = 0.17  # how far the directions of units' vectors turn where their norm doubles
STEP_OF_SHARES = 0.15  # the same of their numbers of values over the norm
# How far apart the means of units with many values are, beside single values: no histogram of directions tells that.
MEANS_APART, SQUARES_APART = 0.5, 0.25
ANYWHERE = 4.0  # variance of what is not known at all, between -1 and 1
# Of single values near the centre: vectors are about 1 long, and noise does not tell which of them are longer.
NEAR = math.sqrt(2.0)
LOPSIDED = 0.7  # about the skewness of these
LEAST_MORE = 0.01  # than 1, on average, that they are at least
LEAST_RATIO = 0.02  # of a norm and a number of values: hardly anybody is in so many groups
LEAST_SPREAD = 0.15  # half-widths: noise may hide how far means of units are spread, and they hardly are less
FARTHEST = 1.0  # half-widths: so far from all others may the means of units be that noise hides
UNSURE = 2.0  # standard deviations of its noise, by which a mean may move farther than is told
SURELY = 0.95  # of all cases: in so many no more units are taken to lie together behind the others
WITHIN = 3.0  # an interval reaches so many times as far as is told here: as seldom farther as noise hides more units
HISTOGRAMS = ("means", "ratios", "squares")


@dataclass(frozen=True)
class UnitMeans:
    """What units of which norm have: noisy sums over the units in each bin of `norm_edges`, in `STEPS_OF_MEANS` of 1.

    Where values are centred they are of directions: a vector that is clipped keeps its own, and a part of it over its
    norm tells by itself what clipping takes away. Over several groups a unit may have more values than its norm; then
    it is the part over the number of values.

    Parameters
    ----------
    means
        Of the mean of a unit's values, in half-widths from the middle of their bounds; of directions, of their sum
        over the norm; for variances, of the sum of what its squares are away from their usual size.
    ratios
        Of the norm of a unit's vector over its number of values, and over the most that this is: `longest`; of
        directions, of the number of values over the norm.
    squares
        Of the square of a unit's mean; for variances, of the mean of its squares; of directions, of the norm over the
        number of values, at most 1.
    scale
        Of the Gaussian noise on each of the means.
    rough
        Of that on the others, of which less is read.
    directed
        Whether they are of directions.
    """

    means: tuple[int, ...]
    ratios: tuple[int, ...]
    squares: tuple[int, ...]
    scale: Fraction
    rough: Fraction
    directed: bool = False

    def upright(self) -> UnitMeans:
        """Return it as of weights that are mostly above zero: where all change their sign, no weighted mean does."""
        if sum(self.ratios) >= 0:
            return self
        means, ratios = (tuple(-one for one in told) for told in (self.means, self.ratios))
        return replace(self, means=means, ratios=ratios)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told = {name: list(getattr(self, name)) for name in HISTOGRAMS} | {
            "scale": str(self.scale),
            "rough": str(self.rough),
        }
        return told | {"directed": True} if self.directed else told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> UnitMeans:
        """Return what `to_json` wrote."""
        means, ratios, squares = (tuple(map(int, told[name])) for name in HISTOGRAMS)
        scales = Fraction(told["scale"]), Fraction(told["rough"])
        return cls(means, ratios, squares, *scales, bool(told.get("directed", False)))


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


class Choices(NamedTuple):
    """What clipping to each of some norms does, shape (norms,) each; errors are in half-widths, or in squared ones.

    Parameters
    ----------
    norms
        The norms.
    noise
        Standard deviation of the noise on the answer of a group, where that on a sum is 1 for a norm of 1.
    about, most
        By how much clipping moves it, about and at most.
    kept
        Which part of all values counts.
    noise_apart, about_apart
        The same as `noise` and `about`, where some units lie apart from the others.
    apart
        How many these are, and in which bins.
    weighed
        How much less weight one unit of each bin has then, of that of all, shape (norms, bins).
    looked
        The norm up to which they were looked for.
    farthest
        So far from all others may their means be, in half-widths.
    """

    norms: Floats
    noise: Floats
    about: Floats
    most: Floats
    kept: Floats
    noise_apart: Floats
    about_apart: Floats
    apart: UnitsApart
    weighed: Floats
    looked: float
    farthest: float

    def errors(self, noise: float) -> Floats:
        """Return the logarithm of the error of the answer of a group, for so much noise on a sum."""
        usual, apart = (
            about**2 + (noise * each) ** 2
            for about, each in ((self.about, self.noise), (self.about_apart, self.noise_apart))
        )
        return expected_errors(usual, apart, self.apart.likely)

    def best(self, noise: float) -> MeanClip:
        """Return the norm with the least error."""
        best = int(self.errors(noise).argmin())
        usual, apart, most = (float(moves[best]) for moves in (self.about, self.about_apart, self.most))
        about = apart if self.apart.likely > EVEN else usual
        most = max(about, most)
        more = self.farthest * min(self.apart.at_most(self.weighed[best]), 1.0)
        moved = Taken(about, most, apart=most + more, looked=self.looked) if more > 0 else Taken(about, most)
        return MeanClip(Fraction(float(f"{self.norms[best]:.4g}")), moved, float(self.kept[best]))

    def nearly_best(self, norm: float, noise: float) -> bool:
        """Return whether a norm gives nearly the least error."""
        errors = self.errors(noise)
        return float(np.interp(norm, self.norms, errors)) <= float(errors.min()) + math.log(NEARLY)


@lru_cache(maxsize=16)
def choices_for_means(
    counts: tuple[int, ...],
    scale: float,
    told: UnitMeans,
    groups: float,
    squares: bool,
    usual: float,
    farthest: float = FARTHEST,
    weighted: bool = False,
) -> Choices | None:
    """Return the norms that units may be clipped to for a mean or a variance; None where noise hides all.

    An error is planned by trying many prices, of the same histograms: what these say is kept.

    Parameters
    ----------
    counts, scale
        Noisy number of units in each bin of `norm_edges`, and the standard deviation of the noise.
    told
        What these units have.
    groups
        How many groups of equal size would have as much noise on their means.
    squares
        Whether it is for variances.
    usual
        A norm that no unit is meant to pass, as for `norm_to_clip_at`.
    farthest
        So far from all others may the means of units be that noise hides, in half-widths.
    weighted
        Whether rows have weights, of any size: what is said of numbers of values is of sums of weights then.
    """
    found = norm_counts(counts, scale, usual=usual)
    if found is None:
        return None
    if weighted and told.directed:
        told = told.upright()
    usually, apart = (
        _moves(found, scale, told, groups, squares, others, farthest, weighted)
        for others in (np.zeros_like(found.likely), found.apart.units)
    )
    return Choices(
        usually.norms, usually.noise, usually.about, usually.most, usually.kept, apart.noise, apart.about, found.apart,
        np.maximum(-usually.weighed, 0.0), found.farthest, farthest,
    )  # fmt: skip


class _Moves(NamedTuple):
    """What clipping to each norm does, if so many units are in each bin; see `Choices`."""

    norms: Floats
    noise: Floats
    about: Floats
    most: Floats
    kept: Floats
    weighed: Floats


def _moves(
    found: NormCounts,
    scale: float,
    told: UnitMeans,
    groups: float,
    squares: bool,
    others: Floats,
    farthest: float,
    weighted: bool,
) -> _Moves:
    """Return what clipping does where so many units lie apart, and how much more weight one of each bin has by it.

    A value that counts once makes no vector shorter than 1. Where all are clipped, a shorter norm changes nothing.
    """
    least = _shortest(found.noisy, scale) if weighted else 1.0
    chosen = found.norms >= least
    norms, lengths = found.norms[chosen], np.maximum(found.lengths, least)
    clipped = lengths - found.excess[chosen]
    likely = found.average if told.directed else found.likely
    units = np.where(norm_edges()[1 : lengths.size + 1] >= least, np.maximum(likely + others, 0.0), 0.0)
    parts = _parts(found.noisy[: units.size], TOLD * max(scale, float(told.scale) / STEPS_OF_MEANS))
    values = _values(told, parts, lengths, squares, weighted)  # of a norm of 1
    unsure_near = np.zeros(norms.size)
    if told.directed and not weighted:
        lengths, clipped, unsure_near = _near_the_centre(norms, lengths, clipped, values, units)
    every = max(float((lengths * values) @ units), 1e-300)
    each = np.maximum((clipped * values) @ units, 1e-300)
    weights, apart = lengths * values * units / every, clipped / each[:, None] - lengths / every
    if told.directed:
        spread_out = _shorter(told, parts)
        shift, unsure = _turned(told, parts, apart * units / spread_out)
        unsure = np.hypot(unsure, unsure_near / every)
        lean = np.zeros_like(shift)
        of_bins, errors_of_bins = _averages(told.means, told.scale, parts, STEP_OF_DIRECTIONS)
        of_bins = of_bins / spread_out / values
        between = SQUARES_APART if squares else MEANS_APART
        rows = np.ones_like(values) if weighted else (lengths * values).clip(1.0)  # by weights nobody knows them
        spread = values.clip(0.0, 1.0) * np.sqrt(1.0 / rows + between**2)
    else:
        spread_out, edges = np.ones_like(values), norm_edges()[: lengths.size + 1]
        shortened = ((edges[1:] - norms[:, None]) / (edges[1:] - edges[:-1])).clip(0.0, 1.0)
        turned = clipped / each[:, None] * units * values * shortened
        alike, shift, lean, unsure, of_bins, errors_of_bins = _shift(
            told, parts, weights, apart * units * values, turned, squares
        )
        spread = np.full(values.shape, alike)
    by_chance = np.sqrt(groups * ((apart * spread_out * spread) ** 2 @ units))  # which units a group has
    theirs = (apart * spread) @ others  # what those have that lie apart may be something else altogether
    far = _hidden_shift(found, units, lengths * values, clipped * values, of_bins, weights, errors_of_bins, farthest)
    about = np.sqrt(shift**2 + lean**2 + unsure**2 + by_chance**2 + theirs**2 + far**2)  # none surely cancels another
    hidden = 1.0 - every / max(float(found.heavy @ (lengths * values)), every)
    most = about + UNSURE * unsure + farthest * hidden
    return _Moves(norms, norms * groups / each, about, most, each / every, apart * values)


def _hidden_shift(
    found: NormCounts,
    units: Floats,
    every: Floats,
    counted: Floats,
    means: Floats,
    weights: Floats,
    errors: Floats,
    farthest: float,
) -> Floats:
    """Return how far units beside those that are likely, as many as noise may hide, move the mean of all for each norm.

    Their means are those of the last units that are found: these differ from that of all where values go with how many
    a unit has.

    Parameters
    ----------
    found, units
        How many units are in each bin, at most, and likely.
    every, counted
        How many values a unit in each bin has, and of how many it counts as clipped to each norm.
    means, weights, errors
        Of the units in each bin, what part of all values is theirs, and the covariance of the errors of the former.
    farthest
        The farthest that a mean may be from that of all.
    """
    together = np.zeros_like(every)
    together[found.end :] = _together(found, every)
    more = np.maximum(np.maximum(found.heavy, found.average + together) - np.maximum(units, 0.0), 0.0)
    whole = float(every @ (np.maximum(units, 0.0) + more))
    away = math.sqrt(max(float(means[-1] - means @ weights) ** 2 - float(errors[-1, -1]), 0.0))
    return np.asarray(min(away, farthest) * ((every - counted) @ more) / max(whole, 1e-300) / WITHIN)


def _together(found: NormCounts, every: Floats) -> Floats:
    """Return the most units that may lie together behind the last bin that is found, in each bin from there on."""
    end, size = found.end, every.size - found.end
    if size <= 0:
        return np.zeros(0)
    away = found.edges[end : end + size] / found.edges[end] - 1.0
    humps = hidden_humps(found.noisy[end : end + size], found.average[end:], found.scale, away)
    order = np.argsort(humps.units @ every[end:])
    place = int(np.searchsorted(np.cumsum(humps.weights[order]), SURELY))
    return np.asarray(humps.units[order[min(place, order.size - 1)]])


def _near_the_centre(
    norms: Floats, lengths: Floats, clipped: Floats, values: Floats, units: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return lengths, and what is left of them for each norm, where bins have single values near the centre.

    Most of these are hardly longer than 1, as their number over their length tells. Those that are longer may all be on
    one side of the centre: by how much a sum may be farther from it than directions say is the third number.
    """
    unsure = np.zeros(norms.size)
    place = int(np.searchsorted(norm_edges(), NEAR, side="left")) - 1
    if place >= lengths.size or norms.size == 0:
        return lengths, clipped, unsure
    longest = NEAR - 1.0
    more = float(np.clip(1.0 / values[place] - 1.0, LEAST_MORE, longest))
    power = longest / more - 1.0  # they are 1 and a power of an even number longer
    passed = ((norms - 1.0) / longest).clip(0.0, 1.0)
    share = 1.0 - passed ** (1.0 / max(power, 1e-9))  # of them, that are longer than a norm
    excess = (more * (1.0 - (1.0 - share) ** (power + 1.0)) - longest * passed * share).clip(0.0, more)
    lengths, clipped = lengths.copy(), clipped.copy()
    lengths[place], clipped[:, place] = 1.0 + more, 1.0 + more - excess
    unsure = LOPSIDED / 2.0 * (2.0 * more) ** 1.5 * max(float(units[place]), 0.0) * excess / more
    return lengths, clipped, unsure


def _values(told: UnitMeans, parts: list[_Part], lengths: Floats, squares: bool, weighted: bool) -> Floats:
    """Return how many values the units in each bin have for each of their norm, or which weight these have."""
    ratios, _ = _averages(told.ratios, told.rough, parts, STEP_OF_SHARES if told.directed else STEP_OF_RATIOS)
    if told.directed:
        return np.asarray(ratios.clip(LEAST_RATIO if weighted else 1.0 / lengths, 1.0) / _shorter(told, parts))
    return np.asarray(1.0 / (ratios * longest(squares)).clip(1.0 if weighted else 1.0 / lengths, longest(squares)))


def _shorter(told: UnitMeans, parts: list[_Part]) -> Floats:
    """Return the norms of units over their numbers of values, at most 1."""
    norms, _ = _averages(told.squares, told.rough, parts, STEP_OF_RATIOS)
    return norms.clip(LEAST_RATIO, 1.0)


def _turned(told: UnitMeans, parts: list[_Part], moved: Floats) -> tuple[Floats, Floats]:
    """Return how far the mean of all moves for each norm, and its error.

    What a bin adds to a sum is its norms times their directions: a shift is a sum of these, and nothing else.
    """
    sums, covariance = _averages(told.means, told.scale, parts, STEP_OF_DIRECTIONS)
    return moved @ sums, _errors(moved, parts, covariance)


def _errors(moved: Floats, parts: list[_Part], covariance: Floats) -> Floats:
    """Return the errors of sums over bins that count so much, of averages with this covariance by part."""
    change = np.stack([moved[:, part.first : part.end].sum(axis=1) for part in parts], axis=1)
    return np.asarray(np.sqrt(np.einsum("np,pq,nq->n", change, covariance, change).clip(0.0)))


def _shortest(noisy: Floats, scale: float) -> float:
    """Return a norm that hardly any unit's vector is shorter than, given noisy numbers of units in each bin."""
    return float(norm_edges()[runs_start(noisy, scale) or 0])


class _Part(NamedTuple):
    """Bins that are looked at together, from the first to the one before the end, and how many units they have."""

    first: int
    end: int
    units: float


def _parts(noisy: Floats, needed: float) -> list[_Part]:
    """Return parts of bins, of which each has enough units, but the first one where all have fewer together."""
    parts, end = [], noisy.size
    for first in range(noisy.size - 1, -1, -1):
        if (units := float(noisy[first:end].sum())) >= needed:
            parts.append(_Part(first, end, units))
            end = first
    return parts[::-1] or [_Part(0, noisy.size, max(float(noisy.sum()), needed))]


def _averages(told: tuple[int, ...], scale: Fraction, parts: list[_Part], step: float) -> tuple[Floats, Floats]:
    """Return averages over the units in each bin, and the covariance of their errors by part.

    From one norm to the next they change little: they are taken to be a random walk, of so long a step where norms
    double, whose noise is known.
    """
    sums = np.array(told, dtype=float) / STEPS_OF_MEANS
    units = np.array([part.units for part in parts])
    found = np.array([sums[part.first : part.end].sum() for part in parts]) / units
    errors = float(scale) / STEPS_OF_MEANS * np.sqrt([part.end - part.first for part in parts]) / units
    away = np.cumsum([0.0, *((later.first + later.end - part.first - part.end) / 2 for part, later in pairwise(parts))])
    walk = ANYWHERE + step**2 / STEPS * np.minimum(away[:, None], away)
    gain = np.linalg.solve(walk + np.diag(errors**2), walk).T
    averages = np.repeat(gain @ found, [part.end - part.first for part in parts])
    return np.concatenate([np.full(parts[0].first, averages[0]), averages]), walk - gain @ walk


def _shift(
    told: UnitMeans, parts: list[_Part], weights: Floats, moved: Floats, turned: Floats, squares: bool
) -> tuple[float, Floats, Floats, Floats, Floats, Floats]:
    """Return how far the means of units are spread, how far that of all moves for each norm, twice, and its error.

    Behind that, the means of the units in each bin, or for variances how far values are from that of all, squared, and
    the covariance of the errors of these by part.

    For variances it is about how far values are from the mean of all, squared.
    It moves as units of some norms count more, and as of clipped ones those with a mean t count 1 / sqrt(1 + t^2) times
    as much as one with a mean of 0: where means are spread about m that is -m / (1 + m^2) times their variance, nearly.
    """
    rough, _ = _averages(told.means, told.scale, parts, 1.0)
    of_squares, _ = _averages(told.squares, told.rough, parts, 1.0)
    middle, mean_square = float(rough @ weights), float(of_squares @ weights)
    spread = math.sqrt(min(max(mean_square - middle**2, LEAST_SPREAD**2), 1.0))
    means, covariance = _averages(told.means, told.scale, parts, STEP_OF_MEANS * spread)
    shift, of_bins = moved @ means, means
    lean = (
        np.zeros_like(shift)
        if squares
        else turned @ (rough / (1.0 + rough**2) * (of_squares - rough**2).clip(0.0, 1.0))
    )
    if squares:
        middle, spread = float(means @ weights), spread**2
        of_squares, covariance = _averages(told.squares, told.rough, parts, STEP_OF_MEANS * spread)
        of_bins = of_squares - 2.0 * middle * means
        shift = moved @ of_bins - shift**2
    return spread, shift, lean, _errors(moved, parts, covariance), of_bins, covariance
