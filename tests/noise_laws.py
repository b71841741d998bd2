"""The exact law of rounded Gaussian noise, which samplers, accountants and the auditor are held against.

That of Laplace noise is `dpnotebook.privacy.noise.laplace_mass`, which a notebook draws.
"""

import math

import numpy as np
from scipy.special import log_ndtr

from dpnotebook.privacy.noise import checked_scale


def gaussian_log_mass(k, sigma):
    """Return log P(V = k) of round(N(0, sigma^2)), shape of k, accurate in the tails and at any sigma."""
    s = float(checked_scale(sigma))
    z, h = np.abs(np.asarray(k, dtype=float)) / s, 1 / s
    # The difference of two tails where the density changes a lot over the step; Gauss's rule where it does not, and
    # the two tails would cancel.
    upper, lower = log_ndtr(h / 2 - z), log_ndtr(-h / 2 - z)
    by_tails = upper + np.log(-np.expm1(np.minimum(lower - upper, -np.finfo(float).tiny)))
    nodes, weights = np.polynomial.legendre.leggauss(20)
    t = nodes * h / 2
    flat = h * np.maximum(z, 1) <= 1
    near = np.where(flat, z, 0.0)[..., None]
    by_rule = np.log(np.exp(-(near + t / 2) * t) @ weights / 2) - z * z / 2 + math.log(h) - math.log(2 * math.pi) / 2
    return np.asarray(np.where(flat, by_rule, by_tails))


def gaussian_mass(k, sigma):
    """Return P(V = k) of round(N(0, sigma^2)), shape of k."""
    return np.exp(gaussian_log_mass(k, sigma))
