"""One BLAS thread while matrices are small: threads that wait for each other cost more than they compute."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

SMALL = 1024  # cells up to which a second thread is no gain


def threads_for(n: int) -> AbstractContextManager[object]:
    """Return a context with one BLAS thread for matrices of up to 1,024 columns; larger ones keep all threads.

    Parameters
    ----------
    n
        Columns of the matrices.
    """
    if n > SMALL:
        return nullcontext()
    limits: AbstractContextManager[object] = _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
    return limits


@lru_cache(maxsize=2)
def _libraries(with_scipy: bool) -> Any:
    # Found once: looking through all that is loaded takes milliseconds. numpy's BLAS is there already; scipy may bring
    # one of its own, later.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
