"""What a forked child leaves alone: connections that its parent opened.

The threads of a connection do not come along into a child. Whoever closes it there, or lets it be collected, waits for
them for ever; a server is told that its client has gone, though the parent goes on. So a child keeps what was open when
it was forked, untouched, to its very end, and opens connections of its own when it next needs one.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Connection = TypeVar("Connection")


# By id: the values of a dictionary are listed in one step, whatever other threads add meanwhile.
_connections: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_locks: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_forgetting: dict[int, weakref.WeakMethod[Callable[[], None]]] = {}
_held: list[list[Any]] = []


def opened(connection: Connection) -> Connection:
    """Return a connection of this process, after noting that it is for this process alone."""
    _connections[id(connection)] = connection
    return connection


def in_child(forget: Callable[[], None]) -> None:
    """Let a bound method be called in every child that is forked while its object lives.

    Parameters
    ----------
    forget
        Forgets the parent's connections, without closing them.
    """
    key = id(forget.__self__)  # type: ignore[attr-defined]
    _forgetting[key] = weakref.WeakMethod(forget, lambda _: _forgetting.pop(key, None))


def lock() -> threading.RLock:
    """Return a reentrant lock that is free in a child, whichever thread of the parent held it: none came along."""
    made = threading.RLock()
    _locks[id(made)] = made
    return made


def _living(known: weakref.WeakValueDictionary[int, Any]) -> list[Any]:
    return [living for reference in known.valuerefs() if (living := reference()) is not None]


def _before() -> None:
    # Held through the fork: the frames of other threads are cleared in the child before anything of ours runs there.
    _held.append(_living(_connections))


def _after_in_parent() -> None:
    _held.pop()


def _after_in_child() -> None:
    for connection in {id(one): one for several in _held for one in several}.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # not even the end of the interpreter collects it
    _held.clear()
    _connections.clear()
    for held in _living(_locks):
        held._at_fork_reinit()
    for reference in list(_forgetting.values()):
        if (forget := reference()) is not None:
            forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
