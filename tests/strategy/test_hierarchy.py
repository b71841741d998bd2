"""The best tree is the best: brute force over every tree, with dense matrices, agrees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import hierarchical
from dpnotebook.strategy.hierarchy import best_hierarchy, branchings
from dpnotebook.workload import AllRange, Hierarchy, Identity, Kron, Prefix, Stack


def brute_force(w, noise, by_definition):
    """Return the objective of every tree, by the trace formula on dense matrices."""
    dense, n = by_definition(w), w.shape[1]
    gram = dense.T @ dense
    found = {}
    for b in range(2, max(2, n) + 1):
        for levels in range(1, Hierarchy(n, b).levels + 1):
            a = by_definition(Hierarchy(n, b, levels))
            sensitivity = np.abs(a).sum(axis=0).max() if noise == "laplace" else np.linalg.norm(a, axis=0).max()
            found[b, levels] = sensitivity**2 * np.trace(gram @ np.linalg.inv(a.T @ a))
    return found


@pytest.mark.one_in(4)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("kind", [AllRange, Prefix, Identity])
@pytest.mark.parametrize("n", [1, 2, 3, 16, 27, 30, 37, 64])
def test_agrees_with_brute_force(kind, n, noise, by_definition):
    w = kind(n)
    every = brute_force(w, noise, by_definition)
    tree, objective = best_hierarchy(w.energy(), w.frobenius_squared(), n, noise)
    assert objective == pytest.approx(min(every.values()), rel=1e-9)
    assert every[tree.branching, tree.levels] == pytest.approx(objective, rel=1e-9)
    strategy = hierarchical(w, noise)
    assert strategy.objective == pytest.approx(objective, rel=1e-9)
    for b in {2, 3, 5} & set(branchings(n)):
        best = min(value for (arity, _), value in every.items() if arity == b)
        assert hierarchical(w, noise, branching=b).objective == pytest.approx(best, rel=1e-9)
        whole = hierarchical(w, noise, branching=b, levels=Hierarchy(n, b).levels)
        assert whole.objective == pytest.approx(every[b, Hierarchy(n, b).levels], rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_agrees_with_brute_force_on_random_workloads(data, workloads, by_definition):
    w = data.draw(workloads(depth=1))
    noise = data.draw(st.sampled_from(["laplace", "gaussian"]))
    n = w.shape[1]
    _, objective = best_hierarchy(w.energy(), w.frobenius_squared(), n, noise)
    assert objective == pytest.approx(min(brute_force(w, noise, by_definition).values()), rel=1e-8)


def test_every_branching_up_to_1024_cells_and_a_grid_beyond():
    assert branchings(1024) == list(range(1024, 1, -1))
    grid = branchings(4096)
    assert set(range(2, 65)) <= set(grid)
    assert max(grid) == 4096
    steps = np.array(sorted(grid)[62:])
    assert (steps[1:] / steps[:-1]).max() < 1.02


def test_a_tree_in_each_attribute():
    w = Kron(Prefix(40), AllRange(9))
    best = hierarchical(w)
    assert best.operator == Kron(hierarchical(Prefix(40)).operator, hierarchical(AllRange(9)).operator)
    assert best.objective == pytest.approx(hierarchical(Prefix(40)).objective * hierarchical(AllRange(9)).objective)
    assert hierarchical(w, branching=16, levels=2).operator == Kron(Hierarchy(40, 16, 2), Hierarchy(9, 9, 2))


def test_trees_that_do_not_exist_are_refused():
    with pytest.raises(WorkloadError, match="branching"):
        hierarchical(Prefix(8), branching=1)
    with pytest.raises(WorkloadError, match="levels"):
        hierarchical(Prefix(8), levels=0)
    with pytest.raises(WorkloadError, match="no such tree over 8 cells has 7 levels"):
        hierarchical(Prefix(8), levels=7)
    with pytest.raises(WorkloadError, match="same attributes"):
        hierarchical(Stack(Kron(Prefix(2), Prefix(3)), Prefix(6)))


def test_weights_shift_the_choice():
    # Cells that matter most want no tree; ranges that matter most want the tree for ranges.
    n = 64
    assert hierarchical(Stack(10 * Identity(n), Prefix(n))).operator == Identity(n)
    assert hierarchical(Stack(Identity(n), 10 * Prefix(n))).operator == hierarchical(Prefix(n)).operator
