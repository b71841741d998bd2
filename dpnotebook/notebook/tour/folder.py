"""The notebooks that come with the package, and how they get into a folder of the user's."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from dpnotebook.errors import TourError
from dpnotebook.ledger.files import network_file_system

FIRST = "tour"  # where a newcomer begins


@dataclass(frozen=True)
class Laid:
    """What became of a folder: names of files that were put there, and of those that were there and are different."""

    folder: Path
    new: tuple[str, ...]
    kept: tuple[str, ...]


def shipped() -> Path:
    """Return the folder of notebooks that this installation has: a wheel's own copy, or that of its repository.

    Raises
    ------
    TourError
        If there is neither.
    """
    inside = Path(__file__).parent / "notebooks"
    beside = Path(__file__).parents[3] / "notebooks"
    for folder in (inside, beside):
        if (folder / f"{FIRST}.ipynb").is_file():
            return folder
    raise TourError("this installation of dpnotebook came without its notebooks: install it again with pip")


def names() -> tuple[str, ...]:
    """Return the notebooks that can be opened, the tour first, without their suffix."""
    others = sorted(path.stem for path in shipped().glob("*.ipynb") if path.stem != FIRST)
    return (FIRST, *others)


def lay_out(folder: Path) -> Laid:
    """Put the notebooks, and the data that they read, into a folder; what is there already is left as it is.

    Parameters
    ----------
    folder
        Made if it is not there.

    Raises
    ------
    TourError
        If the folder cannot be made or written, or no ledger can live in it.
    """
    source = shipped()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        _check(folder)
        new, kept = [], []
        for path in sorted([*source.glob("*.ipynb"), *(source / "data").glob("*.json")]):
            name = path.relative_to(source)
            there = folder / name
            if not there.exists():
                there.parent.mkdir(exist_ok=True)
                write_whole(there, path.read_bytes())
                new.append(name.as_posix())
            elif there.read_bytes() != path.read_bytes():
                kept.append(name.as_posix())
    except OSError as error:
        raise _cannot(folder, error) from None
    return Laid(folder, tuple(new), tuple(kept))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, also when this is interrupted."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _check(folder: Path) -> None:
    kind = network_file_system(folder)
    if kind is not None:  # the tour keeps its ledger here
        raise TourError(
            f"{folder} is on a network file system ({kind}), where no ledger can be kept: name a folder on a local "
            f"disk, as in --folder /tmp/dpnotebook-tour"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(None, "you may not write there")


def _cannot(folder: Path, error: OSError) -> TourError:
    why = error.strerror or type(error).__name__
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        why = "a file of that name is in the way"
    return TourError(f"cannot put the notebooks into {folder} ({why}): name another folder with --folder")
