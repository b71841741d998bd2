"""What is kept of a release of a statement, so that planning beside a thousand need not read them all again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpnotebook.sql.prices import RecordedStatement
from dpnotebook.sql.reuse.rows import read_rows
from dpnotebook.sql.select import PrivateSelect
from dpnotebook.sql.statement_json import statement_from_json

SHARPER = "sharper"  # in plans: which release is made sharper, and how
Columns = frozenset[int]  # hashes of what is grouped by, and of the columns that aggregates are of


@dataclass(frozen=True)
class Outline:
    """Which release it is, and how it compares with others.

    Parameters
    ----------
    number, units
        Its number in the ledger, and what it cost, in the accountant's units.
    alike
        Equal for releases that differ in nothing but their groups and their noise.
    shown
        Equal for those of the same groups.
    noise
        The scales of all noise, and thresholds: equally many for releases that are alike.
    columns
        Of each private aggregation, what it has: with its keys as they are, and with the columns that these are of;
        None where its rows cannot be read.
    sharpens
        Number of the release that it made sharper; None where it was measured by itself.
    """

    number: int
    units: int
    alike: bytes
    shown: bytes
    noise: tuple[float, ...]
    columns: tuple[tuple[Columns, Columns] | None, ...]
    sharpens: int | None = None

    def has_no_more_noise_than(self, other: Outline) -> bool:
        """Return whether nothing is noisier than in a release that is alike."""
        return all(mine <= theirs for mine, theirs in zip(self.noise, other.noise, strict=True))

    def may_answer(self, asked: tuple[Columns, Columns] | None, coarser: bool = False) -> bool:
        """Return whether it has all columns of a private aggregation, without which it cannot answer that.

        Its keys may be others of the same columns where `coarser` groups are looked for.
        """
        if asked is None:
            return False
        return any(columns is not None and asked[coarser] <= columns[coarser] for columns in self.columns)


def outline(record: RecordedStatement) -> Outline:
    """Return what is kept of a release."""
    selects = statement_from_json(record.plan["statement"]).selects if "selects" in record.details else ()
    shapes, keys, noise = [], [], []
    for select, told in zip(selects, record.details.get("selects", ()), strict=True):
        measured = told["measuring"]
        counted, tau, *rest = measured["threshold"]
        noise += [float(Fraction(block["scale"])) for block in measured["blocks"]]
        noise.append(float(tau or 0))
        blocks = [{**block, "scale": None} for block in measured["blocks"]]
        shape = {**measured, "blocks": blocks, "threshold": [counted, tau is None, *rest]}
        shapes.append([select.canonical, list(select.tables), select.single, shape])
        keys.append(told["keys"])
    alike = _digest(shapes)
    return Outline(
        record.number,
        int(record.plan["units"]),
        alike,
        alike + _digest(keys),
        tuple(noise),
        tuple(columns_of(select) for select in selects),
        record.plan.get(SHARPER, {}).get("of"),
    )


def columns_of(select: PrivateSelect) -> tuple[Columns, Columns] | None:
    """Return what a private aggregation groups by, or the columns that this is of, and what its aggregates are of.

    None where its rows are not read.
    """
    rows = read_rows(select.rows)
    if rows is None:
        return None
    grouped = [(rows.key_texts[i], key.levels, key.kind) for i, key in enumerate(select.keys)]
    operands = [one for aggregate in select.aggregates for one in aggregate.operands]
    inputs = {hash(one.input if one.input is None else rows.inputs[one.input]) for one in operands}
    return frozenset(map(hash, grouped)) | inputs, frozenset(map(hash, rows.key_columns)) | inputs


def _digest(values: list[Any]) -> bytes:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).digest()
