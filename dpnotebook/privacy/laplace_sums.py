"""Quantiles of weighted sums of discrete Laplace noise, by inversion of the characteristic function, for many sums.

E exp(i t V) = 1 / (1 + s^2 sin^2(t / 2)), s = 1 / sinh(1 / 2b). Wrapped on a circle so long that next to nothing laps
over, a sum is given by the values of the product at whole frequencies, and its distribution by one fast transform.
Every draw has its own scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

TERMS = 16  # distinct weights of a sum that are treated exactly
_MIXED_TERMS = 32  # the same for pairs of a weight and a scale, where scales differ
_SAME = 1e-9  # weights closer than this, relative to the largest, count as equal
_FREQUENCIES = 1 << 14  # most frequencies of a sum
_LEAST_FREQUENCIES = 1 << 6  # with which the search for how many matter begins
_SMOOTH = 1 << 8  # frequencies within which a sum without noticeable atoms is done
_GRID = 1 << 12  # least points of a distribution function
_LATTICE = 1 << 12  # most points of a lattice; a finer one is close to a continuum
_DIVISORS = 12  # a lattice's gap is the least weight divided by at most this
_BATCH = 1 << 18  # numbers in a working array
_WRAPPED = 1e-4  # of beta: what may lap over, and what frequencies left out may add
_ROOM = 1.05  # times the reach of a single draw of the same variance: how far a law is worked out
_RARE = 1e-5  # of beta, for all draws together: those that are not zero more seldom are left out and made up for
_ON_GRID = 1e-6  # of a gap, by which a weight may miss a multiple of it
_ROUNDED = 9  # decimals to which sums are compared: what differs beyond them is one sum
_REMEMBERED = 1 << 14  # numbers up to which the quantiles of sums with these weights are remembered
_MANY_SCALES = 16  # of which draws are put in order in one go
_SINES = 64  # multiples of an angle that are worked out before the addition theorem takes over


@dataclass(frozen=True)
class _Sums:
    """Sums of noise: distinct pairs of a weight and a scale with their multiplicities, shape (sums, terms), and a rest.

    The rest is a variance-gamma law (1 + square t^2)^-exponent of the same variance and kurtosis.
    """

    weights: Floats
    scales: Floats
    counts: Floats
    exponent: Floats
    square: Floats
    norm: Floats  # of weight times scale over all draws, shape (sums,)
    gap: Floats  # of the lattice on which all weights lie, or 0 where none is found

    def at(self, rows: Indices) -> _Sums:
        """Return some of the sums."""
        return _Sums(*(getattr(self, each.name)[rows] for each in fields(self)))

    def characteristic(self, step: Floats, count: int) -> Floats:
        """Return the characteristic functions at 0, step, ..., (count - 1) step; shape (sums, count)."""
        t = step[:, None] * np.arange(count)
        inverse = np.exp(self.exponent[:, None] * np.log1p(self.square[:, None] * t * t)) if self.exponent.any() else 1
        with np.errstate(over="ignore"):  # where the inverse overflows the function is zero
            for weight, sine, times in zip(self.weights.T, _sine(self.scales).T, self.counts.T, strict=True):
                if times.any():
                    factor = 1 + sine[:, None] * _sines(weight * step / 2, count) ** 2
                    many = np.flatnonzero(times != 1)
                    factor[many] = np.exp(np.log(factor[many]) * times[many, None])  # twice as fast as a power
                    inverse = inverse * factor
        return np.asarray(1 / inverse)

    def log_bound(self, t: Floats, until: Floats) -> Floats:
        """Return an estimate from above of the logarithm between the frequencies t and `until`, shape (sums,).

        Up to the middle of its period a factor falls, so its value at t bounds it until its mirror image. Beyond, all
        terms but the strongest are taken to be out of phase: at the geometric mean over the period.
        """
        falling = self.weights * (t + until)[:, None] <= 2 * math.pi + 1e-6
        logs = self.counts * np.log1p(_sine(self.scales) * np.sin(self.weights * t[:, None] / 2) ** 2)
        loose = np.where(falling, 0, self.counts * -2 * np.log(-np.expm1(-1 / self.scales)))
        known = np.where(falling, logs, 0).sum(axis=1) + self.exponent * np.log1p(self.square * t * t)
        return np.asarray(-known - (loose.sum(axis=1) - loose.max(axis=1)))


def combined_quantiles(weights: Floats, scales: Floats, confidence: float) -> Floats:
    """Return for each row w the h at which P(|sum_j w_j V_j| <= h) reaches `confidence`.

    Parameters
    ----------
    weights
        Shape (sums, draws), non-negative, some of each row positive.
    scales
        b_j of the discrete Laplace laws, shape (draws,).
    confidence
        Probability, below 1.
    """
    if weights.size > _REMEMBERED:
        return _quantiles(weights, scales, confidence)
    # Of many columns that are asked alike, sums are made of the same weights.
    return _known(weights.tobytes(), weights.shape, scales.tobytes(), confidence)


@lru_cache(maxsize=128)
def _known(weights: bytes, shape: tuple[int, int], scales: bytes, confidence: float) -> Floats:
    found = _quantiles(np.frombuffer(weights).reshape(shape), np.frombuffer(scales), confidence)
    found.flags.writeable = False
    return found


def _quantiles(weights: Floats, scales: Floats, confidence: float) -> Floats:
    """Return what `combined_quantiles` does."""
    weights, confidence = _without_rare(weights, scales, confidence)
    spread = np.maximum(np.sqrt(_sine(scales)), 1e-100)  # above 0 also for noise that is never seen
    sizes = weights * (spread / spread.max())
    unit = sizes.max(axis=1)
    sums, which = _distinct(weights / unit[:, None], sizes / unit[:, None], scales)
    # A tail is at most that of a single draw of the same variance, so that what laps over is below beta / 10^4.
    reach = math.log(1 / (1 - confidence)) + math.log(1 / _WRAPPED / (1 - confidence))
    length = 4 * sums.weights.max(axis=1) + _ROOM * reach * sums.norm
    lattice = np.where(sums.exponent == 0, sums.gap, 0.0)
    points = _power_of_two(1.5 * length / np.where(lattice > 0, lattice, length / 2**60))
    frequencies = np.where(points <= _LATTICE, 0, _frequencies(sums, lattice, length, 1 - confidence))
    found = np.empty(length.size)
    for size in np.unique(points[frequencies == 0]):
        for rows in _batches((frequencies == 0) & (points == size), int(size)):
            found[rows] = _on_lattice(sums.at(rows), int(size), confidence)
    for size in np.unique(frequencies[frequencies > 0]):
        for rows in _batches(frequencies == size, max(_GRID, 2 * int(size))):
            found[rows] = _on_line(sums.at(rows), length[rows], int(size), confidence)
    return np.asarray(found[which] * unit)


def _without_rare(weights: Floats, scales: Floats, confidence: float) -> tuple[Floats, float]:
    """Leave out of wider noise the draws that are nearly always zero, and make up for what they may add."""
    apart = 2 / (1 + np.exp(np.minimum(1 / scales, 700)))  # P(V != 0)
    rare = np.flatnonzero((apart < _RARE * (1 - confidence) / scales.size) & (scales < scales.max()))
    if not rare.size:
        return weights, confidence
    kept = weights.copy()
    kept[:, rare] = 0
    wider = kept.max(axis=1, keepdims=True) > 0
    return np.where(wider, kept, weights), confidence + float(apart[rare].sum())


def _distinct(weights: Floats, sizes: Floats, scales: Floats) -> tuple[_Sums, Indices]:
    """Return the sums that differ, and which of them each row is.

    Parameters
    ----------
    weights
        Shape (sums, draws).
    sizes
        Standard deviations of the weighted draws, the largest of each row 1.
    scales
        Shape (draws,).
    """
    columns = np.argsort(scales, kind="stable")
    ordered, sizes, scales = weights[:, columns], sizes[:, columns], scales[columns]
    starts = np.flatnonzero(np.diff(scales, prepend=-1))
    _by_weight(ordered, sizes, scales, starts)
    ordered[sizes < _SAME] = 0
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = sizes[:, :-1] - sizes[:, 1:] > _SAME
    first[:, starts] = True
    rank, terms = _ranks(first, sizes, starts.size), TERMS if starts.size == 1 else _MIXED_TERMS
    shape = (ordered.shape[0], terms)
    table, widths, shares = np.zeros(shape), np.ones(shape), np.zeros(shape)
    kept = (rank < terms) & (ordered > 0)
    row, column = np.nonzero(first & kept)
    place = row, rank[row, column]
    table[place], widths[place], shares[place] = ordered[row, column], scales[column], sizes[row, column]
    counts = np.bincount((rank + terms * np.arange(shape[0])[:, None])[kept], minlength=table.size).reshape(shape)
    rest = np.where(kept, 0.0, ordered) ** 2
    variance = _sine(scales) / 2
    second, fourth = rest @ variance, (rest * rest) @ (variance + 3 * variance**2)
    norm = np.linalg.norm(ordered * (scales / scales[-1]), axis=1)
    relative = np.stack([second, fourth], axis=1) / np.maximum(variance[-1], 1e-150) ** np.array([1, 2])
    key = np.hstack([shares, widths, counts, relative, norm[:, None]])
    _, chosen, which = np.unique(np.round(key, _ROUNDED), axis=0, return_index=True, return_inverse=True)
    exponent, square = _variance_gamma(second[chosen], fourth[chosen])
    gap = _gaps(table[chosen])
    more = np.flatnonzero((exponent > 0) & (gap > 0))
    gap[more] = _gaps(ordered[chosen[more]])
    norm = norm[chosen] * scales[-1]
    sums = _Sums(table[chosen], widths[chosen], counts[chosen].astype(float), exponent, square, norm, gap)
    return sums, which.reshape(-1)


def _by_weight(ordered: Floats, sizes: Floats, scales: Floats, starts: Indices) -> None:
    """Put the weights of draws of one scale into falling order, in their place; `starts` begin a scale."""
    if starts.size > _MANY_SCALES:  # sizes fall with weights: one order is that of both
        rows = np.arange(len(ordered))[:, None]
        places = np.lexsort((-ordered, np.broadcast_to(scales, ordered.shape)), axis=1)
        ordered[:], sizes[:] = ordered[rows, places], sizes[rows, places]
        return
    for start, end in zip(starts, [*starts[1:], scales.size], strict=True):
        for table in (ordered, sizes):
            table[:, start:end] = -np.sort(-table[:, start:end], axis=1)


def _ranks(first: NDArray[np.bool_], sizes: Floats, scales: int) -> Indices:
    """Return for every draw the rank, by size, of the run of equal draws to which it belongs; `first` begins a run."""
    if scales == 1:  # in order already
        return np.asarray(np.cumsum(first, axis=1) - 1)
    rank = np.empty(sizes.shape, dtype=np.intp)
    order = np.argsort(np.where(first, -sizes, 1.0), axis=1, kind="stable")
    np.put_along_axis(rank, order, np.arange(sizes.shape[1])[None, :], axis=1)
    head = np.maximum.accumulate(np.where(first, np.arange(sizes.shape[1]), 0), axis=1)
    return np.take_along_axis(rank, head, axis=1)


def _variance_gamma(second: Floats, fourth: Floats) -> tuple[Floats, Floats]:
    """Return exponent and square of the law with this variance and this fourth cumulant."""
    some = fourth > 0
    safe = np.where(some, fourth, 1.0)
    return np.where(some, 3 * second**2 / safe, 0.0), np.where(some, safe / (6 * np.where(some, second, 1.0)), 0.0)


def _gaps(weights: Floats) -> Floats:
    """Return the gap of the lattice on which the weights of each row lie, or 0 where none is found."""
    least = np.where(weights > 0, weights, np.inf).min(axis=1)
    gap = np.zeros(least.size)
    open_ = np.isfinite(least)
    for divisor in range(1, _DIVISORS + 1):
        places = weights * (divisor / least)[:, None]
        fits = open_ & np.all(np.abs(places - np.rint(places)) < _ON_GRID, axis=1)
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
        matters = sums.log_bound(t, np.minimum(2 * t, end)) - math.log(size) > math.log(_WRAPPED * beta)
        size *= 2
        needed[matters & (t < end)] = size
    return np.where(needed <= _SMOOTH, needed, _FREQUENCIES)


def _on_lattice(sums: _Sums, points: int, confidence: float) -> Floats:
    """Return quantiles of sums on multiples of their gaps: exact but for what laps over."""
    gap = sums.gap
    mass = np.fft.irfft(sums.characteristic(2 * math.pi / (points * gap), points // 2 + 1), points, axis=1)
    inside = mass[:, :1] + 2 * np.concatenate([np.zeros((gap.size, 1)), np.cumsum(mass[:, 1 : points // 2], 1)], 1)
    return np.asarray(gap * np.argmax(inside >= confidence - 1e-13, axis=1))


def _on_line(sums: _Sums, length: Floats, frequencies: int, confidence: float) -> Floats:
    """Return quantiles of sums on the line.

    Where the frequencies end before the product vanishes, the sum is smoothed by a bounded error and that bound is
    added, so the interval still covers. On a lattice, a point stands for half a gap around it.
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
    fine = (sums.gap > 0) & ((reach == 0) | (sums.exponent > 0))
    found[fine] = sums.gap[fine] * np.ceil(found[fine] / sums.gap[fine] - 0.5)
    return np.asarray(found)


def _sines(angle: Floats, count: int) -> Floats:
    """Return sin(k angle) for k < count by the addition theorem, shape (angles, count)."""
    coarse = angle[:, None] * np.arange(0, count, _SINES)
    fine = angle[:, None] * np.arange(_SINES)
    left = np.stack([np.sin(coarse), np.cos(coarse)], axis=2)
    right = np.stack([np.cos(fine), np.sin(fine)], axis=1)
    return np.asarray((left @ right).reshape(angle.size, -1)[:, :count])


def _sine(scales: Floats) -> Floats:
    """Return 1 / sinh^2(1 / 2b), twice the variance of the discrete Laplace law."""
    return np.asarray(4 * np.exp(-1 / scales) / np.expm1(-1 / scales) ** 2)


def _power_of_two(least: Floats) -> NDArray[np.int64]:
    return 2 ** np.ceil(np.log2(np.clip(least, 16, 2.0**60))).astype(np.int64)


def _batches(chosen: NDArray[np.bool_], width: int) -> list[Indices]:
    rows = np.flatnonzero(chosen)
    return np.array_split(rows, math.ceil(rows.size * width / _BATCH)) if rows.size else []
