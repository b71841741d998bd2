"""Keys of a column of objects, shown as what most of them are: one person's value makes a column one of objects."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotebook.domain.values import MAX_BOUND, is_missing
from dpnotebook.engine.frames import text_of
from dpnotebook.session.answer_frame import column_of
from dpnotebook.sql.rewrite.groups import place_of

if TYPE_CHECKING:
    import pandas as pd

TRUTHS = {"True": True, "False": False}


def as_meant(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return an answer whose keys are numbers, truth values or times where most that were released are.

    Only what was released decides. Columns of codes, in which a number has more zeros than it needs, stay texts.

    Parameters
    ----------
    frame
        The answer.
    names
        Its keys that stand for values of any kind.
    """
    found = {name: _column(frame[name]) for name in names if name in frame}
    return frame.assign(**found) if found else frame


def in_order(frame: pd.DataFrame, keys: Sequence[str]) -> list[int]:
    """Return the places of the rows of an answer in the order of its keys."""
    columns = [[_place(value) for value in frame[key].tolist()] for key in keys]
    return sorted(range(len(frame)), key=lambda row: tuple(column[row] for column in columns))


def read(text: str) -> Any:
    """Return the number, truth value or time that a text is of; what no value has as its text stays one."""
    if text in TRUTHS:
        return TRUTHS[text]
    for convert in (float, datetime.datetime.fromisoformat):
        try:
            value = convert(text)
        except ValueError:
            continue
        if text_of(value) == text:
            return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_BOUND else value
    return text


def _place(value: Any) -> tuple[int, str, Any]:
    return (3, "", 0) if is_missing(value) else place_of(value)


def _column(keys: pd.Series[Any]) -> Any:
    texts = [key for key in keys if isinstance(key, str)]
    values = {text: read(text) for text in texts}
    kinds = Counter(map(_kind, values.values()))
    if not kinds or any(type(value) is str and _is_code(value) for value in values.values()):
        return keys
    kind, most = kinds.most_common(1)[0]
    if kind is str or 2 * most <= len(values):
        return keys
    shown = np.empty(len(keys), dtype=object)
    shown[:] = [values[key] if isinstance(key, str) and _kind(values[key]) is kind else key for key in keys]
    return column_of(shown)


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _is_code(text: str) -> bool:
    try:
        return text_of(float(text)) is not None
    except ValueError:
        return False
