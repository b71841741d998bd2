"""What Tab offers inside the calls of `df.dp`, protected tables and sessions: arguments, columns, levels, prices.

What stands before the cursor is followed as `estimate.expressions` does: nothing of the user's is run, nothing is read
from the data, and nothing is written to the ledger.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dpnotebook.domain import Dates, Domain
from dpnotebook.domain.calendar import SPANS
from dpnotebook.errors import DPError
from dpnotebook.notebook.completion.conditions import escaped, in_condition
from dpnotebook.notebook.completion.open_call import OpenCall, OpenText, closing, keyword_of, unfinished
from dpnotebook.notebook.estimate.expressions import Receiver, UnknownExpression, receiver_of, step_of
from dpnotebook.notebook.magics.completion import PERCENT, Found, in_sql, price_of, prices, starting
from dpnotebook.notebook.magics.prefetch import BUILDERS
from dpnotebook.session.aggregation import FUNCTIONS
from dpnotebook.session.picked_columns import PickedColumns
from dpnotebook.session.query import Query
from dpnotebook.session.session import Session, active_session
from dpnotebook.session.verbs import Grouped

COLUMNS = ("column", "columns", "keys", "on", "names", "functions")  # parameters that name declared columns
ACCURACIES = ("epsilon", "error", "variance")
CHOICES = {"objective": ("worst", "total"), "contribution": ("l2", "rows"), "bounds": ("auto", "declared")}
ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|.", re.DOTALL)

NOTHING: tuple[str, list[Found]] = ("", [])


def offers(before: str, after: str, scope: Mapping[str, Any]) -> tuple[str, list[Found]]:
    """Return the piece of text that is completed, and what it can become, each with a word on what that is.

    Parameters
    ----------
    before, after
        The cell up to the cursor, and from there on.
    scope
        The notebook's variables.
    """
    opened = unfinished(before)
    if opened.text is not None and "b" in opened.text.prefix.casefold():
        return NOTHING
    for call in opened.calls:
        known = _KnownCall.of(call, scope)
        if known is not None:
            return known.in_text(opened.text) if opened.text is not None else known.in_code(after)
    return NOTHING


class _KnownCall:
    """An open call of which it is known what is called.

    Parameters
    ----------
    call
        The call.
    receiver
        What it is a method of; None for a workload by name.
    parameters
        What it takes, in order.
    scope
        The notebook's variables.
    """

    def __init__(
        self, call: OpenCall, receiver: Receiver | None, function: Callable[..., Any], scope: Mapping[str, Any]
    ) -> None:
        self.call, self.receiver, self.scope = call, receiver, scope
        self.parameters = dict(inspect.signature(function).parameters)
        self.parameters.pop("self", None)

    @classmethod
    def of(cls, call: OpenCall, scope: Mapping[str, Any]) -> _KnownCall | None:
        """Return what is known of a call; None where it is none of ours."""
        try:
            called = ast.parse(f"({call.called})", mode="eval").body
            match called:
                case ast.Attribute(value=ast.Name(id=name), attr=verb) if verb in BUILDERS:
                    return cls(call, None, BUILDERS[verb], scope) if scope.get(name) is _package() else None
                case ast.Name(id=name) if name in BUILDERS and scope.get(name) is vars(_package())[name]:
                    return cls(call, None, BUILDERS[name], scope)
                case ast.Attribute(value=said, attr=verb):
                    receiver = receiver_of(said, scope)
                    function = Session.prefetch if (type(receiver), verb) == (Session, "prefetch") else None
                    function = function or step_of(receiver, verb)
                    return None if function is None else cls(call, receiver, function, scope)
        except (SyntaxError, ValueError, UnknownExpression, DPError, RecursionError, MemoryError):
            pass
        return None

    @property
    def parameter(self) -> str:
        """The parameter that the argument at the cursor is for; empty where there is none."""
        if (named := self.call.keyword) is not None:
            return named
        place = len(self.call.finished)
        for name, parameter in self.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                return name
            if parameter.kind is parameter.KEYWORD_ONLY:
                return ""
            if place == 0:
                return name
            place -= 1
        return ""

    @property
    def asked(self) -> Session | Grouped | Query | None:
        """What is asked: of columns in brackets, the table or the groups that they were picked of."""
        return self.receiver._verbs if isinstance(self.receiver, PickedColumns) else self.receiver

    @property
    def session(self) -> Session | None:
        """Whose tables are meant."""
        found = self.asked
        if found is None:
            for outer in list(self.call.unfinished.calls)[1:]:
                if (known := _KnownCall.of(outer, self.scope)) is not None and known.receiver is not None:
                    return known.session
            try:
                return active_session()
            except DPError:
                return None
        paying = found if isinstance(found, Session) else found.session if isinstance(found, Query) else found._session
        return paying if isinstance(paying, Session) else None

    @property
    def domains(self) -> list[Domain]:
        """The declared columns of the table that is asked, or of all tables of the session."""
        found = self.asked
        if isinstance(found, Grouped):
            return [found._table.domain]
        if found is None:  # within a question of one table
            for outer in list(self.call.unfinished.calls)[1:]:
                known = _KnownCall.of(outer, self.scope)
                if known is not None and isinstance(known.asked, Grouped):
                    return known.domains
        session = self.session
        return [] if session is None else [session.table(name).table.domain for name in session.tables()["table"]]

    @property
    def columns(self) -> list[Found]:
        """The names of declared columns, each once."""
        return [(name, "column") for name in dict.fromkeys(name for domain in self.domains for name in domain)]

    def in_text(self, opened: OpenText) -> tuple[str, list[Found]]:
        """Return what can follow in a text that is open."""
        raw = self.call.unfinished.code[opened.start :]
        if "f" in opened.prefix.casefold() and raw.replace("{{", "").replace("}}", "").count("{") > raw.count("}"):
            return NOTHING
        typed, places = _decoded(raw, opened.prefix)
        if self.parameter == "where":
            quote = "'" if opened.quote[0] == '"' else '"'
            found = [in_condition(typed, domain, quote) for domain in self.domains]
            start, several = (found[0][0], [one for _, listed in found for one in listed]) if found else (0, [])
        elif self.parameter == "statement":
            fragment, several = in_sql(typed, typed, self.session, dict(self.scope))
            start = len(typed) - len(fragment)
        else:
            start, several = 0, list(self._texts())
        written = ((escaped(text, opened.prefix, opened.quote), kind) for text, kind in several)
        return starting(raw[places[start] :], ((text, kind) for text, kind in written if text is not None))

    def _texts(self) -> Iterator[Found]:
        """Yield what an argument can say that is a text: names and choices."""
        name, inner = self.parameter, self.call.inner
        if name in ("name", "table") and isinstance(self.receiver, Session):
            yield from ((table, "table") for table in self.receiver.tables()["table"])
        elif name in CHOICES:
            yield from ((choice, name) for choice in CHOICES[name])
        elif name == "error":
            yield from self._percents()
        elif name in COLUMNS:
            valued = next((one for one in inner if one.sign == "{"), None)
            if valued is not None and any(colon >= valued.last for colon in valued.colons):
                yield from self._of_column(valued.start)
            else:
                yield from self.columns
                if name == "functions" and not inner:
                    yield "count", "function"

    def _of_column(self, start: int) -> Iterator[Found]:
        """Yield what a dict says of a column: functions of it, or the spans that its dates are grouped by."""
        if self.parameter == "functions":
            yield from ((function, "function") for function in (*FUNCTIONS, "25%", "75%", "90%"))
            return
        said = self.call.unfinished.code[start + 1 :]
        if any(
            isinstance(domain.get(name), Dates) and repr(name)[1:-1] in said
            for domain in self.domains
            for name in domain
        ):
            yield from ((span, "span") for span in (*SPANS, "weekday"))

    def in_code(self, after: str) -> tuple[str, list[Found]]:
        """Return what can follow where no text is open."""
        call, name = self.call, self.parameter
        value = call.current.partition("=")[2] if call.keyword else call.current
        word = re.search(r"[\w.]*\Z", value)
        fragment = word.group() if word else ""
        if call.inner:
            return starting(fragment, _quoted(self._texts())) if not fragment else NOTHING
        if value.strip() != fragment:
            return NOTHING
        if call.keyword is None:
            quoted = _quoted(self._texts()) if name in COLUMNS or name == "name" else []
            return starting(fragment, [*quoted, *self._keywords()])
        if name == "epsilon":
            return starting(fragment, prices(self._query(after), self.session))
        if name == "error":
            return starting(fragment, _quoted(self._percents(after)))
        if name in ("fresh", "normalize", "sort"):
            return starting(fragment, [("True", "value"), ("False", "value")])
        return starting(fragment, _quoted(self._texts()))

    def _keywords(self) -> Iterator[Found]:
        """Yield the arguments that are not there yet: of how accurate an answer is to be, one is enough."""
        given = {keyword_of(one) for one in self.call.finished}
        positional = sum(keyword_of(one) is None for one in self.call.finished)
        for place, (name, parameter) in enumerate(self.parameters.items()):
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in given:
                continue
            if place < positional or (name in ACCURACIES and given & set(ACCURACIES)):
                continue
            yield f"{name}=", "argument"

    def _percents(self, after: str = "") -> Iterator[Found]:
        query = self._query(after)
        yield from ((percent, price_of(query, percent)) for percent in PERCENT)

    def _query(self, after: str) -> Query | None:
        """Return the query that the call makes, whatever accuracy it says; None while it makes none."""
        end = closing(after)
        rest = "" if end is None else after[: end - 1]
        said = [*self.call.finished, *_arguments(rest.partition(",")[2])]
        kept = ", ".join(one for one in said if one.strip() and keyword_of(one) not in ACCURACIES)
        text = f"({self.call.called}({kept + ', ' if kept else ''}epsilon=1.0))"
        try:
            found = receiver_of(ast.parse(text, mode="eval").body, self.scope)
        except (SyntaxError, ValueError, UnknownExpression, DPError, RecursionError, MemoryError):
            return None
        return found if isinstance(found, Query) else None


def _package() -> Any:
    return sys.modules["dpnotebook"]


def _arguments(text: str) -> list[str]:
    """Return the arguments that a piece of code lists."""
    opened = unfinished(f"({text}")
    if not opened.brackets:
        return []
    ends = [0, *opened.brackets[0].commas, len(text) + 1]
    return [f"({text}"[ends[i] + 1 : ends[i + 1]] for i in range(len(ends) - 1)]


def _quoted(found: Iterable[Found]) -> Iterator[Found]:
    for text, kind in found:
        yield f'"{escaped(text, "", chr(34))}"', kind


def _meant(escape: str) -> str:
    """Return the character that an escape sequence of Python stands for; one that stands for none as it is."""
    if len(escape) > 2:
        code = int(escape[2:], 16)
        return chr(code) if code <= sys.maxunicode else escape
    return escape[1] if escape[1] in "\\'\"" else {"n": "\n", "t": "\t", "r": "\r", "\n": ""}.get(escape[1], escape)


def _decoded(raw: str, prefix: str) -> tuple[str, list[int]]:
    """Return what a text says up to the cursor, and where each of its characters is written; and where it ends."""
    text, places = "", []
    for piece in ESCAPE.finditer(raw):
        said = piece.group()
        if len(said) > 1 and "r" not in prefix.casefold():
            said = _meant(said)
        text += said
        places += [piece.start()] * len(said)
    return text, [*places, len(raw)]
