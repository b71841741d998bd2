"""What each draw of noise counts for in some answers, over the parts of measurements that a block holds.

Of many parts, mostly counts of one range each, all are looked at in one product: part by part nearly all time would go
into what numpy does once a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.cell_counts import CountsOfCells
from dpnotebook.planner.known_part import NEGLIGIBLE, Key, KnownPart

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

MANY = 32  # parts, from which on they are stacked, so many at a time,
AT_ONCE = 2**18  # or as many as have so many atoms together


class StackedParts:
    """The queries of many parts below each other, over the same atoms.

    Parameters
    ----------
    parts
        At least one.
    atoms
        Number of atoms.
    queries
        What multiplies them, where that is known to take less than entry by entry.
    """

    def __init__(self, parts: Sequence[KnownPart], atoms: int, queries: CountsOfCells | None = None) -> None:
        self.parts = tuple(parts)
        sizes = [part.queries for part in parts]
        self._starts = np.cumsum([0, *sizes])
        self._queries = _below_each_other(parts, atoms) if queries is None else queries
        self._precision = np.repeat([part.total for part in parts], sizes)
        for place in [place for place, part in enumerate(parts) if part.summed is not None]:
            self._precision[self._numbers(place)] = parts[place].precision
        # The number of one draw each is that draw: which part each such number is of.
        self._of = np.repeat(np.arange(len(parts)), sizes)
        single = [len(part.repeats) == 1 and part.summed is None and part.part.totals is None for part in parts]
        self._single = np.array(single)[self._of]
        self._keys = [next(iter(part.repeats)) if part.repeats else (0, 0) for part in parts]
        self._others = [place for place, one in enumerate(single) if not one]

    def weights(self, coefficients: Floats) -> list[tuple[KnownPart, Floats]]:
        """Return what each noisy number counts for in answers with coefficients z, shape (m, atoms), by part."""
        found = self._weights(coefficients)
        return [(part, found[:, self._numbers(place)]) for place, part in enumerate(self.parts)]

    def peaks(self, coefficients: Floats) -> Floats:
        """Return the most that a noisy number of each part counts for in answers, shape (m, parts)."""
        return self._largest(np.abs(self._weights(coefficients)))

    def draws(self, coefficients: Floats, most: int) -> tuple[Floats, list[Key]] | None:
        """Return what each draw of noise counts for in answers with coefficients z, as `draws_of` does."""
        weights = self._weights(coefficients)
        sizes = np.abs(weights).max(axis=0, initial=0.0)
        largest = np.maximum(self._largest(sizes[None])[0], 1e-300)
        kept = np.flatnonzero(self._single & (sizes > NEGLIGIBLE * largest[self._of]))
        if kept.size > most:
            return None
        others = ((self.parts[place], weights[:, self._numbers(place)]) for place in self._others)
        found = draws_of(others, len(weights), most - kept.size)
        if found is None:
            return None
        keys = [self._keys[at] for at in self._of[kept].tolist()]
        return np.concatenate([weights[:, kept], found[0]], axis=1), [*keys, *found[1]]

    def _largest(self, numbers: Floats) -> Floats:
        """Return the largest number of each part, at least 0; shape (m, numbers) to (m, parts)."""
        found = np.zeros((len(numbers), len(self.parts)))
        some = np.flatnonzero(np.diff(self._starts))
        found[:, some] = np.maximum.reduceat(numbers, self._starts[some], axis=1)
        return found

    def _weights(self, coefficients: Floats) -> Floats:
        columns = np.ascontiguousarray(coefficients.T)
        queries = self._queries
        found: Floats = queries.times(columns) if isinstance(queries, CountsOfCells) else np.asarray(queries @ columns)
        return np.asarray(found.T * self._precision)

    def _numbers(self, place: int) -> slice:
        return slice(int(self._starts[place]), int(self._starts[place + 1]))


def _below_each_other(parts: Sequence[KnownPart], atoms: int) -> csr_array:
    """Return the queries of parts, those of a few at a time: written out, they take many times their room."""
    from scipy.sparse import csr_array

    values, columns, ends = [], [], [np.zeros(1, dtype=np.int64)]
    for start in range(0, len(parts), at_once := max(MANY, AT_ONCE // atoms)):
        chosen = parts[start : start + at_once]
        counts = all(part.columns is None for part in chosen)
        some = _of_counts(chosen) if counts else _of_entries(chosen, atoms)
        # Of counts an eighth of the room, if all are.
        values.append(some.data.astype(np.int8) if (some.data == 1).all() else some.data)
        columns.append(some.indices.astype(np.int32))
        ends.append(ends[-1][-1] + some.indptr[1:])
    shape = (sum(part.queries for part in parts), atoms)
    indices = np.concatenate(columns)
    return csr_array((np.concatenate(values), indices, np.concatenate(ends).astype(np.int32)), shape=shape)


def _of_counts(parts: Sequence[KnownPart]) -> csr_array:
    """Return the queries of disjoint counts below each other: of each part every atom is in one at most."""
    from scipy.sparse import csc_array

    before = np.cumsum([0, *(part.queries for part in parts)])
    groups = np.stack([part.atoms for part in parts], axis=1)  # shape (atoms, parts)
    inside = groups >= 0
    rows = (groups + before[:-1].astype(np.int32))[inside]
    ends = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    return csc_array((np.ones(rows.size, dtype=np.int8), rows, ends), shape=(before[-1], len(groups))).tocsr()


def _of_entries(parts: Sequence[KnownPart], atoms: int) -> csr_array:
    """Return the queries of any parts below each other."""
    from scipy.sparse import csr_array

    entries = [part.entries() for part in parts]
    before = np.cumsum([0, *(part.queries for part in parts)])
    rows = np.concatenate([queries + first for (queries, *_), first in zip(entries, before, strict=False)])
    places = np.concatenate([at for _, at, _ in entries])
    return csr_array((np.concatenate([own for *_, own in entries]), (rows, places)), shape=(before[-1], atoms))


def draws_of(weighted: Iterable[tuple[KnownPart, Floats]], answers: int, most: int) -> tuple[Floats, list[Key]] | None:
    """Return what each draw of noise counts for in some answers, and the measurement it is of.

    Parameters
    ----------
    weighted
        Parts, and what the mean of each of their noisy numbers counts for, shape (answers, queries).
    answers
        How many answers there are.
    most
        Draws; None is returned where there are more.

    Returns
    -------
    Shape (answers, draws), and one key a draw.
    """
    columns: list[Floats] = [np.zeros((answers, 0))]
    keys: list[Key] = []
    for part, weights in weighted:
        own = part.draws(weights)
        own = own[:, np.abs(own).max(axis=0) > NEGLIGIBLE * np.abs(own).max(initial=1e-300)]
        if len(keys) + own.shape[1] * len(part.repeats) > most:
            return None
        if own.size:
            shares, draws = part.shares, own.shape[1]
            each = own[:, None, :] * np.array([*shares.values()])[None, :, None]
            columns.append(each.reshape(answers, -1))
            keys.extend(key for key in shares for _ in range(draws))
    return np.concatenate(columns, axis=1), keys
