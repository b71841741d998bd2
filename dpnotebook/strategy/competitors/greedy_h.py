"""GreedyH: a binary tree of counts whose weights are chosen node by node, from the leaves upwards.

Source: Li, Hay, Miklau 2014 (DAWA, stage 2), as compared in HDMM, Tables 4 and 5. Each node splits a unit of L1
sensitivity between its own count and the tree below it, by a search over hundredths. What a node gains for queries that
reach across its children is discounted by its depth, because nodes above it will explain part of them. The numbers
published with it measure errors on the rows of the Gram matrix instead of those of the workload; so does this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.inference.inverse import DENSE_CELLS
from dpnotebook.privacy.laws import Noise
from dpnotebook.strategy.competitors.trees import per_attribute
from dpnotebook.strategy.product import product_operator
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.workload import Hierarchy, Identity, WeightedRows, Workload
from dpnotebook.workload.base import Array

STEPS = 100  # shares that are tried at every node
SCALE = 2**16  # what the weights above every cell add up to, as integers


def greedy_h(workload: Workload, noise: Noise = "laplace") -> Strategy:
    """Return the strategy of GreedyH: a binary tree with greedily chosen weights in each attribute.

    The weights are chosen for L1 sensitivity, whatever the noise, as published. Over a number of cells that is no
    power of two, blocks have powers of two cells and the last of a level is short.

    Parameters
    ----------
    workload
        What is to be answered.
    noise
        "laplace" or "gaussian".

    Raises
    ------
    WorkloadError
        If parts of the workload are products over different attributes, or one has more than 4,096 cells.

    Examples
    --------
    >>> from dpnotebook import strategy
    >>> from dpnotebook.workload import AllRange
    >>> round(strategy.greedy_h(AllRange(64)).rmse(epsilon=1.0), 2)
    6.34
    """
    operator = product_operator(per_attribute(workload, "GreedyH"), _greedy_tree)
    return Strategy(workload, operator, noise, "GreedyH")


def _greedy_tree(union: Sequence[tuple[float, Workload]]) -> Workload:
    n = union[0][1].shape[1]
    if n == 1:
        return Identity(1)
    if n > DENSE_CELLS:
        raise WorkloadError(f"GreedyH over {n:,} cells would take minutes (the limit is {DENSE_CELLS:,} an attribute)")
    gram = np.zeros((n, n))
    for weight, factor in union:
        gram += weight * factor.gram()
    tree = Hierarchy(n, 2)
    weights = _integer_weights(tree, _shares(gram @ gram, tree))
    return WeightedRows(weights, tree) if weights[n:].any() else Identity(n)


@dataclass
class _Level:
    """All nodes of one level: error of the tree below each, and its inverse applied to ones (u), over all cells."""

    errors: Array
    u: Array
    squares: Array  # u'Gu of each node


def _shares(gram: Array, tree: Hierarchy) -> list[Array]:
    """Return, level by level above the leaves, what each node keeps for its own count of what reaches it."""
    n, depth = tree.n, len(tree.sizes) - 1
    diagonal = np.diagonal(gram)
    level = _Level(diagonal.copy(), np.ones(n), diagonal.copy())
    own = np.arange(STEPS) / STEPS
    kept = []
    for above, size in enumerate(tree.sizes[1:], start=1):
        nodes = [slice(start, start + size) for start in range(0, n, size)]
        pairs = np.arange(0, len(level.errors), 2)
        errors, inside = np.add.reduceat(level.errors, pairs), np.add.reduceat(level.squares, pairs)
        squares = np.array([level.u[some] @ gram[some, some] @ level.u[some] for some in nodes])
        total = np.array([level.u[some].sum() for some in nodes])
        decay = 2 ** (-(depth - above) / 2)
        gain = ((squares - inside) * decay + inside)[:, None] * decay * own**2
        error = (errors[:, None] - gain / ((1 - own) ** 2 + decay * own**2 * total[:, None])) / (1 - own) ** 2
        best = error.argmin(axis=1)
        grown = (1 - own[best]) ** 2 + own[best] ** 2 * total
        u = level.u / np.repeat(grown, size)[:n]
        level = _Level(error[np.arange(len(nodes)), best], u, squares / grown**2)
        kept.append(own[best])
    return kept


def _integer_weights(tree: Hierarchy, shares: list[Array]) -> Array:
    """Return integer weights of all nodes, the leaves first, that add up to SCALE above every cell."""
    left, rest, weights = np.ones(1), np.full(1, SCALE), []
    for below, share in zip([*shares[-2::-1], np.zeros(tree.n)], reversed(shares), strict=True):
        own = np.rint(SCALE * left * share).astype(np.int64)
        weights.append(own)
        left = np.repeat(left * (1 - share), 2)[: len(below)]
        rest = np.repeat(rest - own, 2)[: len(below)]
    return np.concatenate([np.broadcast_to(rest, tree.n), *reversed(weights)])
