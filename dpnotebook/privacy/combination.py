"""Quantiles of weighted sums of discrete Laplace noise, by inversion of the characteristic function, for many sums.

E exp(i t V) = 1 / (1 + s^2 sin^2(t / 2)), s = 1 / sinh(1 / 2b). Wrapped on a circle so long that next to nothing laps
over, a sum is given by the values of the product at whole frequencies, and its distribution by one fast transform.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

TERMS = 16  # distinct weights of a sum that are treated exactly
_SAME = 1e-9  # weights closer than this, relative to the largest, count as equal
_FREQUENCIES = 1 << 14  # most frequencies of a sum
_LEAST_FREQUENCIES = 1 << 6
_SMOOTH = 1 << 8  # frequencies within which a sum without noticeable atoms is done
_GRID = 1 << 12  # least points of a distribution function
_LATTICE = 1 << 12  # most points of a lattice; a finer one is close to a continuum
_DIVISORS = 12  # a lattice's gap is the least weight divided by at most this
_BATCH = 1 << 18  # numbers in a working array


@dataclass(frozen=True)
class _Sums:
    """Sums of noise: distinct weights with their multiplicities, shape (sums, terms), and what is beyond them.

    The rest is a variance-gamma law (1 + square t^2)^-exponent of the same variance and kurtosis.
    """

    weights: Floats
    counts: Floats
    exponent: Floats
    square: Floats
    norm: Floats  # of all weights, shape (sums,)
    scale: float

    @property
    def sine(self) -> float:
        """The factor s^2 of the characteristic function."""
        return _sine(self.scale)

    def at(self, rows: Indices) -> _Sums:
        """Return some of the sums."""
        exponent, square, norm = self.exponent[rows], self.square[rows], self.norm[rows]
        return _Sums(self.weights[rows], self.counts[rows], exponent, square, norm, self.scale)

    def characteristic(self, step: Floats, count: int) -> Floats:
        """Return the characteristic functions at 0, step, ..., (count - 1) step; shape (sums, count)."""
        t = step[:, None] * np.arange(count)
        inverse = np.exp(self.exponent[:, None] * np.log1p(self.square[:, None] * t * t)) if self.exponent.any() else 1
        with np.errstate(over="ignore"):  # where the inverse overflows the function is zero
            for weight, times in zip(self.weights.T, self.counts.T, strict=True):
                if times.any():
                    factor = 1 + self.sine * _sines(weight * step / 2, count) ** 2
                    many = np.flatnonzero(times != 1)
                    factor[many] = np.exp(np.log(factor[many]) * times[many, None])  # twice as fast as a power
                    inverse = inverse * factor
        return np.asarray(1 / inverse)

    def log_bound(self, t: Floats, until: Floats) -> Floats:
        """Return an estimate from above of the logarithm between the frequencies t and `until`, shape (sums,).

        Up to the middle of its period a factor falls, so its value at t bounds it until its mirror image. Beyond, all
        terms but the commonest weight are taken to be out of phase: at the geometric mean over the period.
        """
        falling = self.weights * (t + until)[:, None] <= 2 * math.pi + 1e-6
        logs = self.counts * np.log1p(self.sine * np.sin(self.weights * t[:, None] / 2) ** 2)
        loose = np.where(falling, 0, self.counts)
        mean = -2 * math.log(-math.expm1(-1 / self.scale))
        known = np.where(falling, logs, 0).sum(axis=1) + self.exponent * np.log1p(self.square * t * t)
        return np.asarray(-known - mean * (loose.sum(axis=1) - loose.max(axis=1)))


def combined_quantiles(weights: Floats, scale: float, confidence: float) -> Floats:
    """Return for each row w the h at which P(|sum_j w_j V_j| <= h) reaches `confidence`.

    Parameters
    ----------
    weights
        Shape (sums, terms), non-negative, the largest of each row 1.
    scale
        b of the discrete Laplace law.
    confidence
        Probability, below 1.
    """
    sums, which = _distinct(weights, scale)
    # A tail is at most that of a single draw of the same variance, so that what laps over is below beta / 10^4.
    reach = math.log(1 / (1 - confidence)) + math.log(1e4 / (1 - confidence))
    length = 4 + 1.05 * reach * scale * sums.norm
    gap = _gaps(sums)
    points = _power_of_two(1.5 * length / np.where(gap > 0, gap, length / 2**60))
    frequencies = np.where(points <= _LATTICE, 0, _frequencies(sums, gap, length, 1 - confidence))
    found = np.empty(length.size)
    for size in np.unique(points[frequencies == 0]):
        for rows in _batches((frequencies == 0) & (points == size), int(size)):
            found[rows] = _on_lattice(sums.at(rows), gap[rows], int(size), confidence)
    for size in np.unique(frequencies[frequencies > 0]):
        for rows in _batches(frequencies == size, max(_GRID, 2 * int(size))):
            found[rows] = _on_line(sums.at(rows), gap[rows], length[rows], int(size), confidence)
    return found[which]


def _distinct(weights: Floats, scale: float) -> tuple[_Sums, Indices]:
    """Return the sums that differ, and which of them each row is."""
    rows = weights.shape[0]
    ordered = -np.sort(-weights, axis=1)
    ordered[ordered < _SAME] = 0
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = ordered[:, :-1] - ordered[:, 1:] > _SAME
    rank = np.cumsum(first, axis=1) - 1
    table, counts = np.zeros((rows, TERMS)), np.zeros(rows * TERMS)
    head = first & (rank < TERMS)
    table[np.nonzero(head)[0], rank[head]] = ordered[head]
    kept = (rank < TERMS) & (ordered > 0)
    counts += np.bincount((rank + TERMS * np.arange(rows)[:, None])[kept], minlength=rows * TERMS)
    rest = np.where(kept, 0.0, ordered) ** 2
    powers = np.stack([rest.sum(axis=1), (rest * rest).sum(axis=1), np.linalg.norm(ordered, axis=1)], axis=1)
    key = np.hstack([table, counts.reshape(rows, TERMS), powers])
    _, chosen, which = np.unique(np.round(key, 9), axis=0, return_index=True, return_inverse=True)
    exponent, square = _variance_gamma(powers[chosen, 0], powers[chosen, 1], scale)
    kept_counts = counts.reshape(rows, TERMS)[chosen]
    return _Sums(table[chosen], kept_counts, exponent, square, powers[chosen, 2], scale), which.reshape(-1)


def _variance_gamma(second: Floats, fourth: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return exponent and square of the law with the variance and fourth cumulant of noise of these power sums."""
    variance = _sine(scale) / 2
    second, fourth = variance * second, (variance + 3 * variance**2) * fourth
    some = fourth > 0
    safe = np.where(some, fourth, 1.0)
    return np.where(some, 3 * second**2 / safe, 0.0), np.where(some, safe / (6 * np.where(some, second, 1.0)), 0.0)


