"""The best hierarchy for a workload over ordered cells: every branching factor, cut at every level.

Sources: Hay et al. 2010 and Qardaji et al. 2013 (hierarchies and their branching factor), as compared in HDMM, section
11; they fix the branching by a formula for all ranges. Here the expected error of every tree on the workload at hand
is computed exactly, through `Workload.energy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.tree import gains
from dpnotebook.privacy.laws import Noise, law_of
from dpnotebook.workload import Hierarchy
from dpnotebook.workload.base import Array, Energy

EXHAUSTIVE = 1024  # up to this many cells every branching factor is tried; beyond, up to 64 and then a geometric grid
CACHED, WIDE = 4096, 32_768  # cells up to which the list of all trees is kept: of few wide ones 6 MB each
SMALL, GRID = 64, 400  # every branching up to this one, and so many beyond
BETTER = 1 - 1e-12  # of an objective: less of a gain is rounding, and the tree before is kept


@dataclass(frozen=True)
class _Trees:
    """Gains of all trees over n cells, as one list of runs: tree `tree[i]` gains coefficients[i] * energy of run i."""

    shapes: list[tuple[int, int]]  # (branching, levels)
    starts: Array
    ends: Array
    coefficients: Array
    tree: Array


def best_hierarchy(
    energy: Energy, size: float, n: int, noise: Noise, branching: int | None = None, levels: int | None = None
) -> tuple[Hierarchy, float]:
    """Return the hierarchy of least expected error, and its objective |A|^2 |W A^+|_F^2.

    Parameters
    ----------
    energy
        The workload's `energy`.
    size
        The workload's squared Frobenius norm, which is also the error of the leaves alone.
    n
        Number of cells.
    noise
        "laplace": the squared sensitivity is levels^2; "gaussian": levels.
    branching, levels
        Only trees with this branching, only this many levels.

    Raises
    ------
    WorkloadError
        If no such tree has that many levels.
    """
    trees = _trees(n, branching)
    gained = np.bincount(trees.tree, trees.coefficients * energy(trees.starts, trees.ends), len(trees.shapes))
    best, least = Hierarchy(n, branching or 2, 1), size if levels in (None, 1) else np.inf
    total = 0.0
    for (arity, depth), gain in zip(trees.shapes, gained, strict=True):
        total = gain if depth == 2 else total + gain
        objective = law_of(noise).squared_sensitivity(depth) * (size - total)
        if levels in (None, depth) and objective < least * BETTER:
            best, least = Hierarchy(n, arity, depth), float(objective)
    if not np.isfinite(least):
        raise WorkloadError(f"no such tree over {n:,} cells has {levels} levels")
    return best, least


def branchings(n: int) -> list[int]:
    """Return the branching factors that are tried for n cells, largest first.

    Where errors are equal the larger one, which has fewer nodes, is kept.
    """
    if n <= EXHAUSTIVE:
        return list(range(n, 1, -1))
    grid = np.geomspace(SMALL, n, GRID).astype(int)
    return sorted({*range(2, SMALL + 1), *map(int, grid)}, reverse=True)


def _trees(n: int, branching: int | None) -> _Trees:
    if branching is not None or n > WIDE:
        return _list_trees(n, branching)
    return _cached_trees(n) if n <= CACHED else _cached_wide_trees(n)


@lru_cache(maxsize=64)
def _cached_trees(n: int) -> _Trees:
    return _list_trees(n, None)


@lru_cache(maxsize=4)
def _cached_wide_trees(n: int) -> _Trees:
    return _list_trees(n, None)


def _list_trees(n: int, branching: int | None) -> _Trees:
    shapes: list[tuple[int, int]] = []
    parts = []
    for arity in branchings(n) if branching is None else [branching]:
        for level, gain in enumerate(gains(n, arity)):
            parts.append((gain, np.full(gain.starts.size, len(shapes))))
            shapes.append((arity, level + 2))
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return _Trees([], nothing, nothing, np.zeros(0), nothing)
    return _Trees(
        shapes,
        np.concatenate([gain.starts for gain, _ in parts]),
        np.concatenate([gain.ends for gain, _ in parts]),
        np.concatenate([gain.coefficients for gain, _ in parts]),
        np.concatenate([which for _, which in parts]),
    )
