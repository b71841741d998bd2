"""Workloads said by attribute names, which know nothing of a domain until they are asked of one.

`marginals(2) + 3 * ranges("age")` is a description; `.over(domain)` makes the workload of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Real
from typing import Literal

from dpnotebook.domain.named import NamedAttributes
from dpnotebook.errors import AccuracyError, WorkloadError, shorten
from dpnotebook.workload.base import Number, Workload, whole
from dpnotebook.workload.builders import checked_count, small_subsets, subsets
from dpnotebook.workload.compose import Kron, Stack
from dpnotebook.workload.contiguous import AllRange, Contiguous, Identity, Prefix, Total
from dpnotebook.workload.marginals import Marginals, Subset
from dpnotebook.workload.padded import Padded

MOST_APART = 1_000.0  # times the strictest error: one that may be larger costs next to nothing beside it

Along = Literal["identity", "prefix", "ranges"]  # what is asked along one attribute
Levels = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Product:
    """Every combination of the same kind of queries of some named attributes."""

    names: tuple[str, ...]
    along: Along

    def __repr__(self) -> str:
        verb = {"identity": "identity", "prefix": "cdf", "ranges": "ranges"}[self.along]
        return f"{verb}({', '.join(map(repr, self.names))})" if self.names else "total()"


@dataclass(frozen=True)
class AllMarginals:
    """Marginals of k attributes, of up to that many, or of at most so many cells; of all attributes that take part."""

    k: int | None
    upto: int | None
    cells: int | None
    prefix: bool

    def __repr__(self) -> str:
        name = ("small_" if self.cells is not None else "") + ("prefix_" if self.prefix else "") + "marginals"
        size = self.cells if self.cells is not None else self.k if self.k is not None else f"upto={self.upto}"
        return f"{name}({size})"


@dataclass(frozen=True)
class NamedAxis:
    """An attribute that takes part: its cells, how many of them are in order at the front (0: it has no order)."""

    name: str
    size: int
    ordered: int


@dataclass(frozen=True, repr=False)
class WorkloadRequest:
    """A union of weighted parts over attributes that are named, not yet those of a domain.

    `a + b` asks both, and what both ask is asked once, with the larger weight. `3 * a` wants the answers of `a` three
    times as accurate, relative to the rest. `a.within(50) + b.within(100)` says how accurate each must be, and then
    what both ask is asked once, as accurately as the stricter wants it.

    Parameters
    ----------
    parts
        Each part, and its weight.
    targets
        The error that each part must be within, in rows; empty where none has one.
    """

    parts: tuple[tuple[Number, Product | AllMarginals], ...]
    targets: tuple[float, ...] = ()

    @property
    def loosest(self) -> float | None:
        """The largest error that is planned for; None where parts say none."""
        return min(max(self.targets), MOST_APART * min(self.targets)) if self.targets else None

    @property
    def weights(self) -> tuple[Number, ...]:
        """How accurate the answers of each part must be relative to the rest; where all have errors, to the loosest."""
        if self.loosest is None:
            return tuple(weight for weight, _ in self.parts)
        return tuple(max(self.loosest / target, 1.0) for target in self.targets)

    def within(self, error: float) -> WorkloadRequest:
        """Say how far off the answers may be, so that parts of a workload can have errors of their own.

        Parameters
        ----------
        error
            Half-width of the interval of every answer, in rows; at the confidence with which the workload is asked.

        Raises
        ------
        AccuracyError
            If it is no number above 0, or parts have a weight or an error already.

        Examples
        --------
        >>> import dpnotebook as dpn
        >>> from dpnotebook.testing import example_session
        >>> patients = example_session().table("patients")
        >>> query = patients.answer(dpn.ranges("income").within(100) + dpn.identity("sex").within(50))
        >>> [(part.name, round(part.half_width) <= target) for part, target in zip(query.plan.parts, (100, 50))]
        [("ranges('income')", True), ("identity('sex')", True)]
        """
        said = _error_of_part(error)
        if self.targets:
            raise AccuracyError(f"{shorten(self)} says already how far off its answers may be: say .within() once")
        if any(weight != 1 for weight, _ in self.parts):
            raise AccuracyError(
                f"{shorten(self)} has a weight, which says how accurate answers are relative to others: leave it out "
                "where .within() says how accurate they must be"
            )
        return replace(self, targets=(said,) * len(self.parts))

    def attributes(self, domain: NamedAttributes) -> tuple[str, ...]:
        """Return the attributes that take part, in the domain's order: all, if any part is about all.

        Raises
        ------
        WorkloadError
            If one is not declared.
        """
        named = self._named(domain)
        if any(isinstance(part, AllMarginals) for _, part in self.parts):
            return domain.names
        return tuple(name for name in domain.names if name in named)

    def over(
        self, domain: NamedAttributes, on: str | Iterable[str] | None = None, levels: Levels | None = None
    ) -> Workload:
        """Return the workload over the product of the attributes, its cells in C order.

        Cumulative counts and ranges run over the regular levels of an ordered attribute. Its levels of other and of
        missing values have no place in the order, and are in none of these queries; they are cells like any other for
        identity and marginals, and are counted where an attribute is summed over.

        Parameters
        ----------
        domain
            Declares the attributes.
        on
            Names of the attributes that take part, in the order of the cells; all of the domain's, unless said
            otherwise.
        levels
            The levels that take part of some attributes, ascending; all of the others.

        Returns
        -------
        `Marginals` where every attribute is asked one kind of queries throughout, a product where only one is asked
        for, else a `Stack` of those.

        Raises
        ------
        WorkloadError
            If an attribute is not declared, or is asked for but not in `on`; if ranges or cumulative counts are asked
            of one without an order; if marginals need more attributes than there are, or are too many.

        Source: HDMM, section 5.3 (the algorithm ImpVec).
        """
        self._named(domain)
        axes = _axes(domain, on, levels or {})
        seen: dict[tuple[Subset, tuple[Along, ...]], Number] = {}
        groups: list[tuple[dict[int, Along], list[Subset]]] = []
        for weight, (_, part) in zip(self.weights, self.parts, strict=True):
            along = _along(part, axes)
            fresh = []
            for subset in _subsets(part, axes):
                key = subset, tuple(along[i] for i in subset)
                if key not in seen:
                    fresh.append(subset)
                seen[key] = max(weight, seen.get(key, 0))
            if not fresh:
                continue
            used = {i: along[i] for subset in fresh for i in subset}
            for kinds, found in groups:
                if all(kinds.get(i, kind) == kind for i, kind in used.items()):
                    kinds.update(used)
                    found.extend(fresh)
                    break
            else:
                groups.append((used, fresh))
        joined = []
        for kinds, chosen in groups:
            weights = [(subset, seen[subset, tuple(kinds[i] for i in subset)]) for subset in chosen]
            joined.append(_joined(axes, kinds, weights))
        return joined[0] if len(joined) == 1 else Stack(*joined)

    def _named(self, domain: NamedAttributes) -> set[str]:
        if not isinstance(domain, NamedAttributes):
            raise WorkloadError(f"a workload by names is asked of a Domain, not of {shorten(domain)}")
        named = {name for _, part in self.parts if isinstance(part, Product) for name in part.names}
        for name in sorted(named):
            if name not in domain:
                raise WorkloadError(domain.unknown(name))
        return named

    def __add__(self, other: object) -> WorkloadRequest:
        if not isinstance(other, WorkloadRequest):
            raise WorkloadError(
                f"{shorten(self)} names attributes of a domain, and can be joined with others that do, such as "
                "ranges('age'), "
                f"not with {shorten(other)}; .over(domain) makes a workload of it"
            )
        if bool(self.targets) != bool(other.targets):
            one = other if self.targets else self
            raise AccuracyError(
                f"a workload says of every part how far off its answers may be, or of none: write "
                f"{shorten(one)}.within(...), or leave the others out"
            )
        return WorkloadRequest(self.parts + other.parts, self.targets + other.targets)

    def __mul__(self, weight: Number) -> WorkloadRequest:
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 < float(weight) < math.inf:
            raise WorkloadError(f"the weight of a workload must be a finite number above 0, not {shorten(weight)}")
        if self.targets:
            raise AccuracyError(f"{shorten(self)} says how far off its answers may be, and takes no weight beside that")
        plain = int(weight) if weight == int(weight) else float(weight)
        return replace(self, parts=tuple((plain * own, part) for own, part in self.parts))

    __rmul__ = __mul__

    @property
    def promised(self) -> tuple[tuple[str, float], ...]:
        """Each part as it is written, and the error that it must be within; empty where none has one."""
        return tuple((repr(part), target) for (_, part), target in zip(self.parts, self.targets, strict=False))

    def __repr__(self) -> str:
        if self.targets:
            return " + ".join(f"{part}.within({target:.12g})" for part, target in self.promised)
        return " + ".join(f"{part!r}" if weight == 1 else f"{weight!r} * {part!r}" for weight, part in self.parts)


def marginals(k: int | None = None, *, upto: int | None = None) -> WorkloadRequest:
    """Ask for the counts of every combination of levels of each k attributes (`upto`: of each 0 to k attributes).

    Raises
    ------
    WorkloadError
        If not exactly one of k and upto is given, or it is no whole number.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"age": dpn.Range(0, 99), "sex": ["F", "M"], "insured": bool})
    >>> dpn.marginals(2).over(domain).shape  # 100 x 2 + 100 x 2 + 2 x 2 counts, over 400 cells
    (404, 400)
    >>> dpn.marginals(upto=1) + 3 * dpn.ranges("age")  # the ranges three times as accurate
    marginals(upto=1) + 3 * ranges('age')
    """
    checked_count(k, upto)
    return _request(AllMarginals(k, upto, None, False))


def prefix_marginals(k: int | None = None, *, upto: int | None = None) -> WorkloadRequest:
    """Ask for marginals with cumulative counts along ordered attributes; see `marginals`.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"age": dpn.Range(0, 3), "sex": ["F", "M"]})
    >>> dpn.prefix_marginals(1).over(domain).dense()
    array([[1, 1, 0, 0, 0, 0, 0, 0],
           [1, 1, 1, 1, 0, 0, 0, 0],
           [1, 1, 1, 1, 1, 1, 0, 0],
           [1, 1, 1, 1, 1, 1, 1, 1],
           [1, 0, 1, 0, 1, 0, 1, 0],
           [0, 1, 0, 1, 0, 1, 0, 1]])
    """
    checked_count(k, upto)
    return _request(AllMarginals(k, upto, None, True))


def small_marginals(cells: int) -> WorkloadRequest:
    """Ask for every marginal of at most `cells` cells, the total included.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"age": dpn.Range(0, 99), "sex": ["F", "M"], "insured": bool})
    >>> dpn.small_marginals(100).over(domain)
    Marginals(5 subsets of 3 attributes, 109 queries)
    """
    return _request(AllMarginals(None, None, whole(cells, "the most cells of a marginal"), False))


def small_prefix_marginals(cells: int) -> WorkloadRequest:
    """Ask for every marginal of at most `cells` cells, with cumulative counts along ordered attributes.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"age": dpn.Range(0, 99), "sex": ["F", "M"], "insured": bool})
    >>> dpn.small_prefix_marginals(100).over(domain)
    Marginals(5 subsets of 3 attributes, 109 queries)
    """
    return _request(AllMarginals(None, None, whole(cells, "the most cells of a marginal"), True))


def ranges(*names: str) -> WorkloadRequest:
    """Ask for the count of every range of levels of an ordered attribute; of several, every box of ranges.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"age": dpn.Range(0, 2), "sex": ["F", "M"]})
    >>> dpn.ranges("age").over(domain, on="age").dense()
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1],
           [0, 1, 0],
           [0, 1, 1],
           [0, 0, 1]])
    """
    return _request(Product(_named(names, "ranges"), "ranges"))


def cdf(*names: str) -> WorkloadRequest:
    """Ask for the count at or below every level of an ordered attribute; of several, of every corner.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"age": dpn.Range(0, 2), "sex": ["F", "M"]})
    >>> dpn.cdf("age").over(domain, on="age").dense()
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return _request(Product(_named(names, "cdf"), "prefix"))


