"""Optima that depend on no data, kept in a private folder between sessions, so that a second notebook plans at once.

What is kept is matrices alone: no names, no levels, no question. What is read is a proposal: its sensitivity, its
support and its error are worked out anew from its integers by whoever uses it, and what it claims to be a lower bound
is proved again from its multipliers. Whatever is damaged, of another version, or in a folder that others could write
to, is as if it were not there. Searches are deterministic and the key has the versions of what computes, so that a plan
is the same with and without the folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from dpnotebook.errors import WorkloadError
from dpnotebook.workload import Explicit, PIdentity
from dpnotebook.workload.base import Array

VARIABLE = "DPNOTEBOOK_CACHE"  # a folder, or one of OFF
OFF = ("", "off", "0", "no", "none")
FORM = 1  # of a file: another one is not read
FEWEST_CELLS = 64  # over fewer, a search is over before a file is read
LARGEST_FOLDER = 2**28  # bytes: what was not used for longest goes first
LARGEST_FILE = 2**26  # bytes
LARGEST_ENTRY = 2**31  # of an operator
ENDING = ".npz"


@dataclass(frozen=True)
class FoundOperator:
    """What a search found.

    Parameters
    ----------
    operator
        What to measure, in integers.
    bound
        What no strategy's objective can be below; 0 where that is not known.
    proof
        The arrays that prove the bound.
    """

    operator: Explicit | PIdentity
    bound: float = 0.0
    proof: tuple[Array, ...] = field(default=(), compare=False)


def kept(
    asked: Iterable[str | bytes],
    cells: int,
    search: Callable[[], FoundOperator],
    holds: Callable[[FoundOperator], bool],
) -> FoundOperator:
    """Return what a search finds, or found before.

    Parameters
    ----------
    asked
        All that the search depends on.
    cells
        Number of cells of its operator.
    search
        A deterministic search.
    holds
        Whether what was kept answers what is asked, and its bound follows from its proof.
    """
    folder = _folder() if cells >= FEWEST_CELLS else None
    if folder is None:
        return search()
    key = _key(asked)
    path = folder / (key + ENDING)
    found = _read(path, key, cells)
    if found is not None and _holds(found, holds):
        with suppress(OSError):
            os.utime(path)
        return found
    made = search()
    with suppress(OSError):
        _write(path, key, made)
    return made


def _holds(found: FoundOperator, holds: Callable[[FoundOperator], bool]) -> bool:
    try:
        return holds(found)
    except (WorkloadError, np.linalg.LinAlgError, ValueError):
        return False


def _folder() -> Path | None:
    """Return the private folder, made where it is missing; None where there is to be none, or it is not private."""
    said = os.environ.get(VARIABLE)
    if said is not None and said.strip().lower() in OFF:
        return None
    try:
        folder = Path(said).expanduser() if said else _of_this_user() / "dpnotebook" / "optima"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
                return None
    except (OSError, RuntimeError):
        return None
    return folder


def _of_this_user() -> Path:
    """Return where programs of this user keep what can be computed again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _key(asked: Iterable[str | bytes]) -> str:
    found = hashlib.sha256()
    for part in (f"form {FORM}", *_versions(), *asked):
        whole = part.encode() if isinstance(part, str) else part
        found.update(len(whole).to_bytes(8, "little") + whole)
    return found.hexdigest()


def _versions() -> tuple[str, ...]:
    """Return the versions of what computes: another one may round otherwise, and find another optimum."""
    found = []
    for name in ("dpnotebook", "numpy", "scipy"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(name)
    return (*found, sys.platform)


def _read(path: Path, key: str, cells: int) -> FoundOperator | None:
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST_FILE:
            return None
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        if str(arrays.pop("digest")) != _digest(key, arrays):
            return None
        proof = tuple(arrays[f"proof {place}"] for place in range(len(arrays)) if f"proof {place}" in arrays)
        bound = float(arrays["bound"])
        entries = [arrays[name] for name in ("matrix", "diagonal", "extra") if name in arrays]
        if not entries or any(
            array.dtype != np.int64 or np.abs(array).max(initial=0) > LARGEST_ENTRY for array in entries
        ):
            return None
        operator = Explicit(entries[0]) if "matrix" in arrays else PIdentity(arrays["diagonal"], arrays["extra"])
    except Exception:  # whatever is in the file, it is no proposal
        return None
    proved = np.isfinite(bound) and all(array.dtype == np.float64 for array in proof)
    return FoundOperator(operator, bound, proof) if proved and operator.shape[1] == cells else None


def _write(path: Path, key: str, made: FoundOperator) -> None:
    operator = made.operator
    arrays: dict[str, Any] = {"bound": np.float64(made.bound)}
    if isinstance(operator, PIdentity):
        arrays |= {"diagonal": operator.diagonal, "extra": operator.extra}
    else:
        arrays["matrix"] = operator.matrix
    arrays |= {f"proof {place}": np.asarray(array, dtype=float) for place, array in enumerate(made.proof)}
    content = io.BytesIO()
    np.savez_compressed(content, digest=np.array(_digest(key, arrays)), **arrays)
    if content.tell() > LARGEST_FILE:
        return
    handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".draft")  # readable by its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.getvalue())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    _make_room(path.parent)


def _digest(key: str, arrays: dict[str, Any]) -> str:
    found = hashlib.sha256(key.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def _make_room(folder: Path) -> None:
    """Delete what was not used for longest until the rest is no larger than it may be."""
    files = []
    for path in folder.iterdir():
        with suppress(OSError):  # another kernel may have deleted it
            if path.suffix in (ENDING, ".draft"):
                about = path.stat()
                files.append((about.st_mtime, about.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files, key=lambda one: one[0]):
        if total <= LARGEST_FOLDER:
            return
        with suppress(OSError):
            path.unlink()
            total -= size
