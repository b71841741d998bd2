"""Which marginals to measure for the group-bys that are likely to come, and how precisely.

Someone who drills down asks for counts by a few attributes, some levels of others picked out. By symmetry in the
levels such a question is described by widths: how many levels of each attribute one answer sums, 1 for a key and all
for an attribute that plays no part. Measured marginals have an information matrix with the eigenspaces of HDMM's
Theorem 9, one for each subset of the attributes, so that with 2^d eigenvalues the variance of any such question is a
sum of 2^d terms.

What comes next is not known. The rule here weighs the price of more precise marginals against what the questions asked
so far, asked again of other levels, and group-bys in general would cost one by one, as many more of them as there were
already: a sequence that has gone on for long goes on for long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpnotebook.privacy.accountant import Noise

Floats = NDArray[np.float64]
Subset = tuple[int, ...]

HORIZON = 10  # questions that are expected before any was asked; each that was asked adds one
# What is measured for one of them serves the next, so that together they cost less than one by one.
WORTH: dict[Noise, float] = {"laplace": 0.5, "gaussian": 0.7}
ANY = 20.0  # weight of group-bys in general, a question that was asked counting 1
MOST_KEYS, MOST_FILTERS = 3, 2  # of group-bys in general
RAISES = 16  # steps by which the rate of a marginal may rise, from a fiftieth of what is ever useful
VARIANCES = 6  # quantiles of the accuracies that were asked
LATEST = 64  # questions that are looked at
ROUNDS = 40
HALVINGS = 12
ENOUGH = 1.01  # for levels that are known less well than others
LEAST_GAIN = 1e-2  # of the expected cost, below which nothing more is bought
NOTHING = 1e-12


@dataclass(frozen=True)
class GroupBy:
    """A group-by, up to which levels its filters keep.

    Parameters
    ----------
    widths
        How many levels of each attribute one answer sums: 1 for a key, all where the attribute plays no part.
    variance
        What its answers may have.
    """

    widths: tuple[int, ...]
    variance: float


@dataclass(frozen=True)
class Raise:
    """A marginal to measure, or to measure more precisely.

    Parameters
    ----------
    subset
        The attributes, ascending; the sum over all others is taken.
    precision
        How much more precise each of its counts becomes: one over a variance.
    """

    subset: Subset
    precision: float


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is known and what is expected, when a question is asked.

    Parameters
    ----------
    sizes
        Levels of each attribute.
    asked
        The questions so far, the present one last.
    known
        Eigenvalues of the information matrix of all that was measured, averaged over permutations of levels, one for
        each of `subsets`; shape (2^d,).
    bought
        Precision of each marginal that was measured as a whole, shape (2^d,).
    outside
        Number of further attributes that questions may be about.
    """

    sizes: tuple[int, ...]
    asked: Sequence[GroupBy]
    known: Floats
    bought: Floats
    outside: int = 0


@lru_cache(maxsize=64)
def subsets(attributes: int) -> tuple[Subset, ...]:
    """Return all subsets of so many attributes, smaller ones first."""
    return tuple(s for size in range(attributes + 1) for s in combinations(range(attributes), size))


@lru_cache(maxsize=64)
def marginal_information(sizes: tuple[int, ...]) -> Floats:
    """Return the eigenvalues of the information matrix of each marginal measured with precision 1.

    Parameters
    ----------
    sizes
        Levels of each attribute.

    Returns
    -------
    Shape (2^d marginals, 2^d eigenspaces).

    Source: HDMM, Theorem 9.
    """
    all_ = subsets(len(sizes))
    return np.array(
        [
            [math.prod(n for i, n in enumerate(sizes) if i not in s) if set(a) <= set(s) else 0.0 for a in all_]
            for s in all_
        ],
        dtype=float,
    )


def shares(widths: Sequence[int], sizes: tuple[int, ...]) -> Floats:
    """Return the squared length of a question with these widths in every eigenspace, shape (2^d,)."""
    mean = [w * w / n for w, n in zip(widths, sizes, strict=True)]
    rest = [w - m for w, m in zip(widths, mean, strict=True)]
    return np.array([math.prod(rest[i] if i in a else mean[i] for i in range(len(sizes))) for a in subsets(len(sizes))])


