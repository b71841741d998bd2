"""Where the values of a column are: a noisy histogram, from which bounds are chosen for the noise of each statement.

It is measured once, and kept with the answer. Bounds that suit much noise are too narrow for little, and the other way
round; from the histogram they follow anew for every statement, at no cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.sql.aggregates import lost_values
from dpnotebook.sql.aggregates.bounds import (
    far_magnitudes,
    histogram_scale,
    magnitude_edges,
    parts_of_unit,
    surely_between,
)
from dpnotebook.sql.aggregates.bounds import found as found_magnitudes
from dpnotebook.sql.aggregates.bounds_choice import Answer, noise_between, reach
from dpnotebook.sql.aggregates.budget_split import ValueCosts
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.centring import (
    between_norms,
    is_centred,
    longest_between,
    not_too_far,
    with_centre,
    with_squares,
)
from dpnotebook.sql.aggregates.hidden_tail import ALLOWED
from dpnotebook.sql.aggregates.noising import Draw
from dpnotebook.sql.aggregates.noisy_histogram import FoundBins, NoisyHistogram
from dpnotebook.sql.aggregates.norms import norm_edges, runs_end
from dpnotebook.sql.aggregates.pair_bounds import Side, side_of
from dpnotebook.sql.aggregates.taken import NOT_KNOWN, REACH, Taken
from dpnotebook.sql.aggregates.value_range import (
    BEHIND,
    FINE,
    ROUNDS,
    Trimming,
    found_bins,
    is_spike,
    law_of_noise,
    likely_counts,
    located,
    mean_and_deviation,
    range_edges,
    spanned,
    taken,
    wider,
    with_margins,
    with_tails,
)
from dpnotebook.sql.rewrite import profiles as histograms
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import Aggregate, PrivateSelect

MovedAlone = tuple[tuple[float, float, float, float, float], ...]  # norms, and for each what `Lost` has

OF_RATIOS: dict[tuple[bool, bool], Answer] = {  # clipped, of squares
    (False, False): "means", (False, True): "squares", (True, False): "vectors", (True, True): "square vectors",
}  # fmt: skip
NOTHING = Taken(0.0, 0.0, below=0.0, above=0.0)  # what bounds that hold all values take
NORMS_ALONE = tuple(2.0**k for k in range(10))  # for these it is worked out what clipping vectors of one value does
NARROWER = 2  # found bounds are used if they are so many times narrower than declared ones, where noise hardly gains
FURTHER_OUT = 4  # bounds of values in clipped vectors are so many times the width of all bins beyond them, either way
FEW_BINS = 4  # inside declared bounds: fewer do not tell where between these values are
NEAR = Fraction(0), Fraction(1)  # bounds of truth values, and of shares
COARSE = 8  # bins of equal width between `NEAR` bounds; both ends have a narrow bin of their own beside these
END = 2.0**-20  # of the whole width: how narrow the bins at both ends are, in which all truth values lie
BOTH = 4.0  # standard deviations of noise that a second histogram must count where the first one had perhaps units
PERHAPS = 0.05  # the probability of looking so far out by noise alone, for which the second histogram finds nothing
FARTHER = 2.0  # values of an order of magnitude are at most so many times as far out as its middle
# Powers of two times the noise, for each of which bounds are tried of either column of a pair.
SIDES = (-6, -4, -2, 0, 2, 4, 6, 8, 10, 12)
NOISES = 4  # steps in a factor of two to which noise is rounded: prices that differ little share their bounds


@dataclass(frozen=True)
class ValueHistogram:
    """Where the values of a column were found to be, at finer and finer bins.

    Parameters
    ----------
    between
        What surely holds most of them, with a margin where finer bins told them; None where noise hides them all.
    edges, counts
        Bins that are narrow there and wider away from there, and the noisy number of units in each, in parts of a unit.
    parts
        How many parts a unit has.
    scale, tail_ratio
        Standard deviation of the noise in units, and how many times as wide Gaussian noise is that is far out as often.
    sure
        What bounds hold at least, where nearly all that finer bins tell is one value and others are far from it, or
        where two histograms together tell of units far away.
    beyond
        Orders of magnitude behind the bins in which there seem to be units too, such as those of a code for missing
        values: where that is, and the noisy number of units.
    """

    between: Bounds | None
    edges: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    parts: int = 1
    scale: float = math.nan
    tail_ratio: float = 1.0
    sure: Bounds | None = None
    beyond: tuple[tuple[float, float], ...] = ()

    def bounds(self, aggregate: Aggregate, noise: float, *, clipped: bool = False) -> tuple[Bounds | None, Taken]:
        """Return bounds that suit an aggregate, and what they take from its answer.

        Parameters
        ----------
        aggregate
            What is asked of the values.
        noise
            As for `value_range.Trimming.at`.
        clipped
            Whether all that a unit adds is clipped to a norm. Bounds of means have what they are centred by behind them
            then, and are wide.
        """
        function = function_of(aggregate.kind)
        squares = function.squares or function.paired
        of: Answer | None = None
        if function.centres or function.adds or function.paired:
            of = "sums" if function.adds else OF_RATIOS[clipped, squares]
        if self.coarse and of == "vectors":
            return self._centred_coarsely(), NOTHING
        steps = round(math.log2(noise) * NOISES) if noise > 0 else 0
        whole = aggregate.integer and not function.centres
        told = self if aggregate.within is None else _inside(self, aggregate.within)
        safe = aggregate.within is not None and not function.squares  # whose noise grows with the square of bounds
        found, cut = _bounds(told, of, whole, steps, safe=safe, ends=aggregate.within)
        if aggregate.within is not None:
            found, cut = told._or_declared(aggregate.within, found, cut, noise, of)
        centred = of in ("vectors", "square vectors")
        if found is not None and of is not None and cut.known and told.beyond:
            cut = told._with_beyond(found, cut, squares=squares)
        if not centred or found is None:
            return found, cut
        if cut.known and not (function.paired or function.weighted):
            wide = self._wide(found, aggregate.within, squares)
            if wide is not None:
                return wide, NOTHING._replace(answer=cut.answer, spread=cut.spread)
        return self._centred(found, squares=squares), cut

    def taken(self, aggregate: Aggregate, bounds: Bounds) -> Taken:
        """Return what bounds that were chosen for the mean of the same values take from a sum of them.

        Parameters
        ----------
        aggregate
            The sum.
        bounds
            Between which values are kept.
        """
        if bounds == aggregate.within:
            return NOTHING
        told = self if aggregate.within is None else _inside(self, aggregate.within)
        if told.between is None or not told.counts:
            return NOT_KNOWN
        cut = _sum_taken(told, bounds, aggregate.within)
        return told._with_beyond(bounds, cut, squares=False) if cut.known and told.beyond else cut

    def sides(self, aggregate: Aggregate, noise: float) -> list[Side]:
        """Return bounds to choose from for a column of pairs: each suits a variance for some amount of noise.

        Parameters
        ----------
        aggregate
            What is asked of the pairs, as it says of this column.
        noise
            As for `bounds`.
        """
        chosen = dict(self.bounds(aggregate, noise * 2.0**k) for k in SIDES)
        return [self.side(bounds, cut) for bounds, cut in chosen.items() if bounds is not None]

    def side(self, bounds: Bounds, cut: Taken) -> Side:
        """Return what is known of the values between bounds, which take so much from their variance."""
        if self._likely is None:
            return Side(bounds, cut=cut)
        return side_of(bounds, cut, *self._likely)

    @cached_property
    def noisy(self) -> NoisyHistogram:
        """The noisy number of units in each bin."""
        counts, edges = np.array(self.counts, dtype=float) / self.parts, np.array(self.edges)
        for array in (counts, edges):
            array.flags.writeable = False  # all who ask have the same ones
        return NoisyHistogram(counts, self.scale, edges, self.tail_ratio)

    def found_bins(self, *, squares: bool) -> FoundBins | None:
        """Return the bins in which units are found; None where noise hides them all.

        Parameters
        ----------
        squares
            Whether it is for variances, of which far bins decide more: they have to be there more surely.
        """
        return found_bins(self.noisy, squares=squares) if self.counts else None

    @cached_property
    def _likely(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Where values are, and about how many units have them; None where noise hides that."""
        found = self.found_bins(squares=True)
        if found is None:
            return None
        return (found.edges[1:] + found.edges[:-1]) / 2, likely_counts(found)

    @property
    def coarse(self) -> bool:
        """Whether it is one histogram between declared bounds; see `measured_coarsely`."""
        return self.between is not None and self.edges == coarse_edges(self.between)

    @property
    def units(self) -> float:
        """About how many units there are."""
        return max(sum(self.counts) / self.parts, 1.0)

    def anew(self, times: float) -> ValueHistogram:
        """Return about what another one would be with so many times the noise: the same is found, and hardly more.

        Counts are what is likely by this one. Its own noise, in bins where nothing is found, is left out: bounds that
        are wide because of it, and what may lie beyond them, say nothing of the next histogram.
        """
        return _anew(self, round(math.log2(times)))  # prices that differ little share it

    def moved_alone(self, values: Bounds, *, squares: bool) -> MovedAlone:
        """Return what clipping to each of some norms does to a mean or a variance where every unit has one value.

        Parameters
        ----------
        values
            Bounds of values, with what vectors are centred by behind them.
        squares
            Whether it is a variance.
        """
        found = self.found_bins(squares=squares)
        if found is None or not is_centred(values):
            return ()
        longest = longest_between(values, squares)
        told = []
        for norm in (norm for norm in NORMS_ALONE if norm < 2.0 * longest):
            one = lost_values.moved_alone(found, tuple(map(float, values)), norm, squares=squares)
            if squares:  # which values far behind all bins decide about: as much as bounds at this norm would take
                ends = between_norms(values, norm)
                lost = lost_values.lost_between(found, *ends, squares=True)
                about, most, below = map(max, one[:3], lost[:3])
                one = lost_values.Lost(about, most, below, one.above)
            told.append((norm, *one[:4]))
        return tuple(told)

    def _with_beyond(self, bounds: Bounds, cut: Taken, *, squares: bool) -> Taken:
        """Return what bounds take from an answer, with what they take from units that are far from all others."""
        told = [(place, units) for place, units in self.beyond if not bounds[0] <= place <= bounds[1]]
        places, units = np.array(told).reshape(-1, 2).T
        edges = np.clip(places, self.edges[0], self.edges[-1])
        if squares:
            middle = float(sum(bounds[:2]) / 2)
            farther = np.maximum((places - middle) ** 2 - (edges - middle) ** 2, 0.0)
        else:
            farther = np.abs(places - edges)
        about = float(farther @ units) / self.units
        most = float(farther @ (units + ALLOWED * self.scale)) / self.units
        looked = max(cut.looked, float(np.abs(places).max(initial=0.0)))
        smaller = (places > edges) | squares  # a variance is too small whichever side is cut off
        below, above = (float(farther[side] @ units[side]) / self.units for side in (smaller, ~smaller))
        return cut._replace(
            about=cut.about + about,
            most=cut.most + FARTHER * most,
            apart=cut.apart + FARTHER * most,
            looked=looked,
            below=cut.below + below,
            above=cut.above + above,
        )

    def _wide(self, near: Bounds, within: Bounds | None, squares: bool) -> Bounds | None:
        """Return bounds far beyond all bins, or the declared ones, with a centre; None where no centre is known.

        Where vectors are clipped noise hardly depends on bounds, so these may be wide. Far values that noise hides in
        this histogram still count in the norm of their unit, and units are counted by norm, each as one.
        """
        if not self.counts:
            return None
        low, high = self.edges[0], self.edges[-1]
        away = FURTHER_OUT * (high - low)
        ends = (low - away, high + away, *(FARTHER * place for place, _ in self.beyond))
        far = within or (Fraction(min(ends)), Fraction(max(ends)))
        # Squares have a spread, which noise in far bins would make far too large.
        centred = self._centred(near if squares else far, squares=squares)
        if not is_centred(centred):
            return None
        return not_too_far((*far, *centred[2:])) if squares else centred

    def _centred_coarsely(self) -> Bounds:
        """Return the declared bounds, with a centre and a length where values are less spread than these allow."""
        assert self.between is not None
        counts, edges = self.noisy.counts, self.noisy.edges
        places, total = (edges[1:] + edges[:-1]) / 2, max(self.units, self.scale)
        mean = float(np.clip(places @ counts / total, edges[0], edges[-1]))
        squares = (places - mean) ** 2
        variance = max(float(squares @ counts), 0.0) + self.scale * float(np.sqrt((squares**2).sum()))
        return with_centre(self.between, mean, math.sqrt(variance / total))

    def _centred(self, bounds: Bounds, *, squares: bool) -> Bounds:
        """Return bounds of values with the mean and the standard deviation of all behind them; see `centring`."""
        if self.between is None:
            return bounds
        told = mean_and_deviation(self.noisy, bounds)
        if told is None:
            return bounds
        return with_squares(bounds, *told) if squares else with_centre(bounds, *told[:2])

    def _or_declared(
        self, within: Bounds, found: Bounds | None, cut: Taken, noise: float, of: Answer | None
    ) -> tuple[Bounds, Taken]:
        """Return the found bounds as far as they lie in the declared ones, or the declared ones if these are better.

        The declared bounds hold all values, so that they take nothing from an answer and intervals are of noise alone.
        Quantiles (`of` is None) are read off bins between the bounds, which are finer between narrower ones.
        """
        if found is not None and of is not None and not cut.known:  # noise hides the tails: as far as is looked at
            found = Fraction(self.edges[0]), Fraction(self.edges[-1])
        low, high = within if found is None else (max(found[0], within[0]), min(found[1], within[1]))
        if found is None or low >= high:
            return within, NOTHING
        if of is None:
            return (low, high), cut
        if of in ("vectors", "square vectors"):  # whose noise hardly depends on them
            narrow = (high - low) * NARROWER <= within[1] - within[0]
            return ((low, high), cut) if narrow else (within, NOTHING._replace(spread=cut.spread))
        inside, whole = (noise / self.units * self._noise(ends, of) for ends in ((low, high), within))
        shorter = 2 * REACH * inside + (cut.most if cut.known else 0.0) <= 2 * REACH * whole  # an interval
        return ((low, high), cut) if shorter else (within, NOTHING._replace(spread=cut.spread))

    def _noise(self, bounds: Bounds, of: Answer) -> float:
        """Return the noise of an answer between bounds, as `noise_between` has it, by where values are found."""
        low, high = (np.array([float(end)]) for end in bounds)
        told = mean_and_deviation(self.noisy, bounds)
        if told is None:
            return float(reach(low, high, of)[0])
        return float(noise_between(low, high, told[0], told[1] ** 2, of, law_of_noise(self.noisy))[0])

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told = {name: list(getattr(self, name)) for name in ("edges", "counts")}
        between = None if self.between is None else [str(bound) for bound in self.between]
        sure = {} if self.sure is None else {"sure": [str(bound) for bound in self.sure]}
        rest = {"between": between, "parts": self.parts, "scale": self.scale, "tail_ratio": self.tail_ratio}
        beyond = {"beyond": [list(one) for one in self.beyond]} if self.beyond else {}
        return told | rest | sure | beyond

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> ValueHistogram:
        """Return what `to_json` wrote."""
        between = None if told["between"] is None else (Fraction(told["between"][0]), Fraction(told["between"][1]))
        edges, counts = tuple(map(float, told["edges"])), tuple(map(int, told["counts"]))
        sure = (Fraction(told["sure"][0]), Fraction(told["sure"][1])) if "sure" in told else None
        rest = int(told["parts"]), float(told["scale"]), float(told["tail_ratio"]), sure
        beyond = tuple((float(place), float(units)) for place, units in told.get("beyond", ()))
        return cls(between, edges, counts, *rest, beyond)


