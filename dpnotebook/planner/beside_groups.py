"""What counts of groups would be answered with if some of them were measured too, over these counts alone.

What is known of the groups by classes of levels is their covariance, and of each what is not determined: numbers that
are noisy counts of some of them change both by a regression on as many numbers (Gauss-Markov). Classes that tell the
question's own levels apart, and matrices over them, are made only where something else is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.inference.beside_rows import beside
from dpnotebook.inference.row_space import RESIDUAL, SolvedRows
from dpnotebook.planner.exchangeable import ByClasses
from dpnotebook.planner.in_closed_form import ROUNDING, SAFE, InClosedForm
from dpnotebook.planner.items import Item
from dpnotebook.planner.known_part import NEGLIGIBLE, Key
from dpnotebook.planner.product_terms import ProductTerm, is_identity
from dpnotebook.planner.sources import Determined
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Measurement

MOST_GROUPS = 600  # of a question, whose covariance is looked at
MOST_CHOSEN = 64  # boxes that the groups that are measured fall into

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BesideGroups:
    """Counts of groups, as if some of them had been measured.

    Parameters
    ----------
    asked
        The question, by classes of levels over all that was measured.
    found
        How the counts are answered; without weights.
    gain
        What each further number counts for, shape (answers, numbers).
    measured
        The counts that these are, shape (numbers,).
    key
        The measurement of these.
    least_scale
        The least scale of noise that anything was measured with.
    """

    asked: InClosedForm
    found: SolvedRows
    gain: Floats
    measured: Indices
    key: Key
    least_scale: float

    @property
    def step(self) -> float:
        """What one integer is worth in the answer's units."""
        return self.asked.step

    @property
    def reach(self) -> float:
        """The most that a draw of noise can count for in an answer, in steps."""
        return self.asked.reach

    @property
    def count(self) -> int:
        """Number of answers."""
        return self.asked.count

    @cached_property
    def variances(self) -> Floats:
        """Variance of each answer, infinite where it were not known, shape (answers,)."""
        return np.where(self.found.determined, np.diagonal(self.found.covariance), np.inf)

    @property
    def alike(self) -> Indices:
        """For each answer one whose noise has the same law: where all are measured, as they are before."""
        return self.asked.alike if self.measured.size == self.count else np.arange(self.count)

    def estimates(self) -> tuple[Floats, Floats]:
        """Return answers, of which nothing is known yet, and their variances, each of shape (answers,)."""
        return np.zeros(self.count), self.variances

    def draws(self, rows: Indices, most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in some answers, and what it is of, as in `OverAtoms`."""
        (one,) = self.asked.found
        reconstruction = one.reconstruction
        assert isinstance(reconstruction, ByClasses)
        own = self.gain[rows]
        kept = np.abs(own).max(axis=0, initial=0.0) > max(NEGLIGIBLE * np.abs(own).max(initial=0.0), ROUNDING)
        if int(kept.sum()) > most:
            return None
        columns, keys = [own[:, kept]], [self.key] * int(kept.sum())
        mixtures = np.zeros((rows.size, self.count))
        mixtures[np.arange(rows.size), rows] = 1.0
        mixtures[:, self.measured] -= own
        weights = reconstruction.mixtures(mixtures[:1])
        if rows.size > 1:
            # Of many draws the first answer has too many already.
            least = max(NEGLIGIBLE * SAFE * math.sqrt(float(self.variances[rows].max())), ROUNDING)
            if len(keys) + self._drawn(one, np.abs(weights[0]), least) > most:
                return None
            weights = np.concatenate([weights, reconstruction.mixtures(mixtures[1:])])
        sizes = np.abs(weights).max(axis=0)
        least = max(NEGLIGIBLE * float(sizes.max(initial=1e-300)), ROUNDING)
        for draws in one.source.draws:
            for key, precision in draws.precisions.items():
                share = draws.share * precision
                some = np.flatnonzero(abs(share) * sizes[draws.columns] > least)
                if len(keys) + some.size > most:
                    return None
                counted = weights[:, draws.columns][:, some] * share
                near = np.rint(counted)
                columns.append(np.where(np.abs(counted - near) < ROUNDING, near, counted))
                keys += [key] * some.size
        return np.concatenate(columns, axis=1), keys

    @staticmethod
    def _drawn(one: Determined, sizes: Floats, least: float) -> int:
        """Return how many draws numbers are of that count for more than the least."""
        count = 0
        for draws in one.source.draws:
            each = np.abs(draws.share * np.array([*draws.precisions.values()]))
            count += int(np.count_nonzero(each[:, None] * sizes[draws.columns] > least))
        return count

    def sources(self) -> tuple[int, ...]:
        """Return nothing: what is only supposed has no number."""
        return ()


def beside_groups(
    asked: InClosedForm, part: ProductTerm, also: Sequence[Item], told: frozenset[str], least_scale: float
) -> BesideGroups | None:
    """Return counts of groups as they would be answered if some of them were measured.

    Parameters
    ----------
    asked, part
        The question, by classes of levels, and its queries.
    also
        What is supposed to be measured.
    told
        The attributes of which something was measured, or is to be.
    least_scale
        Of all noise.

    Returns
    -------
    None where what is known is not all that was measured, or something else is measured.
    """
    if len(also) != 1 or not asked.joint or not asked.whole or asked.count > MOST_GROUPS:
        return None
    reconstruction, (item,) = asked.found[0].reconstruction, also
    if not isinstance(reconstruction, ByClasses) or item.refines is not None or not told <= {*reconstruction.names}:
        return None
    if not reconstruction.information.told.has_room(item.measurement):
        return None
    if (measured := _groups_of(item.measurement, part)) is None:
        return None
    covariance, left = reconstruction.jointly()
    known = np.abs(left).max(axis=1, initial=0.0) <= RESIDUAL
    rows = SolvedRows(left[:, :0], covariance, left, known)
    own = np.full(measured.size, 1 / item.variance)
    found, gain = beside(rows, rows.some(measured), covariance[:, measured], own, np.ones(asked.count))
    return BesideGroups(asked, found, gain, measured, item.key, least_scale)


def _groups_of(measurement: Measurement, part: ProductTerm) -> Indices | None:
    """Return which groups of a question are measured; None where its numbers are others than counts of groups."""
    if measurement.axes != part.axes or not is_identity(measurement.operator) or not is_identity(part.operator):
        return None
    if measurement.where.key == part.where.key:
        return np.arange(part.operator.shape[0])
    boxes = measurement.where.products()
    if len(boxes) > MOST_CHOSEN:
        return None
    chosen: Predicate | None = None
    for box in boxes:
        sides = {axis.attribute: box[axis.attribute] for axis in part.axes if axis.attribute in box}
        own = Predicate.box(part.where.domain, sides)
        chosen = own if chosen is None else chosen | own
    if chosen is None or measurement.where.key != (part.where & chosen).key:
        return None
    inside = chosen.dense([axis.attribute for axis in part.axes])
    found: Indices = np.flatnonzero(inside[np.ix_(*(axis.levels for axis in part.axes))])
    return found
