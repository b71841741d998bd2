"""Strategies: what is measured in order to answer a workload, chosen by expected error before any data is touched."""

from dpnotebook.strategy.arrival import running_counts
from dpnotebook.strategy.baselines import hierarchical, identity, itself
from dpnotebook.strategy.competitors.coa import coa
from dpnotebook.strategy.competitors.datacube import datacube
from dpnotebook.strategy.competitors.fourier import fourier
from dpnotebook.strategy.competitors.greedy_h import greedy_h
from dpnotebook.strategy.competitors.lrm import lrm
from dpnotebook.strategy.competitors.trees import h2, hb, wavelet
from dpnotebook.strategy.eigen.design import eigen_design
from dpnotebook.strategy.eigen.relative import for_relative_error
from dpnotebook.strategy.eigen.weighted_basis import weighted_basis
from dpnotebook.strategy.explicit import opt_0
from dpnotebook.strategy.hdmm import compare, opt_hdmm
from dpnotebook.strategy.marginals import opt_marginals
from dpnotebook.strategy.operators import opt_product, opt_union
from dpnotebook.strategy.register import register, registered, unregister
from dpnotebook.strategy.registry import Registration
from dpnotebook.strategy.residual import opt_residual
from dpnotebook.strategy.rounding import rounded
from dpnotebook.strategy.select import select
from dpnotebook.strategy.strategy import Strategy
from dpnotebook.strategy.toeplitz import toeplitz

__all__ = [
    "Registration",
    "Strategy",
    "coa",
    "compare",
    "datacube",
    "eigen_design",
    "for_relative_error",
    "fourier",
    "greedy_h",
    "h2",
    "hb",
    "hierarchical",
    "identity",
    "itself",
    "lrm",
    "opt_0",
    "opt_hdmm",
    "opt_marginals",
    "opt_product",
    "opt_residual",
    "opt_union",
    "register",
    "registered",
    "rounded",
    "running_counts",
    "select",
    "toeplitz",
    "unregister",
    "wavelet",
    "weighted_basis",
]
