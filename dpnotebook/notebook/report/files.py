"""A folder that is written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dpnotebook.errors import ArgumentError, shorten


def checked_folder(path: object, *, overwrite: bool, mark: str) -> Path:
    """Return where a folder of files may be written.

    Parameters
    ----------
    path
        Of the folder; the one that it is in must be there.
    overwrite
        Whether a folder that has the file `mark`, and so was written like this, is replaced.
    mark
        The name of a file that every such folder has.

    Raises
    ------
    ArgumentError
        If it is no path, something is there, or the folder that it is in is not.
    """
    try:
        target = Path(os.fspath(path))  # type: ignore[call-overload]
        there, parent = os.path.lexists(target), target.absolute().parent.is_dir()
    except (TypeError, ValueError):
        if hasattr(path, "columns"):
            raise ArgumentError(
                "publish() writes a report of releases; a table about nobody, to join others with, is added by "
                "session.register(df, 'name', public=True)"
            ) from None
        raise ArgumentError(f"publish() takes the path of a folder, such as 'report', not {shorten(path)}") from None
    said = shorten(str(target), 200)
    if target.suffix:
        raise ArgumentError(
            f"publish() writes a folder with several files, and {said} is the name of one: write "
            f"{shorten(str(target.with_suffix('')), 200)}"
        )
    if not parent or not target.name:
        raise ArgumentError(f"{said} cannot be written: there is no such folder to write it into")
    if there and not (target.is_dir() and not target.is_symlink() and (target / mark).is_file()):
        raise ArgumentError(f"{said} is there and is no report, so it is left as it is: write another name")
    if there and not overwrite:
        raise ArgumentError(
            f"{said} has a report already, and it is left as it is: write another name, or overwrite=True"
        )
    return target


def write_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder, which gets its name when all of them are on the disk.

    Parameters
    ----------
    target
        As `checked_folder` returned it; a report that is there is replaced.
    files
        Names and contents.

    Raises
    ------
    ArgumentError
        If that fails: then nothing has changed.
    """
    where, draft, old = target.absolute().parent, None, None
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=where))
        for name, content in files.items():
            with (draft / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        draft.chmod(0o755)
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=where))
            target.replace(old / target.name)
        try:
            draft.rename(target)
        except OSError:
            if old is not None:
                (old / target.name).replace(target)
            raise
        draft = None
    except OSError as error:
        why = error.strerror or "the disk does not take it"
        raise ArgumentError(f"{shorten(str(target), 200)} cannot be written: {why}; nothing was changed") from None
    finally:
        for left in (draft, old):
            if left is not None:
                shutil.rmtree(left, ignore_errors=True)
