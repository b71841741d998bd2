"""Bounds that nobody wrote: read off a noisy histogram of orders of magnitude.

Every unit is counted once, in the bin of what it would add, so that the histogram has sensitivity 1. Bounds are found
where noise alone would hardly ever have filled a bin, or a few neighbouring ones together; then they take in further
bins that noise would hardly have filled, the stricter the more these widen them. Where there is no such bin, the bounds
are not found, and neither is the answer that needs them. All of this is read off noisy numbers.

Source: Wilson et al., section 4.2.5 (approximate bounds), with signed powers of two as bins, runs of bins, and levels
that depend on what a mistake would do in place of one level that is lowered until some bin passes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.privacy.accountant import Accountant
from dpnotebook.privacy.laws import Noise, draw_integers, law_of
from dpnotebook.privacy.noise import checked_scale
from dpnotebook.sql.aggregates.budget_split import (
    BESIDE,
    OF_NEW_VALUES,
    Shares,
    ValueCosts,
    averages_units,
    counts_values,
    found_with,
    has_range,
    needs_bounds,
    of_columns,
    of_norms,
    of_range,
    of_units,
    operands,
    whole_of,
)
from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.building import measuring
from dpnotebook.sql.aggregates.catalogue import function_of
from dpnotebook.sql.aggregates.distinct_values import MOST_VALUES, STEP
from dpnotebook.sql.aggregates.noising import Draw
from dpnotebook.sql.aggregates.partitions import units_needed
from dpnotebook.sql.select import Aggregate, PrivateSelect

LEAST, MOST = -40, 63  # magnitudes are told apart from 2^-40 up to 2^63; smaller ones are zero, larger ones the largest

STEPS_OF_MEANS = 1024  # of 1, in which what units have on average is added up by norm
PARTS_OF_UNIT = 1 << 20  # in which units are added up by bin, whose rows or groups share them
NOBODY = -1e15  # units in a bin that is not looked at
SURE = 1e-6  # how likely noise alone may pick bounds, of all bins and runs of them
RUNS = (1, 2, 3)  # neighbouring bins that are looked at together: what people earn or pay spans several
# How likely noise may add empty bins to those found: within the reach of these, or at twice it. An eighth of that for
# each further doubling, so that the squared error which noise adds in this way is small beside that of the answer.
NEAR = 1e-3
# Bounds begin at zero where the next smaller bins and that of zero have together so many standard deviations of noise:
# bounds are up to twice as wide then, but small values, of which there may be many, are not taken for larger ones.
NEXT_SMALLER, SEEM_THERE = 3, 1.5


def magnitude_edges() -> NDArray[np.float64]:
    """Return the edges of the bins: -2^63, ..., -2^-40, 2^-40, ..., 2^63; bins are closed below.

    What lies outside belongs to the first or the last bin.
    """
    powers = 2.0 ** np.arange(LEAST, MOST + 1)
    return np.concatenate([-powers[::-1], powers])


def parts_of_unit(select: PrivateSelect) -> int:
    """Return in how many parts units are added up in histograms that their rows, or groups, share them in."""
    return 1 if select.single else PARTS_OF_UNIT


def find_bounds(
    select: PrivateSelect,
    shares: Shares,
    accountant: Accountant,
    magnitudes: Callable[[Aggregate], ArrayLike],
    draw: Draw = draw_integers,
    wanted: Collection[int] | None = None,
    parts: int = 1,
) -> dict[int, Bounds | None]:
    """Return the bounds of aggregates that have none, by their numbers; None where they are not found.

    Parameters
    ----------
    select
        Whose bounds they will be.
    shares
        What it costs to find them.
    accountant
        The law of the noise.
    magnitudes
        Gives the exact histogram for one of `operands`: units in every bin of `magnitude_edges`, each unit once, shape
        (bins,).
    draw
        Draws noise of a law and a scale.
    wanted
        Numbers of the aggregates; all that need bounds when None.
    parts
        Of a unit, that are counted in place of it.
    """
    if wanted is None:
        wanted = [i for i in range(len(select.aggregates)) if needs_bounds(select, i)]
    noisy: dict[int, tuple[NDArray[np.float64], Fraction]] = {}
    bounds: dict[int, Bounds | None] = {}
    for at, (i, operand) in enumerate(operands(select)):
        if i not in wanted:
            continue
        mine: Bounds | None = operand.bounds
        if mine is None:
            first = found_with(select, at, shares.known)
            if first == at:
                exact = np.asarray(magnitudes(operand), dtype=np.int64)
                scale = histogram_scale(accountant, shares.auto[at])
                noisy[at] = (exact + draw(accountant.noise, scale * parts, exact.size)) / parts, scale
            mine = _bounds(operand, *noisy[first], accountant.noise)
        before = bounds.get(i, ())
        bounds[i] = None if before is None or mine is None else before + mine
    return bounds


def _bounds(aggregate: Aggregate, noisy: NDArray[np.float64], scale: Fraction, noise: Noise) -> Bounds | None:
    """Return bounds that suit what they bound; None where they are not found."""
    function = function_of(aggregate.kind)
    bounds = found(noisy, scale, noise, function.whole(aggregate), function.adds, zeros=function.levelled)
    if bounds is None:
        return None
    lower, upper = bounds
    if function.of == "values":
        lower, upper = Fraction(0), upper if upper > 0 else Fraction(1)
    return lower, upper


def check_scales(select: PrivateSelect, shares: Shares, accountant: Accountant, delta: Fraction) -> None:
    """Make sure, before anything is charged, that noise can be drawn whatever bounds will be found.

    The wider the bounds, the more noise there is in steps, up to a point: so it is enough to try the widest.

    Raises
    ------
    AccuracyError
        If noise would be out of its range.
    """
    rows_sought = bool(select.rows_if_hidden)
    if rows_sought:
        checked_scale(histogram_scale(accountant, shares.rows))
        select = select.with_rows(select.contribution.most)
    widest = -(Fraction(2) ** MOST), Fraction(2) ** MOST
    unknown = {
        i: (Fraction(0), Fraction(MOST_VALUES))
        if counts_values(select, i)
        else widest * len(one.operands) + widest[1:] * (select.clips(i) and function_of(one.kind).centres)
        for i, one in enumerate(select.aggregates)
        if needs_bounds(select, i)
    }
    if unknown or rows_sought:
        measuring(select, shares, accountant, delta, unknown)
    for at, units in enumerate(shares.auto):
        if units:
            for cost, parts in _histograms(select, *operands(select)[at], units, whole_of(select, shares, at)):
                checked_scale(histogram_scale(accountant, max(cost, 1)) * parts)


def _histograms(select: PrivateSelect, index: int, operand: Aggregate, units: int, whole: int) -> list[tuple[int, int]]:
    """Return what histograms cost at least, and in how many parts each counts what a unit adds."""
    parts, function = parts_of_unit(select), function_of(operand.kind)
    if has_range(select, index):
        return _least_costs(of_range(units, whole), parts)
    if averages_units(select, index):
        costs = of_units(units)
        return [*((cost, 1) for cost in costs.least), *_least_costs(of_range(costs.alone), 1)]
    if counts_values(select, index):
        return [(units // OF_NEW_VALUES, 1), (units // OF_NEW_VALUES, STEP)]
    if not select.clips(index):
        return [(units, parts)]
    if not function.centres:
        return [(units, 1)]
    columns = len(operand.operands) if function.paired else 1
    means = [(of_norms(units, columns) // BESIDE, STEPS_OF_MEANS)]
    return means + (_least_costs(of_columns(units, columns, whole), parts) if operand.values is None else [])


def _least_costs(costs: ValueCosts, parts: int) -> list[tuple[int, int]]:
    least = costs.after_sums() if costs.of_sums else costs
    return [(cost, parts) for cost in (*costs.tries, least.of_others(math.inf), least.least_locating)]


def histogram_scale(accountant: Accountant, units: int) -> Fraction:
    """Return the scale of the noise on the histogram for a cost in units."""
    return accountant.scale(units, 1)


def found(
    noisy: ArrayLike,
    scale: Fraction,
    noise: Noise,
    integer: bool = False,
    around_zero: bool = False,
    zeros: bool = False,
) -> Bounds | None:
    """Return bounds that hold nearly all of what units would add, lower < upper; None where noise hides them.

    Many who have exactly zero tell nothing of how large what the others have is, whom noise may hide.

    Parameters
    ----------
    noisy
        Noisy number of units in every bin of `magnitude_edges`, shape (bins,).
    scale, noise
        The noise on each.
    integer
        Whether only whole numbers are added.
    around_zero
        Whether the bounds must hold zero, as those of sums: a unit that leaves takes nothing more than its sum along.
    zeros
        Whether it is enough that most have zero, as for a median.
    """
    counts, edges = np.asarray(noisy, dtype=float), magnitude_edges()
    if counts.shape != (edges.size - 1,):
        raise ValueError(f"there are {edges.size - 1} bins, not {counts.shape}")
    core, middle = _core(counts, scale, noise), counts.size // 2  # the bin of zero
    if not core.any():
        core[middle] = zeros and counts[middle] >= _level(noise, scale, 1)
    if not core.any():
        return None
    passing = np.flatnonzero(core | (counts >= _near(core, scale, noise)))
    lower, upper = Fraction(edges[passing[0]]), Fraction(edges[passing[-1] + 1])
    if passing[0] == middle:
        lower = Fraction(0)
    if passing[-1] == middle:
        upper = Fraction(0)
    if lower > 0 and _seem_there(counts[middle : passing[0]], scale, noise):
        lower = Fraction(0)
    if upper < 0 and _seem_there(counts[passing[-1] + 1 : middle + 1][::-1], scale, noise):
        upper = Fraction(0)
    if integer:
        # Of a bin 2^k <= x < 2^(k + 1) the largest whole number; below one there is only zero.
        lower, upper = Fraction(math.ceil(lower)), Fraction(math.ceil(upper) - 1 if upper > 1 else math.floor(upper))
    if around_zero:
        lower, upper = min(lower, Fraction(0)), max(upper, Fraction(0))
    if lower >= upper:
        lower, upper = (Fraction(0), Fraction(1)) if upper >= 0 else (upper - 1, upper)
    return lower, upper


def surely_between(noisy: ArrayLike, scale: Fraction, noise: Noise) -> Bounds | None:
    """Return bounds of the bins that surely hold units, that of zero aside; None where there are none.

    Parameters
    ----------
    noisy, scale, noise
        As for `found`, whose bounds take in bins as well that noise fills once in a thousand times.
    """
    core = np.flatnonzero(_core(np.asarray(noisy, dtype=float), scale, noise))
    if not core.size:
        return None
    return Fraction(magnitude_edges()[core[0]]), Fraction(magnitude_edges()[core[-1] + 1])


def far_magnitudes(
    noisy: ArrayLike,
    scale: Fraction,
    noise: Noise,
    within: tuple[float, float],
    rarely: float = NEAR,
    farthest: float = math.inf,
) -> tuple[tuple[float, float], ...]:
    """Return orders of magnitude outside bounds that seem to have units, which noise does once in a thousand tables.

    Parameters
    ----------
    noisy, scale, noise
        As for `found`.
    within
        Bounds, in which finer bins tell of units.
    rarely
        How likely noise alone makes some seem to have units, if not once in a thousand tables.
    farthest
        The largest magnitude that is looked at.

    Returns
    -------
    The middle of each of these, and the noisy number of units there.
    """
    counts, edges = np.asarray(noisy, dtype=float), magnitude_edges()
    outside = (edges[:-1] >= within[1]) | (edges[1:] <= within[0])
    outside &= np.maximum(np.abs(edges[:-1]), np.abs(edges[1:])) <= farthest
    told = outside & (counts >= reached(noise, scale, rarely / max(int(outside.sum()), 1)))
    return tuple((float(edges[i : i + 2].mean()), float(counts[i])) for i in np.flatnonzero(told))


def _seem_there(counts: NDArray[np.float64], scale: Fraction, noise: Noise) -> bool:
    """Return whether there seem to be units in the last of some bins, which are the next ones, and in the first."""
    looked = np.append(counts[1:][-NEXT_SMALLER:], counts[0])
    return bool(looked.sum() >= SEEM_THERE * math.sqrt(looked.size * law_of(noise).variance(scale)))


def units_found(noise: Noise, scale: Fraction) -> int:
    """Return how many units of one order of magnitude suffice, with 95%, for bounds to be found."""
    return units_needed(noise, scale, _level(noise, scale, 1))


def _core(counts: NDArray[np.float64], scale: Fraction, noise: Noise) -> NDArray[np.bool_]:
    """Return the bins that surely hold units: those that pass alone, or else the fullest run of a few that passes.

    The bin of zero is none of them.
    """
    others = counts.copy()
    others[counts.size // 2] = NOBODY
    for width in RUNS:
        sums = np.convolve(others, np.ones(width), "valid")
        passing = sums >= _level(noise, scale, width)
        if passing.any():
            if width > 1:
                passing = np.arange(sums.size) == sums.argmax()
            return np.convolve(passing, np.ones(width)) > 0
    return np.zeros(counts.size, dtype=np.bool_)


def _near(core: NDArray[np.bool_], scale: Fraction, noise: Noise) -> NDArray[np.float64]:
    """Return the least count of every bin that the core lets in: the more it would widen the bounds, the larger."""
    powers = np.abs(np.arange(core.size + 1) - core.size // 2 - 0.5)  # from edge to edge one, the same on both sides
    outer = np.maximum(powers[1:], powers[:-1])
    wider = np.maximum(outer - outer[core].max(), 0).astype(np.intp)
    strict = _level(noise, scale, 1)
    levels = np.full(wider.max() + 1, strict, dtype=float)
    for doublings, bins in enumerate(np.bincount(wider)):
        level = reached(noise, scale, NEAR / 8.0 ** max(doublings - 1, 0) / max(int(bins), 1))
        if level >= strict:
            break
        levels[doublings] = level
    return np.asarray(levels[wider])


@lru_cache(maxsize=256)
def _level(noise: Noise, scale: Fraction, width: int) -> int:
    """Return the least sum of a run of bins that noise alone hardly reaches, in any run of any width."""
    runs = magnitude_edges().size - width
    return reached(noise, scale, SURE / len(RUNS) / runs, width)


@lru_cache(maxsize=4096)
def reached(noise: Noise, scale: Fraction, chance: float, width: int = 1) -> int:
    """Return the least sum that the noise of a run of bins reaches with at most this probability."""
    low, high = 0, 1
    while _log_tail(noise, scale, high, width) > math.log(chance):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _log_tail(noise, scale, middle, width) > math.log(chance) else (low, middle)
    return high


def _log_tail(noise: Noise, scale: Fraction, least: int, width: int) -> float:
    """Return a bound on log P(V_1 + ... + V_width >= least), exact for one."""
    law = law_of(noise)
    return float(law.log_tail(scale, least)) if width == 1 else law.log_tail_of_run(scale, least, width)
