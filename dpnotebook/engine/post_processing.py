"""What is worked out from releases: SQL over frames that are public, in a connection that sees nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpnotebook.engine.sealed import without_files
from dpnotebook.errors import SQLError, shorten

if TYPE_CHECKING:
    import pandas as pd

EVERY_ROW = 2**31 - 1  # of a frame is looked at for the type of a column


def outer(query: str, frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the answer of a query over released and public frames.

    Parameters
    ----------
    query
        DuckDB's SQL, one SELECT.
    frames
        What it may read, by name; every value of them is public.

    Returns
    -------
    pandas.DataFrame
        Arrays are lists.

    Raises
    ------
    SQLError
        If the query cannot be answered. DuckDB's own words are repeated: there is nothing private in them.
    """
    import duckdb

    connection = without_files(EVERY_ROW)
    try:
        for name, frame in frames.items():
            connection.register(name, frame.copy(deep=False))
        answer: pd.DataFrame = connection.execute(query).df()
    except duckdb.Error as failure:
        text = str(failure).split("\n\nLINE")[0].strip().splitlines()
        raise SQLError(
            f"this cannot be worked out from the answer: {shorten(text[0] if text else failure, 200)}"
        ) from None
    finally:
        connection.close()
    for name in answer.columns:
        if answer[name].dtype == object:
            answer[name] = answer[name].map(_as_list)
    return answer


def _as_list(value: object) -> object:
    import numpy as np

    return value.tolist() if isinstance(value, np.ndarray) else value
