"""`%load_ext dpnotebook` and `%unload_ext dpnotebook`, and what there is in every kernel that imports the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from traitlets import TraitError

from dpnotebook.notebook.cards.dots import show_dots
from dpnotebook.notebook.completion import calls
from dpnotebook.notebook.magics import completion
from dpnotebook.notebook.magics.magics import DPMagics

NAME = DPMagics.__name__
IDENTIFIER = "dpnotebook"
MOST_OFFERED = 200  # of thousands of levels: nobody reads more, and a list of 10,000 takes the browser seconds

_attended: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by shell, what answers its status bar


def load_ipython_extension(ip: Any) -> None:
    """Register the magics and what Tab offers in them; doing it twice changes nothing."""
    if NAME in ip.magics_manager.registry:
        return
    try:
        magics = DPMagics(ip)
    except TraitError:  # a value that %config refused stays in the shell's configuration
        del ip.config[NAME]
        magics = DPMagics(ip)
    ip.register_magics(magics)
    _complete(ip)
    attend(ip)


def unload_ipython_extension(ip: Any) -> None:
    """Remove what was registered."""
    magics = ip.magics_manager.registry.pop(NAME, None)
    if magics is None:
        return
    for kind, names in magics.magics.items():
        for name in names:
            ip.magics_manager.magics[kind].pop(name, None)
    show_dots(False)
    if magics in ip.configurables:
        ip.configurables.remove(magics)
    for matcher in _matchers(ip):
        ip.Completer.custom_matchers.remove(matcher)
    if (status_bar := _attended.pop(ip, None)) is not None:
        status_bar.close()


def attend(ip: Any) -> None:
    """Let a notebook's front end ask what a cell would cost, and Tab what `df.dp` takes: it needs no magics.

    Importing the package does this; where there is no kernel, and the second time, it does nothing.
    """
    if getattr(ip, "kernel", None) is None or ip in _attended:
        return
    _complete(ip)
    from dpnotebook.notebook.estimate.estimate import CellEstimate, estimate
    from dpnotebook.notebook.estimate.status_bar import StatusBar

    def answer(cell: str) -> CellEstimate:
        return estimate(cell, ip.user_ns, ip.magics_manager.registry.get(NAME))

    _attended[ip] = StatusBar(answer)


def _matchers(ip: Any) -> list[Any]:
    """Return what was registered here for Tab."""
    every = [] if ip.Completer is None else ip.Completer.custom_matchers
    return [one for one in every if getattr(one, "matcher_identifier", "") == IDENTIFIER]


def _complete(ip: Any) -> None:
    if ip.Completer is not None and not _matchers(ip):
        ip.Completer.custom_matchers.append(_matcher_of(ip))


def _matcher_of(shell: Any) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return IPython's way to what Tab offers in the cells of a shell."""

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        lines = context.full_text.split("\n")
        before = "\n".join([*lines[: context.cursor_line], lines[context.cursor_line][: context.cursor_position]])
        scope = dict(getattr(shell, "user_ns", {}))
        try:
            fragment, found = completion.offers(before, context.full_text, scope)
            if not found:
                fragment, found = calls.offers(before, context.full_text[len(before) :], scope)
        except Exception:  # IPython would print it: Tab offers nothing instead
            fragment, found = "", []
        hits = [SimpleCompletion(text, type=kind) for text, kind in found[:MOST_OFFERED]]
        return {"completions": hits, "suppress": bool(hits), "matched_fragment": fragment, "ordered": True}

    marked: Callable[[CompletionContext], SimpleMatcherResult] = context_matcher(identifier=IDENTIFIER)(matcher)
    return marked
