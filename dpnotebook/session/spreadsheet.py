"""A frame as a CSV file whose texts stay texts where a spreadsheet opens it.

A cell that begins with =, +, -, @, a tab or a line break is a formula to a spreadsheet, whatever the file says: a level
of a key, which whoever filled the table may have chosen, would be run on the machine of whoever opens the file.

Source: OWASP, "CSV injection": an apostrophe in front makes it text.
"""

from __future__ import annotations

import csv
import re
from os import PathLike, fsdecode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DPError, shorten

if TYPE_CHECKING:
    import pandas as pd

MARK = "\ufeff"
# Spreadsheets drop spaces in front, and take the wide forms of the signs for the signs. What has apostrophes in front
# gets one more, so that taking one away where this matches gives back what there was.
_FORMULA = re.compile("'*(?:[\\s\\u200b\\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")


def write_csv(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write a frame to a CSV file: numbers as they are, all texts in quotes, formulas behind an apostrophe.

    It is UTF-8, and begins with the mark of that where it has other letters than ASCII: without it spreadsheets take
    it for another encoding.

    Parameters
    ----------
    frame
        What to write.
    path
        Where to.

    Raises
    ------
    DPError
        If that is no path that can be written.
    """
    text = csv_text(frame)
    write_text(text if text.isascii() else f"{MARK}{text}", path, "to_csv", "ages.csv")


def write_text(text: str, path: str | PathLike[str], verb: str, example: str) -> None:
    """Write a text to a file, as UTF-8.

    Parameters
    ----------
    text
        What to write.
    path
        Where to.
    verb, example
        Which method of a release was asked to, and a path that it takes, for what is said of one that it does not.

    Raises
    ------
    DPError
        If that is no path that can be written.
    """
    write_bytes(text.encode(), path, verb, example)


def write_bytes(content: bytes, path: str | PathLike[str], verb: str, example: str) -> None:
    """Write a file; see `write_text`."""
    try:
        target = fsdecode(path)
    except TypeError:
        raise DPError(f"{verb} takes the path of a file, such as {example!r}, not {shorten(path)}") from None
    try:
        Path(target).write_bytes(content)
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such folder" if missing else getattr(error, "strerror", None) or "it is no path"
        raise DPError(f"{shorten(str(target), 200)} cannot be written: {why}; write another path") from None


def csv_text(frame: pd.DataFrame) -> str:
    """Return what `write_csv` writes."""
    return str(_safe(frame).to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC))


def _safe(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without formulas, to be written with its texts in quotes.

    In quotes, because where a spreadsheet separates by semicolons, one inside a text begins no new cell.
    """
    safe = frame.copy(deep=False)
    for name in safe.columns:
        if getattr(safe[name].dtype, "kind", "O") not in "biufcmM":
            safe[name] = safe[name].map(as_text)
    safe.columns = safe.columns.map(as_text)
    return safe


def as_text(value: Any) -> Any:
    """Return a text so that no spreadsheet runs it; what is no text is returned as it is."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
