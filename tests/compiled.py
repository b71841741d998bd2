"""Workers of pytest-xdist begin together, with the same file: the first that comes to one compiles it for all.

All four would otherwise rewrite and compile the same 900 files at the same time, on two processors.
"""

import contextlib
import os
import sys

try:
    from fcntl import LOCK_EX, flock
except ImportError:  # Windows: each compiles for itself
    flock = None


@contextlib.contextmanager
def by_one_worker(path):
    """Let one worker at a time read a file of tests and what it imports; the next find it compiled.

    Parameters
    ----------
    path
        Of the file, which is locked but not changed.
    """
    if flock is None or sys.dont_write_bytecode or "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    with open(path, "rb") as file:  # closing it unlocks it
        flock(file, LOCK_EX)
        yield
