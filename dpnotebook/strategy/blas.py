"""One BLAS thread while matrices are small: threads that wait for each other cost more than they compute."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module

SMALL = 1024  # cells up to which a second thread is no gain

_Threads = tuple[Callable[[], int], Callable[[int], None]]


@contextmanager
def threads_for(n: int) -> Iterator[None]:
    """Leave numpy's BLAS one thread for matrices of up to 1,024 columns, and its own number for larger ones.

    It knows the OpenBLAS that numpy's wheels bring, and does nothing with another library.

    Parameters
    ----------
    n
        Columns of the matrices.
    """
    found = _threads() if n <= SMALL else None
    if found is None:
        yield
        return
    get, put = found
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)


@lru_cache(maxsize=1)
def _threads() -> _Threads | None:
    """Return the functions that get and set the number of threads, found in the library that numpy has loaded."""
    try:
        library = ctypes.CDLL(str(import_module("numpy._core._multiarray_umath").__file__))
    except (ImportError, OSError):
        return None
    for name in ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads"):
        try:
            get, put = library[name.format("get")], library[name.format("set")]
        except AttributeError:
            continue
        get.restype, get.argtypes = ctypes.c_int, []
        put.restype, put.argtypes = None, [ctypes.c_int]
        return get, put
    return None
