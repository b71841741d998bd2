"""What measurements of the same queries say, and how a block holds it: over atoms, and by draws of noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.product_terms import ProductTerm

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Classes = NDArray[np.signedinteger[Any]]
NEGLIGIBLE = 1e-9  # a weight so much below the largest moves no interval

Key = tuple[int, int]
Name = tuple[str, int]


@dataclass(eq=False, slots=True)  # never changed, but a frozen one takes three times as long to make
class Observation:
    """What all measurements of the same queries say, one part of theirs: as much as one, of all their precision.

    Parameters
    ----------
    asked
        Equal for measurements of the same queries.
    index
        Which of their parts.
    part
        Its queries.
    precision
        One over the variance of each answer, added up over the measurements.
    weighted
        Precision times answer, added up, shape (queries,).
    repeats
        The measurements, at least one, with one over the variance of each number.
    """

    asked: str
    index: int
    part: ProductTerm
    precision: float
    weighted: Floats
    repeats: Mapping[Key, float]

    @property
    def name(self) -> Name:
        """Which queries these are."""
        return self.asked, self.index


@dataclass(eq=False, slots=True)  # never changed, as above
class KnownPart:
    """A part of recorded measurements of the same queries, as the block holds it.

    Parameters
    ----------
    part
        Its queries.
    columns
        Its distinct columns times its weight, shape (queries, classes); None for disjoint counts, one a class.
    of_atoms
        The class of every atom, -1 for none; as small integers as hold it, there is one such array a measurement. Or
        what works it out: of a thousand tables over the same cells hardly ever one is looked at by itself.
    queries
        How many queries there are.
    summed
        Of how many of the part's answers each of these is the sum, shape (queries,); None where it is one.
    total, weighted, repeats
        What the measurements said up to now, as in `Observation`; of sums as if each were one answer.
    """

    part: ProductTerm
    columns: Floats | None
    of_atoms: Classes | Callable[[], Classes]
    queries: int
    summed: Indices | None = None
    total: float = 0.0
    weighted: Floats | float = field(default=0.0, repr=False)
    repeats: Mapping[Key, float] = field(default_factory=dict, repr=False)

    @property
    def atoms(self) -> Classes:
        """The class of every atom, -1 for none."""
        return self.of_atoms() if callable(self.of_atoms) else self.of_atoms

    @property
    def precision(self) -> float | Floats:
        """One over the variance of each answer; shape (queries,) where they are sums of different numbers of draws."""
        return self.total if self.summed is None else self.total / self.summed

    @property
    def shares(self) -> dict[Key, float]:
        """What each measurement counts for in the mean of all: their precision says."""
        whole = sum(self.repeats.values())
        return {key: precision / whole for key, precision in self.repeats.items()}

    def finer(self, parents: Indices) -> KnownPart:
        """Return the same over finer atoms, each of which lies in the one that is given; of many in little time."""
        atoms, of = self.atoms[parents], self
        return KnownPart(of.part, of.columns, atoms, of.queries, of.summed, of.total, of.weighted, of.repeats)

    def entries(self) -> tuple[NDArray[Any], NDArray[Any], Floats]:
        """Return what is not 0 in its queries over the atoms: the query, the atom and the value of each."""
        atoms = self.atoms
        inside = np.flatnonzero(atoms >= 0).astype(np.int32)
        if self.columns is None:
            return atoms[inside].astype(np.int32), inside, np.ones(inside.size)
        rows = self.columns[:, atoms[inside]]
        queries, places = np.nonzero(rows)
        return queries, inside[places], rows[queries, places]

    def weights(self, coefficients: Floats) -> Floats:
        """Return what the mean of each noisy answer counts for in answers with coefficients z, shape (m, atoms).

        Shape (m, queries).
        """
        atoms, count = self.atoms, coefficients.shape[0]
        inside = atoms >= 0
        classes = self.queries if self.columns is None else self.columns.shape[1]
        bins = np.arange(count)[:, None] * classes + atoms[inside]
        own = np.bincount(bins.ravel(), coefficients[:, inside].ravel(), count * classes).reshape(count, classes)
        return np.asarray((own if self.columns is None else own @ self.columns.T) * self.precision)

    def draws(self, weights: Floats) -> Floats:
        """Return what each draw of a single measurement would count for; (rows, queries) to (rows, draws)."""
        if self.summed is not None:
            weights = np.repeat(weights, self.summed, axis=1)
        if self.part.totals is not None:
            weights = np.einsum("ij,k->ijk", weights, self.part.totals).reshape(weights.shape[0], -1)
        return weights

    def powers(self, weights: Floats, powers: Sequence[int]) -> Floats:
        """Return sums of powers of the standard deviations of all draws in some answers, shape (rows, powers).

        Parameters
        ----------
        weights
            What the mean of each noisy number counts for, shape (rows, queries).
        powers
            At least 1 each.
        """
        found, shares = [], np.sqrt(np.fromiter(self.repeats.values(), float, len(self.repeats)))
        shares /= (shares**2).sum()
        times = 1 if self.summed is None else self.summed
        for power in powers:
            size = float((shares**power).sum())
            size *= 1.0 if self.part.totals is None else float((np.abs(self.part.totals) ** power).sum())
            found.append((np.abs(weights) ** power * times).sum(axis=1) * size)
        return np.stack(found, axis=1)


@dataclass(frozen=True, eq=False)
class Sums:
    """Disjoint counts of a part, summed over classes of cells.

    Parameters
    ----------
    told
        The counts: of the measurements their sums, one a class.
    cells
        The class of every cell, -1 for none, shape (cells,).
    summed
        Of how many counts each is the sum, shape (classes,).
    """

    told: Observation
    cells: Indices
    summed: Indices
