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

So intervals hold over all groups of a statement, 95 to 99 times of 100. Those of a group that is unlike the others, as
far as its noise hides that, hold less often: less than 93.5 times in one to six groups of 100, by the kind of table.
Limiting by how much a group is shrunk (Efron and Morris, 1971) made that hardly rarer, and errors up to twice as large.
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
from dpnotebook.sql.aggregates.measuring import AggregateInput, Measuring

Floats = NDArray[np.float64]

# What of the second layer is not in proportion to the first: alike likely before anything is seen, and what is expected
# where errors are foretold.
APART = (0.02, 0.035, 0.06, 0.1, 0.17, 0.3, 0.5, 0.85)
FORETOLD = 0.1
LARGEST = 0.5  # of the squares of all groups, that of the largest where nothing is known: of 50 by Zipf's law .6 is


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
        Of the group that this moves most: what the variance of the second's noise counts for in it.
    """

    first: float = 1.0
    second: float = 1.0
    spread: float = 1.0
    along: float = 0.0
    farthest: float = 0.0

    def of_groups(self, groups: int) -> Combination:
        """Return it of sums over so many groups, whose noise has so many times the variance: what moves all does not.

        Of the group that is moved most it is a bound: both layers of all groups are no longer than the second.
        """
        farthest = min(self.farthest * groups, max(self.farthest, 1.0))
        return self._replace(along=self.along / math.sqrt(groups), farthest=farthest)

    def errors(self, first: Floats | None, noise: float, beyond: float) -> Floats:
        """Return standard errors of groups; of the one that is moved most where their numbers are not given.

        Parameters
        ----------
        first
            Noisy numbers of the first layer, shape (groups,).
        noise, beyond
            Standard deviations of the noise on both layers.
        """
        moved = np.array([self.farthest]) if first is None else (self.along * first) ** 2
        return np.asarray(np.sqrt((self.first * noise) ** 2 + (self.spread + moved) * beyond**2))


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
    return Combination(1.0 + float(layers.more) * (1.0 - kept), kept, kept, 0.0, (1.0 - kept) * largest)


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
    shrunk, variance = _shrinking(layers, float(rest @ rest) / beyond**2, first.size - 1, beyond)
    spread = 1.0 - shrunk + variance * float(rest @ rest) / rest.size / beyond**2
    along = math.sqrt(shrunk / square)
    return Combination(
        1.0 + proportion * shrunk, 1.0 - shrunk, spread, along, float(((along * first) ** 2).max(initial=0.0))
    )


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


def _shrinking(layers: Layers, seen: float, degrees: int, beyond: float) -> tuple[float, float]:
    """Return by which part what is not in proportion is likely to be noise, and the variance of that.

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
    noise = 1.0 / (1.0 + ratios)
    mean = float(weights @ noise)
    return mean, float(weights @ (noise - mean) ** 2)
