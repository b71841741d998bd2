"""A predicate as the condition that somebody would write in SQL; it selects the same levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from dpnotebook.dialect.attributes import identifier, literal
from dpnotebook.domain import Attribute, Bins, Boolean, Categories, Dates, Domain, Range, Times
from dpnotebook.domain.values import Mask
from dpnotebook.errors import DomainError, shorten
from dpnotebook.predicate import Predicate

MOST_BOXES = 200  # products of a condition that are written out


def name_sql(name: str) -> str:
    """Return a name as people write it in SQL: in quotes only where it needs them.

    Examples
    --------
    >>> name_sql("age"), name_sql("group"), name_sql("Größe")
    ('age', '"group"', '"Größe"')
    """
    from sqlglot.dialects.duckdb import DuckDB

    from dpnotebook.sql.parse.completeness import RESERVED

    words = name.upper() in RESERVED or name.upper() in DuckDB.Tokenizer.KEYWORDS
    return name if name.isidentifier() and name.isascii() and not words else identifier(name)


def condition_sql(where: Predicate, domain: Domain, kinds: Mapping[str, str]) -> str:
    """Return the condition of the rows that a predicate selects; empty where it is of all rows.

    Parameters
    ----------
    where
        Which levels.
    domain
        Of which attributes.
    kinds
        What each column of the table holds, as SQL has it.

    Raises
    ------
    DomainError
        If it cannot be said, or is too long.
    """
    if where.is_everything:
        return ""
    boxes = where.products()
    if len(boxes) > MOST_BOXES:
        raise DomainError(f"where= is too long to be asked in SQL: it has {len(boxes):,} parts; write a shorter one")
    found = []
    for box in boxes:
        each = (_levels_sql(name, domain[name], np.asarray(mask), kinds.get(name, "")) for name, mask in box.items())
        found.append([*chain(*each)])
    return " AND ".join(found[0]) if len(found) == 1 else " OR ".join(_joined(parts, "AND") for parts in found)


def _levels_sql(name: str, attribute: Attribute, mask: Mask, kind: str) -> list[str]:
    """Return the conditions, all of which hold where a column has one of some levels, which are not all."""
    if isinstance(attribute, Times):
        raise DomainError(f"{shorten(name)} is times of day, which cannot be said in SQL here: leave it out of where=")
    column = name_sql(name)
    regular, null = mask[: attribute.regular], attribute.null_index is not None and bool(mask[-1])
    other = attribute.other_index is not None and bool(mask[attribute.other_index])
    if null and not regular.any() and not other:
        return [f"{column} IS NULL"]
    every = other if attribute.other_index is not None else attribute.clamps or isinstance(attribute, Boolean)
    if regular.all() and every and not null:
        return [f"{column} IS NOT NULL"]
    if isinstance(attribute, Range | Bins | Dates):
        runs = [_run_sql(attribute, column, *run, kind) for run in attribute.runs(mask)]
        if len(runs) == 1 and not other and not null:
            return runs[0]
        parts = [_joined(run, "AND") for run in runs]
        if other:
            low, high = _ends(attribute, 0, attribute.regular)
            closed = isinstance(attribute, Bins)
            parts.append(f"({column} < {low} OR {column} {'>' if closed else '>='} {high})")
    else:
        parts = _listed_sql(attribute, column, regular, other)
    if null:
        parts.append(f"{column} IS NULL")
    return [_joined(parts, "OR")]


def _run_sql(attribute: Range | Bins | Dates, column: str, start: int, stop: int, kind: str) -> list[str]:
    low, high = _ends(attribute, start, stop)
    open_below = attribute.clamps and start == 0
    open_above = attribute.clamps and stop == attribute.regular
    if isinstance(attribute, Range) and stop == start + 1 and kind == "integer" and not (open_below or open_above):
        return [f"{column} = {low}"]
    below = "<=" if isinstance(attribute, Bins) and stop == attribute.regular else "<"
    parts = [] if open_below else [f"{column} >= {low}"]
    parts += [] if open_above else [f"{column} {below} {high}"]
    return parts


def _ends(attribute: Range | Bins | Dates, start: int, stop: int) -> tuple[str, str]:
    """Return where levels start to stop - 1 begin, and where what follows them does."""
    if isinstance(attribute, Range):
        return str(attribute.low + start), str(attribute.low + stop)
    if isinstance(attribute, Bins):
        return repr(attribute.edges[start]), repr(attribute.edges[stop])
    return f"DATE '{attribute.starts[start]}'", f"DATE '{attribute.starts[stop]}'"


def _listed_sql(attribute: Attribute, column: str, regular: Mask, other: bool) -> list[str]:
    if isinstance(attribute, Boolean):
        return [column if level else f"NOT {column}" for level in np.flatnonzero(regular).tolist()]
    assert isinstance(attribute, Categories)  # of another kind, a label need not be the value
    labels: list[Any] = list(attribute.labels[: attribute.regular])
    if other:
        left_out = [label for label, wanted in zip(labels, regular.tolist(), strict=True) if not wanted]
        return [_among(column, left_out, "<>", "NOT IN")]
    return [_among(column, [label for label, wanted in zip(labels, regular, strict=True) if wanted], "=", "IN")]


def _among(column: str, labels: Sequence[Any], one: str, several: str) -> str:
    if len(labels) == 1:
        return f"{column} {one} {_written(labels[0])}"
    return f"{column} {several} ({', '.join(map(_written, labels))})"


def _written(label: Any) -> str:
    return literal(label) if isinstance(label, str | bool) else repr(label)


def _joined(parts: Sequence[str], word: str) -> str:
    return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"
