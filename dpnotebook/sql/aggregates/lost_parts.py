"""What bounds take from counts and sums, as a part of what is left of them, and how far intervals reach for it.

What norms, bounds of values and rows that do not count take lies mostly where the rest is: a group with twice as much
has lost about twice as much. So it is told in proportion to the answer, which holds for groups that are added up, or
left out, as it does for each. In which group the few are that lose most is chance, of which a group of half of all has
most, and all together have none. What is taken makes a sum smaller, whatever its sign.

So an answer is taken to be off by normal noise and by one half of a normal number, in one direction, and by one half of
another in the other: what is skew normal, after Azzalini, A class of distributions which includes the normal ones
(1985). Intervals end where it does, with what is beyond alike at both ends, and redraws are drawn from it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.laws import Noise
from dpnotebook.privacy.tails import kappa
from dpnotebook.sql.aggregates.measuring import AggregateInput

Floats = NDArray[np.float64]

FARTHEST = 1e6  # times the noise: what moves answers by more hides it
STEPS = 5
ENDLESS = 1e40  # times an answer is farther off in redraws where nothing tells how far
ENDS_FROM = 5  # where what is said of ends is in what is told
NO_END = 1e30  # what is farther than this is as far as nothing tells


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
    endless_down, endless_up
        1 where nothing tells how much smaller, or larger, an answer is without bounds: its interval has no end there.
    """

    more: float = 0.0
    less: float = 0.0
    chance: float = 0.0
    whole: float = 0.0
    either: float = 0.0
    endless_down: float = 0.0
    endless_up: float = 0.0

    @property
    def told(self) -> tuple[float, ...]:
        """The same as it is recorded: what is said of ends only where one is missing."""
        kept = tuple(map(float, self))
        return kept if self.endless_down or self.endless_up else kept[:ENDS_FROM]

    def moves(self, values: Floats, noise: Floats | float) -> tuple[Floats, Floats]:
        """Return standard deviations of how much smaller answers may be without bounds, and how much larger.

        What they may be off in either direction is not in it.

        Parameters
        ----------
        values, noise
            The noisy answers, and the standard deviation of their noise.
        """
        size = np.abs(values) + noise
        away, back = np.hypot(self.more * size, self.by_chance(size)), self.less * size
        below = values < 0.0
        return np.where(below, away, back), np.where(below, back, away)

    def reach(
        self, values: Floats, noise: Floats | float, widths: Floats, confidence: float, law: Noise
    ) -> tuple[Floats, Floats]:
        """Return how far down, and how far up, intervals of answers reach.

        Parameters
        ----------
        values, noise
            As for `moves`.
        widths
            How far they reach for the noise alone.
        confidence, law
            Of the intervals, and of the noise.
        """
        either = np.hypot(widths, kappa(confidence, law) * self.either)
        below, above = reach_of(either, self.moves(values, noise), confidence, law)
        return (np.full_like(below, np.inf) if self.endless_down else below), (
            np.full_like(above, np.inf) if self.endless_up else above
        )

    def by_chance(self, size: Floats) -> Floats:
        """Return the standard deviation of what falls on groups by chance, given the size of their answers."""
        rest = np.maximum(1.0 - size / max(self.whole, 1e-300), 0.0)
        return np.asarray(np.sqrt(self.chance * size * rest))

    def redrawn(self, values: Floats, noise: Floats, in_common: Floats, own: Floats, either: Floats) -> Floats:
        """Return what is lost from answers, drawn again, shape (draws, groups).

        Parameters
        ----------
        values, noise
            As for `moves`.
        in_common, own, either
            Draws of variance 1: the same for all groups, shape (draws, 1); one for each, shape (draws, groups); and the
            same for all of what may be off in either direction, shape (draws, 1).
        """
        size, sign = np.abs(values) + noise, np.where(values < 0.0, -1.0, 1.0)
        alike, chance = self.more * size, self.by_chance(size)
        away = np.hypot(alike, chance)
        drawn = np.where(away > 0.0, (alike * in_common + chance * own) / np.maximum(away, 1e-300), in_common)
        found = sign * np.where(drawn > 0.0, away, self.less * size) * drawn + self.either * either
        for endless, side in ((self.endless_down, -1.0), (self.endless_up, 1.0)):
            if endless:  # as likely as not, in proportion as all that is lost; far, and still a number
                found = np.where(side * in_common > 0.0, ENDLESS * size * in_common, found)
        return np.asarray(found)

    def of_groups(self, groups: int) -> LostParts:
        """Return it of sums over so many groups: what is told of one for itself adds up, as it is the same for all."""
        return self._replace(either=self.either * groups)


def lost_of(part: AggregateInput) -> LostParts:
    """Return what bounds take from an aggregate: nothing where nothing is told."""
    return LostParts(*part.lost)


def reach_of(widths: Floats, moves: tuple[Floats, Floats], confidence: float, law: Noise) -> tuple[Floats, Floats]:
    """Return how far down, and how far up, intervals reach that know of noise and of what moves answers.

    Parameters
    ----------
    widths
        How far they reach for the noise alone.
    moves
        Standard deviations of normal numbers, of which one half moves answers down, and one half moves them up.
    confidence, law
        Of the intervals, and of the noise.
    """
    reach = kappa(confidence, law)
    down, up = (np.asarray(reach * side, dtype=float) for side in moves)
    known = np.maximum(widths, np.maximum(np.maximum(down, up) / FARTHEST, 1e-300))
    ends = (known * _skewed(side / known, other / known, confidence) for side, other in ((down, up), (up, down)))
    below, above = (np.where(np.maximum(down, up) > 0.0, end, widths) for end in ends)
    return below, above


def _skewed(side: Floats, other: Floats, confidence: float) -> Floats:
    """Return how many times as far as one of normal noise an interval reaches that half of what moves it makes longer.

    Parameters
    ----------
    side, other
        Standard deviations of what moves answers in that direction, and in the other, as parts of that of the noise.
    confidence
        Of the interval.
    """
    from scipy.special import ndtr, ndtri, owens_t

    beyond = (1.0 - confidence) / 2
    usual = float(ndtri(1.0 - beyond))
    length, against = np.hypot(1.0, side), np.hypot(1.0, other)
    end = usual * length
    for _ in range(STEPS):  # of Newton, on the logarithm of what is beyond
        near, far = end / length, end / against
        tail = (ndtr(-near) + ndtr(-far)) / 2 + owens_t(near, side) - owens_t(far, other)
        density = _normal(near) / length * ndtr(side * near) + _normal(far) / against * ndtr(-other * far)
        end = end + tail * np.log(tail / beyond) / density
    return np.asarray(np.maximum(end, 0.0) / usual)


def _normal(places: Floats) -> Floats:
    return np.asarray(np.exp(-(places**2) / 2) / math.sqrt(2 * math.pi))
