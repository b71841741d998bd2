"""One JupyterLab server and one Chromium for all browser tests; each skips, with the reason, where one is missing."""

import contextlib
import importlib.util
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHOTS = os.environ.get("DPNOTEBOOK_SHOTS")  # a folder: every test leaves its screenshots there

_spec = importlib.util.spec_from_file_location("labtest", HERE / "labtest.py")
labtest = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(labtest)


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="session")
def base(workdir):
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed")
    if not Path(labtest.CHROMIUM).exists():
        pytest.skip(f"no Chromium at {labtest.CHROMIUM} (CHROMIUM= names another)")
    with labtest.lab_server(workdir, str(ROOT)) as url:
        yield url


@pytest.fixture(scope="session")
def context(base):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, labtest.chromium(playwright, base) as opened:
        yield opened


@pytest.fixture
def open_notebook(base, context, workdir):
    from playwright.sync_api import Error

    opened = []

    def open_it(name, cells=None):
        if cells is not None:
            write_notebook(workdir / name, cells)
        notebook = labtest.Notebook(context.new_page(), base, name)
        opened.append(notebook)
        return notebook

    yield open_it
    for notebook in opened:
        with contextlib.suppress(Error):  # no kernel left to stop is fine
            notebook.shutdown()
        notebook.page.close()


def write_notebook(path, cells):
    """Write a notebook; a cell is its source, or (source, MIME bundle of an output)."""
    import nbformat as nbf

    # Without a kernelspec JupyterLab asks for one and the notebook never becomes ready.
    notebook = nbf.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for cell in cells:
        source, bundle = cell if isinstance(cell, tuple) else (cell, None)
        outputs = [] if bundle is None else [nbf.v4.new_output("display_data", bundle)]
        count = None if bundle is None else 1
        notebook.cells.append(nbf.v4.new_code_cell(source, outputs=outputs, execution_count=count))
    nbf.write(notebook, path)


@pytest.fixture
def saved(workdir):
    def read(name):
        import nbformat as nbf

        return nbf.read(workdir / name, 4)

    return read


@pytest.fixture
def shot(request):
    def take(notebook, name):
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            notebook.page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))

    return take
