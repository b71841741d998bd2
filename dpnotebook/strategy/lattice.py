"""A union of products seen from the subsets of its attributes.

In each attribute a query is split into what it asks of the total and what it asks beyond: W = (W z) 1' + W (I - z 1').
With alpha = |W z|^2 and beta the variance of the rest, the loss of a subset S of attributes is

    L_S = sum over products whose attributes contain S of w^2 prod_(i in S) beta_i prod_(i outside S) alpha_i,

and every strategy of (weighted) marginals has the error sum over S of L_S / p_S, p_S being what it measures of S.
Source: HDMM, Theorems 9 to 11 (for Identity and Total); the residual basis of marginals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import Workload
from dpnotebook.workload.base import Array
from dpnotebook.workload.terms import SparseTerm, sparse_terms

ENTRIES = 2**25  # pairs of a product and a subset of its attributes
PAIRS = 2**22  # of sets of attributes that are looked at at a time
LOOK_UP = 16  # sets are compared with one in the time that one of its subsets is looked up
BITS = 62  # attributes whose subsets are the bits of one integer

Subset = tuple[int, ...]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Group:
    """Products over the same number k of attributes.

    Parameters
    ----------
    squares
        Squared weights, shape (terms,).
    axes
        Positions of the attributes, ascending, shape (terms, k).
    factors
        Number of the query factor among all, shape (terms, k).
    """

    squares: Array
    axes: Integers
    factors: Integers


@dataclass(frozen=True)
class Lattice:
    """A union of products over the same attributes.

    Parameters
    ----------
    sizes
        Cells of each attribute.
    kinds
        The distinct query factors of each attribute, Total excepted; their numbers run through all attributes.
    groups
        The products, by how many attributes they ask of.
    """

    sizes: tuple[int, ...]
    kinds: tuple[tuple[Workload, ...], ...]
    groups: tuple[Group, ...]

    @property
    def attribute(self) -> Integers:
        """The attribute of each query factor, shape (factors,)."""
        return np.repeat(np.arange(len(self.sizes)), [len(kinds) for kinds in self.kinds])

    @cached_property
    def subsets(self) -> list[Subset]:
        """Every set of attributes within one product's attributes: small ones first, then in order."""
        return self._indexed[0]

    @cached_property
    def flags(self) -> Flags:
        """Which attributes are in each of `subsets`, shape (subsets, attributes)."""
        flags = np.zeros((len(self.subsets), len(self.sizes)), dtype=bool)
        row = np.repeat(np.arange(len(flags)), [len(subset) for subset in self.subsets])
        flags[row, np.array([axis for subset in self.subsets for axis in subset], dtype=np.int64)] = True
        return flags

    def losses(self, alpha: Array, beta: Array) -> Array:
        """Return L_S of every subset, shape (subsets,), for alpha and beta of every factor, shape (factors,)."""
        values = np.concatenate([self._values(group, alpha, beta).ravel() for group in self.groups])
        return np.bincount(self._indexed[1], weights=values, minlength=len(self.subsets))

    def coefficients(self, alpha: Array, beta: Array) -> Any:
        """Return what each product adds to every loss, sparse, shape (products, subsets); its sums are `losses`."""
        from scipy.sparse import csr_array

        values = [self._values(group, alpha, beta) for group in self.groups]
        rows = np.concatenate([np.full(len(value), value.shape[1]) for value in values])
        ends = np.concatenate(([0], np.cumsum(rows)))
        data = np.concatenate([value.ravel() for value in values])
        return csr_array((data, self._indexed[1], ends), shape=(len(rows), len(self.subsets)))

    def sensitivities(self, alpha: Array, beta: Array, slopes: Array) -> tuple[Array, Array]:
        """Return the derivatives of sum over S of slopes_S L_S with respect to alpha and beta, each (factors,)."""
        of_alpha, of_beta = np.zeros(alpha.size), np.zeros(beta.size)
        first = 0
        for group in self.groups:
            count, k = group.axes.shape
            picked = slopes[self._indexed[1][first : first + count * 2**k]].reshape(count, 2**k)
            first += count * 2**k
            for position in range(k):
                # The product without its factor at this position: alpha and beta of that factor are one.
                one = np.ones_like(alpha)
                values = self._values(group, alpha, beta, (position, one)) * picked
                halves = values.reshape(count, 2**position, 2, -1).sum(axis=(1, 3))
                np.add.at(of_alpha, group.factors[:, position], halves[:, 0])
                np.add.at(of_beta, group.factors[:, position], halves[:, 1])
        return of_alpha, of_beta

    def _values(self, group: Group, alpha: Array, beta: Array, without: tuple[int, Array] | None = None) -> Array:
        """Return what each product adds to each subset of its attributes, shape (terms, 2^k)."""
        values = group.squares[:, None]
        for position, factor in enumerate(group.factors.T):
            a, b = (alpha, beta) if without is None or without[0] != position else (without[1], without[1])
            pair = np.stack((a[factor], b[factor]), axis=-1)
            values = (values[:, :, None] * pair[:, None, :]).reshape(len(values), -1)
        return values

    @cached_property
    def _indexed(self) -> tuple[list[Subset], Integers]:
        d = len(self.sizes)
        narrow, kind = _numbering(d, max(group.axes.shape[1] for group in self.groups))
        keys = np.concatenate([_keys(group.axes, d, narrow, kind).ravel() for group in self.groups])
        unique, place = np.unique(keys, return_inverse=True)
        found = _decoded(unique, d, narrow)
        order = sorted(range(len(found)), key=lambda i: (len(found[i]), found[i]))
        rank = np.empty(len(found), dtype=np.int64)
        rank[order] = np.arange(len(found))
        return [found[i] for i in order], rank[place]


