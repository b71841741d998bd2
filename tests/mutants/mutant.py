"""One planted bug: what it is, how it is planted into a copy of the package, and what the tests say of that copy."""

import compileall
import contextlib
import dataclasses
import os
import py_compile
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, TESTS = ROOT / "dpnotebook", ROOT / "tests"
PRIVACY = ("-m", "privacy", "tests")
LIMIT = 3600  # seconds, many times what is needed: a test that hangs has caught nothing

# The same examples every time, and the first that fails is as good as the smallest.
QUICK = "first_failure_is_enough"
PROFILE = """from hypothesis import Phase, settings

settings.register_profile("quick", phases=[Phase.explicit, Phase.generate], derandomize=True, database=None)
settings.load_profile("quick")
"""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A bug that a person might make.

    Parameters
    ----------
    name
        What is wrong, in a few words.
    harm
        What that does to privacy, in a line.
    file
        Where, below the package.
    before, after
        The text that stands there once, and what stands there instead.
    caught_by
        The tests that must fail: files, or tests in them, below `tests`.
    """

    name: str
    harm: str
    file: str
    before: str
    after: str
    caught_by: tuple[str, ...]

    def planted(self, text):
        """Return the text of the file with the bug in it."""
        found = text.count(self.before)
        assert found == 1, f"{self.name}: what is to be changed stands {found} times in {self.file}"
        return text.replace(self.before, self.after)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the tests said of a planted bug: the first test that failed, None where none did; and for how long."""

    mutant: Mutant
    caught: str | None
    seconds: float
    said: str


class Copy:
    """A copy of what the tests need: the package, the tests, and what they read beside it.

    Parameters
    ----------
    folder
        Where to make it.
    """

    def __init__(self, folder):
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis", ".pytest_cache", "mutants", "browser")
        for name in ("dpnotebook", "tests"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, folder / name)
        (folder / f"{QUICK}.py").write_text(PROFILE, encoding="utf-8")
        # By their hashes: a planted bug may share size and second with what stood there.
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder / "dpnotebook", quiet=1, invalidation_mode=mode)

    @contextlib.contextmanager
    def with_bug(self, mutant):
        """Plant a bug while the block runs."""
        file = self.folder / "dpnotebook" / mutant.file
        text = file.read_text(encoding="utf-8")
        file.write_text(mutant.planted(text), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(text, encoding="utf-8")

    def pytest(self, asked):
        """Run pytest here until the first failure; return its exit code (None where it hung) and what it said."""
        # Plugins that tests of notebooks need take most of the time that pytest takes to start.
        kept = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        environment = os.environ | {"PYTHONPATH": str(self.folder)} | kept
        options = [
            "-x",
            "-q",
            "-p",
            QUICK,
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=--import-mode=importlib --strict-markers -rfE",
        ]
        command = [sys.executable, "-m", "pytest", *options, *asked]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired as late:
            return None, f"{late.stdout or ''}\nstopped after {LIMIT} seconds\n"
        return done.returncode, done.stdout + done.stderr


def verdict(mutant, copy):
    """Plant a bug in a copy, run the tests that should catch it, and where they do not all that is quick."""
    start, said = time.monotonic(), ""
    with copy.with_bug(mutant):
        for asked in ([f"tests/{test}" for test in mutant.caught_by], PRIVACY):
            code, output = copy.pytest(asked)
            said += output
            if code == 1:  # tests ran and one failed; what cannot be collected has caught nothing
                return Verdict(mutant, first_failure(output), time.monotonic() - start, said)
            if code != 0:
                break
    return Verdict(mutant, None, time.monotonic() - start, said)


def first_failure(output):
    """Return the test that failed first, without the folder `tests`."""
    found = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", output, re.MULTILINE)
    return found.group(1) if found else "?"


def table(found):
    """Return rows of a bug's name, its harm, what caught it and the seconds that took as lines of a table."""
    rows = [("planted bug", "what it would do to privacy", "caught by", "s"), *found]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]
