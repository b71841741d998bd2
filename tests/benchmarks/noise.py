"""Times of exact noise against numpy's own: python tests/benchmarks/noise.py [draws]. Prints a line for each law."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from dpnotebook.privacy.noise import discrete_laplace, rounded_gaussian
from dpnotebook.privacy.randomness import Randomness
from dpnotebook.privacy.tails import half_widths

SCALES = {"1": Fraction(1), "10": Fraction(10), "10^6": Fraction(10**6), "2^53": Fraction(2**53)}


def seconds(call: Callable[[], object], runs: int = 5) -> float:
    """Return the median wall time of a call, after one to warm up."""
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def noise_times(draws: int = 10**6) -> Iterator[tuple[str, float, float]]:
    """Yield for each law and scale its name, its seconds for `draws` draws, and the ratio to numpy's own law."""
    plain = np.random.default_rng()
    laplace, normal = seconds(lambda: plain.laplace(size=draws)), seconds(lambda: plain.normal(size=draws))
    for text, scale in SCALES.items():
        spent = seconds(lambda b=scale: discrete_laplace(b, draws, Randomness().source()))
        yield f"discrete Laplace, b = {text}", spent, spent / laplace
    for text, scale in SCALES.items():
        spent = seconds(lambda s=scale: rounded_gaussian(s, draws, Randomness().source()))
        yield f"rounded Gaussian, sigma = {text}", spent, spent / normal


def main(draws: int = 10**6) -> None:
    """Print the times."""
    for name, spent, ratio in noise_times(draws):
        print(f"{name:32s} {draws:>10,} draws {spent:8.3f} s  {ratio:6.1f} x numpy")
    weights = np.random.default_rng().normal(size=(1000, 1000))
    spent = seconds(lambda: half_widths(weights, 10, "laplace", 0.95), 3)
    print(f"{'half-widths of 1,000 sums':32s} {weights.size:>10,} weights {spent:6.3f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10**6)
