"""Measurements over one histogram as one source of answers, and what a source says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpnotebook.planner.answers import Floats
from dpnotebook.planner.known_part import Key
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis
from dpnotebook.strategy.strategy import Reconstruction
from dpnotebook.workload import Marginals, Workload

MOST_SUMMED = 2 * 10**7  # weights of noisy numbers in all boxes of all answers


@dataclass(frozen=True)
class Draws:
    """Where the numbers of recorded measurements of the same queries are among those of a source.

    Parameters
    ----------
    precisions
        The measurements of the same queries, with one over the variance of the numbers of each.
    columns
        Their places in the source.
    share
        What each counts for in the number of the source, times its precision.
    numbers
        Which numbers of a measurement they are.
    """

    precisions: Mapping[Key, float]
    columns: slice
    share: float
    numbers: slice


@dataclass(frozen=True, eq=False)
class MeasuredHistogram:
    """Measurements over one histogram, as one measurement with equal noise on every number.

    Parameters
    ----------
    where
        The rows that were counted.
    axes
        The sides of the histogram.
    operator
        The queries over its cells.
    noisy
        The numbers, shape (queries,).
    variance
        Of each number.
    draws
        Which recorded numbers they are made of.
    """

    where: Predicate
    axes: tuple[Axis, ...]
    operator: Workload
    noisy: Floats
    variance: float
    draws: tuple[Draws, ...]

    @property
    def marginals(self) -> bool:
        """Whether these are marginals."""
        return isinstance(self.operator, Marginals)


@dataclass(frozen=True, eq=False)
class JointNumbers:
    """Numbers of measurements over several histograms that are one source, of unit variance each.

    Parameters
    ----------
    noisy, draws
        As in `MeasuredHistogram`.
    """

    noisy: Floats
    draws: tuple[Draws, ...]


@dataclass(frozen=True, eq=False)
class Determined:
    """What one source says of the answers.

    Parameters
    ----------
    source
        The measurements.
    reconstruction
        How answers follow from them.
    variances
        Of every answer, infinite where it is not determined; shape (answers,).
    """

    source: MeasuredHistogram | JointNumbers
    reconstruction: Reconstruction
    variances: Floats
