"""Jupyter as a newcomer's machine needs it: this Python as the kernel, nobody's settings, nothing from the internet."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dpnotebook.errors import TourError

# Settings, history and keys of a person's own Jupyter stay out of this, and where no home can be written it works too.
FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "IPYTHONDIR": "ipython",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
}
# JupyterLab asks everybody, once, whether it may fetch news.
NOTIFICATION = "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
QUIET = {"fetchNews": "false", "checkForUpdates": False}
NAMES = {"jupyterlab": "JupyterLab", "ipykernel": "ipykernel", "nbclient": "nbclient", "nbconvert": "nbconvert"}


def check_installed(*packages: str) -> None:
    """Check that packages are installed, without importing them.

    Raises
    ------
    TourError
        If one is not; the text says how to install all of them.
    """
    missing = [NAMES.get(package, package) for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise TourError(f'{" and ".join(missing)} {are} not installed: pip install "dpnotebook[lab]"')


@contextlib.contextmanager
def own_jupyter() -> Iterator[None]:
    """Give Jupyter, in this process and in those it starts, a home of its own that is removed at the end.

    In it, the kernel "python3" is this Python: one that a person installed for another environment has no dpnotebook.

    Raises
    ------
    TourError
        If no temporary files can be written.
    """
    try:
        home = tempfile.TemporaryDirectory(prefix="dpnotebook-tour-", ignore_cleanup_errors=True)
    except OSError as error:
        why = error.strerror or "no temporary folder"
        raise TourError(f"cannot write temporary files ({why}): set TMPDIR to a folder that can be written") from None
    with home as name:
        changes = {variable: str(Path(name) / folder) for variable, folder in FOLDERS.items()}
        first = str(Path(name) / "first")
        changes["JUPYTER_PATH"] = os.pathsep.join(filter(None, [first, os.environ.get("JUPYTER_PATH")]))
        before = {variable: os.environ.get(variable) for variable in changes}
        os.environ.update(changes)
        try:
            _furnish(Path(first) / "kernels" / "python3", Path(changes["JUPYTERLAB_SETTINGS_DIR"]))
            yield
        finally:
            for variable, value in before.items():
                if value is None:
                    os.environ.pop(variable, None)
                else:
                    os.environ[variable] = value


def _furnish(kernel: Path, settings: Path) -> None:
    from ipykernel.kernelspec import write_kernel_spec

    kernel.parent.mkdir(parents=True)
    write_kernel_spec(kernel, extra_arguments=["--log-level=50"])  # what goes wrong is in the notebook
    (settings / NOTIFICATION).parent.mkdir(parents=True)
    (settings / NOTIFICATION).write_text(json.dumps(QUIET))
