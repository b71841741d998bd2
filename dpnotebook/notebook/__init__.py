"""What a notebook sees: the accessor, the magics, cards, controls, dashboard and plots."""

from typing import Any

from dpnotebook.notebook import accessor as _accessor  # noqa: F401 - importing it registers df.dp
from dpnotebook.notebook import interactive as _interactive
from dpnotebook.notebook.display import attach as _attach

_attach()


def load_ipython_extension(ip: Any) -> None:
    """Register `%dpsql`, `%%dpsql` and `%dp`: `%load_ext dpnotebook`.

    Examples
    --------
    In a notebook this is `%load_ext dpnotebook`; in a program:

    >>> from IPython.core.interactiveshell import InteractiveShell
    >>> import dpnotebook as dpn
    >>> shell = InteractiveShell()
    >>> dpn.load_ipython_extension(shell)
    >>> "dpsql" in shell.magics_manager.magics["cell"]
    True
    """
    from dpnotebook.notebook.extension import load_ipython_extension as load

    load(ip)


def unload_ipython_extension(ip: Any) -> None:
    """Remove the magics again: `%unload_ext dpnotebook`.

    Examples
    --------
    >>> from IPython.core.interactiveshell import InteractiveShell
    >>> import dpnotebook as dpn
    >>> shell = InteractiveShell()
    >>> dpn.load_ipython_extension(shell)
    >>> dpn.unload_ipython_extension(shell)
    >>> "dpsql" in shell.magics_manager.magics["cell"]
    False
    """
    from dpnotebook.notebook.extension import unload_ipython_extension as unload

    unload(ip)


def _attend() -> None:
    """Let a notebook ask what a cell would cost as soon as the package is there; programs are left alone."""
    if getattr(_shell := _interactive.shell(), "kernel", None) is not None:
        from dpnotebook.notebook.extension import attend

        attend(_shell)


_attend()
