"""How things are shown and drawn: what does it registers here, so that nothing below knows a notebook; and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpnotebook.errors import DPError

LARGEST = 1e12  # from which on a number is a power of ten

_views: dict[str, Callable[..., Any]] = {}


def register_view(name: str, draw: Callable[..., Any]) -> None:
    """Let an object be drawn by a function.

    Parameters
    ----------
    name
        Of the view, such as "card" for all that shows itself, "plot" for releases and "dashboard" for sessions.
    draw
        Takes the object, and what the view is asked with, and returns what is shown.
    """
    _views[name] = draw


def view(name: str, shown: Any, *arguments: Any, **options: Any) -> Any:
    """Return what was registered to draw an object.

    Raises
    ------
    DPError
        If nothing was: the part of the package that draws is not loaded.
    """
    if name not in _views:
        raise DPError(f"nothing is loaded that draws a {name}; import dpnotebook first")
    return _views[name](shown, *arguments, **options)


class ShowsCard:
    """What shows itself as the view "card" says: a MIME bundle with a text, and HTML that says the same."""

    def __repr__(self) -> str:
        try:
            return str(view("card", self)["text/plain"])
        except DPError as error:  # as of a closed session: a repr is also read by whoever looks for the reason
            return f"<{type(self).__name__}: {error}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return dict(view("card", self))


def digits(number: float, most: int = 3) -> str:
    """Return a number with so many significant digits, as people write it.

    Parameters
    ----------
    number
        Any, also infinite or no number.
    most
        How many digits; of 10^12 and more the rest is a power of ten.

    Examples
    --------
    >>> digits(240_417.3, 4), digits(0.123456)
    ('240,400', '0.123')
    """
    short = float(f"{number:.{most}g}")
    return f"{short:,.0f}" if 10**most <= abs(short) < LARGEST else f"{number:,.{most}g}"
