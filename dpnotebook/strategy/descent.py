"""A descent over numbers that are at least 0, which can be put down and taken up again where it was.

Several of them are begun, and the better ones go on without losing what they know. A step is that of L-BFGS over the
numbers that are free to move (one that is 0 and would become less is not, nor one that may be no larger), cut off where
numbers would leave their range, and made shorter until the value falls by enough.

Source: Bertsekas 1982, two-metric projection; Nocedal 1980 for the direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from dpnotebook.workload.base import Array

MEMORY = 5  # steps that are remembered: with 10, as is usual, each takes longer and few are saved
ENOUGH = 1e-4  # of the decrease that the slope promises, which a step must have (Armijo)
SHORTER = 0.1, 0.5  # times as long is a step that was too long, at least and at most
TRIES = 25  # lengths of a step
NOTHING = 1e-9  # of the value: a step that gains less is the last
FLAT = 1e-10  # entry of the gradient below which it is none
CURVED = float(np.finfo(float).eps)  # of the squared change of the gradient: a step with less curvature is forgotten

Function = Callable[[Array], tuple[float, Array]]


class Descending(Protocol):
    """A descent from a point, as far as it has gone."""

    point: Array
    value: float

    def go(self, steps: int, tolerance: float, patience: int = 1) -> None:
        """Go on by so many steps at most, until the value falls by less than a share of it."""


class LibraryDescent:
    """The library's L-BFGS-B, which begins anew whenever it goes on, and takes longer for a step.

    Parameters
    ----------
    function, start, largest
        As for `BoundedDescent`.
    """

    def __init__(self, function: Function, start: Array, largest: float) -> None:
        self._function, self._largest = function, largest
        self.point, self.value = start, math.inf

    def go(self, steps: int, tolerance: float, patience: int = 1) -> None:
        """Go on by so many steps at most; it ends where the value falls by less than a share of it in one."""
        from scipy.optimize import minimize

        found = minimize(
            self._function,
            self.point,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, self._largest)] * self.point.size,
            options={"maxiter": steps, "maxfun": 2 * steps, "ftol": tolerance, "gtol": FLAT},
        )
        self.point, self.value = found.x, float(found.fun)


class BoundedDescent:
    """A descent from a point, as far as it has gone.

    Parameters
    ----------
    function
        Returns the value at a point and its gradient.
    start
        Where it begins, shape (n,), from 0 to `largest`.
    largest
        What no number may be above.
    """

    def __init__(self, function: Function, start: Array, largest: float) -> None:
        self._function, self._largest = function, largest
        self.point = start
        self.value, self._gradient = function(start)
        self._known: list[tuple[Array, Array]] = []  # what was moved, and how the gradient changed
        self._ended = False

    def go(self, steps: int, tolerance: float, patience: int = 1) -> None:
        """Go on by so many steps at most; it ends where there is nothing more to gain.

        Parameters
        ----------
        steps
            At most.
        tolerance, patience
            It stops where the value fell by less than this share of it in so many steps.
        """
        values = [self.value]
        for _ in range(steps):
            if self._ended:
                break
            self._step()
            values.append(self.value)
            if len(values) > patience and values[-1 - patience] - self.value <= tolerance * abs(self.value):
                break

    def _step(self) -> None:
        down, up = self._gradient > 0, self._gradient < 0  # where the number would become less, and more
        free = ~((self.point <= 0) & down | (self.point >= self._largest) & up)
        slope = np.where(free, self._gradient, 0.0)
        if np.abs(slope).max(initial=0.0) < FLAT:
            self._ended = True
            return
        direction = self._direction(slope, free)
        length = 1.0
        if direction is None:
            self._known, direction = [], slope
            length = min(1.0, 1 / float(np.linalg.norm(slope)))
        for _ in range(TRIES):
            point = np.clip(self.point - length * direction, 0.0, self._largest)
            value, gradient = self._function(point)
            moved = point - self.point
            promised = float(self._gradient @ moved)
            if value <= self.value + ENOUGH * promised:
                break
            # The least of the parabola through what is known, within limits.
            curve = 2 * (value - self.value - promised)
            length *= min(SHORTER[1], max(SHORTER[0], -promised / curve)) if curve > 0 else SHORTER[1]
        else:
            self._ended, self._known = not self._known, []  # once more, straight down
            return
        changed = gradient - self._gradient
        if float(moved @ changed) > CURVED * float(changed @ changed):
            self._known = [*self._known[1 - MEMORY :], (moved, changed)]
        self._ended = self.value - value <= NOTHING * abs(value)
        self.point, self.value, self._gradient = point, value, gradient

    def _direction(self, slope: Array, free: Array) -> Array | None:
        """Return the direction of L-BFGS over what is free; None where nothing is known, or it would go up."""
        pairs = self._known if free.all() else [(moved * free, changed * free) for moved, changed in self._known]
        curved = [(moved, changed, bend) for moved, changed in pairs if (bend := float(moved @ changed)) > 0]
        if not curved:
            return None
        found, shares = slope.copy(), []
        for moved, changed, bend in reversed(curved):
            shares.append(float(moved @ found) / bend)
            found -= shares[-1] * changed
        _, changed, bend = curved[-1]
        found *= bend / float(changed @ changed)
        for (moved, changed, bend), share in zip(curved, reversed(shares), strict=True):
            found += (share - float(changed @ found) / bend) * moved
        return found if float(found @ slope) > 0 else None
