"""Lists of thousands of levels in SQL: they stand aside while the rest of a statement is read as a tree.

A list is written `(VALUES ('a', 0), ('b', 1)) AS l0(v, i)`: reading it, and writing it again, gives the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from uuid import uuid4

Literal = str | int | float | bool
Levels = tuple[tuple[int, Literal], ...]

TEXT = r"'[^']*+(?:''[^']*+)*+'"
VALUE = rf"(?:{TEXT}|-?\d++(?![.\w])|CAST\({TEXT} AS [A-Z]++\))"
ROW = rf"\({VALUE}, \d++\)"
# Texts and names are passed over whole: what looks like a list in them is none.
LIST = re.compile(rf'{TEXT}|"[^"]*+"|\(VALUES (?P<rows>{ROW}(?:, {ROW})*+)\) AS l\d++\(v, i\)')
PAIR = re.compile(rf"\((?:(?P<text>{TEXT})|(?P<whole>-?\d++)|CAST\({TEXT} AS [A-Z]++\)), (?P<place>\d++)\)")
MARK = f"levels {uuid4().hex} "  # which no text has in it
MARKED = re.compile(rf"\('{MARK}(\d+)', 0\)")
FEW = 1_000  # characters of a list that are read as they are


@dataclass(frozen=True)
class Shortened:
    """A text without its long lists.

    Parameters
    ----------
    text
        The text, with one row that is named by a number in place of those of a list.
    rows
        SQL of the rows of each list.
    """

    text: str
    rows: tuple[str, ...]

    def whole(self, text: str) -> str:
        """Return a part of the text with its lists in it again."""
        return MARKED.sub(lambda found: self.rows[int(found[1])], text) if MARK in text else text

    def stands_for_list(self, value: Literal | None) -> bool:
        """Return whether a literal stands in the place of a list."""
        return isinstance(value, str) and value.startswith(MARK)

    def levels(self, value: str) -> Levels | None:
        """Return the numbers and values of the list that a literal stands for; None where some are no literals."""
        return _levels(self.rows[int(value.removeprefix(MARK))])


def shortened(text: str) -> Shortened:
    """Return SQL with its long lists of levels set aside."""
    rows: list[str] = []

    def set_aside(found: re.Match[str]) -> str:
        listed, whole = found["rows"], found[0]
        if listed is None or len(listed) < FEW:
            return whole
        rows.append(listed)
        return whole.replace(listed, f"('{MARK}{len(rows) - 1}', 0)", 1)

    return Shortened(LIST.sub(set_aside, text), tuple(rows))


@lru_cache(maxsize=64)  # made once of the levels of an attribute, and held once for all statements
def _levels(rows: str) -> Levels | None:
    found: list[tuple[int, Literal]] = []
    for pair in PAIR.finditer(rows):
        text, whole, place = pair.groups()
        if text is None and whole is None:
            return None
        found.append((int(place), int(whole) if text is None else text[1:-1].replace("''", "'")))
    return tuple(found)
