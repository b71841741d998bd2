"""What history knows along one ordered attribute: the variance of the run between any two of some cut points.

A run whose count is determined connects its two cut points; so does a chain of such runs. Cut points fall into groups,
and nothing is known of a run between two groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotebook.reuse.information import Information

ALIKE = 1e-7  # relative difference of residuals that is rounding
PROBES = (2.0, 3.0, 5.0)

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Line:
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
        return self.corners + prior * (self.groups[:, None] == self.groups)


def line_of_covariance(covariance: ArrayLike, connected: ArrayLike | None = None) -> Line:
    """Return the line whose runs between neighbouring cut points have these covariances, all known unless said.

    Parameters
    ----------
    covariance
        Shape (cells, cells).
    connected
        Groups of the cut points, shape (cells + 1,).
    """
    matrix = np.asarray(covariance, dtype=float)
    corners = np.zeros((len(matrix) + 1, len(matrix) + 1))
    corners[1:, 1:] = matrix.cumsum(axis=0).cumsum(axis=1)
    groups = np.zeros(len(corners), dtype=np.intp) if connected is None else np.asarray(connected, dtype=np.intp)
    return Line(corners, groups)


def line_of(information: Information, labels: ArrayLike, cuts: ArrayLike) -> Line:
    """Return what history knows along an attribute.

    Parameters
    ----------
    information
        Least squares over the atoms of that attribute.
    labels
        The atom of each level, shape (levels,).
    cuts
        Cut points, ascending, from 0 to the number of levels: a run is the levels from one to before another. They may
        cut atoms: of a part of an atom nothing is known.
    """
    atom_of, at = np.asarray(labels, dtype=np.intp), np.asarray(cuts, dtype=np.intp)
    cells, atoms = at.size - 1, information.atoms
    cell_of = np.searchsorted(at, np.arange(atom_of.size), side="right") - 1
    cell_of[(cell_of >= cells) | (cell_of < 0)] = cells  # beyond the cut points
    parts, first = np.unique(atom_of * (cells + 1) + cell_of, return_index=True)
    part_atom, part_cell = atom_of[first], cell_of[first]
    # As when atoms are split: one part of each, no matter which, takes the atom's place in the generalised inverse.
    kept = np.full(atoms, cells, dtype=np.intp)
    kept[part_atom[::-1]] = part_cell[::-1]
    rows = _summed(information.inverse, kept, cells)
    # A run is determined if q - X G q vanishes; a few fixed vectors see whether it does.
    probes = 1.5 + np.cos(np.arange(1.0, parts.size + 1)[:, None] * np.sqrt(PROBES))
    by_atom = np.zeros((atoms, len(PROBES)))
    np.add.at(by_atom, part_atom, probes)
    wanted = np.zeros((cells + 1, len(PROBES)))
    np.add.at(wanted, part_cell, probes)
    residuals = np.zeros((cells + 1, len(PROBES)))
    residuals[1:] = np.cumsum(wanted[:cells] - rows @ (information.matrix @ by_atom), axis=0)
    size = 1 + np.abs(wanted[:cells]).sum(axis=0).max(initial=0.0)
    return line_of_covariance(_summed(rows.T, kept, cells), _alike(residuals, ALIKE * size))


def _summed(values: Floats, places: Indices, count: int) -> Floats:
    """Return the sums of the rows that have each place, those of place `count` left out; shape (count, columns)."""
    order = np.argsort(places, kind="stable")
    order = order[: int(np.searchsorted(places[order], count))]
    found = np.zeros((count, values.shape[1]))
    if order.size:
        present, starts = np.unique(places[order], return_index=True)
        found[present] = np.add.reduceat(values[order], starts, axis=0)
    return found


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
