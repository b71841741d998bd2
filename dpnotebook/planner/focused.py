"""Least squares for one question, over measurements that together tell too many cells apart for one block.

What is asked is told apart from the start, so that whatever was measured of exactly that is never left out: disjoint
counts that do not fit are added up to what is asked, which for the question alone says as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpnotebook.domain import Domain
from dpnotebook.planner.block_queries import Queries
from dpnotebook.planner.known_part import Observation, Sums
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.repeats import Repeats, told

ROOM = 800  # atoms beside those of the question: a block that is made for one question is made in a moment
MOST_LOOKED = 400  # different questions that are looked at
MOST_CELLS = 5 * 10**7  # over all of them


def focused(
    domain: Domain, names: Sequence[str], part: ProductTerm, known: Sequence[Repeats]
) -> LeastSquaresState | None:
    """Return a block that is made for one question; None where the question itself is too large.

    Less is known in it than was measured, which is sound.

    Parameters
    ----------
    domain
        The table's declared domain.
    names
        The attributes of the question, in the domain's order.
    part
        What is asked.
    known
        What was measured of rows told by these attributes, the most important first.
    """
    block = LeastSquaresState(domain, names)
    block.partial = True
    queries = block.queries(part)
    if queries is None:
        return None
    block.split(queries.cells)
    found = [one for each in known[: _most(queries)] for one in told(each, block.names, domain)]
    block.add(found, ROOM + block.atoms.count)
    left = [one for one in found if one.name not in block.sources]
    sums = [_summed(block, one, queries) for one in left]
    block.add_sums([one for one in sums if one is not None])
    return block


def _most(queries: Queries) -> int:
    return max(1, min(MOST_LOOKED, MOST_CELLS // queries.cells.size))


def _summed(block: LeastSquaresState, one: Observation, queries: Queries) -> Sums | None:
    """Return disjoint counts added up to the classes of cells that a question tells apart, where they are whole."""
    bins = block.bins(one.part)
    if bins is None:
        return None
    # What is outside of the question is a class as well: it may not share a bin with what is inside.
    asked, classes = queries.cells + 1, queries.classes + 1
    inside = np.flatnonzero(bins >= 0)
    of_bin = np.zeros(one.weighted.size, dtype=np.intp)
    of_bin[bins[inside]] = asked[inside]
    whole = np.ones(classes, dtype=bool)
    whole[0] = False
    whole[asked[bins < 0]] = False
    mixed = inside[of_bin[bins[inside]] != asked[inside]]
    whole[asked[mixed]] = False
    whole[of_bin[bins[mixed]]] = False
    counted = np.bincount(of_bin, minlength=classes)
    whole &= counted > 0  # of a class that no cell is in, nothing was counted
    if not whole.any():
        return None
    summed = counted[whole]
    place = np.cumsum(whole) - 1
    cells = np.where(whole[asked], place[asked], -1)
    weighted = np.bincount(of_bin, one.weighted, classes)[whole].astype(float)
    return Sums(replace(one, weighted=weighted), cells, summed)
