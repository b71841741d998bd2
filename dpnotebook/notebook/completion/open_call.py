"""Which call is open where the cursor stands, in Python that is not finished: read token by token, never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

PIECE = re.compile(r"""#[^\n]*|(?P<prefix>\b[rbufRBUF]{1,2})?(?P<quote>\"{3}|'{3}|["'])|\w+|[()\[\]{},:]|[^\w\s]|\s+""")
PARTNERS = {")": "(", "]": "[", "}": "{"}


@dataclass
class Bracket:
    """A bracket that is open: where, and where the commas and colons are that stand in it and in no other."""

    sign: str
    start: int
    commas: list[int] = field(default_factory=list)
    colons: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """Where the last of what stands in it begins."""
        return self.commas[-1] + 1 if self.commas else self.start + 1


@dataclass(frozen=True)
class OpenText:
    """A text that is open at the cursor.

    Parameters
    ----------
    prefix, quote
        As in f"...
    start
        Where its first character is.
    """

    prefix: str
    quote: str
    start: int


@dataclass(frozen=True)
class Unfinished:
    """What is open at the end of a piece of Python.

    Parameters
    ----------
    code
        The piece.
    brackets
        Those that are open, the outermost first.
    text
        The text that is open, if one is.
    pairs
        By the place of each closed bracket, where it was opened.
    """

    code: str
    brackets: list[Bracket]
    text: OpenText | None
    pairs: dict[int, int]

    @property
    def calls(self) -> Iterator[OpenCall]:
        """The calls that are open, the innermost first."""
        for depth in range(len(self.brackets) - 1, -1, -1):
            bracket = self.brackets[depth]
            start = self._primary(bracket.start)
            if bracket.sign == "(" and start < bracket.start:
                yield OpenCall(self, bracket, start, self.brackets[depth + 1 :])

    def _primary(self, end: int) -> int:
        """Return where the name, the calls and the attributes begin that end at a place; the place, if none do."""
        start, place = end, end
        while True:
            place = len(self.code[:place].rstrip())
            while place and place - 1 in self.pairs and self.code[place - 1] in ")]":
                place = self.pairs[place - 1]
            name = re.search(r"[^\W\d]\w*\Z", self.code[:place])
            if name is None:
                return start
            start = name.start()
            before = self.code[:start].rstrip()
            if not before.endswith("."):
                return start
            place = len(before) - 1


@dataclass(frozen=True)
class OpenCall:
    """A call that is open at the cursor.

    Parameters
    ----------
    unfinished
        The code that it is in.
    bracket
        Its parenthesis.
    start
        Where what is called begins.
    inner
        The brackets that are open in it.
    """

    unfinished: Unfinished
    bracket: Bracket
    start: int
    inner: list[Bracket]

    @property
    def called(self) -> str:
        """What is called: `patients.dp.count`."""
        return self.unfinished.code[self.start : self.bracket.start]

    @property
    def finished(self) -> list[str]:
        """The arguments that end before the cursor."""
        ends = [self.bracket.start, *self.bracket.commas]
        return [self.unfinished.code[ends[i] + 1 : ends[i + 1]] for i in range(len(ends) - 1)]

    @property
    def current(self) -> str:
        """The argument at the cursor, as far as it goes."""
        return self.unfinished.code[self.bracket.last :]

    @property
    def keyword(self) -> str | None:
        """The name of the argument at the cursor; None where it has none."""
        return keyword_of(self.current)


def keyword_of(argument: str) -> str | None:
    """Return the name of an argument that is passed by name."""
    found = re.match(r"\s*([^\W\d]\w*)\s*=(?!=)", argument)
    return found.group(1) if found else None


def unfinished(code: str) -> Unfinished:
    """Return what is open at the end of a piece of Python."""
    brackets: list[Bracket] = []
    pairs: dict[int, int] = {}
    place = 0
    while place < len(code):
        found = PIECE.match(code, place)
        if found is None:
            place += 1
            continue
        sign, quote = found.group(), found.group("quote")
        place = found.end()
        if quote:
            end = _closing(code, place, quote)
            if end is None:
                return Unfinished(code, brackets, OpenText(found.group("prefix") or "", quote, place), pairs)
            place = end
        elif sign in ("(", "[", "{"):
            brackets.append(Bracket(sign, found.start()))
        elif sign in PARTNERS:
            while brackets and brackets[-1].sign != PARTNERS[sign]:
                brackets.pop()
            if brackets:
                pairs[found.start()] = brackets.pop().start
        elif brackets and sign == ",":
            brackets[-1].commas.append(found.start())
        elif brackets and sign == ":":
            brackets[-1].colons.append(found.start())
    return Unfinished(code, brackets, None, pairs)


def closing(code: str) -> int | None:
    """Return the place behind the parenthesis that closes a call which is open where the code begins; None if none."""
    seen = unfinished("(" + code)
    return next((end for end, start in seen.pairs.items() if start == 0), None)


def _closing(code: str, place: int, quote: str) -> int | None:
    """Return the place behind the quotation marks that close a text; behind its line where one mark has no partner."""
    found = re.compile(rf"(?:\\.|(?!{quote}).)*", re.DOTALL).match(code, place)
    end = found.end() if found else place
    if len(quote) == 1:
        line = re.compile(r"\n").search(re.sub(r"\\.", "..", code[place:end], flags=re.DOTALL))
        if line:
            return place + line.end()
    return end + len(quote) if code.startswith(quote, end) else None
