"""The words of groups of longer spans of dates than those that are declared: "COUNT per month of admitted"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpnotebook.domain.calendar import SPANS
from dpnotebook.domain.dates import OF_EVERY

PER, AND = "COUNT per ", " and per "


def per_words(groups: Mapping[str, str]) -> str:
    """Return what is asked, given the span by which each column of dates is grouped."""
    return PER + AND.join(f"{by} of {name}" for name, by in groups.items())


def per_text(asked: str) -> str:
    """Return what `per_words` wrote as what stands behind another measure than a count: " per month of admitted"."""
    return asked.removeprefix(PER.split()[0]) if asked.startswith(PER) else ""


def groups_of(asked: str, keys: Sequence[str]) -> dict[str, str]:
    """Return the spans that `per_words` wrote, by column; empty where it did not write the text."""
    if not asked.startswith(PER):
        return {}
    known = {f"{by} of {key}": (key, by) for key in keys for by in (*SPANS, *OF_EVERY)}
    parts = asked.removeprefix(PER).split(AND)
    return dict(known[part] for part in parts) if all(part in known for part in parts) else {}
