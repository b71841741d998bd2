"""The frame of a release as columns of one type each, as Arrow, Parquet and polars have them.

The keys of marginals have "(all)" among their values, and a column of a frame holds both as they are; there they are
texts.
"""

from __future__ import annotations

from io import BytesIO
from numbers import Number
from os import PathLike
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DPError
from dpnotebook.session.spreadsheet import write_bytes

if TYPE_CHECKING:
    import pandas as pd


def of_one_type(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns have values of one type each: those with several have texts, and None stays."""
    found = frame.copy(deep=False)
    for name in found.columns:
        if found[name].dtype == object and len(set(map(_kind, found[name].dropna()))) > 1:
            found[name] = found[name].map(str, na_action="ignore")
    return found


def write_parquet(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write a frame to a Parquet file.

    Parameters
    ----------
    frame
        What to write.
    path
        Where to.

    Raises
    ------
    DPError
        If that is no path that can be written, or pyarrow is not installed.
    """
    written = BytesIO()
    try:
        of_one_type(frame).to_parquet(written, index=False)
    except ImportError:
        raise DPError("Parquet needs pyarrow: pip install pyarrow. to_csv needs nothing") from None
    write_bytes(written.getvalue(), path, "to_parquet", "ages.parquet")


def _kind(value: Any) -> type:
    """Return the type of a value, which all numbers share; booleans are none here."""
    return Number if isinstance(value, Number) and not isinstance(value, bool) else type(value)
