"""Unions over forty attributes are planned in seconds: each pair of factors is worked out once, moves by thousands."""

import importlib
import itertools

import numpy as np
import pytest

from dpnotebook.inference.inverse import once_a_pair, total_variance
from dpnotebook.strategy import blocks, h2, select, subset_search
from dpnotebook.strategy.lattice import lattice
from dpnotebook.strategy.marginals import _measured, _problem
from dpnotebook.strategy.subset_search import PROMISING, Problem, SubsetShares, _moves
from dpnotebook.workload import Hierarchy, Identity, Prefix, Stack, Total, marginals, prefix_marginals

WIDE = (3, 2, 4) * 8
chosen = importlib.import_module("dpnotebook.strategy.select")  # a function has the same name
GAUSSIAN, LAPLACE = 189248.238, 33508058.63  # of the two searches as they were


def counted(monkeypatch, name):
    calls, of_pair = [], getattr(blocks, name)

    def told(operator, query):
        calls.append((operator, query))
        return of_pair(operator, query)

    monkeypatch.setattr(blocks, name, told)
    return calls


def test_equal_factors_are_one_pair():
    calls = []

    def of_pair(operator, query):
        calls.append((operator, query))
        return total_variance(operator, query)

    once = once_a_pair(of_pair)
    for _ in range(3):
        assert once(Hierarchy(8, 2), Prefix(8)) == total_variance(Hierarchy(8, 2), Prefix(8))
        assert once(Identity(8), Prefix(8)) == 36
    assert len(calls) == 2


def test_a_union_of_hundreds_of_products_has_few_pairs(monkeypatch):
    sums, single = counted(monkeypatch, "total_variance"), counted(monkeypatch, "_variances")
    workload = Stack(prefix_marginals(WIDE, 1), marginals(WIDE, 2))
    found = h2(workload)
    total, variances = found.objective, found.error_factors()
    kinds = 3 * 3  # queries of attributes of two, three and four levels: running counts, counts, and the total
    assert len(sums) <= kinds
    assert len(single) <= kinds
    # One product by hand: the other attributes' totals are measured too.
    trees = [Hierarchy(n, 2) for n in WIDE]
    first = total_variance(trees[0], Prefix(3))
    for tree, n in zip(trees[1:], WIDE[1:], strict=True):
        first *= total_variance(tree, Total(n))
    assert variances[:3].sum() == pytest.approx(first, rel=1e-9)
    assert total == pytest.approx(found.norm**2 * variances.sum(), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_every_move_is_worth_what_it_says(seed):
    """Each ratio against the error worked out anew, for the sets of up to three of five attributes."""
    rng = np.random.default_rng(seed)
    found = lattice(marginals((2, 3, 2, 5, 4), upto=2))
    problem, _ = _problem(found, [_measured(found, i, Identity(n)) for i, n in enumerate(found.sizes)])
    sets = [s for k in (1, 2, 3) for s in itertools.combinations(range(5), k)]
    rows = np.array([[i in s for i in range(5)] for s in sets])
    rows = rows[rng.permutation(len(rows))]
    shares = rng.random(len(rows)) + 0.05
    current = SubsetShares(rows, shares / shares.sum(), 0.0)
    moves, before = _moves(problem, current), problem.exact(current)
    assert len(moves.ratio) > 100
    assert (np.diff(moves.ratio) >= 0).all()
    assert moves.ratio[-1] < PROMISING
    for ratio, first, second, share, new in zip(
        moves.ratio, moves.first, moves.second, moves.share, moves.subsets, strict=True
    ):
        kept = np.setdiff1d(np.arange(len(rows)), [first, second])
        after = SubsetShares(np.vstack((rows[kept], new)), np.append(current.shares[kept], share), 0.0)
        assert ratio == pytest.approx(problem.exact(after) / before, rel=1e-9)


def test_the_best_of_a_wide_union_is_what_it_was():
    """What both searches found before they were made faster, on 24 attributes; a search that ends early is worse."""
    workload = Stack(prefix_marginals(WIDE, 1), marginals(WIDE, 2))
    assert select(workload, "gaussian").objective <= GAUSSIAN * (1 + 1e-9)
    assert select(workload, "laplace").objective <= LAPLACE * (1 + 1e-6)


@pytest.mark.parametrize("kept", [0, 2_000])
def test_pairs_are_those_of_sets(monkeypatch, kept):
    """By the definition, set by set, whether or not what was asked before is kept."""
    monkeypatch.setattr(subset_search, "KEPT", kept)
    rng = np.random.default_rng(1)
    for d in (5, 70):  # in one word of bits, and in two
        needed = np.unique(rng.random((40, d)) < 2 / d, axis=0)
        problem = Problem(needed, np.ones(len(needed)), np.ones(d))
        for _ in range(4):
            measured = np.vstack((rng.random((30, d)) < 4 / d, needed[:5], needed[:1] & False))
            row, column = problem.pairs(measured)
            pairs = [
                (i, j) for j, one in enumerate(measured) for i, other in enumerate(needed) if not (other & ~one).any()
            ]
            assert list(zip(row.tolist(), column.tolist(), strict=True)) == pairs
            assert (problem.covers(measured).toarray() == problem.inside(measured)).all()


def test_nobody_looks_at_trees_of_more_cells_than_are_measured(monkeypatch):
    """Strategies of as many numbers as there are cells are not made for 10^10 cells, and are for a few."""
    looked = []
    monkeypatch.setattr(chosen, "made", lambda candidate, *rest, **more: looked.append(candidate.name))
    chosen._competitors.__wrapped__(Stack(prefix_marginals((10,) * 10, 1), marginals((10,) * 10, 2)), "laplace")
    assert "itself" in looked
    assert not set(looked) & {"identity", "h2", "hb", "wavelet", "hierarchical", "greedy_h"}
    looked.clear()
    chosen._competitors.__wrapped__(Stack(prefix_marginals((10,) * 3, 1), marginals((10,) * 3, 2)), "laplace")
    assert {"identity", "h2", "hb", "wavelet", "hierarchical", "greedy_h"} <= set(looked)
