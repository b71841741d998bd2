"""A keyed digest of columns of a frame, value by value in their order: equal only where everything that is read is.

A charge that was not answered is answered later with the noise that it had, so nothing that a statement can read may
change unnoticed. Hashes of pandas do not do: they take 1 and True in a column of objects for one, whole numbers of
Arrow beside a missing one for floating-point numbers, and a structure for nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd


def digest_column(name: str, column: pd.Series[Any] | None, key: bytes) -> bytes:
    """Return a keyed digest of a column.

    Parameters
    ----------
    name
        Of the column.
    column
        As it is read (see `FrameColumns.read`); None if it cannot be.
    key
        Up to 64 bytes.
    """
    digest = hashlib.blake2b(key=key, digest_size=32)
    for part in (name.encode(), *([] if column is None else _parts(column))):
        data = part if isinstance(part, bytes) else np.ascontiguousarray(part).view(np.uint8).data
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.digest()


def _parts(column: pd.Series[Any]) -> Iterable[bytes | NDArray[Any]]:
    """Return what a column is made of, as bytes and arrays of numbers."""
    import pandas as pd

    dtype: Any = column.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return _arrow(column.array)
    if isinstance(dtype, pd.StringDtype | pd.CategoricalDtype) or dtype == np.dtype(object):
        return _texts(column)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return [f"M {dtype.unit}".encode(), column.dt.tz_convert(None).to_numpy().view(np.int64)]
    if isinstance(dtype, np.dtype):
        return _numbers(column.to_numpy(), None)
    missing = column.isna().to_numpy()
    return _numbers(column.fillna(False if dtype.kind == "b" else 0).to_numpy(dtype=dtype.numpy_dtype), missing)


def _numbers(values: NDArray[Any], missing: NDArray[np.bool_] | None) -> Iterable[bytes | NDArray[Any]]:
    """Return whole numbers of any width as one, other numbers and times as they are, and where one is missing."""
    kind, where = values.dtype.kind, b"" if missing is None or not missing.any() else np.packbits(missing)
    if kind in "mM":
        return [f"{kind} {np.datetime_data(values.dtype)[0]}".encode(), values.view(np.int64)]
    if kind == "u" and values.dtype.itemsize == 8 and (values >> np.uint64(63)).any():
        return [b"u", values, where]
    if kind in "iu":
        return [b"i", values.astype(np.int64, copy=False), where]
    return [f"{kind}{values.dtype.itemsize}".encode(), values, where]


def _texts(values: pd.Series[Any]) -> Iterable[bytes | NDArray[Any]]:
    """Return which text stands in each row, by number, and the texts in the order in which they come."""
    import pandas as pd

    codes, found = pd.factorize(values, use_na_sentinel=True)
    encoded = [str(text).encode(errors="surrogatepass") for text in np.asarray(found, dtype=object)]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    return [b"t", np.asarray(codes, dtype=np.int64), lengths, b"".join(encoded)]


def _arrow(column: Any) -> Iterable[bytes | NDArray[Any]]:
    """Return values of Arrow: numbers, truth values and texts as of any other column, the rest by their types."""
    import pandas as pd
    import pyarrow as pa

    array = pa.chunked_array(column.__arrow_array__()).combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind, missing = array.type, array.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(pd.Series(array.to_numpy(zero_copy_only=False)))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or kind in (pa.float32(), pa.float64()):
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0)
        return _numbers(filled.to_numpy(zero_copy_only=False), missing)
    try:
        written = "\n".join(map(repr, array.to_pylist())).encode(errors="surrogatepass")
    except (ValueError, OverflowError):  # Python's calendar ends with the year 9999
        written = pa.record_batch([array], names=["c"]).serialize().to_pybytes()
    return [str(kind).encode(), written]
