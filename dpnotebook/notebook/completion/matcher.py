"""IPython's way to what Tab offers here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from dpnotebook.notebook.completion import calls
from dpnotebook.notebook.magics import completion as magics

IDENTIFIER = "dpnotebook"
MOST_OFFERED = 200  # of thousands of levels: nobody reads more, and a list of 10,000 takes the browser seconds


def make_matcher(shell: Any) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return IPython's matcher for the cells of a shell."""

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        before = "\n".join([*lines[: context.cursor_line], lines[context.cursor_line][: context.cursor_position]])
        scope = dict(getattr(shell, "user_ns", {}))
        try:
            fragment, found = magics.offers(before, context.full_text, scope)
            if not found:
                fragment, found = calls.offers(before, context.full_text[len(before) :], scope)
        except Exception:  # IPython would print it: Tab offers nothing instead
            fragment, found = "", []
        hits = [SimpleCompletion(text, type=kind) for text, kind in found[:MOST_OFFERED]]
        return {"completions": hits, "suppress": bool(hits), "matched_fragment": fragment, "ordered": True}

    marked: Callable[[CompletionContext], SimpleMatcherResult] = context_matcher(identifier=IDENTIFIER)(matcher)
    return marked