def lattice(workload: Workload, *, repeats: Literal["add up", "count once"] = "add up") -> Lattice:
    """Return a union of products as a lattice.

    Parameters
    ----------
    workload
        The union.
    repeats
        Whether the squared weights of equal products add up, as in a total, or the largest counts.

    Raises
    ------
    WorkloadError
        If its products are over different attributes, or over so many that their subsets do not fit in memory.
    """
    found = sparse_terms(workload)
    if found is None:
        raise WorkloadError("a strategy over subsets of the attributes needs products over the same attributes")
    sizes, parts = found
    if not is_lattice(parts):
        raise WorkloadError("the subsets of the attributes of this workload's products are too many")
    return _grouped(sizes, parts, repeats == "add up")


def is_lattice(parts: Sequence[SparseTerm]) -> bool:
    """Return whether the subsets of the attributes of all these products fit in memory."""
    return sum(2.0 ** len(part.axes) for part in parts) <= ENTRIES


def _grouped(sizes: tuple[int, ...], parts: Sequence[SparseTerm], adding: bool) -> Lattice:
    numbers: list[dict[int, int]] = [{} for _ in sizes]  # by identity first: hashing 10^5 workloads is slow
    kinds: list[dict[Workload, int]] = [{} for _ in sizes]
    merged: dict[tuple[Subset, tuple[int, ...]], float] = {}
    for part in parts:
        which = []
        for axis, factor in zip(part.axes, part.factors, strict=True):
            number = numbers[axis].get(id(factor))
            if number is None:
                number = numbers[axis][id(factor)] = kinds[axis].setdefault(factor, len(kinds[axis]))
            which.append(number)
        key = (part.axes, tuple(which))
        known, square = merged.get(key, 0.0), float(part.weight) ** 2
        merged[key] = known + square if adding else max(known, square)
    offsets = np.concatenate(([0], np.cumsum([len(found) for found in kinds])))
    groups = []
    for k in sorted({len(axes) for axes, _ in merged}):
        mine = [(axes, which, square) for (axes, which), square in merged.items() if len(axes) == k]
        axes = np.array([axes for axes, _, _ in mine], dtype=np.int64).reshape(len(mine), k)
        local = np.array([which for _, which, _ in mine], dtype=np.int64).reshape(len(mine), k)
        groups.append(Group(np.array([square for _, _, square in mine]), axes, offsets[axes] + local))
    return Lattice(sizes, tuple(tuple(found) for found in kinds), tuple(groups))


