"""Which group-bys are likely to come, from those that were asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np

from dpnotebook.planner.group_spaces import Floats, shares

ANY = 20.0  # weight of group-bys in general, a question that was asked counting 1
OWN = 0.2  # weight of the same attributes once more, other attributes taking their place with the rest
PARTS = 4  # parts of the levels are rounded to quarters
MOST_KEYS, MOST_FILTERS = 3, 2  # of group-bys in general
LATEST = 64  # questions that are looked at

Role = tuple[int, tuple[float, ...]]  # number of single levels, parts of the levels


@dataclass(frozen=True)
class GroupBy:
    """A group-by, up to which levels its filters keep.

    Parameters
    ----------
    widths
        How many levels of each attribute one answer sums: 1 for a key, all where the attribute plays no part.
    variance
        What its answers may have.
    """

    widths: tuple[int, ...]
    variance: float


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is known and what is expected, when a question is asked.

    Parameters
    ----------
    sizes
        Levels of each attribute.
    asked
        The questions so far, the present one last.
    known
        Eigenvalues of the information matrix of all that was measured, averaged over permutations of levels, one for
        each of `subsets`; shape (2^d,).
    bought
        Precision of each marginal that was measured as a whole, shape (2^d,).
    outside
        Number of further attributes that questions may be about.
    """

    sizes: tuple[int, ...]
    asked: Sequence[GroupBy]
    known: Floats
    bought: Floats
    outside: int = 0


def likely(outlook: Outlook) -> tuple[Floats, Floats]:
    """Return the questions that are likely to come: their shares in the eigenspaces, and how likely each is.

    Those that were asked, of any levels; those that were asked, of other attributes; and group-bys in general.
    Questions about attributes outside of these take their share, and gain nothing.

    Returns
    -------
    Shapes (questions, 2^d) and (questions,).
    """
    sizes, total = outlook.sizes, len(outlook.sizes) + outlook.outside
    roles = {role: ANY / len(_general(total)) for role in _general(total)}
    kinds: dict[tuple[int, ...], float] = {}
    asked = outlook.asked[-LATEST:]
    for question in asked:
        role = _role(question.widths, sizes)
        roles[role] = roles.get(role, 0.0) + 1 - OWN
        kinds[question.widths] = kinds.get(question.widths, 0.0) + OWN
    for role, weight in roles.items():
        alike, ways = _alike(role, sizes, total)
        for widths in alike:
            kinds[widths] = kinds.get(widths, 0.0) + weight / ways
    found = np.array([shares(widths, sizes) for widths in kinds])
    return found, np.array(list(kinds.values())) / (ANY + len(asked))


@lru_cache(maxsize=64)
def _general(attributes: int) -> tuple[Role, ...]:
    """Return group-bys by up to three keys with up to two filters, of one level or of half of the levels."""
    numbers = [(k, f) for k in range(1, MOST_KEYS + 1) for f in range(MOST_FILTERS + 1) if k + f <= attributes]
    return tuple(dict.fromkeys(role for k, f in numbers for role in ((k + f, ()), (k, (0.5,) * f))))


def _role(widths: tuple[int, ...], sizes: tuple[int, ...]) -> Role:
    """Return what a question does, to whatever attributes: how many single levels, which parts of the levels."""
    pairs = [(width, size) for width, size in zip(widths, sizes, strict=True) if width < size]
    parts = sorted(math.ceil(PARTS * width / size) / PARTS for width, size in pairs if width > 1)
    return sum(width == 1 for width, _ in pairs), tuple(min(part, 1 - 1 / PARTS) for part in parts)


@lru_cache(maxsize=256)
def _alike(role: Role, sizes: tuple[int, ...], total: int) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the questions of a role about some of all attributes, and how many there are about all."""
    ones, parts = role
    found = []
    for single in combinations(range(len(sizes)), ones):
        others = [i for i in range(len(sizes)) if i not in single]
        for places in permutations(others, len(parts)):
            widths = [1 if i in single else n for i, n in enumerate(sizes)]
            for place, part in zip(places, parts, strict=True):
                widths[place] = max(round(part * sizes[place]), 1)
            found.append(tuple(widths))
    return tuple(found), math.comb(total, ones) * math.perm(total - ones, len(parts))
