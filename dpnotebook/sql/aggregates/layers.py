"""Counts and sums in two layers: what units add up to a norm, and what some add beyond it, with noise of its own.

One norm is a compromise: the longer it is, the more noise is on every group, for the sake of the few units that pass a
shorter one. So vectors are clipped to a short norm, which needs little noise, and what is between that and a longer one
is measured beside it, for a part of the cost. Of that second layer each group's own number is mostly noise, but its sum
along the first layer, over all groups, is not: units with much are mostly in the groups where others are too. So the
second layer is shrunk towards what is in proportion to the first, as far as its noise hides that it is elsewhere. How
far follows from the noisy numbers alone, so this costs nothing.

Both layers together are no longer than the longer norm, and without shrinking would be no better than it: the gain is
that of James and Stein, Estimation with quadratic loss (1961). Shrunk is by what is likely of the part that is not in
proportion, after its noisy square is seen; how uncertain that is, is a part of the error (Morris, Parametric empirical
Bayes inference, 1983).

That is how wrong groups are on average, and one that is unlike the others is more so. Its interval is to hold too: all
are somewhat longer than their standard error, and that of a group whose own number is unlikely to be in proportion is
longer by what shrinking may have moved it, as by Armstrong, Kolesar and Plagborg-Moller, Robust empirical Bayes
confidence intervals (2022). What noise hides wholly no interval can know that is shorter than that of one norm (Pratt,
1961): in half of many made-up tables the interval of the worst group holds 95 times of 100, in one of ten less than 81
to 94, and in half about 64 where all who have much are where nobody else is. Limiting by how much a group is shrunk
(Efron and Morris, 1971) did less for that, and made errors up to twice as large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.builder import Bounds
from dpnotebook.sql.aggregates.groups_apart import groups_apart
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring

Floats = NDArray[np.float64]

REACH = 1.959964  # standard errors of intervals of 95%

# What of the second layer is not in proportion to the first: alike likely before anything is seen, and what is expected
# where errors are foretold.
APART = (0.02, 0.035, 0.06, 0.1, 0.17, 0.3, 0.5, 0.85)
FORETOLD = 0.1
LARGEST = 0.5  # of the squares of all groups, that of the largest where nothing is known: of 50 by Zipf's law .6 is

# Intervals hold for each group, and not on average only: so many times as long, and longer by what a group's own number
# is off its proportion beyond so many standard deviations of its noise.
WIDER = 1.15
DOUBTED = 1.5


class Layers(NamedTuple):
    """Two norms, as they stand in bounds behind a lower one of 0.

    Parameters
    ----------
    outer, inner
        To which vectors are clipped, and up to which they are in the first layer.
    share
        Of the cost, for the second layer.
    more
        About how much the second layer has, as a part of the first.
    length
        About what it adds to a group, root mean square over groups, if all of it points the same way.
    groups
        How many groups there are.
    """

    outer: Fraction
    inner: Fraction
    share: Fraction
    more: Fraction
    length: Fraction
    groups: Fraction

    @property
    def bounds(self) -> Bounds:
        """What `layers_of` reads."""
        return (Fraction(0), *self)


def layers_of(bounds: Sequence[Fraction] | None) -> Layers | None:
    """Return the layers in what vectors are clipped to; None where that is one norm."""
    return Layers(*bounds[1:]) if bounds is not None and len(bounds) == 1 + len(Layers._fields) else None


class Combination(NamedTuple):
    """How an answer follows from the noisy numbers of both layers, and how wrong that is.

    Parameters
    ----------
    first, second
        What a number of each counts for.
    spread
        What the variance of the second's noise counts for in that of an answer.
    along
        The same, as a root, beside the number of the first: how uncertain the proportion is, alike for all groups.
    farthest
        Of the group that this and what follows moves most: what the variance of the second's noise counts for in it.
    sized, squared
        What it counts for more in each group by itself, beside the number of the first and its square.
    wider
        How many times as long an interval is as the standard error has it; 1 in records of before this was told.
    doubted
        From how many standard deviations of the second's noise on a group is taken to be off its proportion; 0 where
        none is, as in records of before this was told.
    """

    first: float = 1.0
    second: float = 1.0
    spread: float = 1.0
    along: float = 0.0
    farthest: float = 0.0
    sized: float = 0.0
    squared: float = 0.0
    wider: float = 1.0
    doubted: float = 0.0

    def of_groups(self, groups: int) -> Combination:
        """Return it of sums over so many groups, whose noise has so many times the variance: what moves all does not.

        Of the group that is moved most it is a bound: both layers of all groups are no longer than the second.
        """
        farthest = min(self.farthest * groups, max(self.farthest, 1.0))
        sized, squared = self.sized / groups, self.squared / groups
        return self._replace(along=self.along / math.sqrt(groups), farthest=farthest, sized=sized, squared=squared)

    def errors(self, first: Floats | None, noise: float, beyond: float) -> Floats:
        """Return standard errors of groups; of the one that is moved most where their numbers are not given.

        Parameters
        ----------
        first
            Noisy numbers of the first layer, shape (groups,).
        noise, beyond
            Standard deviations of the noise on both layers.
        """
        moved = np.array([self.farthest]) if first is None else self._moved(first)
        return np.asarray(np.sqrt((self.first * noise) ** 2 + (self.spread + moved) * beyond**2))

    def half_widths(self, first: Floats, second: Floats, noise: float, beyond: float, reach: float) -> Floats:
        """Return half-widths of intervals of groups.

        Parameters
        ----------
        first, second
            Noisy numbers of both layers, shape (groups,).
        noise, beyond
            Standard deviations of the noise on them.
        reach
            How many standard errors an interval reaches.
        """
        return self.wider * reach * self.errors(first, noise, beyond) + self._doubts(first, second, beyond)

    def spreads(self, first: Floats, second: Floats, noise: float, beyond: float) -> Floats:
        """Return the standard deviations of redraws, whose middle 95% are the intervals; arguments as there."""
        return self.half_widths(first, second, noise, beyond, REACH) / REACH

    def by_group(self, first: Floats) -> Floats:
        """Return what the variance of the second's noise counts for in each group by itself, shape (groups,)."""
        return np.asarray(self.spread + self.sized * np.abs(first) + self.squared * first**2)

    def with_farthest(self, first: Floats) -> Combination:
        """Return the same, with what counts for the group that is moved most."""
        return self._replace(farthest=float(self._moved(first).max(initial=0.0)))

    def _moved(self, first: Floats) -> Floats:
        return np.asarray(self.by_group(first) - self.spread + (self.along * first) ** 2)

    def _doubts(self, first: Floats, second: Floats, beyond: float) -> Floats:
        """Return what shrinking may have moved groups whose own numbers are hardly in proportion, shape (groups,)."""
        if not self.doubted:
            return np.zeros(first.shape)
        shrunk = 1.0 - self.second
        off = np.abs(shrunk * second - (self.first - 1.0) * first)
        return np.maximum(off - shrunk * self.doubted * beyond, 0.0)