def identity(*names: str) -> WorkloadRequest:
    """Ask for the count of every level of an attribute; of several, of every combination of their levels.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"age": dpn.Range(0, 99), "sex": ["F", "M"], "insured": bool})
    >>> dpn.identity("age", "sex").over(domain).shape
    (200, 400)
    """
    return _request(Product(_named(names, "identity"), "identity"))


def total() -> WorkloadRequest:
    """Ask for the number of rows.

    Examples
    --------
    >>> import dpnotebook as dpn
    >>> domain = dpn.Domain({"sex": ["F", "M"], "insured": bool})
    >>> dpn.total().over(domain).dense()
    array([[1, 1, 1, 1]])
    """
    return _request(Product((), "identity"))


def _error_of_part(error: object) -> float:
    if isinstance(error, bool) or not isinstance(error, Real) or not 0 < float(error) < math.inf:
        raise AccuracyError(
            "within() takes the half-width of an interval in rows, a finite number above 0, such as "
            f"ranges('age').within(50); not {shorten(error)}"
        )
    return float(error)


def _request(part: Product | AllMarginals) -> WorkloadRequest:
    return WorkloadRequest(((1, part),))


def _named(names: tuple[str, ...], verb: str) -> tuple[str, ...]:
    if not names or not all(isinstance(name, str) for name in names):
        raise WorkloadError(f"{verb} takes names of attributes, such as {verb}('age'), not {shorten(names)}")
    if len(set(names)) < len(names):
        raise WorkloadError(f"an attribute comes twice: {', '.join(names)}")
    return names


