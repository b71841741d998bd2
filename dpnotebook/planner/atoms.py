"""Atoms: the coarsest partition of the cells of some attributes that every measurement so far respects.

Predicates of any shape refine it: cells that no measurement tells apart stay in one atom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Atoms:
    """A partition of the product of some attributes' levels.

    Parameters
    ----------
    sizes
        Number of levels of each attribute, in the order of the axes of the cells.
    labels
        The atom of every cell, cells in C order, shape (cells,).
    first
        One cell of every atom, shape (atoms,).
    """

    sizes: Mapping[str, int]
    labels: Indices
    first: Indices

    @cached_property
    def count(self) -> int:
        """Number of atoms."""
        return int(self.first.size)

    @property
    def every(self) -> bool:
        """Whether all cells are told apart."""
        return self.first.size == self.labels.size

    def refined(self, values: NDArray[Any]) -> tuple[Atoms, Indices]:
        """Return the coarsest finer partition in which `values` are the same in all cells of an atom.

        Parameters
        ----------
        values
            Any whole number a cell, shape (cells,).

        Returns
        -------
        The finer atoms, of which the first so many lie in the present ones in order, and for each the present atom in
        which it lies.
        """
        if self.every:
            return self, np.arange(self.count)
        here = values[self.first]
        moved = np.flatnonzero(values != here[self.labels])
        if not moved.size:
            return self, np.arange(self.count)
        kinds = values[moved] - values.min()
        pairs = self.labels[moved] * (int(kinds.max()) + 1) + kinds  # one number a pair: far faster to sort
        _, where, which = np.unique(pairs, return_index=True, return_inverse=True)
        labels = self.labels.copy()
        labels[moved] = self.count + which
        first = np.concatenate([self.first, moved[where]])
        return Atoms(self.sizes, labels, first), np.concatenate([np.arange(self.count), self.labels[moved[where]]])


def every_cell(sizes: Mapping[str, int]) -> Atoms:
    """Return the partition that tells all cells apart."""
    cells = np.arange(math.prod(sizes.values()))
    return Atoms(dict(sizes), cells, cells)


def one_atom(sizes: Mapping[str, int]) -> Atoms:
    """Return the partition that tells no cells apart."""
    cells = math.prod(sizes.values())
    return Atoms(dict(sizes), np.zeros(cells, dtype=np.intp), np.zeros(1, dtype=np.intp))


def places(axes: Sequence[Axis], where: Predicate, domain: Domain, names: Sequence[str]) -> Indices:
    """Return for each cell its place in a histogram, -1 where it takes no part.

    Parameters
    ----------
    axes
        The sides of the histogram.
    where
        Which rows take part.
    domain, names
        The attributes whose cells are meant, among them those of the axes and of the predicate.

    Returns
    -------
    Shape (product of the attributes' sizes,), C order of the names.
    """
    sizes = domain.sizes
    shape = tuple(sizes[name] for name in names)
    total = np.zeros(shape, dtype=np.intp)
    absent = np.zeros(shape, dtype=bool)
    for axis in axes:
        along = [1] * len(shape)
        position = names.index(axis.attribute)
        along[position] = shape[position]
        index = np.full(shape[position], -1, dtype=np.intp)
        index[list(axis.levels)] = np.arange(axis.size)
        total = total * axis.size + index.reshape(along)
        absent |= (index < 0).reshape(along)
    if not where.is_everything:
        inside = where.attributes
        mask = where.dense(inside)
        order = [names.index(name) for name in inside]
        mask = mask.transpose(np.argsort(order))
        absent |= ~mask.reshape([shape[i] if i in order else 1 for i in range(len(shape))])
    return np.where(absent, -1, total).reshape(-1)
