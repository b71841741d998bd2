"""What bounds take from counts and sums, as a part of what is left of them, and how far intervals reach for it.

What norms, bounds of values and rows that do not count take lies mostly where the rest is: a group with twice as much
has lost about twice as much. So it is told in proportion to the answer, which holds for groups that are added up, or
left out, as it does for each. In which group the few are that lose most is chance, of which a group of half of all has
most, and all together have none. What is taken makes a sum smaller, whatever its sign.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.sql.aggregates.measuring import AggregateInput

Floats = NDArray[np.float64]


class LostParts(NamedTuple):
    """What bounds take from counts or sums, as `AggregateInput` has it.

    Parameters
    ----------
    more, less
        Standard deviation of what an answer is farther from 0 without bounds, and nearer to it, as a part of itself.
    chance
        Variance of what falls on a group by chance, over its answer, where that is a small part of all.
    whole
        The size of all answers together.
    either
        Standard deviation of what a group may be off in either direction, where signs are mixed.
    """

    more: float = 0.0
    less: float = 0.0
    chance: float = 0.0
    whole: float = 0.0
    either: float = 0.0

    def moves(self, values: Floats, noise: Floats | float) -> tuple[Floats, Floats]:
        """Return standard deviations of how much smaller answers may be without bounds, and how much larger.

        Parameters
        ----------
        values, noise
            The noisy answers, and the standard deviation of their noise.
        """
        size = np.abs(values) + noise
        away = np.sqrt((self.more * size) ** 2 + self.by_chance(size) ** 2 + self.either**2)
        back = np.hypot(self.less * size, self.either)
        below = values < 0.0
        return np.where(below, away, back), np.where(below, back, away)

    def by_chance(self, size: Floats) -> Floats:
        """Return the standard deviation of what falls on groups by chance, given the size of their answers."""
        rest = np.maximum(1.0 - size / max(self.whole, 1e-300), 0.0)
        return np.asarray(np.sqrt(self.chance * size * rest))

    def redrawn(self, values: Floats, in_common: Floats, own: Floats) -> Floats:
        """Return what is lost from answers that were redrawn, shape (draws, groups).

        Parameters
        ----------
        values
            These, without that.
        in_common, own
            Draws of variance 1: the same for all groups, shape (draws, 1), and one for each, shape (draws, groups).
        """
        size, sign = np.abs(values), np.where(values < 0.0, -1.0, 1.0)
        away = self.more * size * in_common + self.by_chance(size) * own
        moved = np.where(away > 0.0, away, self.less * size * np.minimum(in_common, 0.0))
        return np.asarray(sign * moved + self.either * in_common)

    def of_groups(self, groups: int) -> LostParts:
        """Return it of sums over so many groups: what is told of one for itself adds up, as it is the same for all."""
        return self._replace(either=self.either * groups)


def lost_of(part: AggregateInput) -> LostParts:
    """Return what bounds take from an aggregate: nothing where nothing is told."""
    return LostParts(*part.lost)
