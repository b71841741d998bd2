"""Reading a charge without the plan of a question, which is most of it: what is spent does not depend on it."""

from __future__ import annotations

import re
from typing import Any

from dpnotebook.ledger.chain import Entry, read_json

# As charges are written: a plan stands behind its question and before its cost, and says what it measures behind its
# units. No text holds a quotation mark that no backslash stands before, so what matches are names, in this order.
_BEFORE = re.compile(r'\{"number":\d+,"table":"[^"\\]*","question":"[^"\\]*","plan":(?=\{"words":")')
_MEASURES = re.compile(r'","units":\d+,"measures":\[')
_AFTER = '},"cost":['
_OF_STATEMENTS = ('"fingerprints":', '"columns":', '"profiles":', '"relations":')  # what else is read of a plan
_SHORT = '{"measures":[]'


def values_without_plan(entry: Entry) -> dict[str, Any]:
    """Return a charge's JSON values, where its plan is that of a question with one that says nothing but that.

    Parameters
    ----------
    entry
        The charge. One that is written in another way, as by an earlier version, is read whole.

    Raises
    ------
    Broken
        If it cannot be read.
    """
    found = _shortened(entry.payload)
    return entry.values if found is None else found


def _shortened(payload: bytes) -> dict[str, Any] | None:
    try:
        text = payload.decode()
        before, end = _BEFORE.match(text), text.rfind(_AFTER)
        if before is None or _MEASURES.search(text, before.end(), end) is None:
            return None
        if any(name in text for name in _OF_STATEMENTS):
            return None
        found = read_json(text[: before.end()] + _SHORT + text[end:])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
