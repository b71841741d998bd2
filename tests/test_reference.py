"""The reference is made of the docstrings by the command that CONTRIBUTING.md says, and asks no other machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpnotebook as dpn

ROOT = Path(__file__).parents[1]
pytest.importorskip("pdoc")


def test_the_documented_command_makes_it(tmp_path):
    (command,) = re.findall(r"^\S*python (-m pdoc .*)$", (ROOT / ".github/CONTRIBUTING.md").read_text(), re.MULTILINE)
    words = command.split()
    assert words[words.index("--output-directory") + 1] + "/" in (ROOT / ".gitignore").read_text().split()
    words[words.index("--output-directory") + 1] = str(tmp_path)
    made = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    pages = {page.relative_to(tmp_path).as_posix(): page.read_text() for page in tmp_path.rglob("*.html")}
    assert {"index.html", "dpnotebook.html", "dpnotebook/strategy.html", "dpnotebook/testing.html"} <= pages.keys()
    for room, names in (("", dpn.__all__), ("/strategy", dpn.strategy.__all__), ("/workload", dpn.workload.__all__)):
        page = pages[f"dpnotebook{room}.html"]
        assert [name for name in names if f'id="{name}"' not in page and f"dpnotebook/{name}.html" not in page] == []
    assert 'id="Session.protect"' in pages["dpnotebook.html"]
    assert "example_session" in pages["dpnotebook.html"]  # examples are in it
    for page in pages.values():
        assert not re.search(r"""<(script|link|img)[^>]*(src|href)=["']https?:""", page)
