"""Arrays as JSON values: shape, type and compressed bytes, in the smallest integer type that holds them."""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.workload.base import Array, require_memory

TYPES = ("|i1", "<i2", "<i4", "<i8", "<f8")  # little-endian, whatever the machine
UNREADABLE = "these JSON values do not describe an array"


def packed(array: Array) -> dict[str, Any]:
    """Return an array of integers or floats as JSON values, for `unpacked`."""
    if array.dtype.kind == "f":
        kind = "<f8"
    else:
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        kind = next(k for k in TYPES if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
    data = zlib.compress(np.ascontiguousarray(array, dtype=kind).tobytes(), 9)
    return {"shape": list(array.shape), "dtype": kind, "zlib": base64.b64encode(data).decode("ascii")}


def unpacked(value: Any) -> Array:
    """Return the array that `packed` wrote; nested lists of numbers, as older ledgers hold them, are read too.

    Raises
    ------
    WorkloadError
        If the value is neither, or its bytes are not those of an array of its shape.
    """
    if not isinstance(value, Mapping):
        return np.array(value)
    try:
        shape, kind = tuple(int(size) for size in value["shape"]), str(value["dtype"])
        entries, width = math.prod(shape), int(kind[-1]) if kind in TYPES else 0
        require_memory(entries, "a recorded array")
        data = zlib.decompressobj().decompress(base64.b64decode(value["zlib"], validate=True), entries * width + 1)
        array = np.frombuffer(data, dtype=kind).reshape(shape)
    except (KeyError, TypeError, OverflowError, zlib.error) as error:
        raise WorkloadError(UNREADABLE) from error
    except ValueError as error:  # also what is no base64, and bytes of another number of entries
        raise (error if isinstance(error, WorkloadError) else WorkloadError(UNREADABLE)) from None
    return array.astype(np.float64 if kind == "<f8" else np.int64)


def canonical_arrays(value: Any) -> Any:
    """Return JSON values with every packed array replaced by a digest of what it holds.

    Compressed bytes may differ between versions of zlib; the digests of equal workloads do not.
    """
    if isinstance(value, Mapping):
        if "zlib" in value:
            data = zlib.decompress(base64.b64decode(value["zlib"]))
            return {**value, "zlib": hashlib.sha256(data).hexdigest()}
        return {name: canonical_arrays(part) for name, part in value.items()}
    return [canonical_arrays(part) for part in value] if isinstance(value, list | tuple) else value
