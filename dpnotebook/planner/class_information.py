"""The information of products over classes of levels, and its factors: of what was measured alone, whatever is asked.

Over products of attributes it falls into blocks, one for each choice of a kind of function along each attribute. They
are made where a question first has a part in them, and serve all questions until something is measured.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain import Domain
from dpnotebook.planner.factored import Factored
from dpnotebook.planner.level_classes import Basis, LevelsAsked, Sides, ToldProducts

ROUNDING = 1e-12  # of a precision: what is more by less was added up in another order
INFORMED = 4  # sets of attributes, and of measurements that have no room together, that are kept
MOST_KEPT = 15 * 10**6  # entries of the matrices of their blocks, and of factors

Floats = NDArray[np.float64]
Kinds = tuple[int | None, ...]


class ClassInformation:
    """What products tell of classes of levels.

    Parameters
    ----------
    told
        What was measured.
    before
        The same of less, where the rest is only supposed: nothing is kept of this then.
    """

    def __init__(self, told: ToldProducts, before: ClassInformation | None = None) -> None:
        self.told, self.passing = told, before is not None
        self._before = None if before is None or not before._holds(told) else before
        self._blocks: OrderedDict[Kinds, tuple[Factored, bool]] = OrderedDict()
        self._entries = 0

    @property
    def entries(self) -> int:
        """How many entries the matrices have that are kept."""
        return self._entries

    @property
    def shares(self) -> bool:
        """Whether it is made from the blocks of what was measured before."""
        return self._before is not None

    @cached_property
    def bases(self) -> list[Basis]:
        """The functions of the levels of each attribute."""
        return self.told.bases() if self._before is None else self._before.bases

    def _holds(self, told: ToldProducts) -> bool:
        """Return whether all this is told there too, and what is told there tells apart no more levels than this."""
        seen, own, least = self._seen, self.told, 1 - ROUNDING
        return (
            own.names == told.names
            and all(told.precisions.get(boxes, 0.0) >= least * before for boxes, before in own.precisions.items())
            and all(
                side in seen[place] or self.bases[place].tells(side)
                for boxes in told.precisions
                if boxes not in own.precisions
                for sides in boxes
                for place, side in enumerate(sides)
            )
        )

    @cached_property
    def _seen(self) -> list[set[LevelsAsked]]:
        """What is asked along each attribute."""
        every = [*self.told.apart, *(sides for boxes in self.told.precisions for sides in boxes)]
        return [{sides[place] for sides in every} for place in range(len(self.told.names))]

    def block(self, kinds: Kinds) -> Factored:
        """Return the information over the classes of the attributes whose kind is None."""
        return self._block(kinds)[0]

    def _block(self, kinds: Kinds) -> tuple[Factored, bool]:
        """Return a block, and whether each class is measured by itself."""
        if kinds in self._blocks:
            self._blocks.move_to_end(kinds)
            return self._blocks[kinds]
        matrix, every = self._matrix(kinds)
        found = Factored(matrix, every=every), every
        if not self.passing:  # more will be asked of it, or be supposed beside it
            self._blocks[kinds] = found
            self._entries += 2 * matrix.size
            while self._entries > MOST_KEPT and len(self._blocks) > 1:
                self._entries -= 2 * self._blocks.popitem(last=False)[1][0].matrix.size
        return found

    def _matrix(self, kinds: Kinds) -> tuple[Floats, bool]:
        """Return the information matrix of a choice of kinds, and whether each class is measured by itself."""
        free = [place for place, kind in enumerate(kinds) if kind is None]
        sizes = [self.bases[place].count for place in free]
        if self._before is None:
            matrix, every = np.zeros((math.prod(sizes),) * 2), False
        else:
            before, every = self._before._block(kinds)
            matrix = before.matrix.copy()
        seen = matrix.reshape(sizes + sizes)
        for apart, alike in self._alike.items():
            if all(kind is None or apart[place] for place, kind in enumerate(kinds)):
                precisions, *alongs = self._along_classes(*alike, kinds)
                _increase(seen, [apart[place] for place in free], precisions, *alongs)
                every |= all(apart[place] for place in free)
        return matrix, every

    @cached_property
    def _alike(self) -> dict[tuple[bool, ...], tuple[Floats, list[Floats], list[Floats]]]:
        """What was measured, by what it tells apart: the precisions, and what each asks along the classes.

        Of shapes (pairs,), and twice (pairs, classes) for each attribute: a number that is the sum of boxes adds to the
        information of each pair of these. Of more than before what is more.
        """
        before = {} if self._before is None else self._before.told.precisions
        found: dict[tuple[bool, ...], list[tuple[Sides, Sides, float]]] = {}
        for boxes, whole in self.told.precisions.items():
            precision = whole - before.get(boxes, 0.0)
            if precision <= ROUNDING * whole:
                continue
            alike = found.setdefault(tuple(side.apart for side in boxes[0]), [])
            alike += [(one, other, precision) for one in boxes for other in boxes]
        return {
            apart: (
                np.array([precision for _, _, precision in alike]),
                [basis.along([sides[place] for sides, _, _ in alike]) for place, basis in enumerate(self.bases)],
                [basis.along([sides[place] for _, sides, _ in alike]) for place, basis in enumerate(self.bases)],
            )
            for apart, alike in found.items()
        }

    def _along_classes(
        self, precisions: Floats, ones: Sequence[Floats], others: Sequence[Floats], kinds: Kinds
    ) -> tuple[Floats, list[Floats], list[Floats]]:
        """Return the precision of products in a choice of kinds, and what each asks along the classes of the others."""
        free = []
        for place, kind in enumerate(kinds):
            if kind is None:
                free.append(place)
            else:
                at = int(np.argmax(self.bases[place].kinds == kind))
                precisions = precisions * ones[place][:, at] * others[place][:, at]
        return precisions, [ones[place] for place in free], [others[place] for place in free]


class KeptInformation:
    """What products tell of classes of levels, of some attributes each: the latest until something is measured."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Hashable, ...], ClassInformation] = OrderedDict()

    def of(self, key: tuple[Hashable, ...], domain: Domain, told: Callable[[], ToldProducts]) -> ClassInformation:
        """Return what is kept under a name, of this very domain, or make it of what was told."""
        found = self._kept.pop(key, None)
        if found is None or found.told.domain is not domain:
            found = ClassInformation(told())
        self._kept[key] = found
        while len(self._kept) > 1 and (
            len(self._kept) > INFORMED or sum(one.entries for one in self._kept.values()) > MOST_KEPT
        ):
            self._kept.popitem(last=False)
        return found

    def clear(self) -> None:
        """Let go of all: something was measured."""
        self._kept.clear()


