"""What a widget is made of, and how to let go of it: ipywidgets keeps every model alive until it is closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def close(*widgets: Any) -> None:
    """Close widgets with all that they are made of: children, layouts, styles.

    Parameters
    ----------
    widgets
        Of ipywidgets; what is closed already is passed over. Nothing of them may be part of another widget.
    """
    for model in {id(model): model for widget in widgets for model in models(widget)}.values():
        if model.comm is not None:
            model.close()


def models(widget: Any) -> Iterator[Any]:
    """Yield a widget, and every widget that one of its traits holds, directly or in a tuple."""
    from ipywidgets import Widget

    yield widget
    for name in widget.keys:
        value = getattr(widget, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Widget):
                yield from models(part)