def is_near(aggregate: Aggregate) -> bool:
    """Return whether values of an average lie between 0 and 1, so that `measured_coarsely` tells enough of them."""
    return function_of(aggregate.kind).averages and aggregate.within == NEAR


def coarse_edges(within: Bounds) -> tuple[float, ...]:
    """Return the edges of few bins between declared bounds, of which both ends have one of their own."""
    low, high = map(float, within)
    inside = np.linspace(low, high, COARSE + 1)[1:-1]
    end = (high - low) * END
    return (low, low + end, *map(float, inside), high - end, high)


@lru_cache(maxsize=64)
def _inside(told: ValueHistogram, within: Bounds) -> ValueHistogram:
    """Return the part of a histogram that lies in declared bounds: values beyond them count as the nearest end.

    No tail reaches beyond the declared bounds, so that narrower ones may take far less than from a tail without end.
    """
    low, high = map(float, within)
    edges = np.array(told.edges).clip(low, high)
    kept = np.flatnonzero(np.diff(edges) > 0.0)
    if kept.size < FEW_BINS:
        return replace(told, between=None)
    places = tuple(map(float, edges[kept[0] : kept[-1] + 2]))
    beyond = tuple(one for one in told.beyond if low <= one[0] <= high)
    sure = told.sure and (min(max(told.sure[0], within[0]), within[1]), max(min(told.sure[1], within[1]), within[0]))
    return replace(told, edges=places, counts=told.counts[kept[0] : kept[-1] + 1], sure=sure, beyond=beyond)


