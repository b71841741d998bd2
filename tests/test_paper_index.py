"""The map in dpnotebook/README.md, and its index from the papers: all that they name exists, no row says nothing."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAP, _, INDEX = (ROOT / "dpnotebook" / "README.md").read_text().partition("## From the papers to the code")
PAPERS = ("Li and Miklau", "McKenna", "Peng", "Wilson")


def rows():
    """Return the three cells of every row of the index, by paper."""
    found = {}
    for section in INDEX.split("\n### ")[1:]:
        title, *lines = section.splitlines()
        table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
        found[title] = table[2:]  # after the heads and the rule
    return found


ROWS = [row for table in rows().values() for row in table]
CODE = sorted({name for _, here, _ in ROWS for name in re.findall(r"`([^`]+)`", here)})
CHECKS = sorted({name for _, _, held in ROWS for name in re.findall(r"`([^`]+)`", held)})


def resolved(dotted):
    """Return what a name below dpnotebook stands for: a module, or something in one."""
    parts = ["dpnotebook", *dotted.split(".")]
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


@cache
def functions(path):
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


FILES = sorted({name for name in re.findall(r"`([^`\n]+)`", MAP) if re.fullmatch(r"[\w./]+(/|\.py|\.js)", name)})


@pytest.mark.parametrize("name", FILES)
def test_files_that_the_map_names_exist(name):
    path = name.removesuffix("/")
    assert (ROOT / path).exists() or (ROOT / "tests" / path).exists() or any((ROOT / "dpnotebook").rglob(path))


def test_every_paper_has_its_table():
    titles = list(rows())
    assert [any(title.startswith(paper) for title in titles) for paper in PAPERS] == [True] * 4
    assert len(titles) == 4
    assert min(map(len, rows().values())) >= 15
    assert all(len(row) == 3 for row in ROWS)


@pytest.mark.parametrize("name", CODE)
def test_code_that_is_named_exists(name):
    assert resolved(name) is not None


@pytest.mark.parametrize("name", CHECKS)
def test_checks_that_are_named_exist(name):
    path, _, function = name.partition("::")
    file = ROOT / path if path.startswith("notebooks/") else ROOT / "tests" / path
    assert file.is_file()
    if function:
        assert function in functions(file)


def test_what_has_no_code_or_no_check_says_so():
    for paper, here, held in ROWS:
        assert held or "not built" in here, paper
        assert here or "`" in held, paper
