"""dpnotebook as a newcomer has it: its wheel in an environment of its own, and a home that is a mess.

The environment borrows the packages of the one that runs the tests, so that nothing is downloaded.
"""

import contextlib
import json
import os
import re
import signal
import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
from clocks import wait_until

ROOT = Path(__file__).parents[1]

# In every Python of the environment: what leaves this machine is written down, and refused.
GUARD = """
import os, socket, sys

OWN = {"", "localhost", "::", "::1", "0.0.0.0", socket.gethostname()}

def watch(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.bind"):
        host = args[1][0] if isinstance(args[1], tuple) else ""
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0] or ""
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in OWN and not host.startswith("127."):
        with open(os.environ["ASKED"], "a") as file:
            file.write(f"{event} {host}\\n")
        raise OSError("no network here")

sys.addaudithook(watch)
"""

# Gives the command a network with nothing but itself: needs root, or user namespaces.
ALONE = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:  # "ip link set lo up"
    flags = struct.pack("16sh14s", b"lo", 0x41, b"")
    fcntl.ioctl(any_socket, 0x8914, flags)
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True)
class Fresh:
    """An environment with the wheel in it."""

    folder: Path
    wheel: Path
    environ: dict

    @property
    def python(self):
        return str(self.folder / "bin/python")

    @property
    def command(self):
        return str(self.folder / "bin/dpnotebook")

    def run(self, *words, cwd, alone=False, **changes):
        """Run `dpnotebook` with `words` to its end."""
        command = [*(self.alone() if alone else []), self.command, *words]
        env = self.environ | changes
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def alone(self):
        """Return what to write before a command to cut it off from the network; nothing where that is not allowed."""
        prefix = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
        prefix += [self.python, "-c", ALONE]
        with contextlib.suppress(OSError):
            if subprocess.run([*prefix, self.python, "-c", "0"], env=self.environ, capture_output=True).returncode == 0:
                return prefix
        return []

    def asked(self):
        """Return what was asked of other machines so far."""
        asked = Path(self.environ["ASKED"])
        return asked.read_text() if asked.exists() else ""

    def processes(self):
        """Return the processes of this environment that are alive."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or []
            if any(str(self.folder) in word for word in words) and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(" ".join(words))
        return found

    @contextlib.contextmanager
    def touring(self, *words, cwd, **changes):
        """Start `dpnotebook tour`, and yield it once it has said where it is."""
        out, err = cwd / "tour.out", cwd / "tour.err"
        environ = self.environ | {"PYTHONFAULTHANDLER": "1"} | changes
        with out.open("w") as stdout, err.open("w") as stderr:
            command = [self.command, "tour", *words]
            process = subprocess.Popen(
                command, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )
        try:
            wait_until(lambda: process.poll() is not None or "Ctrl+C" in out.read_text())
            if "Ctrl+C" not in out.read_text():
                raise RuntimeError(out.read_text() + err.read_text())
            yield Tour(process, out, err)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass(frozen=True)
class Tour:
    """A running `dpnotebook tour`."""

    process: subprocess.Popen
    out: Path
    err: Path

    @property
    def said(self):
        return self.out.read_text()

    @property
    def address(self):
        (found,) = re.findall(r"http://\S+", self.said)
        return found

    def stop(self):
        """Press Ctrl+C, and return the exit status; where it does not end, say what it was at."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler writes where every thread is
            self.process.wait(30)
            raise RuntimeError(self.err.read_text()) from None


def build(folder):
    """Build the wheel as pip does, with what is installed."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(folder):
    """Make an environment in an empty folder, with the wheel and with the packages of this one."""
    wheel = build(folder)
    made = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(made / "bin/python"),
        "install",
        "-q",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*pip, str(wheel)], check=True)
    (packages,) = made.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()))
    (packages / "sitecustomize.py").write_text(GUARD)
    prefix = Path(sys.prefix)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(_messy_home(folder / "home")),
        "ASKED": str(folder / "asked.txt"),
        "JUPYTER_PATH": str(prefix / "share/jupyter"),
        "JUPYTERLAB_DIR": str(prefix / "share/jupyter/lab"),
        "JUPYTER_CONFIG_PATH": os.pathsep.join([str(_exposed(folder / "etc")), str(prefix / "etc/jupyter")]),
    }
    return Fresh(made, wheel, environ)


def _messy_home(home):
    """Make a home with a kernel "python3" of another environment, settings of a server, and a broken start-up file."""
    files = {
        ".local/share/jupyter/kernels/python3/kernel.json": json.dumps(
            {"argv": ["/bin/false", "{connection_file}"], "display_name": "Python 3", "language": "python"}
        ),
        ".jupyter/jupyter_server_config.json": json.dumps(
            {"ServerApp": {"base_url": "/elsewhere", "port": 1}, "IdentityProvider": {"token": "known"}}
        ),
        ".ipython/profile_default/startup/00-mine.py": "import a_package_that_is_not_there",
        ".ipython/profile_default/ipython_config.py": "c.InteractiveShellApp.exec_lines = ['raise SystemExit']",
    }
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return home


def _exposed(folder):
    """Let the browser tests look into JupyterLab."""
    folder.mkdir()
    (folder / "jupyter_lab_config.json").write_text(json.dumps({"LabApp": {"expose_app_in_browser": True}}))
    return folder