def _axes(domain: NamedAttributes, on: str | Iterable[str] | None, levels: Levels) -> list[NamedAxis]:
    if hasattr(on, "iloc"):
        raise WorkloadError(f"on= lists names of attributes; it is not {shorten(on)}")
    names = domain.names if on is None else (on,) if isinstance(on, str) else tuple(islice(on, len(domain) + 1))
    axes = []
    for name in names:
        if name not in domain:
            raise WorkloadError(domain.unknown(name))
        attribute = domain[name]
        kept = levels.get(name, range(attribute.size))
        if not len(kept):
            raise WorkloadError(f"no level of {shorten(name)} takes part")
        ordered = sum(level < attribute.regular for level in kept) if attribute.ordered else 0
        axes.append(NamedAxis(name, len(kept), ordered))
    if len(set(names)) < len(names):
        raise WorkloadError(f"an attribute comes twice: {', '.join(names)}")
    return axes


def _along(part: Product | AllMarginals, axes: list[NamedAxis]) -> list[Along]:
    """Return what a part asks along each attribute that it uses."""
    if isinstance(part, Product):
        return [part.along] * len(axes)
    return ["prefix" if part.prefix and axis.ordered else "identity" for axis in axes]


def _subsets(part: Product | AllMarginals, axes: list[NamedAxis]) -> Iterator[Subset]:
    if isinstance(part, Product):
        places = {axis.name: place for place, axis in enumerate(axes)}
        for name in part.names:
            if name not in places:
                near = ", ".join(repr(axis.name) for axis in axes) or "no attribute"
                raise WorkloadError(f"{shorten(part)} needs {shorten(name)}, and what it is asked of has {near}")
            if part.along != "identity" and not axes[places[name]].ordered:
                raise WorkloadError(
                    f"{shorten(part)} needs an order, and {shorten(name)} has none among the levels that take part; "
                    "declare it as "
                    "Range, Bins or Categories([...], ordered=True), or ask for identity"
                )
        yield tuple(sorted(places[name] for name in part.names))
        return
    if not axes:
        raise WorkloadError("a domain without attributes has no marginals: ask it of at least one attribute")
    if part.cells is None:
        yield from subsets(len(axes), part.k, part.upto)
    else:
        yield from small_subsets(tuple(axis.size for axis in axes), part.cells)


def _joined(axes: list[NamedAxis], kinds: dict[int, Along], weights: list[tuple[Subset, Number]]) -> Workload:
    """Return the workload of some subsets in which every attribute is asked the same."""
    if not axes:
        axes = [NamedAxis("", 1, 0)]
    factors = [_factor(axis, kinds.get(i, "identity")) for i, axis in enumerate(axes)]
    if len(weights) > 1:
        return Marginals(factors, weights)
    ((subset, weight),) = weights
    parts = [factor if i in subset else Total(axes[i].size) for i, factor in enumerate(factors)]
    product = parts[0] if len(parts) == 1 else Kron(*parts)
    return product if weight == 1 else weight * product


def _factor(axis: NamedAxis, along: Along) -> Workload:
    if along == "identity":
        return Identity(axis.size)
    ordered: Contiguous = Prefix(axis.ordered) if along == "prefix" else AllRange(axis.ordered)
    return ordered if axis.ordered == axis.size else Padded(ordered, axis.size - axis.ordered)
