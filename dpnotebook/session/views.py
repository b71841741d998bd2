"""How sessions and releases are drawn: what draws them registers here, so that no session knows a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpnotebook.errors import DPError

_views: dict[str, Callable[..., Any]] = {}


def register_view(name: str, draw: Callable[..., Any]) -> None:
    """Let an object be drawn by a function.

    Parameters
    ----------
    name
        Of the view, such as "plot" for releases and "dashboard" for sessions.
    draw
        Takes the object, and by name what else the view has to know; returns what is shown.
    """
    _views[name] = draw


def view(name: str, shown: Any, **options: Any) -> Any:
    """Return what was registered to draw an object, given what else it has to know.

    Raises
    ------
    DPError
        If nothing was: the part of the package that draws is not loaded.
    """
    if name not in _views:
        raise DPError(f"nothing is loaded that draws a {name}; import dpnotebook first")
    return _views[name](shown, **options)
