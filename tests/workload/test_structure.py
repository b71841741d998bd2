"""Unions of products: their terms, and norms over domains that are never formed."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import AllRange, Explicit, Identity, Kron, Prefix, Stack, Total
from dpnotebook.workload.terms import Term, terms

CPS = (100, 50, 7, 4, 2)  # the attributes of HDMM's CPS schema: income and age in order, the rest not


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_terms_are_the_workload_row_by_row(data, workloads, by_definition):
    w = data.draw(workloads())
    flat = terms(w)
    rebuilt = np.vstack([term.weight * by_definition(term.product) for term in flat])
    np.testing.assert_allclose(rebuilt, by_definition(w), atol=1e-12)
    for term in flat:
        assert all(not isinstance(factor, Kron) and "*" not in repr(factor)[:4] for factor in term.factors)


def test_weights_come_out_of_products():
    w = Kron(2 * Identity(2), Kron(Prefix(3), 0.5 * Total(4)), 3 * Stack(Total(2), Identity(2)))
    assert terms(5 * w) == (Term(15, (Identity(2), Prefix(3), Total(4), Stack(Total(2), Identity(2)))),)


def test_published_sensitivities():
    # HDMM, Tables 6 and 7, column "Laplace": noise of L1 sensitivity sqrt(2), or of L2 sensitivity 4.2247, a query.
    marginals = Kron(*(Stack(Total(n), Identity(n)) for n in CPS))
    prefixes = Kron(*(Prefix(n) for n in CPS[:2]), *(Stack(Total(n), Identity(n)) for n in CPS[2:]))
    assert math.sqrt(2) * marginals.l1_sensitivity == pytest.approx(45.25, abs=0.005)
    assert math.sqrt(2) * prefixes.l1_sensitivity == pytest.approx(56568.54, abs=0.005)
    assert 4.224679 * marginals.l2_sensitivity == pytest.approx(23.90, abs=0.005)
    assert 4.224679 * prefixes.l2_sensitivity == pytest.approx(844.94, abs=0.005)


def test_norms_of_a_union_over_a_domain_too_large_to_form():
    sizes = (75, 9, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 20, 10)
    subsets = list(itertools.combinations(range(14), 3))
    parts = [Kron(*(Identity(n) if i in chosen else Total(n) for i, n in enumerate(sizes))) for chosen in subsets]
    started = time.process_time()
    assert Stack(*parts).l1_sensitivity == 364
    # Cell 0 of attribute i is in as many prefixes as there are levels, and is the same cell for all parts.
    parts = [Kron(*(Prefix(n) if i in chosen else Total(n) for i, n in enumerate(sizes))) for chosen in subsets[:5]]
    assert Stack(*parts).max_column_norm(2) == sum(math.prod(sizes[i] for i in chosen) for chosen in subsets[:5])
    assert time.process_time() - started < 5


def test_largest_sum_of_norms_is_not_the_sum_of_the_largest():
    left, right = Explicit([[3, 0], [0, 1]]), Explicit([[0, 0], [1, 5]])
    w = Stack(Kron(left, Prefix(3)), Kron(right, AllRange(3)))
    dense = w.dense()
    assert w.l1_sensitivity == np.abs(dense).sum(axis=0).max() < 3 * 3 + 5 * 4
    assert Stack(Kron(*[Prefix(9)] * 3), Kron(*[AllRange(9)] * 3)).l1_sensitivity == max(
        math.prod(9 - j for j in cell) + math.prod((j + 1) * (9 - j) for j in cell)
        for cell in itertools.product(range(9), repeat=3)
    )


def test_a_union_without_a_pattern_forms_all_cells_if_they_fit():
    rng = np.random.default_rng(0)
    factors = [[Explicit(rng.integers(1, 1000, size=(1, 60))) for _ in range(5)] for _ in range(6)]
    w = Stack(*(Kron(*part[:3]) for part in factors))
    assert w.l1_sensitivity == w.column_norms().max()
    with pytest.raises(WorkloadError, match=r"column norms of this workload would take 5\.8 GiB"):
        _ = Stack(*(Kron(*part) for part in factors)).l1_sensitivity
