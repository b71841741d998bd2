"""Implicit matrices of linear queries: what is asked, never built row by row."""

from dpnotebook.workload.base import Workload
from dpnotebook.workload.centred import Centred
from dpnotebook.workload.compose import Kron, Stack, Weighted
from dpnotebook.workload.contiguous import AllRange, Identity, Prefix, Total
from dpnotebook.workload.explicit import Explicit
from dpnotebook.workload.hierarchy import Hierarchy
from dpnotebook.workload.marginals import Marginals

__all__ = [
    "AllRange",
    "Centred",
    "Explicit",
    "Hierarchy",
    "Identity",
    "Kron",
    "Marginals",
    "Prefix",
    "Stack",
    "Total",
    "Weighted",
    "Workload",
]
