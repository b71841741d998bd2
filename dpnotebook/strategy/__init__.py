"""Strategies: what is measured in order to answer a workload, chosen by expected error before any data is touched."""

from dpnotebook.strategy.baselines import hierarchical, identity, itself
from dpnotebook.strategy.select import select
from dpnotebook.strategy.strategy import Strategy

__all__ = ["Strategy", "hierarchical", "identity", "itself", "select"]
