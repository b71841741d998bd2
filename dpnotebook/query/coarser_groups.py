"""The words of coarser groups than the declared levels: "COUNT per month of admitted and per band of 10 of age"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpnotebook.domain.bands import TEXT
from dpnotebook.domain.calendar import SPANS
from dpnotebook.domain.dates import OF_EVERY

PER, AND = "COUNT per ", " and per "


def per_words(groups: Mapping[str, str]) -> str:
    """Return what is asked, given the span of dates, or band of numbers, by which each column is grouped."""
    return PER + AND.join(f"{by} of {name}" for name, by in groups.items())


def per_text(asked: str) -> str:
    """Return what `per_words` wrote as what stands behind another measure than a count: " per month of admitted"."""
    return asked.removeprefix(PER.split()[0]) if asked.startswith(PER) else ""


def groups_of(asked: str, keys: Sequence[str]) -> dict[str, str]:
    """Return the spans that `per_words` wrote, by column; empty where it did not write the text."""
    if not asked.startswith(PER):
        return {}
    found: dict[str, str] = {}
    for part in asked.removeprefix(PER).split(AND):
        known = {key: part.removesuffix(f" of {key}") for key in keys if part.endswith(f" of {key}")}
        spans = {key: by for key, by in known.items() if by in SPANS or by in OF_EVERY or TEXT.fullmatch(by)}
        if len(spans) != 1:
            return {}
        found |= spans
    return found