@lru_cache(maxsize=64)
def _anew(told: ValueHistogram, doublings: int) -> ValueHistogram:
    """Return `ValueHistogram.anew` for noise that is doubled so many times."""
    if told.coarse:
        return replace(told, scale=told.scale * 2.0**doublings)
    found = told.found_bins(squares=True)
    if found is None:
        return told
    likely = np.rint(likely_counts(found) * told.parts)
    return replace(told, counts=tuple(map(int, likely)), scale=told.scale * 2.0**doublings, beyond=())


@lru_cache(maxsize=64)
def _trimming(told: ValueHistogram, of: Answer, *, safe: bool, ends: tuple[float, float] | None) -> Trimming | None:
    """Return what bounds are chosen from; see `Trimming`."""
    return Trimming.of_told(told.noisy, of, told.sure, safe=safe, ends=ends)


@lru_cache(maxsize=2048)
def _bounds(
    told: ValueHistogram, of: Answer | None, integer: bool, steps: int, *, safe: bool, ends: Bounds | None
) -> tuple[Bounds | None, Taken]:
    """Return `ValueHistogram.bounds` for an amount of noise, in steps of its logarithm."""
    if told.between is None:
        return None, Taken()
    if of is None:
        span = spanned(told.noisy)
        span = span if span is None or told.sure is None else _hull(span, told.sure)
        found = None if span is None else (span, Taken())
    else:
        between = None if ends is None else (float(ends[0]), float(ends[1]))
        trimming = _trimming(told, of, safe=safe, ends=between)
        found = None if trimming is None else trimming.at(2.0 ** (steps / NOISES))
    (low, high), cut = found or (told.between, Taken())
    if of == "sums":
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
    if integer:
        low, high = Fraction(math.floor(low)), Fraction(math.ceil(high))
    return (low, high), cut


