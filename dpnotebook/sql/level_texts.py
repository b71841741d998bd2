"""Declared levels as texts, and as JSON: thousands of them stand in every key by which statements are found again."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any
from uuid import uuid4

KEPT = 64  # lists of levels whose texts are kept
MARK = uuid4().hex  # which no text has in it

_kept: OrderedDict[int, tuple[Sequence[Any], LevelTexts]] = OrderedDict()  # with the levels, so that ids stay theirs


class LevelTexts(list[str]):
    """Texts of levels: a list as any other, which nobody changes, and which knows its JSON."""

    @cached_property
    def json(self) -> str:
        """What `json.dumps` makes of it."""
        return json.dumps(self)


def level_texts(levels: Sequence[Any] | None) -> LevelTexts:
    """Return `str` of each level, made once for the same levels."""
    if levels is None:
        return LevelTexts()
    known = _kept.get(id(levels))
    if known is None:
        known = _kept[id(levels)] = levels, LevelTexts(map(str, levels))
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return known[1]


def dumps(told: Any, *, sort_keys: bool = False) -> str:
    """Return what `json.dumps` does, without writing texts of levels out again.

    Examples
    --------
    >>> levels = (1, 2, "three")
    >>> dumps(["levels", {"of": level_texts(levels)}])
    '["levels", {"of": ["1", "2", "three"]}]'
    """
    lists: list[LevelTexts] = []

    def marked(part: Any) -> Any:
        if isinstance(part, LevelTexts):
            lists.append(part)
            return f"{MARK}{len(lists) - 1}"
        if isinstance(part, dict):
            return {name: marked(one) for name, one in part.items()}
        return [marked(one) for one in part] if isinstance(part, list | tuple) else part

    text = json.dumps(marked(told), sort_keys=sort_keys)
    for place, levels in enumerate(lists):
        text = text.replace(f'"{MARK}{place}"', levels.json, 1)
    return text
