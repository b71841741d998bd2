"""The options of a control that change while it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def set_options(control: Any, options: Sequence[tuple[str, Any]]) -> None:
    """Set what a control offers; what was chosen stays chosen where it is on offer, and else the first is.

    Parameters
    ----------
    control
        A drop-down of ipywidgets.
    options
        What a person reads, and the value of it.
    """
    chosen, values = control.value, [value for _, value in options]
    if list(control.options) != list(options):
        control.options = options
    if values:
        control.value = chosen if chosen in values else values[0]
