"""What may be asked of a domain by the names of its attributes: workloads over all of its cells."""

from __future__ import annotations

from typing import Any

from dpnotebook.domain import named_workloads
from dpnotebook.workload import Workload


class Asking:
    """The workloads of `dpnotebook.domain.named_workloads` over a domain: `domain.marginals(2) + domain.ranges("age")`.

    Each is over all attributes of the domain, in order; those of fewer attributes are over `domain.project(names)`.
    """

    def marginals(self, k: int | None = None, *, upto: int | None = None) -> Workload:
        """Return the marginals of each k attributes, or of each 0 to `upto`."""
        return self._over("marginals", k, upto=upto)

    def prefix_marginals(self, k: int | None = None, *, upto: int | None = None) -> Workload:
        """Return marginals with cumulative counts along ordered attributes."""
        return self._over("prefix_marginals", k, upto=upto)

    def small_marginals(self, cells: int) -> Workload:
        """Return every marginal of at most `cells` cells."""
        return self._over("small_marginals", cells)

    def small_prefix_marginals(self, cells: int) -> Workload:
        """Return every marginal of at most `cells` cells, with cumulative counts along ordered attributes."""
        return self._over("small_prefix_marginals", cells)

    def ranges(self, *names: str) -> Workload:
        """Return every range of an ordered attribute, or every box of several."""
        return self._over("ranges", *names)

    def cdf(self, *names: str) -> Workload:
        """Return the cumulative counts of an ordered attribute, or of several."""
        return self._over("cdf", *names)

    def identity(self, *names: str) -> Workload:
        """Return the counts of all levels of an attribute, or of all combinations of several."""
        return self._over("identity", *names)

    def total(self) -> Workload:
        """Return the number of rows."""
        return self._over("total")

    def _over(self, verb: str, *arguments: Any, **options: Any) -> Workload:
        workload: Workload = getattr(named_workloads, verb)(*arguments, **options).over(self)
        return workload
