"""Implicit matrices of linear queries: what is asked, never built row by row."""

from dpnotebook.workload.base import Workload
from dpnotebook.workload.builders import marginals, prefix_marginals, small_marginals
from dpnotebook.workload.centred import Centred
from dpnotebook.workload.coarse import Coarse
from dpnotebook.workload.compose import Kron, Stack, Weighted
from dpnotebook.workload.contiguous import AllRange, Identity, Prefix, Total
from dpnotebook.workload.difference import Difference, complement, disjunction
from dpnotebook.workload.explicit import Explicit
from dpnotebook.workload.fourier import Fourier
from dpnotebook.workload.hierarchy import Hierarchy
from dpnotebook.workload.marginals import Marginals
from dpnotebook.workload.p_identity import PIdentity
from dpnotebook.workload.padded import Ones, Padded
from dpnotebook.workload.permuted import Permuted
from dpnotebook.workload.predicates import Predicates
from dpnotebook.workload.toeplitz import Toeplitz
from dpnotebook.workload.wavelet import Wavelet
from dpnotebook.workload.weighted_rows import WeightedRows
from dpnotebook.workload.width_range import WidthRange

__all__ = [
    "AllRange",
    "Centred",
    "Coarse",
    "Difference",
    "Explicit",
    "Fourier",
    "Hierarchy",
    "Identity",
    "Kron",
    "Marginals",
    "Ones",
    "PIdentity",
    "Padded",
    "Permuted",
    "Predicates",
    "Prefix",
    "Stack",
    "Toeplitz",
    "Total",
    "Wavelet",
    "Weighted",
    "WeightedRows",
    "WidthRange",
    "Workload",
    "complement",
    "disjunction",
    "marginals",
    "prefix_marginals",
    "small_marginals",
]
