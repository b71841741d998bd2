"""Large product domains are reconstructed in a few times the size of their cells."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from dpnotebook.inference import least_squares
from dpnotebook.workload import AllRange, Hierarchy, Identity, Kron, Prefix, Stack, Total


def test_cells_of_a_product_take_a_few_times_their_size():
    operator = 3 * Kron(Hierarchy(40, 7), Identity(40), Prefix(40), Hierarchy(40, 7))
    cells = operator.shape[1]
    noisy = np.random.default_rng(0).normal(size=operator.shape[0])
    workload = Stack(Kron(Prefix(40), Total(40), Prefix(40), Identity(40)), Kron(Total(40), *[Prefix(40)] * 3))
    tracemalloc.start()
    try:
        estimate = least_squares(operator, noisy)
        found = tracemalloc.get_traced_memory()[1] / (8 * cells)
        tracemalloc.reset_peak()
        workload.matvec(estimate)
        answered = tracemalloc.get_traced_memory()[1] / (8 * cells)
    finally:
        tracemalloc.stop()
    # What the last step takes in, 47 nodes for the 40 cells of one attribute, what it gives out, and a few pieces.
    assert found < 47 / 40 + 1 + 0.6
    assert answered < 1 + 1 / 40 + 0.6


@pytest.mark.parametrize("kind", [Identity, Prefix, AllRange, Total, lambda n: Hierarchy(n, 2)])
def test_pieces_are_put_together_as_one_array(monkeypatch, kind):
    rng = np.random.default_rng(1)
    operator = Kron(kind(3), Prefix(5), kind(4), kind(7))
    x, y = rng.integers(-9, 9, size=operator.shape[1]), rng.normal(size=operator.shape[0])
    whole = operator.matvec(x), operator.rmatvec(y), least_squares(operator, y)
    for piece in (1, 7, 30, 100):
        monkeypatch.setattr("dpnotebook.workload.compose.PIECE", piece)
        np.testing.assert_array_equal(operator.matvec(x), whole[0])
        assert operator.matvec(x).dtype == np.int64
        np.testing.assert_allclose(operator.rmatvec(y), whole[1], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(least_squares(operator, y), whole[2], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from Linux's /proc")
def test_a_hundred_million_cells_within_four_gibibytes():
    code = """
import numpy as np
from dpnotebook.inference import least_squares
from dpnotebook.workload import Hierarchy, Identity, Kron, Prefix, Total
operator = Kron(Hierarchy(100, 10), Identity(100), Hierarchy(100, 10), Identity(100))
x = np.random.default_rng(0).integers(0, 9, size=10**8, dtype=np.int64)
noisy = operator.matvec(x)
truth = Kron(Prefix(100), Total(100), Prefix(100), Total(100)).matvec(x)
del x
estimate = least_squares(operator, noisy)
answers = Kron(Prefix(100), Total(100), Prefix(100), Total(100)).matvec(estimate)
assert np.allclose(answers, truth, rtol=1e-9)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    # Not from getrusage, which counts what the parent held as well.
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 4 * 2**20
