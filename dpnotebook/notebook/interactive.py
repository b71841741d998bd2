"""Who is looking: a person in front of a notebook, or a program that runs it."""

from __future__ import annotations

import os
import sys
from typing import Any


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
    return bool(content.get("allow_stdin", False)) or in_voila()


def in_voila() -> bool:
    """Return whether Voila serves this kernel: people use its widgets, and static outputs stay as they were."""
    return shell() is not None and os.environ.get("SERVER_SOFTWARE", "").startswith("voila/")


def in_notebook() -> bool:
    """Return whether outputs go to a front end that can replace them: those of a kernel do."""
    return getattr(shell(), "kernel", None) is not None


VIEW = "application/vnd.jupyter.widget-view+json"
SAYS = "dpnotebook-says"  # a class of widgets that say what has just happened: the labextension has them read aloud
GONE = "The controls went with their kernel: run the cell again to bring them back."
OURS = "dpnotebook"  # a class of our widgets and a mark of their outputs, by which the labextension knows them


def display_widget(widget: Any, html: str, text: str) -> Any:
    """Display a widget, with what is read in its place where it is dead or cannot be drawn; return its handle.

    A saved notebook keeps no widgets: opened again, in an exported page or an untrusted notebook, there is the HTML.
    JupyterLab would say that it is loading one for ever; there the labextension of this package shows the HTML.

    Parameters
    ----------
    widget
        Of ipywidgets.
    html, text
        What the widget says, or what to do for it to come back.
    """
    widget.add_class(OURS)
    bundle = {"text/plain": text, "text/html": html, VIEW: widget._repr_mimebundle_()[VIEW]}
    return display_bundle(bundle, updatable=True, metadata={OURS: {"stands_in": "text/html"}})


def display_bundle(bundle: dict[str, Any], *, updatable: bool = False, metadata: dict[str, Any] | None = None) -> Any:
    """Display a MIME bundle and return its handle, or print its text where there is no notebook.

    Parameters
    ----------
    bundle
        MIME types and their contents.
    updatable
        Whether to return a handle through which `replace` can change the output later: None in a terminal, where
        what is printed stays.
    metadata
        Of the output.
    """
    if shell() is None:
        print(bundle["text/plain"])
        return None
    from IPython.display import display

    return display(bundle, raw=True, metadata=metadata, display_id=True if updatable and in_notebook() else None)


def replace(handle: Any, html: str, text: str) -> None:
    """Replace a displayed output by static HTML and text, so that a saved notebook opens as it was left."""
    if handle is not None:
        handle.update({"text/plain": text, "text/html": html}, raw=True)
