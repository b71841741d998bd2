"""What the notebook calls a session and its tables, so that copied code runs where it is pasted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpnotebook.errors import DPError
from dpnotebook.notebook.interactive import shell
from dpnotebook.session.protected import frames

if TYPE_CHECKING:
    from dpnotebook.session.protected import ProtectedTable
    from dpnotebook.session.query import SessionProtocol


def names_of_notebook() -> Mapping[str, Any]:
    """Return the variables of the notebook; none where there is no notebook."""
    found: Mapping[str, Any] = getattr(shell(), "user_ns", {})
    return found


def session_code(session: SessionProtocol) -> str:
    """Return the Python of a session: the variable that holds it, or what finds the one that was made last."""
    own = (name for name, value in names_of_notebook().items() if value is session and not name.startswith("_"))
    return next(own, "dpn.active_session()")


def table_code(table: ProtectedTable) -> str:
    """Return the Python of a protected table: its frame's `.dp`, or the session's table of that name."""
    frame = names_of_notebook().get(table.table.name)
    if hasattr(frame, "iloc") and not table.table.parts:
        try:
            if frames.find(frame) is table:
                return f"{table.table.name}.dp"
        except DPError:  # a frame of that name, but not this one
            pass
    return f"{session_code(table.session)}.table({table.table.name!r})"
