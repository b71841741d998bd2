"""The ledger's file: where it may live, and how it is made in one step."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

from dpnotebook.errors import LedgerCorrupt, LedgerError, LedgerReadOnly, shorten

MOUNTS = "/proc/mounts"

# Locks must be seen by all processes, and a commit be on the disk when it returns: no network promises both.
NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs"}
)
# FUSE programs whose files lie on this machine; any other may be a network.
LOCAL_FUSE = frozenset(
    f"fuse.{name}" for name in ("bindfs", "encfs", "fuse-overlayfs", "gocryptfs", "lxcfs", "ntfs-3g", "portal")
)


def place_of(path: object) -> str:
    """Return the path of a ledger as the user wrote it, with ~ for the home folder; ":memory:" as it is.

    Raises
    ------
    LedgerError
        If it is no path.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(text := os.fspath(path), str):
        raise LedgerError(
            f"a ledger is the path of a file, such as 'clinic.ledger', or ':memory:'; not {type(path).__name__}"
        )
    shown = repr(text if len(text) <= 60 else text[:59] + "…")
    if not text.strip():
        raise LedgerError("a ledger is the path of a file, such as 'clinic.ledger'; this path is empty")
    if "://" in text or text.startswith("file:"):
        raise LedgerError(f"a ledger is a file on this machine: write its path, not the address {shown}")
    try:
        if b"\0" in os.fsencode(text):
            raise ValueError  # noqa: TRY301 - one message for both
    except ValueError:
        raise LedgerError(f"{shown} cannot be the path of a file") from None
    return os.path.expanduser(text)


def check_place(path: Path) -> None:
    """Check that a ledger can live at `path`, whether or not there is one yet.

    Raises
    ------
    LedgerError
        If the folder does not exist, is on a network file system, or `path` is not a file.
    LedgerReadOnly
        If the file or its folder cannot be written.
    LedgerCorrupt
        If the file is empty, or only the files that SQLite keeps beside it are there.
    """
    check_folder(path)
    kind = network_file_system(path)
    if kind is not None:
        raise LedgerError(
            f"{path} is on a network file system ({kind}), where two kernels could spend the same budget twice. "
            f"Write a path on a local disk"
        )
    if not _is_there(path):
        _check_no_remains(path)
    elif not os.access(path, os.R_OK | os.W_OK):
        raise LedgerReadOnly(f"{path} is read-only for you, so no cost could be recorded; make it writable")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise LedgerReadOnly(
            f"the folder {shorten(str(path.parent), 200)} is read-only for you, and a ledger writes beside its file; "
            f"make the folder writable, or write another path"
        )


def way_to_read(path: Path) -> str:
    """Return how SQLite opens a file that is only to be read: a backup may be read-only, or on another machine.

    Raises
    ------
    LedgerError
        If there is no such file, or it cannot be read.
    """
    check_folder(path)
    if not _is_there(path):
        raise LedgerError(f"there is no ledger {path}")
    if not os.access(path, os.R_OK):
        raise LedgerReadOnly(f"{path} cannot be read by you; make it readable")
    if network_file_system(path) is not None:
        return "ro&nolock=1"
    return "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK) else "ro"


def _is_there(path: Path) -> bool:
    """Return whether there is a file that can be a ledger.

    Raises
    ------
    LedgerError
        If it is something else.
    LedgerCorrupt
        If it is empty.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(status.st_mode):
        raise LedgerError(f"{path} is a folder; write the name of a file in it, such as {path / 'my.ledger'}")
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"{path} is not a file; write another path")
    if status.st_size == 0:
        raise LedgerCorrupt(
            f"{path} is empty: a ledger never is, so this one was lost or it never was one. "
            f"Restore it from a copy; remove it only if nothing was ever spent from it"
        )
    return True


def check_folder(path: Path) -> None:
    """Check that there is a folder for a file.

    Raises
    ------
    LedgerError
        If there is none.
    """
    if not path.parent.is_dir():
        raise LedgerError(
            f"there is no folder {shorten(str(path.parent), 200)} to keep the ledger in: create it, or write another "
            "path"
        )


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the type of the network file system that `path` is on, or None.

    Parameters
    ----------
    path
        An absolute path; its links are followed.
    mounts
        The mount table; the system's own where None. Systems without one (macOS, Windows) are taken as local.
    """
    if mounts is None:
        try:
            mounts = Path(MOUNTS).read_text(errors="surrogateescape")
        except OSError:
            return None
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = _unescape(fields[1])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of mounts on one place, the last is the one that is seen
            best, kind = point, fields[2]
    remote = kind in NETWORK or (kind.startswith("fuse.") and kind not in LOCAL_FUSE)
    return kind if remote else None


def create(path: Path, build: Callable[[Path], None]) -> bool:
    """Make a file that others see whole or not at all; return whether this did, where several processes try.

    Parameters
    ----------
    path
        The file to make; if it appears meanwhile, it is left as it is.
    build
        Fills an empty file at the path that it is given, which only its owner may read: it holds the ledger's key.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        build(draft)
        try:
            _publish(draft, path)
        except FileExistsError:
            return False
        _sync_folder(path.parent)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{draft}{suffix}").unlink(missing_ok=True)
    return True


def _publish(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: claim the name first, then put the file in its place
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.replace(draft, path)


def _check_no_remains(path: Path) -> None:
    for suffix in ("-wal", "-journal"):
        remains = Path(f"{path}{suffix}")
        # SQLite would play these back into a new file of that name; where it is there by now, another process made it.
        if remains.exists() and not path.exists():
            raise LedgerCorrupt(
                f"{path} is missing but {remains.name} is still there: the ledger was moved or deleted while its last "
                f"entries were in the second file. Bring {path.name} back beside it"
            )


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # Windows cannot open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
