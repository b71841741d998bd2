"""Declared levels as texts, and as JSON: thousands of them stand in every key by which statements are found again."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from dpnotebook.dialect.attributes import literal

if TYPE_CHECKING:
    from dpnotebook.domain import Attribute
    from dpnotebook.sql.public_values import PublicValues

LONG = 10_000  # characters of a text that are not written out again
KEPT = 64  # lists of levels whose texts are kept
MARK = uuid4().hex  # which no text has in it

Made = TypeVar("Made")

# With what they are of, so that ids stay theirs.
_kept: OrderedDict[int, tuple[Any, LevelTexts]] = OrderedDict()
_rows: OrderedDict[int, tuple[Any, str]] = OrderedDict()


class LevelTexts(list[str]):
    """Texts of levels: a list as any other, which nobody changes, and which knows its JSON."""

    @cached_property
    def json(self) -> str:
        """What `json.dumps` makes of it."""
        return json.dumps(self)


def level_texts(levels: Sequence[Any] | None) -> LevelTexts:
    """Return `str` of each level, made once for the same levels."""
    return LevelTexts() if levels is None else _made_once(_kept, levels, lambda: LevelTexts(map(str, levels)))


def rows_in_sql(attribute: Attribute | PublicValues) -> str:
    """Return SQL of the levels of an attribute and their numbers, as rows of VALUES, made once for an attribute."""

    def written() -> str:
        levels = attribute.labels[: attribute.regular]
        return ", ".join([f"({literal(level)}, {place})" for place, level in enumerate(levels)])

    return _made_once(_rows, attribute, written)


def _made_once(kept: OrderedDict[int, tuple[Any, Made]], of: Any, make: Callable[[], Made]) -> Made:
    known = kept.get(id(of))
    if known is None:
        known = kept[id(of)] = of, make()
        while len(kept) > KEPT:
            kept.popitem(last=False)
    return known[1]


def dumps(told: Any, *, sort_keys: bool = False) -> str:
    """Return what `json.dumps` does, without writing texts of levels out again.

    Examples
    --------
    >>> levels = (1, 2, "three")
    >>> dumps(["levels", {"of": level_texts(levels)}])
    '["levels", {"of": ["1", "2", "three"]}]'
    """
    lists: list[str] = []

    def marked(part: Any) -> Any:
        if isinstance(part, LevelTexts) or (isinstance(part, str) and len(part) >= LONG):
            lists.append(part.json if isinstance(part, LevelTexts) else _text_json(part))
            return f"{MARK}{len(lists) - 1}"
        if isinstance(part, dict):
            return {name: marked(one) for name, one in part.items()}
        return [marked(one) for one in part] if isinstance(part, list | tuple) else part

    text = json.dumps(marked(told), sort_keys=sort_keys)
    for place, written in enumerate(lists):
        text = text.replace(f'"{MARK}{place}"', written, 1)
    return text


@lru_cache(maxsize=KEPT // 4)
def _text_json(text: str) -> str:
    """Return the JSON of a long text, as is SQL with all levels in it, which stands in some twenty keys of a plan."""
    return json.dumps(text)
