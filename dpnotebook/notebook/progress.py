"""A progress bar for what takes over a second; nothing at all for what does not."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from dpnotebook.notebook import svg
from dpnotebook.notebook.html import escape, quiet
from dpnotebook.notebook.interactive import display_bundle, interactive, replace

AFTER = 1.0  # seconds before a bar appears
EVERY = 0.25  # seconds between two pictures


class Progress:
    """Shows how far something is, from a thread of its own, once it has taken more than a second.

    Call it with a fraction (None when unknown) and what is being done; use it as a context manager around the work.

    Parameters
    ----------
    show
        Called with HTML and text for every picture, and with two empty strings at the end, always from one thread at a
        time.
    after
        Seconds before the first picture.
    """

    def __init__(self, show: Callable[[str, str], None], after: float = AFTER) -> None:
        self._show, self._after = show, after
        self._state: tuple[float | None, str] = (None, "working")
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, fraction: float | None, doing: str) -> None:
        """Note how far the work is: a fraction in [0, 1] or None, and what is being done."""
        self._state = (fraction, doing)  # one assignment: no lock needed

    def __enter__(self) -> Progress:
        self._done.clear()
        # In the context of the cell: else pictures go to what the kernel heard last, such as the status bar.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._watch,), name="dpnotebook-progress", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        started = time.monotonic()
        if self._done.wait(self._after):
            return
        tick = 0
        while True:
            self._show(*picture(*self._state, time.monotonic() - started, tick))
            tick += 1
            if self._done.wait(EVERY):
                break
        self._show("", "")


def picture(fraction: float | None, doing: str, seconds: float, tick: int) -> tuple[str, str]:
    """Return a progress bar as HTML and as text."""
    so_far = "" if fraction is None else f"{min(1.0, max(0.0, fraction)):.0%} "
    text = f"{so_far}{doing}, {seconds:.0f} s"
    return f"<div>{svg.progress(fraction, tick, text)} {quiet(escape(text))}</div>", text


@contextmanager
def watched() -> Iterator[Progress]:
    """Show the progress of what runs inside as an output of the running cell, where somebody is looking.

    Yields
    ------
    Progress
        To be called with a fraction and what is being done, for example as `query.run(progress=...)`.
    """
    handle = None
    looking = interactive()

    def show(html: str, text: str) -> None:
        nonlocal handle
        if not looking:
            return
        if handle is None:
            handle = display_bundle({"text/plain": text, "text/html": html}, updatable=True)
        else:
            replace(handle, html, text)

    with Progress(show) as progress:
        yield progress