def average_information(matrix: Floats, sizes: tuple[int, ...]) -> Floats:
    """Return the eigenvalues of an information matrix averaged over all permutations of levels, shape (2^d,).

    Parameters
    ----------
    matrix
        Over the cells of the attributes in C order, shape (cells, cells).
    sizes
        Levels of each attribute.
    """
    found: dict[Subset, Floats] = {(): matrix.reshape(*sizes, *sizes)}
    for i, n in enumerate(sizes):
        after: dict[Subset, Floats] = {}
        for subset, part in found.items():
            axis = part.ndim // 2
            mean = part.sum(axis=(0, axis)) / n
            after[subset] = mean
            after[(*subset, i)] = np.trace(part, axis1=0, axis2=axis) - mean
        found = after
    spaces = [math.prod(sizes[i] - 1 for i in subset) for subset in subsets(len(sizes))]
    totals = [float(found[subset]) for subset in subsets(len(sizes))]
    return np.array([total / max(space, 1) for total, space in zip(totals, spaces, strict=True)])


def group_strategy(outlook: Outlook, noise: Noise, alone: float, credit: float = math.inf) -> tuple[Raise, ...]:
    """Return the marginals that are worth measuring now, for this question and those that are likely to come.

    Parameters
    ----------
    outlook
        What is known and what is expected.
    noise
        "laplace": a cost is epsilon. "gaussian": it is mu^2. Both for one row a unit, on counts.
    alone
        What the present question costs without a purchase.
    credit
        What may be paid now, the rest of the question included.

    Returns
    -------
    tuple of Raise
        Empty where nothing is worth buying. All cells are charged alike: the total rises by exactly the sum of the
        rises of the rates.
    """
    best = _Prices(outlook, noise, alone, credit)
    rates, least = best.start, float(best.expected(best.start[None])[0])
    first = least
    for _ in range(ROUNDS):
        trials = best.trials(rates)
        totals = best.expected(trials)
        place = int(totals.argmin())
        if totals[place] >= least - LEAST_GAIN * first:
            break
        rates, least = trials[place], float(totals[place])
    raised = best.precision(rates)
    all_ = subsets(len(outlook.sizes))
    return tuple(Raise(all_[i], float(raised[i])) for i in np.flatnonzero(raised > NOTHING))


def price(outlook: Outlook, raises: Sequence[Raise], noise: Noise) -> float:
    """Return by how much more precise marginals raise the spend of every cell, in epsilon or mu^2."""
    all_ = subsets(len(outlook.sizes))
    before = outlook.bought
    added = np.zeros(len(all_))
    for one in raises:
        added[all_.index(one.subset)] += one.precision
    return float((_rate(before + added, noise) - _rate(before, noise)).sum())


