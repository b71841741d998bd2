"""What stands in place of a key that is NULL: a value that is missing, or all of them, in the totals of a statement."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from dpnotebook.session.release import Release

MISSING, ALL, EITHER = "(missing)", "(all)", "(all or missing)"
LARGER = re.compile(r"\b(ROLLUP|CUBE|GROUPING SETS)\b", re.IGNORECASE)
PARTLY = re.compile(r"\b(GROUPING SETS|HAVING|QUALIFY|LIMIT)\b", re.IGNORECASE)


def blanks(release: Release) -> list[str]:
    """Return what a missing key is called, row by row.

    Of ROLLUP and CUBE every total is there, so that a row without a key is the total where it is the only such one.
    """
    rows, outer = len(release.frame), str(getattr(release.question, "outer", None) or "")
    if not release.keys or not LARGER.search(outer):
        return [MISSING] * rows
    keys = release.frame[list(release.keys)]
    told = [tuple(None if missing else str(key) for key, missing in zip(row, away, strict=True))
            for row, away in zip(keys.to_numpy(dtype=object), pd.isna(keys).to_numpy(), strict=True)]  # fmt: skip
    times = Counter(told)
    return [EITHER if times[one] > 1 or PARTLY.search(outer) else ALL for one in told]
