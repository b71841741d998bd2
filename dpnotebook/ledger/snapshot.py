"""The spend of a table as bytes, so that opening a long ledger need not add up every cell of every charge again.

A snapshot proves nothing by itself: each charge in the chain names the digest of the spend after it, and a snapshot
is used only if it has that digest.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import zlib

import numpy as np

from dpnotebook.ledger.chain import Broken
from dpnotebook.privacy.spend import CellCost, Spend, from_runs, runs

# Spends are 64-bit integers: budgets and single costs stay below half of what those hold, so that sums are exact.
LARGEST = 1 << 62


def plus(spend: Spend, cost: CellCost) -> tuple[Spend, int]:
    """Return the spend after one more charge, and the units by which its maximum rises; `spend` stays as it is."""
    if not cost.terms:
        return spend, 0
    if cost.bound >= LARGEST:  # no budget pays it, and its cells would not fit 64 bits
        return spend, cost.bound
    after = copy.copy(spend)  # `add` puts new cells in place of the old ones
    after.add(cost)
    return after, after.maximum - spend.maximum


def digest(spend: Spend) -> str:
    """Return the SHA-256 of every cell's spend, and of which levels share cells, as hex digits."""
    whole = hashlib.sha256(_header(spend))
    whole.update(np.ascontiguousarray(spend.cells, dtype="<i8").data)  # no copy: there may be a million cells
    return whole.hexdigest()


def pack(spend: Spend) -> bytes:
    """Return a spend as compressed bytes."""
    return zlib.compress(_header(spend) + spend.cells.astype("<i8", copy=False).tobytes(), 1)


def unpack(packed: bytes, sizes: dict[str, int], limit: int, merge: bool = True, adds: str | None = None) -> Spend:
    """Return the spend that `pack` wrote, of a table with these sizes; the last three as in `Spend`.

    Raises
    ------
    Broken
        If the bytes hold no spend of such a table.
    """
    try:
        header, _, cells = zlib.decompress(packed).partition(b"\n")
        values = json.loads(header)
        shape = tuple(int(length) for length in values["shape"])
        everywhere = int(values["everywhere"])
        labels = dict(values.get("labels", {}))
        runs_fit = all(sum(int(n) for _, n in coded) == sizes.get(name) for name, coded in labels.items())
    except (zlib.error, ValueError, KeyError, TypeError):
        raise Broken("a snapshot of the spend cannot be read") from None
    same = values["sizes"] == [[name, size] for name, size in sizes.items()] and len(shape) == len(sizes)
    if not (same and runs_fit and len(cells) == 8 * math.prod(shape)):
        raise Broken("a snapshot of the spend is of another table")
    spend = Spend(sizes, limit, merge, adds)
    spend.everywhere, spend.labels = everywhere, {name: from_runs(coded) for name, coded in labels.items()}
    spend.axes = tuple(name for name, length in zip(sizes, shape, strict=True) if length > 1)
    spend.cells = np.frombuffer(cells, dtype="<i8").astype(np.int64).reshape([n for n in shape if n > 1])
    return spend


def _header(spend: Spend) -> bytes:
    sizes = [[name, size] for name, size in spend.sizes.items()]
    lengths = dict(zip(spend.axes, spend.cells.shape, strict=True))
    shape = [lengths.get(name, 1) for name in spend.sizes]  # where all levels are alike too: as every version wrote it
    values = {"sizes": sizes, "shape": shape, "everywhere": spend.everywhere}
    if spend.labels:  # not otherwise, so that the digests of earlier versions stay what they are
        values["labels"] = {name: runs(spend.labels[name]) for name in sorted(spend.labels)}
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
