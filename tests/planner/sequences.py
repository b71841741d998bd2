"""Sequences of questions as analysts ask them: the ranges of Pioneer's experiments, and drilling down in a table.

They hold no data: `rng` is the only source of what is drawn, so a seed names a sequence.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

DRILL_SIZES = {"region": 10, "sex": 2, "age": 4, "cause": 6}
DRILL_STD = (25.0, 100.0)


class Range(NamedTuple):
    """Count the rows in cells `start` to `end` - 1, with at most this noise variance."""

    start: int
    end: int
    variance: float


class GroupBy(NamedTuple):
    """Count the rows for every combination of the keys' levels, where each filtered attribute has an allowed level."""

    keys: tuple[str, ...]
    where: Mapping[str, tuple[int, ...]]
    variance: float


def ranges(
    count,
    rng,
    domain=10_000,
    width=(320, 10),
    start_std=10,
    variance=(250_000, 25_000),
):
    """Return ranges as in Peng et al. (ICDE 2013), section V and Table III; the defaults are the table's.

    Width, start and variance are drawn from normal distributions given as (mean, standard deviation). Starts centre on
    the middle of the domain, which the paper leaves open. What the paper does not say about draws that make no sense:
    starts and widths are rounded; a width is at least 1; a start is moved into the domain, and an end past the domain
    is cut off there; a variance below a hundredth of its mean is drawn again (a variance near 0 would alone decide the
    total).

    Parameters
    ----------
    count
        Number of ranges.
    domain
        Number of cells.

    Returns
    -------
    list of Range
    """
    starts = np.clip(np.rint(rng.normal(domain / 2, start_std, count)), 0, domain - 1).astype(int)
    widths = np.maximum(np.rint(rng.normal(*width, count)), 1).astype(int)
    ends = np.minimum(starts + widths, domain)
    variances = rng.normal(*variance, count)
    while (bad := variances < variance[0] / 100).any():
        variances[bad] = rng.normal(*variance, int(bad.sum()))
    return [Range(int(s), int(e), float(v)) for s, e, v in zip(starts, ends, variances, strict=True)]


def drill_down(rng, count=40, again=0.2, sizes=DRILL_SIZES, std=DRILL_STD):
    """Return the group-bys of someone who drills down in a table of 10 x 2 x 4 x 6 cells.

    A thread starts with one attribute chosen at random, whole. Every step then does what one does with a table on the
    screen: break it down by one more attribute (up to 3 keys), or pick out some levels of a key (one level in 3 of 5
    times, else any proper subset), which becomes a filter, and break down by another attribute instead (up to 2
    filters). A thread ends when there is nowhere to go, or one time in four. No question comes twice by chance; a
    fifth of the questions repeats an earlier one on purpose, half of them at the same accuracy, half at a new one.
    Standard deviations are spread evenly on a logarithmic scale over a factor of 4, whatever the question.

    Returns
    -------
    list of GroupBy
        `where` maps filtered attributes to their allowed levels; no key is filtered.
    """
    repeats = round(again * count)
    repeated = set(rng.choice(np.arange(1, count), size=repeats, replace=False).tolist())
    asked, shape = [], None
    for turn in range(count):
        variance = float(np.exp(rng.uniform(*np.log(std))) ** 2)
        if turn in repeated:
            earlier = asked[rng.integers(len(asked))]
            asked.append(earlier if rng.random() < 0.5 else earlier._replace(variance=variance))
            continue
        seen = {_shape(question.keys, question.where) for question in asked}
        shape = _next(shape, rng, sizes) if shape and rng.random() < 0.75 else None
        while shape is None or _shape(*shape) in seen:
            shape = _next(shape, rng, sizes) if shape else ((str(rng.choice(list(sizes))),), {})
        asked.append(GroupBy(*shape, variance))
    return asked


def _next(shape, rng, sizes):
    """Return one step down from (keys, where), or None where there is none."""
    keys, where = shape
    rest = [name for name in sizes if name not in keys and name not in where]
    if not rest:
        return None
    new = str(rng.choice(rest))
    if len(keys) < 3 and (len(where) == 2 or rng.random() < 0.5):
        return (*keys, new), where
    if len(where) == 2:
        return None
    picked = str(rng.choice(keys))
    size = sizes[picked]
    many = 1 if size == 2 or rng.random() < 0.6 else int(rng.integers(2, size))
    levels = tuple(sorted(rng.choice(size, size=many, replace=False).tolist()))
    return (*(key for key in keys if key != picked), new), {**where, picked: levels}


def _shape(keys, where):
    return frozenset(keys), frozenset(where.items())
