"""The best weights for a known basis: against the plain basis, brute force, and what eigen-design's paper reports."""

import itertools
import math

import numpy as np
import pytest

from dpnotebook.errors import WorkloadError
from dpnotebook.strategy import eigen_design, fourier, wavelet, weighted_basis
from dpnotebook.workload import (
    AllRange,
    Explicit,
    Fourier,
    Hierarchy,
    Identity,
    Kron,
    Marginals,
    Permuted,
    Prefix,
    Stack,
    Total,
    Wavelet,
)


def ratio(strategy, other):
    return math.sqrt(strategy.objective / other.objective)


def marginals(sizes, ways):
    subsets = [s for k in ways for s in itertools.combinations(range(len(sizes)), k)]
    return Marginals(map(Identity, sizes), dict.fromkeys(subsets, 1))


WORKLOADS = [
    AllRange(8),
    Prefix(11),
    2.5 * AllRange(5),
    Explicit([[1, 2, 0, -1, 3, 0], [0, 1, 1, 1, 0, 0]]),
    Kron(Prefix(4), AllRange(6)),
    Stack(Kron(Identity(3), Total(5)), 2 * Kron(Total(3), Prefix(5))),
    marginals((4, 2, 8), [2]),
    Marginals(map(Identity, (4, 1, 2)), {(): 3, (0, 1): 0.5, (2,): 2}),
    Total(4),
    Identity(1),
]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("basis", ["wavelet", "fourier"])
@pytest.mark.parametrize("w", WORKLOADS, ids=repr)
def test_errors_by_brute_force(w, basis, noise):
    found = weighted_basis(w, basis, noise)
    a = found.operator.dense().astype(float)
    sensitivity = np.abs(a).sum(axis=0).max() if noise == "laplace" else np.sqrt((a**2).sum(axis=0).max())
    assert found.sensitivity == pytest.approx(sensitivity)
    exact = w.dense() @ np.linalg.pinv(a)
    assert np.allclose(exact @ a, w.dense())
    assert found.objective == pytest.approx(sensitivity**2 * (exact**2).sum())
    plain = (wavelet if basis == "wavelet" else fourier)(w, noise)
    assert found.objective <= plain.objective * 1.0003


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("w", [AllRange(8), Prefix(8), Explicit([[3, 1, 0, 0], [0, 0, 1, 1]])], ids=repr)
def test_no_weights_are_better(w, noise):
    found = weighted_basis(w, "wavelet", noise)
    rng = np.random.default_rng(0)
    basis, weights = Wavelet(w.shape[1]).dense().astype(float), found.operator.weights
    needed = weights > 0
    for _ in range(300):
        a = (weights * np.exp(rng.normal(size=len(weights)) * rng.choice([0.02, 0.2])))[needed, None] * basis[needed]
        norm = np.abs(a).sum(axis=0).max() ** 2 if noise == "laplace" else (a**2).sum(axis=0).max()
        assert norm * ((w.dense() @ np.linalg.pinv(a)) ** 2).sum() >= found.objective * (1 - 2e-4)


def test_fourier_on_low_order_marginals():
    # Section 3.5, for epsilon-differential privacy: "using the Fourier basis can improve its performance on low order
    # marginals by a factor of 1.6". All marginals of up to three of 11 binary attributes (2,048 cells): 1.599.
    w = marginals((2,) * 11, range(4))
    assert ratio(fourier(w), weighted_basis(w, "fourier")) == pytest.approx(1.6, abs=0.005)


def test_wavelet_on_all_ranges():
    # Section 3.5: "using the Wavelet basis can improve its performance on all range queries by 1.1": over 2,048 cells
    # of two attributes or more here; 1.02 over one.
    for sizes, better in (((8, 16, 16), 1.1), ((8, 8, 16, 2), 1.1), ((32, 64), 1.06), ((256,), 1.02)):
        w = Kron(*map(AllRange, sizes)) if len(sizes) > 1 else AllRange(*sizes)
        assert ratio(wavelet(w), weighted_basis(w, "wavelet")) > better


def test_bases_for_gaussian_noise():
    # Section 5.3: 20% above eigen-design on all ranges in order, with both; 4 times on ranges in another order; and
    # equal on marginals.
    w = AllRange(256)
    found = eigen_design(w)
    assert 1.15 < ratio(weighted_basis(w, "wavelet", "gaussian"), found) < 1.25
    assert 1.15 < ratio(weighted_basis(w, "fourier", "gaussian"), found) < 1.25
    w = marginals((4, 8, 8), [2])
    assert ratio(weighted_basis(w, "fourier", "gaussian"), eigen_design(w)) == pytest.approx(1, abs=0.001)


@pytest.mark.slow
def test_permuted_ranges_on_2048_cells():
    w = AllRange(2048)
    found = eigen_design(w)
    for basis in ("wavelet", "fourier"):
        assert 1.15 < ratio(weighted_basis(w, basis, "gaussian"), found) < 1.25
        assert ratio(weighted_basis(Permuted(w, 3), basis, "gaussian"), found) > 4


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("sizes", [(4, 8), (2, 2, 2, 2)])
def test_marginals_over_bits_have_closed_weights(sizes, noise):
    # The same program on the whole domain, coefficient by coefficient.
    w = marginals(sizes, [1, 2])
    closed = weighted_basis(w, "fourier", noise)
    general = weighted_basis(w, [Fourier(size) for size in sizes], noise, tolerance=1e-6)
    assert isinstance(closed.operator, Marginals)
    assert closed.objective == pytest.approx(general.objective, rel=2e-4)
    # It needs no domain: all pairs of 30 attributes.
    assert weighted_basis(marginals((4,) * 30, [2]), "fourier", noise).objective > 0


def test_own_bases():
    w = AllRange(6)
    own = Explicit(np.tril(np.ones((6, 6), dtype=int)))  # prefixes, as a basis
    found = weighted_basis(w, [own], "gaussian")
    assert found.objective == pytest.approx(weighted_basis(w, [Prefix(6)], "gaussian").objective)
    assert found.name == "weighted basis"
    # More queries than cells: those that follow from earlier ones are left out, here the inner nodes of a tree.
    assert not weighted_basis(w, [Hierarchy(6, 2)]).operator.weights[6:].any()


def test_bad_input():
    with pytest.raises(WorkloadError, match='"wavelet", "fourier"'):
        weighted_basis(Prefix(4), "haar")
    with pytest.raises(WorkloadError, match="one integer workload for each attribute"):
        weighted_basis(Prefix(4), [Identity(5)])
    with pytest.raises(WorkloadError, match="some of them follow from others"):
        weighted_basis(Prefix(2), [Explicit([[1, 1], [2, 2]])])
    with pytest.raises(WorkloadError, match="they determine 2"):
        weighted_basis(Prefix(3), [Explicit([[1, 1, 0], [2, 2, 0], [3, 3, 0], [0, 0, 1]])])
    with pytest.raises(WorkloadError, match="limit 4,096"):
        weighted_basis(Prefix(8192))