@lru_cache(maxsize=64)
def _sum_taken(told: ValueHistogram, bounds: Bounds, within: Bounds | None) -> Taken:
    """Return what bounds take from a sum, by a histogram of which all is inside what is declared."""
    ends = None if within is None else (float(within[0]), float(within[1]))
    return taken(told.noisy, bounds, "sums", ends)


def _hull(one: Bounds, other: Bounds) -> Bounds:
    return min(one[0], other[0]), max(one[1], other[1])


def measured_values(
    select: PrivateSelect,
    aggregate: Aggregate,
    accountant: Accountant,
    costs: ValueCosts,
    run: Run,
    draw: Draw,
    keep: histograms.Keep | None = None,
) -> tuple[ValueHistogram, int]:
    """Return where values are, and what finding that cost.

    Three kinds of histograms are measured: of orders of magnitude; of finer and finer bins where values were found; and
    one that is kept, of bins that are narrow there and get wider away from there.

    Parameters
    ----------
    select, aggregate, accountant
        What is asked, and the law of the noise.
    costs
        Of the histograms.
    run, draw
        Executes a query in DuckDB's SQL; draws noise of a law and a scale.
    keep
        Keeps the rows of a query that several others read; None where nothing can be kept.
    """
    with histograms.kept_values(select, aggregate.input or 0, keep) as kept:
        return _measured(kept, aggregate, accountant, costs, run, draw)


