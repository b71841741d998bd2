"""What history knows along one ordered attribute: the variance of the run between any two of some cut points.

A run whose count is determined connects its two cut points; so does a chain of such runs. Cut points fall into groups,
and nothing is known of a run between two groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.planner.information import ANGLES, MIDDLE, Information
from dpnotebook.planner.solved import sums_between

ALIKE = 1e-7  # relative difference of residuals that is rounding

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RunState:
    """Least squares over the runs between neighbouring cut points.

    Parameters
    ----------
    corners
        Covariances of the counts before each cut point, shape (cuts, cuts); only those of differences within a group
        mean anything.
    groups
        The group of each cut point, shape (cuts,).
    """

    corners: Floats
    groups: Indices

    @property
    def cells(self) -> int:
        """Number of runs between neighbouring cut points."""
        return int(self.groups.size) - 1

    def variances(self) -> Floats:
        """Return the variance of the run between any two cut points, infinite where unknown; shape (cuts, cuts)."""
        found = _differences(self.corners)
        found[self.groups[:, None] != self.groups] = np.inf
        return found

    def diffuse(self, prior: float) -> Floats:
        """Return covariances of the counts before each cut point that know of nothing between groups, (cuts, cuts).

        Parameters
        ----------
        prior
            Half of the variance that unknown runs have at least.
        """
        return np.asarray(self.corners + prior * (self.groups[:, None] == self.groups))


@dataclass(frozen=True, eq=False)
class LineIndex:
    """What history knows along an attribute, so that a line at any cut points is summed up in one look through it.

    Parameters
    ----------
    information
        Least squares over the atoms of that attribute. No second matrix of them is kept: covariances are added up over
        what lies between cut points when a line is asked for.
    starts
        First level of every maximal run of levels in one atom, ascending, shape (runs,).
    first
        The first run of each atom, which stands for it, shape (atoms,).
    told
        What the counts before each run tell of a few fixed vectors over the levels, shape (runs + 1, probes).
    wanted
        The sums of those vectors before each level, shape (levels + 1, probes).
    """

    information: Information
    starts: Indices
    first: Indices
    told: Floats
    wanted: Floats

    def line(self, cuts: ArrayLike) -> RunState:
        """Return the line between cut points, ascending; they may cut atoms: of a part of one nothing is known."""
        at = np.asarray(cuts, dtype=np.intp)
        # As when atoms are split: of a run that is cut, the part at its start takes the atom's place.
        before = np.searchsorted(self.starts, at, side="left")
        residuals = self.wanted[at] - self.told[before]
        size = 1 + np.abs(self.wanted[-1]).max(initial=0.0)
        # Of the atoms that are first met between two cut points the sum, then sums of these.
        met = np.searchsorted(before, self.first, side="right")
        corners = sums_between(self.information.inverse, np.where(met < at.size, met, -1), at.size)
        np.cumsum(corners, axis=0, out=corners)
        np.cumsum(corners, axis=1, out=corners)
        return RunState(corners, _alike(residuals, ALIKE * size))


def line_index(information: Information, labels: ArrayLike) -> LineIndex:
    """Return what history knows along an attribute, for lines at any cut points.

    Parameters
    ----------
    information
        Least squares over the atoms of that attribute.
    labels
        The atom of each level, shape (levels,).
    """
    atom_of = np.asarray(labels, dtype=np.intp)
    starts = np.flatnonzero(np.r_[True, atom_of[1:] != atom_of[:-1]])
    _, first = np.unique(atom_of[starts], return_index=True)
    probes = MIDDLE + np.cos(np.arange(1.0, atom_of.size + 1)[:, None] * np.sqrt(ANGLES))
    by_atom = np.zeros((information.atoms, len(ANGLES)))
    np.add.at(by_atom, atom_of, probes)
    of_atoms = information.inverse @ (information.matrix @ by_atom)
    told = np.zeros((starts.size + 1, len(ANGLES)))
    told[1 + first] = of_atoms[atom_of[starts[first]]]
    return LineIndex(
        information,
        starts,
        first,
        np.cumsum(told, axis=0, out=told),
        np.concatenate([np.zeros((1, len(ANGLES))), np.cumsum(probes, axis=0)]),
    )


def _alike(points: Floats, tolerance: float) -> Indices:
    """Return a number for each point that is the same for those that are equal in every coordinate, shape (points,)."""
    groups = np.zeros(len(points), dtype=np.intp)
    for column in points.T:
        order = np.argsort(column)
        steps = np.diff(column[order]) > tolerance
        here = np.zeros(len(points), dtype=np.intp)
        here[order[1:]] = np.cumsum(steps)
        _, groups = np.unique(groups * len(points) + here, return_inverse=True)
    return groups


def _differences(corners: Floats) -> Floats:
    diagonal = np.diagonal(corners)
    return np.asarray(np.maximum(diagonal[:, None] + diagonal - 2 * corners, 0.0))