def foretold(layers: Layers, beyond: float, sizes: Floats | None = None) -> Combination:
    """Return how an answer is expected to follow from both layers, before they are measured.

    Parameters
    ----------
    layers
        What vectors are clipped to.
    beyond
        Standard deviation of the noise on the second layer.
    sizes
        About how large groups are, shape (groups,), where that is known: the largest one's error is foretold.
    """
    largest = LARGEST if sizes is None or sizes.size < 2 else float(sizes.max() ** 2 / (sizes @ sizes))
    apart = (FORETOLD * float(layers.length)) ** 2
    kept = apart / (apart + beyond**2) if apart else 0.0
    return Combination(1.0 + float(layers.more) * (1.0 - kept), kept, kept, 0.0, (1.0 - kept) * largest, wider=WIDER)


def combined(layers: Layers, first: Floats, second: Floats, beyond: float) -> Combination:
    """Return how answers follow from the noisy numbers of both layers.

    Parameters
    ----------
    layers
        What vectors were clipped to.
    first, second
        The noisy numbers of all groups that are shown, shape (groups,).
    beyond
        Standard deviation of the noise on the second layer.
    """
    square = float(first @ first)
    if not square or not beyond:
        return Combination()
    proportion = max(float(second @ first), 0.0) / square
    rest = second - proportion * first
    shrunk = _shrinking(layers, float(rest @ rest) / beyond**2, first.size - 1, beyond)
    off = groups_apart(float(layers.length), first, rest, beyond)
    each, sized, squared = ((shrunk / beyond) ** 2 * part for part in off)
    how = Combination(
        first=1.0 + proportion * shrunk,
        second=1.0 - shrunk,
        spread=(1.0 - shrunk) ** 2 + each,
        along=math.sqrt(shrunk / square),
        sized=sized,
        squared=squared,
        wider=WIDER,
        doubted=DOUBTED,
    )
    return how.with_farthest(first)


