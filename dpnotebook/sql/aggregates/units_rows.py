"""How many rows of a unit count, where each counts by itself: so many that what is left out and noise are least.

Who has more rows than count loses the others: counts and sums lack them, and in means and quantiles such units weigh
less. How many have more is read off a noisy histogram. With Laplace noise, each further row that counts is paid for by
all groups in full, so that rows of a few units with many are mostly worth less than they cost.

As `norms` is for vectors that are clipped to a length, which Gaussian noise hides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import law_of
from dpnotebook.sql.aggregates.counted_rows import QUANTILES, CountedRows
from dpnotebook.sql.aggregates.hidden_humps import hidden_humps
from dpnotebook.sql.aggregates.lost_values import RARELY, ways_lost
from dpnotebook.sql.aggregates.noisy_histogram import NoisyHistogram
from dpnotebook.sql.aggregates.row_histogram import RowHistogram, UnitsByRows, row_edges, units_by_rows
from dpnotebook.sql.aggregates.taken import NOT_KNOWN, Taken
from dpnotebook.sql.aggregates.units_apart import EVEN, expected_errors
from dpnotebook.sql.aggregates.weights_moved import (
    FARTHEST,
    doublings_walked,
    ranked_errors,
    squared_errors,
    squared_shifts,
    weights_moved,
)

Floats = NDArray[np.float64]

NEARLY = 1.1  # times the least error, with which a number of rows is kept that was chosen for other noise
SUITS = 1.25  # the same for values, as who lies together behind the others is known too roughly for a finer choice
FEW = 16  # so many numbers of rows are all tried, larger ones in steps of an eighth of a factor of two
SPREAD = 0.75  # of all rows that are left out, one of G groups lacks G^-SPREAD: between an even share and all
PERCENT = 100.0 / 2  # of the range of values, in a half-width


@dataclass(frozen=True)
class Addend:
    """What a count or a sum loses by rows that do not count, and its noise.

    Parameters
    ----------
    noise
        Standard deviation of the noise on a group, where one row of a unit counts, in its largest values.
    worth
        What a row adds on average, in its largest values.
    groups
        How many there are, where a unit counts once in each of its groups; None where each row counts.
    of_values
        Whether it is a sum of values, and no count.
    """

    noise: float
    worth: float = 1.0
    groups: int | None = None
    of_values: bool = False

    def squared_errors(self, edges: tuple[int, ...], units: Floats, tried: tuple[int, ...], groups: int) -> Floats:
        """Return its squared error for each number of rows, where so many units are in each bin; shape (1, tried)."""
        left_out = np.maximum(_excess(edges, tried, self.groups) @ units, 0.0) * groups**-SPREAD
        paid = np.minimum(tried, self.groups or max(tried))
        return np.asarray((left_out * self.worth) ** 2 + (self.noise * paid) ** 2)[None]


@dataclass(frozen=True)
class Averaged:
    """What a mean, or a quantile, loses by rows that do not count, and its noise.

    Parameters
    ----------
    noise
        Standard deviation of the noise on the sum of a group, where one row of a unit counts, in half-widths.
    of
        What it is, in the plural.
    """

    noise: float
    of: str = "averages"

    def squared_errors(self, edges: tuple[int, ...], units: Floats, tried: tuple[int, ...], groups: int) -> Floats:
        """Return its squared error for each number of rows, in cases that are as likely; shape (cases, tried)."""
        lengths = _lengths(edges)
        weights = weights_moved(lengths, _excess(edges, tried, None), np.maximum(units, 0.0))
        if self.of == QUANTILES:
            return ranked_errors(weights, self.noise * np.array(tried), groups)[None]
        return squared_errors(weights, lengths, self.noise * np.array(tried), groups)


def rows_to_count(told: RowHistogram, asked: Sequence[Addend | Averaged], groups: int, most: int) -> CountedRows | None:
    """Return how many rows of a unit should count, and what that does to answers; None where noise hides it.

    Parameters
    ----------
    told
        How many units have how many rows.
    asked
        The aggregates that depend on it: the product of their errors is made least.
    groups
        How many there are.
    most
        Rows that may count.
    """
    if (found := units_by_rows(told)) is None:
        return None
    tried, edges = tuple(k for k in _tried(most) if k <= most), row_edges(told.most)
    best = tried[int(np.argmin(_errors(found, edges, asked, groups, tried)))]
    added = [one for one in asked if isinstance(one, Addend)]
    counted_once = next((one.groups for one in added if one.groups is not None), None)
    once = counted_once if all(one.groups is not None for one in added) else None
    lost = _lost(told, found, best, once, groups) if added else NOT_KNOWN
    lost_units = (
        NOT_KNOWN if once is not None or counted_once is None else _lost(told, found, best, counted_once, groups)
    )
    carried, walked, drawn = 0.0, 0.0, 0.0
    averaged = tuple(dict.fromkeys(one.of for one in asked if isinstance(one, Averaged)))
    weights = weights_moved(_lengths(edges), _excess(edges, (best,), None), np.maximum(found.average, 0.0))
    if any(one.of_values for one in added):
        carried = math.sqrt(float(squared_shifts(weights, _lengths(edges)).mean())) / 2
    if averaged:
        walked = float(doublings_walked(weights, _lengths(edges))[0])
        drawn = float(weights.kept[0] * max(_persons(told, found, best), weights.chance[0]))
    moved = _moved(found, edges, best) if averaged else NOT_KNOWN
    left_out, rows = (float(_of(edges, k) @ np.maximum(found.average, 0.0)) for k in (best, 0))
    kept = float(f"{1.0 - left_out / max(rows, 1.0):.4g}")
    return CountedRows(
        best,
        lost,
        of_units=once is not None,
        moved=moved,
        averaged=averaged,
        kept=kept,
        carried=carried,
        walked=walked,
        drawn=drawn,
        lost_units=lost_units,
        shifted=_shifted(found, edges, best) if QUANTILES in averaged else 0.0,
    )


def values_to_count(told: RowHistogram, noise: float, worth: float) -> tuple[int, float, float] | None:
    """Return how many values of a unit should count, of which a part is worth counting; None where noise hides it.

    Units that lie together behind the others are looked for: without them this is `rows_to_count` of one sum.

    Parameters
    ----------
    told
        How many units have how many values.
    noise
        Standard deviation of the noise on the answer, where one value of a unit counts.
    worth
        Which part of those that do not count is lost.

    Returns
    -------
    So many, and how many values do not count then, about and at most.
    """
    if (found := units_by_rows(told)) is None:
        return None
    tried = tuple(k for k in _tried(told.most) if k <= told.most)
    best = tried[int(np.argmin(_of_values(told, found, noise, worth, tried)))]
    left_out = _ways_left_out(told, best, None, apart=True)[1]
    about, at_most = map(float, np.quantile(left_out, [0.5, 1.0 - RARELY]))
    return best, about, at_most


def values_nearly_best(told: RowHistogram, noise: float, worth: float, values: int) -> bool:
    """Return whether a number of values that was chosen for other noise gives nearly the least error.

    Parameters
    ----------
    told, noise, worth
        As for `values_to_count`.
    values
        That number.
    """
    if (found := units_by_rows(told)) is None:
        return True
    errors = _of_values(told, found, noise, worth, (*(k for k in _tried(told.most) if k <= told.most), values))
    return bool(errors[-1] <= errors.min() * SUITS**2)


def _of_values(told: RowHistogram, found: UnitsByRows, noise: float, worth: float, tried: tuple[int, ...]) -> Floats:
    """Return the squared errors of so many values of a unit, of which a part is worth counting, shape (tried,)."""
    end = told.end or 1
    edges, counts, law = row_edges(told.most), np.array(told.counts, dtype=float), law_of(told.noise)
    units = found.likely.copy()
    away = np.array(edges[end:-1], dtype=float) / edges[end] - 1.0
    spread = math.sqrt(law.variance(told.scale))
    units[end:] += hidden_humps(counts[end:], found.likely[end:], spread, away, stable=law.stable).average()
    return np.asarray(Addend(noise, worth).squared_errors(edges, units, tried, 1)[0])


def nearly_best(told: RowHistogram, asked: Sequence[Addend | Averaged], groups: int, most: int, rows: int) -> bool:
    """Return whether a number of rows that was chosen for other noise gives nearly the least error.

    Parameters
    ----------
    told, asked, groups, most
        As for `rows_to_count`.
    rows
        That number.
    """
    if (found := units_by_rows(told)) is None:
        return True
    tried = (*(k for k in _tried(most) if k <= most), rows)
    errors = _errors(found, row_edges(told.most), asked, groups, tried)
    return bool(errors[-1] <= errors.min() + 2 * len(asked) * math.log(NEARLY))


def _persons(told: RowHistogram, found: UnitsByRows, best: int) -> float:
    """Return the variance of a mean, where all values of a unit are the same and those of units have a variance of 1.

    It comes from the few units that have most of the rows that do not count. Ways alike likely tell quite different
    numbers of these: the middle of them is that of logarithms, none of them below one unit with twice as many rows.
    """
    every = max(float(_lengths(row_edges(told.most)) @ np.maximum(found.average, 0.0)), 1.0)
    squares = _ways_left_out(told, best, None)[0]
    return math.exp(float(np.log(squares + best**2).mean())) / every**2


def _ways_left_out(told: RowHistogram, best: int, once: int | None, *, apart: bool = False) -> Floats:
    """Return the rows that do not count of each unit, squared and added up, and their number, in ways alike likely.

    Where a unit counts once in each of so many groups, it is these that do not; shape (2, ways). With `apart`, also of
    units that lie together behind the others.
    """
    edges = row_edges(told.most)
    excess = _excess(edges, (best,), once)[0]
    farthest = np.maximum(np.array(edges[1:], dtype=float) - 1.0 - best, 0.0)
    if once is not None:
        farthest = np.maximum(_reached(np.array(edges[1:]) - 1.0, once) - _reached(np.array([float(best)]), once), 0.0)
    law, counts = law_of(told.noise), np.array(told.counts, dtype=float)
    spread = math.sqrt(law.variance(told.scale))
    found = NoisyHistogram(counts, spread, np.array(edges, dtype=float), law.tail_ratio).with_found(0, told.end or 1)
    each, at_end = (np.stack([lost * farthest, lost], axis=1) for lost in (excess, farthest))
    ways = ways_lost(found, each, at_end, heavy=True, apart=apart)
    return np.asarray(np.maximum(ways, 0.0).T)


def _lost(told: RowHistogram, found: UnitsByRows, best: int, once: int | None, groups: int) -> Taken:
    """Return how many rows, or units, are left out of a group, in ways alike likely, where so many of a unit count."""
    edges = row_edges(told.most)
    excess, every = (_excess(edges, (rows,), once)[0] for rows in (best, 0))
    squares, left_out = _ways_left_out(told, best, once)
    about, at_most = map(float, np.quantile(left_out, [0.5, 1.0 - RARELY]))
    share = groups**-SPREAD
    about += float(excess @ found.apart.units) if found.apart.likely > EVEN else 0.0
    kept = max(float((every - excess) @ np.maximum(found.average, 0.0)), 1.0) * share
    single, most = math.sqrt(float(np.median(squares))) * share, max(at_most, about) * share
    lost = Taken(
        about * share, max(at_most / math.sqrt(groups), most), kept, below=most, above=0.0, single=single, groups=groups
    )
    if (more := found.apart.at_most(excess) / math.sqrt(groups)) > 0:
        lost = lost._replace(apart=lost.most + more, looked=found.farthest)
    return lost


def _moved(found: UnitsByRows, edges: tuple[int, ...], rows: int) -> Taken:
    """Return by how much a mean moves where so many rows of each unit count, in percent of the range of its values."""
    lengths, excess = _lengths(edges), _excess(edges, (rows,), None)
    apart = found.apart.units if found.apart.likely > EVEN else np.zeros_like(lengths)
    usual, heavy = (
        weights_moved(lengths, excess, np.maximum(units + apart, 0.0)) for units in (found.average, found.heavy)
    )
    about = PERCENT * math.sqrt(float(squared_shifts(usual, lengths).mean()))
    moved = Taken(about, max(PERCENT * FARTHEST * float(heavy.moved[0]), about))
    if (more := PERCENT * FARTHEST * min(found.apart.at_most(np.maximum(usual.lost[0], 0.0)), 1.0)) > 0:
        moved = moved._replace(apart=moved.most + more, looked=found.farthest)
    return moved


def _shifted(found: UnitsByRows, edges: tuple[int, ...], rows: int) -> float:
    """Return which part of all weight is that of other units, where so many rows of each count.

    By that part at most the rank of a value among those that count is another one than among all of them.
    """
    lengths, excess = _lengths(edges), _excess(edges, (rows,), None)
    apart = found.apart.units if found.apart.likely > EVEN else np.zeros_like(lengths)
    weights = weights_moved(lengths, excess, np.maximum(found.average + apart, 0.0))
    return float(f"{float(weights.moved[0]):.4g}")


def _errors(
    found: UnitsByRows, edges: tuple[int, ...], asked: Sequence[Addend | Averaged], groups: int, tried: tuple[int, ...]
) -> Floats:
    """Return the logarithm of the product of the squared errors of all aggregates, for each number of rows."""
    errors = np.zeros(len(tried))
    for one in asked:
        usual, apart = (
            one.squared_errors(edges, units, tried, groups)
            for units in (found.likely, found.likely + found.apart.units)
        )
        errors += 2.0 * expected_errors(usual, apart, found.apart.likely).mean(axis=0)
    return errors


@lru_cache(maxsize=64)
def _tried(most: int) -> tuple[int, ...]:
    steps = (round(FEW * 2.0 ** (i / 8)) for i in range(8 * most.bit_length()))
    return tuple(dict.fromkeys([*range(1, FEW + 1), *steps, most]))


@lru_cache(maxsize=64)
def _excess(edges: tuple[int, ...], tried: tuple[int, ...], groups: int | None) -> Floats:
    """Return by how much the rows of a unit in each bin pass each number that may count, on average.

    Numbers of rows in a bin are taken to be the rarer the larger they are.
    """
    found = np.zeros((len(tried), len(edges) - 1))
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        rows = np.unique(np.linspace(low, high - 1, 64).round()) if high - low > 1 else np.array([float(low)])
        weights = 1.0 / rows
        most = np.array(tried, dtype=float)[:, None]
        passed = np.maximum(rows - most, 0.0)
        if groups is not None:
            passed = np.maximum(_reached(rows, groups) - _reached(most, groups), 0.0)
        found[:, i] = passed @ (weights / weights.sum())
    return found


def _reached(rows: Floats, groups: int) -> Floats:
    """Return in how many groups so many rows are, on average, of which each is in any of them."""
    return np.asarray(groups * (1.0 - (1.0 - 1.0 / groups) ** rows))


def _lengths(edges: tuple[int, ...]) -> Floats:
    """Return how many rows a unit in each bin has, on average."""
    return _of(edges, 0)


def _of(edges: tuple[int, ...], rows: int) -> Floats:
    """Return how many rows of a unit in each bin do not count, on average, where so many do."""
    return np.asarray(_excess(edges, (rows,), None)[0])
