"""How far groups are from their proportion of what some units have more than most, where noise hides that.

Units with much are mostly in the groups where others are too, but not just so many in each. How many of them are in a
group is chance, and what a group is off by chance grows as the root of its size. In some tables its proportion is
another one, by what its units are like, and in few a group has much that has to do with nothing. All three are likely
to some degree before anything is seen; how far the noisy numbers are from their proportion tells which.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Root mean square over groups, as a part of what units have more: how likely each is before anything is seen. Chosen on
# eight kinds of made-up tables, and held against eight others.
BY_CHANCE = ((0.01, 0.2), (0.02, 0.2), (0.035, 0.2), (0.06, 0.2), (0.1, 0.2))
BY_PROPORTION = ((0.0, 0.5), (0.03, 0.2), (0.1, 0.2), (0.3, 0.1))
BY_GROUP = ((0.0, 0.7), (0.05, 0.1), (0.15, 0.1), (0.5, 0.1))


class GroupsApart(NamedTuple):
    """The variance of what a group is off its proportion.

    Parameters
    ----------
    each
        Of every group alike.
    sized, squared
        More, by the size of the group and by its square.
    """

    each: float
    sized: float
    squared: float


def groups_apart(length: float, sizes: Floats, off: Floats, beyond: float) -> GroupsApart:
    """Return how far groups are likely to be from their proportion, after noisy numbers are seen.

    Parameters
    ----------
    length
        About what units have more than most, by group, root mean square over groups.
    sizes
        About how large groups are, or their sums, shape (groups,).
    off
        By how much their noisy numbers are off their proportion, shape (groups,).
    beyond
        Standard deviation of the noise on these.
    """
    known = np.abs(sizes)  # sums may be negative
    mean, square = (float(np.mean(one)) or 1.0 for one in (known, known**2))
    cases = list(itertools.product(BY_GROUP, BY_CHANCE, BY_PROPORTION))
    roots = np.array([[part for part, _ in case] for case in cases])
    before = np.log([np.prod([likely for _, likely in case]) for case in cases])
    factors = (roots * length) ** 2 / np.array([1.0, mean, square])
    spread = beyond**2 + factors @ np.stack([np.ones(known.size), known, known**2])
    likely = before - np.log(spread).sum(axis=1) / 2 - (off**2 / spread).sum(axis=1) / 2
    weights = np.exp(likely - likely.max())
    return GroupsApart(*map(float, weights @ factors / weights.sum()))
