"""Statements and keys of groups as JSON, so that a recorded release can be shown again by a later session."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpnotebook.sql.select import Aggregate, Apart, Contribution, Key, KeysTogether, PrivateSelect
from dpnotebook.sql.statement import Statement

# Of how it was read and runs, which no ledger keeps.
NOT_KEPT = {
    "tree",
    "conditions",
    "also_counted",
    "inside",
    "kept",
    "grouped",
    "sampled",
    "inputs_sampled",
    "shared",
    "vectors",
    "weights",
    "kept_rows",
    "coded",
}
FRACTIONS = ("epsilon", "delta", "selection_epsilon")


def statement_to_json(statement: Statement) -> dict[str, Any]:
    """Return a statement as JSON values; what the linear planner needs of it is left out."""
    values = {
        "text": statement.text,
        "selects": [_select_to_json(select) for select in statement.selects],
        "outer": statement.outer,
        "public": list(statement.public),
    }
    return values | {"options": dict(statement.options)} if statement.options else values


def statement_from_json(values: Mapping[str, Any]) -> Statement:
    """Return the statement that `statement_to_json` wrote."""
    selects = tuple(_select_from_json(select) for select in values["selects"])
    options = values.get("options", {})
    return Statement(values["text"], selects, values["outer"], tuple(values["public"]), options=options)


def keys_to_json(keys: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the keys of groups as JSON values."""
    return [[value_to_json(value) for value in key] for key in keys]


def keys_from_json(values: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return the keys that `keys_to_json` wrote."""
    return [tuple([value_from_json(value) if isinstance(value, dict) else value for value in key]) for key in values]


def value_to_json(value: Any) -> Any:
    """Return one value of a key as JSON: texts, numbers and truth values are themselves, others say what they are."""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return None
        value = value.astype("datetime64[us]").item()
    elif isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else {"float": repr(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    if isinstance(value, datetime.time):
        return {"time": value.isoformat()}
    return {"text": str(value)}


READ: dict[str, Callable[[str], Any]] = {
    "float": float,
    "decimal": Decimal,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "text": str,
}


def value_from_json(value: Any) -> Any:
    """Return the value that `value_to_json` wrote."""
    if isinstance(value, Mapping):
        ((kind, written),) = value.items()
        return READ[kind](written)
    return value


def _select_to_json(select: PrivateSelect) -> dict[str, Any]:
    values = {name: getattr(select, name) for name in _names(PrivateSelect) if name not in NOT_KEPT}
    values |= {name: _text(values[name]) for name in FRACTIONS}
    values["keys"] = [
        {"name": key.name, "levels": key.levels and keys_to_json([key.levels])[0], "kind": key.kind}
        | ({"untyped": True} if key.untyped else {})
        for key in select.keys
    ]
    values["aggregates"] = [_aggregate_to_json(aggregate) for aggregate in select.aggregates]
    values["contribution"] = [select.contribution.kind, select.contribution.most]
    if select.apart is not None:
        bounded = select.apart.contribution
        values["apart"] = [bounded.kind, bounded.most, list(select.apart.aggregates)]
    values["together"] = [[list(one.keys), list(map(list, one.levels))] for one in select.together]
    values["most_declared"] *= select.counts_all_rows
    values["dates"] = list(select.dates)
    for part in ("drawn", "rows_if_hidden", "apart", "most_declared", "dates", "together"):
        if not values[part]:
            del values[part]
    return values


def _select_from_json(values: Mapping[str, Any]) -> PrivateSelect:
    given = dict(values) | {name: _fraction(values[name]) for name in FRACTIONS}
    given |= {name: tuple(values.get(name, ())) for name in ("tables", "public", "notes", "dates")}
    given["keys"] = tuple(
        Key(
            key["name"],
            key["levels"] and tuple(keys_from_json([key["levels"]])[0]),
            key["kind"],
            key.get("untyped", False),
        )
        for key in values["keys"]
    )
    given["aggregates"] = tuple(_aggregate_from_json(aggregate) for aggregate in values["aggregates"])
    given["contribution"] = Contribution(*values["contribution"])
    if "apart" in values:
        *bounded, numbers = values["apart"]
        given["apart"] = Apart(Contribution(*bounded), tuple(numbers))
    if "together" in values:
        given["together"] = tuple(
            KeysTogether(tuple(keys), tuple(map(tuple, rows))) for keys, rows in values["together"]
        )
    return PrivateSelect(**given)


def _aggregate_to_json(aggregate: Aggregate) -> dict[str, Any]:
    values = {name: getattr(aggregate, name) for name in _names(Aggregate) if name != "other"}
    values["bounds"] = aggregate.bounds and [str(bound) for bound in aggregate.bounds]
    for part in ("values", "within"):
        if values[part] is None:
            del values[part]
        else:
            values[part] = [str(bound) for bound in values[part]]
    if not aggregate.by_itself:
        del values["by_itself"]
    if aggregate.other is not None:
        values["other"] = _aggregate_to_json(aggregate.other)
    return values | {"epsilon": _text(aggregate.epsilon)}


def _aggregate_from_json(values: Mapping[str, Any]) -> Aggregate:
    given = dict(values) | {"epsilon": _fraction(values["epsilon"]), "fractions": tuple(values["fractions"])}
    given["bounds"] = values["bounds"] and tuple(Fraction(bound) for bound in values["bounds"])
    given |= {part: tuple(map(Fraction, values.get(part) or ())) or None for part in ("values", "within")}
    given["edges"] = None if values["edges"] is None else tuple(values["edges"])
    given["other"] = _aggregate_from_json(values["other"]) if "other" in values else None
    return Aggregate(**given)


def _names(kind: type) -> list[str]:
    return [part.name for part in fields(kind)]


def _text(value: Fraction | None) -> str | None:
    return None if value is None else str(value)


def _fraction(value: str | None) -> Fraction | None:
    return None if value is None else Fraction(value)