def _gaps(sums: _Sums) -> Floats:
    """Return the gap of the lattice on which each sum lives, or 0 where none is found."""
    least = np.where(sums.counts > 0, sums.weights, np.inf).min(axis=1)
    gap = np.zeros(least.size)
    open_ = sums.exponent == 0
    for divisor in range(1, _DIVISORS + 1):
        places = sums.weights * (divisor / least)[:, None]
        fits = open_ & np.all(np.abs(places - np.rint(places)) < 1e-6, axis=1)
        gap[fits] = least[fits] / divisor
        open_ &= ~fits
    return gap


def _frequencies(sums: _Sums, gap: Floats, length: Floats, beta: float) -> NDArray[np.int64]:
    """Return how many frequencies matter to each sum: past them the product is negligible.

    A sum that is not done early has atoms that matter, and gets all the frequencies there are. On a lattice what comes
    after half a period is the lattice itself.
    """
    needed = np.full(length.size, _LEAST_FREQUENCIES)
    end = math.pi / np.maximum(gap, 1e-9)
    size = _LEAST_FREQUENCIES
    while size < _FREQUENCIES:
        t = 2 * math.pi * size / length
        matters = sums.log_bound(t, np.minimum(2 * t, end)) - math.log(size) > math.log(1e-4 * beta)
        size *= 2
        needed[matters & (t < end)] = size
    return np.where(needed <= _SMOOTH, needed, _FREQUENCIES)


