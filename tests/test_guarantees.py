"""What guarantees.ipynb promises: behind each sentence stand tests that are there and run by default."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
PAGE = next(
    cell.source
    for cell in nbformat.read(ROOT / "notebooks" / "guarantees.ipynb", 4).cells
    if cell.source.startswith("## What is promised")
)
SENTENCES = re.split(r"^- ", PAGE, flags=re.MULTILINE)[1:]


def named(sentence):
    """Return the tests that a sentence names: a file, and a function of it or None."""
    return [(path, test or None) for path, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", sentence)]


def is_slow(node):
    return any("slow" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_there_is_a_page():
    assert len(SENTENCES) > 20


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda text: " ".join(text.split()[:6]))
def test_every_sentence_is_held_by_tests_that_run(sentence):
    assert named(sentence)
    for path, name in named(sentence):
        tree = ast.parse((ROOT / path).read_text())
        tests = {
            node.name: node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not is_slow(node)
        }
        assert tests, path
        assert name is None or name in tests, f"{path} has no {name}"
