"""What tells a dashboard that another kernel has spent from its ledger: a look at the ledger's head now and then."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpnotebook.session.session import Session

EVERY = 2.0  # seconds between two looks, each of a millisecond: as soon as a person would ask


class LedgerWatch:
    """Calls back whenever the ledger of a session has other entries than those that were seen.

    It reads, and writes nothing. A ledger in memory has one kernel and is not watched.

    Parameters
    ----------
    session
        Whose ledger.
    changed
        Called in a thread of its own; must not raise.
    """

    def __init__(self, session: Session, changed: Callable[[], None]) -> None:
        self.session = session
        self._changed, self._seen = changed, session.ledger.head
        self._stop = threading.Event()
        if str(session.ledger.path) != ":memory:":
            # In the context of who asks: what the call draws belongs to that cell.
            context = contextvars.copy_context()
            threading.Thread(
                target=context.run, args=(self._until_stopped,), name="dpnotebook-watch", daemon=True
            ).start()

    def saw(self) -> None:
        """Note that what the ledger has now was drawn."""
        self._seen = self.session.ledger.head

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def _until_stopped(self) -> None:
        while not self._stop.wait(EVERY):
            head = self._head()
            if head not in (None, self._seen):
                self._seen = str(head)
                self._changed()

    def _head(self) -> str | None:
        try:
            return self.session.ledger.head
        except Exception:  # closed, moved, busy or gone: whoever uses the session is told why
            return None
