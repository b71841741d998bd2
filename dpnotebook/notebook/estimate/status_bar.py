"""The kernel's side of the status bar: JupyterLab sends the text of a cell, and gets its estimate back.

The kernel says that it is here by a comm of its own, which the front end answers by opening the one for estimates; a
front end that knows nothing of this lets it be. Estimates are made in a thread of their own, so that a cell that is run
never waits for one in the queue, and of what was asked meanwhile only the latest is answered.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from comm import create_comm, get_comm_manager

from dpnotebook.notebook.estimate.estimate import SILENCE, CellEstimate

if TYPE_CHECKING:
    from dpnotebook.session.query import SessionProtocol

HERE = "dpnotebook.here"
TARGET = "dpnotebook.estimate"
LONGEST = 20_000  # characters of a cell: parsing it takes some milliseconds
IDLE = 30.0  # seconds after which the thread ends; the next request starts another


class StatusBar:
    """Answers what the cells that are being typed would cost, until it is closed.

    Parameters
    ----------
    estimate
        From the text of a cell to its estimate.
    """

    def __init__(self, estimate: Callable[[str], CellEstimate]) -> None:
        self._estimate = estimate
        self._asked: dict[str, tuple[Context, Any, Any]] = {}  # by comm: only the latest waits
        self._last: dict[str, tuple[Context, Any, Any]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._watched: weakref.WeakSet[Any] = weakref.WeakSet()  # sessions that say when something was spent
        self._stops: list[Callable[[], None]] = []
        self._manager = get_comm_manager()
        self._manager.register_target(TARGET, self._opened)
        self._here = create_comm(target_name=HERE)

    def close(self) -> None:
        """Stop answering; the status bar is empty from then on."""
        self._manager.unregister_target(TARGET, self._opened)
        with self._changed:
            comms = [comm for _, comm, _ in self._last.values()]
            self._asked.clear()
            self._last.clear()
        for stop in self._stops:
            stop()
        for comm in (*comms, self._here):
            comm.close()

    def again(self) -> None:
        """Answer once more what every front end asked last: what is left of a budget may have changed."""
        with self._changed:
            self._asked |= self._last
            self._wake()

    def _opened(self, comm: Any, message: Any) -> None:
        comm.on_msg(lambda said: self._ask(comm, said))
        comm.on_close(lambda _: self._forget(comm))

    def _ask(self, comm: Any, message: Any) -> None:
        with self._changed:
            # The context says which message is answered, and so to which of the kernel's threads the next one goes.
            request = copy_context(), comm, message["content"]["data"]
            self._asked[comm.comm_id] = self._last[comm.comm_id] = request
            self._wake()

    def _forget(self, comm: Any) -> None:
        with self._changed:
            self._asked.pop(comm.comm_id, None)
            self._last.pop(comm.comm_id, None)

    def _wake(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="dpnotebook-estimate", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._asked and not self._changed.wait_for(lambda: bool(self._asked), IDLE):
                    self._thread = None
                    return
                _, (context, comm, data) = self._asked.popitem()
            context.copy().run(self._answer, comm, data)

    def _answer(self, comm: Any, data: dict[str, Any]) -> None:
        """Send an estimate, or silence: nothing that goes wrong here may reach the notebook."""
        found, cell = SILENCE, data["cell"]
        with contextlib.suppress(Exception):
            found = self._estimate(cell) if len(cell) <= LONGEST else SILENCE
            self._watch(found.session)
        with contextlib.suppress(Exception):  # as where the page was closed meanwhile
            said = {"text": found.text, "title": found.title, "shorter": list(found.shorter)}
            comm.send({"number": data["number"], **said})

    def _watch(self, session: SessionProtocol | None) -> None:
        if session is not None and session not in self._watched:
            self._watched.add(session)
            self._stops.append(session.on_change(self.again))
