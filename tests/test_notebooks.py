"""Notebooks are small, were run from the top, and open anywhere."""

from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
LONGEST = 115  # characters of a line of code that need no scrolling


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def test_it_is_small(notebook):
    assert notebook.stat().st_size < 300_000


def test_it_opens_without_questions(notebook):
    found = nbformat.read(notebook, 4)
    nbformat.validate(found)
    assert found.metadata.kernelspec.name == "python3"
    assert "widgets" not in found.metadata


def test_it_was_run_from_the_top(notebook):
    cells = [cell for cell in nbformat.read(notebook, 4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        errors = [output for output in cell.outputs if output.output_type == "error"]
        assert not errors or "raises-exception" in cell.metadata.get("tags", [])
        assert not any("widget-view" in kind for output in cell.outputs for kind in output.get("data", {}))


def test_its_code_can_be_read(notebook):
    for cell in nbformat.read(notebook, 4).cells:
        if cell.cell_type == "code":
            assert max(map(len, cell.source.splitlines())) <= LONGEST
