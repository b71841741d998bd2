"""Drives a real JupyterLab in headless Chromium, with the network off: server, browser, notebook.

Needs jupyterlab, the Python package playwright, and a Chromium of the system; knows nothing of dpnotebook.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clocks import PATIENCE, wait_until

CHROMIUM = os.environ.get("CHROMIUM", shutil.which("chromium") or "/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # What is not on this machine goes to a proxy that is not there. Stopping requests by playwright's routes would also
    # turn the browser's cache off, and JupyterLab is large.
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=127.0.0.1",
]
SIZE = 1400, 1000  # of a page, pixels
DEAD = ("Loading widget", "Error displaying widget", "model not found")
IN_USE = """() => { const p = window.jupyterapp.shell.currentWidget;
    return p.content.widgets.some(c => c.model.executionState === 'running')
      || !!document.querySelector('.jp-Cell.jp-mod-running')
      || p.sessionContext.session?.kernel?.status !== 'idle'; }"""


def free_port() -> int:
    """Return a free port below those that the system hands out, so that no kernel or server is given it meanwhile."""
    for port in random.sample(range(15_000, 32_000), 100):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("none of a hundred ports is free")


@contextlib.contextmanager
def lab_server(
    root: Path, path: str, timeout: float = PATIENCE, labextensions: Mapping[str, Path] = MappingProxyType({})
) -> Iterator[str]:
    """Serve `root` with JupyterLab on a free port, no token, a configuration of its own, `path` as PYTHONPATH.

    Labextensions are taken from these folders, by name, whatever is installed.
    """
    home = Path(tempfile.mkdtemp(prefix="lab-"))
    for name, folder in labextensions.items():
        shutil.copytree(folder, home / "data/labextensions" / name)
    # Otherwise a toast about Jupyter's news covers a corner of every screenshot.
    settings = home / "settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    port = free_port()
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    env = os.environ | {name: str(home / folder) for name, folder in folders.items()} | {"PYTHONPATH": path}
    env["JUPYTER_PREFER_ENV_PATH"] = "0"  # else a virtual environment that has the same labextensions comes first
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
        f"--port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}",
        "--IdentityProvider.token=", "--ServerApp.password=",
        "--expose-app-in-browser",  # window.jupyterapp
    ]  # fmt: skip
    log = home / "lab.log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    base = f"http://127.0.0.1:{port}"

    def answers():
        try:
            return urllib.request.urlopen(base + "/api/status", timeout=10).read()
        except OSError:
            return None

    try:
        wait_until(lambda: server.poll() is not None or answers(), timeout)
        if not answers():
            raise RuntimeError(log.read_text()[-3000:])
        yield base
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def chromium(playwright: Any, base: str, size: tuple[int, int] = SIZE) -> Iterator[Any]:
    """Open a fresh Chromium profile; what is asked of others than `base` is noted in `.blocked`, and reaches nobody."""
    profile = tempfile.mkdtemp(prefix="chromium-")
    context = playwright.chromium.launch_persistent_context(
        profile,
        executable_path=CHROMIUM,
        headless=True,
        args=FLAGS,
        viewport={"width": size[0], "height": size[1]},
    )
    context.set_default_timeout(1000 * PATIENCE)  # nothing that is waited for takes as long, on a busy machine either
    context.blocked = []

    def note(request: Any) -> None:
        if not request.url.startswith((base, base.replace("http", "ws", 1), "data:", "blob:")):
            context.blocked.append(request.url)

    context.on("request", note)
    try:
        yield context
    finally:
        context.close()
        shutil.rmtree(profile, ignore_errors=True)


class Notebook:
    """One notebook open in JupyterLab, driven through `window.jupyterapp` and the page.

    Parameters
    ----------
    page
        Of the browser: a new one, or one in which another notebook of this server was closed.
    base, path
        Where the server is, and the notebook below its root.
    address
        The whole address to open it at, where that is not the usual one.
    """

    def __init__(self, page: Any, base: str, path: str, address: str | None = None) -> None:
        self.page, self.path = page, path
        self.errors: list[str] = []
        page.on("console", self._note)
        if page.url.startswith(f"{base}/lab"):
            # Not the widget itself: to hand it over takes longer than to make it.
            self.js("app.commands.execute('docmanager:open', arg).then(() => null)", {"path": path})
        else:
            page.goto(address or f"{base}/lab/tree/{path}?reset")
        page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.content?.widgets")
        self.wait_kernel()

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def close(self) -> None:
        """Stop the kernel, and close all that is open in the page: another notebook may be opened there."""
        self.shutdown()
        self.js("[...app.shell.widgets('main')].map(one => one.dispose()) && null")
        self.page.set_viewport_size(dict(zip(("width", "height"), SIZE, strict=True)))
        self.page.remove_listener("console", self._note)

    def js(self, expression: str, arg: Any = None, timeout: float = PATIENCE) -> Any:
        """Evaluate JavaScript with `app`, `panel` and `arg` at hand; a promise is awaited, but never for ever."""
        return self.page.evaluate(
            "([arg, ms]) => { const app = window.jupyterapp, panel = app.shell.currentWidget;"
            " const late = new Promise((_, no) => setTimeout(() => no(Error('js timeout')), ms));"
            f" return Promise.race([{expression}, late]); }}",
            [arg, timeout * 1000],
        )

    def wait_kernel(self, timeout: float = PATIENCE) -> None:
        """Wait until cells can run: the circle in the toolbar says idle too early, the session itself does not."""
        self.js("panel.sessionContext.ready", timeout=timeout)
        self.page.wait_for_function(
            "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'",
            timeout=timeout * 1000,
        )

    def fill(self, notebook: dict[str, Any]) -> None:
        """Put other cells in the place of all there are, as a person would who goes on in the same kernel."""
        self.js("[...app.shell.widgets('main')].filter(one => one !== panel).map(one => one.dispose()) && null")
        self.page.set_viewport_size(dict(zip(("width", "height"), SIZE, strict=True)))
        self.js("panel.model.fromJSON(arg)", notebook)
        self.errors.clear()

    def command(self, name: str, args: dict[str, Any] | None = None) -> None:
        """Run a command of JupyterLab."""
        self.js("app.commands.execute(arg[0], arg[1]).then(() => null)", [name, args or {}])

    def run_all(self, timeout: float = PATIENCE) -> None:
        """Run All, and wait until the last cell has run or one has failed."""
        self.js("app.commands.execute('notebook:run-all-cells')", timeout=timeout)
        self.page.wait_for_timeout(100)
        self.page.wait_for_function(f"() => !({IN_USE})()", timeout=timeout * 1000)

    def run_cell(self, index: int, timeout: float = PATIENCE) -> None:
        """Run one cell, and wait until the kernel is idle again."""
        self.js("panel.content.activeCellIndex = arg", index)
        self.js("app.commands.execute('notebook:run-cell')", timeout=timeout)
        self.page.wait_for_timeout(100)
        self.wait_kernel(timeout)

    def output(self, index: int) -> Any:
        """Return the locator of the outputs of cell `index`."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-OutputArea").first

    def save(self) -> None:
        """Save the notebook."""
        self.js("panel.context.save()")

    def shutdown(self) -> None:
        """Stop the kernel."""
        self.js("panel.sessionContext.shutdown()", timeout=60)

    def theme(self, name: str) -> None:
        """Switch to JupyterLab Light or JupyterLab Dark."""
        self.command("apputils:change-theme", {"theme": f"JupyterLab {name}"})
        self.page.wait_for_function(f"document.body.dataset.jpThemeName === 'JupyterLab {name}'")
        self.page.wait_for_timeout(500)


def alive(part: Any) -> str:
    """Return the text of a part of a page in which no widget is dead; one that comes late is waited for."""

    def text_without_dead() -> str:
        text: str = part.inner_text()
        return "" if any(words in text for words in DEAD) else text

    found = wait_until(text_without_dead, PATIENCE)
    assert found, part.inner_text()
    return found
