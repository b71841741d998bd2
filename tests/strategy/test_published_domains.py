"""HDMM's Tables 6 and 7 over its four domains: Identity, the queries as they are, and the SVD bound."""

import json
import math
from pathlib import Path

import pytest

from dpnotebook.strategy import identity
from dpnotebook.strategy.bounds import svd_bound
from dpnotebook.strategy.strategy import unit_variance
from dpnotebook.workload import (
    Identity,
    Kron,
    Predicates,
    Prefix,
    Stack,
    Total,
    marginals,
    prefix_marginals,
    small_marginals,
)

PRIVACY = {"laplace": (1.0, 0.0), "gaussian": (1.0, 1e-6)}
PRINTED = 0.0051  # half a unit of the last printed digit
DIGITS = 1e-9  # of numbers that are printed with ten digits or more: how far both were computed

ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
CPS = (50, 100, 7, 4, 2)

# workload: Identity, the queries themselves ("Laplace"), SVDB (None where the paper has none), by noise
TABLES = {
    "CPS, all marginals": {"laplace": (5.38, 45.25, 2.63), "gaussian": (16.08, 23.90, 7.85)},
    "CPS, all prefix-marginals": {"laplace": (98.06, 56568.54, 9.32), "gaussian": (292.93, 844.94, 27.85)},
    "Adult, up to 3D": {"laplace": (5352117.26, 664.68, 15.08), "gaussian": (15988375.02, 91.59, 45.06)},
    "Adult, 2D prefix": {
        "laplace": (475602516.60, 138602.83, None),
        "gaussian": (1420766966.19, 1322.58, None),
    },
    # 188 marginals: sqrt(188) times the noise of sensitivity one is 57.926, which Table 7 prints as 57.92.
    "Loans, small": {"laplace": (3330650.46, 265.87, 11.61), "gaussian": (9949649.11, 57.926, 34.67)},
    "Loans, small prefix": {"laplace": (15340082.96, 11013.90, None), "gaussian": (45825415.90, 372.83, None)},
}
WORKLOADS = {
    "CPS, all marginals": marginals(CPS, upto=5),
    # Prefixes of all levels count everything: no total beside them.
    "CPS, all prefix-marginals": Kron(Prefix(50), Prefix(100), *(Stack(Total(n), Identity(n)) for n in CPS[2:])),
    "Adult, up to 3D": marginals(ADULT, upto=3),
    "Adult, 2D prefix": prefix_marginals(ADULT, 2, range(5)),
    "Loans, small": small_marginals(LOANS, 5000),
    "Loans, small prefix": small_marginals(LOANS, 5000, prefix=range(4)),
}


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_6_and_7(name, noise):
    w, (of_identity, of_queries, svdb) = WORKLOADS[name], TABLES[name][noise]
    found = identity(w, noise)
    assert found.rmse(*PRIVACY[noise]) == pytest.approx(of_identity, abs=PRINTED, rel=DIGITS)
    # Measuring the queries as they are: noise of their sensitivity on each.
    sensitivity = w.l1_sensitivity if noise == "laplace" else w.l2_sensitivity
    root = math.sqrt(unit_variance(noise, *PRIVACY[noise]))
    assert sensitivity * root == pytest.approx(of_queries, abs=PRINTED)
    if svdb is not None:
        assert math.sqrt(svd_bound(w) / w.shape[0]) * root == pytest.approx(svdb, abs=PRINTED)


def test_census():
    census = json.loads((Path(__file__).parents[2] / "notebooks/data/sf1.json").read_text())
    products = [
        Kron(*(Predicates.inclusive(rows, n).simplest() for rows, n in zip(item["rows"], census["shape"], strict=True)))
        for item in census["products"]
    ]
    sf1 = Stack(*products)
    plus = Stack(*(Kron(product, state) for product in products for state in (Total(51), Identity(51))))
    assert identity(sf1).rmse(1.0) == pytest.approx(23.20, abs=PRINTED)
    assert identity(plus).rmse(1.0) == pytest.approx(32.50, abs=PRINTED)
    assert identity(plus, "gaussian").rmse(1.0, 1e-6) == pytest.approx(97.08, abs=PRINTED)
    # Table 7 prints 69.33, 0.02% more than its own 23.20 of Table 6 times the ratio of the two noises.
    assert identity(sf1, "gaussian").rmse(1.0, 1e-6) == pytest.approx(69.319, abs=0.0006)


def test_identity_over_domains_that_no_integer_type_counts():
    w = marginals([10] * 20, upto=2)
    assert w.shape == (1 + 20 * 10 + 190 * 100, 10**20)
    squares = 1 * 10**20 + 20 * 10 * 10**19 + 190 * 100 * 10**18  # cells of all queries together
    for noise, variance in (("laplace", 2.0), ("gaussian", unit_variance("gaussian", 1.0, 1e-6))):
        found = identity(w, noise)
        assert found.operator.shape == (10**20, 10**20)
        assert found.norm == 1
        assert found.rmse(*PRIVACY[noise]) == pytest.approx(math.sqrt(variance * squares / w.shape[0]))
        assert found.bound <= found.objective
    flat = Total(10**20) + Identity(10**20)
    assert identity(flat).rmse(1.0) == pytest.approx(math.sqrt(2 * 2 * 10**20 / (10**20 + 1)))
