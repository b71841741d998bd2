"""Past queries in groups that share one price: disjoint selections, measured at the same variance (section IV)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpnotebook.planner.pioneer.plans import cost

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

FIRST_ROWS = 16  # of the arrays of selections, which double as they fill
SAME = 1e-9  # relative difference of variances that is rounding
ROUNDING = 1 + 1e-12  # by which a spend may pass the dearest, and be free


@dataclass(frozen=True)
class PastQuery:
    """A count that was measured with Laplace noise.

    Parameters
    ----------
    mask
        Which atoms it selects; shape (atoms,).
    variance
        Of its noise now.
    group
        Queries of one group select no row in common and have the same variance: their price is paid once; None: it is
        alone.
    refinable
        Whether it can be made more accurate at the difference of the prices.
    """

    mask: Mask
    variance: float
    group: Hashable = None
    refinable: bool = True

    def label(self, position: int) -> Hashable:
        """Return the label of its group; a query without one is a group by itself."""
        return ("alone", position) if self.group is None else self.group


@dataclass(frozen=True)
class Use:
    """What a group can do for a question: `members` of its answers meet the question.

    They and `extra`, the part of the question outside the group, sum up to the question and `beyond`. `terms` is the
    number of answers at the group's variance in that sum.
    """

    group: int
    variance: float
    terms: int
    extra: Mask
    beyond: Mask
    extends: bool
    sticks_out: bool

    @property
    def total(self) -> float:
        """The variance of the sum."""
        return self.terms * self.variance


class Groups:
    """Groups of past queries and the spend of every atom, in epsilon.

    Parameters
    ----------
    atoms
        Number of atoms.
    spend
        What has been spent on each atom already by something that is in no group; nothing by default.
    """

    def __init__(self, atoms: int, spend: Floats | None = None) -> None:
        self.spend: Floats = np.zeros(atoms) if spend is None else np.array(spend, dtype=float)
        self.variances: list[float] = []
        self.refinable: list[bool] = []
        self.members: list[int] = []
        self._sizes: list[int] = []
        self._masks = np.zeros((FIRST_ROWS, atoms), dtype=np.float32)
        self._unions = np.zeros((FIRST_ROWS, atoms), dtype=np.float32)

    @classmethod
    def of(cls, past: Sequence[PastQuery], atoms: int, spend: Floats | None = None) -> tuple[Groups, list[int]]:
        """Return the groups of recorded queries, and the number of each query's group.

        What belongs to a group by its label but not by its selection or its variance (another planner may have refined
        one query of it) starts a group of its own.
        """
        groups = cls(atoms)
        numbers: dict[Hashable, int] = {}
        where = []
        for i, query in enumerate(past):
            at = numbers.get(query.label(i))
            apart = at is None or groups.meets(at, query.mask)
            if at is None or apart or not math.isclose(groups.variances[at], query.variance, rel_tol=SAME):
                at = numbers[query.label(i)] = groups.add(query.mask, query.variance, refinable=query.refinable)
            else:
                groups.extend(at, query.mask)
                groups.refinable[at] &= query.refinable
            where.append(at)
        if spend is not None:
            groups.spend = np.array(spend, dtype=float)
        return groups, where

    @property
    def epsilon(self) -> float:
        """The spend of the dearest atom."""
        return float(self.spend.max(initial=0))

    def add(self, mask: Mask, variance: float, *, refinable: bool = True) -> int:
        """Measure a selection as a new group; return its number."""
        self.variances.append(variance)
        self.refinable.append(refinable)
        self._unions = _grown(self._unions, len(self.variances))
        self._measure(len(self.variances) - 1, mask)
        return len(self.variances) - 1

    def extend(self, group: int, mask: Mask) -> None:
        """Measure one more selection at a group's variance; it meets none of the group."""
        self._measure(group, mask)

    def refine(self, group: int, variance: float) -> None:
        """Make every answer of a group more accurate."""
        self.spend[self.union(group)] += cost(variance) - cost(self.variances[group])  # eq. 4
        self.variances[group] = variance

    def after(self, refine: Sequence[tuple[int, float]], measure: Sequence[tuple[Mask, float, int | None]]) -> Floats:
        """Return the spend of every atom after measuring selections, some into groups, and refining groups."""
        spend = self.spend.copy()
        lower = dict(refine)
        for group, variance in refine:
            spend[self.union(group)] += cost(variance) - cost(self.variances[group])
        for mask, variance, into in measure:
            spend[mask] += cost(variance if into is None else lower.get(into, variance))
        return spend

    def meets(self, group: int, mask: Mask) -> bool:
        """Return whether a selection has an atom in common with a group's."""
        return bool(self._unions[group][mask].any())

    def union(self, group: int) -> Mask:
        """Return the atoms that a group selects."""
        union: Mask = self._unions[group] > 0
        return union

    def inside(self, asked: Mask) -> tuple[list[int], NDArray[np.bool_]]:
        """Return the group of every past query that selects nothing but part of the question, and what it selects."""
        masks = self._masks[: len(self.members)]
        common = masks @ asked.astype(np.float32)
        within = np.flatnonzero((common > 0) & (common == np.array(self._sizes)))
        return [self.members[i] for i in within], masks[within] > 0

    def uses(self, asked: Mask, variance: float, k: int) -> list[Use]:
        """Return the uses of the k groups of lowest total variance, best first.

        The total counts what sticks out of the question as one more query of the question's variance. A group that
        does not cover the question comes into question only where its extension is free: no atom of it would have
        spent more than the dearest has.
        """
        count = len(self.variances)
        if not count or not k:
            return []
        vector = asked.astype(np.float32)
        masks, owner = self._masks[: len(self.members)], np.array(self.members)
        common = masks @ vector
        meeting = common > 0
        sticking = meeting & (np.array(self._sizes) > common)
        wider = self._unions[:count] @ vector < vector.sum()
        terms = np.bincount(owner, meeting, count) + wider
        totals = terms * np.array(self.variances) + variance * (np.bincount(owner, sticking, count) > 0)
        spend, most, found = self.spend.copy(), self.epsilon * ROUNDING, []
        for group in np.argsort(totals, kind="stable"):
            extends, price = bool(wider[group]), cost(self.variances[group])
            extra = asked & ~self.union(group) if extends else _nothing(asked)
            if extends:
                if (spend[extra] + price > most).any():
                    continue
                spend[extra] += price
            mine = meeting & (owner == group)
            out = bool((sticking & mine).any())
            beyond = (masks[mine].sum(axis=0) > 0) & ~asked if out else _nothing(asked)
            found.append(Use(int(group), self.variances[group], int(terms[group]), extra, beyond, extends, out))
            if len(found) == k:
                break
        return found

    def _measure(self, group: int, mask: Mask) -> None:
        self.members.append(group)
        self._sizes.append(int(mask.sum()))
        self._masks = _grown(self._masks, len(self.members))
        self._masks[len(self.members) - 1] = mask
        self._unions[group] += mask
        self.spend[mask] += cost(self.variances[group])


def _grown(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Return an array with at least `count` rows, the first ones kept."""
    return rows if count <= len(rows) else np.vstack([rows, np.zeros_like(rows)])


def _nothing(mask: Mask) -> Mask:
    return np.zeros_like(mask)