def with_combinations(measuring: Measuring, numbers: NDArray[np.int64], noisy: bool = True) -> Measuring:
    """Return what was measured, with how counts and sums follow from both layers, where there are two.

    Parameters
    ----------
    measuring, numbers
        What was measured, and the noisy numbers of the groups that are shown, shape (groups, measured).
    noisy
        Whether there is noise; without, both layers are added up.
    """
    parts = [_with_combination(measuring, part, numbers, noisy) for part in measuring.parts]
    return replace(measuring, parts=tuple(parts))


def without_combinations(measuring: Measuring) -> Measuring:
    """Return what was measured as it was planned: how layers are put together is not known then."""
    return replace(measuring, parts=tuple(replace(part, layers=()) for part in measuring.parts))


def with_combinations_of(released: Measuring, measuring: Measuring) -> Measuring:
    """Return what would be measured by itself, with layers put together as those of a release with the same norms."""
    parts = [
        replace(mine, layers=theirs.layers) if mine.bounds == theirs.bounds else mine
        for mine, theirs in zip(measuring.parts, released.parts, strict=True)
    ]
    return replace(measuring, parts=tuple(parts))


def as_planned(released: Measuring, planned: Measuring, numbers: NDArray[np.int64]) -> Measuring:
    """Return what a release measured with the noise on both layers, and these put together, as expected of a plan.

    Parameters
    ----------
    released, numbers
        What was measured, and the noisy numbers, shape (groups, measured).
    planned
        What will be measured: counts and sums in two layers there too are changed.
    """
    blocks, parts = list(released.blocks), list(released.parts)
    for i, (one, other) in enumerate(zip(released.parts, planned.parts, strict=True)):
        if not one.layers or (layers := layers_of(other.bounds)) is None or len(other.blocks) < 2:
            continue
        before, after = noise_of(released, one), noise_of(planned, other)
        for block, old, new in zip(one.blocks, before, after, strict=True):
            blocks[block] = replace(blocks[block], scale=released.blocks[block].scale * Fraction(new / old))
        how, first = foretold(layers, after[1]), numbers_of(released, one, numbers)[0]
        along = math.sqrt((1.0 - how.second) / max(float(first @ first), 1.0))
        parts[i] = replace(one, layers=tuple(how._replace(along=along)))
    return replace(released, blocks=tuple(blocks), parts=tuple(parts))


def numbers_of(measuring: Measuring, part: AggregateInput, numbers: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the noisy numbers of both layers of an aggregate, in the answer's units, shape (..., groups)."""
    steps = (_step(measuring, block) for block in part.blocks)
    first, second = (
        numbers[..., measuring.place(block).start].astype(np.float64) * step
        for block, step in zip(part.blocks, steps, strict=True)
    )
    return first, second


def noise_of(measuring: Measuring, part: AggregateInput) -> tuple[float, float]:
    """Return the standard deviations of the noise on both layers of an aggregate, in the answer's units."""
    law = measuring.law
    noise, beyond = (
        math.sqrt(law.variance(measuring.blocks[block].scale)) * _step(measuring, block) for block in part.blocks
    )
    return noise, beyond


def _step(measuring: Measuring, block: int) -> float:
    return float(measuring.component(measuring.blocks[block].columns[0]).step)


def _with_combination(
    measuring: Measuring, part: AggregateInput, numbers: NDArray[np.int64], noisy: bool
) -> AggregateInput:
    if not part.found or (layers := layers_of(part.bounds)) is None or len(part.blocks) < 2:
        return part
    found = Combination()
    if noisy:
        found = combined(layers, *numbers_of(measuring, part, numbers), noise_of(measuring, part)[1])
    return replace(part, layers=tuple(map(float, found)))


def _shrinking(layers: Layers, seen: float, degrees: int, beyond: float) -> float:
    """Return by which part what is not in proportion is likely to be noise.

    Parameters
    ----------
    layers, beyond
        What vectors were clipped to, and the standard deviation of the noise on the second layer.
    seen, degrees
        The square of what is not in proportion, in variances of noise, and of how many numbers that is.
    """
    ratios = (np.array(APART) * float(layers.length) / beyond) ** 2
    likely = -degrees / 2 * np.log1p(ratios) - seen / 2 / (1.0 + ratios)
    weights = np.exp(likely - likely.max())
    weights /= weights.sum()
    return float(weights @ (1.0 / (1.0 + ratios)))