def _increase(
    matrix: Floats, apart: Sequence[bool], precisions: Floats, ones: Sequence[Floats], others: Sequence[Floats]
) -> None:
    """Add pairs of products to an information matrix, shape (classes..., classes...).

    Parameters
    ----------
    matrix
        What they are added to.
    apart
        Of each attribute, whether its classes are asked apart.
    precisions
        Of the pairs, shape (pairs,).
    ones, others
        What the two of each pair ask along each attribute, shape (pairs, classes).
    """
    count = len(apart)
    if not count:
        matrix += precisions.sum()
        return
    summed = [place for place in range(count) if not apart[place]]
    columns = [place if apart[place] else count + place for place in range(count)]
    # Where classes are asked apart, only what is on the diagonal is not 0: a view of it.
    kept = [*range(count), *(count + place for place in summed)]
    seen = np.einsum(matrix, [*range(count), *columns], kept)  # type: ignore[arg-type]
    rows, along = precisions[:, None], np.ones((precisions.size, 1))
    for place, (one, other) in enumerate(zip(ones, others, strict=True)):
        own = one * other if apart[place] else one
        rows = (rows[:, :, None] * own[:, None, :]).reshape(precisions.size, -1)
        if not apart[place]:
            along = (along[:, :, None] * other[:, None, :]).reshape(precisions.size, -1)
    seen += (rows.T @ along).reshape(seen.shape)
