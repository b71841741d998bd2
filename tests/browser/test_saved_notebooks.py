"""Every notebook of the package as a page without a network: each picture is seen, each card can be read."""

import importlib.util
import re
from html import unescape
from pathlib import Path

import nbformat
import pytest

HERE = Path(__file__).parent
NOTEBOOKS = sorted((HERE.parents[1] / "notebooks").glob("*.ipynb"))
PLOTLY = "application/vnd.plotly.v1+json"


def _load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


driver, exports, static = _load("labtest"), _load("test_exports"), _load("test_static")
SIZES = """all => all.map(one => { const box = one.getBoundingClientRect();
    return [one.alt, one.complete && one.naturalWidth, box.width, box.height]; })"""
BOXES = """all => all.map(one => ({width: one.getBoundingClientRect().width, text: one.innerText.trim(),
    alts: [...one.querySelectorAll('img')].map(each => each.alt).join(), html: one.innerHTML.slice(0, 300)}))"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def browser(playwright, folder):
    with driver.chromium(playwright, folder.as_uri()) as opened:
        yield opened


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_read_offline_as_it_was_saved(path, folder, browser):
    from jinja2 import DictLoader
    from nbconvert import HTMLExporter

    notebook = nbformat.read(path, 4)
    loader = DictLoader({"plain.html.j2": "{% extends 'lab/index.html.j2' %}" + exports.PLAIN})
    exporter = HTMLExporter(extra_loaders=[loader], template_file="plain.html.j2")
    file = folder / f"{path.stem}.html"
    # Markdown may show pictures that lie beside the notebook: they are beside the page too.
    for image in re.findall(r"\]\(([\w/.-]+\.(?:png|svg))\)", "".join(cell.source for cell in notebook.cells)):
        (folder / image).parent.mkdir(parents=True, exist_ok=True)
        (folder / image).write_bytes((path.parent / image).read_bytes())
    file.write_text(exporter.from_notebook_node(notebook, {"metadata": {"name": path.stem}})[0], encoding="utf-8")
    shown = browser.new_page()
    errors = []
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    shown.goto(file.as_uri())
    shown.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    sizes = shown.locator("img").evaluate_all(SIZES)
    for alt, loaded, width, height in sizes:
        assert loaded, alt
        assert min(width, height) > 5, alt
    seen = {alt: (width, height) for alt, _, width, height in sizes}
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    for data in outputs:
        if PLOTLY in data:  # a plot has its picture, and it is large
            alts = [unescape(alt) for alt in re.findall(r'<img[^>]* alt="([^"]*)"', data["text/html"])]
            assert alts, data["text/plain"]
            assert min(seen[alts[0]]) > 100, data["text/plain"]
    # Cards, and all other HTML, have a size, and a contrast that can be read.
    parts = shown.locator(".jp-OutputArea-output.jp-RenderedHTMLCommon")
    assert parts.count() == sum("text/html" in data for data in outputs)
    for part in parts.evaluate_all(BOXES):
        assert part["width"] > 100, part
        assert part["text"] or part["alts"], part
    ratios = parts.locator(":is(div, span, b, td, th, summary, pre):not(:has(div))").evaluate_all(static.CONTRAST)
    assert not ratios or min(ratios) >= 4.5
    assert "Loading widget" not in shown.locator("body").inner_text()
    shown.close()
    asked, browser.blocked[:] = list(browser.blocked), []
    assert (asked, errors) == ([], [])
