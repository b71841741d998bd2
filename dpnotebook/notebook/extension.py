"""`%load_ext dpnotebook` and `%unload_ext dpnotebook`."""

from __future__ import annotations

from typing import Any

from traitlets import TraitError

from dpnotebook.notebook.cards.dots import show_dots
from dpnotebook.notebook.magics.completion import make_matcher
from dpnotebook.notebook.magics.magics import DPMagics

NAME = DPMagics.__name__


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
    if ip.Completer is not None:
        magics.matcher = make_matcher(magics)
        ip.Completer.custom_matchers.append(magics.matcher)


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
    matcher = getattr(magics, "matcher", None)
    if ip.Completer is not None and matcher in ip.Completer.custom_matchers:
        ip.Completer.custom_matchers.remove(matcher)
