"""Published strategies for marginals: DataCube to the digits of HDMM's Tables 6 and 7, and Fourier by brute force."""

import itertools
import math

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import datacube, fourier, identity
from dpnotebook.workload import AllRange, Fourier, Identity, Kron, Marginals, Prefix, Stack, Total

PRIVACY = {"laplace": {"epsilon": 1.0}, "gaussian": {"epsilon": 1.0, "delta": 1e-6}}
PRINTED = 0.0051
CPS = (50, 100, 7, 4, 2)
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
LOANS = (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15)


def marginals(sizes, wanted):
    """The marginals over the subsets that are wanted, in the order of their 0/1 keys."""
    keys = itertools.product((0, 1), repeat=len(sizes))
    subsets = [tuple(i for i, used in enumerate(key) if used) for key in keys]
    return Marginals(map(Identity, sizes), {subset: 1 for subset in subsets if wanted(subset)})


# HDMM, column DataCube. Its search does not get to the best bound: the numbers are those of the bound it starts from,
# the number of marginals asked (found by trying; all six agree). Ties in the cover go to the first in key order.
@pytest.mark.parametrize(
    ("sizes", "wanted", "laplace", "gaussian"),
    [
        (CPS, lambda subset: True, 18.49, 19.53),
        (ADULT, lambda subset: len(subset) <= 3, 494.06, 77.36),
        (LOANS, lambda subset: math.prod(LOANS[i] for i in subset) <= 5000, 113.98, 37.37),
    ],
    ids=["CPS", "Adult", "Loans"],
)
def test_tables_6_and_7(sizes, wanted, laplace, gaussian):
    w = marginals(sizes, wanted)
    bound = len(w.weights)
    assert datacube(w, "laplace", bound).rmse(**PRIVACY["laplace"]) == pytest.approx(laplace, abs=PRINTED)
    assert datacube(w, "gaussian", bound).rmse(**PRIVACY["gaussian"]) == pytest.approx(gaussian, abs=PRINTED)


SMALL = (3, 4, 5)


def worst(asked, measured, noise):
    """The largest variance of a cell of an asked marginal, summed from the best measured one alone."""
    sums = [
        min((math.prod(SMALL[i] for i in set(b) - set(a)) for b in measured if set(a) <= set(b)), default=math.inf)
        for a in asked
    ]
    return max(sums) * len(measured) ** (2 if noise == "laplace" else 1)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("seed", range(20))
def test_bmax_against_every_choice(seed, noise):
    rng = np.random.default_rng(seed)
    every = [s for k in range(4) for s in itertools.combinations(range(3), k)]
    asked = [every[i] for i in sorted(rng.choice(8, rng.integers(1, 9), replace=False))]
    w = Marginals(map(Identity, SMALL), dict.fromkeys(asked, 1))
    measured = [subset for subset, _ in datacube(w, noise).operator.weights]
    ours = worst(asked, measured, noise)
    choices = [c for k in range(1, len(asked) + 1) for c in itertools.combinations(asked, k)]
    best = min(worst(asked, c, noise) for c in choices)
    # A greedy cover of at most 8 marginals has at most H(8) = 2.72 times as many as the best one.
    assert best <= ours <= best * 2.72 ** (2 if noise == "laplace" else 1)
    assert ours <= worst(asked, asked, noise)


WORKLOADS = [
    marginals((4, 2, 8), lambda subset: len(subset) == 2),
    marginals((3, 2, 5), lambda subset: len(subset) <= 1),
    Marginals((AllRange(4), Prefix(3), Identity(1)), {(0,): 2, (0, 1): 0.5, (2,): 1}),
    Stack(Kron(Identity(3), Total(5)), 2 * Kron(Total(3), Prefix(5))),
    Kron(Prefix(4), Identity(6)),
    Prefix(8),
    Total(4),
]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("strategy", [fourier, datacube])
@pytest.mark.parametrize("w", WORKLOADS, ids=repr)
def test_errors_by_brute_force(w, strategy, noise, check_by_brute_force):
    check_by_brute_force(strategy(w, noise), w, noise)


def test_fourier_measures_each_needed_coefficient_once():
    # One-way marginals of 4 x 8 levels: the total, 3 and 7 coefficients; each cell is in all of them, with 1 or -1.
    found = fourier(marginals((4, 8), lambda subset: len(subset) == 1))
    assert found.operator.shape == (11, 32)
    assert found.norm == 11
    assert fourier(marginals((4, 8), lambda subset: True)).operator == Kron(Fourier(4), Fourier(8))


def test_all_coefficients_are_as_good_as_all_cells_with_gaussian_noise():
    # The basis is orthogonal: with no coefficient left out it is the identity turned around.
    w = Prefix(16)
    assert fourier(w, "gaussian").objective == pytest.approx(identity(w, "gaussian").objective)


def test_bad_input():
    parts = Stack(Kron(Identity(2), Identity(6)), Kron(Identity(3), Identity(4)))
    for strategy in (fourier, datacube):
        with pytest.raises(WorkloadError, match="over the same attributes"):
            strategy(parts)
    with pytest.raises(WorkloadError, match="at least 1"):
        datacube(Identity(3), bound=0.5)
    with pytest.raises(WorkloadError, match="more than a million"):
        fourier(Marginals(map(Identity, [2] * 22), {tuple(range(22)): 1}))
