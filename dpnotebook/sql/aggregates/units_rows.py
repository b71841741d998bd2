"""How many rows of a unit count, where each counts by itself: so many that what is left out and noise are least.

A noisy histogram counts every unit once, by the number of its rows. A bin is found where it, or a run of a few up to
it, holds more than noise would hardly ever put there. Who has more rows than count loses the others: that is read off
these bins, and off the tail behind them, as `hidden_tail` has it; others may lie apart. With Laplace noise,
each further row that counts is paid for by all groups in full, so that rows of a few units with many are mostly worth
less than they cost.

As `norms` is for vectors that are clipped to a length, which Gaussian noise hides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.sql.aggregates.bounds import RUNS, reached
from dpnotebook.sql.aggregates.hidden_tail import hidden_tail
from dpnotebook.sql.aggregates.taken import Taken, said_apart, three_digits
from dpnotebook.sql.aggregates.units_apart import EVEN, REACH, UnitsApart, expected_errors, units_apart

Floats = NDArray[np.float64]

STEPS = 2  # bins of numbers of rows in a factor of two
SURE = 1e-4  # how likely noise alone may fill some bin or run of bins: then more noise is added than is best
USUAL = 0.35  # of the laws of a tail, the one that is expected
WARY = 0.15  # of what a tail may hold beyond that, so much is taken to be there: more is lost by it than by noise
NEARLY = 1.1  # times the least error, with which a number of rows is kept that was chosen for other noise
LITTLE = 0.5  # rows: fewer that are left out of a group are none
FEW = 16  # so many numbers of rows are all tried, larger ones in steps of an eighth of a factor of two
SPREAD = 0.75  # of all rows that are left out, one of G groups lacks G^-SPREAD: between an even share and all


@dataclass(frozen=True)
class RowHistogram:
    """How many units have how many rows.

    Parameters
    ----------
    most
        Rows of a unit that are told apart: who has more is counted with so many.
    counts
        Noisy number of units in each bin of `row_edges`.
    scale, noise
        Of the noise on each, and its law.
    units
        What it cost, in the accountant's units.
    """

    most: int
    counts: tuple[int, ...]
    scale: Fraction
    noise: Noise
    units: int

    @property
    def end(self) -> int | None:
        """The bin behind the last one in which units are found; None where noise hides them all."""
        return _end(self.counts, self.scale, self.noise)

    @property
    def described(self) -> tuple[float, float, float]:
        """About how many units there are, and rows that half and 95% of them do not pass; NaN where hidden."""
        if self.end is None:
            return math.nan, math.nan, math.nan
        below = np.maximum.accumulate(np.cumsum(np.array(self.counts[: self.end], dtype=float)))
        units = max(float(below[-1]), 1.0)
        edges = row_edges(self.most)
        places = (min(int(np.searchsorted(below, share * units)), self.end - 1) for share in (0.5, 0.95))
        half, most = (float(edges[place + 1] - 1) for place in places)
        return round(units), half, most

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told = {"most": self.most, "counts": list(self.counts), "scale": str(self.scale)}
        return told | {"noise": self.noise, "units": self.units}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> RowHistogram:
        """Return what `to_json` wrote."""
        counts = tuple(map(int, told["counts"]))
        return cls(int(told["most"]), counts, Fraction(told["scale"]), told["noise"], int(told["units"]))


@dataclass(frozen=True)
class Addend:
    """What an aggregate loses by rows that do not count, and its noise.

    Parameters
    ----------
    noise
        Standard deviation of the noise on a group, where one row of a unit counts, in its largest values.
    worth
        What a row adds on average, in its largest values.
    groups
        In how many groups a unit counts at most where it counts once in each; None where each row counts.
    """

    noise: float
    worth: float = 1.0
    groups: int | None = None


def row_edges(most: int) -> tuple[int, ...]:
    """Return the least number of rows in each bin, in steps of about sqrt(2), and `most + 1` behind them."""
    powers = (round(2.0 ** (i / STEPS)) for i in range(STEPS * most.bit_length() + 1))
    return (*dict.fromkeys(edge for edge in powers if edge <= most), most + 1)


NOT_KNOWN = Taken()


@dataclass(frozen=True)
class CountedRows:
    """How many rows of a unit count, as was found.

    Parameters
    ----------
    most
        So many.
    lost
        Rows that are left out of a group then.
    hidden
        Whether noise hid how many there are.
    of_units
        Whether it is units that are left out, and not rows, as nothing else is counted.
    """

    most: int
    lost: Taken = NOT_KNOWN
    hidden: bool = False
    of_units: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told: dict[str, Any] = {"most": self.most, "hidden": self.hidden, "of_units": self.of_units}
        if self.lost.known:
            told |= {"about": self.lost.about, "at_most": self.lost.most}
        if math.isfinite(self.lost.apart):
            told |= {"apart": self.lost.apart, "looked": self.lost.looked}
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> CountedRows:
        """Return what `to_json` wrote."""
        lost = Taken(told["about"], told["at_most"]) if "about" in told else Taken()
        if "apart" in told:
            lost = lost._replace(apart=told["apart"], looked=told["looked"])
        return cls(told["most"], lost, told["hidden"], told["of_units"])

    @property
    def words(self) -> str:
        """What counts, and what that leaves out, as a person would say it."""
        if self.hidden:
            return f"noise hides how many rows one unit has: up to {self.most:,} of each count"
        rows = "1 row" if self.most == 1 else f"{self.most:,} rows"
        count = f"up to {rows} of each unit count{'s' if self.most == 1 else ''}, as was found to suit this price"
        if self.lost.worst < LITTLE:
            return f"{count}; hardly any has more"
        about, most = map(three_digits, self.lost[:2])
        more = f", at most about {most}" if about != most else ""
        what = "units" if self.of_units else "rows"
        return (
            f"{count}: that leaves about {about} {what} out of a group{more}{said_apart(self.lost)}, beside the noise"
        )


def rows_to_count(told: RowHistogram, added: Sequence[Addend], groups: int, most: int) -> CountedRows | None:
    """Return how many rows of a unit should count, and what is left out of a group then; None where noise hides it.

    Parameters
    ----------
    told
        How many units have how many rows.
    added
        The aggregates that depend on it: the product of their errors is made least.
    groups
        How many there are.
    most
        Rows that may count.
    """
    if (found := _units(told)) is None:
        return None
    tried = tuple(k for k in _tried(most) if k <= most)
    best = tried[int(np.argmin(_errors(told, added, groups, tried)))]
    once = added[0].groups if all(one.groups is not None for one in added) else None
    excess = _excess(row_edges(told.most), (best,), once)[0]
    about, at_most = (max(float(excess @ units), 0.0) for units in (found.average, found.heavy))
    share = groups**-SPREAD
    about = min(about, at_most) + (float(excess @ found.apart.units) if found.apart.likely > EVEN else 0.0)
    lost = Taken(about * share, max(at_most / math.sqrt(groups), about * share))
    if (more := found.apart.at_most(excess) / math.sqrt(groups)) > 0:
        lost = lost._replace(apart=lost.most + more, looked=found.farthest)
    return CountedRows(best, lost, of_units=once is not None)


def nearly_best(told: RowHistogram, added: Sequence[Addend], groups: int, most: int, rows: int) -> bool:
    """Return whether a number of rows that was chosen for other noise gives nearly the least error.

    Parameters
    ----------
    told, added, groups, most
        As for `rows_to_count`.
    rows
        That number.
    """
    if _units(told) is None:
        return True
    tried = (*(k for k in _tried(most) if k <= most), rows)
    errors = _errors(told, added, groups, tried)
    return bool(errors[-1] <= errors.min() + 2 * len(added) * math.log(NEARLY))


class _Units(NamedTuple):
    """Units in each bin: to choose by, on average, at most; and those that may lie apart, with up to so many rows."""

    likely: Floats
    average: Floats
    heavy: Floats
    apart: UnitsApart
    farthest: float


@lru_cache(maxsize=64)
def _units(told: RowHistogram) -> _Units | None:
    """Return how many units have how many rows, as far as noise and a tail tell; None where noise hides all."""
    if (end := told.end) is None:
        return None
    counts, edges = np.array(told.counts, dtype=float), np.array(row_edges(told.most), dtype=float)
    law = law_of(told.noise)
    spread = math.sqrt(law.variance(told.scale))
    tails = hidden_tail(counts, spread, edges, 0, end, USUAL) if end < counts.size else (np.zeros(0),) * 3
    likely, average, heavy = (np.concatenate([counts[:end], tail]) for tail in tails)
    beyond = min(end + REACH, counts.size)
    apart = units_apart(
        (counts - likely)[end:beyond], spread, float(counts[:end].sum()), end, counts.size - beyond,
        stable=law.stable,
    )  # fmt: skip
    return _Units(likely + WARY * np.maximum(heavy - likely, 0.0), average, heavy, apart, edges[beyond] - 1.0)


def _errors(told: RowHistogram, added: Sequence[Addend], groups: int, tried: tuple[int, ...]) -> Floats:
    """Return the logarithm of the product of the squared errors of all aggregates, for each number of rows."""
    found, share = _units(told), groups**-SPREAD
    assert found is not None
    errors = np.zeros(len(tried))
    for one in added:
        left_out = _excess(row_edges(told.most), tried, one.groups)
        usual, apart = (
            (np.maximum(left_out @ units, 0.0) * share * one.worth) ** 2 + (one.noise * np.array(tried)) ** 2
            for units in (found.likely, found.likely + found.apart.units)
        )
        errors += 2.0 * expected_errors(usual, apart, found.apart.likely)
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
        length = rows if groups is None else np.minimum(rows, groups)
        passed = np.maximum(length - np.array(tried, dtype=float)[:, None], 0.0)
        found[:, i] = passed @ (weights / weights.sum())
    return found


@lru_cache(maxsize=256)
def _end(counts: tuple[int, ...], scale: Fraction, noise: Noise) -> int | None:
    """Return where the last run of bins ends that noise would hardly have filled; None where there is none."""
    noisy, found = np.array(counts, dtype=float), []
    widths = [width for width in RUNS if width <= noisy.size]
    for width in widths:
        sums = np.convolve(noisy, np.ones(width), "valid")
        level = reached(noise, scale, SURE / len(widths) / sums.size, width)
        found += [int(start) + width for start in np.flatnonzero(sums >= level)]
    return max(found, default=None)
