"""One JupyterLab server and one Chromium for all browser tests; each skips, with the reason, where one is missing."""

import contextlib
import importlib.util
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LABEXTENSION = ROOT / "dpnotebook/notebook/estimate/labextension"
SHOTS = os.environ.get("DPNOTEBOOK_SHOTS")  # a folder: tests leave their screenshots there


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


driver = _load(HERE / "labtest.py")
reading = _load(HERE.parent / "notebook/reading.py")

SETUP = """
import numpy as np
import pandas as pd
import dpnotebook as dpn

rng = np.random.default_rng(1)
n = 20_000
patients = pd.DataFrame({
    "age": rng.integers(0, 100, n),
    "sex": rng.choice(["F", "M"], n),
    "region": rng.choice(["North", "South", "<West> & co"], n),
    "income": rng.gamma(3, 15_000, n),
})
session = dpn.Session(budget=dpn.Budget(epsilon=1.0))
session.protect(patients, "patients", rows=20_000, domain={
    "age": dpn.Range(0, 99), "sex": ["F", "M"], "region": ["North", "South", "<West> & co"],
    "income": dpn.Bins(0, 200_000, width=5_000),
});
"""


def pytest_collection_modifyitems(items):
    here = {path for path in {item.path for item in items} if HERE in path.parents}
    for item in items:
        if item.path in here:
            item.add_marker(pytest.mark.browser)


def _missing(what):
    if os.environ.get("DPNOTEBOOK_REQUIRE_BROWSER"):
        pytest.fail(f"{what}, and DPNOTEBOOK_REQUIRE_BROWSER says that it must be here")
    pytest.skip(what)


@pytest.fixture(scope="session")
def workdir(tmp_path_factory):
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="session")
def base(workdir):
    if importlib.util.find_spec("jupyterlab") is None:
        _missing("jupyterlab is not installed")
    with driver.lab_server(workdir, str(ROOT), labextensions={"dpnotebook": LABEXTENSION}) as url:
        yield url


@pytest.fixture(scope="session")
def playwright():
    if importlib.util.find_spec("playwright") is None:
        _missing("playwright is not installed")
    if not Path(driver.CHROMIUM).exists():
        _missing(f"no Chromium at {driver.CHROMIUM} (CHROMIUM= names another)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def context(playwright, base):
    with driver.chromium(playwright, base) as opened:
        yield opened


@pytest.fixture
def labtest():
    """Return the module that drives JupyterLab."""
    return driver


@pytest.fixture
def chromium(playwright):
    """Return what opens a browser that may ask one address, and things below it, for something."""
    return lambda address: driver.chromium(playwright, address)


@pytest.fixture(autouse=True)
def offline(request):
    """Fail a test that asked for anything outside this machine."""
    if "context" not in request.fixturenames:
        yield
        return
    context = request.getfixturevalue("context")
    yield
    asked, context.blocked[:] = list(context.blocked), []
    assert asked == []


@pytest.fixture(scope="session")
def pages():
    """Keep pages of JupyterLab in which nothing is open: loading another takes longer than most tests."""
    return []


@pytest.fixture
def open_notebook(base, context, workdir, pages):
    """Return a function that opens a notebook; given cells, it is written first, after a cell that makes a session."""
    from playwright.sync_api import Error

    opened = {}  # by page, the last notebook that was opened in it

    def open_it(name, cells=None, setup=SETUP):
        if cells is not None:
            write_notebook(workdir / name, [setup, *cells] if setup else cells)
        page = pages.pop() if pages else context.new_page()
        page.bring_to_front()
        opened[page] = driver.Notebook(page, base, name)
        return opened[page]

    yield open_it
    for page, notebook in opened.items():
        try:
            notebook.close()
            pages.append(page)
        except Error:  # no kernel left to stop is fine
            page.close()


@pytest.fixture(scope="session")
def lasting():
    """Keep the notebook in whose page and kernel many tests go on, one after another."""
    from playwright.sync_api import Error

    kept = []
    yield kept
    for notebook in kept:
        with contextlib.suppress(Error):
            notebook.shutdown()
        notebook.page.close()


@pytest.fixture
def go_on(base, context, workdir, lasting):
    """Return a function that puts cells into a notebook that is open, after a cell that makes a session.

    Loading JupyterLab and importing packages takes nearly all of the time of a test: here it is done once.
    """

    def fill(cells, setup=SETUP):
        cells = [setup, *cells] if setup else cells
        if not lasting or lasting[-1].js("panel.sessionContext.session?.kernel?.status") != "idle":
            path = workdir / f"goes_on_{len(lasting)}.ipynb"
            write_notebook(path, cells)
            lasting.append(driver.Notebook(context.new_page(), base, path.name))
        else:
            lasting[-1].page.bring_to_front()
            lasting[-1].fill(as_notebook(cells))
        return lasting[-1]

    return fill


def write_notebook(path, cells):
    """Write a notebook; a cell is its source, or (source, MIME bundle of an output)."""
    import nbformat as nbf

    nbf.write(as_notebook(cells), path)


def as_notebook(cells):
    """Return cells as a notebook."""
    import nbformat as nbf

    # Without a kernelspec JupyterLab asks for one and the notebook never becomes ready.
    notebook = nbf.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for cell in cells:
        source, bundle = cell if isinstance(cell, tuple) else (cell, None)
        outputs = [] if bundle is None else [nbf.v4.new_output("display_data", bundle)]
        count = None if bundle is None else 1
        notebook.cells.append(nbf.v4.new_code_cell(source, outputs=outputs, execution_count=count))
    return notebook


@pytest.fixture
def saved(workdir):
    """Return a function that reads a notebook as it lies on the disk."""

    def read(name):
        import nbformat as nbf

        return nbf.read(workdir / name, 4)

    return read


@pytest.fixture
def reopen(open_notebook, pages):
    """Return a function that stops a notebook's kernel, and opens it again as it was saved, with a new one."""

    def again(notebook):
        notebook.close()
        pages.append(notebook.page)
        return open_notebook(notebook.path)

    return again


@pytest.fixture
def page():
    """Return a function that parses HTML and holds it to what untrusted notebooks keep."""
    return reading.read


@pytest.fixture
def shot():
    """Return a function that keeps a screenshot of an output, where somebody wants to look at it."""

    def take(locator, name):
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            locator.screenshot(path=str(Path(SHOTS) / f"{name}.png"))

    return take