class _Prices:
    """The expected cost of everything, as a function of the rates of the marginals, shape (trials, 2^d)."""

    def __init__(self, outlook: Outlook, noise: Noise, alone: float, credit: float) -> None:
        self.noise, self.alone, self.credit = noise, alone, credit
        self.bought, self.start = outlook.bought, _rate(outlook.bought, noise)
        self.known = np.maximum(outlook.known, NOTHING)
        self.each = marginal_information(outlook.sizes)
        self.now, self.wanted = shares(outlook.asked[-1].widths, outlook.sizes), outlook.asked[-1].variance
        self.next, self.weights = likely(outlook)
        variances = np.array([question.variance for question in outlook.asked[-LATEST:]])
        if variances.size > VARIANCES:
            variances = np.quantile(variances, (np.arange(VARIANCES) + 0.5) / VARIANCES)
        self.precisions = 1 / variances
        self.count = WORTH[noise] * (HORIZON + len(outlook.asked))
        self.missing = float(_rate(self._short(self.known[None], self.now, 1 / self.wanted), noise)[0])
        # Every count by itself, precisely enough for the sum of all of them.
        least = min(question.variance for question in outlook.asked[-LATEST:])
        self.top = float(_rate(np.array(math.prod(outlook.sizes) / least), noise))

    def precision(self, rates: Floats) -> Floats:
        """Return how much more precise the marginals are at these rates."""
        after = rates**2 / 2 if self.noise == "laplace" else rates
        return np.asarray(np.where(rates > self.start, after - self.bought, 0.0))

    def trials(self, rates: Floats) -> Floats:
        """Return rates of which one is changed: by steps, by what the credit allows, by what the question needs."""
        steps = np.concatenate([[0.0], np.geomspace(0.02, 0.8, RAISES) * self.top])
        left = self.credit - float((rates - self.start).sum())
        if math.isfinite(left):
            steps = np.concatenate([steps, [max(left - self.alone, 0.0), max(left, 0.0)]])
        found = np.repeat(rates[None], steps.size * rates.size, axis=0)
        for i in range(rates.size):
            found[i * steps.size : (i + 1) * steps.size, i] = self.start[i] + steps
        # Costs of Gaussian noise add up over parts, so that what is still needed can as well be measured by itself.
        return np.concatenate([found, self._enough(rates)]) if self.noise == "laplace" else found

    def _enough(self, rates: Floats) -> Floats:
        """Return rates of which one is just so high that the present question needs nothing else."""
        low, high = np.diag(rates * 0 + self.start), np.diag(self.start + 2 * self.top)
        others = np.repeat(rates[None], rates.size, axis=0)
        np.fill_diagonal(others, 0.0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            told = self.known + self.precision(others + middle) @ self.each
            short = (self._short(told, self.now, 1 / self.wanted) > 0)[:, None]
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return others + high * ENOUGH

    def expected(self, rates: Floats) -> Floats:
        """Return the price of these rates, of the present question then, and of those that are likely to come."""
        paid = (rates - self.start).sum(axis=1)
        told = self.known + self.precision(rates) @ self.each
        missing = self.precisions - 1 / (self.next @ (1 / told.T)).T[..., None]
        later = self.count * (_rate(np.maximum(missing, 0.0), self.noise).mean(axis=-1) @ self.weights)
        rest = np.full(paid.size, self.alone)
        if self.missing > 0:
            rest *= _rate(self._short(told, self.now, 1 / self.wanted), self.noise) / self.missing
        return np.where((paid > 0) & (paid + rest > self.credit * (1 + 1e-9)), np.inf, paid + rest + later)

    @staticmethod
    def _short(told: Floats, question: Floats, precision: float) -> Floats:
        return np.asarray(np.maximum(precision - 1 / ((1 / told) @ question), 0.0))


def likely(outlook: Outlook) -> tuple[Floats, Floats]:
    """Return the questions that are likely to come: their shares in the eigenspaces, and how likely each is.

    Those that were asked, of any levels, and group-bys in general.

    Returns
    -------
    Shapes (questions, 2^d) and (questions,).
    """
    general, weights = _general(outlook.sizes, outlook.outside)
    kinds: dict[tuple[int, ...], int] = {}
    for question in outlook.asked[-LATEST:]:
        kinds[question.widths] = kinds.get(question.widths, 0) + 1
    found = np.array([shares(widths, outlook.sizes) for widths in kinds])
    counts = np.array(list(kinds.values()), dtype=float)
    all_ = np.concatenate([ANY * weights, counts])
    return np.concatenate([general, found]), all_ / (ANY + counts.sum())


@lru_cache(maxsize=64)
def _general(sizes: tuple[int, ...], outside: int) -> tuple[Floats, Floats]:
    """Return group-bys by up to three keys with up to two filters, of one level or of half of the levels.

    Every number of keys and filters is as likely as any other that the table has attributes for, and so is every choice
    of attributes; questions about attributes outside of these take their share and gain nothing.
    """
    d = len(sizes)
    kinds: dict[tuple[int, ...], float] = {}
    numbers = [(k, f) for k in range(1, MOST_KEYS + 1) for f in range(MOST_FILTERS + 1) if k + f <= d + outside]
    for keys, filters in numbers:
        ways = math.comb(d + outside, keys) * math.comb(d + outside - keys, filters)
        for chosen in combinations(range(d), keys):
            others = [i for i in range(d) if i not in chosen]
            for filtered in combinations(others, filters):
                for half in (False, True):
                    widths = [
                        1 if i in chosen else (max(n // 2, 1) if half else 1) if i in filtered else n
                        for i, n in enumerate(sizes)
                    ]
                    kinds[tuple(widths)] = kinds.get(tuple(widths), 0.0) + 1 / ways / 2 / len(numbers)
    return np.array([shares(widths, sizes) for widths in kinds]), np.array(list(kinds.values()))


def _rate(precision: Floats, noise: Noise) -> Floats:
    """Return what precision p costs: epsilon = sqrt(2 p), as Laplace noise has variance 2 / epsilon^2; or mu^2 = p."""
    return np.asarray(np.sqrt(2 * precision) if noise == "laplace" else precision)
