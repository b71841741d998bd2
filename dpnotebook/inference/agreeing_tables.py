"""Tables over some of the attributes each, projected onto those that agree wherever they overlap.

What `marginal_algebra` says for any measurements, for counts of every cell, and as products with sparse matrices: these
are made once and applied to all tables together, as an iteration needs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.workload.base import Array, require_memory
from dpnotebook.workload.marginals import Subset

Integers = NDArray[np.int64]
ENTRY = 1.5  # floats that an entry of a sparse matrix takes: its value and its place


@dataclass(frozen=True, eq=False)
class AgreeingTables:
    """Tables that are weighted, one below the other in a vector of all their cells.

    Parameters
    ----------
    sizes
        Cells of each attribute.
    weights
        What each table is multiplied by, by its attributes.
    """

    sizes: tuple[int, ...]
    weights: Mapping[Subset, float]

    def cells_of(self, subset: Subset) -> int:
        """Return the number of cells of some attributes."""
        return math.prod(self.sizes[i] for i in subset)

    @cached_property
    def parts(self) -> dict[Subset, slice]:
        """Where in a vector of all parts what varies within a subset of attributes is, smaller subsets first."""
        within = {
            part for table in self.weights for size in range(len(table) + 1) for part in combinations(table, size)
        }
        found, first = {}, 0
        for subset in sorted(within, key=lambda s: (len(s), s)):
            found[subset] = slice(first, first := first + self.cells_of(subset))
        return found

    @cached_property
    def precisions(self) -> dict[Subset, float]:
        """What the tables tell of each part: the squared weights of those that have it, by the cells that share it."""
        found = dict.fromkeys(self.parts, 0.0)
        for table, weight in self.weights.items():
            for part in _subsets(table):
                found[part] += weight**2 * self.cells_of(part) / self.cells_of(table)
        return found

    def per_part(self, values: Mapping[Subset, float]) -> Array:
        """Return a number for every subset as a vector of all parts."""
        return np.repeat([values[part] for part in self.parts], [self.cells_of(part) for part in self.parts])

    def estimates(self, tables: Array) -> Array:
        """Return the parts that are nearest to the tables, in a vector of all parts."""
        return self._centred(self._means @ tables) / self._precision

    def tables_of(self, parts: Array) -> Array:
        """Return the tables that parts make."""
        return np.asarray(self._spread @ parts)

    def _centred(self, parts: Array) -> Array:
        """Return of each part what varies within all of its attributes."""
        return np.asarray(parts + self._back @ (self._signs * (self._sums @ parts)))

    @cached_property
    def _precision(self) -> Array:
        return self.per_part(self.precisions)

    @cached_property
    def _means(self) -> Any:
        """The sparse matrix from tables to means, shape (cells of all parts, cells of all tables)."""
        first, blocks = 0, []
        for table, weight in self.weights.items():
            for part in _subsets(table):
                share = weight * self.cells_of(part) / self.cells_of(table)
                blocks.append((self._places(table, part), self.parts[part].start, first, share))
            first += self.cells_of(table)
        return self._matrix(blocks, self._length, first)

    @cached_property
    def _spread(self) -> Any:
        return self._means.T.tocsr()

    @cached_property
    def _below(self) -> list[tuple[Subset, Subset]]:
        """Every part with each that is in it, itself left out."""
        return [(part, inner) for part in self.parts for inner in _subsets(part) if inner != part]

    @cached_property
    def _sums(self) -> Any:
        """The sparse matrix from parts to their sums over some of their attributes."""
        first, blocks = 0, []
        for part, inner in self._below:
            blocks.append((self._places(part, inner), first, self.parts[part].start, 1.0))
            first += self.cells_of(inner)
        return self._matrix(blocks, first, self._length)

    @cached_property
    def _signs(self) -> Array:
        """What each of these sums counts for: inclusion and exclusion."""
        shares = [(-1) ** (len(s) - len(t)) * self.cells_of(t) / self.cells_of(s) for s, t in self._below]
        return np.repeat(np.array(shares, dtype=float), [self.cells_of(inner) for _, inner in self._below])

    @cached_property
    def _back(self) -> Any:
        return self._sums.T.tocsr()

    @property
    def _length(self) -> int:
        return sum(map(self.cells_of, self.parts))

    def _places(self, table: Subset, part: Subset) -> Integers:
        """Return for each cell of a table which cell of a part it adds to."""
        return _places(tuple(self.sizes[i] for i in table), tuple(i in part for i in table))

    def _matrix(self, blocks: Sequence[tuple[Integers, int, int, float]], rows: int, columns: int) -> Any:
        """Return a sparse matrix from where each block's entries are, and what they are."""
        from scipy.sparse import csr_array

        counts = [places.size for places, _, _, _ in blocks]
        require_memory(math.ceil(2 * ENTRY * sum(counts)), "the sums of these tables")
        width = np.int32 if max(rows, columns, sum(counts)) < 2**31 else np.int64
        row, column = np.empty(sum(counts), dtype=width), np.empty(sum(counts), dtype=width)
        at = 0
        for places, down, right, _ in blocks:
            row[at : at + places.size] = places + down
            column[at : at + places.size] = np.arange(right, right + places.size)
            at += places.size
        values = np.repeat([value for *_, value in blocks], counts)
        return csr_array((values, (row, column)), shape=(rows, columns))


def _subsets(subset: Subset) -> Iterator[Subset]:
    for size in range(len(subset) + 1):
        yield from combinations(subset, size)


@lru_cache(maxsize=64)
def _places(shape: tuple[int, ...], kept: tuple[bool, ...]) -> Integers:
    sizes = [n for n, keep in zip(shape, kept, strict=True) if keep]
    along = [n if keep else 1 for n, keep in zip(shape, kept, strict=True)]
    found = np.broadcast_to(np.arange(math.prod(sizes)).reshape(along), shape).reshape(-1)
    found.setflags(write=False)
    return found
