"""Selection finds the strategy of least expected error among its candidates, fast, and only once."""

import itertools
import time

import numpy as np
import pytest
from clocks import cost
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.strategy import Strategy, hierarchical, identity, itself, opt_0, select
from dpnotebook.strategy.hdmm import best_of
from dpnotebook.strategy.operators import opt_product, opt_union
from dpnotebook.strategy.product import hierarchy_choice, library_choice, product_operator
from dpnotebook.strategy.select import select_own
from dpnotebook.workload import AllRange, Explicit, Hierarchy, Identity, Kron, Prefix, Stack, Total
from dpnotebook.workload.terms import terms

NOISES = ["laplace", "gaussian"]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_is_no_worse_than_any_candidate(data, workloads):
    w, noise = data.draw(workloads()), data.draw(st.sampled_from(NOISES))
    chosen = select(w, noise)
    assert np.isfinite(chosen.objective)
    assert chosen.objective <= identity(w, noise).objective * (1 + 1e-8)
    if w.integer:
        assert chosen.objective <= itself(w, noise).objective * (1 + 1e-8)
    if len(terms(w)) == 1:
        assert chosen.objective <= hierarchical(w, noise).objective * (1 + 1e-8)


@pytest.mark.parametrize("noise", NOISES)
def test_histograms_and_totals_are_measured_as_they_are(noise):
    assert select(Identity(10), noise).operator == Identity(10)
    assert select(Identity(10), noise).name == "identity"
    assert select(Total(10), noise).operator == Total(10)
    assert select(Total(10), noise).name == "workload itself"
    assert select(Kron(Identity(3), Identity(4)), noise).operator == Kron(Identity(3), Identity(4))
    assert select(Kron(Identity(3), Total(4)), noise).operator == Kron(Identity(3), Total(4))
    assert select(2.5 * Identity(10), noise).operator == Identity(10)


def test_each_attribute_gets_its_own_operator():
    w = Kron(Prefix(64), Identity(5), Total(7), AllRange(50))
    operator = Kron(*(select(factor, effort="quick").operator for factor in w.factors))
    chosen = select(w, effort="quick")
    assert chosen.operator == operator
    assert chosen.name == "p-Identity with 4 rows x identity x total x p-Identity with 4 rows"
    assert chosen.objective == pytest.approx(np.prod([select(f, effort="quick").objective for f in w.factors]))
    assert select(w).objective < chosen.objective


def test_a_mask_is_one_query():
    old = Explicit([[0, 0, 1, 1, 1]])
    assert select(Kron(Identity(2), old)).operator == Kron(Identity(2), old)
    assert select(Kron(Identity(2), old)).norm == 1


def test_queries_without_structure_over_many_cells():
    rng = np.random.default_rng(0)
    half = Explicit(np.arange(100_000)[None] < 50_000)
    assert select(half).operator == half
    assert select(half).objective == 1
    few = Stack(Kron(Identity(100), Total(100)), Explicit(rng.integers(0, 2, size=(3, 10_000))))
    assert select(Kron(few, Identity(2))).operator == Kron(few, Identity(2))
    # Too many queries for a pseudo-inverse, and no order to use: the cells, or with them the smaller margin.
    many = Kron(Stack(Kron(Identity(5), Prefix(1000)), Kron(Total(5), Prefix(1000))), Identity(2))
    assert best_of([opt_product(many)]).operator == Kron(Identity(5000), Identity(2))
    assert select(many).objective <= identity(many).objective


def test_coefficients_that_are_not_integers_are_never_measured():
    w = Explicit([[0.5, 0.25, 0], [0, 0, 0.1]])
    assert select(w, effort="quick").operator == Identity(3)
    assert select(w).operator.integer
    assert select(Stack(0.3 * Prefix(8), Identity(8))).operator.integer
    with pytest.raises(ValueError, match="not integers"):
        itself(w)
    assert itself(0.5 * Prefix(8)).operator == Prefix(8)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("noise", NOISES)
