"""Exported notebooks in a browser without a network: every picture of a plot is seen, and nothing is asked for."""

import importlib.util
import os
from html import unescape
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("exported", HERE.parent / "notebook/test_exports.py")
exported = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(exported)

made = exported.made
# The pages of nbconvert without what these fetch for any notebook at all: require.js, MathJax and Mermaid.
PLAIN = "".join(f"{{% block {name} %}}{{% endblock %}}" for name in
                ("html_head_js", "html_head_js_requirejs", "html_head_js_jquery", "html_head_js_mathjax",
                 "html_head_js_mermaidjs"))  # fmt: skip
SEEN = """pictures => pictures.map(p => { const box = p.getBoundingClientRect();
    return [p.alt, p.complete && p.naturalWidth, box.width, box.height]; })"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_picture_is_seen_offline(made, chromium, tmp_path, theme):
    from jinja2 import DictLoader
    from nbconvert import HTMLExporter

    template = "{% extends 'lab/index.html.j2' %}" + PLAIN
    exporter = HTMLExporter(extra_loaders=[DictLoader({"plain.html.j2": template})], template_file="plain.html.j2")
    exporter.theme = theme
    page, _ = exporter.from_notebook_node(made, {"metadata": {"name": "plots"}})
    file = tmp_path / f"{theme}.html"
    file.write_text(page, encoding="utf-8")
    with chromium(file.as_uri()) as context:
        shown = context.new_page()
        shown.goto(file.as_uri())
        shown.wait_for_load_state("load")
        seen = {alt: size for alt, *size in shown.locator("img").evaluate_all(SEEN)}
        for source, data in exported.figures(made):
            ((alt, _),) = exported.images(data["text/html"])
            loaded, width, height = seen[unescape(alt)]
            assert loaded, source
            assert min(width, height) > 100, source
        shown.locator("summary").first.click()
        assert shown.locator("details table").first.is_visible()
        if folder := os.environ.get("DPNOTEBOOK_SHOTS"):
            shown.screenshot(path=f"{folder}/exported-{theme}.png", full_page=True)
        assert context.blocked == []