def measured_coarsely(
    select: PrivateSelect, aggregate: Aggregate, accountant: Accountant, cost: int, run: Run, draw: Draw
) -> tuple[ValueHistogram, int]:
    """Return where values lie between the `NEAR` bounds of truth values and shares, by few bins, and what that cost.

    It tells whether one of the truth values is rare. Noise on its share is far less then, as vectors are counted in
    units of how far values are spread.

    Parameters
    ----------
    select, aggregate, accountant, run, draw
        As for `measured_values`.
    cost
        Of the histogram.
    """
    assert aggregate.within is not None
    edges, of_cost = coarse_edges(aggregate.within), histogram_scale(accountant, cost)
    counts = _noisy_values(select, aggregate, accountant, run, draw, len(edges) - 1, edges, of_cost)
    spread, ratio = math.sqrt(accountant.law.variance(of_cost)), accountant.law.tail_ratio
    return ValueHistogram(aggregate.within, edges, tuple(map(int, counts)), parts_of_unit(select), spread, ratio), cost


def _noisy_values(
    select: PrivateSelect,
    aggregate: Aggregate,
    accountant: Accountant,
    run: Run,
    draw: Draw,
    bins: int,
    between: Iterable[float | Fraction] | None,
    scale: Fraction,
) -> NDArray[np.int64]:
    """Return the noisy number of units in each bin, in parts of a unit; `between` is as for `histograms.values`."""
    edges = None if between is None else tuple(map(float, between))
    counts = histograms.values(select, aggregate.input or 0, bins, edges, run)
    return counts + draw(accountant.noise, scale * parts_of_unit(select), counts.size)


