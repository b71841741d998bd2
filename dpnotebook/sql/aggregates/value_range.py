"""Between which values most rows lie: bins of equal width between bounds, and again between the ones that are found.

Orders of magnitude alone, as in Wilson et al., section 4.2.5, say of years that they are between 1,024 and 2,048, and
averages would be hidden behind noise for values from all of that. A histogram may have many bins at the same cost. The
last one has few: narrow ones where most values are, and on either side wider ones the farther away they are, so that
all of a long tail is in few noisy numbers. What lies outside is cut off where the bias of that and the noise for what
is inside are least together, and about how much that bias is, at most, is told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpnotebook.privacy.laws import Noise
from dpnotebook.sql.aggregates.bounds_choice import Answer, TailsCut, bias, noise_between, noise_of_squares
from dpnotebook.sql.aggregates.budget_split import OF_VALUES
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.hidden_tail import ALIKE, alike_tails, hidden_tail
from dpnotebook.sql.aggregates.lost_values import lost_between
from dpnotebook.sql.aggregates.noisy_histogram import Floats, FoundBins, NoisyHistogram
from dpnotebook.sql.aggregates.norms import MOST_BINS, SURE, runs_end
from dpnotebook.sql.aggregates.taken import Taken

ROUNDS = OF_VALUES - 1  # histograms of values beside that of magnitudes: the last one is coarse
FINE = 1536  # bins of equal width: many tell where values are
SPIKE = 2  # bins: what takes no more may be one value that many have
SPREAD = 64  # bins: where values take more, finer ones would not tell more
NARROW = 12  # bins of equal width where values are surely found: few tell how many are in the tails
WIDENS = 1.35  # how many times as far from the middle each edge behind these is as the one before
FINER = 4  # ends to choose from in a bin, in which values are taken to be spread evenly
FILLED = 3.0  # standard deviations the second half of a run stands out by, for squares: wide bounds cost most there
# How likely noise alone may fill a bin near those found; an eighth of that for each doubling of their width.
NEXT = 3e-3
SEEN = 1e-5  # how likely noise alone may fill some bin or run of the last histogram: far ones make bounds too wide
BEHIND = 12  # times the largest magnitude that is found, up to which a tail is looked at
HIDES = 3.0  # standard deviations of noise that may hide values apart from the others
LEFT = 0.005  # of all values, that may be beyond either end of what nearly all lie between
SPREADS = 1.0  # standard errors, by which squares are rather taken to be spread too far than too little
USUAL = 0.5  # of the laws of a tail, the one that is expected
LEAST_LEFT = 0.25  # of the size of values, what is left on average where some are below 0


def wider(bounds: Bounds) -> Bounds:
    """Return bounds of magnitudes with the next order of magnitude, and with as many below zero as above.

    Tails may be hidden there. Where most values are on one side of zero, those on the other one are of several orders
    of magnitude, and noise hides them in each of these.
    """
    low, high = bounds
    return min(low * 2, -high), max(high * 2, -low)


def with_tails(bounds: Bounds) -> Bounds:
    """Return bounds of magnitudes with several more on each side where values are, for tails, and the other side."""
    low, high = bounds
    return min(low * BEHIND, -high), max(high * BEHIND, -low)


def located(
    counts: ArrayLike, scale: float, bounds: Bounds, units: float = 0.0, tail_ratio: float = 1.0
) -> tuple[Bounds, bool] | None:
    """Return bounds of the values that are surely there, and whether finer bins would tell more; None where hidden.

    Where these are fewer than half, noise hides most: one answer of five, say, that a third have is not what all have.

    Parameters
    ----------
    counts
        Noisy number of units in each of some bins of equal width, shape (bins,).
    scale
        Standard deviation of the noise on each.
    bounds
        What the bins lie between.
    units
        About how many units there are in all, where that is known.
    tail_ratio
        How many times as wide Gaussian noise would be that is far out as often.
    """
    noisy = np.asarray(counts, dtype=float)
    found = _found(noisy, scale, noisy.size // 4, tail_ratio)
    if found is None:
        return None
    first, end = found
    if float(noisy[first:end].sum()) + scale * math.sqrt(end - first) < units / 2:
        return None
    low, width = bounds[0], (bounds[1] - bounds[0]) / noisy.size
    return tuple(Fraction(float(low + width * place)) for place in found), end - first < SPREAD


def is_spike(found: Bounds, between: Bounds, magnitudes: Bounds) -> bool:
    """Return whether nearly all that is found is one value, such as zero, and others are surely far from it.

    Parameters
    ----------
    found, between
        What `located` found, and what its bins lie between.
    magnitudes
        What values were found to lie between before, whose farthest order of magnitude surely has some.
    """
    (low, high), (least, most) = found, magnitudes
    narrow = high - low <= SPIKE * (between[1] - between[0]) / FINE
    return narrow and (high < most / 2 if most > -least else low > least / 2)


def with_margins(found: Bounds, bounds: Bounds) -> Bounds:
    """Return bounds with as much on either side, as far as other bounds go."""
    low, high = found
    return max(2 * low - high, bounds[0]), min(2 * high - low, bounds[1])


def range_edges(found: Bounds, bounds: Bounds) -> Floats:
    """Return the edges of bins that are narrow between bounds of most values, and get wider up to those of all."""
    low, high = map(float, found)
    middle, half = (low + high) / 2, (high - low) / 2
    least, most = map(float, bounds)
    times = math.log(max(most - middle, middle - least, half) / half) / math.log(WIDENS)
    away = half * WIDENS ** np.arange(1, math.ceil(times) + 1)
    edges = np.concatenate([middle - away, np.linspace(low, high, NARROW + 1), middle + away])
    return np.unique(np.clip(edges, least, most))


@dataclass(frozen=True, eq=False)
class Trimming:
    """What bounds between which values are kept are chosen from, for the least error of an answer, whatever its noise.

    Parameters
    ----------
    found
        Where values are, in bins as `range_edges` has them, and in which of these units are found.
    of
        What the answer is: how large values are on average, all together, or how far they are spread.
    safe
        Whether what they may take, in place of what is expected, is to be little beside the noise.
    ends
        As for `lost_between`.
    choice
        The bounds to choose from.
    relative_noise
        The noise of an answer between these, in parts of that of a sum, shape (lows, highs).
    cut
        What these take from the answer, in ways alike likely.
    """

    found: FoundBins
    of: Answer
    safe: bool
    ends: tuple[float, float] | None
    choice: _Choice
    relative_noise: Floats
    cut: TailsCut
    _told: dict[tuple[float, float], Taken] = field(default_factory=dict)

    @classmethod
    def of_told(
        cls,
        told: NoisyHistogram,
        of: Answer,
        sure: Bounds | None = None,
        *,
        safe: bool = False,
        ends: tuple[float, float] | None = None,
    ) -> Trimming | None:
        """Return it for a histogram; None where noise hides all.

        Parameters
        ----------
        told
            Where values are, in bins as `range_edges` has them.
        of, safe, ends
            As for the class.
        sure
            What the bounds hold at least; None where these counts alone tell.
        """
        if (found := found_bins(told, squares=_is_of_squares(of))) is None:
            return None
        below, kept, above = _ways(found)
        choice = _Choice.of_likely(found, _most_likely(below, kept, above), sure)
        below, above = (np.concatenate(side, axis=1) for side in ((below, kept, 0 * above), (0 * below, kept, above)))
        ways = (_anywhere(below, 0) / choice.total, _anywhere(above, -1) / choice.total)
        cut = TailsCut.of(*ways, choice.edges, choice.lows, choice.highs, choice.mean)
        return cls(found, of, safe, ends, choice, choice.noise(of, found), cut)

    def at(self, noise: float) -> tuple[Bounds, Taken]:
        """Return the bounds for so much noise, and what they take.

        Parameters
        ----------
        noise
            About the standard deviation of the noise on a sum over all units, of values half-way between bounds 2
            apart.

        Returns
        -------
        The bounds, and what keeping values between them takes from a mean, or a variance, about and at most, also if
        some lie apart from the others, and in which direction; of a variance also about how large it is between them,
        and of sums how large values are on average.
        """
        choice, squares = self.choice, _is_of_squares(self.of)
        error = noise / choice.total * self.relative_noise
        if self.safe:
            between = choice.least_feared(error, _finer(_counts(self.found)[2]), squares=squares)
        else:
            between = self.cut.least_off(error, squares=squares)
        if between not in self._told:
            self._told[between] = _taken(self.found, between, self.of, choice.likely, self.ends)
        return (Fraction(between[0]), Fraction(between[1])), self._told[between]


class _Choice(NamedTuple):
    """Bounds to choose from: edges of finer bins, on either side of the mean; and about how many units these hold."""

    likely: Floats
    edges: Floats
    total: float
    mean: float
    lows: Floats
    highs: Floats

    @classmethod
    def of_likely(cls, found: FoundBins, likely: Floats, sure: Bounds | None) -> _Choice:
        """Return all bounds that hold what is sure."""
        edges = _finer_edges(found, likely)
        total, places = max(float(likely.sum()), 1.0), (edges[1:] + edges[:-1]) / 2
        mean = float(np.clip(places @ likely / total, places[0], places[-1]))
        lows, highs = edges[edges < mean], edges[edges > mean]
        if sure is not None:
            lows, highs = lows[lows <= float(sure[0])], highs[highs >= float(sure[1])]
        return cls(likely, edges, total, mean, lows, highs)

    @property
    def pairs(self) -> tuple[Floats, Floats]:
        """The lower and the upper one of each pair of bounds, each of shape (lows, highs)."""
        low, high = np.meshgrid(self.lows, self.highs, indexing="ij")
        return low, high

    def noise(self, of: Answer, found: FoundBins) -> Floats:
        """Return the noise of an answer between bounds, as `noise_between` has it, shape (lows, highs)."""
        places = (self.edges[1:] + self.edges[:-1]) / 2
        if of == "square vectors":
            return noise_of_squares(self.lows, self.highs, self.mean, places, self.likely / self.total)
        variance = float((places - self.mean) ** 2 @ self.likely / self.total)
        return noise_between(*self.pairs, self.mean, variance, of, law_of_noise(found))

    def least_feared(self, error: Floats, heavy: Floats, *, squares: bool) -> tuple[float, float]:
        """Return the bounds that err least if as many units are far out as may be, by how many finer bins hold then."""
        low, high = self.pairs
        feared = bias(heavy, self.edges, low.ravel(), high.ravel(), squares=squares)
        best = int(np.argmin(feared**2 + error.ravel() ** 2))
        return float(low.flat[best]), float(high.flat[best])


def law_of_noise(told: NoisyHistogram) -> Noise:
    """Return the law of the noise, which is recorded as how far it reaches."""
    return "gaussian" if told.stable else "laplace"


def _is_of_squares(of: Answer) -> bool:
    return of in ("squares", "square vectors")


def taken(told: NoisyHistogram, bounds: Bounds, of: Answer, ends: tuple[float, float] | None = None) -> Taken:
    """Return what keeping values between some bounds takes from an answer, as `Trimming` has it of the best ones.

    Parameters
    ----------
    told, of, ends
        As for `Trimming.of_told`.
    bounds
        Between which values are kept.
    """
    found = found_bins(told, squares=_is_of_squares(of))
    if found is None:
        return Taken()
    low, high = bounds
    return _taken(found, (float(low), float(high)), of, _most_likely(*_ways(found)), ends)


def _taken(
    found: FoundBins, between: tuple[float, float], of: Answer, likely: Floats, ends: tuple[float, float] | None
) -> Taken:
    """Return `taken` for bins in which units are found, and how many of them are likely in each of the finer bins."""
    (low, high), squares = between, _is_of_squares(of)
    lost = lost_between(found, low, high, squares=squares, heavy=of == "sums", ends=ends)
    finer = _finer_edges(found, likely)
    places, weights = ((finer[1:] + finer[:-1]) / 2).clip(low, high), likely / max(float(likely.sum()), 1.0)
    answer = float((places - places @ weights) ** 2 @ weights) if squares else math.nan
    if of == "sums":  # of each value; where both signs are, what is lost is in no proportion to the rest that is left
        answer = max(abs(float(places @ weights)), LEAST_LEFT * float(np.abs(places) @ weights))
    apart = max(_apart(found, low, high, squares), lost.most)
    looked = float(np.abs(found.edges[[0, -1]]).max())
    told = Taken(lost.about, lost.most, answer, apart, looked, lost.below, lost.above, lost.single)
    if of == "sums":
        return told
    return told._replace(spread=math.sqrt(float((places - places @ weights) ** 2 @ weights)))


def _ways(found: FoundBins) -> tuple[Floats, Floats, Floats]:
    """Return how many units bins below the found ones, these, and bins above may hold, in ways alike likely."""
    kept = np.tile(np.maximum(found.counts[found.inside], 0.0), (ALIKE, 1))
    return alike_tails(found.mirrored())[:, ::-1], kept, alike_tails(found)


def _most_likely(below: Floats, kept: Floats, above: Floats) -> Floats:
    """Return how many units each of the finer bins holds by the way in the middle."""
    return _finer(np.concatenate([below[ALIKE // 2], kept[0], above[ALIKE // 2]]))


def found_bins(told: NoisyHistogram, *, squares: bool) -> FoundBins | None:
    """Return it with the bins in which units are found; None where there is none.

    Parameters
    ----------
    told
        As for `Trimming.of_told`.
    squares
        Whether it is for variances, of which far bins decide more: they have to be there more surely.
    """
    found = _surely_found(told, FILLED if squares else None)
    return found if found is None or squares else _with_next(found)


def _surely_found(told: NoisyHistogram, filled: float | None = None) -> FoundBins | None:
    """Return it with the bins that surely hold units and those between them; None where there is none."""
    most = min(told.size // 2, MOST_BINS)
    found = _found(told.counts, told.scale, most, told.tail_ratio, SEEN, filled)
    return None if found is None else told.with_found(*found)


def mean_and_deviation(told: NoisyHistogram, bounds: Bounds) -> tuple[float, float, float] | None:
    """Return about the mean of values and how far they are spread, as they count between bounds; None where hidden.

    The standard deviation is rather too large than too small, by one standard error. The last is that of the squares
    of how far values are from their mean, in squared standard deviations.

    Parameters
    ----------
    told
        As for `Trimming.of_told`.
    bounds
        Outside which values count as the nearest of them.
    """
    if (found := found_bins(told, squares=False)) is None:
        return None
    inside, edges, scale = found.inside, found.edges, found.scale
    _, units, _ = _counts(found)
    units[inside] = found.counts[inside]
    low, high = map(float, bounds)
    lows, highs = (ends.clip(low, high) for ends in (edges[:-1], edges[1:]))
    places, total = (lows + highs) / 2, max(float(units.sum()), scale)
    mean = float(np.clip(places @ units / total, places[0], places[-1]))
    away, widths = (places - mean) ** 2, (highs - lows) ** 2
    squares, fourths = away + widths / 12, away**2 + away * widths / 2 + widths**2 / 80
    error = scale * float(np.sqrt((squares[inside] ** 2).sum()))
    variance = max((max(float(squares @ units), 0.0) + error) / total, 1e-300)
    around = np.maximum(fourths / variance - 2 * squares + variance, 0.0)  # over the variance
    error = scale * float(np.sqrt((around[inside] ** 2).sum()))
    return mean, math.sqrt(variance), math.sqrt((max(float(around @ units), 0.0) + SPREADS * error) / total / variance)


def spanned(told: NoisyHistogram) -> Bounds | None:
    """Return what nearly all values lie between: bins that surely hold some, and what noise may hide beside them.

    Wide bounds cost quantiles hardly anything, as these err in ranks; narrow ones are the answer for all beyond them.

    Parameters
    ----------
    told
        As for `Trimming.of_told`.
    """
    if (found := _surely_found(told)) is None:
        return None
    first, end = max(found.first - 1, 0), min(found.end + 1, found.size)
    _, average, _ = _counts(found)
    left = LEFT * average.sum()
    first = min(first, int(np.searchsorted(np.cumsum(average), left, side="right")))
    end = max(end, found.size - int(np.searchsorted(np.cumsum(average[::-1]), left, side="right")))
    return Fraction(float(told.edges[first])), Fraction(float(told.edges[end]))


def _apart(told: NoisyHistogram, low: float, high: float, squares: bool) -> float:
    """Return what keeping values between bounds takes at most, by what noise may hide in all bins, near and far.

    What the noisy counts say is off by noise alone, whose standard deviation is known.
    """
    noisy, edges = told.counts, told.edges
    middle = float((edges[1:] + edges[:-1]).clip(2 * low, 2 * high) @ np.maximum(noisy, 0.0)) / 2
    total = max(float(noisy.sum()), 1.0)
    each = _of_each(edges[:-1], edges[1:], low, high, middle / total if squares else None)
    return max(float(each @ noisy) + HIDES * told.scale * float(np.sqrt((each**2).sum())), 0.0) / total


def _of_each(least: Floats, most: Floats, low: float, high: float, middle: float | None) -> Floats:
    """Return what a value loses that lies at the far end of a bin, or of its square about a middle, shape (bins,)."""
    less, more = np.maximum(low - least, 0.0), np.maximum(most - high, 0.0)
    if middle is None:
        return np.asarray(less + more)
    below = np.where(less > 0.0, (least - middle) ** 2 - (low - middle) ** 2, 0.0)
    above = np.where(more > 0.0, (most - middle) ** 2 - (high - middle) ** 2, 0.0)
    return np.asarray(np.maximum(below + above, 0.0))


def _found(
    noisy: Floats, scale: float, most: int, tail_ratio: float, sure: float = SURE, filled: float | None = None
) -> tuple[int, int] | None:
    """Return the first bin that surely holds units, and the one behind the last; None where there is none."""
    end, start = (runs_end(counts, scale, most, sure, filled, tail_ratio) for counts in (noisy, noisy[::-1]))
    if end is None or start is None:
        return None
    first, end = max(noisy.size - start, 0), min(end, noisy.size)
    return min(first, end - 1), max(end, first + 1)


def _with_next(found: FoundBins) -> FoundBins:
    """Return the bins that hold units with others that seem to: the farther these widen them, the less noise may do it.

    Of a few levels, as of answers to a question, the bins between them are empty: no law of tails tells of the others.
    """
    from scipy.special import ndtri

    first, end, edges = found.first, found.end, found.edges
    span = max(float(edges[end] - edges[first]), NARROW / 2 * float(np.diff(edges).min()))
    below, above = (edges[end] - edges[:first]) / span, (edges[end + 1 :] - edges[first]) / span
    wide = np.concatenate([below, np.ones(end - first), above])
    levels = found.scale * found.tail_ratio * -ndtri(NEXT / 8.0 ** np.log2(wide.clip(1.0)))
    seem = np.flatnonzero(found.counts >= levels)
    return found.with_found(min(first, int(seem[0])), max(end, int(seem[-1]) + 1)) if seem.size else found


def _counts(found: FoundBins) -> tuple[Floats, Floats, Floats]:
    """Return how many units each bin likely holds, on average and at most: with tails on either side."""
    above, below = (hidden_tail(side, USUAL, beside=True) for side in (found, found.mirrored()))
    kept = np.maximum(found.counts[found.inside], 0.0)
    likely, average, most = (np.concatenate([less[::-1], kept, more]) for less, more in zip(below, above, strict=True))
    return likely, average, most


def likely_counts(found: FoundBins) -> Floats:
    """Return how many units each bin likely holds: those that are found, and likely tails on either side."""
    return _counts(found)[0]


def _finer_edges(found: FoundBins, likely: Floats) -> Floats:
    """Return the edges of the finer bins, of which it is told how many units they likely hold."""
    return np.interp(np.arange(likely.size + 1) / FINER, np.arange(found.edges.size), found.edges)


def _finer(units: Floats) -> Floats:
    """Return how many units each of the finer bins holds that bounds are chosen from, shape (..., FINER * bins)."""
    return np.repeat(units / FINER, FINER, axis=-1)


def _anywhere(ways: Floats, far: int) -> Floats:
    """Return the same of several ways, in every other of which all values of a bin are the same, at its far end."""
    finer = _finer(ways)
    finer[1::2] = 0.0
    finer[1::2, (far % FINER) :: FINER] = ways[1::2]
    return finer
