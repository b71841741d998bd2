"""From noisy answers of a strategy to estimates: best linear unbiased ones, or counts that are never negative."""

from dpnotebook.inference.graphical import graphical_model
from dpnotebook.inference.least_squares import least_squares
from dpnotebook.inference.nonnegative import Counts, nonnegative

__all__ = ["Counts", "graphical_model", "least_squares", "nonnegative"]