def _measured(
    select: PrivateSelect, aggregate: Aggregate, accountant: Accountant, costs: ValueCosts, run: Run, draw: Draw
) -> tuple[ValueHistogram, int]:
    ratio, parts = accountant.law.tail_ratio, parts_of_unit(select)
    zeros = function_of(aggregate.kind).levelled
    noisy = partial(_noisy_values, select, aggregate, accountant, run, draw)
    spent, tried, bounds, magnitudes = 0, 0, None, np.zeros(0)
    for cost in costs.tries:
        if bounds is None:
            first, spent, tried = histogram_scale(accountant, cost), spent + cost, tried + 1
            magnitudes = noisy(magnitude_edges().size - 1, None, first) / parts
            bounds = found_magnitudes(magnitudes, first, accountant.noise, zeros=zeros)
    if bounds is None and costs.of_sums:
        bounds = _as_units_add_up(select, aggregate, accountant, costs.of_sums, run, draw)
        spent, costs = spent + costs.of_sums, costs.after_sums()
    if bounds is None:
        return ValueHistogram(None), spent
    units = units_between(magnitudes, bounds)
    least, most = surely_between(magnitudes, first, accountant.noise) or bounds
    locating, each = costs.of_locating(units, accountant.law), costs.of_others(units)
    scale = histogram_scale(accountant, locating)
    spread = math.sqrt(accountant.law.variance(scale))
    seen = _perhaps_far(with_tails(bounds), magnitudes, first, accountant)
    whole = _with_far(with_tails(bounds), seen)
    between, told = wider(bounds), bounds
    surely, sure = bounds, None
    for _ in range(ROUNDS - 1):
        found = located(noisy(FINE, between, scale) / parts, spread, between, units, ratio)
        spent += locating
        sure = surely if found is not None and is_spike(found[0], between, (least, most)) else None
        if found is None or sure is not None:
            break
        bounds, finer = found
        between = told = with_margins(bounds, between)
        if not finer:
            break
    edges = range_edges(bounds, whole)
    if tried == 1:
        each = costs.of_tails(units, spent, accountant.law)
    scale = histogram_scale(accountant, each)
    spread = math.sqrt(accountant.law.variance(scale))
    counts = noisy(edges.size - 1, edges, scale)
    places, numbers = tuple(map(float, edges)), tuple(map(int, counts))
    if far := _surely_far(seen, counts / parts, edges, spread):
        sure = min(*far, *(sure or bounds)), max(*far, *(sure or bounds))
    noisy_units = NoisyHistogram(counts / parts, spread, edges, ratio)
    if spanned(noisy_units) is None:  # finer bins told of a few values only, by chance
        told = surely
    squares = function_of(aggregate.kind).squares or function_of(aggregate.kind).paired
    if found_bins(noisy_units, squares=squares) is None:
        return _by_magnitude(
            told, magnitudes, math.sqrt(accountant.law.variance(first)), whole, parts, ratio
        ), spent + each
    beyond = far_magnitudes(magnitudes, first, accountant.noise, (places[0], places[-1]))
    return ValueHistogram(told, places, numbers, parts, spread, ratio, sure, beyond), spent + each


