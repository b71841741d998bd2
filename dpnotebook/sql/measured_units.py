"""Finds what averages by unit lack: a centre of all values, how far those of one unit are from it, how many rows.

Each of these is read off noisy histograms that count a unit once. How far values are from the centre is looked at when
that is known: it is a noisy number, and so public. What was found serves each later price: bounds that suit its noise
follow from the same histograms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Law
from dpnotebook.sql.aggregates.bounds import found as found_magnitudes
from dpnotebook.sql.aggregates.bounds import histogram_scale, magnitude_edges
from dpnotebook.sql.aggregates.budget_split import (
    Shares,
    UnitCosts,
    averages_units,
    cost_of,
    found_with,
    of_range,
    of_units,
    operands,
    with_rest,
)
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.catalogue import AVERAGE
from dpnotebook.sql.aggregates.centring import rounded
from dpnotebook.sql.aggregates.lost_values import lost_between
from dpnotebook.sql.aggregates.noising import Draw
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram
from dpnotebook.sql.aggregates.taken import Taken
from dpnotebook.sql.aggregates.unit_averages import FAR, SUM_SHARE
from dpnotebook.sql.aggregates.value_range import (
    FINE,
    found_bins,
    located,
    range_edges,
    wider,
    with_margins,
    with_tails,
)
from dpnotebook.sql.aggregates.weighted import product_of
from dpnotebook.sql.known_values import serves
from dpnotebook.sql.profile import Clip
from dpnotebook.sql.profile_keys import Books, most_precise, units_key
from dpnotebook.sql.rewrite import profiles as histograms
from dpnotebook.sql.rewrite import steps
from dpnotebook.sql.rewrite.contribution_bounding import key_names
from dpnotebook.sql.run import Run
from dpnotebook.sql.select import Aggregate, PrivateSelect
from dpnotebook.sql.value_histogram import ValueHistogram, measured_values, units_between

Floats = NDArray[np.float64]

ALONE, MANY = 4, 1e7  # rows of a unit: so few are bins by themselves, and so many are looked at
ROWS_WIDEN = 1.6  # how many times as wide each further bin is
APART = 0.5  # spreads of the means of units, by which rows of units with many are taken to be other than the rest
FARTHEST = 1 << 20  # lengths, up to which values may come to: a few may be far from all others
ROUNDS = 2  # of finer and finer bins for the centre, each of which may tell it 500 times as well
NARROW = 4  # lengths: between so many on either side of the centre bins are narrow
MEAN, AWAY, ROWS = Aggregate(AVERAGE.kind, "", 0), Aggregate("sum", "", 0), Aggregate("sum", "", 1, integer=True)


def measured_units(
    select: PrivateSelect, known: Mapping[int, Any], shares: Shares, accountant: Accountant, run: Run, draw: Draw
) -> tuple[dict[int, Clip], dict[str, Any], Shares]:
    """Measure what bounds averages by unit.

    Parameters
    ----------
    select
        The private aggregation, in which every unit has one row.
    known
        By the numbers of the aggregates whose bounds are known.
    shares
        What it costs.
    accountant
        The law of the noise.
    run
        Executes a query in DuckDB's SQL.
    draw
        Draws noise of a law and a scale.

    Returns
    -------
    The bounds by the number of the aggregate, without any where noise hides them, what is recorded, by what it is found
    by, and the shares, where what that did not cost is the answers'.
    """
    clips: dict[int, Clip] = {}
    told: dict[str, Any] = {}
    rest: dict[int, int] = {}
    for at, (i, aggregate) in enumerate(operands(select)):
        if i in known or not averages_units(select, i) or aggregate is not select.aggregates[i]:
            continue
        of = found_with(select, at, shares.known)
        found, spent = _measured(select, i, shares, shares.auto[of], accountant, run, draw)
        clips[i] = Clip(None) if found is None else found.clip(select, i, shares, accountant)
        if found is not None and clips[i].bounds is not None:
            told[units_key(select, aggregate)] = found.to_json()
        rest[of] = shares.auto[of] - spent
    return clips, told, with_rest(select, shares, rest)


@dataclass(frozen=True)
class KnownUnits:
    """What units have beside a centre, as it was found: what `KnownValues` is for the bounds of their rows.

    Parameters
    ----------
    centre, length
        What values count from, and in which length.
    rows
        How many rows of a unit count at most.
    numbers, away
        How many rows units have, and what their values come to beside the centre.
    units
        What finding it cost, in the accountant's units.
    """

    centre: Fraction
    length: Fraction
    rows: Fraction
    numbers: ValueHistogram
    away: ValueHistogram
    units: int

    def is_enough(self, wanted: int, law: Law) -> bool:
        """Return whether it serves where it could be found anew for so many units; see `KnownValues`."""
        return serves(self.units, wanted, law)

    def clip(self, select: PrivateSelect, index: int, costs: Shares, accountant: Accountant) -> Clip:
        """Return the bounds that suit what an average may cost, and what they take; none where noise hides them."""
        lost = self.numbers.taken(ROWS, (Fraction(0), self.rows))
        bounds, cut = self.away.bounds(AWAY, _noise(select, index, costs, accountant)[1])
        if bounds is None or not lost.known:
            return Clip(None)
        low, high = (self.centre + bound for bound in bounds)
        lost = _rows_lost(self.numbers, (Fraction(0), self.rows), lost)
        taken = _of_mean(cut, lost, float(self.length))
        return Clip((low, high, self.centre, self.length, self.rows), cut=taken)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told = {name: str(getattr(self, name)) for name in ("centre", "length", "rows")}
        return told | {"numbers": self.numbers.to_json(), "away": self.away.to_json(), "units": self.units}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> KnownUnits:
        """Return what `to_json` wrote."""
        centre, length, rows = (Fraction(told[name]) for name in ("centre", "length", "rows"))
        numbers, away = (ValueHistogram.from_json(told[name]) for name in ("numbers", "away"))
        return cls(centre, length, rows, numbers, away, int(told["units"]))


def known_units(select: PrivateSelect, books: Books) -> dict[int, KnownUnits]:
    """Return what was found before of averages by unit, by the numbers of the aggregates.

    Parameters
    ----------
    select, books
        The private aggregation, and the ledger.
    """
    found = {
        i: most_precise(books, units_key(select, aggregate), KnownUnits.from_json)
        for i, aggregate in enumerate(select.aggregates)
        if averages_units(select, i)
    }
    return {i: one for i, one in found.items() if one is not None}


def _noise(select: PrivateSelect, index: int, shares: Shares, accountant: Accountant) -> tuple[float, float]:
    """Return the noise on a number of rows, and on what values come to beside a centre, for what an average costs."""
    cost = cost_of(select, shares, index)
    of_rows, of_sum = (accountant.scale(int(cost * share), 1) for share in (1 - SUM_SHARE, SUM_SHARE))
    return math.sqrt(accountant.law.variance(of_rows)), math.sqrt(accountant.law.variance(of_sum))


def _measured(
    select: PrivateSelect, index: int, shares: Shares, cost: int, accountant: Accountant, run: Run, draw: Draw
) -> tuple[KnownUnits | None, int]:
    """Return what bounds of an average follow from, and what finding it cost; None where noise hides how many rows."""
    costs, law = of_units(cost), accountant.law
    asking = _Histograms(accountant, run, draw)
    each = _rows_of(select, index, Fraction(0))
    found, spent = _centre(each, costs, asking)
    of_rows = costs.of_rows(found.units, law)
    numbers = asking.histogram(each, ROWS, row_edges(), histogram_scale(accountant, of_rows))
    between, lost = numbers.bounds(ROWS, _noise(select, index, shares, accountant)[0])
    spent += of_rows
    if between is None or not lost.known:
        return None, spent
    most = max(between[1], Fraction(1))
    away = _rows_of(select, index, found.centre, most)
    if found.within is None:
        told, of_away = measured_values(away, AWAY, accountant, of_range(costs.alone), run, draw)
    else:
        of_away = costs.of_away(found.units, law)
        narrow, far = NARROW * found.length, FARTHEST * found.length
        low, high = (most * (bound - found.centre) for bound in found.within)
        edges = range_edges((-narrow, narrow), (min(low, -far), max(high, far)))
        told = asking.histogram(away, AWAY, edges, histogram_scale(accountant, of_away))
    spent += of_away
    return KnownUnits(found.centre, found.length, most, numbers, told, spent), spent


def row_edges() -> Floats:
    """Return the edges of bins of numbers of rows: each by itself, and from `ALONE` on wider ones the more they are."""
    times = math.ceil(math.log(MANY / ALONE) / math.log(ROWS_WIDEN))
    return np.concatenate([np.arange(ALONE) + 0.5, (ALONE + 0.5) * ROWS_WIDEN ** np.arange(times + 1)])


def _rows_lost(told: ValueHistogram, bounds: Bounds, cut: Taken) -> Taken:
    """Return what bounds take from the number of rows: a ratio errs by a part of that, and is told as means are."""
    found = told.found_bins(squares=False)
    if found is None:
        return cut
    lost = lost_between(found, float(bounds[0]), float(bounds[1]), squares=False)
    return cut._replace(about=lost.about, most=lost.most, below=lost.below, above=lost.above)


def _of_mean(cut: Taken, lost: Taken, length: float) -> Taken:
    """Return what bounds take from an average of rows.

    Parameters
    ----------
    cut
        What they take from what values of a unit come to, on average.
    lost
        What they take from the number of rows of a unit, and how many these are.
    length
        How far the means of units are spread: so far may be the mean of rows that count less, as their unit has many.
    """
    rows = max(lost.answer, 1.0)
    about, most = (APART * length * one / (rows + one) for one in (lost.about, lost.below))
    one = cut.times(1.0 / rows)
    return one._replace(
        about=math.hypot(one.about, about),
        most=one.most + most,
        answer=math.nan,
        apart=one.apart + most,
        below=math.hypot(one.below, most),
        above=math.hypot(one.above, most),
    )


class _Centre(NamedTuple):
    """What values of units count from, in which length, between which bounds these are; None where noise hides that.

    Behind that, about how many units there are.
    """

    centre: Fraction
    length: Fraction
    within: Bounds | None
    units: float


@dataclass(frozen=True)
class _Histograms:
    """What asks for histograms: the law of the noise, and what runs queries and draws noise."""

    accountant: Accountant
    run: Run
    draw: Draw

    def values(
        self, select: PrivateSelect, one: Aggregate, bins: int, between: tuple[float, ...] | None, scale: Fraction
    ) -> NDArray[np.int64]:
        """Return the noisy number of units in each bin."""
        exact = histograms.values(select, one.input or 0, bins, between, self.run)
        return exact + self.draw(self.accountant.noise, scale, exact.size)

    def histogram(self, select: PrivateSelect, one: Aggregate, edges: Floats, scale: Fraction) -> ValueHistogram:
        """Return where values are, in bins that are given."""
        counts = self.values(select, one, edges.size - 1, tuple(map(float, edges)), scale)
        law = self.accountant.law
        spread, ratio = math.sqrt(law.variance(scale)), law.tail_ratio
        surely = found_bins(NoisyHistogram(counts.astype(float), spread, edges, ratio), squares=False) is not None
        between = (Fraction(float(edges[0])), Fraction(float(edges[-1]))) if surely else None
        return ValueHistogram(between, tuple(map(float, edges)), tuple(map(int, counts)), 1, spread, ratio)


def _centre(each: PrivateSelect, costs: UnitCosts, asking: _Histograms) -> tuple[_Centre, int]:
    """Return about what the means of units are, as far as finer and finer bins tell it, and what that cost."""
    accountant, spent, bounds = asking.accountant, 0, None
    for cost in costs.tries:
        if bounds is None:
            scale, spent = histogram_scale(accountant, cost), spent + cost
            magnitudes = asking.values(each, MEAN, magnitude_edges().size - 1, None, scale).astype(float)
            bounds = found_magnitudes(magnitudes, scale, accountant.noise)
    if bounds is None:
        return _Centre(Fraction(0), Fraction(1), None, 1.0), spent
    units = max(units_between(magnitudes, bounds), 1.0)
    (low, high), between = bounds, wider(bounds)
    centre, length = (low + high) / 2, (high - low) / 2
    cost = costs.of_locating(units, accountant.law)
    scale = histogram_scale(accountant, cost)
    spread, ratio = math.sqrt(accountant.law.variance(scale)), accountant.law.tail_ratio
    for _ in range(ROUNDS):
        ends = float(between[0]), float(between[1])
        counts = asking.values(each, MEAN, FINE, ends, scale)
        spent += cost
        told = located(counts, spread, between, units, ratio)
        if told is None:
            break
        near, finer = told
        places = ends[0] + (np.arange(FINE) + 0.5) * (ends[1] - ends[0]) / FINE
        inside = (places > float(near[0])) & (places < float(near[1]))
        number = max(float(counts[inside].sum()), spread)
        mean = float(np.clip(places[inside] @ counts[inside] / number, float(near[0]), float(near[1])))
        width = (ends[1] - ends[0]) / FINE
        squares = max(float((places[inside] - mean) ** 2 @ counts[inside]) / number, 0.0)
        centre, length = rounded(mean, math.sqrt(squares + width**2 / 12))
        if not finer:
            break
        between = with_margins(near, between)
    return _Centre(centre, length, with_tails(bounds), units), spent


def _rows_of(select: PrivateSelect, index: int, centre: Fraction, most: Fraction | None = None) -> PrivateSelect:
    """Return a private aggregation over the means of units and their numbers of values, or what these come to.

    Parameters
    ----------
    select, index
        The average.
    centre, most
        Beside what values come to, and how many of them at most, in the place of the means of units.
    """
    aggregate = select.aggregates[index]
    assert aggregate.other is not None
    mean, rows = (steps.real(f"x{one.input}") for one in (aggregate, aggregate.other))
    keys = ["u", *key_names(select)]
    inner = [*keys, f"CASE WHEN {rows} IS NOT NULL THEN {mean} END AS mean", f"{rows} AS number"]
    value = "mean" if most is None else product_of("mean", steps.clamped("number", 0, most), -FAR, FAR, centre)
    listed = [*keys, f"{value} AS x0", "CASE WHEN mean IS NOT NULL THEN number END AS x1"]
    of_units = f"SELECT {', '.join(inner)} FROM {select.source} AS r"
    query = f"SELECT {', '.join(listed)} FROM ({of_units}) AS of_units"
    return replace(
        select, rows=query, kept="", kept_rows="", aggregates=(MEAN if most is None else AWAY, ROWS), inputs=2
    )
