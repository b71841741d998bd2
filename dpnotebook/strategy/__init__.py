"""Strategies: what is measured in order to answer a workload, chosen by expected error before any data is touched."""

from dpnotebook.strategy.baselines import hierarchical, identity, itself
from dpnotebook.strategy.competitors import h2, hb, wavelet
from dpnotebook.strategy.datacube import datacube
from dpnotebook.strategy.fourier import fourier
from dpnotebook.strategy.greedy_h import greedy_h
from dpnotebook.strategy.select import select
from dpnotebook.strategy.strategy import Strategy

__all__ = [
    "Strategy",
    "datacube",
    "fourier",
    "greedy_h",
    "h2",
    "hb",
    "hierarchical",
    "identity",
    "itself",
    "select",
    "wavelet",
]
