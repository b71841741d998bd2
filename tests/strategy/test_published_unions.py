"""HDMM's Tables 3, 6 and 7: several attributes, at the epsilon = 1 and delta = 1e-6 of its section 11."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from clocks import processor_time

from dpnotebook.strategy.explicit import explicit_choice
from dpnotebook.strategy.hdmm import best_of, compare, opt_hdmm, tried
from dpnotebook.strategy.marginals import opt_marginals
from dpnotebook.strategy.operators import opt_product, opt_union
from dpnotebook.strategy.residual import opt_residual
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

CENSUS = json.loads((Path(__file__).parents[2] / "notebooks/data/sf1.json").read_text())
CPS = (50, 100, 7, 4, 2)
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)
PRINTED = 0.0051  # half a unit of the last printed digit


def census(*states):
    """SF1 as 33 products, each with the further factor given."""
    found = []
    for product in CENSUS["products"]:
        pairs = zip(product["rows"], CENSUS["shape"], strict=True)
        found.append(Kron(*(Predicates.inclusive(rows, n).simplest() for rows, n in pairs), *states))
    return Stack(*found)


def both(n):
    return Stack(Total(n), Identity(n))


WORKLOADS = {
    "SF1": census(),
    "SF1+": census(both(51)),
    "CPS all": Kron(*map(both, CPS)),
    "CPS prefix": Kron(Prefix(50), Prefix(100), *map(both, CPS[2:])),
    "Adult 3D": marginals(ADULT, upto=3),
    "Adult prefix": prefix_marginals(ADULT, 2, prefix=range(5)),
    "Loans small": small_marginals(LOANS, 5000),
    "Loans prefix": small_marginals(LOANS, 5000, prefix=range(4)),
}
# Published error of HDMM, and what is reached here (tested with the room that rounding to integers takes).
TABLE_6 = {
    "SF1": (7.30, 7.295),
    "SF1+": (10.23, 9.95),
    "CPS all": (4.84, 4.765),
    "CPS prefix": (40.59, 40.54),
    "Adult 3D": (225.35, 220.5),
    "Adult prefix": (484.07, 443),
    "Loans small": (100.92, 92),
    "Loans prefix": (288.29, 239),
}
TABLE_7 = {
    "SF1": (9.80, 9.44),
    "SF1+": (10.90, 10.49),
    "CPS all": (7.85, 7.853),
    "CPS prefix": (29.48, 29.475),
    "Adult 3D": (46.44, 45.06),
    "Adult prefix": (126.17, 70.9),
    "Loans small": (34.91, 34.6749),
    "Loans prefix": (99.72, 53.7),
}
SVDB = {"CPS all": 7.85, "Adult 3D": 45.06, "Loans small": 34.67}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", TABLE_6)
def test_table_6(name):
    w = WORKLOADS[name]
    published, ours = TABLE_6[name]
    if name in ("SF1", "SF1+", "CPS prefix"):  # one product is best
        found = opt_product(w, choose=explicit_choice("laplace"))
    else:  # operators with a name in each attribute, to be quick: see below for optimised ones
        found = opt_marginals(w)
    assert found.rmse(1.0) <= min(ours, published + PRINTED)
    assert found.norm < 2**62


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ours"), [("Adult prefix", 404), ("Loans prefix", 228)])
def test_table_6_with_optimised_operators(name, ours):
    found = opt_hdmm(WORKLOADS[name])
    assert found.rmse(1.0) <= ours < TABLE_6[name][0]


@pytest.mark.parametrize("name", TABLE_7)
def test_table_7(name):
    published, ours = TABLE_7[name]
    began = time.process_time()
    found = opt_residual(WORKLOADS[name])
    assert time.process_time() - began < 5
    assert found.rmse(1.0, 1e-6) <= min(ours, published + PRINTED)
    assert found.norm < 2**62
    if name in SVDB:
        assert found.lower_bound(1.0, 1e-6) == pytest.approx(SVDB[name], abs=PRINTED)
        assert found.optimality < 1.0001
        assert found.certificate > 0


def test_table_3():
    # At |A| = 1: 300,000 for the identity, 213,270 for OPT_x, 85,070 for OPT_+, 62,886 for OPT_M.
    w = marginals((2, 5, 50, 100), 2)
    product = opt_product(w, choose=explicit_choice("laplace", "quick"))
    assert product.objective <= 213_270 * 1.001
    union = opt_union(w)
    assert union.split
    assert 85_069.5 < union.objective < 85_070 * 1.001
    found = opt_hdmm(w)
    assert found.objective == pytest.approx(62_886, abs=0.5)
    assert found.name == "3 weighted marginals"


def test_compare_gives_all_best_first():
    w = marginals((2, 5, 50, 100), 2)
    found = compare(w)
    assert [strategy.objective for strategy in found] == sorted(strategy.objective for strategy in found)
    assert len({strategy.name for strategy in found}) == len(found) == 3
    assert best_of(found) is found[0]
    gaussian = compare(w, "gaussian")
    assert gaussian[0].name.startswith("residuals")
    assert gaussian[0].optimality < 1.001


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_quick_effort_is_quick(noise):
    privacy = {"epsilon": 1.0, "delta": 1e-6 if noise == "gaussian" else 0.0}
    for w, seconds in [
        (Kron(Identity(10), Identity(5)), 0.15),
        (Kron(Prefix(100), Identity(5)), 0.15),
        (marginals((10, 9, 8, 7, 6, 5, 4, 3), 2), 1.0),
        (marginals((4, 4, 4, 4, 4), 2), 1.0),
    ]:
        assert processor_time(lambda w=w: tried(w, noise, "quick"), 3) < seconds
        found = best_of(tried(w, noise, "quick"))
        assert np.isfinite(found.rmse(**privacy))


def test_strategies_too_large_to_measure_are_left_out():
    # Every cell of 10^17 is one noisy answer too many, even where nothing has a lower expected error.
    found = opt_hdmm(marginals(ADULT, 1))
    assert found.operator.shape[0] < 2**28


def test_products_over_different_attributes():
    w = Stack(Kron(Identity(4), Prefix(6)), Kron(Identity(6), Total(4)))
    for noise in ("laplace", "gaussian"):
        found = opt_hdmm(w, noise)
        assert np.isfinite(found.objective)
        assert found.objective >= found.bound * (1 - 1e-9)


def test_restarts_and_cancelling():
    w = census()
    rng = np.random.default_rng(0)
    quick = explicit_choice("laplace", "quick")
    plain = opt_product(w, choose=quick)
    assert opt_product(w, choose=quick, restarts=2, rng=rng).objective <= plain.objective

    def cancel(fraction, text):
        raise KeyboardInterrupt(text)

    for noise in ("laplace", "gaussian"):
        with pytest.raises(KeyboardInterrupt):
            opt_hdmm(marginals((3, 4, 5), 2), noise, report=cancel)
