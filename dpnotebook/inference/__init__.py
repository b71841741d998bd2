"""From noisy answers of a strategy to the best linear unbiased estimate of the cells."""

from dpnotebook.inference.least_squares import least_squares

__all__ = ["least_squares"]
