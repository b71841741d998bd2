"""Notebooks are small, were run from the top, and open anywhere."""

import importlib.util
import json
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
LONGEST = 115  # characters of a line of code that need no scrolling


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def test_it_is_small(notebook):
    assert notebook.stat().st_size < 200_000  # kB that a page on GitHub shows at once


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


def test_cached_tables_are_what_the_code_works_out_now():
    """The first points of a figure, each plan's: python tests/benchmarks/reuse_figures.py makes all of them again."""
    path = Path(__file__).parent / "benchmarks/reuse_figures.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    kept = json.loads(made.TABLES.read_text())["15"]["questions"]
    cells, long, short = made.DEFAULTS["D"], made.draw(2_000)[:20], made.draw(160)[:20]
    found = {name: made.totals(short if name == "ours" else long, name, cells)[-1] for name in made.METHODS}
    assert kept["index"][0] == len(short)
    for name in made.METHODS:
        assert kept["data"][0][kept["columns"].index(name)] == pytest.approx(found[name], rel=1e-5)
