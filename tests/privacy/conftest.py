"""Shared by the privacy tests: arithmetic that owes nothing to the package, checks of laws, sources of chosen bytes."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651"
    "3282306647093844609550582231725359408128481117450284102701938521105559644622948954930381964428810975665933446128"
)


def _phi(x):
    """Phi(x) to 100 digits by the Maclaurin series of erf, of which the largest term is exp(x^2 / 2)."""
    with localcontext() as context:
        context.prec = 1000
        x = Decimal(x.numerator) / Decimal(x.denominator) if isinstance(x, Fraction) else Decimal(x)
        context.prec = 200 + int(x * x)
        total, power, n = Decimal(0), x, 0
        while n < abs(x) ** 2 or abs(power) > Decimal(10) ** -190:
            total += power / (2 * n + 1)
            n += 1
            power = -power * x * x / (2 * n)
        return Decimal("0.5") + total / (2 * PI).sqrt()


@pytest.fixture(scope="session")
def phi():
    """The normal distribution function of a Fraction, Decimal or float, as a Decimal of 100 digits."""
    return _phi


@pytest.fixture(scope="session")
def fits():
    """Whether draws fit a law: chi-square against its mass function, failing a right one less than once in 10^7."""

    def check(draws, mass, most=400):
        draws = np.asarray(draws)
        reach = int(np.abs(draws).max()) + 1
        width = max(1, math.ceil((2 * reach + 1) / most))  # merge neighbours where the law is wide
        edges = np.arange(-reach, reach + width, width)
        k = np.arange(edges[0], edges[-1] + 1)
        expected = np.add.reduceat(mass(k)[: edges[-1] - edges[0]], edges[:-1] - edges[0]) * draws.size
        observed = np.histogram(draws, bins=edges)[0].astype(float)
        good = expected >= 20
        outside = draws.size - expected[good].sum()
        observed = np.append(observed[good], draws.size - observed[good].sum())
        expected = np.append(expected[good], outside)
        keep = expected >= 20
        keep[np.argmax(expected)] = True
        statistic = np.sum((observed[keep] - expected[keep]) ** 2 / expected[keep])
        return stats.chi2.sf(statistic, max(1, keep.sum() - 1)) > 1e-7

    return check


@pytest.fixture(scope="session")
def pure_loss():
    """The exact privacy loss of a law of integer noise: the largest log ratio of masses at neighbouring integers."""

    def check(log_mass, reach):
        logs = log_mass(np.arange(-reach, reach + 1))
        return float(np.max(np.abs(np.diff(logs))))

    return check


@pytest.fixture(scope="session")
def gaussian_excess():
    """By how much the exact delta(epsilon) of a law of integer noise passes that of mu-GDP, at worst on a grid."""
    from dpnotebook.privacy.accountant import delta_of_mu

    def check(mass, mu, reach):
        p = mass(np.arange(-reach, reach + 1))
        epsilons = np.concatenate([np.linspace(0, 3 * mu, 13), np.linspace(0, mu * (mu / 2 + 6), 25)])
        excess = []
        for epsilon in epsilons:
            delta = np.maximum(p[1:] - np.exp(epsilon) * p[:-1], 0).sum()
            allowed = delta_of_mu(mu, float(epsilon))
            if allowed > 1e-12:  # below it the sum has lost too many digits
                excess.append(delta / allowed - 1)
        return max(excess)

    return check


class Script:
    """A source that returns the given pieces in turn, checks their sizes, and zeros or an error after them."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)

    def __call__(self, count):
        assert self.pieces, f"{count} bytes more than expected were asked for"
        piece = self.pieces.pop(0)
        piece = piece.tobytes() if isinstance(piece, np.ndarray) else piece
        assert len(piece) == count
        return piece


@pytest.fixture(scope="session")
def script():
    return Script