def _on_lattice(sums: _Sums, gap: Floats, points: int, confidence: float) -> Floats:
    """Return quantiles of sums on multiples of their gaps: exact but for what laps over."""
    mass = np.fft.irfft(sums.characteristic(2 * math.pi / (points * gap), points // 2 + 1), points, axis=1)
    inside = mass[:, :1] + 2 * np.concatenate([np.zeros((gap.size, 1)), np.cumsum(mass[:, 1 : points // 2], 1)], 1)
    return np.asarray(gap * np.argmax(inside >= confidence - 1e-13, axis=1))


def _on_line(sums: _Sums, gap: Floats, length: Floats, frequencies: int, confidence: float) -> Floats:
    """Return quantiles of sums on the line.

    Where the frequencies end before the product vanishes, the sum is smoothed by a bounded error and that bound is
    added, so the interval still covers. Where the sum is on a fine lattice, the quantile moves to its next point.
    """
    product = sums.characteristic(2 * math.pi / length, frequencies)[:, 1:]
    k = np.arange(1, frequencies)
    reach = np.zeros(length.size)
    if frequencies == _FREQUENCIES:
        product *= np.sinc(k / frequencies) ** 4  # four uniform errors of at most length / (2 frequencies)
        reach = 2 * length / frequencies
    points = max(_GRID, 2 * frequencies)
    waves = np.zeros((length.size, points // 2 + 1), dtype=complex)
    waves.imag[:, 1:frequencies] = product * (-points / (math.pi * k))
    place = np.arange(points // 2) / points
    inside = 2 * place + np.fft.irfft(waves, points, axis=1)[:, : points // 2]
    above = np.maximum(np.argmax(inside >= confidence, axis=1), 1)
    rows = np.arange(length.size)
    low, high = inside[rows, above - 1], inside[rows, above]
    part = np.clip((confidence - low) / np.maximum(high - low, 1e-300), 0, 1)
    found = (place[above] - (1 - part) / points) * length + reach
    fine = (gap > 0) & (reach == 0)
    found[fine] = gap[fine] * np.ceil(found[fine] / gap[fine] - 0.5)
    return np.asarray(found)


def _sines(angle: Floats, count: int) -> Floats:
    """Return sin(k angle) for k < count by the addition theorem, shape (angles, count)."""
    coarse = angle[:, None] * np.arange(0, count, 64)
    fine = angle[:, None] * np.arange(64)
    left = np.stack([np.sin(coarse), np.cos(coarse)], axis=2)
    right = np.stack([np.cos(fine), np.sin(fine)], axis=1)
    return np.asarray((left @ right).reshape(angle.size, -1)[:, :count])


def _sine(scale: float) -> float:
    """Return 1 / sinh^2(1 / 2b), twice the variance of the discrete Laplace law."""
    a = math.exp(-1 / scale)
    return 4 * a / math.expm1(-1 / scale) ** 2


def _power_of_two(least: Floats) -> NDArray[np.int64]:
    return 2 ** np.ceil(np.log2(np.clip(least, 16, 2.0**60))).astype(np.int64)


def _batches(chosen: NDArray[np.bool_], width: int) -> list[Indices]:
    rows = np.flatnonzero(chosen)
    return np.array_split(rows, math.ceil(rows.size * width / _BATCH)) if rows.size else []