def test_a_union_over_one_attribute_gets_a_common_strategy(noise):
    n = 64
    alone = [select(Prefix(n), noise).objective, select(Identity(n), noise).objective]
    together = select(Stack(Prefix(n), Identity(n)), noise)
    # Two measurements that share the budget would cost more than the common one.
    split = sum(e ** (1 / 3) for e in alone) ** 3 if noise == "laplace" else sum(e**0.5 for e in alone) ** 2
    assert together.objective < split


@pytest.mark.parametrize("noise", NOISES)
def test_margins_share_the_budget(noise):
    w = Stack(Kron(Identity(20), Total(30)), Kron(Total(20), Identity(30)))
    chosen = select(w, noise)
    assert not chosen.split  # least squares over both, whose common total helps
    assert chosen.objective < identity(w, noise).objective
    large = Stack(Kron(Identity(200), Total(300)), Kron(Total(200), Identity(300)))
    chosen = select(large, noise)
    # One by one, the two would cost this; least squares over both is better on any domain.
    expected = (
        sum(e ** (1 / 3) for e in (200, 300)) ** 3 if noise == "laplace" else sum(e**0.5 for e in (200, 300)) ** 2
    )
    alone = opt_union(large, noise)
    assert alone.split
    assert expected <= alone.objective * (1 + 1e-12) < expected * 1.0011
    assert not chosen.split
    assert chosen.objective < alone.objective
    assert chosen.answers(chosen.operator.matvec(np.ones(60_000, dtype=int))) == pytest.approx(
        [300] * 200 + [200] * 300
    )


def test_parts_over_different_attributes():
    w = Stack(Kron(Identity(3), Total(4)), Prefix(12), Kron(Total(6), Prefix(2)))
    chosen = select(w)
    assert chosen.objective <= identity(w).objective
    assert identity(w).operator == Identity(12)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "w",
    [
        Stack(Kron(Prefix(16), Identity(9)), Kron(Total(16), AllRange(9))),
        Stack(5 * Kron(AllRange(16), Total(9)), Kron(Identity(16), Prefix(9)), Kron(Prefix(16), Prefix(9))),
    ],
)
def test_the_common_product_is_the_best_product_of_trees(w, noise):
    # Brute force over every pair of trees; the choice, one attribute at a time, also knows the queries themselves.
    trees = [
        [Hierarchy(n, b, k) for b in range(2, n + 1) for k in range(1, Hierarchy(n, b).levels + 1)] for n in (16, 9)
    ]
    least = min(Strategy(w, Kron(*pair), noise, "pair").objective for pair in itertools.product(*trees))
    chosen = Strategy(w, product_operator(terms(w), library_choice(noise)), noise, "chosen")
    assert chosen.objective <= least * (1 + 1e-9)
    only_trees = Strategy(w, product_operator(terms(w), hierarchy_choice(noise, None, None)), noise, "trees")
    assert only_trees.objective == pytest.approx(least)


def test_the_same_question_is_answered_from_memory():
    assert select(Prefix(50), "gaussian") is select(Prefix(50), "gaussian")
    assert select(Kron(Prefix(5), Identity(2))) is select(Kron(Prefix(5), Identity(2)))


FAST = [
    Identity(256),
    Identity(10**6),
    Kron(Identity(1000), Identity(1000)),
    Kron(Identity(2), Identity(12), Identity(51)),
    Prefix(256),
    AllRange(256),
    Kron(Identity(51), Prefix(100)),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("w", FAST, ids=repr)
def test_common_questions_are_planned_in_a_moment(w, noise):
    def anew():
        select_own.cache_clear()
        select(w, noise, "quick")

    assert cost(anew, 3) < 12  # 3 at most


def test_hierarchies_over_many_cells_are_found_without_a_gram_matrix():
    started = time.process_time()
    chosen = select(AllRange(100_000))
    assert isinstance(chosen.operator, Hierarchy)
    assert time.process_time() - started < 5


def test_few_queries_over_many_cells_get_a_strategy_of_low_rank():
    rng = np.random.default_rng(1)
    w = Explicit(rng.integers(0, 2, (5, 64)))
    found = select(w)
    assert found.objective < 0.95 * opt_0(w).objective
    assert found.name == "LRM"