def _with_far(tails: Bounds, seen: list[tuple[float, float]]) -> Bounds:
    """Return bounds of a histogram that reach as well for far magnitudes that perhaps have units.

    Such as salaries among small payments of the other sign: they are no tail of these. It has less noise than the
    magnitudes have, and tells whether any are there, and how many.
    """
    far = [Fraction(BEHIND * place) for place, _ in seen]
    return min([tails[0], *far]), max([tails[1], *far])


def _perhaps_far(
    tails: Bounds, magnitudes: NDArray[np.float64], scale: Fraction, accountant: Accountant
) -> list[tuple[float, float]]:
    """Return far magnitudes that perhaps have units, and the noisy number of these."""
    ends = float(tails[0]), float(tails[1])
    farthest = BEHIND * max(map(abs, ends))
    return list(far_magnitudes(magnitudes, scale, accountant.noise, ends, PERHAPS, farthest))


def _surely_far(
    seen: list[tuple[float, float]], counts: NDArray[np.float64], edges: NDArray[np.float64], scale: float
) -> list[Fraction]:
    """Return the far ends of magnitudes that have units by both histograms, of which each alone may be noise."""
    found = []
    for place, _ in seen:
        low, high = sorted((place * 2 / 3, place * 4 / 3))  # of the order of magnitude in whose middle it is
        inside = (edges[1:] > low) & (edges[:-1] < high)
        if counts[inside].sum() >= BOTH * scale * math.sqrt(max(int(inside.sum()), 1)):
            found.append(Fraction(low if place < 0.0 else high))
    return found


def _as_units_add_up(
    select: PrivateSelect, aggregate: Aggregate, accountant: Accountant, cost: int, run: Run, draw: Draw
) -> Bounds | None:
    """Return bounds as far as what units add up is found; None where noise hides that too.

    Where nearly all values are zero, each unit has hardly any part in the others, and yet many units have some.
    """
    (exact,) = histograms.norms(select, [(Aggregate("sum", "", aggregate.input), None)], run)
    scale = histogram_scale(accountant, cost)
    noisy = exact.counts + draw(accountant.noise, scale, exact.counts.size)
    end = runs_end(noisy.astype(float), math.sqrt(accountant.law.variance(scale)))
    if end is None:
        return None
    most = Fraction(float(norm_edges()[end]))
    return -most, most


def _by_magnitude(
    between: Bounds, magnitudes: NDArray[np.float64], spread: float, whole: Bounds, parts: int, ratio: float
) -> ValueHistogram:
    """Return where values are as their magnitudes tell, which have less noise: where noise hides all of finer bins.

    What bounds take is told by these at least.
    """
    edges = magnitude_edges()
    near = np.flatnonzero((edges[1:] > float(whole[0])) & (edges[:-1] < float(whole[1])))
    first, end = near[0], near[-1] + 1
    counts = tuple(map(int, np.rint(magnitudes[first:end] * parts)))
    return ValueHistogram(between, tuple(map(float, edges[first : end + 1])), counts, parts, spread, ratio)


def units_between(magnitudes: NDArray[np.float64], bounds: Bounds) -> float:
    """Return about how many units have values between bounds that were found."""
    edges = magnitude_edges()
    inside = (edges[1:] > float(bounds[0])) & (edges[:-1] < float(bounds[1]))
    return max(float(magnitudes[inside].sum()), 0.0)