def pairs_within(measured: Flags, asked: Flags) -> tuple[Integers, Integers]:
    """Return which sets of attributes are within which others, pair by pair, in the order of the others.

    Where a set has few subsets each is looked up; only where it has many all that is asked is gone through, so that
    tens of thousands of small sets take neither the time nor the memory of a table of all pairs.

    Parameters
    ----------
    measured, asked
        Sets as rows of truth values, shapes (measured, attributes) and (asked, attributes); those asked are distinct.

    Returns
    -------
    Two arrays of shape (pairs,): the number of the measured set, ascending, and that of the asked one within it,
    ascending for each.
    """
    d = measured.shape[1]
    outer, inner = _by_size(measured), _by_size(asked)
    narrow, kind = _numbering(d, max((axes.shape[1] for _, axes in (*outer, *inner)), default=0))
    order, numbers = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=kind)
    if inner:
        order = np.concatenate([rows for rows, _ in inner])
        numbers = np.concatenate([_whole_keys(axes, d, narrow, kind) for _, axes in inner])
        by_number = np.argsort(numbers, kind="stable")
        order, numbers = order[by_number], numbers[by_number]
    found = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
    for rows, axes in outer if inner else ():
        k = axes.shape[1]
        looked_up = 2**k * LOOK_UP <= len(asked)
        step = max(1, PAIRS // (2**k if looked_up else len(asked)))
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            if looked_up:
                keys = _keys(axes[some], d, narrow, kind)
                place = np.minimum(np.searchsorted(numbers, keys), len(numbers) - 1)
                which, column = np.nonzero(numbers[place] == keys)
                within = order[place[which, column]]
            else:
                which, within = np.nonzero(_inside(measured[rows[some]], asked))
            found.append((rows[some][which], within))
    ones, others = (np.concatenate(side) for side in zip(*found, strict=True))
    ascending = np.lexsort((others, ones))
    return ones[ascending], others[ascending]


def _inside(measured: Flags, asked: Flags) -> Flags:
    """Return which asked sets are within which measured ones, shape (measured, asked)."""
    inside = np.ones((len(measured), len(asked)), dtype=bool)
    for outside, needed in zip(~as_words(measured).T, as_words(asked).T, strict=True):
        inside &= (outside[:, None] & needed[None, :]) == 0
    return inside


def as_words(sets: Flags) -> NDArray[np.uint64]:
    """Return sets of attributes as bits, 64 to a number, shape (sets, numbers)."""
    d = sets.shape[1]
    padded = np.zeros((len(sets), -(-d // 64) * 64), dtype=bool)
    padded[:, :d] = sets
    return np.packbits(padded, axis=1).view(np.uint64)


def _by_size(sets: Flags) -> list[tuple[Integers, Integers]]:
    """Return the sets of each number of attributes: their numbers, and their attributes, ascending."""
    sizes = sets.sum(axis=1)
    groups = []
    for k in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == k)
        groups.append((rows, np.nonzero(sets[rows])[1].reshape(len(rows), k)))
    return groups


def _numbering(d: int, largest: int) -> tuple[bool, Any]:
    """Return whether sets of d attributes, at most so many of them, are numbers to the base of two, and of which type.

    Else to the base of as many as there are attributes: exact Python ones if need be.
    """
    narrow = d <= BITS
    return narrow, np.int64 if narrow or (d + 1) ** largest < 2**BITS else object


def _whole_keys(axes: Integers, d: int, narrow: bool, kind: Any) -> Array:
    """Return the number of every row of attributes, shape (rows,): the last of `_keys`."""
    keys = np.zeros(len(axes), dtype=kind)
    for column in axes.T:
        number = column.astype(kind)
        keys = keys + 2**number if narrow else keys * (d + 1) + (number + 1)
    return keys


def _keys(axes: Integers, d: int, narrow: bool, kind: Any) -> Array:
    """Return the number of every subset of every row of attributes, shape (terms, 2^k), in the order of `_values`."""
    keys = np.zeros((len(axes), 1), dtype=kind)
    for column in axes.T:
        number = column.astype(kind)[:, None]
        more = keys + 2**number if narrow else keys * (d + 1) + (number + 1)
        keys = np.stack((keys, more), axis=-1).reshape(len(axes), -1)
    return keys


def _decoded(keys: Array, d: int, narrow: bool) -> list[Subset]:
    if narrow:
        return [tuple(i for i in range(d) if key >> i & 1) for key in keys.tolist()]
    subsets = []
    for key in keys.tolist():
        subset: list[int] = []
        while key:
            key, digit = divmod(key, d + 1)
            subset.append(digit - 1)
        subsets.append(tuple(reversed(subset)))
    return subsets
