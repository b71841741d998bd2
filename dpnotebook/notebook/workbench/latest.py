"""Work that follows a hand: of all that was asked for meanwhile only the latest is done."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable


class LatestWork:
    """Does some work in a thread whenever it is asked to; wishes that come while it works become one.

    A slider that is dragged asks thirty times a second. Nothing waits before the first wish is served, and nothing is
    done twice for wishes that a newer one has overtaken.

    Parameters
    ----------
    work
        Reads what is wanted now, and must not raise.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._wanted = self._busy = False
        self._idle = threading.Event()
        self._idle.set()
        self.done = 0

    def ask(self) -> None:
        """Have the work done soon, and once more if it is being done now."""
        with self._lock:
            self._wanted = True
            if self._busy:
                return
            self._busy = True
            self._idle.clear()
        # In the context of who asks: what the work displays belongs to that cell.
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._until_idle,), name="dpnotebook-workbench", daemon=True).start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is wanted any more; return whether that was so in time."""
        return self._idle.wait(seconds)

    def _until_idle(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._busy = False
                    self._idle.set()
                    return
                self._wanted = False
            self._work()
            self.done += 1
