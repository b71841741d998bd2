"""Least squares over a tree of block counts, without a matrix.

The normal matrix of a hierarchy is the identity plus one all-ones block a node, so its inverse follows from the leaves
upwards by the Sherman-Morrison formula: (A'A)^-1 = I - sum over inner nodes v of u_v u_v' / (1 + 1'u_v), where u_v is
the inverse one level below applied to ones, restricted to the cells of v. The terms of one level depend on the levels
below it alone, so a tree that is cut at some level keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpnotebook.workload.base import Array
from dpnotebook.workload.hierarchy import Hierarchy, depth


@dataclass(frozen=True)
class TreeLevel:
    """One level of inner nodes: `u` over all cells, and 1 / (1 + 1'u) of each node."""

    size: int
    u: Array
    shrink: Array


def tree_levels(tree: Hierarchy) -> list[TreeLevel]:
    """Return the terms of the inverse of the tree's normal matrix, level by level from the leaves."""
    levels = []
    u = np.ones(tree.n)
    for size in tree.sizes[1:]:
        shrink = 1 / (1 + np.add.reduceat(u, np.arange(0, tree.n, size)))
        levels.append(TreeLevel(size, u, shrink))
        u = u * np.repeat(shrink, size)[: tree.n]
    return levels


@dataclass(frozen=True)
class Gain:
    """What one level of nodes takes off the error, as a sum of `coefficients` times energies of [starts, ends).

    The error |W A^+|_F^2 of a tree is |W|_F^2 less the gains of its levels (see `Workload.energy`).
    """

    starts: Array
    ends: Array
    coefficients: Array


def gains(n: int, branching: int) -> list[Gain]:
    """Return the gain of every level above the leaves of the full tree: sum over its nodes of u'Gu / (1 + 1'u).

    In a full node u is constant. In the short last node it is constant on few pieces, cut at t_0 < ... < t_p; with its
    steps d_i there (they sum to zero), u'Gu = - sum over i < j of d_i d_j energy(t_i, t_j).
    """
    result = []
    value, below, tail = 1.0, 1, _Pieces([n], [])
    for level in range(1, depth(n, branching)):
        size = branching**level
        shrink = 1 / (1 + size * value)
        starts = np.arange(0, n - size + 1, size)
        coefficients = np.full(starts.size, value**2 * shrink)
        tail = tail.extended(n // size * size, n // below * below, value)
        tail_shrink = 1 / (1 + tail.sum())
        cuts, steps = tail.steps()
        i, j = np.triu_indices(len(cuts), 1)
        result.append(
            Gain(
                np.concatenate((starts, cuts[i])),
                np.concatenate((starts + size, cuts[j])),
                np.concatenate((coefficients, -steps[i] * steps[j] * tail_shrink)),
            )
        )
        tail = tail.scaled(tail_shrink)
        value, below = value * shrink, size
    return result


@dataclass(frozen=True)
class _Pieces:
    """A function that is constant between neighbouring cuts, over the short last node of a level."""

    cuts: list[int]
    values: list[float]

    def extended(self, start: int, until: int, value: float) -> _Pieces:
        """Return the function with `value` on the full nodes [start, until) that precede it."""
        return _Pieces([start, *self.cuts], [value, *self.values]) if start < until else self

    def scaled(self, factor: float) -> _Pieces:
        return _Pieces(self.cuts, [value * factor for value in self.values])

    def sum(self) -> float:
        return float(np.dot(np.diff(self.cuts), self.values)) if self.values else 0.0

    def steps(self) -> tuple[Array, Array]:
        """Return the cuts and the step up of the function at each."""
        return np.array(self.cuts, dtype=np.int64), np.diff([0.0, *self.values, 0.0])
