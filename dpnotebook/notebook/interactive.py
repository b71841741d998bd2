"""Who is looking: a person in front of a notebook, or a program that runs it."""

from __future__ import annotations

import os
import sys
from typing import Any

VIEW = "application/vnd.jupyter.widget-view+json"
LIVE = "application/vnd.dpnotebook.live+json"  # what the JupyterLab extension shows the widget for while it lives


def shell() -> Any:
    """Return the running IPython shell, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def interactive() -> bool:
    """Return whether somebody can be there to move a slider or press a button.

    A notebook front end says with every cell whether it could answer `input()`: JupyterLab, Notebook and VS Code say
    yes; nbclient, nbconvert, papermill and nbval say no. Voila says no as well, but shows widgets to people. That
    word is in the message that the running cell came with, through the public `get_parent` of a kernel's shell. A
    plain Python or a terminal IPython has no such message, and no widgets either.
    """
    parent: dict[str, Any] = getattr(shell(), "get_parent", dict)() or {}
    content = parent.get("content", {})
    if parent.get("header", {}).get("msg_type", "").startswith("comm_"):
        return True  # a widget of ours was used
    return bool(content.get("allow_stdin", False)) or (shell() is not None and in_voila())


def in_voila() -> bool:
    """Return whether Voila serves this kernel: people use its widgets, and static outputs stay as they were."""
    return os.environ.get("SERVER_SOFTWARE", "").startswith("voila/")


def live_bundle(widget: Any, fallback: str) -> dict[str, Any]:
    """Return the MIME bundle of a widget, with what stands there once its kernel is gone.

    JupyterLab by itself says "Error displaying widget" then; the extension of this package shows the text instead, and
    so do exported pages and all that knows no widgets.

    Parameters
    ----------
    widget
        Of ipywidgets.
    fallback
        What to do then, in a sentence or two.
    """
    from dpnotebook.notebook.html import box, escape, line

    view = widget._repr_mimebundle_()[VIEW]
    html = box(line(escape(fallback)))
    return {"text/plain": fallback, "text/html": html, VIEW: view, LIVE: {"view": VIEW}}


def in_notebook() -> bool:
    """Return whether outputs go to a front end that can replace them: those of a kernel do."""
    return getattr(shell(), "kernel", None) is not None


def display_bundle(bundle: dict[str, Any], *, updatable: bool = False) -> Any:
    """Display a MIME bundle and return its handle, or print its text where there is no notebook.

    Parameters
    ----------
    bundle
        MIME types and their contents.
    updatable
        Whether to return a handle through which `replace` can change the output later: None in a terminal, where
        what is printed stays.
    """
    if shell() is None:
        print(bundle["text/plain"])
        return None
    from IPython.display import display

    return display(bundle, raw=True, display_id=True if updatable and in_notebook() else None)


def replace(handle: Any, html: str, text: str) -> None:
    """Replace a displayed output by static HTML and text, so that a saved notebook opens as it was left."""
    if handle is not None:
        handle.update({"text/plain": text, "text/html": html}, raw=True)
