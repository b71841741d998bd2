"""From what was recorded to what is worth buying for group-bys."""

import numpy as np
import pandas as pd
import pytest

import dpnotebook as dpn
from dpnotebook.domain import Domain
from dpnotebook.planner.group_spaces import average_information, subsets
from dpnotebook.planner.known_part import Observation
from dpnotebook.planner.least_squares_state import LeastSquaresState
from dpnotebook.planner.product_terms import ProductTerm
from dpnotebook.planner.purchase import _in_play, _information
from dpnotebook.predicate import Predicate
from dpnotebook.query.measurement import Axis
from dpnotebook.workload import Identity, Kron

SIZES = {"a": 3, "b": 4, "c": 2}


@pytest.fixture
def domain():
    return Domain({name: dpn.Range(0, size - 1) for name, size in SIZES.items()})


def test_what_is_known_over_attributes_that_nobody_asked_about(domain):
    block = LeastSquaresState(domain, ("a", "c"))
    axes = (Axis("a", (0, 1, 2)), Axis("c", (0, 1)))
    measured = [
        (ProductTerm(axes[:1], Predicate.everything(domain), Identity(3), 1.0, np.arange(3)), 2.0),
        (ProductTerm(axes, Predicate.everything(domain), Kron(Identity(3), Identity(2)), 1.0, np.arange(6)), 0.5),
    ]
    block.add(
        [
            Observation(str(i), 0, part, p, np.zeros(part.operator.shape[0]), {(i, 0): p})
            for i, (part, p) in enumerate(measured)
        ]
    )
    # Cells of a, b, c in C order: nothing was told apart by b.
    by_a = np.kron(np.kron(np.eye(3), np.ones((1, 4))), np.ones((1, 2)))
    by_both = np.kron(np.kron(np.eye(3), np.ones((1, 4))), np.eye(2))
    dense = 2.0 * by_a.T @ by_a + 0.5 * by_both.T @ by_both
    found = _information(block, ("a", "b", "c"))
    assert found.size == len(subsets(3))
    assert np.allclose(found, average_information(dense, (3, 4, 2)))


def test_attributes_that_may_be_next(domain):
    assert _in_play(("a",), domain) == ("a", "b", "c")
    wide = Domain({"a": dpn.Range(0, 2), "wide": dpn.Range(0, 999), "c": [True, False]})
    assert _in_play(("a",), wide) == ("a", "c")  # 6,000 cells take a plan too long
    assert _in_play(("wide",), wide) == ("wide",)
    assert _in_play(("a", "wide"), wide) is None


def asked(noise="laplace", max_rows=1):
    rng = np.random.default_rng(0)
    rows = {name: rng.integers(0, size, 200) for name, size in SIZES.items()}
    frame = pd.DataFrame({**rows, "who": np.arange(200) // max_rows})
    budget = dpn.Budget(epsilon=100) if noise == "laplace" else dpn.Budget(epsilon=100, delta=1e-6)
    session = dpn.Session(budget=budget, ledger=":memory:")
    units = {"unit": "who", "max_rows": max_rows} if max_rows > 1 else {}
    session.protect(frame, "t", domain={name: dpn.Range(0, size - 1) for name, size in SIZES.items()}, **units)
    group = frame.dp.groupby
    queries = [
        group(["a"]).count(variance=100),
        group(["a", "b"]).count(variance=100),
        group(["a", "c"]).count(variance=60),
        group(["b"]).count(where="c == 1", variance=50),
        group(["b"]).count(where="a == 1", variance=30),
        group(["a", "b", "c"]).count(variance=40),
        group(["c"]).count(where="b in [0, 2]", variance=12),
        group(["a", "b"]).count(where="c == 0", variance=5),
    ]
    plans = []
    for query in queries:
        plans.append(session._plan(query))
        query.run()
    return session, plans


def test_what_was_bought_is_refined_when_more_is_bought():
    _, plans = asked()
    assert not plans[0].bought
    buying = [plan for plan in plans if plan.bought]
    assert buying
    assert any(item.refines for plan in plans[1:] for item in plan.measurements)
    assert any(plan.free for plan in plans)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_rows_of_a_unit_do_not_change_what_is_bought(noise):
    """Prices grow by the same factor, whatever is bought: so do credit and what questions cost alone."""
    session, one = asked(noise)
    several, many = asked(noise, max_rows=3)
    assert [plan.bought for plan in one] == [plan.bought for plan in many]
    factor = 3 if noise == "laplace" else 9
    assert several.ledger.spent == pytest.approx(factor * session.ledger.spent, rel=0.02)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", [4, 19, 22])
def test_small_errors_are_kept_when_coarse_noise_is_added_up(seed):
    """Noise of few steps, bought for sums of many counts, reaches further than its variance says."""
    sizes = {"a": 2, "b": 3, "c": 4, "d": 12}
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.integers(0, size, 100) for name, size in sizes.items()})
    session = dpn.Session(budget=dpn.Budget(epsilon=200), ledger=":memory:")
    session.protect(frame, "t", domain={name: dpn.Range(0, size - 1) for name, size in sizes.items()})
    bought = 0
    for _ in range(10):
        keys = list(rng.choice(list(sizes), int(rng.integers(1, 4)), replace=False))
        error = float(np.exp(rng.uniform(np.log(1.8), np.log(6))))
        query = frame.dp.groupby(keys).count(error=error)
        bought += session._plan(query).bought
        answer = query.run().frame
        assert (answer["upper"] - answer["lower"]).max() / 2 <= error * (1 + 1e-6)
    assert bought
