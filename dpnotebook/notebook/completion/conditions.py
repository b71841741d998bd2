"""What Tab offers in a `where=` text: columns, and the levels of the column that something is compared with."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

from dpnotebook.domain import Dates, Domain
from dpnotebook.domain.attribute import Attribute
from dpnotebook.notebook.completion.open_call import OpenText, unfinished

COLUMN = r"(?:`(?P<odd>[^`]+)`|(?P<name>[^\W\d]\w*))"
TEXTS = r"""(?:(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[\w.+-]+)\s*,\s*)*"""
COMPARED = re.compile(
    rf"{COLUMN}\s*(?:[=!<>]=|[<>]|(?:\bnot\s+)?\bin\s*[\[(]\s*{TEXTS}|\.(?:isin\(\s*\[?|between\()\s*{TEXTS})\s*\Z"
)
DOTTED = re.compile(rf"{COLUMN}\s*\.\s*(?P<part>(?:str|dt)\s*\.\s*)?(?P<typed>\w*)\Z")
METHODS = ("isin([", "between(", "isna()", "notna()")
OF_TEXTS = ("contains(", "startswith(", "endswith(")
OF_DATES = ("year", "month", "quarter", "day", "weekday", "hour")
WORDS = ("and", "or", "not", "in")

Found = tuple[str, str]


def in_condition(typed: str, domain: Domain, quote: str) -> tuple[int, list[Found]]:
    """Return where what is completed begins, and what it can become, each with a word on what that is.

    Parameters
    ----------
    typed
        The condition up to the cursor.
    domain
        The declared columns.
    quote
        The quotation mark to write texts in, where none is open.
    """
    backtick = typed.rfind("`") if _in_backticks(typed) else -1
    if backtick >= 0:
        return backtick + 1, [(f"{name}`", "column") for name in domain if "`" not in name]
    opened = unfinished(typed).text
    before = typed if opened is None else typed[: opened.start - len(opened.quote) - len(opened.prefix)]
    if opened is not None:
        return opened.start, list(_levels(_compared(before, domain), opened))
    if dotted := DOTTED.search(typed):
        return dotted.start("typed"), _methods(dotted, domain)
    start = len(typed) - len(re.search(r"\w*\Z", typed).group())  # type: ignore[union-attr]
    compared = _compared(typed[:start], domain)
    if compared is not None:
        if compared.holds == "boolean":
            return start, [("True", "level"), ("False", "level")]
        # One quotation mark: the other is written by who goes on.
        texts = list(_levels(compared, OpenText("", quote, 0)))
        return start, [(f"{quote}{text}{quote}", kind) for text, kind in texts]
    names = [(name if name.isidentifier() and not keyword.iskeyword(name) else f"`{name}`") for name in domain]
    return start, [*((name, "column") for name in names), *((word, "keyword") for word in WORDS)]


def escaped(text: str, prefix: str, quote: str) -> str | None:
    """Return a text as it is written between quotation marks in Python; None where a raw text cannot have it."""
    if "r" in prefix.casefold():
        return None if quote[0] in text or "\\" in text or "\n" in text else text
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    text = text.replace(quote[0], "\\" + quote[0])
    return text.replace("{", "{{").replace("}", "}}") if "f" in prefix.casefold() else text


def _in_backticks(typed: str) -> bool:
    inside, place = False, 0
    for found in re.finditer(r"""'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?|`[^`]*`?""", typed):
        place, inside = found.end(), found.group()[0] == "`" and (len(found.group()) == 1 or found.group()[-1] != "`")
    return inside and place == len(typed)


def _column(found: re.Match[str], domain: Domain) -> Attribute | None:
    return domain.get(found.group("odd") or found.group("name"))


def _compared(before: str, domain: Domain) -> Attribute | None:
    """Return the column that what comes next is compared with."""
    found = COMPARED.search(before)
    return None if found is None else _column(found, domain)


def _levels(attribute: Attribute | None, opened: OpenText) -> Iterator[Found]:
    """Yield the levels of a column that are texts, as they are written where a text is open."""
    for label in () if attribute is None or attribute.holds not in ("text", "date") else attribute.labels:
        if isinstance(label, str) and (text := escaped(label, opened.prefix, opened.quote)) is not None:
            yield text, "level"


def _methods(found: re.Match[str], domain: Domain) -> list[Found]:
    attribute, part = _column(found, domain), (found.group("part") or "")[:2]
    if attribute is None:
        return []
    if part:
        names = OF_TEXTS if part == "st" and attribute.holds == "text" else OF_DATES if part == "dt" else ()
        return [(name, "part") for name in names if part == "st" or isinstance(attribute, Dates)]
    further = ("str",) if attribute.holds == "text" else ("dt",) if isinstance(attribute, Dates) else ()
    return [(name, "method") for name in (*METHODS, *further)]
