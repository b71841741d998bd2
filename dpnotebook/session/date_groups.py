"""Keys that are longer spans of dates than those that are declared: the months of a column that is declared by day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpnotebook.domain import Dates, Domain
from dpnotebook.domain.values import Mask
from dpnotebook.errors import DomainError, shorten
from dpnotebook.planner.to_linear import allowed_levels
from dpnotebook.predicate import Predicate
from dpnotebook.workload import Identity, Kron, Predicates, Workload

FREQUENCIES = {"D": "day", "W": "week", "M": "month", "Q": "quarter", "Y": "year", "A": "year"}  # as pandas has them


def keys_of(keys: Any) -> tuple[list[Any], dict[str, str]]:
    """Return the names of keys, and the span of those that are grouped by one.

    Parameters
    ----------
    keys
        A name; a dict from names to spans, None where there is none; a `pandas.Grouper`; or a list of these.

    Raises
    ------
    DomainError
        If a Grouper has no key, or a frequency that is no span.
    """
    names: list[Any] = []
    spans: dict[str, str] = {}
    for key in keys if isinstance(keys, list | tuple) else [keys]:
        if isinstance(key, Mapping):
            names += key
            spans |= {name: by for name, by in key.items() if by is not None}
        elif type(key).__name__ in ("Grouper", "TimeGrouper") and hasattr(key, "freq"):
            names.append(key.key)
            spans[key.key] = _span_of(key)
        else:
            names.append(key)
    return names, spans


def span_workload(domain: Domain, keys: Sequence[str], spans: Mapping[str, str], where: Predicate) -> Workload:
    """Return the counts of all combinations of spans and levels, over the cells of the keys that rows can be in.

    Raises
    ------
    DomainError
        If a key holds no dates, or its levels are in no single span.
    """
    factors: list[Workload] = []
    for name in keys:
        levels = np.asarray(allowed_levels(where, name, domain), dtype=np.intp)
        if name not in spans:
            factors.append(Identity(levels.size))
            continue
        masks = [mask[levels] for _, mask in span_masks(domain, name, spans[name])]
        factors.append(Predicates(np.array([mask for mask in masks if mask.any()])).simplest())
    return factors[0] if len(factors) == 1 else Kron(*factors)


def span_masks(domain: Domain, name: str, by: str) -> list[tuple[str | None, Mask]]:
    """Return each span of a column of dates as a label and a mask over its levels; other and missing ones are last."""
    attribute = domain[name]
    if not isinstance(attribute, Dates):
        raise DomainError(
            f"{shorten(name)} is declared as {shorten(attribute)}, which has no {shorten(by)}: only Dates are grouped "
            "by a span"
        )
    return attribute.coarser(by, name)


def _span_of(key: Any) -> str:
    """Return the span of a Grouper's frequency."""
    name = str(getattr(key.freq, "freqstr", key.freq))  # "2MS" where there are several
    frequency, _, anchor = name.partition("-")
    found = FREQUENCIES.get(frequency.removesuffix("S").removesuffix("E") if len(frequency) > 1 else frequency)
    fits = anchor in ("", "SUN" if found == "week" else "DEC" if not frequency.endswith("S") else "JAN")
    if key.key is None or found is None or not fits:
        raise DomainError(
            "a Grouper is Grouper(key='admitted', freq='MS'), by D, W, MS, QS or YS; or write "
            "groupby({'admitted': 'month'})"
        )
    return found
